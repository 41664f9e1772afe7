"""What torch.compile, autograd and autocast have to know of the operators: the shapes of their results,
their gradients, by the suite's kernels where it has some, else by PyTorch's, and the dtypes to run in.

Each operator that has a gradient is there twice. kernel_ladder::softmax has it, and costs a call some
microseconds of Python; kernel_ladder::_softmax has none, and goes past Python."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch import Tensor

K = torch.ops.kernel_ladder
_aten = torch.ops.aten
_library = torch.library.Library("kernel_ladder", "FRAGMENT")

# By name: whose calls kernel_ladder.ops chooses, and autocast casts.
DIFFERENTIABLE: list[str] = []


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _differentiable(name: str, fake: Callable[..., Any], setup: Any, backward: Any) -> None:
    """An operator with a gradient, and the same without."""
    DIFFERENTIABLE.append(name)
    torch.library.register_fake(f"kernel_ladder::{name}", fake)
    torch.library.register_autograd(f"kernel_ladder::{name}", backward, setup_context=setup)
    torch.library.register_fake(f"kernel_ladder::_{name}", fake)
    _library.impl(f"_{name}", torch.library.fallthrough_kernel, "Autograd")


def _save_output(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(output)


def _save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _save_shape(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.shape, ctx.dtype = inputs[0].shape, inputs[0].dtype


def _other(name: str) -> Any:
    """Of an operator without a gradient."""
    return torch.library.register_fake(f"kernel_ladder::{name}")


# ---- Softmax


def _softmax_backward(ctx: Any, dy: Tensor) -> Tensor:
    return K.softmax_backward(dy, *ctx.saved_tensors)


def _log_softmax_backward(ctx: Any, dy: Tensor) -> Tensor:
    return K.log_softmax_backward(dy, *ctx.saved_tensors)


_differentiable("softmax", lambda input: _like(input), _save_output, _softmax_backward)
_differentiable("causal_softmax", lambda input: _like(input), _save_output, _softmax_backward)
_differentiable("log_softmax", lambda input: _like(input), _save_output, _log_softmax_backward)


@_other("softmax_backward")
@_other("log_softmax_backward")
def _(grad: Tensor, output: Tensor) -> Tensor:
    return _like(output)


# ---- Norms


@_other("layer_norm_backward")
def _(
    grad: Tensor, input: Tensor, weight: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    return _like(input), _like(weight), _like(weight)


@_other("rms_norm_backward")
def _(grad: Tensor, input: Tensor, weight: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    return _like(input), _like(weight)


def _save_norm(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.eps = inputs[-1]


def _save_sum(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[1], inputs[2])
    ctx.eps = inputs[-1]


def _layer_norm_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return (*K.layer_norm_backward(dy, *ctx.saved_tensors, ctx.eps), None)


def _rms_norm_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return (*K.rms_norm_backward(dy, *ctx.saved_tensors, ctx.eps), None)


def _add_layer_norm_backward(ctx: Any, dy: Tensor, dsum: Tensor) -> tuple[Any, ...]:
    dx, dweight, dbias = K.layer_norm_backward(dy, *ctx.saved_tensors, ctx.eps)
    dx = dx + dsum
    return dx, dx.clone(), dweight, dbias, None


def _add_rms_norm_backward(ctx: Any, dy: Tensor, dsum: Tensor) -> tuple[Any, ...]:
    dx, dweight = K.rms_norm_backward(dy, *ctx.saved_tensors, ctx.eps)
    dx = dx + dsum
    return dx, dx.clone(), dweight, None


_differentiable(
    "layer_norm", lambda input, weight, bias, eps=1e-5: _like(input),
    _save_norm, _layer_norm_backward,
)  # fmt: skip
_differentiable(
    "rms_norm", lambda input, weight, eps=1e-5: _like(input), _save_norm, _rms_norm_backward
)
_differentiable(
    "add_layer_norm",
    lambda input, residual, weight, bias, eps=1e-5: (_like(input), _like(input)),
    _save_sum, _add_layer_norm_backward,
)  # fmt: skip
_differentiable(
    "add_rms_norm", lambda input, residual, weight, eps=1e-5: (_like(input), _like(input)),
    _save_sum, _add_rms_norm_backward,
)  # fmt: skip


# ---- By elements


def _relu_backward(ctx: Any, dy: Tensor) -> Tensor:
    return _aten.threshold_backward(dy, *ctx.saved_tensors, 0)


def _gelu_backward(ctx: Any, dy: Tensor) -> Tensor:
    return _aten.gelu_backward(dy, *ctx.saved_tensors)


def _gelu_tanh_backward(ctx: Any, dy: Tensor) -> Tensor:
    return _aten.gelu_backward(dy, *ctx.saved_tensors, approximate="tanh")


def _silu_mul_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = ctx.saved_tensors
    return _aten.silu_backward(dy * up, gate), K.silu_mul(gate, dy)


def _bias_gelu_residual_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    input, bias, _ = ctx.saved_tensors
    dx = _aten.gelu_backward(dy, input + bias)
    return dx, dx.sum_to_size(bias.shape), dy.clone()


_differentiable("relu", lambda input: _like(input), _save_output, _relu_backward)
_differentiable("gelu", lambda input: _like(input), _save_inputs, _gelu_backward)
_differentiable("gelu_tanh", lambda input: _like(input), _save_inputs, _gelu_tanh_backward)
_differentiable("silu_mul", lambda gate, up: _like(gate), _save_inputs, _silu_mul_backward)
_differentiable(
    "bias_gelu_residual", lambda input, bias, residual: _like(input),
    _save_inputs, _bias_gelu_residual_backward,
)  # fmt: skip


# ---- Sums


def _sums(input: Tensor, *shape: int) -> Tensor:
    is_16_bit = input.dtype in (torch.float16, torch.bfloat16)
    return input.new_empty(shape, dtype=torch.float32 if is_16_bit else input.dtype)


def _sum_backward(ctx: Any, dy: Tensor) -> Tensor:
    return dy.to(ctx.dtype).expand(ctx.shape)


def _row_sum_backward(ctx: Any, dy: Tensor) -> Tensor:
    return dy.to(ctx.dtype)[:, None].expand(ctx.shape)


_differentiable("sum", lambda input: _sums(input), _save_shape, _sum_backward)
_differentiable(
    "row_sum", lambda input: _sums(input, input.size(0)), _save_shape, _row_sum_backward
)
_differentiable("col_sum", lambda input: _sums(input, input.size(1)), _save_shape, _sum_backward)


# ---- Matrices


def _transpose_backward(ctx: Any, dy: Tensor) -> Tensor:
    return K.transpose(dy)


def _mm_backward(ctx: Any, dc: Tensor) -> tuple[Tensor, Tensor]:
    a, b = ctx.saved_tensors
    return K.mm(dc, b.T), K.mm(a.T, dc)


def _addmm_gelu_backward(ctx: Any, dc: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    bias, a, b = ctx.saved_tensors
    product = _aten.gelu_backward(dc, K.mm(a, b) + bias, approximate="tanh")
    return product.sum_to_size(bias.shape), K.mm(product, b.T), K.mm(a.T, product)


_differentiable(
    "transpose", lambda input: input.new_empty(input.size(1), input.size(0)), _save_shape,
    _transpose_backward,
)  # fmt: skip
_differentiable(
    "mm", lambda a, b: a.new_empty(a.size(0), b.size(1)), _save_inputs, _mm_backward
)
_differentiable(
    "addmm_gelu", lambda bias, a, b: a.new_empty(a.size(0), b.size(1)),
    _save_inputs, _addmm_gelu_backward,
)  # fmt: skip


# ---- Attention


def _is_bshd(x: Tensor) -> bool:
    """Whether [batch, heads, length, d] lies in memory as [batch, length, heads, d]."""
    return x.transpose(1, 2).is_contiguous()


def _as(like: Sequence[Tensor], x: Tensor) -> Tensor:
    """Lies as all of `like` do: a position's heads side by side, or else a head's positions."""
    if not all(one.is_contiguous() for one in like) and all(map(_is_bshd, like)):
        return _like(x.transpose(1, 2)).transpose(1, 2)
    return _like(x)


def _attention(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, top_left: bool = False
) -> tuple[Tensor, Tensor]:
    return _as((q, k, v), q), q.new_empty(q.shape[:3], dtype=torch.float32)


@_other("attention_backward")
def _(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor,
    is_causal: bool = False, top_left: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    qkv = (q, k, v)
    return _as(qkv, q), _as(qkv, k), _as(qkv, v)


def _save_attention(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.mask = inputs[3:]
    ctx.mark_non_differentiable(output[1])


def _attention_backward(ctx: Any, do: Tensor, _: Tensor) -> tuple[Any, ...]:
    return (*K.attention_backward(do, *ctx.saved_tensors, *ctx.mask), None, None)


_differentiable("attention", _attention, _save_attention, _attention_backward)


@_other("run")
def _(name: str, problem: str, arrays: Sequence[Tensor]) -> None:
    pass


# ---- Autocast, by PyTorch's rules for its own operators of the kind


def _to(dtype: torch.dtype, args: Sequence[Any]) -> list[Any]:
    casts = (torch.float32, torch.float16, torch.bfloat16)
    return [x.to(dtype) if isinstance(x, Tensor) and x.dtype in casts else x for x in args]


def _lower(device: str, args: Sequence[Any]) -> list[Any]:
    return _to(torch.get_autocast_dtype(device), args)


def _float32(device: str, args: Sequence[Any]) -> list[Any]:
    return _to(torch.float32, args)


def _widest(device: str, args: Sequence[Any]) -> list[Any]:
    dtypes = {x.dtype for x in args if isinstance(x, Tensor)}
    return list(args) if len(dtypes) == 1 else _to(torch.float32, args)


def _first(device: str, args: Sequence[Any]) -> list[Any]:
    return _to(args[0].dtype, args)


_CASTS: dict[str, dict[str, Callable[[str, Sequence[Any]], list[Any]]]] = {
    "cuda": {
        **dict.fromkeys(("mm", "addmm_gelu", "attention"), _lower),
        **dict.fromkeys(
            ("softmax", "causal_softmax", "log_softmax", "layer_norm", "add_layer_norm"), _float32
        ),
        **dict.fromkeys(("rms_norm", "add_rms_norm", "silu_mul", "bias_gelu_residual"), _widest),
    },
    "cpu": {
        **dict.fromkeys(("mm", "addmm_gelu", "attention"), _lower),
        **dict.fromkeys(("layer_norm", "add_layer_norm"), _first),
        **dict.fromkeys(("rms_norm", "add_rms_norm", "silu_mul", "bias_gelu_residual"), _widest),
    },
}


def _autocast(name: str, device: str, cast: Callable[[str, Sequence[Any]], list[Any]]) -> None:
    operator, key = getattr(K, name).default, f"Autocast{device.upper()}"
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def call(*args: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(*cast(device, args))

    _library.impl(name, call, key)


for _device, _casts in _CASTS.items():
    for _name, _cast in _casts.items():
        _autocast(_name, _device, _cast)
        _autocast(f"_{_name}", _device, _cast)
