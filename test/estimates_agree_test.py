#!/usr/bin/env python3
"""Whether scripts/tuning estimates what the compiled v20 of gemm_tensor does: it fits the numbers of an
estimate that is written twice. The first argument is gemm_estimates."""

from __future__ import annotations

import math
import subprocess
import sys
import unittest
from pathlib import Path
from typing import ClassVar
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True

from tuning import gemm_tensor as tuning  # noqa: E402
from tuning.bench import split  # noqa: E402

SMS = 132
PROBLEMS = ("4096x4096x4096", "2464x320x3840", "512x1024x8192", "24x8944x12152", "392x1984x1352",
            "17000x264x520", "16x16x72", "14912x128x24", "1000x3000x776")  # fmt: skip
DIVISIONS = ("whole", "overlap", "rest", "spread", *(f"even{parts}" for parts in tuning.EVEN))
MOST_OF_AN_SM = 32  # blocks of PushedSums, whose shared memory only C++ knows


class Agreement(unittest.TestCase):
    program: ClassVar[Path]

    def test_every_choice_has_the_same_estimate(self) -> None:
        table = tuning.parse(split((ROOT / tuning.SOURCE).read_text(encoding="utf-8"))[1])
        numbers = next(iter(table.values()))  # of the first GPU: also for one that has no entry
        shapes = list(numbers.paces)
        for op in ("nn", "nt", "tn"):
            seen = set()
            for line in self.lines(op):
                problem, shape, way, ns = line.split()
                seen.add((problem, int(shape), int(way)))
                found = self.estimates(op, problem, numbers, shapes[int(shape)], int(way))
                self.assertTrue(any(math.isclose(one, float(ns), rel_tol=1e-9) for one in found),
                                f"{op} {line}: {shapes[int(shape)]} {found}")  # fmt: skip
            self.assertEqual(seen, self.expected(op, shapes))

    def lines(self, op: str) -> list[str]:
        command = [self.program, op, *PROBLEMS]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    @staticmethod
    def works(op: str, problem: str, shape: tuning.Shape, of_an_sm: int) -> dict[str, tuning.Work]:
        product = tuning.Product.of(problem)._replace(a_along_k=op != "tn", b_along_k=op == "nt")
        with mock.patch.object(tuning, "CLUSTERED", 1):  # the host executor's SMs are all in use
            return shape.works(product, SMS, of_an_sm)

    @staticmethod
    def name(shape: tuning.Shape, way: int) -> str:
        if isinstance(shape, tuning.PushedSums):
            return str(tuning.PARTS[way])
        cluster, division = divmod(way, len(DIVISIONS))
        return "{}x{}_{}".format(*tuning.CLUSTERS[cluster], DIVISIONS[division])

    def estimates(self, op: str, problem: str, numbers: tuning.Numbers, shape: tuning.Shape,
                  way: int) -> list[float]:  # fmt: skip
        """For each number of blocks that an SM may have room for."""
        most = MOST_OF_AN_SM if isinstance(shape, tuning.PushedSums) else 1
        name = self.name(shape, way)
        works = [self.works(op, problem, shape, blocks).get(name) for blocks in range(1, most + 1)]
        return [tuning.estimate(work, numbers.paces[shape], numbers.rates) for work in works if work]

    def expected(self, op: str, shapes: list[tuning.Shape]) -> set[tuple[str, int, int]]:
        ways = range(len(tuning.CLUSTERS) * len(DIVISIONS))
        return {
            (problem, i, way)
            for problem in PROBLEMS
            for i, shape in enumerate(shapes)
            for way in (range(len(tuning.PARTS)) if isinstance(shape, tuning.PushedSums) else ways)
            if self.name(shape, way) in self.works(op, problem, shape, 1)
        }


if __name__ == "__main__":
    Agreement.program = Path(sys.argv.pop(1)).resolve()
    unittest.main()
