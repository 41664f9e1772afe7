#!/usr/bin/env python3
"""Times the problems of a CSV of ./bench with PyTorch, torch.compile and Triton, and adds the rows.

  p01_torch           PyTorch's own functions, eager
  p02_torch_compile   the same operation through torch.compile
  p03_triton          a short Triton kernel of ours, where there is one

The problems are those that ./bench timed with a cold L2 cache on this GPU. The protocol is its own:
a buffer of twice the L2's size is overwritten before each call, each is timed between two events,
two in a row make a sample, all are enqueued before the GPU gets there, and the peers of a problem
take turns. Each result is first compared with the same formula in fp64. Rows are written as they are
made; a peer that the file already has for a problem is not measured again, so that an interrupted
run can be gone on with.

Needs PyTorch and an NVIDIA GPU.

examples:
  scripts/peers_torch.py results.csv                        adds rows to results.csv
  scripts/peers_torch.py results.csv -o with_peers.csv      to a copy of it
  scripts/peers_torch.py results.csv --filter='softmax/.*/bf16'
"""

from __future__ import annotations

import argparse
import csv
import datetime
import math
import re
import shutil
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Protocol, Sequence

import ladder_csv
from ladder_csv import LadderError, time_text
from peers.operations import Operation, operations

PEERS = {
    "p01_torch": "PyTorch, eager",
    "p02_torch_compile": "torch.compile",
    "p03_triton": "a short Triton kernel",
}
SEED = 42
SUSPECT_OVER = 103.0  # per cent of the roof, as in ./bench

# An element type: PyTorch's name of it, the unit roundoff of a result and of the arithmetic.
DTYPES = {
    "f32": ("float32", 2.0**-24, 2.0**-24),
    "tf32": ("float32", 2.0**-24, 2.0**-24),
    "f16": ("float16", 2.0**-11, 2.0**-24),
    "bf16": ("bfloat16", 2.0**-8, 2.0**-24),
    "f64": ("float64", 2.0**-53, 2.0**-53),
    "i32": ("int32", 0.0, 0.0),
}

Cells = dict[str, str]


# ---- What is to be measured


@dataclass(frozen=True)
class Problem:
    """One problem of one operation and type; `like` is a row of the suite for it, with a time and,
    if any has one, a roof."""

    like: Cells

    @property
    def operation(self) -> tuple[str, str]:
        return self.like["family"], self.like["op"]

    @property
    def dtype(self) -> str:
        return self.like["dtype"]

    @property
    def size(self) -> list[int]:
        return [int(number) for number in self.like["problem"].split("x")]

    @property
    def name(self) -> str:
        cells = (self.like[column] for column in ("family", "op", "dtype", "problem"))
        return "/".join(filter(None, cells))

    @property
    def roof_us(self) -> float:
        """How long the problem takes at its roof; NaN where that is not known."""
        return number(self.like, "roof_pct") / 100 * number(self.like, "time_us_median")


def number(cells: Cells, column: str) -> float:
    return float(cells.get(column) or "nan")


def problems(rows: Iterable[Cells]) -> list[Problem]:
    """Those that the suite timed on a GPU with a cold cache, in order."""
    found: dict[str, Problem] = {}
    for row in rows:
        timed = row["backend"] == "cuda" and row["cache"] == "cold" and row["verdict"] == "passed"
        if not timed or row["family"] == "roofs" or row["kernel"] in PEERS:
            continue
        problem = Problem(row)
        if not found.get(problem.name, Problem({})).roof_us > 0:
            found[problem.name] = problem
    return list(found.values())


def known(
    found: Sequence[Problem], operations: Iterable[tuple[str, str]]
) -> tuple[list[Problem], list[str]]:
    """The problems that peers can do, and the names of operations and types that they cannot."""
    ops = set(operations)
    able = [one for one in found if one.operation in ops and one.dtype in DTYPES]
    others = [
        " ".join(filter(None, (*one.operation, one.dtype if one.operation in ops else "")))
        for one in found
        if one not in able
    ]
    return able, list(dict.fromkeys(others))


# ---- The clock


class Timeless(Exception):
    """The GPU could not be kept busy while samples were enqueued."""


@dataclass
class Runner:
    """A call in the rounds of a measurement. When to stop is as in src/harness/timer.hpp."""

    call: Callable[[], Any]
    us: list[float] = field(default_factory=list)

    FEWEST, MIN, MAX = 3, 10, 1000  # samples
    TARGET, MAX_US = 0.005, 0.4e6  # relative standard error of the mean; the sum of the samples

    @property
    def done(self) -> bool:
        n = len(self.us)
        if n >= self.MAX or (n >= self.FEWEST and sum(self.us) >= self.MAX_US):
            return True
        return n >= self.MIN and rel_stdev(self.us) / math.sqrt(n) <= self.TARGET


class Clock:
    """Times calls on the GPU, by the protocol of src/harness/cuda/timer.cpp."""

    BATCH = 8  # rounds enqueued at once, at most
    CALLS = 2  # of a sample, which is their mean: see src/harness/timer.hpp
    LEAD = 256  # flushes before the first sample, at most: more than 1000 launches are not queued
    WARM_UP_S = 1.0

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.buffer = torch.empty(2 * max(l2, 1 << 20), dtype=torch.uint8, device="cuda")
        begin = time.perf_counter()
        flushes = 0
        while flushes == 0 or time.perf_counter() - begin < self.WARM_UP_S:
            for _ in range(50):
                self.flush()
            torch.cuda.synchronize()
            flushes += 50
        self.flush_s = (time.perf_counter() - begin) / flushes

    def flush(self) -> None:
        self.buffer.zero_()

    def sample(self, runner: Runner) -> list[tuple[Any, Any]]:
        """Enqueues one; the two events around each of its calls."""
        events = []
        for _ in range(self.CALLS):
            start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.flush()
            start.record()
            runner.call()
            stop.record()
            events.append((start, stop))
        return events

    def measure(self, calls: Sequence[Callable[[], Any]]) -> list[list[float]]:
        """Microseconds of each call, which have been called before."""
        runners = [Runner(call) for call in calls]
        cuda = self.torch.cuda
        cuda.synchronize()
        begin = time.perf_counter()
        for runner in runners:
            self.sample(runner)
        enqueue_s = time.perf_counter() - begin
        cuda.synchronize()

        batch, late = self.BATCH, 0
        while not all(runner.done for runner in runners):
            # Twice the time that the CPU takes for the batch, so that the GPU never waits for it.
            lead = min(self.LEAD, 4 + math.ceil(2 * batch * enqueue_s / self.flush_s))
            for _ in range(lead):
                self.flush()
            active = [runner for runner in runners if not runner.done]
            samples = [(one, self.sample(one)) for _ in range(batch) for one in active]
            first, _ = samples[0][1][0]
            waited = first.query()  # the GPU was at the first before the last was enqueued
            cuda.synchronize()
            if waited:
                late += 1
                if late > 20:
                    raise Timeless("the CPU enqueues calls more slowly than the GPU does them")
                batch = max(1, batch // 2)
                continue
            for runner, events in samples:
                of_calls = [1e3 * start.elapsed_time(stop) for start, stop in events]
                runner.us.append(statistics.fmean(of_calls))
        return [runner.us for runner in runners]


def rel_stdev(us: Sequence[float]) -> float:
    return statistics.stdev(us) / statistics.fmean(us) if len(us) > 1 else 0.0


# ---- The peers


class Result(NamedTuple):
    kernel: str
    verdict: str
    reason: str = ""
    max_err: float = math.nan
    tolerance: float = math.nan
    us: Sequence[float] = ()


class Gpu(Protocol):
    """What run() needs of a GPU; Torch is one."""

    device: str
    toolkit: str
    operations: dict[tuple[str, str], Operation]

    def measure(self, problem: Problem, wanted: Sequence[str]) -> list[Result]: ...


class Torch:
    """PyTorch on GPU 0."""

    def __init__(self) -> None:
        try:
            import torch
        except ImportError:
            raise LadderError("PyTorch is missing here: pip install torch.") from None
        if not torch.cuda.is_available():
            raise LadderError("PyTorch finds no NVIDIA GPU here.")
        try:
            from peers import triton_kernels
        except ImportError:
            triton_kernels = None  # type: ignore[assignment]
        self.torch, self.triton = torch, triton_kernels
        self.device = torch.cuda.get_device_name(0)
        self.toolkit = f"PyTorch {torch.__version__}"
        self.operations = operations(torch)
        self.clock = Clock(torch)

    def measure(self, problem: Problem, wanted: Sequence[str]) -> list[Result]:
        """A result for each of the wanted peers that there are."""
        torch = self.torch
        operation = self.operations[problem.operation]
        torch.compiler.reset()  # or it gives up compiling after some shapes
        torch.set_float32_matmul_precision("high" if problem.dtype == "tf32" else "highest")
        torch.manual_seed(SEED)
        try:
            inputs = random_inputs(torch, operation, problem.size, problem.dtype)
            expected = reference(torch, operation, inputs, problem.size, problem.dtype)
            results, calls = [], []
            for kernel, call in self.calls(operation, inputs):
                if kernel in wanted:
                    result = judge(kernel, call, operation, inputs, expected)
                    results.append(result)
                    if result.verdict == "passed":
                        calls.append(call)
            del expected
            torch.cuda.empty_cache()
            times = iter(self.clock.measure(calls))
        except (RuntimeError, Timeless) as error:  # out of memory, for one
            torch.cuda.empty_cache()
            return [Result(kernel, "failed", sentence(error)) for kernel in wanted]
        return [one._replace(us=next(times)) if one.verdict == "passed" else one for one in results]

    def calls(
        self, operation: Operation, inputs: Sequence[Any]
    ) -> Iterable[tuple[str, Callable[[], Any]]]:
        eager = operation.eager or operation.formula
        prepared = operation.prepare(*inputs) if operation.prepare else inputs
        yield "p01_torch", lambda: eager(*prepared)
        compiled = self.torch.compile(operation.formula, dynamic=False)
        yield "p02_torch_compile", lambda: compiled(*inputs)
        if operation.triton and self.triton:
            ours = getattr(self.triton, operation.triton)
            yield "p03_triton", lambda: ours(*inputs)


def random_inputs(
    torch: Any, operation: Operation, size: Sequence[int], dtype: str, device: str = "cuda"
) -> list[Any]:
    """Uniform, or small integers."""
    inputs = []
    for shape in operation.shapes(size):
        x = torch.empty(shape, dtype=getattr(torch, DTYPES[dtype][0]), device=device)
        if dtype == "i32":
            x.random_(-8, 9)
        else:
            x.uniform_(*operation.interval(size))
        if dtype == "tf32":  # cut to its 10 bits, so that nobody has to round them
            x.view(torch.int32).bitwise_and_(-(1 << 13))
        inputs.append(x)
    return inputs


class Expected(NamedTuple):
    """Results in fp64, and how far off the largest of each may be."""

    values: list[Any]
    limits: list[float]


def reference(
    torch: Any, operation: Operation, inputs: Sequence[Any], size: Sequence[int], dtype: str
) -> Expected:
    """Of the formula. A result may be off by the roundings to its type, and by 8 sqrt(n) roundings
    of the arithmetic for a sum of n (as in the suite: Higham and Mary, 2019), of the largest."""
    wide = [x.double() for x in inputs]
    values = parts(operation.judged(operation.formula(*wide), *wide))
    _, of_result, of_sum = DTYPES[dtype]
    limits = []
    for value in values:
        largest = float(value.abs().max())
        summed = float(operation.magnitude(*wide)) if operation.magnitude else largest
        limit = operation.roundings * of_result * largest
        limits.append(limit + 8 * math.sqrt(operation.summands(size)) * of_sum * summed)
    return Expected(values, limits)


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def judge(
    kernel: str, call: Callable[[], Any], operation: Operation, inputs: Sequence[Any],
    expected: Expected,
) -> Result:  # fmt: skip
    """A call's results against the reference. A NaN is wrong."""
    try:
        results = parts(operation.judged(call(), *inputs))
    except Exception as error:  # whatever a compiler throws
        return Result(kernel, "failed", sentence(error))
    if [tuple(r.shape) for r in results] != [tuple(v.shape) for v in expected.values]:
        return Result(kernel, "incorrect", "its results have another shape")
    verdict, worst, nearest = "passed", 0.0, -1.0
    limit_there = math.nan
    for result, value, limit in zip(results, expected.values, expected.limits):
        error = float((result.double() - value).abs().max())
        if not error <= limit:
            verdict = "incorrect"
        worst = error if not error <= worst else worst
        ratio = error / limit if limit > 0 else float(error != 0)
        if not ratio <= nearest:
            nearest, limit_there = ratio, limit
    reason = f"off by {worst:.3g}, more than {limit_there:.3g}" if verdict == "incorrect" else ""
    return Result(kernel, verdict, reason, worst, limit_there)


def sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# ---- The rows


def cells(problem: Problem, result: Result, toolkit: str) -> Cells:
    """A row as ./bench writes it; what PyTorch does not tell stays empty."""
    like = problem.like
    kept = ("family", "op", "dtype", "problem", "backend", "device", "cc", "cache", "flops",
            "bytes", "intensity", "pin_gbps", "pin_gflops", "git_sha", "driver")  # fmt: skip
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    row = {column: like.get(column, "") for column in kept} | {
        "kernel": result.kernel, "idea": PEERS[result.kernel], "verdict": result.verdict,
        "reason": result.reason, "max_err": text(result.max_err),
        "tolerance": text(result.tolerance), "seed": str(SEED), "toolkit": toolkit,
        "timestamp": now,
    }  # fmt: skip
    if result.us:
        us = sorted(result.us)
        middle = statistics.median(us)
        share = 100 * problem.roof_us / middle
        row |= {
            "samples": str(len(us)), "time_us_min": text(us[0]), "time_us_median": text(middle),
            "time_us_p95": text(quantile(us, 0.95)), "rel_stdev": text(rel_stdev(us)),
            "gflops": text(number(like, "flops") / middle / 1e3),
            "gbps": text(number(like, "bytes") / middle / 1e3), "roof": like.get("roof", ""),
            "roof_pct": text(share),
        }  # fmt: skip
        if share > 0:
            row["suspect"] = "yes" if share > SUSPECT_OVER else "no"
    return row


def text(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""


def quantile(sorted_us: Sequence[float], q: float) -> float:
    at = q * (len(sorted_us) - 1)
    low = int(at)
    high = min(low + 1, len(sorted_us) - 1)
    return sorted_us[low] + (at - low) * (sorted_us[high] - sorted_us[low])


def read(path: Path) -> tuple[list[str], list[Cells]]:
    """The columns and the rows of a CSV of ./bench."""
    ladder_csv.read(path)  # or says what is wrong with it
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        return list(reader.fieldnames or []), list(reader)


def run(path: Path, pattern: str, gpu: Gpu) -> None:
    """Measures what the file at `path` has no peers for, and appends the rows."""
    columns, rows = read(path)
    able, others = known(problems(rows), gpu.operations)
    if others:
        print(f"No peers for {', '.join(others)}.")
    able = [one for one in able if re.search(pattern, one.name)]
    if not able:
        raise LadderError(f"{path} has no problem, timed on a GPU, that peers can do.")
    elsewhere = [one.like["device"] for one in able if one.like["device"] != gpu.device]
    if elsewhere:
        raise LadderError(
            f"{path} was measured on {elsewhere[0]}, this is {gpu.device}: run ./bench here first."
        )
    there = {(Problem(row).name, row["kernel"]) for row in rows}
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        for problem in able:
            wanted = [kernel for kernel in PEERS if (problem.name, kernel) not in there]
            results = gpu.measure(problem, wanted) if wanted else []
            for result in results:
                writer.writerow(cells(problem, result, gpu.toolkit))
            file.flush()
            said = [
                f"{r.kernel} " + (time_text(statistics.median(r.us)) if r.us else r.verdict)
                for r in results
            ]
            print(f"{problem.name}: {', '.join(said) or 'nothing new'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("csv", type=Path, metavar="RESULTS.csv", help="what ./bench wrote")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.csv",
                        help="a copy that gets the rows, made if it is not there "
                             "(default: RESULTS.csv itself)")  # fmt: skip
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only problems whose family/op/dtype/problem matches")  # fmt: skip
    options = parser.parse_args()
    output: Path = options.output or options.csv
    read(options.csv)
    gpu = Torch()
    try:
        if not output.exists():
            shutil.copy(options.csv, output)
        run(output, options.filter, gpu)
    except OSError as error:
        raise LadderError(f"{output} cannot be written: {error.strerror}.") from None
    except re.error as error:
        raise LadderError(f"--filter={options.filter}: {error}.") from None


if __name__ == "__main__":
    try:
        main()
    except LadderError as error:
        ladder_csv.fail(error)
