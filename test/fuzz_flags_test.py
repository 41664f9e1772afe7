#!/usr/bin/env python3
"""Random command lines and environments for ./bench, on the host executor: none crashes it or makes
it hang, a wrong one is refused in one sentence, a right one is obeyed, and what ends with exit code 0
has written all that was asked for.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HANGS = 120  # seconds

# Of each flag: values that are right, and values that are wrong.
FLAGS: dict[str, tuple[list[str], list[str]]] = {
    "--benchmark_filter": (["^softmax/f32/v0[1-3]", "sum/f16/v01|softmax/bf16", "_shuffle/3x5$",
                            "softmax/log/.*/best/"],
                           ["(", "[", "no_such_kernel", "a{", "\\"]),
    "--dtype": (["f32", "f16,bf16", "f32,f32", "tf32,f32"], ["f33", "F32", "f32,", ",", "f32;f16"]),
    "--backend": (["host"], ["gpu", "Host", "host,cuda"]),
    "--cache": (["cold", "hot", "both"], ["warm", "cold,hot"]),
    "--seed": (["0", "7", "18446744073709551615"],
               ["-1", "0x7", "seven", "18446744073709551616", "1.5", "7 "]),
    "--elementwise": (["1000", "1,31,33", "3x5"], ["0", "-5", "1e3", "x", "3x", "1099511627777"]),
    "--gemm": (["1x1x1", "33x31x7", "[1,2]x[3:9:3]x4", "random:2"],
               ["1x1", "0x1x1", "1x1x1x1", "4x4x99999999999", "[1:2]x3", "random:"]),
    "--softmax": (["5x77", "[1:5:2]x7", "2x[1:9:*3],random:3", "random:1,random:1"],
                  ["5", "5x0", "2000000000x1", "[5:1]x2", "1x[1:9:0]", "1x[0:9:*2]", "[1:2x3",
                   "[1:99999]x1", "random:0", "random:99999", "random:-1", "Random:3"]),
    "--min-samples": (["6", "30"], ["0", "5", "-1", "4001", "6.5", "many"]),
    "--target": (["0.5", "100", "1e-3"], ["0", "-1", "nan", "inf", "101", "0.5%", "0,5"]),
    "--max-seconds": (["0.1", "60"], ["0", "-1", "nan", "1e9", "1s"]),
    "--processes": (["1", "2"], ["0", "-1", "101", "1.5", "three"]),
    "--lock-clocks": ([], ["0", "1410", "-1", "1410MHz"]),  # which the host executor has not
    "--sms": (["1", "132", "1024"], ["0", "-1", "1025", "1.5", "all"]),
    "--benchmark_repetitions": (["1", "2"], ["x", "", "-1", "0"]),
    "--benchmark_format": (["json", "csv"], ["xml", ""]),
    "--benchmark_out": (["mine.out"], ["no/such/folder/x", "./results.csv"]),
    "--benchmark_time_unit": (["ns", "us", "ms", "s"], ["foo", "", "NS", "min"]),
    "--benchmark_min_time": (["0.5", "2", "0.01s", "5x"], ["soon", "", "-1", "1.5x", "5m"]),
    "--benchmark_context": (["a=b", "a=b,c=d"], ["a", "a=b,c", "=b", "device=x", "a=b,backend=c"]),
    "--benchmark_perf_counters": ([], ["CYCLES", "CYCLES,INSTRUCTIONS"]),
    "--benchmark_counters_tabular": (["true", "0", "off"], ["maybe", "2"]),
    "--benchmark_out_format": (["json", "csv"], ["xml", ""]),
    "--explain": (["table", "lines", "json"], ["", "xml", "Table"]),
    "--counters": ([], ["true", "1"]),  # which the host executor has not
    "--trace": (["mine.trace"], ["no/such/folder/x.trace", "."]),
    "--trace-warps": ([], ["0", "one", "-1", "0,"]),  # right only beside --trace
    "--trace-block": ([], ["0,0", "x", "1,2,3,4"]),
    "--asm": ([], ["gemm/f32/v99_none", "gemm/f32/v01_naive/8", "(", ",", "gemm,,softmax"]),
    "--asm-form": ([], ["", "xml", "SASS"]),
    "--csv": (["mine.csv"], ["no/such/folder/x.csv", "."]),
    "--samples": (["mine.json"], ["no/such/folder/x.json"]),
    "--profile": (["gemm/f32/v01_naive/8x8x8"], ["gemm/f32/v99_none", "gemm/f32/v01_naive/8", "(", ",", "gemm,,softmax"]),
}  # fmt: skip
LATE = ("--counters", "--trace", "--csv", "--samples", "--benchmark_out", "--benchmark_filter", "--profile", "--asm")  # see Line
SWITCHES = ["--help", "--version", "--list", "--benchmark_list_tests", "-h"]
NONSENSE = ["gemm", "--", "-", "", "--no_such_flag", "--benchmark_no_such_flag=1", "---gemm=1x1x1",
            "--Gemm=1x1x1", "é", "\x7f", "%s%n"]  # fmt: skip
ENVIRONMENT = {  # which is nobody's business but Google Benchmark's flags'
    "LC_ALL": ["C", "C.UTF-8", "tr_TR.UTF-8", "no_such"], "LANG": ["de_DE.UTF-8", ""],
    "TERM": ["dumb", "xterm", ""], "NO_COLOR": ["1", ""], "COLUMNS": ["1", "0", "-1", "x", "9999"],
    "TZ": ["UTC", "no/such"], "TMPDIR": ["/no/such"], "HOME": ["", "/no/such"], "PATH": ["", "/"],
    "CUDA_VISIBLE_DEVICES": ["", "7", "x"], "LADDER_SEED": ["x"], "LC_NUMERIC": ["de_DE.UTF-8"],
    "MALLOC_ARENA_MAX": ["1"], "BENCHMARKS": ["all"], "BENCHMARK_": ["x"],
    "V": ["1", "x"],
}  # fmt: skip
SMALL = {"--benchmark_filter": "^softmax/.*/v01", "--softmax": "3x5"}  # a line without these


class Line:
    """A command line, and whether it is right, wrong, or nobody knows (None): two right flags may
    not go together or may leave nothing to run, and another flag may make one of LATE idle."""

    def __init__(self, rng: random.Random) -> None:
        self.right: bool | None = True
        chosen, late = dict(SMALL), False
        flags = rng.sample(sorted(FLAGS), rng.randrange(4))
        for flag in flags:
            good, bad = FLAGS[flag]
            wrong = not good or rng.random() < 0.25
            chosen[flag] = rng.choice(bad if wrong else good)
            if wrong:
                self.right = False
                late |= flag in LATE
        of_trace = "--trace" in flags and {"--trace-warps", "--trace-block"} & {*flags}
        if len(flags) > 1 and (self.right or late or of_trace):
            self.right = None
        self.words = [f"{flag}={value}" for flag, value in chosen.items()]

        self.environment = {name: rng.choice(ENVIRONMENT[name])
                            for name in rng.sample(sorted(ENVIRONMENT), rng.randrange(4))}  # fmt: skip
        if rng.random() < 0.2:  # a flag, and perhaps again on the command line
            flag = rng.choice([flag for flag in sorted(FLAGS) if flag.startswith("--benchmark_")])
            good, bad = FLAGS[flag]
            self.environment[flag[2:].upper()] = rng.choice(good + bad)
            self.right = None

        if rng.random() < 0.1:
            self.words.append(rng.choice(NONSENSE))
            self.right = False
        if rng.random() < 0.1:  # a letter changed, lost or doubled
            i = rng.randrange(len(self.words))
            word = self.words[i]
            at = rng.randrange(len(word)) if word else 0
            new = rng.choice(["", word[at : at + 1] * 2, rng.choice("=-x,0é\"'*")])
            self.words[i] = word[:at] + new + word[at + 1 :]
            self.right = None
        if rng.random() < 0.05:  # prints something and stops
            self.words.append(rng.choice(SWITCHES))
            self.right = None
        rng.shuffle(self.words)


def missing(line: Line, folder: str, printed: str) -> str:
    """Which of the outputs that a line asks for is not there, or not whole; empty if none is."""
    flags = dict(word.split("=", 1) for word in line.words if "=" in word)
    names = {word.split("=")[0] for word in line.words}

    def value(flag: str, default: str) -> str:
        return flags.get(flag) or line.environment.get(flag[2:].upper()) or default

    def whole(text: str, form: str) -> bool:
        try:
            rows = json.loads(text) if form == "json" else list(csv.reader(text.splitlines()))
        except (ValueError, csv.Error):
            return False
        return len(rows) > (0 if form == "json" else 1)  # a CSV's first row is its header

    if not printed:
        return "nothing was printed"
    if names & {*SWITCHES, "--explain", "--profile", "--trace", "--asm"}:
        return ""
    form = value("--benchmark_format", "console")
    files = [(flags.get("--csv", "results.csv"), "csv")]
    if "--samples" in flags:
        files.append((flags["--samples"], "json"))
    if out := value("--benchmark_out", ""):
        files.append((out, value("--benchmark_out_format", "json")))
    for name, kind in files:
        path = Path(folder, name)
        if not path.is_file():
            return f"there is no {name}"
        if kind == "json" or name == files[0][0]:  # Google Benchmark's CSV begins with its context
            if not whole(path.read_text(encoding="utf-8", errors="replace"), kind):
                return f"{name} is not whole"
    return "" if form != "json" or whole(printed, form) else "stdout is not whole"


def mistake(bench: str, line: Line, folder: str) -> str:
    """What ./bench did wrong with a line; empty if nothing."""
    try:
        result = subprocess.run([bench, "--backend=host", *line.words], cwd=folder, timeout=HANGS,
                                env=os.environ | line.environment,
                                stdin=subprocess.DEVNULL, capture_output=True)  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"hung for {HANGS} s"
    said = result.stderr.decode(errors="replace")
    if result.returncode not in (0, 1):
        return f"exit code {result.returncode}: {said}"
    if result.returncode == 1:
        if result.stdout:
            return f"failed after it had begun: {said}"
        if not said.startswith("bench: ") or said.count("\n") != 1 or not said.endswith("\n"):
            return f"refused, but not in one sentence: {said!r}"
        if line.right:
            return f"refused, though it is right: {said}"
    elif line.right is False:
        return "obeyed, though it is wrong"
    elif lacks := missing(line, folder, result.stdout.decode(errors="replace")):
        return f"exit code 0, but {lacks}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", type=Path)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"--seed={options.seed}")
    bench, rng, lines, bad = str(options.bench.resolve()), random.Random(options.seed), 0, 0
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        line = Line(rng)
        lines += 1
        with tempfile.TemporaryDirectory() as folder:
            if found := mistake(bench, line, folder):
                bad += 1
                print(f"bench {line.words} in {line.environment}\n  {found}", flush=True)
    print(f"{lines} lines, {bad} mistakes")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
