#!/usr/bin/env python3
"""Draws what the versions of reduction do, for src/kernels/reduction/README.md, as draw_gemm does for gemm.

examples:
  scripts/upkeep/draw_reduction.py              into src/kernels/reduction/drawings
  scripts/upkeep/draw_reduction.py -o /tmp      into another folder
"""

from __future__ import annotations

from drawings import reduction  # noqa: F401  for what it draws
from drawings.command import main

if __name__ == "__main__":
    main("reduction", __doc__)
