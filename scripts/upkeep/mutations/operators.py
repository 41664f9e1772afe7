"""The mistakes that are made in kernels, by class: where in a source each could have been made."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Iterator, NamedTuple

from mutations.source import Function, Source, Statement

CLASSES = {
    "barriers": "a barrier dropped",
    "fences": "a fence between blocks dropped, an acquire or release within the block alone",
    "waits": "a wait for cp.async dropped or for one group fewer, a group not committed",
    "hopper": "an arrival, wait, commit or fence of mbarriers, clusters, bulk copies or wgmma dropped, "
    "the other parity, other bytes or threads expected, a wait for one group fewer",
    "moves": "one of those statements of Hopper's on the other side of the statement beside it",
    "order": "a statement on the other side of a barrier or wait beside it",
    "bounds": "another comparison, one less, a guard or an early exit dropped",
    "tails": "a branch or loop never entered, a quotient rounded down",
    "masks": "half of a warp in a shuffle, another lane, a step too few",
    "numbers": "no epsilon, no maximum subtracted, no scale, another initial value, 16-bit sums",
    "places": "indices or strides transposed, a result added to the stale one or not stored",
    "widths": "an index of 32 bits",
}
# Of these every file has one mutation of each operator, of the others one at all.
BY_OPERATOR = {"barriers", "fences", "waits", "hopper", "moves", "order", "numbers"}

BARRIERS = {"__syncthreads", "__syncwarp"} | {f"__syncthreads_{v}" for v in ("or", "and", "count")}
WAITS = {"cp_async_wait_group", "cp_async_wait_all"}
COMMIT, FENCE = "cp_async_commit_group", "__threadfence"
HOPPER = {
    "mbarrier_init", "mbarrier_arrive", "mbarrier_arrive_expect_tx", "mbarrier_arrive_remote",
    "mbarrier_arrive_expect_tx_remote", "mbarrier_expect_tx", "mbarrier_wait",
    "mbarrier_wait_cluster", "named_barrier_arrive", "named_barrier_sync", "cluster_sync",
    "cluster_start", "cluster_arrive", "cluster_arrive_relaxed", "cluster_wait",
    "fence_mbarrier_init",
    "fence_proxy_async", "bulk_commit_group", "bulk_wait_group", "bulk_wait_group_read",
    "wgmma_fence", "wgmma_commit_group", "wgmma_wait_group", "griddepcontrol_wait",
}  # fmt: skip
DECLARATION = re.compile(r"(?:const|auto|int|unsigned)\b|[\w:<>]+\*?(?: const)? \w+ =")
EMPTY = re.compile(r"[\w:<>]+ \w+(?:\[[^\]]*\])*(?: = \{\})?;|auto \w+ = \[.*")
NAME = re.compile(r"(?!(if|for|while)$)[A-Za-z_]\w*")
PURE = {
    "wgmma_descriptor", "wgmma_step", "ceil_div", "shared_address", "cluster_address", "min", "max",
    "cluster_rank", "at", "static_cast", "reinterpret_cast", "constexpr", "std",
}  # fmt: skip
STORES = re.compile(r"store\w*|__st(cs|wb|cg)")
OTHER_COMPARISON = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
CONSTANT = re.compile(
    r"(?:\d\w*|k[A-Z]\w*|[A-Z][A-Z0-9]?|\w+(?:::|\.)(?:size|inputs|k\w+|[A-Z]{1,2})"
    r"|[-+*/() ]|sizeof\(\w+\))+"
)
OUTPUT = re.compile(r"(?:g\.c|\*a\.y|\*?out|y|c|a\.\w+|\*?to)(?:\[.*|$)")
FACTORS = {  # what arithmetic may lack: the right operand by its operator
    "-": re.compile(r"(\w+\.)?(max\w*|mean|largest|m|of_row)"),
    "*": re.compile(r"(\w+\.)?(\w*scale\w*|inv\w*|rstd\w*)"),
    "/": re.compile(r"(\w+\.)?(sum|cols|n|total)"),
}
INTEGER = re.compile(r"\b(int|unsigned|std::u?int\d+_t|std::size_t|dim3)\b")
WIDE = {"int64_t": "int", "ptrdiff_t": "int", "uint64_t": "unsigned", "size_t": "unsigned"}
SYNCTHREADS = re.compile(
    r"__syncthreads\(\);(?:\s*//\s*(?P<reason>redundant(?: on the host)?: .*))?"
)


class Mutation(NamedTuple):
    kind: str  # one of CLASSES
    operator: str  # what kind of mistake within its class
    line: int
    what: str  # names it in its file, whatever the line
    text: str  # the whole file, mutated; empty where a barrier is dropped at run time
    redundant: str = ""  # why that barrier may go; empty if it may not


def barriers_of(text: str) -> Iterator[Mutation]:
    """Every __syncthreads(), to be dropped at run time."""
    for number, found in enumerate(SYNCTHREADS.finditer(text), start=1):
        line = text.count("\n", 0, found.start()) + 1
        reason = found["reason"] or ""
        yield Mutation("barriers", "dropped", line, f"without barrier {number}", "", reason)


def mutations_of(file: Path, text: str, every: bool = False) -> Iterator[Mutation]:
    """But for those barriers. Which ones a file has is drawn, always the same while it stays; or it
    has every one."""
    named: Counter[str] = Counter()
    found: dict[str, dict[str, list[Mutation]]] = {}  # by class and operator
    for one in sorted(Finder(Source(text)).mutations(), key=lambda m: m.line):
        named[one.what] += 1
        if named[one.what] > 1:
            one = one._replace(what=f"{one.what} #{named[one.what]}")
        found.setdefault(one.kind, {}).setdefault(one.operator, []).append(one)
    for kind, operators in found.items():
        draw = random.Random(f"{file} {kind}")
        drawn = operators if every or kind in BY_OPERATOR else [draw.choice(list(operators))]
        for operator in drawn:
            yield from operators[operator] if every else [draw.choice(operators[operator])]


class Finder:
    """Finds the mutations of one source. Ranges of tokens are begin … end - 1."""

    def __init__(self, source: Source) -> None:
        self.source, self.tokens, self.partner = source, source.tokens, source.partner
        self.words = source.words
        self.found: list[Mutation] = []
        self.home: dict[int, tuple[int, int]] = {}  # of tokens: their statement or condition

    def mutations(self) -> list[Mutation]:
        for function in self.source.functions:
            if function.on_device:
                self.of_device(function)
            elif "supports" not in function.head:
                self.of_quotients(function)
        return self.found

    def replace(self, operator: str, at: tuple[int, int], new: str, what: str) -> None:
        """A range of tokens by other text; operator is class/operator."""
        text = self.source.text
        first, last = self.tokens[at[0]].begin, self.tokens[at[1] - 1].end
        lines = text.count("\n", first, last)  # what follows keeps its line
        self.add(operator, at[0], what, text[:first] + new + "\n" * lines + text[last:])

    def swap(self, operator: str, a: Statement, b: Statement, what: str) -> None:
        """Two statements, the first before the second, take each other's place."""
        text, tokens = self.source.text, self.tokens
        a0, a1 = tokens[a.begin].begin, tokens[a.end - 1].end
        b0, b1 = tokens[b.begin].begin, tokens[b.end - 1].end
        mutated = text[:a0] + text[b0:b1] + text[a1:b0] + text[a0:a1] + text[b1:]
        self.add(operator, a.begin, what, mutated)

    def add(self, operator: str, token: int, what: str, mutated: str) -> None:
        kind, operator = operator.split("/", 1)
        self.found.append(Mutation(kind, operator, self.source.line(token), what, mutated))

    def texts(self, begin: int, end: int) -> list[str]:
        return [t.text for t in self.tokens[begin:end]]

    def around(self, i: int) -> str:
        """What tells a token's place from others: its statement, or the condition it is in."""
        words = self.words(*self.home.get(i, (i, i + 1)))
        return words if len(words) <= 80 else words[:80] + "…"

    def before(self, i: int) -> str:
        """The statement, or the part of one, that token i is in, up to it."""
        first = i
        while first > 0 and self.tokens[first - 1].text not in ";{}":
            first -= 1
        return self.words(first, i)

    def of_device(self, function: Function) -> None:
        for inside, n in self.source.statements(function):
            one = inside[n]
            at = (one.begin, one.end) if one.kind == "plain" else one.condition
            self.home |= {i: at for i in range(*at)}
        for inside, n in self.source.statements(function):
            self.of_statement(inside[n])
            self.of_neighbours(inside, n)
            self.of_moves(inside, n)
        for i in range(function.body.begin, function.body.end):
            self.of_scope(i)
            self.of_shuffle(i)
            self.of_epsilon(i)
            self.of_factor(i)
            self.of_beginning(i)
            self.of_sum(i)
            self.of_subscripts(i)
            self.of_stride(i)
            self.of_width(i)
        self.of_quotients(function)

    # ---- Statements

    def of_statement(self, one: Statement) -> None:
        if one.kind == "plain":
            self.of_synchronization(one)
            self.of_value(one)
            self.of_output(one)
        elif one.kind == "while":
            self.of_condition(*one.condition, is_loop=True)
        elif one.kind == "if":
            self.of_condition(*one.condition, is_loop=False)
            self.of_branch(one)
        elif one.kind == "for":
            self.of_loop(one)

    def synchronizes(self, one: Statement, names: set[str]) -> str:
        """The name of the call that a statement is, if it is one of these."""
        texts = self.texts(one.begin, one.end)
        if one.kind != "plain" or len(texts) > 24 or "=" in texts:
            return ""
        return next((t for t in texts if t in names), "")

    def of_synchronization(self, one: Statement) -> None:
        name = self.synchronizes(one, BARRIERS | WAITS | HOPPER | {COMMIT, FENCE})
        if not name or name == "__syncthreads" or self.tokens[one.end - 1].text != ";":
            return
        kind = ("fences" if name == FENCE else "barriers" if name in BARRIERS else
                "hopper" if name in HOPPER else "waits")  # fmt: skip
        operator = name if kind in ("waits", "hopper") else "dropped"
        words, texts = self.words(one.begin, one.end), self.texts(one.begin, one.end)
        instead = "return;" if texts[0] == "return" else ";"
        self.replace(f"{kind}/{operator}", (one.begin, one.end), instead, f"without {words}")
        if "wait_group" in name and "<" in texts:
            at = one.begin + texts.index(name) + 2, one.begin + texts.index(">")
            pending = self.words(*at)
            self.replace(f"{kind}/later", at, f"({pending}) + 1", f"{words} -> <{pending} + 1>")
        if name in ("mbarrier_wait", "mbarrier_wait_cluster"):
            at = self.arguments(one.begin + texts.index("("))[1]
            self.replace("hopper/parity", at, f"({self.words(*at)}) ^ 1", f"{words} -> ^ 1")
        if name == "mbarrier_init":
            at = self.arguments(one.begin + texts.index("("))[1]
            self.replace("hopper/threads", at, f"({self.words(*at)}) + 1", f"{words} -> + 1")
        if name in ("mbarrier_arrive_expect_tx", "mbarrier_expect_tx"):
            at = self.arguments(one.begin + texts.index("("))[1]
            self.replace("hopper/bytes", at, f"({self.words(*at)}) + 16", f"{words} -> + 16")

    def of_scope(self, i: int) -> None:
        if self.texts(i, i + 3) in (["Scope", "::", wider] for wider in ("gpu", "system")):
            self.replace("fences/scope", (i + 2, i + 3), "block", f"{self.around(i)} -> block")

    def of_neighbours(self, inside: tuple[Statement, ...], n: int) -> None:
        """What stands beside a barrier or a wait comes to its other side."""
        one = inside[n]
        name = self.synchronizes(one, BARRIERS | WAITS)
        if not name:
            return
        for other, side in ((n - 1, "before"), (n + 1, "after")):
            if not 0 <= other < len(inside):
                continue
            moved = inside[other]
            texts = set(self.texts(moved.begin, moved.end))
            uses_memory = "(" in texts or "[" in texts and any(t.endswith("=") for t in texts)
            # Threads that have ended are not waited for.
            ends = self.tokens[moved.body[0].begin].text == "return" if moved.body else False
            if not uses_memory or ends or texts & (BARRIERS | WAITS):
                continue
            if self.synchronizes(moved, {FENCE}):
                continue
            first, second = (moved, one) if other < n else (one, moved)
            words = self.words(moved.begin, moved.end)[:60]
            self.swap(f"order/{side}", first, second, f"{name} {side} {words}")

    def of_moves(self, inside: tuple[Statement, ...], n: int) -> None:
        """An arrival, wait, commit or fence of Hopper's comes one statement later or sooner."""
        one = inside[n]
        name = self.synchronizes(self.guarded(one), HOPPER)
        if not name or "return" in self.texts(one.begin, one.end):
            return
        for other, side in ((n - 1, "before"), (n + 1, "after")):
            if not 0 <= other < len(inside):
                continue
            beside = inside[other]
            neighbour = self.synchronizes(self.guarded(beside), HOPPER)
            # Two of them change places once, and initialisations are of different mbarriers.
            if neighbour and (other < n or neighbour == name == "mbarrier_init"):
                continue
            if not neighbour and not self.matters_to(one, beside):
                continue
            first, second = (beside, one) if other < n else (one, beside)
            words = f"{self.words(one.begin, one.end)} {side} {self.words(beside.begin, beside.end)}"
            self.swap(f"moves/{name} {side}", first, second, words[:120])

    @staticmethod
    def guarded(one: Statement) -> Statement:
        """What alone is carried out by a branch; any other statement itself."""
        return one.body[0] if one.kind == "if" and not one.has_else else one

    def matters_to(self, one: Statement, beside: Statement) -> bool:
        """Whether it may matter on which side of its neighbour a call is: one that calls or
        leaves, uses memory, or changes what the call names."""
        texts, words = self.texts(beside.begin, beside.end), self.words(beside.begin, beside.end)
        if texts[0] == "return" or texts[-1] not in (";", "}") or EMPTY.fullmatch(words):
            return False
        named = set(self.texts(one.begin, one.end))
        changed = {a for a, b in pairwise(texts) if b in ("=", "+=", "++")}
        if DECLARATION.match(words) and changed & named:
            return False  # or it is no C++
        calls = any(b in ("(", "<") and NAME.match(a) and a not in PURE for a, b in pairwise(texts))
        loads = any(t == "[" and texts[:n][-2:-1] != ["&"] for n, t in enumerate(texts))
        return calls or loads or "return" in texts or bool(changed & named)

    def of_value(self, one: Statement) -> None:
        """Comparisons whose result is kept, returned or chosen by."""
        texts = self.texts(one.begin, one.end)
        if texts[0] == "return":
            if set(texts) & set(OTHER_COMPARISON):
                self.of_condition(one.begin + 1, one.end - 1, is_loop=False)
        elif "=" in texts and "constexpr" not in texts and not one.body:
            begin = one.begin + texts.index("=") + 1
            if "bool" in texts[:2]:
                self.of_condition(begin, one.end - 1, is_loop=False)
            elif "?" in texts:
                self.of_condition(begin, one.begin + texts.index("?"), is_loop=False)

    def of_output(self, one: Statement) -> None:
        texts, words = self.texts(one.begin, one.end), self.words(one.begin, one.end)
        if texts[0] in ("const", "constexpr", "auto", "return", "static_assert") or one.body:
            return
        if "=" in texts and "store" not in texts:
            at = one.begin + texts.index("=")
            if OUTPUT.match(self.words(one.begin, at)):
                self.replace("places/stale output", (at, at + 1), "+=", f"{words} -> +=")
        elif any(STORES.fullmatch(t) for t in texts) and texts[-1] == ";":
            at = one.begin, one.end
            self.replace("places/not stored", at, ";", f"without {words[:90]}")

    def of_branch(self, one: Statement) -> None:
        condition, then = self.words(*one.condition), one.body[0]
        last = then.body[-1] if then.body and then.kind == "block" else then
        leaves = self.tokens[last.begin].text in ("return", "break", "continue")
        never = "false", f"if ({condition}) -> false"
        if leaves and not one.has_else:
            self.replace("bounds/no exit", one.condition, *never)
            return
        if not any(self.compares(i) for i in range(*one.condition)):
            always = "true", f"if ({condition}) -> true"
            self.replace("bounds/no guard", one.condition, *always)
        if not one.has_else:
            self.replace("tails/branch", one.condition, *never)

    def of_loop(self, one: Statement) -> None:
        begin, end = one.condition
        semicolons = [i for i in range(begin, end) if self.tokens[i].text == ";"]
        if not semicolons:  # over a range
            return
        first, last = semicolons[0] + 1, semicolons[-1]
        condition = self.words(first, last)
        if not condition:
            return
        self.of_condition(first, last, is_loop=True)
        bound = re.split(r" [<>]=? ", condition)[-1]
        if not CONSTANT.fullmatch(bound):
            self.replace("tails/loop", (first, last), "false", f"for ({condition}) -> false")
        shuffles = any("__shfl" in t for t in self.texts(one.begin, one.end))
        if shuffles and condition.endswith(" > 0"):
            at = self.texts(begin, end).index("=") + begin + 1, semicolons[0]
            lanes = self.words(*at)
            self.replace("masks/first step", at, f"({lanes}) / 2", f"from {lanes} lanes on -> half")
            at = self.texts(begin, end).index(">") + begin + 1, last
            self.replace("masks/last step", at, "1", f"{condition} -> > 1")

    # ---- Conditions

    def compares(self, i: int) -> bool:
        return self.tokens[i].spaced and self.tokens[i].text in OTHER_COMPARISON

    def of_condition(self, begin: int, end: int, is_loop: bool) -> None:
        for i in range(begin, end):
            comparison = self.tokens[i].text
            if not self.compares(i) and not (self.tokens[i].spaced and comparison == "=="):
                continue
            right = self.operand(i, +1, begin, end)
            a, b = self.words(*self.operand(i, -1, begin, end)), self.words(*right)
            less = right, f"({b}) - 1", f"{a} {comparison} {b} -> {b} - 1"
            if comparison == "==":
                if not CONSTANT.fullmatch(b):
                    self.replace("bounds/one less", *less)
                continue
            is_fixed = CONSTANT.fullmatch(b) is not None
            if CONSTANT.fullmatch(a) or is_fixed and is_loop:
                continue
            other = OTHER_COMPARISON[comparison]
            what = f"{a} {comparison} {b} -> {other}"
            self.replace("bounds/other comparison", (i, i + 1), other, what)
            if not is_fixed and comparison in ("<", ">="):
                self.replace("bounds/one less", *less)

    def operand(self, i: int, step: int, begin: int, end: int) -> tuple[int, int]:
        """Of a comparison, on one side of it."""
        at = i + step
        while begin <= at < end:
            text = self.tokens[at].text
            if text in (",", ";", "!", ":") or self.tokens[at].spaced and text in (
                "&&", "||", "?", "=", "return", "<", ">",
            ):  # fmt: skip
                break
            if text in (")]}" if step < 0 else "([{"):
                at = self.partner[at]
            elif text in "()[]{}":
                break
            at += step
        return (i + 1, at) if step > 0 else (at + 1, i)

    # ---- Calls

    def arguments(self, opening: int) -> list[tuple[int, int]]:
        closing, at, begin = self.partner[opening], opening + 1, opening + 1
        found = []
        while at < closing:
            if self.tokens[at].text in "([{":
                at = self.partner[at]
            elif self.tokens[at].text == ",":
                found.append((begin, at))
                begin = at + 1
            at += 1
        return [*found, (begin, closing)] if closing > begin else found

    def of_quotients(self, function: Function) -> None:
        for i in range(function.body.begin, function.body.end):
            if self.tokens[i].text != "ceil_div" or "constexpr" in self.before(i):
                continue
            a, b, *more = [self.words(*argument) for argument in self.arguments(i + 1)]
            if more:  # a comma between the arguments of a template
                continue
            first = i - 2 if self.tokens[i - 1].text == "::" else i
            at = first, self.partner[i + 1] + 1
            what = f"ceil_div({a}, {b}) -> {a} / {b}"
            self.replace("tails/quotient", at, f"(({a}) / ({b}))", what)

    def of_shuffle(self, i: int) -> None:
        name = self.tokens[i].text
        if not name.startswith("__shfl"):
            return
        arguments = self.arguments(i + 1)
        words = [self.words(*a) for a in arguments]
        call = f"{name}({', '.join(words)})"
        if len(words) > 2 and not re.search(r"distance|lanes|\bs\b|offset", words[2]):
            # In a butterfly another partner often has the same value.
            xor = "xor" in name
            what = f"{call} -> {'own lane' if xor else 'lane ^ 1'}"
            self.replace("masks/other lane", arguments[2], "0" if xor else f"({words[2]}) ^ 1", what)
        if re.fullmatch(r"0x[fF]{8}u?|kAllLanes", words[0]):
            what = f"{call} -> of 16 lanes"
            self.replace("masks/half of a warp", arguments[0], "0xffffu", what)

    # ---- Arithmetic

    def of_epsilon(self, i: int) -> None:
        if not re.fullmatch(r"k?[eE]ps(ilon)?", self.tokens[i].text):
            return
        first = i
        while self.tokens[first - 1].text in ("::", "."):
            first -= 2
        if self.tokens[first - 1].text == "+":
            what = f"without + {self.words(first, i + 1)}"
            self.replace("numbers/no epsilon", (first - 1, i + 1), "", what)

    def of_factor(self, i: int) -> None:
        text = self.tokens[i].text
        if text not in FACTORS or not self.tokens[i].spaced or INTEGER.search(self.before(i)):
            return
        stop = self.primary(i + 1)
        factor = self.words(i + 1, stop)
        if FACTORS[text].fullmatch(factor):
            what = f"without {text} {factor} in {self.around(i)}"
            self.replace(f"numbers/no {text}", (i, stop), "", what)

    def of_beginning(self, i: int) -> None:
        """What maxima and sums begin with."""
        text, previous = self.tokens[i].text, self.tokens[i - 1].text
        if text in ("INFINITY", "FLT_MAX") and previous == "-":
            what = f"-{text} -> 0 in {self.around(i)}"
            self.replace("numbers/beginning", (i - 1, i + 1), "0.0f", what)
        elif text == "identity" and self.tokens[i + 1].text == "<":
            opening = self.texts(i, i + 12).index("(") + i
            first = i - 3 if previous == "template" else i - 2
            one = f"static_cast<{self.words(i + 2, opening - 1)}>(1)"
            what = f"identity -> 1 in {self.around(i)}"
            self.replace("numbers/beginning", (first, opening + 2), one, what)
        elif text in ("float", "double", "A"):
            _, name, *value = self.texts(i, i + 5)
            if value in (["=", "0", ";"], ["=", "0.0f", ";"]):
                self.replace("numbers/beginning", (i + 3, i + 4), "1", f"{name} = 0 -> 1")

    def of_sum(self, i: int) -> None:
        """A sum that is rounded to 16 bits whenever something is added."""
        if self.tokens[i].text != "+=" or not self.is_float(i - 1):
            return
        first, end = i, i
        while self.tokens[first - 1].text not in ";{})":
            first = self.partner[first - 1] if self.tokens[first - 1].text == "]" else first - 1
        while self.tokens[end].text != ";":
            end = self.partner[end] + 1 if self.tokens[end].text in "([{" else end + 1
        left, right = self.words(first, i), self.words(i + 1, end)
        if right.isdigit():  # a count
            return
        sum_ = f"static_cast<float>({left} + ({right}))"
        rounded = f"{left} = static_cast<float>(static_cast<ladder::bfloat16>({sum_}))"
        self.replace("numbers/16-bit sum", (first, end), rounded, f"16-bit sum: {left} += {right}")

    def is_float(self, i: int) -> bool:
        """Whether the variable that ends with token i was declared as a float."""
        while self.tokens[i].text == "]":
            i = self.partner[i] - 1
        name = self.tokens[i].text
        if self.tokens[i - 1].text == ".":
            return name == "sum"
        declared = rf"\b(?:float|double) (?:\w+(?: = [^;,]*)?, )?\(?&?{re.escape(name)}\b"
        return re.search(declared, self.source.text) is not None

    def primary(self, i: int) -> int:
        """The end of a name with its members that begins with token i; of a call or an element, one
        further."""
        at = i + 1
        while self.tokens[at].text in (".", "::"):
            at += 2
        return at + 1 if self.tokens[at].text in "([" else at

    # ---- Places

    def of_subscripts(self, i: int) -> None:
        if self.tokens[i].text != "[" or self.tokens[i - 1].text in "=(,":
            return
        second = self.partner[i] + 1
        if self.tokens[second].text != "[" or not self.is_shared(i) or self.is_declared(i):
            return
        end = self.partner[second] + 1
        a, b = self.words(i + 1, second - 1), self.words(second + 1, end - 1)
        if a != b:
            what = f"{self.tokens[i - 1].text}[{a}][{b}] -> [{b}][{a}] in {self.around(i)}"
            self.replace("places/transposed", (i, end), f"[{b}][{a}]", what)

    def is_shared(self, i: int) -> bool:
        """Whether the brackets at token i are of shared memory, or of a member."""
        name = re.escape(self.tokens[i - 1].text)
        declared = rf"__shared__ [^;]*\b{name}\["
        is_member = self.tokens[i - 2].text in ("->", ".")
        return is_member or re.search(declared, self.source.text) is not None

    def is_declared(self, i: int) -> bool:
        """Whether an array is being declared by the brackets at token i."""
        previous, name = self.tokens[i - 2].text, self.tokens[i - 1].text
        if name == "]":
            return self.is_declared(self.partner[i - 1])
        if previous == ",":  # after another one
            return re.match(r"(constexpr )?[\w:<>]+ \w+(\[|,| =)", self.before(i)) is not None
        return name == ")" or re.fullmatch(r"(?!return$)[A-Za-z_]\w*|>|\*", previous) is not None

    def of_stride(self, i: int) -> None:
        """The factor and the summand of  a * stride + b,  names or members, the other way round."""
        if self.tokens[i].text != "*" or not self.tokens[i].spaced:
            return
        first = i - 1
        if self.tokens[first].text == "}":  # T{name}
            first = self.partner[first] - 1
        while self.tokens[first - 1].text in (".", "::"):
            first -= 2
        plus = self.primary(i + 1)
        if self.tokens[plus].text != "+" or self.tokens[first - 1].text in "*/%":
            return
        end = self.primary(plus + 1)
        a, stride, b = self.words(first, i), self.words(i + 1, plus), self.words(plus + 1, end)
        if not re.fullmatch(r"[A-Za-z_][\w.:{}]*", a) or not re.fullmatch(r"[\w.]+", b) or a == b:
            return
        if self.tokens[end].text in "*/%" or "constexpr" in self.before(i):
            return
        what = f"{a} * {stride} + {b} -> {b} * {stride} + {a} in {self.around(i)}"
        self.replace("places/stride", (first, end), f"{b} * {stride} + {a}", what)

    def of_width(self, i: int) -> None:
        std, colons, wide = self.texts(i, i + 3) if i + 3 < len(self.tokens) else ("", "", "")
        if std != "std" or wide not in WIDE:
            return
        if self.tokens[i - 1].text in "<," and self.tokens[i - 2].text != "static_cast":
            return
        what = f"std{colons}{wide} -> {WIDE[wide]} in {self.around(i)}"
        self.replace("widths/narrow", (i, i + 3), WIDE[wide], what)
