"""torch.ops.my_ops.add and torch.ops.my_ops.softmax."""

from pathlib import Path

import torch

torch.ops.load_library(next(Path(__file__).parent.glob("_C*.so")))  # no Python module: not imported

from . import register  # noqa: E402, F401

add, softmax = torch.ops.my_ops.add, torch.ops.my_ops.softmax
