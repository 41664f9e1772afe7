"""The build that scripts/test has made: copies of its library with mutated kernels."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterable

from mutations.kernels import ROOT, SOURCES, linked_with

LIBRARY = "libladder_host.so"
BARRIER = "_ZN6ladder4host7barrierEbSt15source_location"


def run(
    *command: object, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    words = [str(c) for c in command]
    all_of_it = {**os.environ, **environment}
    return subprocess.run(
        words, cwd=cwd, env=all_of_it, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace",
    )  # fmt: skip


def must(*command: object, cwd: Path | None = None) -> str:
    result = run(*command, cwd=cwd)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


class Build:
    """What scripts/test has made last: how its library was linked, and its objects compiled."""

    def __init__(self, files: Iterable[Path], scratch: Path) -> None:
        made = [f for f in (ROOT / "build/release", ROOT / "build/host") if (f / LIBRARY).exists()]
        made = [f for f in made if (f / "tests/properties_test").exists()]
        if not made:
            sys.exit("build/release and build/host have no finished build: run scripts/test first.")
        self.folder = max(made, key=self.age)
        newer = [f for f in files if (ROOT / "src" / f).stat().st_mtime > self.age(self.folder)]
        if newer:
            sys.exit(f"{newer[0]} is newer than {self.folder}: run scripts/test first.")
        self.bench = self.folder / "bench"
        self.kernel_tests = self.folder / "tests/kernels_on_host_test"
        self.properties = self.folder / "tests/properties_test"
        self.limits = self.folder / "tests/limits_test"  # kernels beyond 2^31 elements
        self.link, self.linked_in = self.link_command()
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        objects = {(self.linked_in / word).resolve() for word in self.link if word.endswith(".o")}
        self.compiled = {  # by source
            Path(entry["file"]): (shlex.split(entry["command"]), Path(entry["directory"]))
            for entry in commands
            if self.object_of(shlex.split(entry["command"]), Path(entry["directory"])) in objects
        }
        self.scratch = scratch
        self.wrapper = scratch / "mutate.o"
        executor = ROOT / "src/host_executor/executor.cpp"
        errors = self.compile(executor, ROOT / "test/mutate.cpp", self.wrapper)
        if errors:
            sys.exit(errors)

    @staticmethod
    def age(folder: Path) -> float:
        return (folder / LIBRARY).stat().st_mtime

    @staticmethod
    def object_of(command: list[str], folder: Path) -> Path:
        return (folder / command[command.index("-o") + 1]).resolve()

    def link_command(self) -> tuple[list[str], Path]:
        """And where it is to be run."""
        if not (self.folder / "build.ninja").exists():
            (text,) = self.folder.glob("**/ladder_host.dir/link.txt")
            return shlex.split(text.read_text()), text.parent.parent.parent
        cache = (self.folder / "CMakeCache.txt").read_text()
        ninja = re.search(r"^CMAKE_MAKE_PROGRAM:\w+=(.+)$", cache, re.MULTILINE)[1]
        lines = must(ninja, "-t", "commands", LIBRARY, cwd=self.folder).splitlines()
        return shlex.split(lines[-1])[2:-2], self.folder  # : && … && :

    def compile(
        self, source: Path, instead: Path, to: Path, tree: Path = ROOT, *options: str
    ) -> str:
        """A file as the build has compiled another one, with headers from a tree; its errors."""
        command, folder = self.compiled[source]
        words = {str(source): str(instead), f"-I{ROOT}/src": f"-I{tree}/src"}
        command = [words.get(word, word) for word in command]
        command[command.index("-o") + 1] = str(to)
        same_names = f"-ffile-prefix-map={tree}={ROOT}"
        result = run(*command, *options, "-w", "-Wno-narrowing", same_names, cwd=folder)
        return result.stderr if result.returncode != 0 else ""

    def size(self, version: Path) -> int:
        """Of a version's object: what is compiled soonest is tried first."""
        return self.object_of(*self.compiled[ROOT / "src" / version]).stat().st_size

    def same_code(self, source: Path, mutated: Path) -> bool:
        """Whether an object is that of the unmutated source, but for what debuggers are told."""
        command, folder = self.compiled[source]
        as_built, as_mutated = mutated.with_suffix(".as_built"), mutated.with_suffix(".as_mutated")
        must("objcopy", "--strip-debug", self.object_of(command, folder), as_built)
        must("objcopy", "--strip-debug", mutated, as_mutated)
        return as_built.read_bytes() == as_mutated.read_bytes()

    def tree(self, name: str) -> Path:
        """A copy of the sources, to be mutated."""
        shutil.copytree(ROOT / "src", self.scratch / name / "src")
        return self.scratch / name

    def library(self, folder: Path, instead: dict[Path, Path], whole: bool = False) -> Path:
        """The library with other objects in place of some sources' own; of the kernels only those
        of the same families and of what they launch, unless it is to be whole. Returns its folder.

        They come first, for of a template's instances the linker takes the first."""
        folder.mkdir(exist_ok=True)
        of = {s.parent.relative_to(SOURCES) for s in instead}
        families = {SOURCES / f for family in of for f in linked_with(family)}
        left_out = {self.object_of(*self.compiled[s]) for s in instead}
        if not whole:
            left_out |= {
                self.object_of(*compiled) for source, compiled in self.compiled.items()
                if source.is_relative_to(ROOT / "src/kernels") and source.parent not in families
            }  # fmt: skip
        words = [w for w in self.link if (self.linked_in / w).resolve() not in left_out]
        first = next(n for n, w in enumerate(words) if w.endswith(".o"))
        words[first:first] = map(str, instead.values())
        words[words.index("-o") + 1] = str(folder / LIBRARY)
        must(*words, self.wrapper, f"-Wl,--wrap={BARRIER}", cwd=self.linked_in)
        return folder
