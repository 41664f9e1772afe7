#!/usr/bin/env python3
"""Uses the library that CMakeLists.txt makes: cmake -B build && cmake --build build"""

import sys
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("PyTorch is missing here: pip install torch")

LIBRARY = Path(__file__).resolve().parent / "my_ops.so"


def main() -> None:
    if not LIBRARY.exists():
        sys.exit("my_ops.so is not built: cmake -B build && cmake --build build")
    torch.ops.load_library(LIBRARY)
    import register  # noqa: F401
    from check import check_what_is_here

    check_what_is_here("CMake")


if __name__ == "__main__":
    main()
