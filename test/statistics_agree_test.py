#!/usr/bin/env python3
"""Whether scripts/ladder_statistics.py and src/harness/statistics.cpp say the same of the same samples. The
first argument is paired_ratios."""

from __future__ import annotations

import random
import subprocess
import sys
import unittest
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True

from ladder_statistics import middle_mean, paired_ratio  # noqa: E402

COUNTS = (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 14, 15, 25, 100, 4000)  # of samples
# Of a half-width: C++ takes Student's t from an expansion.
CLOSE = 1e-3


def samples(rng: random.Random, count: int) -> list[tuple[float, float]]:
    """Of two contestants under noise that they share and their own, a few far out."""
    pairs = []
    for _ in range(count):
        shared = 5 * rng.gauss(1, 0.02)
        late = (1.5 if rng.random() < 0.05 else 1 for _ in range(2))
        a, b = (shared * rng.gauss(1, 0.01) * by for by in late)
        pairs.append((a, 1.1 * b))
    return pairs


class Agreement(unittest.TestCase):
    program: ClassVar[str]

    def test_intervals_are_the_same(self) -> None:
        rng = random.Random(1)
        cases = [samples(rng, count) for count in COUNTS for _ in range(20)]
        text = "".join(" ".join(f"{x!r}" for pair in one for x in pair) + "\n" for one in cases)
        ran = subprocess.run([self.program], input=text, capture_output=True, text=True, check=True)
        lines = ran.stdout.splitlines()
        self.assertEqual(len(lines), len(cases))
        for one, line in zip(cases, lines):
            middle, value, low, high = map(float, line.split())
            above, below = zip(*one)
            ours = paired_ratio(above, below)
            self.assertAlmostEqual(middle_mean(above) / middle, 1, 12)
            self.assertAlmostEqual(ours.value / value, 1, 12)
            if len(one) == 1:
                self.assertEqual((ours.low, ours.high), (low, high))
                continue
            for end, ends in ((ours.low, low), (ours.high, high)):
                self.assertLess(abs(end - ends), CLOSE * (high - low) / 2, f"{len(one)} samples")


if __name__ == "__main__":
    Agreement.program = sys.argv.pop()
    unittest.main()
