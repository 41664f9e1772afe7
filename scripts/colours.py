"""The colours of all drawings and pictures, each on light pages and on dark ones.

Three steps of lightness can be told apart by everyone and in print without colours: idle things, pale
tones and strong tones, each 3:1 or more from the next. Tones of one step differ by hue alone: where two
of them touch or share a legend one is hatched. test/palette_test.py checks both, as people see it who
lack one kind of cone cells.
"""

from __future__ import annotations

COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "ink": ("#0f1317", "#f7fafd"),
    "quiet": ("#5f6368", "#a3abb5"),
    "idle": ("#f3f5f6", "#181d24"),
    "gap": ("#d3d8dd", "#39414b"),  # between cells
    "edge": ("#7c838b", "#7c838b"),  # around what is idle
    # The matrices A, B and C, and what is in focus: pale and strong
    "a": ("#4489c1", "#3371a2"),
    "A": ("#002e4e", "#b9defe"),
    "b": ("#aa7e3b", "#8b6937"),
    "B": ("#3e2909", "#fed59d"),
    "c": ("#3b9371", "#36785e"),
    "C": ("#0d3325", "#81edc1"),
    "f": ("#bf6b95", "#9b5a7a"),
    "F": ("#4e1b36", "#fecee3"),
}
