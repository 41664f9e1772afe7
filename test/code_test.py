#!/usr/bin/env python3
"""Which code rows are of, by the hash that ./bench writes and by git's history; and what stale.py makes of
it: code_test.py PROVENANCE.cpp, what cmake/Provenance.cmake has written into the build of this tree."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import skips

ROOT = Path(__file__).resolve().parent.parent
UPKEEP = ROOT / "scripts" / "upkeep"
sys.path[:0] = [str(ROOT / "scripts"), str(UPKEEP)]
sys.dont_write_bytecode = True

import ladder_csv  # noqa: E402
import stale  # noqa: E402
from ladder_code import NoHistory, Tree, code  # noqa: E402
from ladder_csv import LadderError, Row  # noqa: E402

PROVENANCE = Path(sys.argv.pop()) if sys.argv[1:] else None


def row(kernel: str, **more: str | float) -> Row:
    values: dict[str, str | float] = {
        name: "" if kind is str else float("nan") for name, kind in Row.__annotations__.items()
    }
    values |= {"kernel": kernel, "family": "own", "dtype": "f32", "problem": "8", "backend": "cuda",
               "device": "a GPU", "verdict": "passed", "time_us_median": 1, "time_us": 1,
               "timestamp": "2026-01-01"}  # fmt: skip
    return Row(**(values | more))  # type: ignore[arg-type]


def codes(provenance: Path) -> dict[str, str]:
    return dict(re.findall(r'^ *\{"(.+)", "(.+)"\},$', provenance.read_text(encoding="utf-8"), re.MULTILINE))


@unittest.skipUnless(PROVENANCE, "of a build")
class ThisTree(unittest.TestCase):
    def test_the_build_and_the_scripts_hash_alike(self) -> None:
        assert PROVENANCE
        tree = Tree()
        files = ROOT.glob("src/kernels/*/v[0-9]*.cu")
        mine = {f"{file.parent.name}/{file.name}": tree.code_of(str(file.relative_to(ROOT))) for file in files}
        self.assertEqual(codes(PROVENANCE), mine)
        self.assertTrue(all(re.fullmatch("[0-9a-f]{16}", one) for one in mine.values()))


class Repository(unittest.TestCase):
    """Of versions, a header of each, and one that launches another's kernel."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        ladder_csv.file_of.cache_clear()
        try:
            self.git("init", "--quiet")
        except FileNotFoundError:
            self.skipTest("there is no git")
        self.write("device/vector.hpp", "int a;\n")
        self.write("kernels/own/own.hpp", '#include "device/vector.hpp"\n#include <cmath>\n')
        self.write("kernels/own/launchers.hpp", "int launch();\n")
        self.write("kernels/own/v01_naive.cu", '#include "own.hpp"\nint b;\n')
        self.write("kernels/own/v02_next.cu", '#include "kernels/own/launchers.hpp"\nint c;\n')
        self.write("kernels/own/v03_by_shape.cu", '#include "launchers.hpp"\nint d = f("  // no comment");\n')
        self.commit = self.committed()
        self.codes = self.built()

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def write(self, path: str, text: str) -> None:
        file = self.root / "src" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def committed(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=a")
        return self.git("rev-parse", "HEAD")

    def built(self) -> dict[str, str]:
        """The codes, as a build has them."""
        written = self.root / "provenance.cpp"
        subprocess.run(["cmake", f"-DSOURCE={self.root / 'src'}", f"-DOUTPUT={written}", "-P",
                        str(ROOT / "cmake/Provenance.cmake")], check=True)  # fmt: skip
        return {label.split("/")[1].split(".")[0]: one for label, one in codes(written).items()}

    def write_rows(self, name: str, *rows: Row) -> None:
        path = self.root / "results" / "gpu" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([Row._fields, *rows])


class TodaysCode(Repository):
    def by_commit(self, commit: str = "") -> str:
        """The numbers of the versions whose rows are of today's code."""
        tree = Tree(self.root)
        names = ("v01_naive", "v02_next", "v03_by_shape")
        rows = [row(one, git_sha=commit or self.commit) for one in names]
        return " ".join(one.kernel[:3] for one in rows if tree.is_of_today(one))

    def by_both(self) -> str:
        """The same, by their codes too."""
        tree = Tree(self.root)
        rows = [row(name, code=one, git_sha="unknown") for name, one in self.codes.items()]
        found = " ".join(one.kernel[:3] for one in rows if tree.is_of_today(one))
        self.assertEqual(found, self.by_commit())
        return found

    def test_as_it_was_committed(self) -> None:
        self.assertEqual(self.by_both(), "v01 v02 v03")
        self.assertEqual(self.by_commit(self.commit[:10]), "v01 v02 v03")
        self.assertEqual(self.by_commit(self.commit + "-dirty"), "")
        self.assertEqual(self.by_commit("0" * 40), "")
        self.assertEqual(self.by_commit("unknown"), "")

    def test_a_changed_version(self) -> None:
        self.write("kernels/own/v01_naive.cu", '#include "own.hpp"\nint e;\n')
        self.assertEqual(self.by_both(), "v02 v03")
        self.assertEqual(self.by_commit(self.committed()), "v01 v02 v03")

    def test_a_changed_header_of_a_header(self) -> None:
        self.write("device/vector.hpp", "long a;\n")
        self.assertEqual(self.by_both(), "v02 v03")

    def test_a_changed_file_whose_launcher_is_called(self) -> None:
        self.write("kernels/own/v02_next.cu", '#include "kernels/own/launchers.hpp"\nint e;\n')
        self.assertEqual(self.by_both(), "v01")

    def test_a_later_version_s_launcher_is_not_called(self) -> None:
        self.write("kernels/own/v03_by_shape.cu", '#include "launchers.hpp"\nint e;\n')
        self.write("kernels/own/v02b_new.cu", '#include "launchers.hpp"\n')
        self.assertEqual(self.by_both(), "v01 v02")

    def test_comments_and_white_space_are_no_code(self) -> None:
        self.write("device/vector.hpp", '// A "number.\nint /* one\n of * several **/ a\n  ;  // the number\n')
        self.assertEqual(self.by_both(), "v01 v02 v03")

    def test_strings_are_code(self) -> None:
        self.write("kernels/own/v03_by_shape.cu", '#include "launchers.hpp"\nint d = f(" // no comment");\n')
        self.assertEqual(self.by_both(), "v01 v02")
        self.write("kernels/own/v03_by_shape.cu", '#include "launchers.hpp"\nint d = f("  // comment");\n')
        self.assertEqual(self.by_both(), "v01 v02")

    def test_versions_and_headers_that_are_no_more_or_new(self) -> None:
        self.write("kernels/own/new.hpp", "")
        self.write("kernels/own/v01_naive.cu", '#include "new.hpp"\nint b;\n')
        (self.root / "src/kernels/own/v03_by_shape.cu").unlink()
        self.assertEqual(self.by_both(), "v02")

    def test_both_hash_alike_whatever_the_text(self) -> None:
        texts = (r"""char a = '"', b = '\'', c = '\\'; // "one" 'two'""", r'f("\"// \\", "");/**/g("/* ")',
                 "int n = 1'000'000; // it's", 'asm("a;\\n" /* b;c */ "[d]");\t\r\n#define A \\\n  "µ" // é\n',
                 "a / b /c//", "", "/", '"', "/* no end", 'R"(a\n // b)"')  # fmt: skip
        for text in texts:
            self.write("kernels/own/v01_naive.cu", text)
            self.assertEqual(self.built()["v01_naive"], Tree(self.root).code_of("src/kernels/own/v01_naive.cu"),
                             text)  # fmt: skip
        self.assertEqual(code(texts[0].encode()), rb"""chara='"',b='\'',c='\\';""")

    def test_without_a_history(self) -> None:
        rows = [row("v01_naive", code=self.codes["v01_naive"]), row("v01_naive", git_sha=self.commit)]
        clone = self.root / "clone"
        self.git("commit", "--quiet", "--message=b", "--allow-empty")
        self.git("clone", "--quiet", "--depth=1", f"file://{self.root}", str(clone))
        unpacked = self.root / "unpacked"  # in somebody else's repository
        unpacked.mkdir()
        subprocess.run(["cp", "-r", str(self.root / "src"), str(unpacked)], check=True)
        for root in (clone, unpacked):
            tree = Tree(root)
            self.assertTrue(tree.is_of_today(rows[0]))
            self.assertEqual(tree.earlier(rows[:1]), "")
            self.assertRaises(NoHistory, tree.is_of_today, rows[1])

    def test_how_many_are_of_earlier_code(self) -> None:
        rows = [row("v01_naive", code="0" * 16), row("v02_next", code=self.codes["v02_next"]), row("p01_torch"),
                row("v09_gone", git_sha=self.commit)]  # fmt: skip
        self.assertEqual(Tree(self.root).earlier(rows), "2 of 3 rows are of earlier code")


class Stale(Repository):
    def test_lists_versions_without_a_row_of_the_tree_s_code(self) -> None:
        self.write_rows("1.csv", row("v01_naive", git_sha=self.commit), row("v02_next", code="0" * 16))
        self.write_rows("2-shapes.csv", row("v01_naive", git_sha="unknown", timestamp="2025"))
        self.write_rows("3-peers.csv", row("v03_by_shape", code=self.codes["v03_by_shape"]))
        self.write_rows("4.csv", row("v03_by_shape", code=self.codes["v03_by_shape"], verdict="failed"),
                        row("v03_by_shape", code=self.codes["v03_by_shape"], problem="9", backend="host"))  # fmt: skip
        found, count, why = stale.stale(self.root, [])
        self.assertEqual([tuple(one) for one in found],
                         [("own", "v02_next", "gpu/1.csv"), ("own", "v03_by_shape", "")])  # fmt: skip
        self.assertEqual((count, why), (3, ""))
        self.assertEqual(stale.stale(self.root, ["own"]), (found, count, why))

    def test_what_history_does_not_tell_is_said(self) -> None:
        subprocess.run(["rm", "-rf", str(self.root / ".git")], check=True)
        self.write_rows("1.csv", row("v01_naive", git_sha=self.commit),
                        row("v02_next", code=self.codes["v02_next"]))  # fmt: skip
        found, _, why = stale.stale(self.root, [])
        self.assertEqual([one.name for one in found], ["v01_naive", "v03_by_shape"])
        self.assertIn("not a git repository", why)

    def test_a_family_that_is_not_there(self) -> None:
        with self.assertRaisesRegex(LadderError, "There is no family nosuch; there are own."):
            stale.stale(self.root, ["nosuch"])


class Command(unittest.TestCase):
    def run_it(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, str(UPKEEP / "stale.py"), *arguments], capture_output=True, text=True)

    def test_of_this_tree(self) -> None:
        ran = self.run_it("transpose")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        versions = len(list(ROOT.glob("src/kernels/transpose/v*.cu")))
        self.assertRegex(ran.stdout, rf"\d+ of {versions} versions have no time of the tree's code\.\n$")

    def test_help_and_mistakes(self) -> None:
        self.assertIn("stale.py gemm softmax", self.run_it("--help").stdout)
        ran = self.run_it("nosuch")
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertRegex(ran.stderr, r"^There is no family nosuch; there are .+\.\n$")


if __name__ == "__main__":
    for name in ("GIT_DIR", "GIT_WORK_TREE"):
        os.environ.pop(name, None)
    skips.main()
