"""The suite's attention in PyTorch: scaled_dot_product_attention by FlashAttention-2 and by cuDNN.
Of the forward pass o is compared: PyTorch keeps lse to itself, and ./bench has checked it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Callable, NamedTuple

from peers.operations import Function, Operation, Shape, Tensor

UNUSED = 3  # positions of a cache behind the longest sequence's (decode.cpp)


class Problem(NamedTuple):
    """One that PyTorch's function can do. Its sequences have one length; `capacity` is how many
    positions k and v have, of which `keys` are used."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    d: int
    bshd: bool
    capacity: int
    causal: bool

    def rows(self, heads: int, count: int) -> Shape:
        if self.bshd:
            return self.batch, count, heads, self.d
        return self.batch, heads, count, self.d

    def heads_first(self, x: Tensor) -> Tensor:
        """A view [batch][heads][rows][d], or of such a one what x was."""
        return x.transpose(1, 2) if self.bshd else x

    def used(self, x: Tensor) -> Tensor:
        """Of k or v."""
        return self.heads_first(x)[:, :, : self.keys]


PATTERN = re.compile(r"(\d+)x(\d+)(?::(\d+))?x(\d+)(?::(\d+))?x(\d+)(@bshd)?(@top_left)?")


def parse(text: str, op: str) -> Problem | None:
    """None: sequences of different lengths, pages, or a mask whose alignment PyTorch's is not."""
    match = PATTERN.fullmatch(text)
    if not match:
        return None
    batch, heads, kv_heads, queries, keys, d = (int(n or 0) for n in match.groups()[:6])
    bshd, top_left = map(bool, match.groups()[6:])
    keys = keys if match[5] else queries
    causal = op.startswith("causal")
    masked = causal or op == "decode"
    if op == "decode" and queries == 1:
        masked = False  # it sees all keys
    if masked and not top_left and queries != keys:
        return None
    capacity = keys + UNUSED if op == "decode" else keys
    return Problem(batch, heads, kv_heads or heads, queries, keys, d, bshd, capacity, masked)


def attention_operations(torch: Any) -> dict[tuple[str, str], Operation]:
    def particular(op: str, make: Callable[[Any, Problem], Operation]) -> Operation:
        def of_problem(text: str) -> Operation | None:
            problem = parse(text, op)
            return make(torch, problem) if problem else None

        return Operation(lambda size: [], lambda: None, particular=of_problem)

    return {
        ("attention", ""): particular("", forward),
        ("attention", "causal"): particular("causal", forward),
        ("attention", "decode"): particular("decode", decode),
        ("attention", "backward"): particular("backward", backward),
        ("attention", "causal_backward"): particular("causal_backward", backward),
    }


def wide(torch: Any, x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def weights(torch: Any, p: Problem, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Of a head: its softmax, and the logarithm of what that divided by."""
    scores = q @ k.T * p.d**-0.5
    if p.causal:
        hidden = torch.ones(p.queries, p.keys, dtype=torch.bool, device=q.device).triu(1)
        scores.masked_fill_(hidden, -torch.inf)
    lse = scores.logsumexp(-1, keepdim=True)
    return scores.sub_(lse).exp_(), lse[:, 0]


def each_head(p: Problem) -> Any:
    """Of each sequence: the heads of queries with their heads of keys."""
    group = p.heads // p.kv_heads
    return ((b, h, h // group) for b in range(p.batch) for h in range(p.heads))


def heads_of(torch: Any, p: Problem, q: Tensor, *kv: Tensor) -> list[Tensor]:
    """[batch][heads][rows][d], in fp32 or better."""
    return [wide(torch, p.heads_first(q)), *(wide(torch, p.used(x)) for x in kv)]


def attend(torch: Any, p: Problem, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """o and lse, a head at a time: all scores would fill a GPU."""
    wide_q, wide_k, wide_v = heads_of(torch, p, q, k, v)
    o = torch.empty_like(wide_q)
    lse = torch.empty(p.batch, p.heads, p.queries, dtype=o.dtype, device=o.device)
    for b, h, kv in each_head(p):
        of_head, lse[b, h] = weights(torch, p, wide_q[b, h], wide_k[b, kv])
        o[b, h] = of_head @ wide_v[b, kv]
    return p.heads_first(o).to(q.dtype).contiguous(), lse


def sdpa(torch: Any, p: Problem, backend: str) -> Function:
    """PyTorch's function by one of its backends, from heads_first() views to such a view."""
    grouped = {"enable_gqa": True} if p.heads != p.kv_heads else {}

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        attention = torch.nn.attention
        with attention.sdpa_kernel(getattr(attention.SDPBackend, backend)):
            try:
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=p.causal, **grouped
                )
            except RuntimeError as error:
                if not re.match("No (available kernel|viable backend)", str(error)):
                    raise
        raise NotImplementedError(f"PyTorch's {backend} does not take this problem")

    return call


def of_rows(torch: Any, p: Problem, backend: str) -> Function:
    function = sdpa(torch, p, backend)

    def call(q: Tensor, k: Tensor, v: Tensor, *lengths: Tensor) -> Tensor:
        return p.heads_first(function(p.heads_first(q), p.used(k), p.used(v)))

    return call


def forward(torch: Any, p: Problem) -> Operation:
    return Operation(
        lambda size: [p.rows(p.heads, p.queries), *[p.rows(p.kv_heads, p.capacity)] * 2],
        lambda q, k, v, *lengths: attend(torch, p, q, k, v)[0],
        eager=of_rows(torch, p, "FLASH_ATTENTION"),
        cudnn=of_rows(torch, p, "CUDNN_ATTENTION"),
        compiled=False, summands=lambda size: p.d + p.keys,
        magnitude=lambda q, k, v, *lengths: p.used(v).abs().max(),
        roundings=2,  # of the weights, of o
    )  # fmt: skip


def decode(torch: Any, p: Problem) -> Operation:
    def completed(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        used = torch.full((p.batch,), p.keys, dtype=torch.int32, device=q.device)
        return [q, k, v, used]

    return replace(forward(torch, p), completed=completed)


def backward(torch: Any, p: Problem) -> Operation:
    """Of q, k, v, o, lse and d_o."""

    def completed(q: Tensor, k: Tensor, v: Tensor, d_o: Tensor) -> list[Tensor]:
        o, lse = attend(torch, p, q.double(), k.double(), v.double())
        return [q, k, v, o.to(q.dtype), lse.float(), d_o]

    def gradients(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, d_o: Tensor) -> Any:
        wide_q, wide_k, wide_v = heads_of(torch, p, q, k, v)
        wide_d_o = wide(torch, p.heads_first(d_o))
        dq, dk, dv = (torch.zeros_like(x) for x in (wide_q, wide_k, wide_v))
        for b, h, kv in each_head(p):
            of_head, _ = weights(torch, p, wide_q[b, h], wide_k[b, kv])
            dv[b, kv] += of_head.T @ wide_d_o[b, h]
            ds = wide_d_o[b, h] @ wide_v[b, kv].T
            ds = of_head.mul_(ds.sub_((of_head * ds).sum(-1, keepdim=True)))
            dq[b, h] = ds @ wide_k[b, kv] * p.d**-0.5
            dk[b, kv] += ds.T @ wide_q[b, h] * p.d**-0.5
        return tuple(p.heads_first(x).to(q.dtype).contiguous() for x in (dq, dk, dv))

    def recorded(backend: str) -> Function:
        """The first call makes the forward pass too, of which autograd remembers what the backward
        pass needs; it is not timed."""
        kept: list[Any] = []

        def call(q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
            if not kept:
                leaves = [x.detach().requires_grad_() for x in (q, k, v)]
                kept.extend((sdpa(torch, p, backend)(*map(p.heads_first, leaves)), leaves))
            o, leaves = kept
            return tuple(
                torch.autograd.grad(o, leaves, p.heads_first(others[-1]), retain_graph=True)
            )

        return call

    rows, keys = p.rows(p.heads, p.queries), p.rows(p.kv_heads, p.keys)
    return Operation(
        lambda size: [rows, keys, keys, rows],
        gradients,
        eager=recorded("FLASH_ATTENTION"),
        cudnn=recorded("CUDNN_ATTENTION"),
        completed=completed, compiled=False,
        summands=lambda size: p.d + max(p.keys, p.queries * p.heads // p.kv_heads),
        roundings=3,  # of the weights or their gradients, of delta's o, of a gradient
    )  # fmt: skip
