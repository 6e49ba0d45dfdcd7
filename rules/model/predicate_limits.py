"""The limits of predicates. This module imports no Polars, so that checking a pack is fast."""

from __future__ import annotations

from collections.abc import Iterator

from .path_limits import path_problems
from .predicate import (
    ELEMENT,
    Condition,
    Contained,
    Leaf,
    Measured,
    Predicate,
    Test,
    all_conditions,
    read_paths,
)
from .problem import Problem
from .regex_limits import regex_problems

LEAVES_MAX = 500
"""Leaves of one proposition; Polars plans deeper expressions too slowly."""

LITERAL_CHARS_MAX = 4_096
"""Characters of one string operand."""

MEMBERS_MAX = 1_000
"""Literals of one `in` list."""

SLICE_PATHS_MAX = 50
"""Paths of one `for_each`; each becomes part of one expression."""

LISTS_MAX = 5
"""Conditions on lists inside each other."""


def problems(predicate: Predicate) -> Iterator[Problem]:
    """Yield everything in a predicate that the engine does not support, without places in the source."""
    yield from size_problems(predicate)
    for lists, leaf in all_conditions(predicate):
        for path in read_paths(leaf):
            yield from path_problems(path)
        if not _fits(leaf, lists):
            hint = "write it in a condition on a list, with the element on the left of the comparison"
            yield Problem("TRL136", "an element outside a condition on a list, or another field inside", hint)
        if isinstance(leaf, Leaf) and leaf.test is Test.MATCHES:
            yield from regex_problems(str(leaf.operands[0]))


def size_problems(predicate: Predicate) -> Iterator[Problem]:
    """Yield the limits that a predicate exceeds."""
    found = list(all_conditions(predicate))
    count = len(found)
    if count > LEAVES_MAX:
        hint = "ask for one of several values with `in [...]`, or make several propositions of it"
        yield Problem("TRL143", f"a proposition asks {count} questions, more than {LEAVES_MAX}", hint)
    if max((lists for lists, _ in found), default=0) > LISTS_MAX:
        hint = "ask for something further out"
        yield Problem("TRL148", f"conditions on lists nest more than {LISTS_MAX} levels deep", hint)
    tested = [leaf for _, leaf in found if isinstance(leaf, Leaf | Measured)]
    compared = (leaf for leaf in tested if leaf.test is not Test.MATCHES)
    texts = (str(operand) for leaf in compared for operand in leaf.operands)
    if any(len(text) > LITERAL_CHARS_MAX for text in texts):
        hint = "compare with its beginning: `starts with`"
        yield Problem("TRL146", f"a string has more than {LITERAL_CHARS_MAX} characters", hint)
    longest = max((len(leaf.operands) for leaf in tested), default=0)
    if longest > MEMBERS_MAX:
        hint = "split the list over several propositions, joined by `or` in the formula"
        yield Problem("TRL144", f"an `in` list has {longest} literals, more than {MEMBERS_MAX}", hint)


def _fits(leaf: Condition, lists: int) -> bool:
    """Return whether the condition reads elements inside a condition on a list, and only there."""
    of_elements = [path.field == ELEMENT for path in read_paths(leaf)]
    if not lists:
        return not any(of_elements)
    if isinstance(leaf, Contained):
        is_value, is_list = of_elements
        return is_list or (is_value and lists == 1)
    return of_elements[0]
