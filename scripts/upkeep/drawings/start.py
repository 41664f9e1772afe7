"""The machine on one page, for docs/start.md: chip, SM, warp, sectors, banks, latency hiding."""

from __future__ import annotations

from drawings.picture import MARGIN, WIDTH, Picture
from drawings.rung import rung

LANES = BANKS = 32
SECTOR = 8  # words of 4 bytes
RIGHT = WIDTH - MARGIN


def chip(picture: Picture, y: float) -> None:
    """An H200's SMs and what they share; one SM, enlarged."""
    size, rows, cols = 12, 6, 22
    width = cols * size
    picture.text(MARGIN, y + 14, f"GPU: {rows * cols} SMs (an H200)")
    picture.grid(MARGIN, y + 26, rows, cols, size,
                 lambda i, j: "F" if (i, j) == (0, cols - 1) else "f")  # fmt: skip
    picture.labelled(MARGIN, y + 110, width, 30, "L2 cache, of all SMs", "c")
    picture.labelled(MARGIN, y + 148, width, 30, "DRAM: global memory", "a")
    left, inside = MARGIN + width + 36, 12
    picture.line([(MARGIN + width, y + 26), (left, y)])
    picture.line([(MARGIN + width, y + 26 + size), (left, y + 178)])
    picture.box(left, y, RIGHT - left, 178, "ln", "oquiet")
    left += inside
    width = RIGHT - inside - left
    schedulers, places, resident = 4, 16, 4
    picture.text(left, y + 20, "SM: 4 schedulers, places for 64 warps", "small")
    picture.grid(left, y + 30, schedulers, places, (width / places, 13),
                 lambda i, j: "idle" if j >= resident else "F" if j == i else "f")  # fmt: skip
    share = resident / places
    picture.text(left, y + 101, f"{schedulers * resident} warps resident: occupancy {share:.0%}"
                 .replace("%", " %"), "small")  # fmt: skip
    picture.labelled(left, y + 112, width, 24, "registers, shared out to the warps", "b")
    picture.labelled(left, y + 142, width, 24, "shared memory (32 banks), L1", "c")


def sectors(picture: Picture, y: float) -> None:
    """A load of a warp whose lanes want neighbours, and one whose lanes want a word of each row."""
    size, high = 13, 6
    label = MARGIN + LANES * size + 14
    picture.text(MARGIN, y, "A warp, 32 threads, loads 4 bytes each: sectors of 32 bytes")
    y += 12
    picture.grid(MARGIN, y, 1, LANES, size, "F")
    picture.text(label, y + 11, "lanes 0 to 31", "small")
    y += size + 12
    picture.grid(MARGIN, y, 1, LANES, size, "A")
    for sector in range(LANES // SECTOR):
        x = MARGIN + sector * SECTOR * size
        picture.box(x, y, SECTOR * size, size, "thick", "opage")
    picture.text(label, y + 11, "coalesced: 4 sectors", "small")
    y += size + 12
    picture.grid(MARGIN, y, SECTOR, LANES, (size, high), lambda i, j: "a" if i else "A")
    for lane in range(LANES):
        picture.box(MARGIN + lane * size, y, size, SECTOR * high, "ln", "oink")
    picture.lines(label, y + 14, "a row apart:", "32 sectors, of each", "4 bytes wanted",
                  looks=("small",))  # fmt: skip


def banks(picture: Picture, y: float) -> None:
    """Where the elements of a column of a tile lie, in rows of 32 words and of 33."""
    width, gap, rows, col = 290, 20, 8, 5
    size = (width / BANKS, 9)
    picture.text(MARGIN, y, "Shared memory: a word of each of the 32 banks at a time")
    for x, pitch, above, below in (
        (MARGIN, 32, "a tile's column, rows of 32 words",
         "one bank: 32 wavefronts (8 shown)"),
        (MARGIN + width + gap, 33, "the same column, rows of 33",
         "32 banks: 1 wavefront"),
    ):  # fmt: skip
        words = {divmod(pitch * row + col, BANKS) for row in range(rows)}
        picture.text(x, y + 22, above, "small")
        picture.grid(x, y + 30, rows, BANKS, size, lambda i, j: "C" if (i, j) in words else "c")
        picture.text(x, y + 30 + rows * size[1] + 18, below, "small")


def latency(picture: Picture, y: float) -> None:
    """A scheduler with one warp, and with as many as it takes to hide their waiting."""
    left, issue, high, loads = 100, 21.5, 9, 3

    def turns(y: float, warps: int, waits: bool) -> None:
        """What each of 8 warps, or the scheduler that has them, does in its turns."""
        for warp in range(warps):
            at = y + warp * high if waits else y
            for load in range(loads):
                x = left + (load * 8 + warp) * issue
                if waits:
                    end = min(x + 8 * issue, left + loads * 8 * issue)
                    picture.box(x, at, end - x, high - 1, "f")
                picture.box(x, at, issue, high - 1, "F")

    picture.text(MARGIN, y, "Latency hiding: while a warp waits, others issue")
    y += 14
    for label, warps in (("1 warp", 1), ("8 warps", 8)):
        picture.text(MARGIN, y + high, label, "small")
        turns(y, warps, waits=True)
        y += warps * high + 8
        picture.text(MARGIN, y + high, "scheduler", "small")
        picture.box(left, y, loads * 8 * issue, high - 1, "idle")
        turns(y, warps, waits=False)
        y += high + 20


@rung(
    "start-gpu",
    "A GPU and one of its SMs; the sectors of a warp's loads; banks; 8 warps hide their latency",
    "__shared__ T tile[kTile][kTile];",
    "__shared__ T tile[kTile][kTile + kPad<T>];",
    "constexpr int kTile = 32;",
)
def gpu() -> Picture:
    picture = Picture("From the chip to one instruction of a warp", 776)
    chip(picture, 50)
    sectors(picture, 266)
    banks(picture, 422)
    latency(picture, 580)
    legend = "strong: used, or at work; pale: comes with it, or waits; not to scale"
    picture.text(MARGIN, 760, legend, "small", "quiet")
    return picture
