#!/usr/bin/env python3
"""Tests of the colours of all drawings and of the pictures under results/: texts can be read, and what
touches or shares a legend can be told apart without colours, by people who lack one kind of cone
cells, on light pages and on dark ones."""

from __future__ import annotations

import re
import sys
import unittest
import xml.etree.ElementTree
from functools import cache
from itertools import combinations
from math import ceil, hypot
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True  # none beside the scripts
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "upkeep")]

import roofline  # noqa: E402
import vision  # noqa: E402
from colours import COLOURS  # noqa: E402
from drawings import (  # noqa: E402, F401  they fill RUNGS
    attention, gemm_blocks, gemm_memory, gemm_tensor, gemm_time, reduction, softmax, start, transpose,
)  # fmt: skip
from drawings.picture import Box, Picture, Shape, hatching, text_width  # noqa: E402
from drawings.rung import RUNGS  # noqa: E402

TEXT, SHAPE = 4.5, 3.0  # of WCAG 2.2, 1.4.3 and 1.4.11
REACH = 4  # pixels: what is closer touches


@cache
def least(one: str, other: str) -> float:
    """Of two colours, on light and on dark pages."""
    return min(vision.least_contrast(a, b) for a, b in zip(COLOURS[one], COLOURS[other]))


def apart(one: str, other: str) -> bool:
    """By lightness, or one is hatched. Two hatchings need different lightness."""
    colours = [look.split()[0] for look in (one, other)]
    textures = {look.endswith("hatched") for look in (one, other)}
    return len(textures) == 2 or least(*colours) >= SHAPE


def raster(picture: Picture, width: int = 640) -> list[list[int]]:
    """The shape at every pixel, by its number."""
    rows = [[0] * width for _ in range(ceil(picture.height))]
    for number, (_, box, _) in enumerate(picture.shapes, 1):
        left, right = max(0, round(box.x)), min(width, round(box.x + box.width))
        for row in rows[max(0, round(box.y)) : round(box.y + box.height)]:
            row[left:right] = [number] * (right - left)
    return rows


def shape_at(picture: Picture, number: int) -> Shape:
    return picture.shapes[number - 1] if number else Shape("page", Box(0, 0, 0, 0))


def touching(picture: Picture) -> set[tuple[str, str]]:
    """Looks of shapes that touch and are not both labelled."""
    rows = raster(picture)
    pairs: set[tuple[int, int]] = set()
    for i, row in enumerate(rows):
        pairs.update(zip(row, row[REACH:]))
        if i >= REACH:
            pairs.update(zip(row, rows[i - REACH]))
    found = set()
    for a, b in pairs:
        one, other = shape_at(picture, a), shape_at(picture, b)
        if one.look != other.look and not (one.labelled and other.labelled):
            found.add((min(one.look, other.look), max(one.look, other.look)))
    return found


def crossed(picture: Picture) -> Iterator[tuple[str, str]]:
    """Of lines the colour, and the looks that they cross."""
    rows = raster(picture)
    for colour, points in picture.strokes:
        for (x0, y0), (x1, y1) in zip(points, points[1:]):
            steps = max(2, int(hypot(x1 - x0, y1 - y0) / 2))
            for i in range(1, steps):
                x, y = x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps
                if 0 <= int(y) < len(rows) and 0 <= int(x) < len(rows[0]):
                    yield colour, shape_at(picture, rows[int(y)][int(x)]).look


class Drawings(unittest.TestCase):
    def test_what_touches_can_be_told_apart(self) -> None:
        for name, rung in RUNGS.items():
            for one, other in touching(rung.draw()):
                if {one, other} == {"idle", "page"}:  # which has an edge
                    continue
                with self.subTest(drawing=name):
                    self.assertTrue(apart(one, other), f"{one} beside {other}")

    def test_what_shares_a_legend_can_be_told_apart(self) -> None:
        for name, rung in RUNGS.items():
            for looks in rung.draw().legends:
                plain = [" ".join(p for p in look.split() if p[0] != "o") for look in looks]
                for one, other in combinations(plain, 2):
                    with self.subTest(drawing=name):
                        self.assertTrue(apart(one, other), f"{one} and {other} in a legend")

    def test_lines_can_be_seen_on_what_they_cross(self) -> None:
        for name, rung in RUNGS.items():
            for colour, look in {*crossed(rung.draw())}:
                with self.subTest(drawing=name):
                    self.assertGreaterEqual(least(colour, look.split()[0]), SHAPE, (colour, look))

    def test_texts_can_be_read_where_they_stand(self) -> None:
        for name, rung in RUNGS.items():
            picture = rung.draw()
            rows = raster(picture)
            for ink, (text, box) in zip(picture.inks, picture.texts):
                y = int(box.y + box.height / 2)
                for x in (box.x + 1, box.x + box.width / 2, box.x + box.width - 1):
                    look = shape_at(picture, rows[y][int(x)]).look
                    with self.subTest(drawing=name, text=text, on=look):
                        self.assertFalse(look.endswith("hatched"))
                        self.assertGreaterEqual(least(ink, look), TEXT)


class Results(unittest.TestCase):
    """The pictures under results/, as they are committed."""

    def test_colours_are_of_the_palette(self) -> None:
        dark = dict(COLOURS.values())
        for path in RESULTS:
            light, _, below = style(path).partition("@media(prefers-color-scheme:dark)")
            with self.subTest(picture=path.name):
                self.assertLessEqual({*re.findall("#[0-9a-f]{6}", light)}, {*dark})
                for name, rule in rules(light).items():
                    for what, colour in re.findall(r"(fill|stroke):(#[0-9a-f]{6})", rule):
                        self.assertIn(f"{what}:{dark[colour]}", rules(below)[name])

    def test_texts_can_be_read(self) -> None:
        names = {light: name for name, (light, _) in COLOURS.items()}
        for path in RESULTS:
            light = rules(style(path).partition("@media")[0])
            for element, _ in texts(path):
                (colour,) = re.findall(r"fill:(#[0-9a-f]{6})", light[element.attrib["class"]])
                with self.subTest(picture=path.name, text=element.text):
                    self.assertGreaterEqual(least(names[colour], "page"), TEXT)

    def test_texts_lie_apart(self) -> None:
        for path in RESULTS:
            for (one, box), (other, its) in combinations(texts(path), 2):
                with self.subTest(picture=path.name):
                    self.assertFalse(box.overlaps(its), f"{one.text!r} is on {other.text!r}")

    def test_they_say_what_they_are(self) -> None:
        self.assertTrue(RESULTS)
        for path in RESULTS:
            root = xml.etree.ElementTree.parse(path).getroot()
            with self.subTest(picture=path.name):
                self.assertEqual(root.get("aria-labelledby"), "title desc")
                self.assertTrue(root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc"))
                self.assertLess(path.stat().st_size, 60_000)


RESULTS = sorted((ROOT / "results").glob("*/*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def style(path: Path) -> str:
    return xml.etree.ElementTree.parse(path).getroot().findtext(f"{SVG}style") or ""


def rules(sheet: str) -> dict[str, str]:
    return dict(re.findall(r"\.(s\d+)\{([^}]*)\}", sheet))


def texts(path: Path) -> list[tuple[xml.etree.ElementTree.Element, Box]]:
    """Those that are not turned, and where they stand, about: fonts differ in their widths."""
    light = rules(style(path).partition("@media")[0])
    found = []
    for element in xml.etree.ElementTree.parse(path).iter(f"{SVG}text"):
        rule = light[element.attrib["class"]]
        if "transform" in element.attrib:
            continue
        (size,) = map(float, re.findall(r"font-size:([\d.]+)px", rule))
        width = text_width(element.text or "", 0.88 * size, "font-weight:700" in rule)
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        x -= {"end": width, "middle": width / 2}.get((re.findall("anchor:(\\w+)", rule) or [""])[0], 0)
        found.append((element, Box(x, y - 0.7 * size, width, 0.7 * size)))
    return found


class Palette(unittest.TestCase):
    def test_steps_of_lightness(self) -> None:
        for pale in "abcf":
            for other in ("page", "idle", "A", "B", "C", "F"):
                self.assertGreaterEqual(least(pale, other), SHAPE, f"{pale} and {other}")
            self.assertGreaterEqual(least("ink", pale), TEXT, pale)
            self.assertGreaterEqual(least("page", pale.upper()), TEXT, pale)
            self.assertGreaterEqual(least(hatching(f"{pale} hatched"), pale), SHAPE, pale)
        for ground in ("page", "idle"):
            self.assertGreaterEqual(least("edge", ground), SHAPE)
            for text in ("ink", "quiet"):
                self.assertGreaterEqual(least(text, ground), TEXT, text)

    def test_marks_in_results(self) -> None:
        """By lightness, or by the shape of a point and the hatching of a bar."""
        names = {light: name for name, (light, _) in COLOURS.items()}
        marks = {roofline.OURS: "o", roofline.BEST: "o", roofline.VENDOR: "D", roofline.PEER: "s",
                 roofline.SUSPECT: "X"}  # fmt: skip
        for one, other in combinations(marks, 2):
            bright = least(names[one], names[other]) >= SHAPE
            textures = [roofline.HATCHES.get(each, ("",))[0] for each in (one, other)]
            self.assertTrue(bright or marks[one] != marks[other], f"points of {one} and {other}")
            self.assertTrue(bright or len({*textures}) == 2, f"bars of {one} and {other}")
        for mark in marks:
            for ground in (roofline.PAGE, roofline.TRACK):
                self.assertGreaterEqual(least(names[mark], names[ground]), SHAPE)
        for colour, (_, strokes) in roofline.HATCHES.items():
            self.assertGreaterEqual(least(names[colour], names[strokes]), SHAPE)
        for colour in roofline.ROOF_COLOURS:
            self.assertGreaterEqual(least(names[colour], "page"), SHAPE)

    def test_the_measure(self) -> None:
        self.assertAlmostEqual(vision.contrast("#000000", "#ffffff"), 21)
        self.assertAlmostEqual(vision.contrast("#777777", "#ffffff"), 4.48, 2)  # WCAG's own example
        for name in vision.MACHADO:  # who lacks cones sees greys as they are
            self.assertAlmostEqual(vision.luminance("#808080", name), 0.2159, 3)
        # What deuteranopes confound
        red, green = (vision.seen(colour, "deuteranopia") for colour in ("#c25b5b", "#7f7f3c"))
        self.assertLess(max(abs(a - b) for a, b in zip(red, green)), 0.06)


if __name__ == "__main__":
    unittest.main()
