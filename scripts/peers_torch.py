#!/usr/bin/env python3
"""Times the suite's kernels, the vendors', PyTorch's, torch.compile's, Triton's and numba's in one
process.

  v00_...             the vendors' libraries that ./bench compares with
  v01_... and up      the suite's best version for each problem, or those of --versions
  p01_torch           PyTorch's own functions, eager
  p02_torch_compile   the same operation through torch.compile
  p03_triton          a short Triton kernel of ours, where there is one
  p04_torch_cudnn     of attention PyTorch's function by cuDNN; p01_torch is by FlashAttention-2
  p05_numba           a short numba kernel of ours, where there is one

The problems are those that ./bench timed with a cold L2 cache on this GPU. All contestants of a
problem read the same tensors and take turns on PyTorch's current stream by one protocol, that of
./bench --cache=dirty: a buffer of twice the L2's size is overwritten before each launch, up to four make
a sample, all are enqueued before the GPU gets there, and each round has all contestants in a new random
order, one of them twice as if it were two. Each result is first compared with the same formula in
fp64.

Times of two processes can't be compared, so these rows go to a file of their own,
RESULTS-peers.csv. A problem that is there with all its contestants is not measured again, so that an
interrupted run can be gone on with. The last thing printed is a table: how long the fastest other
took in times of the suite's fastest version.

Needs PyTorch, an NVIDIA GPU, and libkernel_ladder.so, which scripts/test builds; triton and numba where
they are to take part.

examples:
  scripts/peers_torch.py results.csv                        makes results-peers.csv
  scripts/peers_torch.py results.csv --filter='softmax/.*/bf16'
  scripts/peers_torch.py results.csv --versions='v0[1-5]' -o first-rungs.csv
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib
import math
import os
import random
import re
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Protocol, Sequence

import ladder_csv
from ladder_csv import LadderError, time_text
from ladder_statistics import Ratio, middle_mean, paired_ratio
from peers.library import (
    CUDA, INPUT, UNSUPPORTED, Kernel, Launcher, Library, LibraryError, memset,
)  # fmt: skip
from peers.operations import Operation, operations

PEERS = {
    "p01_torch": "PyTorch, eager",
    "p02_torch_compile": "torch.compile",
    "p03_triton": "a short Triton kernel",
    "p04_torch_cudnn": "PyTorch, eager, by cuDNN",
    "p05_numba": "a short numba kernel",
}
SEED = 42
SUSPECT_OVER = 103.0  # per cent of the roof, as in ./bench
LIBRARY = ladder_csv.ROOT / "build" / "release" / "libkernel_ladder.so"

# Columns of ./bench that older files lack, behind vs_library_high
COMPARED = ("aa_ratio", "aa_low", "aa_high", "resolution_pct", "vs_fastest", "vs_fastest_low",
            "vs_fastest_high", "fastest")  # fmt: skip


class Element(NamedTuple):
    torch: str  # PyTorch's name of the type
    roundoff: float  # of a result
    subnormal_roundoff: float  # of the smallest results: half of what subnormals are apart
    sum_roundoff: float  # of the arithmetic


DTYPES = {
    "f32": Element("float32", 2.0**-24, 2.0**-150, 2.0**-24),
    "tf32": Element("float32", 2.0**-24, 2.0**-150, 2.0**-24),
    "f16": Element("float16", 2.0**-11, 2.0**-25, 2.0**-24),
    "bf16": Element("bfloat16", 2.0**-8, 2.0**-134, 2.0**-24),
    "f64": Element("float64", 2.0**-53, 0.0, 2.0**-53),
    "i32": Element("int32", 0.0, 0.0, 0.0),
}

# The type of an output's elements, by the library's name of it
OUTPUTS = {dtype: element.torch for dtype, element in DTYPES.items()} | {
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "i8": "int8", "i64": "int64",
    "u8": "uint8", "u32": "uint32", "u64": "uint64",
}  # fmt: skip

Cells = dict[str, str]


# ---- What is to be measured


@dataclass(frozen=True)
class Problem:
    """One problem of one operation and type; `like` is a row of the suite for it, with a time and,
    if any has one, a roof; versions and vendors are the kernels of the suite that take part."""

    like: Cells
    versions: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()

    @property
    def operation(self) -> tuple[str, str]:
        return self.like["family"], self.like["op"]

    @property
    def dtype(self) -> str:
        return self.like["dtype"]

    @property
    def text(self) -> str:
        return self.like["problem"]

    @property
    def size(self) -> list[int]:
        """Empty where its numbers alone don't say what it is."""
        plain = re.fullmatch(r"\d+(x\d+)*", self.text)
        return [int(number) for number in self.text.split("x")] if plain else []

    @property
    def name(self) -> str:
        cells = (self.like[column] for column in ("family", "op", "dtype", "problem"))
        return "/".join(filter(None, cells))

    @property
    def roof_us(self) -> float:
        """How long the problem takes at its roof; NaN where that is not known."""
        return number(self.like, "roof_pct") / 100 * time_us(self.like)

    def roof_pct(self, us: float) -> float:
        """Of a contestant that takes so long."""
        return 100 * self.roof_us / us


def number(cells: Cells, column: str) -> float:
    return float(cells.get(column) or "nan")


def time_us(cells: Cells) -> float:
    """Files of the earlier protocol have the median only."""
    return number(cells, "time_us" if cells.get("time_us") else "time_us_median")


def is_vendor(kernel: str) -> bool:
    return kernel.startswith("v00")


def is_version(kernel: str) -> bool:
    """Of the suite's ladders."""
    return not is_vendor(kernel) and kernel not in PEERS


def problems(rows: Iterable[Cells], versions: str = "") -> list[Problem]:
    """Those that the suite timed on a GPU with a cold cache, in order. versions: a regular expression
    for the versions that take part; without it they have none yet, and the best is to be asked for."""
    groups: dict[str, list[Cells]] = {}
    for row in rows:
        timed = row["backend"] == "cuda" and row["cache"] == "cold" and row["verdict"] == "passed"
        if timed and row["family"] != "roofs" and row["kernel"] not in PEERS:
            groups.setdefault(Problem(row).name, []).append(row)
    found = []
    for group in groups.values():
        like = next((row for row in group if Problem(row).roof_us > 0), group[0])
        kernels = dict.fromkeys(row["kernel"] for row in group)
        rungs = tuple(one for one in kernels if not is_vendor(one) and re.search(versions, one))
        vendors = tuple(filter(is_vendor, kernels))
        if rungs:
            found.append(Problem(like, rungs if versions else (), vendors))
    return found


def known(
    found: Sequence[Problem], operations: Mapping[tuple[str, str], Operation]
) -> tuple[list[Problem], list[str]]:
    """The problems that peers can do, and the names of operations, types and problems that they
    cannot."""
    able, others = [], []
    for one in found:
        if one.operation not in operations:
            others.append(" ".join(filter(None, one.operation)))
        elif one.dtype not in DTYPES:
            others.append(" ".join(filter(None, (*one.operation, one.dtype))))
        elif not (one.size or operations[one.operation].particular):  # a norm's with its own eps
            others.append(" ".join(filter(None, (*one.operation, one.text))))
        elif not operations[one.operation].of(one.text):
            others.append(" ".join(filter(None, (*one.operation, one.text))))
        else:
            able.append(one)
    return able, list(dict.fromkeys(others))


# ---- The clock


class Timeless(Exception):
    """The GPU could not be kept busy while samples were enqueued."""


class Clock:
    """Times calls on the GPU, by the protocol of src/harness/cuda/timer.cpp."""

    MIN, MAX = 12, 1000  # samples of each
    TARGET = 0.005  # half the width of every ratio's 95 % interval
    MAX_US = 2e6  # the sum of the samples of all
    SAMPLE_US, MOST = 1000.0, 4  # calls of a sample: as many as fit, see src/harness/timer.hpp
    BATCH = 8  # rounds enqueued at once, at most
    LEAD = 256  # flushes before the first sample, at most: more than 1000 launches are not queued
    WARM_UP_S = 1.0

    def __init__(self, torch: Any, memset: Callable[[int, int, int], None]) -> None:
        self.torch, self.memset = torch, memset
        self.random = random.Random(SEED)
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
        """By a memset, as ./bench with --cache=dirty: PyTorch's kernel for it would leave the L2 in another state."""
        stream = self.torch.cuda.current_stream().cuda_stream
        self.memset(self.buffer.data_ptr(), self.buffer.nbytes, stream)

    def sample(self, call: Callable[[], Any], launches: int) -> list[tuple[Any, Any]]:
        """Enqueues one; the two events around each of its launches."""
        events = []
        for _ in range(launches):
            start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.flush()
            start.record()
            call()
            stop.record()
            events.append((start, stop))
        return events

    def measure(self, calls: Sequence[Callable[[], Any]]) -> list[list[float]]:
        """Microseconds of each call, which have been called before: as many of each, those with one
        index of one round. Ratios are to the first; who wants an A/A names it twice."""
        cuda = self.torch.cuda
        cuda.synchronize()
        once, call_s = [], []  # and the CPU's time for each
        for call in calls:
            begin = time.perf_counter()
            once.append(self.sample(call, 1)[0])
            call_s.append(time.perf_counter() - begin)
        cuda.synchronize()
        alone_us = (1e3 * start.elapsed_time(stop) for start, stop in once)
        launches = [max(1, min(self.MOST, int(self.SAMPLE_US / us))) for us in alone_us]
        round_s = 2 * sum(n * s for n, s in zip(launches, call_s))

        us: list[list[float]] = [[] for _ in calls]
        batch, late = self.BATCH, 0
        while not self.done(us):
            # Twice the time that the CPU takes for the batch, so that the GPU never waits for it.
            lead = min(self.LEAD, 4 + math.ceil(2 * batch * round_s / self.flush_s))
            for _ in range(lead):
                self.flush()
            samples = []
            for _ in range(batch):
                for one in self.random.sample(range(len(calls)), len(calls)):
                    samples.append((one, self.sample(calls[one], launches[one])))
            first, _ = samples[0][1][0]
            waited = first.query()  # the GPU was at the first before the last was enqueued
            cuda.synchronize()
            if waited:
                late += 1
                if late > 20:
                    raise Timeless("the CPU enqueues calls more slowly than the GPU does them")
                batch, round_s = max(1, batch // 2), 1.5 * round_s
                continue
            for one, events in samples:
                us[one].append(statistics.fmean(1e3 * a.elapsed_time(b) for a, b in events))
        return us

    def done(self, us: Sequence[Sequence[float]]) -> bool:
        n = len(us[0]) if us else self.MAX
        if n < self.MIN or n >= self.MAX:
            return n >= self.MAX
        spent = sum(map(sum, us))
        return spent >= self.MAX_US or all(
            paired_ratio(us[0], other).half_width < self.TARGET for other in us[1:]
        )


def rel_stdev(us: Sequence[float]) -> float:
    return statistics.stdev(us) / statistics.fmean(us) if len(us) > 1 else 0.0


# ---- The contestants


class Result(NamedTuple):
    kernel: str
    idea: str
    verdict: str
    reason: str = ""
    max_err: float = math.nan
    tolerance: float = math.nan
    us: Sequence[float] = ()


@dataclass(frozen=True)
class Group:
    """The contestants of a problem. The first that has a time was measured twice; `again` is its
    other time."""

    results: Sequence[Result]
    again: Sequence[float] = ()

    @property
    def timed(self) -> list[Result]:
        return [one for one in self.results if one.us]

    @property
    def fastest(self) -> Result | None:
        """Of the suite's versions."""
        ours = (one for one in self.timed if is_version(one.kernel))
        return min(ours, key=lambda one: middle_mean(one.us), default=None)

    @property
    def same(self) -> Ratio:
        """A/A: what is measured of two that are one."""
        timed = self.timed
        return paired_ratio(timed[0].us, self.again) if timed else Ratio()

    @property
    def resolution(self) -> float:
        """Ratios nearer to 1 say nothing."""
        return max(abs(self.same.low - 1), abs(self.same.high - 1))

    def is_tied(self, one: Result) -> bool:
        """Whether a version can't be told apart from the fastest."""
        fastest = self.fastest
        return bool(fastest and one.us) and paired_ratio(fastest.us, one.us).high >= 1


class Gpu(Protocol):
    """What run() needs of a GPU; Torch is one."""

    device: str
    toolkit: str
    git_sha: str
    operations: dict[tuple[str, str], Operation]

    def best(self, problem: Problem) -> str: ...

    def measure(self, problem: Problem) -> Group: ...


class Ours:
    """A kernel of the suite on PyTorch's tensors: a call launches it on a stream."""

    def __init__(
        self, torch: Any, library: Library, kernel: Kernel, problem: str, inputs: Sequence[Any],
        stream: int,
    ) -> None:  # fmt: skip
        self.launcher: Launcher = library.open(kernel, problem)
        arrays = self.launcher.arrays
        wanted = [array.bytes for array in arrays if array.role == INPUT]
        given = [x.numel() * x.element_size() for x in inputs]
        if wanted != given:
            raise LibraryError(UNSUPPORTED, f"its inputs have {wanted} bytes, PyTorch's {given}")
        where = {"dtype": torch.uint8, "device": inputs[0].device}
        self.outputs, addresses, next_input = [], [], iter(inputs)
        for array in arrays:
            if array.role == INPUT:
                addresses.append(next(next_input).data_ptr())
                continue
            written = torch.full((array.bytes,), 255, **where)  # NaNs
            self.outputs.append(written.view(getattr(torch, OUTPUTS[array.dtype])))
            addresses.append(written.data_ptr())
        self.launcher.plan()
        self.workspace = torch.empty(self.launcher.bind(addresses), **where)
        if self.workspace.numel() > 0:
            self.launcher.set_workspace(self.workspace.data_ptr())
        self.state = torch.zeros(self.launcher.state_bytes, **where)
        if self.state.numel() > 0:
            self.launcher.set_state(self.state.data_ptr())
        self.stream, self.inputs = stream, inputs

    def __call__(self) -> None:
        self.launcher.launch(self.stream)

    def results(self, shapes: Sequence[Sequence[int]]) -> list[Any]:
        """Those that peers have too, the first ones."""
        return [one.reshape(shape) for one, shape in zip(self.outputs, shapes)]


def kernels_in(package: str) -> Any:
    """Ours, as a module; None where the package is missing."""
    try:
        return importlib.import_module(f"peers.{package}_kernels")
    except ImportError as error:
        print(f"No peers in {package}: {error}.")
        return None


class Torch:
    """PyTorch on GPU 0, and the suite's kernels beside it."""

    where, backend = "cuda", CUDA

    def __init__(self, torch: Any, path: Path) -> None:
        self.torch = torch
        self.find_device()
        try:
            self.library = Library(path)
        except OSError as error:
            raise LadderError(f"{error}; scripts/test builds the library.") from None
        self.kernels = {one.name: one for one in self.library.kernels(self.backend)}
        self.git_sha = self.library.git_sha
        self.triton, self.numba = kernels_in("triton"), kernels_in("numba")
        self.toolkit = f"PyTorch {torch.__version__}"
        self.operations = operations(torch)

    def find_device(self) -> None:
        if not self.torch.cuda.is_available():
            raise LadderError("PyTorch finds no NVIDIA GPU here.")
        self.device = self.torch.cuda.get_device_name(0)
        self.clock = Clock(self.torch, memset())
        self.stream = self.torch.cuda.current_stream().cuda_stream

    def best(self, problem: Problem) -> str:
        operation = "/".join(filter(None, problem.operation))
        try:
            return self.library.best(operation, problem.dtype, self.backend, problem.text).version
        except LibraryError as error:
            raise LadderError(f"{problem.name}: {error}.") from None

    def measure(self, problem: Problem) -> Group:
        """The vendors first, which the others are compared with."""
        torch = self.torch
        operation = self.operations[problem.operation].of(problem.text)
        assert operation  # of those that known() leaves
        torch.compiler.reset()  # or it gives up compiling after some shapes
        torch.set_float32_matmul_precision("high" if problem.dtype == "tf32" else "highest")
        torch.manual_seed(SEED)
        results: list[Result] = []
        try:
            inputs = random_inputs(torch, operation, problem.size, problem.dtype, self.where)
            expected = reference(torch, operation, inputs, problem.size, problem.dtype)
            calls = []
            for name in (*problem.vendors, *problem.versions):
                result, call = self.ours(problem, name, operation, inputs, expected)
                results.append(result)
                calls += [call] if result.verdict == "passed" else []
            for name, call in self.peers(operation, inputs):
                result = judge(name, PEERS[name], call, operation, inputs, expected)
                results.append(result)
                calls += [call] if result.verdict == "passed" else []
            del expected
            torch.cuda.empty_cache()
            *times, again = self.clock.measure([*calls, *calls[:1]]) if calls else [[]]
        except (RuntimeError, LibraryError, Timeless) as error:  # out of memory, for one
            torch.cuda.empty_cache()
            kernels = (*problem.vendors, *problem.versions, *self.peers_of(operation))
            return Group([Result(one, PEERS.get(one, ""), "failed", sentence(error))
                          for one in kernels])  # fmt: skip
        us = iter(times)
        return Group(
            [one._replace(us=next(us)) if one.verdict == "passed" else one for one in results],
            again,
        )

    def ours(
        self, problem: Problem, version: str, operation: Operation, inputs: Sequence[Any],
        expected: Expected,
    ) -> tuple[Result, Any]:  # fmt: skip
        """The check's result, and what is to be timed."""
        name = "/".join(filter(None, (*problem.operation, problem.dtype, version)))
        kernel = self.kernels.get(name)
        if not kernel:
            return Result(version, "", "failed", "the library has no such kernel"), None
        try:
            call = Ours(self.torch, self.library, kernel, problem.like["problem"], inputs,
                        self.stream)  # fmt: skip
        except LibraryError as error:
            verdict = "unsupported" if error.status == UNSUPPORTED else "failed"
            return Result(version, kernel.idea, verdict, str(error)), None

        def checked() -> Any:
            call()
            results = call.results([value.shape for value in expected.values])
            return results if len(results) > 1 else results[0]

        return judge(version, kernel.idea, checked, operation, inputs, expected), call

    def peers_of(self, operation: Operation) -> list[str]:
        there = {
            "p02_torch_compile": operation.compiled,
            "p03_triton": operation.triton and self.triton,
            "p04_torch_cudnn": operation.cudnn,
            "p05_numba": operation.numba and self.numba,
        }
        return [one for one in PEERS if there.get(one, True)]

    def peers(
        self, operation: Operation, inputs: Sequence[Any]
    ) -> Iterable[tuple[str, Callable[[], Any]]]:
        eager = operation.eager or operation.formula
        prepared = operation.prepare(*inputs) if operation.prepare else inputs
        compiled = self.torch.compile(operation.formula, dynamic=False)
        cudnn = operation.cudnn or eager
        calls = {
            "p01_torch": lambda: eager(*prepared),
            "p02_torch_compile": lambda: compiled(*inputs),
            "p03_triton": lambda: getattr(self.triton, operation.triton)(*prepared),
            "p04_torch_cudnn": lambda: cudnn(*inputs),
            "p05_numba": lambda: getattr(self.numba, operation.numba)(*prepared),
        }
        for name in self.peers_of(operation):
            yield name, calls[name]


def random_inputs(
    torch: Any, operation: Operation, size: Sequence[int], dtype: str, device: str = "cuda"
) -> list[Any]:
    """Uniform, or small integers."""
    inputs = []
    for shape in operation.shapes(size):
        x = torch.empty(shape, dtype=getattr(torch, DTYPES[dtype].torch), device=device)
        if dtype == "i32":
            x.random_(-8, 9)
        else:
            x.uniform_(*operation.interval(size))
        if dtype == "tf32":  # cut to its 10 bits, so that nobody has to round them
            x.view(torch.int32).bitwise_and_(-(1 << 13))
        inputs.append(x)
    return list(operation.completed(*inputs))


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
    element = DTYPES[dtype]
    limits = []
    for value in values:
        largest = float(value.abs().max())
        summed = float(operation.magnitude(*wide)) if operation.magnitude else largest
        rounding = max(element.roundoff * largest, element.subnormal_roundoff)
        summing = 8 * math.sqrt(operation.summands(size)) * element.sum_roundoff * summed
        limits.append(operation.roundings * rounding + summing)
    return Expected(values, limits)


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def judge(
    kernel: str, idea: str, call: Callable[[], Any], operation: Operation, inputs: Sequence[Any],
    expected: Expected,
) -> Result:  # fmt: skip
    """A call's results against the reference. A NaN is wrong."""
    try:
        results = parts(operation.judged(call(), *inputs))
    except NotImplementedError as error:
        return Result(kernel, idea, "unsupported", sentence(error))
    except Exception as error:  # whatever a compiler throws
        return Result(kernel, idea, "failed", sentence(error))
    if [tuple(r.shape) for r in results] != [tuple(v.shape) for v in expected.values]:
        return Result(kernel, idea, "incorrect", "its results have another shape")
    verdict, nearest = "passed", -1.0  # to its limit, or furthest over: its error and limit are told
    error_there, limit_there = 0.0, math.nan
    for result, value, limit in zip(results, expected.values, expected.limits):
        error = float((result.double() - value).abs().max())
        if not error <= limit:
            verdict = "incorrect"
        ratio = error / limit if limit > 0 else float(error != 0)
        if not ratio <= nearest:
            nearest, error_there, limit_there = ratio, error, limit
    reason = f"off by {error_there:.3g}, more than {limit_there:.3g}" if verdict == "incorrect" else ""
    return Result(kernel, idea, verdict, reason, error_there, limit_there)


def sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# ---- The rows


def group_rows(problem: Problem, group: Group, gpu: Gpu) -> list[Cells]:
    """Rows as ./bench writes them; what PyTorch does not tell stays empty."""
    return [cells(problem, group, result, gpu) for result in group.results]


def cells(problem: Problem, group: Group, result: Result, gpu: Gpu) -> Cells:
    like = problem.like
    kept = ("family", "op", "dtype", "problem", "backend", "device", "cc", "sms", "cache",
            "flops", "bytes", "intensity", "launch_us", "short", "pin_gbps", "pin_gflops", "driver")  # fmt: skip
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    row = {column: like.get(column, "") for column in kept} | {
        "kernel": result.kernel, "idea": result.idea, "verdict": result.verdict, "flush": "write",
        "reason": result.reason, "max_err": text(result.max_err),
        "tolerance": text(result.tolerance), "seed": str(SEED), "git_sha": gpu.git_sha,
        "toolkit": gpu.toolkit, "timestamp": now,
    }  # fmt: skip
    if result.us:
        us = sorted(result.us)
        middle = middle_mean(us)
        share = problem.roof_pct(middle)
        row |= {
            "processes": "1", "samples": str(len(us)), "time_us": text(middle), "time_us_min": text(us[0]),
            "time_us_median": text(statistics.median(us)), "time_us_p95": text(quantile(us, 0.95)),
            "rel_stdev": text(rel_stdev(us)), "gflops": text(number(like, "flops") / middle / 1e3),
            "gbps": text(number(like, "bytes") / middle / 1e3), "roof": like.get("roof", ""),
            "roof_pct": text(share),
        }  # fmt: skip
        if share > 0:
            row["suspect"] = "yes" if share > SUSPECT_OVER else "no"
        row |= compared(problem, group, result)
    return row


def compared(problem: Problem, group: Group, result: Result) -> Cells:
    """How a contestant did against the others of its rounds."""
    row = ratio_cells("aa_ratio", "aa", group.same)
    row["resolution_pct"] = text(100 * group.resolution)
    vendors = {one.kernel: one.us for one in group.timed if is_vendor(one.kernel)}
    middles = {kernel: middle_mean(us) for kernel, us in vendors.items()}
    library = ladder_csv.fastest_library(
        (kernel, problem.roof_pct(us) > SUSPECT_OVER, us) for kernel, us in middles.items()
    )
    if library:
        row["library"] = library
        row |= ratio_cells("vs_library", "vs_library", paired_ratio(vendors[library], result.us))
    if group.fastest:
        row |= ratio_cells("vs_fastest", "vs_fastest", paired_ratio(group.fastest.us, result.us))
        tied = is_version(result.kernel) and group.is_tied(result)
        row["fastest"] = "yes" if tied else "no"
    return row


def ratio_cells(value: str, bounds: str, ratio: Ratio) -> Cells:
    return {
        value: text(ratio.value), f"{bounds}_low": text(ratio.low), f"{bounds}_high": text(ratio.high)
    }  # fmt: skip


def text(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""


def quantile(sorted_us: Sequence[float], q: float) -> float:
    at = q * (len(sorted_us) - 1)
    low = int(at)
    high = min(low + 1, len(sorted_us) - 1)
    return sorted_us[low] + (at - low) * (sorted_us[high] - sorted_us[low])


# ---- The table at the end


class Comparison(NamedTuple):
    """Of a problem, the rows of the suite's fastest version and of the fastest other contestant; the
    other's time over the version's."""

    problem: str
    version: Cells
    other: Cells
    ratio: Ratio

    @property
    def is_level(self) -> bool:
        """At least: the version can't be told to be slower."""
        return self.ratio.high >= 1


def comparisons(rows: Iterable[Cells]) -> list[Comparison]:
    """Of each problem that has times of a version and of another contestant."""
    groups: dict[str, list[Cells]] = {}
    for row in rows:
        if number(row, "vs_fastest") > 0:
            groups.setdefault(Problem(row).name, []).append(row)
    found = []
    for problem, timed in groups.items():
        ours = [row for row in timed if is_version(row["kernel"])]
        others = [row for row in timed if not is_version(row["kernel"])]
        if ours and others:
            best, other = (
                max(some, key=lambda row: number(row, "vs_fastest")) for some in (ours, others)
            )
            value, high, low = (
                1 / bound if (bound := number(other, column)) > 0 else math.inf
                for column in ("vs_fastest", "vs_fastest_low", "vs_fastest_high")
            )
            found.append(Comparison(problem, best, other, Ratio(value, low, high)))
    return found


def table(rows: Iterable[Cells]) -> str:
    """The suite's fastest version of each problem against the fastest other contestant."""
    found = comparisons(rows)
    if not found:
        return "No problem has times of a version and of another contestant."
    lines = [["problem", "fastest version", "", "fastest other", "", "ratio", "95 % interval", ""]]
    for one in found:
        lines.append([
            one.problem, one.version["kernel"], time_text(time_us(one.version)),
            one.other["kernel"], time_text(time_us(one.other)),
            f"{one.ratio.value:.3f}", f"{one.ratio.low:.3f} to {one.ratio.high:.3f}",
            "" if one.is_level else "slower",
        ])  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines)]
    numbers = (2, 4, 5, 6)
    out = [
        "  ".join(
            cell.rjust(width) if i in numbers else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    ]
    level = sum(one.is_level for one in found)
    said = f"The suite's fastest version is at least level in {level} of {len(found)} problems."
    return "\n".join([*out, said])


# ---- The files


def read(path: Path) -> tuple[list[str], list[Cells]]:
    """The columns and the rows of a CSV of ./bench."""
    table = ladder_csv.read_table(path)
    ladder_csv.rows_of(table)  # or says what is wrong with it
    return table.columns, [cells for _, cells in table.lines]


def peers_path(results: Path) -> Path:
    return results.with_name(f"{results.stem}-peers.csv")


def with_compared(columns: Sequence[str]) -> list[str]:
    """The columns of a CSV by their present names, with those that one of the earlier protocol lacks:
    time_us, COMPARED."""
    columns = [ladder_csv.OLDER.get(one, one) for one in columns]
    if "time_us" not in columns:
        columns.insert(columns.index("time_us_min"), "time_us")
    at = columns.index("vs_library_high") + 1 if "vs_library_high" in columns else len(columns)
    missing = [one for one in COMPARED if one not in columns]
    return [*columns[:at], *missing, *columns[at:]]


def kept_rows(output: Path, able: Sequence[Problem], gpu: Gpu) -> list[Cells]:
    """The rows of an earlier run, without those of problems of which it lacks a contestant, or one
    failed."""
    if not output.exists():
        return []
    columns, rows = read(output)
    if ladder_csv.OLDER.keys() & {*columns}:
        raise LadderError(
            f"{output} has columns of an older ./bench: delete the file or name another with -o."
        )
    elsewhere = next((row for row in rows if row["git_sha"] != gpu.git_sha), None)
    if elsewhere:
        raise LadderError(
            f"{output} was measured with commit {elsewhere['git_sha']}, the library is of "
            f"{gpu.git_sha}: delete the file or name another with -o."
        )
    groups: dict[str, list[Cells]] = {}
    for row in rows:
        groups.setdefault(Problem(row).name, []).append(row)
    for one in able:
        there = groups.get(one.name, [])
        wanted = {*one.versions, *one.vendors, "p01_torch"}
        good = all(row["verdict"] in ("passed", "unsupported") for row in there)
        if not good or not wanted <= {row["kernel"] for row in there}:
            groups.pop(one.name, None)
    return [row for there in groups.values() for row in there]


def run(results: Path, output: Path, pattern: str, versions: str, gpu: Gpu) -> None:
    """Measures the problems of `results` that `output` does not have, and writes them there."""
    columns, rows = read(results)
    able, others = known(problems(rows, versions), gpu.operations)
    if others:
        print(f"No peers for {', '.join(others)}.")
    able = [one for one in able if re.search(pattern, one.name)]
    if not able:
        raise LadderError(f"{results} has no problem, timed on a GPU, that peers can do.")
    elsewhere = [one.like["device"] for one in able if one.like["device"] != gpu.device]
    if elsewhere:
        raise LadderError(
            f"{results} was measured on {elsewhere[0]}, this is {gpu.device}: run ./bench here first."
        )
    able = [one if one.versions else replace(one, versions=(gpu.best(one),)) for one in able]
    kept = kept_rows(output, able, gpu)
    there = {Problem(row).name for row in kept}
    partial = output.with_name(output.name + ".part")
    with open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, with_compared(columns), restval="", extrasaction="ignore",
                                lineterminator="\n")  # fmt: skip
        writer.writeheader()
        writer.writerows(kept)
        file.flush()
        os.replace(partial, output)
        for problem in able:
            if problem.name in there:
                print(f"{problem.name}: nothing new")
                continue
            group = gpu.measure(problem)
            made = group_rows(problem, group, gpu)
            writer.writerows(made)
            file.flush()
            kept += made
            said = ", ".join(
                f"{one.kernel} " + (time_text(statistics.median(one.us)) if one.us else one.verdict)
                for one in group.results
            )
            print(f"{problem.name}: {said}", flush=True)
    print(table(kept))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("csv", type=Path, metavar="RESULTS.csv", help="what ./bench wrote")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.csv",
                        help="where the rows go (default: RESULTS-peers.csv)")  # fmt: skip
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only problems whose family/op/dtype/problem matches")  # fmt: skip
    parser.add_argument("--versions", default="", metavar="REGEX",
                        help="the suite's versions that take part (default: the best)")  # fmt: skip
    parser.add_argument("--library", type=Path, default=LIBRARY, metavar="PATH",
                        help=f"default: {LIBRARY.relative_to(ladder_csv.ROOT)}")  # fmt: skip
    options = parser.parse_args()
    output: Path = options.output or peers_path(options.csv)
    if output.resolve() == options.csv.resolve():
        raise LadderError(f"-o {output}: these rows are of another process, name another file.")
    for option in ("filter", "versions"):
        try:
            re.compile(getattr(options, option))
        except re.error as error:
            raise LadderError(f"--{option}={getattr(options, option)}: {error}.") from None
    read(options.csv)
    try:
        import torch
    except ImportError:
        raise LadderError("PyTorch is missing here: pip install torch.") from None
    gpu = Torch(torch, options.library)
    try:
        run(options.csv, output, options.filter, options.versions, gpu)
    except OSError as error:
        raise LadderError(f"{output} cannot be written: {error.strerror}.") from None


if __name__ == "__main__":
    ladder_csv.run(main)
