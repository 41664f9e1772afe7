"""How the work is shared: by lanes, warps, blocks and SMs (v09b, v10, v11, v14 to v16, v20)."""

from __future__ import annotations

from typing import Callable

from drawings.picture import LINE, MARGIN, WIDTH, Box, Picture
from drawings.rung import rung

V = 4
SMS = 132  # of an H100


# ---- v09b: warp tiles


@rung(
    "v09b_warp_tile",
    "What a warp makes of the block's tile in v09 and in v09b, and what of A and B it reads for that",
    "BM = 128, BN = 128, BK = 8, WM = 32, WN = 64;",
    "PM = 4 * V, PN = 8 * V;",
    "row = warp / (BN / WN) * WM + (lane / 16 * 2 + lane % 2) * V;",
    "col = warp % (BN / WN) * WN + lane % 16 / 2 * V;",
)
def warp_tile() -> Picture:
    bm, bn, wm, wn, warp = 128, 128, 32, 64, 2
    pm, pn, side, size = 4 * V, 8 * V, 224, 224 / 32
    picture = Picture("A warp tile: fewer numbers for as many FMAs", 392)

    def spread(lane: int) -> tuple[int, int]:  # v09
        t = warp * 32 + lane
        return t // 16 * V, t % 16 * V

    def tiled(lane: int) -> tuple[int, int]:
        return (warp // (bn // wn) * wm + (lane // 16 * 2 + lane % 2) * V,
                warp % (bn // wn) * wn + lane % 16 // 2 * V)  # fmt: skip

    def panel(x: float, name: str, place: Callable[[int], tuple[int, int]], dm: int, dn: int) -> None:
        y = 106
        rows = {(place(lane)[0] + i) // V for lane in range(32) for i in (0, dm)}
        cols = {(place(lane)[1] + j) // V for lane in range(32) for j in (0, dn)}
        picture.text(x, y - 34, f"{name}: {len(rows) * V} of A, {len(cols) * V} of B a step")
        picture.grid(x - 22, y, bm // V, 1, (14, size), lambda i, j: "A" if i in rows else "a")
        picture.grid(x, y - 22, 1, bn // V, (size, 14), lambda i, j: "B" if j in cols else "b")
        picture.grid(x, y, bm // V, bn // V, size,
                     lambda i, j: "C" if i in rows and j in cols else "idle")  # fmt: skip
        picture.text(x, y + side + 22, f"block: {bm} x {bn}, a cell is {V} x {V}", "small", "quiet")

    panel(MARGIN + 22, "v09", spread, bm // 2, bn // 2)
    panel(362, "v09b", tiled, pm, pn)
    picture.text(MARGIN, 376, f"strong: warp {warp}, and what it reads in a step of k", "small",
                 "quiet")  # fmt: skip
    return picture


# ---- v10: bigger tiles


@rung(
    "v10_warptile",
    "A block's tile in 8 warp tiles, a warp tile in pieces of 4 x 8 lanes, and the lanes' order",
    "using S = Shape<128, 256, 8, 64, 64, 1>;",
    "PM = 4 * V, PN = 8 * V;",
    "row = warp / (BN / S::WN) * S::WM + (lane / 16 * 2 + lane % 2) * V;",
    "col = warp % (BN / S::WN) * S::WN + lane % 16 / 2 * V;",
)
def warptile() -> Picture:
    bm, bn, wm, wn = 128, 256, 64, 64
    pm, pn = 4 * V, 8 * V
    picture = Picture("A tile for each warp, a thread tile for each lane", 440)
    x, y, unit, focus = MARGIN, 88, 1.06, 1  # the warp in focus
    picture.text(x, y - 12, f"block: {bm} x {bn}")
    for warp in range(bm // wm * (bn // wn)):
        left = x + warp % (bn // wn) * wn * unit
        top = y + warp // (bn // wn) * wm * unit
        picture.labelled(left, top, wn * unit - 2, wm * unit - 2, f"warp {warp}",
                         "c" if warp == focus else "idle")  # fmt: skip

    def place(lane: int) -> tuple[int, int]:
        return lane // 16 * 2 + lane % 2, lane % 16 // 2

    lane, size = 5, 18.0
    row, col = place(lane)
    warp_x, warp_y = 326, y
    rows, cols = wm // V, wn // V
    picture.text(warp_x, y - 12, f"warp {focus}: {wm} x {wn}, a cell is {V} x {V}")

    def tone(i: int, j: int) -> str:
        mine = i % (pm // V) == row and j % (pn // V) == col
        return "C" if mine else "c" if (i // (pm // V) + j // (pn // V)) % 2 else "idle"

    picture.grid(warp_x, warp_y, rows, cols, size, tone)
    pieces = (wm // pm) * (wn // pn)
    picture.lines(warp_x, warp_y + rows * size + 22, f"strong: lane {lane}, once in each of",
                  f"{pieces} pieces: {wm // pm * V} x {wn // pn * V} accumulators")  # fmt: skip

    x, y, width, height = MARGIN, 276, 34, 26
    picture.text(x, y - 12, "lanes in a piece: 4 x 8")
    for each in range(32):
        i, j = place(each)
        picture.labelled(x + j * width, y + i * height, width - 2, height - 2, f"{each}",
                         "c")  # fmt: skip
    picture.box(x + col * width, y + row * height, width - 2, height - 2, "oC", "thick")
    return picture


# ---- v11: shapes


@rung(
    "v11_tile_shapes",
    "1024 x 1024 in 32 big tiles, for 32 of 132 SMs; and in 128 small tiles, for 128 SMs",
    "using Big = Shape<128, 256, 8, 64, 64, 1>;",
    "using Small = Shape<64, 128, 8, 32, 64, 3>;",
    "kBlocks = 128;",
)
def tile_shapes() -> Picture:
    size, side, sm = 1024, 132, 12.5
    picture = Picture("Small tiles for small problems", 350)
    for x, (bm, bn) in ((MARGIN, (128, 256)), (340, (64, 128))):
        rows, cols = size // bm, size // bn
        tiles = rows * cols
        picture.text(x, 66, f"{tiles} tiles of {bm} x {bn}")
        picture.grid(x, 82, rows, cols, (side / cols, side / rows), "c")
        picture.grid(x, 246, 6, SMS // 6, sm, lambda i, j: "C" if i * 22 + j < tiles else "idle")
        picture.text(x, 236, f"{min(tiles, SMS)} of {SMS} SMs have work")
        picture.text(x + side + 12, 150, f"C, {size} x {size}", "small", "quiet")
    return picture


# ---- v14: register banks


@rung(
    "v14_register_banks",
    "A thread's accumulators coloured by register bank: in the bank of their number of B, or the other",
    "using Big = Shape<128, 256, 8, 64, 64, 4, 1>;",
    "b[j] is in bank j % 2.",
    "const int j = i % 2 == 0 ? step : TN - 1 - step;",
    "value[e] = __shfl_sync(0xffffffff, acc[i][j + e], lane);",
)
def register_banks() -> Picture:
    tm, tn, rows, size, y = 16, 8, 8, 24, 128
    order = [(i, step if i % 2 == 0 else tn - 1 - step) for i in range(tm) for step in range(tn)]
    tones = "idle", "c"  # of bank 0 and of bank 1
    picture = Picture("Accumulators in the other bank than their numbers of B", y + rows * size + 152)
    for x, text, other in ((MARGIN + 34, "stored as vectors", 0), (364, "v14: each in the other", 1)):
        # Fragments are vectors: numbers i of a and j of b are in banks i % 2 and j % 2.
        picture.text(x, y - 62, text)
        picture.text(x - 34, y - 16, "a")
        picture.text(x - 6, y - 16, "b", "end")
        picture.grid(x - 34, y, rows, 1, size, lambda i, j: tones[i % 2])
        picture.grid(x, y - 34, 1, tn, size, lambda i, j: tones[j % 2])
        picture.grid(x, y, rows, tn, size, lambda i, j: tones[(j + other) % 2])  # noqa: B023
        points = [(x + (j + 0.5) * size, y + (i + 0.5) * size) for i, j in order if i < rows]
        picture.line(points, "oink", "ln")
        picture.arrow(*points[-2], *points[-1], "oink")
        clashes = 0
        for (_, last_j), (i, j) in zip(order, order[1:]):
            read = i if j == last_j else j  # the other one is still there from the FMA before
            clashes += read % 2 == (j + other) % 2
        picture.text(x, y + rows * size + 22, f"one bank twice: {clashes} of {len(order)}", "small")
    y += rows * size + 60
    for i, parity in enumerate(("even", "odd")):
        picture.box(MARGIN + i * 250, y - 11, 14, 12, tones[i])
        picture.text(MARGIN + 22 + i * 250, y, f"bank {i}: {parity} registers", "small", "quiet")
    picture.lines(MARGIN, y + 30, "Along a row an FMA reads the accumulator and a number of b; that of",
                  "a is still there. At a turn it is b's that stays.",
                  f"{rows} of {tm} rows are drawn.")  # fmt: skip
    return picture


# ---- v15: split-K


@rung(
    "v15_split_k",
    "K in 3 parts: each part of A's columns and B's rows makes a partial C; their sum is C",
    "using Small = Shape<64, 128, 16, 32, 64, 3, 3>;",
    "kLeastKTiles = 8;",
    "min(slots / tiles_of<Small>(g), most)",
    "static_cast<int>(std::int64_t{of_k} * z / splits);",
)
def split_k() -> Picture:
    bm, bn, bk, per_sm, least, size = 64, 128, 16, 3, 8, 1024
    tiles, k_tiles = (size // bm) * (size // bn), size // bk
    splits = max(1, min(SMS * per_sm // tiles, k_tiles // least))
    picture = Picture("K in parts: more blocks than tiles", 366)
    side, y = 132, 116
    x = MARGIN
    picture.text(x, y - 12, "A")
    picture.text(x + side + 24, y - 12, "B")
    for z in range(splits):
        first, last = k_tiles * z // splits, k_tiles * (z + 1) // splits
        begin, length = side * first / k_tiles, side * (last - first) / k_tiles - 2
        picture.labelled(round(x + begin, 1), y, round(length, 1), side, f"{z}", "a")
        picture.labelled(x + side + 24, round(y + begin, 1), side, round(length, 1), f"{z}", "b")
        part_y = 62 + z * 88
        picture.labelled(384, part_y, 72, 72, f"part {z}", "c")
        picture.arrow(x + 2 * side + 36, y + side / 2, 376, part_y + 36)
        picture.arrow(464, part_y + 36, 528, y + side / 2 + (z - 1) * 20)
    picture.labelled(536, y + side / 2 - 42, 84, 84, "C", "c", "oC", "thick")
    picture.text(384, 342, "partial sums", "small", "quiet")
    picture.text(536, y + side / 2 + 62, "added up", "small", "quiet")
    picture.lines(MARGIN, y + side + 34, f"{size} x {size} x {size}:",
                  f"{tiles} tiles x {splits} parts of K = {tiles * splits} blocks",
                  f"for {SMS} x {per_sm} = {SMS * per_sm} block slots")  # fmt: skip
    return picture


# ---- v16: few rows


@rung(
    "v16_skinny",
    "Groups of 4 rows of B go to 8 warps in rotation; each has 6 stages, and all partial sums make C",
    "kWarps = 8,",
    "kCols = 32 * V;",
    "kStep = kWarps * V;",
    "kStages = 6;",
    "first = begin + warp * V;",
)
def skinny() -> Picture:
    warps, stages, focus = 8, 6, 2
    cols, step = 32 * V, warps * V
    height, x, y, width = 2, 96, 88, 320  # height: of a row of B
    end = y + stages * step * height
    picture = Picture("Few rows: each warp streams rows of B", end + 120)
    picture.text(MARGIN, y - 12, "A, upright")
    picture.text(x + 24, y - 12, f"B: {cols} columns of a block, {V} for a lane")
    right = x + width + 18
    for k in range(0, stages * step, V):
        mine, group = k // V % warps == focus, Box(0, y + k * height, 0, V * height - 2)
        first = mine and k < step
        picture.box(MARGIN, group.y, 14, group.height, "A" if first else "a", *["oA"] * mine)
        picture.box(x, group.y, width, group.height, "B" if first else "b", *["oB"] * mine)
        if mine:
            picture.text(x - 8, group.y + group.height, f"warp {focus}", "small", "end")
            picture.text(right, group.y + group.height, "multiplied" if first else "on its way")
    picture.arrow(x + width / 2, end + 4, x + width / 2, end + 32)
    picture.text(x + width / 2 + 12, end + 24, f"the partial sums of {warps} warps, added", "small")
    picture.box(x, end + 38, width, 12, "C")
    picture.text(x - 10, end + 50, "C", "end")
    picture.lines(MARGIN, end + 76, f"{stages} stages for each warp: none waits for others.",
                  "One row of A is drawn; up to 16 use what is loaded of B.",
                  looks=("small", "quiet"))  # fmt: skip
    return picture


# ---- v20: the choice


@rung(
    "v20_autotuned",
    "A flow: up to 8 rows or columns go to v16's kernels, else the lowest estimate chooses",
    "if (is_skinny(g)) return launch_skinny(g, state, stream);",
    "constexpr int kFewest = 8;",
    "g.m <= kFewest || g.n <= kFewest",
    "if (b_aligned) continue;",
    "take_if_faster({shape, *plan, true},",
)
def autotuned() -> Picture:
    few = 8
    picture = Picture("A kernel for each problem", 428)
    x, width, height = MARGIN, 236, 42
    right = WIDTH - MARGIN - 218

    def question(y: float, text: str, answer: str, then: str, look: str) -> None:
        picture.labelled(x, y, width, height, text, "idle")
        picture.arrow(x + width + 8, y + height / 2, right - 8, y + height / 2)
        picture.text((x + width + right) / 2, y + height / 2 - 6, answer, "small", "middle")
        picture.labelled(right, y, 218, height, then, look)

    def down(y: float) -> None:
        picture.arrow(x + width / 2, y + 6, x + width / 2, y + 32)

    question(58, f"M or N up to {few}?", "yes", "v16: few rows or columns", "b")
    down(100)
    picture.text(x + width / 2 + 12, 124, "no", "small")
    picture.box(x, 138, WIDTH - 2 * MARGIN, 128, "c")
    picture.lines(x + 16, 164, "For every shape of tile and way to share out the product, nanoseconds:")
    picture.lines(x + 32, 164 + LINE,
                  "the K-tiles of the busiest SM, at a measured pace of the shape;",
                  "for parts of K a cluster's exchange, or bytes and a second launch;",
                  "a copy of B, where rows of B are not aligned; and DRAM beside it.",
                  looks=("small",))  # fmt: skip
    picture.text(x + 16, 164 + 4 * LINE + 4, "The lowest estimate is taken.")
    down(266)
    question(304, "with a copy of B?", "yes", "copy B to aligned rows", "b")
    down(346)
    picture.labelled(x, 384, WIDTH - 2 * MARGIN, 28,
                     "v14's kernel with that tile; K in parts (v15, clusters), or tiles cut (v18)", "c", "oC")  # fmt: skip
    picture.arrow(right + 109, 352, right + 109, 378)
    return picture
