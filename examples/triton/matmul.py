#!/usr/bin/env python3
"""C = A B in Triton, by tiles; the rung that does the same is src/kernels/gemm_tensor/v03_cp_async.cu, and
for float32 without tensor cores src/kernels/gemm/v13_multistage.cu.

Triton does for you   everything inside of a tile: shared memory and its swizzle, the pipeline of cp.async
                      with its stages, fragments, mma.sync or, on Hopper, wgmma
Left to you           the tile, the stages and the warps; the order of tiles, in bands whose operands stay
                      in the L2; masks. TMA, clusters and warp specialisation (v12 to v14) it has, too, but
                      you must ask for them
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl

BM, BN = 128, 128  # the tile of C
K_BYTES = 128  # the depth of a K-tile: a cache line
BAND = 8  # tiles


@triton.jit
def _matmul(
    a, b, c, m, n, k, a_row, a_col, b_row, b_col, PRECISION: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, BAND: tl.constexpr,
):  # fmt: skip
    # Programs that run at once are neighbours in a band of BAND rows of tiles.
    pid, tiles_n = tl.program_id(0), tl.cdiv(n, BN)
    first = pid // (BAND * tiles_n) * BAND
    height = min(tl.cdiv(m, BM) - first, BAND)
    in_band = pid % (BAND * tiles_n)
    i = ((first + in_band % height) * BM + tl.arange(0, BM)).to(tl.int64)[:, None]
    j = (in_band // height * BN + tl.arange(0, BN)).to(tl.int64)[None, :]

    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, k, BK):
        p = k0 + tl.arange(0, BK)
        row, col = p[:, None], p[None, :]
        tile_a = tl.load(a + i * a_row + col * a_col, (i < m) & (col < k), 0)
        tile_b = tl.load(b + row * b_row + j * b_col, (row < k) & (j < n), 0)
        acc = tl.dot(tile_a, tile_b, acc, input_precision=PRECISION)
    tl.store(c + i * n + j, acc, (i < m) & (j < n))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of two matrices, transposed ones too. Whether float32 is multiplied as tf32 PyTorch's setting says."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device, dtype=a.dtype)
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    _matmul[(triton.cdiv(m, BM) * triton.cdiv(n, BN),)](
        a, b, c, m, n, k, *a.stride(), *b.stride(), precision, BM, BN, K_BYTES // a.element_size(), BAND,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return c


def main() -> None:
    if not torch.cuda.is_available() and not triton.knobs.runtime.interpret:
        sys.exit("PyTorch finds no GPU here: with TRITON_INTERPRET=1 this runs on the CPU")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtypes = [torch.float32, torch.float16]
    dtypes += [torch.bfloat16] * (device == "cuda")  # whose bits the interpreter would multiply
    for m, n, k in ((1, 1, 1), (37, 45, 100), (1300, 200, 70)):
        for dtype in dtypes:
            a = torch.randn(m, k, device=device, dtype=dtype)
            b = torch.randn(n, k, device=device, dtype=dtype).T
            expected = (a.float() @ b.float()).to(dtype)
            torch.testing.assert_close(matmul(a, b), expected, atol=1e-3, rtol=2e-2)
    print(f"triton matmul: agrees with PyTorch's, on {device}")


if __name__ == "__main__":
    try:
        main()
    except triton.runtime.errors.InterpreterError as error:
        sys.exit(f"Triton's interpreter: {error}. That of Triton 3.6 wants pip install 'numpy<2.4'")
