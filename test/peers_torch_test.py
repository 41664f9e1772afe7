#!/usr/bin/env python3
"""Tests of scripts/peers_torch.py with a pretended GPU, on which time passes as it is told to; and,
where this Python has PyTorch, of the operations themselves and of the suite's kernels beside them on
the CPU, with those in Triton and numba in their simulators: peers_torch_test.py [LIBRARY]."""

from __future__ import annotations

import csv
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any, Sequence
from unittest import mock

import skips

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "peers_torch.py"
sys.dont_write_bytecode = True  # none beside the script
sys.path.insert(0, str(SCRIPT.parent))
os.environ |= {"TRITON_INTERPRET": "1", "NUMBA_ENABLE_CUDASIM": "1"}  # before they are imported

import ladder_csv  # noqa: E402
import peers_torch  # noqa: E402
from ladder_csv import LadderError  # noqa: E402
from peers.operations import operations  # noqa: E402
from peers import library  # noqa: E402
from ladder_statistics import Ratio, paired_ratio, student_t  # noqa: E402
from peers_torch import Clock, Expected, Group, Problem, Result, Timeless  # noqa: E402

MEASURED = ROOT / "results" / "h100" / "2026-11-22.csv"
HAS_TORCH = importlib.util.find_spec("torch") is not None
LIBRARY = Path(sys.argv.pop()) if sys.argv[-1].endswith(".so") else None

# What operations() takes from torch when it is called; its functions take more when they are.
NO_TORCH: Any = mock.MagicMock()


class Gpu:
    """Tells what it was asked for. Vendors took 820 µs, versions 800, peers 900, 950 and 1000."""

    device = "NVIDIA H100 80GB HBM3"
    toolkit = "PyTorch 2"
    git_sha = "0123456789ab"
    operations = operations(NO_TORCH)

    def __init__(self, **verdicts: str) -> None:
        self.asked: list[Problem] = []
        self.verdicts = verdicts

    def best(self, problem: Problem) -> str:
        return "v20_autotuned" if problem.operation[0] == "gemm" else "v99_best"

    def measure(self, problem: Problem) -> Group:
        self.asked.append(problem)
        kernels = [*problem.vendors, *problem.versions, *peers_torch.PEERS]
        middles = [*(820.0 for _ in problem.vendors), *(800.0 for _ in problem.versions), 900.0,
                   950.0, 1000.0]  # fmt: skip
        made = []
        for kernel, us in zip(kernels, middles):
            verdict = self.verdicts.get(kernel, "passed")
            passed = verdict == "passed"
            made.append(Result(kernel, "an idea", verdict, "" if passed else "why", 1e-7, 2e-7,
                               samples(us) if passed else []))  # fmt: skip
        return Group(made, samples(next(us for us, one in zip(middles, made) if one.us), 1e-4))


def samples(us: float, noise: float = 0.0) -> list[float]:
    return [us * (1 + noise * (i % 3 - 1)) * (1 + 0.01 * (i % 2)) for i in range(12)]


class Rows(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.csv = Path(folder.name) / "results.csv"
        self.peers = peers_torch.peers_path(self.csv)
        with open(MEASURED, newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            kept = [row for row in rows if row["kernel"] not in peers_torch.PEERS]
        with open(self.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows.fieldnames or [], lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)
        silence = mock.patch("builtins.print")
        self.print = silence.start()
        self.addCleanup(silence.stop)

    def cells(self, kernel: str) -> list[dict[str, str]]:
        with open(self.peers, newline="", encoding="utf-8") as file:
            return [row for row in csv.DictReader(file) if row["kernel"] == kernel]

    def said(self) -> str:
        return "\n".join(str(call.args[0]) for call in self.print.call_args_list)

    def measure(self, pattern: str, gpu: Gpu, versions: str = "") -> list[str]:
        """The problems that were asked for."""
        before = len(gpu.asked)
        peers_torch.run(self.csv, self.peers, pattern, versions, gpu)
        return [one.name for one in gpu.asked[before:]]

    def test_each_problem_timed_cold_is_measured_once(self) -> None:
        gpu = Gpu()
        before = self.csv.read_bytes()
        self.assertEqual(
            self.measure("elementwise/relu/f32|softmax/bf16/8192x4096", gpu),
            ["elementwise/relu/f32/1048576", "elementwise/relu/f32/100000007",
             "elementwise/relu/f32/268435456", "softmax/bf16/8192x4096"],
        )  # fmt: skip
        self.assertEqual(self.csv.read_bytes(), before)  # its rows are of another process
        self.assertEqual(self.peers.name, "results-peers.csv")

    def test_the_best_version_and_the_vendors_take_part(self) -> None:
        gpu = Gpu()
        self.measure("^gemm/f32/4096x4096x4096|^softmax/f32/8192x4096", gpu)
        gemm, softmax = gpu.asked
        self.assertEqual((gemm.versions, gemm.vendors), (("v20_autotuned",), ("v00_cublas",)))
        self.assertEqual((softmax.versions, softmax.vendors), (("v99_best",), ("v00_cudnn",)))
        self.measure("^gemm/f32/4096x4096x4096", gpu, versions="v0[45]|v12")
        self.assertEqual(gpu.asked[-1].versions, ("v04_tile1d", "v05_tile2d", "v12_cp_async"))

    def test_rows_have_the_suites_columns_and_roofs(self) -> None:
        self.measure("gelu/f32/268435456", Gpu())
        (row,) = self.cells("p02_torch_compile")
        with open(self.csv, newline="", encoding="utf-8") as file:
            ours = next(r for r in csv.DictReader(file) if r["kernel"] == "v09_big_blocks"
                        and (r["op"], r["dtype"], r["problem"], r["cache"])
                        == ("gelu", "f32", "268435456", "cold"))  # fmt: skip
        for column in ("family", "op", "bytes", "flops", "device", "roof", "driver"):
            self.assertEqual(row[column], ours[column], column)
        self.assertEqual((row["backend"], row["cache"], row["verdict"]), ("cuda", "cold", "passed"))
        self.assertEqual((row["time_us_median"], row["time_us_min"]), ("954.75", "950"))
        self.assertEqual((row["samples"], row["toolkit"]), ("12", "PyTorch 2"))
        self.assertEqual(row["git_sha"], Gpu.git_sha)  # the library's, which was measured
        self.assertAlmostEqual(float(row["gbps"]), 8 * 2**28 / 954.75e3, places=2)
        same = float(ours["roof_pct"]) * float(ours["time_us_median"])
        self.assertAlmostEqual(float(row["roof_pct"]) * 954.75 / same, 1, places=4)
        self.assertEqual((row["vs_library"], row["registers"]), ("", ""))
        ladder_csv.read(self.peers)  # as the other scripts do

    def test_all_contestants_are_compared_within_their_rounds(self) -> None:
        self.measure("^gemm/f32/4096x4096x4096", Gpu())
        vendor, ours, torch = (self.cells(name)[0]
                               for name in ("v00_cublas", "v20_autotuned", "p01_torch"))  # fmt: skip
        self.assertEqual({one["library"] for one in (vendor, ours, torch)}, {"v00_cublas"})
        for row, us in ((vendor, 820), (ours, 800), (torch, 900)):
            self.assertAlmostEqual(float(row["vs_library"]), 820 / us, places=5)
            self.assertAlmostEqual(float(row["vs_fastest"]), 800 / us, places=5)
            self.assertAlmostEqual(float(row["vs_fastest_low"]), 800 / us, places=5)
            self.assertAlmostEqual(float(row["aa_ratio"]), 1, places=6)
            self.assertTrue(0 < float(row["resolution_pct"]) < 0.02, row["resolution_pct"])
        self.assertEqual([one["fastest"] for one in (vendor, ours, torch)], ["no", "yes", "no"])
        columns = list(ours)
        at = columns.index("vs_library_high")
        self.assertEqual(columns[at + 1 : at + 9], list(peers_torch.COMPARED))

    def test_a_contestant_that_is_wrong_or_fails_has_no_time(self) -> None:
        self.measure("add/f16/1048576", Gpu(p01_torch="incorrect", p03_triton="failed"))
        for kernel, verdict in (("p01_torch", "incorrect"), ("p03_triton", "failed")):
            (row,) = self.cells(kernel)
            self.assertEqual((row["verdict"], row["reason"]), (verdict, "why"))
            self.assertEqual((row["time_us_median"], row["gbps"], row["roof_pct"]), ("", "", ""))

    def test_what_is_there_is_not_measured_again(self) -> None:
        gpu = Gpu()
        self.assertEqual(len(self.measure("add/f(16|32)/1048576", gpu)), 2)
        before = self.peers.read_text()
        self.assertEqual(self.measure("add/f(16|32)/1048576", gpu), [])
        self.assertEqual(self.peers.read_text(), before)
        # A problem without all of its contestants: no row of other rounds stays.
        lines = [line for line in before.splitlines() if "p01_torch,an idea,f16" not in line]
        self.assertEqual(len(lines) + 1, len(before.splitlines()))
        self.peers.write_text("\n".join(lines) + "\n")
        self.assertEqual(self.measure("add/f(16|32)/1048576", gpu), ["elementwise/add/f16/1048576"])
        self.assertEqual(len(self.peers.read_text().splitlines()), len(before.splitlines()))

    def test_a_problem_with_a_failure_is_measured_again(self) -> None:
        self.measure("add/f16/1048576", Gpu(p02_torch_compile="failed"))
        self.assertEqual(len(self.measure("add/f16/1048576", Gpu())), 1)
        self.assertEqual([row["verdict"] for row in self.cells("p02_torch_compile")], ["passed"])

    def test_rows_of_another_commit_are_refused(self) -> None:
        self.measure("add/f16/1048576", Gpu())
        gpu = Gpu()
        gpu.git_sha = "fedcba987654"
        with self.assertRaisesRegex(LadderError, "commit 0123456789ab, the library is of fedc"):
            self.measure("add/f16/1048576", gpu)

    def test_the_table_says_where_the_suite_is_slower(self) -> None:
        self.measure("^gemm/f32/4096x4096x4096|add/f16/1048576", Gpu())
        table = self.said().splitlines()[-4:]
        self.assertRegex(
            table[1], "add/f16/1048576 .*v.* p01_torch .* 1[.]125  1[.]125 to 1[.]125$"
        )
        self.assertRegex(table[2], "^gemm/f32/4096.* v20_autotuned .* v00_cublas .* 1[.]025 ")
        self.assertEqual(
            table[3], "The suite's fastest version is at least level in 2 of 2 problems."
        )
        rows = [
            dict(zip(("family", "op", "dtype", "problem", "kernel", "time_us_median", "vs_fastest",
                      "vs_fastest_low", "vs_fastest_high", "resolution_pct"), values))
            for values in (("f", "", "f32", "8", "v01", "10", "1", "1", "1", "0.2"),
                           ("f", "", "f32", "8", "p01_torch", "9.97", "1.003", "1.0025", "1.004", "0.2"),
                           ("g", "", "f32", "8", "v01", "10", "1", "1", "1", "0.2"),
                           ("g", "", "f32", "8", "p01_torch", "9.95", "1.005", "0.998", "1.01", "0.2"))
        ]  # fmt: skip
        slower, level, count = peers_torch.table(rows).splitlines()[1:]
        self.assertRegex(slower, "0[.]997 .*0[.]996 to 0[.]998  slower$")
        self.assertNotIn("slower", level)
        self.assertIn("in 1 of 2 problems", count)

    def test_versions_that_cannot_be_told_apart_are_tied(self) -> None:
        like = {"family": "f", "op": "", "dtype": "f32", "problem": "8"}
        times = {"v00_cub": (100.0, 0), "v01": (100.0, 0), "v02": (100.3, 0.01), "v03": (100.3, 0.001),
                 "p01_torch": (100.0, 0)}  # fmt: skip
        results = [Result(name, "", "passed", us=samples(*us)) for name, us in times.items()]
        group = Group(results, [us * 1.005 for us in samples(100.0)])  # a resolution of 0.5 %
        self.assertAlmostEqual(group.resolution, 0.005, places=4)
        fastest = [peers_torch.compared(Problem(like), group, one)["fastest"] for one in results]
        self.assertEqual(fastest, ["no", "yes", "yes", "no", "no"])

    def test_the_library_is_the_fastest_of_the_vendors_in_these_rounds(self) -> None:
        like = {"family": "f", "op": "", "dtype": "f32", "problem": "8", "library": "v00_cublas",
                "roof_pct": "50", "time_us": "160"}  # fmt: skip
        for lt, library in ((90.0, "v00b_cublaslt"), (110.0, "v00_cublas"), (70.0, "v00_cublas")):
            results = [Result(name, "", "passed", us=samples(us))
                       for name, us in (("v00_cublas", 100.0), ("v00b_cublaslt", lt), ("v01", 95.0))]  # fmt: skip
            group = Group(results, samples(100.0))
            of = [peers_torch.compared(Problem(like), group, one) for one in results]
            self.assertEqual({one["library"] for one in of}, {library}, f"{lt} of a roof of 80 µs")
            least = lt if library == "v00b_cublaslt" else 100
            self.assertAlmostEqual(float(of[2]["vs_library"]), least / 95, places=5)

    def test_rows_of_an_older_bench_are_not_gone_on_with(self) -> None:
        self.measure("add/f16/1048576", Gpu())
        self.peers.write_text(self.peers.read_text().replace("library", "baseline"))
        with self.assertRaisesRegex(LadderError, "columns of an older ./bench: delete the file"):
            self.measure("add/f16/1048576", Gpu())

    def test_what_peers_cannot_do_is_named_once(self) -> None:
        self.measure("relu/f32/1048576", Gpu())
        self.assertRegex(self.said(), "No peers for .*gelu_tanh_approx")
        self.assertEqual(self.said().count("gelu_tanh_approx"), 1)

    def test_types_that_peers_cannot_do_are_named(self) -> None:
        like = {"family": "gemm_tensor", "op": "nt", "dtype": "e4m3", "problem": "8x8x8"}
        able, others = peers_torch.known([Problem(like)], Gpu.operations)
        self.assertEqual((able, others), ([], ["gemm_tensor nt e4m3"]))

    def test_attention_that_pytorchs_function_cannot_do_is_named(self) -> None:
        def named(op: str, text: str) -> list[str]:
            like = {"family": "attention", "op": op, "dtype": "bf16", "problem": text}
            return peers_torch.known([Problem(like)], Gpu.operations)[1]

        for op, text in (("", "2x4:2x33x64"), ("", "1x2x17:29x64"), ("causal", "1x2x33x64@bshd"),
                         ("causal_backward", "1x2x17:29x64@top_left"), ("decode", "1x2x1:29x64"),
                         ("backward", "1x2x17:29x64")):  # fmt: skip
            self.assertEqual(named(op, text), [], f"{op} {text}")
        for op, text in (("", "2x2x1..33x64"), ("causal", "1x2x17:29x64"),
                         ("decode", "1x2x2:29x64"), ("decode", "1x2x1:0..29x64"),
                         ("decode", "1x2x1:29x64@page16")):  # fmt: skip
            self.assertEqual(named(op, text), [" ".join(filter(None, ("attention", op, text)))])

    def test_another_gpu_is_refused(self) -> None:
        gpu = Gpu()
        gpu.device = "NVIDIA L4"
        with self.assertRaisesRegex(LadderError, "H100.* this is NVIDIA L4: run ./bench here"):
            self.measure("relu", gpu)
        with self.assertRaisesRegex(LadderError, "no problem"):
            self.measure("nothing like it", Gpu())

    def test_the_roof_is_of_a_row_that_has_one(self) -> None:
        like = {"family": "f", "op": "", "dtype": "f32", "problem": "8", "backend": "cuda",
                "cache": "cold", "verdict": "passed", "kernel": "v01", "time_us_median": "10",
                "roof_pct": ""}  # fmt: skip
        judged = like | {"kernel": "v02", "time_us_median": "4", "roof_pct": "50"}
        hot = judged | {"problem": "16", "cache": "hot"}
        (one,) = peers_torch.problems([like, judged, like, hot])
        self.assertEqual(one.roof_us, 2)


class Command(unittest.TestCase):
    def run_it(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-B", str(SCRIPT), *map(str, arguments)]
        return subprocess.run(line, capture_output=True, text=True, encoding="utf-8")

    def test_what_is_missing_is_one_sentence(self) -> None:
        result = self.run_it(MEASURED, "-o", "/nowhere/x.csv")
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(
            result.stderr,
            "PyTorch (is missing|finds no NVIDIA GPU) here|cannot be written|was measured on")  # fmt: skip
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)

    def test_a_bad_csv_is_one_sentence(self) -> None:
        result = self.run_it("/nowhere/results.csv")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "^/nowhere/results.csv cannot be read")

    def test_the_rows_do_not_go_to_the_file_of_bench(self) -> None:
        result = self.run_it(MEASURED, "-o", MEASURED)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "^-o .*another process, name another file[.]$")

    def test_a_missing_package_is_a_sentence_and_no_contestant(self) -> None:
        with mock.patch.dict(sys.modules, {"numba": None}), mock.patch("builtins.print") as said:
            sys.modules.pop("peers.numba_kernels", None)
            self.assertIsNone(peers_torch.kernels_in("numba"))
        self.assertRegex(said.call_args.args[0], "^No peers in numba: .*numba.*[.]$")
        without = types.SimpleNamespace(triton=None, numba=None)
        softmax = operations(NO_TORCH)["softmax", ""]
        self.assertEqual(peers_torch.Torch.peers_of(without, softmax), ["p01_torch", "p02_torch_compile"])

    def test_help_has_examples(self) -> None:
        self.assertIn("examples:", self.run_it("--help").stdout)


class Time:
    """A CPU that enqueues and a GPU that works through the queue, in microseconds."""

    ENQUEUE, FLUSH = 4.0, 40.0

    def __init__(self) -> None:
        self.cpu = self.gpu = 0.0  # when each has done what it has to do so far
        self.log: list[str] = []

    def enqueue(self, name: str, gpu_us: float, cpu_us: float = ENQUEUE) -> None:
        self.cpu += cpu_us
        self.gpu = max(self.gpu, self.cpu) + gpu_us
        self.log.append(name)

    def synchronize(self) -> None:
        self.cpu = max(self.cpu, self.gpu)

    def memset(self, address: int, size: int, stream: int) -> None:
        assert (address, size, stream) == (0xB0, 100 << 20, 0x57)
        self.enqueue("flush", self.FLUSH)

    def torch(self) -> Any:
        """What Clock uses of torch."""

        class Event:
            def __init__(inner, enable_timing: bool) -> None:
                assert enable_timing

            def record(inner) -> None:
                self.enqueue("event", 0, 1)
                inner.at = self.gpu

            def query(inner) -> bool:
                return inner.at <= self.cpu

            def elapsed_time(inner, stop: Any) -> float:
                return (stop.at - inner.at) / 1e3  # milliseconds

        buffer = types.SimpleNamespace(data_ptr=lambda: 0xB0, nbytes=100 << 20)
        stream = types.SimpleNamespace(cuda_stream=0x57)
        cuda = types.SimpleNamespace(
            Event=Event, synchronize=self.synchronize, current_stream=lambda: stream,
            get_device_properties=lambda _: types.SimpleNamespace(L2_cache_size=50 << 20),
        )  # fmt: skip
        empty = mock.Mock(return_value=buffer)
        return types.SimpleNamespace(cuda=cuda, empty=empty, uint8="uint8")


class Timing(unittest.TestCase):
    def setUp(self) -> None:
        self.time = Time()
        patch = mock.patch.object(peers_torch.time, "perf_counter", lambda: self.time.cpu * 1e-6)
        patch.start()
        self.addCleanup(patch.stop)
        self.torch = self.time.torch()
        self.clock = Clock(self.torch, self.time.memset)
        self.time.log.clear()

    def call(self, gpu_us: float, cpu_us: float) -> Any:
        return lambda: self.time.enqueue("call", gpu_us, cpu_us)

    def test_what_is_overwritten_is_twice_the_l2(self) -> None:
        self.torch.empty.assert_called_once_with(100 << 20, dtype="uint8", device="cuda")
        self.assertAlmostEqual(self.clock.flush_s * 1e6, Time.FLUSH, delta=2)

    def test_a_slow_cpu_is_not_in_the_sample(self) -> None:
        for cpu_us in (10, 100, 400):  # more than the GPU takes for flush and call
            ((*us,),) = self.clock.measure([self.call(20, cpu_us)])
            self.assertGreaterEqual(len(us), Clock.MIN)
            for one in us:
                self.assertAlmostEqual(one, 20)

    def named(self, name: str, gpu_us: float) -> Any:
        return lambda: self.time.enqueue(name, gpu_us, 10)

    def rounds(self, calls: Sequence[Any]) -> list[list[str]]:
        """What was launched in each, after the launches that tell how long the CPU takes."""
        self.clock.measure(calls)
        names = [one for one in self.time.log if one not in ("flush", "event")][len(calls) :]
        size = len(names) // Clock.BATCH
        return [names[i : i + size] for i in range(0, len(names), size)]

    def test_each_sample_is_cold(self) -> None:
        first, second = self.clock.measure([self.call(20, 10), self.call(30, 10)])
        self.assertAlmostEqual(statistics.median(first), 20)
        self.assertAlmostEqual(statistics.median(second), 30)
        launch = ["flush", "event", "call", "event"]
        self.assertEqual(self.time.log[:8], 2 * launch)  # how long the CPU takes
        begin = self.time.log.index("event", 8) - 1
        batch = launch * Clock.MOST * 2 * Clock.BATCH
        self.assertEqual(self.time.log[begin : begin + len(batch)], batch)

    def test_each_round_has_all_in_a_new_order(self) -> None:
        with mock.patch.object(Clock, "MIN", 8):
            rounds = self.rounds([self.named(name, 20) for name in "abcd"])
        self.assertEqual(len(rounds), Clock.BATCH)
        for one in rounds:
            samples = [one[i : i + Clock.MOST] for i in range(0, len(one), Clock.MOST)]
            self.assertEqual(sorted(samples), [[name] * Clock.MOST for name in "abcd"])
        self.assertGreater(len(set(map(tuple, rounds))), 4)

    def test_a_sample_is_as_many_launches_as_fit(self) -> None:
        with mock.patch.object(Clock, "MIN", 8):
            rounds = self.rounds([self.named("short", 450), self.named("long", 600)])
        self.assertEqual({tuple(sorted(one)) for one in rounds}, {("long", "short", "short")})

    def test_all_have_as_many_samples(self) -> None:
        noise = iter(range(10**9))

        def noisy() -> None:
            self.time.enqueue("call", 20 + next(noise) % 7, 10)

        us = self.clock.measure([self.call(20, 10), noisy, self.call(30, 10)])
        self.assertEqual(len({len(one) for one in us}), 1)
        self.assertGreater(len(us[0]), Clock.MIN)

    def test_a_cpu_that_never_keeps_up_is_an_error(self) -> None:
        with self.assertRaises(Timeless):
            self.clock.measure([self.call(20, 40_000)])

    def test_it_stops_when_all_ratios_are_known_or_time_is_up(self) -> None:
        steady, noisy = [100.0] * 12, [100.0, 200.0] * 6
        self.assertFalse(self.clock.done([steady[:-1], steady[:-1]]))
        self.assertTrue(self.clock.done([steady, steady]))
        self.assertFalse(self.clock.done([steady, steady, noisy]))
        self.assertFalse(self.clock.done([[9e4] * 11, [9e4, 8e4] * 5 + [9e4]]))
        self.assertTrue(self.clock.done([[9e4] * 12, [9e4, 8e4] * 6]))  # two seconds
        self.assertTrue(self.clock.done([[100.0] * 1000, [100.0, 200.0] * 500]))
        self.assertTrue(self.clock.done([]))


class Ratios(unittest.TestCase):
    def test_students_t(self) -> None:
        for degrees, t in ((1, 12.7062), (2, 4.30265), (7, 2.36462), (30, 2.04227), (500, 1.96472)):
            self.assertAlmostEqual(student_t(degrees), t, delta=1e-5 * t)

    def test_ratios_are_paired_and_outliers_do_not_count(self) -> None:
        drift = [100.0 + i for i in range(20)]
        ratio = paired_ratio([2 * us for us in drift], drift)
        for one in ratio:
            self.assertAlmostEqual(one, 2)
        spoilt = [2 * us for us in drift[:-3]] + [1e9, 1e9, 1e-9]
        self.assertAlmostEqual(paired_ratio(spoilt, drift).value, 2)

    def test_the_interval_holds_the_ratio_in_95_of_100_cases(self) -> None:
        import random

        rng = random.Random(7)
        hits, cases = 0, 2000
        for _ in range(cases):
            a, b = ([math.exp(rng.gauss(0, 0.01)) for _ in range(15)] for _ in range(2))
            ratio = paired_ratio(a, b)
            hits += ratio.low <= 1 <= ratio.high
        self.assertTrue(0.935 < hits / cases < 0.965, hits / cases)

    def test_few_ratios_have_no_bounds(self) -> None:
        self.assertEqual(paired_ratio([2.0], [1.0]), Ratio(2, 0, math.inf))
        self.assertTrue(math.isnan(paired_ratio([], []).value))


@unittest.skipUnless(HAS_TORCH, "needs PyTorch")
class Operations(unittest.TestCase):
    PROBLEMS = {"elementwise": ("37x67",), "gemm": ("37x45x100",), "gemm_tensor": ("64x48x96",),
                "reduction": ("10007",),
                "attention": ("1x2x40x64", "2x4:2x33x128@bshd", "2x2x17:29x64@bshd@top_left"),
                "attention decode": ("2x4:2x1:70x64", "2x2x1:33x128@bshd")}  # fmt: skip

    TYPES = {"gemm": ("f32",), "gemm_tensor": ("f16", "bf16", "tf32"),
             "reduction": ("f32", "bf16", "i32"), "attention": ("f16", "bf16")}  # fmt: skip

    @classmethod
    def problems(cls, family: str, op: str) -> Any:
        """Every problem in every type."""
        texts = cls.PROBLEMS.get(f"{family} {op}") or cls.PROBLEMS.get(family, ("37x101",))
        for dtype in cls.TYPES.get(family, ("f32", "f16", "bf16")):
            for text in texts:
                yield Problem({"family": family, "op": op, "dtype": dtype, "problem": text})

    def each(self) -> Any:
        """Every operation with inputs and their reference, in every type."""
        import torch

        for name, operation in operations(torch).items():
            for one in self.problems(*name):
                of_problem = operation.of(one.text)
                torch.manual_seed(7)
                inputs = peers_torch.random_inputs(torch, of_problem, one.size, one.dtype, "cpu")
                expected = peers_torch.reference(torch, of_problem, inputs, one.size, one.dtype)
                yield one.name, of_problem, inputs, expected

    def test_pytorchs_functions_are_the_formulas(self) -> None:
        for name, operation, inputs, expected in self.each():
            prepared = operation.prepare(*inputs) if operation.prepare else inputs
            eager = operation.eager or operation.formula
            for function, x in ((eager, prepared), (operation.formula, inputs)):
                result = peers_torch.judge(
                    "p01_torch", "", lambda: function(*x), operation, inputs, expected
                )
                self.assertEqual(result.verdict, "passed", f"{name}: {result.reason}")

    def test_cudnns_call_is_that_of_the_other_backend(self) -> None:
        import torch

        backends = torch.nn.attention.SDPBackend
        for name, operation, inputs, expected in self.each():
            if not operation.cudnn:
                continue

            def verdict() -> str:
                return peers_torch.judge(
                    "p04_torch_cudnn", "", lambda: operation.cudnn(*inputs), operation, inputs,
                    expected,
                ).verdict  # fmt: skip

            self.assertEqual(verdict(), "unsupported", name)  # a CPU has none
            with mock.patch.object(backends, "CUDNN_ATTENTION", backends.FLASH_ATTENTION):
                self.assertEqual(verdict(), "passed", name)

    def test_results_so_small_that_f16_has_no_ten_bits_of_them(self) -> None:
        import torch

        operation = operations(torch)["softmax", ""]
        for cols in (50257, 131072):  # the largest result is a few dozen of f16's smallest
            inputs = peers_torch.random_inputs(torch, operation, (4, cols), "f16", "cpu")
            expected = peers_torch.reference(torch, operation, inputs, (4, cols), "f16")
            result = torch.softmax(inputs[0], -1)
            for off, verdict in ((0, "passed"), (2 * 2.0**-24, "incorrect")):
                judged = peers_torch.judge(
                    "p01_torch", "", lambda: result + off, operation, inputs, expected
                )
                self.assertEqual(judged.verdict, verdict, f"{cols} columns: {judged.reason}")

    def test_mistakes_are_found(self) -> None:
        for name, operation, inputs, expected in self.each():
            right = peers_torch.parts(operation.formula(*inputs))
            for wrong in self.mistakes(right):
                result = peers_torch.judge(
                    "p01_torch", "", lambda: wrong, operation, inputs, expected
                )
                self.assertIn(result.verdict, ("incorrect", "failed"), name)

    def mistakes(self, right: list[Any]) -> Any:
        """One result that is 2 % off, NaNs, a part too many."""
        if right[0].is_floating_point():
            off = [part.clone() for part in right]
            largest = off[-1].reshape(-1)
            largest[largest.abs().argmax()] *= 1.02
            yield off
            yield [part * math.nan for part in right]
        yield [*right, right[0]]


@unittest.skipUnless(HAS_TORCH and LIBRARY, "needs PyTorch and the library")
class OneProcess(unittest.TestCase):
    """The suite's kernels on PyTorch's tensors: on the CPU, by the host executor."""

    def setUp(self) -> None:
        import torch

        class Cpu(peers_torch.Torch):
            where, backend = "cpu", library.HOST

            def find_device(inner) -> None:
                inner.device, inner.stream = "CPU", 0
                inner.clock = mock.Mock(measure=self.time_them)

        self.gpu = Cpu(torch, LIBRARY)
        self.torch = torch

    def time_them(self, calls: Sequence[Any]) -> list[list[float]]:
        for call in calls:
            call()
        return [samples(100.0 + i) for i in range(len(calls) - 1)] + [samples(100.0)]

    def first_version(self, family: str, op: str, dtype: str) -> str:
        return min((one.version for one in self.gpu.kernels.values()
                    if (one.family, one.op, one.dtype) == (family, op, dtype)), default="")  # fmt: skip

    def test_every_operation_has_the_suites_inputs_and_results(self) -> None:
        checked = set()
        for family, op in self.gpu.operations:
            for one in Operations.problems(family, op):
                version = self.first_version(family, op, one.dtype)
                if not version:
                    continue
                with mock.patch.object(self.gpu, "peers", lambda *_: []):
                    group = self.gpu.measure(Problem(one.like, (version,)))
                (result,) = group.results
                self.assertEqual(result.verdict, "passed", f"{one.name}: {result.reason}")
                self.assertEqual(result.us, samples(100.0))
                checked.add((family, op))
        self.assertEqual(checked, set(self.gpu.operations))

    def measure(self, *versions: str) -> Any:
        like = {"family": "softmax", "op": "", "dtype": "f32", "problem": "37x101"}
        self.gpu.numba = None  # whose simulator takes long
        with mock.patch.object(self.torch, "compile", lambda formula, dynamic: formula):
            return self.gpu.measure(Problem(like, versions))

    def test_all_take_turns_and_the_first_is_there_twice(self) -> None:
        group = self.measure("v01_naive", "v03_warp_shuffle")
        self.assertEqual([one.kernel for one in group.timed][:4],
                         ["v01_naive", "v03_warp_shuffle", "p01_torch", "p02_torch_compile"])  # fmt: skip
        self.assertEqual(group.again, samples(100.0))
        self.assertEqual((group.same.value, group.resolution), (1, 0))
        self.assertTrue(group.results[0].idea)

    def our_kernels(self, peer: str, package: str) -> set[tuple[str, str]]:
        """The operations of which those in a language pass; all must but one that the simulator can't do."""
        if not getattr(self.gpu, package):
            self.skipTest(f"{package} is missing here")
        passed = set()
        texts = {"elementwise": "1003", "reduction": "9001", "gemm": "9x7x40", "gemm_tensor": "40x24x72"}
        for (family, op), operation in self.gpu.operations.items():
            types = Operations.TYPES.get(family, ("f32", "f16"))
            for dtype in types if getattr(operation, package) else ():
                if dtype == "bf16":  # Triton's interpreter cuts it off and multiplies its bits
                    continue
                problem = Problem({"family": family, "op": op, "dtype": dtype,
                                   "problem": texts.get(family, "3x101")})  # fmt: skip
                inputs = peers_torch.random_inputs(self.torch, operation, problem.size, dtype, "cpu")
                expected = peers_torch.reference(self.torch, operation, inputs, problem.size, dtype)
                call = dict(self.gpu.peers(operation, inputs))[peer]
                result = peers_torch.judge(peer, "", call, operation, inputs, expected)
                if "only 0-dimensional arrays" not in result.reason:  # Triton 3.6's, with NumPy 2.4
                    self.assertEqual(result.verdict, "passed", f"{problem.name}: {result.reason}")
                    passed.add((family, op))
        return passed

    def test_our_kernels_in_triton(self) -> None:
        self.assertLess({("elementwise", "add"), ("softmax", "")}, self.our_kernels("p03_triton", "triton"))

    def test_our_kernels_in_numba(self) -> None:
        self.assertEqual(
            self.our_kernels("p05_numba", "numba"),
            {("elementwise", "add"), ("softmax", ""), ("gemm", "")},
        )
        operation, inputs = self.gpu.operations["elementwise", "add"], [self.torch.zeros(3).bfloat16()] * 2
        call = dict(self.gpu.peers(operation, inputs))["p05_numba"]
        result = peers_torch.judge("p05_numba", "", call, operation, inputs, Expected([], []))
        self.assertEqual((result.verdict, result.reason),
                         ("unsupported", "numba takes no bfloat16 from PyTorch"))  # fmt: skip

    def test_the_library_is_asked_for_the_best(self) -> None:
        like = {"family": "layernorm", "op": "add", "dtype": "bf16", "problem": "8x100"}
        self.assertEqual(self.gpu.best(Problem(like)), "v22_cluster_add")
        with self.assertRaisesRegex(LadderError, "^layernorm/add/bf16/8: .*ROWSxCOLS.*[.]$"):
            self.gpu.best(Problem(like | {"problem": "8"}))

    def test_a_kernel_that_is_wrong_or_not_there_has_no_time(self) -> None:
        def unchanged(ours: Any) -> None:
            """Leaves the output as it was made."""

        with mock.patch.object(peers_torch.Ours, "__call__", unchanged):
            wrong, *_ = self.measure("v01_naive").results
        self.assertEqual((wrong.verdict, wrong.us), ("incorrect", ()))
        made = peers_torch.Ours(
            self.torch, self.gpu.library, self.gpu.kernels["softmax/f32/v01_naive"], "3x5",
            [self.torch.zeros(3, 5)], 0,
        )  # fmt: skip
        self.assertTrue(self.torch.isnan(made.outputs[0]).all())  # no result of another remains
        missing, *_ = self.measure("v99_none").results
        self.assertEqual((missing.verdict, missing.us), ("failed", ()))
        self.assertIn("no such kernel", missing.reason)

    def test_other_sizes_than_the_suites_are_refused(self) -> None:
        operation = self.gpu.operations["softmax", ""]
        inputs = [self.torch.zeros(37, 100)]
        like = {"family": "softmax", "op": "", "dtype": "f32", "problem": "37x101"}
        result, _ = self.gpu.ours(Problem(like), "v01_naive", operation, inputs, Expected([], []))
        self.assertEqual(result.verdict, "unsupported")
        self.assertIn("its inputs have [14948] bytes, PyTorch's [14800]", result.reason)


if __name__ == "__main__":
    skips.main()
