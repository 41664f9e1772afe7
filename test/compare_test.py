#!/usr/bin/env python3
"""Tests of scripts/compare.py, on results/h100/2026-11-22.csv and on made-up samples; given the
path of ./bench, also of the samples that it writes."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from statistics import median, stdev
from typing import Any, Callable
from unittest import mock

import skips

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "compare.py"
sys.dont_write_bytecode = True  # none beside the script
sys.path.insert(0, str(SCRIPT.parent))

import compare  # noqa: E402

MEASURED = ROOT / "results" / "h100" / "2026-11-22.csv"
BENCH = sys.argv.pop(1) if len(sys.argv) > 1 else ""

Line = dict[str, Any]


def line(us: list[float], **more: Any) -> Line:
    cells = {
        "family": "gemm", "op": "", "kernel": "v01_naive", "dtype": "f32", "problem": "8x8x8",
        "backend": "cuda", "device": "Some GPU", "verdict": "passed", "cache": "cold",
        "flops": 1024, "bytes": 768, "gflops": 1, "gbps": 1, "roof": "", "roof_pct": "",
        "library": "", "vs_library": "",
        "registers": 32, "occupancy": 1, "git_sha": "0123456789abcdef", "toolkit": "13.0",
        "driver": "580.1", "timestamp": "2026-01-01T00:00:00Z", "samples": "", "rel_stdev": "",
        "time_us_median": "",
    }  # fmt: skip
    if us:
        cells |= {"samples": len(us), "time_us_median": f"{median(us):.6g}"}
        cells["rel_stdev"] = stdev(us) / median(us) if len(us) > 1 else 0
    return cells | more


def noise(middle: float, spread: float, n: int, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(middle, middle * spread) for _ in range(n)]


class Compare(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, stem: str, lines: list[Line]) -> Path:
        path = self.folder / f"{stem}.csv"
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
        return path

    def write_with_samples(self, stem: str, runs: dict[str, list[float]]) -> Path:
        """A row for each problem, and the samples beside them."""
        lines = [line(us, problem=problem) for problem, us in runs.items()]
        rows = [{c: row[c] for c in compare.KEY} | {"us": us}
                for row, us in zip(lines, runs.values())]  # fmt: skip
        (self.folder / f"{stem}.json").write_text(json.dumps(rows), encoding="utf-8")
        return self.write(stem, lines)

    def copy(self, stem: str, change: Callable[[Line], Line]) -> Path:
        with open(MEASURED, newline="", encoding="utf-8") as file:
            return self.write(stem, [change(row) for row in csv.DictReader(file)])

    def run_script(self, *arguments: Any, status: int = 0) -> str:
        """What it prints; in this process, because starting another takes longer."""
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", [str(SCRIPT), *map(str, arguments)]):
            with contextlib.redirect_stdout(printed):
                self.assertEqual(compare.main(), status, printed.getvalue())
        return printed.getvalue()

    def refused(self, sentence: str, *arguments: Any) -> None:
        command = [sys.executable, SCRIPT, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(result.stderr, sentence)

    def report(self, old: Path, new: Path) -> compare.Report:
        options = compare.argparse.Namespace(
            old=old, new=new, threshold="3", filter="", anyway=False
        )
        return compare.report(compare.read(old), compare.read(new), options)

    def verdicts(self, old: Path, new: Path) -> dict[str, compare.Comparison]:
        return {c.name: c for c in self.report(old, new).comparisons}


class WholeRuns(Compare):
    def test_a_run_against_itself_is_the_same(self) -> None:
        found = self.verdicts(MEASURED, MEASURED)
        self.assertGreater(len(found), 800)
        self.assertEqual({c.verdict for c in found.values()}, {"same"})
        self.assertIn("No kernel is slower by more than 3 %.", self.run_script(MEASURED, MEASURED))

    def test_a_planted_slowdown_is_found_and_nothing_else(self) -> None:
        def plant(row: Line) -> Line:
            if row["family"] == "softmax" and row["kernel"] == "v07_unaligned":
                row["time_us_median"] = f"{1.05 * float(row['time_us_median']):.6g}"
                self.planted.add(self.name_of(row))
            return row

        self.planted: set[str] = set()
        slow = self.copy("slow", plant)
        self.assertGreater(len(self.planted), 10)
        found = self.verdicts(MEASURED, slow)
        self.assertEqual({n for n, c in found.items() if c.verdict == "slower"}, self.planted)
        self.assertEqual({n for n, c in found.items() if c.verdict != "same"}, self.planted)
        text = self.run_script(MEASURED, slow, status=1)
        for name in self.planted:
            self.assertIn(f"{name} is slower by 5.0 %.\n", text)
        self.assertIn(f"{len(self.planted)} slower", text)
        self.run_script(MEASURED, slow, "--threshold=6")  # slower, but that is allowed
        self.assertIn(f"{len(self.planted)} faster", self.run_script(slow, MEASURED))

    @staticmethod
    def name_of(row: Line) -> str:
        parts = [row[c] for c in ("family", "op", "dtype", "kernel", "problem")]
        return "/".join(part for part in parts if part)

    def test_markdown_shows_what_changed_and_folds_the_rest(self) -> None:
        def plant(row: Line) -> Line:
            slow = (row["family"], row["kernel"]) == ("gemm", "v03_smem_tile")
            return row | ({"time_us_median": 1.05 * float(row["time_us_median"])} if slow else {})

        text = self.run_script(MEASURED, self.copy("slow", plant), "--markdown", "--all", status=1)
        changed, _, folded = text.partition("<details>")
        self.assertIn("| `gemm/f32/v03_smem_tile/4096x4096x4096` |", changed)
        self.assertEqual(changed.count("| **slower** |"), 4)
        self.assertNotIn("v04_tile1d", changed)
        self.assertIn("| `gemm/f32/v04_tile1d/4096x4096x4096` |", folded)
        self.assertNotIn("\033", text)
        self.assertNotIn("<details>", self.run_script(MEASURED, self.folder / "slow.csv", "--markdown", status=1))

    def test_a_kernel_that_lost_its_time_fails(self) -> None:
        rows = [line([10.0] * 10), line([10.0] * 10, kernel="v02_coalesced")]
        wrong = line([], kernel="v02_coalesced", verdict="incorrect")
        old, new = self.write("old", rows), self.write("new", [rows[0], wrong])
        text = self.run_script(old, new, status=1)
        self.assertIn("gemm/f32/v02_coalesced/8x8x8 has no time any more: incorrect.", text)
        self.run_script(new, old)  # mended

    def test_a_kernel_that_is_gone_fails(self) -> None:
        rows = [line([10.0] * 10, problem=f"{n}x8x8") for n in range(1, 9)]
        library = line([10.0] * 10, kernel="v00_cublas")
        old, new = self.write("old", [*rows, library]), self.write("new", rows[:2])
        text = self.run_script(old, new, status=1)
        self.assertNotIn("No kernel is slower", text)
        self.assertIn("Gone in the new run (6): gemm/f32/v01_naive/3x8x8, gemm/f32/v01_naive/4x8x8, ", text)
        self.assertIn("/7x8x8 and 1 more (--all names them); --filter=REGEX chooses", text)
        self.assertIn("/7x8x8, gemm/f32/v01_naive/8x8x8; --filter", self.run_script(old, new, "--all", status=1))
        self.run_script(old, new, "--filter=/[12]x8x8")
        self.run_script(old, self.write("new", rows))  # a library is not the suite's
        self.run_script(new, old)

    def test_a_few_of_many_rows_are_no_comparison(self) -> None:
        rows = [line([10.0] * 10, problem=f"{n}x8x8") for n in range(1, 30)]
        old, new = self.write("old", rows), self.write("new", rows[:2])
        self.refused("has 2 of the 29 timed rows of .*old.csv, which is no comparison of the two: --filter=", old, new)
        self.run_script(old, new, "--anyway", status=1)
        self.run_script(new, old)

    def test_throttling_and_other_clocks_are_said(self) -> None:
        gpu = {"sm_mhz": "1980", "throttled": "0", "throttle": "", "settled": "no"}
        old = self.write("old", [line([10.0] * 10, problem=f"{n}x8x8", **gpu) for n in range(1, 4)])
        slow = gpu | {"sm_mhz": "1755", "throttled": "0.4", "throttle": "thermal"}
        new = self.write("new", [line([11.3] * 10, problem=f"{n}x8x8", **state)
                                 for n, state in enumerate((slow, slow, gpu), 1)])  # fmt: skip
        for form in "", "--markdown":
            text = self.run_script(old, new, *form.split(), status=1)
            self.assertIn("Throttled, of 3 rows: 0 of the old run, 2 of the new one.", text)
            self.assertIn("The new run's clock was 11 % lower in 2 of 3 rows", text)
            self.assertEqual(text.count("new throttled, 1980 → 1755 MHz"), 2)
        self.assertNotIn("hrottled", self.run_script(old, old))
        limited = gpu | {"throttled": "1", "throttle": "power", "settled": "yes"}  # which the run has waited for
        at_limit = self.write("limit", [line([10.0] * 10, **limited)])
        self.assertNotIn("hrottled", self.run_script(at_limit, at_limit))

    def test_files_are_read_once_and_so_may_be_pipes(self) -> None:
        old = self.write("old", [line([10.0] * 10)])
        command = f"'{sys.executable}' '{SCRIPT}' <(cat '{old}') <(cat '{old}')"
        result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, encoding="utf-8")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("1 rows compared: 1 same.", result.stdout)

    def test_any_stdout_will_do(self) -> None:
        old = self.write("old", [line([10.0] * 10)])
        for encoding in {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "latin-1"}:
            result = subprocess.run([sys.executable, SCRIPT, old, old, "--all"], capture_output=True,
                                    env=os.environ | encoding)  # fmt: skip
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertRegex(result.stdout, rb"10\.0 [u\xb5]s .* 0\.\d+ \.\.\. 1\.\d+ ")


class Choosing(Compare):
    def setUp(self) -> None:
        super().setUp()
        problems = {"100x100x100": (90.0, 90.0), "9x9x9": (10.0, 20.0), "20x20x20": (40.0, 30.0)}
        old, new = [], []
        for problem, (before, after) in problems.items():
            for kernel, us in (("v02_coalesced", before), ("v01_naive", after)):
                old.append(line([before] * 10, problem=problem, kernel=kernel))
                new.append(line([us] * 10, problem=problem, kernel=kernel))
        self.old, self.new = self.write("old", old), self.write("new", new)

    def rows(self, *arguments: str, status: int = 1) -> list[str]:
        text = self.run_script(self.old, self.new, "--markdown", *arguments, status=status)
        return [row.split("`")[1] for row in text.splitlines() if row.startswith("| `")]

    def test_sorted(self) -> None:
        v01, v02 = "gemm/f32/v01_naive", "gemm/f32/v02_coalesced"
        slower, faster = f"{v01}/9x9x9", f"{v01}/20x20x20"
        self.assertEqual(self.rows(), [slower, faster])
        self.assertEqual(self.rows("--all")[2:], [f"{v02}/9x9x9", f"{v02}/20x20x20",
                                           f"{v01}/100x100x100", f"{v02}/100x100x100"])  # fmt: skip
        self.assertEqual(self.rows("--sort=change")[:2], [slower, faster])
        self.assertEqual(self.rows("--sort=time")[:2], [faster, slower])
        text = self.run_script(self.old, self.new, "--sort=change", "--all", status=1)
        names = [row.split()[0] for row in text.splitlines() if row.startswith("  gemm/")]
        self.assertEqual((names[0], names[-1], len(names)), (slower, faster, 6))
        text = self.run_script(self.old, self.new, "--all", status=1)
        titles = [row for row in text.splitlines() if row.startswith("gemm f32")]
        self.assertEqual(titles, ["gemm f32 9x9x9", "gemm f32 20x20x20", "gemm f32 100x100x100"])

    def test_only_what_changed_is_printed(self) -> None:
        self.assertEqual(len(self.rows()), 2)
        text = self.run_script(self.old, self.new, status=1)
        self.assertNotIn("v02 coalesced", text)
        self.assertIn("6 rows compared: 1 slower, 1 faster, 4 same.", text)
        text = self.run_script(self.old, self.new, "--filter=v02.*/9x")
        self.assertIn("1 rows compared: 1 same.", text)
        self.assertNotIn("gemm", text)

    def test_filter(self) -> None:
        names = self.rows("--filter=^gemm/f32/v0[12].*/20x20x20$", "--all", status=0)
        self.assertEqual(names, ["gemm/f32/v01_naive/20x20x20", "gemm/f32/v02_coalesced/20x20x20"])
        self.assertEqual(len(self.rows("--filter=9x9x9", "--all")), 2)
        # p is adjusted for the rows that were selected only.
        text = self.run_script(self.old, self.new, "--filter=9x9x9", status=1)
        self.assertIn("p is adjusted for 2 rows", text)


class ExitCode(Compare):
    def slowed(self, status: int, **more: Any) -> str:
        old = self.write("old", [line([100.0] * 10, **more)])
        slow = {"gbps": 1 / 1.2, "gflops": 1 / 1.2}
        if "roof" in more:
            slow["roof_pct"] = more["roof_pct"] / 1.2
        new = self.write("new", [line([120.0] * 10, **more | slow)])
        text = self.run_script(old, new, status=status)
        self.assertIn("1 rows compared: 1 slower", text)
        return text

    def test_a_slower_kernel_fails(self) -> None:
        for more in ({}, {"roof": "dram", "roof_pct": 11}, {"roof": "fma f32", "roof_pct": 4}):
            self.assertIn("v01_naive/8x8x8 is slower by 20.0 %.\n", self.slowed(1, **more))

    def test_what_is_not_of_the_build_does_not(self) -> None:
        text = self.slowed(0, kernel="p01_torch")
        self.assertIn("1 of libraries, peers and roofs, slower by more than 3 %.\nNo other", text)

    def test_far_below_the_memory_roof_only_a_large_change_does(self) -> None:
        def changed(roof_pct: float, times: float, status: int) -> str:
            old = self.write("old", [line([100.0] * 10, roof="dram", roof_pct=roof_pct)])
            slow = {"roof_pct": roof_pct / times, "gbps": 1 / times}
            new = self.write("new", [line([100.0 * times] * 10, roof="dram", **slow)])
            return self.run_script(old, new, status=status)

        self.assertIn("1 rows compared: 1 unclear", changed(9, 1.5, 0))
        self.assertIn("1 rows compared: 1 slower", changed(9, 4, 1))
        self.assertIn("1 rows compared: 1 slower", changed(90, 20, 1))  # it fell there


class Refusals(Compare):
    def test_different_builds_are_refused_unless_anyway(self) -> None:
        ours = {"build": "Release", "flags": ""}
        old = self.write("old", [line([10.0] * 10, **ours)])
        for column, other, sentence in (
            ("build", "Debug", "build types, Release and Debug"),
            ("flags", "CMAKE_CUDA_FLAGS=-G", "compiler flags, none and CMAKE_CUDA_FLAGS=-G"),
        ):
            new = self.write("new", [line([10.0] * 10, **ours | {column: other})])
            self.refused(f"^The runs are of different {sentence}: --anyway compares them all the same.\n$", old, new)
            self.run_script(old, new, "--anyway")
        self.run_script(old, self.write("new", [line([10.0] * 10)]))  # which does not know

    def test_a_cold_cache_of_clean_lines_is_not_one_of_dirty_lines(self) -> None:
        old, new = (self.write("old", [line([10.0] * 10)]), self.write("new", [line([10.0] * 10, flush="read")]))
        self.refused("^The runs are of different flushes of the L2, write and read: --anyway", old, new)
        self.run_script(old, new, "--anyway")
        self.run_script(new, new)
        self.run_script(old, self.write("new", [line([10.0] * 10, flush="write")]))

    def test_different_machines_are_refused_unless_anyway(self) -> None:
        old = self.write("old", [line([10.0] * 10)])
        for column, other in (("device", "Other GPU"), ("toolkit", "12.9"), ("driver", "570.2")):
            new = self.write("new", [line([10.0] * 10, **{column: other})])
            self.refused(f"different .*{other}: --anyway compares", old, new)
            self.assertIn(other, self.run_script(old, new, "--anyway"))

    def test_bad_input_is_one_sentence(self) -> None:
        good = self.write("good", [line([10.0] * 10)])
        self.refused("none.csv cannot be read: No such file", good, self.folder / "none.csv")
        self.refused("cannot be read: Is a directory", good, self.folder)
        for columns in (("time_us_median",), ("driver",), ("rel_stdev", "roof_pct")):
            lines = [{c: v for c, v in line([10.0] * 10).items() if c not in columns}]
            names = ", ".join(map(repr, columns))
            self.refused(f"lacks.csv .*no column {names}", good, self.write("lacks", lines))
        self.refused("--threshold=few: a number", good, good, "--threshold=few")
        self.refused("no timed row in common", good,
                     self.write("other", [line([10.0] * 10, problem="9x9x9")]))  # fmt: skip

    def test_a_filter_must_select_a_row(self) -> None:
        good = self.write("good", [line([10.0] * 10)])
        self.refused("no timed row in common whose name has 'softmax'", good, good,
                     "--filter=softmax")  # fmt: skip
        self.refused(r"--filter=\(: no regular expression", good, good, "--filter=(")

    def test_numbers_that_cannot_be(self) -> None:
        first = line([10.0] * 10)
        good = self.write("good", [first, line([10.0] * 10, kernel="v02_coalesced")])
        for column, texts in {
            "time_us_median": ("inf", "nan", "-10", "0", "1e300"),
            "rel_stdev": ("inf", "nan", "-1", "", "little"),
            "samples": ("0", "nan", ""),
            "roof_pct": ("inf", "-1"),
            "gbps": ("inf", "-1"),
            "resolution_pct": ("inf", "nan", "-1"),
        }.items():
            for text in texts:
                wrong = line([10.0] * 10, kernel="v02_coalesced") | {column: text}
                bad = self.write("bad", [first | {column: first.get(column, "")}, wrong])
                said = f"passed with {text or 'nothing'} as its {column}\\.$"
                with self.assertRaisesRegex(compare.LadderError, "bad.csv, line 3: .* " + said):
                    compare.read(bad)
        self.refused("gemm/f32/v02_coalesced/8x8x8 passed with -1", bad, good)
        # What did not pass has no numbers to be right.
        failed = line([10.0] * 10, kernel="v02_coalesced", verdict="failed", rel_stdev="inf")
        self.run_script(good, self.write("failed", [first, failed]), status=1)

    def test_a_row_may_not_come_twice(self) -> None:
        rows = [line([10.0] * 10), line([9.0] * 10, problem="9x9x9"), line([11.0] * 10)]
        twice, good = self.write("twice", rows), self.write("good", rows[:2])
        sentence = "twice.csv, line 4: gemm/f32/v01_naive/8x8x8 is in line 2 already"
        self.refused(sentence, good, twice)
        self.refused(sentence, twice, good)

    def test_samples_that_are_not_the_rows_are_refused(self) -> None:
        good = self.write_with_samples("good", {"8x8x8": noise(10, 0.01, 20, 1)})
        bad = self.write_with_samples("bad", {"8x8x8": noise(10, 0.01, 20, 2)})
        (self.folder / "good.json").replace(self.folder / "bad.json")
        self.refused("bad.csv, line 2: .* has another median than its samples", good, bad)
        (self.folder / "bad.json").write_text("[{]")
        self.refused("bad.json is not what ./bench --samples writes", good, bad)
        (self.folder / "bad.json").write_text('{"gemm": [1]}')
        self.refused("bad.json is not what ./bench --samples writes", good, bad)
        row = {c: line([])[c] for c in compare.KEY} | {"us": [10.0, math.inf]}
        (self.folder / "bad.json").write_text(json.dumps([row]))
        self.refused("bad.json: a sample of gemm/.* is inf", good, bad)
        (self.folder / "bad.json").write_text(json.dumps([row | {"us": [10.0]}] * 2))
        self.refused("bad.json has the samples of a row twice", good, bad)


class Statistics(Compare):
    def test_p_is_students(self) -> None:
        # The quantiles of t with 20 degrees of freedom, as tables have them
        self.assertEqual(compare.FREEDOM, 20)
        for t, p in ((0.687, 0.5), (1.725, 0.1), (2.086, 0.05), (2.845, 0.01), (3.850, 0.001)):
            self.assertAlmostEqual(compare.p_value(0.3 * t, 0.3) / p, 1, 2)
        self.assertEqual(compare.p_value(-0.1, 0.3), 1)
        self.assertEqual(compare.p_value(0.1, 0), 0)
        self.assertAlmostEqual(compare.p_value(compare.reach(0.3), 0.3), 0.05, 6)

    def test_adjusted_as_in_the_books(self) -> None:
        # R: p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.9), "BH")
        for found, p in zip(
            compare.adjusted([0.01, 0.04, 0.03, 0.005, 0.9]), (0.025, 0.05, 0.05, 0.025, 0.9)
        ):
            self.assertAlmostEqual(found, p)
        self.assertEqual(compare.adjusted([]), [])

    def test_the_error_of_a_middle_mean(self) -> None:
        for n in (12, 25, 200):
            runs = [noise(100, 0.05, n, seed) for seed in range(400)]
            errors = [compare.middle_mean_error(run) for run in runs]
            found = stdev([compare.middle_mean(run) for run in runs])
            self.assertAlmostEqual(sum(errors) / 400 / found, 1.03, delta=0.1)
            self.assertAlmostEqual(found / (stdev(noise(100, 0.05, 9999, 1)) / math.sqrt(n)),
                                   compare.NORMAL_ERROR, delta=0.1)  # fmt: skip
        self.assertEqual(compare.middle_mean_error([7.0]), 0)
        self.assertEqual(compare.middle_mean_error([7.0] * 9), 0)

    def test_the_resolution_comes_from_both_runs(self) -> None:
        for old_pct, new_pct, resolution in (
            (3, 4, 0.05), ("", 4, math.hypot(0.005, 0.04)), ("", "", math.hypot(0.005, 0.005)),
        ):  # fmt: skip
            old = self.write("old", [line([100.0] * 10, resolution_pct=old_pct)])
            new = self.write("new", [line([106.0] * 10, resolution_pct=new_pct)])
            (only,) = self.verdicts(old, new).values()
            self.assertAlmostEqual(only.resolution, resolution)
            self.assertEqual(only.spread, compare.SPREAD)  # nothing to take it from
            distance = resolution + compare.reach(compare.SPREAD)
            self.assertAlmostEqual(math.log(only.ratio / only.low), distance)
            self.assertAlmostEqual(math.log(only.high / only.ratio), distance)
            self.assertEqual(only.verdict, "slower" if resolution < 0.045 else "unclear")

    def test_the_error_of_several_processes_is_what_they_are_apart(self) -> None:
        lines = [line([100.0, 100.1] * 5, processes=4, between_pct=between) for between in (3, "")]
        errors = [next(iter(compare.read(self.write("run", [one])).values())).error for one in lines]
        self.assertAlmostEqual(errors[0], 0.03 / 2)
        self.assertLess(errors[1], 0.001)

    def test_samples_count(self) -> None:
        runs = {
            "1x1x1": (noise(100, 0.01, 40, 1), noise(100, 0.01, 40, 2)),
            "2x2x2": (noise(100, 0.01, 40, 3), noise(106, 0.01, 40, 4)),
            "3x3x3": (noise(106, 0.01, 40, 5), noise(100, 0.01, 40, 6)),
            "4x4x4": ([60, 80, 95, 105, 120, 140], [65, 85, 105, 115, 130, 150]),
            "5x5x5": ([100.0] * 10 + [130.0] * 10, [130.0] * 20),
        }
        old = self.write_with_samples("old", {k: v[0] for k, v in runs.items()})
        new = self.write_with_samples("new", {k: v[1] for k, v in runs.items()})
        found = self.verdicts(old, new)
        self.assertEqual(
            {name.split("/")[-1]: c.verdict for name, c in found.items()},
            {"1x1x1": "same", "2x2x2": "slower", "3x3x3": "faster", "4x4x4": "unclear",
             "5x5x5": "unclear"},
        )  # fmt: skip

    def test_two_states_of_a_power_limit_are_not_told_apart(self) -> None:
        old = self.write("old", [line([100.0] * 10, settled="no")])
        new = self.write("new", [line([150.0] * 10, settled="yes")])
        self.assertEqual([c.verdict for c in self.verdicts(old, new).values()], ["unclear"])
        self.assertEqual([c.verdict for c in self.verdicts(old, old).values()], ["same"])


def lines_of(problems: range, change: float = 0, **more: Any) -> list[Line]:
    """A group for each problem: a library whose time's logarithm moves by `change`, one way and the
    other by turns, and a kernel of half its time."""
    rows = []
    for p in problems:
        us = 100 * math.exp(change * (-1) ** p)
        rows.append(line([us] * 10, problem=f"{p}x1x1", kernel="v00_cublas", **more))
        rows.append(line([50.0] * 10, problem=f"{p}x1x1", **more))
    return rows


class Spread(Compare):
    def spreads(self, old: list[Line], new: list[Line]) -> dict[str, float]:
        found = self.verdicts(self.write("old", old), self.write("new", new))
        return {name: round(c.spread, 4) for name, c in found.items()}

    def test_libraries_show_it(self) -> None:
        found = self.spreads(lines_of(range(20)), lines_of(range(20), 0.02))
        self.assertEqual(set(found.values()), {0.02})

    def test_few_do_not(self) -> None:
        found = self.spreads(lines_of(range(9)), lines_of(range(9), 0.002))
        self.assertEqual(set(found.values()), {compare.SPREAD})

    def test_a_few_libraries_that_leap_do_not_matter_elsewhere(self) -> None:
        new = lines_of(range(5), 0.3) + lines_of(range(5, 20), 0.004)
        found = self.spreads(lines_of(range(20)), new)
        leapt = {found[f"gemm/f32/v01_naive/{p}x1x1"] for p in range(5)}
        self.assertEqual(leapt, {round(0.3 / compare.reach(1), 4)})
        self.assertEqual({found[f"gemm/f32/v01_naive/{p}x1x1"] for p in range(5, 20)}, {0.004})

    def test_the_nearest_in_time_that_are_bounded_alike_count(self) -> None:
        old, new = [], []
        for at, (roof, us, change) in enumerate(
            (("dram", 5, 0.05), ("dram", 500, 0.002), ("fma f32", 500, 0.01))
        ):
            for p in range(50 * at, 50 * at + 50):
                more = {"problem": f"{p}x1x1", "roof": roof}
                old.append(line([us] * 10, kernel="v00_cublas", **more))
                new.append(line([us * math.exp(change)] * 10, kernel="v00_cublas", **more))
            old.append(line([us] * 10, problem=roof + str(us), roof=roof))
        found = self.spreads(old, new + [row for row in old if row["kernel"] == "v01_naive"])
        self.assertEqual(
            {name.split("/")[-1]: s for name, s in found.items() if "v01" in name},
            {"dram5": 0.05, "dram500": 0.002, "fma f32500": 0.01},
        )

    def test_the_roofs_in_the_turns_show_it(self) -> None:
        def rows(roof_us: float, us: float) -> list[Line]:
            more = {"roof": "dram", "roof_pct": 100 * roof_us / us, "gbps": 100 / us}
            return [line([us] * 10, problem=f"{p}x1x1", **more) for p in range(20)]

        found = self.spreads(rows(50, 60), rows(50, 66))
        self.assertEqual(set(found.values()), {0})  # slower kernels below a roof that stood still
        found = self.spreads(rows(50, 60), rows(51, 60))
        self.assertEqual(set(found.values()), {round(math.log(51 / 50), 4)})

    def test_another_toolkits_libraries_do_not(self) -> None:
        old = self.write("old", lines_of(range(20)))
        new = self.write("new", lines_of(range(20), 0.2, toolkit="12.9"))
        self.assertIn("0.75 % apart (by 0 libraries'", self.run_script(old, new, "--anyway"))


class Sweeps(Compare):
    """Thousands of rows, made of measured ones: two runs of one program, and planted changes."""

    def setUp(self) -> None:
        super().setUp()
        self.moved: set[compare.Key] = set()  # the groups that were

    def sweep(self, stem: str, seed: int, change: Callable[[Line], float] = lambda row: 1) -> Path:
        """A run whose groups and rows are a little off, short ones more, some of them far, and with
        them the roofs and the libraries. Of 50 groups one is off by 8 % as a whole, and of
        ten rows far below their memory roof one is by a half."""
        groups: dict[compare.Key, tuple[float, float]] = {}

        def measured(row: Line) -> Line:
            row = row | {"resolution_pct": ""}
            if row["verdict"] != "passed":
                return row
            us, roof_pct = float(row["time_us_median"]), float(row["roof_pct"] or "nan")
            rng = random.Random(f"{seed} {[row[c] for c in compare.KEY]}")
            spread = math.hypot(0.002, 0.02 / us)
            of = tuple(row[c] for c in compare.GROUP)
            if of not in groups:
                off = rng.gauss(0, spread)
                if rng.random() < 0.02:
                    off += rng.choice((-0.08, 0.08))
                    self.moved.add(of)
                groups[of] = off, off + rng.gauss(0, spread)
            off, roof_off = groups[of]
            off += rng.gauss(0, spread if rng.random() < 0.9 else 2 * spread)
            if roof_pct < 7 and row["roof"] == "dram" and rng.random() < 0.1:
                off += rng.choice((-0.4, 0.4))
            us *= math.exp(off)
            us *= change(row)
            speed = float(row["time_us_median"]) / us
            if roof_pct > 0:
                roof_pct *= math.exp(roof_off) * speed
            return row | {
                "gflops": float(row["gflops"]) * speed, "gbps": float(row["gbps"]) * speed,
                "time_us_median": f"{us:.6g}", "samples": 50, "rel_stdev": 0.005,
                "roof_pct": f"{roof_pct:.6g}" if roof_pct > 0 else "",
                "resolution_pct": f"{rng.uniform(0.05, 0.4):.3g}",
            }  # fmt: skip

        return self.copy(stem, measured)

    def test_a_planted_slowdown_is_found_in_all_rows_and_hardly_elsewhere(self) -> None:
        def slow(row: Line) -> float:
            return 1.05 if self.is_planted(row) else 1

        old = self.sweep("old", 0)
        honest = self.report(old, self.sweep("honest", 1))
        self.assertGreater(len(honest.comparisons), 2000)
        called = [c for c in honest.comparisons if c.verdict in ("slower", "faster")]
        self.assertLess(len(called), 0.01 * len(honest.comparisons))
        self.assertEqual(honest.regressions, [])

        report = self.report(old, self.sweep("slow", 1, slow))
        planted = [c for c in report.comparisons if self.is_planted(c.new.row._asdict())]
        still = [c for c in planted if compare.group(c.new.row) not in self.moved]
        self.assertGreater(len(still), 50)
        self.assertEqual({c.name for c in still if c.verdict != "slower"}, set())
        self.assertGreater(len(report.regressions), 50)
        names = {c.name for c in planted}
        others = [c for c in report.comparisons if c.name not in names]
        called = [c for c in others if c.verdict in ("slower", "faster")]
        self.assertLess(len(called), 0.01 * len(others))

    @staticmethod
    def is_planted(row: Line) -> bool:
        return (row["family"], row["kernel"]) in {
            ("softmax", "v07_unaligned"), ("gemm", "v03_smem_tile"), ("layernorm", "v05_vec128"),
            ("reduction", "v09_vec128"),
        }  # fmt: skip

    def test_some_of_the_many_are_not_called_by_chance(self) -> None:
        # 4000 that did not change, half of them libraries, of one spread, and 200 slow ones
        rng = random.Random(1)
        runs: list[Path] = []
        for stem in ("old", "new"):
            rows = []
            for p in range(4200):
                us = 100 * math.exp(rng.gauss(0, 0.01))
                us *= 1.12 if stem == "new" and p >= 4000 else 1
                kernel = "v00_cublas" if p % 2 == 0 and p < 4000 else "v01_naive"
                more = {"samples": 50, "rel_stdev": 0.001, "resolution_pct": 0}
                rows.append(line([us], problem=f"{p}x1x1", kernel=kernel, **more))
            runs.append(self.write(stem, rows))
        found = [c for c in self.verdicts(*runs).values() if c.verdict != "same"]
        called = [c for c in found if c.verdict in ("slower", "faster")]
        true = [c for c in called if int(c.new.row.problem.split("x")[0]) >= 4000]
        self.assertGreater(len(true), 196)
        self.assertLess(len(called) - len(true), 0.1 * len(called))


@unittest.skipUnless(BENCH, "needs the path of ./bench")
class SamplesOfBench(Compare):
    def bench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [BENCH, "--backend=host", "--benchmark_filter=^gemm/f32/v0[12]_", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def test_they_have_the_keys_of_the_rows(self) -> None:
        result = self.bench("--gemm=8x8x8,9x9x9", "--csv=run.csv", "--samples=run.json")
        self.assertEqual(result.returncode, 0, result)
        samples = compare.read_samples(self.folder / "run.json")
        with open(self.folder / "run.csv", newline="", encoding="utf-8") as file:
            rows = {tuple(row[c] for c in compare.KEY): row for row in csv.DictReader(file)}
        self.assertEqual(list(samples), list(rows))
        self.assertEqual(len(samples), 4)
        for key, us in samples.items():
            self.assertAlmostEqual(median(us) / 1000 / float(rows[key]["host_ms"]), 1, 4)

    def test_the_last_file_is_kept_and_the_csv_is_safe(self) -> None:
        self.bench("--gemm=8x8x8", "--samples=run.json")
        first = (self.folder / "run.json").read_text()
        self.bench("--gemm=8x8x8", "--samples=run.json")
        self.assertEqual((self.folder / "run.json.1.bak").read_text(), first)
        for arguments, sentence in (
            (["--samples=/no/such/x.json"], "--samples=/no/such/x.json: No such file"),
            (["--samples=results.csv"], "--samples=results.csv: --csv=results.csv goes to"),
            (["--samples=x.json", "--explain"], "leave out --csv, --samples"),
        ):
            result = self.bench(*arguments)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn(sentence, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)


if __name__ == "__main__":
    skips.main()
