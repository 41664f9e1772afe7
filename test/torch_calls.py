"""What the tests of the package kernel_ladder share: a call of each operator beside what PyTorch computes
in any dtype. On a machine without PyTorch, or on which the package is not installed (pip install .), a
test that imports this exits with 77."""

from __future__ import annotations

import importlib.util
import unittest
from typing import Any, Callable, NamedTuple, Sequence

import skips

for needed, how in (("torch", "pip install torch"), ("kernel_ladder", "pip install .")):
    if importlib.util.find_spec(needed) is None:
        skips.whole(f"{needed} is not installed here: {how}")

import kernel_ladder as kl  # noqa: E402, F401
import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn import functional as F  # noqa: E402

K = torch.ops.kernel_ladder
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Call(NamedTuple):
    name: str
    expected: Callable[..., Any]  # what it computes, in any dtype
    inputs: list[Tensor]
    others: tuple[float, ...] = ()  # arguments behind the tensors

    def operator(self) -> Callable[..., Any]:
        return getattr(K, self.name)

    def function(self) -> Callable[..., Any]:
        """kernel_ladder.ops', of the tensors."""
        function = getattr(kl.ops, self.name)
        if self.name in ("layer_norm", "rms_norm"):
            return lambda x, w, *b: function(x, w.shape, w, *b, *(self.others or (1e-5,)))
        return lambda *tensors: function(*tensors, *self.others)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):  # which has all derivatives
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """By differentiable steps: beyond gradients PyTorch's takes the mean and the deviation as constants."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w + b


def causal_softmax(x: Tensor) -> Tensor:
    rows, cols = x.shape
    return x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(cols - rows + 1), -torch.inf).softmax(-1)


def calls(device: str, dtype: torch.dtype, grad: bool = False) -> list[Call]:
    """Of each operator."""
    torch.manual_seed(0)

    def new(*shape: int, scale: float = 1) -> Tensor:
        return (torch.randn(*shape, device=device) * scale).to(dtype).requires_grad_(grad)

    x, matrix = (2, 3, 40), (5, 48)
    found = [
        Call("softmax", lambda x: x.softmax(-1), [new(*x)]),
        Call("log_softmax", lambda x: x.log_softmax(-1), [new(*x)]),
        Call("causal_softmax", causal_softmax, [new(5, 7)]),
        Call("layer_norm", layer_norm, [new(*x), new(40), new(40)]),
        Call("rms_norm", lambda x, w: F.rms_norm(x, w.shape, w, 1e-5), [new(*x), new(40)]),
        Call("rms_norm", lambda x, w, eps: F.rms_norm(x, w.shape, w, eps), [new(*x), new(40)], (0.5,)),
        Call("add_layer_norm", lambda x, r, w, b: (layer_norm(x + r, w, b), x + r),
             [new(*x), new(*x), new(40), new(40)]),
        Call("add_rms_norm", lambda x, r, w: (F.rms_norm(x + r, w.shape, w, 1e-5), x + r),
             [new(*x), new(*x), new(40)]),
        Call("relu", torch.relu, [new(*x)]),
        Call("gelu", F.gelu, [new(*x)]),
        Call("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), [new(*x)]),
        Call("silu_mul", lambda g, u: F.silu(g) * u, [new(*x), new(*x)]),
        Call("bias_gelu_residual", lambda x, b, r: F.gelu(x + b) + r, [new(*x), new(40), new(*x)]),
        Call("sum", torch.sum, [new(*x)]),
        Call("row_sum", lambda x: x.sum(1), [new(*matrix)]),
        Call("col_sum", lambda x: x.sum(0), [new(*matrix)]),
        Call("transpose", lambda x: x.T, [new(*matrix)]),
        Call("mm", torch.mm, [new(*matrix), new(48, 24, scale=0.15)]),
    ]  # fmt: skip
    if dtype != torch.float32:
        found += [
            Call("mm", lambda a, b: a @ b, [new(5, 13), new(13, 7, scale=0.3)]),  # of rows that begin anywhere
            Call("addmm_gelu", lambda c, a, b: F.gelu(torch.addmm(c, a, b), approximate="tanh"),
                 [new(24), new(*matrix), new(48, 24, scale=0.15)]),
            Call("attention", attention, [new(1, 2, 5, 64), new(1, 1, 9, 64), new(1, 1, 9, 64)]),
            Call("attention", attention,
                 [new(2, 9, h, 64).detach().transpose(1, 2).requires_grad_(grad) for h in (2, 2, 2)]),
        ]  # fmt: skip
    return found


def several(result: Any) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else tuple(result)


class TestCase(unittest.TestCase):
    def for_each(self, test: Callable[[Call], None], grad: bool = False,
                 devices: Sequence[str] = DEVICES) -> None:  # fmt: skip
        for device in devices:
            for dtype in DTYPES:
                for call in calls(device, dtype, grad):
                    with self.subTest(op=call.name, device=device, dtype=str(dtype), grad=grad):
                        test(call)

    def assert_near(self, found: Any, expected: Any, dtype: torch.dtype) -> None:
        """Of several tensors all that are expected."""
        for one, true in zip(several(found), several(expected)):
            self.assertEqual(one.shape, true.shape)
            one, true = one.detach().double(), true.detach().double()
            error = float((one - true).abs().max()) / max(1.0, float(true.abs().max()))
            self.assertLessEqual(error, TOLERANCE[dtype])

    def assert_same(self, found: Any, expected: Any) -> None:
        for one, true in zip(several(found), several(expected), strict=True):
            self.assertTrue(torch.equal(one, true))
