#!/usr/bin/env python3
"""Softmax over rows in numba; the rung that does the same is src/kernels/softmax/v02_smem_tree.cu: a block
per row, whose threads' maxima and sums meet in a tree in shared memory.

numba does for you   compiles a Python function for the types that it is called with; a function that
                     makes functions, block_reduce, is its template
Left to you          all else, as in CUDA C++: shared memory, barriers, what each thread does; and the types:
                     Python's 0.0 is a double, and what is added to it becomes one. The simulator has no
                     warp shuffles, with which v03 goes on
"""

from __future__ import annotations

import math
from typing import Any

import torch
from numba import cuda, float32
from tensors import device, launch

BLOCK = 256  # a power of two: the tree halves it until one thread is left


@cuda.jit(device=True)
def _larger(a, b):
    return a if a > b else b


@cuda.jit(device=True)
def _sum(a, b):
    return a + b


def block_reduce(combine: Any) -> Any:
    """A function that combines the values of a block's threads; all of them get the result."""

    @cuda.jit(device=True)
    def reduce(value, tree):
        t = cuda.threadIdx.x
        tree[t] = value
        cuda.syncthreads()
        half = BLOCK // 2
        while half > 0:
            if t < half:
                tree[t] = combine(tree[t], tree[t + half])
            cuda.syncthreads()
            half //= 2
        return tree[0]

    return reduce


_max_of_block, _sum_of_block = block_reduce(_larger), block_reduce(_sum)


@cuda.jit
def _softmax(x, y):
    max_tree = cuda.shared.array(BLOCK, float32)
    sum_tree = cuda.shared.array(BLOCK, float32)
    row, t, cols = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]

    largest = float32(-math.inf)
    for c in range(t, cols, BLOCK):
        largest = _larger(largest, float32(x[row, c]))
    largest = _max_of_block(largest, max_tree)
    total = float32(0)
    for c in range(t, cols, BLOCK):
        total += math.exp(float32(x[row, c]) - largest)
    scale = float32(1) / _sum_of_block(total, sum_tree)
    for c in range(t, cols, BLOCK):
        y[row, c] = math.exp(float32(x[row, c]) - largest) * scale


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Of a matrix."""
    y = torch.empty_like(x)
    launch(_softmax, x.shape[0], BLOCK, x, y)
    return y


def main() -> None:
    where = device()
    for shape in ((1, 1), (3, 300)):
        for dtype in (torch.float32, torch.float16):
            x = 4 * torch.randn(shape, device=where, dtype=dtype)
            torch.testing.assert_close(softmax(x), x.softmax(-1))
    print(f"numba softmax: agrees with PyTorch's, on {where}")


if __name__ == "__main__":
    main()
