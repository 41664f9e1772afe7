"""The reduction's ladder: who works in the steps of the tree, the banks that they meet, shuffles, and the
loads in flight. Lines of code begin with the version that they are of."""

from __future__ import annotations

from typing import Callable, Iterable

from drawings.picture import LINE, MARGIN, WIDTH, Picture
from drawings.rung import rung
from drawings.timeline import legend

BLOCK, LANES, BANKS = 256, 32, 32
WARPS = BLOCK // LANES
SM_THREADS = 2048  # of a Hopper SM
KIB = 1024


def halves(first: int) -> list[int]:
    """first, half of it, … 1."""
    return [first >> i for i in range(first.bit_length())]


# The threads that add in a step, and the two numbers that each adds
Step = dict[int, tuple[int, int]]


def divergent(s: int) -> Step:
    return {t: (t, t + s) for t in range(BLOCK) if t % (2 * s) == 0}


def strided(s: int) -> Step:
    return {t: (2 * s * t, 2 * s * t + s) for t in range(BLOCK) if 2 * s * t < BLOCK}


def sequential(s: int) -> Step:
    return {t: (t, t + s) for t in range(BLOCK) if t < s}


TREES: dict[str, tuple[str, list[int], Callable[[int], Step]]] = {
    "v01": ("every 2s-th thread", halves(BLOCK // 2)[::-1], divergent),
    "v02": ("the first threads", halves(BLOCK // 2)[::-1], strided),
    "v03": ("the first threads", halves(BLOCK // 2), sequential),
}


# ---- v01 to v03: the tree


@rung(
    "v01_tree",
    "How many lanes of each of 8 warps add in the 8 steps of a tree: in v01 a few in every warp, in v02 and"
    " v03 whole warps drop out",
    f"v01: constexpr int kBlock = {BLOCK};",
    "v01: for (unsigned s = 1; s < blockDim.x; s *= 2) {",
    "v01: if (t % (2 * s) == 0) value[t] = Op::combine(value[t], value[t + s]);",
    "v02: const unsigned at = 2 * s * t;",
    "v02: if (at < blockDim.x) value[at] = Op::combine(value[at], value[at + s]);",
    "v03: for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {",
    "v03: if (t < s) value[t] = Op::combine(value[t], value[t + s]);",
)
def tree() -> Picture:
    size, y, left = (31, 22), 112, 74
    x2 = WIDTH - MARGIN - WARPS * size[0]
    picture = Picture("Lanes that add, by warp and step", y + WARPS * size[1] + 138)
    for x, version, name in ((left, "v01", "v01"), (x2, "v03", "v02 and v03")):
        _, distances, step = TREES[version]
        active = [[sum(t // LANES == warp for t in step(s)) for warp in range(WARPS)]
                  for s in distances]  # fmt: skip
        picture.text(x, y - 36, f"{name}: {TREES[version][0]}")
        picture.text(x, y - 12, "warps 0 to 7 →", "small", "quiet")
        picture.cells(x, y, size, [
            [(f"{n}" if n else "", "C" if n == LANES else "c" if n else "idle") for n in row]
            for row in active
        ])  # fmt: skip
        busy = sum(n > 0 for row in active for n in row)
        picture.text(x, y + WARPS * size[1] + 22, f"{busy} times a warp adds")
    assert all(
        [sum(t // LANES == w for t in strided(s)) for w in range(WARPS)]
        == [sum(t // LANES == w for t in sequential(BLOCK // 2 // s)) for w in range(WARPS)]
        for s in TREES["v02"][1]
    ), "v02 and v03 keep other warps"
    for i in range(WARPS):
        picture.text(left - 10, y + i * size[1] + 16, f"step {i + 1}", "small", "end")
    below = y + WARPS * size[1] + 50
    legend(picture, below, (("C", "32 lanes add"), ("c", "some do"), ("idle", "none")))
    picture.lines(MARGIN, below + 30, "A warp costs as much for 1 lane as for 32. In v01 one that does not add",
                  f"makes the test all the same, with its %: {WARPS} warps in each of 8 steps.")  # fmt: skip
    return picture


# ---- v02, v03: banks


def stacks(step: Step) -> dict[tuple[int, int], int]:
    """Of the first warp's loads of value[at]: by bank, and how many lanes came before, the lane."""
    depth = [0] * BANKS
    found = {}
    for t, (at, _) in step.items():
        if t < LANES:
            found[depth[at % BANKS], at % BANKS] = t
            depth[at % BANKS] += 1
    return found


@rung(
    "v02_banks",
    "A warp's lanes above the banks of the numbers they load: in v02 2, 4 and 8 in one, in v03 one in each",
    "v02: const unsigned at = 2 * s * t;",
    "v02: if (at < blockDim.x) value[at] = Op::combine(value[at], value[at + s]);",
    "v03: if (t < s) value[t] = Op::combine(value[t], value[t + s]);",
)
def banks() -> Picture:
    size, y, left = (14, 9), 84, 128
    panels = [(f"v02, s = {s}", strided(s)) for s in (1, 2, 4)] + [("v03, s = 128", sequential(128))]
    deep = [max(level for level, _ in stacks(step)) + 1 for _, step in panels]
    picture = Picture("A step of the tree in the 32 banks", y + sum(deep) * size[1] + 4 * 34 + 58)
    picture.text(left, y - 12, "bank 0", "small", "quiet")
    picture.text(left + BANKS * size[0], y - 12, "bank 31", "small", "quiet", "end")
    for (name, step), levels in zip(panels, deep):
        lanes = stacks(step)
        picture.text(left - 12, y + levels * size[1] / 2 + 5, name, "small", "end")
        picture.grid(left, y, levels, BANKS, size,
                     lambda i, j: ("C" if i == 0 else "c") if (i, j) in lanes else "idle")  # noqa: B023
        plural = "s" * (levels > 1)
        picture.text(left, y + levels * size[1] + 18, f"{len(lanes)} lanes: {levels} wavefront{plural}", "small")
        y += levels * size[1] + 34
    picture.lines(MARGIN, y + 12, "A row is what the banks deliver at once; pale: has to wait. At s = 8 and 16",
                  "fewer lanes of v02 are left, still 8 to a bank.", looks=("small", "quiet"))  # fmt: skip
    return picture


# ---- v08: shuffles


@rung(
    "v08_shuffle",
    "32 lanes, of which in five steps half as many each time hold what lane 0 needs; then 8 warps' results",
    f"v08: constexpr int kBlock = {BLOCK};",
    "v08: for (int s = 16; s > 0; s /= 2) {",
    "v08: mine = Op::combine(mine, __shfl_down_sync(0xffffffffu, mine, s));",
    "v08: if (lane == 0) of_warp[warp] = mine;",
    "v08: mine = warp_reduce<Op>(lane < kBlock / 32 ? of_warp[lane] : Op::identity());",
    "v03: for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {",
    "v05: for (unsigned s = blockDim.x / 2; s > 32; s /= 2) {",
)
def shuffle() -> Picture:
    size, high, apart, y, left = 15, 16, 40, 84, 132
    picture = Picture("The tree of a warp, from register to register", y + 6 * apart + 142)
    distances = halves(LANES // 2)
    for i, s in enumerate([LANES, *distances]):
        at = y + i * apart
        picture.grid(left, at, 1, LANES, (size, high), lambda _, lane: "c" if lane < s else "idle")  # noqa: B023
        name = "32 lanes" if i == 0 else f"down by {s}"
        picture.text(left - 12, at + 13, name, "small", "end")
        if i:
            for lane in sorted({*range(0, s, max(1, s // 4)), s - 1}):
                picture.line([(left + (lane + s + 0.5) * size, at - apart + high + 2),
                              (left + (lane + 0.5) * size, at - 2)], "oquiet")  # fmt: skip
    y += len(distances) * apart + high + 34
    picture.text(left - 12, y + 12, "8 warps", "small", "end")
    picture.grid(left, y, 1, WARPS, (size, high), "b")
    picture.text(left + WARPS * size + 12, y + 12, "lanes 0, through shared memory: 32 bytes", "small")
    picture.arrow(left + 4 * size, y + high + 4, left + 4 * size, y + high + 26)
    picture.text(left + 4 * size + 14, y + high + 20, "a barrier, and the same tree in warp 0", "small")
    y += high + 62
    barriers = {"v03": 1 + len(halves(BLOCK // 2)), "v05": 1 + len([s for s in halves(BLOCK // 2) if s > 32]),
                "v08": 1}  # fmt: skip
    text = ", ".join(f"{version} {count}" for version, count in barriers.items())
    picture.lines(MARGIN, y, f"Barriers of a block of {BLOCK} threads: {text}.",
                  "Green: what lane 0 still needs; some of its arrows are drawn.")  # fmt: skip
    return picture


# ---- v09: bytes in flight


@rung(
    "v09_in_flight",
    "Bytes in flight of a thread and of an SM: one load of 4 bytes, two, and four of 16",
    "v03: value[t] = i < n ? static_cast<float>(x[i]) : Op::identity();",
    "v07: const float first = static_cast<float>(x[i]);",
    "v07: const float second = j < n ? static_cast<float>(x[j]) : Op::identity();",
    "v09: constexpr int kLoads = 4;  // of 128 bits per thread, in flight together",
    "v09: for (int i = 0; i < kLoads; ++i) v[i] = Vec::load(from + i * kBlock * Vec::size);",
)
def in_flight() -> Picture:
    word, y, left, needed = 20, 92, 108, 40
    loads = (("v03", 1, 1), ("v04 to v08", 2, 1), ("v09", 4, 4))
    picture = Picture("Many loads in flight", y + 3 * 30 + 3 * 28 + 146)
    picture.text(left, y - 12, "a thread's loads, of words of 4 bytes", "small", "quiet")
    for i, (name, count, words) in enumerate(loads):
        picture.text(left - 12, y + i * 30 + 16, name, "small", "end")
        for load in range(count):
            picture.grid(left + load * (words * word + 8), y + i * 30, 1, words, (word, 20), "a")
        picture.text(left + count * (words * word + 8) + 8, y + i * 30 + 15,
                     f"{4 * count * words} bytes", "small")  # fmt: skip
    y += 3 * 30 + 52
    scale = (WIDTH - MARGIN - left - 70) / (SM_THREADS * 64 / KIB)  # of a KiB
    picture.text(left, y - 12, f"an SM's, of {SM_THREADS} threads", "small", "quiet")
    for i, (name, count, words) in enumerate(loads):
        kib = SM_THREADS * 4 * count * words // KIB
        picture.text(left - 12, y + i * 28 + 16, name, "small", "end")
        picture.box(left, y + i * 28, round(kib * scale, 1), 20, "a")
        picture.text(left + kib * scale + 8, y + i * 28 + 15, f"{kib} KiB", "small")
    x = round(left + needed * scale, 1)
    picture.line([(x, y - 4), (x, y + 3 * 28)], "oF", "thick")
    picture.text(x, y + 3 * 28 + 18, f"some {needed} KiB keep an H100's memory busy", "small")
    picture.lines(MARGIN, y + 3 * 28 + 22 + 2 * LINE, "Little's law: bytes in flight = latency x bandwidth. Of fp32;",
                  "at 1536 resident threads v09 has 96 KiB.", looks=("small", "quiet"))  # fmt: skip
    return picture
