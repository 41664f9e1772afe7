"""What roofline.py and update_readme.py share: the CSV of ./bench, the ladders in it, their roofs.

Needs nothing but Python 3.10, so that a table can be checked where nothing can be drawn.
"""

import codecs
import csv
import functools
import importlib.util
import io
import itertools
import math
import os
import re
import signal
import statistics
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Callable, Iterable, NamedTuple, NoReturn, Sequence

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build" / "venv"

# The problem that a family is judged by; for the others it is the largest.
MAIN_PROBLEMS = {"gemm": ("4096x4096x4096",), "softmax": ("8192x4096",),
                 "layernorm": ("8192x4096",), "rmsnorm": ("8192x4096",),
                 "attention": ("4x16x4096x128", "64x32:8x1:4096x128")}  # fmt: skip
MEMORY = ("dram", "memory", "copy", "read", "write")  # names that the device memory goes by
DTYPES = ("f32", "f16", "bf16", "tf32", "e4m3", "e5m2", "e2m1", "f64", "i4", "i8", "i32", "i64", "u8",
          "u32", "u64")  # in the order of tables
NOT_TEXT = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"  # what XML, and so an SVG, cannot have
VENDORS = {"cublas": "cuBLAS", "cublaslt": "cuBLASLt", "cub": "CUB", "cudnn": "cuDNN"}


class LadderError(Exception):
    """Something a user can mend, said in one sentence."""


class Row(NamedTuple):
    """A line of the CSV; a number that is not there is NaN, a text that is not there is empty."""

    family: str
    op: str
    kernel: str
    dtype: str
    problem: str
    backend: str
    device: str
    verdict: str
    cache: str
    time_us_median: float
    flops: float
    bytes: float
    gflops: float
    gbps: float
    library: str  # the fastest of the vendor's versions, in all rows of a group
    vs_library: float
    registers: float
    occupancy: float
    git_sha: str
    timestamp: str
    # Columns that older files lack
    values: str = ""  # the problem's fields: rows=8192 cols=4096
    roof: str = ""
    roof_pct: float = math.nan
    suspect: str = ""
    pin_gbps: float = math.nan
    pin_gflops: float = math.nan
    moved_bytes: float = math.nan
    time_us: float = math.nan  # of an older file, the median
    aa_ratio: float = math.nan  # present says that the row is of the protocol of equal rounds
    aa_low: float = math.nan
    aa_high: float = math.nan
    resolution_pct: float = math.nan
    vs_library_low: float = math.nan
    vs_library_high: float = math.nan
    vs_fastest_high: float = math.nan
    fastest: str = ""
    settled: str = ""
    burst_us: float = math.nan
    processes: float = math.nan  # that measured it; older files: one
    between_pct: float = math.nan  # the deviation of their times; of several
    joules: float = math.nan  # of a launch at the power limit
    launch_us: float = math.nan  # an empty launch
    short: str = ""  # "yes": the problem's fastest takes less than three of them
    code: str = ""  # the hash of what decides its compiled kernels

    @property
    def timed(self) -> bool:
        return self.verdict == "passed" and self.time_us > 0

    @property
    def is_baseline(self) -> bool:
        return self.kernel.startswith("v00")

    @property
    def is_peer(self) -> bool:
        return is_peer(self.kernel)

    @property
    def is_roof(self) -> bool:
        return is_roofs(self.family)

    @property
    def place(self) -> tuple[bool, list[tuple[int, str]]]:
        return place(self.kernel)

    @property
    def is_suspect(self) -> bool:
        return self.suspect.lower() in ("true", "1", "yes")

    @property
    def is_fastest(self) -> bool:
        """The fastest version of its ladder, or one that its run can't tell apart from it. Older files say so
        of one whose interval is below 1 by less than the resolution, too."""
        return self.fastest == "yes" and not self.vs_fastest_high < 1

    @property
    def at_power_limit(self) -> bool:
        return self.settled == "yes"

    @property
    def is_short(self) -> bool:
        """Is it for the launch that it takes its time, whatever the version? No mean counts it."""
        return self.short == "yes"

    @property
    def is_level(self) -> bool:
        """Can its run not tell its speed from the library's? Not known of older files."""
        known = self.kernel != self.library and self.resolution_pct >= 0
        return known and self.vs_library_low <= 1 <= self.vs_library_high

    @property
    def number(self) -> int:
        """5 of v05_tile2d; 0 if the kernel has none."""
        found = re.match(r"v(\d+)", self.kernel)
        return int(found[1]) if found else 0

    @property
    def name(self) -> str:
        """v05_tile2d as people read it: v05 tile2d."""
        return self.kernel.replace("_", " ")

    @property
    def short_name(self) -> str:
        """v05 of v05_tile2d, v30_32 of v30_block_size_32."""
        number = self.kernel.partition("_")[0]
        file = file_of(self.family, self.kernel)
        return number + self.kernel[len(label(file)) :] if file else number


def is_roofs(family: str) -> bool:
    """Whether a family measures what the machine can do, for the others to be held against."""
    return family == "roofs"


def is_peer(kernel: str) -> bool:
    """Another program's time, by scripts/peers_torch.py: p01_torch."""
    return re.match(r"p\d", kernel) is not None


def place(kernel: str) -> tuple[bool, list[tuple[int, str]]]:
    """In a ladder: peers come last."""
    return is_peer(kernel), natural(kernel)


class Roof(NamedTuple):
    """A limit in 10^9 bytes or operations per second: the measured one, and the one that the GPU's
    clocks promise. Either may be NaN, which is unknown, but not both."""

    name: str
    value: float
    pin: float = math.nan

    @property
    def is_compute(self) -> bool:
        return is_compute(self.name)

    @property
    def line(self) -> float:
        """What a picture can be laid out by."""
        return self.value if self.value > 0 else self.pin

    @property
    def top(self) -> float:
        return max(r for r in (self.value, self.pin) if r > 0)


def results_folder(gpu: str, root: Path = ROOT) -> Path:
    """results/h100 for an NVIDIA H100 80GB HBM3."""
    found = re.search(r"(h|a|b|l|t|v)\d+|[rg]tx *\d+( ti)?", gpu.lower())
    return root / "results" / (found[0].replace(" ", "") if found else "gpu")


def is_compute(roof: str) -> bool:
    return roof.startswith(("fma", "mma", "wgmma"))


def roof_title(name: str) -> str:
    """A roof's name as people write it."""
    unit, space, dtype = name.partition(" ")
    title = unit.upper() if unit in ("dram", "l2", "fma", "mma", "wgmma") else unit
    return title + space + dtype


@dataclass(frozen=True)
class Ladder:
    """The versions of one operation, dtype, problem and cache state, in order."""

    rows: tuple[Row, ...]

    @property
    def family(self) -> str:
        return self.rows[0].family

    @property
    def op(self) -> str:
        return self.rows[0].op

    @property
    def dtype(self) -> str:
        return self.rows[0].dtype

    @property
    def problem(self) -> str:
        return self.rows[0].problem

    @property
    def cache(self) -> str:
        return self.rows[0].cache

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.family, self.op, self.dtype)))

    @property
    def timed(self) -> list[Row]:
        return [r for r in self.rows if r.timed]

    @property
    def rungs(self) -> list[Row]:
        return [r for r in self.timed if not r.is_baseline and not r.is_peer]

    @property
    def baselines(self) -> list[Row]:
        return [r for r in self.timed if r.is_baseline]

    @property
    def library(self) -> Row | None:
        """The vendor's version that the others are compared with."""
        return next((r for r in self.baselines if r.kernel == r.library), None)

    @property
    def peers(self) -> list[Row]:
        return [r for r in self.timed if r.is_peer]

    @property
    def sections(self) -> list[list[Row]]:
        """The timed rows, cut where the numbers leap to a new ten: v01 to v05, then v10 to v13; and
        before the peers."""
        parts: list[list[Row]] = []
        for row in self.timed:
            last = parts[-1][-1] if parts else row
            leap = row.number > last.number + 1 and row.number % 10 == 0
            if leap or row.is_peer != last.is_peer or not parts:
                parts.append([])
            parts[-1].append(row)
        return parts

    @property
    def tied(self) -> list[Row]:
        """The fastest versions of ours, in order: those that their run can't tell apart, or the one
        of an older file. What beats its roof is suspect and wins only if all do."""
        tied = [r for r in self.rungs if r.is_fastest]
        return tied or sorted(self.rungs, key=lambda r: (r.is_suspect, r.time_us))[:1]

    @property
    def best(self) -> Row | None:
        """The simplest of the fastest."""
        return min(self.tied, key=lambda r: r.number, default=None)

    def tied_with(self, row: Row, most: int = 99) -> str:
        """Of one of the fastest: ", tied with v07, v10", or how many they are if they are more."""
        names = [r.short_name for r in self.tied if r is not row]
        if not names or row not in self.tied:
            return ""
        return f", tied with {', '.join(names) if len(names) <= most else f'{len(names)} others'}"

    @property
    def at_power_limit(self) -> bool:
        return any(r.at_power_limit for r in self.timed)

    @property
    def is_short(self) -> bool:
        return any(r.is_short for r in self.timed)

    @property
    def is_compute(self) -> bool:
        """Is its speed told in operations per second, or in bytes?"""
        roofs = {r.roof for r in self.timed if r.roof}
        if roofs:
            return any(is_compute(roof) for roof in roofs)
        return self.rows[0].flops > 10 * self.rows[0].bytes

    @property
    def vendor(self) -> str:
        """What the column vs_library compares with, as it spells itself; empty if with nothing."""
        for row in self.rows:
            if row.library:
                name = row.library.split("_", 1)[-1]
                return VENDORS.get(name, name)
        return ""

    def speed(self, row: Row) -> float:
        return row.gflops if self.is_compute else row.gbps


# ---- The tree


KERNELS = ROOT / "src" / "kernels"


def label(path: Path) -> str:
    """v05_tile2d of v05_tile2d.cu and of v05_tile2d.gpu.cu."""
    return path.name.split(".")[0]


@functools.cache
def file_of(family: str, kernel: str, kernels: Path = KERNELS) -> Path | None:
    """The source that registers a kernel: of v05_tile2d the file with this label; of v30_block_size_32,
    one of several in v30_block_size.cu, that whose label and "_" it begins with. None if there is none."""
    files = (kernels / family).glob("v[0-9]*.cu")
    return next((file for file in files if f"{kernel}_".startswith(f"{label(file)}_")), None)


def idea(row: Row) -> str:
    """What the head of a version's file says as its idea, on one line; empty without a file."""
    file = file_of(row.family, row.kernel)
    text = file.read_text(encoding="utf-8") if file else ""
    found = re.search(r"^// Idea +((?:.*\n//  +)*.*)", text, re.MULTILINE)
    return re.sub(r"\s*\n//\s+", " ", found[1]) if found else ""


# ---- Reading


# Columns of older files, whose rows are compared with the first of the vendor's versions
OLDER = {"baseline": "library", "vs_baseline": "vs_library", "vs_baseline_low": "vs_library_low",
         "vs_baseline_high": "vs_library_high"}  # fmt: skip


class Table(NamedTuple):
    """A CSV that ./bench wrote, as texts."""

    path: Path
    columns: list[str]
    lines: list[tuple[int, dict[str, str]]]  # each with its number in the file


def read_table(path: Path) -> Table:
    """Reads it once, since it may be a pipe. What spreadsheets leave behind, a byte order mark and empty lines,
    doesn't count."""
    lines: list[tuple[int, dict[str, str]]] = []
    columns: list[str] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for line in reader:
                if not any(line):
                    continue
                if odd := re.search(NOT_TEXT, "".join(line)):
                    raise LadderError(
                        f"{path}, line {reader.line_num}: a field has the character {odd[0]!r}."
                    )
                if not columns:
                    columns = line
                elif len(line) != len(columns):
                    raise LadderError(
                        f"{path}, line {reader.line_num}: {len(line)} fields, "
                        f"but {len(columns)} columns."
                    )
                else:
                    lines.append((reader.line_num, dict(zip(columns, line))))
    except OSError as error:
        raise LadderError(f"{path} cannot be read: {error.strerror}.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise LadderError(f"{path} is not a CSV of ./bench: {error}.") from None
    if not columns:
        raise LadderError(f"{path} is empty.")
    for separator, what in (";", "semicolons"), ("\t", "tabs"):
        if len(columns) == 1 and separator in columns[0]:
            raise LadderError(
                f"{path} has {what} between its fields, as spreadsheets save in some languages; save it with commas, "
                "and with points in its numbers."
            )
    return Table(path, columns, lines)


def read(path: Path) -> list[Row]:
    """The rows of a CSV that ./bench wrote. Of two for one measurement the later counts."""
    return rows_of(read_table(path))


def rows_of(table: Table) -> list[Row]:
    path = table.path
    texts = {name for name, kind in Row.__annotations__.items() if kind is str}
    optional = Row._field_defaults
    rows: dict[tuple[str, ...], Row] = {}
    names = {name: OLDER.get(name, name) for name in table.columns}
    missing = [n for n in Row._fields if n not in names.values() and n not in optional]
    if missing:
        raise LadderError(f"{path} is not a CSV of ./bench: no column {missing[0]!r}.")
    for number, line in table.lines:
        cells = {names[column]: text for column, text in line.items()}
        values: dict[str, str | float] = {}
        for name in Row._fields:
            if name not in cells:
                continue
            try:
                text = cells[name]
                values[name] = text if name in texts else float(text or "nan")
            except ValueError:
                raise LadderError(f"{path}, line {number}: {name} is {text!r}, not a number.") from None
        row = Row(**values)  # type: ignore[arg-type]
        if math.isnan(row.time_us):
            row = row._replace(time_us=row.time_us_median)
        rows[(*group(row), row.kernel)] = row
    if not rows:
        raise LadderError(f"{path} has no rows.")
    found = with_fastest_library(rows.values()) if "baseline" in table.columns else list(rows.values())
    return found if "short" in table.columns else with_short(found, table)


def fastest_library(timed: Iterable[tuple[str, bool, float]]) -> str:
    """Of the vendor's versions, each with whether it is suspect and its time, the one that all are compared
    with: a suspect one only if all of them are. Empty of none."""
    return min(timed, key=lambda one: one[1:], default=("",))[0]


def with_fastest_library(rows: Iterable[Row]) -> list[Row]:
    """Compares the rows of an older file with the fastest of the vendor's versions. Where they were compared
    with another, a ratio is the quotient of two to that one, because those are of the same rounds, and its
    interval has the errors of both; without them it is that of the times, and its interval unknown."""
    rows = list(rows)
    vendors: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        if row.is_baseline and row.timed:
            vendors.setdefault(group(row), {})[row.kernel] = row
    libraries = {
        of: them[fastest_library((r.kernel, r.is_suspect, r.time_us) for r in them.values())]
        for of, them in vendors.items()
    }

    def compared(row: Row) -> Row:
        library = libraries.get(group(row))
        if not library or row.library == library.kernel:
            return row
        ratio, half = library.time_us / row.time_us if row.timed else math.nan, math.nan
        if row.vs_library > 0 and library.vs_library > 0:
            ratio = row.vs_library / library.vs_library
            half = math.hypot(half_width(row), half_width(library)) if row is not library else 0
        return row._replace(library=library.kernel, vs_library=ratio, vs_library_low=ratio * (1 - half),
                            vs_library_high=ratio * (1 + half))  # fmt: skip

    return [compared(row) for row in rows]


SHORT = 3  # empty launches, as in bench/measure/row.hpp


def with_short(rows: Sequence[Row], table: Table) -> list[Row]:
    """Says of an older file's problems whether they are short, by the empty launch that the family roofs
    measured there, or else in another file beside it on the same GPU, the last by name."""
    launches: dict[tuple[str, str], float] = {}
    for file in sorted(table.path.parent.glob("*.csv")):
        if file != table.path:
            launches |= launches_beside(file, file.stat().st_mtime_ns)
    launches |= empty_launches(table)
    fastest: dict[tuple[str, ...], tuple[bool, float]] = {}  # a suspect one only if all are
    for row in rows:
        if row.timed and not row.is_peer:
            one = row.is_suspect, row.time_us
            fastest[group(row)] = min(one, fastest.get(group(row), one))

    def told(row: Row) -> Row:
        launch_us = launches.get((row.device, row.cache), math.nan)
        if not row.timed or row.is_roof or math.isnan(launch_us):
            return row
        _, us = fastest.get(group(row), (False, math.inf))
        short = us < SHORT * launch_us
        return row._replace(launch_us=launch_us, short="yes" if short else "no")

    return [told(row) for row in rows]


def empty_launches(table: Table) -> dict[tuple[str, str], float]:
    """By GPU and cache state, of a CSV's rows of the family roofs."""
    return {
        (row["device"], row["cache"]): float(row.get("time_us") or row["time_us_median"])
        for _, row in table.lines
        if (row["family"], row["op"], row["verdict"]) == ("roofs", "launch", "passed")
    }


@functools.cache
def launches_beside(path: Path, _changed: int) -> dict[tuple[str, str], float]:
    """The same of a file that may be no such CSV, and so have none."""
    try:
        if "roofs,launch," not in path.read_text(encoding="utf-8"):
            return {}
        return empty_launches(read_table(path))
    except (OSError, UnicodeDecodeError, LadderError, KeyError, ValueError):
        return {}


def half_width(row: Row) -> float:
    """Of the interval of vs_library, over it."""
    return (row.vs_library_high - row.vs_library_low) / 2 / row.vs_library


def files(root: Path = ROOT) -> list[Path]:
    """The committed measurements of ladders."""
    # Not of validate_counters, --counters, peers_torch.py, autotune, torch_operators.py
    others = re.compile(r"^counters\.csv$|-(counters|peers|(autotune|torch)-\w+)\.csv$")
    return [path for path in sorted(root.glob("results/*/*.csv")) if not others.search(path.name)]


def runs(root: Path = ROOT) -> list[Path]:
    """Those at the ladders' main problems."""
    return [path for path in files(root) if not re.search(r"-(shapes|sizes)\.csv$", path.name)]


def group(row: Row) -> tuple[str, ...]:
    """What the rows that were measured together share."""
    return row.backend, row.family, row.op, row.dtype, row.problem, row.cache


# ---- What a run can tell apart


class Resolution(NamedTuple):
    """How well a run's groups know themselves: from each one's A/A, its reference version measured
    as two contestants."""

    groups: int
    deviation: float  # the median distance of the A/A ratio from 1, in per cent
    within: float  # the share of groups, of 1, where it is at most 0.5 %
    holds_one: float  # the share of groups, of 1, where the 95 % interval holds 1
    median: float  # of resolution_pct
    worst: float

    @staticmethod
    def of(rows: Iterable[Row]) -> "Resolution | None":
        """Of the groups that rows come from; None if all are of older files."""
        groups = {group(r): r for r in rows if r.aa_ratio > 0}
        if not groups:
            return None
        deviations = [100 * abs(r.aa_ratio - 1) for r in groups.values()]
        resolutions = [r.resolution_pct for r in groups.values()]
        return Resolution(
            len(groups),
            statistics.median(deviations),
            statistics.mean(d <= 0.5 for d in deviations),
            statistics.mean(r.aa_low <= 1 <= r.aa_high for r in groups.values()),
            statistics.median(resolutions),
            max(resolutions),
        )


# ---- Choosing


ONE_LADDER = ("family", "op", "dtype", "problem", "cache")


def every_ladder(rows: Iterable[Row]) -> list[Ladder]:
    """Every problem and cache state of every ladder."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, name) for name in ONE_LADDER), []).append(row)
    return [Ladder(tuple(sorted(group, key=lambda r: r.place))) for group in groups.values()]


def select(
    rows: Iterable[Row],
    family: str = "",
    op: str = "",
    dtype: str = "",
    problem: str = "",
    cache: str = "",
) -> list[Ladder]:
    """The ladders that match, each at the given or else its main problem; an empty text means any.

    Throws LadderError, naming what there is, when nothing matches.
    """
    left = [r for r in rows if not r.is_roof]
    wanted = {"family": family, "op": op, "dtype": dtype, "problem": problem, "cache": cache}
    for column, value in wanted.items():
        if value:
            there = list(dict.fromkeys(filter(None, (getattr(r, column) for r in left))))
            left = [r for r in left if getattr(r, column) == value]
            if not left:
                asked = ", ".join(f"{c} {v}" for c, v in wanted.items() if v)
                raise LadderError(
                    f"No row has {asked}; for {column} there is {', '.join(there) or 'nothing'}."
                )
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in left:
        groups.setdefault((row.family, row.op, row.dtype), []).append(row)
    ladders = []
    for group in groups.values():
        main = problem or main_problem(group)
        rungs = sorted((r for r in group if r.problem == main), key=lambda r: r.place)
        ladders.append(Ladder(tuple(rungs)))
    if not ladders:
        raise LadderError("The CSV has no kernel's row, only measured roofs.")
    return sorted(ladders, key=lambda one: (one.family, one.op, dtype_order(one.dtype)))


def main_problem(rows: Sequence[Row]) -> str:
    for named in MAIN_PROBLEMS.get(rows[0].family, ()):
        if any(r.problem == named for r in rows):
            return named
    return max(rows, key=lambda r: (r.flops, r.bytes)).problem


def shape_of(row: Row) -> dict[str, Fraction | str]:
    """The fields of its problem, numbers as such. Older files lack `values`: those of the problem's text."""
    if row.values:
        pairs = [pair.split("=", 1) for pair in re.split(r" (?=\w+=)", row.values)]
    else:
        texts, numbers = re.split(r"\d+", row.problem), re.findall(r"\d+", row.problem)
        pairs = [["text", " ".join(texts)], *([str(i), n] for i, n in enumerate(numbers))]
    return {name: Fraction(text) if re.fullmatch(r"[\d.e+-]*\d", text) else text for name, text in pairs}


def ranges(rows: Iterable[Row]) -> list[list[str]]:
    """The ranges among their problems, whose points a line may join: three or more problems in which the
    same numbers grow by one factor and the other fields stay, as 1024x1024, 2048x2048, 4096x4096. No problem
    is in two, longer ranges come first. Left out is what is within 1 % below the next, as 8191 below 8192:
    that tells of alignment, not of size."""
    shapes = {row.problem: shape_of(row) for row in rows}
    groups: dict[tuple[object, ...], dict[str, Fraction]] = {}  # of each problem the product of what grows
    for one, other in itertools.combinations(shapes, 2):
        a, b = shapes[one], shapes[other]
        if a.keys() != b.keys():
            continue
        grows = [name for name in a if a[name] != b[name]]
        sizes = [[n for n in (shape[name] for name in grows) if isinstance(n, Fraction) and n > 0]
                 for shape in (a, b)]  # fmt: skip
        if {len(numbers) for numbers in sizes} != {len(grows)}:
            continue
        if len({m / n for n, m in zip(*sizes)}) == 1:
            aspect = [n / sizes[0][0] for n in sizes[0]]
            stays = [(name, a[name]) for name in a if name not in grows]
            group = groups.setdefault((*grows, *aspect, *stays), {})
            group.update({one: math.prod(sizes[0]), other: math.prod(sizes[1])})

    found: list[list[str]] = []
    left = {*shapes}
    for group in sorted(groups.values(), key=len, reverse=True):
        joined: list[str] = []
        for problem in sorted(group.keys() & left, key=lambda one: group[one], reverse=True):
            if not joined or group[joined[-1]] > Fraction("1.01") * group[problem]:
                joined.append(problem)
        if len(joined) >= 3:
            found.append(joined[::-1])
            left -= group.keys()
    return found


def sized_by_flops(ladders: Iterable[Ladder]) -> bool:
    """Is the size of all these problems told in operations, as they bound any of them, or in bytes?"""
    return any(one.is_compute for one in ladders)


def size_panels(ladders: Iterable[Ladder]) -> list[list[Ladder]]:
    """Of each operation and dtype, where there are several, the problems whose fastest version has a
    share of the roof, by size."""
    groups: dict[str, list[Ladder]] = {}
    for one in ladders:
        if one.best and 0 < one.best.roof_pct < math.inf:
            groups.setdefault(one.title, []).append(one)
    panels = []
    for group in groups.values():
        unit = "flops" if sized_by_flops(group) else "bytes"
        sizes = {one: getattr(one.rows[0], unit) for one in group}
        panels.append(sorted((one for one in group if 0 < sizes[one] < math.inf), key=lambda one: sizes[one]))
    panels = [panel for panel in panels if len(panel) > 1]
    return sorted(panels, key=lambda p: (p[0].family, p[0].op, dtype_order(p[0].dtype)))


def dtype_order(dtype: str) -> tuple[int, str]:
    return (DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES), dtype)


# ---- Roofs


def roofs(rows: Sequence[Row], ladder: Ladder) -> list[Roof]:
    """The roofs over a ladder: those that its rows were judged by, then those that rows of the
    family `roofs` measured and that fit it, then what only a pin rate is known of."""
    measured = [r for r in rows if r.is_roof and r.timed]
    found: dict[str, float] = {}
    for row in ladder.timed:
        if row.roof and row.roof_pct > 0:
            speed = row.gflops if is_compute(row.roof) else row.gbps
            found.setdefault(row.roof, speed / row.roof_pct * 100)

    if not any(name in MEMORY for name in found):
        moves = [r for r in measured if r.op in MEMORY and r.gbps > 0 and r.cache != "hot"]
        moves = [r for r in moves if _is_copy(r)] or moves
        if moves:  # at the size that comes nearest, because smaller ones are slower
            like = max(ladder.rows[0].bytes, 1)
            size = min((r.bytes for r in moves), key=lambda b: abs(math.log(max(b, 1) / like)))
            found["dram"] = max(r.gbps for r in moves if r.bytes == size)
        elif pin(rows, "dram") > 0:
            found["dram"] = math.nan

    if not any(is_compute(name) for name in found):
        units = ("mma", "fma") if ladder.is_compute and ladder.dtype != "f32" else ("fma",)
        for unit in units:
            for dtype in dict.fromkeys((ladder.dtype, "f32")):  # narrow types accumulate in fp32
                rates = [r.gflops for r in measured if (r.op, r.dtype) == (unit, dtype)]
                rates = [rate for rate in rates if rate > 0]
                if rates:
                    found[f"{unit} {dtype}"] = max(rates)
                    break
        if not any(is_compute(name) for name in found) and pin(rows, "fma f32") > 0:
            found["fma f32"] = math.nan
    return [Roof(name, value, pin(rows, name)) for name, value in found.items()]


def _is_copy(row: Row) -> bool:
    """Does it write as many bytes as it reads? The problem is RxW where an op has several mixes."""
    read, _, written = row.problem.partition("x")
    return row.op == "copy" or read == written


def pin(rows: Iterable[Row], name: str) -> float:
    """What the GPU's clocks promise for a roof, for example "dram" or "fma f32"; NaN if unknown."""
    if name == "fma f32":
        return next((r.pin_gflops for r in rows if r.pin_gflops > 0), math.nan)
    if name in MEMORY:
        return next((r.pin_gbps for r in rows if r.pin_gbps > 0), math.nan)
    return math.nan


# ---- Numbers as text


def digits(value: float) -> str:
    """Three significant digits, and all that stand before the point."""
    if value <= 0 or not math.isfinite(value):
        return "0" if value == 0 else ""
    # Rounded first: 9.996 is 10.0, not 10.00.
    rounded = float(f"{value:.3g}")
    return f"{value:.{max(0, 2 - math.floor(math.log10(rounded)))}f}"


def time_text(us: float) -> str:
    return f"{digits(us)} µs" if float(f"{us:.3g}") < 1000 else f"{digits(us / 1000)} ms"


def rate_text(value: float, compute: bool) -> str:
    """A rate given in 10^9 per second; one unit for all rungs, so that they can be compared."""
    return f"{digits(value / 1000)} TFLOP/s" if compute else f"{digits(value)} GB/s"


def ratio_text(row: Row) -> str:
    """The speed over the library's: 1.06; level if the run can't tell it from 1."""
    if row.is_level:
        return "level"
    if not row.vs_library > 0:
        return ""
    # What differs by less than the second digit shows, but differs, has a third.
    close = row.resolution_pct >= 0 and abs(row.vs_library - 1) < 0.005
    return f"{row.vs_library:.{3 if close and row.kernel != row.library else 2}f}"


def percent(value: float) -> str:
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def natural(text: str) -> list[tuple[int, str]]:
    """Sorts 16777216 before 268435456."""
    return [(int(t), "") if t.isdigit() else (0, t) for t in re.split(r"(\d+)", text)]


# ---- The environment


def find_package(name: str) -> bool:
    """Starts again under the interpreter in build/venv where this one lacks it: that may have it."""
    if importlib.util.find_spec(name):
        return True
    python = VENV / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(python, [str(python), *sys.argv])
    return False


def needs_package(name: str) -> None:
    if not find_package(name):
        fail(f"{name} is missing: scripts/setup installs it into build/venv.")


PLAIN = {"µ": "u", "…": "...", "·": "-", "–": "-", "—": "-", "→": "->", "←": "<-", "±": "+-", "×": "x",
         "≥": ">=", "≤": "<="}  # fmt: skip


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding lacks."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


def run(main: Callable[[], int | None], *, refused: int = 1) -> NoReturn:
    """What a script does when it is called: prints to any terminal or file, whatever its encoding, ends quietly
    where nobody reads on (… | head), and says in a sentence what a user can mend, with the exit code `refused`."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    codecs.register_error("plain", _plain)
    for stream in sys.stdout, sys.stderr:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")
    try:
        sys.exit(main())
    except LadderError as error:
        fail(error, refused)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}." if error.filename else error, refused)
    except KeyboardInterrupt:
        sys.exit(130)


def fail(sentence: object, status: int = 1) -> NoReturn:
    print(" ".join(str(sentence).split()), file=sys.stderr)  # a damaged field may have line breaks
    sys.exit(status)
