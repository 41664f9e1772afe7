#!/usr/bin/env python3
"""Tests of scripts/compare.py, on results/h100/2026-11-22.csv and on made-up samples; given the
path of ./bench, also of the samples that it writes."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from statistics import median, stdev
from typing import Any, Callable

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
        "flops": 1024, "bytes": 768, "gflops": 1, "gbps": 1, "baseline": "", "vs_baseline": "",
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
        command = [sys.executable, SCRIPT, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        self.assertEqual(result.returncode, status, result)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def refused(self, sentence: str, *arguments: Any) -> None:
        command = [sys.executable, SCRIPT, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(result.stderr, sentence)

    def verdicts(self, old: Path, new: Path) -> dict[str, compare.Comparison]:
        options = compare.argparse.Namespace(
            old=old, new=new, threshold="3", floor="1.5", anyway=False
        )
        found = compare.report(compare.read(old), compare.read(new), options)
        return {c.name: c for c in found.comparisons}


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

        text = self.run_script(MEASURED, self.copy("slow", plant), "--markdown", status=1)
        changed, _, folded = text.partition("<details>")
        self.assertIn("| `gemm/f32/v03_smem_tile/4096x4096x4096` |", changed)
        self.assertEqual(changed.count("| **slower** |"), 4)
        self.assertNotIn("v04_tile1d", changed)
        self.assertIn("| `gemm/f32/v04_tile1d/4096x4096x4096` |", folded)
        self.assertNotIn("\033", text)

    def test_a_kernel_that_lost_its_time_fails(self) -> None:
        rows = [line([10.0] * 10), line([10.0] * 10, kernel="v02_coalesced")]
        wrong = line([], kernel="v02_coalesced", verdict="incorrect")
        old, new = self.write("old", rows), self.write("new", [rows[0], wrong])
        text = self.run_script(old, new, status=1)
        self.assertIn("gemm/f32/v02_coalesced/8x8x8 has no time any more: incorrect.", text)
        self.run_script(new, old)  # mended


class Refusals(Compare):
    def test_different_machines_are_refused_unless_anyway(self) -> None:
        old = self.write("old", [line([10.0] * 10)])
        for column, other in (("device", "Other GPU"), ("toolkit", "12.9"), ("driver", "570.2")):
            new = self.write("new", [line([10.0] * 10, **{column: other})])
            self.refused(f"different .*{other}: --anyway compares", old, new)
            self.assertIn(other, self.run_script(old, new, "--anyway"))

    def test_bad_input_is_one_sentence(self) -> None:
        good = self.write("good", [line([10.0] * 10)])
        self.refused("none.csv cannot be read: No such file", good, self.folder / "none.csv")
        for column in ("time_us_median", "rel_stdev", "driver"):
            lines = [{c: v for c, v in line([10.0] * 10).items() if c != column}]
            self.refused(f"no column '{column}'", good, self.write("lacks", lines))
        self.refused("--threshold=few: a number", good, good, "--threshold=few")
        self.refused("--floor=-1: a number", good, good, "--floor=-1")
        self.refused("no timed row in common", good,
                     self.write("other", [line([10.0] * 10, problem="9x9x9")]))  # fmt: skip
        self.refused("no timed row in common", good, self.write("untimed", [line([])]))
        self.refused("has a time, but no samples", good,
                     self.write("uncounted", [line([10.0] * 10, samples="")]))  # fmt: skip

    def test_samples_that_are_not_the_rows_are_refused(self) -> None:
        good = self.write_with_samples("good", {"8x8x8": noise(10, 0.01, 20, 1)})
        bad = self.write_with_samples("bad", {"8x8x8": noise(10, 0.01, 20, 2)})
        (self.folder / "good.json").replace(self.folder / "bad.json")
        self.refused("bad.json is of another run than .*bad.csv", good, bad)
        (self.folder / "bad.json").write_text("[{]")
        self.refused("bad.json is not what ./bench --samples writes", good, bad)
        (self.folder / "bad.json").write_text('{"gemm": [1]}')
        self.refused("bad.json is not what ./bench --samples writes", good, bad)


class Statistics(Compare):
    def test_the_floor_and_the_samples_add_up(self) -> None:
        old = line(noise(100, 0.02, 50, 1), time_us_median=100, rel_stdev=0.02)
        new = old | {"time_us_median": 102}
        a, b = self.write("a", [old]), self.write("b", [new])
        (only,) = self.verdicts(a, b).values()
        # 1.96 standard errors of a median, twice, and 1.5 % between runs
        within = 1.96 * 1.2533 * 0.02 * (2 / 50) ** 0.5
        self.assertAlmostEqual(only.ratio / only.low - 1, (within**2 + 0.015**2) ** 0.5, 3)
        self.assertAlmostEqual(only.high / only.ratio - 1, (within**2 + 0.015**2) ** 0.5, 3)
        self.assertIn("0.980  0.963 … 0.998  slower\n", self.run_script(a, b))  # but not by 3 %
        self.assertIn("0.980  0.961 … 1.001  same\n", self.run_script(a, b, "--floor=1.8"))

    def test_a_resampled_median_is_that_of_a_resample(self) -> None:
        for n in (1, 2, 3, 10, 11):
            ordered = sorted(noise(100, 0.1, n, n))
            rng, count = random.Random(3), 20000
            quick = sorted(compare.resampled_median(ordered, rng) for _ in range(count))
            slow = sorted(median(rng.choices(ordered, k=n)) for _ in range(count))
            for share in (0.025, 0.25, 0.5, 0.75, 0.975):
                # By its share, because a median of few samples has few values.
                value = quick[int(share * count)]
                below = sum(v < value for v in slow) / count
                upto = sum(v <= value for v in slow) / count
                self.assertLess(below - 0.015, share, (n, share))
                self.assertGreater(upto + 0.015, share, (n, share))

    def test_the_bootstrap_covers_the_ratio(self) -> None:
        hits = 0
        for seed in range(200):
            old, new = noise(100, 0.03, 30, 2 * seed), noise(50, 0.03, 30, 2 * seed + 1)
            low, high = compare.bootstrap(old, new)
            hits += low <= 2 <= high
        self.assertGreater(hits, 180)
        self.assertLess(hits, 200)

    def test_the_rank_test_gives_the_values_of_the_books(self) -> None:
        # scipy.stats.mannwhitneyu(a, b, method="asymptotic"), with ties and without
        self.assertAlmostEqual(compare.rank_test([19, 22, 16, 29, 24], [20, 11, 17, 12]),
                               0.11134688653314041)  # fmt: skip
        # Ranks 1.5 1.5 3 6 and 4 6 6 8: U = 2 of 16. Variance 16 / 12 (9 - 30 / 56), so z = 1.637.
        self.assertAlmostEqual(compare.rank_test([1, 1, 2, 4], [3, 4, 4, 5]), 0.1016, 4)
        self.assertEqual(compare.rank_test([5.0] * 9, [5.0] * 7), 1)

    def test_samples_decide(self) -> None:
        runs = {
            "1x1x1": (noise(100, 0.01, 40, 1), noise(100, 0.01, 40, 2)),
            "2x2x2": (noise(100, 0.01, 40, 3), noise(106, 0.01, 40, 4)),
            "3x3x3": (noise(106, 0.01, 40, 5), noise(100, 0.01, 40, 6)),
            "4x4x4": ([60, 80, 95, 105, 120, 140], [65, 85, 105, 115, 130, 150]),
            # The medians are surely 10 % apart, but either run's samples are as often the smaller.
            "5x5x5": ([100.0] * 120 + [200.0] * 80, [110.0] * 170 + [50.0] * 30),
            # Three samples each, far apart: too few for a test, enough for the interval.
            "6x6x6": ([100.0, 100.1, 100.2], [150.0, 150.1, 150.2]),
        }
        old = self.write_with_samples("old", {k: v[0] for k, v in runs.items()})
        new = self.write_with_samples("new", {k: v[1] for k, v in runs.items()})
        found = self.verdicts(old, new)
        self.assertEqual(
            {name.split("/")[-1]: c.verdict for name, c in found.items()},
            {"1x1x1": "same", "2x2x2": "slower", "3x3x3": "faster", "4x4x4": "unclear",
             "5x5x5": "unclear", "6x6x6": "slower"},
        )  # fmt: skip
        self.assertIn("from all samples\n", self.run_script(old, new, status=1))


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
        self.assertEqual((self.folder / "run.json.bak").read_text(), first)
        for arguments, sentence in (
            (["--samples=/no/such/x.json"], "--samples=/no/such/x.json: No such file"),
            (["--samples=results.csv"], "--samples=results.csv: this is the CSV"),
            (["--samples=x.json", "--explain"], "leave out --csv, --samples"),
        ):
            result = self.bench(*arguments)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn(sentence, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
