#!/usr/bin/env python3
"""Tests of scripts/peers_torch.py with a pretended GPU, on which time passes as it is told to; and,
where this Python has PyTorch, of the operations themselves on the CPU."""

from __future__ import annotations

import csv
import importlib.util
import math
import statistics
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any, Sequence
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "peers_torch.py"
sys.dont_write_bytecode = True  # none beside the script
sys.path.insert(0, str(SCRIPT.parent))

import ladder_csv  # noqa: E402
import peers_torch  # noqa: E402
from ladder_csv import LadderError  # noqa: E402
from peers.operations import operations  # noqa: E402
from peers_torch import Clock, Problem, Result, Runner, Timeless  # noqa: E402

MEASURED = ROOT / "results" / "h100" / "2026-11-22.csv"
HAS_TORCH = importlib.util.find_spec("torch") is not None

# What operations() takes from torch when it is called; its functions take more when they are.
NO_TORCH: Any = mock.MagicMock()


class Gpu:
    """Tells what it was asked for, and that all peers took 800 µs."""

    device = "NVIDIA H100 80GB HBM3"
    toolkit = "PyTorch 2"
    operations = operations(NO_TORCH)

    def __init__(self, **verdicts: str) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.verdicts = verdicts

    def measure(self, problem: Problem, wanted: Sequence[str]) -> list[Result]:
        self.asked.append((problem.name, tuple(wanted)))
        made = []
        for kernel in wanted:
            verdict = self.verdicts.get(kernel, "passed")
            us = [790.0, 800.0, 830.0] if verdict == "passed" else []
            made.append(Result(kernel, verdict, "" if us else "why", 1e-7, 2e-7, us))
        return made


class Rows(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.csv = Path(folder.name) / "results.csv"
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
        with open(self.csv, newline="", encoding="utf-8") as file:
            return [row for row in csv.DictReader(file) if row["kernel"] == kernel]

    def said(self) -> str:
        return "\n".join(str(call.args[0]) for call in self.print.call_args_list)

    def test_each_problem_timed_cold_is_measured_once(self) -> None:
        gpu = Gpu()
        peers_torch.run(self.csv, "elementwise/relu/f32|softmax/bf16/8192x4096", gpu)
        self.assertEqual(
            gpu.asked,
            [(name, tuple(peers_torch.PEERS)) for name in (
                "elementwise/relu/f32/1048576", "elementwise/relu/f32/100000007",
                "elementwise/relu/f32/268435456", "softmax/bf16/8192x4096")],
        )  # fmt: skip

    def test_rows_have_the_suites_columns_and_roofs(self) -> None:
        peers_torch.run(self.csv, "gelu/f32/268435456", Gpu())
        (row,) = self.cells("p02_torch_compile")
        ours = next(r for r in self.cells("v09_big_blocks")
                    if (r["op"], r["dtype"], r["problem"]) == ("gelu", "f32", "268435456")
                    and r["cache"] == "cold")  # fmt: skip
        for column in ("family", "op", "bytes", "flops", "device", "roof", "git_sha", "driver"):
            self.assertEqual(row[column], ours[column], column)
        self.assertEqual((row["backend"], row["cache"], row["verdict"]), ("cuda", "cold", "passed"))
        self.assertEqual((row["time_us_median"], row["time_us_min"]), ("800", "790"))
        self.assertEqual((row["samples"], row["toolkit"]), ("3", "PyTorch 2"))
        self.assertAlmostEqual(float(row["time_us_p95"]), 827)
        self.assertAlmostEqual(float(row["gbps"]), 8 * 2**28 / 800e3, places=2)
        same = float(ours["roof_pct"]) * float(ours["time_us_median"])
        self.assertAlmostEqual(float(row["roof_pct"]) * 800 / same, 1, places=4)
        self.assertEqual((row["vs_baseline"], row["registers"]), ("", ""))
        ladder_csv.read(self.csv)  # as the other scripts do

    def test_a_peer_that_is_wrong_or_fails_has_no_time(self) -> None:
        peers_torch.run(self.csv, "add/f16/1048576",
                        Gpu(p01_torch="incorrect", p03_triton="failed"))  # fmt: skip
        for kernel, verdict in (("p01_torch", "incorrect"), ("p03_triton", "failed")):
            (row,) = self.cells(kernel)
            self.assertEqual((row["verdict"], row["reason"]), (verdict, "why"))
            self.assertEqual((row["time_us_median"], row["gbps"], row["roof_pct"]), ("", "", ""))

    def test_what_is_there_is_not_measured_again(self) -> None:
        peers_torch.run(self.csv, "add/f16/1048576", Gpu())
        before = self.csv.read_text()
        gpu = Gpu()
        peers_torch.run(self.csv, "add/f16/1048576", gpu)
        self.assertEqual((gpu.asked, self.csv.read_text()), ([], before))
        lines = before.splitlines()
        self.csv.write_text("\n".join(lines[:-1]) + "\n")  # interrupted before the last
        peers_torch.run(self.csv, "add/f16/1048576", gpu)
        self.assertEqual(gpu.asked, [("elementwise/add/f16/1048576", ("p03_triton",))])

    def test_what_peers_cannot_do_is_named_once(self) -> None:
        peers_torch.run(self.csv, "relu/f32/1048576", Gpu())
        self.assertRegex(self.said(), "No peers for .*transpose[.]")
        self.assertEqual(self.said().count("transpose"), 1)

    def test_types_that_peers_cannot_do_are_named(self) -> None:
        like = {"family": "gemm_tensor", "op": "nt", "dtype": "e4m3", "problem": "8x8x8"}
        able, others = peers_torch.known([Problem(like)], Gpu.operations)
        self.assertEqual((able, others), ([], ["gemm_tensor nt e4m3"]))

    def test_another_gpu_is_refused(self) -> None:
        gpu = Gpu()
        gpu.device = "NVIDIA L4"
        with self.assertRaisesRegex(LadderError, "H100.* this is NVIDIA L4: run ./bench here"):
            peers_torch.run(self.csv, "relu", gpu)
        with self.assertRaisesRegex(LadderError, "no problem"):
            peers_torch.run(self.csv, "nothing like it", Gpu())

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

    def test_without_torch_or_gpu_it_says_so(self) -> None:
        result = self.run_it(MEASURED, "-o", "/nowhere/x.csv")
        self.assertEqual(result.returncode, 1, result)
        if "cannot be written" in result.stderr:
            self.skipTest("PyTorch and a GPU are here")
        self.assertRegex(result.stderr, "PyTorch (is missing|finds no NVIDIA GPU) here")
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)

    def test_a_bad_csv_is_one_sentence(self) -> None:
        result = self.run_it("/nowhere/results.csv")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "^/nowhere/results.csv cannot be read")

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

        buffer = types.SimpleNamespace(zero_=lambda: self.enqueue("flush", self.FLUSH))
        cuda = types.SimpleNamespace(
            Event=Event, synchronize=self.synchronize,
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
        self.clock = Clock(self.torch)
        self.time.log.clear()

    def call(self, gpu_us: float, cpu_us: float) -> Any:
        return lambda: self.time.enqueue("call", gpu_us, cpu_us)

    def test_what_is_overwritten_is_twice_the_l2(self) -> None:
        self.torch.empty.assert_called_once_with(100 << 20, dtype="uint8", device="cuda")
        self.assertAlmostEqual(self.clock.flush_s * 1e6, Time.FLUSH, delta=2)

    def test_a_slow_cpu_is_not_in_the_sample(self) -> None:
        for cpu_us in (10, 100, 400):  # more than the GPU takes for flush and call
            ((*us,),) = self.clock.measure([self.call(20, cpu_us)])
            self.assertGreaterEqual(len(us), Runner.MIN)
            for one in us:
                self.assertAlmostEqual(one, 20)

    def test_each_sample_is_cold_and_peers_take_turns(self) -> None:
        calls = [self.call(20, 10), self.call(30, 10)]
        first, second = self.clock.measure(calls)
        self.assertAlmostEqual(statistics.median(first), 20)
        self.assertAlmostEqual(statistics.median(second), 30)
        sample = 2 * ["flush", "event", "call", "event"]
        self.assertEqual(self.time.log[:16], 2 * sample)  # how long the CPU takes
        begin = self.time.log.index("event", 16) - 1
        batch = sample * 2 * Clock.BATCH
        self.assertEqual(self.time.log[begin : begin + len(batch)], batch)

    def test_a_cpu_that_never_keeps_up_is_an_error(self) -> None:
        with self.assertRaises(Timeless):
            self.clock.measure([self.call(20, 40_000)])

    def test_it_stops_as_the_suite_does(self) -> None:
        steady, noisy = Runner(print, [100.0] * 9), Runner(print, [100.0, 200.0] * 499)
        self.assertFalse(steady.done or noisy.done)
        steady.us.append(100.0)
        noisy.us += [100.0, 200.0]
        self.assertTrue(steady.done and noisy.done)
        self.assertFalse(Runner(print, [3e5, 1e5 - 1]).done)
        self.assertTrue(Runner(print, [2e5, 1e5, 1e5]).done)


@unittest.skipUnless(HAS_TORCH, "needs PyTorch")
class Operations(unittest.TestCase):
    SIZES = {"elementwise": (37, 67), "gemm": (37, 45, 100), "gemm_tensor": (64, 48, 96)}

    def each(self) -> Any:
        """Every operation with inputs and their reference, in every type."""
        import torch

        for (family, op), operation in operations(torch).items():
            size = self.SIZES.get(family, (37, 101))
            if family == "reduction" and not op.endswith("_sum"):
                size = (10_007,)
            types = {"gemm_tensor": ("f16", "bf16", "tf32"), "reduction": ("f32", "bf16", "i32")}
            for dtype in types.get(family, ("f32", "f16", "bf16")):
                torch.manual_seed(7)
                inputs = peers_torch.random_inputs(torch, operation, size, dtype, "cpu")
                expected = peers_torch.reference(torch, operation, inputs, size, dtype)
                yield f"{family} {op} {dtype}", operation, inputs, expected

    def test_pytorchs_functions_are_the_formulas(self) -> None:
        for name, operation, inputs, expected in self.each():
            prepared = operation.prepare(*inputs) if operation.prepare else inputs
            eager = operation.eager or operation.formula
            for function, x in ((eager, prepared), (operation.formula, inputs)):
                result = peers_torch.judge(
                    "p01_torch", lambda: function(*x), operation, inputs, expected
                )
                self.assertEqual(result.verdict, "passed", f"{name}: {result.reason}")

    def test_mistakes_are_found(self) -> None:
        for name, operation, inputs, expected in self.each():
            right = peers_torch.parts(operation.formula(*inputs))
            for wrong in self.mistakes(right):
                result = peers_torch.judge(
                    "p01_torch", lambda: wrong, operation, inputs, expected
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


if __name__ == "__main__":
    unittest.main()
