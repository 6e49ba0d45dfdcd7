"""Phrases about lists in conditions, and how to write them."""

from __future__ import annotations

import re

from .phrase import phrase

_LIST = r"((?!(?:not|and|or|in|is)\b)(?:[A-Za-z_]|\.)[\w.]*)"
_TEST = r"==|!=|[<>]=?|in\b|matches\b|contains\b|starts\s+with\b"
_WORD_TEST = r"in\b|matches\b|contains\b|starts\s+with\b|is\b"
_QUANTIFIERS = {"any": "any", "some": "any", "exists": "any", "all": "all", "every": "all", "forall": "all"}


def _extreme(match: re.Match[str]) -> str:
    """Return how to write a comparison of the least or greatest element of a list."""
    extreme, path, element, sign, number = match.groups()
    any_element = (extreme == "max") == (sign in (">", ">="))
    return f"write `{'any' if any_element else 'all'}({path}, {element or '.'} {sign} {number})`"


def _whole(path: str) -> str:
    """Return the path of a list, with a field where it has none."""
    return path if path.split(".")[0] in ("args", "result", "") else f"args.{path}"


def _looked_up(match: re.Match[str]) -> str:
    """Return how to look a value up in the elements of a list."""
    left, negated, path, element = match.groups()
    each = f"[*]{element}" if element and element != "." else ""
    return f"write `{left or 'args.id'} {'not ' if negated else ''}in {path}{each}`"


def _method(match: re.Match[str]) -> str:
    """Return how to write a method of a list."""
    path, name = match[1], match[2]
    quantifier = _QUANTIFIERS.get(name, "sum" if name == "sum" else "count")
    condition = ", .price > 3" if quantifier in ("any", "all") else ", .price" if name == "sum" else ""
    compared = "" if quantifier in ("any", "all") else " > 3"
    return f"write `{quantifier}({path}{condition}){compared}`"


LISTS = (
    phrase(
        rf"(?:{_LIST}\s+)?(not\s+)?\bin\s+(?:any|all|some)\s*\(\s*{_LIST}(?:\s*,\s*(\.\w*))?\s*\)",
        "a value is looked up in the list itself",
        _looked_up,
    ),
    phrase(
        rf'("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)\s+(not\s+)?in\s+{_LIST}(?![\w(])',
        "a literal stands on the right of a comparison",
        lambda match: f"write `{'not ' if match[2] else ''}any({match[3]}, . == {match[1]})`",
        code="TRL109",
    ),
    phrase(
        rf"{_LIST}\[\s*-\s*\d+\s*\]",
        "the last elements of a list cannot be named",
        r"an index counts from the beginning, as in `\1[0]`; `any(\1, .price > 3)` is about every element",
    ),
    phrase(
        rf"\b(any|all|count)\s*\(\s*{_LIST}\s+(?:where|with|if|having|that|:|\|)\s*\.?(\w+)\s*({_TEST})",
        "a condition on the elements of a list comes after a comma",
        lambda match: (
            f"write `{match[1]}({match[2]}, .{match[3]} {match[4]} ...)`"
            + ("; a count is compared, `... > 2`" if match[1] == "count" else "")
        ),
    ),
    phrase(
        rf"\bcount\s*\(\s*{_LIST}\s+((?:not\s+)?(?:{_WORD_TEST}))\s*([^)]*)\)",
        "`count` counts elements, and its condition comes after a comma",
        lambda match: f"write `count({_whole(match[1])}, . {match[2]} {match[3].strip() or '...'}) > 2`",
    ),
    phrase(
        rf"{_LIST}\.(any|all|some|every|count|sum|length|len|size)\s*\(",
        "a list has no methods",
        _method,
    ),
    phrase(
        rf"\b(any|all|some|every|each)\s+(?:of\s+|in\s+)?{_LIST}\s+(?:have|has)?\s*(\.\w+)\s*({_TEST})",
        "a condition on the elements of a list has parentheses",
        lambda match: f"write `{_QUANTIFIERS.get(match[1], 'all')}({match[2]}, {match[3]} {match[4]} ...)`",
    ),
    phrase(
        rf"\b(any|all)\s*\(\s*{_LIST}\.(\w+)\s*({_TEST})",
        "a condition on the elements of a list comes after a comma",
        r"write `\1(\2, .\3 \4 ...)`",
    ),
    phrase(
        rf"\b(any|all)\s*\(\s*{_LIST}\s*\)",
        "the condition on the elements of the list is missing",
        r"write `\1(\2, .price > 3)`",
    ),
    phrase(
        rf"\b(any|all|some|every|exists|forall)\s*\(\s*(\w+)\s+(?:in|of)\s+{_LIST}\s*[,:]?",
        "an element of a list has no name",
        lambda match: f"write `{_QUANTIFIERS[match[1]]}({match[3]}, .price > 3)`; `.` is the element",
    ),
    phrase(
        rf"\b(some|every|exists|forall)\s*\(\s*{_LIST}(?!\s*\)|[\w.])",
        "unknown function",
        lambda match: f"write `{_QUANTIFIERS[match[1]]}({match[2]}, .price > 3)`",
    ),
    phrase(
        rf"\b(count|sum)\s*\(\s*{_LIST}\s*(==|!=|[<>]=?)\s*(-?\d+(?:\.\d+)?)\s*\)",
        "the number of a list is compared after the closing parenthesis",
        r"write `\1(\2) \3 \4`",
    ),
    phrase(
        rf"\b(min|max)\s*\(\s*{_LIST}(?:\s*,\s*(\.\w+))?\s*\)\s*([<>]=?)\s*(-?\d+(?:\.\d+)?)",
        "the least and the greatest element of a list have no name",
        _extreme,
    ),
    phrase(
        r"\b(?:min|max|avg|average|mean)\s*\(",
        "a list has a `count` and a `sum` only",
        "write `sum(args.items, .price) > 100`, or `any(args.items, .price > 100)` for the greatest",
    ),
    phrase(
        rf"{_LIST}\[\s*\*?\s*\](?:\.(\w+))?(?:\s*({_TEST}))?",
        "`[*]` stands only in `any`, `all`, `sum` and after `in`",
        lambda match: f"write `any({match[1]}, .{match[2] or ''} {match[3] or '=='} ...)`",
    ),
    phrase(
        rf"\b(?:len|length|size)\s*\(\s*(?!text\b){_LIST}\s*\)\s*(==|!=|[<>]=?)?\s*(\d+)?",
        "the elements of a list are counted with `count`",
        lambda match: f"write `count({match[1]}) {match[2] or '>'} {match[3] or 4}`",
    ),
)
"""Phrases about lists; the first that matches at the error counts."""
