#!/usr/bin/env python3
"""Tests of what .ci/run counts as a warning (scripts/upkeep/warnings), and of what ctest counts as skipped
(test/skips.py)."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import skips

TESTS = Path(__file__).resolve().parent
UPKEEP = TESTS.parent / "scripts" / "upkeep"

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


class Skips(unittest.TestCase):
    def ran(self, *bodies: str) -> tuple[int, str]:
        tests = "".join(f"  def test_{i}(self):\n    {body}\n" for i, body in enumerate(bodies))
        program = f"import skips, unittest\nclass One(unittest.TestCase):\n{tests}skips.main()"
        result = subprocess.run([sys.executable, "-c", program], cwd=TESTS, capture_output=True, text=True)
        return result.returncode, result.stdout

    def test_a_skip_is_no_pass_and_no_cover_for_a_failure(self) -> None:
        skip = "self.skipTest('needs it')"
        self.assertEqual(self.ran("pass"), (0, ""))
        self.assertEqual(self.ran("pass", skip, skip), (skips.SKIPPED, "skipped: needs it\n" * 2))
        self.assertEqual(self.ran("self.fail()", skip), (1, "skipped: needs it\n"))

    def test_every_file_that_skips_says_so(self) -> None:
        silent = [path.name for path in TESTS.glob("*_test.py") if path.name != Path(__file__).name
                  and re.search(r"skipTest|skipIf|skipUnless|SkipTest|\b77\)", text := path.read_text("utf-8"))
                  and ("unittest.main(" in text or "skips" not in text)]  # fmt: skip
        self.assertEqual(silent, [])


if __name__ == "__main__":
    unittest.main()
