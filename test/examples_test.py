#!/usr/bin/env python3
"""Tests of examples/: examples_test.py [built|simulated]. With a GPU each example runs there and compares
its results with PyTorch's. Without one, those in Triton and numba run in their simulators, and the
operators for PyTorch are compiled and loaded.

  simulated   examples/triton and examples/numba, and what the copies of a kernel have in common
  built       examples/pytorch, which takes nvcc

Exits with 77 if all that could run passed, but something is missing."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import skips

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PYTORCH = EXAMPLES / "pytorch"
NOTEBOOK = PYTORCH / "inline" / "inline.ipynb"


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@functools.cache
def lack(language: str, **environment: str) -> str:
    """Why its examples can't be run here; empty if they can."""
    if not HAS_TORCH:
        return "torch is missing here"
    module = {"numba": "numba.cuda"}.get(language, language)
    result = run(sys.executable, "-B", "-c", f"import {module}", **environment)
    why = result.stdout.strip().rpartition("\n")[2]
    if why.startswith(f"ModuleNotFoundError: No module named '{language}'"):
        return f"{language} is missing here"
    return f"{language} can't be imported here: {why}" if result.returncode else ""


HAS_TORCH = has("torch")
if HAS_TORCH:
    import torch

HAS_GPU = HAS_TORCH and torch.cuda.is_available()
if os.environ.get("LADDER_REQUIRE_GPU") and not HAS_GPU:
    sys.exit("LADDER_REQUIRE_GPU is set, but PyTorch finds no NVIDIA GPU.")


def compiler() -> Path:
    """nvcc; skips the test where it can't compile for this PyTorch."""
    if not HAS_TORCH:
        raise unittest.SkipTest("torch is missing here")
    from torch.utils import cpp_extension

    if torch.version.cuda is None:
        raise unittest.SkipTest("this PyTorch was built without CUDA")
    if cpp_extension.CUDA_HOME is None:
        raise unittest.SkipTest("nvcc is missing here")
    if not cpp_extension.is_ninja_available():
        raise unittest.SkipTest("ninja is missing here")
    nvcc = Path(cpp_extension.CUDA_HOME) / "bin" / "nvcc"
    (version,) = re.findall(r"release ([\d.]+)", run(nvcc, "--version").stdout)
    if version.split(".")[0] != torch.version.cuda.split(".")[0]:
        raise unittest.SkipTest(f"nvcc is of CUDA {version}, PyTorch of {torch.version.cuda}")
    return nvcc


def run(*line: object, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, line)], cwd=folder, env=os.environ | environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip


def cells() -> list[str]:
    """The notebook's, of code."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(one["source"]) for one in notebook["cells"] if one["cell_type"] == "code"]


class Simulated(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_the_ways_have_the_same_kernels(self) -> None:
        for name in ("add.cu", "softmax.cu", "register.py", "check.py"):
            copies = sorted(PYTORCH.rglob(name))
            self.assertEqual(len(copies), 3, name)
            self.assertEqual(len({copy.read_bytes() for copy in copies}), 1, f"copies of {name} differ")
        for name in ("add", "softmax"):
            source = (PYTORCH / "jit" / f"{name}.cu").read_text(encoding="utf-8")
            self.assertIn(f'{name}_cu = r"""{source}"""', cells())

    def test_the_rungs_that_examples_name_are_there(self) -> None:
        for path in (*EXAMPLES.rglob("*.cu"), *EXAMPLES.rglob("*.py")):
            for rung in re.findall(r"src/kernels/\S+?[.]cu", path.read_text(encoding="utf-8")):
                self.assertTrue((ROOT / rung).exists(), f"{path}: no {rung}")

    def needs(self, language: str) -> None:
        if why := lack(language):
            self.skipTest(why)

    @unittest.skipUnless(HAS_TORCH, "torch is missing here")
    def test_a_package_that_does_not_import_is_a_reason(self) -> None:
        (self.folder / "numba").mkdir()
        broken = 'raise AttributeError("module numpy has no attribute row_stack")\n'
        (self.folder / "numba/__init__.py").write_text(broken, encoding="utf-8")
        why = "numba can't be imported here: AttributeError: module numpy has no attribute row_stack"
        self.assertEqual(lack("numba", PYTHONPATH=str(self.folder)), why)

    def ran(self, language: str, path: Path) -> subprocess.CompletedProcess[str]:
        """On the GPU or, where there is none, in the simulator."""
        variable = {"triton": "TRITON_INTERPRET", "numba": "NUMBA_ENABLE_CUDASIM"}[language]
        result = run(sys.executable, "-B", path, **({} if HAS_GPU else {variable: "1"}))
        if " wants pip install " in result.stdout:
            self.skipTest(result.stdout.strip())
        return result

    def agrees(self, language: str) -> None:
        self.needs(language)
        where = "cuda" if HAS_GPU else "cpu"
        for name in ("add", "softmax", "matmul"):
            with self.subTest(name=name):
                result = self.ran(language, EXAMPLES / language / f"{name}.py")
                self.assertEqual(
                    (result.returncode, result.stdout.strip().splitlines()[-1:]),
                    (0, [f"{language} {name}: agrees with PyTorch's, on {where}"]), result.stdout,
                )  # fmt: skip

    def test_triton(self) -> None:
        self.agrees("triton")

    def test_numba(self) -> None:
        self.agrees("numba")

    def notices(self, language: str, mistakes: dict[str, tuple[str, str]]) -> None:
        """That a wrong kernel fails its own check."""
        self.needs(language)
        shutil.copytree(EXAMPLES / language, self.folder / language)
        for name, (right, wrong) in mistakes.items():
            with self.subTest(name=name):
                path = self.folder / language / f"{name}.py"
                source = path.read_text(encoding="utf-8")
                self.assertEqual(source.count(right), 1)
                path.write_text(source.replace(right, wrong), encoding="utf-8")
                result = self.ran(language, path)
                self.assertIn("AssertionError: Tensor-likes are not close", result.stdout)
                self.assertEqual(result.returncode, 1)

    def test_mistakes_in_triton(self) -> None:
        self.notices("triton", {"add": ("inside = i < n", "inside = i < n - 1"),
                                "softmax": ('-float("inf")', "0")})  # fmt: skip

    def test_mistakes_in_numba(self) -> None:
        self.notices("numba", {"add": ("a[i] + b[i]", "a[i] + b[0]"),
                               "softmax": ("block_reduce(_sum)", "block_reduce(_larger)")})  # fmt: skip

    def test_without_a_gpu_or_a_simulator_it_is_said(self) -> None:
        for language, variable in (("triton", "TRITON_INTERPRET"), ("numba", "NUMBA_ENABLE_CUDASIM")):
            if not lack(language):
                result = run(sys.executable, "-B", EXAMPLES / language / "add.py",
                             **{variable: "0", "CUDA_VISIBLE_DEVICES": ""})  # fmt: skip
                self.assertEqual(
                    (result.returncode, result.stdout),
                    (1, f"PyTorch finds no GPU here: with {variable}=1 this runs on the CPU\n"),
                )

    def test_the_check_of_operators_can_pass_and_fail(self) -> None:
        """check.py, on operators that are PyTorch's own functions on the CPU."""
        if not HAS_TORCH:
            self.skipTest("torch is missing here")
        program = """
import torch
library = torch.library.Library("my_ops", "FRAGMENT")
for schema, function in (("add(Tensor a, Tensor b) -> Tensor", {add}),
                         ("softmax(Tensor x) -> Tensor", {softmax})):
    library.define(schema)
    library.impl(schema.split("(")[0], function, "CPU")
import register
from check import check
check("cpu")
"""
        add, softmax = "lambda a, b: a + b", "lambda x: x.contiguous().softmax(-1)"
        for changed, wrong in (
            ({}, ""),
            ({"softmax": "lambda x: x.contiguous().softmax(0)"}, "not close"),
            ({"softmax": "lambda x: x.contiguous().softmax(-1).float()"}, "dtype"),
        ):
            with self.subTest(changed=changed):
                source = program.format(**({"add": add, "softmax": softmax} | changed))
                result = run(sys.executable, "-B", "-c", source, folder=PYTORCH / "jit")
                self.assertEqual(result.returncode, bool(wrong), result.stdout)
                self.assertIn(wrong, result.stdout)


class Built(unittest.TestCase):
    """Each way in a copy of its folder, as people take it, compiled for one GPU."""

    def setUp(self) -> None:
        self.nvcc = compiler()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        architecture = "{}.{}".format(*torch.cuda.get_device_capability()) if HAS_GPU else "8.0"
        self.environment = {"TORCH_CUDA_ARCH_LIST": architecture,
                            "TORCH_EXTENSIONS_DIR": str(self.folder / "extensions")}  # fmt: skip

    def copy(self, way: str) -> Path:
        return Path(shutil.copytree(PYTORCH / way, self.folder / way))

    def does(self, *line: object, folder: Path | None = None, **environment: str) -> str:
        result = run(*line, folder=folder, **self.environment | environment)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def succeeded(self, printed: str, way: str) -> None:
        wanted = "agree with PyTorch's on" if HAS_GPU else "are built and loaded; without a GPU"
        self.assertIn(f"{way}: add and softmax {wanted}", printed)

    def test_jit(self) -> None:
        self.succeeded(self.does(sys.executable, self.copy("jit") / "run.py"), "JIT")

    def test_setup_py(self) -> None:
        folder = self.copy("setup_py")
        self.does(sys.executable, "setup.py", "build_ext", "--inplace", folder=folder)
        self.assertEqual([path.name for path in folder.rglob("_C*.so")][-1:], ["_C.abi3.so"])
        printed = self.does(sys.executable, folder / "run.py", PYTHONPATH=str(folder / "src"))
        self.succeeded(printed, "setup.py")

    def test_cmake(self) -> None:
        folder = self.copy("cmake")
        result = run(sys.executable, folder / "run.py")
        self.assertEqual((result.returncode, result.stdout),
                         (1, "my_ops.so is not built: cmake -B build && cmake --build build\n"))  # fmt: skip
        architecture = self.environment["TORCH_CUDA_ARCH_LIST"].replace(".", "")
        self.does("cmake", "-B", "build", f"-DCMAKE_CUDA_ARCHITECTURES={architecture}",
                  f"-DCMAKE_CUDA_COMPILER={self.nvcc}", f"-DPython3_EXECUTABLE={sys.executable}",
                  folder=folder)  # fmt: skip
        self.does("cmake", "--build", "build", folder=folder)
        self.succeeded(self.does(sys.executable, folder / "run.py"), "CMake")

    def test_inline(self) -> None:
        program = self.folder / "cells.py"
        program.write_text("\n".join(cells()), encoding="utf-8")
        self.succeeded(self.does(sys.executable, program), "inline")


def main() -> int:
    names = sys.argv[1:] or ["simulated", "built"]
    if not set(names) <= {"simulated", "built"}:
        sys.exit(f"{' '.join(names)}: expected simulated or built; see {Path(__file__).name}'s first lines")
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(
        loader.loadTestsFromTestCase({"simulated": Simulated, "built": Built}[name]) for name in names
    )
    return skips.of(unittest.TextTestRunner().run(suite))


if __name__ == "__main__":
    sys.exit(main())
