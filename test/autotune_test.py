#!/usr/bin/env python3
"""Tests of scripts/autotune.py with a ./bench that replays a CSV."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "autotune.py"
sys.dont_write_bytecode = True  # none beside the script
sys.path.insert(0, str(ROOT / "scripts"))

from tuning import bench, gemm, gemm_tensor  # noqa: E402

BIG = gemm.Shape(128, 256, 8, 64, 64, 4, 1, 0)
MIDDLE = gemm.Shape(128, 128, 16, 64, 64, 3, 2, 0)
SMALL = gemm.Shape(64, 128, 16, 32, 64, 3, 3, 0)
RUNS = gemm.Shape(64, 64, 16, 32, 32, 4, 3, 24)
SOURCE = """above
// autotune:begin
using Tiles = Shapes<
    Shape<128, 256, 8, 64, 64, 4, 1, 0>,
    Shape<64, 128, 16, 32, 64, 3, 3, 0>>;
constexpr Gpu<2> kGpus[] = {
    {"GPU A", {{0.800, 0.800, 0.800}, {0.560, 0.740, 0.795}}},
    {"GPU B", {{0.000, 0.000, 0.000}, {0.500, 0.600, 0.700}}},
};
// autotune:end
below
"""

WIDE = gemm_tensor.Shape("v13", 128, 256, 1)
SHORT = gemm_tensor.Shape("v15", 16, 64, 2)
SQUARE = gemm_tensor.Shape("v24", 128, 128, 1)
SOURCE_TENSOR = """above
// autotune:begin
using Tiles = Shapes<
    Persistent<256>,
    SplitK<16, 64, 2>>;
constexpr Gpu<2> kGpus[] = {
    {"GPU A", {660, 130}, 2700, 60},
    {"GPU B", {0, 150}, 2000, 50},
};
// autotune:end
below
"""


class Winners(unittest.TestCase):
    def test_a_shape_that_is_best_nowhere_is_left_out(self) -> None:
        measured = {
            BIG: {"large": 100.0, "small": 20.0},
            MIDDLE: {"large": 110.0, "small": 12.0},
            SMALL: {"large": 120.0, "small": 10.0},
        }
        self.assertEqual(set(bench.winners(measured)), {BIG, SMALL})

    def test_a_shape_that_hardly_helps_is_left_out(self) -> None:
        measured = {BIG: {"large": 100.0, "small": 10.01}, SMALL: {"large": 120.0, "small": 10.0}}
        self.assertEqual(bench.winners(measured), [BIG])

    def test_a_shape_that_can_not_do_all_problems_is_not_enough(self) -> None:
        measured = {BIG: {"large": 100.0, "small": 10.01}, SMALL: {"small": 10.0}}
        self.assertEqual(bench.winners(measured), [BIG])


class Tables(unittest.TestCase):
    def test_the_tables_in_the_sources_are_read_and_written_alike(self) -> None:
        for module in (gemm, gemm_tensor):
            _, text, _ = bench.split((ROOT / module.SOURCE).read_text(encoding="utf-8"))
            table = module.parse(text)
            first = next(iter(table.values()))
            shapes = first if module is gemm else first.ns_of_k_tile
            self.assertEqual(module.render(table, list(shapes)), text)

    def test_other_gpus_keep_their_shapes_and_numbers(self) -> None:
        measured = {BIG: (0.9, 0.9, 0.9), MIDDLE: (0.6, 0.81, 0.81), SMALL: (0.5, 0.7, 0.75)}
        text = gemm.rewrite(SOURCE, "GPU A", measured, [BIG, MIDDLE])
        self.assertTrue(text.startswith("above\n// autotune:begin\nusing Tiles"), text)
        self.assertTrue(text.endswith("};\n// autotune:end\nbelow\n"), text)
        table = gemm.parse(text)
        self.assertEqual(list(table), ["GPU A", "GPU B"])
        self.assertEqual(table["GPU A"], measured)  # SMALL too, because GPU B has it
        self.assertEqual(table["GPU B"], {SMALL: (0.5, 0.6, 0.7)})

    def test_so_they_do_on_tensor_cores(self) -> None:
        measured = gemm_tensor.Numbers({WIDE: 600.0, SQUARE: 480.0, SHORT: 120.0}, 2800, 70)
        text = gemm_tensor.rewrite(SOURCE_TENSOR, "GPU A", measured, [WIDE, SQUARE])
        self.assertTrue(text.startswith("above\n// autotune:begin\nusing Tiles"), text)
        self.assertTrue(text.endswith("};\n// autotune:end\nbelow\n"), text)
        self.assertIn('{"GPU B", {0, 0, 150}, 2000, 50},', text)
        table = gemm_tensor.parse(text)
        self.assertEqual(list(table), ["GPU A", "GPU B"])
        self.assertEqual(table["GPU A"], measured)
        self.assertEqual(table["GPU B"].ns_of_k_tile, {SHORT: 150.0})

    def test_a_new_gpu_comes_last(self) -> None:
        text = gemm.rewrite(SOURCE, "GPU C", {MIDDLE: (0.6, 0.8, 0.8)}, [MIDDLE])
        table = gemm.parse(text)
        self.assertEqual(list(table), ["GPU A", "GPU B", "GPU C"])
        self.assertEqual(table["GPU C"], {MIDDLE: (0.6, 0.8, 0.8)})

    def test_a_shape_that_no_gpu_uses_goes(self) -> None:
        of_b = '    {"GPU B", {{0.000, 0.000, 0.000}, {0.500, 0.600, 0.700}}},\n'
        source = SOURCE.replace(of_b, "")
        text = gemm.rewrite(source, "GPU A", {BIG: (0.9, 0.9, 0.9)}, [BIG])
        self.assertNotIn("Shape<64,", text)
        self.assertIn("constexpr Gpu<1> kGpus[] = {", text)


class Fit(unittest.TestCase):
    TRUE = gemm_tensor.Numbers({WIDE: 650.0, SQUARE: 450.0, SHORT: 140.0}, 2500.0, 50.0)
    LAUNCH = 5000.0

    def times(self) -> bench.Times[gemm_tensor.Kernel]:
        """What kernels would take if the estimate were right."""
        kernels = [
            gemm_tensor.Kernel(shape, splits)
            for shape in self.TRUE.ns_of_k_tile
            for splits in ((1,) if shape.rung == "v13" else (1, 2, 4, 8))
        ]
        found: bench.Times[gemm_tensor.Kernel] = {}
        for kernel in kernels:
            for problem in gemm_tensor.PROBLEMS:
                m, n, k = map(int, problem.split("x"))
                count = gemm_tensor.tiles(kernel, problem, 132)
                if count is None:
                    continue
                deep = -(-k // (64 * kernel.splits))
                traffic = 2.0 * (m * k + k * n + m * n)
                point = gemm_tensor.Point(kernel.shape, count, deep, traffic, 0)
                of_k_tile, *constants = self.TRUE
                ns = gemm_tensor.estimate(point, of_k_tile[kernel.shape], *constants)
                found.setdefault(kernel, {})[problem] = (ns + self.LAUNCH) / 1000
        return found

    def test_numbers_that_made_the_times_are_found(self) -> None:
        numbers, left = gemm_tensor.fit(gemm_tensor.points(self.times(), 132))
        self.assertLess(left, 0.01)
        for shape, ns in self.TRUE.ns_of_k_tile.items():
            self.assertAlmostEqual(numbers.ns_of_k_tile[shape] / ns, 1, delta=0.03)
        for found, true in zip(numbers[1:], self.TRUE[1:]):
            self.assertAlmostEqual(found / true, 1, delta=0.1)

    def test_times_that_no_choice_depends_on_do_not_count(self) -> None:
        times = self.times()
        before = len(gemm_tensor.points(times, 132))
        times[gemm_tensor.Kernel(SQUARE, 2)]["512x4096x4096"] *= gemm_tensor.NEAR
        self.assertEqual(len(gemm_tensor.points(times, 132)), before - 1)

    def test_turns_that_depend_on_how_many_clusters_fit_do_not_count(self) -> None:
        cases = ((4, 16, 1), (4, 32, None), (4, 40, 2), (2, 64, 1), (1, 132, 1))
        for splits, tiles, turns in cases:
            kernel = gemm_tensor.Kernel(SQUARE, splits)
            found = gemm_tensor.tiles(kernel, f"128x{128 * tiles}x4096", 132)
            self.assertEqual(found, turns, (splits, tiles))


class Script(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.sources = {}
        for module, text in ((gemm, SOURCE), (gemm_tensor, SOURCE_TENSOR)):
            source = self.folder / module.SOURCE
            source.parent.mkdir(parents=True)
            source.write_text(text)
            self.sources[module.FAMILY] = source

    def script(self, program: str, *families: str) -> subprocess.CompletedProcess[str]:
        path = self.folder / "bench"
        path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(program))
        path.chmod(0o755)
        return self.run_script(*families)

    def run_script(self, *families: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-B", SCRIPT, *families]
        command += [f"--build={self.folder}", f"--root={self.folder}"]
        return subprocess.run(command, capture_output=True, text=True)

    # A GPU of 6 multiprocessors at 1 GHz on which three shapes of gemm reach 75, 50 and 40 % of the
    # FMA rate, and two of gemm_tensor take 600 and 500 ns for a K-tile.
    BENCH = """
        import math, re, sys
        flags = dict(argument.split("=", 1) for argument in sys.argv[1:])
        print("GTX 1234, sm_90, 6 SMs · CUDA 13.0, driver 580 · seed 1")
        def fma(share):
            return lambda m, n, k: m * n * k / (6 * 128 * share * 1000)
        def k_tiles(rows, columns, ns):
            def us(m, n, k):
                tiles = math.ceil(math.ceil(m / rows) * math.ceil(n / columns) / 6)
                return tiles * math.ceil(k / 64) * ns / 1000
            return us
        kernels = {
            "gemm/f32/v00_cublas": fma(0.8), "gemm/f32/v20a_128x256x8_64x64_4_1_0": fma(0.75),
            "gemm/f32/v20b_64x128x16_32x64_3_3_0": fma(0.5),
            "gemm/f32/v20c_64x64x16_32x32_4_3_24": fma(0.4),
            "gemm_tensor/nt/bf16/v00_cublas": k_tiles(128, 256, 600),
            "gemm_tensor/nt/bf16/v20a_v13_128x256_1_1": k_tiles(128, 256, 600),
            "gemm_tensor/nt/bf16/v20a_v24_128x128_1_1": k_tiles(128, 128, 500),
        }
        (family,) = {"--gemm", "--gemm_tensor"} & flags.keys()
        with open(flags["--csv"], "w") as file:
            print("family,kernel,problem,verdict,time_us,sm_mhz", file=file)
            for name, us in kernels.items():
                of, *_, kernel = name.split("/")
                if of != family[2:]:
                    continue
                if "v00" not in name and not re.search(flags["--benchmark_filter"], name):
                    continue
                for problem in flags[family].split(","):
                    time = us(*map(int, problem.split("x")))
                    print(of, kernel, problem, "passed", time, 1000, sep=",", file=file)
    """

    def test_the_speeds_are_those_of_the_estimate(self) -> None:
        result = self.script(self.BENCH, "gemm")
        self.assertEqual(result.returncode, 0, result)
        table = gemm.parse(self.sources["gemm"].read_text())
        self.assertEqual(list(table), ["GPU A", "GPU B", "GTX 1234"])
        for shape, share in ((BIG, 0.75), (SMALL, 0.5), (RUNS, 0.4)):
            k_tiles = gemm.DEPTH / shape.bk
            expected = round(share * (k_tiles + gemm.K_TILE_OVERHEAD) / k_tiles, 3)
            self.assertEqual(table["GTX 1234"][shape], (expected,) * 3)
        self.assertIn("GTX 1234: 2 of 3 shapes", result.stdout)
        self.assertEqual(self.sources["gemm_tensor"].read_text(), SOURCE_TENSOR)

    def test_both_ladders_leave_their_measurements(self) -> None:
        result = self.script(self.BENCH)
        self.assertEqual(result.returncode, 0, result)
        table = gemm_tensor.parse(self.sources["gemm_tensor"].read_text())
        self.assertEqual(list(table), ["GPU A", "GPU B", "GTX 1234"])
        self.assertIn(WIDE, table["GTX 1234"].ns_of_k_tile)
        for family, rows in (("gemm", 4 * len(gemm.PROBLEMS)), ("gemm_tensor", 3 * 21)):
            (path,) = (self.folder / "results/gtx1234").glob(f"20??-??-??-autotune-{family}.csv")
            header, *lines = path.read_text().splitlines()
            self.assertTrue(header.startswith("family,kernel,"), header)
            self.assertGreaterEqual(len(lines), rows)
            self.assertEqual({line.split(",")[0] for line in lines}, {family})

    def refused(self, program: str, sentence: str, *families: str) -> None:
        result = self.script(program, *families)
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(result.stderr, rf"^autotune: .*{sentence}.*\n$")
        self.assertEqual(self.sources["gemm"].read_text(), SOURCE)
        self.assertEqual(self.sources["gemm_tensor"].read_text(), SOURCE_TENSOR)
        self.assertFalse((self.folder / "results").exists())

    def test_no_gpu_is_one_sentence(self) -> None:
        self.refused('import sys; sys.exit("--backend=cuda: no NVIDIA driver is installed")',
                     "no NVIDIA driver is installed")  # fmt: skip

    def test_an_unknown_gpu_is_one_sentence(self) -> None:
        self.refused("", "does not tell which GPU")

    def test_a_build_without_the_shapes_is_one_sentence(self) -> None:
        self.refused('import sys; sys.exit("bench: No benchmark matches --benchmark_filter=… .")',
                     "LADDER_ALL_TILES=ON")  # fmt: skip

    def test_a_gpu_that_runs_no_shape_is_one_sentence(self) -> None:
        unsupported = self.BENCH.replace('"passed"', '"unsupported"')
        for family in self.sources:
            self.refused(unsupported, "GTX 1234 can run none", family)

    def test_a_gpu_that_slows_down_is_one_sentence(self) -> None:
        slowed = self.BENCH.replace('"passed", time, 1000', '"passed", time, 900 + len(problem) % 2 * 900')
        for family in self.sources:
            self.refused(slowed, r"the GPU ran at \d+ MHz, before at \d+", family)

    def test_an_estimate_that_misses_is_one_sentence(self) -> None:
        erratic = self.BENCH.replace("* ns / 1000", "* ns / 1000 * (1 + (n // 64 + m) % 3)")
        self.refused(erratic, "the estimate misses the times by", "gemm_tensor")

    def test_an_unknown_family_is_one_sentence(self) -> None:
        self.refused(self.BENCH, "softmax has no table; gemm and gemm_tensor have one", "softmax")

    def test_no_bench_is_one_sentence(self) -> None:
        result = self.run_script()
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^autotune: .*/bench is not there")


if __name__ == "__main__":
    unittest.main()
