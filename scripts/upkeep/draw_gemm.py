#!/usr/bin/env python3
"""Draws what each version of gemm does, for src/kernels/gemm/README.md.

The drawings are SVG files that suit light and dark pages; they need no package to be made. They are
computed from the numbers and formulas of the kernels; ctest checks that those still stand there.

examples:
  scripts/upkeep/draw_gemm.py              into src/kernels/gemm/drawings
  scripts/upkeep/draw_gemm.py -o /tmp      into another folder
"""

from __future__ import annotations

from drawings import gemm_blocks, gemm_memory, gemm_time  # noqa: F401  for what they draw
from drawings.command import main

if __name__ == "__main__":
    main("gemm", __doc__)
