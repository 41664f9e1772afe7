"""What is asked of all drawings: those that are committed are what their script makes, show what the
kernels do, and can be read."""

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
sys.dont_write_bytecode = True  # none beside the scripts
sys.path.insert(0, str(ROOT / "scripts" / "upkeep"))

from drawings.picture import SMALL, WIDTH, Picture, text_width  # noqa: E402
from drawings.rung import RUNGS  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def code(path: Path) -> str:
    """Of a file, of its family's headers that it includes, and of those of src/device/."""
    text = path.read_text(encoding="utf-8")
    headers = [path.parent / name for name in re.findall(r'#include "(\w+\.hpp)"', text)]
    headers += [SOURCES / name for name in re.findall(r'#include "(device/(?:ptx/)?\w+\.hpp)"', text)]
    return squeeze(text.replace("#pragma unroll\n", "")) + "".join(
        code(each) for each in headers if each.exists()
    )


class Family(unittest.TestCase):
    """Of a family's drawings, in RUNGS. A line of code is of the version before its colon, or of that
    which the drawing's name begins with."""

    name: str

    @property
    def folder(self) -> Path:
        return SOURCES / "kernels" / self.name

    def test_committed_drawings_are_what_the_script_makes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "scripts" / "upkeep" / f"draw_{self.name}.py"
            subprocess.run([sys.executable, "-B", script, "-o", folder], check=True)
            made = {p.name: p.read_text(encoding="utf-8") for p in Path(folder).iterdir()}
        kept = {
            p.name: p.read_text(encoding="utf-8") for p in (self.folder / "drawings").iterdir()
        }
        self.assertEqual(made.keys(), kept.keys())
        for name, svg in made.items():
            self.assertTrue(svg == kept[name], f"{name} is out of date: run draw_{self.name}.py")

    def test_what_is_drawn_stands_in_the_code(self) -> None:
        for name, rung in RUNGS.items():
            for line in rung.code:
                of = re.match(r"(v\d+\w?): ", line)
                version = of[1] if of else name.split("_")[0]
                (kernel,) = self.folder.glob(f"{version}_*.cu")
                found = squeeze(line[of.end() if of else 0 :]) in code(kernel)
                self.assertTrue(found, f"{name} is drawn from a line of {version} that is gone: {line}")

    def test_the_readme_has_every_drawing(self) -> None:
        readme = (self.folder / "README.md").read_text(encoding="utf-8")
        links = re.findall(r"^!\[(.*)\]\(drawings/(.*)\.svg\)$", readme, re.MULTILINE)
        by_version = sorted(RUNGS, key=lambda name: (re.match(r"v\d+\w?(?=_)", name) or [""])[0])
        self.assertEqual([name for _, name in links], by_version)
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
        drawn = Picture.labelled

        def labelled(
            self: Picture, x: float, y: float, width: float, height: float, text: str, *looks: str
        ) -> None:
            if text_width(text, SMALL) > width:
                raise AssertionError(f"{text!r} is wider than its box of {width}")
            drawn(self, x, y, width, height, text, *looks)

        with unittest.mock.patch.object(Picture, "labelled", labelled):
            for rung in RUNGS.values():
                rung.draw()

    def test_drawings_are_small_and_well_formed(self) -> None:
        for name, rung in RUNGS.items():
            svg = rung.draw().svg(rung.alt)
            root = xml.etree.ElementTree.fromstring(svg)
            self.assertLess(len(svg.encode()), 30_000, name)
            self.assertTrue(root.findtext(f"{SVG}title"), name)
            self.assertEqual(root.findtext(f"{SVG}desc"), rung.alt)
