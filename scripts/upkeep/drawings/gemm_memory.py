"""Which thread touches what: sectors, tiles, fragments and banks (v01 to v08)."""

from __future__ import annotations

from collections import Counter
from typing import Callable, Sequence

from drawings.picture import LINE, MARGIN, Box, Picture
from drawings.rung import rung

V = 4  # floats in a vector
SECTOR = 8  # floats in 32 bytes
BANKS = 32


# ---- v01, v02: the sectors of a warp


def sectors(title: str, row: Callable[[int], int], col: Callable[[int], int]) -> Picture:
    """row, col: of the element of C that a lane makes."""
    k, deep, size = 11, 24, 6.5
    lanes = range(32)
    a_x, c_x = MARGIN, MARGIN + deep * size + 16
    b_y, c_y = 70, 70 + 16 * size + 26
    picture = Picture(title, c_y + 32 * size + 34)
    parts = (
        ("A", "load", a_x, c_y, 32, deep, {(row(lane), k) for lane in lanes}),
        ("B", "load", c_x, b_y, 16, 32, {(k, col(lane)) for lane in lanes}),
        ("C", "store", c_x, c_y, 32, 32, {(row(lane), col(lane)) for lane in lanes}),
    )
    for i, (name, access, x, y, rows, cols, touched) in enumerate(parts):
        moved = {(m, n // SECTOR) for m, n in touched}

        def look(m: int, n: int) -> str:
            sector = name.lower() if (m, n // SECTOR) in moved else "idle"
            return name if (m, n) in touched else sector

        picture.grid(x, y, rows, cols, size, look)
        picture.text(x, y - 8, name)
        text_y = b_y + 8 + 105 * i
        plural = "" if len(moved) == 1 else "s"
        picture.lines(c_x + 32 * size + 20, text_y, f"{access} of {name}:",
                      f"{len(moved)} sector{plural}",
                      f"{4 * len(touched)} of {4 * SECTOR * len(moved)} bytes used")  # fmt: skip
    picture.text(MARGIN, c_y + 32 * size + 22,
                 "strong: used by the warp; pale: comes with it, in sectors of 32 bytes",
                 "small", "quiet")  # fmt: skip
    return picture


@rung(
    "v01_naive",
    "32 rows of A and C: a warp uses one number of each row, and moves a sector of 8 for it",
    "row = blockIdx.x * blockDim.x + threadIdx.x",
)
def naive() -> Picture:
    return sectors("A warp down a column: a sector per thread", lambda lane: lane, lambda lane: 5)


@rung(
    "v02_coalesced",
    "The warp lies along a row: 4 whole sectors of B and of C, and one number of A for all lanes",
    "col = blockIdx.x * blockDim.x + threadIdx.x",
)
def coalesced() -> Picture:
    return sectors("A warp along a row: whole sectors", lambda lane: 5, lambda lane: lane)


# ---- v03: tiles


@rung(
    "v03_smem_tile",
    "The block's tile of C; the tiles of A and B that it is made of go through shared memory",
    "smaller >= 32 ? 32",
)
def smem_tile() -> Picture:
    width, tile, deep, k = 32, 32, 4, 2
    picture = Picture("Tiles go through shared memory, one pair at a time", 370)
    a_x, a_y = MARGIN, 218
    c_x, b_y = a_x + deep * tile + 14, a_y - deep * tile - 14
    at = 1  # the block's row and column of tiles

    def tone(name: str, current: bool, strip: bool) -> str:
        return name if current else name.lower() if strip else "idle"

    picture.grid(a_x, a_y, 3, deep, tile, lambda i, j: tone("A", i == at and j == k, i == at))
    picture.grid(c_x, b_y, deep, 3, tile, lambda i, j: tone("B", j == at and i == k, j == at))
    picture.grid(c_x, a_y, 3, 3, tile, lambda i, j: tone("C", i == j == at, False))
    for name, x, y in (("A", a_x, a_y), ("B", c_x, b_y), ("C", c_x + 3 * tile + 14, a_y + 20)):
        picture.text(x, y - 8, name)

    size, x, y = 4, 330, 100
    thread_row, thread_col = 9, 20
    picture.box(x - 14, b_y - 22, 304, 200, "oquiet", "ln")
    picture.text(x, b_y - 2, "shared memory", "small", "quiet")
    picture.grid(x, y, width, width, size, lambda i, j: "A" if i == thread_row else "a")
    picture.grid(x + 148, y, width, width, size, lambda i, j: "B" if j == thread_col else "b")
    picture.text(x, y + 146, f"tile of A: {width} x {width}", "small")
    picture.text(x + 148, y + 146, f"tile of B: {width} x {width}", "small")
    picture.lines(x - 14, y + 180, "A thread takes a row and a column:",
                  f"2 loads for each of {width} FMAs.",
                  f"{width} threads use every number that",
                  "came from global memory once.")  # fmt: skip
    return picture


# ---- v04, v05: the thread tile


def thread_tile(
    title: str, bm: int, bn: int, tm: int, tn: int, thread: int, text: Sequence[str]
) -> Picture:
    bk, side = 8, 232
    picture = Picture(title, 386)
    scale = side / bn
    a_x = MARGIN
    c_x, b_y = a_x + bk * scale + 10, 76
    c_y = b_y + bk * scale + 10

    def place(t: int) -> Box:  # of a thread's elements
        return Box(c_x + t % (bn // tn) * tn * scale, c_y + t // (bn // tn) * tm * scale,
                   tn * scale, tm * scale)  # fmt: skip

    mine = place(thread)
    picture.box(a_x, c_y, bk * scale, bm * scale, "a")
    picture.box(c_x, b_y, bn * scale, bk * scale, "b")
    picture.box(c_x, c_y, bn * scale, bm * scale, "idle")
    picture.boxes([place(t) for t in range(thread // 32 * 32, thread // 32 * 32 + 32)], "c")
    picture.box(a_x, mine.y, bk * scale, mine.height, "A")
    picture.box(mine.x, b_y, mine.width, bk * scale, "B")
    picture.boxes([mine], "C")
    picture.text(a_x, b_y - 10, f"a block's tile of C: {bm} x {bn}", "small", "quiet")
    picture.text(a_x, c_y - 6, "A")
    picture.text(c_x + side + 6, b_y + 13, "B")
    picture.text(a_x, c_y + bm * scale + 22, "strong: a thread; pale, of C: its warp", "small",
                 "quiet")  # fmt: skip

    # The same, larger: V steps of k of A, one step of B.
    size, x, y = 21, 340, 100
    picture.text(x, y - 34, "one thread, in registers", "small", "quiet")
    picture.grid(x, y + 32, tm, V, size, lambda i, j: "A" if j == 0 else "a")
    picture.grid(x + V * size + 12, y, 1, tn, size, "B")
    picture.grid(x + V * size + 12, y + 32, tm, tn, size, "c")
    picture.text(x + V * size + 4, y + 15, "b", "end")
    picture.text(x, y + 24, "a")
    picture.lines(x, y + 32 + tm * size + LINE + 4, *text)
    return picture


@rung(
    "v04_tile1d",
    "A thread's 8 accumulators in a column of C: vectors of 8 rows of A, and one number of B a step",
    "BM = 64, BN = 64, BK = 8, TM = 8;",
    "col = t % BN;",
    "row = t / BN * TM;",
)
def tile1d() -> Picture:
    tm = 8
    text = (f"{tm} vectors of A in {V} steps of k,", "1 number of B a step:",
            f"{tm // V + 1} loads for {tm} FMAs")  # fmt: skip
    return thread_tile("A thread makes a column of 8", 64, 64, tm, 1, 2 * 64 + 40, text)


@rung(
    "v05_tile2d",
    "A thread tile of 8 x 8 accumulators: an outer product of 8 numbers of A and 8 of B in every step",
    "BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;",
    "row = t / (BN / TN) * TM;",
    "col = t % (BN / TN) * TN;",
)
def tile2d() -> Picture:
    tm, tn = 8, 8
    text = (f"{tm} vectors of A in {V} steps of k,", f"{tn // V} vectors of B a step:",
            f"{tm // V + tn // V} loads for {tm * tn} FMAs")  # fmt: skip
    return thread_tile("A thread tile of 8 x 8", 128, 128, tm, tn, 5 * 16 + 10, text)


# ---- v05b: vectors of global memory


@rung(
    "v05b_vec_global",
    "B's K-tile: in v05 a warp loads a quarter of a row, four times; in v05b a row at once",
    "b_row = t / (BN / V), b_col = t % (BN / V) * V;",
    "next_b = Vec::load(b_from);",
    "next_b.store(&tile_b[b_row][b_col]);",
)
def vec_global() -> Picture:
    bk, bn, threads, thread, cell = 8, 128, 256, 11, (4.6, 13)
    picture = Picture("One vector of each K-tile per thread", 380)

    def scalar(t: int) -> set[tuple[int, int]]:
        return {(t // bn + i, t % bn) for i in range(0, bk, threads // bn)}

    def vector(t: int) -> set[tuple[int, int]]:
        return {(t // (bn // V), t % (bn // V) * V + e) for e in range(V)}

    def panel(y: float, text: str, touched: Callable[[int], set[tuple[int, int]]]) -> None:
        mine = touched(thread)
        warps = {at for t in range(32) for at in touched(t)}

        def look(k: int, n: int) -> str:
            return "B" if (k, n) in mine else "b" if (k, n) in warps else "idle"

        picture.text(MARGIN, y - 12, text)
        picture.grid(MARGIN, y, bk, bn, cell, look)

    panel(80, f"v05: {V} loads, of {4 * 32} bytes for a warp", scalar)
    panel(230, f"v05b: 1 load, of {4 * 32 * V} bytes for a warp", vector)
    picture.text(MARGIN, 358, f"B's K-tile, {bk} x {bn}; strong: thread {thread}; pale: its warp",
                 "small", "quiet")  # fmt: skip
    return picture


# ---- v06: A transposed


@rung(
    "v06_vec128",
    "A vector of four neighbours in a row of A becomes a column of the transposed K-tile",
    "tile_a[BK][BM];  // transposed",
    "a_row = t / (BK / V), a_col = t % (BK / V) * V;",
    "a[i] = Vec::load(&tile_a[k][row + i * V]);",
)
def vec128() -> Picture:
    bk, shown, size = 8, 16, 17
    picture = Picture("A's K-tile is transposed on its way to shared memory", 420)
    thread, k, tm, row = 11, 6, 8, 8
    a_row, a_col = thread // (bk // V), thread % (bk // V) * V
    x, y, to_x, to_y = MARGIN, 84, 290, 84

    def loaded(m: int, at: int) -> bool:
        return m == a_row and a_col <= at < a_col + V

    picture.text(x, y - 12, "A, in global memory")
    picture.grid(x, y, shown, bk, size, lambda m, at: "A" if loaded(m, at) else "a")
    picture.text(x, y + shown * size + 18, f"{shown} of 128 rows", "small", "quiet")
    picture.text(to_x, to_y - 12, "A's K-tile, in shared memory")
    picture.grid(to_x, to_y, bk, shown, size, lambda at, m: "A" if loaded(m, at) else "a")
    picture.text(to_x, to_y + bk * size + 18, f"{shown} of 128 columns", "small", "quiet")
    picture.arrow(x + bk * size + 10, y + (a_row + 0.5) * size, to_x - 12, to_y + 5.5 * size)
    for j in range(tm // V):
        picture.box(to_x + (row + j * V) * size - 0.5, to_y + k * size - 0.5, V * size, size,
                    "oink", "ln")  # fmt: skip
    picture.lines(
        to_x, to_y + bk * size + 54,
        f"strong: thread {thread} loads one vector,",
        f"row {a_row}, k = {a_col} to {a_col + V - 1}, and stores its",
        f"{V} numbers one below the other.",
        f"framed: in step k = {k} a thread needs",
        f"{tm} neighbours, which are {tm // V} vectors.",
        "B is copied as it is",
        "as it lies.",
    )  # fmt: skip
    return picture


# ---- v07: banks


def bank_row(picture: Picture, y: float, tone: str, hits: Sequence[tuple[str, int]]) -> None:
    """hits: of an access, who wants which bank; those that want the same one stand above another,
    and each level is a wavefront."""
    size, x, height = 18.5, 24, 22
    level = [0] * BANKS
    runs: list[tuple[str, int, int, int]] = []  # who, level, first bank, number of banks
    for who, bank in hits:
        last = runs[-1] if runs else ("", 0, 0, 0)
        if last[:2] == (who, level[bank]) and last[2] + last[3] == bank:
            runs[-1] = (*last[:3], last[3] + 1)
        else:
            runs.append((who, level[bank], bank, 1))
        level[bank] += 1
    wavefronts = max(level)
    picture.grid(x, y, wavefronts, BANKS, (size, height), "idle")
    for who, row, bank, banks in runs:
        looks = ("f", "hatched") if row else (tone,)  # in focus: has to wait
        picture.labelled(x + bank * size, y + row * height, banks * size - 1, height - 1, who, *looks)


@rung(
    "v07_padded",
    "The 32 banks: in v06 some are wanted twice and others not at all; in v07 all of them once",
    "kPad = V;",
    "tile_a[BK][BM + kPad];",
    "row = t / (BN / TN) * V;",
    "col = t % (BN / TN) * V;",
)
def padded() -> Picture:
    bm, tn, pad = 128, 8, V

    def store(row_length: int) -> list[tuple[str, int]]:  # lane 2r + h: tile_a[4h][r]
        names = ("lanes 0, 2, 4 … 30", "lanes 1, 3, 5 … 31")
        return [(names[h], (V * h * row_length + r) % BANKS) for h in range(2) for r in range(16)]

    def load(apart: int) -> list[tuple[str, int]]:  # lane x: tile_b[k][apart * x]
        return [(f"lane {x}", (apart * x + e) % BANKS) for x in range(8) for e in range(V)]

    picture = Picture("32 banks: who wants which", 386)
    panels = (
        (f"v06, store to A's K-tile, rows of {bm}: 2 wavefronts", "a", store(bm)),
        (f"v07, rows of {bm} + {pad}: 1 wavefront", "a", store(bm + pad)),
        (f"v06, load of B, lanes {tn} numbers apart: 2 wavefronts", "b", load(tn)),
        (f"v07, thread tile in pieces, lanes {V} numbers apart: 1 wavefront", "b", load(V)),
    )
    y = 62.0
    for text, tone, hits in panels:
        picture.text(24, y, text)
        bank_row(picture, y + 10, tone, hits)
        y += 80 if max(Counter(bank for _, bank in hits).values()) > 1 else 84
    y -= 34
    picture.text(24, y, "bank 0", "small", "quiet")
    picture.text(24 + BANKS * 18.5, y, "bank 31", "small", "quiet", "end")
    return picture


# ---- v08: the swizzle


@rung(
    "v08_swizzled",
    "A's K-tile with the vectors of rows 4 to 7 in other columns: groups of 16 are exchanged",
    "return m ^ (k / V % 2 * 16);",
    "tile_a[a_col + i][swizzle(a_col, a_row)] = next_a[i];",
)
def swizzled() -> Picture:
    bk, width, height, x, y = 8, 66, 25, 88, 84
    vectors = BANKS // V

    def place(k: int, m: int) -> int:
        return m ^ (k // V % 2 * 16)

    picture = Picture("Rows 4 to 7 exchange groups of 16 columns", y + bk * height + 84)
    picture.text(x - 12, y - 8, "banks", "small", "quiet", "end")
    for vector in range(vectors):
        bank = f"{V * vector}–{V * vector + V - 1}"
        picture.text(x + (vector + 0.5) * width, y - 8, bank, "small", "quiet", "middle")
    for k in range(bk):
        picture.text(x - 12, y + k * height + 17, f"k = {k}", "small", "end")
        for vector in range(vectors):
            m = V * vector
            cell = Box(x + place(k, m) // V * width, y + k * height, width - 2, height - 2)
            picture.labelled(*cell, f"{m}–{m + V - 1}", "a" if m < 16 else "idle")
    for k in (0, V):  # what a warp stores at once: columns 0 to 15 of a row and of the fourth below
        picture.box(x + place(k, 0) * width / V - 1, y + k * height - 1, 16 / V * width, height,
                    "oA", "thick")  # fmt: skip
    picture.lines(MARGIN, y + bk * height + 28, "In the boxes: columns of A's K-tile, 32 of 128.",
                  "Framed: what a warp stores at once, 32 numbers in 32 banks.")  # fmt: skip
    return picture
