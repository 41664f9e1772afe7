"""The table of the GEMM v20_autotuned: the numbers that its estimate needs.

Every shape of src/kernels/gemm/tile_shapes.hpp is timed in the ways to share out a product that are not
far from the fastest, on products of usual sizes and on random ones, some of whose rows are not aligned.
The table's numbers are those with which the estimate comes nearest to the times, above all to those near
the least time of a product. How good the choices are is seen from products that the fit has not seen: a
third is held out. Then all are fitted.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from tuning import estimates
from tuning.bench import Bench, Run, fail, split
from tuning.estimates import FAR, HELD_OUT, Timed

FAMILY = "gemm"
SOURCE = "src/kernels/gemm/v20_autotuned.cu"

PROBLEMS = [
    "1024x1024x1024", "2048x2048x2048", "4096x4096x4096", "1000x3000x777", "128x8192x8192",
    "512x4096x4096", "512x14336x4096", "512x4096x14336", "4096x1024x4096", "512x2304x768",
    "512x768x3072", "4096x3072x768",
]  # fmt: skip
RANDOM_ALIGNED, RANDOM_OTHERS = 56, 28  # multiples of 8, and of 1
MOST_WORK = 2**34  # multiplications: an H100 does them in 0.7 ms

V = 4  # floats of a vector; this and what follows as in src/kernels/gemm
CLUSTERED = 0.91  # of the SMs are what clusters of four and eight fill evenly, on an H100
MOST_CUT = 1024  # tiles
END_START, ADDING = 5000, 12000  # cycles
FMA_LANES = 128  # of a multiprocessor


def ceil_div(a: float, b: float) -> int:
    return math.ceil(a / b)


# ---- The estimate of v20_autotuned


class Work(NamedTuple):
    """What takes time of a product, as a kernel shares it out. A column of many is one, too. An SM has
    `full` times as many blocks as fit on it, one time after the other, and `rest` blocks at last."""

    full: float
    most: float  # blocks at a time
    steps: float  # K-tiles of each
    rest: float
    rest_steps: float
    single: float  # 1024 floats of a K-tile of B that are copied one by one
    cluster: float  # 1 if clusters add up their sums, else 0
    pulled: float  # 1024 sums of a block of these
    split: float  # 1 if a second launch adds up partial sums, else 0
    sums: float  # bytes of these
    packs: float  # 1 if B is copied first, else 0
    packed: float  # bytes that this moves
    bytes: float  # from and to memory, besides


class Pace(NamedTuple):
    """Of a shape, as in tile_shapes.hpp. `alone` is 0 where an SM has one block: then it is k_tile."""

    k_tile: float
    alone: float
    tile: float


class Rates(NamedTuple):
    """Of all shapes, as in tile_shapes.hpp."""

    dram: float
    single: float
    push: float
    pull: float
    sum_launch: float
    sum: float
    pack: float


def estimate(work: Work, pace: Pace, gpu: Rates) -> float:
    """In ns."""

    def blocks(at_once: float, steps: float) -> float:
        single = gpu.single * work.single
        step = ((pace.alone + single) ** 4 + (at_once * (pace.k_tile + single)) ** 4) ** 0.25
        return steps * step + at_once * pace.tile

    ns = work.full * blocks(work.most, work.steps) + (work.rest > 0) * blocks(work.rest, work.rest_steps)
    ns += work.cluster * gpu.push + work.pulled * gpu.pull
    ns += work.split * gpu.sum_launch + work.sums / gpu.sum
    ns = (ns**2 + (work.bytes / gpu.dram) ** 2) ** 0.5
    return ns + work.packs * gpu.pack + work.packed / gpu.dram


# ---- Shapes


class Shape(NamedTuple):
    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    stages: int
    blocks: int
    run: int

    def __str__(self) -> str:
        return f"Shape<{', '.join(map(str, self))}>"

    def cut(self, tiles: int, k_tiles: int, sms: int) -> tuple[int, int] | None:
        """As last_wave.hpp does: whole tiles, and the K-tiles of a beginning."""
        slots = sms * self.blocks
        rest = tiles % slots
        if rest == 0 or rest > MOST_CUT:
            return None
        ends = ceil_div(rest, slots - rest)
        cycles = self.bm * self.bn * self.bk * self.blocks / FMA_LANES
        at = math.ceil(ends / (ends + 1) * (k_tiles + END_START / cycles))
        return (tiles - rest, at) if at + ADDING / cycles < k_tiles else None

    def work(self, problem: str, way: str, sms: int) -> Work | None:
        """None if the product has no such way."""
        found = re.fullmatch(r"whole|packed|cut|(?:c(\d+))?(?:s(\d+))?", way)
        if found is None:
            return None
        m, n, k = map(int, problem.split("x"))
        cluster, splits = (int(number or 1) for number in found.groups())
        tiles, k_tiles = ceil_div(m, self.bm) * ceil_div(n, self.bn), ceil_div(k, self.bk)
        most, packs = self.blocks, way == "packed"
        if way == "cut":
            cut = self.cut(tiles, k_tiles, sms)
            if cut is None:
                return None
            full, rest, steps, rest_steps = cut[0] / (sms * most), most, k_tiles, cut[1]
        else:
            evenly = sms * (CLUSTERED if cluster > 2 else 1)
            steps = rest_steps = ceil_div(k_tiles, cluster * splits)
            full, rest = divmod(math.ceil(tiles * cluster * splits / evenly), most)
        return Work(
            full, most, steps, rest, rest_steps,
            single=0 if n % V == 0 or packs else self.bn * self.bk / 1024,
            cluster=cluster > 1, pulled=self.bm * self.bn / 1024 if cluster > 1 else 0,
            split=splits > 1, sums=4.0 * m * n * (2 * splits + 1) if splits > 1 else 0,
            packs=packs, packed=8.0 * k * n if packs else 0, bytes=4.0 * (m * k + k * n + m * n),
        )  # fmt: skip


class Kernel(NamedTuple):
    shape: Shape
    way: str

    @staticmethod
    def of(name: str) -> Kernel:
        """v20a_128x256x8_64x64_4_1_0_cut"""
        found = re.fullmatch(r"v20a_(\d+)x(\d+)x(\d+)_(\d+)x(\d+)_(\d+)_(\d+)_(\d+)_(\w+)", name)
        if found is None:
            fail(f"{name} is not the name of a tile's shape.")
        *sizes, way = found.groups()
        return Kernel(Shape(*map(int, sizes)), way)


class Numbers(NamedTuple):
    """Of a GPU, as the table has them."""

    paces: dict[Shape, Pace]
    rates: Rates

    def choice(self, works: dict[Kernel, Work]) -> Kernel:
        """Of the shapes that were measured there, as v20_autotuned does."""
        known = [kernel for kernel in works if kernel.shape in self.paces]
        return min(known, key=lambda k: estimate(works[k], self.paces[k.shape], self.rates))


# ---- The fit


# ns of a launch first
START = (5000.0, *Rates(dram=2500, single=100, push=1000, pull=100, sum_launch=3000, sum=8000, pack=3000))
START_SPEED, START_ALONE, START_TILE = 170, 400, 600  # FMAs per ns of an SM; ns


def timed(run: Run) -> list[Timed]:
    def work_of(kernel: Kernel, row: dict[str, str]) -> Work | None:
        return kernel.shape.work(row["problem"], kernel.way, run.multiprocessors)

    return estimates.timed(run, Kernel.of, work_of)


def fit(rows: list[Timed]) -> Numbers:
    """Every product takes a time longer, too, which the table need not have: it is the same for all."""
    import numpy as np

    from tuning.least_squares import Vector, minimise

    weights = np.array(estimates.weights(rows))
    log_ns = np.log([1000 * row.us for row in rows])
    work = Work(*np.array([row.work for row in rows], float).T)
    shapes = list(dict.fromkeys(row.kernel.shape for row in rows))
    which = [shapes.index(row.kernel.shape) for row in rows]
    many = np.array([shape.blocks > 1 for shape in shapes])

    def numbers(logs: Vector) -> tuple[float, Rates, Pace]:
        launch, *rates = np.exp(logs[: len(START)]).tolist()
        k_tiles, alone, tiles = np.exp(logs[len(START) :]).reshape(3, -1)
        return launch, Rates(*rates), Pace(k_tiles, alone * many, tiles)

    def misses(logs: Vector) -> Vector:
        launch, rates, paces = numbers(logs)
        ns = launch + estimate(work, Pace(*(of_shapes[which] for of_shapes in paces)), rates)
        return weights * (np.log(ns) - log_ns)

    k_tiles = [shape.bm * shape.bn * shape.bk / START_SPEED for shape in shapes]
    start = [*START, *k_tiles, *[START_ALONE] * len(shapes), *[START_TILE] * len(shapes)]
    _, rates, paces = numbers(minimise(misses, np.log(start), FAR))
    return Numbers({shape: Pace(*pace) for shape, pace in zip(shapes, np.array(paces).T.tolist())}, rates)


# ---- The table


Table = dict[str, Numbers]  # by the name of the GPU; the first is also for those that have no entry


def shapes_of(text: str) -> list[Shape]:
    return [Shape(*map(int, found.split(","))) for found in re.findall(r"Shape<([\d, ]+)>", text)]


def parse(text: str) -> Table:
    shapes = shapes_of(text)
    table: Table = {}
    entry = r'\{"([^"]+)",' + r"\s+\{([^{}]+)\}," * 3 + r"\s+([^{}]+)\}"
    for name, *lists in re.findall(entry, text):
        *of_shapes, rates = ([float(number) for number in one.split(",")] for one in lists)
        paces = dict(zip(shapes, map(Pace, *of_shapes), strict=True))
        measured = {shape: pace for shape, pace in paces.items() if pace.k_tile > 0}
        table[name] = Numbers(measured, Rates(*rates))
    return table


def render(table: Table, shapes: list[Shape]) -> str:
    """A shape that was not measured on a GPU has 0 nanoseconds, and is never taken there."""
    lines = ["using Tiles = Shapes<", ",\n".join(f"    {shape}" for shape in shapes) + ">;"]
    lines.append(f"constexpr Gpu<{len(shapes)}> kGpus[] = {{")
    for name, (paces, rates) in table.items():
        of_shapes = zip(*(paces.get(shape, Pace(0, 0, 0)) for shape in shapes))
        lines.append(f'    {{"{name}",')
        lines += ["     {" + ", ".join(f"{ns:.0f}" for ns in one) + "}," for one in of_shapes]
        lines.append("     " + ", ".join(f"{float(f'{rate:.4g}'):g}" for rate in rates) + "},")
    return "\n".join([*lines, "};\n"])


def rewrite(source: str, gpu: str, measured: Numbers) -> str:
    """The source with the shapes that were measured, those that other GPUs have, and this GPU's numbers."""
    before, old, after = split(source)
    table = {**parse(old), gpu: measured}
    used = {shape for numbers in table.values() for shape in numbers.paces}
    shapes = [shape for shape in dict.fromkeys([*shapes_of(old), *measured.paces]) if shape in used]
    return before + render(table, shapes) + after


def tune(bench: Bench, source: str) -> str:
    """The source with its new table."""
    drawn = [
        problem
        for count, multiple in ((RANDOM_ALIGNED, 8), (RANDOM_OTHERS, 1))
        for problem in estimates.random_problems(bench.seed, count, multiple, MOST_WORK)
    ]
    problems = [*PROBLEMS, *drawn]
    print(f"{len(problems)} problems, {len(drawn)} of them random (--seed={bench.seed}): takes minutes",
          flush=True)  # fmt: skip
    run = bench.run(FAMILY, "f32/v20a_", problems)
    rows = timed(run)
    if not rows:
        fail(f"{run.gpu} can run none of the shapes.")
    estimates.expect_good_choices(rows, set(problems[::HELD_OUT]), run.vendor, fit)
    numbers = fit(rows)
    for shape, pace in numbers.paces.items():
        print(f"{shape!s:<40}{pace.k_tile:6.0f} ns of a K-tile, {pace.alone:5.0f} alone, {pace.tile:5.0f} of "
              "a tile")  # fmt: skip
    print(f"{run.gpu}: " + ", ".join(f"{name} {rate:.4g}" for name, rate in numbers.rates._asdict().items()))
    return rewrite(source, run.gpu, numbers)
