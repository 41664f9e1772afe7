"""What PyTorch has to know of my_ops' operators besides their kernels; imported after the library that
defines them was loaded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


# Fake kernels: what results look like, for torch.compile, which runs no kernel to find out.
@torch.library.register_fake("my_ops::add")
def _(a: Tensor, b: Tensor) -> Tensor:
    torch._check(a.shape == b.shape, lambda: "b must have a's shape")
    return a.new_empty(a.shape)


@torch.library.register_fake("my_ops::softmax")
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


# Gradients, for autograd.
def add_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
    return dy, dy


def keep_result(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)


def softmax_backward(ctx: Any, dy: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    product = y * dy
    return product - y * product.sum(-1, keepdim=True)


torch.library.register_autograd("my_ops::add", add_backward)
torch.library.register_autograd("my_ops::softmax", softmax_backward, setup_context=keep_result)
