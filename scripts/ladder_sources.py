"""What the tree says about a version: its source and the head of that, its paragraphs in the family's
README, and the drawings there. report.py puts them into its page, ladder.py compares them.

Needs nothing but Python 3.10."""

from __future__ import annotations

import functools
import html
import re
from pathlib import Path
from typing import NamedTuple

from ladder_csv import KERNELS, file_of, label

HEAD = ("Idea", "Vs", "Bound by", "Limits", "Tile")


class Drawing(NamedTuple):
    alt: str
    svg: str


class Version(NamedTuple):
    """A version's source and what is written about it."""

    family: str
    file: str  # v05_tile2d.cu
    source: str
    head: dict[str, str]  # of HEAD, those that are there
    before: str  # the version that it is compared with, v04_tile1d; empty where a ladder begins
    paragraphs: str  # of the README, as HTML
    drawings: tuple[Drawing, ...]
    headers: tuple[str, ...]  # of families, those included: kernels/gemm/tiles.hpp


def version(name: str) -> Version | None:
    """Of a name family/kernel; None if the tree has no such version."""
    file = file_of(*name.split("/"))
    if file is None:
        return None
    source = file.read_text(encoding="utf-8")
    written = head(source)
    short = label(file).partition("_")[0]
    text = "\n\n".join(rungs(file.parent).get(short, ()))
    images = re.findall(r"^!\[([^\]]*)\]\((drawings/[^)]+\.svg)\)", text, re.M)
    return Version(
        file.parent.name, file.name, source, written,
        earlier(file, written.get("Vs", "")),
        markdown(text), tuple(
            Drawing(alt, (file.parent / path).read_text(encoding="utf-8")) for alt, path in images
        ),
        tuple(str(header.relative_to(KERNELS.parent)) for header in headers(file)),
    )  # fmt: skip


@functools.cache
def headers(file: Path) -> tuple[Path, ...]:
    """Those of families that a source includes, directly or by another, each before what it includes."""
    found: dict[Path, None] = {}
    for name in re.findall(r'^#include "([^"]+)"', file.read_text(encoding="utf-8"), re.M):
        for folder in (file.parent, KERNELS.parent):
            if (header := folder / name).exists() and KERNELS in header.parents:
                found |= dict.fromkeys((header, *headers(header)))
                break
    return tuple(found)


def head(source: str) -> dict[str, str]:
    """The parts of a source's first comment: Idea, Vs (with the version's name), and so on."""
    found: dict[str, str] = {}
    part = ""
    for line in source.splitlines():
        if not line.startswith("//"):
            break
        text = line[3:]
        if not text:  # what follows is a picture of the idea
            part = ""
        if begin := re.match(rf"({'|'.join(HEAD)})(?: (v\d+[a-z]?)\b)? +", text):
            part = begin[1]
            text = f"{begin[2]}: {text[begin.end():]}" if begin[2] else text[begin.end() :]
        if part:
            found[part] = " ".join(filter(None, (found.get(part, ""), text.strip())))
    return found


def earlier(file: Path, vs: str) -> str:
    """v04_tile1d, if `vs` begins with v04; the first of v01_a and v01_b where there are several."""
    number = re.match(r"v\d+[a-z]?\b", vs)
    found = sorted(file.parent.glob(f"{number[0]}_*.cu")) if number else []
    return label(found[0]) if found else ""


# ---- The family's README


@functools.cache
def rungs(folder: Path) -> dict[str, list[str]]:
    """The Markdown about each rung: from a line that begins with its name in bold to the next such
    line or heading; or the paragraph that has its name in bold."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""  # a new family's comes last
    found: dict[str, list[str]] = {}
    for section in re.split(r"^(?:#|<!--).*$", text, flags=re.M):
        for part in re.split(r"^(?=\*\*v\d)", section, flags=re.M):
            for one in [part] if part.startswith("**v") else part.split("\n\n"):
                for name in dict.fromkeys(re.findall(r"\*\*(v\d+[a-z]?)\b", one)):
                    found.setdefault(name, []).append(one.strip())
    return found


def markdown(text: str) -> str:
    """The Markdown of such paragraphs as HTML: paragraphs, lists, tables, code. Images are left out,
    links keep their text."""
    made = []
    for block in re.split(r"\n\s*\n", re.sub(r"^!\[[^\]]*\]\([^)]*\)$", "", text, flags=re.M)):
        lines = block.strip("\n").splitlines()
        if not lines:
            continue
        if lines[0].startswith("```"):
            made.append(f"<pre>{html.escape(chr(10).join(lines[1:-1]))}</pre>")
        elif lines[0].startswith("|"):
            cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
            made.append(table(cells[0], cells[2:]))
        elif lines[0].startswith("- "):
            items = re.split(r"^- ", block, flags=re.M)[1:]
            made.append("<ul>" + "".join(f"<li>{inline(item)}</li>" for item in items) + "</ul>")
        else:
            made.append(f"<p>{inline(block)}</p>")
    return "\n".join(made)


def table(top: list[str], lines: list[list[str]]) -> str:
    def row(kind: str, cells: list[str]) -> str:
        return "<tr>" + "".join(f"<{kind}>{inline(cell)}</{kind}>" for cell in cells) + "</tr>"

    return f"<table>{row('th', top)}{''.join(row('td', line) for line in lines)}</table>"


def inline(text: str) -> str:
    """Code, bold, italics, and the texts of links."""
    unlinked = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(text.split()))
    parts = re.split(r"`([^`]+)`", unlinked)
    for i, part in enumerate(parts):
        part = html.escape(part, quote=False)
        if i % 2:
            parts[i] = f"<code>{part}</code>"
            continue
        part = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", part)
        parts[i] = re.sub(r"(?<!\w)\*([^*\s][^*]*)\*(?!\w)", r"<em>\1</em>", part)
    return "".join(parts)
