#!/usr/bin/env python3
"""What ptxas makes of the kernels with wgmma: the tensor cores' instructions, which run while the
warps go on, and no spills.

ptxas only warns where it can't keep products running side by side, or where it ignores a register
budget, and the kernels are right then but slow. So ptxas is given the PTX of every such kernel file
once more, and what it says is read. Where there is a disassembler, too, every kernel must have as
many products in machine code as in PTX, or more where loops are unrolled: HGMMA, QGMMA of fp8, and
IGMMA of integers.

usage: wgmma_code_test.py COMPILE_COMMANDS     exits with 77 where there is no nvcc
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator

import skips

from nvcc_outputs import built, compiled, disassembled

ROOT = Path(__file__).resolve().parent.parent

# C7507, C7508: a register budget is ignored. From C7510 on: products wait for each other.
ADVICE = re.compile(r"\(C75\d\d\).*")


def uses_wgmma(path: Path) -> bool:
    """Itself, or in the family's headers that it includes."""
    text = path.read_text(encoding="utf-8")
    headers = [path.parent / name for name in re.findall(r'#include "(\w+\.hpp)"', text)]
    return re.search(r"\bwgmma<", text) is not None or any(map(uses_wgmma, headers))


def complaints(messages: str) -> Iterator[str]:
    """Of ptxas."""
    yield from ADVICE.findall(messages)
    for count in re.findall(r"(\d+) bytes spill stores", messages):
        if int(count):
            yield f"{count} bytes of registers are spilled"


MACHINE = {"e4m3": "QGMMA", "e5m2": "QGMMA", "s8": "IGMMA", "u8": "IGMMA"}  # else HGMMA


def products_in_ptx(ptx: str) -> dict[str, Counter[str]]:
    """By kernel, the machine instructions that its products are to become."""
    found: dict[str, Counter[str]] = {}
    for kernel in re.split(r"\n\s*(?:\.visible )?(?=\.entry )", ptx)[1:]:
        name = re.match(r"\.entry (\w+)", kernel)[1]
        types = re.findall(r"wgmma\.mma_async\.sync\.aligned\.\w+\.[fs]32\.(\w+)", kernel)
        found[name] = Counter(MACHINE.get(t, "HGMMA") for t in types)
    return found


def products_in_sass(sass: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for kernel in re.split(r"\n(?=\.text\.\w+:)", sass)[1:]:
        name = re.match(r"\.text\.(\w+):", kernel)[1]
        found[name] = Counter(re.findall(r"\b([HIQ]GMMA)\.", kernel))
    return found


def missing(ptx: str, sass: str) -> Iterator[str]:
    made = products_in_sass(sass)
    for kernel, wanted in products_in_ptx(ptx).items():
        for instruction, count in wanted.items():
            if made.get(kernel, Counter())[instruction] < count:
                has = made.get(kernel, Counter())[instruction]
                yield f"{kernel} has {has} {instruction} for {count} wgmma"


def check(entry: dict[str, str], nvdisasm: str | None) -> list[str]:
    ptx = built(entry).ptx or compiled(entry, False).ptx
    nvcc = Path(shutil.which(shlex.split(entry["command"])[0]))
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        made = subprocess.run(
            [nvcc.with_name("ptxas"), "-arch=sm_90a", "-v", source, "-o", cubin],
            check=True, text=True, stderr=subprocess.PIPE,
        )  # fmt: skip
        found = list(complaints(made.stderr))
        if not any(products_in_ptx(ptx).values()):
            found.append("no kernel has wgmma in PTX")
        if nvdisasm:
            found += missing(ptx, disassembled(cubin.read_bytes(), nvdisasm))
    return [f"{os.path.relpath(entry['file'], ROOT)}: {each}" for each in found]


def main() -> int:
    entries = [
        entry
        for entry in json.loads(Path(sys.argv[1]).read_text())
        if re.search(r"/src/kernels/\w+/v\w+\.sm90a\.cu$", entry["file"])
        and "LADDER_HOST_EXECUTOR" not in entry["command"]
        and uses_wgmma(Path(entry["file"]))
    ]
    nvcc = shlex.split(entries[0]["command"])[0] if entries else None
    if nvcc is None or shutil.which(nvcc) is None:
        skips.whole("no kernel with wgmma is compiled by nvcc here")
    nvdisasm = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=str(Path(nvcc).parent))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [each for part in pool.map(lambda e: check(e, nvdisasm), entries) for each in part]
    for each in found:
        print(each)
    outputs = "PTX and SASS" if nvdisasm else "PTX, and no nvdisasm to look at SASS with"
    print(f"{len(entries)} kernel files with wgmma, {outputs}: {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
