#!/usr/bin/env python3
"""Draws what the versions of transpose do, for src/kernels/transpose/README.md, as draw_gemm does for gemm.

examples:
  scripts/upkeep/draw_transpose.py              into src/kernels/transpose/drawings
  scripts/upkeep/draw_transpose.py -o /tmp      into another folder
"""

from __future__ import annotations

from drawings import transpose  # noqa: F401  for what it draws
from drawings.command import main

if __name__ == "__main__":
    main("transpose", __doc__)
