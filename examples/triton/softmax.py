#!/usr/bin/env python3
"""Softmax over rows in Triton; the rung that does the same is src/kernels/softmax/v06_fast_exp.cu: a row
stays in registers between the passes, as many warps share it as its length wants, and exp is ex2.approx.

Triton does for you   the reductions, by shuffles and shared memory, and their barriers; 128-bit accesses
Left to you           how many warps. A row is padded to a power of two, so that one of 4097 elements
                      costs the registers of 8192; v06 reads what does not fit twice
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax(x, y, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * cols + c
    v = tl.load(x + at, c < cols, -float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + at, e / tl.sum(e, 0), c < cols)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Of a contiguous matrix."""
    y = torch.empty_like(x)
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    _softmax[(rows,)](x, y, cols, block, num_warps=min(max(block // 512, 4), 32))
    return y


def main() -> None:
    if not torch.cuda.is_available() and not triton.knobs.runtime.interpret:
        sys.exit("PyTorch finds no GPU here: with TRITON_INTERPRET=1 this runs on the CPU")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for shape in ((1, 1), (3, 257), (5, 4096)):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            x = 4 * torch.randn(shape, device=device, dtype=dtype)
            torch.testing.assert_close(softmax(x), x.softmax(-1))
    print(f"triton softmax: agrees with PyTorch's, on {device}")


if __name__ == "__main__":
    main()
