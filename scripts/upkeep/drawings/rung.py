"""The drawings that there are, and the lines of the kernels that they rely on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from drawings.picture import Picture


@dataclass(frozen=True)
class Rung:
    name: str  # of the version
    alt: str  # says what is seen
    code: tuple[str, ...]  # stands in the kernel's file, and is what the drawing shows
    draw: Callable[[], Picture]


RUNGS: dict[str, Rung] = {}


def rung(name: str, alt: str, *code: str) -> Callable[[Callable[[], Picture]], None]:
    def register(draw: Callable[[], Picture]) -> None:
        assert name not in RUNGS, f"{name} is drawn twice"
        RUNGS[name] = Rung(name, alt, code, draw)

    return register
