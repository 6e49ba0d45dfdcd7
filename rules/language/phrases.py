"""Phrases of policies and other languages that are no formula or condition here, and how to write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ..model.keywords import RESERVED

_NAME = rf"(?!(?:{'|'.join(sorted(RESERVED))})\b)([A-Za-z_]\w*)"
_TIME = r"\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)\b"
_STEPS = r"(\d+)\s+(?:events?|messages?|steps?|turns?)\b"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase that a policy owner may try: its pattern, the error's message, and the hint.

    `hint` returns the right spelling for a match, or states that the phrase cannot be expressed.
    """

    pattern: re.Pattern[str]
    message: str
    hint: Callable[[re.Match[str]], str]


def _phrase(pattern: str, message: str, hint: str | Callable[[re.Match[str]], str]) -> Phrase:
    return Phrase(re.compile(pattern), message, hint if callable(hint) else lambda match: match.expand(hint))


_NUMBERS = {"once": 1, "twice": 2}
_REPEATED_MAX = 5
"""The greatest number of times whose lower bound a hint writes out."""


def _repeated(name: str, times: int) -> str:
    """Return the formula for an event at which a proposition is true for at least so many times."""
    return name if times < 2 else f"({name} and previous once {_repeated(name, times - 1)})"


def _at_least(name: str, times: int) -> str:
    """Return how to write a lower bound of a count."""
    if times > _REPEATED_MAX:
        return (
            f"a lower bound of {times} is too long to write; an upper bound is `{name} -> at_most[2] {name}`"
        )
    repeated = _repeated(name, times)
    return f"write `once {repeated}`, or `eventually {repeated}` about the whole session"


def _at_most(name: str, times: int) -> str:
    """Return how to write an upper bound of a count."""
    return f"write `{name} -> at_most[{times}] {name}`" if times > 0 else f"write `always not {name}`"


def _exactly(name: str, times: int) -> str:
    """Return how to write that a count has one value."""
    if not 0 < times <= _REPEATED_MAX:
        return _at_most(name, times)
    return f"{_at_most(name, times)}, and in another rule `eventually {_repeated(name, times)}`"


def _counted(match: re.Match[str]) -> str:
    """Return how to write a comparison of a count."""
    name, sign, number = match[1], match[2], int(match[3])
    if sign in ("<", "<="):
        return _at_most(name, number - (sign == "<"))
    return _exactly(name, number) if sign == "==" else _at_least(name, number + (sign == ">"))


def _so_often(match: re.Match[str]) -> str:
    """Return how to write a number of times."""
    name, bound, times = match[1], match[2], match[3]
    number = _NUMBERS.get(times) or int(times)
    return _exactly(name, number) if bound == "exactly" else _at_least(name, number)


FORMULA = (
    _phrase(
        rf"\bnever\s+{_NAME}\s+after\s+{_NAME}",
        "`never ... after` is no operator",
        r"write `\1 -> not once \2`",
    ),
    _phrase(
        rf"\b(?:no|not)\s+{_NAME}\s+before\s+{_NAME}", "`before` is no operator", r"write `\1 -> once \2`"
    ),
    _phrase(
        rf"\b{_NAME}\s+(?:only\s+)?after\s+{_NAME}",
        "`after` is no operator",
        r"write `\1 -> once \2` if \2 must come first, `always (\2 -> eventually \1)` if \1 must follow",
    ),
    _phrase(rf"\b{_NAME}\s+before\s+{_NAME}", "`before` is no operator", r"write `\2 -> once \1`"),
    _phrase(rf"\b{_NAME}\s+only\s+if\s+{_NAME}", "`only if` is no operator", r"write `\1 -> once \2`"),
    _phrase(
        rf"\bnever\s+{_NAME}(?!\s*\()", "`never` is an operator with parentheses", r"write `always not \1`"
    ),
    _phrase(
        rf"\bcount\(\s*{_NAME}\s*\)\s*(<=|<|>=|>|==)\s*(\d{{1,4}})",
        "`count` is no operator of formulas",
        _counted,
    ),
    _phrase(
        rf"\b{_NAME}\s+at\s+most\s+(\d+)(?:\s+times)?",
        "`at most` is no operator",
        r"write `\1 -> at_most[\2] \1`",
    ),
    _phrase(
        rf"\bat\s+most\s+(\d+)\s+(?:times\s+)?{_NAME}",
        "`at most` is no operator",
        r"write `\2 -> at_most[\1] \2`",
    ),
    _phrase(
        rf"\b{_NAME}\s+(?:is\s+)?followed\s+by\s+{_NAME}",
        "`followed by` is no operator",
        r"write `\1 -> next eventually \2`",
    ),
    _phrase(
        rf"\bafter\s+{_NAME}\s*,\s*{_NAME}",
        "`after` is no operator",
        r"write `\1 -> next eventually \2` if \2 must follow, `\2 -> once \1` if \1 must come first",
    ),
    _phrase(
        rf"\b{_NAME}\s+(?:occurs\s+)?(at\s+least|exactly)\s+(\d{{1,4}}|once|twice)",
        "only an upper bound of a count has an operator",
        _so_often,
    ),
    _phrase(rf"\b{_NAME}\s+within\s+{_STEPS}", "`within` is no operator", r"write `eventually[0,\2] \1`"),
    _phrase(
        rf"\bwithin\s+{_TIME}|\[[^\]]*{_TIME}[^\]]*\]",
        "times and durations cannot be expressed yet",
        "count events instead, `eventually[0,3] p`; `steps:` names the events that count",
    ),
)
"""Phrases of formulas; the first that matches at the error counts."""

_FIELD = r"([A-Za-z_][\w.\[\]\"]*)"
_LIST = r"((?:[A-Za-z_]|\.)[\w.]*)"
_TEST = r"==|!=|[<>]=?|in\b|matches\b|contains\b|starts\s+with\b"
_QUANTIFIERS = {"any": "any", "some": "any", "exists": "any", "all": "all", "every": "all", "forall": "all"}


def _extreme(match: re.Match[str]) -> str:
    """Return how to write a comparison of the least or greatest element of a list."""
    extreme, path, element, sign, number = match.groups()
    any_element = (extreme == "max") == (sign in (">", ">="))
    return f"write `{'any' if any_element else 'all'}({path}, {element or '.'} {sign} {number})`"


PREDICATE = (
    _phrase(
        r"/((?:[^/\\]|\\.)*)/([imsx]+)\b",
        "flags are written inside a regular expression",
        r"write `/(?\2)\1/`",
    ),
    _phrase(
        rf"{_FIELD}\s+ends\s*_?with\s+\"([^\"]*)\"",
        "`ends with` is no test",
        lambda match: f"write `{match[1]} matches /{re.escape(match[2]).replace('/', chr(92) + '/')}$/`",
    ),
    _phrase(
        rf"{_FIELD}\s+contains\s*(/(?:[^/\\]|\\.)+/)",
        "`contains` takes a text",
        r"write `\1 matches \2`",
    ),
    _phrase(
        rf"{_FIELD}\s+starts\s+with\s*\[\s*\"([^\"]*)\"[^\]]*\]",
        "`starts with` takes one text",
        r'write `\1 starts with "\2" or \1 starts with ...`, or `\1 matches /^(?:one|two)/`',
    ),
    _phrase(
        rf"{_FIELD}\s+contains\s+(?:any|all|one)(?:\s+of)?\s*[\[(]\s*\"([^\"]*)\"[^\])]*[\])]",
        "`contains` takes one text",
        r'write `\1 contains "\2" or \1 contains ...`, or `\1 matches /one|two/`',
    ),
    _phrase(
        rf"{_FIELD}\s+contains\s*\[\s*\"([^\"]*)\"[^\]]*\]",
        "`contains` takes one text",
        r'write `\1 contains "\2" or \1 contains ...`, or `\1 matches /one|two/`',
    ),
    _phrase(
        rf"\b(any|all)\s*\(\s*{_LIST}\.(\w+)\s*({_TEST})",
        "a condition on the elements of a list comes after a comma",
        r"write `\1(\2, .\3 \4 ...)`",
    ),
    _phrase(
        rf"\b(any|all)\s*\(\s*{_LIST}\s*\)",
        "the condition on the elements of the list is missing",
        r"write `\1(\2, .price > 3)`",
    ),
    _phrase(
        rf"\b(any|all|some|every|exists|forall)\s*\(\s*(\w+)\s+(?:in|of)\s+{_LIST}\s*[,:]?",
        "an element of a list has no name",
        lambda match: f"write `{_QUANTIFIERS[match[1]]}({match[3]}, .price > 3)`; `.` is the element",
    ),
    _phrase(
        rf"\b(some|every|exists|forall)\s*\(\s*{_LIST}",
        "unknown function",
        lambda match: f"write `{_QUANTIFIERS[match[1]]}({match[2]}, .price > 3)`",
    ),
    _phrase(
        rf"\b(count|sum)\s*\(\s*{_LIST}\s*(==|!=|[<>]=?)\s*(-?\d+(?:\.\d+)?)\s*\)",
        "the number of a list is compared after the closing parenthesis",
        r"write `\1(\2) \3 \4`",
    ),
    _phrase(
        rf"\b(min|max)\s*\(\s*{_LIST}(?:\s*,\s*(\.\w+))?\s*\)\s*([<>]=?)\s*(-?\d+(?:\.\d+)?)",
        "the least and the greatest element of a list have no name",
        _extreme,
    ),
    _phrase(
        r"\b(?:min|max|avg|average|mean)\s*\(",
        "a list has a `count` and a `sum` only",
        "write `sum(args.items, .price) > 100`, or `any(args.items, .price > 100)` for the greatest",
    ),
    _phrase(
        rf"{_LIST}\[\s*\*?\s*\](?:\.(\w+))?(?:\s*({_TEST}))?",
        "`[*]` stands only in `any`, `all`, `sum` and after `in`",
        lambda match: f"write `any({match[1]}, .{match[2] or ''} {match[3] or '=='} ...)`",
    ),
    _phrase(
        r"\b(?:len|length|size)\s*\(\s*text\b",
        "the length of a text cannot be expressed yet",
        "`text matches /(?s)^.{500}/` is 500 characters or more",
    ),
    _phrase(
        rf"\b(?:len|length|size)\s*\(\s*{_LIST}\s*\)\s*(==|!=|[<>]=?)?\s*(\d+)?",
        "the elements of a list are counted with `count`",
        lambda match: f"write `count({match[1]}) {match[2] or '>'} {match[3] or 4}`",
    ),
    _phrase(
        rf"\b{_TIME}|\bnow\b|\btoday\b",
        "times and durations cannot be expressed yet",
        'dates that begin with the year compare as texts: `args.day < "2026-05-01"`',
    ),
    _phrase(
        r"[\w\])](?:\s+-\s+|\s*[+*%]\s*)\w",
        "there is no arithmetic in conditions, with numbers or with times",
        "only a list has a sum: `sum(args.items, .price) > 100`",
    ),
)
"""Phrases of conditions; the first that matches at the error counts."""
