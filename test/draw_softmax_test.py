#!/usr/bin/env python3
"""Tests of the drawings of softmax's versions: those of all drawings, and that their numbers are right."""

from __future__ import annotations

import math
import unittest

import drawings_test_base
from drawings import softmax


class Drawings(drawings_test_base.Family):
    name = "softmax"


class Numbers(unittest.TestCase):
    def test_the_running_sum_is_the_sum(self) -> None:
        for xs in ([3.0], [1.0, 5.0, 5.0, -2.0], [9.0, 1.0, 0.0], [float(i) for i in range(9)]):
            largest, _, total, _ = softmax.running(xs)[-1]
            self.assertEqual(largest, max(xs))
            self.assertAlmostEqual(total, sum(math.exp(x - max(xs)) for x in xs))

    def test_a_row_goes_to_the_fewest_threads_that_hold_it(self) -> None:
        for cols in (1, 256, 257, 1024, 1025, 8192, 8193, 32768):
            threads, elements = softmax.holders(cols)
            self.assertGreaterEqual(threads * elements, cols)
        self.assertEqual(softmax.holders(1024), (32, 32))
        self.assertEqual(softmax.holders(1025), (128, 16))
        self.assertEqual(softmax.holders(8193), (512, 32))


if __name__ == "__main__":
    unittest.main()
