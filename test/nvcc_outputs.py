"""Where nvcc's outputs are: PTX and machine code of a kernel file, from the object file of a build."""

from __future__ import annotations

import ctypes
import re
import shlex
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple


class Made(NamedTuple):
    """Of a kernel file, for the newest architecture of the build."""

    ptx: str | None
    cubin: bytes | None  # machine code


# Both headers of a fat binary, as in an object file: magic, version, bytes of the header and behind
# it; and before each image its kind, bytes of the header and behind it, bytes if it is compressed,
# architecture, flags, bytes before it was compressed.
FAT_BINARY, MAGIC = struct.Struct("<IHHQ"), b"\x50\xed\x55\xba"
IMAGE, PTX, CUBIN = struct.Struct("<H2xIQI8xI8xQ8xQ"), 1, 2
LZ4, ZSTD = 0x2000, 0x8000


def unpacked(data: bytes, flags: int, size: int) -> bytes:
    """By the libraries that apt and gcc are linked with."""
    if not flags & (LZ4 | ZSTD):
        return data
    to = ctypes.create_string_buffer(size)
    if flags & ZSTD:
        sizes = ctypes.c_size_t(size), ctypes.c_size_t(len(data))
        done = ctypes.CDLL("libzstd.so.1").ZSTD_decompress(to, sizes[0], data, sizes[1])
    else:
        done = ctypes.CDLL("liblz4.so.1").LZ4_decompress_safe(data, to, len(data), size)
    if done != size:
        raise ValueError("not what was compressed")
    return to.raw


def images(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, architecture and contents of what is in the fat binaries of an object file."""
    at = data.find(MAGIC)
    while at >= 0:
        _, _, header, size = FAT_BINARY.unpack_from(data, at)
        at, end = at + header, at + header + size
        while at < end:
            kind, header, size, packed, architecture, flags, raw = IMAGE.unpack_from(data, at)
            at += header
            yield kind, architecture, unpacked(data[at : at + (packed or size)], flags, raw)
            at += size
        at = data.find(MAGIC, end)


def built(entry: dict[str, str]) -> Made:
    """What is in the object file."""
    command = shlex.split(entry["command"])
    file = Path(entry["directory"]) / command[command.index("-o") + 1]
    try:
        found = sorted(images(file.read_bytes()), key=lambda image: image[1])
    except (OSError, struct.error, ValueError):  # another format, or a library is missing
        return Made(None, None)
    newest = {kind: contents for kind, _, contents in found}
    ptx = newest.get(PTX)
    return Made(ptx.rstrip(b"\0").decode() if ptx else None, newest.get(CUBIN))


def compiled(entry: dict[str, str], with_cubin: bool) -> Made:
    command = shlex.split(entry["command"])
    newest = max(
        re.findall(r"compute_(\d+a?)", entry["command"]), key=lambda a: int(a.rstrip("a")), default=""
    )
    dropped = re.compile(r"--?generate-code.*|-c|-Xptxas.*|-arch=.*")
    command = [word for word in command if not dropped.fullmatch(word)]
    del command[command.index("-o") : command.index("-o") + 2]
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / Path(entry["file"]).with_suffix(".ptx").name
        cubin = ptx.with_suffix(".cubin")
        command += [f"-arch=sm_{newest}" if newest else "-arch=native"]
        if with_cubin:
            command += ["-cubin", "--keep", "--keep-dir", folder, "-o", str(cubin)]
        else:
            command += ["-ptx", "-o", str(ptx)]
        subprocess.run(command, cwd=entry["directory"], check=True, stderr=subprocess.DEVNULL)
        return Made(ptx.read_text(), cubin.read_bytes() if with_cubin else None)


def disassembled(cubin: bytes, nvdisasm: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run(
            [nvdisasm, "-gi", "-c", file.name], text=True, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ).stdout  # fmt: skip
