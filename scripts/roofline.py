#!/usr/bin/env python3
"""Draws the rows of a CSV that ./bench wrote, as PNG and SVG.

  roofline   a ladder's versions under the measured roofs, both axes logarithmic: one picture for
             each family, operation and dtype
  ladder     the same versions as bars, with time, speed, share of the roof and the vendor's library
             beside them: one picture for each family and dtype
  overview   from the first version to the fastest, every family in one picture
  sizes      share of the roof and time over size, the fastest version beside the vendor's library: one
             picture for each family, with a panel for each operation and dtype

Of a whole CSV these are the overview and one ladder for each family, in its first type; --all draws
everything, and so does any choice below of what is chosen. index.html shows what was drawn, by family.

Elsewhere a ladder is drawn at its family's main problem (4096x4096x4096 for gemm, 8192x4096 for softmax,
layernorm and rmsnorm, else the largest), with a cold L2 cache, unless the options say otherwise.
Rows of the host executor have no times: where their accesses were counted, the bytes they moved are
drawn.

examples:
  scripts/roofline.py results.csv                            a picture for each family, into plots/
  scripts/roofline.py results.csv --all                      everything
  scripts/roofline.py results.csv --family=gemm -o /tmp      one family
  scripts/roofline.py results.csv --kind=ladder --dtype=bf16
  scripts/roofline.py results.csv --family=softmax --problem=8192x1024 --cache=hot
"""

from __future__ import annotations

import argparse
import html
import io
import itertools
import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Sequence

import ladder_csv
import svg
from colours import COLOURS
from ladder_code import NoHistory, Tree
from ladder_csv import (
    Ladder,
    LadderError,
    Roof,
    Row,
    digits,
    percent,
    rate_text,
    ratio_text,
    roof_title,
    time_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("roofline", "ladder", "overview", "sizes")

# In pictures for light pages; an SVG has the others too.
PAGE, INK, QUIET, GAP, TRACK = (COLOURS[name][0] for name in ("page", "ink", "quiet", "gap", "idle"))
OURS, BEST, VENDOR, PEER, SUSPECT = (COLOURS[name][0] for name in "aAbCF")
ROOF_COLOURS = (*(COLOURS[name][0] for name in "fcb"), QUIET)
# Of bars: the hatching and its colour, so that hue is no only difference
HATCHES = {VENDOR: ("////", COLOURS["B"][0]), PEER: ("....", PAGE), SUSPECT: ("xxxx", PAGE)}
PEERS = "PyTorch, Triton, numba"  # in legends

STYLE: dict[str, Any] = {
    "axes.edgecolor": QUIET,
    "axes.labelcolor": QUIET,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": PAGE,
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9,
    "hatch.linewidth": 0.6,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # texts are texts
    "svg.hashsalt": "kernel-ladder",  # and the same file whenever it is drawn
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
}


# ---- Shared by the pictures


def new_figure(width: float, height: float) -> Figure:
    """A figure that no window shows, in our style."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(STYLE)
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def heading(figure: Figure, title: str, below: str) -> None:
    _, height = figure.get_size_inches()
    figure.text(0.02, 1 - 0.13 / height, title, va="top", fontsize=13, fontweight="bold")
    figure.text(0.02, 1 - 0.42 / height, below, va="top", color=QUIET)


def fastest_title(ladders: Iterable[Ladder]) -> str:
    """Of what is drawn as the fastest."""
    return "fastest (tied)" if any(len(one.tied) > 1 for one in ladders) else "fastest"


def source(row: Row) -> str:
    """Where a row's numbers come from."""
    commit = row.git_sha[:10] if row.git_sha not in ("", "unknown") else ""
    cache = f"{row.cache} L2 cache" if row.cache else ""
    return " · ".join(filter(None, (row.device, cache, commit and f"commit {commit}")))


def sources(ladders: Sequence[Ladder]) -> str:
    """Of several runs: the device, and all commits."""
    rows = [one.timed[0] for one in ladders]
    commits = dict.fromkeys(r.git_sha[:10] for r in rows if r.git_sha not in ("", "unknown"))
    if len(commits) < 2:
        return source(rows[0])
    return f"{source(rows[0]._replace(git_sha=''))} · commits {', '.join(commits)}"


def with_age(figure: Figure, ladders: Iterable[Ladder], tree: Tree | None) -> Figure:
    """Says below its title how many of what is drawn are of earlier code than the tree's, if that is known."""
    try:
        note = tree.earlier(row for one in ladders for row in one.timed) if tree else ""
    except NoHistory:
        note = ""
    if note:
        below = figure.texts[1]
        below.set_text(f"{below.get_text()} · {note}")
    return figure


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Moves positions, given in rising order, as little as makes each one `gap` or more above the
    last and keeps all of them between low and high (closer together only if they do not fit)."""
    n = len(wanted)
    if n > 1:
        gap = min(gap, (high - low) / (n - 1))
    # Without the gaps they must only not fall: merge neighbours that do, at their mean.
    blocks: list[list[float]] = []
    for i, position in enumerate(wanted):
        blocks.append([position - i * gap])
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    flat = [_mean(block) for block in blocks for _ in block]
    top = high - (n - 1) * gap
    return [min(max(z, low), top) + i * gap for i, z in enumerate(flat)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# ---- The roofline


LINE = 13  # of the list of names, in points


def draw_roofline(ladder: Ladder, roofs: Sequence[Roof]) -> Figure:
    """A ladder's points under its roofs. Its versions do the same useful work on the same data, so
    they stand above one another; their names are listed beside them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    points = [r for r in ladder.timed if r.gflops > 0 and r.bytes > 0]
    if not points:
        raise LadderError(f"{ladder.title} has no timed row with operations and bytes to draw.")
    x_of = {r: r.flops / r.bytes for r in points}
    memory = [r for r in roofs if not r.is_compute]
    compute = [r for r in roofs if r.is_compute]

    # High enough for the list of names and what stands above it.
    lines = len(points) + 3
    plot_height = max(4.1, 1.25 * lines * LINE / 72)
    height = plot_height + 1.7
    figure = new_figure(8.6, height)
    axes = figure.add_axes((0.085, 0.9 / height, 0.895, plot_height / height))
    kinds = (("memory", memory), ("compute", compute))
    absent = [kind for kind, those in kinds if not any(r.value > 0 for r in those)]
    heading(figure, f"{ladder.title}   {ladder.problem}", " · ".join(filter(None, (
        source(points[0]), ladder.at_power_limit and "at the power limit",
        absent and f"{' and '.join(absent)} roof not measured",
    ))))  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")

    # Limits: all points, the ridges where a memory roof meets a compute roof, and room for the list
    # of names: right of points on the slope, left of points under the flat roof.
    ridges = [c.line / m.line for c in compute for m in memory]
    tops = [c.top for c in compute]
    xs, ys = list(x_of.values()), [r.gflops for r in points]
    left = bool(ridges) and min(xs) > 8 * max(ridges)
    if left:
        axes.set_xlim(min(ridges) / 8, max(xs) * 2)
    else:
        x_low = min(xs + ridges) / 5
        axes.set_xlim(x_low, max(max(xs + ridges) * 6, max(xs) * 100, x_low * 1e3))
    axes.set_ylim(min(ys) / 3, max(tops or [3 * max(ys)]) * 2.2)
    axes.set_xlabel("useful operations per compulsory byte, FLOP/B")
    axes.set_ylabel("useful work, TFLOP/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=20))
        axis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / 1000:g}"))
    axes.grid(True, color=GAP, linewidth=0.8)
    axes.set_axisbelow(True)

    _roof_lines(axes, memory, compute, left)
    _points(axes, ladder, points, x_of)
    _names(figure, axes, ladder, x_of, memory, compute, left)

    handles = [_handle("-", INK, "measured roof")] if any(r.value > 0 for r in roofs) else []
    if any(r.pin > 0 for r in roofs):
        handles.append(_handle(":", INK, "pin rate"))
    handles.append(_handle("-", OURS, "versions", "o"))
    handles.append(_handle("", BEST, fastest_title([ladder]), "o"))
    if ladder.baselines:
        handles.append(_handle("", VENDOR, "vendor's library", "D"))
    if ladder.peers:
        handles.append(_handle("", PEER, PEERS, "s"))
    if any(r.is_suspect for r in points):
        handles.append(_handle("", SUSPECT, "suspect", "X"))
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.075, 0.0),
                  ncols=len(handles), frameon=False, fontsize=8, handlelength=1.5,
                  columnspacing=1.3)  # fmt: skip
    return figure


def _handle(line: str, colour: str, text: str, marker: str = "") -> Any:
    from matplotlib.lines import Line2D

    look = _vendor_look() if marker == "D" else {"color": colour}
    return Line2D([], [], linestyle=line or "none", marker=marker, label=text, **look)


def _vendor_look() -> dict[str, Any]:
    """A hollow diamond above all other marks, which it does not hide."""
    from matplotlib.patheffects import withStroke

    return {"color": VENDOR, "markerfacecolor": "none", "markeredgewidth": 1.8, "markersize": 8,
            "zorder": 6, "path_effects": [withStroke(linewidth=3.6, foreground=PAGE)]}  # fmt: skip


def _plot_mark(axes: Axes, ladder: Ladder, row: Row, x: float, y: float, size: float) -> None:
    marker, colour = _mark(ladder, row)
    look: dict[str, Any] = _vendor_look() if marker == "D" else {
        "color": colour, "markersize": size, "markeredgecolor": PAGE, "markeredgewidth": 0.8,
        "zorder": 3.5 if row.is_peer else 5 if row in ladder.tied else 4,
    }  # fmt: skip
    axes.plot(x, y, marker=marker, **look)


def _roof_lines(
    axes: Axes, memory: Sequence[Roof], compute: Sequence[Roof], left: bool
) -> None:  # fmt: skip
    """left: the points stand at the right, so what the roofs are called stands at the left."""
    x_low, x_high = axes.get_xlim()
    y_low, _ = axes.get_ylim()
    ceiling = max((c.line for c in compute), default=math.inf)
    fastest = max((m.line for m in memory), default=math.inf)

    box = axes.get_window_extent()
    decades_x = math.log10(x_high / x_low)
    decades_y = math.log10(axes.get_ylim()[1] / y_low)
    slope = math.degrees(math.atan2(box.height / decades_y, box.width / decades_x))

    for colour, roof in zip(ROOF_COLOURS, [*memory, *compute]):
        # The measured roof ends where it meets the other one; the pin rate is dotted beside it.
        for rate, style, width in ((roof.value, "-", 1.8), (roof.pin, ":", 1.4)):
            if not rate > 0:
                continue
            if roof.is_compute:
                ends = (max(x_low, rate / fastest), x_high)
                axes.plot(ends, (rate, rate), style, color=colour, linewidth=width)
            else:
                ends = (x_low, min(x_high, ceiling / rate))
                axes.plot(ends, [rate * x for x in ends], style, color=colour, linewidth=width)
        rate = roof.top
        rates = [rate_text(roof.value, roof.is_compute)] if roof.value > 0 else []
        if roof.pin > 0:
            scaled = digits(roof.pin / 1000 if roof.is_compute else roof.pin)
            rates.append(
                f"(pin {scaled})" if rates else "pin " + rate_text(roof.pin, roof.is_compute)
            )
        text = "  ".join([roof_title(roof.name), *rates])
        look: dict[str, Any] = {"fontsize": 8.5, "textcoords": "offset points"}
        if roof.is_compute:
            x, side = (max(x_low, rate / fastest), 1) if left else (x_high, -1)
            axes.annotate(text, (x, rate), xytext=(4 * side, 4), ha="left" if left else "right",
                          **look)  # fmt: skip
        else:
            # Begins where the roof enters the picture, at its left or at its lower edge.
            x = max(x_low, y_low / rate)
            axes.annotate(text, (x, rate * x), xytext=(12, 18), rotation=slope, ha="left",
                          va="bottom", rotation_mode="anchor", **look)  # fmt: skip


def _points(axes: Axes, ladder: Ladder, points: Sequence[Row], x_of: dict[Row, float]) -> None:
    for section in ladder.sections:
        rungs = [r for r in section if r in x_of and r in ladder.rungs]
        axes.plot([x_of[r] for r in rungs], [r.gflops for r in rungs], color=OURS, linewidth=1)
    for row in points:
        _plot_mark(axes, ladder, row, x_of[row], row.gflops, 7)


def _mark(ladder: Ladder, row: Row) -> tuple[str, str]:
    if row.is_suspect:
        return "X", SUSPECT
    if row.is_baseline:
        return "D", VENDOR
    if row.is_peer:
        return "s", PEER
    return "o", BEST if row in ladder.tied else OURS


def _names(
    figure: Figure,
    axes: Axes,
    ladder: Ladder,
    x_of: dict[Row, float],
    memory: Sequence[Roof],
    compute: Sequence[Roof],
    left: bool,
) -> None:
    """Lists name, speed and share of the roof of every point, below the roof and on one side of the
    points, with a line from each entry to its point."""
    to_pixels, to_data = axes.transData.transform, axes.transData.inverted().transform
    pixel = figure.dpi / 72  # pixels in a typographic point, which the widths are in
    ranked = sorted(x_of, key=lambda r: r.gflops)
    judged = any(r.roof_pct > 0 for r in ranked)
    rate_end = max(_width(r.name, bold=r in ladder.tied) for r in ranked) + 72
    share_end = rate_end + (42 if judged else 0)
    line = LINE * pixel
    above = (1.9 if judged else 0.9) * line
    box = axes.get_window_extent()

    def below_roof(x: float) -> float:
        at = to_data((x, 0))[0]
        slope = max((m.line for m in memory), default=math.inf) * at
        flat = max((c.line for c in compute), default=math.inf)
        return float(to_pixels((1, min(slope, flat, axes.get_ylim()[1])))[1]) - above

    if left:
        x = to_pixels((min(x_of.values()), 1))[0] - (40 + share_end) * pixel
    else:  # as near as the slope leaves room for all lines
        x = to_pixels((max(x_of.values()), 1))[0] + 40 * pixel
        needed = box.y0 + (len(ranked) + 1) * line
        while below_roof(x) < needed and x + (share_end + 8) * pixel < box.x1:
            x += pixel
    low, high = box.y0 + 0.7 * line, below_roof(x)
    wanted = [to_pixels((1, r.gflops))[1] for r in ranked]
    heights = spread(wanted, line, low, high)

    def entry(y: float, shift: float, text: str, align: str, **style: Any) -> None:
        axes.annotate(text, tuple(to_data((x, y))), xytext=(shift, 0), textcoords="offset points",
                      ha=align, va="center", gid="entry", **style)  # fmt: skip

    for row, y in zip(ranked, heights):
        weight = "bold" if row in ladder.tied else "normal"
        entry(y, 0, row.name, "left", fontsize=8.5, fontweight=weight)
        rate = rate_text(ladder.speed(row), ladder.is_compute)
        entry(y, rate_end, rate, "right", fontsize=8.5, color=QUIET)
        if row.roof_pct > 0:
            entry(y, share_end, percent(row.roof_pct), "right", fontsize=8.5, color=QUIET)
        end = to_data((x + (share_end + 3) * pixel if left else x - 3 * pixel, y))
        axes.plot([x_of[row], end[0]], [row.gflops, end[1]], color=_mark(ladder, row)[1],
                  linewidth=0.8, zorder=3)  # fmt: skip
    if judged:
        entry(heights[-1] + line, share_end, "of roof", "right", fontsize=7.5, color=QUIET)


def _fitting(text: str, room: float, size: float, bold: bool = False) -> float:
    """The font size, at most `size`, at which a text takes no more than so many points."""
    return size * min(1, room / _width(text, bold, size))


def _width(text: str, bold: bool = False, size: float = 8.5) -> float:
    """Of a text of that size, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=STYLE["font.family"], weight="bold" if bold else "normal", size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)


# ---- The ladder


# inches: a version, one without its idea; what stands above a panel's bars; the heading
ROW, SHORT, PANEL, HEAD = 0.36, 0.25, 0.62, 0.6
BAR = 0.185 / SHORT  # of a row without an idea
LEFT, BARS = 0.02, (0.245, 0.36)  # shares of the width: the margin; the bars' left edge and width
NAMES = 145  # points that a name has before the bars begin
IDEA, IDEAS = 7.5, 430  # the size of an idea's text, and the points it has
COLUMNS = (0.69, 0.775, 0.855, 0.965)  # right edges of time, speed, share of the roof, vs vendor


def draw_ladder(ladders: Sequence[Ladder], roofs: dict[Ladder, list[Roof]]) -> Figure:
    """Bars, a panel for each ladder: how much of its roof every version reaches, and its idea."""
    shown = [one for one in ladders if one.timed]
    if not shown:
        raise LadderError(f"{ladders[0].title} has no timed row to draw.")
    heights = {one: _places(one)[-1] + _row(one.timed[-1]) for one in shown}  # in inches
    height = HEAD + sum(PANEL + rows for rows in heights.values()) + 0.15
    figure = new_figure(9.2, height)
    families = list(dict.fromkeys(one.family for one in shown))
    dtypes = list(dict.fromkeys(one.dtype for one in shown))
    below = f"{source(shown[0].timed[0])} · bold: {fastest_title(shown)}"
    if any(r.is_suspect for one in shown for r in one.timed):
        below += " · !: above its roof, so suspect"
    heading(figure, f"{', '.join(families)} {', '.join(dtypes)}", below)
    top = height - HEAD
    for ladder in shown:
        top -= PANEL + heights[ladder]
        axes = figure.add_axes((BARS[0], top / height, BARS[1], heights[ladder] / height))
        _panel(axes, ladder, roofs.get(ladder, []))
    return figure


def _row(row: Row) -> float:
    """Its height, in inches."""
    return ROW if _short_idea(row) else SHORT


@cache
def _short_idea(row: Row) -> str:
    """As much of what the kernel's file says as its idea, in whole clauses, as fits below its bar."""
    idea = ladder_csv.idea(row)
    ends = [m.start() for m in re.finditer(r"[;:,.]( |$)| [(]", idea)] + [len(idea)]
    whole = (idea[:end] for end in reversed(ends) if idea.count("(", 0, end) == idea.count(")", 0, end))
    return next((text for text in whole if not text or _width(text, size=IDEA) < IDEAS), "")


def _places(ladder: Ladder) -> list[float]:
    """Where rows begin, in inches: one below the other, and a little more between sections."""
    places, at = [], 0.0
    for section in ladder.sections:
        for row in section:
            places.append(at)
            at += _row(row)
        at += 0.4 * SHORT
    return places


def _panel(axes: Axes, ladder: Ladder, roofs: Sequence[Roof]) -> None:
    rows = ladder.timed
    by_roof = all(r.roof_pct > 0 for r in rows)
    if by_roof:
        share = {r: r.roof_pct for r in rows}
    else:  # no roof was measured: beside the vendor's library, or else beside the fastest
        library = ladder.library
        reference = ladder.speed(library) if library else max(map(ladder.speed, rows))
        share = {r: 100 * ladder.speed(r) / reference for r in rows}

    full = max(100.0, max(share.values()))
    axes.set_xlim(0, full)
    tops = _places(ladder)
    axes.set_ylim(tops[-1] + _row(rows[-1]), 0)
    places = [top + SHORT / 2 for top in tops]
    axes.barh(places, [100] * len(rows), height=BAR * SHORT, color=TRACK)
    for i, row in zip(places, rows):
        _, colour = _mark(ladder, row)
        hatch, strokes = HATCHES.get(colour, (None, PAGE))
        axes.barh(i, share[row], height=BAR * SHORT, color=colour, hatch=hatch, edgecolor=strokes,
                  linewidth=0)  # fmt: skip
    ends = [at - SHORT / 2 for at in places], [at + BAR * SHORT / 2 for at in places]
    axes.vlines([100] * len(rows), *ends, color=INK, linewidth=1)
    if by_roof and ladder.library:
        for width, colour in ((3.6, PAGE), (1.4, VENDOR)):  # with a rim, to be seen on bars
            axes.vlines([share[ladder.library]] * len(rows), *ends, color=colour, linewidth=width)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)

    def cell(x: float, y: float, text: str, align: str, **style: Any) -> None:
        axes.text(x, y, text, transform=axes.get_yaxis_transform(), ha=align, va="center", **style)

    # Places in the figure, as multiples of the bars' width
    left, *columns = ((x - BARS[0]) / BARS[1] for x in (LEFT, *COLUMNS))
    limit = "at the power limit" if ladder.at_power_limit else ""
    cell(left, -0.4, "  ".join(filter(None, (ladder.op, ladder.problem, limit))), "left",
         fontweight="bold", fontsize=10)  # fmt: skip
    if by_roof:
        roof = next((r for r in roofs if r.name == rows[0].roof), None)
        text = (
            f"{roof_title(roof.name)} {rate_text(roof.value, roof.is_compute)}" if roof else "roof"
        )
        cell(min(1, 100 / full), -0.12, text, "right", color=QUIET, fontsize=8)
    else:
        cell(min(1, 100 / full), -0.12, _reference(ladder), "right", color=QUIET, fontsize=8)
    heads = ["time", "TFLOP/s" if ladder.is_compute else "GB/s"]
    heads += ["of roof" if by_roof else "", f"vs {ladder.vendor}" if ladder.vendor else ""]
    for x, head in zip(columns, heads):
        cell(x, -0.12, head, "right", color=QUIET, fontsize=8)
    for i, row in zip(places, rows):
        weight = "bold" if row in ladder.tied else "normal"
        size = _fitting(row.name, NAMES, 9, weight == "bold")
        cell(left, i, row.name, "left", fontweight=weight, fontsize=size)
        speed = ladder.speed(row)
        cells = [
            time_text(row.time_us),
            digits(speed / 1000 if ladder.is_compute else speed),
        ]
        cells.append(percent(row.roof_pct) + (" !" if row.is_suspect else "") if by_roof else "")
        cells.append(ratio_text(row))
        for x, text in zip(columns, cells):
            cell(x, i, text, "right", fontweight=weight)
        if idea := _short_idea(row):
            cell(left, i + SHORT / 2 + 0.045, idea, "left", fontsize=IDEA, color=QUIET)


def _reference(ladder: Ladder) -> str:
    name = ladder.vendor if ladder.library else "the fastest"
    return f"{name} (no roof measured)"


# ---- The overview


# Points that the fastest version's name has before its speed begins. Hinted, as a PNG has it, a text
# is up to 4 % wider.
VERSION = 143


def draw_overview(ladders: Sequence[Ladder]) -> Figure:
    """A line for each ladder, from its slowest version to its fastest, in percent of the roof."""
    shown = [one for one in ladders if one.best and all(r.roof_pct > 0 for r in one.timed)]
    if not shown:
        raise LadderError("No ladder has a measured roof (column roof_pct): no overview.")
    height = 1.45 + 0.3 * len(shown)
    figure = new_figure(9.2, height)
    heading(figure, "Every version's share of its measured roof", sources(shown))
    axes = figure.add_axes((0.245, 0.55 / height, 0.33, 0.3 * len(shown) / height))
    axes.set_xlim(0, max(102.0, max(r.roof_pct for one in shown for r in one.timed) + 2))
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xticks(range(0, 101, 20), [f"{p} %" for p in range(0, 101, 20)])
    axes.tick_params(length=0)
    axes.grid(True, axis="x", color=GAP)
    axes.set_axisbelow(True)
    axes.axvline(100, color=INK, linewidth=1)
    for spine in axes.spines.values():
        spine.set_visible(False)

    def cell(x: float, y: float, text: str, align: str, **style: Any) -> None:
        axes.text(x, y, text, transform=axes.get_yaxis_transform(), ha=align, va="center", **style)

    names, version, speed, vendor = ((x - 0.245) / 0.33 for x in (LEFT, 0.595, 0.91, 0.98))
    cell(version, -0.85, "fastest version", "left", color=QUIET, fontsize=8)
    if any(one.vendor for one in shown):
        cell(vendor, -0.85, "vs vendor", "right", color=QUIET, fontsize=8)
    for i, one in enumerate(shown):
        best = one.best
        assert best is not None
        if i and one.family != shown[i - 1].family:
            axes.axhline(i - 0.5, color=GAP, linewidth=1)
        shares = [r.roof_pct for r in one.rungs if not r.is_suspect] or [best.roof_pct]
        axes.plot([min(shares), max(shares)], [i, i], color=OURS, linewidth=2, zorder=2)
        for row in one.timed:
            big = row in one.tied or row.is_peer
            _plot_mark(axes, one, row, row.roof_pct, i, 7 if big else 5)
        cell(names, i, one.title, "left", fontsize=_fitting(one.title, NAMES, 9))
        fastest = best.name + one.tied_with(best, most=3)
        cell(version, i, fastest, "left", fontsize=_fitting(fastest, VERSION, 8.5))
        cell(speed, i, rate_text(one.speed(best), one.is_compute), "right", fontsize=8.5)
        cell(vendor, i, ratio_text(best), "right", fontsize=8.5)
    handles = [_handle("-", OURS, "versions", "o"), _handle("", BEST, fastest_title(shown), "o")]
    if any(one.baselines for one in shown):
        handles.append(_handle("", VENDOR, "vendor's library", "D"))
    if any(one.peers for one in shown):
        handles.append(_handle("", PEER, PEERS, "s"))
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.22, 0.0), ncols=4, frameon=False
    )
    return figure


# ---- Over size


# inches: the axes of the share and of the time, and between them; what is left of them, above and below
SHARES, TIMES, BETWEEN, SIZES_LEFT, SIZES_ABOVE, SIZES_BELOW = 1.05, 0.7, 0.12, 0.52, 0.46, 0.28
SIZES_WIDTH = 9.2
SIZE_LOOKS: tuple[dict[str, Any], ...] = (  # of the fastest, and of the vendor's, which does not hide it
    {"marker": "o", "color": BEST, "markersize": 4.5},
    {"marker": "D", "color": VENDOR, "markersize": 5.5, "markerfacecolor": "none", "markeredgewidth": 1.4},
)
SIZE_LINES = "-", "--"


def draw_sizes(ladders: Sequence[Ladder]) -> Figure:
    """Share of the roof and time over size, a panel for each operation and dtype. A line joins only a
    range, problems of one aspect."""
    from matplotlib.lines import Line2D

    panels = ladder_csv.size_panels(ladders)
    across = min(3, len(panels))
    each = SIZES_ABOVE + SHARES + BETWEEN + TIMES + SIZES_BELOW
    height = HEAD + math.ceil(len(panels) / across) * each + 0.5
    wide = (SIZES_WIDTH - 0.25) / across - SIZES_LEFT
    figure = new_figure(SIZES_WIDTH, height)
    shown = [one for panel in panels for one in panel]
    heading(figure, "Share of the measured roof, and time, over size", sources(shown))
    highest = max(r.roof_pct for one in shown for r in _fastest(one) if not r.is_suspect)
    for i, panel in enumerate(panels):
        left = SIZES_LEFT + i % across * (wide + SIZES_LEFT)
        top = HEAD + i // across * each + SIZES_ABOVE
        places = ((top, SHARES), (top + SHARES + BETWEEN, TIMES))
        shares, times = (
            figure.add_axes((left / SIZES_WIDTH, 1 - (at + tall) / height, wide / SIZES_WIDTH, tall / height))
            for at, tall in places
        )
        shares.set_ylim(0, max(112, highest + 8))
        _size_panel(shares, times, panel, (wide + 0.2) * 72)
    texts = ["the fastest version at each size"]
    texts += ["vendor's library"] if any(one.baselines for one in shown) else []
    handles = [Line2D([], [], linestyle=line, label=text, **look)
               for text, line, look in zip(texts, SIZE_LINES, SIZE_LOOKS)]  # fmt: skip
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.02, 0.0), ncols=2, frameon=False,
                  fontsize=8, handlelength=3)  # fmt: skip
    figure.text(0.98, 0.13 / height, "a line: problems of one aspect", va="bottom", ha="right", fontsize=8,
                color=QUIET)  # fmt: skip
    return figure


def _fastest(one: Ladder) -> list[Row]:
    """Our fastest version, and the vendor's."""
    assert one.best is not None
    return [one.best, *([one.library] if one.library else [])]


def _size_panel(shares: Axes, times: Axes, panel: Sequence[Ladder], room: float) -> None:
    """room: the points that a line of its title has."""
    from matplotlib.ticker import NullLocator

    unit = "FLOP" if ladder_csv.sized_by_flops(panel) else "B"
    sizes = [row.flops if unit == "FLOP" else row.bytes for row in (one.rows[0] for one in panel)]
    size_of = dict(zip((one.problem for one in panel), sizes))
    ranges = ladder_csv.ranges(one.rows[0] for one in panel)
    for axes in (shares, times):
        axes.set_xscale("log")
        axes.set_xlim(min(sizes) / 2.5, max(sizes) * 2.5)
        axes.set_xticks(ticks := _log_ticks(*axes.get_xlim(), most=3))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(True, color=GAP, linewidth=0.8)
        axes.set_axisbelow(True)
        for spine in axes.spines.values():
            spine.set_visible(False)
    times.set_yscale("log")
    times.yaxis.set_minor_locator(NullLocator())
    times.set_xticklabels([_with_prefix(size, unit) for size in ticks])
    shares.set_xticklabels([])
    shares.set_yticks([0, 50, 100], ["0", "50", "100 %"])
    shares.axhline(100, color=INK, linewidth=1)

    for place, (look, line) in enumerate(zip(SIZE_LOOKS, SIZE_LINES)):
        of = {one.problem: row for one in panel for row in _fastest(one)[place : place + 1] if row.roof_pct > 0}
        for axes, value in ((shares, "roof_pct"), (times, "time_us")):
            for joined in ([p for p in problems if p in of] for problems in ranges):
                axes.plot([size_of[p] for p in joined], [getattr(of[p], value) for p in joined], line,
                          color=look["color"], linewidth=1.2, zorder=2)  # fmt: skip
            axes.plot([size_of[p] for p in of], [getattr(row, value) for row in of.values()],
                      linestyle="none", zorder=4 + place, **look)  # fmt: skip
    low, high = times.get_ylim()
    times.set_ylim(low / 1.5, high * 1.5)
    ticks = _log_ticks(*times.get_ylim(), most=4)
    times.set_yticks(ticks, [f"{us / 1000:g} ms" if us >= 1000 else f"{us:g} µs" for us in ticks])
    for axes in (shares, times):
        axes.tick_params(length=0, labelsize=8)

    span = ranges[0] if ranges else [one.problem for one in panel]
    vendors = " or ".join(dict.fromkeys(one.vendor for one in panel if one.library))
    below = " · ".join(filter(None, (f"{span[0]} to {span[-1]}", vendors)))
    for text, y, weight, colour in ((panel[0].title, 24, "bold", INK), (below, 12, "normal", QUIET)):
        shares.annotate(text, (0, 1), (0, y), xycoords="axes fraction", textcoords="offset points", va="top",
                        fontsize=_fitting(text, room, 8.5, y == 24), fontweight=weight, color=colour)  # fmt: skip


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Two or more: powers of ten, or between them if those are too few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    for steps in ((1,), (1, 3), (1, 2, 5)):
        ticks = [tick for e in decades for step in steps if low <= (tick := step * 10.0**e) <= high]
        if len(ticks) >= 2:
            break
    return ticks[:: math.ceil(len(ticks) / most) or 1]


def _with_prefix(value: float, unit: str) -> str:
    """10 MB of 1e7."""
    power = min(int(math.log10(max(value, 1)) + 1e-9) // 3, 5)
    return f"{value / 1000**power:g} {' kMGTP'[power].strip()}{unit}"


# ---- The host executor's counts


def draw_counted(ladders: Sequence[Ladder]) -> Figure:
    """Bars: the bytes that each version moves, in multiples of those it must move."""
    shown = [(one, [r for r in one.rows if r.moved_bytes > 0]) for one in ladders]
    shown = [(one, rows) for one, rows in shown if rows]
    height = HEAD + sum(PANEL + ROW * len(rows) for _, rows in shown) + 0.15
    figure = new_figure(9.2, height)
    heading(figure, f"{shown[0][0].family}   bytes moved, in multiples of the compulsory bytes",
            "counted by the host executor; no times")  # fmt: skip
    top = height - HEAD
    for one, rows in shown:
        top -= PANEL + ROW * len(rows)
        axes = figure.add_axes((BARS[0], top / height, 0.45, ROW * len(rows) / height))
        ratios = [r.moved_bytes / r.bytes for r in rows]
        axes.barh(range(len(rows)), ratios, height=0.74, color=BEST)
        axes.axvline(1, color=INK, linewidth=1)
        axes.set_xlim(0, max(1.0, max(ratios)))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.axis("off")
        blend = axes.get_yaxis_transform()
        title = " ".join(filter(None, (one.op, one.dtype, one.problem)))
        axes.text(-0.5, -0.85, title, transform=blend, fontweight="bold", fontsize=10)
        for i, (row, ratio) in enumerate(zip(rows, ratios)):
            axes.text(-0.5, i, row.name, transform=blend, va="center")
            text = f"{digits(ratio)} x   {row.moved_bytes:,.0f} of {row.bytes:,.0f}"
            axes.text(1.02, i, text, transform=blend, va="center", fontsize=8.5)
    return figure


# ---- Files


def save(figure: Figure, path: Path, description: str = "", note: str = "") -> None:
    """Writes the picture; the same rows give the same bytes, so it has no date and no program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".svg":
        figure.savefig(path, metadata={"Software": None})
        return
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    title = " ".join(figure.texts[0].get_text().split())
    path.write_text(svg.tidy(text.getvalue(), title, description or title, note), encoding="utf-8")


def file_name(*parts: str) -> str:
    return "-".join(filter(None, parts)).replace("/", "-")


def pictures(
    rows: Sequence[Row], ladders: Sequence[Ladder], kinds: Iterable[str], tree: Tree | None = None
) -> Iterable[tuple[str, Figure]]:
    """The pictures of some ladders, each with its name. They are held against a tree's code, if one is given."""
    roofs = {one: ladder_csv.roofs(rows, one) for one in ladders}
    families: dict[tuple[str, str], list[Ladder]] = {}
    for one in ladders:
        families.setdefault((one.family, one.dtype), []).append(one)
    if "overview" in kinds:
        yield "overview", with_age(draw_overview(ladders), ladders, tree)
    if "ladder" in kinds:
        for (family, dtype), members in families.items():
            yield file_name(family, dtype, "ladder"), with_age(draw_ladder(members, roofs), members, tree)
    if "roofline" in kinds:
        for one in ladders:
            if any(r.gflops > 0 for r in one.timed):
                name = file_name(one.family, one.op, one.dtype, "roofline")
                yield name, with_age(draw_roofline(one, roofs[one]), [one], tree)


def size_pictures(
    rows: Sequence[Row], ladders: Sequence[Ladder], tree: Tree
) -> Iterable[tuple[str, Figure]]:  # fmt: skip
    """Of each family the ladders at all problems that the rows have."""
    wanted = {one.title for one in ladders}
    families: dict[str, list[Ladder]] = {}
    for one in ladder_csv.every_ladder(rows):
        if one.title in wanted and one.cache == ladders[0].cache:
            families.setdefault(one.family, []).append(one)
    for family, group in families.items():
        if ladder_csv.size_panels(group):
            yield file_name(family, "sizes"), with_age(draw_sizes(group), group, tree)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("csv", type=Path, metavar="RESULTS.csv", help="what ./bench wrote")
    parser.add_argument("-o", "--output", type=Path, default=Path("plots"), metavar="DIR",
                        help="where the pictures go (default: plots)")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="every picture of what is chosen")
    parser.add_argument("--kind", choices=KINDS, help="only this kind of picture")
    parser.add_argument("--family", default="", help="for example gemm")
    parser.add_argument("--op", default="", help="for example relu")
    parser.add_argument("--dtype", default="", help="for example bf16")
    parser.add_argument("--problem", default="", help="as the CSV writes it, for example 8192x4096")
    parser.add_argument("--cache", default="cold", choices=("cold", "dirty", "hot"), help="(default: cold)")
    return parser.parse_args()


def write_index(names: Sequence[str], csv: Path, folder: Path) -> Path:
    """A page that shows the pictures in a folder, by family."""
    title = html.escape(csv.name)
    families = {name.partition("-")[0]: [one for one in names if one.partition("-")[0] == name.partition("-")[0]]
                for name in names}  # fmt: skip
    lines = [
        "<!doctype html>", '<meta charset="utf-8">', f"<title>{title}</title>",
        "<style>body { font: 16px sans-serif; margin: 2em; color-scheme: light dark } img { max-width: 100% }</style>",
        f"<h1>{title}</h1>",
        "<p>" + " · ".join(f'<a href="#{family}">{family}</a>' for family in families) + "</p>",
    ]  # fmt: skip
    for family, own in families.items():
        lines.append(f'<h2 id="{family}">{family}</h2>')
        lines += [f'<p><a href="{one}.svg"><img src="{one}.svg" alt="{one}" loading="lazy"></a></p>' for one in own]
    path = folder / "index.html"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> None:
    options = parse()
    rows = ladder_csv.read(options.csv)
    chosen = {n: getattr(options, n) for n in ("family", "op", "dtype", "problem")}
    gpu = [r for r in rows if r.backend == "cuda"]
    drawn: Iterable[tuple[str, Figure]]
    if gpu:
        ladders = [
            one for one in ladder_csv.select(gpu, **chosen, cache=options.cache) if one.timed
        ]
        if not ladders:
            raise LadderError(
                "None of the rows chosen has a time: their kernels did not pass, or --counters wrote them."
            )
        kinds: tuple[str, ...] = (options.kind,) if options.kind else KINDS
        judged = any(r.roof_pct > 0 for one in ladders for r in one.timed)
        if not options.kind and not (judged and len({one.family for one in ladders}) > 1):
            kinds = tuple(kind for kind in KINDS if kind != "overview")
        ladder_csv.needs_package("matplotlib")
        tree = Tree()
        if options.all or options.kind or any(chosen.values()):
            drawn = pictures(gpu, ladders, kinds, tree)
        else:
            first = {one.family: one.dtype for one in reversed(ladders)}
            main_ladders = [one for one in ladders if one.dtype == first[one.family]]
            overview = pictures(gpu, ladders, {*kinds} & {"overview"}, tree)
            kinds = ("ladder",)
            drawn = itertools.chain(overview, pictures(gpu, main_ladders, kinds, tree))
        if "sizes" in kinds and not options.problem:
            drawn = itertools.chain(drawn, size_pictures(gpu, ladders, tree))
    else:
        ladders = ladder_csv.select(rows, **chosen)
        counted = [one for one in ladders if any(r.moved_bytes > 0 for r in one.rows)]
        if not counted:
            raise LadderError(
                f"{options.csv} has only rows of the host executor, which have no times, and no "
                "counted bytes (column moved_bytes): there is nothing to draw."
            )
        ladder_csv.needs_package("matplotlib")
        groups = {
            (one.family, one.dtype): [
                c for c in counted if (c.family, c.dtype) == (one.family, one.dtype)
            ]
            for one in counted
        }
        drawn = ((file_name(*key, "bytes"), draw_counted(group)) for key, group in groups.items())
    names: list[str] = []
    for name, figure in drawn:
        for suffix in (".png", ".svg"):
            try:
                save(figure, options.output / (name + suffix))
            except OSError as error:
                raise LadderError(
                    f"{options.output} cannot be written: {error.strerror}."
                ) from None
        print(options.output / (name + ".png"))
        names.append(name)
    if not names:
        raise LadderError(
            "Nothing to draw over size: no ladder chosen has two problems with a measured roof."
            if options.kind == "sizes"
            else "The rows chosen have no operations, so there is no roofline: --kind=ladder."
        )
    index = write_index(names, options.csv, options.output)
    print(f"{len(names)} pictures, each as .png and .svg; {index} shows them.")


if __name__ == "__main__":
    ladder_csv.run(main)
