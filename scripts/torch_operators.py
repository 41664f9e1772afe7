#!/usr/bin/env python3
"""Times the operators of the package kernel_ladder beside PyTorch's own, in one process: three tables.

  operators  each operator, PyTorch's function for the same, and torch.compile of it, on the GPU, by the
             protocol of scripts/peers_torch.py: a cold L2 cache, equal rounds, results compared with fp64
  overhead   what a call takes of the CPU, with empty tensors and with tiny ones, and a launch in a CUDA
             graph: kernel_ladder.ops, torch.ops.kernel_ladder, PyTorch's function, and the same function
             called through torch.ops, as every operator that is not PyTorch's own is
  block      a Llama layer of random weights, forward and backward: eager, torch.compile, after
             kernel_ladder.patch, and both; the errors are to fp64

Each row of the CSV is a contestant; `ratio` is its time over kernel_ladder's of the same rounds (in
`block`, over the patched model's), above 1 is slower. Needs an NVIDIA GPU, PyTorch, the installed package
(pip install .) and, for the block, transformers.

examples:
  scripts/torch_operators.py -o operators.csv
  scripts/torch_operators.py -o operators.csv --table=operators --filter='softmax|attention'
"""

from __future__ import annotations

import argparse
import copy
import csv
import datetime
import importlib.util
import re
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import ladder_csv
from ladder_csv import LadderError, time_text
from ladder_statistics import middle_mean, paired_ratio
from peers.library import Library, LibraryError, memset
from peers.operations import operations
from peers_torch import SEED, Clock, Timeless, judge, random_inputs, reference, sentence, text

OURS = "kernel_ladder"
TABLES = ("operators", "overhead", "block")
COLUMNS = (
    "table", "name", "dtype", "problem", "contestant", "verdict", "reason", "max_err", "tolerance",
    "samples", "time_us", "ratio", "ratio_low", "ratio_high", "resolution_pct",
    "device", "driver", "toolkit", "git_sha", "timestamp",
)  # fmt: skip
Cells = dict[str, str]
Function = Callable[..., Any]


class Timed(NamedTuple):
    """A contestant: what of it is said, and its samples, if it has any."""

    contestant: str
    us: Sequence[float]
    verdict: str = "passed"
    reason: str = ""
    max_err: float = float("nan")
    tolerance: float = float("nan")


def rows_of(table: str, name: str, dtype: str, problem: str, timed: Sequence[Timed],
            again: Sequence[float] = ()) -> list[Cells]:  # fmt: skip
    """Ratios are to the first; `again` are its samples as a contestant of its own, which tell what the
    run can't tell apart."""
    first = timed[0].us
    same = paired_ratio(first, again) if first and again else None
    rows = []
    for one in timed:
        row = {
            "table": table, "name": name, "dtype": dtype, "problem": problem,
            "contestant": one.contestant, "verdict": one.verdict, "reason": one.reason,
            "max_err": text(one.max_err), "tolerance": text(one.tolerance),
        }  # fmt: skip
        if one.us:
            row |= {"samples": str(len(one.us)), "time_us": text(middle_mean(one.us))}
        if one.us and first:
            ratio = paired_ratio(one.us, first)
            row |= {"ratio": text(ratio.value), "ratio_low": text(ratio.low), "ratio_high": text(ratio.high)}
        if same:
            row["resolution_pct"] = text(100 * max(abs(same.low - 1), abs(same.high - 1)))
        rows.append(row)
    return rows


# ---- Operators


@dataclass(frozen=True)
class Operator:
    """One of ours, for the inputs of an operation of the suite."""

    name: str
    operation: tuple[str, str]  # family and op
    problem: str
    call: Function
    dtypes: Sequence[str] = ("bf16", "f32")


def operators(kl: Any, torch: Any) -> list[Operator]:
    ops, raw = kl.ops, torch.ops.kernel_ladder
    rows, many, square = "8192x4096", "67108864", "8192x8192"
    llama = "4096x14336x4096"  # a feed-forward network's, of 4096 tokens
    narrow = ("bf16",)

    def attention(causal: bool) -> Function:
        return lambda q, k, v: ops.attention(q, k, v, causal)[0]

    def attention_backward(causal: bool) -> Function:
        return lambda q, k, v, o, lse, d_o: raw.attention_backward(d_o, q, k, v, o, lse, causal)

    return [
        Operator("softmax", ("softmax", ""), rows, ops.softmax),
        Operator("log_softmax", ("softmax", "log"), rows, ops.log_softmax),
        Operator("causal_softmax", ("softmax", "causal"), square, ops.causal_softmax, narrow),
        Operator("softmax_backward", ("softmax", "backward"), rows,
                 lambda y, dy: raw.softmax_backward(dy, y), narrow),
        Operator("layer_norm", ("layernorm", ""), rows,
                 lambda x, w, b: ops.layer_norm(x, w.shape, w, b)),
        Operator("add_layer_norm", ("layernorm", "add"), rows,
                 lambda x, w, b, r: ops.add_layer_norm(x, r, w, b), narrow),
        Operator("layer_norm_backward", ("layernorm", "backward"), rows,
                 lambda x, w, dy: raw.layer_norm_backward(dy, x, w), narrow),
        Operator("rms_norm", ("rmsnorm", ""), rows, lambda x, w: ops.rms_norm(x, w.shape, w, 1e-5)),
        Operator("add_rms_norm", ("rmsnorm", "add"), rows,
                 lambda x, w, r: ops.add_rms_norm(x, r, w), narrow),
        Operator("rms_norm_backward", ("rmsnorm", "backward"), rows,
                 lambda x, w, dy: raw.rms_norm_backward(dy, x, w), narrow),
        Operator("relu", ("elementwise", "relu"), many, ops.relu, narrow),
        Operator("gelu", ("elementwise", "gelu"), many, ops.gelu),
        Operator("gelu_tanh", ("elementwise", "gelu_tanh"), many, ops.gelu_tanh, narrow),
        Operator("silu_mul", ("elementwise", "silu_mul"), many, ops.silu_mul, narrow),
        Operator("bias_gelu_residual", ("elementwise", "bias_gelu_residual"), rows,
                 ops.bias_gelu_residual, narrow),
        Operator("sum", ("reduction", "sum"), many, ops.sum),
        Operator("row_sum", ("matrix_reduction", "row_sum"), rows, ops.row_sum, narrow),
        Operator("col_sum", ("matrix_reduction", "col_sum"), rows, ops.col_sum, narrow),
        Operator("transpose", ("transpose", ""), square, ops.transpose, narrow),
        Operator("mm", ("gemm", ""), "4096x4096x4096", ops.mm, ("f32",)),
        Operator("mm", ("gemm_tensor", "nn"), llama, ops.mm, narrow),
        Operator("mm of a.T", ("gemm_tensor", "tn"), llama, lambda a, b: ops.mm(a.T, b), narrow),
        Operator("mm of b.T", ("gemm_tensor", "nt"), llama, lambda a, b: ops.mm(a, b.T), narrow),
        Operator("addmm_gelu", ("gemm_tensor", "nt_bias_gelu"), llama,
                 lambda a, b, bias: ops.addmm_gelu(bias, a, b.T), narrow),
        Operator("attention", ("attention", ""), "4x16x4096x128", attention(False), narrow),
        Operator("attention, causal", ("attention", "causal"), "4x32:8x4096x128", attention(True), narrow),
        Operator("attention_backward, causal", ("attention", "causal_backward"), "4x16x4096x128",
                 attention_backward(True), narrow),
    ]  # fmt: skip


def numbers(problem: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", problem)]


def measure_operator(tables: Tables, one: Operator, dtype: str) -> list[Cells]:
    torch = tables.torch
    operation = tables.operations[one.operation].of(one.problem)
    assert operation
    size = numbers(one.problem)
    torch.compiler.reset()  # or it gives up compiling after some shapes
    torch.manual_seed(SEED)
    inputs = random_inputs(torch, operation, size, dtype, tables.where)
    expected = reference(torch, operation, inputs, size, dtype)
    eager = operation.eager or operation.formula
    prepared = operation.prepare(*inputs) if operation.prepare else inputs
    contestants: dict[str, Function] = {
        OURS: lambda: one.call(*inputs), "p01_torch": lambda: eager(*prepared)
    }  # fmt: skip
    if operation.compiled:
        compiled = torch.compile(operation.formula, dynamic=False)
        contestants["p02_torch_compile"] = lambda: compiled(*inputs)
    if operation.cudnn:
        contestants["p04_torch_cudnn"] = lambda: operation.cudnn(*inputs)
    judged = [
        judge(name, "", call, operation, inputs, expected) for name, call in contestants.items()
    ]
    del expected
    good = [contestants[result.kernel] for result in judged if result.verdict == "passed"]
    *times, again = tables.clock.measure([*good, good[0]]) if good else [[]]
    us = iter(times)
    timed = [
        Timed(result.kernel, next(us) if result.verdict == "passed" else (), *result[2:6])
        for result in judged
    ]
    return rows_of("operators", one.name, dtype, one.problem, timed, again)


# ---- Overhead


class Calls(NamedTuple):
    """The same call, four ways."""

    ours: Function  # kernel_ladder.ops
    raw: Function  # torch.ops.kernel_ladder
    torchs: Function
    aten: Function  # the same through torch.ops


def overhead_calls(kl: Any, torch: Any, where: str) -> dict[str, tuple[Calls, Callable[[int], list[Any]]]]:
    """With what makes inputs of so many rows; of none they are empty."""
    ops, raw, aten, F = kl.ops, torch.ops.kernel_ladder, torch.ops.aten, torch.nn.functional
    cols = 64

    def shaped(*shapes: Callable[[int], tuple[int, ...]]) -> Callable[[int], list[Any]]:
        def make(rows: int) -> list[Any]:
            return [torch.zeros(shape(rows), dtype=torch.bfloat16, device=where) for shape in shapes]

        return make

    def rows(n: int) -> tuple[int, ...]:
        return n, cols

    def vector(n: int) -> tuple[int, ...]:
        return (cols,)

    def heads(n: int) -> tuple[int, ...]:
        return 1, 2, n, 64

    return {
        "softmax": (
            Calls(ops.softmax, raw.softmax, lambda x: torch.softmax(x, -1),
                  lambda x: aten.softmax.int(x, -1)),
            shaped(rows),
        ),
        "gelu": (Calls(ops.gelu, raw.gelu, F.gelu, aten.gelu.default), shaped(rows)),
        "layer_norm": (
            Calls(lambda x, w, b: ops.layer_norm(x, (cols,), w, b), raw.layer_norm,
                  lambda x, w, b: F.layer_norm(x, (cols,), w, b),
                  lambda x, w, b: aten.layer_norm.default(x, (cols,), w, b)),
            shaped(rows, vector, vector),
        ),
        "rms_norm": (
            Calls(lambda x, w: ops.rms_norm(x, (cols,), w, 1e-5), raw.rms_norm,
                  lambda x, w: F.rms_norm(x, (cols,), w, 1e-5),
                  lambda x, w: aten.rms_norm.default(x, (cols,), w, 1e-5)),
            shaped(rows, vector),
        ),
        "sum": (Calls(ops.sum, raw.sum, torch.sum, aten.sum.default), shaped(rows)),
        "mm": (
            Calls(ops.mm, raw.mm, torch.mm, aten.mm.default), shaped(rows, lambda n: (cols, cols))
        ),
        "attention": (
            Calls(ops.attention, raw.attention, F.scaled_dot_product_attention,
                  aten.scaled_dot_product_attention.default),
            shaped(heads, heads, heads),
        ),
    }  # fmt: skip


def cpu_us(torch: Any, calls: Sequence[Function], rounds: int = 40, times: int = 100) -> list[list[float]]:
    """What each takes of the CPU: so few that the GPU's queue never fills, by turns."""
    us: list[list[float]] = [[] for _ in calls]
    for round_ in range(-2, rounds):
        for one, call in enumerate(calls):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(times):
                call()
            spent = time.perf_counter() - begin
            if round_ >= 0:
                us[one].append(1e6 * spent / times)
    torch.cuda.synchronize()
    return us


def gpu_us(torch: Any, calls: Sequence[Function], rounds: int = 20) -> list[list[float]]:
    """What each takes from its first launch to the end of its last, by turns; the GPU has nothing else to
    do, and so waits for the CPU where that is slower."""
    us: list[list[float]] = [[] for _ in calls]
    for round_ in range(-2, rounds):
        for one, call in enumerate(calls):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            call()
            stop.record()
            torch.cuda.synchronize()
            if round_ >= 0:
                us[one].append(1e3 * start.elapsed_time(stop))
    return us


def graph_us(torch: Any, calls: Sequence[Function], times: int = 100) -> list[list[float]]:
    """What a call takes of the GPU in a CUDA graph of many, one behind the other."""
    graphs = []
    for call in calls:
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(times):
                call()
        graphs.append(graph)
    return [[us / times for us in some] for some in gpu_us(torch, [g.replay for g in graphs])]


def measure_overhead(
    tables: Tables, name: str, calls: Calls, make: Callable[[int], list[Any]]
) -> list[Cells]:
    torch = tables.torch
    contestants = (OURS, "torch.ops.kernel_ladder", "p01_torch", "torch.ops.aten")
    rows = []
    for problem, count in (("empty", 0), ("tiny", 8)):
        inputs = make(count)
        bound = [lambda call=call: call(*inputs) for call in calls]
        us = tables.cpu_us(torch, bound)
        rows += rows_of("overhead", name, "bf16", problem, [Timed(*pair) for pair in zip(contestants, us)])
    pair = [bound[0], bound[2]]
    us = tables.graph_us(torch, pair)
    timed = [Timed(OURS, us[0]), Timed("p01_torch", us[1])]
    return rows + rows_of("overhead", name, "bf16", "tiny, in a CUDA graph", timed)


# ---- The block


class Block(NamedTuple):
    batch: int
    tokens: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int


LLAMA_8B = Block(1, 4096, 4096, 14336, 32, 8)


def llama(transformers: Any, torch: Any, block: Block, where: str) -> Any:
    """A model of one layer, between an embedding that is not used and a norm."""
    config = transformers.LlamaConfig(
        hidden_size=block.hidden, intermediate_size=block.intermediate, num_hidden_layers=1,
        num_attention_heads=block.heads, num_key_value_heads=block.kv_heads,
        head_dim=128, vocab_size=8, rms_norm_eps=1e-5, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(SEED)
    return transformers.LlamaModel(config).to(where, torch.bfloat16)


def measure_block(tables: Tables, block: Block = LLAMA_8B) -> list[Cells]:
    import transformers

    torch = tables.torch
    torch.compiler.reset()
    eager = llama(transformers, torch, block, tables.where)
    patched = copy.deepcopy(eager)
    print(tables.kl.patch(patched))
    models = {
        "patched": patched, "p01_torch": eager,
        "p02_torch_compile": torch.compile(eager, dynamic=False),
        "patched, torch.compile": torch.compile(patched, dynamic=False),
    }  # fmt: skip
    shape = block.batch, block.tokens, block.hidden
    x = torch.randn(shape, device=tables.where, dtype=torch.bfloat16).requires_grad_()
    dy = torch.randn(shape, device=tables.where, dtype=torch.bfloat16)

    def forward(model: Any) -> Any:
        return model(inputs_embeds=x).last_hidden_state

    def gradients(model: Any, x: Any, dy: Any) -> list[Any]:
        y = model(inputs_embeds=x).last_hidden_state
        parameters = [p for name, p in model.named_parameters() if "embed_tokens" not in name]
        return [y, *torch.autograd.grad(y, [x, *parameters], dy)]

    def without_gradients(model: Any) -> Any:
        with torch.no_grad():
            return forward(model)

    wide = copy.deepcopy(eager).double()
    truth = gradients(wide, x.detach().double().requires_grad_(), dy.double())
    del wide
    rows = []
    problem = f"{block.batch}x{block.tokens} tokens"
    errors = {}
    for name, model in models.items():
        found = gradients(model, x, dy)
        with torch.no_grad():
            errors[name] = max(float((a - b).norm() / b.norm()) for a, b in zip(found, truth))
    del truth, found
    for what, run in (
        ("forward", without_gradients), ("forward and backward", lambda model: gradients(model, x, dy))
    ):  # fmt: skip
        calls = [lambda model=model: run(model) for model in models.values()]
        for call in calls:
            call(), call()  # compiles
        *times, again = tables.gpu_us(torch, [*calls, calls[0]])
        timed = [Timed(name, us, max_err=errors[name]) for name, us in zip(models, times)]
        rows += rows_of("block", f"Llama layer, {what}", "bf16", problem, timed, again)
    return rows


# ---- All of it


class QuickClock(Clock):
    """Of so many operators that each has to be brief."""

    MAX_US = 4e5
    TARGET = 0.01


class Tables:
    """What the tables need: PyTorch, the package, a GPU, and clocks."""

    where = "cuda"
    cpu_us, gpu_us, graph_us = map(staticmethod, (cpu_us, gpu_us, graph_us))

    def __init__(self, torch: Any, kl: Any) -> None:
        self.torch, self.kl, self.operations = torch, kl, operations(torch)
        self.library = Library(Path(kl.__file__).with_name("libkernel_ladder.so"))
        self.find_device()

    def find_device(self) -> None:
        if not self.torch.cuda.is_available():
            raise LadderError("PyTorch finds no NVIDIA GPU here.")
        self.device = self.torch.cuda.get_device_name(0)
        self.clock: Any = QuickClock(self.torch, memset())

    def provenance(self) -> Cells:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "device": self.device, "driver": driver(), "toolkit": f"PyTorch {self.torch.__version__}",
            "git_sha": self.library.git_sha, "timestamp": now,
        }  # fmt: skip

    def groups(self, chosen: Sequence[str]) -> Iterator[tuple[str, Callable[[], list[Cells]]]]:
        """Names, and what measures them."""
        if "overhead" in chosen:
            for name, (calls, make) in overhead_calls(self.kl, self.torch, self.where).items():
                yield f"overhead/{name}", partial(measure_overhead, self, name, calls, make)
        if "block" in chosen and importlib.util.find_spec("transformers"):
            yield "block", partial(measure_block, self)
        if "operators" in chosen:
            for one in operators(self.kl, self.torch):
                for dtype in one.dtypes:
                    name = f"operators/{one.name}/{dtype}/{one.problem}"
                    yield name, partial(measure_operator, self, one, dtype)


def driver() -> str:
    version = Path("/proc/driver/nvidia/version")
    found = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", version.read_text()) if version.exists() else None
    return found[1] if found else ""


def table(rows: Sequence[Cells]) -> str:
    """A line per group: our time, and how long each other took in times of it."""
    groups: dict[tuple[str, ...], list[Cells]] = {}
    for row in rows:
        key = tuple(row[column] for column in ("table", "name", "dtype", "problem"))
        groups.setdefault(key, []).append(row)
    lines = []
    for (_, *key), group in groups.items():
        said = []
        for row in group:
            name, us = row["contestant"], row.get("time_us")
            if not us:
                said.append(f"{name} {row['verdict']}: {row['reason']}")
            elif row is group[0]:
                said.append(f"{name} {time_text(float(us))}")
            else:
                said.append(f"{name} {time_text(float(us))}, {float(row.get('ratio') or 'nan'):.3f}x")
        lines.append(f"{' '.join(key)}: " + " · ".join(said))
    return "\n".join(lines)


def run(tables: Tables, output: Path, chosen: Sequence[str], pattern: str) -> None:
    rows: list[Cells] = []
    failed = 0
    groups = [one for one in tables.groups(chosen) if re.search(pattern, one[0])]
    if not groups:
        raise LadderError(f"--filter={pattern} matches none of the measurements.")
    if "block" in chosen and not importlib.util.find_spec("transformers"):
        print("No block: transformers is not installed here (pip install transformers).")
    with open(output, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        for name, measure in groups:
            try:
                made = measure()
            except (RuntimeError, LibraryError, Timeless) as error:  # out of memory, for one
                failed += 1
                print(f"{name}: failed: {sentence(error)}", flush=True)
                continue
            made = [row | tables.provenance() for row in made]
            failed += any(row["contestant"] == OURS and row["verdict"] != "passed" for row in made)
            writer.writerows(made)
            file.flush()
            rows += made
            print(table(made), flush=True)
    if failed:
        raise LadderError(f"{failed} of {len(groups)} measurements failed.")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.csv",
                        help="where the rows go")  # fmt: skip
    parser.add_argument("--table", action="append", choices=TABLES, help="one of the three (default: all)")
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only measurements whose table/name/dtype/problem matches")  # fmt: skip
    options = parser.parse_args()
    try:
        re.compile(options.filter)
    except re.error as error:
        raise LadderError(f"--filter={options.filter}: {error}.") from None
    try:
        import torch
    except ImportError:
        raise LadderError("PyTorch is missing here: pip install torch.") from None
    try:
        import kernel_ladder
    except ImportError:
        raise LadderError("The package kernel_ladder is missing here: pip install .") from None
    try:
        run(Tables(torch, kernel_ladder), options.output, options.table or TABLES, options.filter)
    except OSError as error:
        raise LadderError(f"{options.output} cannot be written: {error.strerror}.") from None


if __name__ == "__main__":
    ladder_csv.run(main)
