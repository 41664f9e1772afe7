"""PyTorch's tensors as the arguments of numba's kernels."""

from __future__ import annotations

import sys
from typing import Any

import torch
from numba import config, cuda


def launch(kernel: Any, grid: Any, block: Any, *arguments: Any) -> None:
    """On PyTorch's current stream; in the simulator, on the memory of CPU tensors."""
    if any(x.dtype == torch.bfloat16 for x in arguments if isinstance(x, torch.Tensor)):
        raise NotImplementedError("numba takes no bfloat16 from PyTorch")
    if config.ENABLE_CUDASIM:
        kernel[grid, block](*(x.numpy() if isinstance(x, torch.Tensor) else x for x in arguments))
    else:  # a tensor has a __cuda_array_interface__
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        kernel[grid, block, stream](*arguments)


def device() -> str:
    """Where the examples run."""
    if config.ENABLE_CUDASIM:
        return "cpu"
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here: with NUMBA_ENABLE_CUDASIM=1 this runs on the CPU")
    if not cuda.is_available():
        sys.exit("numba finds no GPU; for CUDA 13 it wants pip install 'numba-cuda[cu13]'")
    return "cuda"
