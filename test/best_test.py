#!/usr/bin/env python3
"""Whether the version that the library calls the best for a problem is the fastest, by the rows in
results/ that are of today's code (scripts/ladder_code.py): best_test.py LIBRARY. Exits with 77 where git's
history would have to tell, and does not."""

from __future__ import annotations

import sys
import unittest
from collections import Counter
from pathlib import Path
from typing import ClassVar, Iterable, Sequence

import skips

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True

import ladder_csv  # noqa: E402
from ladder_code import NoHistory, Tree  # noqa: E402
from ladder_csv import Row  # noqa: E402
from peers.library import HOST, Library, LibraryError  # noqa: E402

# The best version may take this much longer than the fastest, beyond what its run can't tell apart: it is
# chosen for a whole operation, or by an estimate.
BOUND = 0.10


# ---- The best and the fastest


def rungs(rows: Iterable[Row]) -> list[Row]:
    """Of versions of ours, with a time that can be believed."""
    return [r for r in rows if r.timed and r.backend == "cuda"
            and not (r.is_baseline or r.is_peer or r.is_roof or r.is_suspect)]  # fmt: skip


def groups_of(rows: Iterable[Row]) -> list[list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row.device, *ladder_csv.group(row)), []).append(row)
    return list(found.values())


def times_its_choices(row: Row) -> bool:
    """When a problem is planned; nobody asks the best version for that."""
    file = ladder_csv.file_of(row.family, row.kernel)
    return file is not None and "bool may_time" in file.read_text(encoding="utf-8")


def slower(rows: Sequence[Row], best: str) -> str | None:
    """What is to be said of the best version, if it is slower than another; None where the rows don't have
    both."""
    ours = next((r for r in rows if r.kernel == best), None)
    others = [r for r in rows if r.kernel != best and not times_its_choices(r)]
    if not ours or not others:
        return None
    fastest = min(others, key=lambda r: r.time_us)
    unknown = ours.resolution_pct / 100 if ours.resolution_pct >= 0 else 0
    ratio = ours.time_us / fastest.time_us
    if ratio <= 1 + BOUND + unknown:
        return ""
    name = "/".join(filter(None, (ours.family, ours.op, ours.dtype, best, ours.problem)))
    return f"{name} takes {ratio:.2f} times as long as {fastest.kernel} on {ours.device} ({ours.git_sha[:10]})"


def best_of(library: Library, row: Row) -> str:
    """For its problem, of the host executor's kernels, which have all that versions need of a GPU; empty if
    there is none."""
    operation = "/".join(filter(None, (row.family, row.op)))
    try:
        return library.best(operation, row.dtype, HOST, row.problem).version
    except LibraryError:
        return ""


class Results(unittest.TestCase):
    library: ClassVar[Library]

    def test_the_best_is_the_fastest(self) -> None:
        tree = Tree()
        found: list[str] = []
        counts = Counter[str]()
        for path in ladder_csv.files():
            rows = rungs(ladder_csv.read(path))
            try:
                todays = [row for row in rows if tree.is_of_today(row)]
            except NoHistory as why:
                self.skipTest(f"which code the rows are of is not known: {why}")
            counts.update(todays=len(todays), stale=len(rows) - len(todays))
            said = (slower(group, best_of(self.library, group[0])) for group in groups_of(todays))
            found += (one for one in said if one is not None)
        print(f"{len(found)} groups have times of the best version and of others by today's code; "
              f"{counts['todays']} rows are of today's code, {counts['stale']} are stale.")  # fmt: skip
        self.assertEqual(list(filter(None, found)), [])


# ---- With rows that are made up


def row(kernel: str, us: float, family: str = "gemm", **more: str | float) -> Row:
    values: dict[str, str | float] = {
        name: "" if kind is str else float("nan") for name, kind in Row.__annotations__.items()
    }
    values |= {"kernel": kernel, "family": family, "dtype": "f32", "problem": "8x8x8", "cache": "cold",
               "backend": "cuda", "device": "a GPU", "verdict": "passed", "time_us": us}  # fmt: skip
    return Row(**(values | more))  # type: ignore[arg-type]


class MadeUp(unittest.TestCase):
    def test_a_best_that_is_slower_is_found(self) -> None:
        rows = [row("v18_last_wave", 100), row("v20_autotuned", 111, git_sha="0123456789abcdef")]
        self.assertEqual(slower(rows, "v20_autotuned"),
                         "gemm/f32/v20_autotuned/8x8x8 takes 1.11 times as long as v18_last_wave on a GPU "
                         "(0123456789)")  # fmt: skip
        self.assertEqual(slower(rows, "v18_last_wave"), "")

    def test_as_much_as_the_bound_and_the_resolution_is_allowed(self) -> None:
        rows = [row("v18_last_wave", 100), row("v20_autotuned", 111.9, resolution_pct=2)]
        self.assertEqual(slower(rows, "v20_autotuned"), "")
        rows[1] = rows[1]._replace(time_us=112.1)
        self.assertTrue(slower(rows, "v20_autotuned"))

    def test_a_version_that_times_its_choices_is_no_rival(self) -> None:
        rows = [row("v20_autotuned", 120, "gemm_tensor"), row("v28_timed", 100, "gemm_tensor")]
        self.assertIsNone(slower(rows, "v20_autotuned"))

    def test_of_one_alone_nothing_is_said(self) -> None:
        self.assertIsNone(slower([row("v18_last_wave", 100)], "v20_autotuned"))
        self.assertIsNone(slower([row("v20_autotuned", 100)], "v20_autotuned"))

    def test_vendors_peers_and_what_beats_its_roof_are_left_out(self) -> None:
        good = row("v01_naive", 1)
        self.assertEqual(rungs([good, row("v00_cublas", 1), row("p01_torch", 1), row("v02_a", 0),
                                row("v02_a", 1, suspect="yes"), row("v02_a", 1, verdict="failed"),
                                row("v02_a", 1, backend="host"), row("v02_a", 1, "roofs")]), [good])  # fmt: skip

    def test_groups_are_of_one_device_problem_and_cache(self) -> None:
        rows = [row("v01_a", 1), row("v02_b", 1), row("v01_a", 1, device="another"),
                row("v01_a", 1, cache="hot"), row("v01_a", 1, problem="9x9x9")]  # fmt: skip
        self.assertEqual([len(group) for group in groups_of(rows)], [2, 1, 1, 1])

    def test_the_library_tells_the_best(self) -> None:
        one = row("", 1, "softmax", op="log", dtype="bf16", problem="8x100")
        self.assertEqual(best_of(Results.library, one), "v13_log_by_length")
        self.assertEqual(best_of(Results.library, one._replace(family="gone")), "")


if __name__ == "__main__":
    Results.library = Library(Path(sys.argv.pop()))
    skips.main()
