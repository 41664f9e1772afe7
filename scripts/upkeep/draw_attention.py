#!/usr/bin/env python3
"""Draws what versions of attention do, for src/kernels/attention/README.md.

The drawings are SVG files as those of draw_gemm, computed from the numbers and formulas of the
kernels; ctest checks that those still stand there.

examples:
  scripts/upkeep/draw_attention.py              into src/kernels/attention/drawings
  scripts/upkeep/draw_attention.py -o /tmp      into another folder
"""

from __future__ import annotations

from drawings import attention  # noqa: F401  for what they draw
from drawings.command import main

if __name__ == "__main__":
    main("attention", __doc__)
