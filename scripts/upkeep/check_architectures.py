#!/usr/bin/env python3
"""Shows that every .cu file compiles for every GPU architecture that README names, or for those
given. Needs nvcc and no GPU.

Only device code is compiled, with as little optimization as nvcc has: ptxas refuses an instruction
that an architecture lacks all the same. The versions of a family are compiled together, since
reading their headers takes longer than compiling them; if that fails, each is compiled alone, so
that the refused ones are known. *.sm90a.cu are compiled for 90a only.

nvcc is $CUDACXX, or else on PATH, in /usr/local/cuda, or what the last build used; its host
compiler is $CUDAHOSTCXX or g++.

examples:
  scripts/upkeep/check_architectures.py            all of them, and 90a
  scripts/upkeep/check_architectures.py 75 sm_120  two

exit codes:
  0   every file compiles for every architecture
  1   one does not
  2   nothing was compiled: no nvcc, or one that does not know an architecture
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Iterator, NamedTuple, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ladder_csv  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HOPPER = "90a"
OLDEST_FOR_HOPPER = (12, 4)  # as in cmake/KernelFamily.cmake
# They are a build's only where cuDNN is installed, and have no device code.
NOT_HERE = "_cudnn.gpu.cu"
MOST_LINES = 3  # of what a compiler says of one file


def stop(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    sys.exit(2)


# ---- The compiler, and what it knows


def find_nvcc() -> str:
    cache = ROOT / "build/release/CMakeCache.txt"
    text = cache.read_text() if cache.exists() else ""
    built = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", text, re.MULTILINE)
    asked = os.environ.get("CUDACXX")
    if asked and not shutil.which(asked):
        stop(f"CUDACXX={asked}: not found.")
    for name in (asked, "nvcc", "/usr/local/cuda/bin/nvcc", built and built[1]):
        if name and (found := shutil.which(name)):
            return found
    stop("There is no nvcc: not in $CUDACXX, on PATH or in /usr/local/cuda.")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, encoding="utf-8", stdout=subprocess.PIPE).stdout


def architectures(nvcc: str, given: list[str]) -> list[str]:
    """Those given, or README's and 90a: without sm_."""
    named = re.findall(r"\bsm_(\d+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    wanted = list(dict.fromkeys(name.removeprefix("sm_") for name in given or [*named, HOPPER]))
    known = re.findall(r"\bsm_(\d+)\b", output(nvcc, "--list-gpu-code"))
    release = re.search(r"release (\d+)\.(\d+)", output(nvcc, "--version"))
    version = (int(release[1]), int(release[2]))
    if version >= OLDEST_FOR_HOPPER:
        known.append(HOPPER)
    known.sort(key=lambda name: (int(name.rstrip("a")), name))
    if unknown := [name for name in wanted if name not in known]:
        stop(f"nvcc {version[0]}.{version[1]} at {nvcc} does not compile for "
             f"{', '.join(unknown)}, only for {', '.join(known)}.")  # fmt: skip
    return sorted(wanted, key=known.index)


def compiler(nvcc: str) -> list[str]:
    """nvcc with its cheapest optimization."""
    has_fast = "--Ofast-compile" in output(nvcc, "--help")
    cheapest = ["--Ofast-compile=max"] if has_fast else ["-G"]
    host = os.environ.get("CUDAHOSTCXX")
    return [nvcc, "-cubin", "-std=c++20", *cheapest, *([f"-ccbin={host}"] if host else [])]


# ---- What is compiled


class Job(NamedTuple):
    """Files that are compiled together, and where more headers are."""

    files: list[Path]
    folders: list[Path]

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)


def jobs(architecture: str) -> list[Job]:
    """The largest first."""

    def files(folder: Path) -> list[Path]:
        return [
            file
            for file in sorted(folder.glob("*.cu"))
            if file.name.endswith(".sm90a.cu") == (architecture == HOPPER)
            and not file.name.endswith(NOT_HERE)
        ]

    source = ROOT / "src"
    found = [Job(files(family), [source]) for family in (source / "kernels").iterdir()]
    found += [Job([file], [source]) for file in files(source / "harness/cuda")]
    found += [Job([file], [source, *googletest()]) for file in files(ROOT / "test")]
    return sorted((job for job in found if job.files), key=lambda job: -job.size)


def googletest() -> list[Path]:
    """Where a build has fetched it; where it is installed the compiler finds it."""
    return list((ROOT / "build").glob("*/_deps/googletest-src/googletest/include"))[:1]


def together(files: list[Path]) -> str:
    """A source of all of them. Names of different versions may be the same, so each version gets a
    namespace around it, in which the family's own namespaces know those of its headers; and all headers
    come first, or they would lie in the first namespace that includes them."""
    headers: dict[str, None] = {}
    bodies = []
    for number, file in enumerate(files):
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r'^#include ([<"].+[>"])', text, re.MULTILINE):
            own = file.parent / name[1:-1]
            headers[f'"{own}"' if name[0] == '"' and own.exists() else name] = None
        body = f'#include "{file}"'
        if re.match(r"v\d", file.name):
            for name in dict.fromkeys(re.findall(r"^namespace (\w+) {", text, re.MULTILINE)):
                body = f"namespace {name} {{ using namespace ::{name}; }}\n{body}"
            body = f"namespace version_{number} {{\n{body}\n}}"
        bodies.append(body)
    return "\n".join([*(f"#include {name}" for name in headers), *bodies, ""])


# ---- Compiling


def said(messages: str) -> list[str]:
    """The errors of nvcc and ptxas, each once, without the names of temporary files."""
    lines = [re.sub(r"^ptxas \S+, line \d+; error\s*:", "ptxas:", line)
             for line in messages.splitlines() if re.search(r"\berror\b|fatal", line)]  # fmt: skip
    lines = [line.replace(f"{ROOT}/", "") for line in lines if "aborted due to errors" not in line]
    return list(dict.fromkeys(lines)) or [messages.strip() or "the compiler says nothing"]


def errors(command: list[str], source: Path, folders: list[Path], to: Path) -> list[str]:
    """What the compiler says if it refuses a source, or nothing."""
    include = [f"-I{folder}" for folder in folders]
    result = subprocess.run(
        [*command, *include, "-o", str(to), str(source)], text=True, encoding="utf-8", capture_output=True
    )
    return said(result.stderr + result.stdout) if result.returncode != 0 else []


class Outcome(NamedTuple):
    refused: dict[Path, list[str]]
    notes: list[str]


def compile_job(command: list[str], job: Job) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "all.cubin"
        source = job.files[0]
        if len(job.files) > 1:
            source = Path(folder) / "all.cu"
            source.write_text(together(job.files), encoding="utf-8")
        failed = errors(command, source, job.folders, cubin)
        if len(job.files) == 1 or not failed:
            return Outcome({source: failed} if failed else {}, [])
        alone = {file: errors(command, file, job.folders, cubin) for file in job.files}
    refused = {file: lines for file, lines in alone.items() if lines}
    if refused:
        return Outcome(refused, [])
    where = job.files[0].parent.relative_to(ROOT)
    return Outcome({}, [f"  {where}: compiled one by one, as together they fail: {failed[0]}"])


def report(architecture: str, todo: list[Job], done: Iterator[Outcome], start: float) -> bool:
    """Prints the line of an architecture, when all of it is compiled, and what is refused."""
    outcomes = list(done)
    refused = {file: lines for outcome in outcomes for file, lines in outcome.refused.items()}
    count = sum(len(job.files) for job in todo)
    print(f"sm_{architecture:<4} {count:>4} files {time.monotonic() - start:>6.1f} s   "
          f"{f'{len(refused)} refused' if refused else 'all compile'}")  # fmt: skip
    for file, lines in sorted(refused.items()):
        more = [f"… and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
        print("\n    ".join([f"  {file.relative_to(ROOT)}", *lines[:MOST_LINES], *more]))
    for outcome in outcomes:
        print("\n".join(outcome.notes), end="\n" * bool(outcome.notes))
    sys.stdout.flush()
    return not refused


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("architecture", nargs="*", help="75 or sm_75, for example")
    options = parser.parse_args()
    nvcc = find_nvcc()
    wanted = architectures(nvcc, options.architecture)
    command = compiler(nvcc)
    start = time.monotonic()
    todo = {architecture: jobs(architecture) for architecture in wanted}
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        # All are begun at once, so that no core waits for the last families of an architecture.
        done = {a: workers.map(partial(compile_job, [*command, f"-arch=sm_{a}"]), todo[a])
                for a in wanted}  # fmt: skip
        good = [report(a, todo[a], done[a], start) for a in wanted]
    return 0 if all(good) else 1


if __name__ == "__main__":
    ladder_csv.run(main)
