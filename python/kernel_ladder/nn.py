"""PyTorch's modules and functions with the suite's operators in them.

The modules have the names, the parameters and the state_dict of PyTorch's. kernel_ladder.patch puts
them into a model."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import ops


def refused_norm(module: torch.nn.LayerNorm | torch.nn.RMSNorm) -> str:
    """Why the suite has no kernel for a norm; "" if it has."""
    if module.weight is None:
        return "it has no weight"
    if isinstance(module, torch.nn.LayerNorm) and module.bias is None:
        return "it has no bias"
    if len(module.normalized_shape) != 1:
        return "it is over more than the last dimension"
    return ""


class LayerNorm(torch.nn.LayerNorm):
    """Of the last dimension, with weight and bias."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if why := refused_norm(self):
            raise ValueError(f"kernel_ladder.nn.LayerNorm: {why}")

    def forward(self, input: Tensor) -> Tensor:
        return ops.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(torch.nn.RMSNorm):
    """Of the last dimension, with weight."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if why := refused_norm(self):
            raise ValueError(f"kernel_ladder.nn.RMSNorm: {why}")

    def forward(self, input: Tensor) -> Tensor:
        return ops.rms_norm(input, self.normalized_shape, self.weight, self.eps)


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

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)

    def forward(self, input: Tensor) -> Tensor:
        return ops.softmax(input, self.dim)


class SiLUMLP(torch.nn.Module):
    """down_proj(silu(gate_proj(x)) * up_proj(x)): a Llama's feed-forward network."""

    def __init__(
        self, gate_proj: torch.nn.Module, up_proj: torch.nn.Module, down_proj: torch.nn.Module
    ) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = gate_proj, up_proj, down_proj

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(ops.silu_mul(self.gate_proj(x), self.up_proj(x)))


def refused_attention(
    query: Tensor, attn_mask: Optional[Tensor], dropout_p: float, scale: Optional[float]
) -> str:
    """Why the suite has no kernel for it; "" if it has."""
    d = query.size(-1)
    if attn_mask is not None:
        return "attn_mask must be None"
    if dropout_p:
        return f"dropout_p must be 0, not {dropout_p}"
    if query.dtype not in (torch.float16, torch.bfloat16):
        return f"query must be float16 or bfloat16, not {query.dtype}"
    if d not in (64, 128):
        return f"query must have head size 64 or 128, not {d}"
    if scale is not None and abs(scale * d**0.5 - 1) > 1e-6:
        return f"scale must be 1 / sqrt({d}), not {scale}"
    return ""


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional's of the same name, for four dimensions, float16 or bfloat16, head size 64 or
    128, without a mask of its own, dropout or another scale: what it cannot do is a ValueError. As
    there, a causal mask is aligned at the top left, and fewer heads of keys need enable_gqa."""
    op = "kernel_ladder.nn.scaled_dot_product_attention"
    if why := refused_attention(query, attn_mask, dropout_p, scale):
        raise ValueError(f"{op}: {why}")
    if not enable_gqa and query.dim() == key.dim() == 4 and query.size(1) != key.size(1):
        raise ValueError(
            f"{op}: key must have query's {query.size(1)} heads, not {key.size(1)}, unless enable_gqa"
        )
    return ops.attention(query, key, value, is_causal, top_left=is_causal)[0]


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """torch.nn.functional's of the same name, of [rows, classes] and the classes' numbers [rows], without
    label smoothing: the suite's log_softmax, and PyTorch's choice of a logarithm per row. No kernel does
    both."""
    op = "kernel_ladder.nn.cross_entropy"
    if input.dim() != 2:
        raise ValueError(f"{op}: input must have two dimensions, not {input.dim()}")
    if target.dim() != 1 or target.is_floating_point():
        raise ValueError(
            f"{op}: target must be the classes' numbers, one for each row, not {target.dtype} of"
            f" {target.dim()} dimensions"
        )
    return torch.nn.functional.nll_loss(
        ops.log_softmax(input), target, weight, ignore_index=ignore_index, reduction=reduction
    )
