#!/usr/bin/env python3
"""A version's time in scripts/peers_torch.py's process and in ./bench differ by at most 2 %:
peers_agree_test.py BENCH LIBRARY. Skipped without PyTorch, and without a GPU unless
LADDER_REQUIRE_GPU is set."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import skips

ROOT = Path(__file__).resolve().parent.parent
WITHIN = 0.02

# Bound by memory and by arithmetic; long ones, as two processes of one program see short kernels
# further apart than their samples tell.
PROBLEMS = ("--softmax=8192x4096,8192x8192", "--layernorm=8192x4096", "--gemm=2048x2048x2048",
            "--elementwise=16777216")  # fmt: skip
FILTER = "^(softmax/bf16|layernorm/f32|gemm/f32|elementwise/add/f32)/best/"

sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))


def run(*line: object) -> None:
    result = subprocess.run([*map(str, line)], capture_output=True, text=True, encoding="utf-8")
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, line))}\n{result.stdout}{result.stderr}")


def times(path: Path) -> dict[tuple[str, ...], float]:
    """Microseconds of the suite's versions and of the vendors."""
    columns = ("family", "op", "dtype", "problem", "kernel")
    with open(path, newline="", encoding="utf-8") as file:
        return {
            tuple(row[column] for column in columns): float(row["time_us"])
            for row in csv.DictReader(file)
            if row["time_us"] and row["cache"] == "cold" and row["kernel"].startswith("v")
        }


def main() -> None:
    bench, library = sys.argv[1:]
    try:
        import torch
    except ImportError:
        skips.whole("this Python has no PyTorch")
    if not torch.cuda.is_available():
        if os.environ.get("LADDER_REQUIRE_GPU"):
            sys.exit("LADDER_REQUIRE_GPU is set, but PyTorch finds no NVIDIA GPU.")
        skips.whole("PyTorch finds no NVIDIA GPU")
    with tempfile.TemporaryDirectory() as folder:
        alone, together = Path(folder) / "bench.csv", Path(folder) / "bench-peers.csv"
        run(bench, "--backend=cuda", f"--csv={alone}", f"--benchmark_filter={FILTER}", *PROBLEMS)
        run(sys.executable, ROOT / "scripts" / "peers_torch.py", alone, f"--library={library}")
        of_bench, of_peers = times(alone), times(together)
    wrong = 0
    for name, us in of_peers.items():
        ratio = us / of_bench[name]
        off = abs(ratio - 1) > WITHIN
        wrong += off
        print(f"{' '.join(filter(None, name))}: {us:.2f} us, {ratio:.4f} of ./bench's"
              + (f" (more than {WITHIN:.0%} off)" if off else ""))  # fmt: skip
    if not of_peers:
        sys.exit("scripts/peers_torch.py measured none of the suite's versions.")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
