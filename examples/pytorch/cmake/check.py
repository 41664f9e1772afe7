"""Compares my_ops' operators with PyTorch's own, once they are loaded and registered."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import opcheck

SHAPES = [(1,), (33,), (1000, 257), (3, 5, 1024), (7, 0), (0, 7)]


def check(device: str = "cuda") -> None:
    """Raises an AssertionError, or what else PyTorch raises, if they differ."""
    ops = torch.ops.my_ops
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for shape in SHAPES:
            a, b = (torch.randn(shape, device=device, dtype=dtype) for _ in range(2))
            torch.testing.assert_close(ops.add(a, b), a + b)
            torch.testing.assert_close(ops.softmax(a), a.softmax(-1))
            torch.testing.assert_close(ops.softmax(a.mT if a.dim() > 1 else a),
                                       (a.mT if a.dim() > 1 else a).softmax(-1))  # fmt: skip

    # Schemas, fake kernels and gradients, as PyTorch's own checks see them
    x, y = (torch.randn(5, 40, device=device, requires_grad=True) for _ in range(2))
    opcheck(ops.add, (x, y))
    opcheck(ops.softmax, (x,))
    for ours, theirs in ((ops.add(x, y), x + y), (ops.softmax(x), x.softmax(-1))):
        weights = torch.randn_like(ours)
        found, expected = (torch.autograd.grad(one, x, weights)[0] for one in (ours, theirs))
        torch.testing.assert_close(found, expected)

    def both(a: Tensor, b: Tensor) -> Tensor:
        return ops.softmax(ops.add(a, b))

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, y), both(x, y))

    if device == "cuda":  # a graph is captured from the current stream alone
        x, y = x.detach(), y.detach()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = both(x, y)
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(result, (x + y).softmax(-1))


def check_what_is_here(how: str) -> None:
    """Prints a line: with a GPU the operators' results, without one that they are there."""
    if torch.cuda.is_available():
        check()
        print(f"{how}: add and softmax agree with PyTorch's on {torch.cuda.get_device_name()}")
        return
    meta = torch.empty(3, 40, device="meta")
    assert torch.ops.my_ops.softmax(torch.ops.my_ops.add(meta, meta)).shape == meta.shape
    print(f"{how}: add and softmax are built and loaded; without a GPU their results were not checked")
