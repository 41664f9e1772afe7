#!/usr/bin/env python3
"""Compares two runs of ./bench: which kernels became faster or slower, and how sure that is.

For every kernel, problem and cache state that both CSVs have a time of, the ratio of the times,
old over new: above 1 the new run is faster. What changed is printed, and what was other about the GPU:
whether it was throttled, and its clock. Three things part the times of a program that did not
change, and all of them come from the files:

  resolution   How far apart a run sees one kernel that it measures twice, its A/A: the column
               resolution_pct of both runs. No smaller change is one.
  spread       How far the runs are apart: the GPU is in another state, buffers lie elsewhere. What
               cannot have changed shows it, the libraries and the roofs: two thirds of the 40 that
               are nearest in time, and bounded alike by memory or arithmetic, lie within it. Where
               those of the row's own group are further apart, it is so large that their median is
               at the end of a 95 % interval. Of kernels below 10 % of the memory roof that bounds
               them it is 30 %: whether these find their data in a cache depends on where it lies,
               which another process decides anew.
  error        of each time: from how far a run's processes are apart, if it had several; else from the
               samples, where `./bench --samples` wrote them beside the CSV (results.json beside
               results.csv), else as of normal samples.

p is the probability that spread and error alone take a ratio so far beyond the resolution. Of
thousands of rows some have a small p by chance, so it is adjusted as Benjamini and Hochberg do: of
the rows that are called slower or faster, at most about 5 % are so by chance.

verdicts:
  faster, slower   the adjusted p is at most 5 %
  same             it is not, and the ratio is within the threshold
  unclear          neither: a ratio beyond the threshold that may be noise, or only one of the runs
                   measured the kernel in the settled state of a power limit; measure again

exit codes:
  0   no kernel is slower by more than the threshold
  1   one is, or one that had a time has none any more: it failed, or its row is gone
  2   the runs cannot be compared

Libraries, peers and roofs do not decide the exit code.

examples:
  scripts/compare.py old.csv new.csv
  scripts/compare.py old.csv new.csv --filter='^softmax/.*/bf16' --all --sort=change
  scripts/compare.py <(git show HEAD~1:results/h200/run.csv) results/h200/run.csv
  scripts/compare.py old.csv new.csv --threshold=5 --markdown >>"$GITHUB_STEP_SUMMARY"
"""

from __future__ import annotations

import argparse
import bisect
import json
import math
import os
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Callable, NamedTuple, Sequence

import ladder_csv
from ladder_csv import LadderError, Row, natural, time_text
from ladder_statistics import middle_mean, middle_mean_error, student_t, student_within

GROUP = ("family", "op", "dtype", "problem", "cache", "backend")  # what takes turns
KEY = (*GROUP, "kernel")  # of a row
MACHINE = {"device": "GPUs", "toolkit": "toolkits", "driver": "drivers"}
BUILD = {"build": "build types", "flags": "compiler flags"}  # older files lack these
FLUSH = {"flush": "flushes of the L2"}
ALIKE = MACHINE | BUILD | FLUSH  # what must not differ
NEEDED = (*MACHINE, "samples", "rel_stdev", "roof", "roof_pct")

NORMAL_ERROR = 1.07  # of the middle mean of normal samples, over that of their mean
ALPHA = 0.05  # of the false among the rows called slower or faster; and outside of an interval
RESOLUTION = 0.005  # of a run without A/A columns
SPREAD = 0.0075  # between runs with too few libraries and roofs to show it
NEAREST, FEWEST = 40, 10  # how many of those a spread is taken from
# A scale that two thirds of n values lie within is as sure as a standard deviation of n / 2.
FREEDOM = NEAREST // 2
CLOCK = 0.02  # by how much clocks may differ without a word
LEAST_COMMON = 0.1  # of the old run's rows; what has fewer in common is no comparison
FEW = 5  # names that are listed without --all
FAR_FROM_ROOF, FAR_SPREAD = 10, 0.30  # per cent of a memory roof; the spread of what is below
SHORTEST, LARGEST = 1e-6, 1e15  # of times in microseconds, and of any number that is read
COLOURS = {"slower": "1;31", "faster": "32", "unclear": "33", "same": "2"}

Key = tuple[str, ...]


class Run(NamedTuple):
    """A row of a CSV with what only comparing needs of it."""

    row: Row
    machine: dict[str, str | None]  # of ALIKE; None: not known
    error: float  # the relative standard error of the time
    resolution: float  # as a share; NaN if the run has no A/A
    settled: str  # "yes", "no"; empty in a run that does not know
    sm_mhz: float  # the GPU's clock, the median of its group; NaN if nobody read it
    is_throttled: bool  # some of its samples were, but by the power limit that the run has waited for


# ---- Reading


def read(path: Path) -> dict[Key, Run]:
    table = ladder_csv.read_table(path)
    rows = {key(row): row for row in ladder_csv.rows_of(table)}
    missing = [column for column in NEEDED if column not in table.columns]
    if missing:
        names = ", ".join(map(repr, missing))
        raise LadderError(f"{path} cannot be compared: no column {names}.")
    samples = read_samples(path.with_suffix(".json"))
    runs: dict[Key, Run] = {}
    lines: dict[Key, int] = {}
    for at, line in table.lines:
        of = tuple(line[column] for column in KEY)
        if of in runs:
            raise LadderError(
                f"{path}, line {at}: {name(rows[of])} is in line {lines[of]} "
                f"already; a row can be compared only once."
            )
        lines[of] = at
        try:
            runs[of] = run(rows[of], line, samples.get(of, []))
        except LadderError as error:
            raise LadderError(f"{path}, line {at}: {error}") from None
    return runs


def run(row: Row, line: dict[str, str], samples: Sequence[float]) -> Run:
    """A line of the CSV; throws LadderError if it passed with numbers that cannot be."""
    error = math.nan
    for column in ("roof_pct", "gflops", "gbps"):
        number(row, line, column, 0)
    if row.verdict == "passed" and line["time_us_median"]:
        number(row, line, "time_us_median", SHORTEST)
        number(row, line, "time_us", SHORTEST)
        count = number(row, line, "samples", 1, needed=True)
        rel_stdev = number(row, line, "rel_stdev", 0, needed=True)
        if samples:
            # The CSV has six digits of the median.
            if len(samples) != count or not math.isclose(
                median(samples), row.time_us_median, rel_tol=1e-5
            ):
                raise LadderError(
                    f"{name(row)} has another median than its samples in the JSON file beside the "
                    "CSV, which are of another run."
                )
            error = middle_mean_error(samples) / middle_mean(samples)
        else:
            error = NORMAL_ERROR * rel_stdev / math.sqrt(count)
        between = number(row, line, "between_pct", 0)
        if not math.isnan(between):
            error = between / 100 / math.sqrt(number(row, line, "processes", 2, needed=True))
    resolution = number(row, line, "resolution_pct", 0) / 100
    machine = {column: line.get(column) for column in ALIKE}
    if row.cache == "cold":
        machine["flush"] = line.get("flush", "write")  # as older files' launches found the L2
    settled = line.get("settled", "")
    waited_for = settled == "yes" and line.get("throttle") == "power"
    is_throttled = parsed(line.get("throttled", "")) > 0 and not waited_for
    sm_mhz = number(row, line, "sm_mhz", 0)
    return Run(row, machine, error, resolution, settled, sm_mhz, is_throttled)


def number(
    row: Row, line: dict[str, str], column: str, least: float, needed: bool = False
) -> float:
    """The cell's number; NaN if it is empty or there is no such column."""
    text = line.get(column, "")
    if not text and not needed:
        return math.nan
    value = parsed(text)
    if row.verdict == "passed" and not least <= value <= LARGEST:
        raise LadderError(f"{name(row)} passed with {text or 'nothing'} as its {column}.")
    return value


def read_samples(path: Path) -> dict[Key, list[float]]:
    """What ./bench --samples wrote, if it did."""
    if not path.exists():
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
        samples = {tuple(row[c] for c in KEY): [float(us) for us in row["us"]] for row in rows}
    except OSError as error:
        raise LadderError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError):
        raise LadderError(f"{path} is not what ./bench --samples writes.") from None
    if len(samples) < len(rows):
        raise LadderError(f"{path} has the samples of a row twice.")
    for of, times in samples.items():
        wrong = [us for us in times if not SHORTEST <= us <= LARGEST]
        if wrong:
            raise LadderError(f"{path}: a sample of {'/'.join(filter(None, of))} is {wrong[0]}.")
    return samples


def parsed(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def key(row: Row) -> Key:
    return tuple(getattr(row, column) for column in KEY)


def group(row: Row) -> Key:
    return tuple(getattr(row, column) for column in GROUP)


def name(row: Row) -> str:
    """As ./bench names its benchmarks."""
    parts = (row.family, row.op, row.dtype, row.kernel, row.problem, row.cache)
    return "/".join(part for part in parts if part not in ("", "cold"))


def is_kernel(row: Row) -> bool:
    """One of the suite's, by which it is judged."""
    return not (row.is_baseline or row.is_peer or row.is_roof)


def roof(row: Row) -> float:
    """The rate of the roof that bounds it; NaN if unknown."""
    rate = row.gflops if ladder_csv.is_compute(row.roof) else row.gbps
    return 100 * rate / row.roof_pct if row.roof_pct > 0 else math.nan


# ---- Statistics


def p_value(distance: float, scale: float) -> float:
    """Two-sided, by Student's t of FREEDOM degrees."""
    if distance <= 0:
        return 1.0
    if scale <= 0:
        return 0.0
    return 1 - student_within(distance / scale, FREEDOM)


def reach(scale: float) -> float:
    """The distance whose p is ALPHA."""
    return scale * student_t(FREEDOM)


def adjusted(ps: Sequence[float]) -> list[float]:
    """By Benjamini and Hochberg: of those that are now at most q, about the share q is false."""
    order = sorted(range(len(ps)), key=lambda i: ps[i], reverse=True)
    found, least = [1.0] * len(ps), 1.0
    for above, i in enumerate(order):
        least = min(least, ps[i] * len(ps) / (len(ps) - above))
        found[i] = least
    return found


class Pair(NamedTuple):
    """One row in both runs."""

    old: Run
    new: Run

    @property
    def change(self) -> float:
        """The logarithm of the ratio: above 0 is faster."""
        return math.log(self.old.row.time_us) - math.log(self.new.row.time_us)

    @property
    def place(self) -> float:
        """Of its time among others."""
        return (math.log(self.old.row.time_us) + math.log(self.new.row.time_us)) / 2

    @property
    def is_arithmetic(self) -> bool:
        """Is it bounded by arithmetic, or by memory?"""
        row = self.old.row
        return ladder_csv.is_compute(row.op if row.is_roof else row.roof)

    @property
    def is_far_from_roof(self) -> bool:
        return not self.is_arithmetic and self.old.row.roof_pct < FAR_FROM_ROOF


class Spread:
    """How far the runs are apart, by what is the same in both: libraries and roofs."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        # The place and the size of each one's change, bounded by memory and by arithmetic
        self.known: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        self.groups: dict[Key, list[float]] = defaultdict(list)
        roofs: dict[tuple[Key, bool], list[Pair]] = defaultdict(list)
        for pair in pairs:
            old, new = pair.old.row, pair.new.row
            if old.is_baseline or old.is_roof:
                self.add(pair.is_arithmetic, group(old), pair.place, pair.change)
            elif not old.is_peer and old.roof == new.roof and roof(old) > 0 and roof(new) > 0:
                roofs[group(old), pair.is_arithmetic].append(pair)
        for (of, is_arithmetic), versions in roofs.items():  # each knows the roof of its turns
            change = median(math.log(roof(new.row) / roof(old.row)) for old, new in versions)
            self.add(is_arithmetic, of, min(pair.place for pair in versions), change)
        for known in self.known.values():
            known.sort()

    def add(self, is_arithmetic: bool, of: Key, place: float, change: float) -> None:
        self.known[is_arithmetic].append((place, abs(change)))
        self.groups[of].append(abs(change))

    @property
    def count(self) -> int:
        return sum(map(len, self.known.values()))

    def of(self, pair: Pair) -> float:
        known, place = self.known[pair.is_arithmetic], pair.place
        at = bisect.bisect(known, (place,))
        near = known[max(0, at - NEAREST) : at + NEAREST]
        near = sorted(near, key=lambda one: abs(one[0] - place))[:NEAREST]
        changes = sorted(change for _, change in near)
        around = changes[len(changes) * 2 // 3] if len(changes) >= FEWEST else SPREAD
        far = FAR_SPREAD if pair.is_far_from_roof else 0
        return max(around, far, median(self.groups.get(group(pair.old.row), [0.0])) / reach(1))


@dataclass(frozen=True)
class Comparison:
    old: Run
    new: Run
    ratio: float  # old over new: above 1 is faster
    low: float
    high: float
    p: float  # adjusted
    resolution: float
    spread: float
    verdict: str

    @property
    def name(self) -> str:
        return name(self.new.row)

    @property
    def slowdown(self) -> float:
        return 1 / self.ratio - 1

    @property
    def excuse(self) -> str:
        """Why it does not decide the exit code, if so."""
        return "" if is_kernel(self.old.row) else "of libraries, peers and roofs"

    @property
    def clock(self) -> float:
        """How much slower the new run's GPU clock was: 0.1 is 10 %, below 0 it was faster; NaN if not known."""
        return 1 - self.new.sm_mhz / self.old.sm_mhz if self.old.sm_mhz > 0 else math.nan

    @property
    def note(self) -> str:
        """What else was different: "old throttled", "1980 → 1755 MHz"."""
        runs = {"old": self.old, "new": self.new}
        said = [f"{which} throttled" for which, run in runs.items() if run.is_throttled]
        if abs(self.clock) > CLOCK:
            said.append(f"{self.old.sm_mhz:.0f} → {self.new.sm_mhz:.0f} MHz")
        return ", ".join(said)


def compare(pairs: Sequence[Pair], spread: Spread, threshold: float) -> list[Comparison]:
    """threshold: as a share, 0.03 is 3 %."""
    scales, resolutions, ps = [], [], []
    spreads = [spread.of(pair) for pair in pairs]
    for pair, between in zip(pairs, spreads):
        known = (RESOLUTION if math.isnan(r.resolution) else r.resolution for r in pair)
        resolutions.append(math.hypot(*known))
        scales.append(math.hypot(between, pair.old.error, pair.new.error))
        ps.append(p_value(abs(pair.change) - resolutions[-1], scales[-1]))
    found = []
    for pair, p, scale, resolution, between in zip(
        pairs, adjusted(ps), scales, resolutions, spreads
    ):
        width = resolution + reach(scale)
        if pair.old.settled and pair.new.settled and pair.old.settled != pair.new.settled:
            verdict = "unclear"
        elif p <= ALPHA:
            verdict = "faster" if pair.change > 0 else "slower"
        else:
            verdict = "same" if abs(pair.change) <= math.log1p(threshold) else "unclear"
        ends = (math.exp(min(pair.change + by, math.log(LARGEST))) for by in (0, -width, width))
        found.append(Comparison(*pair, *ends, p, resolution, between, verdict))
    return found


# ---- Two runs


@dataclass(frozen=True)
class Report:
    first: Pair
    comparisons: list[Comparison]
    lost: list[Run]  # the new runs of kernels that had a time and have none any more
    gone: list[Run]  # the old runs of kernels that had a time and are not in the new one
    only_old: int
    only_new: int
    threshold: float
    references: int  # libraries and roofs in both runs

    @property
    def slower(self) -> list[Comparison]:
        worse = (c for c in self.comparisons if c.verdict == "slower")
        return [c for c in worse if c.slowdown > self.threshold]

    @property
    def regressions(self) -> list[Comparison]:
        return [c for c in self.slower if not c.excuse]

    @property
    def fails(self) -> bool:
        return bool(self.regressions or self.lost or self.gone)

    @property
    def summary(self) -> str:
        """48 rows compared: 3 slower, 12 faster, 33 same. …"""
        n = Counter(c.verdict for c in self.comparisons)
        counts = ", ".join(f"{n[verdict]} {verdict}" for verdict in COLOURS if n[verdict])
        return (
            f"{len(self.comparisons)} rows compared: {counts or 'none'}. Only in the old run: "
            f"{self.only_old} rows; only in the new one: {self.only_new}."
        )

    @property
    def basis(self) -> list[str]:
        """What the verdicts rest on."""
        if not self.comparisons:
            return []
        resolution = 100 * median(c.resolution for c in self.comparisons)
        spread = 100 * median(c.spread for c in self.comparisons)
        known = {not math.isnan(r.resolution) for c in self.comparisons for r in (c.old, c.new)}
        source = "A/A" if known == {True} else "assumed" if known == {False} else "in part assumed"
        return [
            f"The median row is resolved to {resolution:.2g} % ({source}); the runs are "
            f"{spread:.2g} % apart (by {self.references} libraries' and roofs' times).",
            f"p is adjusted for {len(self.comparisons)} rows (Benjamini-Hochberg): of those called "
            f"slower or faster at most about {100 * ALPHA:g} % are so by chance.",
        ]

    @property
    def conditions(self) -> list[str]:
        """How the GPU was other in one run than in the other."""
        said = []
        old, new = (sum(run.is_throttled for run in runs) for runs in zip(*((c.old, c.new) for c in self.comparisons)))
        if old or new:
            said.append(f"Throttled, of {len(self.comparisons)} rows: {old} of the old run, {new} of the new one.")
        clocks = [c.clock for c in self.comparisons if abs(c.clock) > CLOCK]
        if clocks:
            other = "lower" if median(clocks) > 0 else "higher"
            said.append(
                f"The new run's clock was {100 * abs(median(clocks)):.0f} % {other} in {len(clocks)} of "
                f"{len(self.comparisons)} rows (the median): ./bench --lock-clocks=MHZ holds it."
            )
        return said

    def conclusion(self, *, every: bool) -> list[str]:
        """The sentences behind the exit code. every: with the names of all that are gone."""
        said = []
        if self.gone:
            shown = [name(gone.row) for gone in (self.gone if every else self.gone[:FEW])]
            more = len(self.gone) - len(shown)
            said.append(
                f"Gone in the new run ({len(self.gone)}): {', '.join(shown)}"
                f"{f' and {more} more (--all names them)' if more else ''}; --filter=REGEX chooses those that both "
                "should have."
            )
        for lost in self.lost:
            why = "it was not timed" if lost.row.verdict == "passed" else lost.row.verdict
            said.append(f"{name(lost.row)} has no time any more: {why}.")
        for c in self.regressions:
            said.append(f"{c.name} is slower by {100 * c.slowdown:.1f} %.")
        limit = f"slower by more than {100 * self.threshold:g} %"
        for excuse, n in Counter(c.excuse for c in self.slower if c.excuse).items():
            said.append(f"Not decisive: {n} {excuse}, {limit}.")
        if not self.fails:
            said.append(f"No {'other ' if said else ''}kernel is {limit}.")
        return said


def report(olds: dict[Key, Run], news: dict[Key, Run], options: argparse.Namespace) -> Report:
    threshold = parsed(options.threshold) / 100
    if not 0 <= threshold < math.inf:
        raise LadderError(
            f"--threshold={options.threshold}: a number of per cent, 0 or more, is expected."
        )
    selects = selection(options.filter)
    common = [Pair(olds[of], news[of]) for of in olds if of in news and olds[of].row.timed]
    chosen = [pair for pair in common if selects(pair.old.row)]
    had = [of for of, run in olds.items() if run.row.timed and selects(run.row)]
    if not chosen:
        which = f" whose name has {options.filter!r}" if options.filter else ""
        raise LadderError(f"{options.old} and {options.new} have no timed row in common{which}.")
    if len(chosen) < LEAST_COMMON * len(had) and not options.anyway:
        raise LadderError(
            f"{options.new} has {len(chosen)} of the {len(had)} timed rows of {options.old}, which is no comparison of "
            "the two: --filter=REGEX chooses those that both should have, --anyway compares what there is."
        )
    differing = {}
    for old, new in common:
        for column, plural in ALIKE.items():
            there, here = old.machine[column], new.machine[column]
            if there != here and None not in (there, here):
                differing.setdefault(plural, (there, here))
    for plural, machines in [] if options.anyway else differing.items():
        old, new = (machine or ("none" if plural == BUILD["flags"] else "unknown") for machine in machines)
        raise LadderError(
            f"The runs are of different {plural}, {old} and {new}: --anyway compares them all the "
            f"same."
        )
    timed = [pair for pair in common if pair.new.row.timed]
    spread = Spread([] if differing else timed)
    return Report(
        chosen[0],
        compare([pair for pair in timed if selects(pair.old.row)], spread, threshold),
        [pair.new for pair in chosen if not pair.new.row.timed],
        [olds[of] for of in had if of not in news and is_kernel(olds[of].row)],
        sum(of not in news and selects(run.row) for of, run in olds.items()),
        sum(of not in olds and selects(run.row) for of, run in news.items()),
        threshold,
        spread.count,
    )


def selection(pattern: str) -> Callable[[Row], bool]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise LadderError(f"--filter={pattern}: no regular expression: {error}.") from None
    return lambda row: bool(expression.search(name(row)))


# ---- Output


def ladder(row: Row) -> str:
    parts = (row.family, row.op, row.dtype, row.problem, row.cache)
    return " ".join(part for part in parts if part not in ("", "cold"))


def ordered(comparisons: Sequence[Comparison], by: str) -> list[Comparison]:
    if by == "change":
        return sorted(comparisons, key=lambda c: c.ratio)
    if by == "time":
        return sorted(comparisons, key=lambda c: -c.new.row.time_us)
    return sorted(comparisons, key=lambda c: (natural(ladder(c.new.row)), c.new.row.place))


def p_text(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def machine_text(run: Run) -> str:
    return "{device}, toolkit {toolkit}, driver {driver}".format(**run.machine)


def console(of: Report, options: argparse.Namespace, colours: bool) -> None:
    def paint(code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if colours else text

    for title, path, run in zip(("old", "new"), (options.old, options.new), of.first):
        print(f"{title}  {path}, commit {run.row.git_sha[:10]}, {machine_text(run)}")
    print("old/new: above 1 is faster")
    failing = of.regressions
    rows = ordered([c for c in of.comparisons if shown(c, options)], options.sort)
    in_ladders = options.sort == "name"
    names = [c.new.row.name if in_ladders else c.name for c in rows]
    width = max(map(len, names), default=0)
    if rows:
        print(f"\n  {'':{width}} {'old':>9} {'new':>9}  old/new  95 % interval        p")
    title = ""
    for c, label in zip(rows, names):
        if in_ladders and ladder(c.new.row) != title:
            title = ladder(c.new.row)
            print(paint("1", title))
        old, new = (time_text(run.row.time_us) for run in (c.old, c.new))
        mark = paint("1;31", " !") if c in failing else ""
        print(
            f"  {label:{width}} {old:>9} {new:>9}  {c.ratio:7.3f}  {c.low:.3f} … {c.high:.3f}"
            f"{p_text(c.p):>9}  {paint(COLOURS[c.verdict], c.verdict)}{mark}{c.note and f'  {c.note}'}"
        )
    print(f"\n{of.summary}")
    for sentence in (*of.basis, *of.conditions, *of.conclusion(every=options.all)):
        print(sentence)


def shown(c: Comparison, options: argparse.Namespace) -> bool:
    return c.verdict != "same" or options.all


def markdown(of: Report, options: argparse.Namespace) -> None:
    def table(comparisons: Sequence[Comparison]) -> None:
        print("| kernel | old | new | old/new | 95 % interval | p | verdict |")
        print("|---|---:|---:|---:|---:|---:|---|")
        for c in ordered(comparisons, options.sort):
            old, new = (time_text(run.row.time_us) for run in (c.old, c.new))
            verdict = f"**{c.verdict}**" if c in failing else c.verdict
            verdict += c.note and f"; {c.note}"
            print(
                f"| `{c.name}` | {old} | {new} | {c.ratio:.3f} | {c.low:.3f} … {c.high:.3f} "
                f"| {p_text(c.p)} | {verdict} |"
            )
        print()

    failing = of.regressions
    machines = list(dict.fromkeys(machine_text(run) for run in of.first))
    commits = " → ".join(run.row.git_sha[:10] for run in of.first)
    print(f"{commits}, {' → '.join(machines)}; old/new above 1 is faster. {of.summary}\n")
    for sentence in (*of.conclusion(every=options.all), *of.conditions, *of.basis):
        print(f"- {sentence}")
    print()
    changed = [c for c in of.comparisons if c.verdict != "same"]
    if changed:
        table(changed)
    same = [c for c in of.comparisons if c.verdict == "same"]
    if same and options.all:
        print(f"<details><summary>{len(same)} same</summary>\n")
        table(same)
        print("</details>")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD.csv")
    parser.add_argument("new", type=Path, metavar="NEW.csv")
    parser.add_argument("--threshold", default="3", metavar="PERCENT",
                        help="slower by more than this fails (default: 3)")  # fmt: skip
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="compare only the rows whose names, as ./bench spells them, have "
                             "a match")  # fmt: skip
    parser.add_argument("--all", action="store_true",
                        help="print the rows that are the same, too, and the names of all that are gone")  # fmt: skip
    parser.add_argument("--sort", default="name", choices=("name", "change", "time"),
                        help="by name (the default), slowest change first, or longest time "
                             "first")  # fmt: skip
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--anyway", action="store_true",
                        help="compare different GPUs, toolkits, drivers or builds too, and runs with "
                             "few rows in common")  # fmt: skip
    options = parser.parse_args()
    found = report(read(options.old), read(options.new), options)
    if options.markdown:
        markdown(found, options)
    else:
        console(found, options, sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    return 1 if found.fails else 0


if __name__ == "__main__":
    ladder_csv.run(main, refused=2)
