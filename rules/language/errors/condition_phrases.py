"""Phrases of other languages in conditions, and how to write them."""

from __future__ import annotations

import re

from .phrase import TIME, phrase

_FIELD = r"((?!(?:not|and|or|in|is)\b)[A-Za-z_][\w.\[\]\"]*)"

_HEAD = r"(?<![<>=!]\s)(?<![<>=!])"
"""No comparison is before."""
_VALUE = r'("(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?)'
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=", "=": "=="}


def _quoted(word: str) -> str:
    """Return a word as a literal."""
    return word if word in ("true", "false") else f'"{word}"'


def _equal(match: re.Match[str]) -> str:
    """Return how to write that a value is a word or number."""
    field, negated, word, literal = match.groups()
    right = f"{'!=' if negated else '=='} {literal or _quoted(word)}"
    return f"write `{field} {right}`; `is null` tests for no value"


def _between(match: re.Match[str]) -> str:
    """Return how to write that a value is between two others."""
    low, least, path, most, high = match.groups()
    return f"write `{path} {_FLIPPED[least]} {low} and {path} {most} {high}`"


def _tested(match: re.Match[str]) -> str:
    """Return how to write a method of a text."""
    path, name, value = match.groups()
    if name in ("contains", "includes"):
        return f"write `{path} contains {value}`"
    if name in ("startswith", "starts_with", "startsWith"):
        return f"write `{path} starts with {value}`"
    if name in ("lower", "upper", "casefold", "toLowerCase", "strip"):
        return f"write `{path} matches /(?i)yes/`, which ignores case"
    pattern = f"{re.escape(value.strip(chr(34)))}$" if value and name.startswith("ends") else "yes"
    return f"write `{path} matches /{pattern}/`"


PREDICATE = (
    phrase(
        rf"{_FIELD}\.(contains|includes|startswith|starts_with|startsWith|endswith|ends_with|endsWith|lower|upper"
        rf"|casefold|toLowerCase|strip|match|matches)\s*\(\s*{_VALUE}?",
        "a text has no methods",
        _tested,
    ),
    phrase(
        rf"{_VALUE}\s*(<=?)\s*{_FIELD}\s*(<=?)\s*{_VALUE}",
        "comparisons cannot be chained",
        _between,
        code="TRL109",
    ),
    phrase(
        rf"{_HEAD}{_VALUE}\s*(==|!=|[<>]=?|=)\s*{_FIELD}(?!\s*\()",
        "a condition starts with its field",
        lambda match: f"write `{match[3]} {_FLIPPED[match[2]]} {match[1]}`",
        code="TRL109",
    ),
    phrase(
        rf"{_FIELD}\s+between\s+{_VALUE}\s+and\s+{_VALUE}",
        "`between` is no test",
        r"write `\1 >= \2 and \1 <= \3`",
    ),
    phrase(
        rf"{_FIELD}\s*==\s*{_VALUE}\s+or\s+{_VALUE}(?!\s*(?:==|!=|[<>]|in\b))",
        "the field is missing after `or`",
        r"write `\1 in [\2, \3]`",
        code="TRL109",
    ),
    phrase(
        rf"{_FIELD}\s+in\s*[({{]\s*({_VALUE}(?:\s*,\s*{_VALUE})*)\s*[)}}]",
        "a list stands in square brackets",
        r"write `\1 in [\2]`",
        code="TRL109",
    ),
    phrase(
        rf"{_FIELD}\s+(not\s+|)in\s+{_VALUE}",
        "`in` takes a list",
        r"write `\1 \2in [\3]`",
        code="TRL109",
    ),
    phrase(
        rf"\b(?:exists|has|defined)\s*\(\s*{_FIELD}\s*\)",
        "that there is a value is written with `is not null`",
        r"write `\1 is not null`",
    ),
    phrase(
        rf"{_FIELD}\s+(?:exists|is\s+(?:present|defined|set|not\s+empty|not\s+none|not\s+nil))\b",
        "that there is a value is written with `is not null`",
        r"write `\1 is not null`",
    ),
    phrase(
        rf"{_FIELD}\s+is\s+(?:empty|missing|absent|none|nil)\b",
        "that there is no value is written with `is null`",
        r'write `\1 is null`; `\1 == ""` is an empty text, `count(\1) == 0` an empty list',
    ),
    phrase(
        rf"{_FIELD}\s+is\s+(not\s+)?({_VALUE}|\w+)(?!\s*\()",
        "`is` only tests for null",
        _equal,
        code="TRL109",
    ),
    phrase(
        r"\b(?:if|when|whenever)\s+(.{1,300}?)\s*(?:,|\bthen\b)\s*(.{1,300}?)$",
        "a condition has no `if`",
        r"write `not (\1) or \2`; `if ... then` about the order of events is a formula, `p -> q`",
    ),
    phrase(
        r"/((?:[^/\\]|\\.)*)/([imsx]+)\b",
        "flags are written inside a regular expression",
        r"write `/(?\2)\1/`",
    ),
    phrase(
        rf"{_FIELD}\s+ends\s*_?with\s+\"([^\"]*)\"",
        "`ends with` is no test",
        lambda match: f"write `{match[1]} matches /{re.escape(match[2]).replace('/', chr(92) + '/')}$/`",
    ),
    phrase(
        rf"{_FIELD}\s+contains\s*(/(?:[^/\\]|\\.)+/)",
        "`contains` takes a text",
        r"write `\1 matches \2`",
    ),
    phrase(
        rf"{_FIELD}\s+starts\s+with\s*\[\s*\"([^\"]*)\"[^\]]*\]",
        "`starts with` takes one text",
        r'write `\1 starts with "\2" or \1 starts with ...`, or `\1 matches /^(?:one|two)/`',
    ),
    phrase(
        rf"{_FIELD}\s+contains\s+(?:any|all|one)(?:\s+of)?\s*[\[(]\s*\"([^\"]*)\"[^\])]*[\])]",
        "`contains` takes one text",
        r'write `\1 contains "\2" or \1 contains ...`, or `\1 matches /one|two/`',
    ),
    phrase(
        rf"{_FIELD}\s+contains\s*\[\s*\"([^\"]*)\"[^\]]*\]",
        "`contains` takes one text",
        r'write `\1 contains "\2" or \1 contains ...`, or `\1 matches /one|two/`',
    ),
    phrase(
        r"\b(?:len|length|size)\s*\(\s*text\b",
        "the length of a text cannot be expressed yet",
        "`text matches /(?s)^.{500}/` is 500 characters or more",
    ),
    phrase(
        rf"\b{TIME}|\bnow\b|\btoday\b",
        "times and durations cannot be expressed yet",
        'dates that begin with the year compare as texts: `args.day < "2026-05-01"`',
    ),
    phrase(
        r"[\w\])](?:\s+-\s+|\s*[+*%]\s*)\w",
        "there is no arithmetic in conditions, with numbers or with times",
        "only a list has a sum: `sum(args.items, .price) > 100`",
    ),
)
"""Phrases of conditions; the first that matches at the error counts."""
