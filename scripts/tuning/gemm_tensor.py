"""The table of the tensor-core GEMM v20_autotuned: shapes, and the numbers that its estimate needs.

Every shape of src/kernels/gemm_tensor/tile_shapes.hpp is timed with every number of splits, in nt
of bf16. Those with which products take the least time are in the table. Its numbers, nanoseconds of
a K-tile for each shape and two constants, are those with which the estimate comes nearest to all
the times that matter: up to NEAR times the least time of a product.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple, Sequence

from tuning.bench import Bench, Times, fail, split, winners

FAMILY = "gemm_tensor"
SOURCE = "src/kernels/gemm_tensor/v20_autotuned.sm90a.cu"

PROBLEMS = [
    "1x1024x4096", "16x1024x8192", "16x4096x4096", "16x14336x4096", "16x4096x14336",
    "64x4096x4096", "64x14336x4096", "128x1024x4096", "128x4096x14336", "256x4096x4096",
    "512x1024x4096", "512x1024x8192", "512x4096x4096", "512x14336x4096", "512x4096x14336",
    "1000x3000x776", "1024x1024x1024", "2048x2048x2048", "4096x1024x4096", "4096x4096x4096",
    "4096x14336x4096",
]  # fmt: skip
DEPTH = 64  # of a K-tile
ELEMENT = 2  # bytes
NEAR = 1.3
SURE_PLACES = 0.85  # share of the multiprocessors that clusters of three and more can surely fill
MOST_ERROR = 0.15  # of the estimate, as a root mean square: more is no estimate

TYPES = {"v13": "Persistent", "v15": "SplitK", "v24": "PushedSums"}  # in tile_shapes.hpp


class Shape(NamedTuple):
    rung: str  # whose kernel it is: one of TYPES
    bm: int
    bn: int
    blocks: int  # on a multiprocessor

    @property
    def sum_bytes(self) -> float:
        """Of a tile, that go through shared memory as fp32."""
        return 0.0 if self.rung == "v13" else 4.0 * self.bm * self.bn

    def __str__(self) -> str:
        sizes = [self.bn] if self.rung == "v13" else self[1:]
        return f"{TYPES[self.rung]}<{', '.join(map(str, sizes))}>"

    @staticmethod
    def of_type(name: str, sizes: str) -> Shape:
        (rung,) = (rung for rung, type_name in TYPES.items() if type_name == name)
        numbers = [int(size) for size in sizes.split(",")]
        return Shape(rung, *(numbers if len(numbers) == 3 else (128, *numbers, 1)))


class Kernel(NamedTuple):
    shape: Shape
    splits: int

    @staticmethod
    def of(name: str) -> Kernel:
        """v20a_v15_128x64_2_3"""
        found = re.fullmatch(r"v20a_(v\d\d)_(\d+)x(\d+)_(\d+)_(\d+)", name)
        if found is None:
            fail(f"{name} is not the name of a tile's shape.")
        *numbers, splits = map(int, found.groups()[1:])
        return Kernel(Shape(found[1], *numbers), splits)


class Point(NamedTuple):
    """A kernel and a product, what the estimate makes of them, and how long it took."""

    shape: Shape
    tiles: float  # of the busiest multiprocessor, or parts of tiles
    k_tiles: float  # of each
    bytes: float  # from and to memory
    ns: float


class Numbers(NamedTuple):
    """Of a GPU, as the table has them."""

    ns_of_k_tile: dict[Shape, float]
    dram_bytes_per_ns: float
    sum_bytes_per_ns: float


# ---- The estimate of v20_autotuned


def tiles(kernel: Kernel, problem: str, multiprocessors: int) -> float | None:
    """Of the busiest multiprocessor; None where it depends on how many clusters run at once, which
    only the driver knows."""
    m, n, _ = map(int, problem.split("x"))
    shape, splits = kernel
    blocks = math.ceil(m / shape.bm) * math.ceil(n / shape.bn) * splits
    sure = 1.0 if splits <= 2 else SURE_PLACES
    turns = {math.ceil(blocks / (multiprocessors * share)) for share in (sure, 1.0)}
    return turns.pop() if len(turns) == 1 else None


def estimate(point: Point, of_k_tile: float, dram: float, sums: float) -> float:
    ns = math.hypot(point.tiles * point.k_tiles * of_k_tile, point.bytes / dram)
    return ns + point.tiles * point.shape.sum_bytes / sums


# ---- The fit


def points(times: Times[Kernel], multiprocessors: int) -> list[Point]:
    """Those that count."""
    found = []
    for kernel, by_problem in times.items():
        for problem, us in by_problem.items():
            least = min(t[problem] for t in times.values() if problem in t)
            count = tiles(kernel, problem, multiprocessors)
            if us > NEAR * least or count is None:
                continue
            m, n, k = map(int, problem.split("x"))
            traffic = ELEMENT * float(m * k + k * n + m * n)
            deep = math.ceil(k / (DEPTH * kernel.splits))
            found.append(Point(kernel.shape, count, deep, traffic, 1000 * us))
    return found


def error(point: Point, of_k_tile: float, constants: Sequence[float]) -> float:
    """The square of the logarithm of the estimate over the time. Every launch takes the last of the
    constants longer, which the table need not have: it is the same for all shapes."""
    *numbers, launch = constants
    return math.log((estimate(point, of_k_tile, *numbers) + launch) / point.ns) ** 2


def fit(found: list[Point]) -> tuple[Numbers, float]:
    """Numbers with the least squares, one at a time, in ever smaller steps; and the root of the
    mean square that is left."""
    by_shape: dict[Shape, list[Point]] = {}
    for point in found:
        by_shape.setdefault(point.shape, []).append(point)
    of_k_tile = {shape: 400.0 for shape in by_shape}
    constants = [2700.0, 40.0, 5000.0]  # DRAM, sums, launch

    def of_shape(shape: Shape, ns: float) -> float:
        return sum(error(p, ns, constants) for p in by_shape[shape])

    def of_all(tried: Sequence[float]) -> float:
        return sum(error(p, of_k_tile[p.shape], tried) for p in found)

    step = 0.5
    while step > 0.001:
        moved = False
        for shape in of_k_tile:
            ways = (of_k_tile[shape] * way for way in (1.0, 1 + step, 1 / (1 + step)))
            best = min(ways, key=lambda ns: of_shape(shape, ns))
            moved |= best != of_k_tile[shape]
            of_k_tile[shape] = best
        for i in range(len(constants)):
            tries = [[*constants] for _ in range(3)]
            tries[1][i] *= 1 + step
            tries[2][i] /= 1 + step
            best_try = min(tries, key=of_all)
            moved |= best_try != constants
            constants = best_try
        if not moved:
            step /= 2
    left = math.sqrt(of_all(constants) / len(found))
    return Numbers(of_k_tile, *constants[:2]), left


# ---- The table


Table = dict[str, Numbers]  # by the name of the GPU; the first is also for those with no entry


def parse(text: str) -> Table:
    types = re.findall(rf"({'|'.join(TYPES.values())})<([\d, ]+)>", text)
    shapes = [Shape.of_type(*found) for found in types]
    table: Table = {}
    for name, ns, constants in re.findall(r'\{"([^"]+)", \{([\d., ]+)\}, ([\d., ]+)\}', text):
        of_k_tile = dict(zip(shapes, map(float, ns.split(",")), strict=True))
        measured = {shape: number for shape, number in of_k_tile.items() if number > 0}
        table[name] = Numbers(measured, *map(float, constants.split(",")))
    return table


def render(table: Table, shapes: list[Shape]) -> str:
    """A shape that was not measured on a GPU has 0 nanoseconds, and is never taken there."""
    lines = ["using Tiles = Shapes<", ",\n".join(f"    {shape}" for shape in shapes) + ">;"]
    lines.append(f"constexpr Gpu<{len(shapes)}> kGpus[] = {{")
    for name, (of_k_tile, *constants) in table.items():
        ns = ", ".join(f"{of_k_tile.get(shape, 0.0):.0f}" for shape in shapes)
        numbers = ", ".join(f"{constant:.0f}" for constant in constants)
        lines.append(f'    {{"{name}", {{{ns}}}, {numbers}}},')
    return "\n".join([*lines, "};\n"])


def rewrite(source: str, gpu: str, measured: Numbers, chosen: list[Shape]) -> str:
    """The source with the chosen shapes, those that other GPUs have, and this GPU's numbers."""
    before, old, after = split(source)
    table = parse(old)
    others = [s for name, one in table.items() if name != gpu for s in one.ns_of_k_tile]
    table[gpu] = measured
    return before + render(table, list(dict.fromkeys([*chosen, *others]))) + after


def tune(bench: Bench, source: str) -> tuple[str, str]:
    """The GPU's name, and the source with its new table."""
    gpu, multiprocessors, rows = bench.run(FAMILY, "nt/bf16/v20a_", PROBLEMS)
    times: Times[Kernel] = {}
    for row in rows:
        of_kernel = times.setdefault(Kernel.of(row["kernel"]), {})
        of_kernel[row["problem"]] = float(row["time_us"])
    if not times:
        fail(f"{gpu} can run none of the shapes.")

    numbers, left = fit(points(times, multiprocessors))
    by_shape: Times[Shape] = {}  # with the best number of splits
    for (shape, _), by_problem in times.items():
        if shape not in numbers.ns_of_k_tile:
            continue  # never near the least time
        least = by_shape.setdefault(shape, {})
        for problem, us in by_problem.items():
            least[problem] = min(us, least.get(problem, us))
    chosen = winners(by_shape)
    for shape, ns in numbers.ns_of_k_tile.items():
        print(f"{'*' if shape in chosen else ' '} {shape!s:<20}{ns:7.0f} ns of a K-tile")
    dram, sums = numbers[1:]
    print(f"DRAM {dram:.0f} bytes per ns, sums {sums:.0f}; the estimate's error is {left:.1%}")
    if left > MOST_ERROR:
        fail(f"the estimate misses the times by {left:.0%}, so the table stays as it was: measure on a "
             "GPU that nothing else uses.")  # fmt: skip
    print(f"{gpu}: {len(chosen)} of {len(by_shape)} shapes")
    return gpu, rewrite(source, gpu, numbers, chosen)
