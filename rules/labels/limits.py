"""What the language can write and its engine cannot do. Imports no Polars: checking a pack is to be fast."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.predicate import Path, Predicate, Test
from ..model.problem import Problem
from .guards import leaves

REGEX_CHARS_MAX = 4_096
"""Characters of one regular expression; what it compiles to is limited to 10 MiB by the engine."""

PATH_STEPS_MAX = 127
"""Steps of one path: JSON is read with so many levels, and Polars parses paths by recursion."""

KEY_CHARS_MAX = 1_000
"""Characters of one key in a path; what JSONPath takes to read it grows with their square."""

LEAVES_MAX = 500
"""Questions of one proposition; Polars' expressions of more nest too deeply to be planned in good time."""

LITERAL_CHARS_MAX = 4_096
"""Characters of one string that values are compared with or searched for."""

MEMBERS_MAX = 1_000
"""Literals of one `in` list."""

SLICE_PATHS_MAX = 50
"""Paths of one `for_each`; each becomes part of one expression."""

INDEX_MAX = 2**32
"""Array indices in JSON paths are below this."""


def problems(predicate: Predicate) -> Iterator[Problem]:
    """Everything in a predicate that the engine cannot do; places are left out."""
    yield from size_problems(predicate)
    for leaf in leaves(predicate):
        yield from path_problems(leaf.path)
        if leaf.test is Test.MATCHES:
            yield from regex_problems(str(leaf.operands[0]))


def size_problems(predicate: Predicate) -> Iterator[Problem]:
    """Yield what makes a predicate larger than the engine can plan."""
    count = sum(1 for _ in leaves(predicate))
    if count > LEAVES_MAX:
        hint = "ask for one of several values with `in [...]`, or make several propositions of it"
        yield Problem("TRL143", f"a proposition asks {count} questions, more than {LEAVES_MAX}", hint)
    texts = (str(one) for leaf in leaves(predicate) if leaf.test is not Test.MATCHES for one in leaf.operands)
    if any(len(text) > LITERAL_CHARS_MAX for text in texts):
        hint = "compare with its beginning: `starts with`"
        yield Problem("TRL146", f"a string has more than {LITERAL_CHARS_MAX} characters", hint)
    longest = max((len(leaf.operands) for leaf in leaves(predicate)), default=0)
    if longest > MEMBERS_MAX:
        hint = "split the list over several propositions, joined by `or` in the formula"
        yield Problem("TRL144", f"an `in` list has {longest} literals, more than {MEMBERS_MAX}", hint)


def path_problems(path: Path) -> Iterator[Problem]:
    """Steps that the engine's JSONPath has no spelling for, or that are too many."""
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


def regex_problems(pattern: str) -> Iterator[Problem]:
    """Why the engine would refuse the regular expression.

    Polars and pydantic both use Rust's `regex` crate with its default limits, and pydantic is loaded already
    where packs are read.
    """
    if len(pattern) > REGEX_CHARS_MAX:
        message = f"the regular expression has {len(pattern)} characters, more than {REGEX_CHARS_MAX}"
        yield Problem("TRL141", message, "split it into several questions joined by `or`")
        return
    # Formulas are parsed without it, by commands that start fast.
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
