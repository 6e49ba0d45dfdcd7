"""The limits of predicates and paths. This module imports no Polars, so that checking a pack is fast."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.predicate import Path, Predicate, Test
from ..model.problem import Problem
from .guards import leaves
from .regex_check import regex_problems

PATH_STEPS_MAX = 127
"""Steps of one path: the JSON reader accepts this many levels, and Polars parses paths by recursion."""

KEY_CHARS_MAX = 1_000
"""Characters of one key in a path; JSONPath takes quadratic time to read it."""

LEAVES_MAX = 500
"""Leaves of one proposition; Polars plans deeper expressions too slowly."""

LITERAL_CHARS_MAX = 4_096
"""Characters of one string operand."""

MEMBERS_MAX = 1_000
"""Literals of one `in` list."""

SLICE_PATHS_MAX = 50
"""Paths of one `for_each`; each becomes part of one expression."""

INDEX_MAX = 2**32
"""Array indices in JSON paths are below this."""


def problems(predicate: Predicate) -> Iterator[Problem]:
    """Yield everything in a predicate that the engine does not support, without places in the source."""
    yield from size_problems(predicate)
    for leaf in leaves(predicate):
        for path in leaf.paths:
            yield from path_problems(path)
        if leaf.test is Test.MATCHES:
            yield from regex_problems(str(leaf.operands[0]))


def size_problems(predicate: Predicate) -> Iterator[Problem]:
    """Yield the limits that a predicate exceeds."""
    count = sum(1 for _ in leaves(predicate))
    if count > LEAVES_MAX:
        hint = "ask for one of several values with `in [...]`, or make several propositions of it"
        yield Problem("TRL143", f"a proposition asks {count} questions, more than {LEAVES_MAX}", hint)
    compared = (leaf for leaf in leaves(predicate) if leaf.test is not Test.MATCHES)
    texts = (str(operand) for leaf in compared for operand in leaf.operands)
    if any(len(text) > LITERAL_CHARS_MAX for text in texts):
        hint = "compare with its beginning: `starts with`"
        yield Problem("TRL146", f"a string has more than {LITERAL_CHARS_MAX} characters", hint)
    longest = max((len(leaf.operands) for leaf in leaves(predicate)), default=0)
    if longest > MEMBERS_MAX:
        hint = "split the list over several propositions, joined by `or` in the formula"
        yield Problem("TRL144", f"an `in` list has {longest} literals, more than {MEMBERS_MAX}", hint)


def path_problems(path: Path) -> Iterator[Problem]:
    """Yield the steps that the engine's JSONPath cannot express, and the limits that the path exceeds."""
    if len(path.steps) > PATH_STEPS_MAX:
        hint = "JSON that nests deeper is not read: ask for something further out"
        yield Problem("TRL145", f"a path has {len(path.steps)} steps, more than {PATH_STEPS_MAX}", hint)
    keys = [step for step in path.steps if isinstance(step, str)]
    if any(len(key) > KEY_CHARS_MAX for key in keys):
        hint = "ask for the object around it, or rename the key where the events are made"
        yield Problem("TRL145", f"a key has more than {KEY_CHARS_MAX} characters", hint)
    if path.field != "attributes" and any(key.count("'") > 1 for key in keys):
        hint = "ask for the object around it, or rename the key where the events are made"
        yield Problem("TRL142", "a key with two apostrophes cannot be asked for", hint)
    if path.field != "attributes" and any(isinstance(step, str) and "\\" in step for step in path.steps):
        hint = "ask for the object around it, or rename the key where the events are made"
        yield Problem("TRL142", "a key with a backslash cannot be asked for", hint)
    if any(isinstance(step, int) and step >= INDEX_MAX for step in path.steps):
        yield Problem("TRL142", f"array indices end below {INDEX_MAX}", "write a smaller one")
