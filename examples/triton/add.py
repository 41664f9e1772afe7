#!/usr/bin/env python3
"""y = a + b in Triton; the rung that does the same is src/kernels/elementwise/v04_in_flight.cu.

Triton does for you   spreads a block of elements over threads, makes 128-bit accesses of neighbours,
                      and issues a thread's loads before its first store
Left to you           the block's size, and the mask at the end
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl

BLOCK = 4096  # elements of a program


@triton.jit
def _add(a, b, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(a + i, inside).to(tl.float32) + tl.load(b + i, inside).to(tl.float32)
    tl.store(y + i, total, inside)


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of contiguous tensors of one shape."""
    y = torch.empty_like(a)
    _add[(triton.cdiv(a.numel(), BLOCK),)](a, b, y, a.numel(), BLOCK)
    return y


def main() -> None:
    if not torch.cuda.is_available() and not triton.knobs.runtime.interpret:
        sys.exit("PyTorch finds no GPU here: with TRITON_INTERPRET=1 this runs on the CPU")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for n in (1, 4096, 10007):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            a, b = (torch.randn(n, device=device, dtype=dtype) for _ in range(2))
            torch.testing.assert_close(add(a, b), a + b)
    print(f"triton add: agrees with PyTorch's, on {device}")


if __name__ == "__main__":
    main()
