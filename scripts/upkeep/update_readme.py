#!/usr/bin/env python3
"""Writes the measured tables and pictures of README.md, of results/README.md, of every family's
README and of docs/.

The numbers come from the CSVs under results/<gpu>/: for each family from the GPU's newest one that
has its rows. Left out are rows of versions that are no more, *-shapes.csv, further problems of some
versions, and what scripts/autotune.py and scripts/torch_operators.py measured. *-sizes.csv, ranges of
problems, are only drawn over size. Of several GPUs the one with the most
families measured by the protocol of equal rounds comes first, of those the one measured last;
README.md has a row of it for each family, results/README.md all rows of all GPUs. Below a table stands how
many rows are of earlier code than the tree's (scripts/ladder_code.py); its pictures don't say it.

What stands between these markers is replaced, and nothing else:

  <!-- table:begin -->    … <!-- table:end -->     README.md, results/README.md and the families'
  <!-- plot:begin -->     … <!-- plot:end -->      README.md and the families'
  <!-- sizes:begin -->    … <!-- sizes:end -->     README.md: share of the roof and time over size
  <!-- ladder:begin -->   … <!-- ladder:end -->    docs/reading.md: the transpose's
  <!-- roofline:begin --> … <!-- roofline:end -->  docs/reading.md: gemm's
  <!-- aa:begin -->       … <!-- aa:end -->        docs/measuring.md: what the runs can tell apart

Pictures lie beside their CSV; those that no page shows any more are removed. --check writes
nothing: it names what is out of date, if anything, and then exits with 1.

examples:
  scripts/upkeep/update_readme.py            after a CSV was added to results/<gpu>/, or a kernel changed
  scripts/upkeep/update_readme.py mine.csv   takes a run of your own card into results/<gpu>/ first
  scripts/upkeep/update_readme.py --check    as ctest does
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import math
import os
import re
import string
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ladder_csv  # noqa: E402
from ladder_code import NoHistory, Tree  # noqa: E402
from ladder_csv import (  # noqa: E402
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


@dataclass(frozen=True)
class Run:
    """A CSV under results/<gpu>/, its rows that come from a GPU."""

    path: Path
    rows: tuple[Row, ...]

    @property
    def newest(self) -> str:
        return max(r.timestamp for r in self.rows)

    @property
    def device(self) -> str:
        return self.rows[0].device

    @property
    def in_equal_rounds(self) -> bool:
        """Was it measured by the protocol that knows its resolution?"""
        return any(r.aa_ratio > 0 for r in self.rows)

    def ladders(self, family: str) -> list[Ladder]:
        """Those that pages show: a family's at their main problem, with a cold cache. Roofs are
        no ladders."""
        cold = [r for r in self.rows if r.cache != "hot"]
        return ladder_csv.select(cold, family=family) if not ladder_csv.is_roofs(family) else []


Runs = dict[str, Run]  # a GPU's, by family


@dataclass(frozen=True)
class Picture:
    """A picture that a README links: what it shows, and from which rows."""

    path: Path
    alt: str
    run: Run
    ladders: tuple[Ladder, ...]
    kind: str

    @property
    def digest(self) -> str:
        """Of everything that is drawn; the SVG carries it, so that --check need not draw."""
        rows = [row for one in self.ladders for row in one.rows]
        roofs = [r for r in self.run.rows if r.is_roof]
        ideas = [ladder_csv.idea(row) for row in rows] if self.kind == "ladder" else []
        return hashlib.sha256(repr((self.kind, rows, roofs, ideas)).encode()).hexdigest()[:16]

    @property
    def is_fresh(self) -> bool:
        try:
            return f"rows {self.digest}" in self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False

    def draw(self) -> None:
        import roofline  # needs matplotlib, which --check does without

        if self.kind == "sizes":
            figure = roofline.draw_sizes(self.ladders)
        else:
            ((_, figure),) = roofline.pictures(self.run.rows, self.ladders, (self.kind,))
        roofline.save(figure, self.path, self.description, f"rows {self.digest}")

    @property
    def description(self) -> str:
        """For those who don't see it: the fastest version of each ladder; over size, of its smallest and
        its largest problem."""
        texts = [f"{self.alt}."]
        shown: Iterable[Ladder] = self.ladders
        if self.kind == "sizes":
            shown = (panel[end] for panel in ladder_csv.size_panels(self.ladders) for end in (0, -1))
        for one in shown:
            if best := one.best:
                numbers = ", ".join(filter(None, (time_text(best.time_us), over_vendor(one, best))))
                reached = f", {share(best)} of the roof" if share(best) else ""
                texts.append(f"{one.title} {one.problem}: {best.name}, {numbers}{reached}.")
        return " ".join(texts)


@dataclass
class Page:
    """A page and what belongs between its markers: Markdown, and pictures below it."""

    path: Path
    sections: dict[str, tuple[str, list[Picture]]] = field(default_factory=dict)

    @property
    def pictures(self) -> list[Picture]:
        return [picture for _, pictures in self.sections.values() for picture in pictures]

    def text(self) -> str:
        text = self.path.read_text(encoding="utf-8")
        for name, (table, pictures) in self.sections.items():
            links = [
                f"![{p.alt}]({os.path.relpath(p.path, self.path.parent).replace(os.sep, '/')})"
                for p in pictures
            ]
            text = self._between(name, "\n\n".join(filter(None, (table, *links))), text)
        return text

    def _between(self, what: str, new: str, text: str) -> str:
        marks = re.compile(rf"(<!-- {what}:begin[^>]*-->\n).*?(<!-- {what}:end -->)", re.DOTALL)
        body = f"\n{new}\n\n" if new else ""
        text, found = marks.subn(lambda m: m[1] + body + m[2], text)
        if found != 1 and new:
            raise LadderError(
                f"{self.path} needs one pair <!-- {what}:begin -->, <!-- {what}:end -->, "
                f"each on a line of its own; it has {found}."
            )
        return text


# ---- Tables

# What stands for a family of several operations, where it is not the one without a name
HEADLINES = {"elementwise": "add", "gemm_tensor": "nt", "matrix_reduction": "row_sum",
             "reduction": "sum"}  # fmt: skip
SUMMARY = """The fastest version of each: its time, its share of the roof (what the machine reaches
with the same bytes or the same arithmetic and nothing else to do), and its speed over the vendor's
library, the faster of two, where that has the operation."""
TIES = """Versions that the run can't tell apart are
[tied]({up}docs/measuring.md#what-a-run-can-tell-apart), the simplest is named first; *level with* a
library is what it can't tell from 1.00x. *At the power limit* the GPU holds its clock down; it is
measured once that has settled."""


def markdown(rows: Sequence[Sequence[str]], texts: int) -> str:
    """A table whose first row is its head; the first columns are texts, the others numbers. Columns
    with nothing below their head are left out."""
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    lines = ["| " + " | ".join(row[i] for i in used) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("---" if i < texts else "---:" for i in used) + "|")
    return "\n".join(lines)


def share(row: Row) -> str:
    """Of its roof; a suspect share is said to be so."""
    if not row.roof_pct > 0:
        return ""
    return percent(row.roof_pct) + (" (suspect)" if row.is_suspect else "")


def number(value: float, form: str) -> str:
    return format(value, form) if value == value else ""


def over_vendor(one: Ladder, row: Row) -> str:
    """1.06x cuBLAS, or level with cuBLAS."""
    ratio = ratio_text(row)
    return ratio and f"{'level with' if row.is_level else f'{ratio}x'} {one.vendor}"


def in_short(one: Ladder, best: Row) -> str:
    """A version's time, its share of the roof, its speed over the vendor's library; its name, and
    those it is tied with."""
    time = time_text(best.time_us) + (" at the power limit" if best.at_power_limit else "")
    time += " (short)" if one.is_short else ""
    numbers = " · ".join(filter(None, (time, share(best), over_vendor(one, best))))
    if not best.is_fastest:  # by the earlier protocol the fastest is not told from others
        return numbers
    return f"{numbers}<br>{best.short_name}{one.tied_with(best, most=3)}"


def headline(ladders: Sequence[Ladder], family: str) -> list[Ladder]:
    """The operation that stands for a family, in its types."""
    ops = [one.op for one in ladders]
    op = HEADLINES.get(family, "")
    return [one for one in ladders if one.op == (op if op in ops else ops[0])]


def summary(runs: Runs, up: str, headlines: bool = False) -> str:
    """The fastest version of every ladder, at its main problem, or of one operation of each family;
    types side by side. up: the way from the page to the root."""
    types = ("f32", "f16", "bf16")
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for family, run in runs.items():
        ladders = run.ladders(family)
        for one in headline(ladders, family) if headlines and ladders else ladders:
            best = one.best
            if best is None:
                continue
            of_types = cells.setdefault((family, one.op, one.problem), {})
            of_types[one.dtype] = in_short(one, best)
    table = [["family", "operation", "problem", *types, "other types"]]
    for (family, op, problem), of_types in cells.items():
        others = (f"{dtype}: {text}" for dtype, text in of_types.items() if dtype not in types)
        of_columns = [of_types.get(dtype, "") for dtype in types]
        link = f"[{family}]({up}src/kernels/{family}/)"
        table.append([link, op, problem, *of_columns, "<br>".join(others)])
    return markdown(table, len(table[0])) if cells else ""


def most_versions(ladders: Sequence[Ladder]) -> Ladder:
    """The first of the longest."""
    return max(ladders, key=lambda one: len(one.timed))


def ladder_table(ladders: Sequence[Ladder]) -> str:
    """All versions of an operation: in full for the type that has the most, speed and share for the
    others. The fastest speed of a type, and those tied with it, are bold."""
    main = most_versions(ladders)
    others = [one for one in ladders if one is not main]
    ladders = [main, *others]
    unit = "TFLOP/s" if main.is_compute else "GB/s"
    versus = f"vs {main.vendor}" if main.vendor else "vs library"
    head = ["version", "time", "burst", unit, "of the roof", versus, "registers", "occupancy"]
    head += [
        f"{one.dtype}, {'TFLOP/s' if one.is_compute else 'GB/s'}"
        + (", at the power limit" if one.at_power_limit else "")
        + (", short" if one.is_short else "")
        for one in others
    ]
    kernels = sorted({r.kernel for one in ladders for r in one.rows}, key=ladder_csv.place)
    table = [head]
    for kernel in kernels:
        line = [f"`{kernel}`"] + [""] * (len(head) - 1)
        for column, one in enumerate(ladders):
            row = next((r for r in one.rows if r.kernel == kernel), None)
            if row is None:
                continue
            speed = digits(one.speed(row) / 1000 if one.is_compute else one.speed(row))
            if row.is_fastest and row in one.tied:
                speed = f"**{speed}**"
            if column:
                text = f"{speed} ({share(row)})" if share(row) else speed
                line[7 + column] = text if row.timed else row.verdict
            elif not row.timed:
                line[1] = row.verdict
            else:
                occupancy = number(100 * row.occupancy, ".0f")
                line[1:8] = [
                    time_text(row.time_us), time_text(row.burst_us) if row.burst_us > 0 else "",
                    speed, share(row), ratio_text(row), number(row.registers, ".0f"),
                    occupancy and occupancy + " %",
                ]  # fmt: skip
        table.append(line)
    title = ", ".join(filter(None, (main.op and f"**{main.op}**", main.dtype, main.problem)))
    roof = next((f"roof: {roof_title(r.roof)}" for r in main.timed if r.roof), "")
    notes = ", ".join(filter(None, (roof, main.at_power_limit and "at the power limit",
                                   main.is_short and "short")))  # fmt: skip
    title += f" ({notes})" if notes else ""
    if main.best and main.best.is_fastest:
        title += f". {main.best.name} is the fastest{main.tied_with(main.best)}"
    return f"{title}:\n\n{markdown(table, 1)}"


def family_table(run: Run, family: str) -> str:
    ladders = run.ladders(family)
    ops = dict.fromkeys(one.op for one in ladders)
    tables = [ladder_table([one for one in ladders if one.op == op]) for op in ops]
    if any(one.best and one.best.is_fastest for one in ladders):
        tables.append("Bold: the fastest of a type, and what is tied with it.")
    return "\n\n".join(tables)


COUNTED = {"shared_atomics": "atomic", "gather": "load"}  # what the operations of roofs are that are none


def roofs_table(run: Run) -> str:
    """The measured roofs, each with the theoretical rate where the device tells it."""
    table = [["roof", "version", "type", "problem", "cache", "time", "speed", "pin rate", "of it"]]

    def order(r: Row) -> tuple[Any, ...]:
        size = ladder_csv.natural(r.problem)
        return r.op, ladder_csv.dtype_order(r.dtype), size, r.kernel, r.cache

    for row in sorted((r for r in run.rows if r.is_roof and r.timed), key=order):
        compute = ladder_csv.is_compute(row.op)
        rate = row.gflops if compute else row.gbps
        most = ladder_csv.pin(run.rows, f"{row.op} {row.dtype}" if compute else row.op)
        speed = rate_text(rate, compute) if rate > 0 else ""
        if unit := COUNTED.get(row.op):
            speed = f"{digits(row.gflops)} G{unit}/s"
        table.append([
            row.op, f"`{row.kernel}`", row.dtype, row.problem, row.cache,
            time_text(row.time_us), speed,
            rate_text(most, compute) if most > 0 else "",
            percent(100 * rate / most) if most > 0 and rate > 0 else "",
        ])  # fmt: skip
    return markdown(table, 5)


def provenance(page: Path, runs: Runs) -> str:
    """One line for each CSV that a page's families come from, with the commits of their rows, the
    resolution of the ladders shown, and how many of their rows are of earlier code."""
    lines = []
    several = len(set(runs.values())) > 1
    for run in dict.fromkeys(runs.values()):
        families = [family for family, of in runs.items() if of is run]
        rows = [r for r in run.rows if r.family in families]
        shas = dict.fromkeys(r.git_sha for r in rows if r.git_sha not in ("", "unknown"))
        commit = f", commit {', '.join(sha[:10] for sha in shas)}" if shas else ""
        protocol = "" if run.in_equal_rounds else " by the earlier protocol"
        line = f"Measured{protocol} on {run.device}, L2 cache cold{commit}: {link(run, page)}"
        line += f" ({', '.join(families)})." if several else "."
        shown = [r for family in families for one in run.ladders(family) for r in one.rows]
        if resolution := Resolution.of(shown):
            line += f" {resolution_text(resolution, shown)}"
        lines.append(line + earlier_code(page, run, shown or rows))
    return "\n".join(lines)


@functools.cache
def tree_of(root: Path) -> Tree:
    return Tree(root)


def earlier_code(page: Path, run: Run, rows: Sequence[Row]) -> str:
    """A sentence behind others; the page's own where history doesn't tell."""
    try:
        sentence = tree_of(run.path.parents[2]).earlier(rows)
        return f" {sentence}." if sentence else ""
    except NoHistory:
        line = rf"^Measured .*{re.escape(link(run, page))}.*?( \d+ of \d+ rows are of earlier code\.)?$"
        found = re.search(line, page.read_text(encoding="utf-8"), re.MULTILINE)
        return (found and found[1]) or ""


def link(run: Run, page: Path) -> str:
    return f"[{run.path.name}]({os.path.relpath(run.path, page.parent).replace(os.sep, '/')})"


def resolution_text(resolution: Resolution, rows: Sequence[Row]) -> str:
    """How many processes each row is of, and how far from 1 the intervals of their A/A reach."""
    counts = sorted({1 if math.isnan(r.processes) else int(r.processes) for r in rows if r.timed})
    of = " or ".join(map(str, counts)) + " processes" if counts != [1] else "one process"
    median, worst = (f"{value:.2f} %" for value in (resolution.median, resolution.worst))
    reach = worst if resolution.groups == 1 else f"{median} (median; at worst {worst})"
    return f"Each row is of {of}; the A/A's interval reaches {reach} from 1."


def aa_table(page: Path, machines: Sequence[Runs]) -> str:
    """The A/A of every run that has one."""
    table = [["GPU", "run", "problems", "median distance from 1", "within 0.5 %",
              "interval holds 1", "median resolution", "worst"]]  # fmt: skip
    for run in dict.fromkeys(run for runs in machines for run in runs.values()):
        if found := Resolution.of(run.rows):
            table.append([
                run.device, link(run, page), str(found.groups), f"{found.deviation:.2f} %",
                f"{100 * found.within:.0f} %", f"{100 * found.holds_one:.0f} %",
                f"{found.median:.2f} %", f"{found.worst:.2f} %",
            ])  # fmt: skip
    if not table[1:]:
        return ""
    return f"The A/A of the runs that the tables show:\n\n{markdown(table, 2)}"


# ---- Pages


def run_of(path: Path, root: Path) -> Run:
    """A CSV's rows that come from a GPU, but for those of versions that the tree has no more."""
    kernels = root / "src" / "kernels"
    return Run(path, tuple(
        r for r in ladder_csv.read(path)
        if r.backend == "cuda" and (r.is_peer or ladder_csv.file_of(r.family, r.kernel, kernels))
    ))  # fmt: skip


def newest_runs(root: Path) -> list[Runs]:
    """For every GPU and family the newest run that has its cold rows. First comes the GPU with the most
    families in equal rounds, of those the one with the newest run."""
    machines: dict[Path, list[Run]] = {}
    for path in ladder_csv.runs(root):
        run = run_of(path, root)
        if any(r.cache != "hot" for r in run.rows):
            machines.setdefault(path.parent, []).append(run)

    found: list[Runs] = []
    for runs in machines.values():
        runs.sort(key=lambda run: (run.newest, run.path.name))
        newest = {row.family: run for run in runs for row in run.rows if row.cache != "hot"}
        found.append(dict(sorted(newest.items())))

    def order(runs: Runs) -> tuple[int, str, str]:
        in_equal_rounds = sum(run.in_equal_rounds for run in runs.values())
        return in_equal_rounds, *max((run.newest, run.path.name) for run in runs.values())

    return sorted(found, key=order, reverse=True)


def pages(root: Path) -> list[Page]:
    machines = newest_runs(root)
    # A family is shown on the first GPU that has it.
    first = {family: run for runs in reversed(machines) for family, run in runs.items()}
    found = [main_page(root / "README.md", machines)]
    found[0].sections["sizes"] = over_size(root / "README.md", machines)
    if (path := root / "results/README.md").exists():
        found.append(results_page(path, machines))
    for readme in sorted(root.glob("src/kernels/*/README.md")):
        family = readme.parent.name
        page = Page(readme, {"table": ("", []), "plot": ("", [])})
        if family in first:
            run = first[family]
            table = roofs_table(run) if ladder_csv.is_roofs(family) else family_table(run, family)
            table += "\n\n" + provenance(readme, {family: run})
            page.sections = {"table": (table, []), "plot": ("", family_pictures(first, family))}
        found.append(page)
    docs = {
        "measuring": {"aa": (aa_table(root / "docs/measuring.md", machines), [])},
        "reading": {
            "ladder": ("", family_pictures(first, "transpose", "ladder")),
            "roofline": ("", family_pictures(first, "gemm", "roofline")),
        },
    }
    for name, sections in docs.items():
        if (path := root / "docs" / f"{name}.md").exists():
            found.append(Page(path, sections))
    return found


def legend(runs: Runs, up: str) -> str:
    ties = any(run.in_equal_rounds for run in runs.values())
    return f"{SUMMARY}\n{TIES.format(up=up)}" if ties else SUMMARY


def without_roofs(machines: Sequence[Runs]) -> list[Runs]:
    ladders = [{f: run for f, run in of.items() if not ladder_csv.is_roofs(f)} for of in machines]
    return [runs for runs in ladders if runs]


def main_page(path: Path, machines: Sequence[Runs]) -> Page:
    """One operation of each family, on the first GPU."""
    for runs in without_roofs(machines)[:1]:
        rest = "All operations, and other GPUs: [results/](results/README.md)."
        texts = legend(runs, ""), summary(runs, "", headlines=True), provenance(path, runs), rest
        return Page(path, {"table": ("\n\n".join(texts), []), "plot": ("", main_pictures(runs))})
    return Page(path, {"table": ("", []), "plot": ("", [])})


def results_page(path: Path, machines: Sequence[Runs]) -> Page:
    """All operations, GPU by GPU."""
    texts = []
    for runs in without_roofs(machines):
        texts += [] if texts else [legend(runs, "../")]
        device = next(iter(runs.values())).device
        texts += [f"## {device}", summary(runs, "../"), provenance(path, runs)]
    return Page(path, {"table": ("\n\n".join(texts), [])})


def over_size(page: Path, machines: Sequence[Runs]) -> tuple[str, list[Picture]]:
    """A picture of the GPU with the longest ranges: of each family the operation that stands for it, in the
    type with the longest one."""
    most, chosen = 0, {}
    for runs in without_roofs(machines):
        folder = next(iter(runs.values())).path.parent
        further = [run_of(path, page.parent) for path in sorted(folder.glob("*-sizes.csv"))]
        panels = {}
        for family, newest in runs.items():
            of_family = [(range_of(panel), run, panel) for run in (newest, *further)
                         for panel in family_sizes(run, family)]  # fmt: skip
            if of_family:
                panels[family] = max(of_family, key=lambda one: (*one[0], one[1].newest))
        joined = sum(length for (length, _), _, _ in panels.values())
        if panels and (joined > most or not chosen):
            most, chosen = joined, panels
    if not chosen:
        return "", []
    used = dict.fromkeys(run for _, run, _ in chosen.values())
    csvs = ", ".join(link(run, page) for run in used)
    text = ("The fastest version at each size beside the vendor's library. A line joins three or more problems\n"
            "in which the same numbers grow by one factor and the others stay.\n"
            f"Measured on {next(iter(used)).device}, L2 cache cold: {csvs}.")  # fmt: skip
    ladders = tuple(one for _, _, panel in chosen.values() for one in panel)
    run = next(iter(used))
    alt = "share of the roof and time over size, the fastest version beside the vendor's library, for every family"
    return text, [Picture(run.path.parent / "over-size.svg", alt, run, ladders, "sizes")]


def family_sizes(run: Run, family: str) -> list[list[Ladder]]:
    cold = [r for r in run.rows if r.cache != "hot" and r.family == family]
    ladders = ladder_csv.every_ladder(cold)
    return ladder_csv.size_panels(headline(ladders, family)) if ladders else []


def range_of(panel: Sequence[Ladder]) -> tuple[int, bool]:
    """How many problems its longest range has, and whether the vendor's library is beside them."""
    ranges = ladder_csv.ranges(one.rows[0] for one in panel)
    return max(map(len, ranges), default=0), any(one.baselines for one in panel)


MOST_BARS = 36  # of a picture


def drawn(ladders: Sequence[Ladder], family: str) -> list[Ladder]:
    """The operation that stands for the family, and of the others those with the most versions, as
    many as a picture has room for. The table has all."""
    first = headline(ladders, family)
    others = [one for one in ladders if one not in first]
    chosen: list[Ladder] = []
    for one in first + sorted(others, key=lambda one: -len(one.timed)):
        if not chosen or sum(len(each.timed) for each in [*chosen, one]) <= MOST_BARS:
            chosen.append(one)
    return [one for one in ladders if one in chosen]


def family_pictures(runs: Runs, family: str, *kinds: str) -> list[Picture]:
    """Bars for its operations, the roofline of the longest ladder; in that ladder's type. Only of
    these kinds, if any is given."""
    if family not in runs:
        return []
    run = runs[family]
    timed = [one for one in run.ladders(family) if one.timed]
    if not timed:
        return []
    dtype = most_versions(timed).dtype
    timed = [one for one in timed if one.dtype == dtype]
    bars = drawn(timed, family)
    ops = ", ".join(one.op for one in bars if one.op)
    chosen = [("ladder", f" of {ops}" if len(bars) < len(timed) else "", bars)]
    with_work = [one for one in timed if any(r.gflops > 0 for r in one.timed)]
    if with_work:
        chosen.append(("roofline", "", [max(with_work, key=lambda one: len(one.timed))]))
    return [
        Picture(run.path.parent / f"{family}-{dtype}-{kind}.svg",
                f"{family} {dtype}: {kind}{which}", run, tuple(members), kind)
        for kind, which, members in chosen if kind in (kinds or (kind,))
    ]  # fmt: skip


def main_pictures(runs: Runs) -> list[Picture]:
    """One operation of each family in all its types in one picture, and the roofline of gemm."""
    newest = list(runs.values())
    run = max(newest, key=lambda r: (newest.count(r), r.newest, r.path.name))
    every = [one for family, of in runs.items() if (ladders := of.ladders(family))
             for one in headline(ladders, family) if one.best]  # fmt: skip
    chosen = []
    if any(all(r.roof_pct > 0 for r in one.timed) for one in every if one.best):
        path = run.path.parent / "overview.svg"
        alt = "every version's share of its measured roof, for every family and type"
        chosen.append(Picture(path, alt, run, tuple(every), "overview"))
    return chosen + family_pictures(runs, "gemm", "roofline")


def taken_in(path: Path, root: Path) -> Path:
    """A run's copy under results/<gpu>/, named by the day it was measured."""
    rows = [row for row in ladder_csv.read(path) if row.backend != "host"]
    devices, commits = (sorted({getattr(row, name) for row in rows}) for name in ("device", "git_sha"))
    if not rows:
        raise LadderError(f"{path} has no row of a GPU: ./bench on one measures it.")
    if len(devices) > 1:
        raise LadderError(f"{path} is of several GPUs ({', '.join(devices)}): each needs a file of its own.")
    if dirty := [sha for sha in commits if sha.endswith("-dirty")]:
        raise LadderError(f"{path} is of code that is in no commit ({', '.join(dirty)}): commit, build and "
                          "measure again, so that others can tell what it measured.")  # fmt: skip
    folder = ladder_csv.results_folder(devices[0], root)
    data = path.read_bytes()
    for other in folder.glob("*.csv"):
        if other.read_bytes() == data:
            raise LadderError(f"{path} is there already, as {other.relative_to(root)}.")
    day = max(row.timestamp for row in rows)[: len("2026-01-31")]
    names = (folder / f"{day}{letter}.csv" for letter in ("", *string.ascii_lowercase[1:]))
    free = next((name for name in names if not name.exists()), None)
    if free is None:
        raise LadderError(f"{folder.relative_to(root)} has 26 files of {day}: name one yourself.")
    folder.mkdir(parents=True, exist_ok=True)
    free.write_bytes(data)
    return free


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("csv", type=Path, nargs="?", help="a run to take into results/<gpu>/ first")
    parser.add_argument("--check", action="store_true", help="only name what is out of date")
    parser.add_argument("--root", type=Path, default=ladder_csv.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.csv and options.check:
        raise LadderError("--check writes nothing, so it takes no CSV in.")
    if options.csv:
        ladder_csv.needs_package("matplotlib")
        print(taken_in(options.csv, options.root).relative_to(options.root))

    found = pages(options.root)
    pictures = {p.path: p for page in found for p in page.pictures}
    stale = [page for page in found if page.text() != page.path.read_text(encoding="utf-8")]
    old = [p.path for p in pictures.values() if not p.is_fresh]
    by_hand = "".join(page.path.read_text(encoding="utf-8") for page in found)  # random_shapes.py's
    unseen = [path for path in options.root.glob("results/*/*.svg")
              if path not in pictures and path.name not in by_hand]  # fmt: skip
    if options.check:
        wrong = {path: "is out of date" for path in [*(page.path for page in stale), *old]}
        wrong |= {path: "is shown by no page" for path in sorted(unseen)}
        for path, what in wrong.items():
            print(f"{path.relative_to(options.root)} {what}", file=sys.stderr)
        if wrong:
            print("scripts/upkeep/update_readme.py brings them up to date.", file=sys.stderr)
        return 1 if wrong else 0

    if pictures:
        ladder_csv.needs_package("matplotlib")
    for picture in pictures.values():  # all of them: what draws them may have changed
        picture.draw()
    for page in stale:
        page.path.write_text(page.text(), encoding="utf-8")
    for path in unseen:
        path.unlink()
    for path in [*(page.path for page in stale), *pictures]:
        print(path.relative_to(options.root))
    return 0


if __name__ == "__main__":
    ladder_csv.run(main)
