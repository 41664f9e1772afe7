"""A kernel's source as the mutations see it: tokens, statements, functions.

No compiler: formatted C++ is read just well enough to name its statements, conditions and operands.
What preprocessing takes from the host executor's build, and comments, have no tokens.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ ]*\#(?:[^\n\\]|\\\n)*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)')
      | (?P<number>(?:0x[0-9a-fA-F']+|\d[\d']*(?:\.\d*)?(?:e[+-]?\d+)?)[uUlLfF]*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<operator><<=|>>=|->|::|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|<<|>>|\.\.\.|[^\s\w])""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
ACCESS = ("public", "private")
CLOSING = {"(": ")", "[": "]", "{": "}"}
# Of the conditions of #if and #elif those that hold in the host executor's build.
HOLDS = re.compile(
    r"^defined\(LADDER_HOST_EXECUTOR\)$|^!defined\((__CUDACC__|LADDER_ALL_TILES)\)$"
)


class Token(NamedTuple):
    text: str
    begin: int
    end: int
    spaced: bool  # between spaces, as binary operators are, and brackets of templates are not


def tokens_of(text: str) -> list[Token]:
    found: list[Token] = []
    skipped: list[bool] = []  # of each #if around
    for match in TOKEN.finditer(text):
        if match["comment"]:
            continue
        if directive := match["directive"]:
            word, _, rest = directive.strip().lstrip("# ").partition(" ")
            if word in ("if", "ifdef", "ifndef"):
                skipped.append(not HOLDS.search(rest.split("//")[0].strip()))
            elif word in ("else", "elif"):
                skipped[-1] = not skipped[-1]
            elif word == "endif":
                skipped.pop()
            continue
        if not any(skipped):
            around = text[match.start() - 1] + text[match.end() : match.end() + 1]
            found.append(Token(match[0], match.start(), match.end(), around.isspace()))
    return found


class Statement(NamedTuple):
    """Tokens begin … end - 1 of a list; those of a condition, and statements within."""

    kind: str  # if, for, while, block, plain
    begin: int
    end: int
    condition: tuple[int, int] = (0, 0)
    body: tuple[Statement, ...] = ()  # of a block all; of others what is carried out
    has_else: bool = False


class Function(NamedTuple):
    head: str  # up to the body
    body: Statement

    @property
    def on_device(self) -> bool:
        return "__global__" in self.head or "__device__" in self.head


class Source:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.partner: dict[int, int] = {}
        still_open: list[int] = []
        for i, token in enumerate(self.tokens):
            if token.text in CLOSING:
                still_open.append(i)
            elif token.text in CLOSING.values():
                self.partner[still_open.pop()] = i
        self.partner |= {closing: opening for opening, closing in self.partner.items()}
        self.functions = list(self.functions_in(0, len(self.tokens)))

    def words(self, begin: int, end: int) -> str:
        """The source of tokens begin … end - 1, on one line."""
        if begin >= end:
            return ""
        whole = self.text[self.tokens[begin].begin : self.tokens[end - 1].end]
        return " ".join(re.sub(r"//[^\n]*|^ *#.*$", "", whole, flags=re.MULTILINE).split())

    def line(self, token: int) -> int:
        return self.text.count("\n", 0, self.tokens[token].begin) + 1

    def statement(self, i: int) -> Statement:
        """The one that begins with token i."""
        word = self.tokens[i].text
        if word == "{":
            end, inside = self.partner[i] + 1, []
            at = i + 1
            while at < end - 1:
                inside.append(self.statement(at))
                at = inside[-1].end
            return Statement("block", i, end, body=tuple(inside))
        if word in ("if", "for", "while"):
            opening = i + 1
            while self.tokens[opening].text != "(":
                opening += 1  # constexpr
            closing = self.partner[opening]
            then = self.statement(closing + 1)
            body, end = [then], then.end
            has_else = word == "if" and end < len(self.tokens) and self.tokens[end].text == "else"
            if has_else:
                body.append(self.statement(end + 1))
                end = body[-1].end
            kind = "constexpr" if opening > i + 1 else word
            return Statement(kind, i, end, (opening + 1, closing), tuple(body), has_else)
        if word == "do":
            body = self.statement(i + 1)
            opening = body.end + 1  # of its condition, behind while
            closing = self.partner[opening]
            return Statement("while", i, closing + 2, (opening + 1, closing), (body,))
        at = i
        within: list[Statement] = []  # bodies of lambdas
        while self.tokens[at].text != ";":
            if self.tokens[at].text in CLOSING:
                before = self.tokens[at - 1].text if at > i else ""
                if self.tokens[at].text == "{" and self.is_lambda_body(at, before):
                    within.append(self.statement(at))
                elif self.tokens[at].text == "(":
                    within += self.lambdas_in(at + 1, self.partner[at])
                at = self.partner[at]
            at += 1
            if at >= len(self.tokens) or self.tokens[at].text == "}":
                return Statement("plain", i, at, body=tuple(within))
        return Statement("plain", i, at + 1, body=tuple(within))

    def is_lambda_body(self, at: int, before: str) -> bool:
        if before != ")":
            return before == "]" and self.tokens[self.partner[at - 1] - 1].text in "=(,"
        opening = self.partner[at - 1]
        return self.tokens[opening - 1].text in ("]", ">")

    def lambdas_in(self, begin: int, end: int) -> Iterator[Statement]:
        at = begin
        while at < end:
            if self.tokens[at].text == "{":
                if self.is_lambda_body(at, self.tokens[at - 1].text):
                    yield self.statement(at)
                at = self.partner[at]
            at += 1

    def functions_in(self, begin: int, end: int) -> Iterator[Function]:
        """At the scope of a namespace or of a class."""
        at = head = begin
        while at < end:
            word = self.tokens[at].text
            if word in "([":
                at = self.partner[at]
            elif word in (";", "}") or word == ":" and self.tokens[at - 1].text in ACCESS:
                head = at + 1
            elif word == "{":
                kind = self.kind_of_scope(head, at)
                if kind == "scope":
                    yield from self.functions_in(at + 1, self.partner[at])
                elif kind == "function":
                    yield Function(self.words(head, at), self.statement(at))
                at = self.partner[at]
                if kind != "initializer":
                    head = at + 1
            at += 1

    def kind_of_scope(self, head: int, at: int) -> str:
        texts = [t.text for t in self.tokens[head:at]]
        while texts and texts[0] == "template":
            depth = 0
            for n, text in enumerate(texts[1:], start=1):
                depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
                if depth <= 0:
                    texts = texts[n + 1 :]
                    break
        if texts and texts[0] in ("namespace", "struct", "class", "union", "extern"):
            return "scope"
        if "(" in texts and "=" not in texts[: texts.index("(")] and texts[0] != "enum":
            return "function"
        return "initializer"

    def statements(self, function: Function) -> Iterator[tuple[tuple[Statement, ...], int]]:
        """All of a function, as lists of neighbours and the place in them."""

        def walk(inside: tuple[Statement, ...]) -> Iterator[tuple[tuple[Statement, ...], int]]:
            for n, one in enumerate(inside):
                yield inside, n
                if one.kind == "block" or one.kind == "plain":
                    yield from walk(one.body)
                else:
                    for part in one.body:
                        yield from walk((part,))

        yield from walk(function.body.body)
