#!/usr/bin/env python3
"""Tests of scripts/report.py: its page as text, and in a headless Chromium where there is one.

Exits with 77 if plotly or Chromium is missing and what could run passed."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
import sys
import unittest
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

# First: it finds the scripts.
from scripts_test import ALL, GEMM, RELU, SCRIPTS, Case, equal_rounds, gemm, line

import ladder_csv  # isort: skip
import report  # isort: skip

SCRIPT = SCRIPTS / "report.py"
MEASURED = sorted(  # but for the hundreds of shapes of scripts/autotune.py, which are no ladder
    path for path in (ladder_csv.ROOT / "results" / "h100").glob("20*.csv")
    if "-autotune-" not in path.name
)  # fmt: skip
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
SKIPPED = 77
LIMIT = 6_000_000  # bytes of a page with 2000 rows
SECONDS = 2.0  # until such a page can be used
IDEA = "as long as the idea of a version is, which says in a few words what it does"
HOSTILE = '4 < 8 & "quoted" </script><script>throw 1</script> $name'

try:
    report.plotly()
    HAS_PLOTLY = True
except ladder_csv.LadderError:
    HAS_PLOTLY = False
renders = unittest.skipUnless(HAS_PLOTLY, "needs plotly: scripts/setup")
browses = unittest.skipUnless(HAS_PLOTLY and CHROMIUM, "needs plotly and Chromium")

MARKED = [
    line("v04_wonder", 300, idea=HOSTILE, throttled=0.4, sm_mhz=1980, power_w=300, toolkit="13.0"),
    line("v05_wrong", 0.001, verdict="incorrect", reason=HOSTILE, roof=""),
    gemm("v01_naive", 1, 8192, vs_baseline_low=0.01, vs_baseline_high=0.03),
]


class Page(HTMLParser):
    """A page's elements, checked to be closed in the order they were opened."""

    VOID = ("input", "meta", "wbr")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.hrefs: list[str] = []
        self.ids: list[str] = []
        self.attributes: set[str] = set()
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open, f"not closed: {self.open}"
        self.data = json.loads(self.scripts[0])
        self.rows = [dict(zip(self.data["columns"], row)) for row in self.data["rows"]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}
        found = {name: value or "" for name, value in attrs}
        self.hrefs += [found["href"]] if "href" in found else []
        self.ids += [found["id"]] if "id" in found else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.texts).append(data)


class PageCase(Case):
    def page(self, *csvs: Path) -> Path:
        path = self.folder / "report.html"
        result = self.run_script(SCRIPT, *csvs, "-o", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return path

    def tied(self) -> Path:
        """Of three versions two are tied; the large one is at the power limit and level with the
        vendor's."""
        lines = equal_rounds(RELU, "v02_grid_stride", "v03_vec128", aa=(1, 0.995, 1.005))
        for one in (large := equal_rounds([*GEMM, gemm("v11_level", 52.01)], "v11_level")):
            one |= {"settled": "yes", "burst_us": 0.9 * one["time_us"], "throttled": 1,
                    "throttle": "power+thermal" if one["kernel"] == "v01_rung_0" else "power"}
        return self.write(lines + large)


class Input(PageCase):
    def test_mistakes_are_one_sentence(self) -> None:
        good, page = self.write(RELU), self.folder / "report.html"
        bad = self.folder / "bad.csv"
        self.refuses("none.csv cannot be read", SCRIPT, self.folder / "none.csv", "-o", page)
        bad.write_text("a,b\n1,2\n", encoding="utf-8")
        self.refuses("is not a CSV of ./bench: no column", SCRIPT, good, bad, "-o", page)
        bad.write_text("", encoding="utf-8")
        self.refuses("bad.csv is empty", SCRIPT, bad, "-o", page)
        self.refuses("needs another name", SCRIPT, good, "-o", good)
        self.assertFalse(page.exists())

    @renders
    def test_mistakes_that_show_late_are_one_sentence_too(self) -> None:
        good = self.write(RELU)
        self.refuses("cannot be written: Is a directory", SCRIPT, good, "-o", self.folder)
        self.refuses("cannot be written: ", SCRIPT, good, "-o", good / "report.html")
        bad = self.write([line("v01_naive", 900, throttled="often")], "bad.csv")
        self.refuses("throttled is 'often', not a number", SCRIPT, bad, "-o", self.folder / "a")

    def test_help_has_examples(self) -> None:
        self.assertIn("examples:", self.run_script(SCRIPT, "--help").stdout)


@renders
class Text(PageCase):
    def check_links(self, path: Path, page: Page) -> None:
        files = [href for href in page.hrefs if not href.startswith("#")]
        for href in [*files, *page.data["links"].values()]:
            self.assertFalse(href.startswith("/"), "the page moves with its checkout")
            self.assertTrue((path.parent / urllib.parse.unquote(href)).is_file(), href)
        for href in (href[1:] for href in page.hrefs if href.startswith("#")):
            choice = urllib.parse.parse_qsl(href, keep_blank_values=True) if "=" in href else []
            there = any(all(row[name] == value for name, value in choice) for row in page.rows)
            self.assertTrue(there if choice else href in page.ids, href)

    def test_the_page_of_what_was_measured(self) -> None:
        path = self.page(*MEASURED)
        page = Page(path)
        self.check_links(path, page)
        rows = [row for csv in MEASURED for row in ladder_csv.read(csv)]
        self.assertEqual(len(page.rows), len(rows))
        kernels = {f"{row.family}/{row.kernel}" for row in rows}
        self.assertEqual(set(page.data["links"]), kernels & set(report.sources()))
        self.assertIn("gemm/v01_naive", page.data["links"])
        self.assertEqual(len(page.ids), len(set(page.ids)))

        # Nothing is fetched, and there is room for more rows.
        self.assertTrue(page.attributes.isdisjoint({"src", "srcset", "action"}))
        self.assertFalse([href for href in page.hrefs if ":" in href.split("=")[0]])
        script = len(report.plotly().encode())
        self.assertLess(script + (path.stat().st_size - script) * 2000 / len(rows), LIMIT)

    def test_a_small_page_holds_what_the_csv_says(self) -> None:
        csvs = self.write(ALL + MARKED, "a/results.csv"), self.write(RELU, "b/results.csv")
        path = self.page(*csvs)
        page = Page(path)
        self.check_links(path, page)
        self.assertEqual(len(page.rows), len(ALL + MARKED + RELU))
        self.assertEqual(len(page.scripts), 3, "no text of the CSV ends the script's element")
        text = " ".join(page.texts)
        self.assertIn(f"{len(ALL + MARKED) - 1} passed, 1 incorrect, 1 suspect, 1 throttled", text)
        self.assertIn("Some GPU", text)
        self.assertIn(HOSTILE, text)
        self.assertEqual(page.data["runs"], [str(self.folder / f"{d}/results.csv") for d in "ab"])

        of = {row["kernel"]: row for row in page.rows if row["family"] == "elementwise"}
        self.assertTrue(of["v04_wonder"]["suspect"])
        self.assertEqual(of["v04_wonder"]["throttled"], 0.4)
        self.assertEqual(of["v04_wonder"]["idea"], HOSTILE)
        self.assertEqual(of["v05_wrong"]["time_text"], "")
        self.assertTrue(of["v03_vec128"]["best"])
        large = next(row for row in page.rows if row["problem"] == "8192x8192x8192")
        self.assertEqual((large["low"], large["high"]), (0.01, 0.03))

    def test_ties_levels_and_the_power_limit_are_said(self) -> None:
        page = Page(self.page(self.tied()))
        of = {row["kernel"]: row for row in page.rows}
        said = {kernel: row["tied"] for kernel, row in of.items() if row["tied"]}
        self.assertEqual(
            said, {"v02_grid_stride": "tied with v03", "v03_vec128": "tied with v02"}
        )
        best = {kernel for kernel, row in of.items() if row["best"]}
        self.assertEqual(best, {"v02_grid_stride", "v03_vec128", "v11_level"})
        level, slow = of["v11_level"], of["v01_rung_0"]
        self.assertEqual((level["ratio_text"], slow["ratio_text"]), ("level", "0.01"))
        self.assertTrue(level["limited"])
        self.assertEqual((level["time_text"], level["burst_text"]), ("2.64 ms", "2.38 ms"))
        self.assertEqual((level["throttled"], slow["throttled"]), (0, 1), "by heat, too")
        self.assertEqual((level["resolution"], of["v03_vec128"]["resolution"]), (0.1, 0.5))
        texts = " ".join(page.texts)
        self.assertIn("v02 grid stride, tied with v03", texts)
        self.assertIn("level with cuBLAS", texts)
        self.assertIn("2.64 ms (burst 2.38 ms)", texts)
        self.assertIn("15 passed, 1 throttled, 12 at the power limit", texts)
        self.assertIn("0.30 % (median), 0.50 % at worst", texts)
        self.assertIn("2 problems, 0.00 % from 1 (median), 100 % within 0.5 %; 100 % of", texts)
        self.assertNotIn("the earlier one", texts)
        self.assertIn("the earlier one", Page(self.page(self.write(RELU))).texts)

    def test_the_same_csv_gives_the_same_page(self) -> None:
        csv = self.write(ALL)
        self.assertEqual(self.page(csv).read_bytes(), self.page(csv).read_bytes())

    def test_counts_stand_beside_the_times(self) -> None:
        counted = line("v01_naive", 1, backend="host", problem="1000", moved_bytes=2**32,
                       global_ld_sectors=96, global_ld_ideal=48,
                       shared_st_wavefronts=0, shared_st_ideal=0)  # fmt: skip
        counts = self.write([counted | {"time_us_median": ""}], "counts.csv")
        page = Page(self.page(self.write(RELU), counts))
        of = {row["kernel"]: row for row in page.rows if row["problem"] == "268435456"}
        self.assertEqual(of["v01_naive"]["global_ld"], 2)
        self.assertEqual(of["v01_naive"]["counted"], "1000")
        self.assertIsNone(of["v01_naive"]["shared_st"])
        self.assertIsNone(of["v01_naive"]["moved"], "other problems move other multiples")
        self.assertEqual(of["v03_vec128"]["counted"], "")

    def test_a_run_says_when_it_was(self) -> None:
        def said(*times: str) -> str:
            return report.period([f"2026-01-{time}Z" for time in times])

        self.assertEqual(said("31T09:15:59"), "2026-01-31 09:15 UTC")
        self.assertEqual(said("31T09:15:01", "31T08:15:01"), "2026-01-31 08:15 to 09:15 UTC")
        days = said("30T23:59:01", "31T00:01:01")
        self.assertEqual(days, "2026-01-30 23:59 to 2026-01-31 00:01 UTC")

    def test_rows_of_the_host_executor_have_no_times(self) -> None:
        counted = line("v01_naive", 1, backend="host", moved_bytes=2**32) | {"time_us_median": ""}
        page = Page(self.page(self.write([counted])))
        self.assertEqual(page.rows[0]["moved"], 2)
        self.assertIn("No version of a kernel was timed.", page.texts)


# Reports what the page shows, as the page sees it.
WATCH = """
const seen = {errors: []};
addEventListener("error", (event) => seen.errors.push(event.message));
"""
HELPERS = """
const $ = (css) => [...document.querySelectorAll(css)];
const choose = (name, value) => {
  const select = document.querySelector(`select[name=${name}]`);
  select.value = value;
  select.dispatchEvent(new Event("change", {bubbles: true}));
};
const view = () => ({
  title: $("#title")[0].textContent, address: location.hash,
  versions: $("#versions tbody tr").map((line) => line.querySelector(".version a")?.textContent),
  bars: $("#bars .bars .point").length, ratios: $("#bars .scatterlayer .point").length,
  points: $("#points .scatterlayer .point").length,
  roofline: !document.getElementById("roofline-parts").hidden,
  badges: $("#versions .badge").map((badge) => badge.textContent),
});
"""


@browses
class Browser(PageCase):
    def browse(self, page: Path, script: str, width: int = 1280, *flags: str) -> dict[str, Any]:
        """Runs a script in the page, in a window so wide; returns the object `seen` that it fills,
        and what the console said."""
        text = page.read_text(encoding="utf-8")
        text = text.replace("<head>", f"<head><script>{WATCH}</script>", 1)
        report_back = "parent.postMessage(JSON.stringify(seen), '*')"
        end = f"<script>{{ {HELPERS}{script}\n{report_back} }}</script>"  # braces: own names
        (page.parent / "inner.html").write_text(text.replace("</body>", end + "</body>"), "utf-8")
        outer = page.parent / "outer.html"
        outer.write_text(
            "<pre></pre><script>onmessage = (e) => document.querySelector('pre').textContent = "
            f"e.data</script><iframe width={width} height=900 src=inner.html></iframe>", "utf-8"
        )  # fmt: skip
        command = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--virtual-time-budget=5000", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom",
            "--disable-ipc-flooding-protection",  # scripts choose faster than people
            f"--user-data-dir={self.folder / 'profile'}", *flags, outer.as_uri(),
        ]  # fmt: skip
        result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
        dom = result.stdout.split("<pre>")[-1].split("</pre>")[0]
        said = [text for text in result.stderr.splitlines() if ":CONSOLE" in text]
        self.assertEqual(said, [])
        seen: dict[str, Any] = json.loads(html.unescape(dom))
        self.assertEqual(seen["errors"], [])
        return seen

    def test_a_full_sweep_is_light_and_quick(self) -> None:
        sweep = [
            gemm(f"v{version:02}_version", 2 + 4 * version, 512 * 2**size, idea=IDEA,
                 family=f"family{family}", dtype=dtype, vs_baseline_low=0.1, vs_baseline_high=2)
            for family in range(10) for dtype in ("f32", "f16", "bf16") for size in range(5)
            for version in range(14)
        ]  # fmt: skip
        self.assertGreater(len(sweep), 2000)
        page = self.page(self.write(sweep))
        self.assertLess(page.stat().st_size, LIMIT)
        for _ in range(5):  # others may use the machine
            taken = self.seconds(page)
            if max(taken) < SECONDS:
                break
        print("interactive after {:.2f} s, a choice drawn after {:.2f} s".format(*taken))
        self.assertLess(max(taken), SECONDS)

    def seconds(self, page: Path) -> tuple[float, float]:
        """From the opening of a page until it can be used, and from a choice until it is drawn."""
        timed = page.with_name("timed.html")
        script = f"""<pre id=seconds></pre><script>{{ {HELPERS}
          const laidOut = () => (document.body.offsetHeight, performance.now() / 1000);
          const ready = laidOut();
          choose("family", "family7");
          const seconds = [ready, laidOut() - ready];
          document.getElementById("seconds").textContent = JSON.stringify(seconds);
        }}</script></body>"""
        timed.write_text(page.read_text("utf-8").replace("</body>", script), "utf-8")
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
                   f"--user-data-dir={self.folder / 'profile'}", timed.as_uri()]  # fmt: skip
        dom = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120).stdout
        ready, drawn = json.loads(dom.split('<pre id="seconds">')[-1].split("</pre>")[0])
        return ready, drawn

    def test_every_ladder_of_what_was_measured_is_drawn(self) -> None:
        seen = self.browse(self.page(*MEASURED), """
          seen.first = view();
          seen.longest = Object.keys(report.main)[0];
          seen.empty = [];
          for (const name of Object.keys(report.main)) {
            const [family, op, dtype] = name.split("/");
            choose("family", family); choose("op", op); choose("dtype", dtype);
            const {title, bars} = view();
            if (!bars || !title.includes(dtype)) seen.empty.push(name);
          }
        """)  # fmt: skip
        longest = " ".join(filter(None, seen["longest"].split("/")))
        self.assertRegex(seen["first"]["title"], f"^{longest} · [0-9x]+ · cold L2 cache")
        self.assertTrue(seen["first"]["roofline"])
        self.assertEqual(seen["empty"], [])

    def test_the_filters_choose_what_is_drawn(self) -> None:
        csvs = self.write(ALL + MARKED, "new.csv"), self.write(RELU, "old.csv")
        seen = self.browse(self.page(*csvs), """
          choose("family", "elementwise");
          seen.relu = view();
          document.querySelectorAll("#which input")[1].click();
          seen.one = view();
          choose("family", "gemm");
          seen.gemm = view();
          document.getElementById("every").click();
          seen.every = view();
          choose("problem", "8192x8192x8192");
          seen.large = view();
          choose("family", "roofs");
          choose("op", "dram");
          seen.roofs = view();
        """)  # fmt: skip
        self.assertEqual(seen["relu"]["title"], "elementwise relu f32 · 268435456 · cold L2 cache")
        self.assertEqual((len(seen["relu"]["versions"]), seen["relu"]["bars"]), (8, 7))
        self.assertEqual(seen["relu"]["badges"], ["suspect", "throttled 40 %"])
        self.assertEqual((len(seen["one"]["versions"]), seen["one"]["bars"]), (5, 4))
        self.assertEqual(seen["gemm"]["versions"][0], "v00 cublas")
        self.assertEqual((seen["gemm"]["bars"], seen["gemm"]["ratios"]), (11, 11))
        self.assertEqual((seen["gemm"]["points"], seen["every"]["points"]), (11, 12))
        self.assertEqual((seen["large"]["bars"], seen["large"]["points"]), (1, 12))
        self.assertIn("problem=8192x8192x8192", seen["large"]["address"])
        self.assertFalse(seen["roofs"]["roofline"])
        self.assertGreater(seen["roofs"]["bars"], 0)

    def test_ties_levels_and_the_power_limit_are_shown(self) -> None:
        seen = self.browse(self.page(self.tied()), """
          const texts = (css) => $(css).map((one) => one.textContent);
          choose("family", "elementwise");
          seen.tied = {badges: view().badges, best: texts("#versions .best .version a"),
                       marks: $("#marks")[0].textContent};
          choose("family", "gemm");
          seen.limited = {badges: [...new Set(view().badges)], head: texts("#versions th"),
                          best: texts("#versions .best td"), marks: $("#marks")[0].textContent};
        """)  # fmt: skip
        self.assertEqual(seen["tied"]["badges"], ["tied with v03", "tied with v02"])
        self.assertEqual(seen["tied"]["best"], ["v02 grid stride", "v03 vec128"])
        self.assertIn("those tied with it.", seen["tied"]["marks"])
        self.assertIn("Differences below 0.50 % are not told apart.", seen["tied"]["marks"])
        self.assertEqual(seen["limited"]["badges"], ["at the power limit", "throttled 100 %"])
        self.assertIn("burst", seen["limited"]["head"])
        self.assertIn("2.38 ms", seen["limited"]["best"])
        self.assertIn("level [0.998,\u00a01.002]", seen["limited"]["best"])
        self.assertNotIn("tied", seen["limited"]["marks"])
        self.assertIn("when it had settled", seen["limited"]["marks"])

    def test_an_address_opens_its_ladder(self) -> None:
        seen = self.browse(self.page(self.write(ALL)), """
          location.hash = new URLSearchParams({family: "gemm", op: "", dtype: "f32"});
          dispatchEvent(new Event("hashchange"));
          seen.view = view();
        """)  # fmt: skip
        self.assertEqual(seen["view"]["title"], "gemm f32 · 4096x4096x4096 · cold L2 cache")

    def test_a_phone_need_not_scroll_sideways(self) -> None:
        page = self.page(*MEASURED)
        seen = self.browse(page, """
          const {scrollWidth, clientWidth} = document.documentElement;
          seen.widths = {window: innerWidth, visible: clientWidth, page: scrollWidth};
        """, 390)  # fmt: skip
        self.assertEqual(seen["widths"]["window"], 390)
        self.assertEqual(seen["widths"]["page"], seen["widths"]["visible"])

    def test_dark_follows_the_system(self) -> None:
        page = self.page(self.write(ALL))
        ground = "seen.ground = getComputedStyle(document.body).backgroundColor"
        self.assertEqual(self.browse(page, ground)["ground"], "rgb(255, 255, 255)")
        dark = self.browse(page, ground, 1280, "--force-dark-mode")
        self.assertEqual(dark["ground"], "rgb(22, 24, 27)")


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    sys.exit(1 if not outcome.wasSuccessful() else SKIPPED if outcome.skipped else 0)
