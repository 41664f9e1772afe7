#!/usr/bin/env python3
"""Tests of scripts/random_shapes.py on made-up CSVs; given the path of ./bench, also of what it measures
on the host executor. Those that draw are skipped where neither this Python nor build/venv has matplotlib."""

from __future__ import annotations

import csv
import math
import random
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from itertools import combinations
from pathlib import Path
from typing import Any

import skips

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "random_shapes.py"
sys.dont_write_bytecode = True  # none beside the scripts
sys.path.insert(0, str(SCRIPT.parent))

import ladder_csv  # noqa: E402
import random_shapes  # noqa: E402
from colours import COLOURS  # noqa: E402
from ladder_csv import LadderError  # noqa: E402
from random_shapes import FAMILIES, draw  # noqa: E402
from tuning.seen import had_seen  # noqa: E402

if __name__ == "__main__":
    ladder_csv.find_package("matplotlib")
try:
    import matplotlib  # noqa: F401

    CAN_DRAW = True
except ImportError:
    CAN_DRAW = False

BENCH = sys.argv.pop(1) if len(sys.argv) > 1 else ""
MOST = FAMILIES["gemm_tensor"].most_flops
OURS = "v20_autotuned"
SEVEN = ["144x40x1456", "24x656x200", "16x536x16", "320x24x24"]  # the first of seed 7
Line = dict[str, Any]


def group(problem: str, us: float, v00: float, v00b: float, op: str = "nt", **more: Any) -> list[Line]:
    """Lines of a problem: cuBLAS, cuBLASLt and ours."""
    m, n, k = map(int, problem.split("x"))
    library = "v00_cublas" if v00 <= v00b else "v00b_cublaslt"
    lines = []
    for kernel, time in (("v00_cublas", v00), ("v00b_cublaslt", v00b), (OURS, us)):
        ratio = min(v00, v00b) / time
        own = 0.0 if kernel == library else 0.002
        lines.append({
            "family": "gemm_tensor", "op": op, "kernel": kernel, "dtype": "bf16", "problem": problem,
            "backend": "cuda", "device": "Some GPU", "verdict": "passed", "reason": "", "cache": "cold",
            "time_us": time, "time_us_median": time, "flops": 2 * m * n * k,
            "bytes": 2 * (m * k + n * k + m * n), "gflops": 1, "gbps": 1, "library": library, "vs_library": ratio,
            "vs_library_low": ratio * (1 - own), "vs_library_high": ratio * (1 + own),
            "resolution_pct": 0.5, "registers": "", "occupancy": "", "block": "384x1x1" if kernel == OURS else "",
            "seed": 7, "git_sha": "0123456789abcdef", "timestamp": "2026-01-01T00:00:00Z",
        } | more)  # fmt: skip
    return lines


def unsupported(problem: str, **more: Any) -> list[Line]:
    lines = group(problem, 1, 1, 1, **more)
    return [*lines[:2], lines[2] | {"verdict": "unsupported", "reason": "rows too short", "time_us": "",
                                    "time_us_median": "", "vs_library": ""}]  # fmt: skip


def many(seed: int, ops: tuple[str, ...] = ("nn", "nt", "tn"), count: int = 60) -> list[Line]:
    """Ratios from a half to two, and four kinds of launches."""
    rng = random.Random(seed)
    lines = []
    for op in ops:
        for problem in draw(seed, count, 16, 16384, 8, MOST):
            us = 10 * rng.uniform(0.5, 2)
            block = rng.choice(("384x1x1", "288x1x1", "160x1x1", "544x1x1"))
            lines += group(problem, us, 10, 10.1, op, seed=seed, block=block)
    return lines


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, lines: list[Line], name: str = "random.csv") -> Path:
        path = self.folder / name
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
        return path

    def run_script(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, SCRIPT, *arguments]
        return subprocess.run([*map(str, command)], capture_output=True, text=True, encoding="utf-8",
                              cwd=self.folder)  # fmt: skip

    def table(self, *lines: list[Line], bar: float = 0.9) -> str:
        paths = [self.write(of, f"{i}.csv") for i, of in enumerate(lines)]
        return random_shapes.table_text(random_shapes.read(paths), bar)

    def refuses(self, sentence: str, *arguments: object) -> None:
        result = self.run_script(*arguments)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(sentence, " ".join(result.stderr.split()))
        self.assertNotIn("Traceback", result.stderr)


class Draw(unittest.TestCase):
    def test_a_seed_draws_the_same_everywhere(self) -> None:
        few = draw(7, 4, 16, 16384, 8, MOST)
        self.assertEqual(few, SEVEN)
        self.assertEqual(draw(7, 200, 16, 16384, 8, MOST)[:4], few)
        self.assertNotEqual(draw(8, 4, 16, 16384, 8, MOST), few)

    def test_problems_keep_the_limits_and_differ(self) -> None:
        for low, high, multiple in ((16, 16384, 8), (1, 300, 1), (100, 1000, 48)):
            problems = draw(1, 300, low, high, multiple, MOST)
            self.assertEqual(len({*problems}), 300)
            for problem in problems:
                m, n, k = numbers = [*map(int, problem.split("x"))]
                self.assertTrue(all(low <= x <= high and x % multiple == 0 for x in numbers), problem)
                self.assertLessEqual(2 * m * n * k, MOST)
                self.assertLessEqual(random_shapes.memory(m, n, k), random_shapes.MOST_BYTES)

    def test_numbers_are_log_uniform(self) -> None:
        drawn = [int(x) for p in draw(3, 3000, 1, 4095, 1, math.inf) for x in p.split("x")]
        for power in range(12):  # 1; 2, 3; 4 to 7; …
            share = sum(2**power <= x < 2 ** (power + 1) for x in drawn) / len(drawn)
            self.assertAlmostEqual(share, 1 / 12, delta=0.015)

    def test_what_cannot_be_drawn(self) -> None:
        with self.assertRaisesRegex(LadderError, "no multiple of 8 from 17 to 23"):
            draw(1, 1, 17, 23, 8, MOST)
        with self.assertRaisesRegex(LadderError, "only 8 are different"):
            draw(1, 9, 8, 16, 8, MOST)
        with self.assertRaisesRegex(LadderError, "at most 400 GFLOP"):
            draw(1, 1, 8192, 16384, 8, MOST)


class Table(Case):
    def test_the_ratio_is_to_the_better_library(self) -> None:
        lines = group("16x32x64", 10, 8, 5) + group("64x32x16", 10, 20, 40) + group("8x8x8", 10, 10, 10.02)
        shapes = random_shapes.ladders(random_shapes.read([self.write(lines)]))[0].shapes
        self.assertEqual([round(s.ratio, 6) for s in shapes], [0.5, 2, 1])
        self.assertEqual([s.vendor.short_name for s in shapes], ["v00b", "v00", "v00"])
        self.assertEqual([s.row.is_level for s in shapes], [False, False, True])

    def test_level_is_within_the_interval(self) -> None:
        def levels(**more: Any) -> list[bool]:
            lines = group("16x32x64", 10, 10.1, 11, **more) + group("64x32x16", 10, 11, 10.1, **more)
            return [
                s.row.is_level for s in random_shapes.ladders(random_shapes.read([self.write(lines)]))[0].shapes
            ]

        self.assertEqual(levels(), [False, False])
        self.assertEqual(levels(resolution_pct=1.1), [False, False])
        self.assertEqual(levels(vs_library_low=1.0, vs_library_high=1.04), [True, True])
        self.assertEqual(levels(vs_library_low="", vs_library_high=""), [False, False])
        self.assertEqual(levels(resolution_pct="", vs_library_low="", vs_library_high=""), [False, False])

    def test_older_files_compare_with_the_better_library_too(self) -> None:
        """Their ratios are to cuBLAS, 2 and 0.8; cuBLASLt makes the first 0.5."""
        older = []
        for one in group("16x32x64", 10, 20, 5) + group("64x32x16", 10, 8, 9):
            cublas = 20 if one["problem"] == "16x32x64" else 8
            ratio = cublas / one["time_us"]
            new = {name for name in one if "library" in name}
            older.append({name: value for name, value in one.items() if name not in new} | {
                "baseline": "v00_cublas", "vs_baseline": ratio, "vs_baseline_low": ratio - 0.01,
                "vs_baseline_high": ratio + 0.01,
            })  # fmt: skip
        shapes = random_shapes.ladders(random_shapes.read([self.write(older)]))[0].shapes
        self.assertEqual([s.vendor.kernel for s in shapes], ["v00b_cublaslt", "v00_cublas"])
        self.assertEqual([round(s.ratio, 6) for s in shapes], [0.5, 0.8])

    def test_by_operation_and_seed(self) -> None:
        one = group("16x16x16", 10, 5, 5) + group("32x16x16", 10, 20, 20) + group("8x8x8", 10, 9, 9, "tn")
        two = group("64x16x16", 10, 8.5, 8.4, seed=8)
        text = self.table(one, two)
        self.assertIn("| gemm_tensor nt bf16 v20 | 7 | 2 | 1.000 | 50 % | 50 % | 50 % | 0.50 | 0 |", text)
        self.assertIn("| gemm_tensor nt bf16 v20 | 8 | 1 | 0.840 | 0.0 % | 0.0 % | 100 % | 0.84 | 0 |", text)
        self.assertIn("| gemm_tensor nt bf16 v20 | all | 3 | 0.944 | 33 % | 33 % | 67 % | 0.50 | 0 |", text)
        self.assertNotIn("tn bf16 v20 | all", text)
        self.assertIn("- gemm_tensor nt bf16 v20, below 0.9: 2 of 3: 16x16x16 (0.50), 64x16x16 (0.84)", text)
        self.assertIn("- gemm_tensor tn bf16 v20, below 0.9: 0 of 1\n", text)
        self.assertIn("below 0.8: 1 of 3: 16x16x16 (0.50)", self.table(one, two, bar=0.8))
        self.assertIn("| gemm_tensor nt bf16 v20 | 16x16x16 | 0.50 | 10.0 µs | 5.00 µs | v00 | 384 |", text)

    def test_short_ones_are_in_no_mean(self) -> None:
        one = group("16x16x16", 10, 5, 5, short="yes") + group("32x16x16", 10, 20, 20, short="no")
        text = self.table(one + group("8x8x8", 10, 9, 9, "tn", short="yes"))
        self.assertIn("| gemm_tensor nt bf16 v20 | 7 | 2 | 2.000 | 100 % | 100 % | 100 % | 2.00 | 0 | 1 |", text)
        self.assertIn("| gemm_tensor tn bf16 v20 | 7 | 1 | | | | | | | 1 |", text)
        self.assertIn("below 0.9: 1 of 2: 16x16x16 (0.50, short)", text)
        self.assertIn("| 16x16x16 | 0.50 (short) |", text)

    def test_ten_worst_in_order(self) -> None:
        lines = [one for i in range(1, 15) for one in group(f"{8 * i}x8x8", 10, 10 - i / 2, 1e3)]
        table = self.table(lines).partition("worst:")[2].partition("\n- ")[0]
        named = [row.split(" | ")[1] for row in table.splitlines() if "x8x8" in row]
        self.assertEqual(named, [f"{8 * i}x8x8" for i in range(14, 4, -1)])

    def test_one_measurement_in_two_files_counts_once(self) -> None:
        once = group("16x16x16", 10, 5, 5)
        self.assertIn("| 7 | 1 | 0.800 |", self.table(once, group("16x16x16", 10, 8, 8)))

    def test_problems_without_a_time_are_named(self) -> None:
        lines = group("16x16x16", 10, 5, 5) + unsupported("8x24x8") + unsupported("8x16x8")
        text = self.table(lines)
        self.assertIn("- gemm_tensor nt bf16 v20: 2 unsupported (rows too short): 8x16x8, 8x24x8", text)
        self.assertIn("| 7 | 1 | 0.500 |", text)

    def test_a_library_that_is_wrong_makes_no_ratio(self) -> None:
        wrong = group("8x16x8", 10, 1, 20)
        wrong[0] |= {"verdict": "incorrect", "reason": "3 of 64 wrong", "time_us": "", "time_us_median": ""}
        wrong[2] |= {"library": "v00b_cublaslt", "vs_library": 2.0}
        text = self.table(group("16x16x16", 10, 5, 5) + wrong)
        self.assertIn("| 7 | 1 | 0.500 |", text)
        self.assertIn("- gemm_tensor nt bf16 v00: 1 incorrect (3 of 64 wrong): 8x16x8", text)

    def test_refusals(self) -> None:
        here = self.write(group("16x16x16", 10, 5, 5))
        there = self.write(group("16x16x16", 10, 5, 5, device="Other GPU"), "other.csv")
        self.refuses("different GPUs, Some GPU and Other GPU", "table", here, there)
        host = self.write(group("8x8x8", 1, 1, 1, vs_library="", time_us="", time_us_median=""), "host.csv")
        self.refuses("measured on a GPU, by ./bench --backend=cuda", "table", host)
        self.refuses("none.csv cannot be read", "table", self.folder / "none.csv")
        self.refuses("2x is not a ratio", "table", here, "--bar=2x")
        self.refuses("must end in .svg or .png", "plot", here, "--out=plot.pdf")
        result = self.run_script("table", here)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Seen(Case):
    """What a fit had seen is no sample of shapes that nobody tuned."""

    TUNED = "1024x1024x1024"  # in gemm_tensor's list

    def test_they_are_kept_apart(self) -> None:
        text = self.table(group("16x16x16", 10, 9, 9) + group(self.TUNED, 10, 5, 5),
                          group("32x16x16", 10, 9, 9, seed=8))  # fmt: skip
        self.assertIn("| gemm_tensor nt bf16 v20 | 7 | 1 | 0.900 |", text)
        self.assertIn("| gemm_tensor nt bf16 v20 | 7, seen by a fit | 1 | 0.500 |", text)
        self.assertIn("| gemm_tensor nt bf16 v20 | all | 2 | 0.900 |", text)
        self.assertIn("below 0.9: 0 of 2\n", text)
        self.assertEqual(text.count(self.TUNED), 0)
        self.refuses("A fit has seen all of these shapes", "plot", self.write(group(self.TUNED, 10, 5, 5)),
                     "--out=x.svg")  # fmt: skip
        self.assertNotIn("worst", self.table(group(self.TUNED, 10, 5, 5)))

    def test_from_when_on(self) -> None:
        slow = "1360x280x1296"  # of 2026-11-27c-autotune-gemm_tensor.csv
        self.assertFalse(had_seen("gemm_tensor", slow, "2026-11-27T06:39:24Z"))
        self.assertTrue(had_seen("gemm_tensor", slow, "2026-11-28T00:29:08Z"))
        self.assertFalse(had_seen("gemm", slow, "2026-11-28T00:29:08Z"))
        self.assertFalse(had_seen("gemm_tensor", "16x16x16", "2099-01-01T00:00:00Z"))

    def test_who_measures_hears_of_them(self) -> None:
        result = self.run_script("measure", "--family=gemm", "--seed=1", "--low=1024", "--high=1024",
                                 "--count=1", f"--build={self.folder}")  # fmt: skip
        self.assertIn("There is no bench in", result.stderr)
        bench = self.folder / "bench"
        bench.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        bench.chmod(0o755)
        result = self.run_script("measure", "--family=gemm", "--seed=1", "--low=1024", "--high=1024",
                                 "--count=1", f"--build={self.folder}")  # fmt: skip
        self.assertIn("Of these a fit has seen 1024x1024x1024: they are kept apart.", result.stdout)

    def test_published_ones_are_named(self) -> None:
        """In results/README.md, each file with how many of its shapes a fit had seen."""
        published = []
        for path in sorted((ROOT / "results").glob("*/*-gemm*-shapes.csv")):
            rows = [r for r in random_shapes.read([path]) if re.match("v(20|28)_", r.kernel)]
            seen = {row.problem for row in rows if row.is_seen}
            if seen:
                of = len({row.problem for row in rows})
                published.append(f"{len(seen)} of {of} in {path.relative_to(ROOT / 'results')}")
        text = " ".join((ROOT / "results/README.md").read_text(encoding="utf-8").split())
        paragraph = re.search(r"Shapes that a fit [^(]*\([^)]*\) .*?\.(?= [A-Z])", text)
        named = re.findall(r"\d+ of \d+ in [^\s,]+\.csv", paragraph[0] if paragraph else "")
        self.assertEqual(sorted(named), sorted(published))


@unittest.skipUnless(CAN_DRAW, "needs matplotlib: scripts/setup")
class Plot(Case):
    def draw(self, *lines: list[Line], name: str = "plot.svg") -> Path:
        paths = [self.write(of, f"{i}.csv") for i, of in enumerate(lines)]
        out = self.folder / name
        result = self.run_script("plot", *paths, f"--out={out}")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return out

    def test_texts_marks_and_size(self) -> None:
        import palette_test  # what holds for the pictures under results/

        svg = self.draw(many(1, count=200), many(2, count=200), many(3, count=200))
        self.assertLess(svg.stat().st_size, 60_000)
        written = palette_test.texts(svg)
        for (one, box), (other, its) in combinations(written, 2):
            self.assertFalse(box.overlaps(its), f"{one.text!r} is on {other.text!r}")
        width = float(xml.etree.ElementTree.parse(svg).getroot().attrib["width"])
        for one, box in written:
            self.assertTrue(box.x >= 0 and box.x + box.width <= width, one.text)
        all_texts = [one.text for one, _ in written]
        for text in (
            "nn bf16 v20 autotuned",
            "384 threads, persistent",
            "useful work, GFLOP",
            "as fast",
            "0.9",
        ):
            self.assertIn(text, all_texts)
        text = svg.read_text(encoding="utf-8")
        self.assertIn("gemm_tensor nt bf16 v20: 600 shapes, ", text)
        self.assertEqual(text.count("prefers-color-scheme:dark"), 1)

    def test_every_shape_has_a_mark(self) -> None:
        text = self.draw(many(1, ("nt",), 50)).read_text(encoding="utf-8")
        paths = [d for d in text.split('d="')[1:] if d.startswith("M") and d.partition('"')[0].count("M") > 1]
        self.assertEqual(sum(d.partition('"')[0].count("M") for d in paths), 50)

    def test_every_shape_has_a_dot_in_a_png(self) -> None:
        from matplotlib.colors import to_rgb
        from matplotlib.image import imread

        dot = to_rgb(COLOURS[random_shapes.MARKS[0][0]][0])

        def pixels(ratios: tuple[float, ...]) -> int:
            shapes = [group(f"{8 << i}x64x64", 10, 10 * ratio, 20) for i, ratio in enumerate(ratios)]
            picture = imread(self.draw(*shapes, name="plot.png"))[..., :3]
            return int((abs(picture - dot).max(axis=2) < 0.01).sum())

        ratios = (0.5, 0.6, 0.7, 1.3, 1.4, 1.5)
        in_legend_and_one = pixels(ratios[:1])
        self.assertGreater(pixels(ratios) - in_legend_and_one, 5 * 0.5 * in_legend_and_one / 2)

    def test_twice_is_the_same(self) -> None:
        first = self.draw(many(1, ("nt",))).read_bytes()
        self.assertEqual(first, self.draw(many(1, ("nt",))).read_bytes())

    def test_extremes(self) -> None:
        self.draw(group("8x8x8", 10, 10, 10))
        self.draw(group("8x8x8", 1000, 1, 1) + group("16384x4096x1024", 1, 30, 30, block=""))


class Measure(Case):
    def test_refusals(self) -> None:
        for sentence, *options in (
            ("for softmax there is ./bench --softmax=random:200", "--family=softmax"),
            ("gemm has one operation: leave --ops out", "--family=gemm", "--ops=nn"),
            ("--ops is 'nn)', not what ./bench --list shows", "--family=gemm_tensor", "--ops=nn)"),
            ("no multiple of 8 from 30 to 20", "--family=gemm", "--low=30", "--high=20"),
            ("at most 140 GFLOP", "--family=gemm", "--low=8192"),
            ("There is no bench in", "--family=gemm", f"--build={self.folder}"),
            ("0 is not a whole number from 1 to 5000", "--family=gemm", "--count=0"),
            ("ten is not a whole number", "--family=gemm", "--seed=ten"),
        ):
            with self.subTest(options=options):
                self.refuses(sentence, "measure", *options)

    def fake(self, script: str) -> None:
        path = self.folder / "bench"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def test_what_bench_is_asked_for(self) -> None:
        measured = self.write(many(7), "measured.csv")
        self.fake(f'printf "%s\\n" "$@" >arguments; cp "{measured}" random-gemm_tensor-bf16-7-shapes.csv')
        result = self.run_script("measure", "--family=gemm_tensor", "--version=v20,v28", "--seed=7",
                                 f"--build={self.folder}")  # fmt: skip
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("| gemm_tensor tn bf16 v20 | 7 | 60 |", result.stdout)
        self.assertIn("180 groups in 0 s", result.stdout)
        asked = (self.folder / "arguments").read_text(encoding="utf-8").splitlines()
        problems = ",".join(draw(7, 200, 16, 16384, 8, MOST))
        for flag in ("--backend=cuda", "--seed=7", f"--gemm_tensor={problems}", "--processes=1", *random_shapes.SAMPLING,
                     "--benchmark_filter=^gemm_tensor/(nn|nt|tn)/bf16/(v20|v28)(_[a-z0-9_]+)?/"):  # fmt: skip
            self.assertIn(flag, asked)

    def test_an_operation_without_the_version_is_named(self) -> None:
        measured = self.write(many(7, ("nt",)), "measured.csv")
        self.fake(f'cp "{measured}" out.csv')
        self.refuses("v20 does not have nn, tn in bf16", "measure", "--family=gemm_tensor",
                     f"--build={self.folder}", "--out=out.csv")  # fmt: skip

    def test_a_refusal_of_bench_leaves_an_earlier_csv_alone(self) -> None:
        self.write(many(7, ("nt",)), "out.csv")
        self.fake("echo bench: no such flag >&2; exit 1")
        result = self.run_script("measure", "--family=gemm_tensor", f"--build={self.folder}", "--out=out.csv")
        self.assertEqual((result.returncode, result.stderr), (1, "bench: no such flag\n"))
        self.assertNotIn("|", result.stdout)

    @unittest.skipUnless(BENCH, "needs the path of ./bench")
    def test_on_the_host_executor(self) -> None:
        result = self.run_script("measure", "--family=gemm_tensor", "--ops=nn,nt", "--version=v13",
                                 "--count=3", "--seed=7", "--low=8", "--high=64", "--multiple=4",
                                 "--backend=host", "--out=out.csv",
                                 f"--build={Path(BENCH).parent}")  # fmt: skip
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = random_shapes.read([self.folder / "out.csv"])
        self.assertEqual({r.seed for r in rows}, {"7"})
        problems = draw(7, 3, 8, 64, 4, MOST)
        self.assertEqual(
            [(r.op, r.problem) for r in rows], [(op, p) for op in ("nn", "nt") for p in problems]
        )
        for verdict, said in (("passed", "passed the checks"), ("unsupported", "unsupported (rows of C")):
            count = sum(r.op == "nt" and r.verdict == verdict for r in rows)
            self.assertGreater(count, 0)
            self.assertIn(f"- gemm_tensor nt bf16 v13: {count} {said}", result.stdout)


if __name__ == "__main__":
    skips.main()
