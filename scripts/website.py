#!/usr/bin/env python3
"""Makes a static website: README and documentation, every family's page, the stepper's pages, and the report
of the runs in results/, with links from each to the others.

What a page links comes along, at the place that it has in the tree: Markdown, sources and notebooks as pages,
pictures and CSVs as they are. Nothing is built, and no GPU is needed; the pages work from a disk, too.

examples:
  scripts/website.py build/website        open build/website/index.html
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import string
import sys
import urllib.parse
from pathlib import Path
from typing import Callable

sys.path.insert(1, str(Path(__file__).resolve().parent / "upkeep"))
import ladder_csv  # noqa: E402
import report  # noqa: E402
import stepper  # noqa: E402
import update_readme  # noqa: E402
from ladder_csv import ROOT, LadderError  # noqa: E402

TEMPLATES = Path(__file__).resolve().parent / "website"
STYLE, REPORT, STEPS = Path("website.css"), Path("report.html"), Path("docs/site")
AS_THEY_ARE = (".csv", ".css", ".gif", ".html", ".js", ".png", ".svg")
PLACES = (("Kernel Ladder", "."), ("Documentation", "docs"), ("Step by step", "docs/site/index.html"),
          ("Report", "report.html"), ("Results", "results"))  # fmt: skip
IN_HTML = re.compile(r'\b(href|src)="([^"]*)"')


def place_of(path: Path) -> Path:
    """Where a file or a folder of the tree is on the website; both are paths from the top. Hosts leave out
    what is hidden, as .github is."""
    place = Path(*(part.lstrip(".") for part in path.parts))
    if (ROOT / path).is_dir():
        return place / "index.html"
    if path.name == "README.md":
        return place.with_name("index.html")
    if path.suffix == ".md":
        return place.with_suffix(".html")
    return place if path.suffix in AS_THEY_ARE else place.with_name(f"{place.name}.html")


def way(page: Path, to: Path) -> str:
    """The link from a page of the website to another."""
    return urllib.parse.quote(Path(os.path.relpath(to, page.parent)).as_posix())


class Website:
    def __init__(self, folder: Path) -> None:
        from markdown_it import MarkdownIt

        self.folder = folder
        self.markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
        self.todo = [Path("README.md"), *(path.relative_to(ROOT) for path in sorted((ROOT / STEPS).iterdir()))]
        self.done: set[Path] = set()

    def make(self) -> None:
        self.write(STYLE, report.palette() + (TEMPLATES / "page.css").read_text(encoding="utf-8"))
        runs = {run.path: None for runs in update_readme.newest_runs(ROOT) for run in runs.values()}
        self.write(REPORT, self.with_places(REPORT, report.render(list(runs))))
        while self.todo:
            path = self.todo.pop()
            if place_of(path) not in self.done:
                self.done.add(place_of(path))
                self.add(path)

    def add(self, path: Path) -> None:
        place, file = place_of(path), ROOT / path
        if file.is_dir() and (file / "README.md").is_file():
            path, file = path / "README.md", file / "README.md"
        if file.is_dir():
            self.page(place, str(path), self.listing(path))
        elif path.suffix == ".md":
            text = file.read_text(encoding="utf-8")
            self.page(place, text.splitlines()[0].lstrip("# "), self.rendered(path, text))
        elif path.suffix == ".ipynb":
            self.page(place, path.name, self.notebook(path))
        elif path.suffix == ".html":
            self.write(place, self.with_places(place, file.read_text(encoding="utf-8")))
        elif path.suffix in AS_THEY_ARE:
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, self.folder / place)
        else:
            source = html.escape(file.read_text(encoding="utf-8"))
            self.page(place, str(path), f"<h1>{html.escape(str(path))}</h1>\n<pre><code>{source}</code></pre>")

    def write(self, place: Path, text: str) -> None:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def page(self, place: Path, title: str, content: str) -> None:
        text = (TEMPLATES / "page.html").read_text(encoding="utf-8")
        self.write(place, string.Template(text).substitute(
            title=html.escape(title), style=way(place, STYLE), nav=self.places(place), content=content))  # fmt: skip

    # ---- From page to page

    def places(self, page: Path) -> str:
        """What stands at the top of every page; at a family's also its ladder in the report and step by step."""
        found = [(name, way(page, place_of(Path(to)))) for name, to in PLACES]
        for shown in stepper.SITE:
            family = shown.choices[0].name.split("/")[0]
            home, steps = Path("src/kernels") / family / "index.html", STEPS / shown.file
            if page == steps:
                found.append((f"{family}: its ladder", way(page, home)))
            if page == home:
                found.append((f"{shown.title}, step by step", way(page, steps)))
        if page.parent.parent == Path("src/kernels") and page.name == "index.html":
            family = page.parent.name
            found.append((f"{family} in the report", f"{way(page, REPORT)}#view=why&amp;family={family}"))
        links = "".join(f'<a href="{to}" style="margin-right: 1.2rem">{html.escape(name)}</a>' for name, to in found)
        return f'<nav aria-label="Website" style="padding: 0.6rem 1.2rem; line-height: 1.7">{links}</nav>'

    def with_places(self, page: Path, text: str) -> str:
        """Such a page, which was made for itself, leads to the others, too."""
        return re.sub(r"<body[^>]*>", lambda body: f"{body[0]}\n{self.places(page)}", text, count=1)

    def link(self, page: Path, to: str) -> str:
        """A link of a file of the tree, as its page on the website has it; what it leads to comes along."""
        url = urllib.parse.urlsplit(to)
        if url.scheme or url.netloc or not url.path:
            return to
        path = Path(os.path.normpath(page.parent / urllib.parse.unquote(url.path)))
        if path.parts[:1] == ("..",) or not (ROOT / path).exists():
            raise LadderError(f"{page} links {to}, which is not there.")
        self.todo.append(path)
        fragment = f"#{url.fragment}" if url.fragment else ""
        return way(place_of(page), place_of(path)) + fragment

    # ---- What pages are made of

    def rendered(self, page: Path, text: str) -> str:
        """Markdown as HTML, with the names that GitHub gives to headings."""
        tokens = self.markdown.parse(text)
        names: dict[str, int] = {}
        for token, following in zip(tokens, [*tokens[1:], None]):
            if token.type == "heading_open" and following:
                spoken = "".join(child.content for child in following.children or [])
                name = re.sub(r"[^\w\- ]", "", spoken.lower()).replace(" ", "-")
                names[name] = names.get(name, -1) + 1
                token.attrSet("id", f"{name}-{names[name]}" if names[name] else name)
            for one in (token, *(token.children or [])):
                for attribute in ("href", "src"):
                    if to := one.attrGet(attribute):
                        one.attrSet(attribute, self.link(page, str(to)))
                if one.type.startswith("html_"):
                    one.content = IN_HTML.sub(lambda m: f'{m[1]}="{self.link(page, m[2])}"', one.content)
        made: str = self.markdown.renderer.render(tokens, self.markdown.options, {})
        scroll = '<div class="scroll" role="region" tabindex="0" aria-label="Table"><table>'
        return made.replace("<table>", scroll).replace("</table>", "</table></div>")

    def notebook(self, page: Path) -> str:
        cells = json.loads((ROOT / page).read_text(encoding="utf-8"))["cells"]
        of: dict[str, Callable[[str], str]] = {
            "markdown": lambda text: self.rendered(page, text),
            "code": lambda text: f"<pre><code>{html.escape(text)}</code></pre>",
        }
        return "\n".join(of[cell["cell_type"]]("".join(cell["source"])) for cell in cells)

    def listing(self, folder: Path) -> str:
        """Of a folder without a README."""
        files = sorted(path for path in (ROOT / folder).iterdir() if path.is_file() and path.name[0] != ".")
        lines = (f'<li><a href="{self.link(folder / "README.md", path.name)}">{html.escape(path.name)}</a></li>'
                 for path in files)  # fmt: skip
        return f"<h1>{html.escape(str(folder))}</h1>\n<ul>{''.join(lines)}</ul>"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the website goes: a new or empty folder")
    options = parser.parse_args()
    if options.folder.exists() and (not options.folder.is_dir() or any(options.folder.iterdir())):
        raise LadderError(f"{options.folder} has something in it: the website needs a folder of its own.")
    ladder_csv.needs_package("markdown_it")
    Website(options.folder).make()
    print(options.folder / "index.html")


if __name__ == "__main__":
    ladder_csv.run(main)
