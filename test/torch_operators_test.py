#!/usr/bin/env python3
"""Tests of scripts/torch_operators.py on CPU tensors, with pretended clocks: torch_operators_test.py.
Exits with 77 where PyTorch or the package kernel_ladder is not installed."""

from __future__ import annotations

import csv
import importlib.util
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Sequence
from unittest import mock

import skips

for needed, how in (("torch", "pip install torch"), ("kernel_ladder", "pip install .")):
    if importlib.util.find_spec(needed) is None:
        skips.whole(f"{needed} is not installed here: {how}")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import kernel_ladder  # noqa: E402
import torch  # noqa: E402
import torch_operators  # noqa: E402
from ladder_csv import LadderError  # noqa: E402
from torch_operators import Block, Tables  # noqa: E402

SMALL = {1: "4096", 2: "24x64", 3: "32x48x64", 4: "1x2x40x64", 5: "1x2:1x40x64"}  # by a problem's numbers


def measure(calls: Sequence[Callable[[], Any]], *_: Any) -> list[list[float]]:
    """Calls each once; the first takes 100 µs, each other 10 more than the one before. One that is there
    twice is the first again."""
    for call in calls:
        call()
    again = calls[-1] is calls[0]
    us = [[100.0 + 10 * i + r for r in range(12)] for i in range(len(calls) - again)]
    return us + [us[0]] * again


class OnTheCpu(Tables):
    where = "cpu"
    cpu_us = gpu_us = graph_us = staticmethod(lambda torch, calls: measure(calls))

    def find_device(self) -> None:
        self.device, self.clock = "a pretended GPU", self

    measure = staticmethod(measure)


class TorchOperators(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.csv = Path(folder.name) / "out.csv"
        small = [
            replace(one, problem=SMALL[len(torch_operators.numbers(one.problem))])
            for one in torch_operators.operators(kernel_ladder, torch)
        ]
        for patched in (
            mock.patch.object(torch, "compile", lambda function, **_: function),
            mock.patch.object(torch_operators, "operators", lambda *_: small),
            mock.patch.object(torch_operators.measure_block, "__defaults__", (Block(1, 24, 256, 128, 2, 1),)),
        ):
            patched.start()
            self.addCleanup(patched.stop)

    def run_it(self, *chosen: str, pattern: str = "") -> list[dict[str, str]]:
        with mock.patch("builtins.print"):
            torch_operators.run(OnTheCpu(torch, kernel_ladder), self.csv, chosen, pattern)
        with open(self.csv, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_every_operator_is_right_and_timed(self) -> None:
        rows = self.run_it("operators")
        ours = [row for row in rows if row["contestant"] == "kernel_ladder"]
        self.assertEqual(len(ours), sum(len(one.dtypes) for one in torch_operators.operators()))
        for row in rows:
            with self.subTest(name=row["name"], contestant=row["contestant"]):
                if row["contestant"] == "p04_torch_cudnn":
                    self.assertEqual(row["verdict"], "unsupported")
                    continue
                self.assertEqual((row["verdict"], row["reason"]), ("passed", ""))
                ratio = {"kernel_ladder": 1, "p01_torch": 115.5 / 105.5}.get(row["contestant"])
                if ratio:
                    self.assertAlmostEqual(float(row["ratio"]), ratio, places=2)
                self.assertEqual(row["resolution_pct"], "0")
                self.assertEqual(row["device"], "a pretended GPU")
                self.assertTrue(row["git_sha"] and row["timestamp"])

    def test_overhead_has_four_ways_to_call(self) -> None:
        rows = self.run_it("overhead", pattern="softmax")
        problems = ["empty"] * 4 + ["tiny"] * 4 + ["tiny, in a CUDA graph"] * 2
        self.assertEqual([row["problem"] for row in rows], problems)
        ways = ["kernel_ladder", "torch.ops.kernel_ladder", "p01_torch", "torch.ops.aten"]
        self.assertEqual([row["contestant"] for row in rows[:4]], ways)
        self.assertEqual(len(self.run_it("overhead")), 7 * 10)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed here")
    def test_the_block_has_errors_and_times(self) -> None:
        rows = self.run_it("block")
        self.assertEqual([row["contestant"] for row in rows[:4]],
                         ["patched", "p01_torch", "p02_torch_compile", "patched, torch.compile"])  # fmt: skip
        errors = [float(row["max_err"]) for row in rows]
        self.assertTrue(all(0 < error < 0.02 for error in errors), errors)

    def test_what_matches_nothing_is_a_sentence(self) -> None:
        with self.assertRaisesRegex(LadderError, "--filter=sofmax matches none"):
            self.run_it("operators", pattern="sofmax")


if __name__ == "__main__":
    skips.main()
