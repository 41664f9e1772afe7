#!/usr/bin/env python3
"""Tests of the drawings of gemm_tensor's versions: those that are committed are what
scripts/upkeep/draw_gemm_tensor.py makes, show what the kernels do, and can be read."""

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
SOURCES = ROOT / "src"
FAMILY = SOURCES / "kernels" / "gemm_tensor"
sys.dont_write_bytecode = True  # none beside the scripts
sys.path.insert(0, str(ROOT / "scripts" / "upkeep"))

from drawings import gemm_tensor  # noqa: E402, F401  it fills RUNGS
from drawings.picture import WIDTH  # noqa: E402
from drawings.rung import RUNGS  # noqa: E402


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def code(path: Path) -> str:
    """Of a file, of the family's headers that it includes, and of those of PTX."""
    text = path.read_text(encoding="utf-8")
    headers = [FAMILY / name for name in re.findall(r'#include "(\w+\.hpp)"', text)]
    headers += [SOURCES / name for name in re.findall(r'#include "(device/ptx/\w+\.hpp)"', text)]
    return squeeze(text) + "".join(code(header) for header in headers)


class Drawings(unittest.TestCase):
    def test_committed_drawings_are_what_the_script_makes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "scripts" / "upkeep" / "draw_gemm_tensor.py"
            subprocess.run([sys.executable, "-B", script, "-o", folder], check=True)
            made = {p.name: p.read_text(encoding="utf-8") for p in Path(folder).iterdir()}
        kept = {p.name: p.read_text(encoding="utf-8") for p in (FAMILY / "drawings").iterdir()}
        self.assertEqual(made.keys(), kept.keys())
        for name, svg in made.items():
            self.assertTrue(svg == kept[name], f"{name} is out of date: run draw_gemm_tensor")

    def test_what_is_drawn_stands_in_the_code(self) -> None:
        for name, rung in RUNGS.items():
            (kernel,) = FAMILY.glob(f"{name.split('_')[0]}_*.cu")
            for line in rung.code:
                found = squeeze(line) in code(kernel)
                self.assertTrue(found, f"{name} is drawn from a line that is gone: {line}")

    def test_the_readme_has_every_drawing(self) -> None:
        readme = (FAMILY / "README.md").read_text(encoding="utf-8")
        links = re.findall(r"^!\[(.*)\]\(drawings/(.*)\.svg\)$", readme, re.MULTILINE)
        self.assertEqual([name for _, name in links], list(RUNGS))
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


if __name__ == "__main__":
    unittest.main()
