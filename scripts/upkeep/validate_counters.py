#!/usr/bin/env python3
"""Compares the host executor's counts with the GPU's own counters, kernel by kernel.

Every kernel that runs on both is counted by `./bench --backend=host`, with as many SMs as the GPU
has, on its family's small host problems, and launched once on the same problems and inputs under
Nsight Compute. A pair is one
counter of one kernel on one problem, where either side is not zero. Writes
results/<gpu>/counters.csv; exits with 1 when a pair differs for no known cause, when a kernel is
missing on the GPU, or when less than 95 % of the pairs are equal.

examples:
  scripts/upkeep/validate_counters.py                         everything; needs a GPU and ncu
  scripts/upkeep/validate_counters.py --filter=reduction      some kernels, by name; writes no file
  scripts/upkeep/validate_counters.py --ncu-csv=build/release/counters.ncu.csv    Nsight Compute's output of
                                                    an earlier run, instead of a new one
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Iterable, NamedTuple, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from ladder_csv import ROOT, read_table, results_folder, run  # noqa: E402

ENOUGH = 95.0  # per cent of the pairs

# What the host's columns are called by the hardware. A tuple of metrics is summed; the first whose
# metrics this ncu knows is taken.
L1 = "l1tex__"
GLOBAL = {"ld": ("ld",), "st": ("st",), "atomic": ("atom", "red")}
SHARED = {"ld": "ld", "st": "st", "atomic": "atom"}
METRICS: dict[str, list[tuple[str, ...]]] = {}
for kind, ops in GLOBAL.items():
    for unit in ("requests", "sectors"):
        METRICS[f"global_{kind}_{unit}"] = [
            tuple(f"{L1}t_{unit}_pipe_lsu_mem_global_op_{op}.sum" for op in ops)
        ]
for kind, op in SHARED.items():
    METRICS[f"shared_{kind}_requests"] = [
        (f"smsp__inst_executed_op_shared_{op}_pred_on_any.sum",),
    ]
    METRICS[f"shared_{kind}_wavefronts"] = [
        (f"{L1}data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum",)
    ]
LDMATRIX = "smsp__inst_executed_op_ldsm.sum"
METRICS["shared_ld_requests"].insert(0, (*METRICS["shared_ld_requests"][0], LDMATRIX))
# Of the instructions. The unit's own count, above, is more where something else uses shared memory
# at the same time, as wgmma and the copy engine do, and another number in every run.
SASS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_"
for kind, ops in {"ld": ("ld", "ldsm"), "st": ("st", "stsm")}.items():
    METRICS[f"shared_{kind}_wavefronts"].insert(0, tuple(f"{SASS}{op}.sum" for op in ops))
METRICS["async_requests"] = [("smsp__inst_executed_op_ldgsts.sum",)]  # cp.async, its shared side
METRICS["async_wavefronts"] = [(f"{SASS}ldgsts.sum",)]
METRICS["stmatrix_requests"] = [("smsp__inst_executed_op_shared_stsm_pred_on_any.sum",)]
METRICS["wgmma_bytes"] = [("smsp__sass_data_bytes_mem_shared_op_gmma.sum",)]
# Of loads the hardware counts those from other blocks, the host executor the own block's as well.
METRICS["cluster_st_requests"] = [
    tuple(f"smsp__sass_inst_executed_op_dshared_{op}.sum" for op in ("st", "stas"))
]

# Why the two may differ: of names that match, counters that match, the cause.
CAUSES: list[tuple[str, str, str]] = [
    (
        r"^((softmax|layernorm)/.*/v0[234]|softmax/.*/v(11|30)|rmsnorm/.*/v04)_",
        r"^global_(ld|st)_sectors$",
        "nvcc unrolls the loop over a row four times and does what is left over first: a lane with"
        " one turn more than its warp's others is one turn ahead of them from then on",
    ),
    (
        r"^reduction/",
        r"^shared_(ld|st)_requests$",
        "where a warp's lanes diverge between barriers, this count of the hardware is another one in"
        " every run; the wavefronts of the same requests are equal",
    ),
    (
        r"^reduction/.*/v1[56]_",
        r"^global_ld_(requests|sectors)$",
        "the last block reads the posts again until all are there, which on the host executor they are",
    ),
    (
        r"^softmax/.*/v08[bcd]?_",
        r"^shared_ld_wavefronts$",
        "not explained: loads of the own block's part of the cluster's memory are wavefronts of the"
        " unit, but of no instruction",
    ),
    (
        r"^(softmax/.*/v(08[cd]|09)|layernorm/backward/.*/v33|attention/.*backward/.*/v3[34]b?)_",
        r"^shared_ld_requests$",
        "not explained: up to 8 requests more than there are in nvcc's machine code, another number in"
        " every run; the wavefronts of the same requests are equal",
    ),
    (
        r"^softmax/log_backward/f16/v32_",
        r"^global_ld_(requests|sectors)$",
        "not explained: a twelfth less in f16, equal in bf16",
    ),
    (
        r"^attention/.*/(v0[6-9]|v3[34]b?|v5[456])_",
        r"^async_wavefronts$",
        "not explained: copies of no bytes, for rows that do not exist, are wavefronts too, but not by"
        " a rule of their own: v08's and v09's copies are the same",
    ),
    (
        r"^attention/.*/v02_",
        r"^global_ld_(requests|sectors)$",
        "not explained: loads of masked scores",
    ),
    (
        r"^attention/.*/(v17|v39b|v40)_",
        r"^shared_(ld|st)_(requests|wavefronts)$",
        "nvcc merges what lies beside each other of a tile's place: two or four fields are one access",
    ),
    (
        r"^attention/.*backward/bf16/v32_",
        r"^global_st_requests$",
        "not explained: fewer than there are in the source",
    ),
    (
        r"^attention/.*/v56_",
        r"^shared_atomic_wavefronts$",
        "atomics of global memory that acquire and release are counted here, too",
    ),
    (
        r"^(layernorm|rmsnorm)/backward/.*/v3[46]_",
        r"^global_st_(requests|sectors)$",
        "nvcc splits 16-byte stores into four: all of the partial sums, and the first of a thread's"
        " in each row",
    ),
    (
        r"^gemm/f32/v(1[458]|20)_",
        r"^async_requests$",
        "a cp.async that its predicate switches off in all lanes is a request to the hardware's"
        " counter, and none to the host executor's",
    ),
    (
        r"^gemm/f32/v(1[2-8]|20)_",
        r"^async_wavefronts$",
        "the host executor's rule, a wavefront for each line of the cache, is exact for copies of 16"
        " bytes; the hardware's rule is not known for those of 4 that begin at no multiple of 32"
        " bytes or read a word for several lanes",
    ),
    (
        r"^gemm/f32/v1[3-8]_",
        r"^shared_ld_(requests|wavefronts)$",
        "not explained: up to one request per warp more than there are in nvcc's machine code, mostly"
        " with no wavefront of its own",
    ),
]


class Pair(NamedTuple):
    kernel: str
    problem: str
    counter: str
    host: int
    hardware: int

    @property
    def equal(self) -> bool:
        return self.host == self.hardware

    @property
    def cause(self) -> str:
        if self.equal:
            return ""
        for kernel, counter, cause in CAUSES:
            if re.search(kernel, self.kernel) and re.search(counter, self.counter):
                return cause
        return ""


def fail(sentence: object) -> NoReturn:
    print(f"validate_counters: {sentence}", file=sys.stderr)
    sys.exit(1)


def number(text: str) -> int | None:
    """1,024 and 1024.00 are 1024; nothing, n/a and the like are None."""
    try:
        return round(float(text.replace(",", "")))
    except ValueError:
        return None


# ---- The host's side


Counts = dict[tuple[str, str], dict[str, int]]  # by kernel and problem, then by counter


def host_counts(path: Path) -> Counts:
    """From a CSV of ./bench."""
    counts: Counts = {}
    table = read_table(path)
    columns = [c for c in METRICS if c in table.columns]
    if not columns:
        fail(f"{path} has no counters: it is not a CSV of ./bench --backend=host.")
    for _, row in table.lines:
        values = {c: number(row[c]) for c in columns}
        if row["verdict"] != "passed" or None in values.values():
            continue
        parts = (row["family"], row["op"], row["dtype"], row["kernel"])
        counts["/".join(filter(None, parts)), row["problem"]] = {
            c: v for c, v in values.items() if v is not None
        }
    return counts


# ---- The hardware's side


def find_ncu() -> str:
    newest_first = sorted(map(str, Path("/opt/nvidia").glob("nsight-compute/*/ncu")), reverse=True)
    for place in (shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *newest_first):
        if place and os.access(place, os.X_OK):
            return place
    fail("ncu, Nsight Compute's command line, is not installed.")


def known_metrics(ncu: str, wanted: Iterable[str]) -> set[str]:
    """Those that this ncu has on this GPU; all of them when it cannot tell."""
    query = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, encoding="utf-8")
    names = set(re.findall(r"^\s*([a-z0-9]+__\w+)", query.stdout, re.MULTILINE))
    if not names:
        print("ncu --query-metrics lists nothing: asking for every metric.", file=sys.stderr)
        return set(wanted)
    return {metric for metric in wanted if metric.rpartition(".")[0] in names}


def choose(counters: Iterable[str], known: set[str]) -> list[str]:
    """The metrics that these counters need, of those known."""
    chosen: set[str] = set()
    for counter in counters:
        metrics = next((one for one in METRICS[counter] if known.issuperset(one)), None)
        if metrics is None:
            print(f"{counter}: left out, ncu lacks {METRICS[counter][0][0]}", file=sys.stderr)
        else:
            chosen.update(metrics)
    return sorted(chosen)


def sm_count(bench: Path) -> int:
    """The GPU's, as ./bench tells it above its tables."""
    command = [bench, "--backend=cuda", f"--csv={bench.parent / 'counters.gpu.csv'}", "--elementwise=1"]
    command += ["--benchmark_filter=^elementwise/relu/f32/v01_"]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    device = re.search(r"^.+, sm_\d+, (\d+) SMs", result.stdout, re.MULTILINE)
    if device is None:
        fail("there is no GPU to tell its number of SMs; --sms=N does.")
    return int(device[1])


def run_ncu(bench: Path, host: Counts, seed: int, output: Path) -> None:
    ncu = find_ncu()
    # cp.async appears only where it is written, and its metrics take more passes of every kernel.
    is_async = any(counts.get("async_requests") for counts in host.values())
    counters = [c for c in next(iter(host.values())) if is_async or not c.startswith("async")]
    wanted = {m for c in counters for one in METRICS[c] for m in one}
    metrics = choose(counters, known_metrics(ncu, wanted))
    output.unlink(missing_ok=True)
    command = [ncu, "--profile-from-start", "off", "--nvtx", "--csv", "--page", "raw"]
    command += ["--print-units", "base", "--cache-control", "none", "--clock-control", "none"]
    command += ["--metrics", ",".join(metrics)]
    command += ["--log-file", str(output), str(bench), "--backend=cuda", f"--seed={seed}"]
    command += ["--profile=" + ",".join(map("/".join, host))]
    print(f"{len(host)} launches under {ncu}: {output}", flush=True)
    with open(output.with_suffix(".log"), "w", encoding="utf-8") as log:
        status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
    if status != 0:  # what was launched before is still worth a look
        print(f"ncu's exit code is {status}; see {log.name} and {output}", file=sys.stderr)
    if not output.exists():
        fail(f"ncu wrote nothing; see {log.name}.")


def hardware_counts(path: Path, names: Iterable[str]) -> tuple[dict[str, Counter[str]], int]:
    """Metrics summed by the name of the NVTX range, from Nsight Compute's CSV; and how many kernels
    lie in no range of these names.

    The raw page is a line of columns, a line of units, and a line per kernel. The range stands
    among other things in some column, so the names are looked for in all of them.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    start = re.search(r'^"?ID"?,.*$', text, re.MULTILINE)  # below what ncu says of its progress
    if start is None:
        reason = re.search(r"^==ERROR== .*$", text, re.MULTILINE)
        fail(f"{path} has no table{': ' + reason[0] if reason else ''}.")
    rows = csv.reader(line for line in text[start.start() :].splitlines(True) if line[:2] != "==")
    header = next(rows)
    metrics = [(i, name) for i, name in enumerate(header) if re.fullmatch(r"\w+__\w+\.sum", name)]
    if not metrics:
        fail(f"{path} has no metrics: it is to be made with --page raw.")
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)  # some begin with others
    range_name = re.compile(rf"(?<![\w./@+-])(?:{'|'.join(longest_first)})(?![\w./@+-])")
    sums: dict[str, Counter[str]] = {}
    outside = 0
    for row in rows:
        if len(row) != len(header) or not row[0].strip().isdigit():
            continue  # the units
        found = next(filter(None, map(range_name.search, row)), None)
        if found is None:
            outside += 1
            continue
        sums.setdefault(found[0], Counter()).update(
            {metric: value for i, metric in metrics if (value := number(row[i])) is not None}
        )
    return sums, outside


# ---- Side by side


def compare(host: Counts, hardware: dict[str, Counter[str]]) -> list[Pair]:
    pairs = []
    for (kernel, problem), counts in host.items():
        sums = hardware.get(f"{kernel}/{problem}")
        if sums is None:
            continue
        for counter, count in counts.items():
            metrics = next((c for c in METRICS[counter] if all(m in sums for m in c)), None)
            if metrics is not None:
                pair = Pair(kernel, problem, counter, count, sum(sums[m] for m in metrics))
                if pair.host or pair.hardware:
                    pairs.append(pair)
    return pairs


def write(pairs: list[Pair], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", "problem", "counter", "host", "hardware", "cause"])
        writer.writerows((*pair, pair.cause) for pair in pairs)


def summarize(pairs: list[Pair], missing: list[str]) -> bool:
    """Prints it; returns whether the two agree."""
    unequal = [pair for pair in pairs if not pair.equal]
    for pair in unequal:
        print(
            f"{pair.kernel}/{pair.problem}  {pair.counter}: "
            f"host {pair.host}, hardware {pair.hardware}  ({pair.cause or 'cause unknown'})"
        )
    for name in missing:
        print(f"{name}: not launched on the GPU")
    equal = len(pairs) - len(unequal)
    share = 100 * equal / len(pairs) if pairs else 0
    print(f"{len(pairs)} pairs of host and hardware counts, {equal} equal: {share:.1f} %")
    return share >= ENOUGH and not missing and all(pair.cause for pair in unequal)


def gpu_name() -> str:
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(query, capture_output=True, text=True, encoding="utf-8").stdout
    except OSError:
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", metavar="DIR",
                        help="where ./bench is (default: build/release)")  # fmt: skip
    parser.add_argument("--filter", default=".", metavar="REGEX", help="names of kernels")
    parser.add_argument("--out", type=Path, metavar="CSV",
                        help="default: results/<gpu>/counters.csv; with --filter none")  # fmt: skip
    parser.add_argument("--ncu-csv", type=Path, metavar="CSV",
                        help="an output of Nsight Compute to use, not a new one")  # fmt: skip
    parser.add_argument("--sms", type=int, metavar="N",
                        help="SMs of the GPU that --ncu-csv is of (default: of the one here)")  # fmt: skip
    options = parser.parse_args()
    bench = options.build.resolve() / "bench"
    if not os.access(bench, os.X_OK):
        fail(f"{bench} is not there; build it, or name the build folder with --build.")

    seed = 1  # the same inputs on both sides
    host_csv = options.build.resolve() / "counters.host.csv"
    sms = options.sms if options.sms is not None else sm_count(bench)
    count = [bench, "--backend=host", f"--sms={sms}", f"--seed={seed}", f"--csv={host_csv}"]
    count += [f"--benchmark_filter={options.filter}"]
    if subprocess.run(count, stdout=subprocess.DEVNULL).returncode != 0:
        fail("not every kernel passed on the host executor.")
    host = host_counts(host_csv)
    if not host:
        fail(f"no kernel was counted: see {host_csv}.")
    names = list(map("/".join, host))

    ncu_csv = options.ncu_csv
    if ncu_csv is None:
        ncu_csv = options.build.resolve() / "counters.ncu.csv"
        run_ncu(bench, host, seed, ncu_csv)
    hardware, outside = hardware_counts(ncu_csv, names)
    if outside:
        print(f"{outside} kernels of Nsight Compute's belong to none of the names")

    pairs = compare(host, hardware)
    agree = summarize(pairs, [name for name in names if name not in hardware])
    out = options.out
    if out is None and options.filter == ".":
        out = results_folder(gpu_name()) / "counters.csv"
    if out is not None:
        write(pairs, out)
        print(out)
    return 0 if agree else 1


if __name__ == "__main__":
    run(main)
