"""What scripts/upkeep/draw_*.py have in common."""

from __future__ import annotations

import argparse
from pathlib import Path

from drawings.rung import RUNGS

ROOT = Path(__file__).resolve().parents[3]


def main(family: str, text: str | None) -> None:
    """Makes the drawings of a family."""
    draw(ROOT / "src" / "kernels" / family / "drawings", text)


def draw(default: Path, text: str | None) -> None:
    """Makes the drawings that are in RUNGS. text: the script's, for --help."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="folder", type=Path, default=default, help="where they go")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for rung in RUNGS.values():
        svg = rung.draw().svg(rung.alt)
        (folder / f"{rung.name}.svg").write_text(svg, encoding="utf-8")
