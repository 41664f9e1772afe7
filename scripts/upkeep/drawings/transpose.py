"""The transpose's ladder: sectors of the store, the tile in shared memory, its banks, and vectors. Lines of
code begin with the version that they are of."""

from __future__ import annotations

from collections import Counter
from typing import Callable

from drawings.picture import MARGIN, WIDTH, Picture
from drawings.rung import rung
from drawings.timeline import legend

TILE = BANKS = LANES = 32
SECTOR = 8  # floats in 32 bytes
V = 4  # floats in a vector
ROW, COLUMN = 5, 20  # in focus


# ---- v01: the sectors of a store


@rung(
    "v01_strided_store",
    "A warp reads 32 neighbours in a row, 4 whole sectors; it writes them down a column, a sector each",
    "v01: const int col = blockIdx.x * kCols + threadIdx.x;",
    "v01: a.out[std::int64_t{col} * a.rows + row] = a.in[std::int64_t{row} * a.cols + col];",
    f"v01: kCols = {LANES}, kRows = 8;",
)
def strided_store() -> Picture:
    size, y = 7, 92
    out_x = WIDTH - MARGIN - 24 * size
    picture = Picture("Along a row in, down a column out", y + LANES * size + 44)
    loaded = {(ROW, lane) for lane in range(LANES)}
    stored = {(col, row) for row, col in loaded}
    for x, rows, cols, name, tone, touched, text in (
        (MARGIN, 16, LANES, "in", "a", loaded, "load"),
        (out_x, LANES, 24, "out", "c", stored, "store"),
    ):
        moved = {(i, j // SECTOR) for i, j in touched}

        def look(i: int, j: int) -> str:
            if (i, j) in touched:  # noqa: B023
                return tone.upper()  # noqa: B023
            return tone if (i, j // SECTOR) in moved else "idle"  # noqa: B023

        picture.grid(x, y, rows, cols, size, look)
        picture.text(x, y - 12, name)
        at = MARGIN if text == "load" else 268
        picture.lines(at, y + 16 * size + 34, f"{text} of a warp:", f"{len(moved)} sectors,",
                      f"{4 * len(touched)} of {4 * SECTOR * len(moved)} bytes")  # fmt: skip
    picture.arrow(MARGIN + LANES * size + 12, y + 5.5 * size, out_x - 12, y + 5.5 * size)
    picture.text(MARGIN, y + LANES * size + 24, "strong: what the warp uses; pale: the rest of the sectors "
                 "of 32 bytes", "small", "quiet")  # fmt: skip
    return picture


# ---- v02: the tile


@rung(
    "v02_tile",
    "A tile is read by rows, stored in shared memory by rows, loaded there by columns and written by rows",
    "v02: constexpr int kTile = 32;",
    "v02: __shared__ T tile[kTile][kTile];",
    "v02: tile[y + i][x] = a.in[std::int64_t{row} * a.cols + col];",
    "v02: a.out[std::int64_t{col} * a.rows + row] = tile[x][y + i];",
)
def tile() -> Picture:
    size, y = 5, 92
    side = TILE * size
    xs = [MARGIN + i * (WIDTH - 2 * MARGIN - side) / 2 for i in range(3)]
    picture = Picture("The tile turns in shared memory", y + side + 112)
    looks: list[tuple[str, Callable[[int, int], str]]] = [
        ("a tile of in", lambda i, j: "a" if i == ROW else "idle"),
        ("in shared memory", lambda i, j: "C" if j == COLUMN else "a" if i == ROW else "idle"),
        ("its place in out", lambda i, j: "C" if i == COLUMN else "idle"),
    ]
    for x, (name, look) in zip(xs, looks):
        picture.text(x, y - 12, name)
        picture.grid(x, y, TILE, TILE, size, look)
    for x, at in ((xs[0], ROW), (xs[1], COLUMN)):
        picture.arrow(x + side + 12, y + (at + 0.5) * size, x + side + 48, y + (at + 0.5) * size)
    legend(picture, y + side + 28, (("a", f"row {ROW}: a warp loads and stores it"),
                                    ("C", f"column {COLUMN}: a row of out")))  # fmt: skip
    picture.lines(MARGIN, y + side + 62, "Both matrices are accessed along rows, 4 whole sectors at a time.",
                  "The column is what is left: it lies in one bank.")  # fmt: skip
    return picture


# ---- v02 to v04: banks

WORD: dict[str, Callable[[int, int], int]] = {  # of an element of the tile, in shared memory
    "v02": lambda row, col: TILE * row + col,
    "v03": lambda row, col: (TILE + 1) * row + col,
    "v04": lambda row, col: TILE * row + (col ^ row),
}


def wavefronts(words: list[int]) -> int:
    """Of an access to different words: as many as the bank has that most of them are in."""
    return max(Counter(word % BANKS for word in words).values())


@rung(
    "v03_banks",
    "Where a column of the tile lies among the 32 banks: in v02 all in one; in v03 and v04 one in each",
    "v02: __shared__ T tile[kTile][kTile];",
    "v03: constexpr int kPad = 4 / sizeof(T);",
    "v03: __shared__ T tile[kTile][kTile + kPad<T>];",
    "v04: return col ^ (row / kInWord * kInWord);",
    "v04: constexpr int kInWord = 4 / sizeof(T);",
)
def banks() -> Picture:
    size, y, column = 5.8, 92, 5
    picture = Picture("A column of the tile in the 32 banks", y + 33 * size + 106)
    side = BANKS * size
    for i, (version, text) in enumerate(
        (("v02", "rows of 32 words"), ("v03", "rows of 33"), ("v04", "column ^ row"))
    ):
        x = MARGIN + i * (WIDTH - 2 * MARGIN - side) / 2
        word = WORD[version]
        mine = [word(row, column) for row in range(TILE)]
        tile = {word(row, col) for row in range(TILE) for col in range(TILE)}
        last = max(tile)

        def look(row: int, bank: int) -> str:
            at = row * BANKS + bank
            if at in mine:  # noqa: B023
                return "C"
            if at in tile:  # noqa: B023
                return "idle"
            return "a" if at < last else "page"  # noqa: B023

        picture.text(x, y - 12, f"{version}: {text}")
        picture.grid(x, y, last // BANKS + 1, BANKS, size, look)
        count = wavefronts(mine)
        picture.text(x, y + 33 * size + 22, f"{count} wavefront{'s' * (count > 1)}")
    y += 33 * size + 54
    legend(picture, y, (("C", f"column {column}, which a warp loads"), ("a", "padding"),
                        ("idle", "the rest of the tile")))  # fmt: skip
    picture.text(MARGIN, y + 26, "A grid's column is a bank, its row 32 words in a row.", "small", "quiet")
    return picture


@rung(
    "v04_swizzle",
    "The corner of a tile, 8 x 8, with every row's elements at column ^ row: each column meets 8 banks",
    "v04: return col ^ (row / kInWord * kInWord);",
    "v04: tile[y + i][place<T>(y + i, x)] = a.in[std::int64_t{row} * a.cols + col];",
)
def swizzle() -> Picture:
    n, size, y, column = 8, (33, 23), 112, 2
    x = WIDTH - MARGIN - n * size[0]
    picture = Picture("The swizzle: an XOR with the row", y + n * size[1] + 82)

    def look(c: int) -> str:
        return "C" if c == column else "idle"

    picture.cells(MARGIN, y, size, [[(f"{c}", look(c)) for c in range(n)] for _ in range(n)])
    picture.cells(x, y, size, [[(f"{p ^ r}", look(p ^ r)) for p in range(n)] for r in range(n)])
    for left, name, about in ((MARGIN, "the tile", "columns"), (x, "in shared memory", "banks 0 to 7")):
        picture.text(left, y - 38, name)
        picture.text(left, y - 14, about, "small", "quiet")
    picture.arrow(MARGIN + n * size[0] + 12, y + 4 * size[1], x - 12, y + 4 * size[1])
    picture.lines(MARGIN, y + n * size[1] + 28, f"Strong: column {column}. In row r it is in place {column} ^ r, in "
                  "another bank", "for every r. 8 of 32 rows and columns are drawn; no word is wasted.")  # fmt: skip
    return picture


# ---- v05: vectors


@rung(
    "v05_thread_tile",
    "A thread's 4 x 4 elements, loaded as rows and turned in registers; and the tile's vectors that 8"
    " lanes store at once, in 8 different places",
    "v05: constexpr int kThreadTiles = 8;",
    "v05: return v ^ (row / V % 8);",
    "v05: for (int i = 0; i < V; ++i) column[i] = thread_tile[i][j];",
    "v05: column.store(&tile[tx * V + j][place<V>(tx * V + j, ty) * V]);",
)
def thread_tile() -> Picture:
    n, size, y, focus = 8, (46, 26), 104, 1  # the vector
    ty = 2
    picture = Picture("A thread tile turns in registers", y + 32 * 8 + 96)
    rows = [[(f"{i},{j}", "A" if i == focus else "a") for j in range(V)] for i in range(V)]
    turned = [[(f"{i},{j}", "A" if i == focus else "a") for i in range(V)] for j in range(V)]
    picture.cells(MARGIN, y, size, rows)
    below = y + V * size[1] + 64
    picture.cells(MARGIN, below, size, turned)
    picture.text(MARGIN, y - 12, f"{V} vectors of in")
    picture.text(MARGIN, below - 12, f"{V} vectors of out")
    picture.arrow(MARGIN + 2 * size[0], y + V * size[1] + 8, MARGIN + 2 * size[0], below - 30)
    picture.text(MARGIN + 2 * size[0] + 14, y + V * size[1] + 24, "registers", "small")

    x, cell = 300, (26, 8)
    lanes = {(V * tx, ty ^ (V * tx // V % 8)): tx for tx in range(n)}
    assert len({place for _, place in lanes}) == n, "two lanes meet in a bank"
    row = 13
    picture.text(x, y - 34, "the tile, in shared memory, transposed")
    picture.text(x, y - 12, "rows of 8 vectors: all 32 banks", "small", "quiet")
    picture.grid(x, y, V * n, n, cell,
                 lambda i, p: "C" if (i, p) in lanes else "b" if i == row else "idle")  # fmt: skip
    right = x + n * cell[0] + 14
    for (i, _), tx in lanes.items():
        picture.text(right, y + i * cell[1] + 11, f"lane {n * ty + tx}", "small")
    legend(picture, y + V * n * cell[1] + 48, (("C", "8 lanes store a vector each"),
                                               ("b", f"8 lanes load row {row}")))  # fmt: skip
    picture.text(MARGIN, y + V * n * cell[1] + 76, "Both touch all 32 banks once: one wavefront for 8 lanes.",
                 "small", "quiet")  # fmt: skip
    return picture


# ---- v07: windows


@rung(
    "v07_windows",
    "8 rows of the output around a block's first row: its pieces start at sectors, up to 7 elements before it",
    "v07: const int row = row0 + vector * V - (start & (kSector - 1));",
    "v07: const int top = row0 + window - kTile<T>;",
    "v07: return rows % kSector == 0 ? kTile<T> : kTile<T> - kSector;",
)
def windows() -> Picture:
    rows, before, shown, y = 4093, SECTOR, 34, 104
    size = (WIDTH - 2 * MARGIN - 44) / shown
    lines = range(SECTOR)  # rows of the output: columns of the input
    picture = Picture("Pieces that start where a sector does", y + len(lines) * size + 116)
    x = MARGIN + 44
    starts = [line * rows % SECTOR for line in lines]

    def look(line: int, at: int) -> str:
        """`at` counts from a sector's worth before row0."""
        sector = (at + starts[line]) // SECTOR
        if at < before - starts[line]:
            return "idle"
        return "A" if sector % 2 else "a"

    assert all((before - s + s) % SECTOR == 0 for s in starts)
    picture.grid(x, y, len(lines), shown, size, look)
    for line in lines:
        picture.text(MARGIN, y + (line + 0.75) * size, f"row {line}", "small")
    picture.text(x, y - 34, "elements of the output")
    picture.text(x + before * size, y - 12, "row0", "small")
    picture.text(x, y - 12, "row0 - 8", "small")
    below = y + len(lines) * size + 28
    legend(picture, below, (("A", "the block's sectors"), ("a", "every other one"),
                            ("idle", "of the block above")))  # fmt: skip
    picture.lines(MARGIN, below + 34, f"Of an input with {rows} rows, f32. Row c of the output starts",
                  f"s = c * {rows} % 8 elements after a sector's boundary, and the block's",
                  "piece of it at row0 - s.")  # fmt: skip
    return picture
