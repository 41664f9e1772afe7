#!/usr/bin/env python3
"""Compares two runs of ./bench: which kernels became faster or slower, and how sure that is.

For every kernel, problem and cache state that both CSVs have a time of, the ratio of the medians,
old over new: above 1 the new run is faster. Its 95 % interval has two sources, which add as
independent errors do:

  within a run     From the samples, where `./bench --samples` wrote them beside both CSVs
                   (results.json beside results.csv): a bootstrap of the ratio of medians. Else from
                   the CSV, by the standard error of a median of normal samples.
  between runs     The same program measured again is a little off, however many samples it takes:
                   the GPU has another clock and temperature, buffers lie elsewhere. No sample of
                   one run shows that, so it is assumed: --floor, in per cent. No interval is
                   narrower.

verdicts:
  faster, slower   the interval leaves out 1 and, where there are samples, a Mann-Whitney U test
                   says with p < 5 % that one run's samples are smaller than the other's
  same             the interval holds 1, and the ratio is within the threshold
  unclear          neither: a ratio beyond the threshold that may be noise, or a test that does not
                   confirm the interval; measure again

exit codes:
  0   no kernel is slower by more than the threshold
  1   one is, or one that had a time has none any more, because it fails
  2   the runs cannot be compared

examples:
  scripts/compare.py old.csv new.csv
  scripts/compare.py old.csv new.csv --threshold=5 --markdown >>"$GITHUB_STEP_SUMMARY"
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import random
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, median
from typing import NamedTuple, Sequence

import ladder_csv
from ladder_csv import LadderError, Row, time_text

KEY = ("family", "op", "dtype", "kernel", "problem", "cache", "backend")  # of a row
MACHINE = {"device": "GPUs", "toolkit": "toolkits", "driver": "drivers"}  # what must not differ
CONFIDENCE = 0.95
Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
RESAMPLES = 1000
FEWEST_TO_RANK = 4  # fewer against as many cannot reach p < 5 %, however far apart they lie
COLOURS = {"slower": "1;31", "faster": "32", "unclear": "33", "same": "2"}

Key = tuple[str, ...]


class Run(NamedTuple):
    """A row of a CSV with what only comparing needs of it."""

    row: Row
    machine: dict[str, str]
    count: float  # of samples
    rel_stdev: float
    samples: list[float]  # in microseconds; empty where they were not written


# ---- Reading


def read(path: Path) -> dict[Key, Run]:
    rows = {tuple(getattr(row, column) for column in KEY): row for row in ladder_csv.read(path)}
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        for column in (*MACHINE, "samples", "rel_stdev"):
            if column not in (lines.fieldnames or ()):
                raise LadderError(f"{path} cannot be compared: no column {column!r}.")
        cells = {tuple(line[column] for column in KEY): line for line in lines}
    samples = read_samples(path.with_suffix(".json"))
    runs = {}
    for key, row in rows.items():
        line = cells[key]
        machine = {column: line[column] for column in MACHINE}
        count, rel_stdev = number(line["samples"]), number(line["rel_stdev"])
        run = Run(row, machine, count, rel_stdev, samples.get(key, []))
        if row.timed and not (count >= 1 and rel_stdev >= 0):
            raise LadderError(f"{path}: {name(row)} has a time, but no samples or no rel_stdev.")
        if row.timed and run.samples and not is_of(run.samples, run):
            raise LadderError(
                f"{path.with_suffix('.json')} is of another run than {path}: the samples of "
                f"{name(row)} do not have its median."
            )
        runs[key] = run
    return runs


def read_samples(path: Path) -> dict[Key, list[float]]:
    """What ./bench --samples wrote, if it did."""
    if not path.exists():
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
        return {tuple(row[c] for c in KEY): [float(us) for us in row["us"]] for row in rows}
    except OSError as error:
        raise LadderError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError):
        raise LadderError(f"{path} is not what ./bench --samples writes.") from None


def is_of(samples: Sequence[float], run: Run) -> bool:
    """The CSV has six digits of the median."""
    return len(samples) == run.count and math.isclose(
        median(samples), run.row.time_us_median, rel_tol=1e-5
    )


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def name(row: Row) -> str:
    """As ./bench names its benchmarks."""
    parts = (row.family, row.op, row.dtype, row.kernel, row.problem, row.cache)
    return "/".join(part for part in parts if part not in ("", "cold"))


# ---- Statistics


def resampled_median(ordered: Sequence[float], rng: random.Random) -> float:
    """The median of as many samples, drawn from these with replacement.

    They need not be drawn one by one: of n uniform numbers the k-th smallest is distributed as
    Beta(k, n + 1 - k), and the next one is the smallest of n - k that are uniform above it.
    """
    n = len(ordered)
    k = (n + 1) // 2
    at = rng.betavariate(k, n + 1 - k)
    low = ordered[min(int(at * n), n - 1)]
    if n % 2:
        return low
    at = 1 - (1 - at) * rng.random() ** (1 / (n - k))
    return (low + ordered[min(int(at * n), n - 1)]) / 2


def bootstrap(old: Sequence[float], new: Sequence[float]) -> tuple[float, float]:
    """The interval of median(old) / median(new)."""
    rng = random.Random(0)  # the same files give the same verdicts
    old, new = sorted(old), sorted(new)
    ratios = sorted(
        resampled_median(old, rng) / resampled_median(new, rng) for _ in range(RESAMPLES)
    )
    outside = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return ratios[outside], ratios[-1 - outside]


def rank_test(old: Sequence[float], new: Sequence[float]) -> float:
    """p of Mann and Whitney's U, two-sided, by the normal approximation, corrected for ties and for
    continuity."""
    n = len(old) + len(new)
    counts = Counter(itertools.chain(old, new))
    ranks, below = {}, 0
    for value in sorted(counts):
        ranks[value] = below + (counts[value] + 1) / 2
        below += counts[value]
    u = sum(ranks[value] for value in old) - len(old) * (len(old) + 1) / 2
    ties = sum(t**3 - t for t in counts.values())
    variance = len(old) * len(new) / 12 * (n + 1 - ties / (n * (n - 1)))
    if variance <= 0:  # all samples are equal
        return 1.0
    off = max(0.0, abs(u - len(old) * len(new) / 2) - 0.5)
    return math.erfc(off / math.sqrt(2 * variance))


@dataclass(frozen=True)
class Comparison:
    old: Run
    new: Run
    ratio: float  # old over new: above 1 is faster
    low: float
    high: float
    p: float  # NaN without samples, or with too few
    verdict: str

    @property
    def name(self) -> str:
        return name(self.new.row)

    @property
    def slowdown(self) -> float:
        return 1 / self.ratio - 1


def compare(old: Run, new: Run, threshold: float, floor: float) -> Comparison:
    """threshold, floor: as shares, 0.03 is 3 %."""
    ratio = old.row.time_us_median / new.row.time_us_median
    p = math.nan
    if old.samples and new.samples:
        ends = bootstrap(old.samples, new.samples)
        within = [max(0.0, math.log(ratio / ends[0])), max(0.0, math.log(ends[1] / ratio))]
        if min(len(old.samples), len(new.samples)) >= FEWEST_TO_RANK:
            p = rank_test(old.samples, new.samples)
    else:
        # The median of n normal samples has sqrt(pi / 2) times the standard error of their mean.
        errors = (run.rel_stdev * math.sqrt(math.pi / 2 / run.count) for run in (old, new))
        within = [Z * math.hypot(*errors)] * 2
    below, above = (math.hypot(side, math.log1p(floor)) for side in within)
    low, high = ratio * math.exp(-below), ratio * math.exp(above)
    if low <= 1 <= high:
        verdict = "same" if abs(math.log(ratio)) <= math.log1p(threshold) else "unclear"
    else:
        verdict = "unclear" if p >= 1 - CONFIDENCE else "faster" if low > 1 else "slower"
    return Comparison(old, new, ratio, low, high, p, verdict)


# ---- Two runs


@dataclass(frozen=True)
class Report:
    comparisons: list[Comparison]
    lost: list[Run]  # the new runs of kernels that had a time and have none any more
    only_old: int
    only_new: int
    threshold: float

    @property
    def regressions(self) -> list[Comparison]:
        worse = (c for c in self.comparisons if c.verdict == "slower")
        return [c for c in worse if c.slowdown > self.threshold]

    @property
    def has_tests(self) -> bool:
        return any(not math.isnan(c.p) for c in self.comparisons)

    @property
    def counts(self) -> str:
        """3 slower, 12 faster, 33 same"""
        n = Counter(c.verdict for c in self.comparisons)
        return ", ".join(f"{n[verdict]} {verdict}" for verdict in COLOURS if n[verdict])

    @property
    def left_out(self) -> str:
        return f"Only in the old run: {self.only_old} rows; only in the new one: {self.only_new}."

    @property
    def basis(self) -> str:
        raw = sum(bool(c.old.samples and c.new.samples) for c in self.comparisons)
        if raw in (0, len(self.comparisons)):
            return "from all samples" if raw else "from medians and standard deviations"
        return f"from all samples for {raw} of {len(self.comparisons)} rows"

    @property
    def conclusion(self) -> list[str]:
        """The sentences behind the exit code."""
        said = [f"{name(r.row)} has no time any more: {r.row.verdict}." for r in self.lost]
        for c in self.regressions:
            said.append(f"{c.name} is slower by {100 * c.slowdown:.1f} %.")
        return said or [f"No kernel is slower by more than {100 * self.threshold:g} %."]


def report(olds: dict[Key, Run], news: dict[Key, Run], options: argparse.Namespace) -> Report:
    common = [key for key in olds if key in news and olds[key].row.timed]
    pairs = [(olds[key], news[key]) for key in common]
    timed = [pair for pair in pairs if pair[1].row.timed]
    if not timed:
        raise LadderError(f"{options.old} and {options.new} have no timed row in common.")
    for old, new in [] if options.anyway else timed:
        for column, plural in MACHINE.items():
            if old.machine[column] != new.machine[column]:
                raise LadderError(
                    f"The runs are of different {plural}, {old.machine[column] or 'unknown'} and "
                    f"{new.machine[column] or 'unknown'}: --anyway compares them all the same."
                )
    threshold, floor = share("--threshold", options.threshold), share("--floor", options.floor)
    return Report(
        [compare(old, new, threshold, floor) for old, new in timed],
        [new for _, new in pairs if not new.row.timed],
        sum(key not in news for key in olds),
        sum(key not in olds for key in news),
        threshold,
    )


# ---- Output


def p_text(p: float) -> str:
    return "" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def machine_text(run: Run) -> str:
    return "{device}, toolkit {toolkit}, driver {driver}".format(**run.machine)


def console(of: Report, options: argparse.Namespace, colours: bool) -> None:
    def paint(code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if colours else text

    first = of.comparisons[0]
    for title, path, run in (("old", options.old, first.old), ("new", options.new, first.new)):
        print(f"{title}  {path}, commit {run.row.git_sha[:10]}, {machine_text(run)}")
    print(f"old/new: above 1 is faster; 95 % intervals, {of.basis}")

    width = max(len(c.new.row.name) for c in of.comparisons)
    test = f"{'p':>8}" if of.has_tests else ""
    print(f"\n  {'':{width}} {'old':>9} {'new':>9}  old/new  95 % interval{test}")

    def ladder(c: Comparison) -> str:
        row = c.new.row
        parts = (row.family, row.op, row.dtype, row.problem, row.cache)
        return " ".join(part for part in parts if part not in ("", "cold"))

    for title, group in itertools.groupby(of.comparisons, ladder):
        print(paint("1", title))
        for c in group:
            old, new = (time_text(run.row.time_us_median) for run in (c.old, c.new))
            p = f"{p_text(c.p):>8}" if of.has_tests else ""
            verdict = paint(COLOURS[c.verdict], c.verdict)
            mark = paint("1;31", " !") if c in of.regressions else ""
            print(
                f"  {c.new.row.name:{width}} {old:>9} {new:>9}  {c.ratio:7.3f}  "
                f"{c.low:.3f} … {c.high:.3f}{p}  {verdict}{mark}"
            )
    print(f"\n{len(of.comparisons)} rows compared: {of.counts}. {of.left_out}")
    for sentence in of.conclusion:
        print(sentence)


def markdown(of: Report) -> None:
    def table(comparisons: Sequence[Comparison]) -> None:
        print("| kernel | old | new | old/new | 95 % interval | p | verdict |")
        print("|---|---:|---:|---:|---:|---:|---|")
        for c in comparisons:
            old, new = (time_text(run.row.time_us_median) for run in (c.old, c.new))
            verdict = f"**{c.verdict}**" if c in of.regressions else c.verdict
            print(
                f"| `{c.name}` | {old} | {new} | {c.ratio:.3f} | {c.low:.3f} … {c.high:.3f} "
                f"| {p_text(c.p)} | {verdict} |"
            )
        print()

    first = of.comparisons[0]
    machines = list(dict.fromkeys(machine_text(run) for run in (first.old, first.new)))
    commits = " → ".join(run.row.git_sha[:10] for run in (first.old, first.new))
    print(f"**{of.counts}** of {len(of.comparisons)} rows: {commits}, {' → '.join(machines)};")
    print(f"old/new above 1 is faster; intervals {of.basis}. {of.left_out}\n")
    for sentence in of.conclusion:
        print(f"- {sentence}")
    print()
    changed = [c for c in of.comparisons if c.verdict != "same"]
    if changed:
        table(changed)
    same = [c for c in of.comparisons if c.verdict == "same"]
    if same:
        print(f"<details><summary>{len(same)} same</summary>\n")
        table(same)
        print("</details>")


def share(flag: str, per_cent: str) -> float:
    value = number(per_cent)
    if not 0 <= value < math.inf:
        raise LadderError(f"{flag}={per_cent}: a number of per cent, 0 or more, is expected.")
    return value / 100


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD.csv")
    parser.add_argument("new", type=Path, metavar="NEW.csv")
    parser.add_argument("--threshold", default="3", metavar="PERCENT",
                        help="slower by more than this fails (default: 3)")  # fmt: skip
    parser.add_argument("--floor", default="1.5", metavar="PERCENT",
                        help="how far runs of one program are apart (default: 1.5)")  # fmt: skip
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--anyway", action="store_true",
                        help="compare different GPUs, toolkits or drivers too")  # fmt: skip
    options = parser.parse_args()
    found = report(read(options.old), read(options.new), options)
    if options.markdown:
        markdown(found)
    else:
        console(found, options, sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    return 1 if found.regressions or found.lost else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # scripts/compare.py … | head ends quietly
    try:
        sys.exit(main())
    except LadderError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
