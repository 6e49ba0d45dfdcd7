"""The limits of paths into JSON, and the steps that the engine cannot express."""

from __future__ import annotations

from collections.abc import Iterator

from .predicate import Path
from .problem import Problem

PATH_STEPS_MAX = 127
"""Steps of one path: the JSON reader accepts this many levels, and Polars parses paths by recursion."""

KEY_CHARS_MAX = 1_000
"""Characters of one key in a path; JSONPath takes quadratic time to read it."""

INDEX_MAX = 2**32
"""Array indices in JSON paths are below this."""


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
