#!/usr/bin/env python3
"""Tests of scripts/upkeep/mutate.py: which mistakes it finds a place for, and what it
says of survivors."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts" / "upkeep"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SCRIPTS))
from mutations import kernels, operators, survivors  # noqa: E402
from mutations.source import Source  # noqa: E402

loader = importlib.machinery.SourceFileLoader("mutate", str(SCRIPTS / "mutate.py"))
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
loader.exec_module(mutate)

KERNEL = """\
namespace {

template <class T>
__global__ void __launch_bounds__(256) sums(Args<T> a) {
  __shared__ float tile[8][32];
  const int t = threadIdx.x, lane = t % 32;
  const std::int64_t row = std::int64_t{blockIdx.x} * a.cols + lane;
  float sum = 0;
  for (int c = t; c < a.cols; c += 256) {
    sum +=
        static_cast<float>(a.x[c]);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  cp_async_commit_group();
  cp_async_wait_group<1>();
  if (lane == 0) tile[t / 32][lane] = sum;
  __syncthreads();  // redundant: the reason
  const float scale = rsqrtf(tile[0][0] + kEpsilon);
  __threadfence();
  if (row >= a.rows /* or row > a.rows - 1 */) return;
#if __CUDA_ARCH__ >= 800
  if (row < a.cut) return;
#endif
  a.y[row] = (sum - max) * scale;
  mbarrier_arrive_expect_tx(&full, 64 * sizeof(T));
  mbarrier_wait(&full, t % 2);
  wgmma_wait_group<1>();
}

struct Sums {
  static void launch(const Args<float>& a, cudaStream_t stream) {
    ladder::launch(sums<float>, ladder::ceil_div(a.rows, 8), 256, 0, stream, a);
  }
  static Support supports(const Problem& p) { return p.rows < 65535; }
};

}  // namespace
"""


def kernel(body: str) -> str:
    return f"__global__ void k(int* x) {{\n  {body}\n}}\n"


def found_in(text: str, texts: bool = False) -> dict[str, set[str]]:
    """The names of all mutations of a source, or what they make of it, by class."""
    found: dict[str, set[str]] = {}
    for one in operators.Finder(Source(text)).mutations():
        found.setdefault(one.kind, set()).add(one.text if texts else one.what)
    return found


class Operators(unittest.TestCase):
    def setUp(self) -> None:
        self.found = found_in(KERNEL)

    def test_bounds(self) -> None:
        self.assertEqual(
            self.found["bounds"],
            {
                "c < a.cols -> <=", "c < a.cols -> a.cols - 1", "if (lane == 0) -> true",
                "row >= a.rows -> >", "row >= a.rows -> a.rows - 1",
                "if (row >= a.rows) -> false",
            },
        )  # fmt: skip

    def test_tails(self) -> None:
        self.assertEqual(
            self.found["tails"],
            {
                "for (c < a.cols) -> false", "if (lane == 0) -> false",
                "ceil_div(a.rows, 8) -> a.rows / 8",
            },
        )  # fmt: skip

    def test_waits_barriers_and_fences(self) -> None:
        wait = "cp_async_wait_group<1>();"
        self.assertEqual(
            self.found["waits"],
            {"without cp_async_commit_group();", f"without {wait}", f"{wait} -> <1 + 1>"},
        )
        self.assertEqual(self.found["fences"], {"without __threadfence();"})
        (barrier,) = operators.barriers_of(KERNEL)
        self.assertEqual((barrier.line, barrier.redundant), (20, "redundant: the reason"))

    def test_scopes(self) -> None:
        found = found_in(kernel("store_release<Scope::gpu>(x, load_acquire<Scope::block>(x));"))
        release = "store_release<Scope::gpu>(x, load_acquire<Scope::block>(x));"
        self.assertEqual(found["fences"], {f"{release} -> block"})

    def test_hopper(self) -> None:
        arrival = "mbarrier_arrive_expect_tx(&full, 64 * sizeof(T));"
        wait, products = "mbarrier_wait(&full, t % 2);", "wgmma_wait_group<1>();"
        self.assertEqual(
            self.found["hopper"],
            {
                f"without {arrival}", f"{arrival} -> + 16", f"without {wait}", f"{wait} -> ^ 1",
                f"without {products}", f"{products} -> <1 + 1>",
            },
        )  # fmt: skip

    def test_moves(self) -> None:
        arrival = "mbarrier_arrive_expect_tx(&full, 64 * sizeof(T));"
        wait = "mbarrier_wait(&full, t % 2);"
        self.assertEqual(
            self.found["moves"],
            {
                f"{arrival} before a.y[row] = (sum - max) * scale;", f"{arrival} after {wait}",
                f"{wait} after wgmma_wait_group<1>();",
            },
        )  # fmt: skip
        (moved,) = found_in(kernel("cluster_arrive(); x[0] = 1;"), texts=True)["moves"]
        self.assertIn("x[0] = 1; cluster_arrive();", moved)

    def test_moves_in_loops_and_behind_guards(self) -> None:
        guarded = "if (t == 0) mbarrier_arrive(&empty[previous]);"
        for body, moves in (
            (f"do {{ {guarded} previous = s; }} while (s > 0);", {f"{guarded} after previous = s;"}),
            (f"{guarded} unrelated = s;", set()),
            ("const int s = t / 2; mbarrier_wait(&full[s], 0);", set()),  # or no C++
            ("const auto d = wgmma_descriptor<kA>(from + t); wgmma_fence();", set()),
            ("wgmma_fence(); float acc[TM][TN] = {};", set()),
            ("wgmma_fence(); auto load = [&](int i) { return x[i]; };", set()),
            ("mbarrier_init(&full, 1); mbarrier_init(&empty, 2);", set()),
            ("cluster_arrive(); return;", set()),
        ):
            self.assertEqual(found_in(kernel(body)).get("moves", set()), moves, body)

    def test_threads_of_an_mbarrier(self) -> None:
        found = found_in(kernel("mbarrier_init(&empty[s], kConsumers);"))["hopper"]
        self.assertIn("mbarrier_init(&empty[s], kConsumers); -> + 1", found)

    def test_a_call_that_is_returned(self) -> None:
        (mutated,) = found_in(kernel("return mbarrier_arrive(full);"), texts=True)["hopper"]
        self.assertEqual(mutated, kernel("return;"))

    def test_order(self) -> None:
        self.assertEqual(
            self.found["order"],
            {
                "cp_async_wait_group after if (lane == 0) tile[t / 32][lane] = sum;",
                "cp_async_wait_group before cp_async_commit_group();",
                "__syncthreads before if (lane == 0) tile[t / 32][lane] = sum;",
                "__syncthreads after const float scale = rsqrtf(tile[0][0] + kEpsilon);",
            },
        )

    def test_masks(self) -> None:
        self.assertEqual(
            self.found["masks"],
            {
                "from 16 lanes on -> half", "distance > 0 -> > 1",
                "__shfl_xor_sync(0xffffffffu, sum, distance) -> of 16 lanes",
            },
        )  # fmt: skip

    def test_numbers(self) -> None:
        store = "in a.y[row] = (sum - max) * scale;"
        self.assertEqual(
            self.found["numbers"],
            {
                "sum = 0 -> 1", "16-bit sum: sum += static_cast<float>(a.x[c])",
                "16-bit sum: sum += __shfl_xor_sync(0xffffffffu, sum, distance)",
                "without + kEpsilon", f"without - max {store}", f"without * scale {store}",
            },
        )  # fmt: skip

    def test_places(self) -> None:
        row = "std::int64_t{blockIdx.x} * a.cols + lane"
        other_way = "lane * a.cols + std::int64_t{blockIdx.x}"
        self.assertEqual(
            self.found["places"],
            {
                "a.y[row] = (sum - max) * scale; -> +=",
                "tile[t / 32][lane] -> [lane][t / 32] in tile[t / 32][lane] = sum;",
                f"{row} -> {other_way} in const std::int64_t row = {row};",
            },
        )  # fmt: skip

    def test_widths(self) -> None:
        self.assertEqual(len(self.found["widths"]), 1)  # both are named alike

    def test_a_mutated_file_keeps_its_lines(self) -> None:
        for one in operators.Finder(Source(KERNEL)).mutations():
            if one.kind not in ("order", "moves"):
                self.assertEqual(one.text.count("\n"), KERNEL.count("\n"), one.what)

    def test_which_are_drawn_stays_the_same(self) -> None:
        file = Path("kernels/family/v01.cu")
        drawn = list(operators.mutations_of(file, KERNEL))
        self.assertEqual(drawn, list(operators.mutations_of(file, KERNEL)))
        classes = [m.kind for m in drawn]
        self.assertEqual(set(classes), set(operators.CLASSES) - {"barriers"})
        self.assertEqual(classes.count("bounds"), 1)
        self.assertEqual(classes.count("order"), 2)
        every = [m.what for m in operators.mutations_of(file, KERNEL, every=True)]
        self.assertLess(len(drawn), len(every))
        self.assertEqual(len(every), len(set(every)))


class Kernels(unittest.TestCase):
    def test_what_the_host_executor_runs(self) -> None:
        files = [str(f) for f in kernels.files()]
        self.assertIn("kernels/softmax/online.hpp", files)
        self.assertIn("device/row_team.hpp", files)
        self.assertFalse([f for f in files if ".gpu." in f or "device/ptx" in f])
        versions = kernels.versions_with(Path("kernels/gemm/last_wave.hpp"))
        self.assertIn(Path("kernels/gemm/v18_last_wave.cu"), versions)

    def test_who_launches_the_kernels_of_another_family(self) -> None:
        prefetch = Path("layernorm/v08_prefetch.cu"), Path("rmsnorm/v08_prefetch.cu")
        launched, launching = (Path("kernels") / version for version in prefetch)
        self.assertEqual(kernels.launching(launched), [launching])
        self.assertEqual(kernels.launching(launching), [])
        self.assertIn(launched.parent, kernels.linked_with(launching.parent))
        self.assertNotIn(launched.parent, kernels.linked_with(Path("kernels/softmax")))

    def test_every_family_has_mutations(self) -> None:
        files = {t.file.parent for t in mutate.trials("", "")}
        self.assertLessEqual({v.parent for v in kernels.versions()}, files)


class Verdicts(unittest.TestCase):
    MUTATION = operators.Mutation("bounds", "one less", 7, "i < n -> n - 1", "mutated")
    NAMED = survivors.Survivor("kernels/*/v0*.cu", "bounds", "i < … -> n - 1", "same: it is")

    def outcome(self, named: bool, **caught: bool) -> mutate.Outcome:
        trial = mutate.Trial(Path("kernels/f/v01.cu"), self.MUTATION, self.NAMED if named else None)
        return mutate.Outcome(trial, "", **caught)

    def test_what_is_not_named_must_be_caught(self) -> None:
        self.assertTrue(self.outcome(False, by_tests=True).in_order)
        self.assertFalse(self.outcome(False, by_bench=True).in_order)
        self.assertFalse(self.outcome(False).in_order)
        self.assertTrue(self.outcome(False, same_code=True).in_order)

    def test_what_is_named_must_survive(self) -> None:
        self.assertTrue(self.outcome(True).in_order)
        self.assertFalse(self.outcome(True, by_tests=True).in_order)
        self.assertFalse(self.outcome(True, by_bench=True).in_order)

    def test_names(self) -> None:
        for place, kind, what, is_named in (
            ("kernels/f/v01.cu", "bounds", "i < a.n -> n - 1", True),
            ("kernels/f/v11.cu", "bounds", "i < a.n -> n - 1", False),
            ("kernels/f/v01.cu", "tails", "i < a.n -> n - 1", False),
            ("kernels/f/v01.cu", "bounds", "i < a.n -> n - 1 #2", False),
        ):
            mutation = self.MUTATION._replace(kind=kind, what=what)
            self.assertEqual(self.NAMED.names(Path(place), mutation), is_named, (place, what))

    def read(self, text: str) -> survivors.Survivors:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            with mock.patch.object(survivors, "LIST", Path(file.name)):
                return survivors.read()

    def test_the_list(self) -> None:
        listed = self.read("# why\n\nkernels/* | bounds | i < n -> <= | same: no i is n\n").listed
        self.assertEqual([s.reason for s in listed], ["same: no i is n"])
        for wrong in ("kernels/* | bounds | i < n -> <=\n", "k | bounds | w | it is fine\n"):
            with self.assertRaises(SystemExit) as refused:
                self.read(wrong)
            self.assertRegex(str(refused.exception), r":1 is not  place \| class \| what ")

    def test_a_name_of_what_is_no_more_is_an_error(self) -> None:
        listed = survivors.Survivors([self.NAMED, self.NAMED._replace(what="gone")])
        used = mutate.Trial(Path("kernels/f/v01.cu"), self.MUTATION, self.NAMED)
        self.assertEqual([s.what for s in listed.unused([used])], ["gone"])


class CommandLine(unittest.TestCase):
    def refusal(self, *arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, str(SCRIPTS / "mutate.py"), *arguments], capture_output=True, text=True
        )
        self.assertNotEqual(result.returncode, 0)
        return result.stderr

    def test_a_path_that_no_file_has(self) -> None:
        self.assertIn("'gemm/v99'", self.refusal("gemm/v99"))

    def test_classes_are_checked(self) -> None:
        self.assertIn("invalid choice: 'bound'", self.refusal("--class", "bound"))


if __name__ == "__main__":
    unittest.main()
