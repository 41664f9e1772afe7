#!/usr/bin/env python3
"""Tests of the installed package kernel_ladder: torch_test.py. Exits with 77 where it can't run
(torch_calls.py). Runs on CPU tensors, and on CUDA tensors if there is a GPU. Derivatives beyond gradients
are torch_derivatives_test.py's, whole models torch_patch_test.py's."""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch_calls import DEVICES, DTYPES, Call, K, TestCase, attention, calls, kl, several, torch
import skips
from torch import Tensor
from torch.library import opcheck
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
from peers.library import CUDA, HOST, INPUT, Library  # noqa: E402

NO_GPU = "needs a GPU"


class Operators(TestCase):
    def test_results_are_pytorchs(self) -> None:
        def test(call: Call) -> None:
            expected = call.expected(*(x.double() for x in call.inputs), *call.others)
            found = call.operator()(*call.inputs, *call.others)
            self.assert_near(found, expected, call.inputs[0].dtype)
            self.assert_same(call.function()(*call.inputs), found)

        self.for_each(test)

    def test_gradients_are_pytorchs(self) -> None:
        def test(call: Call) -> None:
            doubles = [x.detach().double().requires_grad_() for x in call.inputs]
            wanted = several(call.expected(*doubles, *call.others))
            results = several(call.function()(*call.inputs))[: len(wanted)]
            weights = [torch.randn_like(result) for result in results]
            found = torch.autograd.grad(results, call.inputs, weights)
            truth = torch.autograd.grad(wanted, doubles, [w.to(y.dtype) for w, y in zip(weights, wanted)])
            self.assert_near(found, truth, call.inputs[0].dtype)

        self.for_each(test, grad=True)

    def test_opcheck(self) -> None:
        for grad in (False, True):
            self.for_each(lambda call: opcheck(call.operator(), (*call.inputs, *call.others)), grad)

    def test_opcheck_of_those_without_a_gradient(self) -> None:
        self.for_each(lambda call: opcheck(getattr(K, f"_{call.name}"), (*call.inputs, *call.others)))

    def test_opcheck_of_gradients(self) -> None:
        for device in DEVICES:
            def new(*shape: int) -> Tensor:
                return torch.randn(*shape, device=device, requires_grad=True)

            q, k, v, do = (new(1, 2, 5, 64).detach().bfloat16().requires_grad_() for _ in range(4))
            o, lse = (x.detach() for x in K.attention(q, k, v))
            opcheck(K.softmax_backward, (new(3, 8), new(3, 8)))
            opcheck(K.log_softmax_backward, (new(3, 8), new(3, 8)))
            opcheck(K.layer_norm_backward, (new(3, 8), new(3, 8), new(8)))
            opcheck(K.rms_norm_backward, (new(3, 8), new(3, 8), new(8), 0.5))
            opcheck(K.attention_backward, (do, q, k, v, o, lse, True))

    def test_ops_take_the_gradient_where_one_is_needed(self) -> None:
        x = torch.randn(2, 5, requires_grad=True)
        self.assertTrue(kl.ops.softmax(x).requires_grad)
        self.assertFalse(kl.ops.softmax(x.detach()).requires_grad)
        with torch.no_grad():
            self.assertFalse(kl.ops.softmax(x).requires_grad)

    def test_sums_of_other_dtypes(self) -> None:
        for device in DEVICES:
            for dtype in (torch.float64, torch.int32):
                x = torch.randint(-9, 9, (3, 50), device=device).to(dtype)
                self.assertEqual(K.sum(x).dtype, dtype)
                self.assertEqual(float(K.sum(x)), float(x.sum()))

    def test_strided_tensors(self) -> None:
        """Not contiguous, and beginning anywhere."""

        def test(call: Call) -> None:
            strided = []
            for x in call.inputs:
                memory = torch.zeros(*x.shape[:-1], 3 * x.size(-1) + 1, dtype=x.dtype, device=x.device)
                strided.append(memory[..., 1::3])
                strided[-1].copy_(x)
            self.assertFalse(strided[0].is_contiguous())
            plain = [x.contiguous() for x in call.inputs]
            self.assert_same(call.operator()(*strided), call.operator()(*plain))
            shifted = [x.new_empty(x.numel() + 1)[1:].view(x.shape).copy_(x) for x in call.inputs]
            self.assert_same(call.operator()(*shifted), call.operator()(*plain))

        self.for_each(test)

    def test_products_of_transposed_matrices_are_not_copied(self) -> None:
        for device in DEVICES:
            a, b = (torch.randn(*s, device=device).bfloat16() for s in ((16, 32), (32, 24)))
            at, bt = a.T.contiguous().T, b.T.contiguous().T
            for left, right in ((a, bt), (at, b), (at, bt)):
                self.assert_near(K.mm(left, right), a.double() @ b.double(), torch.bfloat16)
        a, b, at, bt = a.cpu(), b.cpu(), at.cpu(), bt.cpu()
        for (left, right), layout in {(a, bt): "nt", (at, b): "tn", (at, bt): "tn", (a, b): "nn"}.items():
            (launch,) = kl.explain(K.mm, left, right)
            self.assertEqual(launch.kernel.split("/")[1], layout)

    def test_products_of_rows_that_begin_anywhere_are_not_filled_up(self) -> None:
        a, b = torch.randn(5, 13).bfloat16(), torch.randn(13, 7).bfloat16()
        at, bt = a.T.contiguous().T, b.T.contiguous().T
        for left, right in ((a, b), (a, bt), (at, b), (a.half(), b.half().T.contiguous().T)):
            (launch,) = kl.explain(K.mm, left, right)
            self.assertRegex(launch.kernel, "^gemm_tensor/(nn|nt|tn)/b?f16/v20_")
            self.assertEqual(launch.problem, "5x7x13")
            self.assert_near(K.mm(left, right), left.double() @ right.double(), left.dtype)

    def test_attention_takes_heads_side_by_side_as_they_are(self) -> None:
        for device in DEVICES:
            q, k, v = (torch.randn(2, 7, h, 64, device=device).bfloat16().transpose(1, 2) for h in (4, 2, 2))
            o, lse = K.attention(q, k, v, True)
            self.assertTrue(o.transpose(1, 2).is_contiguous())
            self.assert_same((o, lse), K.attention(*(x.contiguous() for x in (q, k, v)), True))
        launch = kl.explain(lambda: K.attention(q.cpu(), k.cpu(), v.cpu(), True))[0]
        self.assertEqual(launch.problem, "2x4:2x7x64@bshd")

    def test_empty_tensors(self) -> None:
        for device in DEVICES:
            def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
                return torch.randn(*shape, device=device, dtype=dtype)

            self.assertEqual(K.softmax(new(0, 5)).shape, (0, 5))
            self.assertEqual(K.gelu(new(2, 0)).shape, (2, 0))
            self.assertEqual(K.rms_norm(new(0, 8), new(8)).shape, (0, 8))
            self.assertEqual(K.transpose(new(0, 3)).shape, (3, 0))
            self.assertEqual(float(K.sum(new(0))), 0)
            for dtype in DTYPES:
                self.assertEqual(K.mm(new(0, 8, dtype=dtype), new(8, 8, dtype=dtype)).shape, (0, 8))
                zeros = K.mm(new(8, 0, dtype=dtype), new(0, 8, dtype=dtype))
                self.assert_same(zeros, torch.zeros_like(zeros))
            x = new(0, 5).requires_grad_()
            K.softmax(x).sum().backward()
            self.assertEqual(x.grad.shape, (0, 5))

    def test_torch_compile_takes_them_whole(self) -> None:
        def block(x: Tensor, w: Tensor) -> Tensor:
            return kl.ops.softmax(kl.ops.rms_norm(x, w.shape, w)) * 2

        for device in DEVICES:
            x, w = torch.randn(3, 40, device=device), torch.randn(40, device=device)
            backend = {"cpu": "aot_eager", "cuda": "inductor"}[device]
            compiled = torch.compile(block, fullgraph=True, backend=backend)
            self.assert_same(compiled(x, w), block(x, w))
            x.requires_grad_(), w.requires_grad_()
            found = torch.autograd.grad(compiled(x, w).square().sum(), (x, w))
            self.assert_near(found, torch.autograd.grad(block(x, w).square().sum(), (x, w)), torch.float32)

    def test_autocast_takes_pytorchs_dtypes(self) -> None:
        def pairs(device: str, dtype: torch.dtype) -> list[tuple[str, Any, Any]]:
            torch.manual_seed(0)

            def new(*shape: int, of: torch.dtype = torch.float32) -> Tensor:
                return torch.randn(*shape, device=device).to(of)

            x, w, q = new(4, 64, of=dtype), new(64), new(1, 2, 8, 64)
            both = w.to(dtype)  # PyTorch's rms_norm takes one dtype
            return [
                ("mm", lambda: K.mm(x, new(64, 8)), lambda: torch.mm(x, new(64, 8))),
                ("softmax", lambda: K.softmax(x), lambda: torch.softmax(x, -1)),
                ("log_softmax", lambda: K.log_softmax(x), lambda: torch.log_softmax(x, -1)),
                ("layer_norm", lambda: K.layer_norm(x, w, w), lambda: F.layer_norm(x, (64,), w, w)),
                ("rms_norm", lambda: K.rms_norm(x, both), lambda: F.rms_norm(x, (64,), both, 1e-5)),
                ("gelu", lambda: K.gelu(x), lambda: F.gelu(x)),
                ("attention", lambda: K.attention(q, q, q)[0], lambda: attention(q, q, q)),
            ]

        for device in DEVICES:
            for dtype in (torch.float32, torch.bfloat16):
                for name, ours, theirs in pairs(device, dtype):
                    with self.subTest(op=name, device=device, dtype=str(dtype)):
                        with torch.autocast(device, torch.bfloat16):
                            torch.manual_seed(1)
                            found = ours()
                            torch.manual_seed(1)
                            expected = theirs()
                        self.assertEqual(found.dtype, expected.dtype)
                        self.assert_near(found, expected, torch.bfloat16)
        with torch.autocast("cpu", torch.bfloat16):
            x = torch.randn(4, 64, requires_grad=True)
            kl.ops.mm(x, torch.randn(64, 8)).float().sum().backward()
            self.assertEqual(x.grad.dtype, torch.float32)
            wide, narrow = torch.randn(4, 64), torch.randn(4, 64).bfloat16()
            self.assertEqual(kl.ops.silu_mul(narrow, wide).dtype, torch.float32)

    def test_results_are_bitwise_the_c_librarys(self) -> None:
        """Which ./bench runs too."""
        library = Library(Path(kl.__file__).with_name("libkernel_ladder.so"))
        for device in DEVICES:
            backend = {"cpu": HOST, "cuda": CUDA}[device]
            kernels = {kernel.name: kernel for kernel in library.kernels(backend)}
            stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
            for name, problem, shapes in (
                ("softmax/f32/v05_vec128", "7x300", [(7, 300)]),
                ("rmsnorm/bf16/v08_prefetch", "5x264", [(5, 264), (264,)]),
                ("layernorm/f16/v08_prefetch", "5x264", [(5, 264), (264,), (264,)]),
                ("gemm/f32/v05_tile2d", "70x50x33", [(70, 33), (33, 50)]),
                ("gemm_tensor/nn/bf16/v03_cp_async", "64x72x40", [(64, 40), (40, 72)]),
                ("reduction/sum/f32/v10_one_launch", "12345", [(12345,)]),
            ):
                with self.subTest(name=name, device=device):
                    torch.manual_seed(0)
                    version = kl.version(name)
                    inputs = [torch.randn(*s, device=device).to(version.dtype) for s in shapes]
                    found = several(version(*inputs))
                    launcher = library.open(kernels[name], problem)
                    outputs = [torch.empty_like(one) for one in found]
                    self.assertEqual([a.role == INPUT for a in launcher.arrays],
                                     [True] * len(inputs) + [False] * len(outputs))  # fmt: skip
                    size = launcher.bind([x.data_ptr() for x in (*inputs, *outputs)])
                    workspace = torch.empty(max(size, 1), dtype=torch.uint8, device=device)
                    if size:
                        launcher.set_workspace(workspace.data_ptr())
                    state = torch.zeros(launcher.state_bytes, dtype=torch.uint8, device=device)
                    if launcher.state_bytes:
                        launcher.set_state(state.data_ptr())
                    launcher.launch(stream)
                    self.assert_same(outputs, found)

    def test_a_version_by_its_name(self) -> None:
        for device in DEVICES:
            a, b = torch.randn(70, 33, device=device), torch.randn(33, 50, device=device)
            for name in kl.versions("gemm/f32/v0"):
                with self.subTest(name=name, device=device):
                    self.assert_near(kl.version(name)(a, b), a.double() @ b.double(), torch.float32)
        self.assertIn("registers", kl.version("gemm/f32/v05_tile2d").idea)

    def test_explain_counts_what_the_kernels_do(self) -> None:
        x = torch.randn(64, 96)
        sectors = 64 * 96 * 4 // 32
        names = [f"transpose/f32/{v}" for v in ("v01_naive", "v03_padded")]
        explained = kl.explain(lambda: [kl.version(name)(x) for name in names])
        self.assertEqual([one.kernel for one in explained], names)
        self.assertEqual([one.problem for one in explained], ["64x96"] * 2)
        self.assertEqual([one.counts["global_st_sectors"] for one in explained], [8 * sectors, sectors])
        self.assertRegex(str(explained), r"v01_naive +64x96 +\d+ 4 of 4 +\d+ 32 of 4 ! +- +- +0 +221")
        with self.assertRaisesRegex(ValueError, "has run none"):
            kl.explain(lambda: x + 1)
        self.assert_same(K.transpose(x), x.T)  # it counts no longer

    def test_profile_names_the_kernels(self) -> None:
        x = torch.randn(8, 100)
        kl.ops.softmax(x)
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            with kl.profile(trace) as profiled:
                for _ in range(3):
                    kl.ops.softmax(x)
                kl.version("transpose/f32/v03_padded")(x)
            names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
        found = {(row.kernel, row.problem): row.launches for row in profiled.rows}
        self.assertEqual(found, {("softmax/f32/v10d_by_shape", "8x100"): 3,
                                 ("transpose/f32/v03_padded", "8x100"): 1})  # fmt: skip
        self.assertIn("softmax/f32/v10d_by_shape 8x100", names)
        self.assertRegex(str(profiled), r"softmax/f32/v10d_by_shape +8x100 +3 +[\d.]+ +-")
        with torch.profiler.profile() as after:
            kl.ops.softmax(x)
        self.assertNotIn("softmax/f32/v10d_by_shape 8x100", {one.key for one in after.key_averages()})

    def test_operators_run_the_fastest_version_that_can(self) -> None:
        def new(*shape: int) -> Tensor:
            return torch.randn(*shape).bfloat16()

        for call, label in {
            (lambda: K.softmax(new(3, 40))): "v10d",
            (lambda: K.softmax_backward(new(3, 40), new(3, 40))): "v35_",
            (lambda: K.gelu_tanh(new(40))): "v07_",
            (lambda: K.relu(new(40))): "v07_",
            (lambda: K.sum(new(40))): "v16_",
            (lambda: K.layer_norm(new(3, 40), new(40), new(40))): "v13_",
            (lambda: K.rms_norm(new(3, 40), new(40))): "v14_",
            (lambda: K.add_layer_norm(new(3, 40), new(3, 40), new(40), new(40))): "v22_",
            (lambda: K.addmm_gelu(new(16), new(8, 32), new(32, 16))): "v22_",
            (lambda: K.attention(new(1, 2, 40, 64), new(1, 2, 40, 64), new(1, 2, 40, 64))): "v17_",
            (lambda: K.attention(*[new(1, 2, 40, 128)] * 3)): "v16_",
            (lambda: K.attention(new(1, 2, 1, 64), new(1, 2, 40, 64), new(1, 2, 40, 64))): "v56_",
        }.items():
            (launch,) = kl.explain(call)
            with self.subTest(kernel=launch.kernel):
                self.assertEqual(launch.kernel.rsplit("/", 1)[1][:4], label)

    def test_what_cannot_be_done_is_a_sentence(self) -> None:
        for device in DEVICES:
            def new(*shape: int) -> Tensor:
                return torch.randn(*shape, device=device)

            for what, call in {
                "softmax: dim must be the last one, not 0": lambda: kl.ops.softmax(new(3, 5), dim=0),
                "softmax: input must have a dimension": lambda: kl.ops.softmax(new(1)[0]),
                "softmax: input must be float32, float16 or bfloat16, not int64": lambda: kl.ops.softmax(
                    new(3, 4).long()
                ),
                "softmax: input must be float32, .* not bool": lambda: K.softmax(new(3, 4).bool()),
                "gelu: input must be float32, .* not float64": lambda: K.gelu(new(3, 4).double()),
                "mm: a must be float32, .* not float64": lambda: K.mm(new(3, 4).double(), new(4, 3).double()),
                "sum: input must be .* or int32, not int64": lambda: K.sum(new(3).long()),
                "attention: q must be float16 or bfloat16, not float32": lambda: K.attention(
                    *[new(1, 2, 3, 64)] * 3
                ),
                "layer_norm: normalized_shape comes before weight": lambda: kl.ops.layer_norm(
                    new(3, 8), new(8), new(8)
                ),
                r"layer_norm: normalized_shape must be \(8,\), .* not \(3, 8\)": lambda: kl.ops.layer_norm(
                    new(3, 8), (3, 8), new(3, 8), new(3, 8)
                ),
                "layer_norm: weight and bias must be given": lambda: kl.ops.layer_norm(new(3, 8), [8]),
                r"rms_norm: normalized_shape must be \(8,\), .* not 8": lambda: kl.ops.rms_norm(
                    new(3, 8), 8, new(8)
                ),
                "layer_norm: weight must have one": lambda: kl.ops.layer_norm(new(3, 8), (8,), new(7), new(8)),
                "rms_norm: eps must be a positive": lambda: kl.ops.rms_norm(new(3, 8), (8,), new(8), eps=-1),
                "mm: a must have two dimensions": lambda: kl.ops.mm(new(3), new(3, 4)),
                "mm: b must have as many rows": lambda: kl.ops.mm(new(3, 4), new(5, 6)),
                "mm: b must have the first argument's dtype, float32, not float16": lambda: kl.ops.mm(
                    new(3, 4), new(4, 6).half()
                ),
                "addmm_gelu: bias must have one": lambda: K.addmm_gelu(
                    *(x.half() for x in (new(5), new(3, 4), new(4, 6)))
                ),
                "attention: q must have head size": lambda: kl.ops.attention(*[new(1, 2, 3, 60).half()] * 3),
                "attention: v must have k's shape": lambda: kl.ops.attention(
                    *[new(1, 2, 3, 64).half()] * 2, new(1, 2, 4, 64).half()
                ),
                "there is no gemm/f32/v99": lambda: kl.version("gemm/f32/v99"),
                r"array 1 \(y\) must have 15 elements of f32, not 14": lambda: K.run(
                    "softmax/f32/v01_naive", "3x5", [new(15), new(14)]
                ),
                "run: takes 2 arrays, not 20": lambda: K.run("softmax/f32/v01_naive", "3x5", [new(15)] * 20),
                "'3by5' is no problem": lambda: K.run("softmax/f32/v01_naive", "3by5", [new(15), new(15)]),
            }.items():
                with self.subTest(what=what, device=device):
                    with self.assertRaisesRegex((RuntimeError, ValueError), what):
                        call()


class Modules(TestCase):
    def test_scaled_dot_product_attention_is_pytorchs(self) -> None:
        for device in DEVICES:
            shapes = (2, 4, 6, 64), (2, 2, 9, 64), (2, 2, 9, 64)
            q, k, v = (torch.randn(*shape, device=device).bfloat16() for shape in shapes)
            for causal in (False, True):
                found = kl.nn.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
                true = F.scaled_dot_product_attention(
                    *(x.double() for x in (q, k, v)), is_causal=causal, enable_gqa=True
                )
                self.assert_near(found, true, torch.bfloat16)
        refused = {
            "attn_mask must be None": {"attn_mask": q},
            "dropout_p must be 0, not 0.5": {"dropout_p": 0.5},
            "scale must be 1 / sqrt": {"scale": 0.5},
            "key must have query's 4 heads, not 2, unless": {},
        }
        for what, arguments in refused.items():
            with self.assertRaisesRegex(ValueError, what):
                kl.nn.scaled_dot_product_attention(q, k, v, **arguments)
        with self.assertRaisesRegex(ValueError, "query must be float16 or bfloat16, not torch.float32"):
            kl.nn.scaled_dot_product_attention(q.float(), k.float(), v.float())

    def test_cross_entropy_is_pytorchs(self) -> None:
        for device in DEVICES:
            x = torch.randn(6, 50, device=device, requires_grad=True)
            target = torch.tensor([3, 0, 49, -100, 7, 7], device=device)
            for reduction in ("mean", "sum", "none"):
                found = kl.nn.cross_entropy(x, target, reduction=reduction)
                expected = F.cross_entropy(x, target, reduction=reduction)
                self.assert_near(found, expected, torch.float32)
                self.assert_near(torch.autograd.grad(found.sum(), x),
                                 torch.autograd.grad(expected.sum(), x), torch.float32)  # fmt: skip


@unittest.skipUnless(torch.cuda.is_available(), NO_GPU)
class OnTheGpu(TestCase):
    def test_they_run_on_the_current_stream(self) -> None:
        x = torch.ones(1000, 1000, device="cuda")
        K.sum(x)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000_000)  # some 50 ms
            x.add_(1)
            total = K.sum(x)
        stream.synchronize()
        self.assertEqual(float(total), 2e6)

    def test_cuda_graphs(self) -> None:
        def test(call: Call) -> None:
            operator = call.operator()
            others = [torch.randn_like(x) for x in call.inputs]
            expected = operator(*others)
            static = [x.clone() for x in call.inputs]
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                operator(*static)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = operator(*static)
            for x, other in zip(static, others):
                x.copy_(other)
            graph.replay()
            self.assert_same(results, expected)

        self.for_each(test, devices=["cuda"])

    def test_a_graph_of_a_module_and_its_gradients(self) -> None:
        model = torch.nn.Sequential(kl.nn.RMSNorm(64), kl.nn.GELU(), kl.nn.LayerNorm(64)).cuda()
        x = torch.randn(8, 64, device="cuda", requires_grad=True)
        expected = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
        sample = torch.randn_like(x).requires_grad_()
        graphed = torch.cuda.make_graphed_callables(copy.deepcopy(model), (sample,))
        found = torch.autograd.grad(graphed(x).square().sum(), [x, *graphed.parameters()])
        self.assert_near(found, expected, torch.float32)

    def test_torch_compile_with_graphs(self) -> None:
        def block(x: Tensor, w: Tensor) -> Tensor:
            return kl.ops.silu_mul(kl.ops.rms_norm(x, w.shape, w), x) + 1

        w = torch.randn(64, device="cuda")
        compiled = torch.compile(block, fullgraph=True, mode="reduce-overhead")
        for _ in range(4):
            x = torch.randn(8, 64, device="cuda")
            self.assert_near(compiled(x, w).clone(), block(x, w), torch.float32)

    def large_calls(self) -> list[Call]:
        """Whose blocks meet: rows that clusters and blocks share, sums, products that divide K, attention."""
        def new(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
            return torch.randn(*shape, device="cuda").to(dtype)

        rows, few = (64, 200_000), (300, 32_768)
        return [
            *(Call(name, None, [new(*shape)]) for name in ("softmax", "log_softmax") for shape in (rows, few)),
            Call("layer_norm", None, [new(*rows), new(rows[1]), new(rows[1])]),
            Call("rms_norm", None, [new(*rows), new(rows[1])]),
            Call("layer_norm_backward", None, [new(*few), new(*few), new(few[1])]),
            Call("sum", None, [new(1 << 24, dtype=torch.float32)]),
            Call("row_sum", None, [new(*rows)]), Call("col_sum", None, [new(70_000, 96)]),
            Call("mm", None, [new(1000, 1000, dtype=torch.float32), new(1000, 1000, dtype=torch.float32)]),
            Call("mm", None, [new(200, 4096), new(4096, 392)]),
            Call("attention", None, [new(2, 8, 2048, 128) for _ in range(3)]),
            Call("attention", None, [new(4, 8, 1, 128), new(4, 1, 9000, 128), new(4, 1, 9000, 128)]),
        ]  # fmt: skip

    def test_launches_on_two_streams_may_overlap(self) -> None:
        streams = [torch.cuda.Stream() for _ in range(2)]
        for call in self.large_calls():
            with self.subTest(op=call.name, shape=call.inputs[0].shape):
                operator = call.operator()
                inputs = [call.inputs, [torch.randn_like(x) for x in call.inputs]]
                expected = [operator(*one) for one in inputs]
                torch.cuda.synchronize()
                for _ in range(20):
                    found = []
                    for stream, one in zip(streams, inputs):
                        with torch.cuda.stream(stream):
                            torch.cuda._sleep(200_000)  # until both are enqueued
                            found.append([operator(*one) for _ in range(3)])
                    torch.cuda.synchronize()
                    for results, right in zip(found, expected):
                        for result in results:
                            self.assert_same(result, right)
                for one, right in zip(inputs, expected):  # and once more alone
                    self.assert_same(operator(*one), right)

    def test_two_threads_each_with_a_stream(self) -> None:
        def work(number: int) -> list[Any]:
            with torch.cuda.stream(torch.cuda.Stream()):
                found = [call.operator()(*inputs[number][i]) for i, call in enumerate(calls)]
                torch.cuda.current_stream().synchronize()
            return found

        calls = self.large_calls()
        inputs = [[c.inputs for c in calls], [[torch.randn_like(x) for x in c.inputs] for c in calls]]
        expected = [[c.operator()(*one) for c, one in zip(calls, of)] for of in inputs]
        torch.cuda.synchronize()
        with ThreadPoolExecutor(2) as pool:
            for _ in range(10):
                for found, right in zip(pool.map(work, range(2)), expected):
                    for result, true in zip(found, right):
                        self.assert_same(result, true)

    def test_gradients_on_two_streams(self) -> None:
        def step(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            return torch.autograd.grad(K.softmax(K.layer_norm(x, w, b)).square().sum(), (x, w, b))

        def new() -> list[Tensor]:
            shapes = ((300, 32_768), (32_768,), (32_768,))
            return [torch.randn(s, device="cuda").bfloat16().requires_grad_() for s in shapes]

        inputs, streams = [new(), new()], [torch.cuda.Stream() for _ in range(2)]
        expected = [step(*one) for one in inputs]
        torch.cuda.synchronize()
        for _ in range(10):
            found = []
            for stream, one in zip(streams, inputs):
                with torch.cuda.stream(stream):
                    found.append(step(*one))
            torch.cuda.synchronize()
            for results, right in zip(found, expected):
                self.assert_same(results, right)

    def test_each_operator_and_its_derivatives_on_two_streams(self) -> None:
        def step(call: Call, inputs: list[Tensor]) -> list[Tensor]:
            y = sum(y.float().sin().sum() for y in several(call.function()(*inputs)) if y.requires_grad)
            first = torch.autograd.grad(y, inputs, create_graph=True)
            penalty = sum(g.float().sin().sum() for g in first)
            second = torch.autograd.grad(penalty, inputs, allow_unused=True, materialize_grads=True)
            return [x.detach() for x in (*first, *second)]

        def test(call: Call) -> None:
            others = [x.detach().neg().requires_grad_() for x in call.inputs]
            expected = [step(call, one) for one in (call.inputs, others)]
            torch.cuda.synchronize()
            for _ in range(5):
                found = []
                for stream, one in zip(streams, (call.inputs, others)):
                    with torch.cuda.stream(stream):
                        found.append(step(call, one))
                torch.cuda.synchronize()
                for results, right in zip(found, expected):
                    self.assert_near(results, right, call.inputs[0].dtype)

        streams = [torch.cuda.Stream() for _ in range(2)]
        self.for_each(test, grad=True, devices=["cuda"])

    def test_graphs_may_be_replayed_at_the_same_time(self) -> None:
        for call in self.large_calls():
            with self.subTest(op=call.name, shape=call.inputs[0].shape):
                operator = call.operator()
                inputs = [call.inputs, [torch.randn_like(x) for x in call.inputs]]
                expected = [operator(*one) for one in inputs]
                streams, graphs, found = [], [], []
                for one in inputs:
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        found.append([operator(*one) for _ in range(3)])
                    graphs.append(graph)
                    streams.append(torch.cuda.Stream())
                torch.cuda.synchronize()
                for _ in range(20):
                    for stream, graph in zip(streams, graphs):
                        with torch.cuda.stream(stream):
                            torch.cuda._sleep(200_000)
                            graph.replay()
                    self.assert_same(operator(*inputs[0]), expected[0])  # beside both
                    torch.cuda.synchronize()
                    for results, right in zip(found, expected):
                        for result in results:
                            self.assert_same(result, right)

    def test_tensors_on_different_devices(self) -> None:
        x, w = torch.randn(3, 8, device="cuda"), torch.randn(8)
        with self.assertRaisesRegex(RuntimeError, "rms_norm: weight must be on the first argument's device"):
            K.rms_norm(x, w)
        with self.assertRaisesRegex(RuntimeError, "mm: b must be on the first argument's device"):
            K.mm(x.cpu(), torch.randn(8, 3, device="cuda"))
        with self.assertRaisesRegex(RuntimeError, "run: arrays must be on one device"):
            K.run("softmax/f32/v01_naive", "3x8", [x, x.cpu()])

    @unittest.skipUnless(torch.cuda.device_count() > 1, "needs two GPUs")
    def test_they_run_on_their_tensors_gpu(self) -> None:
        x = torch.randn(3, 40, device="cuda:1")
        self.assert_near(K.softmax(x), x.softmax(-1), torch.float32)
        self.assertEqual(torch.cuda.current_device(), 0)

    def test_profile_has_the_gpus_times(self) -> None:
        x = torch.randn(4096, 4096, device="cuda")
        kl.ops.softmax(x)
        with kl.profile() as profiled:
            kl.ops.softmax(x)
        (row,) = profiled.rows
        self.assertEqual((row.kernel.split("/")[0], row.problem, row.launches), ("softmax", "4096x4096", 1))
        self.assertGreater(row.device_us, 10)
        with kl.profile(nvtx=True) as profiled:
            kl.ops.softmax(x)
        self.assertEqual(profiled.rows, [])

    def test_a_refused_launch_does_not_poison_later_ones(self) -> None:
        with self.assertRaises(RuntimeError):
            K.run("softmax/f32/v01_naive", "3x5", [torch.randn(15, device="cuda")])
        x = torch.randn(3, 5, device="cuda")
        self.assert_near(K.softmax(x), x.softmax(-1), torch.float32)


if __name__ == "__main__":
    skips.main()
