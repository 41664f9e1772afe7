#!/usr/bin/env python3
"""Shows what one version of a ladder changes against another: the difference of their sources, and
which of the host executor's counts moved. Needs no GPU, but a build (scripts/test makes one).

examples:
  scripts/ladder.py gemm v03 v04             the step from v03 to v04; 3 and v03_smem_tile are v03 too
  scripts/ladder.py softmax v04b v04c        rungs in between have a letter; 4b is v04b too
  scripts/ladder.py reduction 2 3 max/f16    of one operation and type, not of the family's first ones
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterable, Sequence

import ladder_csv
from ladder_csv import KERNELS, ROOT, LadderError, file_of, label


def versions(family: str) -> list[Path]:
    folders = sorted({p.parent.name for p in KERNELS.glob("*/v[0-9]*.cu")})
    if family not in folders:
        raise LadderError(f"There is no family {family}; there are {', '.join(folders)}.")
    return sorted((KERNELS / family).glob("v[0-9]*.cu"))


def version(family: str, name: str) -> tuple[Path, str]:
    """The file that 3, v03 or v03_smem_tile means, and its label; 4b is v04b. Of the kernels that
    v30_block_size.cu registers v30_block_size_32 means one, and v30 all."""
    files = versions(family)
    if number := re.fullmatch(r"v?0*(\d+)([a-z]?)", name):
        found = [p for p in files if label(p).startswith(f"v{number[1]:0>2}{number[2]}_")]
    else:
        found = [p for p in files if p == file_of(family, name)]
    if len(found) != 1:
        what = f"{len(found)} versions" if found else "no version"
        labels = ", ".join(map(label, found or files))
        raise LadderError(f"{family} has {what} {name}: {labels}.")
    return found[0], label(found[0]) if number else name


def bench(build: Path | None) -> Path:
    builds = [build] if build else [ROOT / "build" / name for name in ("release", "host")]
    for folder in builds:
        if (folder / "bench").is_file():
            return folder / "bench"
    where = " or ".join(str(b.relative_to(ROOT) if b.is_relative_to(ROOT) else b) for b in builds)
    raise LadderError(f"There is no bench in {where}: run scripts/test first, which builds it.")


def tell_of_changed(files: Iterable[Path], program: Path) -> None:
    """Of kernels that are older in ./bench than in their files."""
    library = program.parent / "libladder_host.so"
    for changed in (p.name for p in files if p.stat().st_mtime > library.stat().st_mtime):
        print(f"{changed} has changed since it was built: scripts/test builds it.", file=sys.stderr)


def names(program: Path) -> list[str]:
    """Every benchmark of the host executor: family[/op]/dtype/version/problem."""
    command = [program, "--backend=host", "--benchmark_list_tests"]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if result.returncode != 0:
        raise LadderError(f"{program} does not run: {result.stderr.strip()}")
    return result.stdout.split()


def choose(program: Path, family: str, labels: Sequence[str], ladder: str) -> str:
    """The filter for both versions, with all variants, on the first problem of the ladder they share."""
    problems: dict[str, dict[str, str]] = {}  # by op and dtype, by kernel: the first problem
    for name in names(program):
        first, *middle, kernel, problem = name.split("/")
        if first == family:
            problems.setdefault("/".join(middle), {}).setdefault(kernel, problem)
    kernels = {key: [[kernel for kernel in of if f"{kernel}_".startswith(f"{one}_")] for one in labels]
               for key, of in problems.items()}  # fmt: skip
    shared = [key for key, of in kernels.items() if all(of)]
    if not shared:
        raise LadderError(f"{' and '.join(labels)} share no operation and type.")
    matching = [key for key in shared if ladder in ("", key, *key.split("/"))]
    if not matching:
        raise LadderError(f"They share no ladder {ladder}; there are {', '.join(shared)}.")
    key = matching[0]
    chosen = [kernel for of in kernels[key] for kernel in of]
    return f"^{family}/{key}/({'|'.join(chosen)})/{problems[key][chosen[0]]}$"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("family")
    parser.add_argument("a", help="a version: 3, v03 or v03_smem_tile")
    parser.add_argument("b", help="the version to compare with it")
    parser.add_argument("ladder", nargs="?", default="", help="operation, type, or operation/type")
    parser.add_argument("--build", type=Path, help="default: build/release, else build/host")
    options = parser.parse_args()
    files, labels = zip(*(version(options.family, name) for name in (options.a, options.b)))
    if labels[0] == labels[1]:
        raise LadderError(f"{options.a} and {options.b} are the same version.")
    gpu_only = [label(p) for p in files if ".gpu." in p.name]
    if not gpu_only:
        program = bench(options.build)
        pattern = choose(program, options.family, labels, options.ladder)

    colors = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    difference = ["git", "--no-pager", "diff", "--no-index", "--no-prefix",
                  f"--color={'always' if colors else 'never'}", "--"]  # fmt: skip
    subprocess.run([*difference, *(p.relative_to(ROOT) for p in files)], cwd=ROOT)
    print(flush=True)
    if gpu_only:
        print(f"{' and '.join(gpu_only)} can run on a GPU only: there are no counts to compare.")
        return
    tell_of_changed(files, program)
    command = [program, "--backend=host", "--explain", f"--benchmark_filter={pattern}"]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    ladder_csv.run(main)
