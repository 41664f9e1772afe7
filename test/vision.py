"""How far colours are apart, in contrast as WCAG 2 defines it, for people who lack one kind of cone cells
and in print without colours."""

from __future__ import annotations

Rgb = tuple[float, float, float]

# Machado, Oliveira and Fernandes 2009, of linear RGB, severity 1
MACHADO = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


def linear(colour: str) -> Rgb:
    """Of #rrggbb."""
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (r, g, b))
    return r, g, b


def seen(colour: str, vision: str) -> Rgb:
    rgb = linear(colour)
    r, g, b = (
        min(1.0, max(0.0, sum(m * c for m, c in zip(row, rgb)))) for row in MACHADO[vision]
    )
    return r, g, b


def luminance(colour: str, vision: str = "all cones") -> float:
    """Which is also all that is left of it in grey."""
    r, g, b = seen(colour, vision)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str, vision: str = "all cones") -> float:
    low, high = sorted((luminance(one, vision), luminance(other, vision)))
    return (high + 0.05) / (low + 0.05)


def least_contrast(one: str, other: str) -> float:
    return min(contrast(one, other, vision) for vision in MACHADO)
