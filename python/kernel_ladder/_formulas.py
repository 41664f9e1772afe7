"""The operators in PyTorch's own, by which everything is computed that the suite has no kernels for:
forward-mode tangents, second derivatives, and batches of torch.vmap.

Each takes what the operator of the same name takes. Those that end in _vjp are the second derivatives:
from the gradients of an operator's results those of its tensors. All may be differentiated again."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional as F


def _wide(x: Tensor) -> Tensor:
    """In float32, where sums of 16-bit dtypes are taken."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


# ---- Softmax


def softmax(input: Tensor) -> Tensor:
    return input.softmax(-1)


def log_softmax(input: Tensor) -> Tensor:
    return input.log_softmax(-1)


def causal_softmax(input: Tensor) -> Tensor:
    rows, cols = input.shape
    hidden = _hidden(rows, cols, cols - rows, input)
    return input.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(hidden, 0)


def _hidden(rows: int, cols: int, diagonal: int, like: Tensor) -> Tensor:
    """Where row i has columns behind i + diagonal."""
    return torch.ones(rows, cols, dtype=torch.bool, device=like.device).triu(diagonal + 1)


def softmax_backward(grad: Tensor, output: Tensor) -> Tensor:
    dy, y = _wide(grad), _wide(output)
    return (y * (dy - _dot(dy, y))).to(output.dtype)


def softmax_backward_vjp(g: Tensor, grad: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    dy, y, g = _wide(grad), _wide(output), _wide(g)
    to_y = g * (dy - _dot(dy, y)) - dy * _dot(g, y)
    return (y * (g - _dot(g, y))).to(grad.dtype), to_y.to(output.dtype)


def log_softmax_backward(grad: Tensor, output: Tensor) -> Tensor:
    dy, y = _wide(grad), _wide(output)
    return (dy - y.exp() * dy.sum(-1, keepdim=True)).to(output.dtype)


def log_softmax_backward_vjp(g: Tensor, grad: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    dy, p, g = _wide(grad), _wide(output).exp(), _wide(g)
    to_y = -g * p * dy.sum(-1, keepdim=True)
    return (g - _dot(g, p)).to(grad.dtype), to_y.to(output.dtype)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    """Of rows."""
    return (x * y).sum(-1, keepdim=True)


# ---- Norms. A layer norm is an RMS norm of what is left of a row without its mean.


def layer_norm(input: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    xhat, _ = _normalized(input, eps, centred=True)
    return (xhat * weight + bias).to(input.dtype)


def rms_norm(input: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    xhat, _ = _normalized(input, eps, centred=False)
    return (xhat * weight).to(input.dtype)


def add_layer_norm(
    input: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    x = input + residual
    return layer_norm(x, weight, bias, eps), x


def add_rms_norm(
    input: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    x = input + residual
    return rms_norm(x, weight, eps), x


def layer_norm_backward(
    grad: Tensor, input: Tensor, weight: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dweight = _norm_backward(grad, input, weight, eps, centred=True)
    return dx, dweight, _over_rows(_wide(grad)).to(weight.dtype)


def rms_norm_backward(
    grad: Tensor, input: Tensor, weight: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    return _norm_backward(grad, input, weight, eps, centred=False)


def layer_norm_backward_vjp(
    gx: Tensor, gweight: Tensor, gbias: Tensor, grad: Tensor, input: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return _norm_backward_vjp(gx, gweight, gbias, grad, input, weight, eps, centred=True)


def rms_norm_backward_vjp(
    gx: Tensor, gweight: Tensor, grad: Tensor, input: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return _norm_backward_vjp(gx, gweight, None, grad, input, weight, eps, centred=False)


def _mean(x: Tensor, y: Tensor) -> Tensor:
    """Of the products of rows."""
    return (x * y).mean(-1, keepdim=True)


def _centre(x: Tensor, centred: bool) -> Tensor:
    return x - x.mean(-1, keepdim=True) if centred else x


def _over_rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.size(-1)).sum(0)


def _normalized(input: Tensor, eps: float, centred: bool) -> tuple[Tensor, Tensor]:
    """xhat = x r, and r, both wide."""
    x = _centre(_wide(input), centred)
    r = (_mean(x, x) + eps).rsqrt()
    return x * r, r


def _tangent(xhat: Tensor, r: Tensor, t: Tensor, centred: bool) -> Tensor:
    """Of xhat, for a tangent t of x; its matrix is symmetric, so that it takes gradients back, too."""
    t = _centre(t, centred)
    return r * (t - xhat * _mean(xhat, t))


def _norm_backward(
    grad: Tensor, input: Tensor, weight: Tensor, eps: float, centred: bool
) -> tuple[Tensor, Tensor]:
    xhat, r = _normalized(input, eps, centred)
    dx = _tangent(xhat, r, _wide(grad) * weight, centred)
    return dx.to(input.dtype), _over_rows(grad * xhat).to(weight.dtype)


def _norm_backward_vjp(
    gx: Tensor, gweight: Tensor, gbias: Optional[Tensor], grad: Tensor, input: Tensor, weight: Tensor,
    eps: float, centred: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    gx, gweight, dy, w = _wide(gx), _wide(gweight), _wide(grad), _wide(weight)
    xhat, r = _normalized(input, eps, centred)
    t = _tangent(xhat, r, gx, centred)
    to_dy = t * w + gweight * xhat
    if gbias is not None:
        to_dy = to_dy + gbias
    # By x through xhat in dweight, and through the symmetric matrix, of which gx is on the left and dy w
    # on the right.
    p, q = _centre(gx, centred), _centre(dy * w, centred)
    px, qx = _mean(p, xhat), _mean(q, xhat)
    by_matrix = xhat * (_mean(p, q) - 3 * px * qx) + p * qx + q * px
    to_x = _tangent(xhat, r, gweight * dy, centred) - r * r * by_matrix
    return to_dy.to(grad.dtype), to_x.to(input.dtype), _over_rows(dy * t).to(weight.dtype)


# ---- By elements


def relu(input: Tensor) -> Tensor:
    return input.relu()


def gelu(input: Tensor) -> Tensor:
    return F.gelu(input)


def gelu_tanh(input: Tensor) -> Tensor:
    return F.gelu(input, approximate="tanh")


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def silu_backward(grad: Tensor, input: Tensor) -> Tensor:
    """Of PyTorch's operator, which can't be differentiated."""
    dy, x = _wide(grad), _wide(input)
    s = x.sigmoid()
    return (dy * s * (1 + x * (1 - s))).to(input.dtype)


def bias_gelu_residual(input: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return F.gelu(input + bias) + residual


# ---- Sums and matrices


def sum(input: Tensor) -> Tensor:
    return _wide(input).sum(dtype=input.dtype if input.dtype == torch.int32 else None)


def row_sum(input: Tensor) -> Tensor:
    return _wide(input).sum(1)


def col_sum(input: Tensor) -> Tensor:
    return _wide(input).sum(0)


def transpose(input: Tensor) -> Tensor:
    return input.t().contiguous()


def mm(a: Tensor, b: Tensor) -> Tensor:
    return a.mm(b)


def addmm_gelu(bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return gelu_tanh(a.mm(b) + bias)


# ---- Attention, with all its scores in memory


def attention(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, top_left: bool = False
) -> tuple[Tensor, Tensor]:
    p, scores = _probabilities(q, k, is_causal, top_left)
    return (p @ _for_heads_of(q, v)).to(q.dtype), scores.logsumexp(-1).detach()


def attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, is_causal: bool = False,
    top_left: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    do, scale = _wide(grad), _scale(q)
    p, _ = _probabilities(q, k, is_causal, top_left)
    dp = do @ _for_heads_of(q, v).mT
    ds = p * (dp - _dot(dp, p)) * scale
    dq = ds @ _for_heads_of(q, k)
    return dq.to(q.dtype), _to_heads_of(k, ds.mT @ _wide(q)), _to_heads_of(v, p.mT @ do)


def attention_backward_vjp(
    gq: Tensor, gk: Tensor, gv: Tensor, grad: Tensor, q: Tensor, k: Tensor, v: Tensor,
    is_causal: bool, top_left: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of grad, q, k and v; the output and the logarithms are taken as functions of these."""
    do, scale = _wide(grad), _scale(q)
    p, _ = _probabilities(q, k, is_causal, top_left)
    k_, v_, gk_, gv_ = (_for_heads_of(q, x) for x in (k, v, gk, gv))
    dp = do @ v_.mT
    of_dp = dp - _dot(dp, p)
    ds = p * of_dp
    to_ds = (_wide(gq) @ k_.mT + _wide(q) @ gk_.mT) * scale
    to_dp = p * (to_ds - _dot(to_ds, p))
    to_p = to_ds * of_dp - dp * _dot(to_ds, p) + do @ gv_.mT
    to_scores = p * (to_p - _dot(to_p, p)) * scale
    return (
        (p @ gv_ + to_dp @ v_).to(grad.dtype),
        (to_scores @ k_ + ds @ gk_ * scale).to(q.dtype),
        _to_heads_of(k, to_scores.mT @ _wide(q) + ds.mT @ _wide(gq) * scale),
        _to_heads_of(v, to_dp.mT @ do),
    )


def _scale(q: Tensor) -> float:
    return float(q.size(-1) ** -0.5)


def _probabilities(
    q: Tensor, k: Tensor, is_causal: bool, top_left: bool
) -> tuple[Tensor, Tensor]:
    """The softmax of the scores, and the scores."""
    scores = _wide(q) @ _for_heads_of(q, k).mT * _scale(q)
    if not is_causal:
        return scores.softmax(-1), scores
    queries, keys = scores.shape[-2:]
    hidden = _hidden(queries, keys, 0 if top_left else keys - queries, scores)
    scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1).masked_fill(hidden, 0), scores


def _for_heads_of(q: Tensor, x: Tensor) -> Tensor:
    """Wide, each head of keys as often as heads of queries share it."""
    return _wide(x).repeat_interleave(q.size(1) // x.size(1), 1)


def _to_heads_of(k: Tensor, dx: Tensor) -> Tensor:
    """The sums over the heads of queries that share one."""
    return dx.unflatten(1, (k.size(1), dx.size(1) // k.size(1))).sum(2).to(k.dtype)
