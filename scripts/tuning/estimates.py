"""What the ladders' tuning shares where a dispatcher chooses by an estimate: the problems that are timed,
and how good the choices are among kernels that the fit has not seen."""

from __future__ import annotations

import math
import random
from typing import Any, Callable, Iterable, NamedTuple, Protocol

from tuning.bench import Run, fail, geometric_mean

HELD_OUT = 3  # every third problem
LEAST, MOST = 16, 16384  # of the dimensions of random problems
WEIGHTS = ((1.15, 1.0), (1.5, 0.6), (math.inf, 0.2))  # of times up to so many times the least
FAR = 0.08  # for a logarithm to miss by
MOST_REGRET = 1.1  # of choices among kernels that were not fitted: more is no estimate


class Timed(NamedTuple):
    kernel: Any  # a ladder's own: it tells the shape and how the product is shared out
    problem: str
    work: Any  # a ladder's own: what its estimate sees of the problem and the kernel
    us: float


def timed(run: Run, kernel_of: Callable[[str], Any],
          work_of: Callable[[Any, dict[str, str]], Any]) -> list[Timed]:  # fmt: skip
    """The rows of a run, by a ladder's own functions: of a version's name, and of the kernel and its row,
    None if the kernel can't do the problem."""
    found = []
    for row in run.rows:
        kernel = kernel_of(row["kernel"])
        work = work_of(kernel, row)
        if work is None:
            what = f"{row['kernel']} did {row['problem']}"
            fail(f"{what}, which by scripts/tuning it can't: build ./bench anew.")
        found.append(Timed(kernel, row["problem"], work, float(row["time_us"])))
    return found


class Numbers(Protocol):
    def choice(self, works: dict[Any, Any]) -> Any:
        """The kernel that the dispatcher takes, of those with the works."""


class Choice(NamedTuple):
    us: float
    least_us: float


def random_problems(seed: int, count: int, multiple: int, most_work: float) -> list[str]:
    """Their sizes are log-uniform. None comes twice."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        logs = (draw.uniform(math.log(LEAST), math.log(MOST)) for _ in range(3))
        sizes = [round(math.exp(log) / multiple) * multiple for log in logs]
        if math.prod(sizes) <= most_work:
            found["x".join(map(str, sizes))] = None
    return list(found)


def by_problem(rows: Iterable[Timed]) -> dict[str, list[Timed]]:
    found: dict[str, list[Timed]] = {}
    for row in rows:
        found.setdefault(row.problem, []).append(row)
    return found


def weights(rows: list[Timed]) -> list[float]:
    """Of a fit: the times near the least one of a problem are what choices depend on."""
    least = {problem: min(row.us for row in of) for problem, of in by_problem(rows).items()}
    near = [row.us / least[row.problem] for row in rows]
    return [next(weight for most, weight in WEIGHTS if ratio <= most) for ratio in near]


def choices(rows: Iterable[Timed], numbers: Numbers) -> dict[str, Choice]:
    found = {}
    for problem, of in by_problem(rows).items():
        us = {row.kernel: row.us for row in of}
        kernel = numbers.choice({row.kernel: row.work for row in of})
        found[problem] = Choice(us[kernel], min(us.values()))
    return found


def expect_good_choices(rows: list[Timed], held_out: set[str], vendor: dict[str, float],
                        fit: Callable[[list[Timed]], Numbers]) -> None:  # fmt: skip
    """Of problems that are held out from a fit."""
    numbers = fit([row for row in rows if row.problem not in held_out])
    made = choices((row for row in rows if row.problem in held_out), numbers)
    regrets = {problem: choice.us / choice.least_us for problem, choice in made.items()}
    regret, worst = geometric_mean(regrets.values()), max(regrets, key=lambda p: regrets[p])
    print(f"{len(made)} problems that were not fitted: the chosen kernels take {regret:.3f} times what the "
          f"best ones take, at most {regrets[worst]:.2f} times ({worst})")  # fmt: skip
    speeds = [vendor[problem] / choice.us for problem, choice in made.items() if problem in vendor]
    if speeds:
        print(f"and reach {geometric_mean(speeds):.3f} times the speed of NVIDIA's libraries")
    if regret > MOST_REGRET:
        fail(f"for problems that were not fitted the choices take {regret - 1:.0%} longer than the best "
             "kernels, so the table stays as it was: measure on a GPU that nothing else uses.")  # fmt: skip
