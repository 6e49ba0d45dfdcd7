"""A text that the grammar rejects: its lexemes, and the one at which the parser stopped.

The scanner accepts any text, in this language or another: only error messages use it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...model.keywords import RESERVED
from ...model.problem import Problem, Snippet

TEST_WORDS = frozenset({"in", "matches", "contains", "starts", "with", "is", "null"})
"""The words of the tests of a predicate."""

COMPARISONS = frozenset({"=", "==", "!=", "<", "<=", ">", ">=", "===", "=~", "≠", "≤", "≥"})
"""The signs of comparisons, also of other languages."""

EXAMPLES = {
    "formula": "write a formula, such as `always (request -> eventually reply)`",
    "predicate": 'write a condition on one event, such as `kind == "user"`',
    "path": "write a field, such as `tool` or `args.order_id`",
    "head": "write a name and its parameters, such as `happened_before(p, q)`",
}
"""The start symbols of the grammar, each with a hint that shows an example."""

OPENS = {"(": ")", "[": "]"}
"""The opening brackets, each with its closing one."""


_SCAN = re.compile(
    r"""(?P<space>\s+)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<open>["“”][^\n]*)
    | (?P<quoted>'[^'\n]*'?|[‘’`][^\n]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<sign><-+>|<=+>|-+>|=+>|={1,3}|!==?|!~|=~|<>|<=|>=|&&|\|\||\[\]|/\\|\\/|\.\.+|:=|.)""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:[^/\\\n]|\\.)+/")


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A part of the text: `kind` is its group in the scanner, `regex` or `end`."""

    kind: str
    text: str
    start: int
    end: int


def scan(text: str) -> tuple[Lexeme, ...]:
    """Return the lexemes of a text, the last one empty and of kind `end`."""
    lexemes: list[Lexeme] = []
    at = 0
    while at < len(text):
        regex = (
            _REGEX.match(text, at) if lexemes and lexemes[-1].text in ("matches", "==", "=~", "in") else None
        )
        match = regex or _SCAN.match(text, at)
        assert match, "the scanner's last alternative takes any character"
        kind = "regex" if regex else str(match.lastgroup)
        if kind != "space":
            lexemes.append(Lexeme(kind, match[0], at, match.end()))
        at = match.end()
    end = len(text.rstrip())
    return (*lexemes, Lexeme("end", "", end, end))


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A text that the grammar's symbol `start` rejects at the lexeme `lexemes[index]`."""

    snippet: Snippet
    start: str
    lexemes: tuple[Lexeme, ...]
    index: int

    @property
    def here(self) -> Lexeme:
        """Return the unexpected lexeme; the last one is the end of the text."""
        return self.lexemes[self.index]

    def neighbour(self, offset: int) -> Lexeme:
        """Return the lexeme at that distance, or an empty one outside the text."""
        at = self.index + offset
        return self.lexemes[at] if 0 <= at < len(self.lexemes) else Lexeme("end", "", 0, 0)

    @property
    def bracket(self) -> int | None:
        """Return the index of the innermost bracket that is open before the unexpected lexeme."""
        opened: list[int] = []
        for i, lexeme in enumerate(self.lexemes[: self.index]):
            if lexeme.text in OPENS:
                opened.append(i)
            elif lexeme.text in (")", "]") and opened:
                opened.pop()
        return opened[-1] if opened else None

    @property
    def in_square_brackets_of(self) -> Lexeme | None:
        """Return the lexeme before the innermost bracket, if that is a square one."""
        if self.bracket is None or self.lexemes[self.bracket].text != "[":
            return None
        return self.lexemes[self.bracket - 1]

    def problem(self, code: str, message: str, hint: str, lexeme: Lexeme | None = None) -> Problem:
        """Return a problem with a lexeme, by default the unexpected one."""
        at = lexeme or self.here
        return self.snippet.problem(code, message, hint, at.start, max(at.end, at.start + 1))

    def expects_operand(self) -> bool:
        """Return whether the lexeme before requires an operand after it."""
        before = self.neighbour(-1)
        if before.kind == "word":
            is_test = self.start == "predicate" and before.text in TEST_WORDS - {"null"}
            return is_test or before.text in RESERVED - {"true", "false"}
        return before.kind in ("end", "sign") and before.text not in (")", "]")


def quoted(lexeme: Lexeme) -> str:
    """Return a lexeme in backticks, or that the text ends."""
    return f"`{lexeme.text}`" if lexeme.text else "the end of the text"
