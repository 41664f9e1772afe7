#!/usr/bin/env python3
"""Tests of scripts/upkeep/validate_counters.py on made-up CSVs of ./bench and of Nsight Compute."""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "upkeep" / "validate_counters.py"
sys.dont_write_bytecode = True  # none beside the script
sys.path.insert(0, str(SCRIPT.parent))
loader = SourceFileLoader("validate_counters", str(SCRIPT))
spec = importlib.util.spec_from_loader("validate_counters", loader)
assert spec
vc = importlib.util.module_from_spec(spec)
sys.modules["validate_counters"] = vc
loader.exec_module(vc)

LD_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
LD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
RED, ATOM = (f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum" for op in ("red", "atom"))
METRICS = (LD_REQUESTS, LD_SECTORS, RED, ATOM)
RANGE = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
SUM, SOFTMAX = "reduction/sum/f32/v01_divergent", "softmax/f16/v03_warp_shuffle"


def host_csv(path: Path, rows: list[tuple[str, str, dict[str, int]]], **more: str) -> None:
    """A CSV of ./bench; counters that a row does not name are 0."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        columns = ["family", "op", "kernel", "dtype", "problem", "verdict", *vc.METRICS]
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for name, problem, counts in rows:
            family, *op, dtype, kernel = name.split("/")
            cells = dict.fromkeys(vc.METRICS, 0) | counts
            named = {"family": family, "op": "".join(op), "kernel": kernel, "dtype": dtype}
            writer.writerow(named | {"problem": problem, "verdict": "passed"} | cells | more)


def ncu_csv(rows: list[tuple[str, list[object]]]) -> str:
    """What ncu --csv --page raw writes, its progress included."""
    lines = ["==PROF== Connected to process 7 (bench)", "==PROF== Profiling \"sum\": 0%....100%"]
    lines.append(",".join(f'"{c}"' for c in ("ID", "Kernel Name", RANGE, *METRICS)))
    lines.append(",".join(f'"{c}"' for c in ("", "", "", "request", "sector", "inst", "inst")))
    for i, (name, values) in enumerate(rows):
        where = f'7  ""ladder:{name}:none:none:none:none:none:none""' if name else ""
        cells = ",".join(f'"{v}"' for v in values)
        lines.append(f'"{i}","void sum<float>(Args<T1>, int)","{where}",{cells}')
    return "\n".join([*lines, "==PROF== Disconnected from process 7", ""])


class ValidateCounters(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def hardware(self, text: str, names: list[str]) -> tuple[dict[str, dict[str, int]], int]:
        file = self.folder / "ncu.csv"
        file.write_text(text, encoding="utf-8")
        return vc.hardware_counts(file, names)

    def test_the_kernels_of_a_range_are_summed(self) -> None:
        text = ncu_csv(
            [
                (f"{SUM}/16384", ["1,024", "4,096.00", 0, 0]),
                (f"{SUM}/16384", [2, 3, 1, 4]),
                (f"{SUM}/1638", [7, 7, 7, 7]),
                ("", [9, 9, 9, 9]),
                (f"{SOFTMAX}/5x4097", [5, "n/a", "", 0]),
            ]
        )
        names = [f"{SUM}/1638", f"{SUM}/16384", f"{SOFTMAX}/5x4097"]
        sums, outside = self.hardware(text, names)
        self.assertEqual(outside, 1)
        self.assertEqual(dict(sums[names[0]]), dict.fromkeys(METRICS, 7))
        self.assertEqual(
            dict(sums[names[1]]), {LD_REQUESTS: 1026, LD_SECTORS: 4099, RED: 1, ATOM: 4}
        )
        self.assertEqual(dict(sums[names[2]]), {LD_REQUESTS: 5, ATOM: 0})

    def test_names_may_hold_what_ncu_parts_a_range_with(self) -> None:
        problems = ["1x2", "1x2:1x33:70x128", "1x2:1x33:70x128@bshd"]
        names = [f"attention/bf16/v01_three_kernels/{problem}" for problem in problems]
        sums, outside = self.hardware(
            ncu_csv([(name, [i, i, i, i]) for i, name in enumerate(names)]), names
        )
        self.assertEqual(outside, 0)
        self.assertEqual({name: sums[name][RED] for name in names}, dict(zip(names, range(3))))

    def test_pairs_are_joined_by_name(self) -> None:
        path = self.folder / "host.csv"
        counts = {"global_ld_requests": 3, "global_ld_sectors": 12, "global_atomic_requests": 5}
        host_csv(path, [(SUM, "64", counts), (SOFTMAX, "5x7", {"global_ld_requests": 1})])
        host = vc.host_counts(path)
        sums, _ = self.hardware(ncu_csv([(f"{SUM}/64", [3, 13, 2, 3])]), [f"{SUM}/64"])
        pairs = vc.compare(host, sums)
        self.assertEqual(
            [pair[2:] for pair in pairs],
            [
                ("global_ld_requests", 3, 3),
                ("global_ld_sectors", 12, 13),
                ("global_atomic_requests", 5, 5),
            ],
        )

    def test_rows_without_counts_are_left_out(self) -> None:
        path = self.folder / "host.csv"
        host_csv(path, [(SUM, "64", {})], verdict="failed")
        self.assertEqual(vc.host_counts(path), {})
        host_csv(path, [(SUM, "64", {})], global_ld_requests="")
        self.assertEqual(vc.host_counts(path), {})

    def test_metrics_that_ncu_lacks_are_replaced_or_dropped(self) -> None:
        unit = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
        ld, ldsm = (f"smsp__sass_{unit[:-6].replace('__', '_')}{op}.sum" for op in ("ld", "ldsm"))
        self.assertEqual(vc.choose(["shared_ld_wavefronts"], {unit, ld, ldsm}), [ld, ldsm])
        self.assertEqual(vc.choose(["shared_ld_wavefronts"], {unit, ld}), [unit])
        self.assertEqual(vc.choose(["global_atomic_requests"], {RED}), [])

    def script(
        self, ncu_rows: list[tuple[str, list[object]]], *flags: str, gpu: str = "a GPU, sm_90, 132 SMs"
    ) -> subprocess.CompletedProcess[str]:
        """The whole script, with a ./bench that has this GPU and counts 3 requests in 12 sectors."""
        host_csv(
            self.folder / "made.csv",
            [(SUM, "64", {"global_ld_requests": 3, "global_ld_sectors": 12})],
        )
        bench = self.folder / "bench"
        bench.write_text(
            f"#!/bin/sh\necho $* >>{self.folder}/runs\n"
            f"case $* in *--backend=cuda*) echo '{gpu}'; exit ;; esac\n"
            f"cp {self.folder}/made.csv {self.folder}/counters.host.csv\n"
        )
        bench.chmod(0o755)
        raw = self.folder / "ncu.csv"
        raw.write_text(ncu_csv(ncu_rows), encoding="utf-8")
        return subprocess.run(
            [sys.executable, SCRIPT, f"--build={self.folder}", f"--ncu-csv={raw}",
             f"--out={self.folder}/counters.csv", *flags],
            capture_output=True, text=True,
        )  # fmt: skip

    def test_agreement_exits_with_0_and_writes_the_pairs(self) -> None:
        result = self.script([(f"{SUM}/64", [3, 12, 0, 0])])
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("2 pairs of host and hardware counts, 2 equal: 100.0 %", result.stdout)
        self.assertEqual(
            (self.folder / "counters.csv").read_text().splitlines(),
            [
                "kernel,problem,counter,host,hardware,cause",
                f"{SUM},64,global_ld_requests,3,3,",
                f"{SUM},64,global_ld_sectors,12,12,",
            ],
        )

    def test_the_host_executor_has_as_many_sms_as_the_gpu(self) -> None:
        runs = self.folder / "runs"
        self.script([(f"{SUM}/64", [3, 12, 0, 0])])
        self.assertIn("--backend=host --sms=132 ", runs.read_text())
        runs.unlink()
        self.script([(f"{SUM}/64", [3, 12, 0, 0])], "--sms=114", gpu="")
        self.assertNotIn("--backend=cuda", runs.read_text())
        self.assertIn("--backend=host --sms=114 ", runs.read_text())
        result = self.script([], gpu="")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(
            result.stderr,
            "validate_counters: there is no GPU to tell its number of SMs; --sms=N does.\n",
        )

    def test_a_difference_without_a_cause_exits_with_1(self) -> None:
        result = self.script([(f"{SUM}/64", [3, 13, 0, 0])])
        self.assertEqual(result.returncode, 1)
        self.assertIn(
            f"{SUM}/64  global_ld_sectors: host 12, hardware 13  (cause unknown)", result.stdout
        )

    def test_a_kernel_that_the_gpu_did_not_run_exits_with_1(self) -> None:
        result = self.script([])
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{SUM}/64: not launched on the GPU", result.stdout)

    def test_output_without_a_table_is_one_sentence(self) -> None:
        file = self.folder / "ncu.csv"
        file.write_text("==ERROR== ERR_NVGPUCTRPERM: no permission\n")
        code = f"import runpy; v = runpy.run_path({str(SCRIPT)!r}); " \
               f"v['hardware_counts'](v['Path']({str(file)!r}), [])"  # fmt: skip
        result = subprocess.run(
            [sys.executable, "-Bc", code], cwd=SCRIPT.parent, capture_output=True, text=True
        )
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^validate_counters: .*has no table: .*ERR_NVGPUCTRPERM")


if __name__ == "__main__":
    unittest.main()
