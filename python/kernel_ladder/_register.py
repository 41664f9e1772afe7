"""What torch.compile, autograd, torch.func and autocast have to know of the operators: the shapes of their
results, their gradients, by the suite's kernels where it has some, else by PyTorch's, batches, and the
dtypes to run in.

Each operator of the suite is there twice. kernel_ladder::softmax has a gradient, and costs a call some
microseconds of Python; kernel_ladder::_softmax has none, and goes past Python."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import _formulas

K = torch.ops.kernel_ladder
_aten = torch.ops.aten
_library = torch.library.Library("kernel_ladder", "FRAGMENT")


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


# What follows asks PyTorch's private parts where their public ways cost a call a microsecond.


def _needs_gradient(args: Sequence[Any]) -> bool:
    if torch.is_grad_enabled():
        for x in args:
            if isinstance(x, Tensor) and x.requires_grad:
                return True
    return False


def _is_transformed() -> bool:
    """By torch.func."""
    return torch._C._are_functorch_transforms_active()


def _has_tangents(args: Sequence[Any]) -> bool:
    # forward_ad.unpack_dual knows of no level in compiled code
    for x in args:
        if isinstance(x, Tensor) and torch._VF._unpack_dual(x, level=0)[1] is not None:
            return True
    return False


def is_differentiated(*args: Any) -> bool:
    """Whether a call may need a derivative of any kind, or is batched."""
    return _is_transformed() or forward_ad._current_level >= 0 or _needs_gradient(args)


def _below_autograd(operator: Any, keys: Any, args: Sequence[Any]) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & torch._C._after_autograd_keyset, *args)


def _differentiable(
    name: str, fake: Callable[..., Any], setup: Callable[..., None], backward: Callable[..., Any]
) -> None:
    """An operator with a gradient. torch.library.register_autograd knows neither forward mode nor torch.func:
    here gradients are backward's in all of them; for tangents and batches the operator is its formula."""
    torch.library.register_fake(f"kernel_ladder::{name}", fake)
    operator, formula = getattr(K, name).default, getattr(_formulas, name)
    defaults = tuple(argument.default_value for argument in operator._schema.arguments)

    def forward(ctx: Any, keys: Any, *args: Any) -> Any:
        if not _is_transformed():
            output = _below_autograd(operator, keys, args)
        else:  # what is below may be another transform, whose gradients a Function has turned off
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                output = _below_autograd(operator, keys, args)
        setup(ctx, args, output)
        return output

    def gradients(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        found = backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        return (None, *found, *(None for _ in defaults[len(found) :]))

    members = {"forward": staticmethod(forward), "backward": staticmethod(gradients)}
    function: Any = type(name, (_SingleLevelFunction,), members)

    def call(keys: Any, *args: Any) -> Any:
        args += defaults[len(args) :]
        if _has_tangents(args):
            return formula(*args)
        if not _needs_gradient(args):
            return _below_autograd(operator, keys, args)
        if not _is_transformed():
            return function.apply(keys, *args)
        with enable_single_level_autograd_function():
            return function.apply(keys, *args)

    _library.impl(name, call, "Autograd", with_keyset=True)
    _library.impl(name, formula, "FuncTorchBatched")


def _operator(name: str, fake: Callable[..., Any], *more: Any) -> None:
    """One of the suite's, and the same without a gradient."""
    _differentiable(name, fake, *more)
    torch.library.register_fake(f"kernel_ladder::_{name}", fake)
    _library.impl(f"_{name}", torch.library.fallthrough_kernel, "Autograd")


def _save_output(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(output)


def _save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _save_shape(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.shape, ctx.dtype = inputs[0].shape, inputs[0].dtype


# ---- Softmax


def _softmax_backward(ctx: Any, dy: Tensor) -> Tensor:
    return K.softmax_backward(dy, *ctx.saved_tensors)


def _log_softmax_backward(ctx: Any, dy: Tensor) -> Tensor:
    return K.log_softmax_backward(dy, *ctx.saved_tensors)


def _softmax_twice(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    return _formulas.softmax_backward_vjp(g, *ctx.saved_tensors)


def _log_softmax_twice(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    return _formulas.log_softmax_backward_vjp(g, *ctx.saved_tensors)


def _like_output(grad: Tensor, output: Tensor) -> Tensor:
    return _like(output)


_operator("softmax", _like, _save_output, _softmax_backward)
_operator("causal_softmax", _like, _save_output, _softmax_backward)
_operator("log_softmax", _like, _save_output, _log_softmax_backward)
_differentiable("softmax_backward", _like_output, _save_inputs, _softmax_twice)
_differentiable("log_softmax_backward", _like_output, _save_inputs, _log_softmax_twice)


# ---- Norms


def _save_norm(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.eps = inputs[-1]


def _save_sum(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[1], inputs[2])
    ctx.eps = inputs[-1]


def _save_tensors(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.eps = inputs
    ctx.save_for_backward(*tensors)


def _layer_norm_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
    return K.layer_norm_backward(dy, *ctx.saved_tensors, ctx.eps)


def _rms_norm_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
    return K.rms_norm_backward(dy, *ctx.saved_tensors, ctx.eps)


def _add_layer_norm_backward(ctx: Any, dy: Tensor, dsum: Tensor) -> tuple[Tensor, ...]:
    dx, dweight, dbias = K.layer_norm_backward(dy, *ctx.saved_tensors, ctx.eps)
    dx = dx + dsum
    return dx, dx.clone(), dweight, dbias


def _add_rms_norm_backward(ctx: Any, dy: Tensor, dsum: Tensor) -> tuple[Tensor, ...]:
    dx, dweight = K.rms_norm_backward(dy, *ctx.saved_tensors, ctx.eps)
    dx = dx + dsum
    return dx, dx.clone(), dweight


def _layer_norm_twice(ctx: Any, *g: Tensor) -> tuple[Tensor, ...]:
    return _formulas.layer_norm_backward_vjp(*g, *ctx.saved_tensors, ctx.eps)


def _rms_norm_twice(ctx: Any, *g: Tensor) -> tuple[Tensor, ...]:
    return _formulas.rms_norm_backward_vjp(*g, *ctx.saved_tensors, ctx.eps)


_operator(
    "layer_norm", lambda input, weight, bias, eps=1e-5: _like(input),
    _save_norm, _layer_norm_backward,
)  # fmt: skip
_operator(
    "rms_norm", lambda input, weight, eps=1e-5: _like(input),
    _save_norm, _rms_norm_backward,
)  # fmt: skip
_operator(
    "add_layer_norm",
    lambda input, residual, weight, bias, eps=1e-5: (_like(input), _like(input)),
    _save_sum, _add_layer_norm_backward,
)  # fmt: skip
_operator(
    "add_rms_norm", lambda input, residual, weight, eps=1e-5: (_like(input), _like(input)),
    _save_sum, _add_rms_norm_backward,
)  # fmt: skip
_differentiable(
    "layer_norm_backward",
    lambda grad, input, weight, eps=1e-5: (_like(input), _like(weight), _like(weight)),
    _save_tensors, _layer_norm_twice,
)  # fmt: skip
_differentiable(
    "rms_norm_backward", lambda grad, input, weight, eps=1e-5: (_like(input), _like(weight)),
    _save_tensors, _rms_norm_twice,
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
    # PyTorch's operator has no derivative.
    silu_backward = _formulas.silu_backward if torch.is_grad_enabled() else _aten.silu_backward
    return silu_backward(dy * up, gate), K.silu_mul(gate, dy)


def _bias_gelu_residual_backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    input, bias, _ = ctx.saved_tensors
    dx = _aten.gelu_backward(dy, input + bias)
    return dx, dx.sum_to_size(bias.shape), dy.clone()


_operator("relu", _like, _save_output, _relu_backward)
_operator("gelu", _like, _save_inputs, _gelu_backward)
_operator("gelu_tanh", _like, _save_inputs, _gelu_tanh_backward)
_operator("silu_mul", lambda gate, up: _like(gate), _save_inputs, _silu_mul_backward)
_operator(
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


_operator("sum", _sums, _save_shape, _sum_backward)
_operator("row_sum", lambda input: _sums(input, input.size(0)), _save_shape, _row_sum_backward)
_operator("col_sum", lambda input: _sums(input, input.size(1)), _save_shape, _sum_backward)


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


def _product(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.size(0), b.size(1))


_operator(
    "transpose", lambda input: input.new_empty(input.size(1), input.size(0)), _save_shape,
    _transpose_backward,
)  # fmt: skip
_operator("mm", _product, _save_inputs, _mm_backward)
_operator("addmm_gelu", lambda bias, a, b: _product(a, b), _save_inputs, _addmm_gelu_backward)


# ---- Attention


def _is_bshd(x: Tensor) -> bool:
    """Whether [batch, heads, length, d] lies in memory as [batch, length, heads, d]."""
    return x.transpose(1, 2).is_contiguous()


def _as(like: Sequence[Tensor], x: Tensor) -> Tensor:
    """Lies as all of `like` do: a position's heads side by side, or else a head's positions."""
    if not all(one.is_contiguous() for one in like) and all(map(_is_bshd, like)):
        return _like(x.transpose(1, 2)).transpose(1, 2)
    return _like(x)


def _fake_attention(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, top_left: bool = False
) -> tuple[Tensor, Tensor]:
    return _as((q, k, v), q), q.new_empty(q.shape[:3], dtype=torch.float32)


def _fake_attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor,
    is_causal: bool = False, top_left: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    qkv = (q, k, v)
    return _as(qkv, q), _as(qkv, k), _as(qkv, v)


def _save_attention(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.mask = inputs[3:]
    ctx.mark_non_differentiable(output[1])


def _attention_backward(ctx: Any, do: Tensor, _: Tensor) -> tuple[Tensor, ...]:
    return K.attention_backward(do, *ctx.saved_tensors, *ctx.mask)


def _save_attention_backward(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.mask = inputs[6:]


def _attention_twice(ctx: Any, *g: Tensor) -> tuple[Tensor, ...]:
    return _formulas.attention_backward_vjp(*g, *ctx.saved_tensors, *ctx.mask)


_operator("attention", _fake_attention, _save_attention, _attention_backward)
_differentiable(
    "attention_backward", _fake_attention_backward, _save_attention_backward, _attention_twice
)


@torch.library.register_fake("kernel_ladder::run")
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
