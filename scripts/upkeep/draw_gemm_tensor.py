#!/usr/bin/env python3
"""Draws what versions of gemm_tensor do, for src/kernels/gemm_tensor/README.md.

The drawings are SVG files as those of draw_gemm, computed from the numbers and formulas of the
kernels; ctest checks that those still stand there.

examples:
  scripts/upkeep/draw_gemm_tensor.py              into src/kernels/gemm_tensor/drawings
  scripts/upkeep/draw_gemm_tensor.py -o /tmp      into another folder
"""

from __future__ import annotations

from drawings import gemm_tensor  # noqa: F401  for what they draw
from drawings.command import main

if __name__ == "__main__":
    main("gemm_tensor", __doc__)
