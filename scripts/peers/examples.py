"""The kernels of examples/ take part, too: the code that a reader learns from is what is timed."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from ladder_csv import ROOT


def example(language: str, name: str) -> Any:
    """The function `name` of examples/`language`/`name`.py."""
    folder = ROOT / "examples" / language
    spec = importlib.util.spec_from_file_location(f"{language}_{name}", folder / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))  # what lies beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return getattr(module, name)
