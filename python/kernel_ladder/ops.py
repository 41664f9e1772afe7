"""The operators, as functions with their shapes, dtypes and errors. Each is torch.ops.kernel_ladder's
of the same name; those that PyTorch has, too, take its arguments, and refuse what no kernel does.

Tensors may be of float32, float16 or bfloat16, all of a call of the same dtype and on the same
device, CUDA or CPU. Tensors that are not contiguous are copied, but where it says so; so are CUDA tensors
that begin at no multiple of 256 bytes. Empty ones are fine. What an operator can't do is a RuntimeError
or ValueError that names the argument. Under torch.autocast the operators take the dtypes that PyTorch's
of the same kind take. All have derivatives of any order, in forward mode too, and are batched by
torch.vmap; what the suite has no kernel for is computed by PyTorch's (kernel_ladder/_formulas.py).
"""

from __future__ import annotations

from typing import Any, Callable, NoReturn, Optional, Sequence

import torch
from torch import Tensor

from ._register import is_differentiated

_K = torch.ops.kernel_ladder


def _operator(name: str) -> Callable[..., Any]:
    """Calls an operator; where no derivative is needed, the one that has none and costs no time for it."""
    with_gradient, without = getattr(_K, name).default, getattr(_K, f"_{name}").default

    def call(*args: Any) -> Any:
        return (with_gradient if is_differentiated(*args) else without)(*args)

    return call


_softmax, _log_softmax = _operator("softmax"), _operator("log_softmax")
_causal_softmax = _operator("causal_softmax")
_layer_norm, _rms_norm = _operator("layer_norm"), _operator("rms_norm")
_add_layer_norm, _add_rms_norm = _operator("add_layer_norm"), _operator("add_rms_norm")
_relu, _gelu, _gelu_tanh = _operator("relu"), _operator("gelu"), _operator("gelu_tanh")
_silu_mul, _bias_gelu_residual = _operator("silu_mul"), _operator("bias_gelu_residual")
_sum, _row_sum, _col_sum = _operator("sum"), _operator("row_sum"), _operator("col_sum")
_transpose, _mm, _addmm_gelu = _operator("transpose"), _operator("mm"), _operator("addmm_gelu")
_attention = _operator("attention")

EPSILON = torch.finfo(torch.float32).eps


def _last(op: str, input: Tensor, dim: int) -> None:
    if dim not in (-1, input.dim() - 1):
        raise ValueError(f"kernel_ladder.{op}: dim must be the last one, not {dim}")


def softmax(input: Tensor, dim: int = -1, dtype: Optional[torch.dtype] = None) -> Tensor:
    """Of the last dimension, in another dtype if one is given. [..., cols] -> [..., cols]."""
    if dim != -1:
        _last("softmax", input, dim)
    return _softmax(input if dtype is None else input.to(dtype))


def log_softmax(input: Tensor, dim: int = -1, dtype: Optional[torch.dtype] = None) -> Tensor:
    """Its logarithm. [..., cols] -> [..., cols]."""
    if dim != -1:
        _last("log_softmax", input, dim)
    return _log_softmax(input if dtype is None else input.to(dtype))


def causal_softmax(input: Tensor) -> Tensor:
    """Of each row of a matrix the columns up to row + cols - rows, and zeros behind them.
    [rows, cols] -> [rows, cols]."""
    return _causal_softmax(input)


def _is_last(input: Tensor, shape: Sequence[int]) -> bool:
    return isinstance(shape, (tuple, list)) and tuple(shape) == input.shape[-1:]


def _refuse_norm(op: str, parameters: str, input: Tensor, shape: Any) -> NoReturn:
    why = f"normalized_shape must be {tuple(input.shape[-1:])}, input's last dimension, not {shape}"
    if isinstance(shape, Tensor):
        why = f"normalized_shape comes before weight, as in torch.nn.functional.{op}"
    elif _is_last(input, shape):
        why = f"{parameters} must be given"
    raise ValueError(f"kernel_ladder.{op}: {why}")


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor:
    """Over the last dimension, which normalized_shape must be; weight and bias must be given.
    [..., cols], (cols,), [cols], [cols] -> [..., cols]."""
    if weight is None or bias is None or not _is_last(input, normalized_shape):
        _refuse_norm("layer_norm", "weight and bias", input, normalized_shape)
    return _layer_norm(input, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    eps: Optional[float] = None,
) -> Tensor:
    """Over the last dimension, which normalized_shape must be; weight must be given. Without an eps it is
    float32's, as PyTorch's kernels have it for all dtypes. [..., cols], (cols,), [cols] -> [..., cols]."""
    if weight is None or not _is_last(input, normalized_shape):
        _refuse_norm("rms_norm", "weight", input, normalized_shape)
    return _rms_norm(input, weight, EPSILON if eps is None else eps)


def add_layer_norm(
    input: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """layer_norm(input + residual), and input + residual, in one pass."""
    return _add_layer_norm(input, residual, weight, bias, eps)


def add_rms_norm(
    input: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """rms_norm(input + residual), and input + residual, in one pass."""
    return _add_rms_norm(input, residual, weight, eps)


def relu(input: Tensor) -> Tensor:
    """max(x, 0). Any shape."""
    return _relu(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Any shape. approximate is "none" or "tanh"."""
    if approximate not in ("none", "tanh"):
        raise ValueError(
            f"kernel_ladder.gelu: approximate must be 'none' or 'tanh', not {approximate!r}"
        )
    return _gelu(input) if approximate == "none" else _gelu_tanh(input)


def gelu_tanh(input: Tensor) -> Tensor:
    """gelu(input, approximate="tanh"). Any shape."""
    return _gelu_tanh(input)


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up. Any shape, both the same."""
    return _silu_mul(gate, up)


def bias_gelu_residual(input: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    """gelu(input + bias) + residual. [..., cols], [cols], [..., cols] -> [..., cols]."""
    return _bias_gelu_residual(input, bias, residual)


def sum(input: Tensor) -> Tensor:
    """Of all elements; also of float64 and int32. Any shape -> [], of 16-bit dtypes in float32."""
    return _sum(input)


def row_sum(input: Tensor) -> Tensor:
    """[rows, cols] -> [rows], of 16-bit dtypes in float32."""
    return _row_sum(input)


def col_sum(input: Tensor) -> Tensor:
    """[rows, cols] -> [cols], of 16-bit dtypes in float32."""
    return _col_sum(input)


def transpose(input: Tensor) -> Tensor:
    """[rows, cols] -> [cols, rows], contiguous."""
    return _transpose(input)


def mm(a: Tensor, b: Tensor) -> Tensor:
    """[m, k], [k, n] -> [m, n], summed up in float32.

    Of 16-bit dtypes the transposed view of one contiguous matrix is not copied, as a linear layer's
    weight.T, where rows in memory begin at multiples of 16 bytes."""
    return _mm(a, b)


def addmm_gelu(bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """gelu(a b + bias), approximated by tanh, in one kernel; float16 or bfloat16.
    [n], [m, k], [k, n] -> [m, n]. b is not copied where it is a contiguous matrix's transposed view, as a
    linear layer's weight.T."""
    return _addmm_gelu(bias, a, b)


def attention(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, top_left: bool = False
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / sqrt(d)) v, and the logarithm of what the softmax divides by.

    q [batch, heads, queries, d], k and v [batch, kv_heads, keys, d], d 64 or 128, heads a multiple of
    kv_heads -> [batch, heads, queries, d] and float32 [batch, heads, queries]. float16 or bfloat16. A
    causal mask is aligned at the bottom right, so that the last query sees all keys, or with top_left
    so that the first sees the first alone. Transposed views of contiguous [batch, length, heads, d] are
    not copied where all three are such. Only the first result has gradients."""
    return _attention(q, k, v, is_causal, top_left)
