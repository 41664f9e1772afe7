"""The table of the tensor-core GEMM v20_autotuned: the numbers that its estimate needs.

Every shape of src/kernels/gemm_tensor/tile_shapes.hpp is timed in nt of bf16, on products of usual sizes and
on random ones, in every way to share out a product, but in one cluster on each product: all of them take
turns, and a shape has the same numbers in all. The table's numbers are those with which the estimate comes
nearest to the times, above all to those near the least time of a product. How good the choices are is seen
from products that the fit has not seen: a third is held out. Then all are fitted.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

from tuning import estimates
from tuning.bench import Bench, Run, fail, split
from tuning.estimates import FAR, HELD_OUT, Timed

FAMILY = "gemm_tensor"
SOURCE = "src/kernels/gemm_tensor/v20_autotuned.sm90a.cu"
CANDIDATES = Path(__file__).parents[2] / "src/kernels/gemm_tensor/tile_shapes.hpp"

PROBLEMS = [
    "1x1024x4096", "16x1024x8192", "16x4096x4096", "16x14336x4096", "16x4096x14336",
    "64x4096x4096", "64x14336x4096", "128x1024x4096", "128x4096x14336", "256x4096x4096",
    "512x1024x4096", "512x1024x8192", "512x4096x4096", "512x14336x4096", "512x4096x14336",
    "1000x3000x776", "1024x1024x1024", "2048x2048x2048", "4096x1024x4096", "4096x4096x4096",
    "4096x14336x4096",
]  # fmt: skip
RANDOM_PROBLEMS = 24
ALIGNED = 8  # their dimensions
MOST_WORK = 2**37  # multiplications: an H100 does them in 0.4 ms

DEPTH = 64  # of a K-tile
ELEMENT = 2  # bytes
LINE = 64  # elements: 128 bytes
SECTOR = 16  # elements: 32 bytes
CLUSTERS = (  # blocks along the lines, and beside
    (1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (2, 4), (4, 2),
)  # fmt: skip
EVEN = (2, 3, 4, 6, 8, 12, 16)  # parts of a tile
FEW_WAVES = 12  # beyond, the last one is not worth dividing
PARTS = (1, 2, 4, 8)  # of PushedSums: the blocks of a cluster
WARPS = 64  # that an SM of compute capability 9.0 has room for
CLUSTERED = 0.92  # of the SMs are what clusters of four and eight fill, on an H100


class Lines(NamedTuple):
    """Of 128 bytes."""

    all: float
    split: float  # those that memory has in two lines
    odd: float  # those that begin within sectors of 32 bytes


class Product(NamedTuple):
    """nt's, if nothing is said of how A and B lie."""

    m: int
    n: int
    k: int
    a_along_k: bool = True
    b_along_k: bool = True

    @staticmethod
    def of(problem: str) -> Product:
        m, n, k = map(int, problem.split("x"))
        return Product(m, n, k)

    @property
    def k_tiles(self) -> int:
        return ceil_div(self.k, DEPTH)

    @property
    def loads(self) -> float:
        """Bytes of A and B."""
        return ELEMENT * float(self.m * self.k + self.k * self.n)

    @property
    def stores(self) -> float:
        """Bytes of C."""
        return ELEMENT * float(self.m * self.n)

    def has_whole_lines(self, rows: int, cols: int) -> bool:
        """Whether the lines of such a tile are of no other one."""
        of_a = self.k % LINE == 0 if self.a_along_k else self.m % LINE == 0 and rows % LINE == 0
        of_b = self.k % LINE == 0 if self.b_along_k else self.n % LINE == 0 and cols % LINE == 0
        return of_a and of_b

    def lines(self, rows: int, cols: int, share_a: float = 1, share_b: float = 1) -> Lines:
        """That a block loads of a K-tile of so many rows of A and columns of B, or of shares of them."""
        of_a = share_a * (rows if self.a_along_k else ceil_div(rows, LINE) * LINE)
        of_b = share_b * (cols if self.b_along_k else ceil_div(cols, LINE) * LINE)
        row_a = self.k if self.a_along_k else self.m
        row_b = self.k if self.b_along_k else self.n
        return Lines(
            of_a + of_b,
            of_a * (row_a % LINE > 0) + of_b * (row_b % LINE > 0),
            of_a * (row_a % SECTOR > 0) + of_b * (row_b % SECTOR > 0),
        )


def ceil_div(a: float, b: float) -> int:
    return math.ceil(a / b)


# ---- The estimate of v20_autotuned


class Work(NamedTuple):
    """What takes time of a product, as a kernel shares it out. A column of many is one, too."""

    steps: float  # K-tiles, one after the other
    at_once: float  # blocks of an SM
    lines: float  # of a K-tile, times the share of the SMs that load
    split_lines: float  # of them
    odd_lines: float
    ends: float  # beginnings and ends of tiles, one after the other
    sums: float  # 128 at a time, that an owner or a block adds
    divided: float  # 1 if tiles are, among clusters, else 0
    pushes: float  # doublings of the blocks that exchange sums
    starts: float  # 1 of StreamK, 0 of PushedSums
    loads: float  # bytes from memory
    apart: float  # 1 if blocks are at different K-tiles of what they share, else 0
    stores: float  # bytes to memory
    in_turns: float = 0  # 1 if a tile ends beside the next one's K-tiles, else 0
    eight: float = 0  # 1 of a cluster of eight that has several tiles, else 0
    in_step: float = 0  # 1 if the lines are whole and all blocks, of no cluster, are at the same K-tile, else 0


class Pace(NamedTuple):
    """Of a shape: ns of a K-tile, and of a tile's beginning and end."""

    k_tile: float
    tile: float


class Rates(NamedTuple):
    """Of all shapes, as in tile_shapes.hpp."""

    dram: float
    line: float
    split: float
    odd: float
    sum: float
    divide: float
    push: float
    start: float
    apart: float
    scatter: float
    eight: float
    in_step: float


def least(a: float, b: float) -> float:
    """Of columns, too."""
    return (a + b - abs(a - b)) / 2


def estimate(work: Work, pace: Pace, gpu: Rates) -> float:
    """In ns."""
    lines = work.lines + gpu.split * work.split_lines + gpu.odd * work.odd_lines
    line = gpu.line * (1 + gpu.scatter * work.apart) * (1 + (gpu.in_step - 1) * work.in_step)
    step = (
        (work.at_once * pace.k_tile) ** 2
        + (line * lines) ** 2
        + ((1 + gpu.apart * work.apart) * work.loads / work.steps / gpu.dram) ** 2
    ) ** 0.5 * (1 + gpu.eight * work.eight)
    k_tiles, ends = work.steps * step, work.ends * pace.tile
    hidden = least(ends - pace.tile, k_tiles / 2)
    ns = k_tiles + ends - work.in_turns * hidden + work.sums * gpu.sum
    ns += work.divided * gpu.divide + work.pushes * gpu.push + work.starts * gpu.start
    return (ns**2 + (work.stores / gpu.dram) ** 2) ** 0.5


# ---- Shapes


def at_once(cluster: int, blocks: int) -> int:
    """How many clusters run at once where so many blocks of their own do. Only the driver knows: about
    so many."""
    return max(1, int(blocks * (CLUSTERED if cluster > 2 else 1)) // cluster)


class StreamK(NamedTuple):
    lines: int
    width: int
    across: bool
    in_turns: bool = False

    def __str__(self) -> str:
        in_turns = ", true" if self.in_turns else ""
        return f"StreamK<{self.lines}, {self.width}, {str(self.across).lower()}{in_turns}>"

    def takes(self, along: int, beside: int) -> bool:
        """Whether blocks of such a cluster can load parts for each other: 8 rows, of which a swizzle is."""
        return self.lines % (8 * beside) == 0 and self.width % (8 * along) == 0

    def tiles(self, of: Product, along: int, beside: int) -> int:
        """Of clusters."""
        lines, width = (of.n, of.m) if self.across else (of.m, of.n)
        return ceil_div(lines, self.lines * along) * ceil_div(width, self.width * beside)

    def ways(self, of: Product, sms: int, along: int, beside: int) -> dict[str, tuple[int, int]]:
        """By name: the clusters, and how many tiles they divide among them."""
        tiles, most = self.tiles(of, along, beside), at_once(along * beside, sms)
        rest = tiles % most
        found = {"whole": (ceil_div(tiles, ceil_div(tiles, most)), 0)}
        if tiles >= most:
            if rest > 0 and tiles // most < FEW_WAVES:
                found["overlap"] = most, rest + most
                if rest * of.k_tiles >= 2 * most:
                    found["rest"] = most, rest
            return found
        if 2 * most <= tiles * of.k_tiles:
            found["spread"] = most, tiles
        for parts in EVEN:
            if parts <= min(most // tiles, of.k_tiles):
                found[f"even{parts}"] = tiles * parts, tiles
        return found

    def work(
        self, of: Product, sms: int, along: int, beside: int, clusters: int, divided: int
    ) -> Work:
        tiles, k_tiles = self.tiles(of, along, beside), of.k_tiles
        run = ceil_div(divided * k_tiles, clusters)
        whole = ceil_div(tiles - divided, clusters)
        steps = run + whole * k_tiles
        active = min(1.0, tiles * along * beside * k_tiles / steps / sms)
        # Of the lines, and of the width, each block loads a share for others.
        lines = (
            of.lines(self.width, self.lines, 1 / along, 1 / beside)
            if self.across
            else of.lines(self.lines, self.width, 1 / beside, 1 / along)
        )
        ends = whole + ceil_div(run, k_tiles)
        adds = ceil_div(k_tiles, run) if divided else 0
        apart = divided > 0 and clusters % tiles > 0  # no even parts
        rows, cols = (self.width, self.lines) if self.across else (self.lines, self.width)
        alone = along * beside == 1 and divided == 0 and whole == 1
        return Work(
            steps, at_once=1, lines=active * lines.all, split_lines=active * lines.split,
            odd_lines=active * lines.odd, ends=ends, sums=adds * self.lines / 128 * self.width,
            divided=divided > 0, pushes=0, starts=1, loads=of.loads, apart=apart,
            stores=of.stores, in_turns=self.in_turns, eight=along * beside == 8 and tiles > clusters,
            in_step=alone and of.has_whole_lines(rows, cols),
        )  # fmt: skip

    def works(self, of: Product, sms: int, _: int = 1) -> dict[str, Work]:
        return {
            f"{along}x{beside}_{name}": self.work(of, sms, along, beside, *way)
            for along, beside in CLUSTERS
            if self.takes(along, beside)
            for name, way in self.ways(of, sms, along, beside).items()
        }


class PushedSums(NamedTuple):
    rows: int
    cols: int
    blocks: int  # on an SM at least

    def __str__(self) -> str:
        return f"PushedSums<{', '.join(map(str, self))}>"

    def work(self, of: Product, sms: int, parts: int, resident: int) -> Work:
        blocks = ceil_div(of.m, self.rows) * ceil_div(of.n, self.cols) * parts
        rounds = max(1, ceil_div(blocks, resident))
        at_once = max(1.0, min(blocks, resident) / sms)
        active = blocks / rounds / sms
        lines = of.lines(self.rows, self.cols)
        steps = rounds * ceil_div(of.k_tiles, parts)
        return Work(
            steps, at_once, lines=active * lines.all, split_lines=active * lines.split,
            odd_lines=active * lines.odd, ends=rounds * at_once,
            sums=rounds * (1 - 1 / parts) * self.rows / 128 * self.cols, divided=0,
            pushes=rounds * math.log2(parts), starts=0, loads=of.loads, apart=0, stores=of.stores,
            in_step=parts == 1 and rounds == 1 and of.has_whole_lines(self.rows, self.cols),
        )  # fmt: skip

    def works(self, of: Product, sms: int, blocks_of_an_sm: int) -> dict[str, Work]:
        found = {}
        for parts in PARTS:
            if parts <= of.k_tiles:
                resident = at_once(parts, blocks_of_an_sm * sms) * parts
                found[str(parts)] = self.work(of, sms, parts, resident)
        return found


Shape = StreamK | PushedSums


class Kernel(NamedTuple):
    shape: Shape
    way: str

    @staticmethod
    def of(name: str) -> Kernel:
        """v20a_v25_128x160a_2x1_rest, v20a_v25_128x128t_1x1_whole or v20a_v24_32x64_1_8"""
        if found := re.fullmatch(r"v20a_v25_(\d+)x(\d+)(a?)(t?)_(\w+)", name):
            shape = StreamK(int(found[1]), int(found[2]), bool(found[3]), bool(found[4]))
            return Kernel(shape, found[5])
        if found := re.fullmatch(r"v20a_v24_(\d+)x(\d+)_(\d)_(\w+)", name):
            return Kernel(PushedSums(*(int(found[i]) for i in (1, 2, 3))), found[4])
        fail(f"{name} is not the name of a tile's shape.")


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
START = (4000.0, *Rates(dram=2500, line=1.2, split=0.5, odd=0.5, sum=8, divide=500, push=500,
                        start=1000, apart=0.1, scatter=0.1, eight=0.05, in_step=0.8))
START_PACE = Pace(k_tile=300, tile=800)


def timed(run: Run) -> list[Timed]:
    def work_of(kernel: Kernel, row: dict[str, str]) -> Work | None:
        warps = ceil_div(int(row["block"].split("x")[0]), 32)
        blocks = round(float(row["occupancy"]) * WARPS / warps)
        works = kernel.shape.works(Product.of(row["problem"]), run.multiprocessors, blocks)
        return works.get(kernel.way)

    return estimates.timed(run, Kernel.of, work_of)


def fit(rows: list[Timed]) -> Numbers:
    """Every launch takes a time longer, too, which the table need not have: it is the same for all."""
    import numpy as np

    from tuning.least_squares import Vector, minimise

    weights = np.array(estimates.weights(rows))
    log_ns = np.log([1000 * row.us for row in rows])
    work = Work(*np.array([row.work for row in rows], float).T)
    shapes = list(dict.fromkeys(row.kernel.shape for row in rows))
    which = [shapes.index(row.kernel.shape) for row in rows]

    def numbers(logs: Vector) -> tuple[float, Rates, Vector, Vector]:
        launch, *rates = np.exp(logs[: len(START)]).tolist()
        k_tiles, tiles = np.exp(logs[len(START) :]).reshape(2, -1)
        return launch, Rates(*rates), k_tiles, tiles

    def misses(logs: Vector) -> Vector:
        launch, rates, k_tiles, tiles = numbers(logs)
        ns = launch + estimate(work, Pace(k_tiles[which], tiles[which]), rates)
        return weights * (np.log(ns) - log_ns)

    start = np.log([*START, *np.repeat(START_PACE, len(shapes))])
    _, rates, k_tiles, tiles = numbers(minimise(misses, start, FAR))
    return Numbers(dict(zip(shapes, map(Pace, k_tiles.tolist(), tiles.tolist()))), rates)


# ---- The table


Table = dict[str, Numbers]  # by the name of the GPU; the first is also for those with no entry


def shapes_of(text: str) -> list[Shape]:
    found: list[Shape] = []
    for name, arguments in re.findall(r"(StreamK|PushedSums)<([^<>]+)>", text):
        of = [argument == "true" if argument in ("true", "false") else int(argument)
              for argument in arguments.split(", ")]  # fmt: skip
        found.append(StreamK(*of) if name == "StreamK" else PushedSums(*of))
    return found


def parse(text: str) -> Table:
    shapes = shapes_of(text)
    table: Table = {}
    entry = r'\{"([^"]+)",\s+\{([^{}]+)\},\s+\{([^{}]+)\},\s+([^{}]+)\}'
    for name, *lists in re.findall(entry, text):
        k_tiles, tiles, rates = ([float(number) for number in one.split(",")] for one in lists)
        paces = dict(zip(shapes, map(Pace, k_tiles, tiles), strict=True))
        measured = {shape: pace for shape, pace in paces.items() if pace.k_tile > 0}
        table[name] = Numbers(measured, Rates(*rates))
    return table


def render(table: Table, shapes: list[Shape]) -> str:
    """A shape that was not measured on a GPU has 0 nanoseconds, and is never taken there; one that was has
    at least 1."""
    lines = ["using Tiles = Shapes<", ",\n".join(f"    {shape}" for shape in shapes) + ">;"]
    lines.append(f"constexpr Gpu<{len(shapes)}> kGpus[] = {{")
    for name, (paces, rates) in table.items():
        of_shapes = [paces.get(shape, Pace(0, 0)) for shape in shapes]
        k_tiles = ", ".join(
            f"{max(paces[shape].k_tile, 1):.0f}" if shape in paces else "0" for shape in shapes
        )
        tiles = ", ".join(f"{pace.tile:.0f}" for pace in of_shapes)
        of_all = ", ".join(f"{rate:.4g}" for rate in rates)
        lines += [f'    {{"{name}",', f"     {{{k_tiles}}},", f"     {{{tiles}}},", f"     {of_all}}},"]
    return "\n".join([*lines, "};\n"])


def rewrite(source: str, gpu: str, measured: Numbers) -> str:
    """The source with the shapes that were measured, those that other GPUs have, and this GPU's numbers."""
    before, old, after = split(source)
    table = {**parse(old), gpu: measured}
    used = {shape for numbers in table.values() for shape in numbers.paces}
    shapes = [shape for shape in dict.fromkeys([*shapes_of(old), *measured.paces]) if shape in used]
    return before + render(table, shapes) + after


def names(turn: int) -> str:
    """A regular expression of the kernels that take part in a turn."""
    shapes = [one for one in shapes_of(CANDIDATES.read_text(encoding="utf-8")) if isinstance(one, StreamK)]
    clusters = [CLUSTERS[(i + turn) % len(CLUSTERS)] for i in range(len(shapes))]
    found = [f"{one.lines}x{one.width}{'a' * one.across}{'t' * one.in_turns}_{along}x{beside}"
             for one, (along, beside) in zip(shapes, clusters)]  # fmt: skip
    return f"nt/bf16/v20a_(v24|v25_({'|'.join(found)}))_"


def tune(bench: Bench, source: str) -> str:
    """The source with its new table."""
    drawn = estimates.random_problems(bench.seed, RANDOM_PROBLEMS, ALIGNED, MOST_WORK)
    problems = [*PROBLEMS, *drawn]
    print(f"{len(problems)} problems, {RANDOM_PROBLEMS} of them random (--seed={bench.seed}): takes minutes",
          flush=True)  # fmt: skip
    run = Run.all([bench.run(FAMILY, names(i), problems[i :: len(CLUSTERS)]) for i in range(len(CLUSTERS))])
    rows = timed(run)
    if not rows:
        fail(f"{run.gpu} can run none of the shapes.")
    estimates.expect_good_choices(rows, set(problems[::HELD_OUT]), run.vendor, fit)
    numbers = fit(rows)
    for shape, pace in numbers.paces.items():
        print(f"{shape!s:<24}{pace.k_tile:7.0f} ns of a K-tile, {pace.tile:6.0f} of a tile")
    print(f"{run.gpu}: " + ", ".join(f"{name} {rate:.4g}" for name, rate in numbers.rates._asdict().items()))
    return rewrite(source, run.gpu, numbers)
