"""What the ladders' tuning shares: measuring with ./bench, rewriting a table."""

from __future__ import annotations

import csv
import math
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, NamedTuple, NoReturn

BEGIN, END = "// autotune:begin\n", "// autotune:end\n"
# A problem has at least 8 rounds of all shapes, and ends when the A/A's interval is 1 %, or after a second.
SAMPLING = ("--min-samples=8", "--target=1", "--max-seconds=1")
SAVED = ("family", "op", "kernel", "dtype", "problem", "device", "cc", "sms", "verdict", "cache", "samples",
         "time_us", "rel_stdev", "block", "occupancy", "sm_mhz", "power_w", "throttled", "seed", "git_sha",
         "toolkit", "driver", "timestamp")  # fmt: skip
SLOWED = 0.6  # of the highest clock: lower than the limit of power makes it for the largest products


def fail(sentence: object) -> NoReturn:
    print(f"autotune: {sentence}", file=sys.stderr)
    sys.exit(1)


# ---- Measurements


class Run(NamedTuple):
    gpu: str
    multiprocessors: int
    rows: list[dict[str, str]]  # of the shapes, not of the library; those that passed
    vendor: dict[str, float]  # the library's microseconds by problem

    @staticmethod
    def all(runs: list[Run]) -> Run:
        """Of different problems on one GPU, as one."""
        vendor = {problem: us for run in runs for problem, us in run.vendor.items()}
        rows = [row for run in runs for row in run.rows]
        return runs[0]._replace(rows=rows, vendor=vendor)


@dataclass
class Bench:
    """The ./bench of a build with every shape. Keeps the lines of all its CSVs."""

    program: Path
    seed: int  # of inputs and random problems
    header: str = ""
    lines: list[str] = field(default_factory=list)
    highest_mhz: float = 0.0
    gpu: str = ""  # where it has measured, at full speed

    def run(self, family: str, names: str, problems: list[str]) -> Run:
        path = self.program.parent / "autotune.csv"
        command = [self.program, "--backend=cuda", f"--csv={path}", f"--seed={self.seed}"]
        command += [f"--{family}=" + ",".join(problems), f"--benchmark_filter=^{family}/{names}", *SAMPLING]
        result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        if result.returncode != 0:
            if "No benchmark matches" in result.stderr:
                fail(f"{self.program} has no shapes: build it with -DLADDER_ALL_TILES=ON.")
            said = (result.stderr.strip() or result.stdout.strip()).splitlines()
            fail(said[-1] if said else f"{self.program} failed and said nothing.")
        device = re.search(r"^(.+), sm_\d+, (\d+) SMs", result.stdout, re.MULTILINE)
        if device is None:
            fail(f"{self.program} does not tell which GPU this is.")
        self.header, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        self.lines += lines
        rows: list[dict[str, str]] = []
        vendor: dict[str, float] = {}
        for row in csv.DictReader([self.header, *lines]):
            if row["verdict"] != "passed":
                continue
            if row["kernel"] == row["library"]:
                vendor[row["problem"]] = float(row["time_us"])
            elif not row["kernel"].startswith("v00"):
                rows.append(row)
        self.expect_full_speed(rows)
        self.gpu = device[1]
        return Run(self.gpu, int(device[2]), rows, vendor)

    def expect_full_speed(self, rows: list[dict[str, str]]) -> None:
        for row in rows:
            mhz = float(row["sm_mhz"])
            self.highest_mhz = max(self.highest_mhz, mhz)
            if mhz < SLOWED * self.highest_mhz:
                fail(f"at {row['problem']} the GPU ran at {mhz:.0f} MHz, before at "
                     f"{self.highest_mhz:.0f}: it is being slowed down. The table stays as it was; "
                     "measure again when the GPU has cooled or is yours alone.")  # fmt: skip

    def save(self, path: Path) -> None:
        """Without versions that can't do a problem, and without columns that say nothing here."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, SAVED, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            rows = csv.DictReader([self.header, *self.lines])
            writer.writerows(row for row in rows if row["verdict"] != "unsupported")


def geometric_mean(numbers: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, numbers)))


# ---- The table


def split(source: str) -> tuple[str, str, str]:
    """What is before the table, the table, and what follows."""
    before, begin, rest = source.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        fail("the table's markers, autotune:begin and autotune:end, are not there.")
    return before + begin, table, end + after
