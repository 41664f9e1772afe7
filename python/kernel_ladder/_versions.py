"""Any version of the suite by its name."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Callable, NamedTuple

import torch
from torch import Tensor

from ._register import is_differentiated

_DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2, "f64": torch.float64, "i8": torch.int8, "i32": torch.int32,
    "i64": torch.int64, "u8": torch.uint8, "u32": torch.uint32, "u64": torch.uint64,
}  # fmt: skip


_CUDA = 0  # a kernel's backend


class _Kernel(ctypes.Structure):  # kl_kernel of kernel_ladder.h
    _fields_ = [
        *((name, ctypes.c_char_p) for name in ("name", "family", "op", "dtype", "version", "idea")),
        *((name, ctypes.c_int) for name in ("backend", "is_baseline", "is_capturable")),
    ]


@lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(__file__).with_name("libkernel_ladder.so")))
    library.kl_kernel_count.restype = ctypes.c_size_t
    library.kl_describe.argtypes = (ctypes.c_size_t, ctypes.POINTER(_Kernel))
    return library


@lru_cache(maxsize=None)
def _ideas() -> dict[str, str]:
    ideas, one = {}, _Kernel()
    for number in range(_library().kl_kernel_count()):
        _library().kl_describe(number, ctypes.byref(one))
        if not one.is_baseline:
            ideas.setdefault(one.name.decode(), one.idea.decode())
    return ideas


def has_cuda() -> bool:
    """Whether the package was built with kernels for GPUs."""
    one = _Kernel()
    for number in range(_library().kl_kernel_count()):
        _library().kl_describe(number, ctypes.byref(one))
        if one.backend == _CUDA:
            return True
    return False


def versions(family: str = "") -> dict[str, str]:
    """The names of all versions whose name begins so, and what each does, in a few words."""
    return {name: idea for name, idea in _ideas().items() if name.startswith(family)}


class _Call(NamedTuple):
    problem: str
    shapes: list[tuple[int, ...]]  # of the results


def _rows(x: Tensor, *_: Tensor) -> str:
    return f"{x.numel() // max(x.size(-1), 1) if x.size(-1) else 0}x{x.size(-1)}"


def _same(x: Tensor, *others: Tensor) -> _Call:
    return _Call(_rows(x), [tuple(x.shape)])


def _mm(a: Tensor, b: Tensor) -> _Call:
    return _Call(f"{a.size(0)}x{b.size(1)}x{a.size(1)}", [(a.size(0), b.size(1))])


# By family and operation.
_CALLS: dict[str, Callable[..., _Call]] = {
    **dict.fromkeys(
        ("softmax", "softmax/log", "softmax/causal", "softmax/backward", "softmax/log_backward",
         "layernorm", "rmsnorm", "elementwise/bias_gelu_residual"), _same
    ),
    **dict.fromkeys(
        [f"elementwise/{op}"
         for op in ("relu", "add", "gelu", "gelu_tanh", "gelu_tanh_approx", "silu_mul")],
        lambda x, *_: _Call(str(x.numel()), [tuple(x.shape)]),
    ),
    **dict.fromkeys(
        ("layernorm/add", "rmsnorm/add"), lambda x, *_: _Call(_rows(x), [tuple(x.shape)] * 2)
    ),
    "reduction/sum": lambda x: _Call(str(x.numel()), [()]),
    "reduction/max": lambda x: _Call(str(x.numel()), [()]),
    "matrix_reduction/row_sum": lambda x: _Call(_rows(x), [(x.size(0),)]),
    "matrix_reduction/col_sum": lambda x: _Call(_rows(x), [(x.size(1),)]),
    "transpose": lambda x: _Call(_rows(x), [(x.size(1), x.size(0))]),
    "gemm": _mm,
    "gemm_tensor/nn": _mm,
}  # fmt: skip


class Version:
    """A version of an operation, which takes its inputs and returns what it makes of them."""

    def __init__(self, name: str) -> None:
        if name not in _ideas():
            raise ValueError(
                f"kernel_ladder.version: there is no {name}; kernel_ladder.versions() lists all"
            )
        self.name, self.idea = name, _ideas()[name]
        operation, dtype, _ = name.rsplit("/", 2)
        if operation not in _CALLS or dtype not in _DTYPES:
            raise ValueError(
                f"kernel_ladder.version: {name} is none of those that take tensors alone:"
                f" {', '.join(_CALLS)}"
            )
        self.dtype, self._call = _DTYPES[dtype], _CALLS[operation]

    def __call__(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        if is_differentiated(*inputs):
            raise ValueError(
                f"kernel_ladder: {self.name} has no derivative and is not batched: call it with"
                " x.detach(), or under torch.no_grad(), or take kernel_ladder.ops"
            )
        for x in inputs:
            if x.dtype != self.dtype:
                raise ValueError(f"kernel_ladder: {self.name} takes {self.dtype}, not {x.dtype}")
        inputs = tuple(x.contiguous() for x in inputs)
        inputs = tuple(x.clone() if x.is_cuda and x.data_ptr() % 256 else x for x in inputs)
        problem, shapes = self._call(*inputs)
        of_sums = self.name.split("/")[0] in ("reduction", "matrix_reduction")
        is_16_bit = self.dtype in (torch.float16, torch.bfloat16)
        dtype = torch.float32 if of_sums and is_16_bit else self.dtype
        results = tuple(inputs[0].new_empty(shape, dtype=dtype) for shape in shapes)
        torch.ops.kernel_ladder.run(self.name, problem, [*inputs, *results])
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return f"<kernel_ladder.Version {self.name}: {self.idea}>"


def version(name: str) -> Version:
    """kernel_ladder.version("gemm/f32/v05_tile2d")(a, b)"""
    return Version(name)
