#!/usr/bin/env python3
"""Lists the versions that have no time of the tree's code in results/: what is to be measured again.

A row is of the tree's code if its column `code` says so, or in an older file its commit: its sources are
as the tree has them, but for comments and white space (scripts/ladder_code.py).

examples:
  scripts/upkeep/stale.py                   of all families
  scripts/upkeep/stale.py gemm softmax      of two
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ladder_csv  # noqa: E402
from ladder_code import NoHistory, Tree  # noqa: E402
from ladder_csv import LadderError, label  # noqa: E402


class Version(NamedTuple):
    family: str
    name: str
    last: str  # the file of its latest row; empty if it has none


def versions(root: Path, families: Sequence[str]) -> dict[str, Version]:
    """Those of the tree, by their sources."""
    found = {
        str(file.relative_to(root)): Version(file.parent.name, label(file), "")
        for file in sorted(root.glob("src/kernels/*/v[0-9]*.cu"))
    }
    known = dict.fromkeys(one.family for one in found.values())
    for family in families:
        if family not in known:
            raise LadderError(f"There is no family {family}; there are {', '.join(known)}.")
    return {file: one for file, one in found.items() if not families or one.family in families}


def stale(root: Path, families: Sequence[str]) -> tuple[list[Version], int, str]:
    """Those without a row of the tree's code; how many there are in all; what kept the rows of older files
    from being judged."""
    tree = Tree(root)
    left = versions(root, families)
    count, why = len(left), ""
    latest: dict[str, tuple[str, str]] = {}
    for path in ladder_csv.files(root):
        for row in ladder_csv.read(path):
            file = tree.file_of(row)
            if file not in left or not row.timed or row.backend != "cuda":
                continue
            latest[file] = max(latest.get(file, ("", "")), (row.timestamp, f"{path.parent.name}/{path.name}"))
            try:
                if tree.is_of_today(row):
                    del left[file]
            except NoHistory as error:
                why = str(error)
    return [one._replace(last=latest.get(file, ("", ""))[1]) for file, one in left.items()], count, why


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="(default: all)")
    options = parser.parse_args()
    found, count, why = stale(ladder_csv.ROOT, options.families)
    width = max((len(one.name) for one in found), default=0)
    family = ""
    for one in found:
        if one.family != family:
            family = one.family
            print(family)
        print(f"  {one.name:{width}}  {f'last in {one.last}' if one.last else 'never measured'}")
    print(f"{len(found)} of {count} versions have no time of the tree's code.")
    if why:
        print(f"Rows without the column code are taken for those of earlier code: {why}.", file=sys.stderr)


if __name__ == "__main__":
    ladder_csv.run(main)
