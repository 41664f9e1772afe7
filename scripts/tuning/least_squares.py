"""Least squares that few far misses don't decide: Levenberg-Marquardt, with numpy."""

from __future__ import annotations

from typing import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

DIFFERENCE = 1e-6  # of a parameter, for a derivative
MOST_STEP = 1.0  # of a parameter
ENOUGH = 1e-7  # what a step must gain, of the loss
MOST_STEPS = 200


def minimise(misses: Callable[[Vector], Vector], start: Vector, far: float) -> Vector:
    """The parameters with the least soft L1 loss of the misses: a square as long as they are small,
    beyond `far` it grows as the miss does. A parameter on which nothing depends stays where it was."""
    at, missed, damping = start, misses(start), 1e-3
    for _ in range(MOST_STEPS):
        weights = 1 / np.sqrt(1 + (missed / far) ** 2)
        moved = [misses(at + DIFFERENCE * unit) for unit in np.eye(len(at))]
        jacobian = (np.array(moved).T - missed[:, None]) / DIFFERENCE
        slope = jacobian.T @ (weights * missed)
        normal = jacobian.T @ (weights[:, None] * jacobian)
        held = np.diag(np.maximum(normal.diagonal(), 1e-9))
        before = loss(missed, far)
        while True:
            step = np.linalg.solve(normal + damping * held, -slope)
            tried = at + np.clip(step, -MOST_STEP, MOST_STEP)
            missed_then = misses(tried)
            gain = before - loss(missed_then, far)
            if gain > 0:
                break
            damping *= 4
            if damping > 1e6:
                return at  # nothing near is better
        at, missed, damping = tried, missed_then, damping / 4
        if gain < ENOUGH * before:
            break
    return at


def loss(missed: Vector, far: float) -> float:
    return float(np.sum(np.sqrt(1 + (missed / far) ** 2) - 1))
