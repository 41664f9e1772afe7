"""libkernel_ladder.so through ctypes: the suite's kernels in this process, on this process's memory.

Names and meanings are those of src/library/kernel_ladder.h.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint64, c_void_p
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

OK, INVALID, UNSUPPORTED, FAILED = range(4)
CUDA, HOST = range(2)
INPUT, OUTPUT, IN_PLACE = range(3)


class LibraryError(Exception):
    """What the library says of a call that it refused; status is one of those above."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Kernel(NamedTuple):
    number: int
    name: str  # family[/op]/dtype/version
    family: str
    op: str
    dtype: str
    version: str
    idea: str
    backend: int
    is_baseline: bool


class Array(NamedTuple):
    name: str
    role: int
    dtype: str
    elements: int
    bytes: int


class _Kernel(ctypes.Structure):
    _fields_ = [
        *((name, c_char_p) for name in ("name", "family", "op", "dtype", "version", "idea")),
        *((name, c_int) for name in ("backend", "is_baseline", "is_capturable")),
    ]


class _Array(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p), ("role", c_int), ("dtype", c_char_p),
        ("elements", c_size_t), ("bytes", c_size_t),
    ]  # fmt: skip


SIGNATURES = {
    "kl_last_error": (c_char_p, []),
    "kl_git_sha": (c_char_p, []),
    "kl_kernel_count": (c_size_t, []),
    "kl_describe": (c_int, [c_size_t, POINTER(_Kernel)]),
    "kl_best": (c_int, [c_char_p, c_char_p, c_int, c_char_p, POINTER(c_size_t)]),
    "kl_supports": (c_int, [c_size_t, c_char_p]),
    "kl_open": (c_int, [c_size_t, c_char_p, POINTER(c_void_p)]),
    "kl_close": (None, [c_void_p]),
    "kl_array_count": (c_size_t, [c_void_p]),
    "kl_describe_array": (c_int, [c_void_p, c_size_t, POINTER(_Array)]),
    "kl_bind": (c_int, [c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_size_t)]),
    "kl_set_workspace": (c_int, [c_void_p, c_void_p]),
    "kl_plan": (c_int, [c_void_p, c_size_t, c_int]),
    "kl_state_bytes": (c_size_t, [c_void_p]),
    "kl_set_state": (c_int, [c_void_p, c_void_p]),
    "kl_launch": (c_int, [c_void_p, c_void_p]),
}


class Library:
    """Raises OSError where there is no such library, or one that it stands on is missing."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path.resolve()))
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments

    @property
    def git_sha(self) -> str:
        return str(self.c.kl_git_sha().decode())

    def check(self, status: int) -> None:
        if status != OK:
            raise LibraryError(status, self.c.kl_last_error().decode())

    def kernels(self, backend: int) -> list[Kernel]:
        every = map(self.describe, range(self.c.kl_kernel_count()))
        return [one for one in every if one.backend == backend]

    def describe(self, number: int) -> Kernel:
        one = _Kernel()
        self.check(self.c.kl_describe(number, byref(one)))
        texts = (getattr(one, name).decode() for name, _ in _Kernel._fields_[:6])
        return Kernel(number, *texts, one.backend, bool(one.is_baseline))

    def best(self, operation: str, dtype: str, backend: int, problem: str) -> Kernel:
        """The suite's best version for a problem of an operation: "softmax", "layernorm/add"."""
        number = c_size_t()
        texts = operation.encode(), dtype.encode(), problem.encode()
        self.check(self.c.kl_best(*texts[:2], backend, texts[2], byref(number)))
        return self.describe(number.value)

    def open(self, kernel: Kernel, problem: str) -> Launcher:
        return Launcher(self, kernel, problem)


class Launcher:
    """A kernel opened for a problem. Its arrays must live as long as it is launched."""

    def __init__(self, library: Library, kernel: Kernel, problem: str) -> None:
        self.library, self.handle = library, c_void_p()
        self.launch_on = library.c.kl_launch
        library.check(library.c.kl_open(kernel.number, problem.encode(), byref(self.handle)))
        self.state_bytes = int(library.c.kl_state_bytes(self.handle))

    def __del__(self) -> None:
        self.library.c.kl_close(self.handle)

    @property
    def arrays(self) -> list[Array]:
        c, arrays = self.library.c, []
        for index in range(c.kl_array_count(self.handle)):
            one = _Array()
            self.library.check(c.kl_describe_array(self.handle, index, byref(one)))
            name, dtype = one.name.decode(), one.dtype.decode()
            arrays.append(Array(name, one.role, dtype, one.elements, one.bytes))
        return arrays

    def bind(self, addresses: Sequence[int]) -> int:
        """Of the arrays; returns the bytes of workspace that launches need."""
        pointers, needed = (c_void_p * len(addresses))(*addresses), c_size_t()
        self.library.check(
            self.library.c.kl_bind(self.handle, pointers, len(addresses), byref(needed))
        )
        return needed.value

    def set_workspace(self, address: int) -> None:
        self.library.check(self.library.c.kl_set_workspace(self.handle, address))

    def plan(self) -> None:
        """For arrays that start at multiples of 256 bytes; versions that time their choices do so."""
        self.library.check(self.library.c.kl_plan(self.handle, 256, 1))

    def set_state(self, address: int) -> None:
        """Of state_bytes that are zero, and of which nobody but this launcher's launches knows."""
        self.library.check(self.library.c.kl_set_state(self.handle, address))

    def launch(self, stream: int) -> None:
        status = self.launch_on(self.handle, stream)
        if status != OK:
            self.library.check(status)


def memset() -> Callable[[int, int, int], None]:
    """The CUDA driver's: of an address, a number of bytes, and a stream, it writes zeros."""
    enqueue = ctypes.CDLL("libcuda.so.1").cuMemsetD8Async
    enqueue.argtypes = (c_uint64, c_ubyte, c_size_t, c_void_p)

    def zeros(address: int, size: int, stream: int) -> None:
        if error := enqueue(address, 0, size, stream):
            raise LibraryError(FAILED, f"the CUDA driver refuses a memset: error {error}")

    return zeros
