#!/usr/bin/env python3
"""Measures tile shapes on this GPU and rewrites the tables of the GEMMs' v20_autotuned.

Every shape is a kernel of its own for ./bench; scripts/tuning says for each ladder what is measured
and what follows from it. A table keeps its entries for other GPUs. The measurements are left in
results/<gpu>/<date>-autotune-<family>.csv. Takes minutes for each ladder. Needs a GPU, numpy
(scripts/setup), and

  cmake --preset release -B build/autotune -DLADDER_ALL_TILES=ON
  cmake --build build/autotune --target bench

examples:
  scripts/autotune.py                      gemm and gemm_tensor
  scripts/autotune.py gemm                 only src/kernels/gemm/v20_autotuned.cu
  scripts/autotune.py --build=build/other  with the ./bench of another build folder
  scripts/autotune.py --seed=1             with the random problems and inputs of that seed
"""

from __future__ import annotations

import argparse
import os
import random
from datetime import datetime, timezone
from pathlib import Path

from ladder_csv import ROOT, needs_package, results_folder, run
from tuning import gemm, gemm_tensor
from tuning.bench import Bench, fail

TUNED = {module.FAMILY: module for module in (gemm, gemm_tensor)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", default=list(TUNED),
                        help=f"default: {' '.join(TUNED)}")  # fmt: skip
    parser.add_argument("--build", type=Path, default=ROOT / "build/autotune", metavar="DIR",
                        help="where ./bench is (default: build/autotune)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), metavar="N",
                        help="of random problems and inputs (default: a new one)")  # fmt: skip
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for family in options.families:
        if family not in TUNED:
            fail(f"{family} has no table; {' and '.join(TUNED)} have one.")
    program = options.build.resolve() / "bench"
    if not os.access(program, os.X_OK):
        fail(f"{program} is not there; scripts/autotune.py --help says how it is built.")
    needs_package("numpy")

    for family in options.families:
        bench = Bench(program, options.seed)
        path = options.root / TUNED[family].SOURCE
        try:
            source = TUNED[family].tune(bench, path.read_text(encoding="utf-8"))
            path.write_text(source, encoding="utf-8")
            print(path)
        finally:  # what is measured is kept, whatever becomes of the table
            if bench.gpu:
                day = datetime.now(timezone.utc).strftime("%Y-%m-%d")
                measured = results_folder(bench.gpu, options.root) / f"{day}-autotune-{family}.csv"
                bench.save(measured)
                print(measured)
    return 0


if __name__ == "__main__":
    run(main)
