"""Which code a row is of. ./bench writes a hash of what decides a version's compiled kernels into the
column `code`; cmake/Provenance.cmake says what is hashed, and this does the same from the tree. Of a row without
one its commit tells, in git's history.

Needs nothing but Python 3.10."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Iterable, Mapping

import ladder_csv
from ladder_csv import ROOT, Row

# A string or a character, which is kept, or what does not count
IGNORED = re.compile(rb"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)')|//[^\n]*|/\*.*?\*/|[ \t\r\n]+""", re.DOTALL)


class NoHistory(Exception):
    """Git doesn't tell the contents of commits."""


class Tree:
    """A checkout: its files in src/, and as commits have them."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    def file_of(self, row: Row) -> str:
        """The source that registers the row's kernel, from the root; empty if there is none."""
        file = ladder_csv.file_of(row.family, row.kernel, self.root / "src" / "kernels")
        return str(file.relative_to(self.root)) if file else ""

    # ---- The hash

    @functools.cache
    def text(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    @functools.cache
    def included(self, path: str) -> frozenset[str]:
        """What a file includes of src/device and src/kernels."""
        names = re.findall(r'^#include "([^"\n]+)"', self.text(path).decode(), re.MULTILINE)
        files = {str(folder / name) for name in names for folder in (Path(path).parent, Path("src"))}
        return frozenset(one for one in files if one.startswith(("src/device/", "src/kernels/"))
                         and (self.root / one).exists())  # fmt: skip

    @functools.cache
    def including(self, path: str) -> frozenset[str]:
        files = (str(file.relative_to(self.root)) for file in self.root.glob("src/kernels/*/v[0-9]*.cu"))
        return frozenset(one for one in files if path in self.included(one))

    @functools.cache
    def sources(self, path: str) -> frozenset[str]:
        """A version's file and what it includes; with a header of launchers, the files of versions up to
        its own number that include it too."""
        found, left = {path}, {path}
        while left:
            one = left.pop()
            others = set(self.included(one))
            if one.endswith("launchers.hpp"):
                others |= {other for other in self.including(one) if number(other) <= number(path)}
            left |= others - found
            found |= others
        return frozenset(found)

    @functools.cache
    def hash_of(self, path: str) -> str:
        return hashlib.sha256(b";" + code(self.text(path))).hexdigest()

    @functools.cache
    def code_of(self, path: str) -> str:
        hashes = sorted(map(self.hash_of, self.sources(path)))
        return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:16]

    # ---- The history

    def git(self, *arguments: str) -> bytes:
        """Of a repository whose top the root is."""
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("GIT_DIR", "GIT_WORK_TREE")}  # fmt: skip
        environment["GIT_CEILING_DIRECTORIES"] = str(self.root.resolve().parent)
        try:
            return subprocess.run(["git", "-C", str(self.root), *arguments], capture_output=True,
                                  env=environment, check=True).stdout  # fmt: skip
        except FileNotFoundError:
            raise NoHistory("there is no git") from None
        except subprocess.CalledProcessError as error:
            raise NoHistory(error.stderr.decode().strip()) from None

    @functools.cache
    def expect_history(self) -> None:
        if self.git("rev-parse", "--is-shallow-repository", "--verify", "HEAD").startswith(b"true"):
            raise NoHistory("the clone is shallow")

    @functools.cache
    def blobs(self, commit: str) -> Mapping[str, str]:
        """The ids of its files' contents; none of a commit that is not there."""
        try:
            lines = self.git("ls-tree", "-r", commit, "src").decode().splitlines()
        except NoHistory:
            return {}
        return {path: about.split()[2] for about, path in (line.split("\t") for line in lines)}

    @functools.cache
    def is_same(self, path: str, blob: str) -> bool:
        data = self.text(path)
        if hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == blob:
            return True
        return code(data) == code(self.git("cat-file", "blob", blob))

    # ---- Rows

    @functools.cache
    def had(self, commit: str, path: str) -> bool:
        """Whether a commit has a version's sources as the tree has them, but for comments and white space."""
        if commit.endswith("-dirty"):
            return False
        then = self.blobs(commit)
        return all(one in then and self.is_same(one, then[one]) for one in self.sources(path))

    def is_of_today(self, row: Row) -> bool:
        """Throws NoHistory where only that could tell."""
        file = self.file_of(row)
        if not file:
            return False
        if row.code:
            return row.code == self.code_of(file)
        self.expect_history()
        return self.had(row.git_sha, file)

    def is_earlier(self, row: Row) -> bool:
        """Whether it is of a version whose code has changed since, or is gone. As is_of_today."""
        return not row.is_peer and not self.is_of_today(row)

    def earlier(self, rows: Iterable[Row]) -> str:
        """12 of 300 rows are of earlier code; peers' don't count. Empty if none is. As is_of_today."""
        ours = [row for row in rows if not row.is_peer]
        earlier = sum(map(self.is_earlier, ours))
        return f"{earlier} of {len(ours)} rows are of earlier code" if earlier else ""


def number(path: str) -> str:
    """v05b of src/kernels/gemm/v05b_tile.cu."""
    found = re.match(r"v\d+[a-z]?", Path(path).name)
    return found[0] if found else ""


def code(text: bytes) -> bytes:
    """Without comments, and white space outside of strings."""
    return IGNORED.sub(rb"\1", text)
