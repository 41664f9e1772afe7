"""The suite's operators in the place of a model's own."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from . import nn, ops

ATTENTION = "kernel_ladder"  # among Hugging Face's attention functions


class Patched(dict[str, str]):
    """By the names of modules what was put there, or why what is there stays; printed, a table."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name.ljust(width)}  {what}" for name, what in self.items())


# A module's replacement, or why it has none.
Found = tuple[Optional[torch.nn.Module], str]


def _computes(module: torch.nn.Module, formula: Callable[[Tensor], Tensor], cols: int) -> bool:
    """Whether a module does what its name and its parts let one expect: classes of others may do more,
    as norms that add 1 to their weight."""
    like = next(module.parameters())
    if like.is_meta:
        return True
    x = torch.randn(2, cols, generator=torch.Generator().manual_seed(0)).to(like)
    with torch.no_grad():
        return torch.allclose(module(x).float(), formula(x).float(), rtol=0.05, atol=0.05)


def _norm(module: torch.nn.Module) -> Found:
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
        return None, ""
    if why := nn.refused_norm(module):
        return None, why
    weight: Any = module.weight
    eps: Any = nn.epsilon_of(module)
    if type(module) is torch.nn.LayerNorm:
        layer_norm = nn.LayerNorm(module.normalized_shape[0], eps, device="meta")
        layer_norm.weight, layer_norm.bias = module.weight, module.bias
        return layer_norm, ""
    cols = weight.numel()
    if not _computes(module, lambda x: F.rms_norm(x, (cols,), weight, eps), cols):
        return None, "it is not x / rms(x) * weight"
    rms_norm = nn.RMSNorm(cols, eps, device="meta")
    rms_norm.weight = weight
    return rms_norm, ""


def _mlp(module: Any) -> Found:
    gate, up, down = module.gate_proj, module.up_proj, module.down_proj
    if type(module.act_fn).__name__ not in ("SiLU", "SiLUActivation"):
        return None, f"its activation is {type(module.act_fn).__name__}, not SiLU"
    cols = getattr(gate, "in_features", 0)
    if not cols or not _computes(module, lambda x: down(F.silu(gate(x)) * up(x)), cols):
        return None, "it is not down_proj(silu(gate_proj(x)) * up_proj(x))"
    return nn.SiLUMLP(gate, up, down), ""


def _activation(module: Any) -> Found:
    kind = type(module)
    if kind is torch.nn.GELU:
        return nn.GELU(module.approximate), ""
    if kind is torch.nn.ReLU:
        return (None, "it works in place") if module.inplace else (nn.ReLU(), "")
    if kind is torch.nn.Softmax:
        if module.dim not in (None, -1):
            return None, f"its dim is {module.dim}, not -1"
        return nn.Softmax(-1), ""
    # Hugging Face's: gelu, and what approximates it by tanh
    if kind.__name__ == "GELUActivation":
        return nn.GELU(), ""
    if kind.__name__ in ("NewGELUActivation", "FastGELUActivation", "GELUTanh", "PytorchGELUTanh"):
        return nn.GELU("tanh"), ""
    return None, ""


def _replacement(module: torch.nn.Module) -> Found:
    """Neither of modules that are of no kind that is replaced."""
    kind = type(module)
    if kind in (torch.nn.LayerNorm, torch.nn.RMSNorm) or kind.__name__.endswith("RMSNorm"):
        return _norm(module)
    if {name for name, _ in module.named_children()} == {
        "gate_proj", "up_proj", "down_proj", "act_fn"
    }:  # fmt: skip
        return _mlp(module)
    return _activation(module)


def _attention(
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
    """An attention function of Hugging Face's: what the suite has no kernel for is done by theirs."""
    others = any(more.get(name) is not None for name in ("position_bias", "cache", "softcap", "s_aux"))
    if others or nn.refused_attention(query, attention_mask, dropout, scaling):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling,
            is_causal=is_causal, **more,
        )  # fmt: skip
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = query.size(2) > 1 and is_causal
    is_top_left = is_causal and query.size(2) != key.size(2)
    result, _ = ops.attention(query, key, value, is_causal, is_top_left)
    return result.transpose(1, 2).contiguous(), None


def _swap_attention(model: Any, done: Patched) -> None:
    """Of a Hugging Face model."""
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(model, transformers.PreTrainedModel):
        return
    before = model.config._attn_implementation
    if before in (None, ATTENTION):
        return
    name = "attention"
    if before not in ("sdpa", "eager"):
        done[name] = f"stays {before}: it is neither sdpa nor eager"
        return
    if not hasattr(transformers, "AttentionInterface") or not hasattr(
        model, "set_attn_implementation"
    ):
        done[name] = f"stays {before}: this version of transformers has no attention interface"
        return
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    transformers.AttentionInterface.register(ATTENTION, _attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)  # none where causal says it all
    model.set_attn_implementation(ATTENTION)
    if model.config._attn_implementation != ATTENTION:
        done[name] = f"stays {before}: {type(model).__name__} takes no other"
        return
    done[name] = (
        f"{before} -> kernel_ladder.ops.attention, and sdpa for masks, dropout, other scales and head"
        " sizes, and float32"
    )


def patch(model: torch.nn.Module) -> Patched:
    """Puts the suite's norms, activations, softmaxes and attention in the place of a model's, which
    keep their parameters, and returns what it did: print(kernel_ladder.patch(model)).

    Of PyTorch's LayerNorm, RMSNorm, GELU, ReLU and Softmax; of classes of others whose name ends in
    RMSNorm, with a weight and eps or variance_epsilon; of feed-forward networks of gate_proj, up_proj,
    down_proj and SiLU; and of Hugging Face's models also their GELUs, and the attention of those that
    choose it by name."""
    done = Patched()
    for name, module in list(model.named_modules()):
        new, why = _replacement(module)
        if new is None and not why or not name:
            continue
        if new is None:
            done[name] = f"stays {type(module).__name__}: {why}"
            continue
        parent, _, own = name.rpartition(".")
        new.train(module.training)
        setattr(model.get_submodule(parent), own, new)
        done[name] = f"{type(module).__name__} -> kernel_ladder.nn.{type(new).__name__}"
    _swap_attention(model, done)
    return done
