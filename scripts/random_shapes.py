#!/usr/bin/env python3
"""How fast is a GEMM ladder's last rung on shapes that nobody tuned, beside the vendor's library?

  measure  draws problems MxNxK by a seed, and lets ./bench check and time the version and the vendor's
           on them, in equal rounds: one CSV, and its table
  table    of such CSVs, in Markdown: how the ratios are spread, the worst shapes, those below the bar
  plot     of such CSVs, as SVG: each shape's ratio against its work, a panel for each operation

The ratio is the time of the better of the vendor's versions over this one's, vs_library: above 1 it is
faster. A ratio that the run can't tell from 1 is marked "level". Shapes that a fit of scripts/autotune.py
had seen before say nothing of others: they have a line of their own in the table, and count nowhere else.
Where a version of the vendor's was wrong there is no ratio.

M, N and K are log-uniform between --low and --high, and multiples of --multiple. Left out are problems of
more than 400 GFLOP (gemm: 140 GFLOP), because at the power limit ./bench waits for seconds until the clock
has settled, and those that need more than 8 GB with their reference. A seed draws the same problems
everywhere, and --count=20 the first 20 of --count=200.

examples:
  scripts/random_shapes.py measure --family=gemm_tensor
  scripts/random_shapes.py measure --family=gemm_tensor --ops=nt --count=50 --seed=7 --out=nt.csv
  scripts/random_shapes.py measure --family=gemm_tensor --version=v20,v28
  scripts/random_shapes.py measure --family=gemm --multiple=1
  scripts/random_shapes.py table random-*-shapes.csv
  scripts/random_shapes.py plot random-*-shapes.csv --out=random.svg
"""

from __future__ import annotations

import argparse
import math
import random
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Iterable, NamedTuple, Sequence

import ladder
import ladder_csv
import roofline
from colours import COLOURS
from ladder_csv import LadderError, Row, natural, percent, time_text
from tuning.seen import had_seen, seen

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Family(NamedTuple):
    ops: tuple[str, ...]  # by default; "" where there is only one
    dtype: str  # by default
    most_flops: float  # of a problem


FAMILIES = {"gemm": Family(("",), "f32", 1.4e11), "gemm_tensor": Family(("nn", "nt", "tn"), "bf16", 4e11)}
MOST_BYTES = 8e9  # of a problem with its reference
LARGEST = 1 << 30  # number in a problem
MOST_COUNT = 5000  # that a command line has room for
PER_PROBLEM = 1000  # draws, before it is said that there are too few
# Of ./bench. A group has at least 8 rounds and ends with the A/A's interval at 1 %, or after 0.3 s.
SAMPLING = ("--min-samples=8", "--target=1", "--max-seconds=0.3")
BARS = (1.0, 0.9, 0.8)  # whose shares a table has
KEY = ("backend", "family", "op", "dtype", "problem", "cache", "kernel")  # of a row in one file
WORST = 10
UNBELIEVABLE = 1e9  # ratio
PASSED = "passed the checks"  # on the host executor, which has no times


# ---- Drawing problems


def draw(seed: int, count: int, low: int, high: int, multiple: int, most_flops: float) -> list[str]:
    """Different problems, MxNxK."""
    first, last = -(-low // multiple), high // multiple
    if first > last:
        raise LadderError(f"There is no multiple of {multiple} from {low} to {high}.")
    rng = random.Random(seed)

    def number() -> int:
        """floor(x) of a log-uniform x: small numbers are as they come, large ones log-uniform."""
        drawn = math.floor(first * math.pow((last + 1) / first, rng.random()))
        return multiple * min(drawn, last)  # rounding may reach last + 1

    found: dict[str, None] = {}
    for _ in range(PER_PROBLEM * count):
        m, n, k = number(), number(), number()
        if 2 * m * n * k <= most_flops and memory(m, n, k) <= MOST_BYTES:
            found[f"{m}x{n}x{k}"] = None
            if len(found) == count:
                return [*found]
    raise LadderError(
        f"Of {PER_PROBLEM * count} problems drawn only {len(found)} are different, have at most "
        f"{most_flops / 1e9:.0f} GFLOP and fit into {MOST_BYTES / 1e9:.0f} GB: ask for fewer, or for "
        "another --low and --high."
    )


def memory(m: int, n: int, k: int) -> float:
    """At most, in bytes: of elements of 4 bytes, beside them the operands in fp64, and of each element
    of C the answer and its magnitude."""
    return (m * k + k * n) * (4 + 8) + m * n * (4 + 16)


# ---- Measuring


def measure(options: argparse.Namespace) -> int:
    family = FAMILIES.get(options.family)
    if family is None:
        raise LadderError(
            f"Random shapes are for {' and '.join(FAMILIES)}, whose problems are MxNxK; for "
            f"{options.family} there is ./bench --{options.family}=random:{options.count}."
        )
    if options.family == "gemm" and options.ops:
        raise LadderError("gemm has one operation: leave --ops out.")
    ops = tuple(options.ops.split(",")) if options.ops else family.ops
    dtype = options.dtype or family.dtype
    for option, text in (("--ops", "".join(ops)), ("--dtype", dtype), ("--version", options.version)):
        if not re.fullmatch(r"\w+(,\w+)*" if option == "--version" else r"\w*", text):
            raise LadderError(f"{option} is {text!r}, not what ./bench --list shows.")
    seed = options.seed if options.seed is not None else time.time_ns() % (1 << 32)
    problems = draw(seed, options.count, options.low, options.high, options.multiple, family.most_flops)
    program = ladder.bench(options.build)
    out = options.out or Path(f"random-{options.family}-{dtype}-{seed}-shapes.csv")
    names = f"({'|'.join(ops)})/{dtype}" if any(ops) else dtype
    command = [
        str(program), f"--backend={options.backend}", f"--seed={seed}", f"--csv={out}",
        f"--benchmark_filter=^{options.family}/{names}/({options.version.replace(',', '|')})(_[a-z0-9_]+)?/",
        f"--{options.family}={','.join(problems)}", f"--processes={options.processes}", *SAMPLING,
    ]  # fmt: skip
    before = written(out)
    print(f"Seed {seed}: {len(problems)} problems, {problems[0]} to {problems[-1]}.", flush=True)
    if known := [problem for problem in problems if problem in seen(options.family)]:
        print(f"Of these a fit has seen {', '.join(known)}: they are kept apart.", flush=True)
    began = time.monotonic()
    code = subprocess.run(command).returncode
    if code not in (0, 1) or written(out) == before:
        return code or 1  # 1 with a CSV: a version was wrong, and has a row that says so
    rows = read([out])
    seconds = time.monotonic() - began
    missing = [op for op in ops if op not in {r.op for r in rows if not r.is_baseline}]
    if missing:
        raise LadderError(
            f"{options.version} does not have {', '.join(missing)} in {dtype}; {out} has the rest."
        )
    groups = {ladder_csv.group(r) for r in rows}
    print(f"\n{len(groups)} groups in {seconds:.0f} s, {seconds / len(groups):.2f} s each: {out}\n")
    print(table_text(rows, options.bar))
    return code


def written(path: Path) -> int:
    """When; 0 if it is not there."""
    return path.stat().st_mtime_ns if path.exists() else 0


# ---- What the CSVs say


class Line(Row):
    """A row with what only random shapes need of it; empty where the CSV does not tell."""

    seed: str = ""
    block: str = ""
    reason: str = ""

    @property
    def is_seen(self) -> bool:
        """By a fit, before it was measured."""
        return had_seen(self.family, self.problem, self.timestamp)


class Shape(NamedTuple):
    """A problem that the version and the vendor's were timed on."""

    row: Line
    vendor: Line

    @property
    def ratio(self) -> float:
        return self.row.vs_library

    @staticmethod
    def of(row: Line, vendors: Iterable[Line]) -> Shape | None:
        """None without a time of both, and where a vendor's version was wrong: the other may be no rival."""
        vendors = list(vendors)
        vendor = next((r for r in vendors if r.kernel == row.library), None)
        if any(r.verdict == "incorrect" for r in vendors):
            return None
        if not row.timed or not row.vs_library > 0 or not vendor:
            return None
        if not 1 / UNBELIEVABLE < row.vs_library < UNBELIEVABLE:
            raise LadderError(f"{row.kernel} at {row.problem} has {row.vs_library} as its vs_library.")
        return Shape(row, vendor)


class Ladder(NamedTuple):
    """A version in one operation and type, with one seed or several."""

    family: str
    op: str
    dtype: str
    kernel: str
    cache: str
    seed: str  # "" for all
    is_seen: bool  # by a fit
    shapes: tuple[Shape, ...]

    @property
    def title(self) -> str:
        cache = "" if self.cache == "cold" else self.cache
        return " ".join(
            filter(None, (self.family, self.op, self.dtype, self.kernel.partition("_")[0], cache))
        )

    @property
    def judged(self) -> tuple[Shape, ...]:
        """Without those that are for the most part a launch, whatever the version."""
        return tuple(s for s in self.shapes if not s.row.is_short)

    @property
    def counted(self) -> str:
        """How many its mean is of."""
        of = f"{len(self.judged)} of " if len(self.judged) < len(self.shapes) else ""
        return f"{of}{len(self.shapes)} shapes"

    @property
    def mean(self) -> float:
        """Geometric; NaN of none."""
        logs = [math.log(s.ratio) for s in self.judged]
        return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan

    def share(self, bar: float) -> float:
        return sum(s.ratio >= bar for s in self.judged) / max(len(self.judged), 1)


def ladders(rows: Sequence[Line]) -> list[Ladder]:
    """By operation and seed; rows of several files are apart by their seeds."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for row in rows:
        if not row.is_roof and not row.is_peer:
            groups.setdefault((*ladder_csv.group(row), row.seed), []).append(row)
    found: dict[tuple[str, str, str, str, str, str, bool], list[Shape]] = {}
    for group in groups.values():
        vendors = [r for r in group if r.is_baseline]
        for row in group:
            if not row.is_baseline and (shape := Shape.of(row, vendors)):
                key = (row.family, row.op, row.dtype, row.kernel, row.cache, row.seed, row.is_seen)
                found.setdefault(key, []).append(shape)
    return [Ladder(*key, tuple(shapes)) for key, shapes in sorted(found.items())]


def of_all_seeds(found: Sequence[Ladder]) -> list[Ladder]:
    """Without the shapes that a fit has seen."""
    merged: dict[tuple[str, ...], Ladder] = {}
    for one in not_seen(found):
        before = merged[one[:5]].shapes if one[:5] in merged else ()
        merged[one[:5]] = one._replace(seed="", shapes=before + one.shapes)
    return [*merged.values()]


def not_seen(found: Iterable[Ladder]) -> list[Ladder]:
    return [one for one in found if not one.is_seen]


def read_lines(path: Path) -> list[Line]:
    table = ladder_csv.read_table(path)
    lines = {(*ladder_csv.group(row), row.kernel): Line(*row) for row in ladder_csv.rows_of(table)}
    for _, cells in table.lines:
        line = lines[tuple(cells[column] for column in KEY)]
        line.seed, line.block, line.reason = (cells.get(c, "") for c in ("seed", "block", "reason"))
    return [*lines.values()]


def read(paths: Sequence[Path]) -> list[Line]:
    """Of one GPU. Of two rows for one measurement with one seed the later counts."""
    rows = [row for path in paths for row in read_lines(path)]
    devices = list(dict.fromkeys(r.device for r in rows))
    if len(devices) > 1:
        raise LadderError(f"The CSVs are of different GPUs, {' and '.join(devices)}: one at a time.")
    return [*{(*ladder_csv.group(row), row.kernel, row.seed): row for row in rows}.values()]


def timed_ladders(rows: Sequence[Line]) -> list[Ladder]:
    found = ladders(rows)
    if not found:
        raise LadderError(
            "No problem has the times of a version and of the vendor's library (column vs_library): "
            "they are measured on a GPU, by ./bench --backend=cuda."
        )
    return found


def source(rows: Sequence[Row]) -> str:
    """Where they come from."""
    commits = ", ".join(dict.fromkeys(r.git_sha[:10] for r in rows))
    return roofline.source(rows[0]._replace(git_sha="")) + f" · commit {commits}"


# ---- The table


def table_text(rows: Sequence[Line], bar: float) -> str:
    """Markdown."""
    parts = []
    if found := ladders(rows):
        parts += [summary(found), worst(not_seen(found)), below(found, bar)]
        parts.append(f"{source(rows)}.")
    parts.append(not_timed(rows))
    return "\n\n".join(filter(None, parts))


def summary(found: Sequence[Ladder]) -> str:
    lines = [
        "| version | seed | shapes | geometric mean | "
        + " | ".join(f"≥ {bar:g}" for bar in BARS)
        + " | least | level | short, left out |",
        "|---|---|---:|---:|" + "---:|" * len(BARS) + "---:|---:|---:|",
    ]  # fmt: skip
    totals = {one[:5]: one for one in of_all_seeds(found)}
    seeds = Counter(one[:5] for one in not_seen(found))
    for i, one in enumerate(found):
        lines.append(summary_line(one, one.seed + ", seen by a fit" * one.is_seen))
        is_last = i + 1 == len(found) or found[i + 1][:5] != one[:5]
        if is_last and seeds[one[:5]] > 1:
            lines.append(summary_line(totals[one[:5]], "all"))
    return "\n".join(lines)


def summary_line(one: Ladder, seed: str) -> str:
    shares = " | ".join(percent(100 * one.share(bar)) for bar in BARS)
    short = len(one.shapes) - len(one.judged)
    if not one.judged:
        return f"| {one.title} | {seed} | {len(one.shapes)} |" + " |" * (len(BARS) + 3) + f" {short} |"
    least = min(s.ratio for s in one.judged)
    level = sum(s.row.is_level for s in one.judged)
    return (f"| {one.title} | {seed} | {len(one.shapes)} | {one.mean:.3f} | {shares} | {least:.2f} "
            f"| {level} | {short} |")  # fmt: skip


def worst(found: Sequence[Ladder]) -> str:
    if not found:
        return ""
    shapes = sorted((s.ratio, i, s) for i, s in enumerate(s for one in found for s in one.shapes))
    lines = [
        f"The {min(WORST, len(shapes))} worst:", "",
        "| version | problem | ratio | time | the vendor's | with | threads |",
        "|---|---|---:|---:|---:|---|---:|",
    ]  # fmt: skip
    for _, _, shape in shapes[:WORST]:
        row, vendor = shape.row, shape.vendor
        version = " ".join(filter(None, (row.family, row.op, row.dtype, row.short_name)))
        level = " (level)" if shape.row.is_level else ""
        level += " (short)" if shape.row.is_short else ""
        lines.append(f"| {version} | {row.problem} | {shape.ratio:.2f}{level} | {time_text(row.time_us)} "
                     f"| {time_text(vendor.time_us)} | {vendor.short_name} | {threads(row) or ''} |")  # fmt: skip
    return "\n".join(lines)


def below(found: Sequence[Ladder], bar: float) -> str:
    """Names all shapes below the bar."""
    lines = []
    for one in of_all_seeds(found):
        low = sorted((s for s in one.shapes if s.ratio < bar), key=lambda s: s.ratio)
        names = ", ".join(
            f"{s.row.problem} ({s.ratio:.2f}{', short' if s.row.is_short else ''})" for s in low
        )
        lines.append(
            f"- {one.title}, below {bar:g}: {len(low)} of {len(one.shapes)}" + (f": {names}" if low else "")
        )
    return "\n".join(lines)


def not_timed(rows: Sequence[Line]) -> str:
    """Problems that a version or a library refused, or was wrong at, by the reason."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.timed or row.is_roof:
            continue
        what = " ".join(filter(None, (row.family, row.op, row.dtype, row.short_name)))
        said = PASSED if row.verdict == "passed" else row.verdict
        groups.setdefault((what, said, row.reason), []).append(row.problem)
    lines = []
    for (what, said, reason), problems in groups.items():
        because = f" ({reason})" if reason else ""
        named = "" if said == PASSED else ": " + ", ".join(sorted(problems, key=natural))
        lines.append(f"- {what}: {len(problems)} {said}{because}{named}")
    return "\n".join(["Not timed:", "", *lines]) if lines else ""


def table(options: argparse.Namespace) -> int:
    rows = read(options.csv)
    timed_ladders(rows)
    print(table_text(rows, options.bar))
    return 0


# ---- The plot


# Marks differ in shape, so that colour is no only difference: a dot, a square, and strokes.
MARKS = (("a", "o"), ("B", "s"), ("C", "_"), ("F", "|"))
SIZE = 3.4  # points
Y_TICKS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4, 6, 10, 20)
PANEL, LEFT, GAP = 2.75, 0.86, 0.16  # inches: a panel's width, what is left of it, and between two


def threads(row: Line) -> int:
    """Of a block of the largest launch; 0 if the CSV does not tell."""
    return math.prod(map(int, row.block.split("x"))) if re.fullmatch(r"\d+(x\d+)*", row.block) else 0


def kind(row: Line) -> str:
    """What its mark says: of a dispatcher, which kind of kernel it chose."""
    of_block = threads(row)
    if not of_block:
        return "launch unknown"
    # Of v13 and of stream-K: a producer and two consumers, a warpgroup each
    is_persistent = row.family == "gemm_tensor" and of_block == 384
    return f"{of_block} threads{', persistent' if is_persistent else ''}"


def drawn(rows: Sequence[Line]) -> list[Ladder]:
    panels = of_all_seeds(timed_ladders(rows))
    if not panels:
        raise LadderError("A fit has seen all of these shapes: measure those of another seed.")
    return panels


def draw_plot(rows: Sequence[Line], bar: float) -> Figure:
    panels = drawn(rows)
    shapes = [s for one in panels for s in one.shapes]
    counts = Counter(kind(s.row) for s in shapes)
    # The most frequent ones, in the order of their threads; the others share the last mark.
    named = sorted((name for name, _ in counts.most_common(len(MARKS))), key=natural)
    kinds = [*named, *sorted(counts.keys() - {*named}, key=natural)]
    marks = {name: MARKS[min(i, len(MARKS) - 1)] for i, name in enumerate(kinds)}
    width = max(LEFT + len(panels) * (PANEL + GAP), 6.8)
    height = 5.0
    figure = roofline.new_figure(width, height)
    vendors = "the better of " + " and ".join(dict.fromkeys(
        r.short_name for r in sorted(rows, key=lambda r: r.kernel) if r.is_baseline))  # fmt: skip
    seeds = ", ".join(sorted({s.row.seed for s in shapes}, key=natural))
    families = " and ".join(dict.fromkeys(one.family for one in panels))
    roofline.heading(figure, f"{families} on random shapes", " · ".join((
        source(rows), f"seed{'s' if ',' in seeds else ''} {seeds}")))  # fmt: skip

    x_limits = min(s.row.flops for s in shapes) / 2, max(s.row.flops for s in shapes) * 2
    lowest, highest = (f(*(s.ratio for s in shapes), 1, bar) for f in (min, max))
    room = (highest / lowest) ** 0.06
    y_limits = lowest / room, highest * room
    each = (width - LEFT - GAP * len(panels)) / len(panels)
    for i, one in enumerate(panels):
        left = LEFT + i * (each + GAP)
        axes = figure.add_axes((left / width, 0.95 / height, each / width, 2.95 / height))
        panel(axes, one, marks, x_limits, y_limits, bar)
        if i:
            axes.set_yticklabels([])
        else:
            axes.set_ylabel(f"time of {vendors},\nover the version's")
    figure.text(
        (LEFT + width - GAP) / 2 / width,
        0.5 / height,
        "useful work, GFLOP",
        ha="center",
        color=roofline.QUIET,
    )
    legend(figure, marks, bar, LEFT / width)
    return figure


def panel(axes: Axes, one: Ladder, marks: dict[str, tuple[str, str]], x_limits: tuple[float, float],
          y_limits: tuple[float, float], bar: float) -> None:  # fmt: skip
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*x_limits)
    axes.set_ylim(*y_limits)
    decades = range(math.ceil(math.log10(x_limits[0])), math.floor(math.log10(x_limits[1])) + 1)
    step = max(1, math.ceil(len(decades) / 4))
    axes.set_xticks([10.0**d for d in decades if (d - 9) % step == 0])
    ticks = [y for y in Y_TICKS if y_limits[0] <= y <= y_limits[1]]
    while len(ticks) > 1 and any(math.log(b / a) < 0.045 * math.log(y_limits[1] / y_limits[0])
                                 for a, b in zip(ticks, ticks[1:])):  # fmt: skip
        ticks = [y for i, y in enumerate(ticks) if (i - ticks.index(1)) % 2 == 0]
    axes.set_yticks(ticks)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / 1e9:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.grid(True, color=roofline.GAP, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.axhline(1, color=roofline.INK, linewidth=1.2, zorder=1.5)
    axes.axhline(bar, color=roofline.INK, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1.5)
    for name, (colour, mark) in marks.items():
        points = [(s.row.flops, s.ratio) for s in one.shapes if kind(s.row) == name]
        if points:
            draw_marks(axes, points, COLOURS[colour][0], mark)
    title = " ".join(filter(None, (one.op, one.dtype, one.kernel.replace("_", " "))))
    above = axes.transAxes
    axes.text(0, 1.1, title, transform=above, fontweight="bold", va="bottom")
    share = percent(100 * one.share(1))
    axes.text(0, 1.03, f"{one.counted} · mean {one.mean:.2f} · {share} ≥ 1", transform=above,
              color=roofline.QUIET, fontsize=8, va="bottom")  # fmt: skip


def draw_marks(axes: Axes, points: Sequence[tuple[float, float]], colour: str, mark: str) -> None:
    """All in one path, which keeps the file small: each mark is a line, of next to no length where its cap
    makes it a dot or a square. Of none, or once its ends snap to a pixel, a PNG has no mark."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    box = axes.get_window_extent()
    points_of = 72 / axes.get_figure().dpi  # typographic, of a pixel

    def half(limits: tuple[float, float], pixels: float, size: float) -> float:
        return float((limits[1] / limits[0]) ** (size / (pixels * points_of)))

    wide, tall = {"_": (SIZE, 0), "|": (0, SIZE)}.get(mark, (1e-6, 0))
    across, up = half(axes.get_xlim(), box.width, wide), half(axes.get_ylim(), box.height, tall)
    ends = [(x * across**side, y * up**side) for x, y in points for side in (-1, 1)]
    path = Curve(ends, [Curve.MOVETO, Curve.LINETO] * len(points))
    path.should_simplify = False
    axes.add_patch(PathPatch(
        path, edgecolor=colour, facecolor="none", zorder=3, snap=False, linewidth=SIZE if mark in "os" else 1.5,
        capstyle={"o": "round", "s": "projecting"}.get(mark, "butt"),
    ))  # fmt: skip


def legend(figure: Figure, marks: dict[str, tuple[str, str]], bar: float, left: float) -> None:
    from matplotlib.lines import Line2D

    names: dict[tuple[str, str], list[str]] = {}
    for name, look in marks.items():
        names.setdefault(look, []).append(name)
    handles = [
        Line2D([], [], linestyle="none", marker=mark, color=COLOURS[colour][0],
               markersize=2 * SIZE if mark in "_|" else SIZE + 1.5,
               markeredgewidth=1.5 if mark in "_|" else 0,
               label=of_mark[0] if len(of_mark) == 1 else "others")
        for (colour, mark), of_mark in names.items()
    ]  # fmt: skip
    handles.append(Line2D([], [], color=roofline.INK, linewidth=1.2, label="as fast"))
    handles.append(Line2D([], [], color=roofline.INK, linewidth=1.2, linestyle=(0, (4, 3)), label=f"{bar:g}"))
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(left - 0.01, 0.0), ncols=len(handles),
                  frameon=False, fontsize=8, handlelength=1.5, columnspacing=1.3)  # fmt: skip


def describe(panels: Iterable[Ladder]) -> str:
    """What a reader who does not see the picture is told."""
    return " ".join(
        f"{one.title}: {one.counted}, {one.mean:.2f} of the vendor's speed in the geometric mean, "
        f"{min(s.ratio for s in one.shapes):.2f} at least."
        for one in panels
    )


def plot(options: argparse.Namespace) -> int:
    if options.out.suffix not in (".svg", ".png"):
        raise LadderError(f"{options.out} must end in .svg or .png.")
    rows = read(options.csv)
    description = describe(drawn(rows))
    ladder_csv.needs_package("matplotlib")
    try:
        roofline.save(draw_plot(rows, options.bar), options.out, description)
    except OSError as error:
        raise LadderError(f"{options.out} cannot be written: {error.strerror}.") from None
    print(options.out)
    return 0


# ---- The command line


def at_least(least: int, most: int = LARGEST) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,20}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} to {most}")
        return int(text)

    return parse


def bar_of(text: str) -> float:
    value = float(text) if re.fullmatch(r"\d*\.?\d+", text) else 0.0
    if not 0.1 <= value <= 10:
        raise argparse.ArgumentTypeError(f"{text} is not a ratio from 0.1 to 10")
    return value


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = whole.add_subparsers(dest="command", metavar="measure|table|plot", required=True)

    one = commands.add_parser("measure", help="draw problems, and let ./bench time them")
    one.set_defaults(run=measure)
    one.add_argument("--family", required=True, help=" or ".join(FAMILIES))
    one.add_argument("--ops", default="", metavar="OP,…", help="(default: nn,nt,tn; gemm has one)")
    one.add_argument("--dtype", default="", help="(default: bf16; of gemm f32)")
    one.add_argument("--version", default="v20", help="beside the vendor's, or several: v20,v28 (default: v20)")
    one.add_argument("--count", type=at_least(1, MOST_COUNT), default=200, metavar="N",
                     help="problems (default: 200)")  # fmt: skip
    one.add_argument("--seed", type=at_least(0, 2**64 - 1), metavar="N", help="(default: of the clock)")
    one.add_argument("--multiple", type=at_least(1), default=8, metavar="N",
                     help="of which M, N and K are (default: 8)")  # fmt: skip
    one.add_argument("--low", type=at_least(1), default=16, metavar="N", help="(default: 16)")
    one.add_argument("--high", type=at_least(1), default=16384, metavar="N", help="(default: 16384)")
    one.add_argument("--build", type=Path, metavar="DIR",
                     help="where ./bench is (default: build/release, else build/host)")  # fmt: skip
    one.add_argument("--backend", choices=("cuda", "host"), default="cuda",
                     help="host: only checked, on the CPU, which takes small problems")  # fmt: skip
    one.add_argument("--processes", type=at_least(1, 100), default=1, metavar="N",
                     help="that measure each problem; 3 for what is published (default: 1)")  # fmt: skip
    one.add_argument("--out", type=Path, metavar="FILE.csv",
                     help="(default: random-FAMILY-DTYPE-SEED-shapes.csv)")  # fmt: skip

    two = commands.add_parser("table", help="what CSVs say, in Markdown")
    two.set_defaults(run=table)
    three = commands.add_parser("plot", help="ratios against work, as a picture")
    three.set_defaults(run=plot)
    three.add_argument("--out", type=Path, required=True, metavar="FILE.svg", help=".svg or .png")
    for reads in (two, three):
        reads.add_argument("csv", nargs="+", type=Path, metavar="FILE.csv", help="what measure wrote")
    for command in (one, two, three):
        command.add_argument("--bar", type=bar_of, default=0.9, metavar="RATIO",
                             help="shapes below it are named (default: 0.9)")  # fmt: skip
    return whole


def main() -> int:
    options = parser().parse_args()
    return int(options.run(options))


if __name__ == "__main__":
    ladder_csv.run(main)
