#!/usr/bin/env python3
"""Tests of the picture of docs/start.md: the committed one is what scripts/upkeep/draw_start.py makes,
shows what the kernels do, and can be read."""

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
TRANSPOSE = ROOT / "src" / "kernels" / "transpose"
sys.dont_write_bytecode = True  # none beside the scripts
sys.path.insert(0, str(ROOT / "scripts" / "upkeep"))

from drawings import start  # noqa: E402, F401  it fills RUNGS
from drawings.picture import WIDTH  # noqa: E402
from drawings.rung import RUNGS  # noqa: E402

NAME = "start-gpu"


class Drawing(unittest.TestCase):
    def test_committed_drawing_is_what_the_script_makes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "scripts" / "upkeep" / "draw_start.py"
            subprocess.run([sys.executable, "-B", script, "-o", folder], check=True)
            made = {p.name: p.read_text(encoding="utf-8") for p in Path(folder).iterdir()}
        kept = (ROOT / "docs" / f"{NAME}.svg").read_text(encoding="utf-8")
        self.assertEqual([*made], [f"{NAME}.svg"])
        self.assertTrue(made[f"{NAME}.svg"] == kept, "it is out of date: run draw_start.py")

    def test_tiles_are_as_wide_as_in_the_code(self) -> None:
        files = ("v02_smem_tile.cu", "v03_padded.cu")
        code = "".join((TRANSPOSE / name).read_text(encoding="utf-8") for name in files)
        for line in RUNGS[NAME].code:
            self.assertIn(line, code)

    def test_the_page_has_it(self) -> None:
        page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
        links = re.findall(r"^!\[(.*)\]\((.*)\)$", page, re.MULTILINE)
        self.assertEqual(links, [(RUNGS[NAME].alt, f"{NAME}.svg")])

    def test_texts_lie_inside_and_apart(self) -> None:
        picture = RUNGS[NAME].draw()
        for text, box in picture.texts:
            inside = box.x >= 0 and box.x + box.width <= WIDTH
            inside &= box.y >= 0 and box.y + box.height <= picture.height
            self.assertTrue(inside, f"{text!r} leaves the picture")
        for (text, box), (other, its) in combinations(picture.texts, 2):
            self.assertFalse(box.overlaps(its), f"{text!r} is on {other!r}")

    def test_drawing_is_small_and_well_formed(self) -> None:
        svg = RUNGS[NAME].draw().svg()
        xml.etree.ElementTree.fromstring(svg)
        self.assertLess(len(svg.encode()), 30_000)


if __name__ == "__main__":
    unittest.main()
