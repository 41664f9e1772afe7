#!/usr/bin/env python3
"""Tests of libkernel_ladder.so as scripts/peers_torch.py loads it, with the host executor's kernels
on this process's memory: library_test.py LIBRARY."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True  # none beside the script
sys.path.insert(0, str(ROOT / "scripts"))

from peers import library  # noqa: E402
from peers.library import HOST, INPUT, OUTPUT, Array, Kernel, Library, LibraryError  # noqa: E402


class Calls(unittest.TestCase):
    path: Path

    def setUp(self) -> None:
        self.library = Library(self.path)
        self.kernels = {one.name: one for one in self.library.kernels(HOST)}

    def test_kernels_tell_what_they_are(self) -> None:
        one = self.kernels["softmax/backward/bf16/v30_backward_two_reads"]
        self.assertEqual(
            (one.family, one.op, one.dtype, one.version, one.backend, one.is_baseline),
            ("softmax", "backward", "bf16", "v30_backward_two_reads", HOST, False),
        )
        self.assertTrue(one.idea)
        self.assertRegex(self.library.git_sha, "^[0-9a-f]{12,40}(-dirty)?$|^unknown$")

    def test_the_best_version_for_a_problem(self) -> None:
        best = self.library.best("softmax/log", "bf16", HOST, "8x100")
        self.assertEqual(best, self.kernels["softmax/log/bf16/v13_log_by_length"])
        with self.assertRaisesRegex(LibraryError, "ROWSxCOLS"):
            self.library.best("softmax", "bf16", HOST, "8")

    def test_arrays_of_several_results(self) -> None:
        launcher = self.library.open(
            self.kernels["layernorm/backward/f16/v31_block_backward"], "3x7"
        )
        self.assertEqual(
            launcher.arrays,
            [
                Array("x", INPUT, "f16", 21, 42),
                Array("weight", INPUT, "f16", 7, 14),
                Array("dy", INPUT, "f16", 21, 42),
                Array("dx", OUTPUT, "f16", 21, 42),
                Array("dweight", OUTPUT, "f16", 7, 14),
                Array("dbias", OUTPUT, "f16", 7, 14),
            ],
        )

    def test_a_refusal_is_an_exception_with_the_reason(self) -> None:
        kernel = self.kernels["gemm/f32/v01_naive"]
        with self.assertRaisesRegex(LibraryError, "N is over 2097120") as caught:
            self.library.open(kernel, "1x2097121x1")
        self.assertEqual(caught.exception.status, library.UNSUPPORTED)
        with self.assertRaisesRegex(LibraryError, "no problem of gemm/f32/v01_naive: MxNxK"):
            self.library.open(kernel, "many")

    def transpose(self, seed: int) -> bool:
        """By a kernel with shared memory and barriers; is the result right?"""
        rows, cols = 65, 40 + seed
        values = [float(seed + i) for i in range(rows * cols)]
        x, y = (ctypes.c_float * len(values))(*values), (ctypes.c_float * len(values))()
        kernel: Kernel = self.kernels["transpose/f32/v03_padded"]
        launcher = self.library.open(kernel, f"{rows}x{cols}")
        assert launcher.bind([ctypes.addressof(x), ctypes.addressof(y)]) == 0
        launcher.launch(0)
        return list(y) == [values[r * cols + c] for c in range(cols) for r in range(rows)]

    def test_arrays_beside_static_shared_memory_are_not_taken_for_it(self) -> None:
        """It is thread-local, and in a library that was loaded late, on the thread's heap."""
        m_mmap_threshold = -3  # of malloc.h: what is larger than 16 MiB is not on the heap
        self.assertTrue(ctypes.CDLL(None).mallopt(m_mmap_threshold, 16 << 20))

        def several() -> bool:
            return all(self.transpose(seed) for seed in range(8))

        with ThreadPoolExecutor(1) as pool:
            self.assertTrue(pool.submit(several).result())

    def test_threads_may_launch_at_once(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            self.assertTrue(all(pool.map(self.transpose, range(32))))


class Installed(unittest.TestCase):
    def test_what_is_installed_runs_where_it_is(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            where = Path(folder)
            install = ["cmake", "--install", Calls.path.parent, "--prefix", where]
            subprocess.run(install, check=True, capture_output=True)
            self.assertTrue((where / "include/kernel_ladder.h").exists())
            bench = subprocess.run(
                [where / "bin/bench", "--backend=host", "--csv=-", "--transpose=2x3",
                 "--benchmark_filter=^transpose/f32/v01_"],
                capture_output=True, text=True, encoding="utf-8")  # fmt: skip
            self.assertEqual(bench.returncode, 0, bench.stderr)
            self.assertIn("\ntranspose,,v01_naive,", bench.stdout)
            (installed,) = where.glob("lib*/**/libkernel_ladder.so")
            loaded = subprocess.run(["ldd", installed], check=True, capture_output=True, text=True).stdout
            self.assertIn(f"{where}/", loaded)
            self.assertNotIn(f"{Calls.path.parent}/", loaded)


if __name__ == "__main__":
    Calls.path = Path(sys.argv.pop(1))
    unittest.main()
