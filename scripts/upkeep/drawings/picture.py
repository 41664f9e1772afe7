"""A thin layer over SVG: boxes, cells, texts and arrows, in colours for light and dark pages."""

from __future__ import annotations

import sys
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Callable, Iterable, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from colours import COLOURS  # noqa: E402

WIDTH, MARGIN = 640, 20
LINE = 21  # from one line of text to the next
TITLE, PLAIN, SMALL = 17, 15, 14  # sizes of text
APART = 6  # from one stroke of a hatching to the next


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


def style() -> str:
    """Classes: a colour's name fills, with an o before it outlines; those of texts; ln, a line."""

    def rules(theme: int) -> str:
        return "".join(
            f".{name}{{fill:{tones[theme]}}}.o{name}{{stroke:{tones[theme]}}}"
            for name, tones in COLOURS.items()
        )

    return (
        f"svg{{fill:none}}text{{font:{PLAIN}px 'DejaVu Sans',Verdana,Roboto,sans-serif}}"
        f".small{{font-size:{SMALL}px}}.title{{font-size:{TITLE}px;font-weight:bold}}"
        ".middle{text-anchor:middle}.end{text-anchor:end}"
        ".ln{stroke-width:1.5}.thick{stroke-width:3}"
        f".idle{{stroke:{COLOURS['edge'][0]}}}{rules(0)}.bare{{stroke:none}}\n"
        f"@media(prefers-color-scheme:dark){{{rules(1)}}}"
    )


class Shape(NamedTuple):
    """What is seen in a box: a colour, and " hatched" if it is; and whether a text of its own says
    what it is."""

    look: str
    box: Box
    labelled: bool = False


def hatching(look: str) -> str:
    """The colour of the strokes on a look: strong on a pale colour."""
    colour = look.split()[0]
    return colour.upper() if colour in "abcf" else "quiet" if colour == "idle" else "page"


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Of the widest font in the list, roughly."""
    ems = sum(
        0.36 if c in " ijlI.,:;|!()[]'" else 0.95 if c in "mwMW…→" else 0.7 if c.isupper() else 0.62
        for c in text
    )
    return ems * size * (1.12 if bold else 1)


class Picture:
    def __init__(self, title: str, height: float) -> None:
        self.title, self.height = title, height
        self.parts: list[str] = []
        self.texts: list[tuple[str, Box]] = []  # and where they are
        # Of all that is drawn what test/palette_test.py compares, from the back to the front
        self.shapes: list[Shape] = []
        self.strokes: list[tuple[str, list[tuple[float, float]]]] = []
        self.inks: list[str] = []  # of the texts
        self.legends: list[list[str]] = []  # looks that a legend tells apart
        self.text(MARGIN, 30, title, "title")

    def text(self, x: float, y: float, text: str, *looks: str) -> None:
        """Starts at x, or has its middle or end there, if looks say so; stands on y."""
        size = SMALL if "small" in looks else TITLE if "title" in looks else PLAIN
        width = text_width(text, size, "title" in looks)
        left = x - (width / 2 if "middle" in looks else width if "end" in looks else 0)
        self.texts.append((text, Box(left, y - 0.75 * size, width, 0.95 * size)))
        looks = looks if {"quiet", "page"} & {*looks} else ("ink", *looks)
        self.inks.append(next(look for look in looks if look in COLOURS))
        escaped = escape(text, quote=False)
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{" ".join(looks)}">{escaped}</text>')

    def lines(self, x: float, y: float, *texts: str, looks: tuple[str, ...] = ()) -> None:
        """One below the other; an empty one leaves a gap."""
        for i, text in enumerate(texts):
            if text:
                self.text(x, y + i * LINE, text, *looks)

    def boxes(self, boxes: Iterable[Box], *looks: str, labelled: bool = False) -> None:
        boxes, looks = list(boxes), tuple(" ".join(looks).split())
        path = "".join(f"M{b.x:g} {b.y:g}h{b.width:g}v{b.height:g}h{-b.width:g}z" for b in boxes)
        classes = " ".join(look for look in looks if look != "hatched")
        self.parts.append(f'<path class="{classes}" d="{path}"/>')
        colour = next((look for look in looks if look in COLOURS), "")
        look = f"{colour} hatched" if "hatched" in looks else colour
        if look != colour:
            self.parts.append(f'<path fill="url(#{colour})" d="{path}"/>')
        if colour:
            self.shapes += [Shape(look, box, labelled) for box in boxes]

    def box(
        self, x: float, y: float, width: float, height: float, *looks: str, labelled: bool = False
    ) -> None:
        self.boxes([Box(x, y, width, height)], *looks, labelled=labelled)

    def labelled(
        self, x: float, y: float, width: float, height: float, text: str, *looks: str
    ) -> None:
        """A box with a text in its middle, in small type; on a hatching the text has room."""
        self.box(x, y, width, height, *looks, labelled=bool(text))
        if not text:
            return
        middle = x + width / 2, y + height / 2
        if "hatched" in looks:
            wide = min(text_width(text, SMALL), width)
            self.box(round(middle[0] - wide / 2, 1), middle[1] - 8, round(wide, 1), 16,
                     looks[0], "bare", labelled=True)  # fmt: skip
        on = ("page",) if looks[0] in "ABCF" else ()
        self.text(*(middle[0], middle[1] + 4.5), text, "small", "middle", *on)

    def grid(
        self, x: float, y: float, rows: int, cols: int, size: float | tuple[float, float],
        look: Callable[[int, int], str] | str,
    ) -> None:  # fmt: skip
        """Cells of one size (or of width and height); look gives the colour of (row, column)."""
        width, height = size if isinstance(size, tuple) else (size, size)
        runs: dict[str, list[Box]] = {}  # of cells of one colour, side by side
        for i in range(rows):
            colours = [look if isinstance(look, str) else look(i, j) for j in range(cols)]
            j = 0
            for colour, cells in groupby(colours):
                n = len(list(cells))
                run = Box(x + j * width, y + i * height, n * width, height)
                runs.setdefault(colour, []).append(run)
                j += n
        for colour, boxes in runs.items():
            self.boxes(boxes, colour, *["bare"] * (colour == "idle"))
        gaps = [f"M{x + j * width:g} {y:g}v{rows * height:g}" for j in range(1, cols)]
        gaps += [f"M{x:g} {y + i * height:g}h{cols * width:g}" for i in range(1, rows)]
        if gaps:
            self.parts.append(f'<path class="ogap" d="{"".join(gaps)}"/>')
        if "idle" in runs:
            self.box(x, y, cols * width, rows * height, "oedge")

    def cells(
        self, x: float, y: float, size: tuple[float, float], rows: list[list[tuple[str, str]]]
    ) -> None:
        """A grid with texts: of every cell the text and the colour."""
        width, height = size
        self.grid(x, y, len(rows), len(rows[0]), size, lambda i, j: rows[i][j][1])
        for i, row in enumerate(rows):
            for j, (text, look) in enumerate(row):
                middle = y + (i + 0.5) * height + 4.5
                on = ("page",) if look in "ABCF" else ()
                self.text(x + (j + 0.5) * width, middle, text, "small", "middle", *on)

    def line(self, points: Iterable[tuple[float, float]], *looks: str) -> None:
        points, looks = list(points), looks or ("ln", "oquiet")
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="{" ".join(looks)}" d="M{path}"/>')
        colour = next(look[1:] for look in looks if look[0] == "o" and look[1:] in COLOURS)
        self.strokes.append((colour, points))

    def arrow(self, x0: float, y0: float, x1: float, y1: float, look: str = "oquiet") -> None:
        """Whose head has two strokes."""
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        along_x, along_y = 7 * (x1 - x0) / length, 7 * (y1 - y0) / length
        self.line([(x0, y0), (x1, y1)], "ln", look)
        points = [
            (round(x1 - along_x + side * along_y, 1), round(y1 - along_y - side * along_x, 1))
            if side
            else (x1, y1)
            for side in (0.6, 0, -0.6)
        ]
        self.line(points, "ln", look)

    def patterns(self) -> str:
        """Of the hatchings that there are."""
        looks = dict.fromkeys(s.look for s in self.shapes if s.look.endswith(" hatched"))
        path = f"M-1 1L1 -1M-1 {APART + 1}L{APART + 1} -1M{APART - 1} {APART + 1}L{APART + 1} {APART - 1}"
        patterns = "".join(
            f'<pattern id="{look.split()[0]}" width="{APART}" height="{APART}" '
            f'patternUnits="userSpaceOnUse"><path class="o{hatching(look)}" d="{path}"/></pattern>'
            for look in looks
        )
        return f"<defs>{patterns}</defs>\n" if patterns else ""

    def svg(self, alt: str = "") -> str:
        """alt: what is seen, for those who don't see it."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height:g}" '
            f'viewBox="0 0 {WIDTH} {self.height:g}" role="img" aria-labelledby="title desc">\n'
            f'<title id="title">{escape(self.title, quote=False)}</title>\n'
            f'<desc id="desc">{escape(alt, quote=False)}</desc>\n'
            f"<style>{style()}</style>\n{self.patterns()}"
            f'<rect class="page" width="{WIDTH}" height="{self.height:g}" rx="6"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"
