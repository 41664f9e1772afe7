#!/usr/bin/env python3
"""Holds the widths of the memory accesses that the host executor counts against nvcc's.

The host executor counts the source as written; nvcc may merge scalar neighbours into one vector
access, or split a vector. So line by line the widths of a kernel's loads and stores (bytes per
lane) must be those that `./bench --explain=json` counted: in the PTX, and in the machine code too
where nvdisasm is installed, because ptxas also merges. Both are taken from the object files. What
is not there (a build for `native` or `90-real` has no PTX) is compiled once more.

usage: access_widths_test.py BENCH COMPILE_COMMANDS     exits with 77 where there is no nvcc
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator, NamedTuple

import skips

from nvcc_outputs import built, compiled, disassembled

ROOT = Path(__file__).resolve().parent.parent


class Place(NamedTuple):
    """Where a kernel touches memory, and how."""

    file: str  # of the source, relative to ROOT
    line: int  # 0 where the compiler does not tell
    space: str  # global, shared; generic where nvcc could not tell
    access: str  # load, store, atomic, async

    @property
    def kind(self) -> tuple[str, str]:
        return self.space, self.access

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.space} {self.access}"


Widths = defaultdict[Place, set[int]]
Frame = tuple[str, int]


def place(frames: list[Frame], kernel: str, space: str, access: str) -> Place:
    """The innermost frame in the kernel's file, or else in another of the kernels' files; as the
    host executor attributes its counts."""
    inside = [f for f in frames if f[1] and f[0].startswith("src/kernels/")]
    chosen = next((f for f in inside if f[0] == kernel), inside[0] if inside else (kernel, 0))
    return Place(*chosen, space, access)


def relative(path: str) -> str:
    return os.path.relpath(path, ROOT)


# ---- What the host executor counted


# Small problems, as a width is the same in all of them, that take every branch of the kernels.
SMALL = [
    "--attention=1x1x2x64", "--elementwise=33x41,2056", "--gemm=64x64x64,33x35x37,4x128x70",
    "--gemm_tensor=64x64x64,143x271x80", "--layernorm=3x100,3x103,2x2048",
    "--matrix_reduction=37x131,33x520,8x1024", "--reduction=16391",
    "--rmsnorm=3x100,3x103,2x2048", "--softmax=4x100,3x1031", "--transpose=64x64,65x130",
]  # fmt: skip
# Of the 16-bit types one is enough: their elements lie in the same places.
NO_F16 = "--dtype=f32,bf16,tf32,e4m3,e5m2,e2m1,f64,i4,i8,i32,i64,u8,u32,u64"
# Each a process, those that take longest first.
RUNS = [
    # Both head sizes, keys in groups, rows of keys that are not used, pages.
    ["--benchmark_filter=attention/.*bf16", "--attention=1x1x40:70x128,1x4:2x1:70x64@page16"],
    ["--benchmark_filter=attention/.*bf16", "--attention=1x2:1x8:70x64,2x1x1..70x64"],
    *([f"--benchmark_filter=^{one[2:].split('=')[0]}/", one, NO_F16] for one in SMALL),
    # What has no other 16-bit type.
    ["--benchmark_filter=gemm_tensor/.*/f16/v02|^reduction/.*/f16/v15",
     "--gemm_tensor=64x64x64,143x271x80", "--reduction=16391"],
    ["--benchmark_filter=^roofs/"],
    # Rows that are not held as a whole.
    ["--benchmark_filter=layernorm/(add/)?(f32|bf16)", "--layernorm=1x33000,1x33001"],
    ["--benchmark_filter=rmsnorm/(add/)?(f32|bf16)", "--rmsnorm=1x33000,1x33001"],
    ["--benchmark_filter=rmsnorm/(f32|bf16)/v14", "--rmsnorm=1x524289"],  # the whole GPU's
    ["--benchmark_filter=rmsnorm/backward/(f32|bf16)/v36", "--rmsnorm=1x98312,1x98305"],  # likewise
    ["--benchmark_filter=^softmax/f32", "--softmax=3x2048"],  # whole vectors, a block for a row
    # Several short rows in a warp: whole vectors, and not.
    ["--benchmark_filter=short_rows|row_short|rmsnorm/.*by_shape", "--layernorm=9x31,9x32",
     "--rmsnorm=9x31,9x32", "--softmax=9x31,9x32", "--matrix_reduction=9x31,9x32"],
    # Rows that warps share, whole vectors and not.
    ["--benchmark_filter=layernorm/backward/.*split_rows", "--layernorm=9x103,9x104"],
    # Whole rows and parts of rows; parts of short and of long columns.
    ["--benchmark_filter=row_split", "--matrix_reduction=3x40001,20x1501,20x4001"],
    ["--benchmark_filter=col_any", "--matrix_reduction=601x127,600x256,200x520,200x521"],
    # Rows that start anywhere, or at whole vectors and end anywhere; tall and wide narrow matrices.
    ["--benchmark_filter=transpose/.*/v0[789]", "--transpose=133x65,68x132,301x9,9x301,304x8,8x304"],
    ["--benchmark_filter=gemm/f32/v16", "--gemm=4x128x300,3x77x300,300x4x1100"],  # parts of K
    ["--benchmark_filter=gemm/f32/v18", "--gemm=100x77x300"],  # cut tiles
    # Rows that are not aligned; a cluster; a copy of B, runs and cut tiles; a second launch.
    ["--benchmark_filter=gemm/f32/v20",
     "--gemm=127x129x65,36x40x777,260x142x800,40x36x2048"],
]


def counted(bench: str, workers: ThreadPoolExecutor) -> dict[str, Widths]:
    """By kernel file."""

    def run(flags: list[str]) -> bytes:
        command = [bench, "--backend=host", "--explain=json", *flags]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout

    kernels: dict[str, Widths] = {}
    for output in workers.map(run, RUNS):
        for row in json.loads(output):
            widths = kernels.setdefault(relative(row["file"]), defaultdict(set))
            for line in row["lines"]:
                if line["access"] not in {*ACCESS.values(), "async"} or line["space"] == "cluster":
                    continue  # stmatrix and what goes to the cluster, each of one width
                at = Place(relative(line["file"]), line["line"], line["space"], line["access"])
                widths[at].add(line["width"])
    return kernels


def by_place(kernels: dict[str, Widths]) -> Widths:
    """What any kernel does there: in headers, and in versions whose launcher others call."""
    all_of_them: Widths = defaultdict(set)
    for widths in kernels.values():
        for at in widths:
            all_of_them[at] |= widths[at]
    return all_of_them


# ---- What nvcc made


LOC = re.compile(r"\s*\.loc\s+(\d+) (\d+) (\d+)(?:.* inlined_at (\d+) (\d+) (\d+))?")
ROW_OF_MATRIX = 16  # bytes that a lane of ldmatrix reads
ACCESS = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic"}


def in_ptx(text: str, kernel: str) -> Widths:
    files = {n: relative(path) for n, path in re.findall(r'\.file\s+(\d+)\s+"(.+?)"', text)}
    chains: dict[tuple[str, str, str], list[Frame]] = {}  # by file, line and column
    frames: list[Frame] = []
    widths: Widths = defaultdict(set)
    for line in text.splitlines():
        if loc := LOC.match(line):
            at, by = loc.group(1, 2, 3), loc.group(4, 5, 6)
            outer = chains.get(by, [(files[by[0]], int(by[1]))]) if by[0] else []
            frames = chains[at] = [(files[at[0]], int(at[1])), *outer]
            continue
        found = re.match(
            r"\s*(?:@!?%?\w+\s+)?(ld|st|atom|red|ldmatrix|cp\.async)(\.[\w.:]+)\s+(.*);", line
        )
        if found is None:
            continue
        operation, parts = found[1].partition(".")[0], found[2].replace("::", ".").split(".")
        if operation == "cp":
            size = found[3].split(",")[2:3]
            if size and "bulk" not in parts:
                widths[place(frames, kernel, "global", "load")].add(int(size[0]))
                widths[place(frames, kernel, "shared", "async")].add(int(size[0]))
            continue
        if operation == "ldmatrix":
            widths[place(frames, kernel, "shared", "load")].add(ROW_OF_MATRIX)
            continue
        if {"param", "local", "const", "cluster"} & set(parts):
            continue
        space = next((p for p in parts if p in ("global", "shared")), "generic")
        count = next((int(p[1:]) for p in parts if re.fullmatch(r"v\d", p)), 1)
        bits = next(int(b[1]) for p in reversed(parts) if (b := re.fullmatch(r"b?[bfsu](\d+)", p)))
        if parts[-1].endswith("x2"):
            bits = 32
        at = place(frames, kernel, space, ACCESS[operation])
        widths[at].add(count * bits // 8)
    return widths


OPCODES = {
    "LD": [("generic", "load")], "LDG": [("global", "load")], "LDS": [("shared", "load")],
    "ST": [("generic", "store")], "STG": [("global", "store")], "STS": [("shared", "store")],
    "ATOMG": [("global", "atomic")], "RED": [("global", "atomic")], "REDG": [("global", "atomic")],
    "ATOMS": [("shared", "atomic")], "LDGSTS": [("global", "load"), ("shared", "async")],
    "LDSM": [("shared", "load")],
}  # fmt: skip
SIZES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


def in_sass(text: str, kernel: str) -> Widths:
    frames: list[Frame] = []
    more = False  # frames of the same instruction
    widths: Widths = defaultdict(set)
    for line in text.splitlines():
        if loc := re.match(r'\s*//## File "(.+?)", line (\d+)', line):
            frames = frames * more + [(relative(loc[1]), int(loc[2]))]
            more = True
        elif code := re.match(r"\s*/\*\w+\*/\s+(?:@!?U?P\w+\s+)?([A-Z]+)((?:\.\w+)*)\s", line):
            more = False
            if "@!PT" in line:  # never: it only orders the instructions around it
                continue
            for kind in OPCODES.get(code[1], ()):
                size = next((SIZES[s] for s in code[2].split(".") if s in SIZES), 4)
                if code[1] == "LDSM":
                    size = ROW_OF_MATRIX
                widths[place(frames, kernel, *kind)].add(size)
    return widths


# ---- Side by side


def differences(
    host: Widths, anywhere: Widths, made: Widths, elsewhere: Widths, output: str
) -> Iterator[str]:
    """A line whose accesses were counted must have the same widths. Optimizers move accesses to
    lines that have none in the source: these widths only need to occur somewhere in the file. ptxas
    moves them to lines with accesses of their own, too: there one width in common is enough. And
    they split one access of an unrolled loop: on a line that has none in the source a narrower one
    may stand beside whole ones. Where several versions come, in a header or in a launcher that one
    version has and others call, it is enough that another one was counted with the widths, or that
    nvcc made them of another one's file."""
    kinds: dict[tuple[str, str], set[int]] = defaultdict(set)
    for at, widths in host.items():
        kinds[at.kind] |= widths
        kinds["generic", at.access] |= widths
    made_kinds: dict[tuple[str, str], set[int]] = defaultdict(set)
    for at, widths in made.items():
        for space in ("global", "shared") if at.space == "generic" else (at.space,):
            made_kinds[space, at.access] |= widths

    for at in sorted(set(host) | set(made)):
        counts, widths = host.get(at, set()), made.get(at, set())
        if widths and counts <= widths <= anywhere.get(at, set()):
            continue
        moved = output == "SASS" and counts & widths and widths <= kinds[at.kind]
        moved = moved or widths < counts <= made_kinds[at.kind]  # some, to another line
        if counts and widths and counts != widths and not moved:
            yield f"{at} of {sorted(widths)} bytes in {output}, counted as {sorted(counts)}"
        elif not counts and not widths & kinds[at.kind]:
            yield f"{at} of {sorted(widths)} bytes in {output}, elsewhere {sorted(kinds[at.kind])}"
        elif not widths and not counts <= made_kinds[at.kind] | elsewhere.get(at, set()):
            other = sorted(made_kinds[at.kind])
            yield f"{at} of {sorted(counts)} bytes counted, in {output} {other}"


class Read(NamedTuple):
    kernel: str
    outputs: dict[str, Widths]  # by name, PTX or SASS
    compiled_anew: bool


def main() -> int:
    bench, commands = sys.argv[1:]
    entries = [
        entry
        for entry in json.loads(Path(commands).read_text())
        if re.search(r"/src/kernels/\w+/v\w+\.cu$", entry["file"])
        and "LADDER_HOST_EXECUTOR" not in entry["command"]
    ]
    nvcc = shlex.split(entries[0]["command"])[0] if entries else None
    if nvcc is None or shutil.which(nvcc) is None:
        skips.whole("no kernel is compiled by nvcc here")
    nvdisasm = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=str(Path(nvcc).parent))

    def read(entry: dict[str, str]) -> Read:
        kernel = relative(entry["file"])
        made = built(entry)
        anew = made.ptx is None or (nvdisasm is not None and made.cubin is None)
        if anew:
            made = compiled(entry, nvdisasm is not None)
        outputs = {"PTX": in_ptx(made.ptx, kernel)}
        if nvdisasm:
            outputs["SASS"] = in_sass(disassembled(made.cubin, nvdisasm), kernel)
        return Read(kernel, outputs, anew)

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        host = counted(bench, workers)
        checked = [*workers.map(read, entries)]
    anywhere = by_place(host)
    found = []
    for output in checked[0].outputs:
        elsewhere = by_place({one.kernel: one.outputs[output] for one in checked})
        for one in checked:
            found += differences(
                host[one.kernel], anywhere, one.outputs[output], elsewhere, output
            )
    for difference in found:
        print(difference)
    outputs = "PTX and SASS" if nvdisasm else "PTX"
    anew = sum(one.compiled_anew for one in checked)
    print(f"{len(entries)} kernel files, {anew} compiled anew, {outputs}: "
          f"{len(found)} differences from the counts")  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
