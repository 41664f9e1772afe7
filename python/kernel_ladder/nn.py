"""PyTorch's modules with the suite's operators in them, and a function that puts them into a model.

The modules have the names, the parameters and the state_dict of PyTorch's."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from . import ops

EPSILON = 1e-5  # the norms' only one


class LayerNorm(torch.nn.LayerNorm):
    """Of the last dimension, with weight and bias, eps 1e-5."""

    def __init__(self, normalized_shape: int, eps: float = EPSILON, **more: Any) -> None:
        super().__init__(normalized_shape, eps, **more)
        if why := _refused_norm(self):
            raise ValueError(f"kernel_ladder.nn.LayerNorm: {why}")

    def forward(self, input: Tensor) -> Tensor:
        return ops.layer_norm(input, self.weight, self.bias)


class RMSNorm(torch.nn.RMSNorm):
    """Of the last dimension, with weight, eps 1e-5."""

    def __init__(self, normalized_shape: int, eps: float = EPSILON, **more: Any) -> None:
        super().__init__(normalized_shape, eps, **more)
        if why := _refused_norm(self):
            raise ValueError(f"kernel_ladder.nn.RMSNorm: {why}")

    def forward(self, input: Tensor) -> Tensor:
        return ops.rms_norm(input, self.weight)


class GELU(torch.nn.GELU):
    """approximate is "none" or "tanh"."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.gelu(input, self.approximate)


class ReLU(torch.nn.ReLU):
    """Not in place."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.relu(input)


class Softmax(torch.nn.Softmax):
    """Of the last dimension."""

    def forward(self, input: Tensor) -> Tensor:
        return ops.softmax(input, -1 if self.dim is None else self.dim)


def _refused_norm(module: torch.nn.Module) -> str:
    """Why the suite has no kernel for it; "" if it has."""
    shape = getattr(module, "normalized_shape", (0,))
    eps = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    if getattr(module, "weight", None) is None:
        return "it has no weight"
    if isinstance(module, torch.nn.LayerNorm) and module.bias is None:
        return "it has no bias"
    if len(shape) != 1:
        return "it is over more than the last dimension"
    if eps != EPSILON:
        return f"its eps is {eps}, not {EPSILON}"
    return ""


def _rms_norm(module: torch.nn.Module) -> torch.nn.Module:
    norm = RMSNorm(module.weight.numel(), device="meta")  # type: ignore[union-attr, operator, arg-type]
    norm.weight = module.weight  # type: ignore[assignment]
    return norm


def _replacement(module: torch.nn.Module) -> tuple[Optional[Callable[[], torch.nn.Module]], str]:
    """What makes a module's replacement, or why it has none; neither of modules that are of no kind
    that is replaced."""
    kind = type(module)
    if kind in (torch.nn.LayerNorm, torch.nn.RMSNorm) or kind.__name__.endswith("RMSNorm"):
        if isinstance(module, (LayerNorm, RMSNorm)):
            return None, ""
        if why := _refused_norm(module):
            return None, why
        if kind is torch.nn.LayerNorm:

            def layer_norm() -> torch.nn.Module:
                norm = LayerNorm(module.normalized_shape[0], device="meta")
                norm.weight, norm.bias = module.weight, module.bias
                return norm

            return layer_norm, ""
        return lambda: _rms_norm(module), ""
    if kind is torch.nn.GELU:
        return lambda: GELU(module.approximate), ""
    if kind is torch.nn.ReLU:
        return (None, "it works in place") if module.inplace else (ReLU, "")
    if kind is torch.nn.Softmax:
        if module.dim not in (None, -1):
            return None, f"its dim is {module.dim}, not -1"
        return lambda: Softmax(-1), ""
    return None, ""


class Patched(dict[str, str]):
    """By the names of modules what was put there, or why what is there stays; printed, a table."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name.ljust(width)}  {what}" for name, what in self.items())


def patch(model: torch.nn.Module) -> Patched:
    """Puts the suite's norms, activations and softmaxes in the place of a model's, which keep their
    parameters, and returns what it did: print(kernel_ladder.patch(model)).

    Of PyTorch's LayerNorm, RMSNorm, GELU, ReLU and Softmax, and of classes of others whose name ends in
    RMSNorm, with a weight and eps or variance_epsilon, as Hugging Face's models have them."""
    done = Patched()
    for name, module in list(model.named_modules()):
        make, why = _replacement(module)
        if make is None and not why or not name:
            continue
        if make is None:
            done[name] = f"stays {type(module).__name__}: {why}"
            continue
        parent, _, own = name.rpartition(".")
        new = make()
        new.train(module.training)
        setattr(model.get_submodule(parent), own, new)
        done[name] = f"{type(module).__name__} -> kernel_ladder.nn.{type(new).__name__}"
    return done
