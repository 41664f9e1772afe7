#!/usr/bin/env python3
"""What CMake refuses to configure, each in a sentence, and which commit a build records. Nothing is
compiled."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import skips

ROOT = Path(__file__).resolve().parent.parent
GNU = ["-DCMAKE_CXX_COMPILER_FORCED=1", "-DCMAKE_CXX_COMPILER_ID=GNU",
       "-DCMAKE_CXX_COMPILER_VERSION=12.2.0"]  # which spares trying the compiler  # fmt: skip
# But for what chooses a CUDA compiler and its flags, as scripts/test does for the tests that it runs
ENVIRONMENT = {name: value for name, value in os.environ.items() if not re.match("CUDA(?!_)|NVCC_", name)}


def nvcc_works() -> bool:
    """One may be on PATH whose toolkit is gone."""
    return bool(shutil.which("nvcc")) and subprocess.run(["nvcc", "--version"], capture_output=True).returncode == 0


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="ladder configure ")
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name).resolve()

    def refused(self, sentence: str, source: Path, build: Path, *options: str, **environment: str) -> None:
        """options: for CPUs alone unless there are some."""
        result = subprocess.run(
            ["cmake", "-S", str(source), "-B", str(build), *(options or ["-DLADDER_CUDA=OFF"])],
            capture_output=True, text=True, encoding="utf-8", env=ENVIRONMENT | environment)  # fmt: skip
        self.assertEqual(result.returncode, 1, result)
        said = " ".join(result.stderr.split())
        self.assertRegex(said, r"^CMake Error at \S+ \(message\): " + sentence)
        self.assertEqual(said.count("CMake Error"), 1)


    def write_headers(self, to: Path, version: int) -> None:
        """What CMake looks at of NVIDIA's."""
        for name in ("cuda_fp16.h", "nv/target", "cuda.h"):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_text(f"#define CUDA_VERSION {version}\n", encoding="utf-8")


class Refusals(Case):
    def test_paths_that_tools_would_misread(self) -> None:
        for letter in "'\"`$;,#&|<>*?!%:{}[]":
            source = self.here / f"a{letter}b"
            source.mkdir()
            shutil.copy(ROOT / "CMakeLists.txt", source)
            self.refused(f'"{re.escape(str(source))}": paths with any of ', source,
                         self.here / f"build{ord(letter)}")  # fmt: skip
        self.refused('".*/b;c": paths with any of .* rename the folder', ROOT, self.here / "b;c")

    def test_other_compilers(self) -> None:
        for name, version in (("Clang", "19.1.0"), ("GNU", "11.4.0")):
            self.refused(f"The C\\+\\+ compiler must be g\\+\\+ 12 or newer, .*, not {name} {version}: "
                         "set CXX=g\\+\\+ and", ROOT, self.here / name,
                         "-DLADDER_CUDA=OFF", *GNU[:1], f"-DCMAKE_CXX_COMPILER_ID={name}",
                         f"-DCMAKE_CXX_COMPILER_VERSION={version}")  # fmt: skip

    def test_flags_under_which_no_kernel_fails(self) -> None:
        for variable, flags, named in (
            ("CXXFLAGS", "-O2 -ffast-math", "CMAKE_CXX_FLAGS has -ffast-math"),
            ("CXXFLAGS", "-Ofast", "CMAKE_CXX_FLAGS has -Ofast"),
            ("CXX", "g++ -ffinite-math-only", "CMAKE_CXX_COMPILER_ARG1 has -ffinite-math-only"),
            ("LDFLAGS", "-ffast-math", "CMAKE_EXE_LINKER_FLAGS has -ffast-math"),
            ("CUDAFLAGS", "-Xcompiler=-O2,-ffast-math", "CUDAFLAGS has -ffast-math"),
            ("NVCC_APPEND_FLAGS", "-Xcompiler -mdaz-ftz", "NVCC_APPEND_FLAGS has -mdaz-ftz")):  # fmt: skip
            with self.subTest(flags):
                self.refused(f"{re.escape(named)}, under which a kernel that writes nothing may pass", ROOT,
                             self.here / named, *GNU, **{variable: flags})  # fmt: skip

    def test_choices_for_gpus_that_cannot_be_honoured(self) -> None:
        self.refused('"75 80" is no GPU architecture; .* parted by semicolons', ROOT, self.here / "archs",
                     "-DLADDER_TORCH=OFF", CUDAARCHS="75 80")  # fmt: skip
        self.refused("No CUDA compiler works with CUDACXX=/no/such. Change that, or .* -DLADDER_CUDA=OFF", ROOT,
                     self.here / "none", "-DLADDER_TORCH=OFF", CUDACXX="/no/such")  # fmt: skip

    @unittest.skipUnless(nvcc_works(), "there is no nvcc to refuse anything")
    def test_what_nvcc_refuses(self) -> None:
        for variable, value, why in (("CUDAARCHS", "20", "Unsupported gpu architecture 'compute_20'"),
                                     ("CUDAFLAGS", "--bogus", "[Uu]n[a-z]+ .*option .--bogus.")):
            self.refused(f"No CUDA compiler works with {variable}={value}: {why}. Change that, or .*", ROOT,
                         self.here / variable, "-DLADDER_TORCH=OFF", **{variable: value})  # fmt: skip

    def test_folders_without_the_headers(self) -> None:
        for folders, sentence in (
            ("/no/such", "LADDER_CUDA_INCLUDE_DIRS: there is no folder /no/such; without"),
            (str(self.here), f"LADDER_CUDA_INCLUDE_DIRS={self.here}: cuda_fp16.h is in none of")):
            self.refused(sentence, ROOT, self.here / f"build{len(folders)}",
                         "-DLADDER_CUDA=OFF", f"-DLADDER_CUDA_INCLUDE_DIRS={folders}")  # fmt: skip

    def test_headers_of_an_older_cuda(self) -> None:
        wheels = self.here / "wheels"  # where pip, as it builds the package, has NVIDIA's headers
        for headers, option in ((self.here / "cuda11", "LADDER_CUDA_INCLUDE_DIRS={}"),
                                (wheels / "nvidia/cu13/include", f"CMAKE_PREFIX_PATH={wheels}")):
            self.write_headers(headers, 11080)
            self.refused(f"{headers}/cuda.h is of CUDA 11080: 12000 .12.0. or newer is needed", ROOT,
                         self.here / f"build {headers.name}", "-DLADDER_CUDA=OFF", f"-D{option.format(headers)}")

    def test_families_that_there_are_not(self) -> None:
        self.write_headers(self.here / "cuda", 13000)
        families = sorted({path.parent.name for path in (ROOT / "src/kernels").glob("*/*.cpp")})
        for names in ("sofmax", "softmax,sofmax", "softmax;sofmax"):
            self.refused(f'LADDER_FAMILIES: there is no family "sofmax"; there are {", ".join(families)}\\.',
                         ROOT, self.here / f"build {len(names)}", "-DLADDER_CUDA=OFF", f"-DLADDER_FAMILIES={names}",
                         f"-DLADDER_CUDA_INCLUDE_DIRS={self.here}/cuda")  # fmt: skip

    def test_an_older_cmake_reads_the_presets_and_so_hears_what_it_lacks(self) -> None:
        presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
        self.assertLessEqual(presets["version"], 3)  # CMake 3.21
        self.assertNotIn("cmakeMinimumRequired", presets)
        for preset in presets["configurePresets"]:
            self.assertTrue("inherits" in preset or preset["generator"] == "Ninja", preset["name"])
        first = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8").splitlines()[0]
        self.assertEqual(first, "cmake_minimum_required(VERSION 3.24)")


class Sources(Case):
    def test_what_is_fetched_is_named_by_its_hash(self) -> None:
        text = (ROOT / "cmake/Dependencies.cmake").read_text(encoding="utf-8")
        tags = re.findall(r"GIT_TAG (\S+)", text)
        self.assertEqual(len(tags), text.count("FetchContent_Declare("))
        for tag in tags:
            self.assertRegex(tag, r"^[0-9a-f]{40}$")


@unittest.skipUnless(shutil.which("git"), "there is no git")
class Commit(Case):
    def recorded(self, source: Path) -> str:
        header = self.here / "sha.hpp"
        subprocess.run(["cmake", f"-DSOURCE={source}", f"-DOUTPUT={header}", "-P",
                        str(ROOT / "cmake/GitSha.cmake")], check=True)  # fmt: skip
        return re.findall('"(.*)"', header.read_text(encoding="utf-8"))[0]

    def commit(self, repository: Path) -> str:
        def git(*words: str) -> str:
            command = ["git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=e", *words]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout
        git("init", "--quiet")
        (repository / "file").write_text("text")
        git("add", "file")
        git("commit", "--quiet", "--message=message")
        return git("rev-parse", "--short=12", "HEAD").strip()

    def test_is_the_repository_s_own(self) -> None:
        sha = self.commit(self.here)
        self.assertEqual(self.recorded(self.here), sha)
        (self.here / "file").write_text("changed")
        self.assertEqual(self.recorded(self.here), sha + "-dirty")
        unpacked = self.here / "kernel-ladder"  # a tarball, in somebody else's repository
        unpacked.mkdir()
        self.assertEqual(self.recorded(unpacked), "unknown")
        own = self.commit(unpacked)
        self.assertEqual(self.recorded(unpacked), own)

    def test_is_not_that_of_a_hook_s_repository(self) -> None:
        self.commit(self.here)
        unpacked = self.here / "kernel-ladder"
        unpacked.mkdir()
        os.environ["GIT_DIR"] = str(self.here / ".git")
        self.addCleanup(os.environ.pop, "GIT_DIR")
        self.assertEqual(self.recorded(unpacked), "unknown")


if __name__ == "__main__":
    skips.main()
