"""Kernels in numba: those of examples/. Needs torch and numba."""

from __future__ import annotations

from numba import cuda

from peers.examples import example

if not cuda.is_available():
    raise ImportError("numba finds no GPU; for CUDA 13 it wants pip install 'numba-cuda[cu13]'")

add = example("numba", "add")
softmax = example("numba", "softmax")
matmul = example("numba", "matmul")
