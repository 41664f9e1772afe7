#!/usr/bin/env python3
"""Tests of scripts/setup, scripts/test and scripts/bench, on a machine made up of stubs: a folder of
its own is the PATH, with a few real programs and with those of a build machine that only write down
how they were called. Nothing is fetched, compiled or installed."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import skips

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
REAL = """awk bash cat chmod cmp cp cut dirname env grep head ln mkdir mktemp mv nproc pgrep readlink rm sed
    sleep sort tail tee touch tr""".split()

GXX = "case $1 in -dumpfullversion) echo 12.2.0;; esac"
CMAKE = """
case $1 in
  --version) echo 'cmake version 3.25.1' ;;
  --build) echo "$*" >>"$HERE/builds"; . "$HERE/build.sh" ;;
  *) echo "$* CUDACXX=$CUDACXX CXX=$CXX" >>"$HERE/configured"; . "$HERE/configure.sh" ;;
esac"""
BUILD = """[ "$NINJA_STATUS" = '[%f/%t] ' ] || exit 1; mkdir -p "$2"; echo '[1/2] one'; echo '[2/2] two'
printf '#!/bin/sh\\necho bench "$@"\\n' >"$2/bench"; chmod +x "$2/bench" """
CTEST = """echo "$*" >"$HERE/tested"; cat "$HERE/summary" >>"$LADDER_TEST_SUMMARY"
while [ "$1" != --output-junit ]; do shift; done; cp "$HERE/junit" "$2"; exit 5"""
NVCC = """case $1 in
  --version) echo "Cuda compilation tools, release VERSION, V0" ;;
  -ccbin) [ "$2" != "$(cat "$HERE/refused")" ] ;;
esac"""
NVIDIA_SMI = "echo '| NVIDIA-SMI 1.2      Driver Version: 1.2      CUDA Version: VERSION     |'"
PYTHON = """
if [ "$1 $2" = '-m venv' ]; then
  [ "$3" = --clear ] && rm -rf "$4" && shift
  mkdir -p "$3/bin"; cp "$HERE/bin/venv_python" "$3/bin/python"
fi"""
VENV_PYTHON = """
site=${0%/bin/python}/lib/python3/site-packages cuda=$site/nvidia/cu13
case "$1 $2 $3" in
  '-c import sysconfig'*) echo "$site" ;;
  '-m pip freeze') cat "$site/names" ;;
  '-m pip install')
    . "$HERE/pip.sh"
    mkdir -p "$cuda/include" "$cuda/lib" "$cuda/bin"
    for name; do case $name in *==*) echo "$name" | tee -a "$HERE/fetched" >>"$site/names" ;; esac; done
    touch "$cuda/lib/libcublas.so.13" "$cuda/bin/nvcc"; chmod +x "$cuda/bin/nvcc" ;;
esac"""
PAGES = "seq 1 200 2>/dev/null; for i in 1 2 3 4 5 6; do echo 'a long story'; done; exit 1"


class Case(unittest.TestCase):
    """Without stubs of nvcc and nvidia-smi: a machine with neither toolkit nor driver."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="ladder setup ")
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name).resolve()
        self.tree, self.bin = self.here / "tree", self.here / "bin"
        (self.tree / "scripts").mkdir(parents=True)
        for family in ("gemm", "gemm_tensor", "softmax"):
            (self.tree / "src/kernels" / family).mkdir(parents=True)
            (self.tree / "src/kernels" / family / "family.cpp").touch()
        self.bin.mkdir()
        for name in ("setup", "test", "bench", "requirements.txt"):
            shutil.copy(SCRIPTS / name, self.tree / "scripts")
        setup = self.tree / "scripts/setup"
        text, found = re.subn("(?m)^driver_file=.*", "driver_file=/nonexistent", setup.read_text(encoding="utf-8"))
        self.assertEqual(found, 1)  # this machine may have a driver
        setup.write_text(text, encoding="utf-8")
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name) or name)
        stubs = {"cmake": CMAKE, "ctest": CTEST, "g++": GXX, "ninja": "", "ldconfig": "",
                 "python3": PYTHON, "venv_python": VENV_PYTHON}  # fmt: skip
        for name, text in stubs.items():
            self.stub(name, text)
        self.say("build.sh", BUILD)
        for name in ("configure.sh", "pip.sh", "summary", "junit", "refused"):
            self.say(name, "")

    def stub(self, name: str, text: str) -> None:
        self.say(f"bin/{name}", f"#!/bin/sh\nHERE='{self.here}'\n{text}\n")
        (self.bin / name).chmod(0o755)

    def say(self, name: str, text: str) -> None:
        (self.here / name).write_text(text, encoding="utf-8")

    def said(self, name: str) -> str:
        path = self.here / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def toolkit(self, version: str) -> None:
        self.stub("nvcc", NVCC.replace("VERSION", version))

    def driver(self, cuda: str) -> None:
        self.stub("nvidia-smi", NVIDIA_SMI.replace("VERSION", cuda))

    def command(self, name: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
        environment = {"HOME": "/nonexistent", "PATH": str(self.bin), "CUDA_PATH": "/nonexistent",
                       "CMAKE_PREFIX_PATH": "/nonexistent"}  # so no headers are missed  # fmt: skip
        return [str(self.tree / "scripts" / name), *arguments], environment | self.environment

    environment: dict[str, str] = {}  # what a test adds to HOME, PATH and so on

    def run_script(self, *command: str) -> subprocess.CompletedProcess[str]:
        line, environment = self.command(*command)
        user = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        if user:  # root would install packages
            for path in (self.here, *self.here.rglob("*")):
                os.chown(path, 65534, 65534, follow_symlinks=False)
        return subprocess.run(line, env=environment, capture_output=True, text=True,
                              encoding="utf-8", **user)  # type: ignore[call-overload]  # fmt: skip

    def runs(self, *command: str) -> str:
        result = self.run_script(*command)
        self.assertEqual(result.returncode, 0, result)
        return result.stderr

    def fails(self, sentence: str, *command: str) -> str:
        """Exits with 1, and its last line is this one; returns the lines above."""
        result = self.run_script(*command)
        self.assertEqual(result.returncode, 1, result)
        *above, last = result.stderr.splitlines()
        self.assertRegex(last, sentence)
        return "\n".join(above)


class NoDriver(Case):
    def test_only_the_headers_are_fetched(self) -> None:
        self.runs("setup")
        self.assertIn("--preset host", self.said("configured"))
        self.assertIn(f"{self.tree}/build/venv/cuda/include/cccl", self.said("configured"))
        self.assertNotIn("nvcc", self.said("fetched"))
        self.assertIn("nvidia-cuda-runtime==", self.said("fetched"))

    def test_wheels_on_demand_come_on_top_of_what_is_there(self) -> None:
        self.runs("setup")
        self.runs("setup", "--wheels")
        self.assertIn("--preset release", self.said("configured"))
        self.assertIn("nvidia-cuda-nvcc==", self.said("fetched"))
        self.say("fetched", "")
        self.runs("setup")
        self.assertEqual(self.said("fetched"), "")

    def test_an_old_nvcc_is_none(self) -> None:
        self.toolkit("11.8")
        self.runs("setup")
        self.assertIn("--preset host", self.said("configured"))

    def test_a_library_of_the_driver_is_a_driver(self) -> None:
        def library(version: str) -> None:
            file = self.here / f"libcuda.so.{version}"
            self.stub("ldconfig", f"echo '    libcuda.so.1 (libc6,x86-64) => {file}'")

        library("535.65.06")
        self.assertIn("driver 580 or newer", self.runs("setup"))
        self.assertIn("--preset host", self.said("configured"))
        library("580.65.06")
        self.runs("setup")
        self.assertIn("--preset release", self.said("configured"))


class Compiler(Case):
    def test_a_driver_without_a_toolkit_gets_the_wheels(self) -> None:
        self.driver("13.0")
        self.runs("bench")
        nvcc = self.tree / "build/venv/cuda/bin/nvcc"
        self.assertIn(f"--preset release CUDACXX={nvcc}", self.said("configured"))
        self.assertIn("nvidia-cuda-nvcc==13.", self.said("fetched"))
        self.assertTrue((nvcc.parent.parent / "lib64/libcublas.so").exists())

    def test_nothing_is_fetched_twice_in_one_place(self) -> None:
        self.driver("13.2")
        self.assertIn("Fetching the CUDA compiler", self.runs("setup"))
        self.say("fetched", "")
        self.assertNotIn("Fetching", self.runs("setup"))
        self.assertEqual(self.said("fetched"), "")
        (self.tree / "build/venv/old").touch()
        self.tree = self.tree.rename(self.here / "elsewhere")  # a venv cannot be moved
        self.assertIn("Fetching the CUDA compiler", self.runs("setup"))
        self.assertFalse((self.tree / "build/venv/old").exists())

    def test_an_old_driver_gets_a_sentence_and_the_cpu(self) -> None:
        self.driver("12.4")
        said = self.runs("setup")
        self.assertIn("install driver 580 or newer, or a CUDA 12 toolkit", said)
        self.assertIn("--preset host", self.said("configured"))

    def test_a_toolkit_comes_first_unless_wheels_are_asked_for(self) -> None:
        self.driver("13.0")
        self.toolkit("12.4")
        self.runs("setup")
        self.assertIn(f"--preset release CUDACXX={self.bin}/nvcc", self.said("configured"))
        self.assertEqual(self.said("fetched"), "")
        self.runs("setup", "--wheels")
        self.assertIn(f"CUDACXX={self.tree}/build/venv/cuda", self.said("configured"))

    def test_architectures_may_be_chosen_at_any_time(self) -> None:
        self.toolkit("13.0")
        self.runs("setup")
        self.assertNotIn("ARCHITECTURES", self.said("configured"))
        self.environment = {"CUDAARCHS": "80;90"}
        self.runs("setup")
        self.assertIn("-DCMAKE_CUDA_ARCHITECTURES=80;90 ", self.said("configured"))

    def test_nvcc_gets_a_host_compiler_that_it_takes(self) -> None:
        self.toolkit("12.0")
        self.stub("g++-12", GXX)
        self.say("refused", "g++")
        self.runs("setup")
        self.assertIn("CXX=g++-12", self.said("configured"))


class Failures(Case):
    """One sentence and no pages; these are in the log that it names."""

    def test_packages_that_others_must_install(self) -> None:
        (self.bin / "g++").unlink()
        (self.bin / "cmake").unlink()
        self.toolkit("13.0")
        self.stub("apt-get", "exit 99")
        self.stub("python3", "case $2 in *ensurepip*) exit 1 ;; esac")  # one line has it all
        sentence = r"^(apt-get update && )?apt-get install -y cmake g\+\+ python3-venv  # .*only root"
        self.assertEqual(self.fails(sentence, "setup", "--install"), "")
        self.stub("sudo", "exit 99")
        sentence = r"^(sudo apt-get update && )?sudo apt-get install -y cmake g\+\+ .*--install"
        self.assertEqual(self.fails(sentence, "test"), "")

    @unittest.skipUnless(os.geteuid() == 0, "only root installs unasked")
    def test_root_hears_what_is_installed_and_may_refuse(self) -> None:
        (self.bin / "g++").unlink()
        self.toolkit("13.0")
        self.stub("new_g++", GXX)
        self.stub("apt-get", 'echo "$*" >>"$HERE/apt"; cp "$HERE/bin/new_g++" "$HERE/bin/g++"')
        line, environment = self.command("setup", "--no-install")
        for options, code in ((["--no-install"], 1), ([], 0)):
            result = subprocess.run(line[:1] + options, env=environment, capture_output=True,
                                    text=True, encoding="utf-8")  # fmt: skip
            self.assertEqual(result.returncode, code, result)
            if options:
                self.assertRegex(result.stderr, r"^(apt-get update && )?apt-get install -y g\+\+  # "
                                 r"missing here; or leave out --no-install\n$")  # fmt: skip
                self.assertEqual(self.said("apt"), "")
        self.assertRegex(result.stderr, r"^apt-get will install g\+\+ \(--no-install leaves that to "
                         r"you\)\.\nInstalling g\+\+\n")  # fmt: skip
        self.assertIn("install -y --no-install-recommends g++", self.said("apt"))

    def test_packages_that_cannot_be_fetched(self) -> None:
        (self.bin / "g++").unlink()
        self.toolkit("13.0")
        self.stub("sudo", '"$@"')
        self.stub("apt-get", PAGES)
        said = self.fails(r"could not install g\+\+ \(build/log/packages.txt .*network",
                          "setup", "--install")  # fmt: skip
        self.assertRegex(said, r"^apt-get will install g\+\+ \(--no-install .*\nInstalling g\+\+$")
        self.assertIn("a long story", self.said("tree/build/log/packages.txt"))

    def test_wheels_that_cannot_be_fetched(self) -> None:
        self.driver("13.0")
        self.say("pip.sh", PAGES)
        said = self.fails(
            r"could not fetch the CUDA compiler .*build/log/wheels.txt .*PIP_FIND_LINKS=FOLDER.*"
            "nvidia-cublas==", "test")  # fmt: skip
        self.assertEqual(len(said.splitlines()), 1)
        self.assertIn("a long story", self.said("tree/build/log/wheels.txt"))
        self.say("pip.sh", "")
        self.runs("setup")

    def test_pictures_are_done_without(self) -> None:
        self.toolkit("13.0")
        self.stub("python3", PYTHON + "\ncase $2 in *find_spec*) exit 1;; esac")
        self.say("pip.sh", PAGES)
        said = self.runs("bench")
        self.assertRegex(said, r"could not be fetched \(build/log/plotting.txt says why\)")
        self.assertNotIn("a long story", said)
        self.assertNotIn("matplotlib", self.runs("bench"))

    def test_libraries_that_cmake_cannot_download(self) -> None:
        self.toolkit("13.0")
        self.say("configure.sh", "echo Failed to clone repository: x; " + PAGES)
        self.assertEqual(len(self.fails("could not download", "setup").splitlines()), 1)

    def test_a_configuration_that_fails_shows_the_error(self) -> None:
        self.toolkit("13.0")
        self.say("configure.sh", "echo fine; echo CMake Error at x; echo '  the reason'; exit 1")
        said = self.fails("all that it said is in build/log/configure.txt", "setup")
        self.assertRegex(said, r"\nCMake Error at x\n  the reason$")
        self.assertNotIn("fine", said)

    def test_a_build_that_fails_shows_what_failed(self) -> None:
        self.toolkit("13.0")
        self.say("build.sh", "echo '[1/3] one'; echo a warning; echo FAILED: two; echo 'the error'; "
                 "echo '[3/3] three'; exit 1")  # fmt: skip
        said = self.fails("all that it said is in build/log/build.txt", "test")
        self.assertRegex(said, r"\nFAILED: two\nthe error$")
        self.assertNotIn("warning", said)
        self.say("build.sh", "echo '[ 50%] one'; echo 'the error'; exit 1")
        self.assertRegex(self.fails("The build failed", "bench"), "\nthe error$")

    def test_a_folder_of_somebody_else(self) -> None:
        self.toolkit("13.0")
        (self.tree / "build").write_text("no folder")
        self.assertEqual(self.fails("cannot write there", "setup"), "")


class Families(Case):
    def test_are_built_in_a_folder_of_their_own(self) -> None:
        self.runs("bench", "--families=softmax,gemm")
        self.assertIn(f"-B {self.tree}/build/host-softmax-gemm -DLADDER_FAMILIES=softmax,gemm ",
                      self.said("configured"))
        self.assertIn(f"--build {self.tree}/build/host-softmax-gemm ", self.said("builds"))
        self.say("configured", "")
        self.runs("bench")
        self.assertIn(f"-B {self.tree}/build/host -DLADDER_FAMILIES= ", self.said("configured"))

    def test_one_that_there_is_not(self) -> None:
        for names in ("sofmax", "softmax,sofmax", "soft"):
            name = names.split(",")[-1]
            self.fails(f"^--families={names}: there is no family {name}; there are gemm, gemm_tensor, softmax\\.$",
                       "test", f"--families={names}")
        for words in ("--families", "--families="):
            self.fails("^--families= needs names: gemm, gemm_tensor, softmax\\.$", "bench", words)
        self.assertEqual(self.said("configured"), "")


class Generator(Case):
    def test_is_ninja_where_there_is_one(self) -> None:
        self.runs("setup")
        self.assertIn("-G Ninja ", self.said("configured"))
        (self.bin / "ninja").unlink()
        self.stub("make", "")
        self.runs("setup")
        self.assertIn("-G Unix Makefiles ", self.said("configured"))

    def test_another_one_s_folder_is_started_afresh(self) -> None:
        cache = f"CMAKE_HOME_DIRECTORY:INTERNAL={self.tree}\nCMAKE_CXX_COMPILER:FILEPATH={self.bin}/g++\n"
        self.say("configure.sh", f'mkdir -p "$4"; printf "{cache}CMAKE_GENERATOR:INTERNAL=$GENERATOR\n" '
                 '>"$4/CMakeCache.txt"')  # fmt: skip
        for generator, afresh in (("Ninja", False), ("Unix Makefiles", True)):
            self.environment = {"GENERATOR": generator}
            self.runs("setup")
            self.say("configured", "")
            self.assertEqual("starting it afresh" in self.runs("setup"), afresh)
            self.assertEqual("--fresh" in self.said("configured"), afresh)


class Progress(Case):
    def terminal(self, *command: str) -> str:
        line, environment = self.command(*command)
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            raise unittest.SkipTest(f"no pseudo-terminal can be had here: {error}") from None
        with subprocess.Popen(line, env=environment, stderr=theirs, stdout=theirs,
                              start_new_session=True) as process:
            os.close(theirs)
            said = b""
            try:
                while part := os.read(ours, 4096):
                    said += part
            except OSError:  # a terminal's end
                pass
        os.close(ours)
        self.assertEqual(process.returncode, 0, said)
        return said.decode()

    def test_a_terminal_sees_share_and_time_in_one_line(self) -> None:
        self.toolkit("13.0")
        self.say("build.sh", "echo '[1/4] a'; sleep 1.5; " + BUILD)
        said = self.terminal("bench")
        (line,) = [one for one in said.split("\r\n") if "Building" in one]
        self.assertRegex(line, r"^\r\x1b\[KBuilding \(build/release\)  25 %  0:00\r")
        self.assertRegex(line, r"  25 %  0:0[1-9]\r")
        self.assertRegex(line, r"  100 %  0:0[1-9]$")

    @unittest.skipUnless(shutil.which("pgrep"), "pgrep is missing here")
    def test_what_it_waits_for_is_named(self) -> None:
        self.toolkit("13.0")
        slow = """bash -c "exec -a 'g++ -O1 -c /x/kernels/gemm/v12_slow.cu -o v12.o' sleep 2\""""
        self.say("build.sh", f"echo '[99/100] a'; {slow}; " + BUILD)
        self.assertRegex(self.terminal("bench"), r"  99 %  0:0\d, waits for gemm/v12_slow.cu\r")

    def test_make_says_its_share_too(self) -> None:
        self.toolkit("13.0")
        self.say("build.sh", "echo '[  7%] a'; " + BUILD.replace("[2/2]", "[100%]"))
        self.assertIn("Building (build/release)   7 %", self.terminal("bench"))

    def test_a_log_is_not_flooded(self) -> None:
        self.toolkit("13.0")
        self.say("build.sh", "for i in 1 2 3 4 5 6 7 8 9; do echo \"[$i/9] x\"; done; " + BUILD)
        self.assertEqual(re.findall("Building.*", self.runs("bench")), ["Building (build/release)"])


class Summary(Case):
    def setUp(self) -> None:
        super().setUp()
        self.toolkit("13.0")

    def last_line(self, summary: str, *arguments: str) -> str:
        self.say("summary", summary.replace(" ", "\t"))
        result = self.run_script("test", *arguments)
        self.assertEqual(result.returncode, 5, result)  # that of ctest
        return result.stdout.splitlines()[-1]

    def test_no_gpu(self) -> None:
        summary = "host a/v01 1200\ncompiled a/v01 0\nhost a/v02 33\ncompiled a/v03 0\nhost a/v02 1\n"
        self.assertEqual(
            self.last_line(summary + "compiled a/v03 0\ncompiled a/v04 0\n"),
            "1,234 checks of 2 kernels on the host executor; "
            "no GPU: 2 kernels were compiled only.")  # fmt: skip

    def test_a_gpu(self) -> None:
        self.assertEqual(
            self.last_line("host a/v01 1\nH100 a/v01 1234567\ncompiled a/v09 0\ncompiled a/v01 0\n"),
            "1 check of 1 kernel on the host executor; 1,234,567 checks of 1 kernel on H100; "
            "1 kernel for other GPUs was compiled only.")  # fmt: skip

    def test_a_choice_without_kernels(self) -> None:
        self.assertEqual(self.last_line("", "-R", "scripts"), "No kernel was checked.")

    def test_some_families(self) -> None:
        self.assertEqual(self.last_line("host a/v01 7\n", "--families=gemm,softmax"),
                         "7 checks of 1 kernel on the host executor; "
                         "families other than gemm, softmax were left out.")  # fmt: skip

    def test_no_nvcc(self) -> None:
        (self.bin / "nvcc").unlink()
        self.assertEqual(self.last_line("host a/v01 7\n"),
                         "7 checks of 1 kernel on the host executor; "
                         "no nvcc: nothing was compiled for GPUs.")  # fmt: skip

    def skipped(self, *texts: str) -> None:
        """What ctest writes of tests with these outputs."""
        cases = [f'\t<testcase name="{i}" classname="{i}" time="1" status="notrun">\n'
                 f'\t\t<skipped message="SKIP_RETURN_CODE=77"/>\n\t\t<system-out>{text}\n</system-out>\n'
                 "\t</testcase>\n" for i, text in enumerate(texts)]  # fmt: skip
        ran = '\t<testcase name="ran" status="run">\n\t\t<system-out>skipped: not\n</system-out>\n\t</testcase>\n'
        fell = '\t<testcase name="fell" status="notrun">\n\t\t<skipped message="Unable to find executable"/>\n' \
               "\t\t<system-out>skipped: not\n</system-out>\n\t</testcase>\n"  # fmt: skip
        self.say("junit", f"<testsuite>\n{ran}{''.join(cases)}{fell}</testsuite>\n")

    def test_what_was_skipped_and_why(self) -> None:
        gpu = "[ RUN      ] a\n/t.cpp:2: Skipped\nnothing ran on a GPU: none is &lt;here&gt;\n[  SKIPPED ] a"
        numpy = "skipped: needs numpy: scripts/setup"
        self.skipped(gpu)
        self.assertEqual(self.last_line("host a/v01 1\n"),
                         "1 check of 1 kernel on the host executor; "
                         "1 test was skipped, or parts of it: nothing ran on a GPU.")  # fmt: skip
        self.skipped(gpu, f"{numpy}\n...\n{numpy}\nskipped: &lt;a&gt; &amp; b", numpy, f"{gpu}\n{gpu}", "", gpu)
        self.assertEqual(self.last_line(""),
                         "No kernel was checked; 6 tests were skipped, or parts of them: nothing ran on a "
                         "GPU (3), needs numpy (2), <a> & b (1), no reason given (1).")  # fmt: skip

    def test_labels(self) -> None:
        def tested(*arguments: str) -> str:
            self.last_line("", *arguments)
            chosen = self.said("tested").split("--no-tests=error ")[1]
            return re.sub("--parallel [0-9]+$", "", chosen.strip()).strip()

        self.assertEqual(tested("-R", "gemm"), "-R gemm -LE ^full$")
        self.assertEqual(tested("--full"), "")
        self.assertEqual(tested("-L", "full"), "-L full")
        self.assertEqual(tested("-LE", "slow", "-j", "3"), "-LE slow -j 3")
        self.assertNotIn("_tests", self.said("builds"))
        self.assertEqual(tested("--families=softmax,gemm"), "-R ^(softmax|gemm)[./] -LE ^full$")
        self.assertIn("--target kernel_tests ", self.said("builds"))
        self.assertEqual(tested("--families=gemm", "-R", "v05", "--full"), "-R v05")
        self.say("builds", "")
        self.assertEqual(tested("-L", "quick"), "-L quick")
        self.assertIn("--target quick_tests ", self.said("builds"))


class Help(Case):
    def test_help_names_the_options(self) -> None:
        for name, others in (("setup", ""), ("bench", ""), ("test", " --full")):
            options = "--install --no-install --wheels --families" + others
            result = self.run_script(name, "--help")
            self.assertEqual(result.returncode, 0)
            for option in options.split():
                self.assertRegex(result.stdout, rf"\n{option} ")


if __name__ == "__main__":
    skips.main()
