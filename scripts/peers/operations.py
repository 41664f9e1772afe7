"""What the suite's operations are in PyTorch: their inputs in the suite's order, the call that a user
would write, and the formula that torch.compile makes a kernel of.

Everything here takes the module torch as an argument, so that reading this file needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

Tensor = Any  # torch.Tensor
Shape = tuple[int, ...]
Function = Callable[..., Any]  # of tensors: a tensor, or several

EPSILON = 1e-5  # layernorm's and rmsnorm's


@dataclass(frozen=True)
class Operation:
    """formula is made of plain operations, in fp32 or better inside; of fp64 tensors it is the
    reference. eager is PyTorch's own function where it has one; it gets what prepare makes of the
    inputs, outside of the time. cudnn is the same function by cuDNN, where users choose. triton and numba
    name our kernels in triton_kernels.py and numba_kernels.py, which get what eager gets. particular
    makes the operation that stands for this one in a problem, given as text; None where there is
    none."""

    shapes: Callable[[Sequence[int]], list[Shape]]  # of the inputs, from the problem's numbers
    formula: Function
    eager: Function | None = None
    prepare: Function | None = None
    triton: str = ""
    numba: str = ""
    summands: Callable[[Sequence[int]], int] = lambda size: 1  # in the longest sum
    magnitude: Function | None = None  # the largest sum of |summand|; else the largest |result|
    interval: Callable[[Sequence[int]], tuple[float, float]] = lambda size: (-1, 1)  # of inputs
    roundings: int = 1  # to the element type, on the way to a result
    judged: Function = lambda result, *inputs: result  # what of a result is compared
    completed: Function = lambda *inputs: list(inputs)  # all inputs, of those that are random
    cudnn: Function | None = None
    compiled: bool = True  # whether torch.compile takes part
    particular: Callable[[str], Operation | None] | None = None

    def of(self, problem: str) -> Operation | None:
        return self.particular(problem) if self.particular else self


def operations(torch: Any) -> dict[tuple[str, str], Operation]:
    """By family and op."""
    from peers.attention import attention_operations

    F, aten = torch.nn.functional, torch.ops.aten

    def wide(x: Tensor) -> Tensor:
        return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x

    def wide_type(x: Tensor) -> Any:
        return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype

    found: dict[tuple[str, str], Operation] = {}

    # ---- elementwise: N or ROWSxCOLS

    def same(count: int) -> Callable[[Sequence[int]], list[Shape]]:
        return lambda size: [tuple(size)] * count

    def of_one(formula: Function, **more: Any) -> Operation:
        return Operation(same(1), formula, **more)

    found["elementwise", "relu"] = of_one(torch.relu)
    found["elementwise", "add"] = Operation(same(2), torch.add, triton="add", numba="add")
    found["elementwise", "gelu"] = of_one(F.gelu, triton="gelu")
    found["elementwise", "gelu_tanh"] = of_one(lambda x: F.gelu(x, approximate="tanh"))
    found["elementwise", "silu_mul"] = Operation(
        same(2), lambda x, gate: F.silu(x) * gate, roundings=2
    )
    found["elementwise", "bias_gelu_residual"] = Operation(
        lambda size: [tuple(size), (size[-1],), tuple(size)],
        lambda x, bias, residual: F.gelu(x + bias) + residual,
        roundings=3,
    )

    # ---- reduction: N, or ROWSxCOLS; sums of narrow types are fp32. Inputs of sums are positive:
    # where signs cancel, a part of the sum could be missing within the limit.

    def total(x: Tensor, *dims: int) -> Tensor:
        return torch.sum(x, dims or None, dtype=wide_type(x))

    def chain(size: Sequence[int]) -> int:
        """Of a long sum, which thousands of threads share."""
        return 256 + size[0] // 4096

    def positive(size: Sequence[int]) -> tuple[float, float]:
        return 0, 1

    def of_sum(formula: Function, summands: Callable[[Sequence[int]], int], **more: Any) -> Operation:
        return of_one(formula, summands=summands, interval=positive, roundings=0, **more)

    found["reduction", "sum"] = of_sum(total, chain, triton="sum")
    found["reduction", "max"] = of_one(torch.amax)
    # Of equal maxima any may be found.
    found["reduction", "argmax"] = of_one(torch.argmax, judged=lambda index, x: x[index])
    # The product of narrow vectors is narrow: it must not overflow.
    found["reduction", "dot"] = Operation(
        same(2), torch.dot, summands=chain, interval=lambda size: (0, size[0] ** -0.5)
    )
    found["matrix_reduction", "row_sum"] = of_sum(lambda x: total(x, 1), lambda size: size[1])
    found["matrix_reduction", "col_sum"] = of_sum(lambda x: total(x, 0), lambda size: size[0])

    # ---- softmax: ROWSxCOLS

    def cols(size: Sequence[int]) -> int:
        return size[1]

    def hidden(x: Tensor) -> Tensor:
        """Row r sees the columns up to r + cols - rows."""
        row = torch.arange(x.shape[0], device=x.device)[:, None]
        return torch.arange(x.shape[1], device=x.device) > row + (x.shape[1] - x.shape[0])

    def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(x.masked_fill(mask, -torch.inf), -1)

    def softmax_backward(y: Tensor, dy: Tensor) -> Tensor:
        product = wide(y) * wide(dy)
        return (product - wide(y) * product.sum(-1, keepdim=True)).to(y.dtype)

    def log_softmax_backward(y: Tensor, dy: Tensor) -> Tensor:
        return (wide(dy) - wide(y).exp() * wide(dy).sum(-1, keepdim=True)).to(y.dtype)

    found["softmax", ""] = of_one(
        lambda x: torch.softmax(x, -1), triton="softmax", numba="softmax", summands=cols
    )
    found["softmax", "log"] = of_one(
        lambda x: torch.log_softmax(x, -1), summands=cols, roundings=2
    )
    found["softmax", "causal"] = of_one(
        lambda x: masked_softmax(x, hidden(x)), eager=masked_softmax,
        prepare=lambda x: (x, hidden(x)), summands=cols,
    )  # fmt: skip
    found["softmax", "backward"] = Operation(
        same(2), softmax_backward, summands=cols,
        eager=lambda y, dy: aten._softmax_backward_data(dy, y, -1, dy.dtype),
        magnitude=lambda y, dy: (y.abs() * (dy.abs() + (y * dy).abs().sum(-1, keepdim=True))).max(),
    )  # fmt: skip
    found["softmax", "log_backward"] = Operation(
        same(2), log_softmax_backward, summands=cols,
        eager=lambda y, dy: aten._log_softmax_backward_data(dy, y, -1, dy.dtype),
        magnitude=lambda y, dy: (dy.abs() + y.exp() * dy.abs().sum(-1, keepdim=True)).max(),
    )  # fmt: skip

    # ---- transpose: ROWSxCOLS

    found["transpose", ""] = of_one(lambda x: x.T.contiguous())

    # ---- layernorm, rmsnorm: ROWSxCOLS

    def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x, weight.shape, weight, bias, EPSILON)

    def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, EPSILON)

    def rms_norm_formula(x: Tensor, weight: Tensor) -> Tensor:
        r = torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + EPSILON)
        return (wide(x) * r * wide(weight)).to(x.dtype)

    def gradients(x: Tensor, weight: Tensor, dy: Tensor, centred: bool) -> tuple[Tensor, ...]:
        """Of x, of the weights, and of the biases where rows are centred."""
        z, g = wide(x), wide(dy) * wide(weight)
        if centred:
            z = z - z.mean(-1, keepdim=True)
        r = torch.rsqrt(z.square().mean(-1, keepdim=True) + EPSILON)
        z = z * r
        dx = g - z * (g * z).mean(-1, keepdim=True)
        if centred:
            dx = dx - g.mean(-1, keepdim=True)
        of_columns = [(wide(dy) * z).sum(0)] + ([wide(dy).sum(0)] if centred else [])
        return tuple(part.to(x.dtype) for part in (dx * r, *of_columns))

    def recorded(norm: Function, count: int) -> Function:
        """The forward pass, of which autograd remembers what its backward pass needs."""

        def prepare(x: Tensor, weight: Tensor, dy: Tensor) -> tuple[Any, ...]:
            leaves = [x, weight] + ([torch.zeros_like(weight)] if count == 3 else [])
            leaves = [leaf.detach().requires_grad_() for leaf in leaves]
            return norm(*leaves), leaves, dy

        return prepare

    def backward(y: Tensor, leaves: list[Tensor], dy: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.autograd.grad(y, leaves, dy, retain_graph=True))

    def rows_and(*vectors: str) -> Callable[[Sequence[int]], list[Shape]]:
        """x, then arrays like it or vectors of its columns."""
        return lambda size: [tuple(size)] + [
            tuple(size) if name == "rows" else (size[1],) for name in vectors
        ]

    found["layernorm", ""] = Operation(
        rows_and("weight", "bias"), layer_norm, triton="layernorm", summands=cols
    )
    found["layernorm", "add"] = Operation(
        rows_and("weight", "bias", "rows"),
        lambda x, weight, bias, residual: (layer_norm(x + residual, weight, bias), x + residual),
        eager=lambda *x: _add_then(layer_norm, *x), roundings=3, summands=cols,
    )  # fmt: skip
    found["rmsnorm", ""] = Operation(
        rows_and("weight"), rms_norm_formula, eager=rms_norm, triton="rmsnorm", roundings=3,
        summands=cols,
    )  # fmt: skip
    found["rmsnorm", "add"] = Operation(
        rows_and("weight", "rows"),
        lambda x, weight, residual: (rms_norm_formula(x + residual, weight), x + residual),
        eager=lambda *x: _add_then(rms_norm, *x), roundings=4, summands=cols,
    )  # fmt: skip
    for family, norm, count in (("layernorm", layer_norm, 3), ("rmsnorm", rms_norm, 2)):
        found[family, "backward"] = Operation(
            rows_and("weight", "rows"),
            lambda x, weight, dy, count=count: gradients(x, weight, dy, count == 3),
            eager=backward, prepare=recorded(norm, count), roundings=3, summands=max,
            magnitude=lambda x, weight, dy: dy.abs().sum(0).max() * 2,  # |z| stays below 2
        )  # fmt: skip

    # ---- gemm, gemm_tensor: MxNxK; the operands' letters as in BLAS, t for transposed

    def product(layout: str, **more: Any) -> Operation:
        def shapes(size: Sequence[int]) -> list[Shape]:
            m, n, k = size
            return [(m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k)]

        def factors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            return a if layout[0] == "n" else a.T, b if layout[1] == "n" else b.T

        def multiply(a: Tensor, b: Tensor) -> Tensor:
            return torch.matmul(*factors(a, b))

        # Tensor cores cut off what ordinary ones round: 13 sqrt(k) 2^-23 for 8 sqrt(k) 2^-24.
        return Operation(
            shapes, multiply, eager=torch.matmul, prepare=factors, triton="matmul",
            summands=lambda size: size[2],
            magnitude=lambda a, b: 3.25 * multiply(a.abs(), b.abs()).max(), **more,
        )  # fmt: skip

    found["gemm", ""] = product("nn", numba="matmul")
    for layout in ("nn", "nt", "tn"):
        found["gemm_tensor", layout] = product(layout)
    nt = found["gemm_tensor", "nt"]
    found["gemm_tensor", "nt_bias_gelu"] = Operation(
        lambda size: [*nt.shapes(size), (size[1],)],
        lambda a, b, bias: F.gelu(F.linear(a, b, bias), approximate="tanh"),
        summands=nt.summands, roundings=3, magnitude=lambda a, b, bias: nt.magnitude(a, b),
    )  # fmt: skip
    return found | attention_operations(torch)


def _add_then(norm: Function, x: Tensor, *parameters_and_residual: Tensor) -> Any:
    *parameters, residual = parameters_and_residual
    total = x + residual
    return norm(total, *parameters), total
