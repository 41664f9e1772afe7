#!/usr/bin/env python3
"""A version that is added to a tree that is built: it is compiled, and no other.

A copy of the tree is configured for one family. A stand-in for the compiler and the linker writes empty files and
notes their names, so that a build takes seconds.

Usage: adding_a_version_test.py BUILD; the copy takes the libraries of that build folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import docs_test
import skips

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build" / "host"
FAMILY = "transpose"
COMPILER = """#!/bin/sh
source=
while [ $# -gt 0 ]; do
  case $1 in
    -o) output=$2; echo "$output" >>LOG; : >"$output" ;;
    -c) source=$2 ;;
    -MF) echo "$output: $source" >"$2" ;;
  esac
  shift
done
"""


class AddingAVersion(unittest.TestCase):
    def setUp(self) -> None:
        if "Ninja" not in docs_test.options_as(BUILD):
            self.skipTest("needs a build by Ninja: with Makefiles all is compiled again")
        folder = tempfile.TemporaryDirectory(prefix="ladder_adding_")
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name).resolve()
        self.written = self.tree / "written"
        compiler = self.tree / "compiler"
        compiler.write_text(COMPILER.replace("LOG", str(self.written)), encoding="utf-8")
        compiler.chmod(0o755)
        for name in ("CMakeLists.txt", "CMakePresets.json"):
            shutil.copy(ROOT / name, self.tree)
        for name in ("bench", "cmake", "src", "test"):
            shutil.copytree(ROOT / name, self.tree / name)
        launchers = [f"-DCMAKE_{language}_{step}_LAUNCHER={compiler}"
                     for language in ("C", "CXX") for step in ("COMPILER", "LINKER")]  # fmt: skip
        self.cmake("--preset", "host", f"-DLADDER_FAMILIES={FAMILY}",
                   *docs_test.options_as(BUILD), *launchers)  # fmt: skip

    def cmake(self, *arguments: str) -> None:
        result = subprocess.run(["cmake", *arguments], cwd=self.tree, text=True, encoding="utf-8",
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stdout)

    def compiled(self) -> set[str]:
        """The objects that a build of all makes, and precompiled headers."""
        self.written.write_text("", encoding="utf-8")
        self.cmake("--build", "build/host", "--parallel")
        outputs = {Path(line) for line in self.written.read_text(encoding="utf-8").splitlines()}
        return {output.name for output in outputs if output.suffix in (".o", ".gch")}

    def test_no_other_is_compiled(self) -> None:
        self.assertIn("v01_naive.cu.o", self.compiled())
        versions = self.tree / "src/kernels" / FAMILY
        shutil.copy(versions / "v03_padded.cu", versions / "v77_mine.cu")
        # Besides what is written down of all versions' code
        self.assertEqual(self.compiled(), {"v77_mine.cu.o", "ladder_provenance.cpp.o"})
        self.assertEqual(self.compiled(), set())
        with (versions / "v77_mine.cu").open("a", encoding="utf-8") as file:
            file.write("\nconstexpr int kMine = 1;\n")
        self.assertEqual(self.compiled(), {"v77_mine.cu.o", "ladder_provenance.cpp.o"})
        (versions / "v77_mine.cu").unlink()
        self.assertEqual(self.compiled(), {"ladder_provenance.cpp.o"})


if __name__ == "__main__":
    skips.main()
