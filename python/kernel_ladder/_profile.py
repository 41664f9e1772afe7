"""torch.profiler with the kernels' own names in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch

from ._explain import library
from ._versions import versions


class Profiled(NamedTuple):
    """All launches of a kernel for one problem: how many, and the microseconds on the CPU and, where
    there is one, on the GPU."""

    kernel: str
    problem: str
    launches: int
    cpu_us: float
    device_us: float


class profile:
    """Profiles what is run inside, each launch in a range of its version's full name:

    with kernel_ladder.profile("trace.json") as profiled:
        model(x)
    print(profiled)

    `trace` is a file for chrome://tracing or ui.perfetto.dev. `torch_profiler` is PyTorch's profile of
    the same. With nvtx=True nothing is recorded: the ranges are NVTX's, and a CUDA profiler that waits
    for it, Nsight Systems or Nsight Compute, begins and ends with the block."""

    def __init__(self, trace: str | Path | None = None, nvtx: bool = False) -> None:
        if nvtx and trace is not None:
            raise ValueError("kernel_ladder.profile: trace must be None with nvtx=True")
        if nvtx and not torch.cuda.is_available():
            raise ValueError("kernel_ladder.profile: nvtx=True needs a GPU")
        self.trace, self.nvtx = trace, nvtx
        self.torch_profiler: Optional[torch.profiler.profile] = None
        self.rows: list[Profiled] = []

    def __enter__(self) -> profile:
        if self.nvtx:
            torch.cuda.profiler.start()
            self._context: Any = torch.autograd.profiler.emit_nvtx()
        else:
            activities = [torch.profiler.ProfilerActivity.CPU]
            if torch.cuda.is_available():
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            self._context = self.torch_profiler = torch.profiler.profile(
                activities=activities, acc_events=True
            )
        self._context.__enter__()
        library().kernel_ladder_ranges(1)
        return self

    def __exit__(self, *error: Any) -> None:
        library().kernel_ladder_ranges(0)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._context.__exit__(*error)
        if self.torch_profiler is None:
            torch.cuda.profiler.stop()
            return
        ours = versions()
        for one in self.torch_profiler.key_averages():
            kernel, _, problem = one.key.partition(" ")
            if kernel in ours and problem:
                self.rows.append(
                    Profiled(kernel, problem, one.count, one.cpu_time_total, one.device_time_total)
                )
        self.rows.sort(key=lambda row: -(row.device_us or row.cpu_us))
        if self.trace is not None:
            self.torch_profiler.export_chrome_trace(str(self.trace))

    def __str__(self) -> str:
        table = [("kernel", "problem", "launches", "CPU us", "GPU us")]
        for row in self.rows:
            gpu = f"{row.device_us:.1f}" if row.device_us else "-"
            table.append((row.kernel, row.problem, str(row.launches), f"{row.cpu_us:.1f}", gpu))
        widths = [max(map(len, column)) for column in zip(*table)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)
