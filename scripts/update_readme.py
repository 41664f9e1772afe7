#!/usr/bin/env python3
"""Writes the measured tables and pictures of README.md and of every family's README.

The numbers come from the CSVs under results/<gpu>/: for each family from the newest one that has
its rows. Left out are *-shapes.csv, further problems of some versions, and what scripts/autotune
measured. What stands between these markers is replaced, and nothing else:

  <!-- table:begin --> … <!-- table:end -->
  <!-- plot:begin -->  … <!-- plot:end -->

Pictures lie beside their CSV. --check writes nothing: it names what is out of date, if
anything, and then exits with 1.

examples:
  scripts/update_readme.py            after a CSV was added to results/<gpu>/
  scripts/update_readme.py --check    as ctest does
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Sequence

import ladder_csv
from ladder_csv import Ladder, LadderError, Row, digits, percent, rate_text, roof_title, time_text


@dataclass(frozen=True)
class Run:
    """A CSV under results/<gpu>/, its rows that come from a GPU."""

    path: Path
    rows: tuple[Row, ...]

    @property
    def newest(self) -> str:
        return max(r.timestamp for r in self.rows)

    def ladders(self, family: str) -> list[Ladder]:
        cold = [r for r in self.rows if r.cache != "hot"]
        return ladder_csv.select(cold, family=family)


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
        roofs = [r for r in self.run.rows if r.family == "roofs"]
        return hashlib.sha256(repr((self.kind, rows, roofs)).encode()).hexdigest()[:16]

    @property
    def is_fresh(self) -> bool:
        try:
            return f"rows {self.digest}" in self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False

    def draw(self) -> None:
        import roofline  # needs matplotlib, which --check does without

        ((_, figure),) = roofline.pictures(self.run.rows, self.ladders, (self.kind,))
        roofline.save(figure, self.path, f"rows {self.digest}")


@dataclass
class Page:
    """A README and what belongs between its markers."""

    path: Path
    table: str
    pictures: list[Picture] = field(default_factory=list)

    def text(self) -> str:
        old = self.path.read_text(encoding="utf-8")
        links = [
            f"![{p.alt}]({os.path.relpath(p.path, self.path.parent).replace(os.sep, '/')})"
            for p in self.pictures
        ]
        return self._between("plot", "\n\n".join(links), self._between("table", self.table, old))

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

SUMMARY = """The fastest version of each: its time, its share of the roof (what the machine reaches
with the same bytes or the same arithmetic and nothing else to do), and its speed over the vendor's
library where that has the operation."""


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


def in_short(one: Ladder, best: Row) -> str:
    """A version's time, its share of the roof, its speed over the vendor's library."""
    ratio = f"{best.vs_baseline:.2f}x {one.vendor}" if best.vs_baseline > 0 else ""
    return " · ".join(filter(None, (time_text(best.time_us_median), share(best), ratio)))


def summary(runs: dict[str, Run]) -> str:
    """The fastest version of every ladder, at its main problem; types side by side."""
    types = ("f32", "f16", "bf16")
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for family, run in runs.items():
        for one in run.ladders(family):
            best = one.best
            if best is None:
                continue
            of_types = cells.setdefault((family, one.op, one.problem), {})
            of_types[one.dtype] = in_short(one, best)
    table = [["family", "operation", "problem", *types, "other types"]]
    for (family, op, problem), of_types in cells.items():
        others = (f"{dtype}: {text}" for dtype, text in of_types.items() if dtype not in types)
        of_columns = [of_types.get(dtype, "") for dtype in types]
        link = f"[{family}](src/kernels/{family}/)"
        table.append([link, op, problem, *of_columns, "; ".join(others)])
    return f"{SUMMARY}\n\n{markdown(table, len(table[0]))}" if cells else ""


def most_versions(ladders: Sequence[Ladder]) -> Ladder:
    """The first of the longest."""
    return max(ladders, key=lambda one: len(one.timed))


def ladder_table(ladders: Sequence[Ladder]) -> str:
    """All versions of an operation: in full for the type that has the most, speed and share for the
    others."""
    main = most_versions(ladders)
    others = [one for one in ladders if one is not main]
    ladders = [main, *others]
    unit = "TFLOP/s" if main.is_compute else "GB/s"
    versus = f"vs {main.vendor}" if main.vendor else "vs baseline"
    head = ["version", "time", unit, "of the roof", versus, "registers", "occupancy"]
    head += [f"{one.dtype}, {'TFLOP/s' if one.is_compute else 'GB/s'}" for one in others]
    places = sorted({r.place for one in ladders for r in one.rows})
    table = [head]
    for _, kernel in places:
        line = [f"`{kernel}`"] + [""] * (len(head) - 1)
        for column, one in enumerate(ladders):
            row = next((r for r in one.rows if r.kernel == kernel), None)
            if row is None:
                continue
            speed = digits(one.speed(row) / 1000 if one.is_compute else one.speed(row))
            if column:
                text = f"{speed} ({share(row)})" if share(row) else speed
                line[6 + column] = text if row.timed else row.verdict
            elif not row.timed:
                line[1] = row.verdict
            else:
                occupancy = number(100 * row.occupancy, ".0f")
                line[1:7] = [
                    time_text(row.time_us_median), speed, share(row),
                    f"{row.vs_baseline:.2f}" if row.vs_baseline > 0 else "",
                    number(row.registers, ".0f"), occupancy and occupancy + " %",
                ]  # fmt: skip
        table.append(line)
    title = ", ".join(filter(None, (main.op and f"**{main.op}**", main.dtype, main.problem)))
    roof = next((r.roof for r in main.timed if r.roof), "")
    return f"{title}{f' (roof: {roof_title(roof)})' if roof else ''}:\n\n{markdown(table, 1)}"


def family_table(run: Run, family: str) -> str:
    ladders = run.ladders(family)
    ops = dict.fromkeys(one.op for one in ladders)
    return "\n\n".join(ladder_table([one for one in ladders if one.op == op]) for op in ops)


def roofs_table(run: Run) -> str:
    """The measured roofs, each with the theoretical rate where the device tells it."""
    table = [["roof", "version", "type", "problem", "cache", "time", "speed", "pin rate", "of it"]]

    def order(r: Row) -> tuple[Any, ...]:
        size = ladder_csv.natural(r.problem)
        return r.op, ladder_csv.dtype_order(r.dtype), size, r.kernel, r.cache

    for row in sorted((r for r in run.rows if r.family == "roofs" and r.timed), key=order):
        compute = ladder_csv.is_compute(row.op)
        rate = row.gflops if compute else row.gbps
        most = ladder_csv.pin(run.rows, f"{row.op} {row.dtype}" if compute else row.op)
        table.append([
            row.op, f"`{row.kernel}`", row.dtype, row.problem, row.cache,
            time_text(row.time_us_median), rate_text(rate, compute) if rate > 0 else "",
            rate_text(most, compute) if most > 0 else "",
            percent(100 * rate / most) if most > 0 and rate > 0 else "",
        ])  # fmt: skip
    return markdown(table, 5)


def provenance(page: Path, runs: dict[str, Run]) -> str:
    """One line for each CSV that a page's families come from, with the commits of their rows."""
    lines = []
    for run in dict.fromkeys(runs.values()):
        link = os.path.relpath(run.path, page.parent).replace(os.sep, "/")
        row = run.rows[0]
        rows = [r for r in run.rows if runs.get(r.family) is run]
        shas = dict.fromkeys(r.git_sha for r in rows if r.git_sha not in ("", "unknown"))
        commit = f", commit {', '.join(sha[:10] for sha in shas)}" if shas else ""
        lines.append(f"Measured on {row.device}, L2 cache cold{commit}: [{run.path.name}]({link}).")
    return "\n".join(lines)


# ---- Pages


def newest_runs(root: Path) -> dict[str, Run]:
    """For every family the newest run that has its rows."""
    runs = []
    for path in sorted(root.glob("results/*/*.csv")):
        if re.search(r"^counters\.csv$|-shapes\.csv$|-autotune-\w+\.csv$", path.name):
            continue  # of scripts/validate_counters; further problems of some versions; of autotune
        rows = tuple(r for r in ladder_csv.read(path) if r.backend == "cuda")
        if rows:
            runs.append(Run(path, rows))
    runs.sort(key=lambda run: (run.newest, run.path.name))
    newest = {row.family: run for run in runs for row in run.rows}
    return dict(sorted(newest.items()))


def pages(root: Path) -> list[Page]:
    runs = newest_runs(root)
    roofs = runs.pop("roofs", None)
    found = []
    for readme in sorted(root.glob("src/kernels/*/README.md")):
        family = readme.parent.name
        page = Page(readme, "")
        if family == "roofs" and roofs:
            page.table = roofs_table(roofs) + "\n\n" + provenance(readme, {family: roofs})
        elif family in runs:
            run = runs[family]
            page.table = family_table(run, family) + "\n\n" + provenance(readme, {family: run})
            page.pictures = family_pictures(run, family)
        found.append(page)
    main = Page(root / "README.md", "")
    if runs:
        main.table = summary(runs) + "\n\n" + provenance(main.path, runs)
        main.pictures = main_pictures(runs)
    return [main, *found]


def family_pictures(run: Run, family: str) -> list[Picture]:
    """Bars for all operations, the roofline of the longest ladder; in that ladder's type."""
    ladders = [one for one in run.ladders(family) if one.timed]
    if not ladders:
        return []
    dtype = most_versions(ladders).dtype
    ladders = [one for one in ladders if one.dtype == dtype]
    chosen = [("ladder", tuple(ladders))]
    with_work = [one for one in ladders if any(r.gflops > 0 for r in one.timed)]
    if with_work:
        chosen.append(("roofline", (max(with_work, key=lambda one: len(one.timed)),)))
    return [
        Picture(run.path.parent / f"{family}-{dtype}-{kind}.svg",
                f"{family} {dtype}: {kind}", run, members, kind)
        for kind, members in chosen
    ]  # fmt: skip


def main_pictures(runs: dict[str, Run]) -> list[Picture]:
    """All families of one run in one picture, and the roofline of gemm."""
    newest = list(runs.values())
    run = max(newest, key=lambda r: (newest.count(r), r.newest, r.path.name))
    ladders = [one for family, of in runs.items() if of is run for one in run.ladders(family)]
    ladders = [one for one in ladders if one.best and one.dtype == "f32"] or ladders
    chosen = []
    if any(all(r.roof_pct > 0 for r in one.timed) for one in ladders if one.best):
        path = run.path.parent / "overview.svg"
        alt = "every version's share of its measured roof, for every family"
        chosen.append(Picture(path, alt, run, tuple(ladders), "overview"))
    if "gemm" in runs:
        chosen += [p for p in family_pictures(runs["gemm"], "gemm") if p.kind == "roofline"]
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only name what is out of date")
    parser.add_argument("--root", type=Path, default=ladder_csv.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()

    found = pages(options.root)
    pictures = {p.path: p for page in found for p in page.pictures}
    stale = [page for page in found if page.text() != page.path.read_text(encoding="utf-8")]
    old = [p for p in pictures.values() if not p.is_fresh]
    if options.check:
        for path in [*(page.path for page in stale), *(p.path for p in old)]:
            print(f"{path.relative_to(options.root)} is out of date", file=sys.stderr)
        if stale or old:
            print("scripts/update_readme.py brings them up to date.", file=sys.stderr)
        return 1 if stale or old else 0

    if pictures:
        ladder_csv.needs_matplotlib()
    for picture in pictures.values():  # all of them: what draws them may have changed
        picture.draw()
    for page in stale:
        page.path.write_text(page.text(), encoding="utf-8")
    for path in [*(page.path for page in stale), *pictures]:
        print(path.relative_to(options.root))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LadderError as error:
        ladder_csv.fail(error)
    except OSError as error:
        ladder_csv.fail(f"{error.filename}: {error.strerror}.")
