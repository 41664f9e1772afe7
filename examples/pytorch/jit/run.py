#!/usr/bin/env python3
"""The JIT way: torch.utils.cpp_extension.load compiles add.cu and softmax.cu when this program runs, and
again only when they have changed."""

import os
import sys
from pathlib import Path

try:
    import torch
    from torch.utils import cpp_extension
except ImportError:
    sys.exit("PyTorch is missing here: pip install torch")

HERE = Path(__file__).resolve().parent


def main() -> None:
    if torch.version.cuda is None:
        sys.exit("this PyTorch was built without CUDA: install one with it")
    if cpp_extension.CUDA_HOME is None:
        sys.exit(f"nvcc is missing here: install the toolkit of CUDA {torch.version.cuda}, as PyTorch's, and "
                 "set CUDA_HOME if it is not in /usr/local/cuda")  # fmt: skip
    if not cpp_extension.is_ninja_available():
        sys.exit("ninja is missing here: pip install ninja")
    if not torch.cuda.is_available():  # or load() compiles for the GPUs that it finds
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "8.0+PTX")

    # No Python module: the operators register themselves, and are called as torch.ops.my_ops.*
    sources = [str(HERE / name) for name in ("add.cu", "softmax.cu")]
    cpp_extension.load("my_ops", sources, extra_cuda_cflags=["-O3"], is_python_module=False)
    import register  # noqa: F401
    from check import check_what_is_here

    check_what_is_here("JIT")


if __name__ == "__main__":
    main()
