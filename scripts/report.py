#!/usr/bin/env python3
"""Makes one interactive page of one or more CSVs that ./bench wrote.

The page is a single file and needs no network: plotly's JavaScript is inside. It has an overview of
every run, the fastest version of every ladder, and for the ladder chosen a chart, its table and its
roofline. Several CSVs stand side by side. Source files and CSVs are linked by relative paths.

examples:
  scripts/report.py results.csv                           report.html
  scripts/report.py results/h100/2026-11-2*.csv -o h100.html
  scripts/report.py before.csv after.csv                  two runs side by side
  scripts/report.py results.csv host.csv                  what ./bench --backend=host counted, too
"""

from __future__ import annotations

import argparse
import collections
import csv
import html
import importlib.machinery
import json
import math
import os
import string
import sys
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Sequence

import ladder_csv
from ladder_csv import (
    Ladder,
    LadderError,
    Resolution,
    Row,
    percent,
    rate_text,
    ratio_text,
    roof_title,
    time_text,
)

TEMPLATES = Path(__file__).resolve().parent / "report"
ONE_ROW = ("backend", "family", "op", "kernel", "dtype", "problem", "cache")
ONE_KERNEL = ("family", "op", "dtype", "kernel")
COUNTED = ("global_ld", "global_st", "shared_ld", "shared_st", "moved")
ONE_LADDER = ("family", "op", "dtype", "problem", "cache")


@dataclass(frozen=True)
class Run:
    """A CSV: its rows, and of each the cells as the file has them, for columns Row leaves out."""

    path: Path
    name: str
    rows: tuple[Row, ...]
    cells: dict[Row, dict[str, str]]

    def number(self, row: Row, column: str) -> float:
        text = self.cells[row].get(column, "")
        try:
            return float(text or "nan")
        except ValueError:
            raise LadderError(f"{self.path}: {column} is {text!r}, not a number.") from None

    def numbers(self, column: str) -> list[float]:
        """The column's numbers, in rising order."""
        return sorted(n for n in (self.number(row, column) for row in self.rows) if n == n)

    def texts(self, column: str) -> list[str]:
        """The column's different texts."""
        found = (cells.get(column, "") for cells in self.cells.values())
        return [text for text in dict.fromkeys(found) if text not in ("", "unknown")]

    def throttled(self, row: Row) -> float:
        """The share of its samples that were slowed down; not by the power limit where that was
        waited for."""
        waited_for = row.at_power_limit and self.cells[row].get("throttle") == "power"
        return 0 if waited_for else self.number(row, "throttled")

    def ladders(self) -> list[Ladder]:
        """Every problem and cache state of every ladder."""
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in self.rows:
            groups.setdefault(tuple(getattr(row, name) for name in ONE_LADDER), []).append(row)
        return [Ladder(tuple(sorted(group, key=lambda r: r.place))) for group in groups.values()]


def read(paths: Sequence[Path]) -> list[Run]:
    stems = collections.Counter(path.stem for path in paths)
    runs = []
    for path in dict.fromkeys(paths):
        rows = ladder_csv.read(path)
        with open(path, newline="", encoding="utf-8") as file:
            lines = {tuple(line[n] for n in ONE_ROW): line for line in csv.DictReader(file)}
        cells = {row: lines[tuple(getattr(row, n) for n in ONE_ROW)] for row in rows}
        name = path.stem if stems[path.stem] == 1 else str(path)
        runs.append(Run(path, name, tuple(rows), cells))
    return runs


# ---- What the host executor counted

Counts = dict[str, Any]  # multiples of the fewest possible, and the problem they were counted at


def counts_of(run: Run, row: Row) -> Counts:
    """What a row's kernel does to memory; empty if nobody counted."""

    def over(actual: str, ideal: str) -> float:
        fewest = run.number(row, ideal)
        return run.number(row, actual) / fewest if fewest > 0 else math.nan

    if not row.moved_bytes > 0:
        return {}
    return {
        "global_ld": over("global_ld_sectors", "global_ld_ideal"),
        "global_st": over("global_st_sectors", "global_st_ideal"),
        "shared_ld": over("shared_ld_wavefronts", "shared_ld_ideal"),
        "shared_st": over("shared_st_wavefronts", "shared_st_ideal"),
        "moved": row.moved_bytes / row.bytes if row.bytes > 0 else math.nan,
        "counted": row.problem,
    }


def all_counts(runs: Sequence[Run]) -> dict[tuple[str, ...], Counts]:
    """The counts of every kernel by its ONE_KERNEL, at the first problem it was counted at. Counted
    problems are small, but what a warp's request costs is the same in large ones; how often a
    kernel moves the same bytes is not."""
    found: dict[tuple[str, ...], Counts] = {}
    for run in runs:
        for row in run.rows:
            if counts := counts_of(run, row):
                key = tuple(getattr(row, name) for name in ONE_KERNEL)
                found.setdefault(key, {**counts, "moved": math.nan})
    return found


# ---- What the page's script draws


def record(run: Run, at: int, ladder: Ladder, row: Row, others: Counts) -> dict[str, Any]:
    """A row as the page's script knows it, with its numbers and how they are written. `others` are
    the counts of its kernel, for when the row has none itself."""
    speed = ladder.speed(row)
    counts = counts_of(run, row) or others
    return {
        "run": at, "family": row.family, "op": row.op, "dtype": row.dtype, "problem": row.problem,
        "cache": row.cache, "kernel": row.kernel, "idea": run.cells[row].get("idea", ""),
        "verdict": row.verdict, "reason": run.cells[row].get("reason", ""),
        "vendor": row.is_baseline, "best": row in ladder.tied,
        "tied": ladder.tied_with(row).removeprefix(", "), "suspect": row.is_suspect,
        "throttled": run.throttled(row), "limited": row.at_power_limit, "against": ladder.vendor,
        "compute": ladder.is_compute, "time": row.time_us, "speed": speed,
        "share": row.roof_pct, "ratio": row.vs_baseline, "ratio_text": ratio_text(row),
        "low": row.vs_baseline_low, "high": row.vs_baseline_high,
        "resolution": row.resolution_pct,
        "gflops": row.gflops, "intensity": row.flops / row.bytes if row.bytes > 0 else math.nan,
        **{name: counts.get(name, math.nan) for name in COUNTED},
        "counted": counts.get("counted", ""),
        "registers": row.registers, "occupancy": row.occupancy,
        "mhz": run.number(row, "sm_mhz"), "watts": run.number(row, "power_w"),
        "roof": roof_title(row.roof),
        "time_text": time_text(row.time_us) if row.timed else "",
        "burst_text": time_text(row.burst_us) if row.burst_us > 0 else "",
        "speed_text": rate_text(speed, ladder.is_compute) if speed > 0 else "",
        "share_text": percent(row.roof_pct) if row.roof_pct > 0 else "",
    }  # fmt: skip


def plain(value: Any) -> Any:
    """A number as JSON has it: six digits are more than were measured, and NaN is null."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def data(runs: Sequence[Run], page: Path) -> dict[str, Any]:
    records, roofs = [], []
    counts = all_counts(runs)
    for at, run in enumerate(runs):
        for ladder in run.ladders():
            for row in ladder.rows:
                others = counts.get(tuple(getattr(row, name) for name in ONE_KERNEL), {})
                records.append(record(run, at, ladder, row, others))
            for roof in ladder_csv.roofs(run.rows, ladder) if not ladder_csv.is_roofs(ladder.family) else []:
                rates = [
                    rate_text(rate, roof.is_compute) + kind if rate > 0 else ""
                    for rate, kind in ((roof.value, ""), (roof.pin, " (clocks)"))
                ]
                roofs.append({
                    "run": at, **{name: getattr(ladder, name) for name in ONE_LADDER},
                    "name": roof_title(roof.name), "compute": roof.is_compute,
                    "value": plain(roof.value), "pin": plain(roof.pin),
                    "value_text": rates[0], "pin_text": rates[1],
                })  # fmt: skip
    records.sort(key=order)
    return {
        "runs": [run.name for run in runs],
        "columns": list(records[0]),
        "rows": [[plain(value) for value in one.values()] for one in records],
        "roofs": roofs,
        "main": main_problems(runs),
        "links": {
            name: link(path, page)
            for name, path in sources().items()
            if any(name == f"{one['family']}/{one['kernel']}" for one in records)
        },
    }


def order(one: dict[str, Any]) -> tuple[Any, ...]:
    dtype, problem = ladder_csv.dtype_order(one["dtype"]), ladder_csv.natural(one["problem"])
    return (ladder_csv.is_roofs(one["family"]), one["family"], one["op"], dtype, problem, one["cache"],
            ladder_csv.place(one["kernel"]), one["run"])  # fmt: skip


def main_problems(runs: Sequence[Run]) -> dict[str, str]:
    """The problem that each ladder shows first: the main one of the run with most of its versions.
    The longest ladder comes first, which the page opens with."""
    groups: dict[str, list[list[Row]]] = {}
    for run in runs:
        of: dict[str, list[Row]] = {}
        for row in run.rows:
            of.setdefault("/".join((row.family, row.op, row.dtype)), []).append(row)
        for name, rows in of.items():
            groups.setdefault(name, []).append(rows)

    def versions(rows: list[Row]) -> int:
        return len({row.kernel for row in rows}) if not rows[0].is_roof else 0

    most = {name: max(parts, key=versions) for name, parts in groups.items()}
    names = sorted(most, key=lambda name: versions(most[name]), reverse=True)
    return {name: ladder_csv.main_problem(most[name]) for name in names}


# ---- Links


def sources() -> dict[str, Path]:
    """The source of every version, by its name family/kernel."""
    files = ladder_csv.ROOT.glob("src/kernels/*/v*.cu")
    return {f"{file.parent.name}/{file.name.split('.')[0]}": file for file in files}


def link(path: Path, page: Path) -> str:
    relative = os.path.relpath(path.resolve(), page.resolve().parent)
    return urllib.parse.quote(relative.replace(os.sep, "/"))


# ---- What stands in the page without its script


def tag(name: str, inside: str, **attributes: str) -> str:
    """An element; `inside` is HTML, the attributes are text."""
    written = "".join(
        f' {key.rstrip("_")}="{html.escape(value)}"' for key, value in attributes.items() if value
    )
    return f"<{name}{written}>{inside}</{name}>"


def table(head: Sequence[tuple[str, str]], lines: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML; its head has a text and a class for each column."""
    classes = [kind for _, kind in head]
    top = "".join(tag("th", html.escape(text), class_=kind) for text, kind in head)
    body = "\n".join(
        tag("tr", "".join(tag("td", cell, class_=kind) for cell, kind in zip(line, classes)))
        for line in lines
    )
    whole = tag("table", f"{tag('thead', tag('tr', top))}\n{tag('tbody', body)}")
    return tag("div", whole, class_="scroll")


def breakable(name: str) -> str:
    """A name as HTML, which a narrow column may break after _ and /."""
    return html.escape(name).replace("_", "_<wbr>").replace("/", "/<wbr>")


def span(numbers: Sequence[float], unit: str) -> str:
    """The range of numbers in rising order."""
    if not numbers:
        return ""
    ends = dict.fromkeys((f"{numbers[0]:.0f}", f"{numbers[-1]:.0f}"))
    return " to ".join(ends) + " " + unit


def period(times: Sequence[str]) -> str:
    """From the first to the last minute of ISO 8601's UTC times; a date is not repeated."""
    ends = [time[: len("2026-01-31T12:34")].partition("T") for time in (min(times), max(times))]
    (day, _, begin), (last_day, _, end) = ends
    if (day, begin) == (last_day, end):
        return f"{day} {begin} UTC"
    return f"{day} {begin} to {end if day == last_day else f'{last_day} {end}'} UTC"


def aa_facts(run: Run) -> dict[str, str]:
    """What the run can tell apart, by the A/A of its problems."""
    found = Resolution.of(run.rows)
    if not found:
        return {"protocol": "the earlier one"} if run.numbers("time_us_median") else {}
    return {
        "resolution": f"{found.median:.2f} % (median), {found.worst:.2f} % at worst",
        "A/A": f"{found.groups} problems, {found.deviation:.2f} % from 1 (median), "
        f"{100 * found.within:.0f} % within 0.5 %; "
        f"{100 * found.holds_one:.0f} % of the intervals hold 1",
    }


def run_card(run: Run, at: int, page: Path) -> str:
    """Where a run comes from, and how it went."""
    verdicts = collections.Counter(row.verdict for row in run.rows)
    marks = {
        "suspect": sum(row.is_suspect for row in run.rows),
        "throttled": sum(run.throttled(row) > 0 for row in run.rows),
        "at the power limit": sum(row.at_power_limit for row in run.rows),
    }
    counts = [f"{n} {verdict}" for verdict, n in verdicts.most_common()]
    counts += [f"{n} {mark}" for mark, n in marks.items() if n]
    times = run.texts("timestamp")
    facts = {
        "device": ", ".join(run.texts("device")),
        "compute capability": ", ".join(run.texts("cc")),
        "driver": ", ".join(run.texts("driver")),
        "toolkit": ", ".join(run.texts("toolkit")),
        "SM clock": span(run.numbers("sm_mhz"), "MHz"),
        "board power": span(run.numbers("power_w"), "W"),
        "measured": period(times) if times else "",
        "commit": ", ".join(sha[:10] for sha in run.texts("git_sha")),
        "rows": ", ".join(counts),
        **aa_facts(run),
    }
    items = "".join(
        tag("dt", key) + tag("dd", html.escape(value)) for key, value in facts.items() if value
    )
    title = tag("a", html.escape(run.name), href=link(run.path, page))
    return tag("article", tag("h3", title) + tag("dl", items), class_=f"run run{at % 5}")


def badges(run: Run, row: Row) -> str:
    marks = {
        "suspect": row.is_suspect,
        "throttled": run.throttled(row) > 0,
        "at the power limit": row.at_power_limit,
    }
    found = [
        tag("span", name, class_=f"badge {name.split()[-1]}") for name, on in marks.items() if on
    ]
    return " ".join(["", *found])


def summary(runs: Sequence[Run]) -> str:
    """The fastest version of every ladder in every run, at the run's main problem, cache cold."""
    head = [("ladder", "name"), ("problem", "wide"), ("fastest", "name"), ("of the roof", "share"),
            ("roof", "wide"), ("vs baseline", "number"), ("time", "number"), ("speed", "number"),
            ("run", "run-name")][: 9 if len(runs) > 1 else 8]  # fmt: skip
    lines = []
    for run in runs:
        cold = [row for row in run.rows if row.cache != "hot" and not row.is_roof]
        for one in ladder_csv.select(cold) if cold else []:
            best = one.best
            if best is None:
                continue
            query = urllib.parse.urlencode({name: getattr(one, name) for name in ONE_LADDER})
            ratio = " ".join(filter(None, (ratio_text(best), best.is_level and "with")))
            ratio += f" {one.vendor}" if ratio else ""
            time = time_text(best.time_us)
            time += f" (burst {time_text(best.burst_us)})" if best.burst_us > 0 else ""
            bar = tag("span", percent(best.roof_pct), style=f"--share: {best.roof_pct:.1f}%")
            cells = [
                tag("a", breakable(one.title), href=f"#{query}"), html.escape(one.problem),
                html.escape(best.name + one.tied_with(best)) + badges(run, best),
                bar if best.roof_pct > 0 else "",
                html.escape(roof_title(best.roof)), html.escape(ratio),
                time, rate_text(one.speed(best), one.is_compute),
                html.escape(run.name),
            ]  # fmt: skip
            lines.append((one, cells))
    lines.sort(key=lambda line: (line[0].family, line[0].op, ladder_csv.dtype_order(line[0].dtype)))
    if not lines:
        return tag("p", "No version of a kernel was timed.")
    return table(head, (cells for _, cells in lines))


def problems(runs: Sequence[Run]) -> str:
    """The rows that have no time or no believable one."""
    head = [("version", "name"), ("problem", ""), ("run", "wide"), ("verdict", ""), ("why", "idea")]
    lines = [
        [
            breakable("/".join(filter(None, (row.family, row.op, row.dtype, row.kernel)))),
            html.escape(" ".join(filter(None, (row.problem, row.cache)))), html.escape(run.name),
            tag("span", html.escape("suspect" if row.is_suspect else row.verdict), class_="badge"),
            f"{percent(row.roof_pct)} of its roof" if row.is_suspect
            else html.escape(run.cells[row].get("reason", "")),
        ]
        for run in runs for row in run.rows if row.verdict != "passed" or row.is_suspect
    ]  # fmt: skip
    if not lines:
        return tag("p", "Every row passed, and none is suspect.")
    return table(head, lines)


# ---- The page


def plotly() -> str:
    """plotly's JavaScript, all that is used of it: from this Python, or from build/venv."""
    places = [*sys.path, *map(str, ladder_csv.VENV.glob("lib/python3*/site-packages"))]
    spec = importlib.machinery.PathFinder.find_spec("plotly", places)
    for folder in (spec and spec.submodule_search_locations) or []:
        script = Path(folder) / "package_data" / "plotly.min.js"
        if script.exists():
            return script.read_text(encoding="utf-8")
    raise LadderError("plotly is missing: scripts/setup installs it into build/venv.")


def render(runs: Sequence[Run], page: Path) -> str:
    """The page, whose links lead from where it will lie."""
    parts = {name: (TEMPLATES / name).read_text(encoding="utf-8") for name in
             ("page.html", "page.css", "page.js")}  # fmt: skip
    text = json.dumps(data(runs, page), separators=(",", ":"), ensure_ascii=False)
    return string.Template(parts["page.html"]).substitute(
        style=parts["page.css"],
        script=parts["page.js"],
        plotly=plotly(),
        data=text.replace("<", "\\u003c"),  # no text can end the element that holds it
        runs="\n".join(run_card(run, at, page) for at, run in enumerate(runs)),
        summary=summary(runs),
        problems=problems(runs),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("csv", type=Path, nargs="+", metavar="RESULTS.csv",
                        help="what ./bench wrote")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), metavar="FILE",
                        help="where the page goes (default: report.html)")  # fmt: skip
    options = parser.parse_args()
    output: Path = options.output
    if any(path.resolve() == output.resolve() for path in options.csv):
        raise LadderError(f"{output} is one of the CSVs: the page needs another name.")
    page = render(read(options.csv), output)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise LadderError(f"{output} cannot be written: {error.strerror}.") from None
    print(output)


if __name__ == "__main__":
    try:
        main()
    except LadderError as error:
        ladder_csv.fail(error)
