#!/usr/bin/env python3
"""y = a + b in numba; the rung that does the same is src/kernels/elementwise/v01_naive.cu.

numba does for you   compiles a Python function for the types that it is called with
Left to you          all else, as in CUDA C++: the grid, the thread's element, the bound
"""

from __future__ import annotations

import torch
from numba import cuda
from tensors import device, launch

BLOCK = 256


@cuda.jit
def _add(a, b, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a[i] + b[i]


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of contiguous tensors of one shape."""
    y = torch.empty_like(a)
    launch(_add, -(-y.numel() // BLOCK), BLOCK, a.view(-1), b.view(-1), y.view(-1))
    return y


def main() -> None:
    where = device()
    for n in (1, 256, 1009):
        for dtype in (torch.float32, torch.float16):
            a, b = (torch.randn(n, device=where, dtype=dtype) for _ in range(2))
            torch.testing.assert_close(add(a, b), a + b)
    print(f"numba add: agrees with PyTorch's, on {where}")


if __name__ == "__main__":
    main()
