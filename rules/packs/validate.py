"""What a pack's document holds as far as it has the right shape, and what is wrong with that shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import ValidationError

from ...schemas.verdict import Recover, Severity
from ..model.problem import Location, Problem, did_you_mean
from .pack_file import (
    VERSION_MAX,
    ExamplesEntry,
    Model,
    PackFile,
    RuleEntry,
    field_names,
    read_fields,
    required_names,
)
from .yaml_document import Data, Document, MappingNode, data

KeyPath = tuple[str | int, ...]
"""Keys and indices from a document's root to a value."""


@dataclass(frozen=True, slots=True)
class ValidatedRule:
    """One rule of the file: its `index` in the list, and its fields but for those that are wrong.

    Where a field that a rule must have is missing or wrong, it stands in `lacks` and `fields` has a stand-in.
    """

    index: int
    fields: RuleEntry
    missing: frozenset[str]


@dataclass(frozen=True, slots=True)
class ValidatedPack:
    """A pack file as far as it has the right shape: its name, if that is one, and its rules.

    What was wrong is left out of both and stands in `problems`.
    """

    name: str | None
    rules: tuple[ValidatedRule, ...]
    problems: tuple[Problem, ...]


def entries(document: Document) -> ValidatedPack:
    """Return what the document holds, and every problem of its shape (TRL210 to TRL240)."""
    values = data(document.root)
    if not isinstance(values, dict):
        error = {"type": "dict_type", "loc": (), "input": values}
        return ValidatedPack(None, (), (_problem(document, error),))
    problems: dict[Problem, None] = {}
    rules = values.pop("rules", None)
    if not isinstance(rules, list | None):
        problems[_problem(document, {"type": "list_type", "loc": ("rules",), "input": rules})] = None
        rules = None
    head = _validated(document, PackFile, values, (), problems)
    found: list[ValidatedRule] = []
    for i, rule in enumerate(rules or []):
        read = _validated(document, RuleEntry, rule, ("rules", i), problems)
        found += [] if read is None else [ValidatedRule(i, *read)]
    name = head[0].pack if head and "pack" not in head[1] else None
    return ValidatedPack(name, tuple(found), tuple(problems))


def _validated(
    document: Document, model: type[Model], values: Data, at: KeyPath, problems: dict[Problem, None]
) -> tuple[Model, frozenset[str]] | None:
    """The values as that model without what is wrong in them, and the required fields that it lacks.

    None where the values are no mapping.
    """
    try:
        return read_fields(model, values), frozenset()
    except ValidationError as error:
        errors = error.errors(include_url=False)
    for error in errors:
        path: KeyPath = error["loc"]
        problems[_problem(document, {**error, "loc": (*at, *path)})] = None
        if isinstance(values, dict) and path:
            _drop(values, str(path[0]), path[1:])
    if not isinstance(values, dict):
        return None
    missing = required_names(model) - values.keys()
    return read_fields(model, {**values, **dict.fromkeys(missing, PLACEHOLDER)}), missing


PLACEHOLDER = "unnamed"
"""Stands for a missing name or expression, so that the rest of a pack or rule can be looked at."""

SECTIONS = frozenset({"propositions", "operators", "transitions", "examples", "severities"})
"""The fields that are mappings: of these the wrong entry is left out, of any other the whole field."""


def _drop(values: dict[str, Data], key: str, inner: KeyPath) -> None:
    """Take out what is at fault."""
    section = values.get(key)
    if key in SECTIONS and isinstance(section, dict) and inner:
        section.pop(str(inner[0]), None)
    else:
        values.pop(key, None)


# ---- what is wrong, in words


def _problem(document: Document, error: Mapping[str, Any]) -> Problem:
    """One fault that pydantic found, as a problem of ours."""
    path: KeyPath = error["loc"]
    for i, part in enumerate(path):
        if i >= 2 and part in SHAPES:
            return Problem(*SHAPES[str(part)], _location(document, path[: i + 1]))
    match error["type"]:
        case "missing":
            message, hint = f"{_owner(path)} has no `{path[-1]}`", f"add `{path[-1]}: ...`"
            return Problem("TRL210", message, hint, _location(document, path[:-1]))
        case "extra_forbidden":
            message, hint = (
                f"{_owner(path)} has no field `{path[-1]}`",
                did_you_mean(str(path[-1]), _fields(path)),
            )
            return Problem("TRL211", message, hint, _key_location(document, path))
        case kind:
            code, message, hint = _value_error(kind, path, error["input"])
            return Problem(code, message, hint, _location(document, path))


def _value_error(kind: str, path: KeyPath, given: object) -> tuple[str, str, str]:
    """The code, message and hint of a value that is not what its field takes."""
    written = f"`{given}`" if isinstance(given, str | int) else None
    if kind == "string_pattern_mismatch":
        hint = "begin with a letter or digit, then letters, digits, `-`, `_` and `.`, at most 100 in all"
        return "TRL214", f"{written} cannot be the name of a pack or rule", hint
    if kind == "enum" and written:
        field = "severity" if path[0] == "severities" else path[-1]
        choices = ", ".join(f"`{value.value}`" for value in (Severity if field == "severity" else Recover))
        return "TRL213", f"{written} is no `{field}`", f"write one of {choices}"
    if path[-1:] == ("version",):
        message = f"{written} is no version" if written else f"`version` is {_yaml_kind(given)}"
        return "TRL212", message, f"write a whole number from 1 to {VERSION_MAX}"
    return (
        "TRL212",
        f"{_subject(path)} is {_yaml_kind(given)}",
        HINTS.get(kind, "write one of the field's words"),
    )


SHAPES = {
    "for_each": (
        "TRL234",
        "`for_each` is no path, list of paths or tuple of paths",
        "write such as `args.order_id`, the first present of `[args.order_id, args.id]`, or `[[tool, args]]`",
    ),
    **dict.fromkeys(
        ("violated", "holds"),
        (
            "TRL240",
            "an example is a session: a list of steps, each the list of what is true at it",
            "write one as `[[], [a]]`; several sessions are a list of those, `[[[], [a]], [[b]]]`",
        ),
    ),
}
"""The fields that have several shapes: the code, message and hint of any other."""

HINTS = {
    "string_type": "write a text",
    "list_type": "write a list, each entry after `- `",
    "dict_type": "write `name: value` lines, indented",
}
"""What to write instead, by the type of pydantic's fault."""


def _yaml_kind(value: object) -> str:
    """Return what sort of value it is, in the words of YAML."""
    if value is None:
        return "empty"
    return (
        "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "a single value"
    )


def _subject(path: KeyPath) -> str:
    """The value at that way, as the subject of a sentence."""
    named = [part for part in path if isinstance(part, str)]
    if not path:
        return "the pack"
    return f"`{named[-1]}`" if named[-1] == path[-1] else f"an entry of `{named[-1]}`"


def _owner(path: KeyPath) -> str:
    """Return what lacks, or has too much of, the field at that way's end."""
    return "the pack" if len(path) == 1 else "the rule" if len(path) == 3 else f"`{path[-2]}`"


def _fields(path: KeyPath) -> Iterable[str]:
    """The fields that could stand where that way ends."""
    models: dict[int, type[Any]] = {1: PackFile, 3: RuleEntry}
    return field_names(models.get(len(path), ExamplesEntry))


def _location(document: Document, path: KeyPath) -> Location:
    """The place of the value at that way; of a mapping, its first key; of nothing, its key."""
    node = document.at(path)
    if isinstance(node, MappingNode) and node.entries:
        return document.location(node.entries[0][0])
    return document.location(node) if node.end > node.start else _key_location(document, path)


def _key_location(document: Document, path: KeyPath) -> Location:
    """The place of the key at that way's end."""
    node = document.at(path[:-1])
    key = node.key(str(path[-1])) if isinstance(node, MappingNode) and path else None
    return document.location(key or node)
