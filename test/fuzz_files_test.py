#!/usr/bin/env python3
"""Damaged files for whatever reads them: CSVs and samples for scripts/compare.py, report.py,
roofline.py, random_shapes.py and update_readme.py, and CSVs for ./bench --resume. A damaged file is
read, or refused in one sentence; nothing ends in a traceback or a crash, and exit code 0 means that
what was promised is there.

Usage: fuzz_files_test.py BENCH [--seconds=S] [--seed=N]; the seed is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True  # none beside the scripts
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "upkeep")]

import compare  # noqa: E402
import ladder_csv  # noqa: E402
import random_shapes  # noqa: E402
import report  # noqa: E402
import roofline  # noqa: E402
import update_readme  # noqa: E402

HANGS = 120  # seconds
ODD = [
    *(
        "",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e308",
        "1e-320",
        "1e999",
        "0x10",
        "1_000",
        " 1",
    ),
    *(
        "١",
        "yes",
        "passed",
        "failed",
        "v",
        "v00",
        "p1",
        "../..",
        "a,b",
        '"',
        '""',
        "\n",
        "\r",
        "\0",
    ),
    *("\ufeff", "é", "<b>", "|", "`", "%s", "4096x", "x", "1x1x1", "9" * 400, "y" * 200_000),
]
BYTES = (b"", b"\0", b"\xff", b'"', b",", b"\n", b"\r\n", b"[", b"}", b"1e999", b"\xc3\x28\x80")
KEY = ("family", "op", "kernel", "dtype", "problem", "backend", "cache")  # of a row's samples
SWEEP = ["--backend=host", "--benchmark_filter=transpose/f32/v0[12]", "--transpose=3x5,4x4"]


def damaged_fields(text: str, rng: random.Random) -> str:
    """Some fields are odd, some columns or rows lacking, there twice, or elsewhere."""
    rows = list(csv.reader(io.StringIO(text)))
    for _ in range(rng.choice((1, 1, 3, 30))):
        row = rng.choice(rows)
        what, at = rng.random(), rng.randrange(max(len(row), 1))
        if what < 0.5 and row:
            row[at] = rng.choice(ODD)
        elif what < 0.6 and row:
            del row[at]
        elif what < 0.65:
            row.insert(at, rng.choice(ODD))
        elif what < 0.7 and len(rows) > 1:
            rows.remove(row)
        elif what < 0.75:
            rows.insert(rng.randrange(len(rows)), list(row))
        elif what < 0.85:  # a column everywhere
            column, odd = rng.randrange(len(rows[0]) or 1), rng.choice(ODD)
            for other in rows[rng.randrange(2) :]:
                other[column : column + 1] = [odd]
        elif what < 0.9:
            column = rng.randrange(len(rows[0]) or 1)
            for other in rows:
                del other[column : column + 1]
        else:
            a, b = rng.randrange(len(row) or 1), rng.randrange(len(row) or 1)
            if row:
                row[a], row[b] = row[b], row[a]
    out = io.StringIO()
    csv.writer(out, lineterminator=rng.choice(("\n", "\n", "\r\n", "\r"))).writerows(rows)
    return out.getvalue()


def damaged(text: str, rng: random.Random, most_lines: int) -> bytes:
    what = rng.random()
    if what < 0.02:
        return b""
    if what < 0.6:
        text = damaged_fields(text, rng) if "," in text.partition("\n")[0] else text
    data = bytearray(text, "utf-8", "surrogatepass")
    if what > 0.5:
        for _ in range(rng.choice((1, 2, 20))):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((0, 1, 1, 5))] = rng.choice(BYTES)
    if rng.random() < 0.1:
        del data[rng.randrange(len(data)) :]
    if rng.random() < 0.05:
        data[:0] = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\0" * 100))
    if rng.random() < 0.02 and data.count(b"\n") > 1:
        line = data.splitlines(keepends=True)[-1]
        copies = most_lines if rng.random() < 0.1 else 1000
        data += line * min(copies, (64 << 20) // len(line) + 1)  # a line may have a long field
    return bytes(data)


def said_by(main: Callable[[], int | None], arguments: list[str]) -> tuple[object, str, str]:
    """Runs a script's main as its last lines do: the exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["script", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: object = main() or 0
        except ladder_csv.LadderError as error:
            code = 2
            print(error, file=err)
        except SystemExit as end:
            code = end.code
        except Exception:  # that is what is looked for
            return "traceback", out.getvalue(), traceback.format_exc()
    return code, out.getvalue(), err.getvalue()


class Readers:
    def __init__(self, bench: str, folder: Path, rng: random.Random) -> None:
        self.bench, self.folder, self.rng = bench, folder, rng
        with (ROOT / "results" / "h200" / "2026-11-23.csv").open(newline="") as file:
            reader = csv.DictReader(file)
            rows = [
                r
                for r in reader
                if r["dtype"] == "f32" and r["family"] in ("gemm", "roofs", "transpose")
            ]
        out = io.StringIO()
        writer = csv.DictWriter(out, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[:60])
        self.csv = out.getvalue()
        self.samples = json.dumps(
            [{k: r[k] for k in KEY} | {"us": [float(r["time_us"] or 1)] * 6} for r in rows[:40]]
        )
        self.lines = 1000
        subprocess.run(
            [bench, *SWEEP, "--csv=whole.csv"], cwd=folder, check=True, capture_output=True
        )
        self.whole = (folder / "whole.csv").read_text()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(damaged(text, self.rng, self.lines))
        return path

    def compare(self) -> str:
        old = self.write("old.csv", self.csv)
        (self.folder / "new.csv").write_text(self.csv)
        for name in ("old.json", "new.json"):
            (self.folder / name).unlink(missing_ok=True)
        if self.rng.random() < 0.4:
            self.write(self.rng.choice(("old.json", "new.json")), self.samples)
        paths = [str(old), str(self.folder / "new.csv")]
        self.rng.shuffle(paths)
        code, out, err = said_by(compare.main, paths)
        return self.wrong(code, (0, 1), bool(out.strip()), err)

    def report(self) -> str:
        path, page = self.write("one.csv", self.csv), self.folder / "page.html"
        page.unlink(missing_ok=True)
        code, _, err = said_by(report.main, [str(path), "-o", str(page)])
        return self.wrong(
            code, (0,), page.exists() and page.read_text().rstrip().endswith("</html>"), err
        )

    def roofline(self) -> str:
        path, pictures = self.write("one.csv", self.csv), self.folder / "plots"
        shutil.rmtree(pictures, ignore_errors=True)
        code, _, err = said_by(roofline.main, [str(path), "-o", str(pictures), "--kind=overview"])
        return self.wrong(code, (0,), any(pictures.glob("*.svg")), err)

    def random_shapes(self) -> str:
        path = self.write("one.csv", self.csv)
        code, out, err = said_by(random_shapes.main, ["table", str(path)])
        return self.wrong(code, (0,), "geometric mean" in out, err)

    def update_readme(self) -> str:
        root = self.folder / "tree"
        shutil.rmtree(root, ignore_errors=True)
        self.write("tree/results/h200/2026-11-23.csv", self.csv)
        for name in ("README.md", "src"):
            (root / name).symlink_to(ROOT / name)
        code, _, err = said_by(update_readme.main, ["--check", "--root", str(root)])
        return self.wrong(code, (0, 1), True, err)

    def resume(self) -> str:
        path = self.write("a.csv", self.whole)
        before = path.read_bytes()
        done = subprocess.run(
            [self.bench, *SWEEP, "--resume=a.csv"],
            cwd=self.folder,
            timeout=HANGS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        err = done.stderr.decode(errors="replace")
        for backup in self.folder.glob("a.csv.*.bak"):
            backup.unlink()
        if done.returncode == 1:
            if path.read_bytes() != before:
                return f"refused it and changed it: {err}"
            return self.wrong(1, (0,), True, err)
        passed = path.read_text(errors="replace").count(",passed,")
        return self.wrong(done.returncode, (0,), passed >= 4, err)

    def wrong(self, code: object, good: tuple[int, ...], is_there: bool, err: str) -> str:
        if code == "traceback" or "Traceback" in err:
            return err
        if code in good:
            return "" if is_there else "exit code 0, and what was promised is not there"
        if not isinstance(code, int) or not 0 < code < 3:
            return f"exit code {code}: {err}"
        if not err.strip() or err.strip().count("\n") > 0:
            return f"no sentence: {err!r}"
        return ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    arguments = parser.parse_args()
    draws = ladder_csv.find_package("matplotlib")
    print(f"seed {arguments.seed}")
    rng, tried, bad = random.Random(arguments.seed), {}, 0
    with tempfile.TemporaryDirectory() as folder:
        readers = Readers(str(Path(arguments.bench).resolve()), Path(folder), rng)
        if arguments.seconds > 60:
            readers.lines = 1_000_000
        each = [
            *(readers.compare, readers.random_shapes, readers.report, readers.resume),
            readers.update_readme,
        ]
        if draws:
            each.append(readers.roofline)
        end = time.monotonic() + arguments.seconds
        while time.monotonic() < end:
            read = rng.choice(each)
            name = read.__name__
            tried[name] = tried.get(name, 0) + 1
            if found := read():
                bad += 1
                print(f"{name}: {found}", flush=True)
    print(", ".join(f"{n} for {name}" for name, n in sorted(tried.items())) + f": {bad} mistakes")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
