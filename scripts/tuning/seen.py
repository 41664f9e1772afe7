"""The problems that the tables of the GEMMs' v20_autotuned were fitted to: no measure of the choices there."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

from ladder_csv import ROOT

from tuning import gemm, gemm_tensor


@functools.cache
def seen(family: str, results: Path = ROOT / "results") -> dict[str, str]:
    """By problem, since when; empty for those of the lists, which every fit has."""
    lists = {module.FAMILY: module.PROBLEMS for module in (gemm, gemm_tensor)}
    found = dict.fromkeys(lists.get(family, ()), "")
    for path in results.glob(f"*/*-autotune-{family}.csv"):
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                since = found.setdefault(row["problem"], row["timestamp"])
                found[row["problem"]] = min(since, row["timestamp"])
    return found


def had_seen(family: str, problem: str, measured: str) -> bool:
    """Whether a fit had seen a problem that was measured then."""
    since = seen(family).get(problem)
    return since is not None and since < measured
