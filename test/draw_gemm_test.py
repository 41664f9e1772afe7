#!/usr/bin/env python3
"""Tests of the drawings of gemm's versions: those that are committed are what scripts/upkeep/draw_gemm.py
makes, show what the kernels do, and can be read."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GEMM = ROOT / "src" / "kernels" / "gemm"
KERNELS = [path for path in sorted(GEMM.glob("v*.cu")) if not path.name.startswith("v00")]
sys.dont_write_bytecode = True  # none beside the scripts
sys.path.insert(0, str(ROOT / "scripts" / "upkeep"))

from drawings import gemm_blocks, gemm_memory, gemm_time  # noqa: E402, F401  they fill RUNGS
from drawings.picture import WIDTH, Box  # noqa: E402
from drawings.rung import RUNGS  # noqa: E402


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def code(path: Path) -> str:
    """Of a file and of the headers of gemm that it includes."""
    text = path.read_text(encoding="utf-8")
    headers = [GEMM / name for name in re.findall(r'#include "(\w+\.hpp)"', text)]
    return squeeze(text) + "".join(code(header) for header in headers)


class Drawings(unittest.TestCase):
    def test_committed_drawings_are_what_the_script_makes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "scripts" / "upkeep" / "draw_gemm.py"
            subprocess.run([sys.executable, "-B", script, "-o", folder], check=True)
            made = {p.name: p.read_text(encoding="utf-8") for p in Path(folder).iterdir()}
        kept = {p.name: p.read_text(encoding="utf-8") for p in (GEMM / "drawings").iterdir()}
        self.assertEqual(made.keys(), kept.keys())
        for name, svg in made.items():
            self.assertTrue(svg == kept[name], f"{name} is out of date: run draw_gemm.py")

    def test_every_version_is_drawn_as_its_code_says(self) -> None:
        for path in KERNELS:
            name = path.name.split(".")[0]  # some are for one architecture
            self.assertIn(name, RUNGS, "has no drawing")
            for line in RUNGS[name].code:
                found = squeeze(line) in code(path)
                self.assertTrue(found, f"{name} is drawn from a line that is gone: {line}")

    def test_the_readme_has_every_drawing(self) -> None:
        readme = (GEMM / "README.md").read_text(encoding="utf-8")
        links = re.findall(r"^!\[(.*)\]\(drawings/(.*)\.svg\)$", readme, re.MULTILINE)
        names = [path.name.split(".")[0] for path in KERNELS]
        self.assertEqual([name for _, name in links], names)
        for alt, name in links:
            self.assertEqual(alt, RUNGS[name].alt, name)

    def test_texts_lie_inside_and_apart(self) -> None:
        for name, rung in RUNGS.items():
            picture = rung.draw()
            for text, box in picture.texts:
                inside = box.x >= 0 and box.x + box.width <= WIDTH
                inside &= box.y >= 0 and box.y + box.height <= picture.height
                self.assertTrue(inside, f"{name}: {text!r} leaves the picture")
            for (text, box), (other, its) in combinations(picture.texts, 2):
                self.assertFalse(box.overlaps(its), f"{name}: {text!r} is on {other!r}")

    def test_drawings_are_small_and_well_formed(self) -> None:
        for name, rung in RUNGS.items():
            svg = rung.draw().svg()
            xml.etree.ElementTree.fromstring(svg)
            self.assertLess(len(svg.encode()), 30_000, name)

    def test_boxes_that_touch_do_not_overlap(self) -> None:
        self.assertFalse(Box(0, 0, 2, 2).overlaps(Box(2, 0, 2, 2)))
        self.assertTrue(Box(0, 0, 2, 2).overlaps(Box(1, 1, 2, 2)))


if __name__ == "__main__":
    unittest.main()
