"""The kernels of Kernel Ladder for PyTorch.

    import torch, kernel_ladder
    y = kernel_ladder.ops.softmax(x)                        # torch.ops.kernel_ladder.softmax
    c = kernel_ladder.version("gemm/f32/v05_tile2d")(a, b)  # any version by its name

CUDA tensors run on their device's current stream; CPU tensors run on the host executor, which
carries out the same kernels thread by thread, slowly: for trying, testing and explaining without a
GPU.
"""

from pathlib import Path

import torch

# libkernel_ladder.so lies beside it.
torch.ops.load_library(Path(__file__).with_name("libkernel_ladder_torch.so"))

from . import _register, nn, ops  # noqa: E402, F401
from ._explain import Explained, Explanation, explain  # noqa: E402
from ._profile import Profiled, profile  # noqa: E402
from ._versions import Version, version, versions  # noqa: E402
from ._patch import Patched, patch  # noqa: E402

__all__ = [
    "Explained", "Explanation", "Patched", "Profiled", "Version",
    "explain", "nn", "ops", "patch", "profile", "version", "versions",
]  # fmt: skip
