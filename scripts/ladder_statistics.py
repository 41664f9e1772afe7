"""The statistics of src/harness/statistics.hpp: what stands for samples, how sure that is, and how
much faster one contestant is than another that took turns with it."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple, Sequence

TRIMMED = 5  # one in so many of the ratios, at either end


class Ratio(NamedTuple):
    """NaN where nothing is known."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def middle_mean(samples: Sequence[float]) -> float:
    """Of the samples without the smallest and the largest fifth."""
    cut = len(samples) // TRIMMED
    kept = sorted(samples)[cut : len(samples) - cut]
    return math.fsum(kept) / len(kept)


def middle_mean_error(samples: Sequence[float]) -> float:
    """The standard error of middle_mean, from the winsorised deviations (Tukey and McLaughlin 1963); 0
    for one sample."""
    ordered, n = sorted(samples), len(samples)
    if n < 2:
        return 0.0
    cut = n // TRIMMED
    kept = ordered[cut : n - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    mean = math.fsum(winsorised) / n
    squares = math.fsum((x - mean) ** 2 for x in winsorised)
    return math.sqrt(squares / (len(kept) - 1) / len(kept))


def paired_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio:
    """The trimmed mean of the logarithms of numerator[i] / denominator[i], and its Tukey-McLaughlin
    interval (winsorised variance, Student's t), as a ratio. The interval of fewer than two ratios
    is without bounds."""
    logs = [math.log(a / b) for a, b in zip(numerator, denominator)]
    n = len(logs)
    if n == 0:
        return Ratio()
    centre, kept = middle_mean(logs), n - 2 * (n // TRIMMED)
    if n < 2:
        return Ratio(math.exp(centre), 0.0, math.inf)
    half = student_t(kept - 1) * middle_mean_error(logs) if kept > 1 else math.inf
    return Ratio(math.exp(centre), math.exp(centre - half), math.exp(min(centre + half, 700)))


@cache
def student_t(degrees: int) -> float:
    """The number that the size of Student's t with so many degrees of freedom exceeds in 5 % of all
    cases."""
    low, high = 0.0, 64.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_within(middle, degrees) < 0.95 else (low, middle)
    return high


def student_within(t: float, degrees: int) -> float:
    """The probability that Student's t is in [-t, t] (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    square = math.cos(angle) ** 2
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(degrees // 2):
        if k > 0:
            term *= square * (2 * k / (2 * k + 1) if odd else (2 * k - 1) / (2 * k))
        total += term
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
