#!/usr/bin/env python3
"""Tests of the drawings of attention's versions: those that are committed are what
scripts/upkeep/draw_attention.py makes, show what the kernels do, and can be read."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
FAMILY = SOURCES / "kernels" / "attention"
sys.dont_write_bytecode = True  # none beside the scripts
sys.path.insert(0, str(ROOT / "scripts" / "upkeep"))

from drawings import attention  # noqa: E402  it fills RUNGS
from drawings.picture import SMALL, WIDTH, Picture, text_width  # noqa: E402
from drawings.rung import RUNGS  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def code(path: Path) -> str:
    """Of a file, of the family's headers that it includes, and of those of PTX."""
    text = path.read_text(encoding="utf-8")
    headers = [FAMILY / name for name in re.findall(r'#include "(\w+\.hpp)"', text)]
    headers += [SOURCES / name for name in re.findall(r'#include "(device/ptx/\w+\.hpp)"', text)]
    return squeeze(text.replace("#pragma unroll\n", "")) + "".join(code(each) for each in headers)


class Drawings(unittest.TestCase):
    def test_committed_drawings_are_what_the_script_makes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "scripts" / "upkeep" / "draw_attention.py"
            subprocess.run([sys.executable, "-B", script, "-o", folder], check=True)
            made = {p.name: p.read_text(encoding="utf-8") for p in Path(folder).iterdir()}
        kept = {p.name: p.read_text(encoding="utf-8") for p in (FAMILY / "drawings").iterdir()}
        self.assertEqual(made.keys(), kept.keys())
        for name, svg in made.items():
            self.assertTrue(svg == kept[name], f"{name} is out of date: run draw_attention")

    def test_what_is_drawn_stands_in_the_code(self) -> None:
        for name, rung in RUNGS.items():
            for line in rung.code:
                version, text = line.split(": ", 1)
                (kernel,) = FAMILY.glob(f"{version}_*.cu")
                found = squeeze(text) in code(kernel)
                self.assertTrue(
                    found, f"{name} is drawn from a line of {version} that is gone: {text}"
                )

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

    def test_texts_fit_into_their_boxes(self) -> None:
        drawn, seen = Picture.labelled, 0

        def labelled(
            self: Picture, x: float, y: float, width: float, height: float, text: str, *looks: str
        ) -> None:
            nonlocal seen
            seen += 1
            if text_width(text, SMALL) > width:
                raise AssertionError(f"{text!r} is wider than its box of {width}")
            drawn(self, x, y, width, height, text, *looks)

        with unittest.mock.patch.object(Picture, "labelled", labelled):
            for rung in RUNGS.values():
                rung.draw()
        self.assertGreater(seen, 20)

    def test_drawings_are_small_and_well_formed(self) -> None:
        for name, rung in RUNGS.items():
            svg = rung.draw().svg(rung.alt)
            root = xml.etree.ElementTree.fromstring(svg)
            self.assertLess(len(svg.encode()), 30_000, name)
            self.assertTrue(root.findtext(f"{SVG}title"), name)
            self.assertEqual(root.findtext(f"{SVG}desc"), rung.alt)

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
