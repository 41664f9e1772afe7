#!/usr/bin/env python3
"""Tests of the drawings of transpose's versions: those of all drawings, and that the banks are right."""

from __future__ import annotations

import unittest

import drawings_test_base
from drawings import transpose


class Drawings(drawings_test_base.Family):
    name = "transpose"


class Banks(unittest.TestCase):
    def test_places_are_the_kernels(self) -> None:
        """Every element of the tile has a word of its own; a column is 32 wavefronts, 1 and 1."""
        tile, found = range(transpose.TILE), {}
        for version, word in transpose.WORD.items():
            words = [word(row, col) for row in tile for col in tile]
            self.assertEqual(len({*words}), len(words), version)
            of_columns = {transpose.wavefronts([word(row, col) for row in tile]) for col in tile}
            of_rows = {transpose.wavefronts([word(row, col) for col in tile]) for row in tile}
            self.assertEqual(of_rows, {1}, version)
            (found[version],) = of_columns
        self.assertEqual(found, {"v02": 32, "v03": 1, "v04": 1})


if __name__ == "__main__":
    unittest.main()
