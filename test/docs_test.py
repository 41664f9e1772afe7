#!/usr/bin/env python3
"""Runs what docs/ says, in a copy of the tree that has some versions of one family and the pages' examples.

A page's fences tell what is done with them:

  ```sh          a shell runs the block at the top of the copy; it must succeed
  ```sh all      likewise, with the sources and the bench of BUILD, which has all families
  ```text        after such a block: every line of it but … is in the block's output
  ```sh gpu      needs a GPU: the flags must be in the program's --help
  ```cpp PATH    a file of the worked examples, written to PATH of the copy before anything runs
  ```            only to be read

Of the commands in README.md and CONTRIBUTING.md the flags are looked up, too, and of all links
whether the file is there. At last the cells of examples/notebook/ladder.ipynb run.

Usage: docs_test.py BUILD; the copy is configured as that build folder was. Exits with 77 if all that could
run passed, but something to draw with is missing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import skips

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
NOTEBOOK = ROOT / "examples" / "notebook" / "ladder.ipynb"
OTHERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]  # whose links and flags are looked up
# Of the copy, besides the examples: what the pages name, as each takes long to build.
FAMILY, VERSIONS = "transpose", re.compile(r"v0[1-6]|v10")
FENCE = re.compile(r"^```(\w*)(?: ([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CANNOT_DRAW = re.compile(r"\w+ is missing: scripts/setup installs it")


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    argument: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks() -> list[Block]:
    found = []
    for page in (*DOCS, *OTHERS):
        text = page.read_text(encoding="utf-8")
        for fence in FENCE.finditer(text):
            line = text.count("\n", 0, fence.start()) + 1
            if page in DOCS:
                found.append(Block(page, line, fence[1], fence[2] or "", fence[3]))
            elif fence[1] == "sh":
                found.append(Block(page, line, "sh", "gpu", fence[3]))
    return found


def check_links() -> list[str]:
    """Links to files that are not there."""
    bad = []
    for page in (*DOCS, *OTHERS):
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'src="([^"]+)"', text)
        for link in links:
            if "://" not in link and not (page.parent / link).exists():
                bad.append(f"{page.relative_to(ROOT)}: no {link}")
    return bad


def copy_tree(to: Path) -> None:
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy(ROOT / name, to)
    for name in ("bench", "cmake", "docs", "results", "scripts", "test"):
        shutil.copytree(ROOT / name, to / name)
    kernels = ROOT / "src" / "kernels"
    others = {p.name for p in kernels.iterdir()} - {FAMILY}
    versions = {p.name for p in (kernels / FAMILY).glob("v*.cu") if not VERSIONS.match(p.name)}
    shutil.copytree(ROOT / "src", to / "src", ignore=lambda folder, _: {
        kernels: others, kernels / FAMILY: versions}.get(Path(folder), ()))  # fmt: skip


def write_examples(to: Path, found: list[Block]) -> None:
    for block in found:
        if block.language != "cpp":
            continue
        path = to / block.argument
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")


def options_as(build: Path) -> list[str]:
    """What makes CMake take the compiler and libraries of a build folder."""
    cache = dict(
        re.findall(r"^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    )
    keep = ("CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER", "LADDER_CUDA_INCLUDE_DIRS",
            "CMAKE_PREFIX_PATH", "CMAKE_MAKE_PROGRAM")  # fmt: skip
    options = ["-G", cache["CMAKE_GENERATOR"]]
    options += [f"-D{name}={cache[name]}" for name in keep if cache.get(name)]
    options += [f"-DFETCHCONTENT_SOURCE_DIR_{path.stem.split('-')[0].upper()}={path}"
                for path in (build / "_deps").glob("*-src")]  # fmt: skip
    return options


def configure(tree: Path, build: Path) -> str:
    """Configures the copy as a build folder, but unoptimised and with several sources in one, which is
    soonest built; returns what went wrong."""
    options = [*options_as(build), "-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DCMAKE_UNITY_BUILD=ON"]
    if (venv := ROOT / "build" / "venv").exists():
        (tree / "build").mkdir()
        (tree / "build" / "venv").symlink_to(venv)  # matplotlib; CUDA's headers
    result = subprocess.run(["cmake", "--preset", "host", *options], cwd=tree, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    return result.stdout if result.returncode else ""


def run(block: Block, tree: Path) -> tuple[str, str]:
    """What a block printed, and what is wrong with it."""
    result = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=tree, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    return result.stdout, f"exit code {result.returncode}" if result.returncode else ""


# In place of scripts/bench, which would look for a compiler of its own
BENCH = """#!/bin/sh
cmake --build build/host --target bench >&2 && exec build/host/bench "$@"
"""


def run_notebook(tree: Path) -> str:
    """What is wrong with the notebook's cells, one after the other."""
    (tree / "scripts" / "bench").write_text(BENCH, encoding="utf-8")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    result = subprocess.run([sys.executable, "-c", code], cwd=tree, text=True, encoding="utf-8",
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    expected = ("v02 smem_tile ", "32-way !", "All 4 versions passed their checks", "v90_two_words",
                "shared_load   ■□ 2 where 1 would do", "shared_load   ■ 1 where 1 would do")  # fmt: skip
    lost = [part for part in expected if part not in result.stdout]
    wrong = result.returncode or lost or [*tree.glob("src/kernels/*/v90*")]
    return f"exit code {result.returncode}, not printed: {lost}\n{result.stdout}" if wrong else ""


def built_tree(to: Path, build: Path) -> None:
    """A tree whose build/host is a build of all families; the scripts find theirs beside them."""
    shutil.copytree(ROOT / "scripts", to / "scripts")
    (to / "src").symlink_to(ROOT / "src")
    (to / "build").mkdir()
    (to / "build" / "host").symlink_to(build)


def words(text: str) -> set[str]:
    """The lines of a text, whose columns are as wide as what stands in them needs."""
    return {" ".join(line.split()) for line in text.splitlines()}


def check_flags(block: Block, tree: Path, bench: Path) -> str:
    """What is wrong with the flags of our programs in commands that do not run here."""
    for line in block.text.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True) or [""]
        if program in ("./bench", "scripts/bench"):  # whose other arguments are bench's
            command = [str(bench), "--help"]
        elif program.startswith("scripts/"):
            command = [str(tree / program), "--help"]
            if not (tree / program).exists():
                return f"no {program}"
        else:
            continue
        flags = [argument.split("=")[0] for argument in arguments if argument.startswith("-")]
        known = subprocess.run(command, capture_output=True, text=True).stdout if flags else ""
        for flag in flags:
            if not re.search(rf"(?<![\w-]){flag}\b", known):
                return f"{program} --help does not know {flag}"
    return ""


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    found = blocks()
    failures, missing = check_links(), set()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as of_all:
        tree, whole = Path(folder).resolve(), Path(of_all)
        built_tree(whole, build)
        copy_tree(tree)
        if problem := configure(tree, build):
            print(problem)
            return 1
        write_examples(tree, found)
        subprocess.run(["cmake", "--build", "build/host", "--parallel", str(os.cpu_count()),
                        "--target", "bench", "kernels_on_host_test"], cwd=tree)  # fmt: skip
        printed = ""
        for block in found:
            wrong = ""
            if (block.language, block.argument) == ("sh", "gpu"):
                wrong = check_flags(block, tree, build / "bench")
            elif block.language == "sh":
                printed, wrong = run(block, whole if block.argument == "all" else tree)
                if wrong and (lacks := CANNOT_DRAW.search(printed)):
                    wrong = ""
                    missing.add(lacks[0])
                elif wrong:
                    wrong += "\n" + printed
            elif block.language == "text":
                lost = words(block.text) - words(printed) - {"", "…"}
                wrong = "\n".join(["not printed:", *lost, "but:", printed]) if lost else ""
            elif block.language not in ("cpp", ""):
                wrong = f"nobody knows what to do with {block.language}"
            print(block.place, "FAILED" if wrong else "ok", flush=True)
            if wrong:
                failures.append(f"{block.place}: {wrong}")
        if wrong := run_notebook(tree):
            failures.append(f"{NOTEBOOK.relative_to(ROOT)}: {wrong}")
    print(*failures, sep="\n")
    return skips.status(not failures, missing)


if __name__ == "__main__":
    sys.exit(main())
