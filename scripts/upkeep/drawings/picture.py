"""A thin layer over SVG: boxes, cells, texts and arrows, in colours for light and dark pages."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import Callable, Iterable, NamedTuple

WIDTH, MARGIN = 640, 20
LINE = 21  # from one line of text to the next
TITLE, PLAIN, SMALL = 17, 15, 14  # sizes of text

# Pale and strong tones of the matrices A, B, C and of what is in focus (Okabe and Ito's colours, as
# in roofline.py), and greys: on light pages, on dark ones.
COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "ink": ("#222222", "#e6edf3"),
    "quiet": ("#5f6368", "#a3abb5"),
    "idle": ("#e6e6e6", "#2b3138"),
    "a": ("#c9e2f3", "#143f5c"),
    "A": ("#0072b2", "#4aa8e0"),
    "b": ("#fbe3b3", "#543f0c"),
    "B": ("#e69f00", "#f0b429"),
    "c": ("#c2e8db", "#0f4a3a"),
    "C": ("#009e73", "#2fc79c"),
    "f": ("#f2d6e5", "#54243f"),
    "F": ("#b8457f", "#e889b8"),
}


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
        f"{rules(0)}\n@media(prefers-color-scheme:dark){{{rules(1)}}}"
    )


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
        self.text(MARGIN, 30, title, "title")

    def text(self, x: float, y: float, text: str, *looks: str) -> None:
        """Starts at x, or has its middle or end there, if looks say so; stands on y."""
        size = SMALL if "small" in looks else TITLE if "title" in looks else PLAIN
        width = text_width(text, size, "title" in looks)
        left = x - (width / 2 if "middle" in looks else width if "end" in looks else 0)
        self.texts.append((text, Box(left, y - 0.75 * size, width, 0.95 * size)))
        looks = looks if "quiet" in looks else ("ink", *looks)
        escaped = escape(text, quote=False)
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{" ".join(looks)}">{escaped}</text>')

    def lines(self, x: float, y: float, *texts: str, looks: tuple[str, ...] = ()) -> None:
        """One below the other; an empty one leaves a gap."""
        for i, text in enumerate(texts):
            if text:
                self.text(x, y + i * LINE, text, *looks)

    def boxes(self, boxes: Iterable[Box], *looks: str) -> None:
        path = "".join(f"M{b.x:g} {b.y:g}h{b.width:g}v{b.height:g}h{-b.width:g}z" for b in boxes)
        self.parts.append(f'<path class="{" ".join(looks)}" d="{path}"/>')

    def box(self, x: float, y: float, width: float, height: float, *looks: str) -> None:
        self.boxes([Box(x, y, width, height)], *(look for look in looks if look != "hatched"))
        if "hatched" in looks:
            self.hatch(Box(x, y, width, height), looks[0])

    def hatch(self, box: Box, look: str) -> None:
        """Strokes on a box of that colour: strong ones on a pale colour, else as of the page."""
        x, y, width, height = box
        path = ""
        for at in range(6, int(width + height), 6):  # where it would meet the upper edge
            right, below = min(at, width), at - min(at, width)
            left, bottom = at - min(at, height), min(at, height)
            path += f"M{x + right:g} {y + below:g}L{x + left:g} {y + bottom:g}"
        self.parts.append(
            f'<path class="o{look.upper() if look in "abcf" else "page"}" d="{path}"/>'
        )

    def labelled(
        self, x: float, y: float, width: float, height: float, text: str, *looks: str
    ) -> None:
        """A box with a text in its middle, in small type."""
        self.box(x, y, width, height, *looks)
        if text:
            self.text(x + width / 2, y + height / 2 + 4.5, text, "small", "middle")

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
            self.boxes(boxes, colour)
        gaps = [f"M{x + j * width:g} {y:g}v{rows * height:g}" for j in range(1, cols)]
        gaps += [f"M{x:g} {y + i * height:g}h{cols * width:g}" for i in range(1, rows)]
        if gaps:
            self.parts.append(f'<path class="opage" d="{"".join(gaps)}"/>')

    def cells(
        self, x: float, y: float, size: tuple[float, float], rows: list[list[tuple[str, str]]]
    ) -> None:
        """A grid with texts: of every cell the text and the colour."""
        width, height = size
        self.grid(x, y, len(rows), len(rows[0]), size, lambda i, j: rows[i][j][1])
        for i, row in enumerate(rows):
            for j, (text, _) in enumerate(row):
                middle = y + (i + 0.5) * height + 4.5
                self.text(x + (j + 0.5) * width, middle, text, "small", "middle")

    def line(self, points: Iterable[tuple[float, float]], *looks: str) -> None:
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="{" ".join(looks or ("ln", "oquiet"))}" d="M{path}"/>')

    def arrow(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Whose head has two strokes."""
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        along_x, along_y = 7 * (x1 - x0) / length, 7 * (y1 - y0) / length
        self.line([(x0, y0), (x1, y1)])
        self.line(
            (round(x1 - along_x + side * along_y, 1), round(y1 - along_y - side * along_x, 1))
            if side
            else (x1, y1)
            for side in (0.6, 0, -0.6)
        )

    def svg(self, alt: str = "") -> str:
        """alt: what is seen, for those who don't see it."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height:g}" '
            f'viewBox="0 0 {WIDTH} {self.height:g}">\n'
            f"<title>{escape(self.title, quote=False)}</title>\n"
            f"<desc>{escape(alt, quote=False)}</desc>\n<style>{style()}</style>\n"
            f'<rect class="page" width="{WIDTH}" height="{self.height:g}" rx="6"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"
