"""A scanner for error messages: it accepts any text, in this language or another."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
