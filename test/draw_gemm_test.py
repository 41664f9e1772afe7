#!/usr/bin/env python3
"""Tests of the drawings of gemm's versions: those of all drawings, and that every version has one."""

from __future__ import annotations

import unittest

import drawings_test_base
from drawings import gemm_blocks, gemm_memory, gemm_time  # noqa: F401  they fill RUNGS
from drawings.picture import Box
from drawings.rung import RUNGS


class Drawings(drawings_test_base.Family):
    name = "gemm"

    def test_every_version_is_drawn(self) -> None:
        kernels = [path.name.split(".")[0] for path in sorted(self.folder.glob("v*.cu"))]
        self.assertEqual({*RUNGS}, {name for name in kernels if not name.startswith("v00")})

    def test_boxes_that_touch_do_not_overlap(self) -> None:
        self.assertFalse(Box(0, 0, 2, 2).overlaps(Box(2, 0, 2, 2)))
        self.assertTrue(Box(0, 0, 2, 2).overlaps(Box(1, 1, 2, 2)))


if __name__ == "__main__":
    unittest.main()
