"""The suite's operators in the place of a model's own.

A module that is swapped stays the object it was, with its parameters, hooks and names: its class becomes
one derived from its own, whose forward asks at each call whether the suite can do it, and else calls the
class's own. Hugging Face's attention, which models choose by name, is asked likewise where it is called."""

from __future__ import annotations

import copy
import copyreg
import functools
import sys
from typing import Any, Callable, Iterable, Optional

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.nn import functional as F

from . import nn, ops
from ._versions import has_cuda


class Patched(dict[str, str]):
    """By the names of modules what does their work now, or why it stays theirs; printed, a table."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name.ljust(width)}  {what}" for name, what in self.items())


# ---- What the suite can do, asked at each call

_DEVICES = ("cpu", "cuda") if has_cuda() else ("cpu",)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Other classes, such as distributed tensors, have their own ways.
_CLASSES = (Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)
_LEAST_EPS = torch.finfo(torch.float32).tiny


def _is_written_down() -> bool:
    """Whether a call is made for a file that knows PyTorch's operators alone."""
    return torch.jit.is_tracing() or (torch.compiler.is_exporting() and torch.onnx.is_in_onnx_export())


def _can_take(x: Any, *others: Any, mixed_in_autocast: bool = True) -> bool:
    """Whether an operator takes these tensors. Under autocast it casts them as PyTorch's does, if that
    takes several dtypes."""
    if type(x) not in _CLASSES or x.dtype not in _DTYPES or x.layout != torch.strided or x.is_nested:
        return False
    dtype, device = x.dtype, x.device
    if device.type not in _DEVICES or _is_written_down():
        return False
    for one in others:
        if type(one) not in _CLASSES or one.device != device or one.layout != torch.strided:
            return False
        if one.dtype != dtype and not (
            mixed_in_autocast and one.dtype in _DTYPES and torch.is_autocast_enabled(device.type)
        ):
            return False
    return True


class _Swapped:
    """Goes before a module's class. by_the_suite(x) is what the suite makes of a call with one tensor, or
    None where it can't."""

    operator: str
    by_the_suite: Callable[[Any], Optional[Tensor]]

    def forward(self, *args: Any, **more: Any) -> Any:
        if len(args) == 1 and not more:
            result = self.by_the_suite(args[0])
            if result is not None:
                return result
        return super().forward(*args, **more)  # type: ignore[misc]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For copies and pickles, which find no class made here by its name."""
        make, arguments, *rest = super().__reduce_ex__(2)
        made_of = vars(type(self)).get("made_of")  # but not of a class that another library has derived
        if made_of and make is copyreg.__newobj__:  # type: ignore[attr-defined]
            make, arguments = _new, made_of
        return (make, arguments, *rest)

    def __prepare_scriptable__(self: Any) -> Any:
        """For torch.jit.script, which compiles a forward from its source: as it was before."""
        one = copy.copy(self)
        one.__class__ = self.made_of[1]
        return one


def _new(kind: type, before: type) -> Any:
    cls = _swapped(kind, before)
    return cls.__new__(cls)


@functools.lru_cache(maxsize=None)
def _swapped(kind: type, before: type) -> type:
    """A class under the name of what was there before, by which other libraries may know it."""
    members = {
        "__module__": before.__module__, "__qualname__": before.__qualname__, "__doc__": before.__doc__,
        "made_of": (kind, before),
    }  # fmt: skip
    return type(before.__name__, (kind, before), members)


class _LayerNorm(_Swapped):
    operator = "layer_norm"

    def by_the_suite(self: Any, x: Any) -> Optional[Tensor]:
        if not _can_take(x, self.weight, self.bias) or self.eps < _LEAST_EPS:
            return None
        if x.shape[-1:] != self.normalized_shape:
            return None
        return ops.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class _RMSNorm(_Swapped):
    """PyTorch's."""

    operator = "rms_norm"

    def by_the_suite(self: Any, x: Any) -> Optional[Tensor]:
        eps = ops.EPSILON if self.eps is None else self.eps
        if not _can_take(x, self.weight, mixed_in_autocast=False) or eps < _LEAST_EPS:
            return None
        if x.shape[-1:] != self.normalized_shape:
            return None
        return ops.rms_norm(x, self.normalized_shape, self.weight, eps)


class _OthersRMSNorm(_Swapped):
    operator = "rms_norm"

    def by_the_suite(self: Any, x: Any) -> Optional[Tensor]:
        eps = _epsilon_of(self)
        if not _can_take(x, self.weight) or eps < _LEAST_EPS or x.shape[-1:] != self.weight.shape:
            return None
        return ops.rms_norm(x, self.weight.shape, self.weight, eps)


class _GELU(_Swapped):
    operator = "gelu"
    approximate = "none"

    def by_the_suite(self, x: Any) -> Optional[Tensor]:
        return ops.gelu(x, self.approximate) if _can_take(x) else None


class _GELUTanh(_GELU):
    operator = "gelu_tanh"
    approximate = "tanh"


class _ReLU(_Swapped):
    operator = "relu"

    def by_the_suite(self: Any, x: Any) -> Optional[Tensor]:
        return ops.relu(x) if _can_take(x) and not self.inplace else None


class _Softmax(_Swapped):
    operator = "softmax"

    def by_the_suite(self: Any, x: Any) -> Optional[Tensor]:
        can = _can_take(x) and x.dim() > 0 and self.dim in (-1, x.dim() - 1)
        return ops.softmax(x) if can else None


class _SiLUMLP(_Swapped):
    operator = "silu_mul"

    def by_the_suite(self: Any, x: Any) -> Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        can = _can_take(gate, up) and gate.shape == up.shape
        return self.down_proj(ops.silu_mul(gate, up) if can else self.act_fn(gate) * up)


# ---- Which modules

# What is to do a module's work, or None, and then why it stays, or "" of modules of no kind that is swapped.
Found = tuple[Optional[type[_Swapped]], str]


def _epsilon_of(norm: Any) -> Any:
    """By PyTorch's name, or Hugging Face's."""
    return getattr(norm, "variance_epsilon", getattr(norm, "eps", None))


def _differs(
    module: Any, formula: str, parts: dict[str, Any], x: Tensor, expected: Tensor
) -> str:
    """How a class that isn't PyTorch's differs from what its name and its parts let one expect, as one that
    adds 1 to its weight; "" if it doesn't. Tried is a copy with small parts of its own."""
    trial = copy.copy(module)
    trial._parameters, trial._modules = dict(module._parameters), dict(module._modules)
    for name, part in parts.items():
        setattr(trial, name, part)
    trial.training = True
    try:
        with torch.no_grad():
            found = trial.forward(x)
    except Exception as error:  # whatever it asks for
        return f"a trial of it failed: {error}".partition("\n")[0]
    is_alike = isinstance(found, Tensor) and (found.dtype, found.shape) == (x.dtype, expected.shape)
    tolerance = 1e-4 if x.dtype == torch.float32 else 0.05
    if is_alike and torch.allclose(found.float(), expected.float(), rtol=tolerance, atol=tolerance):
        return ""
    return f"it is not {formula}"


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), device="cpu", dtype=torch.float32)


def _norm(module: Any) -> Found:
    kind = type(module)
    if kind is torch.nn.LayerNorm or kind is torch.nn.RMSNorm:
        why = nn.refused_norm(module)
        return (None, why) if why else (_LayerNorm if kind is torch.nn.LayerNorm else _RMSNorm, "")
    weight, eps = getattr(module, "weight", None), _epsilon_of(module)
    if not isinstance(weight, Tensor) or weight.dim() != 1 or getattr(module, "bias", None) is not None:
        return None, "it has more or less than a weight"
    if not isinstance(eps, float):
        return None, "its eps is no float"
    cols = weight.numel()
    own = 1 + _random(cols)
    x = torch.stack([_random(cols), _random(cols) * eps**0.5])  # eps counts in the second row
    for dtype in (torch.float32, torch.bfloat16):
        expected = F.rms_norm(x.to(dtype), (cols,), own.to(dtype), eps)
        parts = {"weight": torch.nn.Parameter(own.to(dtype))}
        if why := _differs(module, "x / rms(x) * weight", parts, x.to(dtype), expected):
            return None, why
    return _OthersRMSNorm, ""


def _mlp(module: Any) -> Found:
    if type(module.act_fn).__name__ not in ("SiLU", "SiLUActivation"):
        return None, f"its activation is {type(module.act_fn).__name__}, not SiLU"
    with torch.random.fork_rng(devices=()):
        linears = [torch.nn.Linear(4, 4, device="cpu", dtype=torch.float32) for _ in range(3)]
    gate, up, down = linears
    x = _random(2, 4)
    with torch.no_grad():
        expected = down(F.silu(gate(x)) * up(x))
    parts = {"gate_proj": gate, "up_proj": up, "down_proj": down}
    why = _differs(module, "down_proj(silu(gate_proj(x)) * up_proj(x))", parts, x, expected)
    return (None, why) if why else (_SiLUMLP, "")


def _activation(module: Any) -> Found:
    kind = type(module)
    if kind is torch.nn.GELU:
        return (_GELU if module.approximate == "none" else _GELUTanh), ""
    if kind is torch.nn.ReLU:
        return (None, "it works in place") if module.inplace else (_ReLU, "")
    if kind is torch.nn.Softmax:
        return (None, "it was given no dim") if module.dim is None else (_Softmax, "")
    # Hugging Face's: gelu, and what approximates it by tanh
    if kind.__name__ == "GELUActivation":
        swapped = _GELU
    elif kind.__name__ in ("NewGELUActivation", "FastGELUActivation", "GELUTanh", "PytorchGELUTanh"):
        swapped = _GELUTanh
    else:
        return None, ""
    x = _random(64)
    why = _differs(module, "gelu(x)", {}, x, F.gelu(x, approximate=swapped.approximate))
    return (None, why) if why else (swapped, "")


def _kind_for(module: torch.nn.Module) -> Found:
    if isinstance(module, (_Swapped, nn.LayerNorm, nn.RMSNorm)):
        return None, ""
    kind = type(module)
    if kind in (torch.nn.LayerNorm, torch.nn.RMSNorm) or kind.__name__.endswith("RMSNorm"):
        found = _norm(module)
    elif set(module._modules) == {"gate_proj", "up_proj", "down_proj", "act_fn"}:
        found = _mlp(module)
    else:
        found = _activation(module)
    if found[0] is not None and "forward" in vars(module):
        return None, "something else has replaced its forward"
    return found


# ---- Hugging Face's attention

_MARK = "_kernel_ladder_attention"  # of the modules of models that have been patched
# Arguments by which attention is another one, or gives more
_UNUSUAL = ("position_bias", "cache", "softcap", "s_aux", "output_attentions")


def _can_attend(
    query: Any, key: Any, value: Any, mask: Optional[Tensor], dropout: float, scaling: Optional[float]
) -> bool:
    return (
        not nn.refused_attention(query, mask, dropout, scaling)
        and _can_take(query, key, value, mixed_in_autocast=False)
        and query.dim() == key.dim() == 4
        and key.shape == value.shape
        and (query.size(0), query.size(3)) == (key.size(0), key.size(3))
        and key.size(1) > 0
        and query.size(1) % key.size(1) == 0
        and not torch.are_deterministic_algorithms_enabled()  # as its gradients are not
    )


def _attention(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """An attention function of Hugging Face's, which gives to theirs what the suite has no kernel for, and
    all of modules that have no mark."""

    @functools.wraps(theirs)
    def attention(
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Optional[Tensor],
        dropout: float = 0.0,
        scaling: Optional[float] = None,
        is_causal: Optional[bool] = None,
        **more: Any,
    ) -> tuple[Tensor, Optional[Tensor]]:
        unusual = [more.get(name) for name in _UNUSUAL]
        can = all(one is None or one is False for one in unusual) and _can_attend(
            query, key, value, attention_mask, dropout, scaling
        )
        if not can or not getattr(module, _MARK, False):
            return theirs(
                module, query, key, value, attention_mask, dropout=dropout, scaling=scaling,
                is_causal=is_causal, **more,
            )  # fmt: skip
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        is_causal = query.size(2) > 1 and is_causal
        is_top_left = is_causal and query.size(2) != key.size(2)
        result, _ = ops.attention(query, key, value, is_causal, is_top_left)
        return result.transpose(1, 2).contiguous(), None

    setattr(attention, _MARK, True)
    return attention


def _swap_attention(modules: Iterable[torch.nn.Module], done: Patched) -> None:
    """Of those of Hugging Face's modules that choose it by name."""
    name, sdpa = "attention", "sdpa"
    for module in modules:
        functions = getattr(
            sys.modules.get(type(module).__module__), "ALL_ATTENTION_FUNCTIONS", None
        )
        if functions is None or "Attention" not in type(module).__name__:
            continue
        chosen = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if hasattr(module, _MARK) or chosen is None:
            continue
        if chosen != sdpa:
            done.setdefault(name, f"stays {chosen}: only sdpa is swapped")
            continue
        if not hasattr(functions, "register"):
            done[name] = "stays sdpa: this version of transformers has no attention interface"
            return
        if not hasattr(functions[sdpa], _MARK):
            functions.register(sdpa, _attention(functions[sdpa]))
        setattr(module, _MARK, True)
        done[name] = (
            "sdpa -> kernel_ladder.ops.attention, and sdpa for masks, dropout, other scales and head"
            " sizes, and float32"
        )


def patch(model: torch.nn.Module) -> Patched:
    """Has the suite's operators do the work of a model's norms, activations, softmaxes and attention, and
    returns what it did: print(kernel_ladder.patch(model)). Its modules stay the same objects; what the suite
    can't do, in a call, they still do as before.

    Of PyTorch's LayerNorm, RMSNorm, GELU, ReLU and Softmax; of classes of others whose name ends in
    RMSNorm, with a weight and eps or variance_epsilon; of feed-forward networks of gate_proj, up_proj,
    down_proj and SiLU; and of Hugging Face's models also their GELUs, and the attention of those that
    choose it by name, if that is sdpa."""
    done = Patched()
    swapped: dict[torch.nn.Module, str] = {}  # a module may have several names
    for name, module in model.named_modules(remove_duplicate=False):
        if module not in swapped:
            before = type(module)
            kind, why = _kind_for(module)
            if kind is not None:
                module.__class__ = _swapped(kind, before)
                why = f"{before.__name__} -> kernel_ladder.ops.{kind.operator}"
            elif why:
                why = f"stays {before.__name__}: {why}"
            swapped[module] = why
        if swapped[module]:
            done[name or "(the model)"] = swapped[module]
    _swap_attention(swapped, done)
    return done
