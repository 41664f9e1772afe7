#!/usr/bin/env python3
"""Tests of scripts/autotune.py with a ./bench that makes times up. Those that fit are skipped where
neither this Python nor build/venv has numpy."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import skips

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "autotune.py"
sys.dont_write_bytecode = True  # none beside the script
sys.path.insert(0, str(ROOT / "scripts"))

import ladder_csv  # noqa: E402
from tuning import bench, estimates, gemm, gemm_tensor  # noqa: E402

try:
    import numpy as np

    CAN_FIT = True
except ImportError:
    CAN_FIT = False
fits = unittest.skipUnless(CAN_FIT, "needs numpy: scripts/setup")

BIG = gemm.Shape(128, 256, 8, 64, 64, 4, 1, 0)
SMALL = gemm.Shape(64, 128, 16, 32, 64, 3, 3, 0)
RUNS = gemm.Shape(64, 128, 16, 32, 64, 3, 3, 24)
GEMM_PACES = {BIG: gemm.Pace(1250, 0, 4600), SMALL: gemm.Pace(650, 680, 1000)}
GEMM_RATES = gemm.Rates(2800, 128.3, 967, 108, 3050, 10000, 3570)
SOURCE = """above
// autotune:begin
using Tiles = Shapes<
    Shape<128, 256, 8, 64, 64, 4, 1, 0>,
    Shape<64, 128, 16, 32, 64, 3, 3, 0>>;
constexpr Gpu<2> kGpus[] = {
    {"GPU A", {1250, 650}, {0, 680}, {4600, 1000}, 2800, 128.3, 967, 108, 3050, 10000, 3570},
    {"GPU B", {0, 700}, {0, 720}, {0, 900}, 1800, 130, 900, 90, 3000, 9000, 3500},
};
// autotune:end
below
"""

WIDE = gemm_tensor.StreamK(128, 256, False)
TALL = gemm_tensor.StreamK(128, 208, True)
SHORT = gemm_tensor.PushedSums(32, 64, 1)
SQUARE = gemm_tensor.PushedSums(128, 128, 1)
PACES = {WIDE: gemm_tensor.Pace(520, 1900), SHORT: gemm_tensor.Pace(210, 120)}
RATES = gemm_tensor.Rates(2150, 1.88, 0.3, 0.2, 8.72, 2300, 804, 2000, 0.15, 0.1, 0.06, 0.4)
SOURCE_TENSOR = """above
// autotune:begin
using Tiles = Shapes<
    StreamK<128, 256, false>,
    PushedSums<32, 64, 1>>;
constexpr Gpu<2> kGpus[] = {
    {"GPU A", {520, 210}, {1900, 120}, 2150, 1.88, 0.3, 0.2, 8.72, 2300, 804, 2000, 0.15, 0.1, 0.06, 0.4},
    {"GPU B", {0, 150}, {0, 90}, 2000, 1.5, 0.25, 0.1, 8, 1900, 700, 1800, 0.1, 0.2, 0.05, 0.5},
};
// autotune:end
below
"""


class Tables(unittest.TestCase):
    def test_the_tables_in_the_sources_are_read_and_written_alike(self) -> None:
        for module in (gemm, gemm_tensor):
            _, text, _ = bench.split((ROOT / module.SOURCE).read_text(encoding="utf-8"))
            table = module.parse(text)
            first = next(iter(table.values()))
            self.assertEqual(module.render(table, list(first.paces)), text)

    def test_a_k_tile_of_no_nanoseconds_is_not_one_that_was_not_measured(self) -> None:
        numbers = gemm_tensor.Numbers({SHORT: gemm_tensor.Pace(0.2, 120)}, RATES)
        table = gemm_tensor.parse(gemm_tensor.render({"GPU A": numbers}, [WIDE, SHORT]))
        self.assertEqual(list(table["GPU A"].paces), [SHORT])

    def test_other_gpus_keep_their_shapes_and_numbers(self) -> None:
        paces = {RUNS: gemm.Pace(685, 683, 534), SMALL: gemm.Pace(652, 683, 1001)}
        measured = gemm.Numbers(paces, GEMM_RATES)
        text = gemm.rewrite(SOURCE, "GPU A", measured)
        self.assertTrue(text.startswith("above\n// autotune:begin\nusing Tiles"), text)
        self.assertTrue(text.endswith("};\n// autotune:end\nbelow\n"), text)
        self.assertIn(f"using Tiles = Shapes<\n    {SMALL},\n    {RUNS}>;", text)
        of_b = (
            '    {"GPU B",\n     {700, 0},\n     {720, 0},\n     {900, 0},\n'
            "     1800, 130, 900, 90, 3000, 9000, 3500},\n"
        )
        self.assertIn(of_b, text)
        table = gemm.parse(text)
        self.assertEqual(list(table), ["GPU A", "GPU B"])
        self.assertEqual(table["GPU A"], measured)
        self.assertEqual(table["GPU B"].paces, {SMALL: gemm.Pace(700, 720, 900)})

    def test_so_they_do_on_tensor_cores(self) -> None:
        paces = {TALL: gemm_tensor.Pace(480, 2400), SHORT: gemm_tensor.Pace(200, 100)}
        measured = gemm_tensor.Numbers(paces, RATES)
        text = gemm_tensor.rewrite(SOURCE_TENSOR, "GPU A", measured)
        self.assertTrue(text.startswith("above\n// autotune:begin\nusing Tiles"), text)
        self.assertTrue(text.endswith("};\n// autotune:end\nbelow\n"), text)
        self.assertIn("using Tiles = Shapes<\n    PushedSums<32, 64, 1>,\n    StreamK<128, 208, true>>;", text)
        of_b = (
            '    {"GPU B",\n     {150, 0},\n     {90, 0},\n'
            "     2000, 1.5, 0.25, 0.1, 8, 1900, 700, 1800, 0.1, 0.2, 0.05, 0.5},\n"
        )
        self.assertIn(of_b, text)
        table = gemm_tensor.parse(text)
        self.assertEqual(list(table), ["GPU A", "GPU B"])
        self.assertEqual(table["GPU A"], measured)
        self.assertEqual(table["GPU B"].paces, {SHORT: gemm_tensor.Pace(150, 90)})

    def test_a_new_gpu_comes_last(self) -> None:
        measured = gemm.Numbers({RUNS: gemm.Pace(685, 683, 534)}, GEMM_RATES)
        table = gemm.parse(gemm.rewrite(SOURCE, "GPU C", measured))
        self.assertEqual(list(table), ["GPU A", "GPU B", "GPU C"])
        self.assertEqual(table["GPU C"], measured)

    def test_a_shape_that_no_gpu_uses_goes(self) -> None:
        source = re.sub(r'    \{"GPU B".*\n', "", SOURCE)
        measured = gemm.Numbers({BIG: GEMM_PACES[BIG]}, GEMM_RATES)
        text = gemm.rewrite(source, "GPU A", measured)
        self.assertNotIn("Shape<64,", text)
        self.assertIn("constexpr Gpu<1> kGpus[] = {", text)


class EstimateOfGemm(unittest.TestCase):
    SMS = 132

    def test_names_of_kernels(self) -> None:
        found = gemm.Kernel.of("v20a_64x128x16_32x64_3_3_24_c8s2")
        self.assertEqual(found, (RUNS, "c8s2"))

    def work(self, shape: gemm.Shape, problem: str, way: str) -> gemm.Work:
        work = shape.work(problem, way, self.SMS)
        assert work is not None, (shape, problem, way)
        return work

    def test_work_of_whole_tiles(self) -> None:
        work = self.work(SMALL, "1024x8192x1000", "whole")  # 1024 tiles, 8 for the busiest SM
        self.assertEqual((work.full, work.most, work.steps), (2, 3, 63))
        self.assertEqual((work.rest, work.rest_steps), (2, 63))
        self.assertEqual(work[5:12], (0, 0, 0, 0, 0, 0, 0))
        self.assertEqual(work.bytes, 4 * (1024 * 1000 + 8192 * 1000 + 1024 * 8192))

    def test_work_of_cut_tiles(self) -> None:
        work = self.work(BIG, "4096x4096x4096", "cut")  # 3 waves, 116 tiles for whose ends are 16 SMs
        self.assertEqual((work.full, work.most, work.steps, work.rest), (3, 1, 512, 1))
        self.assertEqual(work.rest_steps, math.ceil(8 / 9 * (512 + 5000 / 2048)))
        for problem in ("16896x256x4096", "4096x4096x32"):  # full waves; K too short
            self.assertIsNone(BIG.work(problem, "cut", self.SMS))
        self.assertIsNone(SMALL.work("16384x16320x64", "cut", self.SMS))

    def test_work_of_clusters(self) -> None:
        work = self.work(SMALL, "64x1920x1024", "c8")  # 15 tiles; 120 SMs for clusters
        self.assertEqual((work.full, work.steps, work.rest), (0, 8, 1))
        self.assertEqual((work.cluster, work.pulled, work.split, work.sums), (1, 8, 0, 0))
        self.assertEqual(self.work(SMALL, "64x2048x1024", "c8").rest, 2)  # one too many
        self.assertEqual(self.work(SMALL, "64x8448x1024", "c2").rest, 1)  # pairs are on all SMs

    def test_work_of_splits(self) -> None:
        work = self.work(SMALL, "64x256x16384", "s16")
        self.assertEqual((work.steps, work.rest, work.cluster, work.split), (64, 1, 0, 1))
        self.assertEqual(work.sums, 4 * 64 * 256 * 33)
        both = self.work(SMALL, "64x256x16384", "c8s2")
        self.assertEqual((both.steps, both.cluster, both.split), (64, 1, 1))
        self.assertEqual(both.sums, 4 * 64 * 256 * 5)

    def test_work_of_rows_that_are_not_aligned(self) -> None:
        self.assertEqual(self.work(SMALL, "64x130x99", "whole").single, 2)
        self.assertEqual(self.work(SMALL, "64x132x99", "whole").single, 0)
        work = self.work(SMALL, "64x130x99", "packed")
        self.assertEqual((work.single, work.packs, work.packed), (0, 1, 8 * 130 * 99))

    def test_the_estimate_by_hand(self) -> None:
        work = gemm.Work(2, 3, 40, 1, 10, 2, 1, 8, 1, 5e6, 1, 4e6, 7e6)
        pace, rates = gemm.Pace(300, 500, 200), gemm.Rates(2000, 50, 900, 100, 3000, 1000, 2500)
        many, one = ((600**4 + (n * 400) ** 4) ** 0.25 for n in (3, 1))
        ns = 2 * (40 * many + 3 * 200) + 10 * one + 200 + 900 + 8 * 100 + 3000 + 5000
        self.assertAlmostEqual(gemm.estimate(work, pace, rates), math.hypot(ns, 3500) + 2500 + 2000)
        ns -= 10 * one + 200
        found = gemm.estimate(work._replace(rest=0), pace, rates)
        self.assertAlmostEqual(found, math.hypot(ns, 3500) + 2500 + 2000)

    def test_the_choice_is_the_least_estimate_of_shapes_with_numbers(self) -> None:
        numbers = gemm.Numbers(GEMM_PACES, GEMM_RATES)
        for problem, shape, way in (
            ("4096x4096x4096", BIG, "cut"),
            ("64x256x384", SMALL, "c8"),
            ("8192x127x8192", SMALL, "packed"),
            ("64x256x65536", SMALL, "s16"),
        ):
            works = {
                gemm.Kernel(of, name): work
                for of in (RUNS, *GEMM_PACES)
                for name in ("whole", "packed", "cut", "c8", "s16")
                if (work := of.work(problem, name, self.SMS)) is not None
            }
            self.assertEqual(numbers.choice(works), (shape, way), problem)


class Estimate(unittest.TestCase):
    SMS = 132

    def test_names_of_kernels(self) -> None:
        for name, shape, way in (
            ("v20a_v25_128x256_1x1_even2", WIDE, "1x1_even2"),
            ("v20a_v25_128x208a_2x1_rest", TALL, "2x1_rest"),
            ("v20a_v25_256x160_2x2_whole", gemm_tensor.StreamK(256, 160, False), "2x2_whole"),
            ("v20a_v24_32x64_1_8", SHORT, "8"),
        ):
            self.assertEqual(gemm_tensor.Kernel.of(name), (shape, way))
            self.assertIs(type(gemm_tensor.Kernel.of(name).shape), type(shape))

    def test_ways_of_many_tiles(self) -> None:
        ways = WIDE.ways(gemm_tensor.Product(4096, 4096, 4096), self.SMS, 1, 1)  # 512 tiles
        self.assertEqual(ways, {"whole": (128, 0), "overlap": (132, 248), "rest": (132, 116)})
        ways = WIDE.ways(gemm_tensor.Product(1032, 4096, 1024), self.SMS, 1, 1)  # 192 K-tiles of a last wave
        self.assertEqual(ways, {"whole": (72, 0), "overlap": (132, 144)})
        ways = WIDE.ways(gemm_tensor.Product(128 * 132, 256, 4096), self.SMS, 1, 1)  # a full wave
        self.assertEqual(ways, {"whole": (132, 0)})
        ways = WIDE.ways(gemm_tensor.Product(128 * 132, 256 * 12 + 8, 4096), self.SMS, 1, 1)
        self.assertEqual(ways, {"whole": (132, 0)})  # 13 waves
        ways = WIDE.ways(gemm_tensor.Product(128 * 133, 256 * 12, 4096), self.SMS, 1, 1)
        self.assertEqual(list(ways), ["whole"])  # a last wave, but the 13th

    def test_ways_of_few_tiles(self) -> None:
        ways = WIDE.ways(gemm_tensor.Product(512, 1024, 4096), self.SMS, 1, 1)  # 16 tiles
        even = {f"even{parts}": (16 * parts, 16) for parts in (2, 3, 4, 6, 8)}
        self.assertEqual(ways, {"whole": (16, 0), "spread": (132, 16), **even})
        ways = WIDE.ways(gemm_tensor.Product(512, 1024, 768), self.SMS, 1, 1)  # 192 K-tiles for 132 SMs
        self.assertNotIn("spread", ways)
        ways = TALL.ways(gemm_tensor.Product(416, 1024, 192), self.SMS, 2, 1)  # 8 of clusters, 3 K-tiles
        self.assertEqual(ways, {"whole": (8, 0), "even2": (16, 8), "even3": (24, 8)})

    def test_work_of_a_divided_wave(self) -> None:
        product = gemm_tensor.Product(4096, 4096, 4096)  # 512 tiles of 64 K-tiles
        work = WIDE.works(product, self.SMS)["1x1_rest"]  # 116 divided, 396 whole
        self.assertEqual((work.steps, work.ends, work.sums), (57 + 3 * 64, 3 + 1, 2 * 256))
        self.assertAlmostEqual(work.lines, 512 * 64 / 249 / 132 * (128 + 256))
        self.assertEqual((work.at_once, work.split_lines), (1, 0))
        self.assertEqual((work.divided, work.pushes), (1, 0))
        self.assertEqual((work.loads, work.apart, work.stores), (2**26, 1, 2**25))

    def test_work_of_whole_tiles(self) -> None:
        work = TALL.works(gemm_tensor.Product(208, 256, 72), self.SMS)["2x1_whole"]
        self.assertEqual((work.steps, work.ends, work.sums, work.divided), (2, 1, 0, 0))
        self.assertEqual((work.loads, work.apart, work.stores), (2 * 464 * 72, 0, 2 * 208 * 256))
        self.assertAlmostEqual(work.lines, 2 / 132 * (104 + 128))  # of each of the two blocks
        self.assertEqual((work.split_lines, work.odd_lines), (work.lines, work.lines))

    def test_work_of_a_cluster_of_four(self) -> None:
        four = gemm_tensor.StreamK(256, 160, False)  # of 512 x 320, 30 at once
        ways = four.ways(gemm_tensor.Product(512 * 31, 320, 64), self.SMS, 2, 2)
        self.assertEqual(ways, {"whole": (16, 0), "overlap": (30, 31)})
        work = four.works(gemm_tensor.Product(512, 320, 4096), self.SMS)["2x2_even2"]
        self.assertEqual((work.steps, work.sums), (32, 2 * 320))  # twice as many for 256 lines
        self.assertAlmostEqual(work.lines, 8 / 132 * (128 + 80))
        for rows, even in ((2048, False), (1536, True)):  # 30 clusters for four tiles, and for three
            work = four.works(gemm_tensor.Product(rows, 320, 4096), self.SMS)["2x2_spread"]
            self.assertEqual(work.apart, 0 if even else 1)

    def test_the_parts_that_blocks_of_a_cluster_load_are_of_eight_rows(self) -> None:
        product = gemm_tensor.Product(512, 4096, 4096)
        for of, clusters in (
            (WIDE, {"1x1", "2x1", "1x2", "2x2", "4x1", "1x4", "2x4", "4x2"}),
            (TALL, {"1x1", "2x1", "1x2", "2x2", "1x4", "2x4"}),  # not 208 by four
            (gemm_tensor.StreamK(128, 136, False), {"1x1", "1x2", "1x4"}),
            (gemm_tensor.StreamK(48, 128, False), {"1x1", "2x1", "1x2", "2x2", "4x1", "4x2"}),
        ):
            self.assertEqual({way.split("_")[0] for way in of.works(product, self.SMS)}, clusters)

    def test_a_shape_takes_part_in_every_cluster_once(self) -> None:
        patterns = [re.compile("^" + gemm_tensor.names(turn)) for turn in range(len(gemm_tensor.CLUSTERS))]
        for shape in gemm_tensor.shapes_of(gemm_tensor.CANDIDATES.read_text(encoding="utf-8")):
            tile = "x".join(map(str, shape[:2]))
            if isinstance(shape, gemm_tensor.PushedSums):
                name = f"nt/bf16/v20a_v24_{tile}_{shape.blocks}_8"
                self.assertTrue(all(pattern.match(name) for pattern in patterns), name)
                continue
            for along, beside in gemm_tensor.CLUSTERS:
                letters = "a" * shape.across + "t" * shape.in_turns
                name = f"nt/bf16/v20a_v25_{tile}{letters}_{along}x{beside}_whole"
                self.assertEqual(sum(bool(pattern.match(name)) for pattern in patterns), 1, name)

    def test_work_of_pushed_sums(self) -> None:
        product = gemm_tensor.Product(512, 4096, 4096)  # 1024 tiles
        work = SHORT.works(product, self.SMS, 4)["2"]  # four rounds of 528 blocks
        self.assertEqual((work.steps, work.at_once, work.ends), (4 * 32, 4, 16))
        self.assertAlmostEqual(work.lines, 512 / 132 * (32 + 64))
        self.assertEqual((work.pushes, work.divided), (4, 0))
        self.assertEqual(work.sums, 4 * 32 * 64 / 2 / 128)
        self.assertEqual((work.loads, work.apart, work.stores), (2 * 4608 * 4096, 0, 2 * 512 * 4096))
        undivided = SHORT.works(product, self.SMS, 4)["1"]
        self.assertEqual((undivided.pushes, undivided.sums), (0, 0))
        alone = SHORT.works(product._replace(m=32, n=64), self.SMS, 4)["1"]
        self.assertEqual((alone.at_once, alone.ends, alone.lines), (1, 1, 96 / 132))
        self.assertEqual(list(SHORT.works(gemm_tensor.Product(512, 4096, 136), self.SMS, 4)), ["1", "2"])

    def test_blocks_are_in_step_that_have_a_tile_each_and_share_nothing(self) -> None:
        product = gemm_tensor.Product(512, 4096, 4096)
        for of, way, in_step in (
            (WIDE, "1x1_whole", True), (WIDE, "2x1_whole", False), (WIDE, "1x1_even2", False),
            (SQUARE, "1", True), (SQUARE, "2", False), (SHORT, "1", False),  # two rounds
        ):  # fmt: skip
            self.assertEqual(of.works(product, self.SMS, 4)[way].in_step, in_step, (of, way))
        twice = product._replace(m=2048)  # 256 tiles
        self.assertFalse(WIDE.works(twice, self.SMS)["1x1_whole"].in_step)
        for change in ({"k": 4104}, {"n": 4104, "b_along_k": False}):  # rows that do not begin with lines
            other = product._replace(**change)
            self.assertFalse(WIDE.works(other, self.SMS)["1x1_whole"].in_step)
            self.assertFalse(SQUARE.works(other, self.SMS, 4)["1"].in_step)
        across = product._replace(a_along_k=False, b_along_k=False)  # tn: tiles' widths are parts of rows
        self.assertTrue(WIDE.works(across, self.SMS)["1x1_whole"].in_step)
        for shape, of in ((TALL, product), (gemm_tensor.StreamK(128, 144, False), across)):
            self.assertEqual(shape.works(of, self.SMS)["1x1_whole"].in_step, of is product, shape)

    def test_clusters_leave_gaps(self) -> None:
        product = gemm_tensor.Product(32 * 31, 64, 4096)  # 31 tiles, 124 blocks with four parts
        self.assertEqual(SHORT.works(product, self.SMS, 1)["4"].steps, 2 * 16)  # 30 clusters at once

    def test_lines_of_operands_that_lie_across_k(self) -> None:
        product = gemm_tensor.Product(200, 192, 72, a_along_k=False, b_along_k=False)  # tn
        self.assertEqual(product.lines(208, 128), (256 + 128, 256, 256))  # A's rows of 200 begin anywhere
        self.assertEqual(product.lines(208, 128, share_a=0.5), (128 + 128, 128, 128))
        self.assertEqual(product._replace(b_along_k=True).lines(32, 96), (64 + 96, 64 + 96, 64 + 96))
        self.assertEqual(product._replace(m=208).lines(208, 128), (256 + 128, 256, 0))  # at sectors

    def test_the_estimate_by_hand(self) -> None:
        work = gemm_tensor.Work(10, 2, 100, 50, 20, 3, 256, 1, 3, 1, 4e6, 1, 43000)
        for eight, in_step in ((0, 0), (1, 0), (0, 1)):
            line, loads = 1.1 * 1.88 * (100 + 0.3 * 50 + 0.2 * 20), 4.6e6 / 10 / 2150
            line *= 0.4 if in_step else 1
            step = ((2 * 300) ** 2 + line**2 + loads**2) ** 0.5 * (1 + 0.06 * eight)
            ns = 10 * step + 3 * 500 + 256 * 8.72 + 2300 + 3 * 804 + 2000
            seen = work._replace(eight=eight, in_step=in_step)
            found = gemm_tensor.estimate(seen, gemm_tensor.Pace(300, 500), RATES)
            self.assertAlmostEqual(found, (ns**2 + 20**2) ** 0.5)

    def test_the_choice_is_the_least_estimate_of_shapes_with_numbers(self) -> None:
        numbers = gemm_tensor.Numbers(PACES, RATES._replace(line=1.1))
        for problem, shape, way in (
            ("4096x4096x4096", WIDE, "2x1_whole"),  # in four waves of 128
            ("17024x256x16384", WIDE, "2x1_overlap"),  # a tile more than a wave
            ("512x1024x4096", WIDE, "4x2_even4"),  # 16 tiles
            ("32x64x4096", SHORT, "8"),
        ):
            works = {
                gemm_tensor.Kernel(of, name): work
                for of in (TALL, *PACES)
                for name, work in of.works(gemm_tensor.Product.of(problem), self.SMS, 4).items()
            }
            self.assertEqual(numbers.choice(works), (shape, way), problem)

    def test_random_problems(self) -> None:
        problems = estimates.random_problems(7, 50, 8, 2**37)
        self.assertEqual(problems, estimates.random_problems(7, 50, 8, 2**37))
        self.assertNotEqual(problems, estimates.random_problems(8, 50, 8, 2**37))
        self.assertEqual(len(set(problems)), 50)
        for problem in problems:
            sizes = gemm_tensor.Product.of(problem)[:3]
            self.assertTrue(all(16 <= size <= 16384 and size % 8 == 0 for size in sizes), problem)
            self.assertLessEqual(math.prod(sizes), 2**37)
        odd = estimates.random_problems(7, 50, 1, 2**37)
        self.assertTrue(any(int(size) % 2 for problem in odd for size in problem.split("x")))


@fits
class FitOfGemm(unittest.TestCase):
    WAYS = ("whole", "packed", "cut", "c2", "c4", "c8", "s2", "s4", "s8", "s16", "c8s2", "c8s8")
    TRUE = gemm.Numbers({**GEMM_PACES, RUNS: gemm.Pace(690, 710, 700)}, GEMM_RATES)
    LAUNCH = 5800.0

    def rows(self) -> list[estimates.Timed]:
        """What kernels would take if the estimate were right."""
        found = []
        drawn = [p for multiple in (8, 1) for p in estimates.random_problems(1, 40, multiple, 2**34)]
        for problem in [*gemm.PROBLEMS, *drawn]:
            for shape, pace in self.TRUE.paces.items():
                for way in self.WAYS:
                    if work := shape.work(problem, way, 132):
                        ns = gemm.estimate(work, pace, self.TRUE.rates) + self.LAUNCH
                        kernel = gemm.Kernel(shape, way)
                        found.append(estimates.Timed(kernel, problem, work, ns / 1000))
        return found

    def test_numbers_that_made_the_times_are_found(self) -> None:
        numbers = gemm.fit(self.rows())
        self.assertEqual(list(numbers.paces), list(self.TRUE.paces))
        for shape, pace in self.TRUE.paces.items():
            for found, true in zip(numbers.paces[shape], pace):
                self.assertAlmostEqual(found, true, delta=0.02 * true, msg=f"{shape} {numbers}")
        for name, true in self.TRUE.rates._asdict().items():
            found = getattr(numbers.rates, name)
            self.assertAlmostEqual(found / true, 1, delta=0.02, msg=f"{name} {numbers}")

    def test_with_the_right_numbers_the_choice_is_the_fastest(self) -> None:
        for problem, choice in estimates.choices(self.rows(), self.TRUE).items():
            self.assertEqual(choice.us, choice.least_us, problem)


@fits
class Fit(unittest.TestCase):
    TRUE = gemm_tensor.Numbers(
        {
            **PACES, TALL: gemm_tensor.Pace(480, 2400), SQUARE: gemm_tensor.Pace(310, 1500),
        },
        RATES,
    )  # fmt: skip
    LAUNCH = 5000.0

    def rows(self) -> list[estimates.Timed]:
        """What kernels would take if the estimate were right."""
        found = []
        drawn = [p for multiple in (8, 64) for p in estimates.random_problems(1, 60, multiple, 2**37)]
        drawn = [p for p in drawn if "0" not in p.split("x")]  # a 16 is no multiple of 64
        for problem in [*gemm_tensor.PROBLEMS, *drawn]:
            for shape, pace in self.TRUE.paces.items():
                works = shape.works(gemm_tensor.Product.of(problem), 132, 2)
                for way, work in works.items():
                    ns = gemm_tensor.estimate(work, pace, self.TRUE.rates) + self.LAUNCH
                    found.append(estimates.Timed(gemm_tensor.Kernel(shape, way), problem, work, ns / 1000))
        return found

    @staticmethod
    def seen(numbers: gemm_tensor.Numbers) -> dict[str, float]:
        """As times show them: what lines take, and how often A and B are read, in place of by how much more
        than others; and what passes before and after a block's only tile."""
        rates = numbers.rates
        split = rates.line * (1 + rates.split)
        return {
            **rates._asdict(), "split": split, "odd": split + rates.line * rates.odd,
            "start": rates.start + numbers.paces[WIDE].tile, "apart": 1 + rates.apart,
            "scatter": 1 + rates.scatter, "eight": 1 + rates.eight,
        }  # fmt: skip

    def expect_true(self, numbers: gemm_tensor.Numbers, within: float) -> None:
        self.assertEqual(list(numbers.paces), list(self.TRUE.paces))
        for shape, pace in self.TRUE.paces.items():
            for found, true in zip(numbers.paces[shape], pace):
                self.assertAlmostEqual(found / true, 1, delta=within, msg=f"{shape} {numbers}")
        for name, true in self.seen(self.TRUE).items():
            found = self.seen(numbers)[name]
            self.assertAlmostEqual(found / true, 1, delta=within, msg=f"{name} {numbers}")

    def test_numbers_that_made_the_times_are_found(self) -> None:
        self.expect_true(gemm_tensor.fit(self.rows()), 0.01)

    def test_problems_at_which_the_gpu_was_slow_change_little(self) -> None:
        slow = set(gemm_tensor.PROBLEMS[::5])
        rows = [row._replace(us=2 * row.us) if row.problem in slow else row for row in self.rows()]
        self.expect_true(gemm_tensor.fit(rows), 0.1)

    def test_problems_that_are_held_out_are_not_fitted(self) -> None:
        rows, out = self.rows(), io.StringIO()
        held_out = {*gemm_tensor.PROBLEMS[::3]}
        vendor = {row.problem: row.us / 2 for row in sorted(rows, key=lambda row: -row.us)}
        fit = mock.Mock(return_value=self.TRUE)
        with redirect_stdout(out):
            estimates.expect_good_choices(rows, held_out, vendor, fit)
        (fitted,), _ = fit.call_args
        self.assertEqual(len(estimates.by_problem(fitted)), len(estimates.by_problem(rows)) - 7)
        self.assertFalse(held_out & {row.problem for row in fitted})
        self.assertRegex(out.getvalue(), "^7 problems .* take 1[.]000 times .*\nand reach 0[.]500 times")

    def test_with_the_right_numbers_the_choice_is_the_fastest(self) -> None:
        rows = self.rows()
        for problem, choice in estimates.choices(rows, self.TRUE).items():
            self.assertEqual(choice.us, choice.least_us, problem)

    def test_far_misses_pull_no_harder_than_others(self) -> None:
        from tuning.least_squares import minimise

        seen = np.array([1.0] * 20 + [100.0] * 5)
        (found,) = minimise(lambda x: x[0] - seen, np.array([50.0]), 0.1)
        self.assertAlmostEqual(found, 1 + 0.1 / math.sqrt(15), delta=1e-3)  # 20 pull a quarter as hard

    def test_a_parameter_on_which_nothing_depends_stays(self) -> None:
        from tuning.least_squares import minimise

        found = minimise(lambda x: x[:1] ** 2 - 4, np.array([1.0, 5.0]), 0.1)
        self.assertAlmostEqual(found[0], 2, delta=1e-4)
        self.assertEqual(found[1], 5)


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

    def script(
        self, program: str, *families: str, python: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        path = self.folder / "bench"
        path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(program))
        path.chmod(0o755)
        return self.run_script(*families, python=python)

    def run_script(self, *families: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *python, SCRIPT, *families]
        command += [f"--build={self.folder}", f"--root={self.folder}", "--seed=5"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    # A GPU of 6 multiprocessors at 1 GHz on which two shapes of gemm and two of gemm_tensor take what is
    # estimated with the numbers below.
    BENCH = """
        import math, re, sys
        flags = dict(argument.split("=", 1) for argument in sys.argv[1:])
        print("GTX 1234, sm_90, 6 SMs · CUDA 13.0, driver 580 · seed 1")
        from tuning import gemm
        of_gemm = {
            gemm.Shape(128, 256, 8, 64, 64, 4, 1, 0): gemm.Pace(1300, 0, 4000),
            gemm.Shape(64, 128, 16, 32, 64, 3, 3, 24): gemm.Pace(700, 800, 900),
        }
        def simt(name):
            shape, way = gemm.Kernel.of(name)
            def us(m, n, k):
                work = shape.work(f"{m}x{n}x{k}", way, 6)
                rates = gemm.Rates(2500, 100, 800, 90, 2900, 9000, 3300)
                return work and 5 + gemm.estimate(work, of_gemm[shape], rates) / 1000
            return us
        from tuning.gemm_tensor import Kernel, Pace, Product, PushedSums, Rates, StreamK, estimate
        paces = {StreamK(128, 256, False): Pace(600, 2000), PushedSums(32, 64, 1): Pace(200, 300)}
        def estimated(name):
            shape, way = Kernel.of(name)
            def us(m, n, k):
                work = shape.works(Product(m, n, k), 6, 2).get(way)
                rates = Rates(2000, 2.5, 0.25, 0.1, 8, 1500, 700, 1600, 0.2, 0.1, 0.05, 0.5)
                return work and 5 + estimate(work, paces[shape], rates) / 1000
            return us
        kernels = {
            "gemm/f32/v00_cublas": lambda m, n, k: 5 + 2 * m * n * k / 1e6,
            "gemm_tensor/nt/bf16/v00_cublas": lambda m, n, k: 2 * m * n * k / 3e9,
            "gemm_tensor/nt/bf16/v00b_cublaslt": lambda m, n, k: 5 + 2 * m * n * k / 3e7,
        }
        ways = ["whole", "overlap", "rest", "spread", *(f"even{n}" for n in (2, 3, 4, 6, 8, 12, 16))]
        clusters = ["1x1", "2x1", "1x2", "2x2", "4x1", "1x4", "2x4", "4x2"]
        names = [f"v20a_v25_128x256_{cluster}_{way}" for cluster in clusters for way in ways]
        names += [f"v20a_v24_32x64_1_{parts}" for parts in (1, 2, 4, 8)]
        kernels |= {f"gemm_tensor/nt/bf16/{name}": estimated(name) for name in names}
        names = [f"v20a_{shape}_{way}" for shape in ("128x256x8_64x64_4_1_0", "64x128x16_32x64_3_3_24")
                 for way in ("whole", "packed", "cut", "c2", "c8", "s2", "s4", "c8s2")]
        kernels |= {f"gemm/f32/{name}": simt(name) for name in names}
        (family,) = {"--gemm", "--gemm_tensor"} & flags.keys()
        vendors = [name for name in kernels if "v00" in name and name.startswith(family[2:] + "/")]
        library = {
            problem: min(vendors, key=lambda name: kernels[name](*map(int, problem.split("x"))))
            for problem in flags[family].split(",")
        }
        with open(flags["--csv"], "w") as file:
            print("family,kernel,problem,verdict,time_us,sm_mhz,block,occupancy,library", file=file)
            for name, us in kernels.items():
                of, *_, kernel = name.split("/")
                if of != family[2:]:
                    continue
                if "v00" not in name and not re.search(flags["--benchmark_filter"], name):
                    continue
                for problem in flags[family].split(","):
                    time = us(*map(int, problem.split("x")))
                    verdict = "passed" if time else "unsupported"
                    row = of, kernel, problem, verdict, time, 1000, "160x1x1", 2 * 5 / 64, library[problem].split("/")[-1]
                    print(*row, sep=",", file=file)
    """

    @fits
    def test_the_numbers_are_those_of_the_estimate(self) -> None:
        result = self.script(self.BENCH, "gemm")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("96 problems, 84 of them random (--seed=5)", result.stdout)
        self.assertRegex(result.stdout, "32 problems that were not fitted: .* take 1[.]000 times")
        self.assertRegex(result.stdout, r"and reach [\d.]+ times the speed of NVIDIA's libraries")
        table = gemm.parse(self.sources["gemm"].read_text())
        self.assertEqual(list(table), ["GPU A", "GPU B", "GTX 1234"])
        for shape, *pace in ((BIG, 1300, 0, 4000), (RUNS, 700, 800, 900)):
            for found, true in zip(table["GTX 1234"].paces[shape], pace):
                self.assertAlmostEqual(found, true, delta=0.02 * true, msg=str(shape))
        self.assertEqual(self.sources["gemm_tensor"].read_text(), SOURCE_TENSOR)

    @fits
    def test_so_they_are_on_tensor_cores(self) -> None:
        result = self.script(self.BENCH, "gemm_tensor")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("45 problems, 24 of them random (--seed=5)", result.stdout)
        self.assertRegex(result.stdout, "15 problems that were not fitted: .* take 1[.]000 times")
        self.assertRegex(result.stdout, r"and reach [\d.]+ times the speed of NVIDIA's libraries")
        numbers = gemm_tensor.parse(self.sources["gemm_tensor"].read_text())["GTX 1234"]
        for shape, *pace in ((WIDE, 600, 2000), (SHORT, 200, 300)):
            for found, true in zip(numbers.paces[shape], pace):
                self.assertAlmostEqual(found / true, 1, delta=0.02, msg=str(shape))

    @fits
    def test_both_ladders_leave_their_measurements(self) -> None:
        result = self.script(self.BENCH)
        self.assertEqual(result.returncode, 0, result)
        table = gemm_tensor.parse(self.sources["gemm_tensor"].read_text())
        self.assertEqual(list(table), ["GPU A", "GPU B", "GTX 1234"])
        self.assertIn(WIDE, table["GTX 1234"].paces)
        for family, problems in (("gemm", 96), ("gemm_tensor", 45)):
            (path,) = (self.folder / "results/gtx1234").glob(f"20??-??-??-autotune-{family}.csv")
            header, *lines = path.read_text().splitlines()
            self.assertTrue(header.startswith("family,op,kernel,"), header)
            self.assertNotIn("unsupported", "".join(lines))
            self.assertEqual(len({line.split(",")[4] for line in lines}), problems)
            self.assertEqual({line.split(",")[0] for line in lines}, {family})

    def refused(self, program: str, sentence: str, *families: str, kept: bool = False) -> None:
        """And the measurements are kept, or not."""
        result = self.script(program, *families)
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(result.stderr, rf"^autotune: .*{sentence}.*\n$")
        self.assertEqual(self.sources["gemm"].read_text(), SOURCE)
        self.assertEqual(self.sources["gemm_tensor"].read_text(), SOURCE_TENSOR)
        for family in families or self.sources:
            found = [*self.folder.glob(f"results/gtx1234/20??-??-??-autotune-{family}.csv")]
            self.assertEqual(len(found), int(kept), family)

    @fits
    def test_no_gpu_is_one_sentence(self) -> None:
        self.refused('import sys; sys.exit("--backend=cuda: no NVIDIA driver is installed")',
                     "no NVIDIA driver is installed")  # fmt: skip

    @fits
    def test_an_unknown_gpu_is_one_sentence(self) -> None:
        self.refused("", "does not tell which GPU")

    @fits
    def test_a_build_without_the_shapes_is_one_sentence(self) -> None:
        self.refused('import sys; sys.exit("bench: No benchmark matches --benchmark_filter=… .")',
                     "LADDER_ALL_TILES=ON")  # fmt: skip

    @fits
    def test_a_gpu_that_runs_no_shape_is_one_sentence(self) -> None:
        unsupported = self.BENCH.replace('"passed" if time else ', "")
        for family in self.sources:
            self.refused(unsupported, "GTX 1234 can run none", family, kept=True)

    @fits
    def test_a_gpu_that_slows_down_is_one_sentence(self) -> None:
        slowed = self.BENCH.replace("time, 1000,", "time, 900 + len(problem) % 2 * 900,")
        for family in self.sources:
            self.refused(slowed, r"the GPU ran at \d+ MHz, before at \d+", family)

    @fits
    def test_choices_that_are_bad_are_one_sentence(self) -> None:
        erratic = self.BENCH.replace("/ 1000\n", "/ 1000 * (1 + (n // 8 + m // 8 + len(way)) % 5)\n")
        for family in self.sources:
            self.refused(erratic, r"were not fitted the choices take \d+% longer", family, kept=True)

    @fits
    def test_a_way_that_there_is_not_is_one_sentence(self) -> None:
        other = self.BENCH.replace(".get(way)", ".popitem()[1]").replace("{k}\", way", "{k}\", 'whole'")
        for family in self.sources:
            self.refused(other, "which by scripts/tuning it can't: build ./bench anew", family,
                         kept=True)  # fmt: skip

    def test_no_numpy_is_one_sentence(self) -> None:
        hidden = "import runpy, sys; from importlib import util; find = util.find_spec\n" \
                 "util.find_spec = lambda name: None if name == 'numpy' else find(name)\n" \
                 "sys.prefix = sys.argv.pop(1); sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
        in_venv = str(ladder_csv.VENV)
        result = self.script(self.BENCH, "gemm", python=("-c", hidden, in_venv))  # no other is tried
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "numpy is missing: scripts/setup installs it into build/venv.\n")

    def test_an_unknown_family_is_one_sentence(self) -> None:
        self.refused(self.BENCH, "softmax has no table; gemm and gemm_tensor have one", "softmax")

    def test_no_bench_is_one_sentence(self) -> None:
        result = self.run_script()
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^autotune: .*/bench is not there")


if __name__ == "__main__":
    ladder_csv.find_package("numpy")
    skips.main()
