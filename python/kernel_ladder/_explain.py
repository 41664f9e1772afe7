"""What kernels do to memory, as the host executor counts it."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, NamedTuple

COUNTS = (
    "global_ld_requests", "global_ld_sectors", "global_ld_ideal",
    "global_st_requests", "global_st_sectors", "global_st_ideal",
    "global_atomic_requests", "global_atomic_sectors",
    "shared_ld_requests", "shared_ld_wavefronts", "shared_ld_ideal",
    "shared_st_requests", "shared_st_wavefronts", "shared_st_ideal",
    "async_requests", "bulk_ld_bytes", "bulk_st_bytes", "wgmma_bytes", "barriers", "moved_bytes",
)  # fmt: skip


class _Counts(ctypes.Structure):  # kl_counts of kernel_ladder.h
    _fields_ = [(name, ctypes.c_ulonglong) for name in COUNTS]


@lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The operators'."""
    loaded = ctypes.CDLL(str(Path(__file__).with_name("libkernel_ladder_torch.so")))
    loaded.kernel_ladder_ranges.argtypes = (ctypes.c_int,)
    loaded.kernel_ladder_count.argtypes = (ctypes.c_int,)
    loaded.kernel_ladder_counted.restype = ctypes.c_size_t
    texts = ctypes.POINTER(ctypes.c_char_p)
    loaded.kernel_ladder_counts_of.argtypes = (ctypes.c_size_t, texts, texts)
    loaded.kernel_ladder_counts_of.restype = ctypes.POINTER(_Counts)
    return loaded


class Explained(NamedTuple):
    """A launch: of which kernel, of which problem, and docs/columns.md's counts by name."""

    kernel: str
    problem: str
    counts: dict[str, int]


class Explanation(tuple[Explained, ...]):
    """The launches of a call, in their order; printed, a table."""

    def __str__(self) -> str:
        def share(requests: int, units: int, ideal: int) -> str:
            if requests == 0:
                return "-"
            of = f"{units / requests:.3g} of {ideal / requests:.3g}"
            return f"{requests} {of}{' !' if units > 2 * ideal else ''}"

        accesses = ("global ld", "global st", "shared ld", "shared st")
        rows = [("kernel", "problem", *accesses, "sync", "moved")]
        for kernel, problem, c in self:
            kinds = (
                share(*(c[f"{space}_{way}_{unit}"] for unit in ("requests", units, "ideal")))
                for space, units in (("global", "sectors"), ("shared", "wavefronts"))
                for way in ("ld", "st")
            )
            moved = f"{c['moved_bytes'] / 1e3:.4g} kB"
            rows.append((kernel, problem, *kinds, str(c["barriers"]), moved))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        head = (
            "Requests, and of each the 32-byte sectors, or passes through the banks, that it takes,"
            " of the fewest for its bytes; ! where they are more than twice as many.\n"
        )
        return head + "\n".join(lines)


def explain(function: Callable[..., Any], *tensors: Any) -> Explanation:
    """Calls function(*tensors), on CPU tensors, and tells what each kernel did to memory.

    print(kernel_ladder.explain(kernel_ladder.version("transpose/f32/v01_naive"), x))"""
    operators = library()
    operators.kernel_ladder_count(1)
    try:
        function(*tensors)
        found = []
        for i in range(operators.kernel_ladder_counted()):
            texts = ctypes.c_char_p(), ctypes.c_char_p()
            counts = operators.kernel_ladder_counts_of(i, *texts).contents
            kernel, problem = ((text.value or b"").decode() for text in texts)
            found.append(Explained(kernel, problem, {name: getattr(counts, name) for name in COUNTS}))
    finally:
        operators.kernel_ladder_count(0)
    if not found:
        raise ValueError(
            "kernel_ladder.explain: the call has run none of the suite's kernels on CPU tensors"
        )
    return Explanation(found)
