#!/usr/bin/env python3
"""Tests of the installed package kernel_ladder: torch_test.py. On a machine without PyTorch, or on which
the package is not installed (pip install .), exits with 77. Runs on the CPU, and on a GPU if there is
one."""

from __future__ import annotations

import importlib.util
import sys
import unittest
from typing import Any, Callable

for needed, how in (("torch", "pip install torch"), ("kernel_ladder", "pip install .")):
    if importlib.util.find_spec(needed) is None:
        print(f"{needed} is not installed here: {how}")
        sys.exit(77)

import kernel_ladder as kl  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.library import opcheck  # noqa: E402
from torch.nn import functional as F  # noqa: E402

K = torch.ops.kernel_ladder
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

Call = tuple[Callable[..., Any], Callable[..., Any], list[Tensor], bool]


def calls(device: str, dtype: torch.dtype, grad: bool) -> list[Call]:
    """Of each operator: it, what it is to compute, in any dtype, its inputs, and whether it has
    gradients."""
    torch.manual_seed(0)

    def new(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device).to(dtype).requires_grad_(grad)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        group = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        return F.scaled_dot_product_attention(q, k, v)

    def causal_softmax(x: Tensor) -> Tensor:
        rows, cols = x.shape
        unseen = torch.ones_like(x, dtype=torch.bool).triu(cols - rows + 1)
        return x.masked_fill(unseen, -torch.inf).softmax(-1)

    x, matrix = (2, 3, 40), (5, 48)
    all_calls: list[Call] = [
        (K.softmax, lambda x: x.softmax(-1), [new(*x)], True),
        (K.log_softmax, lambda x: x.log_softmax(-1), [new(*x)], True),
        (K.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), [new(*x), new(40), new(40)], True),
        (K.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-5), [new(*x), new(40)], True),
        (K.add_rms_norm, lambda x, r, w: F.rms_norm(x + r, w.shape, w, 1e-5),
         [new(*x), new(*x), new(40)], True),
        (K.causal_softmax, causal_softmax, [new(5, 7)], True),
        (K.relu, torch.relu, [new(*x)], True),
        (K.gelu, F.gelu, [new(*x)], True),
        (K.gelu_tanh, lambda x: F.gelu(x, approximate="tanh"), [new(*x)], True),
        (K.silu_mul, lambda g, u: F.silu(g) * u, [new(*x), new(*x)], True),
        (K.bias_gelu_residual, lambda x, b, r: F.gelu(x + b) + r, [new(*x), new(40), new(*x)], True),
        (K.sum, torch.sum, [new(*x)], True),
        (K.row_sum, lambda x: x.sum(1), [new(*matrix)], True),
        (K.col_sum, lambda x: x.sum(0), [new(*matrix)], True),
        (K.transpose, lambda x: x.T, [new(*matrix)], True),
        (K.mm, torch.mm, [new(*matrix), new(48, 24)], True),
    ]  # fmt: skip
    if dtype != torch.float32:
        of_kv = (1, 1, 9, 64)
        all_calls.append((K.attention, attention, [new(1, 2, 5, 64), new(*of_kv), new(*of_kv)], True))
    return all_calls


def first(result: Any) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]


class Operators(unittest.TestCase):
    def for_each(self, grad: bool, test: Callable[[Call, torch.dtype], None]) -> None:
        for device in DEVICES:
            for dtype in DTYPES:
                for call in calls(device, dtype, grad):
                    if grad and not call[3]:
                        continue
                    with self.subTest(op=str(call[0]), device=device, dtype=str(dtype)):
                        test(call, dtype)

    def assert_near(self, found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
        self.assertEqual(found.shape, expected.shape)
        found, expected = found.detach().double(), expected.detach().double()
        error = float((found - expected).abs().max()) / max(1.0, float(expected.abs().max()))
        self.assertLessEqual(error, TOLERANCE[dtype])

    def test_results_are_pytorchs(self) -> None:
        def test(call: Call, dtype: torch.dtype) -> None:
            op, expected, inputs, _ = call
            self.assert_near(first(op(*inputs)), expected(*(x.double() for x in inputs)), dtype)

        self.for_each(False, test)

    def test_gradients_are_pytorchs(self) -> None:
        def test(call: Call, dtype: torch.dtype) -> None:
            op, expected, inputs, _ = call
            result = first(op(*inputs))
            weights = torch.randn_like(result)
            found = torch.autograd.grad(result, inputs, weights)
            doubles = [x.detach().double().requires_grad_() for x in inputs]
            wanted = expected(*doubles)
            truth = torch.autograd.grad(wanted, doubles, weights.to(wanted.dtype))
            for one, true in zip(found, truth):
                self.assert_near(one, true, dtype)

        self.for_each(True, test)

    def test_opcheck(self) -> None:
        for grad in (False, True):
            self.for_each(grad, lambda call, _: opcheck(call[0], tuple(call[2])))

    def test_tensors_that_are_not_contiguous_are_copied(self) -> None:
        x = torch.randn(40, 6).T
        self.assertTrue(torch.equal(K.softmax(x), K.softmax(x.contiguous())))

    def test_empty_tensors(self) -> None:
        self.assertEqual(K.softmax(torch.randn(0, 5)).shape, (0, 5))
        self.assertEqual(K.gelu(torch.randn(2, 0)).shape, (2, 0))
        self.assertEqual(float(K.sum(torch.randn(0))), 0)

    def test_torch_compile_takes_them_whole(self) -> None:
        def block(x: Tensor, w: Tensor) -> Tensor:
            return kl.ops.softmax(kl.ops.rms_norm(x, w)) * 2

        x, w = torch.randn(3, 40), torch.randn(40)
        compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(x, w), block(x, w)))

    def test_a_version_by_its_name(self) -> None:
        a, b = torch.randn(70, 33), torch.randn(33, 50)
        for name in kl.versions("gemm/f32/v0"):
            with self.subTest(name=name):
                self.assert_near(kl.version(name)(a, b), a @ b, torch.float32)
        self.assertIn("registers", kl.version("gemm/f32/v05_tile2d").idea)

    def test_patch_swaps_what_it_can_and_says_so(self) -> None:
        class OtherRMSNorm(torch.nn.Module):
            def __init__(self, eps: float) -> None:
                super().__init__()
                self.weight, self.variance_epsilon = torch.nn.Parameter(torch.randn(24)), eps

            def forward(self, x: Tensor) -> Tensor:
                return F.rms_norm(x, (24,), self.weight, self.variance_epsilon)

        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.GELU("tanh"), OtherRMSNorm(1e-5),
            torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(24, 24), torch.nn.ReLU(inplace=True)),
            OtherRMSNorm(1e-6),
            torch.nn.Softmax(-1),
        )  # fmt: skip
        x = torch.randn(5, 8)
        weights = torch.randn(5, 24)
        expected = model(x)
        wanted = torch.autograd.grad(expected, list(model.parameters()), weights)
        state = model.state_dict()
        done = kl.patch(model)
        self.assertEqual(list(done), ["1", "2", "3", "4.0", "4.2", "5", "6"])
        self.assertEqual(done["3"], "OtherRMSNorm -> kernel_ladder.nn.RMSNorm")
        self.assertEqual(done["4.2"], "stays ReLU: it works in place")
        self.assertEqual(done["5"], "stays OtherRMSNorm: its eps is 1e-06, not 1e-05")
        self.assertIn("\n4.2  stays ReLU", str(done))
        self.assert_near(model(x), expected, torch.float32)
        for one, true in zip(torch.autograd.grad(model(x), list(model.parameters()), weights), wanted):
            self.assert_near(one, true, torch.float32)
        self.assertEqual(list(model.state_dict()), list(state))
        again = kl.patch(model)
        self.assertEqual(list(again), ["4.2", "5"])

    def test_explain_counts_what_the_kernels_do(self) -> None:
        x = torch.randn(64, 96)
        sectors = 64 * 96 * 4 // 32
        explained = kl.explain(lambda: [kl.version(f"transpose/f32/{v}")(x) for v in ("v01_naive", "v03_padded")])
        self.assertEqual([one.kernel for one in explained],
                         ["transpose/f32/v01_naive", "transpose/f32/v03_padded"])  # fmt: skip
        self.assertEqual([one.problem for one in explained], ["64x96"] * 2)
        self.assertEqual([one.counts["global_st_sectors"] for one in explained], [8 * sectors, sectors])
        self.assertRegex(str(explained), r"v01_naive +64x96 +\d+ 4 of 4 +\d+ 32 of 4 ! +- +- +0 +221")
        with self.assertRaisesRegex(ValueError, "has run none"):
            kl.explain(lambda: x + 1)
        self.assertTrue(torch.equal(K.transpose(x), x.T))  # it counts no longer

    def test_operators_run_the_fastest_version_that_can(self) -> None:
        def new(*shape: int) -> Tensor:
            return torch.randn(*shape).bfloat16()

        for call, label in {
            (lambda: K.softmax(new(3, 40))): "v10_",
            (lambda: K.softmax_backward(new(3, 40), new(3, 40))): "v31_",
            (lambda: K.gelu_tanh(new(40))): "v06_",
            (lambda: K.relu(new(40))): "v07_",
            (lambda: K.sum(new(40))): "v16_",
            (lambda: K.attention(new(1, 2, 40, 64), new(1, 2, 40, 64), new(1, 2, 40, 64))): "v17_",
            (lambda: K.attention(*[new(1, 2, 40, 128)] * 3)): "v16_",
            (lambda: K.attention(new(1, 2, 1, 64), new(1, 2, 40, 64), new(1, 2, 40, 64))): "v56_",
        }.items():
            (launch,) = kl.explain(call)
            with self.subTest(kernel=launch.kernel):
                self.assertEqual(launch.kernel.rsplit("/", 1)[1][:4], label)

    def test_what_cannot_be_done_is_a_sentence(self) -> None:
        def new(*shape: int) -> Tensor:
            return torch.randn(*shape)

        for what, call in {
            "softmax: dim must be the last one, not 0": lambda: kl.ops.softmax(new(3, 5), dim=0),
            "softmax: no version can do 3x4 in i64": lambda: kl.ops.softmax(new(3, 4).long()),
            "layer_norm: weight must have one": lambda: kl.ops.layer_norm(new(3, 8), new(7), new(8)),
            "rms_norm: eps must be 1e-05": lambda: kl.ops.rms_norm(new(3, 8), new(8), eps=1e-6),
            "mm: b must have as many rows": lambda: kl.ops.mm(new(3, 4), new(5, 6)),
            "mm: b must have the first argument's dtype": lambda: kl.ops.mm(new(3, 4), new(4, 6).half()),
            "attention: q must have head size": lambda: kl.ops.attention(*[new(1, 2, 3, 60)] * 3),
            "there is no gemm/f32/v99": lambda: kl.version("gemm/f32/v99"),
            r"array 1 \(output\) must have 15 elements of f32, not 14": lambda: K.run(
                "softmax/f32/v01_naive", "3x5", [new(15), new(14)]
            ),
        }.items():
            with self.subTest(what=what), self.assertRaisesRegex((RuntimeError, ValueError), what):
                call()


if __name__ == "__main__":
    unittest.main()
