"""The tensor cores' ladder: who holds what, how K-tiles lie in shared memory, what happens when. A
drawing's name begins with the number of its version."""

from __future__ import annotations

from typing import Iterable

from drawings.picture import MARGIN, WIDTH, Picture
from drawings.rung import rung
from drawings.timeline import BAR, legend, track

LANE = 5  # the one in focus
LEFT = 150  # where bars begin


def tone(lane: int, pale: str) -> str:
    return "F" if lane == LANE else pale


# ---- v02: mma.sync and ldmatrix


@rung(
    "v02_fragments",
    "A, B and C of one mma.sync in cells of two elements, each with the lane that has it",
    "a[i]   word t + i / 2 * 4 of row g + i % 2 * 8",
    "b[i]   word t + i * 4 of column g",
    "mma_m16n8k16",
)
def fragments() -> Picture:
    word, pair, x, y = (29, 19), (58, 19), MARGIN, 92
    side, b_y = 8 * word[0], 92
    c_x, c_y = x + side + 34, y + 8 * word[1] + 62
    picture = Picture("mma.sync: 16 x 16 times 16 x 8, by 32 lanes", c_y + 16 * word[1] + 92)

    def lane(row: int, column: int) -> int:
        return row % 8 * 4 + column % 4

    b = [[(f"{lane(n, k)}", tone(lane(n, k), "b")) for n in range(8)] for k in range(8)]
    picture.cells(c_x, b_y, word, b)
    picture.text(c_x, b_y - 12, "B: 8 columns of 8 words")
    for i in range(2):
        picture.text(c_x + side + 12, b_y + (i * 4 + 2) * word[1] + 5, f"b[{i}]", "small")
    a = [[(f"{lane(m, k)}", tone(lane(m, k), "a")) for k in range(8)] for m in range(16)]
    picture.cells(x, c_y, word, a)
    picture.text(x, c_y - 34, "A: 16 rows of 8 words")
    for i in range(2):
        middle = x + (i * 4 + 2) * word[0]
        picture.text(middle, c_y - 10, f"a[{2 * i}]", "small", "middle")
        picture.text(middle, c_y + 16 * word[1] + 18, f"a[{2 * i + 1}]", "small", "middle")
    c = [[(f"{lane(m, n)}", tone(lane(m, n), "c")) for n in range(4)] for m in range(16)]
    picture.cells(c_x, c_y, pair, c)
    picture.text(c_x, c_y - 10, "C: 16 rows of 4 pairs")
    for i in range(2):
        picture.text(c_x + side + 12, c_y + (i * 8 + 4) * word[1] - 2, f"c[{2 * i}]", "small")
        picture.text(c_x + side + 12, c_y + (i * 8 + 5) * word[1], f"c[{2 * i + 1}]", "small")
    picture.lines(MARGIN, c_y + 16 * word[1] + 52,
                  "A cell of A or B is a word of 4 bytes: two f16 or bf16, neighbours along K,",
                  f"one tf32, or four e4m3. Strong: what lane {LANE} has.")  # fmt: skip
    return picture


@rung(
    "v02_ldmatrix",
    "Each lane provides the address of a row of 16 bytes; its four words go to four lanes",
    "A, 16 x 16, rows along k       ldmatrix(a, &tile[lane % 16][lane / 16 * 8])",
    "Lane 8i + r brings the address of row r of matrix i",
)
def ldmatrix() -> Picture:
    rows, chunk, word, y = 16, (96, 19), (29, 19), 92
    picture = Picture("ldmatrix: four matrices of 8 x 8 in one instruction", y + 16 * 19 + 96)

    def matrix(row: int, column: int) -> int:
        return row // 8 + column * 2

    focus = 2  # the matrix
    brought = [
        [(f"lane {c * 16 + r}", "F" if matrix(r, c) == focus else "a") for c in range(2)]
        for r in range(rows)
    ]
    picture.cells(MARGIN, y, chunk, brought)
    picture.text(MARGIN, y - 34, "who provides the address")
    picture.text(MARGIN, y - 12, "16 rows of 2 chunks of 16 bytes", "small", "quiet")
    x = MARGIN + 2 * chunk[0] + 76
    picture.arrow(MARGIN + 2 * chunk[0] + 12, y + 4 * 19, x - 12, y + 4 * 19)
    dealt = [
        [(f"{r % 8 * 4 + w % 4}", "F" if matrix(r, w // 4) == focus else "a") for w in range(8)]
        for r in range(rows)
    ]
    picture.cells(x, y, word, dealt)
    picture.text(x, y - 34, "who gets the word")
    for i in range(2):
        middle = x + (i * 4 + 2) * word[0]
        picture.text(middle, y - 12, f"register {2 * i}", "small", "middle")
        picture.text(middle, y + rows * 19 + 18, f"register {2 * i + 1}", "small", "middle")
    picture.lines(MARGIN, y + rows * 19 + 52,
                  f"Strong: matrix {focus}. Its 8 rows are read together, in one pass if no two of",
                  "them lie in the same 4 banks. Register i is a[i] of mma.sync.")  # fmt: skip
    return picture


# ---- v10: wgmma


@rung(
    "v10_swizzle",
    "Eight rows of eight chunks, in the matrix and as TMA writes them: chunk c as chunk c ^ r",
    "chunk c (16 bytes) of row r lies in place c ^ (r % 8)",
    "CU_TENSOR_MAP_SWIZZLE_128B",
    "constexpr int kDepth = 64;",
)
def swizzle() -> Picture:
    rows, size, focus, y = 8, (33, 24), 2, 110
    picture = Picture("The 128-byte swizzle of TMA and wgmma", y + rows * 24 + 112)
    x = WIDTH - MARGIN - 8 * size[0]

    def look(c: int) -> str:
        return "F" if c == focus else "a"

    picture.cells(MARGIN, y, size, [[(f"{c}", look(c)) for c in range(8)] for _ in range(rows)])
    picture.text(MARGIN, y - 38, "in the matrix")
    picture.text(MARGIN, y - 14, "chunks of 8 elements along K", "small", "quiet")
    places = [[(f"{p ^ r}", look(p ^ r)) for p in range(8)] for r in range(rows)]
    picture.cells(x, y, size, places)
    picture.text(x, y - 38, "in shared memory")
    for p in (0, 4):
        banks = f"banks {4 * p} to {4 * p + 15}"
        picture.text(x + (p + 2) * size[0], y - 14, banks, "small", "middle")
    picture.arrow(MARGIN + 8 * size[0] + 10, y + 4 * 24, x - 10, y + 4 * 24)
    picture.lines(MARGIN, y + rows * 24 + 26,
                  f"Strong: chunk {focus} of eight rows, an 8 x 8 matrix for the tensor cores. As",
                  "on the left it would lie in 4 banks, for eight passes; swizzled it is all 32",
                  "banks, once. The pattern repeats every 8 rows, 1024 bytes: stages begin",
                  "at multiples of that.")  # fmt: skip
    return picture


@rung(
    "v10_accumulators",
    "64 rows of D in four bands of 16, a warp each; in every 8 columns a lane has two pairs",
    "d[4 j + i]   row 16 w + g + i / 2 * 8, column 8 j + 2 t + i % 2",
    "constexpr int BM = 128, BN = 128, BK = kDepth;",
)
def accumulators() -> Picture:
    n, unit, y = 128, 1.9, 92
    picture = Picture("wgmma: 64 x N accumulators of 128 threads", y + 16 * 19 + 44)
    picture.text(MARGIN, y - 34, f"a warpgroup: 64 x {n}")
    focus, j = 1, 5
    for warp in range(4):
        top = y + warp * 16 * unit
        picture.grid(MARGIN, top, 1, n // 8, (8 * unit, 16 * unit - 2),
                     lambda _, c, w=warp: "F" if (w, c) == (focus, j) else "c")  # fmt: skip
        picture.text(MARGIN + n * unit + 8, top + 20, f"warp {warp}", "small")
    end = y + 4 * 16 * unit
    picture.lines(MARGIN, end + 26,
                  "A cell is 16 x 8: four accumulators", "of each lane, as C of mma.sync.",
                  f"In all {n // 2} per thread;", "of 64 x 256 it is 128.", "",
                  "On the right a cell is two", f"neighbours. Strong: lane {LANE}.")  # fmt: skip

    x, pair = 372, (58, 19)
    picture.text(x, y - 34, f"warp {focus}, columns {8 * j} to {8 * j + 7}")
    lanes = [
        [(f"{r % 8 * 4 + p}", tone(r % 8 * 4 + p, "c")) for p in range(4)] for r in range(16)
    ]
    picture.cells(x, y, pair, lanes)
    picture.text(x, y - 12, f"rows {16 * focus} to {16 * focus + 7}: d[{4 * j}], d[{4 * j + 1}]",
                 "small", "quiet")  # fmt: skip
    picture.text(x, y + 16 * 19 + 20,
                 f"rows {16 * focus + 8} to {16 * focus + 15}: d[{4 * j + 2}], d[{4 * j + 3}]",
                 "small", "quiet")  # fmt: skip
    return picture


# ---- v12: warp specialisation


@rung(
    "v12_ring",
    "A timeline: the producer issues loads, four stages fill and empty, two consumers multiply",
    "kStages = 4, kConsumers = BM / 64,",
    "mbarrier_init(&full[s], 1);",
    "mbarrier_init(&empty[s], kConsumers);",
    "wgmma_wait_group<1>();",
)
def ring() -> Picture:
    stages, groups, latency, work, total = 4, 2, 2.3, 1.0, 11.6
    unit = (WIDTH - MARGIN - LEFT) / total
    picture = Picture("A producer warp and two consumer warpgroups", 386)

    # The warpgroups' products alternate in the tensor cores: half a K-tile's time each.
    issued: list[float] = []
    complete: list[float] = []
    left: list[list[float]] = []  # by K-tile, when each warpgroup has released it
    free = [0.0] * groups
    producer = 0.0
    products: list[list[tuple[float, float, str, str]]] = [[] for _ in range(groups)]
    k_tiles = 10
    for s in range(k_tiles):
        ready = max(left[s - stages]) if s >= stages else 0.0
        issued.append(max(producer, ready))
        producer = issued[-1] + 0.25
        complete.append(issued[-1] + latency)
        left.append([])
        for group in range(groups):
            begin = max(free[group], complete[s] + group * work / 2)
            free[group] = begin + work
            left[s].append(begin + work)
            if begin < total:
                text = f"{s}" if begin + work <= total else ""
                products[group].append((begin, min(begin + work, total), text, "c"))

    y = 84
    picture.text(LEFT, y - 12, "K-tiles, an example →", "small", "quiet")
    track(picture, LEFT, y, "producer", unit,
          [(t, min(t + 0.25, total), "", "F") for t in issued if t < total])  # fmt: skip
    y += BAR + 10
    for stage in range(stages):
        bars: list[tuple[float, float, str, str]] = []
        for s in range(stage, k_tiles, stages):
            if issued[s] < total:
                end = min(complete[s], total)
                bars.append((issued[s], end, f"load {s}" if end == complete[s] else "", "idle"))
            if complete[s] < total:
                end = min(max(left[s]), total)
                bars.append((complete[s], end, f"{s}" if end == max(left[s]) else "", "a hatched"))
        track(picture, LEFT, y + stage * BAR, f"stage {stage}", unit, bars)
    y += stages * BAR + 10
    for group in range(groups):
        track(picture, LEFT, y + group * BAR, f"warpgroup {group}", unit, products[group])
    y += groups * BAR + 26
    legend(picture, y, (("F", "issues TMA"), ("idle", "in flight"), ("a hatched", "full"),
                        ("c", "multiplied")))  # fmt: skip
    picture.lines(MARGIN, y + 30, "A stage is full when its bytes are complete, and empty when both",
                  "warpgroups have arrived at its barrier; there are no other waits.")  # fmt: skip
    return picture


# ---- v13: persistent


@rung(
    "v13_epilogue",
    "Timelines of an SM: in v12 it is idle while blocks end and start, in v13 it goes on",
    "kStages = 4, kConsumers = BM / 64,",
    "tile += gridDim.x",
    "c.store(epilogue_tiles, corner.y + warp * EpilogueTile::kRows, corner.x, acc);",
)
def epilogue() -> Picture:
    fill, multiply, store, total = 0.8, 3.2, 0.7, 12.6  # an example's
    unit = (WIDTH - MARGIN - LEFT) / total
    picture = Picture("The next tile is multiplied while this one is stored", 424)

    def clipped(
        bars: Iterable[tuple[float, float, str, str]],
    ) -> list[tuple[float, float, str, str]]:
        return [
            (begin, min(end, total), text if end <= total else "", look)
            for begin, end, text, look in bars
            if begin < total
        ]

    y = 92
    picture.text(MARGIN, y - 14, "v12: a block per tile")
    loads, products, cores = [], [], []
    t, tile = 0.0, 0
    while t < total:
        begin = t + fill
        loads.append((t, begin + multiply - fill, f"load {tile}", "idle"))
        products += [(begin, begin + multiply, f"multiply {tile}", "c"),
                     (begin + multiply, begin + multiply + store, "", "b hatched")]  # fmt: skip
        cores.append((begin, begin + multiply, "", "C"))
        t, tile = begin + multiply + store, tile + 1
    track(picture, LEFT, y, "producer", unit, clipped(loads))
    for group in range(2):
        track(picture, LEFT, y + (1 + group) * BAR, f"warpgroup {group}", unit, clipped(products))
    track(picture, LEFT, y + 3 * BAR, "tensor cores", unit, clipped(cores))

    # While one warpgroup stores, the other has the tensor cores for itself and is twice as fast;
    # so in the long run they are half a tile apart.
    y += 4 * BAR + 62
    picture.text(MARGIN, y - 14, "v13: a block per SM")
    half = multiply / 2  # what a warpgroup's product takes alone
    todo = [half, half]  # of the tile in work
    storing = [0.0, 0.0]
    tiles, begins = [0, 0], [fill, fill]
    bars: list[list[tuple[float, float, str, str]]] = [[], []]
    todo[1] = 1.6 * half  # the second one is behind
    busy, now, step = [], fill, 0.01
    while now < total:
        active = [g for g in range(2) if storing[g] <= 0]
        for g in range(2):
            if storing[g] > 0:
                storing[g] -= step
                if storing[g] <= 0:
                    bars[g].append((begins[g], now, "", "b hatched"))
                    begins[g] = now
            elif g in active:
                todo[g] -= step / len(active)
                if todo[g] <= 0:
                    bars[g].append((begins[g], now, f"multiply {tiles[g]}", "c"))
                    begins[g], storing[g] = now, store
                    todo[g], tiles[g] = half, tiles[g] + 1
        if active:
            busy.append(now)
        now += step
    for g in range(2):
        look = "b hatched" if storing[g] > 0 else "c"
        bars[g].append((begins[g], total, "", look))
    gap = sum(1 for a, b in zip(busy, busy[1:]) if b - a > 1.5 * step)
    assert gap == 0, "the tensor cores have gaps"
    track(picture, LEFT, y, "producer", unit, [(0.0, total, "load, load, load …", "idle")])
    for g in range(2):
        track(picture, LEFT, y + (1 + g) * BAR, f"warpgroup {g}", unit, bars[g])
    track(picture, LEFT, y + 3 * BAR, "tensor cores", unit, [(fill, total, "", "C")])
    legend(picture, y + 4 * BAR + 24, (("idle", "loads"), ("c", "multiplied"), ("b hatched", "C is stored"),
                                       ("C", "at work")))  # fmt: skip
    picture.text(MARGIN, y + 4 * BAR + 50,
                 "Lengths are not to scale. Who multiplies alone has the tensor cores to itself.",
                 "small", "quiet")  # fmt: skip
    return picture


# ---- v14: clusters


@rung(
    "v14_pair",
    "Two blocks, one above the other: each loads its own A and half of B, which goes to both",
    "constexpr int kCluster = 2;",
    "constexpr int BM = 128, BN = 256, BK = kDepth;",
    "load_k_tile_multicast<kB, kPart>",
)
def pair() -> Picture:
    bm, bn, bk, size = 128, 256, 64, 2
    unit, y = 0.9, 170
    picture = Picture("Two blocks load B for each other", 480)
    x = 150
    for half in range(2):
        width = bn / 2 * unit
        picture.labelled(x + half * width, 88, width - 2, bk * unit, f"half {half}",
                         "b")  # fmt: skip
    picture.text(x, 76, f"K-tile of B, {bk} x {bn}: each half is loaded once")
    for block in range(2):
        top = y + block * (bm * unit + 6)
        picture.labelled(MARGIN + 50, top, bk * unit, bm * unit, f"A {block}", "a")
        picture.labelled(x, top, bn * unit - 2, bm * unit, f"block {block}: {bm} x {bn} of C", "c")
        own = bm * bk * size // 1024
        part = bn // 2 * bk * size // 1024
        picture.lines(x + bn * unit + 20, top + 30,
                      f"block {block} loads", f"A {block}: {own} KiB",
                      f"half {block} of B: {part} KiB,", "for both blocks")  # fmt: skip
    alone, together = (bm + bn) * bk * size // 1024, (bm + bn // 2) * bk * size // 1024
    picture.lines(MARGIN, y + 2 * (bm * unit + 6) + 24,
                  f"{together} KiB per K-tile and block from the L2, not {alone}. A stage is free",
                  "when the warpgroups of both blocks have released it.")  # fmt: skip
    return picture


# ---- v17: three bfloat16s


@rung(
    "v17_three_parts",
    "The 24 bits of a mantissa in three groups of 8, and the nine products of parts, six in use",
    "constexpr int kParts = 3;",
    "kProducts[][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};",
)
def three_parts() -> Picture:
    parts, bits = 3, 24
    products = [(2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)]
    tones = ("A", "a", "idle")
    picture = Picture("A float is the sum of three bfloat16s", 470)
    x, y, width = MARGIN, 84, (WIDTH - 2 * MARGIN) / bits
    picture.text(x, y - 12, "the mantissa of x, from its first bit on")
    picture.grid(x, y, 1, bits, (width, 26), lambda _, j: tones[j // 8])
    for p in range(parts):
        left = x + p * 8 * width
        picture.labelled(left, y + 52, 8 * width - 4, 26, f"x{p}", tones[p])
        picture.arrow(left + 4 * width - 2, y + 30, left + 4 * width - 2, y + 48)
        size = "about x" if p == 0 else f"at most 2^-{8 * p} x"
        picture.text(left + 4 * width, y + 98, size, "small", "middle")

    side, y = 74, 246
    x = MARGIN + 60
    for j in range(parts):
        picture.text(x + (j + 0.5) * side, y - 10, f"b{j}", "middle")
    for i in range(parts):
        picture.text(x - 14, y + (i + 0.5) * (side - 20) + 5, f"a{i}", "end")
        for j in range(parts):
            used = (i, j) in products
            text = f"{products.index((i, j)) + 1}." if used else "left out"
            picture.labelled(x + j * side, y + i * (side - 20), side - 3, side - 23, text,
                             "c" if used else "idle")  # fmt: skip
    picture.lines(x + parts * side + 30, y + 14, "Six products, the small ones first:",
                  "they would be lost beside a large", "sum. What is left out is at most",
                  "2^-23 of a b, two roundings of", "fp32.")  # fmt: skip
    picture.text(MARGIN, y + 3 * (side - 20) + 36,
                 "bfloat16 has 8 bits of mantissa, and the range of a float.",
                 "small", "quiet")  # fmt: skip
    return picture
