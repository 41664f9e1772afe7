#!/usr/bin/env python3
"""Tests of the drawings of reduction's versions: those of all drawings, and that the trees add up."""

from __future__ import annotations

import unittest

import drawings_test_base
from drawings import reduction


class Drawings(drawings_test_base.Family):
    name = "reduction"


class Trees(unittest.TestCase):
    def test_every_number_is_added_once(self) -> None:
        for version, (_, distances, step) in reduction.TREES.items():
            value = [1] * reduction.BLOCK
            for s in distances:
                pairs = step(s).values()
                places = [place for pair in pairs for place in pair]
                self.assertEqual(len({*places}), len(places), f"{version}: a race in step {s}")
                for to, of in pairs:
                    value[to] += value[of]
            self.assertEqual(value[0], reduction.BLOCK, version)

    def test_wavefronts_of_a_step(self) -> None:
        def wavefronts(step: reduction.Step) -> int:
            return 1 + max(level for level, _ in reduction.stacks(step))

        deep = [wavefronts(reduction.strided(s)) for s in reduction.halves(128)[::-1]]
        self.assertEqual(deep, [2, 4, 8, 8, 8, 4, 2, 1])
        self.assertEqual({wavefronts(reduction.sequential(s)) for s in reduction.halves(128)}, {1})


if __name__ == "__main__":
    unittest.main()
