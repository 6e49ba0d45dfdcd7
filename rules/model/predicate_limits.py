"""The limits of predicates and paths. This module imports no Polars, so that checking a pack is fast."""

from __future__ import annotations

from collections.abc import Iterator

from .predicate import (
    ELEMENT,
    Condition,
    Contained,
    Leaf,
    Measured,
    Path,
    Predicate,
    Test,
    all_conditions,
    read_paths,
)
from .problem import Problem

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

LISTS_MAX = 5
"""Conditions on lists inside each other."""

REGEX_CHARS_MAX = 4_096
"""Characters of one regular expression; the engine limits its compiled form to 10 MiB."""


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


def _fits(leaf: Condition, lists: int) -> bool:
    """Return whether the condition reads elements inside a condition on a list, and only there."""
    of_elements = [path.field == ELEMENT for path in read_paths(leaf)]
    if not lists:
        return not any(of_elements)
    if isinstance(leaf, Contained):
        is_value, is_list = of_elements
        return is_list or (is_value and lists == 1)
    return of_elements[0]


def regex_problems(pattern: str) -> Iterator[Problem]:
    """Yield the reason why the engine would reject the regular expression.

    Polars and pydantic both use Rust's `regex` crate with its default limits, and the reader of packs has
    loaded pydantic already.
    """
    if len(pattern) > REGEX_CHARS_MAX:
        message = f"the regular expression has {len(pattern)} characters, more than {REGEX_CHARS_MAX}"
        yield Problem("TRL141", message, "split it into several questions joined by `or`")
        return
    # Commands that only parse formulas do not need pydantic, and start faster without it.
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        reason = str(error).rsplit("error: ", 1)[-1].strip()
        if "exceeds size limit" in reason:
            message = "the regular expression compiles to more than 10 MiB"
            yield Problem("TRL141", message, "repeat fewer times, or split it")
            return
        hint = "the syntax is that of Rust's regex crate: no look-around, no back-references"
        yield Problem("TRL140", f"this is no regular expression here: {reason}", hint)
