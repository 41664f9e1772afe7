#!/usr/bin/env python3
"""C = A B in numba, by tiles in shared memory; the rung that does the same is
src/kernels/gemm/v03_smem_tile.cu.

numba does for you   compiles a Python function for the types that it is called with
Left to you          all else, as in CUDA C++. The tile's width is a constant here, as a shared array's shape
                     must be; v03 chooses it for each problem
"""

from __future__ import annotations

import torch
from numba import cuda, float32
from tensors import device, launch

WIDTH = 32  # of the tiles; the block is as wide and as tall


@cuda.jit
def _matmul(a, b, c):
    tile_a = cuda.shared.array((WIDTH, WIDTH), float32)
    tile_b = cuda.shared.array((WIDTH, WIDTH), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * WIDTH + y, cuda.blockIdx.x * WIDTH + x
    m, n, k = c.shape[0], c.shape[1], a.shape[1]

    total = float32(0)
    for k0 in range(0, k, WIDTH):
        tile_a[y, x] = a[row, k0 + x] if row < m and k0 + x < k else float32(0)
        tile_b[y, x] = b[k0 + y, col] if k0 + y < k and col < n else float32(0)
        cuda.syncthreads()  # the tiles are complete
        for i in range(WIDTH):
            total += tile_a[y, i] * tile_b[i, x]
        cuda.syncthreads()  # everyone is done with them
    if row < m and col < n:
        c[row, col] = total


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of two matrices, transposed ones too."""
    c = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
    grid = (-(-c.shape[1] // WIDTH), -(-c.shape[0] // WIDTH))
    launch(_matmul, grid, (WIDTH, WIDTH), a, b, c)
    return c


def main() -> None:
    where = device()
    shapes = [(33, 20, 40)] + [(500, 300, 1000)] * (where == "cuda")  # simulated, a block takes a second
    for m, n, k in shapes:
        for dtype in (torch.float32, torch.float16):
            a = torch.randn(m, k, device=where, dtype=dtype)
            b = torch.randn(n, k, device=where, dtype=dtype).T
            expected = (a.float() @ b.float()).to(dtype)
            torch.testing.assert_close(matmul(a, b), expected, atol=1e-3, rtol=1e-3)
    print(f"numba matmul: agrees with PyTorch's, on {where}")


if __name__ == "__main__":
    main()
