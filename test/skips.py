"""How a test file in Python says what it skips: a line for each, which scripts/test counts, and exit code
77, which ctest calls skipped, however many of its tests ran and passed."""

from __future__ import annotations

import sys
import unittest
from typing import Iterable, NoReturn

SKIPPED = 77


def status(passed: bool, reasons: Iterable[str]) -> int:
    """What a file exits with."""
    reasons = list(reasons)
    for reason in reasons:
        print(f"skipped: {reason}", flush=True)
    return 1 if not passed else SKIPPED if reasons else 0


def of(result: unittest.TestResult) -> int:
    return status(result.wasSuccessful(), (reason for _, reason in result.skipped))


def whole(reason: str) -> NoReturn:
    """Of a file that can't run here."""
    sys.exit(status(True, [reason]))


def main() -> NoReturn:
    """unittest.main with that exit code."""
    sys.exit(of(unittest.main(exit=False).result))
