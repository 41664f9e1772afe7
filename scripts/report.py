#!/usr/bin/env python3
"""Makes one interactive page of one or more CSVs that ./bench wrote.

The page shows one run at a time: the CSVs of one card that repeat no row of each other are a run. Where
two runs stand side by side it offers those of results/ too, at the problems that the CSVs have.

The page is a single file that needs no network and nothing beside it: the versions' sources and
what is written about them are inside. It says what each step of a ladder gains and why, which
version is the fastest for a shape, how far from the roof each is, and what two runs differ in.

examples:
  scripts/report.py results.csv                           report.html
  scripts/report.py results/h100/2026-11-2*.csv -o h100.html
  scripts/report.py before.csv after.csv                  two runs to choose from, and side by side
  scripts/report.py results.csv host.csv                  what ./bench --backend=host counted, too; of
                                                          others the counts of results/counts.csv
  scripts/report.py results.csv --asm=asm.json            what the compiler made, too, by
                                                          ./bench --asm=gemm --asm-form=json > asm.json
"""

from __future__ import annotations

import argparse
import base64
import collections
import html
import json
import math
import re
import string
import urllib.parse
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterable, Sequence

import colours
import ladder_csv
import ladder_sources
from ladder_code import NoHistory, Tree
from ladder_csv import (
    ONE_LADDER,
    Ladder,
    LadderError,
    Resolution,
    Row,
    digits,
    percent,
    rate_text,
    ratio_text,
    roof_title,
    time_text,
)

TREE = Tree()
COUNTS = ladder_csv.ROOT / "results" / "counts.csv"
EARLIER = "The version's source, or what it includes, has changed since, or is gone."
TEMPLATES = Path(__file__).resolve().parent / "report"
ONE_ROW = ("backend", "family", "op", "kernel", "dtype", "problem", "cache")
COUNTED = (  # columns of a row that the host executor counts
    "global_ld_requests", "global_ld_sectors", "global_ld_ideal",
    "global_st_requests", "global_st_sectors", "global_st_ideal",
    "global_atomic_requests", "global_atomic_sectors",
    "shared_ld_requests", "shared_ld_wavefronts", "shared_ld_ideal",
    "shared_st_requests", "shared_st_wavefronts", "shared_st_ideal",
    "shared_atomic_requests", "shared_atomic_wavefronts",
    "async_requests", "async_wavefronts", "mean_active_lanes", "barriers", "moved_bytes",
)  # fmt: skip
SCRIPTS = ("data", "elements", "charts", "difference", "search", "tables",
           "story", "why", "compiled", "sizes", "roof", "compare", "page")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One CSV or several: the rows, and of each the cells as the file has them, for columns Row leaves out."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]
    cells: dict[Row, dict[str, str]]

    @property
    def name(self) -> str:
        return ", ".join(self.names) if len(self.names) < 4 else f"{self.names[0]} and {len(self.names) - 1} more"

    @property
    def is_timed(self) -> bool:
        return any(row.timed for row in self.rows)

    @property
    def is_earlier_protocol(self) -> bool:
        """Whether it was timed by the protocol that does not know what it can't tell apart."""
        return self.is_timed and Resolution.of(self.rows) is None

    def is_earlier(self, row: Row) -> bool:
        """Whether it is known to be of earlier code than the tree's."""
        try:
            return TREE.is_earlier(row)
        except NoHistory:
            return False

    @property
    def gpu(self) -> str:
        """H200 of an NVIDIA H200; host if nothing ran on a GPU."""
        if all(row.backend == "host" for row in self.rows):
            return "host"
        name = " ".join(self.texts("device"))
        found = re.search(r"(?:RTX )?\b[A-Z]{1,2}\d+\w*", name)
        return found[0] if found else name

    def number(self, row: Row, column: str) -> float:
        text = self.cells[row].get(column, "")
        try:
            return float(text or "nan")
        except ValueError:
            raise LadderError(f"{self.name}: {column} is {text!r}, not a number.") from None

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
        return ladder_csv.every_ladder(self.rows)


def read(paths: Sequence[Path]) -> list[Run]:
    """Runs of files that are named as briefly as tells them apart."""
    paths = list(dict.fromkeys(paths))
    names = [str(path) for path in paths]
    for short in ([f"{path.parent.name}/{path.stem}" for path in paths], [path.stem for path in paths]):
        names = short if len(set(short)) == len(paths) else names
    return joined(map(read_file, paths, names))


def read_file(path: Path, name: str) -> Run:
    table = ladder_csv.read_table(path)
    rows = ladder_csv.rows_of(table)
    lines = {tuple(line[n] for n in ONE_ROW): line for _, line in table.lines}
    return Run((name,), tuple(rows), {row: lines[key(row, ONE_ROW)] for row in rows})


def key(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(getattr(row, name) for name in columns)


def joined(files: Iterable[Run]) -> list[Run]:
    """The CSVs of one card and one protocol as one run, where none repeats a row of another."""
    runs: list[Run] = []
    known: list[tuple[tuple[Any, ...], set[tuple[str, ...]]]] = []  # of each: its kind, and its rows
    for file in files:
        kind = file.texts("device"), file.is_timed, file.is_earlier_protocol
        rows = {key(row, ONE_ROW) for row in file.rows}
        for at, (of, there) in enumerate(known):
            if of == kind and there.isdisjoint(rows):
                there |= rows
                run = runs[at]
                runs[at] = Run(run.names + file.names, run.rows + file.rows, run.cells | file.cells)
                break
        else:
            runs.append(file)
            known.append((kind, rows))
    return runs


def published(beside: Sequence[Run], given: Sequence[Path]) -> list[Run]:
    """The runs of results/ but for the files `given`, the newest first: the ladders that those beside have, too."""
    timed = {key(row, ONE_LADDER) for run in beside for row in run.rows if row.timed and not row.is_roof}
    there = {path.resolve() for path in given}
    files = [path for path in ladder_csv.runs() if timed and path.resolve() not in there]
    files.sort(key=lambda path: path.name, reverse=True)
    runs = []
    for run in joined(read_file(path, path.stem) for path in files):
        rows = tuple(row for row in run.rows if key(row, ONE_LADDER) in timed)
        if any(row.timed for row in rows):
            runs.append(Run(run.names, rows, {row: run.cells[row] for row in rows}))
    return runs


# ---- What the page's script draws


def published_counts(runs: Sequence[Run]) -> list[Run]:
    """Of versions that the runs have timed and none has counted, what results/counts.csv has of today's code."""
    def name(row: Row) -> tuple[str, ...]:
        return row.family, row.op, row.dtype, row.kernel

    wanted = {name(row) for run in runs for row in run.rows if row.timed}
    wanted -= {name(row) for run in runs for row in run.rows if row.moved_bytes > 0}
    if not wanted or not COUNTS.exists():
        return []
    (run,) = read([COUNTS])
    rows = tuple(row for row in run.rows if name(row) in wanted and not run.is_earlier(row))
    return [replace(run, rows=rows)]


def counts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What the host executor counted: a row's COUNTED, under what they were counted of."""
    return [
        {
            **{name: getattr(row, name) for name in ("family", "op", "dtype", "problem", "kernel")},
            "bytes": exact(row.bytes),
            **{name: exact(run.number(row, name)) for name in COUNTED},
        }
        for run in (*runs, *published_counts(runs)) for row in run.rows if row.moved_bytes > 0
    ]  # fmt: skip


def record(run: Run, at: int, ladder: Ladder, row: Row) -> dict[str, Any]:
    """A row as the page's script knows it, with its numbers and how they are written."""
    speed = ladder.speed(row)
    return {
        "run": at, "family": row.family, "op": row.op, "dtype": row.dtype, "problem": row.problem,
        "cache": row.cache, "kernel": row.kernel, "short": row.short_name,
        "idea": run.cells[row].get("idea", ""),
        "verdict": row.verdict, "reason": run.cells[row].get("reason", ""),
        "vendor": row.is_baseline, "library": row is ladder.library, "peer": row.is_peer, "best": row in ladder.tied,
        "simplest": row is ladder.best,
        "tied": ladder.tied_with(row).removeprefix(", "), "suspect": row.is_suspect,
        "throttled": run.throttled(row), "limited": row.at_power_limit,
        "launch_bound": row.is_short, "earlier": run.is_earlier(row),
        "against": ladder.vendor,
        "time": row.time_us if row.timed else math.nan,
        "time_low": run.number(row, "time_us_min"), "time_high": run.number(row, "time_us_p95"),
        "speed": speed, "flops": row.flops, "bytes": row.bytes,
        "share": row.roof_pct, "ratio": row.vs_library, "ratio_text": ratio_text(row),
        "low": row.vs_library_low, "high": row.vs_library_high,
        "resolution": row.resolution_pct,
        "gflops": row.gflops, "intensity": row.flops / row.bytes if row.bytes > 0 else math.nan,
        "registers": row.registers, "occupancy": row.occupancy,
        "mhz": run.number(row, "sm_mhz"), "watts": run.number(row, "power_w"),
        "roof": roof_title(row.roof),
        "time_text": time_text(row.time_us) if row.timed else "",
        "joules_text": f"{digits(row.joules)} J" if row.joules > 0 else "",
        "burst_text": time_text(row.burst_us) if row.burst_us > 0 else "",
        "speed_text": rate_text(speed, ladder.is_compute) if speed > 0 else "",
        "share_text": percent(row.roof_pct) if row.roof_pct > 0 else "",
    }  # fmt: skip


def sizes_of(run: Run, at: int) -> list[dict[str, Any]]:
    """Of each ladder what its problems' size is told in, and which problems are a range."""
    groups: dict[tuple[str, ...], list[Ladder]] = {}
    for one in run.ladders():
        if one.timed:
            groups.setdefault((one.family, one.op, one.dtype), []).append(one)
    return [
        {
            "run": at, "family": family, "op": op, "dtype": dtype,
            "unit": "flops" if ladder_csv.sized_by_flops(ladders) else "bytes",
            "ranges": ladder_csv.ranges(one.rows[0] for one in ladders),
        }
        for (family, op, dtype), ladders in groups.items()
    ]  # fmt: skip


def plain(value: Any) -> Any:
    """A number as JSON has it: six digits are more than were measured, and NaN is null."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def exact(count: float) -> float | None:
    """A count as JSON has it: of all its digits, but NaN is null."""
    return int(count) if count.is_integer() else count if math.isfinite(count) else None


def data(runs: Sequence[Run], versions: dict[str, ladder_sources.Version], first: int = 0) -> dict[str, Any]:
    """What the script draws of runs, which are numbered from `first` on."""
    records, roofs, sizes = [], [], []
    for at, run in enumerate(runs, first):
        sizes += sizes_of(run, at)
        for ladder in run.ladders():
            records += [record(run, at, ladder, row) for row in ladder.rows]
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
        "runs": [
            {"name": run.name, "gpu": run.gpu, "earlier": run.is_earlier_protocol, "main": main_of(run)} for run in runs
        ],
        "columns": list(records[0]) if records else [],
        "rows": [[plain(value) for value in one.values()] for one in records],
        "roofs": roofs,
        "sizes": sizes,
        "counts": counts(runs),
        "main": main_problems(runs),
        "earlier": EARLIER,
        "versions": {
            name: {"before": one.before, **one.head} for name, one in versions.items()
        },
    }


def used_versions(runs: Sequence[Run]) -> dict[str, ladder_sources.Version]:
    """Those of the tree that the runs have rows of."""
    there = sorted({f"{row.family}/{row.kernel}" for run in runs for row in run.rows})
    return {name: one for name in there if (one := ladder_sources.version(name))}


def compiled(paths: Sequence[Path], runs: Sequence[Run]) -> dict[str, list[dict[str, Any]]]:
    """What ./bench --asm-form=json wrote: the kernels of each version that the runs have rows of. Its
    lines are told by the files under src/ that they are of."""
    there = {
        "/".join(filter(None, (row.family, row.op, row.dtype, row.kernel))) for run in runs for row in run.rows
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        try:
            kernels = json.loads(path.read_text(encoding="utf-8"))
            for kernel in kernels:
                files: dict[str, list[Any]] = {}
                for line in kernel.pop("lines"):
                    name = line["file"].rpartition("/src/")[2]
                    files.setdefault(name, []).append([line["line"], line["sass"], line["ptx"]])
                if kernel["version"] in there:
                    found.setdefault(kernel["version"], []).append(kernel | {"files": files})
        except OSError as error:
            raise LadderError(f"{path} cannot be read: {error.strerror}.") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise LadderError(f"{path} is not what ./bench --asm=NAME --asm-form=json prints.") from None
    if paths and not found:
        raise LadderError(f"{', '.join(map(str, paths))}: no version in there is one of the CSVs.")
    return found


def texts(
    versions: dict[str, ladder_sources.Version], made: dict[str, list[dict[str, Any]]]
) -> str:
    """The versions' sources and what is written about them, the headers, and what the compiler made; packed."""
    names = {name for one in versions.values() for name in one.headers}
    names |= {name for kernels in made.values() for kernel in kernels for name in kernel["files"]}
    source = ladder_sources.KERNELS.parent
    found = {
        "versions": {
            name: {
                "file": one.file, "source": one.source, "paragraphs": one.paragraphs,
                "drawings": [drawing._asdict() for drawing in one.drawings], "headers": one.headers,
            }
            for name, one in versions.items()
        },
        "headers": {
            name: (source / name).read_text(encoding="utf-8")
            for name in sorted(names) if name.endswith(".hpp") and (source / name).is_file()
        },
        "compiled": made,
    }  # fmt: skip
    return packed(found)


def packed(what: Any) -> str:
    """JSON, compressed, in base64."""
    return base64.b64encode(zlib.compress(json.dumps(what).encode(), 9)).decode()


def order(one: dict[str, Any]) -> tuple[Any, ...]:
    dtype, problem = ladder_csv.dtype_order(one["dtype"]), ladder_csv.natural(one["problem"])
    return (ladder_csv.is_roofs(one["family"]), one["family"], one["op"], dtype, problem, one["cache"],
            ladder_csv.place(one["kernel"]), one["run"])  # fmt: skip


def main_of(run: Run) -> dict[str, str]:
    """The problem that each of a run's ladders shows first."""
    groups: dict[str, list[Row]] = {}
    for row in run.rows:
        groups.setdefault("/".join(key(row, ONE_LADDER[:3])), []).append(row)
    return {name: ladder_csv.main_problem(rows) for name, rows in groups.items()}


def main_problems(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """The problem and the run that each ladder shows first: the main problem of the run that timed
    most of its versions. The longest ladder comes first."""
    groups: dict[str, dict[int, list[Row]]] = {}
    for at, run in enumerate(runs):
        for row in run.rows:
            name = "/".join((row.family, row.op, row.dtype))
            groups.setdefault(name, {}).setdefault(at, []).append(row)

    def versions(rows: list[Row]) -> tuple[bool, int]:
        ours = [row for row in rows if not (row.is_roof or row.is_baseline or row.is_peer)]
        return any(row.timed for row in rows), len({row.kernel for row in ours})

    found = {}
    for name, of in groups.items():
        at = max(of, key=lambda one: versions(of[one]))
        found[name] = (versions(of[at]), {"run": at, "problem": ladder_csv.main_problem(of[at])})
    longest = sorted(found.items(), key=lambda one: one[1][0], reverse=True)
    return {name: main for name, (_, main) in longest}


# ---- What stands in the page without its script


def tag(name: str, inside: str, **attributes: str) -> str:
    """An element; `inside` is HTML, the attributes are text."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for key, value in attributes.items() if value
    )
    return f"<{name}{written}>{inside}</{name}>"


def table(name: str, head: Sequence[tuple[str, str]], lines: Iterable[tuple[int, Sequence[str]]]) -> str:
    """A table of cells that are HTML, each line with the number of its run; the head has a text and a class for
    each column."""
    classes = [kind for _, kind in head]
    top = "".join(tag("th", html.escape(text), class_=kind, scope="col") for text, kind in head)
    body = "\n".join(
        tag("tr", "".join(tag("td", cell, class_=kind) for cell, kind in zip(line, classes)), data_run=str(run))
        for run, line in lines
    )
    whole = tag("table", f"{tag('thead', tag('tr', top))}\n{tag('tbody', body)}")
    return tag("div", whole, class_="scroll", role="region", tabindex="0", aria_label=name)


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


def run_card(run: Run) -> str:
    """Where a run comes from, and how it went."""
    verdicts = collections.Counter(row.verdict for row in run.rows)
    marks = {
        "suspect": sum(row.is_suspect for row in run.rows),
        "throttled": sum(run.throttled(row) > 0 for row in run.rows),
        "at the power limit": sum(row.at_power_limit for row in run.rows),
        "of short problems": sum(row.is_short for row in run.rows),
        "of earlier code": sum(map(run.is_earlier, run.rows)),
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
        "processes": ", ".join(run.texts("processes")),
        **aa_facts(run),
    }
    items = "".join(
        tag("dt", key) + tag("dd", html.escape(value)) for key, value in facts.items() if value
    )
    return tag("article", tag("h3", html.escape(run.name)) + tag("dl", items), class_="run")


def badges(run: Run, row: Row) -> str:
    marks = {
        "suspect": row.is_suspect,
        "throttled": run.throttled(row) > 0,
        "at the power limit": row.at_power_limit,
        "short": row.is_short,
        "earlier protocol": run.is_earlier_protocol,
    }
    found = [
        tag("span", name, class_=f"badge {name.split()[-1]}") for name, on in marks.items() if on
    ]
    if run.is_earlier(row):
        found.append(tag("span", "earlier code", class_="badge", title=EARLIER))
    return " ".join(["", *found])


def summary(runs: Sequence[Run]) -> str:
    """The fastest version of every ladder in every run, at the run's main problem, cache cold."""
    head = [("ladder", "name"), ("GPU", "gpu"), ("problem", "wide"), ("fastest", "fastest"), ("of the roof", "share"),
            ("roof", "wide"), ("vs library", "number"), ("time", "number time"),
            ("run", "run-name")][: 9 if len(runs) > 1 else 8]  # fmt: skip
    lines = []
    for at, run in enumerate(runs):
        cold = [row for row in run.rows if row.cache != "hot" and not row.is_roof]
        for one in ladder_csv.select(cold) if cold else []:
            best = one.best
            if best is None:
                continue
            choice = {name: getattr(one, name) for name in ONE_LADDER}
            query = urllib.parse.urlencode({"view": "why", **choice, "run": at})
            ratio = " ".join(filter(None, (ratio_text(best), best.is_level and "with")))
            ratio += f" {one.vendor}" if ratio else ""
            time = time_text(best.time_us)
            time += f" (burst {time_text(best.burst_us)})" if best.burst_us > 0 else ""
            bar = tag("span", percent(best.roof_pct), style=f"--share: {best.roof_pct:.1f}%")
            cells = [
                tag("a", breakable(one.title), href=f"#{query}"), html.escape(run.gpu), html.escape(one.problem),
                html.escape(best.name + one.tied_with(best)) + badges(run, best),
                bar if best.roof_pct > 0 else "",
                html.escape(roof_title(best.roof)), html.escape(ratio),
                time,
                html.escape(run.name),
            ]  # fmt: skip
            lines.append((one, at, cells))
    lines.sort(key=lambda line: (line[0].family, line[0].op, ladder_csv.dtype_order(line[0].dtype)))
    if not lines:
        return tag("p", "No version of a kernel was timed.")
    return table("the fastest version of every ladder", head, (line[1:] for line in lines))


def problems(runs: Sequence[Run]) -> str:
    """The rows that have no time or no believable one."""
    head = [("version", "name"), ("problem", ""), ("GPU", "gpu"), ("run", "wide"), ("verdict", ""), ("why", "idea")]
    lines = [
        (at, [
            breakable("/".join(filter(None, (row.family, row.op, row.dtype, row.kernel)))),
            html.escape(" ".join(filter(None, (row.problem, row.cache)))), html.escape(run.gpu), html.escape(run.name),
            tag("span", html.escape("suspect" if row.is_suspect else row.verdict), class_="badge"),
            f"{percent(row.roof_pct)} of its roof" if row.is_suspect
            else html.escape(run.cells[row].get("reason", "")),
        ])
        for at, run in enumerate(runs) for row in run.rows if row.verdict != "passed" or row.is_suspect
    ]  # fmt: skip
    if not lines:
        return tag("p", "Every row passed, and none is suspect.")
    return table("rows that did not pass, or are suspect", head, lines)


# ---- The page


def palette() -> str:
    """The colours as CSS: light, and dark where the system is."""
    shared = {"ground": "page", "ink": "ink", "quiet": "quiet"}
    of = {name: colours.COLOURS[one] for name, one in shared.items()} | colours.REPORT
    light, dark = (" ".join(f"--{name}: {pair[i]};" for name, pair in of.items()) for i in (0, 1))
    return (f":root {{ color-scheme: light dark; {light} }}\n"
            f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n")  # fmt: skip


def render(paths: Sequence[Path], asm: Sequence[Path] = ()) -> str:
    def part(name: str) -> str:
        return (TEMPLATES / name).read_text(encoding="utf-8")

    runs = read(paths)
    others = published(runs, paths)
    versions, of_others = used_versions(runs), used_versions(others)
    text = json.dumps(data(runs, versions), separators=(",", ":"), ensure_ascii=False)
    return string.Template(part("page.html")).substitute(
        style=palette() + part("page.css"),
        script="\n".join(part(f"{name}.js") for name in SCRIPTS),
        data=text.replace("<", "\\u003c"),  # no text can end the element that holds it
        texts=texts(of_others | versions, compiled(asm, runs)),
        published=packed(data(others, of_others, len(runs))),
        gpus=html.escape(", ".join(dict.fromkeys(run.gpu for run in runs))),
        runs="\n".join(run_card(run) for run in runs),
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
    parser.add_argument("--asm", type=Path, action="append", default=[], metavar="FILE.json",
                        help="what ./bench --asm=NAME --asm-form=json printed; may be repeated")  # fmt: skip
    options = parser.parse_args()
    output: Path = options.output
    if any(path.resolve() == output.resolve() for path in options.csv + options.asm):
        raise LadderError(f"{output} is one of the files it is made of: the page needs another name.")
    page = render(options.csv, options.asm)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise LadderError(f"{output} cannot be written: {error.strerror}.") from None
    print(output)


if __name__ == "__main__":
    ladder_csv.run(main)
