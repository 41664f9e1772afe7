#!/usr/bin/env python3
"""Makes a page that plays what a kernel's warps do, step by step, beside another version of it.

The steps are those of the real kernel, run by the host executor (./bench --trace), with its counts.
The page is one file and needs no network; pages of the site share their script and stylesheet. It
needs no GPU, and builds ./bench where there is none yet.

examples:
  scripts/stepper.py transpose/f32/v01 transpose/f32/v02 -o step.html   two versions side by side
  scripts/stepper.py mine/f32/v01/1000                      one of your own, on a problem of its own
  scripts/stepper.py softmax/f32/v04 softmax/f32/v05 --warps 0,1,2 --block 3
  scripts/stepper.py --site docs/site                       every page of docs/site
"""

from __future__ import annotations

import argparse
import html
import json
import re
import string
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import ladder
import ladder_csv
from ladder_csv import ROOT, LadderError

TEMPLATES = Path(__file__).resolve().parent / "stepper"
SCRIPTS = ("basics", "trace", "wavefronts", "words", "history", "cells", "lanes", "memory", "banks", "counts",
           "timeline", "panel", "story", "player")  # fmt: skip
SEED = 1  # of the inputs: a page is the same whenever it is made
LIMIT = 200_000  # bytes of a kernel's trace
BESIDE = 100_000  # or, with the warps that are not stepped through

Trace = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """A kernel by the beginning of its name, family[/op]/dtype/version[/problem], and whom to follow."""

    name: str
    warps: str = ""  # to step through, by default see worth_following(); of others pictures show the past
    block: str = "0"


@dataclass(frozen=True)
class Page:
    """A page of the site."""

    file: str
    title: str
    lead: str
    choices: tuple[Choice, ...]


# Names and shapes of a family's arrays, by the numbers in a problem's text. Others have the names that
# the family gives them, and the shape of a pair of such numbers if one fits.
ARRAYS = {
    "transpose": (("in", 0, 1), ("out", 1, 0)),
    "gemm": (("A", 0, 2), ("B", 2, 1), ("C", 0, 1)),
    "softmax": (("in", 0, 1), ("out", 0, 1)),
    "reduction": (("in", 0), ("out",)),
}


def of_family(prefix: str, problem: str, warps: dict[str, str]) -> tuple[Choice, ...]:
    return tuple(Choice(f"{prefix}/{version}/{problem}", of) for version, of in warps.items())


# The warps of a page move equal parts of the problem where they can, so that their counts compare.
SITE = (
    Page("transpose.html", "Transposing a matrix",
         "Rows become columns. Nothing is computed: all that counts is in which order bytes are touched.",
         of_family("transpose/f32", "128x128", {
             "v01": "0,1,2,3,4,5,6,7", "v02": "0,1", "v03": "0,1", "v04": "0,1", "v05": "0"})),
    Page("reduction.html", "Adding up numbers",
         "A block of threads adds up its part of an array, in rounds: who adds in which round makes the difference.",
         of_family("reduction/sum/f32", "16384", {f"v{n:02}": "0,1" for n in range(1, 6)})),
    Page("softmax.html", "Softmax of a row",
         "The maximum of each row, then the sum of exponentials, then the results: the same row is needed "
         "three times.",
         of_family("softmax/f32", "32x128", {f"v{n:02}": "0" for n in range(1, 6)})),
    Page("gemm.html", "Multiplying matrices",
         "Every element of C needs a row of A and a column of B. Who fetches them, how often, and in which pieces?",
         of_family("gemm/f32", "128x128x32", {f"v{n:02}": "0" for n in range(1, 10)})),
    Page("pipeline.html", "Copies that run ahead",
         "The next tile is on its way while this one is multiplied: through registers (v09), or by copies "
         "that no one waits for until they are needed (cp.async).",
         of_family("gemm/f32", "128x128x64", {"v09": "0", "v12": "0", "v13": "0"})),
    Page("ring.html", "A ring of buffers on Hopper",
         "One warp asks the copy engine (TMA) for the next tiles while two groups of warps multiply the last "
         "ones. Mbarriers tell who may go on.",
         of_family("gemm_tensor/nt/bf16", "128x256x512", {"v11": "0,4", "v12": "0,4,8"})),
    Page("ping_pong.html", "Two warpgroups that take turns",
         "Attention: while the tensor cores have the products of one group of warps, the other group takes its "
         "exponentials (ping-pong). In v12 that is left to chance; in v13 they hand the turn to each other.",
         of_family("attention/bf16", "1x1x512x64", {"v12": "0,4,8", "v13": "0,4,8"})),
)  # fmt: skip


BACK = '<p class="back"><a href="index.html">All pages</a></p>'


def resolve(choice: Choice, known: Sequence[str]) -> tuple[str, list[str]]:
    """The full name that a choice means, without the problem; and the problem it names, or all that the
    kernel has."""
    families = {name.split("/")[0] for name in known}
    parts = choice.name.strip("/").split("/")
    problems: dict[str, list[str]] = {}
    for full, problem in (name.rsplit("/", 1) for name in known):
        problems.setdefault(full, []).append(problem)

    def matches(full: str, wanted: Sequence[str]) -> bool:
        have = full.split("/")
        return have[:-1] == list(wanted[:-1]) and (
            have[-1] == wanted[-1] or have[-1].startswith(wanted[-1] + "_"))  # fmt: skip

    for wanted, problem in ((parts, ""), (parts[:-1], parts[-1])):
        found = [full for full in problems if len(wanted) > 2 and matches(full, wanted)]
        if len(found) == 1:
            return found[0], [problem] if problem else problems[found[0]]
    if parts[0] not in families:
        raise LadderError(f"There is no family {parts[0]}; there are {', '.join(sorted(families))}.")
    some = next(full for full in problems if full.startswith(parts[0] + "/"))
    raise LadderError(f"There is no version {choice.name} on the host executor: a name is "
                      f"family[/op]/type/version[/problem], as {some}.")  # fmt: skip


def trace_text(program: Path, name: str, flags: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        command = [program, "--backend=host", f"--trace={path}", f"--seed={SEED}", *flags,
                   f"--benchmark_filter=^{re.escape(name)}$"]  # fmt: skip
        result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        if result.returncode != 0:
            raise LadderError(result.stderr.strip().removeprefix("bench: "))
        return path.read_text(encoding="utf-8")


def worth_following(trace: Trace) -> str:
    """The first two warps that touch memory; or of a pipeline a warp of each of two warpgroups that
    multiply, and the one that asks the copy engine."""
    notes = {(step[1], step[2]) for step in trace["steps"] if step[0] == "n"}
    multiply = sorted(warp for note, warp in notes if note == "wgmma" and warp % 4 == 0)
    copy = sorted(warp for note, warp in notes if note == "bulk load")
    touch = sorted({step[2] for step in trace["steps"] if step[0] == "q"})
    return ",".join(map(str, sorted({*(multiply or touch)[:2], *copy[:1]}))) or "0"


def record(program: Path, choice: Choice, known: Sequence[str]) -> Trace:
    """What ./bench --trace writes of one kernel."""
    full, problems = resolve(choice, known)
    everyone = ",".join(map(str, range(32)))
    for problem in problems:
        name = f"{full}/{problem}"
        flags = [f"--trace-block={choice.block}"]
        if name not in known:
            flags.append(f"--{full.split('/')[0]}={problem}")
        try:
            text = trace_text(program, name, [*flags, f"--trace-warps={everyone}"])
            break
        except LadderError as error:
            if "unsupported: " not in str(error) or problem == problems[-1]:
                raise
    follow = choice.warps or worth_following(json.loads(text)[0])
    if len(text) > BESIDE:
        text = trace_text(program, name, [*flags, f"--trace-warps={follow}"])
    if len(text) > LIMIT:
        print(f"{name}: the trace has {len(text):,} bytes; with fewer --warps or a smaller problem the "
              "page is quicker.", file=sys.stderr)  # fmt: skip
    (trace,) = json.loads(text)
    ladder.tell_of_changed([Path(trace["files"][0]["path"])], program)
    trace["warps"] = [int(warp) for warp in follow.split(",")]
    if not any(step[0] == "q" and step[2] in trace["warps"] for step in trace["steps"]):
        raise LadderError(f"Warps {follow} of block {choice.block} of {name} touch no memory: choose "
                          "others with --warps and --block.")  # fmt: skip
    return trimmed(trace)


def shape_of(elements: int, family: str, at: int, numbers: Sequence[int]) -> list[int]:
    if family in ARRAYS:
        return [numbers[i] for i in ARRAYS[family][at][1:] if i < len(numbers)]
    pairs = ((a, b) for i, a in enumerate(numbers) for b in numbers[i + 1 :])
    return next(([a, b] for a, b in pairs if a * b == elements), [])


BYTES = {
    "f32": 4, "f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "e2m1": 0.5, "f64": 8,
    "i4": 0.5, "i8": 1, "i32": 4, "i64": 8, "u8": 1, "u32": 4, "u64": 8,
}  # fmt: skip


def describe(trace: Trace, family: str, problem: str) -> list[dict[str, Any]]:
    numbers = [int(n) for n in re.findall(r"\d+", problem)]
    arrays = []
    for at, buffer in enumerate(trace["buffers"]):
        ours = at < len(ARRAYS.get(family, ())) and buffer["dtype"] != ""
        array = {**buffer, "dtype": buffer["dtype"] or "f32"}
        if ours:
            array["name"] = ARRAYS[family][at][0]
        if buffer["dtype"] and (ours or family not in ARRAYS):
            elements = int(buffer["bytes"] / BYTES[buffer["dtype"]])
            shape = shape_of(elements, family, at, numbers)
            array["shape"] = shape if len(shape) == 2 and shape[0] * shape[1] == elements else [elements]
        arrays.append(array)
    return arrays


def head(source: str) -> dict[str, str]:
    """The entries of a version's head, "Idea", "Vs v01", "Bound by", as one line each."""
    entries: dict[str, str] = {}
    key = ""
    for line in source.splitlines():
        if not line.startswith("//"):
            break
        if begin := re.match(r"// (Idea|Vs|Bound by|Limits|Tile)\b(?: (v\d+[a-z]?))?\s+(.*)", line):
            key = begin[1]
            entries[key] = begin[3]
            entries[f"{key} of"] = begin[2] or ""
        elif key and line.startswith("//   "):
            entries[key] += " " + line[2:].strip()
        else:
            key = ""
    return entries


def trimmed(trace: Trace) -> Trace:
    """What the page needs of a trace, with paths that don't depend on where the checkout is."""
    explain = trace["explain"]
    files = [{**file, "path": re.sub("^.*/(?=src/)", "", file["path"])} for file in trace["files"]]
    entries = head(files[0]["text"])
    counters = {kind: {name: count[name] for name in ("requests", "units", "ideal")}
                for kind, count in explain["counters"].items() if count.get("requests")}  # fmt: skip
    return {
        "title": f"{explain['kernel'].replace('_', ' ', 1)}",
        "label": explain["kernel"], "family": explain["family"], "op": explain["op"],
        "dtype": explain["dtype"], "problem": explain["problem"], "idea": explain["idea"],
        "vs": sentence(entries.get("Vs", "")), "vs_of": entries.get("Vs of", ""),
        "counters": counters, "syncs": explain["barriers"],
        "moved": explain["moved_bytes"], "compulsory": explain["compulsory_bytes"],
        "lanes": round(explain["mean_active_lanes"], 2),
        "launches": trace["launches"],
        "follow": trace["warps"], "block": trace["block"], "left_out": trace["left_out"],
        "buffers": describe(trace, explain["family"], explain["problem"]),
        "files": files, "places": trace["places"], "steps": trace["steps"],
    }  # fmt: skip


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith(".") else ".")


def measured(names: Sequence[str]) -> dict[str, Any]:
    """How long the kernels took on a GPU, all in the newest run of results/ that has them all at one
    problem; empty if none has. Of names without the problem."""
    one = {(parts[0], "/".join(parts[1:-2]), parts[-2]) for parts in (n.split("/") for n in names)}
    labels = [name.rsplit("/", 1)[1] for name in names]
    if len(one) > 1:
        return {}
    (family, _, _), = one
    for path in sorted(ladder_csv.runs(), key=lambda path: (path.name, path), reverse=True):
        by_problem: dict[str, dict[str, ladder_csv.Row]] = {}
        for row in ladder_csv.read(path):
            if (row.family, row.op, row.dtype) in one and row.cache == "cold" and row.time_us > 0:
                by_problem.setdefault(row.problem, {})[row.kernel] = row
        whole = {problem: rows for problem, rows in by_problem.items() if all(n in rows for n in labels)}
        if not whole:
            continue
        main = ladder_csv.MAIN_PROBLEMS.get(family, ())
        problem = next((p for p in main if p in whole), "")
        problem = problem or max(whole, key=lambda p: whole[p][labels[0]].bytes)
        rows = whole[problem]
        return {"device": rows[labels[0]].device, "problem": problem,
                "us": {name: rows[name].time_us for name in labels}}  # fmt: skip
    return {}


def distinct_titles(traces: Sequence[Trace]) -> None:
    """Versions of several ladders on one page are told apart by more than their labels."""
    for key in ("problem", "dtype", "op", "family"):
        if len({trace[key] for trace in traces}) > 1:
            for trace in traces:
                trace["title"] += f" · {trace[key]}"


def template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def shared(file: str) -> str:
    """What the pages of the site have in common: their stylesheet, or their script."""
    if file == "stepper.css":
        return template("page.css")
    return "\n".join(template(f"{script}.js") for script in SCRIPTS)


# Where a page has its style and its script: beside it, or in it. Browsers differ in whether a file is its own 'self'.
BESIDE_IT = {"style": '<link rel="stylesheet" href="stepper.css">', "script": '<script src="stepper.js"></script>',
             "styles_from": "'self' file: 'unsafe-inline'", "scripts_from": "'self' file:"}  # fmt: skip


def in_it() -> dict[str, str]:
    return {"style": f"<style>\n{shared('stepper.css')}\n</style>",
            "script": f"<script>\n{shared('stepper.js')}\n</script>",
            "styles_from": "'unsafe-inline'", "scripts_from": "'unsafe-inline'"}  # fmt: skip


def render(title: str, lead: str, traces: Sequence[Trace], parts: dict[str, str], back: str = "",
           first: bool = False) -> str:  # fmt: skip
    distinct_titles(traces)
    names = ["/".join(filter(None, (t["family"], t["op"], t["dtype"], t["label"]))) for t in traces]
    text = json.dumps({"traces": traces, "measured": measured(names)}, separators=(",", ":"), ensure_ascii=False)
    return string.Template(template("page.html")).substitute(
        parts,
        title=html.escape(f"{title}: step by step"),
        heading=html.escape(title),
        lead=html.escape(lead),
        back=back,
        primer_open=" open" if first else "",
        data=text.replace("<", "\\u003c"),  # no text can end the element that holds it
    )


def write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LadderError(f"{path} cannot be written: {error.strerror}.") from None
    print(path)


def card(page: Page, known: Sequence[str]) -> str:
    """A page's link, and how long its versions took on a GPU."""
    names = [resolve(choice, known)[0] for choice in page.choices]
    found = measured(names) or {"us": {}}
    most = max(found["us"].values(), default=0)
    bars = "".join(
        f"<tr><th>{label.replace('_', ' ')}</th><td>{ladder_csv.time_text(us)}</td>"
        f'<td class="span"><div style="width: {100 * us / most:.1f}%"></div></td></tr>'
        for label, us in found["us"].items()
    )
    table = bars and (f"<table><caption>{found['problem']} on an {found['device']}</caption>"
                      f"{bars}</table>")  # fmt: skip
    return (f'<li><a href="{page.file}">{html.escape(page.title)}</a><p>{html.escape(page.lead)}</p>'
            f"{table}</li>")  # fmt: skip


def index(known: Sequence[str]) -> str:
    cards = "\n".join(card(page, known) for page in SITE)
    return string.Template(template("index.html")).substitute(BESIDE_IT, cards=cards)


def make_site(folder: Path, program: Path, known: Sequence[str], only: str) -> None:
    for page in SITE:
        if only in ("", page.file):
            traces = [record(program, choice, known) for choice in page.choices]
            write(folder / page.file, render(page.title, page.lead, traces, BESIDE_IT, BACK, page is SITE[0]))
    if only in ("", "index.html"):
        write(folder / "index.html", index(known))
    for file in ("stepper.css", "stepper.js"):
        write(folder / file, shared(file))


def built(build: Path | None) -> Path:
    """./bench; it is built first where there is none."""
    try:
        return ladder.bench(build)
    except LadderError:
        if build:
            raise
    print("There is no ./bench yet: scripts/bench builds it.", file=sys.stderr)
    if subprocess.run([ROOT / "scripts" / "bench", "--list"], stdout=subprocess.DEVNULL).returncode != 0:
        raise LadderError("scripts/bench could not build ./bench; above it says why.")
    return ladder.bench(build)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", metavar="KERNEL",
                        help="family[/op]/type/version[/problem], as transpose/f32/v02")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, default=Path("stepper.html"), metavar="FILE",
                        help="where the page goes (default: stepper.html)")  # fmt: skip
    parser.add_argument("--warps", default="", metavar="N,…",
                        help="of the block, to step through (default: two, and one that asks for copies)")  # fmt: skip
    parser.add_argument("--block", default="0", help="X, X,Y or X,Y,Z (default: 0)")
    parser.add_argument("--site", type=Path, metavar="FOLDER", help="make every page of the site there")
    parser.add_argument("--page", default="", help="with --site: this one alone")
    parser.add_argument("--build", type=Path, help="default: build/release, else build/host")
    options = parser.parse_args()
    if bool(options.kernels) == bool(options.site):
        raise LadderError("Either kernels are named, as transpose/f32/v01, or --site FOLDER.")
    pages = [page.file for page in SITE] + ["index.html"]
    if options.page and (not options.site or options.page not in pages):
        raise LadderError(f"--page={options.page}: with --site, one of {', '.join(pages)}.")
    program = built(options.build)
    known = ladder.names(program)
    if options.site:
        return make_site(options.site, program, known, options.page)
    for flag, text in (("--warps", options.warps), ("--block", options.block)):
        if text and not re.fullmatch(r"\d+(,\d+)*", text):
            raise LadderError(f"{flag} {text}: whole numbers are expected, as 0,1.")
    choices = [Choice(name, options.warps, options.block) for name in options.kernels]
    traces = [record(program, choice, known) for choice in choices]
    first = traces[0]
    title = " ".join(part for part in (first["family"], first["op"], first["dtype"]) if part)
    write(options.output, render(title, f"On a problem of {first['problem']}.", traces, in_it()))


if __name__ == "__main__":
    ladder_csv.run(main)
