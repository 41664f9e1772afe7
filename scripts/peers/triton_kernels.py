"""Short Triton kernels for some of the operations, as a reader of Triton's tutorials would write
them: no autotuning, a program per row, per tile or per block of elements. The first ones are those of
examples/. Needs torch and triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from peers.examples import example

add = example("triton", "add")
softmax = example("triton", "softmax")
matmul = example("triton", "matmul")

BLOCK = 4096  # elements per program
SUMS = 1024  # programs of a sum's first launch


@triton.jit
def _gelu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n).to(tl.float32)
    tl.store(y + i, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)), i < n)


def gelu(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _gelu[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK)
    return y


@triton.jit
def _sum(x, sums, n, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    total = tl.zeros((BLOCK,), sums.dtype.element_ty)
    for start in range(first, n, step):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + i, i < n, 0).to(total.dtype)
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


def sum(x: torch.Tensor) -> torch.Tensor:
    narrow = x.dtype in (torch.float16, torch.bfloat16)
    like = {"dtype": torch.float32 if narrow else x.dtype, "device": x.device}
    parts = torch.empty(min(SUMS, triton.cdiv(x.numel(), BLOCK)), **like)
    y = torch.empty((), **like)
    _sum[(parts.numel(),)](x, parts, x.numel(), BLOCK)
    _sum[(1,)](parts, y, parts.numel(), SUMS)
    return y


def _row_launch(x: torch.Tensor) -> dict[str, int]:
    """A program holds a whole row in registers."""
    block = triton.next_power_of_2(x.shape[1])
    return {"BLOCK": block, "num_warps": min(max(block // 512, 4), 32)}


@triton.jit
def _layernorm(x, weight, bias, y, cols, EPSILON: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * cols + c
    v = tl.load(x + at, c < cols, 0).to(tl.float32)
    v = tl.where(c < cols, v - tl.sum(v, 0) / cols, 0)
    r = 1 / tl.sqrt(tl.sum(v * v, 0) / cols + EPSILON)
    w = tl.load(weight + c, c < cols).to(tl.float32)
    b = tl.load(bias + c, c < cols).to(tl.float32)
    tl.store(y + at, v * r * w + b, c < cols)


def layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _layernorm[(x.shape[0],)](x, weight, bias, y, x.shape[1], 1e-5, **_row_launch(x))
    return y


@triton.jit
def _rmsnorm(x, weight, y, cols, EPSILON: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * cols + c
    v = tl.load(x + at, c < cols, 0).to(tl.float32)
    r = 1 / tl.sqrt(tl.sum(v * v, 0) / cols + EPSILON)
    w = tl.load(weight + c, c < cols).to(tl.float32)
    tl.store(y + at, v * r * w, c < cols)


def rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _rmsnorm[(x.shape[0],)](x, weight, y, x.shape[1], 1e-5, **_row_launch(x))
    return y
