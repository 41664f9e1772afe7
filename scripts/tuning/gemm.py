"""The table of the GEMM v20_autotuned: shapes, and the share of the FMA rate that each reaches.

Every shape of src/kernels/gemm/tile_shapes.hpp is timed on products of usual sizes, which decide
what shapes the table has, and on products that give every multiprocessor one, two or three tiles,
which give the shape's speeds.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from tuning.bench import Bench, Times, fail, split, winners

FAMILY = "gemm"
SOURCE = "src/kernels/gemm/v20_autotuned.cu"

PROBLEMS = [
    "1024x1024x1024", "2048x2048x2048", "4096x4096x4096", "1000x3000x777", "128x8192x8192",
    "512x4096x4096", "512x14336x4096", "512x4096x14336", "4096x1024x4096", "4096x14336x4096",
    "512x2304x768", "512x768x3072", "4096x3072x768",
]  # fmt: skip
DEPTH = 4096  # K of the products that give the speeds
FMA_LANES = 128  # of a multiprocessor; this and the next two as in v20_autotuned.cu
K_TILE_OVERHEAD = 4
FEW_FOR_RUNS = 512
MOST_BLOCKS = 3  # on a multiprocessor, that the table has a speed for


class Shape(NamedTuple):
    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    stages: int
    blocks: int
    run: int

    @staticmethod
    def of_kernel(name: str) -> Shape:
        """v20a_128x256x8_64x64_4_1_0"""
        found = re.fullmatch(r"v20[a-z]_(\d+)x(\d+)x(\d+)_(\d+)x(\d+)_(\d+)_(\d+)_(\d+)", name)
        if found is None:
            fail(f"{name} is not the name of a tile's shape.")
        return Shape(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"Shape<{', '.join(map(str, self))}>"


Speeds = dict[Shape, tuple[float, ...]]  # with one, two, three blocks on a multiprocessor


# ---- Measurements


def times(rows: list[dict[str, str]]) -> Times[Shape]:
    """Of the shapes that this GPU has enough shared memory for."""
    found: Times[Shape] = {}
    for row in rows:
        shape = Shape.of_kernel(row["kernel"])
        found.setdefault(shape, {})[row["problem"]] = float(row["time_us"])
    return found


def filling_problem(shape: Shape, tiles: int) -> str:
    """As square as `tiles` tiles can be laid out."""
    rows = max(n for n in range(1, math.isqrt(tiles) + 1) if tiles % n == 0)
    return f"{shape.bm * rows}x{shape.bn * (tiles // rows)}x{DEPTH}"


def speed(shape: Shape, blocks: int, row: dict[str, str]) -> float:
    """The share of the FMA rate with which v20's estimate would be the time that was measured."""
    depth = DEPTH / shape.bk + K_TILE_OVERHEAD
    fmas = blocks * depth * shape.bm * shape.bn * shape.bk
    return fmas / (FMA_LANES * float(row["time_us"]) * float(row["sm_mhz"]))


def speeds(bench: Bench, shape: Shape, kernel: str, multiprocessors: int) -> tuple[float, ...]:
    problems = [
        filling_problem(shape, n * multiprocessors)
        for n in range(1, min(shape.blocks, MOST_BLOCKS) + 1)
    ]
    rows = bench.run(FAMILY, f"f32/{kernel}", problems).rows
    by_problem = {row["problem"]: row for row in rows}
    found = [speed(shape, n, by_problem[p]) for n, p in enumerate(problems, start=1)]
    return tuple(found + found[-1:] * (MOST_BLOCKS - len(found)))


# ---- The table


def winners_of_both(measured: Times[Shape]) -> list[Shape]:
    """Shapes with runs are for products of few rows or columns, the others for the rest."""
    chosen = []
    for runs in (False, True):
        of_kind = {
            shape: {p: t for p, t in times.items() if is_in_runs(p) == runs}
            for shape, times in measured.items()
            if (shape.run > 0) == runs
        }
        chosen += winners(of_kind)
    return chosen


def is_in_runs(problem: str) -> bool:
    rows, columns, _ = map(int, problem.split("x"))
    return min(rows, columns) <= FEW_FOR_RUNS


Table = dict[str, Speeds]  # by the name of the GPU; the first is also for those that have no entry


def parse(text: str) -> Table:
    shapes = [Shape(*map(int, found.split(","))) for found in re.findall(r"Shape<([\d, ]+)>", text)]
    table: Table = {}
    for name, numbers in re.findall(r'\{"([^"]+)", \{(.+)\}\}', text):
        rows = [tuple(map(float, row.split(","))) for row in re.findall(r"\{([\d., ]+)\}", numbers)]
        table[name] = {shape: row for shape, row in zip(shapes, rows, strict=True) if any(row)}
    return table


def render(table: Table, shapes: list[Shape]) -> str:
    """A shape that was not measured on a GPU has speed 0, and is never taken there."""
    lines = ["using Tiles = Shapes<", ",\n".join(f"    {shape}" for shape in shapes) + ">;"]
    lines.append(f"constexpr Gpu<{len(shapes)}> kGpus[] = {{")
    for name, of_shapes in table.items():
        rows = (of_shapes.get(shape, (0.0,) * MOST_BLOCKS) for shape in shapes)
        numbers = ", ".join("{" + ", ".join(f"{n:.3f}" for n in row) + "}" for row in rows)
        lines.append(f'    {{"{name}", {{{numbers}}}}},')
    return "\n".join([*lines, "};\n"])


def rewrite(source: str, gpu: str, measured: Speeds, chosen: list[Shape]) -> str:
    """The source with the chosen shapes, those that other GPUs have, and this GPU's speeds."""
    before, old, after = split(source)
    table = parse(old)
    others = [s for name, of_shapes in table.items() if name != gpu for s in of_shapes]
    table[gpu] = measured
    shapes = list(dict.fromkeys([*chosen, *others]))
    return before + render(table, shapes) + after


def tune(bench: Bench, source: str) -> tuple[str, str]:
    """The GPU's name, and the source with its new table."""
    gpu, multiprocessors, rows, _ = bench.run(FAMILY, "f32/v20[a-z]_", PROBLEMS)
    measured = times(rows)
    if not measured:
        fail(f"{gpu} can run none of the shapes.")
    chosen = winners_of_both(measured)
    of_shapes: Speeds = {}
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        shape = Shape.of_kernel(kernel)
        of_shapes[shape] = speeds(bench, shape, kernel, multiprocessors)
        mark = "*" if shape in chosen else " "
        print(f"{mark} {shape!s:<40}" + "".join(f"{n:7.3f}" for n in of_shapes[shape]), flush=True)
    print(f"{gpu}: {len(chosen)} of {len(measured)} shapes")
    return gpu, rewrite(source, gpu, of_shapes, chosen)
