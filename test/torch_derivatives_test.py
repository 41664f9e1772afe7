#!/usr/bin/env python3
"""Tests of what the package's operators are to autograd and torch.func beyond their gradients: second
derivatives, forward mode, transforms, batches. torch_derivatives_test.py. Exits with 77 where it can't run
(torch_calls.py).

All is compared with PyTorch's operators in float64, in every dtype. gradcheck's differences are taken in
float64 with a step that float32 resolves, of the operators that have float32."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Sequence

from torch_calls import DEVICES, Call, K, TestCase, calls, kl, several, torch
import skips
from torch import Tensor, func
from torch.autograd import forward_ad, gradcheck, gradgradcheck

warnings.filterwarnings("ignore", "Input #")  # of gradcheck, that inputs are float32
Function = Callable[..., Any]


def doubles(tensors: Any) -> list[Tensor]:
    return [x.detach().double().requires_grad_(x.requires_grad) for x in tensors]


def likes(tensors: Any, seed: int) -> list[Tensor]:
    """Random values for each."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(x.shape, generator=generator).to(x) for x in tensors]


def like_truth(call: Call) -> Function:
    """Its results that the truth has too: attention has one more."""
    count = len(several(call.expected(*doubles(call.inputs), *call.others)))
    return lambda *tensors: several(call.function()(*tensors))[:count]


def loss(function: Function) -> Function:
    """A number by which no derivative is constant."""
    return lambda *tensors: sum((y.float() if y.dtype.itemsize < 4 else y).square().sum() / 2 + y.sum()
                                for y in several(function(*tensors)))  # fmt: skip


class Derivatives(TestCase):
    def compare(self, derive: Callable[[Function, list[Tensor]], Any], grad: bool = False,
                but: Sequence[str] = ()) -> None:  # fmt: skip
        """derive(function, tensors) of each operator with that of its truth."""

        def test(call: Call) -> None:
            if call.name in but:
                return
            truth = derive(lambda *x: several(call.expected(*x, *call.others)), doubles(call.inputs))
            found = derive(like_truth(call), call.inputs)
            self.assert_near(found, truth, call.inputs[0].dtype)

        self.for_each(test, grad)

    def test_second_derivatives(self) -> None:
        def derive(function: Function, tensors: list[Tensor]) -> list[Tensor]:
            first = torch.autograd.grad(loss(function)(*tensors), tensors, create_graph=True)
            penalty = sum((g * u).sum() for g, u in zip(first, likes(first, 1)))
            if not penalty.requires_grad:
                return []
            second = torch.autograd.grad(penalty, tensors, allow_unused=True, materialize_grads=True)
            return list(second)

        self.compare(derive, grad=True)

    def test_third_derivatives(self) -> None:
        def derive(function: Function, tensors: list[Tensor]) -> list[Tensor]:
            y = loss(function)(*tensors)
            for seed in (1, 2):
                first = torch.autograd.grad(y, tensors, create_graph=True, materialize_grads=True)
                y = sum((g * u).sum() for g, u in zip(first, likes(first, seed)))
            if not y.requires_grad:
                return []
            return list(torch.autograd.grad(y, tensors, allow_unused=True, materialize_grads=True))

        self.compare(derive, grad=True, but=("addmm_gelu",))  # whose many roundings are as large in PyTorch's

    def test_forward_mode(self) -> None:
        def derive(function: Function, tensors: list[Tensor]) -> list[Tensor]:
            with forward_ad.dual_level():
                duals = map(forward_ad.make_dual, tensors, likes(tensors, 1))
                return [part for y in several(function(*duals)) for part in forward_ad.unpack_dual(y)]

        self.compare(derive)

    def test_jvp(self) -> None:
        def derive(function: Function, tensors: list[Tensor]) -> Any:
            results, tangents = func.jvp(function, tuple(tensors), tuple(likes(tensors, 1)))
            return (*results, *tangents)

        self.compare(derive)

    def test_func_grad(self) -> None:
        def derive(function: Function, tensors: list[Tensor]) -> Any:
            return func.grad(loss(function), tuple(range(len(tensors))))(*tensors)

        self.compare(derive)

    def test_hessian_vector_products(self) -> None:
        """Forward over reverse, reverse over forward, reverse over reverse."""

        def derive(function: Function, tensors: list[Tensor]) -> Any:
            each, vectors = tuple(range(len(tensors))), tuple(likes(tensors, 1))
            grad = func.grad(loss(function), each)
            forward = func.jvp(grad, tuple(tensors), vectors)[1]
            reverse = func.grad(lambda *x: func.jvp(loss(function), x, vectors)[1], each)(*tensors)
            twice = func.vjp(grad, *tensors)[1](vectors)
            return (*forward, *reverse, *twice)

        self.compare(derive)

    def test_vmap(self) -> None:
        """Over one argument and over all, of operators and of their gradients."""

        def derive(function: Function, tensors: list[Tensor]) -> Any:
            results: list[Tensor] = []
            each = tuple(range(len(tensors)))
            for which in (*([i] for i in each), each):
                dims = tuple(i % 2 if i in which else None for i in each)
                given = [
                    x if dim is None else torch.stack([x, *likes([x, x], i)], dim)
                    for i, (x, dim) in enumerate(zip(tensors, dims))
                ]
                results += torch.vmap(function, dims)(*given)
                results += torch.vmap(func.grad(loss(function), each), dims)(*given)
            return results

        self.compare(derive)

    def test_gradients_of_batches_and_of_jacobians(self) -> None:
        def derive(function: Function, tensors: list[Tensor]) -> Any:
            x, others = tensors[0], tensors[1:]

            def of_first(x: Tensor) -> Tensor:
                return function(x, *others)[0]

            batch = torch.stack([x, *likes([x], 3)])
            over = func.grad(lambda xs: loss(torch.vmap(of_first))(xs))(batch)
            pull = func.vjp(of_first, x)[1]
            rows = torch.stack(likes([of_first(x)] * 3, 4))
            return over, torch.vmap(lambda row: pull(row)[0])(rows)

        self.compare(derive)

    def test_gradcheck(self) -> None:
        for device in DEVICES:
            for call in calls(device, torch.float32, grad=True):
                def function(*tensors: Tensor) -> Any:
                    results = call.function()(*(x.float() for x in tensors))
                    return tuple(y.double() for y in several(results))

                tolerances = {"eps": 1e-2, "atol": 2e-3, "rtol": 2e-3, "fast_mode": True}
                with self.subTest(op=call.name, device=device):
                    inputs = doubles(call.inputs)
                    gradcheck(function, inputs, check_forward_ad=True, **tolerances)
                    if call.name not in ("sum", "row_sum", "col_sum", "transpose"):  # they are linear
                        gradgradcheck(function, inputs, check_fwd_over_rev=True, **tolerances)

    def test_a_gradient_penalty(self) -> None:
        for device in DEVICES:
            torch.manual_seed(0)
            model = torch.nn.Sequential(
                torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.GELU(), torch.nn.Linear(24, 1)
            ).to(device)
            x = torch.randn(5, 8, device=device, requires_grad=True)

            def penalty() -> list[Tensor]:
                (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
                loss = (slope.norm(dim=1) - 1).square().mean()
                return list(torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True,
                                                allow_unused=True))  # fmt: skip

            expected = penalty()
            kl.patch(model)
            self.assert_near(penalty(), expected, torch.float32)

    def test_the_kernels_make_the_gradients(self) -> None:
        """Those of torch.func and those that are differentiated again, too."""
        x = torch.randn(3, 8, requires_grad=True)
        w = torch.randn(8)

        def f(x: Tensor) -> Tensor:
            return kl.ops.rms_norm(x, (8,), w).square().sum()

        for gradient in (lambda: func.grad(f)(x.detach()),
                         lambda: torch.autograd.grad(f(x), x, create_graph=True)):  # fmt: skip
            names = [one.kernel.split("/")[:2] for one in kl.explain(gradient)]
            self.assertEqual(names, [["rmsnorm", "f32"], ["rmsnorm", "backward"]])

    def test_compiled_transforms(self) -> None:
        for device in DEVICES:
            x, w = torch.randn(3, 8, device=device), torch.randn(8, device=device)

            def f(x: Tensor) -> Tensor:
                return kl.ops.softmax(kl.ops.rms_norm(x, (8,), w)).square().sum()

            for transformed in (func.grad(f), torch.vmap(f), torch.vmap(func.grad(f)),
                                lambda x: func.jvp(f, (x,), (x,))):  # fmt: skip
                torch.compiler.reset()
                compiled = torch.compile(transformed, backend="aot_eager")
                self.assert_near(compiled(x), transformed(x), torch.float32)

    def test_versions_have_no_gradient_and_say_so(self) -> None:
        version = kl.version("softmax/f32/v03_warp_shuffle")
        x = torch.randn(3, 8)
        for call in (
            lambda: version(x.requires_grad_()),
            lambda: func.jvp(version, (x.detach(),), (x.detach(),)),
            lambda: torch.vmap(version)(torch.randn(2, 3, 8)),
        ):
            with self.assertRaisesRegex(ValueError, "v03_warp_shuffle has no derivative"):
                call()
        with torch.no_grad():
            self.assert_near(version(x), x.softmax(-1), torch.float32)


if __name__ == "__main__":
    skips.main()
