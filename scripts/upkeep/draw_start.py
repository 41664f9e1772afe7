#!/usr/bin/env python3
"""Draws the picture of docs/start.md, an SVG file as those of draw_gemm.

examples:
  scripts/upkeep/draw_start.py              into docs
  scripts/upkeep/draw_start.py -o /tmp      into another folder
"""

from __future__ import annotations

from drawings import start  # noqa: F401  for what it draws
from drawings.command import ROOT, draw

if __name__ == "__main__":
    draw(ROOT / "docs", __doc__)
