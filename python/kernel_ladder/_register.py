"""What torch.compile and autograd have to know of the operators: the shapes of their results, and
their gradients, by the suite's kernels where it has some, else by PyTorch's."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor

K = torch.ops.kernel_ladder


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake(name: str) -> Any:
    return torch.library.register_fake(f"kernel_ladder::{name}")


def _gradient(name: str, setup: Any, backward: Any) -> None:
    torch.library.register_autograd(f"kernel_ladder::{name}", backward, setup_context=setup)


for _name in ("softmax", "log_softmax", "causal_softmax", "relu", "gelu", "gelu_tanh"):
    _fake(_name)(lambda input: _like(input))
for _name in ("softmax_backward", "log_softmax_backward"):
    _fake(_name)(lambda grad, output: _like(output))


@_fake("layer_norm")
def _(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _like(input)


@_fake("rms_norm")
def _(input: Tensor, weight: Tensor) -> Tensor:
    return _like(input)


@_fake("add_rms_norm")
def _(input: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return _like(input), _like(input)


@_fake("layer_norm_backward")
def _(grad: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _like(input), _like(weight), _like(weight)


@_fake("rms_norm_backward")
def _(grad: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return _like(input), _like(weight)


@_fake("silu_mul")
def _(gate: Tensor, up: Tensor) -> Tensor:
    return _like(gate)


@_fake("bias_gelu_residual")
def _(input: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return _like(input)


def _sums(input: Tensor, *shape: int) -> Tensor:
    is_16_bit = input.dtype in (torch.float16, torch.bfloat16)
    return input.new_empty(shape, dtype=torch.float32 if is_16_bit else input.dtype)


@_fake("sum")
def _(input: Tensor) -> Tensor:
    return _sums(input)


@_fake("row_sum")
def _(input: Tensor) -> Tensor:
    return _sums(input, input.size(0))


@_fake("col_sum")
def _(input: Tensor) -> Tensor:
    return _sums(input, input.size(1))


@_fake("transpose")
def _(input: Tensor) -> Tensor:
    return input.new_empty(input.size(1), input.size(0))


@_fake("mm")
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.size(0), b.size(1))


@_fake("attention")
def _(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> tuple[Tensor, Tensor]:
    return _like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@_fake("attention_backward")
def _(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, is_causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return _like(q), _like(k), _like(v)


@_fake("run")
def _(name: str, problem: str, arrays: Sequence[Tensor]) -> None:
    pass


def _save_output(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(output)


def _save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


_gradient("softmax", _save_output, lambda ctx, dy: K.softmax_backward(dy, *ctx.saved_tensors))
_gradient(
    "log_softmax", _save_output, lambda ctx, dy: K.log_softmax_backward(dy, *ctx.saved_tensors)
)

_gradient("causal_softmax", _save_output, lambda ctx, dy: K.softmax_backward(dy, *ctx.saved_tensors))


_aten = torch.ops.aten
_gradient("relu", _save_output, lambda ctx, dy: _aten.threshold_backward(dy, *ctx.saved_tensors, 0))
_gradient("gelu", _save_inputs, lambda ctx, dy: _aten.gelu_backward(dy, *ctx.saved_tensors))
_gradient(
    "gelu_tanh", _save_inputs,
    lambda ctx, dy: _aten.gelu_backward(dy, *ctx.saved_tensors, approximate="tanh"),
)  # fmt: skip


def _silu_mul_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = ctx.saved_tensors
    return _aten.silu_backward(dy * up, gate), dy * torch.nn.functional.silu(gate)


_gradient("silu_mul", _save_inputs, _silu_mul_backward)


def _bias_gelu_residual_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    input, bias, _ = ctx.saved_tensors
    dx = _aten.gelu_backward(dy, input + bias)
    return dx, dx.sum_to_size(bias.shape), dy.clone()


_gradient("bias_gelu_residual", _save_inputs, _bias_gelu_residual_backward)


def _layer_norm_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
    input, weight, _ = ctx.saved_tensors
    return K.layer_norm_backward(dy, input, weight)


_gradient("layer_norm", _save_inputs, _layer_norm_backward)
_gradient("rms_norm", _save_inputs, lambda ctx, dy: K.rms_norm_backward(dy, *ctx.saved_tensors))


def _add_rms_norm_backward(ctx: Any, dy: Tensor, dsum: Tensor) -> tuple[Tensor, ...]:
    sum, weight = ctx.saved_tensors
    dx, dweight = K.rms_norm_backward(dy, sum, weight)
    dx = dx + dsum
    return dx, dx.clone(), dweight


def _save_sum(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[1], inputs[2])


_gradient("add_rms_norm", _save_sum, _add_rms_norm_backward)


def _save_shape(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.shape, ctx.dtype = inputs[0].shape, inputs[0].dtype


_gradient("sum", _save_shape, lambda ctx, dy: dy.to(ctx.dtype).expand(ctx.shape))
_gradient("row_sum", _save_shape, lambda ctx, dy: dy.to(ctx.dtype)[:, None].expand(ctx.shape))
_gradient("col_sum", _save_shape, lambda ctx, dy: dy.to(ctx.dtype).expand(ctx.shape))
_gradient("transpose", _save_shape, lambda ctx, dy: K.transpose(dy))


def _mm_backward(ctx: Any, dc: Tensor) -> tuple[Tensor, Tensor]:
    a, b = ctx.saved_tensors
    return K.mm(dc, K.transpose(b)), K.mm(K.transpose(a), dc)


_gradient("mm", _save_inputs, _mm_backward)


def _save_attention(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.is_causal = inputs[3]
    ctx.mark_non_differentiable(output[1])


def _attention_backward(ctx: Any, do: Tensor, _: Tensor) -> tuple[Any, ...]:
    return (*K.attention_backward(do, *ctx.saved_tensors, ctx.is_causal), None)


_gradient("attention", _save_attention, _attention_backward)
