#!/usr/bin/env python3
"""Tests of the drawings of attention's versions: those of all drawings, and that the masks are right."""

from __future__ import annotations

import unittest

import drawings_test_base
from drawings import attention


class Drawings(drawings_test_base.Family):
    name = "attention"

    def test_colours_are_no_only_difference(self) -> None:
        """Of tiles: by lightness, or by hatching."""
        used = {look for row in attention.looks(512, 768) for look in row}
        self.assertEqual(used, {"C", "c hatched", "idle"})


class Causal(unittest.TestCase):
    """The tiles that are drawn are those in which somebody sees something."""

    def test_tiles_agree_with_the_mask(self) -> None:
        tall, wide = attention.TALL, attention.WIDE
        for queries, keys in (
            (512, 512),
            (512, 768),
            (300, 300),
            (100, 1000),
            (1000, 100),
            (1, 64),
        ):
            for i, row in enumerate(attention.looks(queries, keys)):
                rows = range(i * tall, min((i + 1) * tall, queries))
                for j, look in enumerate(row):
                    columns = range(j * wide, min((j + 1) * wide, keys))
                    seen = [key <= query + keys - queries for query in rows for key in columns]
                    where = f"{queries} x {keys}, tile {i}, {j}"
                    if look == "idle":
                        self.assertFalse(any(seen), where)
                    elif look == "C":
                        self.assertTrue(all(seen), where)
                    else:  # whole, if what is missing is behind the last key
                        self.assertTrue(any(seen), where)


if __name__ == "__main__":
    unittest.main()
