"""The operators, as functions with their shapes, dtypes and errors. Each is torch.ops.kernel_ladder's
of the same name; where PyTorch has an argument for something else, this has it too, and refuses what
no kernel does.

Tensors may be of float32, float16 or bfloat16, all of a call of the same dtype and on the same
device, CUDA or CPU. Tensors that are not contiguous are copied; empty ones are fine. What an operator
can't do is a RuntimeError or ValueError that names the argument.
"""

from __future__ import annotations

import torch
from torch import Tensor

_K = torch.ops.kernel_ladder
_EPSILON = 1e-5


def _only(op: str, argument: str, given: object, possible: object) -> None:
    if given != possible:
        raise ValueError(f"kernel_ladder.{op}: {argument} must be {possible}, not {given}")


def _last(op: str, input: Tensor, dim: int) -> None:
    if dim not in (-1, input.dim() - 1):
        raise ValueError(f"kernel_ladder.{op}: dim must be the last one, not {dim}")


def softmax(input: Tensor, dim: int = -1) -> Tensor:
    """Of the last dimension. [..., cols] -> [..., cols]. Has a gradient."""
    _last("softmax", input, dim)
    return _K.softmax(input)


def log_softmax(input: Tensor, dim: int = -1) -> Tensor:
    """Its logarithm. [..., cols] -> [..., cols]. Has a gradient."""
    _last("log_softmax", input, dim)
    return _K.log_softmax(input)


def causal_softmax(input: Tensor) -> Tensor:
    """Of each row of a matrix the columns up to row + cols - rows, and zeros behind them.
    [rows, cols] -> [rows, cols]."""
    return _K.causal_softmax(input)


def layer_norm(input: Tensor, weight: Tensor, bias: Tensor, eps: float = _EPSILON) -> Tensor:
    """Over the last dimension. [..., cols], [cols], [cols] -> [..., cols]. eps is 1e-5. Has gradients."""
    _only("layer_norm", "eps", eps, _EPSILON)
    return _K.layer_norm(input, weight, bias)


def rms_norm(input: Tensor, weight: Tensor, eps: float = _EPSILON) -> Tensor:
    """Over the last dimension. [..., cols], [cols] -> [..., cols]. eps is 1e-5. Has gradients."""
    _only("rms_norm", "eps", eps, _EPSILON)
    return _K.rms_norm(input, weight)


def add_rms_norm(
    input: Tensor, residual: Tensor, weight: Tensor, eps: float = _EPSILON
) -> tuple[Tensor, Tensor]:
    """rms_norm(input + residual), and input + residual, in one pass. Has gradients."""
    _only("add_rms_norm", "eps", eps, _EPSILON)
    return _K.add_rms_norm(input, residual, weight)


def relu(input: Tensor) -> Tensor:
    """max(x, 0). Any shape."""
    return _K.relu(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Any shape. approximate is "none" or "tanh"."""
    if approximate not in ("none", "tanh"):
        raise ValueError(
            f"kernel_ladder.gelu: approximate must be 'none' or 'tanh', not {approximate!r}"
        )
    return _K.gelu(input) if approximate == "none" else _K.gelu_tanh(input)


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up. Any shape, both the same."""
    return _K.silu_mul(gate, up)


def bias_gelu_residual(input: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    """gelu(input + bias) + residual. [..., cols], [cols], [..., cols] -> [..., cols]."""
    return _K.bias_gelu_residual(input, bias, residual)


def sum(input: Tensor) -> Tensor:
    """Of all elements; also of float64 and int32. Any shape -> [], of 16-bit dtypes in float32. Has a
    gradient."""
    return _K.sum(input)


def row_sum(input: Tensor) -> Tensor:
    """[rows, cols] -> [rows], of 16-bit dtypes in float32. Has a gradient."""
    return _K.row_sum(input)


def col_sum(input: Tensor) -> Tensor:
    """[rows, cols] -> [cols], of 16-bit dtypes in float32. Has a gradient."""
    return _K.col_sum(input)


def transpose(input: Tensor) -> Tensor:
    """[rows, cols] -> [cols, rows], contiguous. Has a gradient."""
    return _K.transpose(input)


def mm(a: Tensor, b: Tensor) -> Tensor:
    """[m, k], [k, n] -> [m, n], summed up in float32. Has gradients."""
    return _K.mm(a, b)


def attention(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / sqrt(d)) v, and the logarithm of what the softmax divides by.

    q [batch, heads, queries, d], k and v [batch, kv_heads, keys, d], d 64 or 128, heads a multiple of
    kv_heads -> [batch, heads, queries, d] and float32 [batch, heads, queries]. float16 or bfloat16. A
    causal mask is aligned at the bottom right: the last query sees all keys. Has gradients by the
    first result."""
    return _K.attention(q, k, v, is_causal)
