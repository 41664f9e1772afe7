#!/usr/bin/env python3
"""Tests of what .ci/run counts as a warning (scripts/upkeep/warnings), and of what ctest counts as skipped
(test/skips.py); and of scripts/upkeep/verify_all, whose steps call stubs here."""

from __future__ import annotations

import os
import re
import shutil
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


# Of a clone; fails with a compiler of its own
SCRIPTS_TEST = """#!/bin/sh
mkdir -p build/log; echo "$WARNED" >build/log/build.txt
echo "scripts/test $*${CUDACXX:+ with $(basename $CUDACXX)} in $PWD/build"
[ -z "$CUDACXX" ]
"""


@unittest.skipUnless(shutil.which("git"), "there is no git")
class VerifyAll(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name).resolve() / "tree"
        (self.tree / "scripts/upkeep").mkdir(parents=True)
        (self.tree / "docs").mkdir()
        for name in ("verify_all", "warnings"):
            shutil.copy(UPKEEP / name, self.tree / "scripts/upkeep")
        test = self.tree / "scripts/test"
        test.write_text(SCRIPTS_TEST, encoding="utf-8")
        test.chmod(0o755)
        (self.tree / ".gitignore").write_text("build/\n", encoding="utf-8")
        self.git("init", "-q")
        self.commit()

    def git(self, *words: str) -> str:
        one = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        of_others = ("GIT_DIR", "GIT_WORK_TREE")
        return subprocess.run(["git", *one, *words], cwd=self.tree, check=True, capture_output=True, text=True,
                              env={k: v for k, v in os.environ.items() if k not in of_others}).stdout  # fmt: skip

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "one", "--allow-empty")
        return self.git("rev-parse", "--short=12", "HEAD").strip()

    def verify(self, *steps: str, code: int = 0, **environment: str) -> list[str]:
        """The page's lines."""
        # scripts/test has exported a CUDACXX, which the clone's takes for that of the step cuda12.
        inherited = {name: value for name, value in os.environ.items() if name != "CUDACXX"}
        result = subprocess.run([self.tree / "scripts/upkeep/verify_all", *steps], capture_output=True, text=True,
                                env=inherited | {"WARNED": "", "CUDA12": "/nowhere"} | environment)  # fmt: skip
        self.assertEqual(result.returncode, code, result)
        page = self.tree / "docs/verified.md"
        rows = page.read_text("utf-8").splitlines() if page.exists() else []
        return [re.sub(r"\| \d+:\d\d \|", "| 0:00 |", row) for row in rows if re.match(r"\| (?!step)\w", row)]

    def test_a_line_for_each_step_with_its_commit(self) -> None:
        first = self.commit()
        rows = self.verify("limits", "cuda12")
        self.assertEqual(rows[0], "| asan | never run |  |  |  |")
        self.assertEqual(
            [rows[2], rows[4]],
            [f"| cuda12 | skipped | 0:00 | {first} | No nvcc 12 in /usr/local, and CUDA12 names none; "
             "PyPI has nvcc from 13.0 on. |",
             f"| limits | passed | 0:00 | {first} | scripts/test -L ^full$ -R (limits/host_full)$ in build |"])  # fmt: skip
        second = self.commit()
        again = self.verify("wheels")
        self.assertEqual(again[:5], rows[:5])
        self.assertIn(f"| wheels | passed | 0:00 | {second} | scripts/test --wheels in ", again[5])

    def test_one_that_fails_does_not_end_it(self) -> None:
        nvcc = self.tree / "nvcc"
        nvcc.write_text("#!/bin/sh\n", encoding="utf-8")
        nvcc.chmod(0o755)
        rows = self.verify("cuda12", "wheels", code=1, CUDA12=str(nvcc), WARNED=OF_GXX)
        self.assertRegex(rows[2], r"^\| cuda12 \| failed .* scripts/test  ?with nvcc in ")
        self.assertRegex(rows[5], rf"^\| wheels \| failed .* {re.escape(OF_GXX)} \|$")

    def test_there_is_no_such_step(self) -> None:
        self.assertEqual(self.verify("limits", "all", code=1), [])

    def test_the_page_names_all_steps(self) -> None:
        page = (TESTS.parent / "docs/verified.md").read_text(encoding="utf-8")
        steps = re.search(r"^steps=\((.*)\)$", (UPKEEP / "verify_all").read_text("utf-8"), re.MULTILINE)[1]
        self.assertEqual(re.findall(r"^\| (\w+) \| (?!outcome)", page, re.MULTILINE), steps.split())


if __name__ == "__main__":
    skips.main()
