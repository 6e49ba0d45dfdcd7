"""A text in pieces as a reader sees them, in this language or another; it never refuses."""

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
    """A piece of the text: `kind` names its group in the scanner, or `regex`, or `end`."""

    kind: str
    text: str
    start: int
    end: int


def scan(text: str) -> tuple[Lexeme, ...]:
    """The text in pieces, ending with an empty one of kind `end`."""
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
