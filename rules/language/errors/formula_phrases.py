"""Phrases of policies in formulas, and how to write them."""

from __future__ import annotations

import re

from ...model.keywords import RESERVED
from .phrase import TIME, phrase

_NAME = rf"(?!(?:{'|'.join(sorted(RESERVED))})\b)([A-Za-z_]\w*)"
_STEPS = r"(\d+)\s+(?:events?|messages?|steps?|turns?)\b"

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


_PART = r"((?:[^()]|\([^()]{0,300}\)){1,300}?)"
"""A part of a formula, with at most one level of parentheses."""

FORMULA = (
    phrase(
        rf"\b(?:if|when|whenever)\s+{_PART}\s*(?:,|\bthen\b)\s*{_PART}\s+(?:else|otherwise)\s+{_PART}(?=\)|$)",
        "`if ... then ... else` is no operator",
        r"write `(\1 -> \2) and (not (\1) -> \3)`",
    ),
    phrase(
        rf"\b(?:if|when|whenever)\s+{_PART}\s*(?:,|\bthen\b)\s*{_PART}(?=\)|$)",
        "`if ... then` is no operator",
        r"write `\1 -> \2`",
    ),
    phrase(
        rf"\b{_NAME}\[\s*-\s*\d+\s*\]",
        "a formula names propositions, and these have no index",
        r"define one on a list under `propositions:`, `p: any(args.\1, .price > 3)`; the last has no name",
    ),
    phrase(
        rf"\bcount\(\s*{_NAME}\s+(?:starts|contains|matches|in|is|where|with)\b[^)]*\)",
        "a formula counts events; the elements of a list are counted in a proposition",
        r"under `propositions:` write `many: count(args.\1, . contains ...) > 2`; "
        "of events, `p -> at_most[2] p`",
    ),
    phrase(
        rf"\bnever\s+{_NAME}\s+after\s+{_NAME}",
        "`never ... after` is no operator",
        r"write `\1 -> not once \2`",
    ),
    phrase(
        rf"\b(?:no|not)\s+{_NAME}\s+before\s+{_NAME}", "`before` is no operator", r"write `\1 -> once \2`"
    ),
    phrase(
        rf"\b{_NAME}\s+(?:only\s+)?after\s+{_NAME}",
        "`after` is no operator",
        r"write `\1 -> once \2` if \2 must come first, `always (\2 -> eventually \1)` if \1 must follow",
    ),
    phrase(rf"\b{_NAME}\s+before\s+{_NAME}", "`before` is no operator", r"write `\2 -> once \1`"),
    phrase(rf"\b{_NAME}\s+only\s+if\s+{_NAME}", "`only if` is no operator", r"write `\1 -> once \2`"),
    phrase(
        rf"\bnever\s+{_NAME}(?!\s*\()", "`never` is an operator with parentheses", r"write `always not \1`"
    ),
    phrase(
        rf"\bcount\(\s*{_NAME}\s*\)\s*(<=|<|>=|>|==)\s*(\d{{1,4}})",
        "`count` is no operator of formulas",
        _counted,
    ),
    phrase(
        rf"\b{_NAME}\s+at\s+most\s+(\d+)(?:\s+times)?",
        "`at most` is no operator",
        r"write `\1 -> at_most[\2] \1`",
    ),
    phrase(
        rf"\bat\s+most\s+(\d+)\s+(?:times\s+)?{_NAME}",
        "`at most` is no operator",
        r"write `\2 -> at_most[\1] \2`",
    ),
    phrase(
        rf"\b{_NAME}\s+(?:is\s+)?followed\s+by\s+{_NAME}",
        "`followed by` is no operator",
        r"write `\1 -> next eventually \2`",
    ),
    phrase(
        rf"\bafter\s+{_NAME}\s*,\s*{_NAME}",
        "`after` is no operator",
        r"write `\1 -> next eventually \2` if \2 must follow, `\2 -> once \1` if \1 must come first",
    ),
    phrase(
        rf"\b{_NAME}\s+(?:occurs\s+)?(at\s+least|exactly)\s+(\d{{1,4}}|once|twice)",
        "only an upper bound of a count has an operator",
        _so_often,
    ),
    phrase(rf"\b{_NAME}\s+within\s+{_STEPS}", "`within` is no operator", r"write `eventually[0,\2] \1`"),
    phrase(
        rf"\bwithin\s+{TIME}|\[[^\]]*{TIME}[^\]]*\]",
        "times and durations cannot be expressed yet",
        "count events instead, `eventually[0,3] p`; `steps:` names the events that count",
    ),
)
"""Phrases of formulas; the first that matches at the error counts."""
