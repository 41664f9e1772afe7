"""What happens at the same time: tracks of bars one below the other, and what their colours mean."""

from __future__ import annotations

from typing import Iterable

from drawings.picture import MARGIN, Picture

BAR = 26  # the height of a bar, with its gap


def track(
    picture: Picture, left: float, y: float, name: str, unit: float,
    bars: Iterable[tuple[float, float, str, str]],
) -> None:  # fmt: skip
    """From `left` on; bars: begin and end in units, text and looks."""
    picture.text(left - 10, y + 17, name, "small", "end")
    for begin, end, text, look in bars:
        x, width = left + begin * unit, (end - begin) * unit - 2
        if width > 0:
            picture.labelled(round(x, 1), y, round(width, 1), BAR - 3, text, *look.split())


def legend(picture: Picture, y: float, entries: Iterable[tuple[str, str]]) -> None:
    x, entries = float(MARGIN), list(entries)
    picture.legends.append([look for look, _ in entries])
    for look, text in entries:
        picture.box(x, y - 11, 14, 12, *look.split())
        picture.text(x + 20, y, text, "small", "quiet")
        x += picture.texts[-1][1].width + 36
