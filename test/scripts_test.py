#!/usr/bin/env python3
"""Tests of scripts/roofline.py, scripts/upkeep/update_readme.py and scripts/ladder. Those that draw are
skipped where neither this Python nor build/venv has matplotlib."""

from __future__ import annotations

import csv
import io
import math
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import skips

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
UPKEEP = SCRIPTS / "upkeep"
sys.path[:0] = [str(SCRIPTS), str(UPKEEP)]

import ladder_csv  # noqa: E402
import roofline  # noqa: E402
import update_readme  # noqa: E402
from ladder_code import Tree  # noqa: E402
from ladder_csv import LadderError, Row  # noqa: E402

try:
    import matplotlib  # noqa: F401

    CAN_DRAW = True
except ImportError:
    CAN_DRAW = False
draws = unittest.skipUnless(CAN_DRAW, "needs matplotlib: scripts/setup")

SUSPECT_OVER = 103.0
DRAM, FMA = 3000.0, 64600.0  # 10^9 bytes and operations per second
def markers(*names: str) -> str:
    return "\n".join(f"<!-- {name}:begin -->\n<!-- {name}:end -->\n" for name in names)


MARKERS = markers("table", "plot", "sizes")


def line(kernel: str, us: float, **more: Any) -> dict[str, Any]:
    """A timed line of the CSV: relu of 2^28 floats, under DRAM's roof, if not told otherwise."""
    n = 2**28
    cells: dict[str, Any] = {
        "family": "elementwise", "op": "relu", "kernel": kernel, "dtype": "f32",
        "problem": str(n), "backend": "cuda", "device": "Some GPU", "verdict": "passed",
        "cache": "cold", "time_us_median": us, "flops": n, "bytes": 8 * n, "library": "",
        "vs_library": "", "registers": 32, "occupancy": 0.75, "roof": "dram", "pin_gbps": 3352,
        "pin_gflops": 66900, "git_sha": "0123456789abcdef", "timestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    cells |= more
    cells["gflops"] = cells["flops"] / us / 1e3
    cells["gbps"] = cells["bytes"] / us / 1e3
    if cells["roof"]:
        compute = cells["roof"].startswith("fma")
        percent = 100 * cells["gflops"] / FMA if compute else 100 * cells["gbps"] / DRAM
        cells.setdefault("roof_pct", percent)
        cells.setdefault("suspect", "yes" if percent > SUSPECT_OVER else "no")
    return cells


def gemm(kernel: str, tflops: float, n: int = 4096, **more: Any) -> dict[str, Any]:
    flops = 2 * n**3
    of = {
        "family": "gemm",
        "op": "",
        "problem": f"{n}x{n}x{n}",
        "flops": flops,
        "bytes": 12 * n * n,
    }
    of |= {"library": "v00_cublas", "vs_library": tflops / 52, "roof": "fma f32"}
    return line(kernel, flops / tflops / 1e6, **(of | more))


def older(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As ./bench wrote them that compared with the first of the vendor's versions."""
    names = {new: old for old, new in ladder_csv.OLDER.items()}
    return [{names.get(name, name): value for name, value in one.items()} for one in lines]


def equal_rounds(
    lines: list[dict[str, Any]], *fastest: str, aa: tuple[float, float, float] = (1, 0.999, 1.001)
) -> list[dict[str, Any]]:
    """Lines of one group, as the protocol of equal rounds writes them. A ratio's interval is 0.2 %
    to either side."""
    resolution = 100 * max(abs(aa[1] - 1), abs(aa[2] - 1))
    found = []
    for one in lines:
        ratio = one["vs_library"]
        low, high = (ratio and ratio - 0.002, ratio and ratio + 0.002)
        found.append(one | {
            "time_us": one["time_us_median"], "aa_ratio": aa[0], "aa_low": aa[1], "aa_high": aa[2],
            "resolution_pct": resolution, "vs_library_low": low, "vs_library_high": high,
            "fastest": "yes" if one["kernel"] in fastest else "no", "settled": "no",
        })  # fmt: skip
    return found


def roof(op: str, rate: float, size: int, problem: str, **more: Any) -> dict[str, Any]:
    """A row of the family roofs: so many bytes (or operations, for fma and gather) at 10^9 rate per
    second."""
    work = {"flops": size, "bytes": 1e6} if op in ("fma", "gather") else {"flops": 0, "bytes": size}
    of = {"family": "roofs", "op": op, "problem": problem, "roof": ""} | work
    return line("v01_roof", size / rate / 1e3, **(of | more))


RELU = [line("v01_naive", 900), line("v02_grid_stride", 897), line("v03_vec128", 740)]
GEMM = [gemm("v00_cublas", 52)] + [
    gemm(f"v{i + 1:02}_rung_{i}", tflops)
    for i, tflops in enumerate([0.5, 6.3, 9.2, 17.1, 29.9, 33.6, 36.3, 36.4, 42, 47.9])
]
ROOFS = [
    roof("dram", 2200, 2**26, "33554432x33554432"),
    roof("dram", 2900, 2**31, "1073741824x1073741824"),
    roof("dram", 3100, 2**31, "2147483648x0"),
    roof("fma", FMA, 10**12, "16896x1024"),
    roof("fma", 2 * FMA, 10**12, "16896x1024", dtype="f16"),
]
ALL = RELU + GEMM + ROOFS


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, lines: list[dict[str, Any]], path: str = "results.csv") -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(dict.fromkeys(k for one in lines for k in one)))
            writer.writeheader()
            writer.writerows(lines)
        return file

    def rows(self, lines: list[dict[str, Any]]) -> list[Row]:
        return ladder_csv.read(self.write(lines))

    def run_script(self, *command: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, *map(str, command)]
        return subprocess.run(line, capture_output=True, text=True, encoding="utf-8")

    def refuses(self, sentence: str, *command: object) -> None:
        """Exits with 1 and says one sentence that matches, with no traceback."""
        result = self.run_script(*command)
        self.assertEqual(result.returncode, 1, result)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, sentence)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)


class Reading(Case):
    def refuses_text(self, sentence: str, text: str) -> None:
        (self.folder / "bad.csv").write_text(text, encoding="utf-8")
        self.refuses(sentence, SCRIPTS / "roofline.py", self.folder / "bad.csv")

    def test_a_bad_csv_is_one_sentence(self) -> None:
        good = self.write(RELU).read_text()
        head, first, *_ = good.splitlines()
        self.refuses_text("is empty", "")
        self.refuses_text("has no rows", head + "\n")
        self.refuses_text("no column 'family'", "a,b\n1,2\n")
        self.refuses_text("line 2: .* fields", f"{head}\n{first[:40]}\n")
        self.refuses_text(
            "line 2: time_us_median is 'soon'", f"{head}\n{first.replace('900', 'soon')}\n"
        )
        odd = first.replace("relu", "re\x01lu")
        self.refuses_text("line 2: a field has the character", f"{head}\n{odd}\n")
        self.refuses("cannot be read", SCRIPTS / "roofline.py", self.folder / "none.csv")
        self.refuses("cannot be read", SCRIPTS / "roofline.py", self.folder)
        (self.folder / "bad.csv").write_bytes(b"\xff\x00\xfe")
        self.refuses("is not a CSV of ./bench", SCRIPTS / "roofline.py", self.folder / "bad.csv")

    def test_what_a_spreadsheet_saves_is_read_or_named(self) -> None:
        good = self.write(RELU).read_text(encoding="utf-8")
        rows = repr(self.rows(RELU))  # a NaN is not equal to itself
        path = self.folder / "saved.csv"
        empty = "," * good.splitlines()[0].count(",")
        for saved in "\ufeff" + good, good + "\n", good + empty + "\n\n", "\n" + good:
            path.write_text(saved, encoding="utf-8")
            self.assertEqual(repr(ladder_csv.read(path)), rows)
        self.refuses_text("bad.csv has semicolons between its fields, .* save it with commas", good.replace(",", ";"))
        self.refuses_text("bad.csv has tabs between its fields", good.replace(",", "\t"))

    def test_older_files_lack_the_roof_columns(self) -> None:
        new = ("roof", "roof_pct", "suspect", "pin_gbps", "pin_gflops")
        rows = self.rows([{k: v for k, v in one.items() if k not in new} for one in RELU])
        self.assertEqual([r.roof for r in rows], [""] * 3)
        self.assertEqual(ladder_csv.roofs(rows, ladder_csv.select(rows)[0]), [])

    def test_older_files_lack_the_time_that_versions_are_judged_by(self) -> None:
        older, newer = line("v01_naive", 900), line("v01_naive", 900, time_us=890)
        empty = line("v01_naive", 900, time_us="")  # a row that another program added
        for one, time in ((older, 900), (newer, 890), (empty, 900)):
            (row,) = self.rows([one])
            self.assertEqual((row.time_us, row.time_us_median), (time, 900))

    def test_the_later_of_two_equal_rows_counts(self) -> None:
        (row,) = self.rows([line("v01_naive", 900), line("v01_naive", 800)])
        self.assertEqual(row.time_us_median, 800)


class OlderRatios(Case):
    """Of files whose rows are compared with cuBLAS, the first of the vendor's versions, which reached 52
    TFLOP/s; v01 40."""

    def compared(self, tflops: float, **more: Any) -> dict[str, tuple[str, float, float]]:
        """With a second of the vendor's: of each row the library, the ratio, and its interval's upper end."""
        lines = [gemm("v00_cublas", 52), gemm("v00b_cublaslt", tflops, **more), gemm("v01_naive", 40)]
        other = [one | {"dtype": "f16"} for one in (gemm("v00_cublas", 52), gemm("v01_naive", 40))]
        rows = self.rows(older(equal_rounds([*lines, *other])))
        self.assertEqual({r.library for r in rows if r.dtype == "f16"}, {"v00_cublas"}, "another group")
        return {r.kernel: (r.library, r.vs_library, r.vs_library_high) for r in rows if r.dtype == "f32"}

    def test_the_first_is_the_fastest(self) -> None:
        for of in ({"tflops": 50}, {"tflops": 60, "verdict": "incorrect"}, {"tflops": 64, "suspect": "yes"}):
            found = self.compared(**of)
            self.assertEqual(found["v01_naive"], ("v00_cublas", 40 / 52, 40 / 52 + 0.002), of)
            self.assertEqual(found["v00b_cublaslt"][:2], ("v00_cublas", of["tflops"] / 52))

    def test_another_is_the_fastest(self) -> None:
        found = self.compared(60)
        errors = (0.002 / (52 / 52), 0.002 / (60 / 52), 0.002 / (40 / 52))
        ours, others = math.hypot(*errors[1:]), math.hypot(*errors[:2])
        for kernel, tflops, half in (("v00_cublas", 52, others), ("v00b_cublaslt", 60, 0), ("v01_naive", 40, ours)):
            library, ratio, high = found[kernel]
            self.assertEqual(library, "v00b_cublaslt")
            self.assertAlmostEqual(ratio, tflops / 60)
            self.assertAlmostEqual(high / ratio - 1, half)

    def test_ratios_of_the_same_rounds_count_more_than_times(self) -> None:
        lines = [gemm("v00_cublas", 52), gemm("v00b_cublaslt", 60), gemm("v01_naive", 40, vs_library=0.75)]
        self.assertAlmostEqual(self.rows(older(lines))[2].vs_library, 0.75 / (60 / 52))

    def test_the_first_failed(self) -> None:
        lines = [gemm("v00_cublas", 52, verdict="failed"), gemm("v00b_cublaslt", 50), gemm("v01_naive", 40)]
        failed = [one | {"library": "", "vs_library": ""} for one in lines]
        rows = self.rows(older(failed))
        self.assertEqual({r.library for r in rows}, {"v00b_cublaslt"})
        self.assertTrue(math.isnan(rows[0].vs_library), "it has no time")
        self.assertAlmostEqual(rows[2].vs_library, 0.8)
        self.assertTrue(math.isnan(rows[2].vs_library_high), "a ratio of times has no interval")

    def test_a_file_of_today_is_read_as_it_is(self) -> None:
        rows = self.rows(equal_rounds([gemm("v00_cublas", 52), gemm("v00b_cublaslt", 60), gemm("v01_naive", 40)]))
        self.assertEqual({r.library for r in rows}, {"v00_cublas"})
        self.assertEqual((rows[2].vs_library, rows[2].vs_library_high), (40 / 52, 40 / 52 + 0.002))


class Choosing(Case):
    def test_the_main_problem_is_named_or_the_largest(self) -> None:
        small = line("v01_naive", 9, problem="1024", flops=1024, bytes=8192)
        more = [small, *RELU, gemm("v01_naive", 1, 8192), *GEMM]
        chosen = ladder_csv.select(self.rows(more))
        self.assertEqual([one.problem for one in chosen], [str(2**28), "4096x4096x4096"])
        large = ladder_csv.select(
            self.rows([gemm("v01_naive", 1, 512), gemm("v01_naive", 1, 8192)])
        )
        self.assertEqual([one.problem for one in large], ["8192x8192x8192"])

    def test_ranges_grow_in_one_aspect(self) -> None:
        def found(*problems: str) -> list[list[str]]:
            return ladder_csv.ranges(self.rows([line("v01_naive", 9, problem=p) for p in problems]))

        cubes = [f"{n}x{n}x{n}" for n in (1024, 2048, 4096)]
        self.assertEqual(found(*cubes[::-1], "1000x3000x777"), [cubes])
        wide = ["8192x1024", "8192x4096", "8192x8192"]
        mixed = [*wide, "8192x8191", "4096x32768", "1024x50257", "1024x131072"]
        self.assertEqual(found(*mixed), [wide], "8191 is as large as 8192, and odd")
        sums = ["1048576", "100000007", "268435456"]
        self.assertEqual(found(*sums, "0"), [sums])
        self.assertEqual(found("1024x1024", "2048x2048"), [], "two are no range")
        self.assertEqual(found("4x16x4096", "2x16x8192", "1x16x16384"), [], "what grows, shrinks")
        self.assertEqual(found("16x8x8", "32x8:8", "64x8x8"), [], "of another kind")
        long = [f"64x{n}" for n in (64, 128, 256, 512)]
        square = ["32x32", "64x64", "128x128", "256x256"]
        both = found(*square, *long)
        self.assertEqual(sorted(map(len, both)), [3, 4])
        self.assertEqual(len({*both[0]} & {*both[1]}), 0, "none is in two")

    def test_ranges_are_of_declared_fields(self) -> None:
        def found(*texts: str) -> list[list[str]]:
            rows = [line("v01_naive", 9, problem=f"p{i}", values=text) for i, text in enumerate(texts)]
            return ladder_csv.ranges(self.rows(rows))

        whole = [["p0", "p1", "p2"]]
        self.assertEqual(found("n=10 causal=0", "n=20 causal=0", "n=40 causal=0"), whole, "a zero that stays")
        self.assertEqual(found("n=0.5 of=zipf", "n=1 of=zipf", "n=2e1 of=zipf"), whole)
        self.assertEqual(found("n=10 of=zipf", "n=20 of=one bin", "n=40 of=zipf"), [], "a word that changes")
        self.assertEqual(found("n=10 m=1", "n=20 m=1", "m=1 k=40"), [], "other fields")

    def test_an_empty_choice_says_what_there_is(self) -> None:
        with self.assertRaisesRegex(LadderError, "family gem; .* elementwise, gemm"):
            ladder_csv.select(self.rows(ALL), family="gem")
        with self.assertRaisesRegex(LadderError, "dtype f16; for dtype there is f32"):
            ladder_csv.select(self.rows(ALL), family="gemm", dtype="f16")
        with self.assertRaisesRegex(LadderError, "only measured roofs"):
            ladder_csv.select(self.rows(ROOFS))
        self.refuses(
            "for cache there is cold", SCRIPTS / "roofline.py", self.write(ALL), "--cache=hot"
        )

    def test_a_wrong_kernel_has_no_point(self) -> None:
        wrong = {**line("v04_wrong", 100), "verdict": "incorrect"}
        (one,) = ladder_csv.select(self.rows([*RELU, wrong]))
        self.assertEqual(
            [r.kernel for r in one.timed], ["v01_naive", "v02_grid_stride", "v03_vec128"]
        )
        self.refuses(
            "None of the rows chosen has a time", SCRIPTS / "roofline.py", self.write([wrong])
        )

    def test_what_beats_its_roof_does_not_win(self) -> None:
        (one,) = ladder_csv.select(self.rows([*RELU, line("v04_wonder", 300)]))
        assert one.best is not None
        self.assertEqual(one.best.kernel, "v03_vec128")

    def test_of_those_tied_the_simplest_is_the_best(self) -> None:
        lines = [*RELU, line("v12_more", 738), line("v13_most", 739), line("p01_torch", 700)]
        tied = equal_rounds(lines, "v03_vec128", "v12_more", "v13_most", "p01_torch")
        (one,) = ladder_csv.select(self.rows(tied))
        assert one.best is not None
        self.assertEqual(one.best.kernel, "v03_vec128")
        self.assertEqual([r.number for r in one.tied], [3, 12, 13])
        self.assertEqual(one.tied_with(one.best), ", tied with v12, v13")
        self.assertEqual(one.tied_with(one.best, most=1), ", tied with 2 others")
        self.assertEqual(one.tied_with(one.tied[1]), ", tied with v03, v13")
        self.assertEqual(one.tied_with(one.rungs[0]), "")
        (one,) = ladder_csv.select(self.rows(lines))  # an older file has only the fastest
        self.assertEqual([r.number for r in one.tied], [12])

    def test_a_kernel_leads_back_to_its_file(self) -> None:
        def found(family: str, kernel: str) -> str:
            file = ladder_csv.file_of(family, kernel)
            return file.name if file else ""

        self.assertEqual(found("gemm", "v03_smem_tile"), "v03_smem_tile.cu")
        self.assertEqual(found("gemm", "v00_cublas"), "v00_cublas.gpu.cu")
        for kernel in ("v30_block_size_32", "v30_block_size_1024"):
            self.assertEqual(found("elementwise", kernel), "v30_block_size.cu")
        for kernel in ("v30_block", "v30_block_sizes", "v31_block64", "p01_torch"):
            self.assertEqual(found("elementwise", kernel), "", kernel)
        for file in ladder_csv.KERNELS.glob("*/v[0-9]*.cu"):
            self.assertEqual(ladder_csv.file_of(file.parent.name, ladder_csv.label(file)), file)

    def test_variants_stand_in_order_and_are_told_apart(self) -> None:
        names = [f"v30_block_size_{size}" for size in (1024, 32, 256)]
        (one,) = ladder_csv.select(self.rows(equal_rounds([line(n, 900) for n in names], *names[::2])))
        self.assertEqual([r.short_name for r in one.rows], ["v30_32", "v30_256", "v30_1024"])
        assert one.best is not None
        self.assertEqual(one.best.name + one.tied_with(one.best), "v30 block size 256, tied with v30_1024")
        self.assertIn("32, 64, 128, 256", ladder_csv.idea(one.rows[0]))

    def test_the_baseline_is_no_rung(self) -> None:
        (one,) = ladder_csv.select(self.rows(GEMM))
        assert one.best is not None
        self.assertEqual((one.best.kernel, one.vendor), ("v10_rung_9", "cuBLAS"))
        self.assertEqual([r.kernel for r in one.baselines], ["v00_cublas"])

    def test_the_library_is_the_one_that_rows_are_compared_with(self) -> None:
        versions = [gemm(name, tflops, library="v00b_cublaslt")
                    for name, tflops in (("v00_cublas", 52), ("v00b_cublaslt", 60), ("v01_naive", 40))]  # fmt: skip
        (one,) = ladder_csv.select(self.rows(versions))
        assert one.library is not None
        self.assertEqual((one.library.kernel, one.vendor), ("v00b_cublaslt", "cuBLASLt"))
        (one,) = ladder_csv.select(self.rows(RELU))
        self.assertEqual((one.library, one.vendor), (None, ""))

    def test_a_peer_is_no_rung_and_comes_last(self) -> None:
        (one,) = ladder_csv.select(self.rows([line("p01_torch", 700), *RELU]))
        assert one.best is not None
        self.assertEqual(one.best.kernel, "v03_vec128")
        self.assertEqual([r.kernel for r in one.peers], ["p01_torch"])
        self.assertEqual(one.rows[-1].kernel, "p01_torch")
        self.assertEqual([len(section) for section in one.sections], [3, 1])

    def test_sections_begin_where_numbers_leap(self) -> None:
        numbers = (8, 9, 10, 11, 20, 21, 23)
        (one,) = ladder_csv.select(self.rows([line(f"v{i:02}_x", 900) for i in numbers]))
        sections = [[r.number for r in section] for section in one.sections]
        self.assertEqual(sections, [[8, 9, 10, 11], [20, 21, 23]])


class TellingApart(Case):
    def said(self, ratio: float, reach: float, resolution: float | str) -> str:
        """Of a ratio whose interval reaches so far to either side."""
        (row,) = self.rows([
            gemm("v01_naive", 1) | {"vs_library": ratio, "vs_library_low": ratio - reach,
                                    "vs_library_high": ratio + reach,
                                    "resolution_pct": resolution}
        ])  # fmt: skip
        return ladder_csv.ratio_text(row)

    def test_faster_is_said_only_beyond_the_interval(self) -> None:
        self.assertEqual(self.said(1.02, 0.001, 0.1), "1.02")
        self.assertEqual(self.said(0.98, 0.001, 0.1), "0.98")
        self.assertEqual(self.said(1.02, 0.03, 0.1), "level")  # within the interval
        self.assertEqual(self.said(0.98, 0.001, 2.5), "0.98")  # whatever the A/A
        self.assertEqual(self.said(1.004, 0.001, 0.1), "1.004")
        self.assertEqual(self.said(1.02, 0.03, ""), "1.02")  # an older file does not know
        self.assertEqual(self.said(math.nan, math.nan, 0.1), "")

    def test_of_older_files_only_those_are_tied_whose_interval_holds_one(self) -> None:
        lines = equal_rounds(RELU, "v01_naive", "v02_grid_stride", "v03_vec128")
        highs = {"v01_naive": 1.001, "v02_grid_stride": 0.998}
        rows = self.rows([one | {"vs_fastest_high": highs.get(one["kernel"], "")} for one in lines])
        self.assertEqual({r.kernel: r.is_fastest for r in rows if r.fastest == "yes"},
                         {"v01_naive": True, "v02_grid_stride": False, "v03_vec128": True})  # fmt: skip

    def test_older_files_know_short_problems_by_the_empty_launch_beside_them(self) -> None:
        times = {"v01_naive": 12.5, "v02_grid_stride": 11.9, "p01_torch": 1}
        lines = [line(kernel, us, roof="") for kernel, us in times.items()]
        lines += [one | {"problem": "2"} for one in lines if one["kernel"] != "v02_grid_stride"]
        self.assertEqual({r.short for r in self.rows(lines)}, {""})
        empty = line("v01_one_float", 4, family="roofs", op="launch", problem="1", roof="")
        self.write([empty | {"time_us_median": 9}], "0.csv")
        self.write([empty], "1.csv")
        self.write([empty | {"device": "Other GPU", "time_us_median": 9}], "2.csv")
        self.assertEqual([(r.problem, r.short) for r in self.rows(lines) if r.number == 1],
                         [(lines[0]["problem"], "yes"), ("2", "no")])  # fmt: skip
        self.assertEqual({r.launch_us for r in self.rows(lines)}, {4})
        self.assertEqual({r.short for r in self.rows([one | {"short": "no"} for one in lines])}, {"no"})
        of_itself = self.rows([*lines, empty | {"time_us_median": 3}])
        self.assertEqual({r.short for r in of_itself if not r.is_roof}, {"no"})

    def test_a_baseline_is_once_itself(self) -> None:
        (row,) = self.rows(equal_rounds([gemm("v00_cublas", 52)]))
        self.assertEqual(ladder_csv.ratio_text(row), "1.00")

    def test_a_runs_resolution_is_of_its_groups(self) -> None:
        self.assertIsNone(ladder_csv.Resolution.of(self.rows(ALL)))
        lines = equal_rounds(RELU, aa=(1.001, 0.999, 1.003))
        lines += equal_rounds(GEMM, aa=(0.98, 0.97, 0.99))
        lines += equal_rounds([gemm("v01_naive", 1, 512)], aa=(0.998, 0.996, 1.001))
        found = ladder_csv.Resolution.of(self.rows(lines))
        assert found is not None
        self.assertEqual(found.groups, 3)
        self.assertAlmostEqual(found.deviation, 0.2)
        self.assertAlmostEqual(found.within, 2 / 3)
        self.assertAlmostEqual(found.holds_one, 2 / 3)
        self.assertAlmostEqual(found.median, 0.4)
        self.assertAlmostEqual(found.worst, 3)


class Roofs(Case):
    def roofs(self, lines: list[dict[str, Any]], family: str) -> dict[str, ladder_csv.Roof]:
        rows = self.rows(lines)
        (one,) = ladder_csv.select(rows, family=family)
        return {r.name: r for r in ladder_csv.roofs(rows, one)}

    def test_rows_are_drawn_under_the_roof_they_were_judged_by(self) -> None:
        found = self.roofs(ALL, "elementwise")
        self.assertAlmostEqual(found["dram"].value, DRAM)
        self.assertAlmostEqual(found["fma f32"].value, FMA)
        self.assertEqual((found["dram"].pin, found["fma f32"].pin), (3352, 66900))

    def test_a_roof_of_neither_kind_is_one_of_the_useful_bytes(self) -> None:
        judged = [line("v01_naive", 900, roof="shared atomics", roof_pct=50)]
        found = self.roofs([*judged, *ROOFS], "elementwise")
        self.assertAlmostEqual(found["shared atomics"].value, 2 * self.rows(judged)[0].gbps)
        self.assertIn("dram", found)
        self.assertFalse(found["shared atomics"].is_compute)

    def test_the_other_roof_is_the_copy_of_the_nearest_size(self) -> None:
        found = self.roofs(ALL, "gemm")
        self.assertAlmostEqual(found["fma f32"].value, FMA)
        self.assertAlmostEqual(found["dram"].value, 2200)  # 64 MiB is nearer to 192 MiB than 2 GiB
        large = [gemm("v01_naive", 1, 16384)]
        self.assertAlmostEqual(self.roofs(large + ROOFS, "gemm")["dram"].value, 2900)

    def test_a_roof_that_nobody_measured_has_a_pin_rate_only(self) -> None:
        found = self.roofs(RELU, "elementwise")["fma f32"]
        self.assertFalse(found.value > 0)
        self.assertEqual(found.line, 66900)


class Spreading(unittest.TestCase):
    def test_names_keep_their_order_and_distance(self) -> None:
        generator = random.Random(1)
        for _ in range(300):
            n = generator.randint(1, 20)
            wanted = sorted(generator.gauss(50, 20) for _ in range(n))
            got = roofline.spread(wanted, 4, 0, 100)
            self.assertEqual(len(got), n)
            self.assertGreaterEqual(got[0], -1e-9)
            self.assertLessEqual(got[-1], 100 + 1e-9)
            for a, b in zip(got, got[1:]):
                self.assertGreaterEqual(b - a, 4 - 1e-9)

    def test_what_has_room_stays(self) -> None:
        self.assertEqual(roofline.spread([10, 20, 90], 5, 0, 100), [10, 20, 90])
        self.assertEqual(roofline.spread([50, 50], 10, 0, 100), [45, 55])

    def test_too_many_share_what_there_is(self) -> None:
        self.assertEqual(roofline.spread([1, 1, 1], 10, 0, 10), [0, 5, 10])


class Numbers(unittest.TestCase):
    def test_three_digits(self) -> None:
        texts = [ladder_csv.digits(v) for v in (0.5, 9.996, 12.34, 999.6, 2909.3, 0.0123, 0)]
        self.assertEqual(texts, ["0.500", "10.0", "12.3", "1000", "2909", "0.0123", "0"])

    def test_microseconds_end_at_a_thousand(self) -> None:
        self.assertEqual(ladder_csv.time_text(9.824), "9.82 µs")
        self.assertEqual(ladder_csv.time_text(999.7), "1.00 ms")
        self.assertEqual(ladder_csv.time_text(273979), "274 ms")


@draws
class Pictures(Case):
    def draw(self, lines: list[dict[str, Any]], *options: str) -> list[str]:
        """The names of the files drawn."""
        result = self.run_script(
            SCRIPTS / "roofline.py", self.write(lines), "-o", self.folder / "out", *options
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        drawn = sorted(p.name for p in (self.folder / "out").iterdir())
        drawn.remove("index.html")
        return drawn

    def test_png_and_svg_of_what_was_asked(self) -> None:
        self.assertEqual(
            self.draw(ALL, "--family=gemm", "--kind=roofline"),
            ["gemm-f32-roofline.png", "gemm-f32-roofline.svg"],
        )
        stems = {name.split(".")[0] for name in self.draw(ALL, "--all")}
        self.assertEqual(
            stems,
            {"overview", "elementwise-f32-ladder", "gemm-f32-ladder", "gemm-f32-roofline",
             "elementwise-relu-f32-roofline"},
        )  # fmt: skip

    def test_of_a_whole_file_one_of_each_family_and_an_index(self) -> None:
        half = [one | {"dtype": "f16"} for one in RELU]
        drawn = self.draw([*half, *ALL])
        names = ["elementwise-f32-ladder", "gemm-f32-ladder", "overview"]
        self.assertEqual(drawn, [f"{name}{suffix}" for name in names for suffix in (".png", ".svg")])
        index = (self.folder / "out/index.html").read_text(encoding="utf-8")
        self.assertEqual(sorted(re.findall('src="(.*?).svg"', index)), names)
        self.assertEqual(re.findall('<h2 id="(.*?)"', index), ["overview", "elementwise", "gemm"])

    def test_a_file_that_is_not_judged_by_roofs_is_drawn_too(self) -> None:
        old = [line("v01_naive", 900, roof=""), line("v02_vec128", 700, roof="")]
        self.assertIn("elementwise-relu-f32-roofline.png", self.draw(old, "--family=elementwise"))
        self.refuses("no overview", SCRIPTS / "roofline.py", self.write(old), "--kind=overview")

    def test_the_same_rows_make_the_same_files(self) -> None:
        self.draw(ALL, "--family=gemm")
        first = {p.name: p.read_bytes() for p in (self.folder / "out").iterdir()}
        self.draw(ALL, "--family=gemm")
        second = {p.name: p.read_bytes() for p in (self.folder / "out").iterdir()}
        self.assertEqual(first.keys(), second.keys())
        for name, content in first.items():
            self.assertEqual(content, second[name], name)

    def test_host_rows_have_no_times_to_draw(self) -> None:
        host = [{**one, "backend": "host", "cache": "", "time_us_median": ""} for one in RELU]
        self.refuses("nothing to draw", SCRIPTS / "roofline.py", self.write(host))
        counted = [{**one, "moved_bytes": 2 * one["bytes"]} for one in host]
        self.assertEqual(
            self.draw(counted), ["elementwise-f32-bytes.png", "elementwise-f32-bytes.svg"]
        )

    def test_rows_of_counters_have_no_times_to_draw(self) -> None:
        counted = [{**one, "time_us_median": "", "hw_dram_bytes": 2**30} for one in RELU]
        self.refuses("or --counters wrote them", SCRIPTS / "roofline.py", self.write(counted))

    def assert_apart(self, figure: Any) -> None:
        """No two texts touch, and none leaves the picture."""
        from matplotlib.text import Text

        figure.canvas.draw()
        texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
        # matplotlib's boxes of turned text are far larger than the text; ticks it places itself.
        names = {
            t.get_text()
            for axis in figure.axes
            for t in axis.get_xticklabels() + axis.get_yticklabels()
        }
        texts = [t for t in texts if t.get_rotation() % 90 == 0 and t.get_text() not in names]
        self.assertGreater(len(texts), 4)
        boxes = [(t.get_text(), t.get_window_extent()) for t in texts]
        whole = figure.bbox
        for i, (text, box) in enumerate(boxes):
            self.assertTrue(
                whole.x0 <= box.x0 + 1 and box.x1 <= whole.x1 + 1 and whole.y0 <= box.y0 + 1,
                f"{text!r} leaves the picture",
            )
            for other, that in boxes[:i]:
                # Lines of text may touch by the empty edges of their boxes.
                across = min(box.x1, that.x1) - max(box.x0, that.x0)
                down = min(box.y1, that.y1) - max(box.y0, that.y0)
                self.assertFalse(across > 1 and down > 3, f"{text!r} lies on {other!r}")

    def ladders(self, lines: list[dict[str, Any]]) -> list[tuple[ladder_csv.Ladder, list[Any]]]:
        rows = self.rows(lines)
        return [(one, ladder_csv.roofs(rows, one)) for one in ladder_csv.select(rows)]

    def test_texts_lie_apart(self) -> None:
        alike = [line(f"v{i + 1:02}_nearly_alike_{i}", 800 - i) for i in range(16)]
        slow = line("v20_slow", 30000)
        many = [gemm(f"v{i + 1:02}_a_name_that_is_rather_long", 40 + i / 10) for i in range(30)]
        suspect = [*RELU, line("v04_wonder", 300)]
        bare = [{**one, "roof": "", "roof_pct": ""} for one in RELU]
        limited = [gemm("v01_naive", 40, op="an_operation_with_a_long_name", settled="yes")]
        for lines in (ALL, [*alike, slow], [*many, *ROOFS], suspect, bare, limited):
            for one, roofs in self.ladders(lines):
                with self.subTest(title=one.title, rungs=len(one.rows), roofs=len(roofs)):
                    figure = roofline.draw_roofline(one, roofs)
                    self.assert_apart(figure)
                    names = [
                        t
                        for t in figure.axes[0].texts
                        if t.get_text() in {r.name for r in one.rows}
                    ]
                    at = sorted(t.get_window_extent().y0 for t in names)
                    self.assertEqual(len(at), len(one.rows))
                    closest = min((b - a for a, b in zip(at, at[1:])), default=99)
                    self.assertGreater(closest, 0.8 * roofline.LINE * figure.dpi / 72)

                    figure = roofline.draw_ladder([one], {one: roofs})
                    self.assert_apart(figure)
                    bars = [patch.get_window_extent() for patch in figure.axes[0].patches]
                    for text in figure.axes[0].texts:
                        box = text.get_window_extent()
                        self.assertFalse(
                            any(box.x0 < bar.x1 - 1 and box.x1 > bar.x0 + 1
                                and box.y0 < bar.y1 - 3 and box.y1 > bar.y0 + 3 for bar in bars),
                            f"{text.get_text()!r} lies on the bars",
                        )  # fmt: skip
        self.assert_apart(roofline.draw_overview([one for one, _ in self.ladders(ALL)]))

    def test_every_mark_of_a_legend_has_its_place(self) -> None:
        lines = equal_rounds([*GEMM, gemm("v11_wonder", 90), gemm("p01_torch", 45)],
                             "v09_rung_8", "v10_rung_9")  # fmt: skip
        limited = [{**one, "settled": "yes"} for one in lines]
        ((one, roofs), *_) = self.ladders(limited)
        figure = roofline.draw_roofline(one, roofs)
        self.assert_apart(figure)
        texts = [t.get_text() for t in figure.legends[0].get_texts()]
        self.assertEqual(len(texts), 7)
        self.assertIn("at the power limit · memory roof not measured", figure.texts[1].get_text())

    def test_what_is_of_earlier_code_is_counted_below_the_title(self) -> None:
        code = Tree().code_of("src/kernels/elementwise/v03_vec128.cu")
        codes = ("0" * 16, "0" * 16, code)
        rows = self.rows([{**one, "code": of} for one, of in zip(RELU, codes)])
        ladders = ladder_csv.select(rows)
        for tree, expected in ((Tree(), True), (None, False)):
            pictures = list(roofline.pictures(rows, ladders, roofline.KINDS, tree))
            self.assertEqual(len(pictures), 3)
            for _, figure in pictures:
                self.assertEqual(" · 2 of 3 rows are of earlier code" in figure.texts[1].get_text(), expected)
                self.assert_apart(figure)
        for one in RELU:  # in a folder without a history
            file = self.folder / "src/kernels/elementwise" / f"{one['kernel']}.cu"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        unknown = ladder_csv.select(self.rows(RELU))
        ((_, figure),) = roofline.pictures(rows, unknown, ["overview"], Tree(self.folder))
        self.assertNotIn("earlier code", figure.texts[1].get_text())

    def test_those_tied_are_drawn_as_the_fastest(self) -> None:
        from matplotlib.colors import to_hex

        tied = ("v08_rung_7", "v10_rung_9")
        lines = equal_rounds(GEMM, *tied)
        lines = [{**one, "settled": "yes"} for one in lines]
        ((one, roofs),) = self.ladders(lines)
        overview = roofline.draw_overview([one])
        for figure in (roofline.draw_roofline(one, roofs), roofline.draw_ladder([one], {}),
                       overview):  # fmt: skip
            self.assert_apart(figure)
            (axes,) = figure.axes
            bold = {t.get_text() for t in axes.texts if t.get_fontweight() == "bold"}
            if figure is not overview:
                self.assertLessEqual({"v08 rung 7", "v10 rung 9"}, bold)
                self.assertNotIn("v09 rung 8", bold)
            dark = [p for p in axes.patches if to_hex(p.get_facecolor()) == roofline.BEST]
            dark += [m for m in axes.lines
                     if m.get_marker() == "o" and m.get_color() == roofline.BEST]  # fmt: skip
            self.assertEqual(len(dark), len(tied))
        texts = [t.get_text() for t in overview.axes[0].texts]
        self.assertIn("v08 rung 7, tied with v10", texts)
        self.assertIn("0.70", texts)  # v08's, not v10's
        ladder = roofline.draw_ladder([one], {one: roofs})
        texts = [t.get_text() for t in ladder.axes[0].texts]
        self.assertIn("4096x4096x4096  at the power limit", texts)

    def test_long_names_and_levels_have_their_place(self) -> None:
        names = [f"v{i:02}_a_name_that_is_rather_long" for i in range(1, 5)]
        lines = [gemm(name, 52.01, op="an_operation_with_a_long_name") for name in names]
        ((one, roofs),) = self.ladders(equal_rounds(lines, *names))
        for figure in (roofline.draw_overview([one]), roofline.draw_ladder([one], {one: roofs})):
            self.assert_apart(figure)
            self.assertIn("level", [t.get_text() for t in figure.axes[0].texts])

    def test_ideas_stand_below_their_bars(self) -> None:
        ((one, roofs),) = self.ladders([line("v01_naive", 900), line("v02_unheard_of", 800)])
        texts = {t.get_text() for t in roofline.draw_ladder([one], {one: roofs}).axes[0].texts}
        self.assertIn("one thread per element", texts)
        self.assertEqual(ladder_csv.idea(one.rows[1]), "")
        long = ladder_csv.idea(self.rows([gemm("v03_smem_tile", 10)])[0])
        self.assertRegex(long, "^a block keeps a square tile .* as often as the tile is wide$")

    def test_the_vendors_mark_is_on_top(self) -> None:
        ((one, roofs),) = self.ladders([*GEMM, gemm("v11_level", 52)])
        for figure in (roofline.draw_roofline(one, roofs), roofline.draw_overview([one])):
            marks = {m.get_marker(): m for m in figure.axes[0].lines}
            diamond = marks.pop("D")
            self.assertTrue(all(diamond.zorder > m.zorder for m in marks.values()))
            self.assertEqual(diamond.get_markerfacecolor(), "none")

    def test_an_svg_has_texts_and_both_themes(self) -> None:
        self.draw(GEMM, "--kind=ladder")
        text = (self.folder / "out" / "gemm-f32-ladder.svg").read_text(encoding="utf-8")
        self.assertIn(">v10 rung 9</text>", text)
        self.assertIn('<title id="title">gemm f32</title>', text)
        self.assertRegex(text, r"@media\(prefers-color-scheme:dark\)\{\.s0\{fill:#0d1117\}")
        self.assertNotRegex(text, "style=|metadata|xlink|patch_")

    def test_points_stand_where_the_rows_say(self) -> None:
        ((one, roofs),) = self.ladders(GEMM)
        axes: Any
        (axes,) = roofline.draw_roofline(one, roofs).axes
        dots = {m.get_marker(): [] for m in axes.lines}  # type: ignore[var-annotated]
        for mark in axes.lines:
            dots[mark.get_marker()] += [(float(mark.get_xdata()[0]), float(mark.get_ydata()[0]))]
        ours = [(r.flops / r.bytes, r.gflops) for r in one.rungs]
        self.assertEqual(sorted(dots["o"]), sorted(ours))
        self.assertEqual(dots["D"], [(r.flops / r.bytes, r.gflops) for r in one.baselines])

    def test_the_fastest_of_the_vendors_versions_stands_beside_ours(self) -> None:
        versions = (("v00_cublas", 48), ("v00b_cublaslt", 52), ("v01_naive", 9))
        cubes = [gemm(kernel, tflops * n / 8192, n, library="v00b_cublaslt")
                 for n in (1024, 8192) for kernel, tflops in versions]  # fmt: skip
        ((one, roofs),) = self.ladders(cubes)
        ladder = roofline.draw_ladder([one], {one: roofs})
        marks = [{x for (x, _), _ in of.get_segments()} for of in ladder.axes[0].collections]
        self.assertEqual(marks[1:], [{one.rows[1].roof_pct}] * 2, "on every bar")
        self.assertIn("vs cuBLASLt", [t.get_text() for t in ladder.axes[0].texts])
        ladders = ladder_csv.every_ladder(self.rows(cubes))
        shares, _ = roofline.draw_sizes(ladders).axes
        (diamonds,) = (m for m in shares.lines if m.get_marker() == "D")
        self.assertEqual(list(diamonds.get_ydata()), [one.rows[1].roof_pct for one in ladders])
        self.assertIn("1024x1024x1024 to 8192x8192x8192 · cuBLASLt", [t.get_text() for t in shares.texts])

    def test_over_size_lines_join_only_ranges(self) -> None:
        sizes = (1024, 2048, 8192)
        cubes = [gemm(kernel, tflops * n / 8192, n) for n in sizes
                 for kernel, tflops in (("v00_cublas", 52), ("v01_naive", 9), ("v02_better", 48))]  # fmt: skip
        odd = [one | {"problem": "1000x3000x777"} for one in (gemm("v00_cublas", 40), gemm("v02_better", 50))]
        empty = gemm("v02_better", 48, 16, flops=0, roof_pct=50)  # which has no place on a logarithmic axis
        ladders = ladder_csv.every_ladder(self.rows([*cubes, *odd, empty, *RELU]))
        figure = roofline.draw_sizes(ladders)
        self.assert_apart(figure)
        shares, times = figure.axes
        flops = [2 * n**3 for n in sizes]
        for axes, column in ((shares, "roof_pct"), (times, "time_us")):
            lines = {m.get_linestyle(): m for m in axes.lines if len(m.get_xdata()) == 3}
            for style, kernel in (("-", "v02_better"), ("--", "v00_cublas")):
                rows = [r for one in ladders for r in one.rows if r.kernel == kernel and r.flops in flops]
                self.assertEqual(list(lines[style].get_xdata()), flops)
                self.assertEqual(list(lines[style].get_ydata()), [getattr(r, column) for r in rows])
            counts = {m.get_marker(): len(m.get_xdata()) for m in axes.lines if m.get_linestyle() == "None"}
            self.assertEqual(counts, {"o": 4, "D": 4}, "the other shape is a point")
        self.assertEqual([t.get_text() for t in shares.texts],
                         ["gemm f32", "1024x1024x1024 to 8192x8192x8192 · cuBLAS"])  # fmt: skip
        self.refuses("Nothing to draw over size", SCRIPTS / "roofline.py", self.write(RELU), "--kind=sizes")
        self.assertEqual(self.draw([*cubes, *RELU], "--kind=sizes"), ["gemm-sizes.png", "gemm-sizes.svg"])

    def test_ticks_of_logarithmic_axes(self) -> None:
        self.assertEqual(roofline._log_ticks(3, 2000, 3), [10, 100, 1000])
        self.assertEqual(roofline._log_ticks(20, 350, 3), [30, 100, 300])
        self.assertEqual(roofline._log_ticks(15, 60, 3), [20, 50])
        self.assertEqual(roofline._log_ticks(1, 2e7, 4), [1, 100, 1e4, 1e6])
        texts = [roofline._with_prefix(10.0**e, "B") for e in (1, 3, 7, 12)]
        self.assertEqual(texts, ["10 B", "1 kB", "10 MB", "1 TB"])

    def test_bars_are_as_long_as_the_share_of_the_roof(self) -> None:
        ((one, roofs),) = self.ladders(RELU)
        axes: Any
        (axes,) = roofline.draw_ladder([one], {one: roofs}).axes
        widths = [patch.get_width() for patch in axes.patches[len(RELU) :]]
        self.assertEqual(widths, [r.roof_pct for r in one.timed])


class TreeCase(Case):
    """With a small tree: READMEs with markers, and the versions that its CSVs have rows of."""

    def write(self, lines: list[dict[str, Any]], path: str = "results.csv") -> Path:
        for one in lines:
            file = self.folder / "src" / "kernels" / one["family"] / f"{one['kernel']}.cu"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return super().write(lines, path)

    def tree(self, *families: str) -> None:
        pages = "README.md", "results/README.md", *(f"src/kernels/{f}/README.md" for f in families)
        for path in pages:
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"# Before\n\n{MARKERS}\nAfter\n", encoding="utf-8")


class Tables(TreeCase):
    def pages(self) -> dict[str, str]:
        return {p.path.parent.name: p.text() for p in update_readme.pages(self.folder)}

    def test_a_family_has_all_its_versions(self) -> None:
        self.tree("gemm", "elementwise")
        half = {**line("v03_vec128", 380), "dtype": "f16"}
        wrong = {**line("v04_wrong", 1), "verdict": "incorrect"}
        self.write([*ALL, half, wrong], "results/gpu/one.csv")
        pages = self.pages()
        self.assertIn("| `v00_cublas` | 2.64 ms | 52.0 | 80 % | 1.00 | 32 | 75 % |", pages["gemm"])
        self.assertIn("| version | time | TFLOP/s | of the roof | vs cuBLAS |", pages["gemm"])
        table = pages["elementwise"]
        self.assertIn("**relu**, f32, 268435456 (roof: DRAM)", table)
        self.assertIn(
            "| `v03_vec128` | 740 µs | 2902 | 97 % | 32 | 75 % | 5651 (188 % (suspect)) |", table
        )
        self.assertRegex(table, r"\| `v04_wrong` \| incorrect \|")
        self.assertIn("[one.csv](../../../results/gpu/one.csv)", table)
        self.assertTrue(table.startswith("# Before\n") and table.endswith("\nAfter\n"))

    def test_versions_that_are_no_more_are_left_out(self) -> None:
        self.tree("elementwise")
        self.write([*RELU, line("v30_block_size_32", 700), line("p01_torch", 700)], "results/gpu/one.csv")
        kernels = self.folder / "src/kernels/elementwise"
        (kernels / "v03_vec128.cu").unlink()
        (kernels / "v30_block_size_32.cu").rename(kernels / "v30_block_size.cu")
        (kernels / "p01_torch.cu").unlink()
        rows = [row for row in self.pages()["elementwise"].splitlines() if row.startswith("| `")]
        self.assertEqual([row.split("`")[1] for row in rows],
                         ["v01_naive", "v02_grid_stride", "v30_block_size_32", "p01_torch"])  # fmt: skip

    def test_peers_stand_in_the_table_but_do_not_win(self) -> None:
        self.tree("elementwise")
        self.write([line("p01_torch", 700), *RELU], "results/gpu/one.csv")
        pages = self.pages()
        rows = [row for row in pages["elementwise"].splitlines() if row.startswith("| `")]
        self.assertEqual([row[3:6] for row in rows], ["v01", "v02", "v03", "p01"])
        self.assertIn("| 740 µs · 97 % |", pages[self.folder.name])  # v03's

    def test_the_main_table_has_the_fastest_version_of_each(self) -> None:
        self.tree("gemm")
        half = {**line("v03_vec128", 380), "dtype": "f16"}
        other = {**line("v03_vec128", 1500), "dtype": "f64"}
        self.write([*ALL, half, other], "results/gpu/one.csv")
        rows = [row for row in self.pages()[self.folder.name].splitlines() if "](src/" in row]
        self.assertEqual(len(rows), 2)
        self.assertIn("| relu | 268435456 | 740 µs · 97 % | 380 µs ", rows[0])
        self.assertIn("| f64: 1.50 ms ", rows[0])
        self.assertIn("| 2.87 ms · 74 % · 0.92x cuBLAS |", rows[1])

    def test_the_main_table_compares_with_the_fastest_library(self) -> None:
        self.tree("gemm")
        self.write(older([*GEMM, gemm("v00b_cublaslt", 60)]), "results/gpu/one.csv")
        pages = self.pages()
        self.assertIn("| 2.87 ms · 74 % · 0.80x cuBLASLt |", pages[self.folder.name])
        self.assertIn("| `v00_cublas` | 2.64 ms | 52.0 | 80 % | 0.87 | 32 | 75 % |", pages["gemm"])
        self.assertIn("| version | time | TFLOP/s | of the roof | vs cuBLASLt |", pages["gemm"])

    def test_ties_and_levels_are_said(self) -> None:
        self.tree("gemm", "elementwise")
        tied = ("v01_naive", "v02_grid_stride", "v03_vec128")
        half = [{**one, "dtype": "f16"} for one in RELU]
        level = [{**one, "vs_library": 1.0005} if one["kernel"] == "v10_rung_9" else one
                 for one in GEMM]  # fmt: skip
        lines = equal_rounds(RELU, *tied) + equal_rounds(half, *tied[1:], aa=(1, 0.99, 1.01))
        lines += equal_rounds(level, "v10_rung_9", aa=(1, 0.997, 1.003))
        self.write(lines, "results/gpu/one.csv")
        pages = self.pages()
        main = pages[self.folder.name]
        self.assertIn("| 900 µs · 80 %<br>v01, tied with v02, v03 | 897 µs · ", main)
        self.assertIn("<br>v02, tied with v03 |", main)
        self.assertIn("| 2.87 ms · 74 % · level with cuBLAS<br>v10 |", main)
        self.assertIn("can't tell apart are\n[tied](", main)
        self.assertIn(
            "Each row is of one process; the A/A's interval reaches 0.30 % (median; at worst 1.00 %) from 1.",
            main,
        )
        self.assertIn("| **47.9** | 74 % | level |", pages["gemm"])
        self.assertIn("| 42.0 | 65 % | 0.81 |", pages["gemm"])
        self.assertIn("v10 rung 9 is the fastest:", pages["gemm"])
        self.assertIn("Each row is of one process; the A/A's interval reaches 0.30 % from 1.", pages["gemm"])
        table = pages["elementwise"]
        self.assertIn("(roof: DRAM). v01 naive is the fastest, tied with v02, v03:", table)
        self.assertIn("| `v01_naive` | 900 µs | **2386** | 80 % | 32 | 75 % | 2386 (80 %) |", table)
        self.assertIn("| 75 % | **2394** (80 %) |", table)

    def test_many_that_are_tied_are_counted(self) -> None:
        self.tree("elementwise")
        names = [f"v{i:02}_x" for i in range(1, 7)]
        lines = equal_rounds([line(name, 900) for name in names], *names)
        self.write(lines, "results/gpu/one.csv")
        pages = self.pages()
        self.assertIn("<br>v01, tied with 5 others |", pages[self.folder.name])
        self.assertIn("tied with v02, v03, v04, v05, v06:", pages["elementwise"])

    def test_what_the_power_limit_bounds_is_marked(self) -> None:
        self.tree("gemm")
        half = [{**one, "dtype": "f16"} for one in GEMM]
        for one in (lines := equal_rounds(GEMM + half, "v10_rung_9")):
            one |= {"settled": "yes", "burst_us": 0.9 * one["time_us"]}
        self.write(lines, "results/gpu/one.csv")
        pages = self.pages()
        self.assertIn("| 2.87 ms at the power limit · 74 % · 0.92x cuBLAS<br>v10 |",
                      pages[self.folder.name])  # fmt: skip
        self.assertIn("(roof: FMA f32, at the power limit)", pages["gemm"])
        self.assertIn("| time | burst | TFLOP/s |", pages["gemm"])
        self.assertIn("| f16, TFLOP/s, at the power limit |", pages["gemm"])
        self.assertIn("| `v10_rung_9` | 2.87 ms | 2.58 ms | **47.9** |", pages["gemm"])

    def test_a_run_of_the_earlier_protocol_says_so_and_claims_less(self) -> None:
        self.tree("elementwise")
        self.write(RELU, "results/gpu/one.csv")
        for text in self.pages().values():
            self.assertIn("Measured by the earlier protocol on Some GPU", text)
            self.assertNotRegex(text, "tied|level|fastest:|A/A|[*]{2}2902")

    def test_several_gpus(self) -> None:
        self.tree("gemm", "elementwise")
        other = [{**one, "device": "Other GPU", "timestamp": "2026-03-03T00:00:00Z"} for one in ALL]
        self.write(other, "results/other/old.csv")
        self.write(equal_rounds(RELU, "v03_vec128"), "results/gpu/new.csv")
        pages = self.pages()
        main = pages[self.folder.name]
        first, _, second = pages["results"].partition("## Other GPU")
        # In equal rounds goes before newer.
        for text in (main, first):
            self.assertIn("740 µs · 97 %<br>v03 |", text)
            self.assertIn("Measured on Some GPU", text)
            self.assertNotIn("cuBLAS", text)
        self.assertNotIn("Other GPU", main)
        self.assertIn("## Some GPU", first)
        self.assertIn("| 740 µs · 97 % |", second)
        self.assertIn("0.92x cuBLAS", second)
        self.assertIn("Measured by the earlier protocol on Other GPU", second)
        # A family is of the first GPU that has it.
        self.assertIn("on Some GPU", pages["elementwise"])
        self.assertIn("on Other GPU", pages["gemm"])

        newer = equal_rounds(other, "v03_vec128", "v10_rung_9")
        self.write(newer, "results/other/old.csv")
        first, _, second = self.pages()["results"].partition("## Some GPU")
        self.assertIn("Measured on Other GPU", first)
        self.assertIn("Measured on Some GPU", second)

        # One family, however new, does not bring all others of its GPU to the front.
        newest = [{**one, "timestamp": "2026-04-04T00:00:00Z"} for one in equal_rounds(RELU)]
        self.write(newest, "results/gpu/new.csv")
        first, _, second = self.pages()["results"].partition("## Some GPU")
        self.assertIn("Measured on Other GPU", first)
        self.assertIn("Measured on Some GPU", second)

    def test_the_main_page_has_one_operation_of_a_family(self) -> None:
        self.tree()
        ops = [{**one, "op": op} for op in ("relu", "add", "gelu") for one in RELU]
        self.write(ops, "results/gpu/one.csv")
        pages = self.pages()
        self.assertRegex(pages[self.folder.name], r"\(src/kernels/elementwise/\) \| add \|")
        self.assertNotRegex(pages[self.folder.name], r"\| (relu|gelu) \|")
        for op in ("relu", "add", "gelu"):
            self.assertIn(f"(../src/kernels/elementwise/) | {op} |", pages["results"])

    def test_of_several_files_each_names_its_families(self) -> None:
        self.tree()
        self.write(ALL, "results/gpu/old.csv")
        new = [{**one, "timestamp": "2026-02-02T00:00:00Z"} for one in equal_rounds(RELU)]
        self.write(new, "results/gpu/new.csv")
        text = self.pages()[self.folder.name]
        self.assertRegex(text, r"Measured on .*: \[new.csv\]\(.*\) \(elementwise\)\. Each row is of one process; ")
        self.assertRegex(text, r"Measured by the earlier .*\[old.csv\]\(.*\) \(gemm\)\.\n")

    def test_rows_of_earlier_code_are_counted_below_the_table(self) -> None:
        self.tree("elementwise")
        self.write(RELU, "results/gpu/one.csv")  # and so the sources
        code = Tree(self.folder).code_of("src/kernels/elementwise/v01_naive.cu")
        now, then, other = ({**one, "code": of} for one, of in zip(RELU, (code, "0" * 16, "f" * 16)))
        sentence = "of 3 rows are of earlier code."
        for rows, expected in (([now, then, other, line("p01_torch", 800)], f"one.csv). 2 {sentence}\n"),
                               ([{**one, "code": code} for one in RELU], "one.csv).\n")):
            self.write(rows, "results/gpu/one.csv")
            for text in self.pages().values():
                self.assertIn(expected, text)
        # Where only git's history could tell, and does not, a page keeps what it says.
        self.write(RELU, "results/gpu/one.csv")
        for page in update_readme.pages(self.folder):
            page.path.write_text(page.text().replace("one.csv).\n", f"one.csv). 1 {sentence}\n"), encoding="utf-8")
        for text in self.pages().values():
            self.assertIn(f"one.csv). 1 {sentence}\n", text)

    def test_over_size_each_family_has_its_longest_range(self) -> None:
        self.tree("gemm", "elementwise")
        self.write([*ALL, gemm("v01_rung_0", 9, 8192)], "results/gpu/one.csv")
        of = {"timestamp": "2026-02-02T00:00:00Z"}
        cubes = [gemm("v01_rung_0", 9, n, **of) for n in (1024, 2048, 4096)]
        cubes += [one | {"dtype": "f16"} for one in [*cubes, gemm("v01_rung_0", 9, 512, **of)]]
        self.write(cubes, "results/gpu/2026-02-02-sizes.csv")
        pages = self.pages()
        self.assertIn("[one.csv]", pages["gemm"])
        self.assertNotIn("sizes.csv", pages["gemm"])
        (page,) = (p for p in update_readme.pages(self.folder) if p.path == self.folder / "README.md")
        text, (picture,) = page.sections["sizes"]
        self.assertIn("[2026-02-02-sizes.csv](results/gpu/2026-02-02-sizes.csv).", text)
        self.assertEqual({(one.family, one.dtype) for one in picture.ladders}, {("gemm", "f16")},
                         "of elementwise there is one problem")  # fmt: skip
        self.assertEqual(len(picture.ladders), 4)
        self.assertIn("gemm f16 512x512x512: v01 rung 0, ", picture.description)
        self.assertNotIn("1024x", picture.description)
        longer = [one | {"device": "Other", "problem": f"{n}x8x8"} for n in range(16, 26) for one in cubes[:1]]
        self.write(longer, "results/other/2026-02-02-sizes.csv")
        self.write([{**one, "device": "Other"} for one in ALL], "results/other/old.csv")
        self.assertIn("results/other/over-size.svg", self.pages()[self.folder.name])

    def test_the_docs_have_the_aa_and_the_pictures(self) -> None:
        self.tree("gemm", "transpose")
        docs = self.folder / "docs"
        docs.mkdir()
        (docs / "measuring.md").write_text(markers("aa"))
        (docs / "reading.md").write_text(markers("ladder", "roofline"))
        self.write(GEMM, "results/gpu/one.csv")

        def page(name: str) -> str:
            found = update_readme.pages(self.folder)
            return next(p.text() for p in found if p.path == docs / f"{name}.md")

        self.assertEqual(page("measuring"), markers("aa"))
        turned = [{**one, "family": "transpose", "op": ""} for one in RELU]
        self.write(equal_rounds(GEMM) + equal_rounds(turned, aa=(1.002, 0.998, 1.006)),
                   "results/gpu/one.csv")  # fmt: skip
        self.assertIn("| Some GPU | [one.csv](../results/gpu/one.csv) | 2 | 0.10 % | 100 % | 100 % "
                      "| 0.35 % | 0.60 % |", page("measuring"))  # fmt: skip
        reading = page("reading")
        self.assertRegex(reading, r"ladder:begin -->\n\n!\[.*\(../results/gpu/transpose-f32-ladder")
        self.assertRegex(reading, r"roofline:begin -->\n\n!\[.*\(../results/gpu/gemm-f32-roofline")
        self.assertEqual(reading.count("!["), 2)

    def test_each_family_is_from_its_newest_run(self) -> None:
        self.tree("gemm", "elementwise")
        self.write(ALL, "results/gpu/old.csv")
        new = [{**gemm("v01_rung_0", 9), "timestamp": "2026-02-02T00:00:00Z"}]
        self.write(new, "results/gpu/a_new.csv")
        pages = self.pages()
        self.assertIn("a_new.csv", pages["gemm"])
        self.assertNotIn("v02", pages["gemm"])
        self.assertIn("old.csv", pages["elementwise"])
        hot = [{**one, "cache": "hot"} for one in RELU + GEMM]
        later = [{**one, "timestamp": "2026-03-03T00:00:00Z"} for one in hot + ROOFS]
        self.write(later, "results/gpu/hot.csv")
        self.assertEqual(self.pages(), pages)

    def test_a_page_names_the_commits_of_its_own_rows(self) -> None:
        self.tree("gemm", "elementwise")
        later = [{**row, "git_sha": "fedcba9876543210"} for row in ALL if row["family"] == "gemm"]
        self.write([row for row in ALL if row["family"] != "gemm"] + later, "results/gpu/one.csv")
        pages = self.pages()
        self.assertIn("cold, commit fedcba9876: [", pages["gemm"])
        self.assertIn("cold, commit 0123456789: [", pages["elementwise"])
        self.assertIn("cold, commit 0123456789, fedcba9876: [", pages[self.folder.name])

    def test_what_autotune_and_others_measured_makes_no_table(self) -> None:
        self.tree("gemm")
        self.write(ALL, "results/gpu/one.csv")
        new = [{**gemm("v20a_shape", 9), "timestamp": "2026-02-02T00:00:00Z"}]
        for name in ("2026-02-02-autotune-gemm.csv", "2026-02-02-gemm-shapes.csv",
                     "2026-02-02-counters.csv", "counters.csv"):  # fmt: skip
            self.write(new, f"results/gpu/{name}")
        self.assertIn("[one.csv]", self.pages()["gemm"])

    def test_the_roofs_have_a_table_of_their_own(self) -> None:
        self.tree("roofs")
        gather = roof("gather", 12.5, 2**24, "1073741824x16777216")
        self.write([*ALL, gather], "results/gpu/one.csv")
        rows = [row for row in self.pages()["roofs"].splitlines() if "`v" in row]
        self.assertEqual(len(rows), len(ROOFS) + 1)
        self.assertIn("2900 GB/s | 3352 GB/s | 87 % |", rows[1])
        self.assertIn("12.5 Gload/s |  |  |", rows[-1])

    def test_no_run_no_table(self) -> None:
        self.tree("gemm")
        self.assertEqual(self.pages()["gemm"], f"# Before\n\n{MARKERS}\nAfter\n")

    def test_a_page_without_markers_is_an_error(self) -> None:
        self.tree("gemm")
        (self.folder / "src/kernels/gemm/README.md").write_text("# Nothing\n")
        self.write(ALL, "results/gpu/one.csv")
        self.refuses(
            "README.md needs one pair", UPKEEP / "update_readme.py", "--root", self.folder
        )


@draws
class Updating(TreeCase):
    def update(
        self, *options: str, python: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        return self.run_script(
            *python, UPKEEP / "update_readme.py", "--root", self.folder, *options
        )

    def stale(self) -> list[str]:
        """What --check names, under a Python without any installed package."""
        result = self.update("--check", python=("-S",))
        names = [s.split(" is out")[0] for s in result.stderr.splitlines() if "is out of date" in s]
        self.assertEqual(result.returncode, 1 if names else 0, result.stderr)
        return names

    def test_a_card_of_ones_own_is_one_command(self) -> None:
        self.tree("gemm", "elementwise")
        self.write(ALL, "results/gpu/one.csv")
        of = {"device": "NVIDIA GeForce RTX 4090", "timestamp": "2026-02-03T04:05:06Z"}
        mine = self.write([one | of for one in RELU], "mine.csv")
        result = self.update(str(mine))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines()[0], "results/rtx4090/2026-02-03.csv")
        copy = self.folder / "results" / "rtx4090" / "2026-02-03.csv"
        self.assertEqual(copy.read_bytes(), mine.read_bytes())
        page = (self.folder / "results" / "README.md").read_text("utf-8")
        self.assertIn("## Some GPU", page)
        self.assertIn("## NVIDIA GeForce RTX 4090", page)
        self.assertEqual(self.stale(), [])

        there = [*self.folder.glob("results/*/*.csv")]
        for lines, said in (([one | of for one in RELU], "is there already, as results/rtx4090/2026-02-03.csv"),
                            ([RELU[0] | {"backend": "host"}], "has no row of a GPU"),
                            ([RELU[0], RELU[1] | of], "is of several GPUs (NVIDIA GeForce RTX 4090, Some GPU)"),
                            ([RELU[0] | {"git_sha": "0123-dirty"}], "is of code that is in no commit (0123-dirty)")):
            mine = self.write(lines, "mine.csv")
            self.refuses(re.escape(said), UPKEEP / "update_readme.py", "--root", self.folder, mine)
        self.assertEqual([*self.folder.glob("results/*/*.csv")], there)
        mine = self.write([one | of | {"time_us_median": 7} for one in RELU], "mine.csv")
        self.assertEqual(update_readme.taken_in(mine, self.folder).name, "2026-02-03b.csv")

    def test_check_names_what_is_stale(self) -> None:
        self.tree("gemm", "elementwise")
        data = self.write(ALL, "results/gpu/one.csv")
        drawn = "results/gpu/gemm-f32-ladder.svg"
        self.assertIn("README.md", self.stale())
        result = self.update()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.stale(), [])

        self.assertIn(
            '<desc id="desc">gemm f32: ladder. gemm f32 4096x4096x4096: v10 rung 9, 2.87 ms, '
            "0.92x cuBLAS, 74 % of the roof.</desc>",
            (self.folder / drawn).read_text(encoding="utf-8"),
        )
        readme = self.folder / "src/kernels/gemm/README.md"
        text = readme.read_text(encoding="utf-8")
        self.assertIn("![gemm f32: ladder](../../../results/gpu/gemm-f32-ladder.svg)", text)
        readme.write_text(text.replace("2.64 ms", "1.64 ms"), encoding="utf-8")
        self.assertEqual(self.stale(), ["src/kernels/gemm/README.md"])
        readme.write_text(text.replace("After", "More prose"), encoding="utf-8")
        self.assertEqual(self.stale(), [])

        (self.folder / drawn).unlink()
        self.assertEqual(self.stale(), [drawn])
        self.update()
        self.assertEqual(self.stale(), [])

        unseen = self.folder / "results/gpu/gemm-f16-ladder.svg"
        unseen.touch()
        self.assertIn("gemm-f16-ladder.svg is shown by no page", self.update("--check").stderr)
        self.update()
        self.assertFalse(unseen.exists())
        self.assertEqual(self.stale(), [])

        faster = [{**one} for one in ALL]
        faster[0]["gflops"] += 0.001  # drawn, but too little to be seen in a table
        self.write(faster, str(data.relative_to(self.folder)))
        self.assertIn("results/gpu/elementwise-f32-ladder.svg", self.stale())
        self.assertNotIn(drawn, self.stale())

    def test_twice_is_the_same(self) -> None:
        self.tree("gemm")
        self.write(ALL, "results/gpu/one.csv")
        self.update()
        first = {p: p.read_bytes() for p in self.folder.rglob("*.*") if p.is_file()}
        self.update()
        for path, content in first.items():
            self.assertEqual(content, path.read_bytes(), path)


class Choice(Case):
    def test_a_picture_has_room_for_so_many_operations(self) -> None:
        lines = [line(f"v{i:02}_x", 900, op=op)
                 for op, n in (("relu", 20), ("add", 8), ("gelu", 9), ("tanh", 8)) for i in range(n)]  # fmt: skip
        ladders = ladder_csv.select(self.rows(lines))
        drawn = update_readme.drawn(ladders, "elementwise")
        self.assertEqual([one.op for one in drawn], ["add", "relu", "tanh"])
        self.assertEqual(update_readme.drawn(ladders[-1:], "elementwise"), ladders[-1:])


class LadderScript(Case):
    """scripts/ladder.py on the kernels of this tree, and on a bench that is made up here."""

    NAMES = (
        "elementwise/add/f32/v01_naive/65536", "elementwise/add/f32/v01_naive/100003",
        "elementwise/add/f32/v03_vec128/65536", "elementwise/add/f32/v03_vec128/100003",
        "elementwise/relu/f16/v01_naive/65536", "elementwise/relu/f16/v03_vec128/65536",
        "elementwise/relu/f16/v30_block_size_32/65536", "elementwise/relu/f16/v30_block_size_64/65536",
        "gemm/f32/v03_smem_tile/128x128x128", "gemm/f32/v04_tile1d/128x128x128",
        "softmax/f32/v04_online/16x1024", "softmax/f32/v04b_vectors/16x1024",
    )  # fmt: skip

    def setUp(self) -> None:
        super().setUp()
        listing = "\n".join(self.NAMES)
        bench = self.folder / "bench"
        bench.write_text(f"""#!/bin/sh
            case "$*" in *list_tests*) echo '{listing}';; *) echo "bench $*";; esac
            """)
        bench.chmod(0o755)
        (self.folder / "libladder_host.so").touch()

    def ladder(self, *arguments: str) -> tuple[object, ...]:
        return SCRIPTS / "ladder.py", f"--build={self.folder}", *arguments

    def test_the_difference_and_the_two_rows(self) -> None:
        result = self.run_script(*self.ladder("gemm", "3", "v04_tile1d"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("--- src/kernels/gemm/v03_smem_tile.cu\n", result.stdout)
        self.assertIn("+++ src/kernels/gemm/v04_tile1d.cu\n", result.stdout)
        self.assertTrue(
            result.stdout.endswith(
                "\nbench --backend=host --explain "
                "--benchmark_filter=^gemm/f32/(v03_smem_tile|v04_tile1d)/128x128x128$\n"
            )
        )

    def test_a_family_with_several_ladders(self) -> None:
        def chosen(*ladder: str) -> str:
            result = self.run_script(*self.ladder("elementwise", "v01", "v03", *ladder))
            return result.stdout.splitlines()[-1].split("=^")[1]

        self.assertEqual(chosen(), "elementwise/add/f32/(v01_naive|v03_vec128)/65536$")
        for ladder in ("relu", "f16", "relu/f16"):
            self.assertEqual(chosen(ladder), "elementwise/relu/f16/(v01_naive|v03_vec128)/65536$")

    def test_a_rung_in_between_has_a_letter(self) -> None:
        for a, b in (("4", "4b"), ("v04", "v04b"), ("v04_online", "v04b_vectors")):
            result = self.run_script(*self.ladder("softmax", a, b))
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("+++ src/kernels/softmax/v04b_vectors.cu\n", result.stdout)
            self.assertIn("=^softmax/f32/(v04_online|v04b_vectors)/16x1024$", result.stdout)
        self.refuses("softmax has no version 4z: v00_cudnn", *self.ladder("softmax", "4", "4z"))

    def test_a_file_may_register_several_kernels(self) -> None:
        def chosen(*versions: str) -> str:
            result = self.run_script(*self.ladder("elementwise", *versions))
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            return result.stdout.splitlines()[-1].split("=^")[1]

        prefix = "elementwise/relu/f16/"
        self.assertEqual(
            chosen("3", "30"),
            prefix + "(v03_vec128|v30_block_size_32|v30_block_size_64)/65536$",
        )
        self.assertEqual(
            chosen("v30_block_size_64", "v30_block_size_32"),
            prefix + "(v30_block_size_64|v30_block_size_32)/65536$",
        )

    def test_a_version_for_gpus_only_has_a_difference(self) -> None:
        result = self.run_script(*self.ladder("gemm", "0", "1"))
        self.assertEqual(result.returncode, 0)
        self.assertIn("+++ src/kernels/gemm/v01_naive.cu\n", result.stdout)
        self.assertIn("\nv00_cublas can run on a GPU only: there are no counts", result.stdout)

    def test_a_version_that_was_changed_since(self) -> None:
        os.utime(self.folder / "libladder_host.so", (0, 0))
        result = self.run_script(*self.ladder("gemm", "3", "4"))
        self.assertRegex(result.stderr, "v03_smem_tile.cu has changed since it was built")

    def test_mistakes_are_one_sentence(self) -> None:
        self.refuses("no family gem; there are attention, elementwise, gemm", *self.ladder("gem", "3", "4"))
        self.refuses("gemm has no version v99: v00_cublas, v01_", *self.ladder("gemm", "3", "v99"))
        self.refuses("gemm has no version naive", *self.ladder("gemm", "3", "naive"))
        self.refuses("has 1?[0-9] versions 1: v01_added", *self.ladder("roofs", "1", "2"))
        self.refuses("are the same version", *self.ladder("gemm", "3", "v03"))
        self.refuses("no ladder f16; there are f32", *self.ladder("gemm", "3", "4", "f16"))
        self.refuses("share no operation and type", *self.ladder("gemm", "1", "2"))
        (self.folder / "bench").unlink()
        self.refuses("no bench in .*: run scripts/test first", *self.ladder("gemm", "3", "4"))


class Help(Case):
    def test_help_has_examples(self) -> None:
        for name in ("roofline.py", "upkeep/update_readme.py", "ladder.py"):
            result = self.run_script(SCRIPTS / name, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn("examples:", result.stdout)

    def test_every_script_prints_to_any_stdout(self) -> None:
        others = {"draw_", "browser", "shoot_stepper"}  # which print nothing
        scripts = [path for folder in (SCRIPTS, SCRIPTS / "upkeep") for path in sorted(folder.glob("*.py"))
                   if "__main__" in path.read_text(encoding="utf-8")]  # fmt: skip
        for script in scripts:
            if any(map(script.name.startswith, others)):
                continue
            with self.subTest(script.name):
                text = script.read_text(encoding="utf-8")
                self.assertRegex(text, r"\n    (ladder_csv\.)?run\(main\b")
                if text.partition("from __future__")[0].isascii():
                    continue  # its help, which is this text
                result = subprocess.run(
                    [sys.executable, script, "--help"], capture_output=True,
                    env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"})  # fmt: skip
                self.assertEqual((result.returncode, result.stderr), (0, b""))
                self.assertIn(b"usage:", result.stdout)


def names(tests: unittest.TestSuite | unittest.TestCase) -> list[str]:
    if isinstance(tests, unittest.TestCase):
        return [tests.id().removeprefix("__main__.")]
    return [name for part in tests for name in names(part)]


def run_one(name: str) -> tuple[bool, list[str], str]:
    """Whether a test succeeded, why parts were skipped, and what it printed."""
    out = io.StringIO()
    test = unittest.defaultTestLoader.loadTestsFromName(name, sys.modules["__main__"])
    result = unittest.TextTestRunner(out, verbosity=2).run(test)
    return result.wasSuccessful(), [reason for _, reason in result.skipped], out.getvalue()


def main() -> int:
    """Runs the tests on all cores, because drawing takes long; arguments are unittest's."""
    ladder_csv.find_package("matplotlib")
    if len(sys.argv) > 1:
        skips.main()
    tests = names(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    with multiprocessing.get_context("fork").Pool() as pool:
        outcomes = pool.map(run_one, tests, chunksize=1)
    failed = [text for good, _, text in outcomes if not good]
    print(*failed, sep="\n", end="")
    skipped = [reason for _, reasons, _ in outcomes for reason in reasons]
    print(f"{len(tests) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return skips.status(not failed, skipped)


if __name__ == "__main__":
    sys.exit(main())
