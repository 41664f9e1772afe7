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

# Of scripts/report.py's page beside page, ink and quiet. Blue is ours, orange the vendor's, and shapes
# differ with them: colour-blind readers, and paper, tell them apart. They are Okabe and Ito's, darker or
# lighter where text or thin lines need it; test/report_page_test.py checks them.
REPORT = {
    "panel": ("#f4f6f8", "#1d2125"),
    "line": ("#d8dee4", "#343b42"),
    "link": ("#00609f", "#7cc0f0"),
    "own": ("#0068a8", "#56b4e9"),
    "own-soft": ("#7fb5da", "#2c6a92"),
    "own-text": ("#ffffff", "#08131b"),
    "soft-text": ("#0b2a40", "#f0f6fa"),
    "first": ("#8b949e", "#6d7680"),
    "first-text": ("#16191d", "#ffffff"),
    "vendor": ("#c04a00", "#ff9a57"),
    "tied": ("#0068a8", "#56b4e9"),
    "other": ("#78828c", "#87919b"),
    "up": ("#00714e", "#4fcf9f"),
    "down": ("#a3352a", "#ff8f80"),
    "bar": ("#cfe3f2", "#21455c"),
    "add": ("#d9f2e3", "#143c2b"),
    "remove": ("#fbe0dc", "#4b211d"),
    "warn": ("#8a5200", "#f0b050"),
}
