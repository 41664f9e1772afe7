#!/usr/bin/env python3
"""Tests of scripts/autotune with a ./bench that replays a CSV."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import textwrap
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "autotune"
sys.dont_write_bytecode = True  # none beside the script
loader = SourceFileLoader("autotune", str(SCRIPT))
spec = importlib.util.spec_from_loader("autotune", loader)
assert spec
at = importlib.util.module_from_spec(spec)
sys.modules["autotune"] = at
loader.exec_module(at)

BIG = at.Shape(128, 256, 8, 64, 64, 4, 1, 0)
MIDDLE = at.Shape(128, 128, 16, 64, 64, 3, 2, 0)
SMALL = at.Shape(64, 128, 16, 32, 64, 3, 3, 0)
RUNS = at.Shape(64, 64, 16, 32, 32, 4, 3, 24)
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


class Winners(unittest.TestCase):
    def test_a_shape_that_is_best_nowhere_is_left_out(self) -> None:
        measured = {
            BIG: {"large": 100.0, "small": 20.0},
            MIDDLE: {"large": 110.0, "small": 12.0},
            SMALL: {"large": 120.0, "small": 10.0},
        }
        self.assertEqual(set(at.winners(measured)), {BIG, SMALL})

    def test_a_shape_that_hardly_helps_is_left_out(self) -> None:
        measured = {BIG: {"large": 100.0, "small": 10.1}, SMALL: {"large": 120.0, "small": 10.0}}
        self.assertEqual(at.winners(measured), [BIG])


class Table(unittest.TestCase):
    def test_the_table_in_the_source_is_read_and_written_alike(self) -> None:
        source = at.SOURCE.read_text(encoding="utf-8")
        text = source.partition(at.BEGIN)[2].partition(at.END)[0]
        table = at.parse(text)
        self.assertEqual(at.render(table, list(next(iter(table.values())))), text)

    def test_other_gpus_keep_their_shapes_and_speeds(self) -> None:
        measured = {BIG: (0.9, 0.9, 0.9), MIDDLE: (0.6, 0.81, 0.81), SMALL: (0.5, 0.7, 0.75)}
        text = at.rewrite(SOURCE, "GPU A", measured, [BIG, MIDDLE])
        self.assertTrue(text.startswith("above\n// autotune:begin\nusing Tiles"), text)
        self.assertTrue(text.endswith("};\n// autotune:end\nbelow\n"), text)
        table = at.parse(text)
        self.assertEqual(list(table), ["GPU A", "GPU B"])
        self.assertEqual(table["GPU A"], measured)  # SMALL too, because GPU B has it
        self.assertEqual(table["GPU B"], {SMALL: (0.5, 0.6, 0.7)})

    def test_a_new_gpu_comes_last(self) -> None:
        text = at.rewrite(SOURCE, "GPU C", {MIDDLE: (0.6, 0.8, 0.8)}, [MIDDLE])
        table = at.parse(text)
        self.assertEqual(list(table), ["GPU A", "GPU B", "GPU C"])
        self.assertEqual(table["GPU C"], {MIDDLE: (0.6, 0.8, 0.8)})

    def test_a_shape_that_no_gpu_uses_goes(self) -> None:
        source = SOURCE.replace('    {"GPU B", {{0.000, 0.000, 0.000}, {0.500, 0.600, 0.700}}},\n', "")
        text = at.rewrite(source, "GPU A", {BIG: (0.9, 0.9, 0.9)}, [BIG])
        self.assertNotIn("Shape<64,", text)
        self.assertIn("constexpr Gpu<1> kGpus[] = {", text)


class Script(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.source = self.folder / "v20.cu"
        self.source.write_text(SOURCE)

    def script(self, bench: str) -> subprocess.CompletedProcess[str]:
        program = self.folder / "bench"
        program.write_text(f"#!{sys.executable}\n" + textwrap.dedent(bench))
        program.chmod(0o755)
        command = [sys.executable, SCRIPT, f"--build={self.folder}", f"--source={self.source}"]
        return subprocess.run(command, capture_output=True, text=True)

    # A GPU of 6 multiprocessors at 1 GHz on which three shapes reach 75, 50 and 40 % of the FMA rate.
    BENCH = """
        import re, sys
        flags = dict(argument.split("=", 1) for argument in sys.argv[1:])
        print("GPU C, sm_90, 6 SMs · CUDA 13.0, driver 580 · seed 1")
        kernels = {"v00_cublas": 0.8, "v20a_128x256x8_64x64_4_1_0": 0.75,
                   "v20b_64x128x16_32x64_3_3_0": 0.5, "v20c_64x64x16_32x32_4_3_24": 0.4}
        with open(flags["--csv"], "w") as file:
            print("kernel,problem,verdict,time_us_median,sm_mhz", file=file)
            for kernel, share in kernels.items():
                if "v00" not in kernel and not re.search(flags["--benchmark_filter"], "gemm/f32/" + kernel):
                    continue
                for problem in flags["--gemm"].split(","):
                    m, n, k = map(int, problem.split("x"))
                    us = m * n * k / (6 * 128 * share * 1000)
                    print(kernel, problem, "passed", us, 1000, sep=",", file=file)
    """

    def test_the_speeds_are_those_of_the_estimate(self) -> None:
        result = self.script(self.BENCH)
        self.assertEqual(result.returncode, 0, result)
        table = at.parse(self.source.read_text())
        self.assertEqual(list(table), ["GPU A", "GPU B", "GPU C"])
        for shape, share in ((BIG, 0.75), (SMALL, 0.5), (RUNS, 0.4)):
            slices = at.DEPTH / shape.bk
            expected = round(share * (slices + at.SLICE_OVERHEAD) / slices, 3)
            self.assertEqual(table["GPU C"][shape], (expected,) * 3)
        self.assertIn("GPU C: 2 of 3 shapes", result.stdout)

    def refused(self, bench: str, sentence: str) -> None:
        result = self.script(bench)
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(result.stderr, rf"^autotune: .*{sentence}.*\n$")
        self.assertEqual(self.source.read_text(), SOURCE)

    def test_no_gpu_is_one_sentence(self) -> None:
        self.refused('import sys; sys.exit("--backend=cuda: no NVIDIA driver is installed")',
                     "no NVIDIA driver is installed")  # fmt: skip

    def test_an_unknown_gpu_is_one_sentence(self) -> None:
        self.refused("", "does not tell which GPU")

    def test_a_build_without_the_shapes_is_one_sentence(self) -> None:
        self.refused('import sys; sys.exit("bench: No benchmark matches --benchmark_filter=… here.")',
                     "LADDER_GEMM_ALL_TILES=ON")  # fmt: skip

    def test_a_gpu_that_runs_no_shape_is_one_sentence(self) -> None:
        self.refused(self.BENCH.replace('"passed"', '"unsupported"'), "GPU C can run none")

    def test_no_bench_is_one_sentence(self) -> None:
        (self.folder / "bench").unlink(missing_ok=True)
        command = [sys.executable, SCRIPT, f"--build={self.folder}"]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^autotune: .*/bench is not there")


if __name__ == "__main__":
    unittest.main()
