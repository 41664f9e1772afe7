#!/usr/bin/env python3
"""Proves, without a GPU, that the tests and ./bench would notice a broken kernel.

Makes mistakes in the kernels that run on the host executor, one at a time, and in the headers that
they share: barriers and waits dropped, statements on the wrong side of a barrier, bounds one off,
tails dropped, other lanes in a shuffle, no epsilon, … (scripts/upkeep/mutations/operators.py). Of each
class one in every file that has a place for it, or one of each operator, and every
__syncthreads(). The kernel's tests must fail; that ./bench gives it no time is counted too: on its
own problems, or on the problem on which a test failed.

A mutation that may survive is named, with the proof that it changes nothing or the reason why a CPU
can't see it: a barrier in a comment on its line,  __syncthreads();  // redundant: …  (or "redundant
on the host"), anything else in scripts/upkeep/mutations/survivors.txt. What is named must survive.

Takes the build that scripts/test has made, and leaves it as it is: the kernels are compiled anew,
and copies of the host executor's library are linked from its objects.

examples:
  scripts/upkeep/mutate.py                    40 that aren't named, drawn by a seed
  scripts/upkeep/mutate.py --full             all
  scripts/upkeep/mutate.py gemm/v03           those in files whose path contains gemm/v03
  scripts/upkeep/mutate.py --class order      those of a class
  scripts/upkeep/mutate.py --class hopper --every    in each of its places
"""

from __future__ import annotations

import argparse
import csv
import os
import queue
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ladder_csv  # noqa: E402

from mutations import kernels, survivors
from mutations.build import Build, run
from mutations.kernels import SOURCES
from mutations.operators import CLASSES, Mutation, barriers_of, mutations_of

REASON = re.compile(
    r"(does not end[^\n;]*|\d+ of \d+ elements wrong|deadlock[^\n;]*|[^\n:]*: block [^\n]*)"
)
PROBLEM = re.compile(r"(?:incorrect|failed): ([\dx]+), ")  # that a test fails on
# What a kernel's tests may take before they count as endless: all of them, and a block's steps. No
# unmutated one takes a tenth.
CPU_SECONDS, STEPS = 300, 200_000_000


class NotCpp(Exception):
    pass


class Trial(NamedTuple):
    file: Path  # relative to src/
    mutation: Mutation
    named: survivors.Survivor | None


class Outcome(NamedTuple):
    trial: Trial
    verdict: str
    by_tests: bool = False
    by_bench: bool = False
    same_code: bool = False

    @property
    def in_order(self) -> bool:
        if self.trial.named:
            return not (self.by_tests or self.by_bench)
        return self.same_code or self.by_tests


def trials(only: str, kind: str, every: bool = False) -> list[Trial]:
    named = survivors.read()
    found = []
    for file in kernels.files():
        if only not in str(file):
            continue
        text = (SOURCES / file).read_text()
        for mutation in [*barriers_of(text), *mutations_of(file, text, every)]:
            if kind in ("", mutation.kind):
                found.append(Trial(file, mutation, named.of(file, mutation)))
    return found


class Tested(NamedTuple):
    """What some tests say of a mutant: nothing if they pass."""

    noticed: str
    reached: bool  # its code
    problem: str = ""  # the first that it is wrong on


class Mutant(NamedTuple):
    """What a mutation makes of the library."""

    library: Path  # its folder
    kind: str  # of mistake
    dropped: str = ""  # file:line of a barrier, at run time
    objects: dict[Path, Path] = {}  # by source

    def whole(self, build: Build) -> Mutant:
        """With the kernels of all families."""
        if not self.dropped:
            build.library(self.library, self.objects, whole=True)
        return self

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        environment = {"LD_LIBRARY_PATH": str(self.library), "LADDER_SEED": "1"}
        if self.dropped:
            environment["LADDER_WITHOUT_BARRIER"] = self.dropped
        if self.kind != "widths":  # whose test is for problems without limits
            environment["LADDER_STEPS"] = str(STEPS)
            command = ("bash", "-c", f'ulimit -t {CPU_SECONDS}; exec "$@"', "-", *command)
        return run(*command, **environment)

    def tests(self, *command: object) -> Tested:
        result = self.run(*command, "--gtest_fail_fast", "--gtest_throw_on_failure")
        if "[ RUN      ]" not in result.stdout:
            if self.kind == "widths":  # a kernel whose numbers stay small
                return Tested("", False)
            sys.exit(f"{command[1:]} match no test:\n{result.stdout}{result.stderr}")
        reached = not self.dropped or "LADDER_WITHOUT_BARRIER: reached" in result.stderr
        if result.returncode == 0:
            return Tested("", reached)
        reason, problem = REASON.search(result.stdout), PROBLEM.search(result.stdout)
        noticed = reason[1].strip() if reason else "the tests fail"
        return Tested(noticed, reached, problem[1] if problem else "")

    def has_time(self, bench: Path, version: Path, rows: Path, problem: str) -> bool:
        """Whether ./bench gives a version its times: on its own problems, and on one of the tests'
        on which the version is wrong."""
        family = version.parent.name
        runs = [[], [f"--{family}={problem}"]] if problem and family != "roofs" else [[]]
        name = f"^{family}/.*/{kernels.name_of(version)}[^/]*/"
        return all(self.verdicts(bench, name, rows, *options) == {"passed"} for options in runs)

    def verdicts(self, bench: Path, name: str, rows: Path, *options: str) -> set[str]:
        """Of ./bench on a version, but for what it does not support."""
        rows.unlink(missing_ok=True)
        options = ("--backend=host", f"--benchmark_filter={name}", f"--csv={rows}", *options)
        result = self.run(bench, *options)
        with rows.open() if rows.exists() else open(os.devnull) as file:
            verdicts = {row["verdict"] for row in csv.DictReader(file)} - {"unsupported"}
        if not verdicts:
            sys.exit(f"{' '.join(options)}: ./bench checks nothing:\n{result.stdout}{result.stderr}")
        return verdicts


class Runner:
    """Tries mutants, each worker in a copy of the sources."""

    def __init__(self, build: Build, workers: int) -> None:
        self.build, self.trees = build, queue.SimpleQueue()
        for number in range(workers):
            self.trees.put(build.tree(f"tree{number}"))
        self.unmutated = build.library(build.scratch / "unmutated", {}, whole=True)

    def try_one(self, trial: Trial) -> Outcome:
        tree = self.trees.get()
        try:
            outcome = self.outcome(trial, tree)
        except NotCpp as error:
            outcome = Outcome(trial, f"is no C++: {error}", same_code=True)
        finally:
            (tree / "src" / trial.file).write_text((SOURCES / trial.file).read_text())
            self.trees.put(tree)
        self.show(outcome)
        return outcome

    @staticmethod
    def show(outcome: Outcome) -> None:
        file, mutation, _ = outcome.trial
        where = f"{file.relative_to(file.parts[0])}:{mutation.line}"
        mark = "" if outcome.in_order else "  <<<"
        what = f"{mutation.kind:<8} {mutation.what}"
        print(f"{where:<36} {what}: {outcome.verdict}{mark}", flush=True)

    def outcome(self, trial: Trial, tree: Path) -> Outcome:
        """What comes of the first version that has the code and notices, or of all of them."""
        mutation, named = trial.mutation, trial.named
        if mutation.text:
            outcome = Outcome(trial, "makes the same code", same_code=True)
        else:
            outcome = Outcome(trial, "NOT REACHED BY ANY TEST")
        if named:
            outcome = Outcome(trial, f"named: {named.reason}")
        survivor = None
        for version, mutant in self.mutants(trial, tree):
            tested = self.by_tests(version, mutant)
            if not tested.reached:
                continue
            survivor = mutant
            by_bench = mutation.kind != "widths" and not mutant.has_time(
                self.build.bench, version, tree / "results.csv", tested.problem
            )
            outcome = self.judged(trial, tested.noticed, by_bench)
            if tested.noticed:
                return outcome
        if survivor and not named and mutation.kind != "widths":
            tested = survivor.whole(self.build).tests(self.build.properties)
            outcome = self.judged(trial, tested.noticed, outcome.by_bench)
        return outcome

    def by_tests(self, version: Path, mutant: Mutant) -> Tested:
        """First by the quick ones, or those of the widths."""
        name = f"--gtest_filter={version.parent.name}/*/{kernels.name_of(version)}*"  # and variants
        if mutant.kind == "widths":
            tested = mutant.tests(self.build.limits, f"{name}.limits")
            if tested.noticed:
                return tested
        tested = mutant.tests(self.build.kernel_tests, f"{name}.host")
        if tested.noticed or not tested.reached:
            return tested
        return mutant.tests(self.build.kernel_tests, f"{name}.host_full")

    def mutants(self, trial: Trial, tree: Path) -> Iterator[tuple[Path, Mutant]]:
        """Of each version that has the code, those that are compiled soonest first; then of those that
        launch it from other families."""
        file, mutation, _ = trial
        versions = sorted(kernels.versions_with(file), key=self.build.size)
        launching = list(dict.fromkeys(v for one in versions for v in kernels.launching(one)))
        if not mutation.text:
            for version in versions + launching:
                dropped = f"src/{file}:{mutation.line}"
                yield version, Mutant(self.unmutated, mutation.kind, dropped)
            return
        (tree / "src" / file).write_text(mutation.text)
        objects: dict[Path, Path] = {}
        wraps = ["-fwrapv"] if mutation.kind == "widths" else []  # or g++ may count in 64 bits
        for version in versions:
            to = tree / f"{version.parent.name}_{version.stem}.o"
            errors = self.build.compile(SOURCES / version, tree / "src" / version, to, tree, *wraps)
            if errors:
                raise NotCpp(re.search(r"(?:error: )([^\n]*)|$", errors)[1])
            if not self.build.same_code(SOURCES / version, to):
                objects[SOURCES / version] = to
                library = self.build.library(tree / "library", objects)
                yield version, Mutant(library, mutation.kind, objects=objects)
        if objects:  # in them are the kernels of other families' versions, too
            for version in launching:
                yield version, Mutant(tree / "library", mutation.kind, objects=objects)

    @staticmethod
    def judged(trial: Trial, noticed: str, by_bench: bool) -> Outcome:
        caught = [noticed] * bool(noticed) + ["./bench"] * by_bench
        verdict = "caught: " + ", ".join(caught) if caught else "NOT CAUGHT"
        if trial.named:
            verdict = f"named: {trial.named.reason}" + f"  BUT {verdict}" * bool(caught)
        return Outcome(trial, verdict, bool(noticed), by_bench)


COLUMNS = ("mutations", "by ctest", "by ./bench", "same code", "named", "escaped")


def counted(outcomes: list[Outcome]) -> list[int]:
    return [
        sum(not o.same_code for o in outcomes),
        sum(o.by_tests for o in outcomes),
        sum(o.by_bench for o in outcomes),
        sum(o.same_code for o in outcomes),
        sum(o.trial.named is not None and o.in_order for o in outcomes),
        sum(not o.in_order for o in outcomes),
    ]


def table(outcomes: list[Outcome]) -> list[str]:
    """What became of them, by class; those of the widths apart."""
    by_class = {k: [o for o in outcomes if o.trial.mutation.kind == k] for k in CLASSES}
    widths = by_class.pop("widths")
    rows = [(kind, counted(of_kind)) for kind, of_kind in by_class.items() if of_kind]
    rows.append(("all", counted([o for o in outcomes if o not in widths])))
    if widths:
        rows.append(("widths", counted(widths)))
    head = f"{'':<10}" + "".join(f"{column:>12}" for column in COLUMNS)
    return [head, *(f"{kind:<10}" + "".join(f"{n:>12}" for n in row) for kind, row in rows)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="?", default="", help="part of a file's path")
    parser.add_argument("--class", dest="kind", default="", choices=list(CLASSES), help="only one")
    parser.add_argument("--full", action="store_true", help="all mutations, not a sample")
    parser.add_argument("--every", action="store_true", help="in every place, not one of a file's")
    parser.add_argument("--sample", type=int, default=40, help="how many are drawn (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the draw; printed where it is not given")
    options = parser.parse_args()

    todo = trials(options.only, options.kind, options.every)
    if not todo:
        sys.exit(f"No file of the host executor's with '{options.only}' in its path has mutations.")
    widths = [t for t in todo if t.mutation.kind == "widths"]
    if not (options.full or options.only or options.kind):
        todo = [t for t in todo if t not in widths and not t.named]  # they take long
        seed = random.randrange(1 << 32) if options.seed is None else options.seed
        print(f"{options.sample} of {len(todo)} mutations, --seed={seed}", flush=True)
        todo = random.Random(seed).sample(todo, min(options.sample, len(todo)))
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as workers:
        build = Build({t.file for t in todo}, Path(name))
        if widths and not build.limits.exists():
            todo = [t for t in todo if t not in widths]
            print(f"{len(widths)} mutations of widths wait for a {build.limits.name}.")
        runner = Runner(build, os.cpu_count() or 1)
        outcomes = list(workers.map(runner.try_one, todo))
    print("\n".join(table(outcomes)))
    wrong = [o for o in outcomes if not o.in_order]
    if wrong:
        print(f"{len(wrong)} mutations are not as they should be:")
        for outcome in wrong:
            Runner.show(outcome)
    stale = survivors.read().unused(trials("", "", every=True)) if options.full else []
    for one in stale:
        print(f"scripts/upkeep/mutations/survivors.txt names what is no more: {one.place} | {one.what}")
    return 1 if wrong or stale else 0


if __name__ == "__main__":
    ladder_csv.run(main)
