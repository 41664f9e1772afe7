#!/usr/bin/env python3
"""Draws what the versions of softmax do, for src/kernels/softmax/README.md, as draw_gemm does for gemm.

examples:
  scripts/upkeep/draw_softmax.py              into src/kernels/softmax/drawings
  scripts/upkeep/draw_softmax.py -o /tmp      into another folder
"""

from __future__ import annotations

from drawings import softmax  # noqa: F401  for what it draws
from drawings.command import main

if __name__ == "__main__":
    main("softmax", __doc__)
