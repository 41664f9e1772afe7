#!/usr/bin/env python3
"""Which room may include from which: ROOMS, each with the rooms it may use. A version that runs on
the host executor includes device/ and headers of families, and nothing of the harness.

Usage: includes_test.py [FOLDER]; without a folder this tree, and the test is tested too.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {
    "src/support": [],
    "src/host_executor": ["src/support"],
    "src/device": ["src/host_executor"],
    "src/harness": ["src/device", "src/host_executor", "src/support"],
    "src/kernels": ["src/harness", "src/device", "src/support"],
    "src/library": ["src/harness", "src/device", "src/support"],
    "bench/process": ["src/support"],
    "bench/cli": ["bench/process", "src/harness"],
    "bench/measure": ["bench/cli", "bench/process", "src/harness", "src/host_executor"],
    "bench/report": ["bench/measure", "bench/cli", "bench/process", "src/harness"],
    "bench/explain": ["bench/report", "bench/measure", "bench/cli", "src/harness",
                      "src/host_executor"],
    "bench/asm": ["bench/explain", "bench/cli", "src/harness"],
}  # fmt: skip
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)
SOURCES = (".hpp", ".cpp", ".cu", ".h")


def room_of(path: Path) -> str:
    """The room of a path in the tree; none for what stands beside the rooms."""
    return next((room for room in ROOMS if path.is_relative_to(room)), "")


def included(file: Path, name: str, root: Path) -> Path | None:
    """The included file of the tree, relative to it; none if it is made by the build."""
    for folder in (file.parent, Path("src"), Path("bench")):
        if (root / folder / name).is_file():
            return folder / name
    return None


def runs_on_host(file: Path) -> bool:
    return re.fullmatch(r"v[0-9]+[a-z]?_[a-z0-9_]+\.cu", file.name) is not None


def mistakes(root: Path) -> list[str]:
    found = []
    for room, others in ROOMS.items():
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            file = path.relative_to(root)
            for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                target = included(file, name, root)
                of = room_of(target) if target else room
                if of != room and of not in others:
                    found.append(f"{file} includes {name}: {room} does not use {of or 'bench'}")
                elif runs_on_host(file) and of == "src/harness":
                    found.append(f"{file} includes {name}: a version uses src/device alone")
    return found


def plant(root: Path, file: str, name: str) -> None:
    for path in (file, name):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / file).write_text(f'#include "{name.partition("/")[2]}"\n', encoding="utf-8")


def test_itself() -> None:
    for file, name, word in (
        ("src/device/vector.hpp", "src/harness/check.hpp", "src/device does not use src/harness"),
        ("bench/measure/suite.cpp", "bench/report/csv.hpp", "bench/measure does not use bench/report"),
        ("src/kernels/gemm/v01_naive.cu", "src/harness/family.hpp", "a version uses src/device alone"),
        ("bench/cli/text.cpp", "bench/session.hpp", "bench/cli does not use bench"),
        ("src/kernels/gemm/v01_naive.cu", "src/device/kernel.hpp", ""),
    ):
        with tempfile.TemporaryDirectory() as folder:
            plant(Path(folder), file, name)
            said = mistakes(Path(folder))
            assert (word in said[0] if word else not said), (file, name, said)


def main() -> int:
    if len(sys.argv) == 1:
        test_itself()
    found = mistakes(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    print("\n".join(found) or "Every include goes down.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
