"""The mutations that may survive, and why: survivors.txt."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from mutations.operators import Mutation

LIST = Path(__file__).with_name("survivors.txt")


class Survivor(NamedTuple):
    place: str  # a pattern of paths below src/
    kind: str  # the mutation's class
    what: str  # … stands for anything
    reason: str  # begins with "same:" or "unseen:"

    def names(self, file: Path, mutation: Mutation) -> bool:
        what = ".*".join(re.escape(part) for part in self.what.split("…"))
        return (
            fnmatch(str(file), self.place)
            and self.kind == mutation.kind
            and re.fullmatch(what, mutation.what) is not None
        )


class Survivors(NamedTuple):
    listed: list[Survivor]

    def of(self, file: Path, mutation: Mutation) -> Survivor | None:
        if mutation.redundant:
            return Survivor(str(file), mutation.kind, mutation.what, mutation.redundant)
        return next((s for s in self.listed if s.names(file, mutation)), None)

    def unused(self, everything: list) -> list[Survivor]:
        used = {t.named for t in everything}
        return [s for s in self.listed if s not in used]


def read() -> Survivors:
    """Lines of  place | class | what | reason,  and comments."""
    listed = []
    for number, line in enumerate(LIST.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split(" | ")]
        if len(fields) != 4 or not fields[3].startswith(("same: ", "unseen: ")):
            sys.exit(f"{LIST.name}:{number} is not  place | class | what | same: … (or unseen: …)")
        listed.append(Survivor(*fields))
    return Survivors(listed)
