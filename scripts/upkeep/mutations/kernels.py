"""The versions that run on the host executor, and the files that they are made of."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "src"
# What the host executor puts in the place of a header of the GPU's
REPLACED = re.compile(r"(device/ptx|host_executor|harness)/")


@cache
def versions() -> list[Path]:
    """The files of versions that run on the host executor, relative to src/."""
    found = sorted(SOURCES.glob("kernels/*/v*.cu"))
    return [f.relative_to(SOURCES) for f in found if ".gpu." not in f.name]


def name_of(version: Path) -> str:
    return version.name.removesuffix(".cu").removesuffix(".sm90a")


@cache
def includes(file: Path) -> list[Path]:
    """What a file includes itself of this tree."""
    found = []
    for name in re.findall(r'^\s*#include "([^"]+)"', (SOURCES / file).read_text(), re.MULTILINE):
        for path in (file.parent / name, Path(name)):
            if (SOURCES / path).is_file() and not REPLACED.match(str(path)):
                found.append(path)
                break
    return found


@cache
def made_of(file: Path) -> frozenset[Path]:
    """A file and what it includes, by others too."""
    return frozenset([file]).union(*(made_of(i) for i in includes(file)))


@cache
def versions_with(file: Path) -> list[Path]:
    return [v for v in versions() if file in made_of(v)]


def launching(version: Path) -> list[Path]:
    """The versions of other families that call the launchers which a version instantiates for them."""
    text = (SOURCES / version).read_text()
    names = re.findall(r"^ *template \S+ (\w+)<\w+>\(", text, re.MULTILINE)
    declared = {f for f in made_of(version) if f.name == "launchers.hpp"}
    return [
        v for v in versions() if v.parent != version.parent and declared & made_of(v)
        and any(f"{name}<{v.parent.name}" in (SOURCES / v).read_text() for name in names)
    ]  # fmt: skip


@cache
def linked_with(family: Path) -> frozenset[Path]:
    """The folders of a family and of those that its versions include headers of, and so may launch."""
    files = frozenset().union(*(made_of(v) for v in versions() if v.parent == family))
    return frozenset(f.parent for f in files)


def files() -> list[Path]:
    """All that have device code, of the versions and of the headers that they share."""
    everything = frozenset().union(*(made_of(v) for v in versions()))
    return sorted(f for f in everything if f not in made_of(Path("device/kernel.hpp")))
