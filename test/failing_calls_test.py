#!/usr/bin/env python3
"""Each call of ./bench that a full disk, a broken one or a lack of memory may fail, fails once, at
every point of a small sweep on the host executor. Nothing that was measured may get lost:

- the exit code is 0 only if all that was promised is there;
- otherwise there is one sentence, and it says what failed;
- each row that was printed is in a CSV that --resume takes;
- a file that was there before is as it was, or replaced by a whole one and kept beside it.

Usage: failing_calls_test.py BENCH LIBRARY [--seconds=S] [--seed=N] [--only=KIND]; the library is
failing_calls.cpp. Without --seconds a few points are drawn. With it all points are tried; of calls
that come by the hundreds one for each way to get there, and others as long as there is time.
"""

from __future__ import annotations

import argparse
import collections
import csv
import errno
import io
import itertools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import skips

HANGS = 120  # seconds, as other programs may hold this one up
SHORT = 0  # half of what was to be written, read or sent
NOTHING = -1
DRAWN = 18  # points, where not all are tried

# How each kind of call fails. FREQUENT ones come by the hundreds.
ERRORS = {
    "write": [errno.ENOSPC, errno.EIO, errno.EINTR, SHORT],
    "fsync": [errno.EIO],
    "rename": [errno.EIO],
    "link": [errno.EMLINK],
    "unlink": [errno.EACCES],
    "ftruncate": [errno.EIO],
    "send": [errno.EPIPE, errno.EINTR, SHORT],
    "recv": [errno.ECONNRESET, errno.EINTR, SHORT],
    "poll": [errno.EINTR],
    "close": [errno.EIO],
    "fork": [errno.EAGAIN],
    "socketpair": [errno.EMFILE],
    "thread": [errno.EAGAIN],
    "read": [errno.EIO, errno.EINTR, SHORT],
    "open": [errno.EMFILE],
    "mmap": [errno.ENOMEM],
    "malloc": [errno.ENOMEM],
}
FREQUENT = ("read", "open", "mmap", "malloc")

# The Plan of failing_calls.cpp
HEAD = struct.Struct("<7q")
KINDS = list(ERRORS)
PROCESSES, CALLS = 4, 1 << 14
COUNTS = struct.Struct(f"<{PROCESSES * len(KINDS)}q")
CALLERS = struct.Struct(f"<{PROCESSES * len(FREQUENT) * CALLS}Q")

SWEEP = [
    "--backend=host",
    "--benchmark_filter=transpose/f32/v0[12]",
    "--transpose=3x5,4x4",
    "--seed=7",
]
FILES = ("a.csv", "a.json", "out.json")
NEW = ["--csv=a.csv", "--samples=a.json", "--benchmark_out=out.json"]
ROWS = [
    (problem, kernel) for problem in ("3x5", "4x4") for kernel in ("v01_naive", "v02_smem_tile")
]
EARLIER = "what was there before\n"
PRINTED = re.compile(r"^  (v\d\d \w+) +(\d|passed|failed)")
NOT_WORDS = re.compile(r"std::|bad_alloc|terminate|what\(\)|basic_|vector::|errno")


@dataclass(frozen=True)
class Point:
    """A call: the `index`-th of its kind in a process, in a scenario; and how it fails."""

    scenario: str
    process: int
    kind: str
    index: int
    error: int

    def __str__(self) -> str:
        how = errno.errorcode.get(self.error, "short")
        who = "bench" if self.process == 0 else f"worker {self.process}"
        return f"{self.scenario}: {self.kind} {self.index} of {who}, {how}"


@dataclass
class Run:
    """What a run did."""

    exit_code: int
    out: str
    err: str
    files: dict[str, str]
    failed: bool  # whether the point was reached
    counts: dict[tuple[int, str], int]
    callers: tuple[int, ...]

    @property
    def shown(self) -> str:
        out = self.out[-300:]
        return f"exit code {self.exit_code}; stderr: {self.err!r}; stdout ends: {out!r}"

    def caller(self, point: Point) -> int:
        """A number for who called whom for a FREQUENT call."""
        return self.callers[
            (point.process * len(FREQUENT) + FREQUENT.index(point.kind)) * CALLS + point.index
        ]


class Bench:
    def __init__(self, bench: str, library: str, folder: str) -> None:
        self.bench, self.library, self.folder = bench, library, Path(folder)
        self.numbers = itertools.count()
        self.resumed: dict[str, str] = {}
        self.lock = threading.Lock()
        self.whole = self.run("new", None).files["a.csv"]

    def arguments(self, scenario: str) -> list[str]:
        return [*SWEEP, *(["--resume=a.csv"] if scenario == "resume" else NEW)]

    def earlier_files(self, scenario: str) -> dict[str, str]:
        if scenario == "over":
            return dict.fromkeys(FILES, EARLIER)
        if scenario == "resume":
            return {"a.csv": "".join(self.whole.splitlines(keepends=True)[:3])}
        return {}

    def run(self, scenario: str, point: Point | None, plain: str | None = None) -> Run:
        """Runs a scenario; plain: the same without the library, on this a.csv."""
        folder = self.folder / str(next(self.numbers))
        folder.mkdir()
        plan = folder.with_suffix(".plan")
        for name, text in ({"a.csv": plain} if plain else self.earlier_files(scenario)).items():
            (folder / name).write_text(text)
        head = (
            (point.process, KINDS.index(point.kind), point.index, point.error)
            if point
            else (NOTHING,) * 4
        )
        environment = {**os.environ, "LD_PRELOAD": self.library, "FAILING_CALLS": str(plan)}
        plan.write_bytes(HEAD.pack(*head, 0, 0, 0))
        os.truncate(plan, HEAD.size + COUNTS.size + CALLERS.size)
        try:
            done = subprocess.run(
                [self.bench, *self.arguments(scenario)],
                cwd=folder,
                timeout=HANGS,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=None if plain else environment,
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess([], 99, b"", b"hung")
        with plan.open("rb") as file:
            bytes_of_plan = file.read(HEAD.size + COUNTS.size)
            callers = () if point else CALLERS.unpack(file.read())
        *_, ready, failed, _ = HEAD.unpack_from(bytes_of_plan)
        if ready == -1:
            skips.whole("the system does not let a process filter its own calls")
        counts = COUNTS.unpack_from(bytes_of_plan, HEAD.size)
        numbered = {(i // len(KINDS), KINDS[i % len(KINDS)]): n for i, n in enumerate(counts) if n}
        files = {path.name: path.read_text(errors="replace") for path in folder.iterdir()}
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        result = Run(done.returncode, out, err, files, bool(failed), numbered, callers)
        shutil.rmtree(folder)
        plan.unlink()
        return result

    def complaint_of_resume(self, text: str) -> str:
        """What --resume has against a CSV; empty if it completes it."""
        key = re.sub(r"[-\d.e]+", "", text)  # whatever was measured
        with self.lock:
            if key not in self.resumed:
                run = self.run("resume", None, plain=text)
                whole = run.exit_code == 0 and {r[:2] for r in rows_of(run.files["a.csv"])} == set(
                    ROWS
                )
                self.resumed[key] = (
                    "" if whole else f"--resume: exit code {run.exit_code}: {run.err}{run.out}"
                )
            return self.resumed[key]


def rows_of(text: str) -> list[tuple[str, str, str]]:
    return [
        (row["problem"], row["kernel"], row["verdict"]) for row in csv.DictReader(io.StringIO(text))
    ]


def printed_rows(out: str) -> list[tuple[str, str]]:
    rows, problem = [], ""
    for line in out.splitlines(keepends=True):
        if line.startswith("transpose f32 ") and "·" in line:
            problem = line.split()[2]
        if (found := PRINTED.match(line)) and line.endswith("\n"):
            rows.append((problem, found[1].replace(" ", "_")))
    return rows


def missing(bench: Bench, scenario: str, run: Run) -> str:
    """What is missing of all that was promised; empty if nothing."""
    kept = (
        {r[:2] for r in rows_of(bench.earlier_files(scenario)["a.csv"])}
        if scenario == "resume"
        else set()
    )
    problems = [p for p in ("3x5", "4x4") if {r for r in ROWS if r[0] == p} - kept]
    if "All 2 versions passed their checks." not in run.out or not run.out.endswith(
        "Rows: a.csv\n"
    ):
        return "no summary was printed"
    if printed_rows(run.out) != [r for r in ROWS if r[0] in problems]:
        return "the tables are not whole"
    if sorted(rows_of(run.files["a.csv"])) != [(*r, "passed") for r in ROWS]:
        return "the CSV is not whole"
    if scenario == "resume":
        return ""
    try:
        if [(o["problem"], o["kernel"]) for o in json.loads(run.files["a.json"])] != ROWS:
            return "the samples are not whole"
        if len(json.loads(run.files["out.json"])["benchmarks"]) != len(ROWS):
            return "--benchmark_out is not whole"
    except json.JSONDecodeError as error:
        return f"not whole: {error}"
    return ""


def mistake(bench: Bench, point: Point, run: Run) -> tuple[str, str]:
    """What happened, in a word, and what was wrong about it; empty if nothing."""
    if not run.failed:
        return "not reached", "" if run.exit_code == 0 else f"exit code {run.exit_code}"
    if run.exit_code not in (0, 1):
        return "crash", f"exit code {run.exit_code}"
    said = run.err.splitlines() + [
        line
        for line in run.out.splitlines()
        if line.endswith("The sweep goes on in a fresh process.")
    ]
    table = run.files.get("a.csv")
    earlier = bench.earlier_files(point.scenario)
    failures = {
        line
        for line in run.out.splitlines()
        if (found := PRINTED.match(line)) and found[2] == "failed"
    }
    reasons = {line.split(": ", 1)[1] for line in failures if ": " in line}

    if NOT_WORDS.search(run.err + run.out + (table or "")):
        return "bad words", "no sentence for a user"
    for name, text in earlier.items():
        at_place, kept = run.files.get(name), run.files.get(f"{name}.1.bak")
        if text not in (at_place, kept):
            return "lost", f"the earlier {name} is gone"
        if at_place != text and kept != text:
            return "lost", f"{name} was replaced, and the earlier one is not kept"
    if strange := set(run.files) - set(FILES) - {f"{name}.1.bak" for name in earlier}:
        if point.kind != "unlink":
            return "litter", f"left {sorted(strange)}"
    if table is not None and table != EARLIER:
        in_table = [r[:2] for r in rows_of(table)]
        if lost := [r for r in printed_rows(run.out) if r not in in_table]:
            return "lost", f"{lost} was printed and is not in the CSV"
        if complaint := bench.complaint_of_resume(table):
            return "lost", complaint
    elif printed_rows(run.out):
        return "lost", "rows were printed, and there is no CSV"

    if len(said) > 1:
        return "sentences", f"{len(said)} sentences"
    if run.exit_code == 0:
        return "recovered", missing(bench, point.scenario, run)
    if not said and len(reasons) != 1:
        return "silent", "nothing was said"
    if failures:
        return "row failed", ""
    return ("cut short" if "problems were measured" in run.err else "refused"), ""


def points_of(scenario: str, counts: dict[tuple[int, str], int]) -> Iterator[Point]:
    for (process, kind), n in counts.items():
        for index, error in itertools.product(range(n), ERRORS[kind]):
            yield Point(scenario, process, kind, index, error)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("library")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--only", choices=ERRORS)
    arguments = parser.parse_args()
    if b"libstdc++.so" not in Path(arguments.bench).read_bytes():
        skips.whole("libstdc++ is linked statically, so that the host executor's library has an operator new "
                    "of its own, which does not say how much memory is free")  # fmt: skip
    print(f"seed {arguments.seed}")
    rng = random.Random(arguments.seed)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            str(Path(arguments.bench).resolve()), str(Path(arguments.library).resolve()), folder
        )
        runs = {scenario: bench.run(scenario, None) for scenario in ("new", "over", "resume")}
        points = [p for scenario, run in runs.items() for p in points_of(scenario, run.counts)]
        rng.shuffle(points)
        always, often, known = [], [], set()
        for point in points:
            if arguments.only not in (None, point.kind):
                continue
            place = (
                point
                if point.kind not in FREQUENT
                else (point.kind, point.error, point.process, runs[point.scenario].caller(point))
            )
            (often if place in known else always).append(point)
            known.add(place)
        if arguments.seconds is None:
            rare = [point for point in always if point.kind not in FREQUENT]
            frequent = [point for point in always if point.kind in FREQUENT]
            always, often = rare[: DRAWN // 2] + frequent[: DRAWN // 2], []
        end = begin + (arguments.seconds or 0)
        tried: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        bad = 0

        def attempt(point: Point) -> None:
            nonlocal bad
            if point in late and time.monotonic() > end:
                return
            run = bench.run(point.scenario, point)
            outcome, wrong = mistake(bench, point, run)
            with bench.lock:
                tried[point.kind][outcome] += 1
                if wrong:
                    bad += 1
                    print(f"{point}\n  {wrong}\n  {run.shown}", flush=True)

        late = set(often)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(attempt, always + often))
    total = sum(n for run in runs.values() for n in run.counts.values())
    outcomes = sorted({o for kind in tried.values() for o in kind})
    print(f"\n{'':<12}{'calls':>8}{'tried':>8}" + "".join(f"{o:>13}" for o in outcomes))
    for kind in ERRORS:
        calls = sum(n for run in runs.values() for (_, k), n in run.counts.items() if k == kind)
        if calls:
            print(
                f"{kind:<12}{calls:>8}{tried[kind].total():>8}"
                + "".join(f"{tried[kind][o] or '':>13}" for o in outcomes)
            )
    failures = sum(t.total() for t in tried.values())
    print(f"{total} calls in three sweeps, {failures} failures tried, {bad} mistakes")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
