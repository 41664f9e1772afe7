#!/usr/bin/env python3
"""Tests of scripts/website.py: that no link of the website is dead, and of its pages in a headless Chromium
where there is one.

Exits with 77 if Markdown's reader or Chromium is missing and what could run passed."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import skips

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "website.py"
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "upkeep")]

import browser  # noqa: E402
import ladder_csv  # noqa: E402
import stepper  # noqa: E402

READS_MARKDOWN = ladder_csv.find_package("markdown_it")
IN_PAGE = (ROOT / "test" / "stepper_test.js").read_text(encoding="utf-8")
FAMILIES = sorted(path.parent.name for path in (ROOT / "src" / "kernels").glob("*/README.md"))
SCREENS = ((390, 844), (768, 1024), (1366, 768), (1920, 1080))


class Links(HTMLParser):
    """What a page links, and what in it can be linked."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.links += [link for name in ("href", "src") if (link := of.get(name)) is not None]
        self.ids |= {name for key in ("id", "name") if (name := of.get(key))}


@unittest.skipUnless(READS_MARKDOWN, "needs markdown-it-py")
class Website(unittest.TestCase):
    folder: Path
    pages: dict[Path, Links]

    @classmethod
    def setUpClass(cls) -> None:
        kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(kept.cleanup)
        cls.folder = Path(kept.name).resolve() / "website"
        made = subprocess.run([sys.executable, SCRIPT, cls.folder], capture_output=True, encoding="utf-8")
        assert (made.returncode, made.stdout) == (0, f"{cls.folder}/index.html\n"), made.stderr
        cls.pages = {path: Links(path) for path in cls.folder.rglob("*.html")}

    def leads_to(self, page: Path) -> dict[str, tuple[Path, str]]:
        """The links of a page within the website: the file and the part of it that each leads to."""
        found = {}
        for link in self.pages[page].links:
            url = urllib.parse.urlsplit(link)
            if not url.scheme and not url.netloc:
                path = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
                found[link] = path, url.fragment
        return found

    def test_no_link_is_dead(self) -> None:
        checked = 0
        for page in self.pages:
            for link, (path, part) in self.leads_to(page).items():
                with self.subTest(page=str(page.relative_to(self.folder)), link=link):
                    self.assertTrue(path.is_relative_to(self.folder))
                    self.assertTrue(path.is_file())
                    if path.parent.name == "site" and "," in part:  # two versions, and a step
                        labels = re.findall(r'"label":"(v\d+[a-z]?)_', path.read_text(encoding="utf-8"))
                        self.assertLessEqual({*part.split(",")[:2]}, {*labels})
                    elif part and "=" not in part:  # else it is a view of the report
                        self.assertIn(part, self.pages[path].ids)
                    checked += 1
        self.assertGreater(checked, 1000)

    def test_every_page_is_reached_and_leads_back(self) -> None:
        first = self.folder / "index.html"
        reached, todo = {first}, [first]
        while todo:
            more = {path for path, _ in self.leads_to(todo.pop()).values() if path in self.pages} - reached
            reached |= more
            todo += more
        self.assertEqual(set(self.pages) - reached, set())
        for page in self.pages:
            self.assertIn(first, [path for path, _ in self.leads_to(page).values()], page)

    def test_all_of_it_is_there(self) -> None:
        for name in ("index.html", "report.html", "docs/start.html", "docs/site/index.html", "results/index.html",
                     "src/kernels/gemm/v01_naive.cu.html", *(f"src/kernels/{one}/index.html" for one in FAMILIES),
                     *(f"docs/site/{page.file}" for page in stepper.SITE)):  # fmt: skip
            self.assertIn(self.folder / name, self.pages)
        report = (self.folder / "report.html").read_text(encoding="utf-8")
        for card in ("NVIDIA H100", "NVIDIA H200"):
            self.assertIn(card, report)
        family = {link for link, _ in self.leads_to(self.folder / "src/kernels/gemm/index.html").items()}
        self.assertLess({"../../../docs/site/gemm.html", "../../../report.html#view=why&family=gemm"}, family)
        self.assertIn("../../src/kernels/gemm/index.html", self.leads_to(self.folder / "docs/site/gemm.html"))

    def test_it_needs_no_network_and_tells_nothing_of_this_machine(self) -> None:
        for path in self.folder.rglob("*"):
            if path.suffix in (".html", ".css", ".js"):
                self.assertNotIn(str(ROOT), path.read_text(encoding="utf-8"), path)
        for page, found in self.pages.items():
            fetched = [link for link in found.links if "//" in link and link.endswith((".css", ".js", ".png", ".svg"))]
            self.assertEqual(fetched, [], page)

    def test_a_push_publishes_what_the_command_makes(self) -> None:
        steps = (ROOT / ".github" / "workflows" / "website.yml").read_text(encoding="utf-8")
        made, sent = re.findall(r"run: scripts/website\.py (\S+)\n", steps), re.findall(r"path: (\S+)\n", steps)
        self.assertEqual((len(made), made), (1, sent))
        hidden = [path for path in self.folder.rglob("*") if path.name.startswith(".")]
        self.assertEqual(hidden, [], "which the action that sends it leaves out")
        self.assertRegex(steps, r"(?m)^on:\n  push:\n    branches: \[main\]$")

    def test_a_folder_in_use_is_left_alone(self) -> None:
        again = subprocess.run([sys.executable, SCRIPT, self.folder], capture_output=True, encoding="utf-8")
        self.assertEqual((again.returncode, again.stdout), (1, ""))
        self.assertIn("has something in it: the website needs a folder of its own.", again.stderr)

    @unittest.skipUnless(browser.CHROMIUM, "needs Chromium")
    def test_pages_fit_every_screen_and_have_contrast(self) -> None:
        pages = ("index.html", "src/kernels/gemm/index.html", "docs/site/index.html", "docs/site/gemm.html",
                 "src/kernels/gemm/v01_naive.cu.html",
                 *(f"report.html#view={view}" for view in ("story", "why", "sizes", "roof", "compare", "runs")),
                 )  # fmt: skip
        with browser.Browser() as shown:
            for page in pages:
                name, _, view = page.partition("#")
                for width, height in SCREENS:
                    shown.width(width, height)
                    shown.open(self.folder / name, view)
                    self.assertEqual(shown.run("document.documentElement.scrollWidth"), width, page)
                shown.run(IN_PAGE)
                for scheme in ("light", "dark"):
                    shown.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
                    poor, texts = shown.run("inTest.poorTexts()")
                    self.assertGreater(texts, 5)
                    self.assertEqual(poor, [], f"{page} {scheme}")
            self.assertEqual(shown.errors, [])


if __name__ == "__main__":
    skips.main()
