#!/usr/bin/env python3
"""Tests of scripts/upkeep/check_architectures.py with a played nvcc, which refuses
what it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "upkeep" / "check_architectures.py"

# Refuses sources with a text of $REFUSE in them, for the architecture $REFUSE_FOR.
NVCC = r"""#!/bin/sh
case $1 in
  --list-gpu-code) echo sm_75 sm_90 sm_100 ;;
  --version) echo Cuda compilation tools, release 12.9, V12.9.1 ;;
  --help) echo "$HELP" ;;
  *)
    echo "$*" >>"$LOG"
    for source; do :; done
    for text in $REFUSE; do
      { echo "$source"; cat "$source"; } | grep -qF "$text" || continue
      case "$*" in *"-arch=sm_$REFUSE_FOR "*) ;; *) continue ;; esac
      echo "ptxas /tmp/all.ptx, line 7; error   : Modifier '.NaN' requires .target sm_80"
      exit 255
    done ;;
esac
"""
VERSIONS = ("v06_intrinsics.cu", "v09_big_blocks.cu")  # of elementwise


class CheckArchitectures(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.nvcc = self.folder / "nvcc"
        self.nvcc.write_text(NVCC)
        self.nvcc.chmod(0o755)
        self.log = self.folder / "log"
        self.log.touch()

    def check(self, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        played = {"CUDACXX": str(self.nvcc), "LOG": str(self.log), "HELP": ""}
        told = {"REFUSE": "", "REFUSE_FOR": ""}
        return subprocess.run(
            [sys.executable, str(SCRIPT), *args],
            env={**os.environ, **played, **told, **environment}, capture_output=True, text=True,
        )  # fmt: skip

    def test_the_versions_of_a_family_are_compiled_together(self) -> None:
        result = self.check("75")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"^sm_75 +\d+ files +[\d.]+ s +all compile\n$")
        commands = self.log.read_text().splitlines()
        self.assertGreater(int(result.stdout.split()[1]), 5 * len(commands))
        self.assertFalse([c for c in commands if ".sm90a.cu" in c])

    def test_the_refused_files_are_named_with_the_reason(self) -> None:
        result = self.check("sm_90", "75", REFUSE=" ".join(VERSIONS), REFUSE_FOR="75")
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        first, second, *rest = result.stdout.splitlines()
        self.assertRegex(first, r"^sm_75 .* 2 refused$")
        self.assertRegex(result.stdout.splitlines()[-1], r"^sm_90 .* all compile$")
        self.assertEqual(second, f"  src/kernels/elementwise/{VERSIONS[0]}")
        self.assertEqual(rest[0], "    ptxas: Modifier '.NaN' requires .target sm_80")
        self.assertEqual(rest[1], f"  src/kernels/elementwise/{VERSIONS[1]}")

    def test_files_that_fail_only_together_are_compiled_one_by_one(self) -> None:
        result = self.check("75", REFUSE=f'{VERSIONS[0]}"', REFUSE_FOR="75")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("src/kernels/elementwise: compiled one by one, as together", result.stdout)

    def test_files_for_hopper_are_compiled_for_90a_only(self) -> None:
        self.assertEqual(self.check("90a", REFUSE=VERSIONS[0], REFUSE_FOR="90a").returncode, 0)
        result = self.check("90a", REFUSE=".sm90a.cu", REFUSE_FOR="90a")
        self.assertRegex(result.stdout, r"^sm_90a +(\d+) files .* \1 refused\n")

    def test_optimization_is_off_where_nvcc_cannot_hurry(self) -> None:
        self.check("75")
        self.assertIn(" -G ", self.log.read_text())
        self.log.write_text("")
        self.check("75", HELP="--Ofast-compile <level>")
        self.assertNotIn(" -G ", self.log.read_text())
        self.assertIn(" --Ofast-compile=max ", self.log.read_text())

    def test_an_architecture_that_nvcc_does_not_know_is_one_sentence(self) -> None:
        for given, unknown in (((), "80, 86, 89, 120"), (("70", "75"), "70"), (("x",), "x")):
            result = self.check(*given)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            known = f"does not compile for {unknown}, only for 75, 90, 90a, 100.\n"
            self.assertEqual(result.stderr, f"nvcc 12.9 at {self.nvcc} {known}")

    def test_no_nvcc_is_one_sentence(self) -> None:
        result = self.check("75", CUDACXX="/nowhere/nvcc")
        self.assertEqual(
            (result.returncode, result.stderr), (2, "CUDACXX=/nowhere/nvcc: not found.\n")
        )


if __name__ == "__main__":
    unittest.main()
