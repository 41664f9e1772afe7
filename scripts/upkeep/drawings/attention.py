"""The ladder of attention: how scores are cut into tiles, who holds what, what a causal mask leaves,
and who waits for what. Lines of code begin with the version that they are of."""

from __future__ import annotations

from math import ceil
from typing import Callable, Iterable

from drawings.picture import MARGIN, SMALL, WIDTH, Picture, text_width
from drawings.rung import rung
from drawings.timeline import BAR, legend, track

LANE = 5  # the one in focus
LEFT = 134  # where bars begin
KIB = 1024

Bar = tuple[float, float, str, str]  # begin, end, text, looks
Tracks = dict[str, list[Bar]]


# ---- v03, v04: the order of the loops

BM, BN = 64, 64
HEAD_SIZE = 128


@rung(
    "tiles",
    "The scores of a head in tiles. v03 goes down a column: K and V stay, and Q, o, maxima and sums"
    " come from memory for every tile. v04's blocks each go along a row: those stay, K and V pass by",
    f"v03: constexpr int BM = {BM}, BN = {BN}, kThreads",
    "v03: s.k.load(head.k + key0 * head.k_pitch, head.k_pitch, head.keys - key0);",
    "v03: for (int row0 = 0; row0 < head.queries; row0 += BM) {",
    "v03: float *o, *max, *sum;",
    "v03: const float2 was = *o;",
    "v03: dim3(static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch))",
    f"v04: constexpr int BM = {BM}, BN = {BN}, kThreads",
    "v04: const int row0 = blockIdx.x * BM,",
    "v04: for (int key0 = 0; key0 < head.keys; key0 += BN) {",
    "v04: s.v.load(head.v + key0 * head.k_pitch, head.k_pitch, head.keys - key0);",
    "v04: attend<Op, T, D>, query_tiles(a, BM),",
)
def tiles() -> Picture:
    n, size, row, column = 6, 24, 3, 2  # tiles a side, and where the block in focus is
    strip, gap, high = 26, 12, 18
    y = 154
    side = n * size
    picture = Picture("The scores of one head, tile by tile", y + side + 240)
    stays, passes = ("thick", "oink"), ("hatched",)

    def panel(x: float, name: str, keys_outside: bool) -> None:
        matrix, o = x + strip + gap, x + strip + 2 * gap + side
        picture.text(x, 66, name)
        queries, keys = (passes, stays) if keys_outside else (stays, passes)
        for at, text in ((y - 2 * high - 24, "K"), (y - high - 22, "V")):
            picture.text(matrix - 8, at + 14, text, "small", "end")
            picture.grid(matrix, at, 1, n, (size, high), "b")
            look = "B" if keys_outside else "b"
            picture.box(matrix + column * size, at, size, high, look, *keys)
        picture.text(x + strip / 2, y - 7, "Q", "small", "middle")
        picture.text(o + strip / 2, y - 7, "o", "small", "middle")
        for left, wide, pale in ((x, strip, "a"), (o, strip, "c"), (o + strip + 4, 8, "c")):
            picture.grid(left, y, n, 1, (wide, size), pale)
            look = pale if keys_outside else pale.upper()
            picture.box(left, y + row * size, wide, size, look, *queries)

        def score(i: int, j: int) -> str:
            if keys_outside:
                done = (j, i) < (column, row)
                return "F" if (i, j) == (row, column) else "f" if done else "idle"
            return "F" if j == column else "f" if j < column else "idle"

        picture.grid(matrix, y, n, n, size, score)
        picture.box(matrix + column * size, y + row * size, size, size, "oink", "thick")
        middle = matrix + (column + 0.5) * size, y + (row + 0.5) * size
        if keys_outside:
            picture.arrow(middle[0], middle[1] + size, middle[0], y + side - 5)
        for i in range(0 if keys_outside else n):
            height = y + (i + 0.5) * size
            picture.arrow(middle[0] + size, height, matrix + side - 5, height)

    second = WIDTH - MARGIN - 2 * strip - 2 * gap - side - 12
    panel(MARGIN, "v03: keys outside", True)
    panel(second, "v04: queries outside", False)
    end, at = MARGIN + 2 * strip + 2 * gap + side + 12, y + row * size
    picture.labelled(end + 34, at - 10, 90, size + 20, "memory", "idle")
    picture.arrow(end + 6, at + 5, end + 30, at + 5)
    picture.arrow(end + 30, at + size - 5, end + 6, at + size - 5)

    of_q, of_o = BM * HEAD_SIZE * 2 // KIB, BM * HEAD_SIZE * 4 // KIB
    of_k = BN * HEAD_SIZE * 2 // KIB
    below = y + side + 28.0
    picture.lines(MARGIN, below, "A block has the whole head.", "K and V stay for a column; Q comes,",
                  "o, maxima and sums come and go:", f"for each tile {of_q} KiB of Q, and of o",
                  f"{of_o} KiB there and {of_o} KiB back.", looks=("small",))  # fmt: skip
    picture.lines(second - 50, below, f"{n} blocks of {BM} queries, at once.",
                  "Q, o, maxima and sums stay;", f"K and V pass by, for each tile {of_k} KiB",
                  "of each, which come mostly from", "the L2.", looks=("small",))  # fmt: skip
    below += 5 * 21 + 14
    legend(picture, below, (("F", "this tile"), ("f", "done"), ("idle", "to come")))
    below += 26
    picture.box(MARGIN, below - 11, 14, 12, "C", *stays)
    picture.text(MARGIN + 20, below, "strong, framed: what stays", "small", "quiet")
    picture.box(MARGIN + 240, below - 11, 14, 12, "a", *passes)
    picture.text(MARGIN + 260, below, "hatched: what comes or goes", "small", "quiet")
    picture.lines(MARGIN, below + 26,
                  f"Tiles of {BM} queries and {BN} keys, head size {HEAD_SIZE}. The narrow column:",
                  "a maximum and a sum for each query.", looks=("small", "quiet"))  # fmt: skip
    return picture


# ---- v05: weights in registers


@rung(
    "registers",
    "16 x 16 scores in cells of two, with the lane that has them as accumulators, and the same cells"
    " with the lane that must have them as left operand of the next product: the same lanes",
    "v05: c[i]   row g + i / 2 * 8,",
    "v05: column 2t + i % 2",
    "v05: a[i]   word t + i / 2 * 4 of row g + i % 2 * 8",
    "v05: weights[] = {ladder::pack<T>(scores[i * 2][0], scores[i * 2][1]),",
    "v05: ladder::pack<T>(scores[i * 2][2], scores[i * 2][3]),",
    "v05: ladder::pack<T>(scores[i * 2 + 1][0], scores[i * 2 + 1][1]),",
    "v05: ladder::pack<T>(scores[i * 2 + 1][2], scores[i * 2 + 1][3])};",
    "v05: x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));",
    "v05: return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));",
    f"v05: BN = {BN}",
    "v10: a[i]   d[8 k + 2 i] and d[8 k + 2 i + 1], for K from 16 k on",
)
def registers() -> Picture:
    size, y = (29, 19), 124
    width, height = 8 * size[0], 16 * size[1]
    picture = Picture("What a lane has of the weights is what it multiplies", y + height + 230)

    # By (row, pair of columns): the lane, and which word of its weights[] the pair becomes.
    made, wanted = {}, {}
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for word in range(4):
            product, i = word // 2, word % 2 * 2  # scores[2 j + product][i] and [i + 1]
            made[g + i // 2 * 8, product * 4 + t] = lane, word
            wanted[g + word % 2 * 8, t + word // 2 * 4] = lane, word
    assert made == wanted and len(made) == 16 * 8, "the weights would have to move"

    def panel(x: float, where: dict[tuple[int, int], tuple[int, int]]) -> None:
        def look(row: int, pair: int) -> tuple[str, str]:
            lane, word = where[row, pair]
            return f"{lane}", "F" if lane == LANE else "c" if word in (0, 3) else "idle"

        picture.cells(x, y, size, [[look(row, pair) for pair in range(8)] for row in range(16)])

    x = WIDTH - MARGIN - width
    panel(MARGIN, made)
    panel(x, wanted)
    picture.text(MARGIN, y - 54, "accumulators of the scores")
    picture.text(x, y - 54, "left operand for V")
    picture.text(MARGIN, y - 33, "scores: two products, 16 x 8, in fp32", "small", "quiet")
    picture.text(x, y - 33, "weights: 16 x 16, in bf16", "small", "quiet")
    for word in range(4):
        half, at = (word // 2 + 0.5) * width / 2, y + height + 18 if word % 2 else y - 10
        name = f"[{('2i', '2i + 1')[word // 2]}][{word % 2 * 2}, {word % 2 * 2 + 1}]"
        picture.text(MARGIN + half, at, name, "small", "middle")
        picture.text(x + half, at, f"weights[{word}]", "small", "middle")
    left, right = MARGIN + width, x
    picture.lines((left + right) / 2, y + height / 2 - 40, "scale, mask,", "exponentials,",
                  "two in a word", looks=("small", "middle"))  # fmt: skip
    picture.arrow(left + 12, y + height / 2 + 22, right - 12, y + height / 2 + 22)

    y += height + 48
    picture.lines(MARGIN, y, f"A cell: two neighbours, and their lane. Strong: lane {LANE}.")
    y += 36
    picture.text(MARGIN, y, f"Row {LANE // 4} of a K-tile is in four lanes. Whose maxima each of them knows:",
                 "small")  # fmt: skip
    y += 12
    lanes = [LANE // 4 * 4 + t for t in range(4)]
    steps = [(0, f"its own, of {BN // 8 * 2} scores"), (1, "after a shuffle with lane ^ 1"),
             (2, "after another with lane ^ 2: the row's")]  # fmt: skip
    known = {lane: [lane] for lane in lanes}
    for step, (mask, text) in enumerate(steps):
        if mask:
            known = {lane: sorted(known[lane] + known[lane ^ mask]) for lane in lanes}
        for i, lane in enumerate(lanes):
            of = known[lane]
            name = f"{of[0]} to {of[-1]}" if len(of) > 2 else ", ".join(map(str, of))
            picture.labelled(MARGIN + i * 62, y + step * 26, 60, 23, name,
                             "F" if lane == LANE else "idle")  # fmt: skip
        picture.text(MARGIN + 4 * 62 + 12, y + step * 26 + 16, text, "small")
    picture.lines(MARGIN, y + 3 * 26 + 22,
                  "wgmma's accumulators, and its left operand in registers, lie in the same way",
                  "(v10 and after).",
                  looks=("small", "quiet"))  # fmt: skip
    return picture


# ---- v08: what a causal mask leaves

TALL, WIDE = 128, 64  # a tile of v08


def visible(query: int, queries: int, keys: int) -> int:
    """How many keys it sees, aligned at the bottom right."""
    return max(0, min(keys, query + keys - queries + 1))


def look_of(tile: int, key_tile: int, queries: int, keys: int) -> str:
    """As v08 treats it: whole, masked, or not at all."""
    row0, key0 = tile * TALL, key_tile * WIDE
    if key0 >= visible(row0 + TALL - 1, queries, keys):
        return "idle"
    return "c hatched" if key0 + WIDE > visible(row0, queries, keys) else "C"


def looks(queries: int, keys: int) -> list[list[str]]:
    columns = range(ceil(keys / WIDE))
    return [[look_of(i, j, queries, keys) for j in columns] for i in range(ceil(queries / TALL))]


@rung(
    "causal",
    "Tiles under a causal mask: whole ones, masked ones along the diagonal, which ends in the bottom"
    " right corner, and skipped ones; and their shares for 1 to 64 tiles of queries",
    f"v08: BM = {TALL}, BN = {WIDE}, kThreads",
    "v08: return max(0, min(keys, query + diagonal + 1));",
    "v08: diagonal = a.top_left ? 0 : keys - queries;",
    "v08: const int seen_by_all = head.template visible<Op>(row0);",
    "v08: const int end = head.template visible<Op>(row0 + BM - 1);",
    "v08: for (int key0 = 0; key0 < end; key0 += BN) {",
    "v08: const bool is_masked = key0 + BN > seen_by_all;",
    "v08: Op::kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x",
)
def causal() -> Picture:
    queries, unit, y = 512, 24 / WIDE, 124.0
    rows = queries // TALL
    picture = Picture("Under a causal mask: whole, masked and skipped tiles", 640)

    def panel(x: float, keys: int) -> None:
        of = looks(queries, keys)
        size = WIDE * unit, TALL * unit
        done = sum(look != "idle" for row in of for look in row)
        picture.text(x, 66, f"{queries} queries, {keys} keys")
        count = f"{done} of {rows * len(of[0])} tiles multiplied"
        picture.text(x, 87, count, "small")
        picture.text(x, y - 8, "keys →", "small", "quiet")
        for i, row in enumerate(of):
            for j, look in enumerate(row):
                picture.box(x + j * size[0], y + i * size[1], size[0] - 1.5, size[1] - 1.5,
                            *look.split())  # fmt: skip
            picture.text(x - 8, y + (i + 0.5) * size[1] + 5, f"{rows - i}.", "small", "end")
        first = keys - queries
        picture.line(
            [(x + first * unit, y), (x + keys * unit, y + queries * unit)], "thick", "oink"
        )

    panel(MARGIN + 24, queries)
    panel(WIDTH - MARGIN - 12 * WIDE * unit, 12 * WIDE)
    y += queries * unit + 24
    entries = (("C", "whole"), ("c hatched", "masked"), ("idle", "skipped"))
    legend(picture, y, entries)
    picture.line([(336, y - 5), (366, y - 5)], "thick", "oink")
    picture.text(374, y, "the last key a query sees", "small", "quiet")
    picture.lines(MARGIN, y + 28,
                  f"A tile: {TALL} queries, {WIDE} keys. The numbers: which row of tiles begins first.",
                  "The last query sees all keys; with @top_left the first one sees one.",
                  looks=("small",))  # fmt: skip

    y += 92
    picture.text(MARGIN, y, "As many queries as keys: the part of the tiles that is skipped")
    left, width = 130, 400
    for each in range(7):
        tiles = 2**each
        of = [look for row in looks(tiles * TALL, tiles * TALL) for look in row]
        at, x = y + 14 + each * 24, float(left)
        picture.text(left - 10, at + 15, f"{tiles * TALL} queries", "small", "end")
        for look, _ in entries:
            share = of.count(look) / len(of)
            if share:
                picture.box(round(x, 1), at, round(share * width - 1.5, 1), 20, *look.split())
            x += share * width
        share = of.count("idle") / len(of)
        picture.text(left + width + 8, at + 15, f"{100 * share:.1f} %", "small")
    return picture


# ---- v06, v11 to v14: who waits for what

STAGES, CONSUMERS = 2, 2


def clipped(bars: Iterable[Bar], total: float, unit: float) -> list[Bar]:
    """Up to `total`, without texts that don't fit any more."""
    cut = [(begin, min(end, total), text, look) for begin, end, text, look in bars if begin < total]
    return [
        (begin, end, text if text_width(text, SMALL) < (end - begin) * unit else "", look)
        for begin, end, text, look in cut
    ]


FLIGHT, READ, SCORES, SOFTMAX, VALUES, STORE = "idle", "a hatched", "c", "F", "c", "idle hatched"


def v06(tracks: Tracks) -> list[float]:
    """Returns the times of the barriers."""
    barriers, t = [], 1.2
    tracks["K"].append((0, t, "K 0", FLIGHT))
    tracks["all warps"].append((0, t, "wait", "page"))
    for j in range(2):
        scores, softmax, values = t + 2, t + 4, t + 6
        barriers += [t, softmax]
        tracks["all warps"] += [(t, scores, f"scores {j}", SCORES), (scores, softmax, "softmax", SOFTMAX),
                                (softmax, values, f"values {j}", VALUES)]  # fmt: skip
        tracks["K"] += [(t, scores, f"K {j}", READ), (softmax, values, f"K {j + 1}", FLIGHT)]
        tracks["V"] += [(t, softmax, f"V {j} in flight", FLIGHT), (softmax, values, f"V {j}", READ)]
        t = values
    return barriers


def v11(tracks: Tracks) -> None:
    """Two warpgroups that happen to do the same, one a bit later."""
    latency, issue, step, behind = 1.4, 0.15, 1.5, 0.5
    ends: dict[str, list[float]] = {"K": [], "V": []}  # when the last warpgroup has read a tile
    free, producer = [0.0, behind], 0.0
    for j in range(4):
        full = {}
        for name in "KV":
            empty = ends[name][j - STAGES] if j >= STAGES else 0.0
            issued = max(producer, empty)
            producer = issued + issue
            full[name] = issued + latency
            stage = tracks[f"{name}, stage {j % STAGES}"]
            stage.append((issued, full[name], f"{name} {j}", FLIGHT))
        read = {"K": 0.0, "V": 0.0}
        for group in range(CONSUMERS):
            begin = max(free[group], full["K"] + group * behind)
            scores, softmax = begin + step, begin + 2 * step
            free[group] = max(softmax, full["V"]) + step
            tracks[f"warpgroup {group}"] += [
                (begin, scores, f"scores {j}", SCORES), (scores, softmax, "softmax", SOFTMAX),
                (softmax, free[group], f"values {j}", VALUES)]  # fmt: skip
            read = {"K": scores, "V": free[group]}
        for name in "KV":
            ends[name].append(read[name])
            tracks[f"{name}, stage {j % STAGES}"].append(
                (full[name], read[name], f"{name} {j}", READ)
            )


def v12(tracks: Tracks) -> None:
    step, scale, t = 1.5, 0.25, 0.0
    for j in range(4):
        scores = t + step
        softmax = scores + step
        tracks["its products"].append((t, scores, f"scores {j}", SCORES))
        tracks["its softmax"].append((scores, softmax, "softmax", SOFTMAX))
        if j:
            tracks["its products"].append((scores, softmax, f"values {j - 1}", VALUES))
        t = softmax + scale


def v13(tracks: Tracks) -> None:
    """Each asks for its products when it is its turn; the tensor cores take them in that order."""
    step, softmax, scale, ask = 1.5, 2.2, 0.25, 0.3
    cores, turn, ready = 0.0, 0.0, [0.0] * CONSUMERS
    for j in range(3):
        for group in range(CONSUMERS):
            asked = max(ready[group], turn) + ask
            tracks["turn of"].append((turn, asked, f"{group}", "idle" if group else "b"))
            turn, begin = asked, max(asked - ask, cores)
            scores = begin + step
            cores = scores + (step if j else 0.0)
            tracks[f"products {group}"].append((begin, scores, f"scores {j}", SCORES))
            if j:
                tracks[f"products {group}"].append((scores, cores, f"values {j - 1}", VALUES))
            tracks[f"softmax {group}"].append((scores, scores + softmax, "softmax", SOFTMAX))
            ready[group] = max(scores + softmax, cores) + scale


def ends(tracks: Tracks, persistent: bool) -> None:
    """The last K-tile of a tile of queries, of 8, and the first one of the next tile."""
    step, scale, latency, last = 1.5, 0.25, 1.6, 7
    tracks["warpgroup 0"].append((0, step, "softmax", SOFTMAX))
    tracks["warpgroup 1"].append((0, step, f"values {last - 1}", VALUES))
    cores = step
    stored: list[float] = []
    for group in range(CONSUMERS):
        values = cores + step
        tracks[f"warpgroup {group}"] += [(cores, values, f"values {last}", VALUES),
                                         (values, values + step, "o stored", STORE)]  # fmt: skip
        cores, stored = values, [*stored, values + step]
    if persistent:  # Q has a stage, and K 0 that of the last K but one, which is empty before
        begins = step + scale  # K is read
        full = latency / 2
        tracks["next Q, K"] += [
            (0, full, "Q, K 0", FLIGHT),
            (begins, begins + latency, "K 1", FLIGHT),
        ]
        tracks["next V"] += [
            (begins, begins + latency, "V 0", FLIGHT),
            (cores, cores + latency, "V 1", FLIGHT),
        ]
    else:
        full = max(stored) + latency
        tracks["next Q, K"].append((max(stored), full, "Q, K 0, 1", FLIGHT))
        tracks["next V"].append((max(stored), full, "V 0, 1", FLIGHT))
    for group in range(CONSUMERS):
        begin = max(cores, full, stored[group])
        cores = begin + step
        tracks[f"warpgroup {group}"] += [(begin, cores, "scores 0", SCORES),
                                         (cores, cores + step, "softmax", SOFTMAX)]  # fmt: skip


@rung(
    "timeline",
    "What happens at the same time in v06, v11, v12, v13 and v14: copies under products, a softmax"
    " under the values of the K-tile before, two warpgroups in turns, loads while o is stored",
    "v06: copy(s.v, head.v, key0); float scores[BN / 8][4] = {};",
    "v06: if (key0 + BN < head.keys) copy(s.k, head.k, key0 + BN);",
    "v06: __syncthreads();  // K is there, and the values of the K-tile before are read",
    "v06: __syncthreads();  // V is there, and K is read",
    f"v11: kConsumers = {CONSUMERS}, BM = kConsumers * 64, BN = 128, kStages = {STAGES};",
    "v11: load(s.v[stage], v_map, key0, &s.v_full[stage], &s.v_empty[stage]);",
    "v11: wgmma_wait_group<0>(scores); if (releases) mbarrier_arrive(&s.k_empty[stage]);",
    "v11: wgmma_wait_group<0>(acc, weights); if (releases) mbarrier_arrive(&s.v_empty[stage]);",
    "v12: multiply_k(state.stage, state.parity); multiply_v(before.stage, before.parity);"
    " wgmma_wait_group<1>(scores);  // the values are under way",
    "v12: rows.weigh(scores, key0, key0 + BN > seen_by_all, factor); wgmma_wait_group<0>(acc, weights);",
    "v13: take_turn(); multiply_k(state.stage, state.parity);"
    " multiply_v(before.stage, before.parity); pass_turn(); wgmma_wait_group<1>(scores);",
    f"v14: kConsumers = {CONSUMERS}, BM = kConsumers * 64, BN = 128, kStages = {STAGES};",
    "v14: mbarrier_wait(&s.q_empty[q_state.stage], q_state.parity ^ 1);",
    "v14: release_q(); multiply_v(before);",
    "v14: rows.store(head, first, acc);",
)
def timeline() -> Picture:
    total = 10.6
    picture = Picture("Who waits for what", 1110)
    picture.lines(MARGIN, 56, "An order: a bar begins where what it waits for has ended. Lengths say nothing.",
                  "j counts K-tiles: scores j = Q times K j, values j = weights j times V j.",
                  looks=("small", "quiet"))  # fmt: skip
    y = 112.0

    def panel(name: str, names: Iterable[str], tracks: Tracks, units: float) -> float:
        nonlocal y
        unit = (WIDTH - MARGIN - LEFT) / units
        picture.text(MARGIN, y, name)
        y += 10
        for each in names:
            track(picture, LEFT, y, each, unit, clipped(tracks[each], units, unit))
            y += BAR
        y += 32
        return unit

    def draw(name: str, fill: Callable[[Tracks], None], *names: str) -> None:
        tracks: Tracks = {each: [] for each in names}
        fill(tracks)
        panel(name, names, tracks, total)

    tracks: Tracks = {"all warps": [], "K": [], "V": []}
    barriers = v06(tracks)
    top = y + 8
    unit = panel(
        "v06: V comes during the scores, the next K during the values", tracks, tracks, 13.2
    )
    for time in barriers:
        x = round(LEFT + time * unit - 1, 1)
        picture.line([(x, top), (x, top + 3 * BAR)], "oF", "thick")
    draw("v11: a producer loads ahead; each warpgroup waits for tiles only", v11,
         *(f"{name}, stage {stage}" for name in "KV" for stage in range(STAGES)),
         *(f"warpgroup {group}" for group in range(CONSUMERS)))  # fmt: skip
    draw("v12: a warpgroup's softmax under its values of the K-tile before", v12,
         "its products", "its softmax")  # fmt: skip
    draw("v13: one warpgroup's softmax under the other's products", v13, "turn of",
         *(f"{what} {group}" for group in range(CONSUMERS) for what in ("products", "softmax")))  # fmt: skip
    of_block = "warpgroup 0", "warpgroup 1", "next Q, K", "next V"
    draw("v13: the next tile of queries is the next block's", lambda t: ends(t, False), *of_block)
    draw("v14: the next tile is loaded before its turn comes",
         lambda t: ends(t, True), *of_block)  # fmt: skip
    legend(picture, y, ((FLIGHT, "in flight"), (READ, "there"), (SCORES, "products"),
                        (SOFTMAX, "softmax"), (STORE, "o stored")))  # fmt: skip
    picture.line([(MARGIN + 7, y + 13), (MARGIN + 7, y + 29)], "oF", "thick")
    picture.text(MARGIN + 20, y + 26, "a barrier of the whole block", "small", "quiet")
    picture.lines(MARGIN, y + 54, "v11: how far its warpgroups are apart is left to chance.",
                  "v13: the turn passes on when products are asked for, which may wait then.",
                  "Short gaps before products: o is scaled, and weights are packed.",
                  looks=("small", "quiet"))  # fmt: skip
    return picture
