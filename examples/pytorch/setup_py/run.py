#!/usr/bin/env python3
"""Uses the package that setup.py makes."""

import sys

try:
    import torch  # noqa: F401
except ImportError:
    sys.exit("PyTorch is missing here: pip install torch")
try:
    import my_ops  # noqa: F401
except ModuleNotFoundError:
    sys.exit("my_ops is not installed: pip install --no-build-isolation .")
from check import check_what_is_here

check_what_is_here("setup.py")
