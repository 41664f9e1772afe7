#!/usr/bin/env python3
"""Tests of the drawings of gemm_tensor's versions: those of all drawings."""

from __future__ import annotations

import unittest

import drawings_test_base
from drawings import gemm_tensor  # noqa: F401  it fills RUNGS


class Drawings(drawings_test_base.Family):
    name = "gemm_tensor"


if __name__ == "__main__":
    unittest.main()
