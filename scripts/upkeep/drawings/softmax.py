"""The softmax's ladder: how often a row travels, the running maximum and sum, and who holds a row. Lines of
code begin with the version that they are of."""

from __future__ import annotations

from math import exp

from drawings.picture import MARGIN, WIDTH, Picture
from drawings.rung import rung
from drawings.timeline import legend, track

LEFT = 132  # where bars begin


# ---- the passes

# What a version does with a row, in order: what for, and whether it reads x or writes y
PASSES = {
    "v01 to v03": (("maximum", "a"), ("sum", "a"), ("results", "a"), ("y", "C")),
    "v04, v04b": (("max and sum", "a"), ("results", "a"), ("y", "C")),
    "v04c to v10": (("held", "a"), ("y", "C")),
}


@rung(
    "v01_passes",
    "What of a row travels: x three times and y in v01 to v03, x twice and y in v04, x and y once in v04c",
    "v01: for (int c = 0; c < a.cols; ++c) max = fmaxf(max, static_cast<float>(x[c]));",
    "v01: for (int c = 0; c < a.cols; ++c) sum += expf(static_cast<float>(x[c]) - max);",
    "v01: for (int c = 0; c < a.cols; ++c) y[c] = T(expf(static_cast<float>(x[c]) - max) * scale);",
    "v03: for (int c = t; c < a.cols; c += kBlock) sum += expf(static_cast<float>(x[c]) - max);",
    "v04: for (int c = t; c < a.cols; c += kBlock) row.add(static_cast<float>(x[c]));",
    "v04: y[c] = T(expf(static_cast<float>(x[c]) - row.max) * scale);",
    "v04c: if (v < vectors) loaded[k] = Vec::load(x + v * Vec::size);",
    "v04c: for (int e = 0; e < Vec::size; ++e) out[e] = T(held[k * Vec::size + e] * scale_held);",
)
def passes() -> Picture:
    y, unit = 84, 112
    picture = Picture("How often a row travels", y + len(PASSES) * 40 + 92)
    picture.text(LEFT, y - 12, "a bar: a row of n elements, as the threads ask for it", "small", "quiet")
    for i, (versions, moves) in enumerate(PASSES.items()):
        at = y + i * 40
        bars = [(j, j + 1, text, look) for j, (text, look) in enumerate(moves)]
        track(picture, LEFT, at, versions, unit, bars)
        picture.text(LEFT + len(moves) * unit + 8, at + 17, f"{len(moves)}n", "small")
    at = y + len(PASSES) * 40 + 18
    legend(picture, at, (("a", "x is read, and for what"), ("C", "y is written")))
    picture.lines(MARGIN, at + 28, "The second and the third time x may come from a cache, if the row is short.",
                  "Registers hold it for certain: up to 8192 elements in v04c, up to 32768 in v05.",
                  looks=("small", "quiet"))  # fmt: skip
    return picture


# ---- v04: the running maximum


def running(xs: list[float]) -> list[tuple[float, float, float, bool]]:
    """After each x, as Online::add: maximum, the sum before and after, whether the maximum moved."""
    largest, total, found = float("-inf"), 0.0, []
    for x in xs:
        scale = exp(-abs(x - largest))
        moved = x > largest
        after = total * scale + 1 if moved else total + scale
        largest = max(largest, x)
        found.append((largest, total, after, moved))
        total = after
    return found


def two(value: float) -> str:
    return f"{value:.2f}"


@rung(
    "v04_online",
    "Six elements, one after the other: the maximum so far, and the sum, which is scaled when it moves; and"
    " the pairs of two threads, merged",
    "v04: const float scale = expf(-fabsf(x - max));",
    "v04: sum = x > max ? sum * scale + 1.0f : sum + scale;",
    "v04: max = fmaxf(max, x);",
    "v04: float sum = mine.sum * expf(mine.max - max);",
)
def online() -> Picture:
    xs, size, y, left = [1.0, 3.0, 2.0, 4.0, 0.0, 4.0], (78, 26), 90, 152
    steps = running(xs)
    picture = Picture("Maximum and sum in one pass", y + 4 * size[1] + 234)
    rows: list[tuple[str, list[tuple[str, str]]]] = [
        ("x", [(f"{x:g}", "idle") for x in xs]),
        ("maximum so far", [(f"{m:g}", "C" if moved else "idle") for m, _, _, moved in steps]),
        ("sum so far", [(two(after), "C" if moved else "idle") for _, _, after, moved in steps]),
        ("its change", [
            ("+ 1" if i == 0 else f"x {two(exp(steps[i - 1][0] - m))} + 1" if moved
             else f"+ {two(exp(x - m))}", "idle")
            for i, (x, (m, _, _, moved)) in enumerate(zip(xs, steps))
        ]),
    ]  # fmt: skip
    picture.text(left, y - 12, "a thread's elements →", "small", "quiet")
    picture.cells(left, y, size, [cells for _, cells in rows])
    for i, (name, _) in enumerate(rows):
        picture.text(left - 12, y + (i + 0.5) * size[1] + 5, name, "small", "end")
    assert abs(steps[-1][2] - sum(exp(x - max(xs)) for x in xs)) < 1e-12
    y += 4 * size[1] + 26
    picture.text(MARGIN, y, "strong: the maximum moves, and the sum so far is scaled", "small", "quiet")

    y += 46
    picture.text(MARGIN, y, "Two threads' pairs merge in the same way:")
    first, second = (running(part)[-1] for part in (xs[:3], xs[3:]))
    largest = max(first[0], second[0])
    merged = sum(total * exp(m - largest) for m, _, total, _ in (first, second))
    assert abs(merged - steps[-1][2]) < 1e-12, "a merge is another sum"
    for i, (m, _, total, _) in enumerate((first, second)):
        picture.labelled(MARGIN, y + 18 + i * 40, 210, 30, f"maximum {m:g}, sum {two(total)}", "c")
        picture.text(244, y + 38 + i * 40, f"{two(total)} x {two(exp(m - largest))}", "small")
        picture.arrow(366, y + 33 + i * 40, 396, y + 46 + i * 14)
    picture.labelled(406, y + 38, 214, 30, f"maximum {largest:g}, sum {two(merged)}", "C")
    picture.lines(MARGIN, y + 124, "The larger maximum stays; the other sum is multiplied by e^(its own - larger).",
                  looks=("small", "quiet"))  # fmt: skip
    return picture


# ---- who holds a row

WARP, BLOCK, MOST = 32, 256, 32  # threads, and elements of a row in a thread's registers


def holders(cols: int) -> tuple[int, int]:
    """Threads of a row and elements in each, by launch_smallest_row."""
    for threads, elements in ((32, MOST // 4), (32, MOST // 2), (32, MOST), (128, MOST // 2), (128, MOST),
                              (256, MOST), (512, MOST), (1024, MOST)):  # fmt: skip
        if cols <= threads * elements:
            return threads, elements
    return 1024, MOST


@rung(
    "v05_holders",
    "Who holds a row: a thread in v01, a block of 256 in v02 to v04c, in v05 32 to 1024 threads by its"
    " length, in v08 up to 8 blocks",
    "v01: const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;",
    f"v02: constexpr int kBlock = {BLOCK};",
    f"v04c: constexpr int kThreads = {BLOCK}, kElements = {MOST};",
    "v05: const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / kThreads;",
    "v05: if (cols <= 32 * kMost / 2) return launch(Row<Vec, 32, kMost / 2>{});",
    "v05: if (cols <= 32 * kMost) return launch(Row<Vec, 32, kMost>{});",
    "v05: if (cols <= 1024 * kMost) return launch(Row<Vec, 1024, kMost>{});",
    "v08: constexpr int kThreads = Row::kThreads * kBlocks;  // of the cluster",
    "v08: if (cols <= 8 * kOfBlock) return launch(Half{}, std::integral_constant<int, 8>{});",
)
def who() -> Picture:
    y, wide, row = 92, 250, 9
    picture = Picture("Who holds a row", 536)
    second = WIDTH - MARGIN - wide

    def rows(x: float, at: float, name: str, below: str, parts: int, own: bool) -> None:
        """8 rows; own: each of another holder, else `parts` holders share each."""
        picture.text(x, at - 12, name)
        for i in range(8):
            if own:
                picture.box(x, at + i * (row + 3), wide, row, "C" if i == 2 else "c")
                continue
            for part in range(parts):
                width = wide / parts
                look = ("C" if part == 2 % parts else "c") if i == 2 else "idle"
                picture.box(round(x + part * width, 1), at + i * (row + 3), round(width - 2, 1), row, look)
        picture.text(x, at + 8 * (row + 3) + 16, below, "small")

    rows(MARGIN, y, "v01: a thread", "of a warp, 8 of 32; strong: a thread's", 1, True)
    rows(second, y, f"v02 to v04c: {BLOCK} threads", "of a block; strong: a warp's part",
         BLOCK // WARP, False)  # fmt: skip

    y += 168
    left, bar = 150, 22
    picture.text(MARGIN, y, "v05 and v08: as many as its length takes, up to 32 elements in each")
    lengths = (256, 1024, 4096, 8192, 16384, 32768)
    for i, cols in enumerate(lengths):
        threads, elements = holders(cols)
        at = y + 18 + i * bar
        picture.text(left - 12, at + 14, f"{cols} columns", "small", "end")
        width = 30 * (threads // WARP).bit_length()
        picture.box(left, at, width, bar - 4, "C" if threads == WARP else "c")
        name = "a warp" if threads == WARP else f"a block of {threads}"
        picture.text(left + width + 10, at + 14, f"{name}: {threads} x {elements}", "small")
    at = y + 18 + len(lengths) * bar
    picture.text(left - 12, at + 14, f"{8 * 512 * MOST} columns", "small", "end")
    for block in range(8):
        picture.box(left + block * 30, at, 28, bar - 4, "b hatched")
    picture.text(left + 8 * 30 + 10, at + 14, f"8 blocks of 512: 4096 x {MOST}", "small")
    legend(picture, at + 54, (("C", "no barrier"), ("c", "a barrier of the block"),
                                 ("b hatched", "of a cluster of blocks")))
    picture.lines(MARGIN, at + 82, "Bars of warps and blocks: logarithms of their threads.", looks=("small", "quiet"))
    return picture
