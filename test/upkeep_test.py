#!/usr/bin/env python3
"""Tests of what .ci/run counts as a warning (scripts/upkeep/warnings)."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

UPKEEP = Path(__file__).resolve().parent.parent / "scripts" / "upkeep"

# As they stand in build/log/build.txt
OF_GXX = "a.cu:3:40: warning: control reaches end of non-void function [-Wreturn-type]"
OF_NVCC = 'a.cu(1): warning #177-D: variable "unused" was declared but never referenced'
OF_LD = "/usr/bin/ld: warning: -z foo ignored"
OF_PTXAS = "ptxas warning : Value of threads per SM for entry k is out of range. .minnctapersm will be ignored"
OF_WGMMA = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"
SPILLED = "ptxas warning : Registers are spilled to local memory in function 'k', 8 bytes spill stores"
QUIET = f"""[1/3] Building CUDA object src/warning.cu.o
{SPILLED}
a.cu:3:40: note: parameter passing for argument of type 'Map' changed in GCC 7.1
Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"
[2/3] Linking CXX executable tests/warnings_test
"""


class Warnings(unittest.TestCase):
    def named(self, *texts: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            logs = [Path(folder) / f"{i}.txt" for i in range(len(texts))]
            for log, text in zip(logs, texts):
                log.write_text(text, encoding="utf-8")
            return subprocess.run([UPKEEP / "warnings", *logs], capture_output=True, text=True)

    def test_each_tool_s_is_named_once(self) -> None:
        for line in (OF_GXX, OF_NVCC, OF_LD, OF_PTXAS, OF_WGMMA):
            result = self.named(QUIET, f"{QUIET}{line}\n{line}\n[3/3] three\n")
            self.assertEqual((result.returncode, result.stderr), (1, f"{line}\n"))

    def test_spills_and_names_are_none(self) -> None:
        result = self.named(QUIET)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_build_without_a_log_is_not_without_warnings(self) -> None:
        result = subprocess.run([UPKEEP / "warnings", "/nowhere"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nowhere: there is no such log.", result.stderr)


if __name__ == "__main__":
    unittest.main()
