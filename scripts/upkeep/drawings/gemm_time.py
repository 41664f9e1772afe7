"""What happens at the same time: buffers, queues, barriers and waves (v09, v09c, v12, v13, v17, v18)."""

from __future__ import annotations

import math
import random
from typing import Iterable

from drawings.picture import MARGIN, WIDTH, Picture
from drawings.rung import rung
from drawings.timeline import BAR, legend, track

LEFT = 128  # where bars begin, right of the tracks' names
SMS = 132  # of an H100


def barriers(picture: Picture, y0: float, y1: float, unit: float, times: Iterable[float]) -> None:
    for time in times:
        x = LEFT + time * unit - 1
        picture.line([(x, y0), (x, y1)], "oF", "thick")


# ---- v09: two buffers


@rung(
    "v09_double_buffer",
    "Timelines: in v08 loads and FMAs alternate, in v09 the next K-tile loads during the FMAs",
    "if (more) load(k0 + BK);",
    "if (more) store(now ^ 1);",
    "__syncthreads();  // the next K-tile is complete, and everyone is done with this one",
)
def double_buffer() -> Picture:
    load, store, multiply = 2.2, 0.8, 3.0  # an example's
    total, unit = 17.5, (WIDTH - MARGIN - LEFT) / 17.5
    picture = Picture("The next K-tile loads while this one is multiplied", 330)

    y, period = 72, load + store + multiply
    begins = [i * period for i in range(int(total / period) + 1)]
    loads, stores, fmas = [], [], []
    for i, t in enumerate(begins):
        loads.append((t, min(t + load, total), f"load {i}" if t + load < total else "", "idle"))
        if t + period < total:
            stores.append((t + load, t + load + store, "", "a hatched"))
            fmas.append((t + load + store, t + period, f"multiply {i}", "c"))
    picture.text(MARGIN, y - 10, "v08: one buffer, two barriers per K-tile")
    track(picture, LEFT, y, "registers", unit, loads)
    track(picture, LEFT, y + BAR, "the buffer", unit, stores + fmas)
    times = [t for i in range(len(fmas)) for t in (begins[i] + load + store, begins[i] + period)]
    barriers(picture, y - 2, y + 2 * BAR, unit, times)

    y, period = 186, store + multiply
    count = int((total - load - store) / period)
    loads = [(0.0, load, "load 0", "idle")]
    tracks: list[list[tuple[float, float, str, str]]] = [[(load, load + store, "", "a hatched")], []]
    for i in range(count):
        t = load + store + i * period
        loads.append((t, t + load, f"load {i + 1}", "idle"))
        tracks[i % 2].append((t, t + multiply, f"multiply {i}", "c"))
        tracks[(i + 1) % 2].append((t + multiply, t + period, "", "a hatched"))
    picture.text(MARGIN, y - 10, "v09: two buffers, one barrier per K-tile")
    track(picture, LEFT, y, "registers", unit, loads)
    for i in range(2):
        track(picture, LEFT, y + (i + 1) * BAR, f"buffer {i}", unit, tracks[i])
    barriers(picture, y - 2, y + 3 * BAR, unit, [load + store + i * period for i in range(count + 1)])
    legend(picture, y + 3 * BAR + 26, (("idle", "on its way"), ("a hatched", "stored to the buffer"),
                                       ("c", "multiplied"), ("F", "barrier")))  # fmt: skip
    picture.text(MARGIN, y + 3 * BAR + 50, "Lengths are not to scale.", "small", "quiet")
    return picture


# ---- v09c: fragments ahead


@rung(
    "v09c_fragments_ahead",
    "Timelines: in v09b the FMAs wait for fragments behind the barrier, in v09c they do not",
    "if (k == BK - 1) {",
    "if (more) store(now ^= 1);",
    "fragments(now, (k + 1) % BK);",
)
def fragments_ahead() -> Picture:
    bk, load, fmas, first = 8, 0.6, 1.0, 5  # an example's; the first step that is shown
    shown = 6
    total = shown * fmas + load
    unit = (WIDTH - MARGIN - LEFT) / total
    picture = Picture("Fragments load one step of k ahead, across K-tiles too", 306)
    for y, text, ahead in ((72, "v09b: the barrier, then a K-tile's first fragments", False),
                           (172, "v09c: the barrier, then the last FMAs", True)):  # fmt: skip
        loads, multiplies, time, barrier = [], [], 0.0, 0.0
        for step in range(first, first + shown):
            k = step % bk
            if not ahead and k == 0:
                barrier = time
                loads.append((time, time + load, f"{k}", "idle"))
                time += load
            if ahead and k == bk - 1:
                barrier = time
            if ahead or k != bk - 1:
                loads.append((time, time + load, f"{(k + 1) % bk}", "idle"))
            multiplies.append((time, time + fmas, f"k = {k}", "c"))
            time += fmas
        picture.text(MARGIN, y - 10, text)
        track(picture, LEFT, y, "fragments", unit, loads)
        track(picture, LEFT, y + BAR, "FMAs", unit, multiplies)
        barriers(picture, y - 2, y + 2 * BAR, unit, [barrier])
    legend(picture, 258, (("idle", "loaded from shared memory"), ("c", "multiplied"),
                          ("F", "barrier")))  # fmt: skip
    picture.text(MARGIN, 282, "Lengths are not to scale.", "small", "quiet")
    return picture


# ---- v12, v13: copies as a queue


def queue(picture: Picture, y: float, stages: int, iterations: int, name: str) -> None:
    """The copy of a K-tile is issued at the start of an iteration, `stages` - 1 before its own, and
    complete when its own begins. After that its stage is free for another."""
    unit = (WIDTH - MARGIN - LEFT) / iterations
    for stage in range(stages):
        bars: list[tuple[float, float, str, str]] = []
        names = []
        for k_tile in range(stage, iterations + stages, stages):
            issued = max(k_tile - stages + 1, 0)
            if k_tile > 0 and issued < iterations:
                bars.append((issued, min(k_tile, iterations), "", "idle"))
                middle = issued + (min(k_tile, iterations) - issued - 1) // 2 + 0.5  # of a iteration
                names.append((middle, f"copy {k_tile}"))
            if k_tile < iterations:
                bars.append((k_tile, k_tile + 1, f"mul {k_tile}", "c"))
        track(picture, LEFT, y + stage * BAR, f"{name} {stage}", unit, bars)
        for iteration, text in names:
            picture.text(LEFT + iteration * unit, y + stage * BAR + 16, text, "small", "middle")
    barriers(picture, y - 2, y + stages * BAR, unit, range(iterations + 1))
    picture.text(LEFT, y - 8, "iterations of the loop →", "small", "quiet")


def path(picture: Picture, y: float, name: str, steps: tuple[str, ...]) -> None:
    """Of a number, from place to place."""
    picture.text(MARGIN, y + 20, name)
    places = steps[::2]
    width, x = 112, 84.0
    reach = (WIDTH - MARGIN - x - width) / (len(places) - 1)
    for i, place in enumerate(places):
        picture.labelled(x + i * reach, y, width, 30, place, "f" if place == "register" else "a")
        if i:
            picture.arrow(x + (i - 1) * reach + width + 6, y + 15, x + i * reach - 6, y + 15)
            middle = x + (i - 1) * reach + (width + reach) / 2
            picture.text(middle, y + 7, steps[2 * i - 1], "small", "middle")


@rung(
    "v12_cp_async",
    "In v11 a number goes through a register, in v12 it does not; below the iterations with two buffers",
    "__shared__ KTile buffers[2];",
    "if (k == 0) copy(&buffers[now ^ 1], left > 1 ? 0 : BK);",
    "cp_async_wait_group<0>();",
)
def cp_async() -> Picture:
    picture = Picture("Copies that no register takes part in", 296)
    path(picture, 56, "v11", ("global", "load", "register", "store", "shared"))
    path(picture, 108, "v12", ("global", "cp.async", "shared"))
    queue(picture, 186, 2, 6, "buffer")
    legend(picture, 264, (("idle", "copies on their way"), ("c", "multiplied"),
                          ("F", "wait and barrier")))  # fmt: skip
    picture.text(MARGIN, 285, "A K-tile has one iteration to arrive.", "small", "quiet")
    return picture


@rung(
    "v13_multistage",
    "Four stages: each K-tile has three iterations to arrive. And the serpentine order of the FMAs",
    "using Big = Shape<128, 256, 8, 64, 64, 4, 1>;",
    "const int j = i % 2 == 0 ? step : TN - 1 - step;",
)
def multistage() -> Picture:
    stages, iterations, tn, rows, size = 4, 7, 8, 5, 28
    picture = Picture("A queue of four stages, three of them on their way", 400)
    queue(picture, 76, stages, iterations, "stage")
    legend(picture, 204, (("idle", "on its way"), ("c", "multiplied"), ("F", "wait and barrier")))

    y, x = 236, MARGIN
    picture.grid(x, y, rows, tn, size, "c")
    order = [(i, step if i % 2 == 0 else tn - 1 - step) for i in range(rows) for step in range(tn)]
    points = [(x + (j + 0.5) * size, y + (i + 0.5) * size) for i, j in order]
    picture.line(points, "oC", "thick")
    picture.arrow(*points[-2], *points[-1], "oC")
    picture.lines(x + tn * size + 24, y + 16, "The order of a step's FMAs,",
                  f"{rows} of the thread tile's 16 rows:", "along a row the number of A stays,",
                  "at a turn the number of B, so each",
                  "FMA shares one with the last.")  # fmt: skip
    return picture


# ---- v17: TMA


@rung(
    "v17_tma",
    "One thread issues TMA copies; full and empty barriers at a ring of 4 stages; warps drift apart",
    "using Big = Shape<128, 256, 8, 16, 4>;",
    "mbarrier_init(&full[s], 1);",
    "mbarrier_init(&empty[s], S::kWarps);",
    "if (leader && k_tile + kStages - 1 < k_tiles) fetch(k_tile + kStages - 1);",
)
def tma() -> Picture:
    stages, warps, bm, bn, bk = 4, 8, 128, 256, 32
    picture = Picture("One thread issues, TMA copies, warps drift apart", 462)
    y = 92
    picture.labelled(MARGIN, y, 88, 44, "one thread", "f")
    picture.labelled(150, y, 66, 44, "TMA", "a")
    for s in range(stages):
        picture.labelled(264 + s * 62, y, 60, 44, f"stage {s}", "idle")
    picture.labelled(552, y, 68, 44, f"{warps} warps", "c")
    picture.arrow(112, y + 22, 146, y + 22)
    picture.arrow(220, y + 22, 260, y + 22)
    picture.arrow(514, y + 22, 548, y + 22)
    kib = (bm + bn) * bk * 4 // 1024
    picture.line([(183, y - 4), (183, y - 24), (586, y - 24)])
    picture.arrow(586, y - 24, 586, y - 4)
    picture.text(386, y - 7, f"full: {kib} KiB have come", "small", "middle")
    picture.line([(586, y + 48), (586, y + 68), (64, y + 68)])
    picture.arrow(64, y + 68, 64, y + 48)
    picture.text(386, y + 62, f"empty: {warps} warps have left", "small", "middle")

    # An example: a warp waits for its K-tile, and takes now more, now less time for it. Warp 0 has
    # the thread that issues: at the end of a K-tile, the one three further, as soon as all warps have
    # left the K-tile that was in its stage.
    k_tiles, latency, total, shown = 8, 1.2, 7.6, 5.3
    chance = random.Random(1)
    left: list[list[float]] = [[] for _ in range(warps)]  # when a warp leaves each K-tile
    bars: list[list[tuple[float, float, str, str]]] = [[] for _ in range(warps)]
    full = [0.0] * (stages - 1)
    free = 0.0  # when the thread that issues goes on
    for s in range(k_tiles):
        for w in range(warps):
            begin = max(full[s], left[w][-1] if s else 0.0, free if w == 0 else 0.0)
            end = begin + chance.uniform(0.6, 1.4)
            left[w].append(end)
            if begin < total:
                name = f"{s}" if end <= total else ""
                bars[w].append((begin, min(end, total), name, ("c", "idle")[s % 2]))
        free = max(left[0][s], *(each[s - 1] for each in left)) if s else left[0][0]
        full.append(free + latency)
    y = 214
    unit = (WIDTH - MARGIN - LEFT) / total
    picture.text(LEFT, y - 8, "K-tiles of each warp, an example →", "small", "quiet")
    for w in range(warps):
        track(picture, LEFT, y + w * (BAR - 2), f"warp {w}", unit, bars[w])
    x = LEFT + shown * unit
    picture.line([(x, y - 4), (x, y + warps * (BAR - 2))], "oF", "ln")
    at = [sum(end <= shown for end in each) for each in left]
    picture.lines(MARGIN, y + warps * (BAR - 2) + 22,
                  f"At the line warps are at K-tiles {min(at)} to {max(at)}. Gaps are waits for a",
                  "full stage, and in warp 0, which issues, for an empty one.",
                  looks=("small", "quiet"))  # fmt: skip
    return picture


# ---- v18: the last wave


@rung(
    "v18_last_wave",
    "132 SMs: whole tiles leave 40 idle in the second wave; here they take the ends of the others'",
    "using Big = Shape<128, 256, 8, 64, 64, 4, 1>;",
    "kEndStart = 5000;",
    "S::BM * S::BN * S::BK * S::kBlocksPerSm / 128.0;",
    "const double ends = ladder::ceil_div(rest, slots - rest);",
    "std::ceil(ends / (ends + 1) * (k_tiles + kEndStart / k_tile));",
)
def last_wave() -> Picture:
    bm, bn, bk, m, n, k = 128, 256, 8, 2048, 3584, 4096
    tiles, k_tiles = (m // bm) * (n // bn), k // bk
    rest = tiles % SMS  # tiles of the last wave
    ends = math.ceil(rest / (SMS - rest))
    at = math.ceil(ends / (ends + 1) * (k_tiles + 5000 / (bm * bn * bk / 128)))
    height, unit, y = 2, 132, 106
    picture = Picture("The ends of the last wave's tiles", y + SMS * height + 164)

    for x, name, beginning in ((MARGIN, "whole tiles", k_tiles), (328, "cut tiles", at)):
        picture.text(x, y - 32, name)
        picture.text(x, y - 10, f"{SMS} SMs, time →", "small", "quiet")
        picture.box(x, y, 2 * unit, SMS * height, "idle")
        picture.box(x, y, unit, SMS * height, "c")
        picture.text(x + unit / 2, y + SMS * height / 2, "a tile each", "small", "middle")
        width = beginning / k_tiles * unit
        picture.box(x + unit, y, round(width, 1), rest * height, "f hatched")
        for first in range(0, rest if beginning < k_tiles else 0, SMS - rest):
            turn = first // (SMS - rest)
            picture.box(round(x + unit + 2 + turn * (unit - width), 1), y + rest * height,
                        round(unit - width - 2, 1), min(rest - first, SMS - rest) * height,
                        "F")  # fmt: skip
        picture.line([(x + unit, y), (x + unit, y + SMS * height)], "ln", "oink")
        time = 1 + beginning / k_tiles
        picture.text(x + unit, y + SMS * height + 18, "1", "small", "end")
        picture.text(x + time * unit, y + SMS * height + 18, f"{time:.2f}", "small", "middle")
    legend(picture, y + SMS * height + 46, (("c", "first wave"), ("f hatched", "a tile each, or its beginning"),
                                            ("F", "ends"), ("idle", "no work")))  # fmt: skip
    picture.lines(MARGIN, y + SMS * height + 76,
                  f"{m} x {n}: {tiles} tiles of {bm} x {bn}. After one wave of {SMS},",
                  f"{rest} are left. Each is cut along K after {at} of {k_tiles} K-tiles, and the",
                  f"{SMS - rest} SMs without a tile take the ends. The later of a tile's two",
                  "blocks to finish adds the other's partial sums.")  # fmt: skip
    return picture
