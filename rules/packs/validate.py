"""Validation of a pack's document against the fields of `pack_file.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import ValidationError

from ...schemas.verdict import Recover, Severity
from ..model.problem import Location, Problem, did_you_mean
from .pack_file import (
    PROPOSITION_FIELDS,
    VERSION_MAX,
    ExamplesEntry,
    Model,
    PackFile,
    PrecisionEntry,
    PredictEntry,
    RuleEntry,
    field_names,
    read_fields,
    read_proposition,
    required_names,
)
from .yaml.document import Data, Document, MappingNode, data

KeyPath = tuple[str | int, ...]
"""The keys and indices from a document's root to a value."""


@dataclass(frozen=True, slots=True)
class ValidatedRule:
    """One rule of the file: its `index` in the list and its valid fields.

    A required field that is missing or invalid is in `missing`, and `fields` has a placeholder for it.
    """

    index: int
    fields: RuleEntry
    missing: frozenset[str]


@dataclass(frozen=True, slots=True)
class ValidatedPack:
    """The valid part of a pack file: its name, if that is valid, and its rules.

    What is invalid is left out and reported in `problems`.
    """

    name: str | None
    rules: tuple[ValidatedRule, ...]
    problems: tuple[Problem, ...]


def validate(document: Document) -> ValidatedPack:
    """Return the valid part of a document and every problem of its structure (TRL210 to TRL240)."""
    values = data(document.root)
    if not isinstance(values, dict):
        error = {"type": "dict_type", "loc": (), "input": values}
        return ValidatedPack(None, (), (_problem(document, error),))
    problems: dict[Problem, None] = {}
    rules = values.pop("rules", None)
    if not isinstance(rules, (list, type(None))):
        problems[_problem(document, {"type": "list_type", "loc": ("rules",), "input": rules})] = None
        rules = None
    _take_conditions(document, values, problems)
    head = _validated(document, PackFile, values, (), problems)
    found: list[ValidatedRule] = []
    for i, rule in enumerate(rules or []):
        read = _validated(document, RuleEntry, rule, ("rules", i), problems)
        found += [] if read is None else [ValidatedRule(i, *read)]
    name = head[0].pack if head and "pack" not in head[1] else None
    return ValidatedPack(name, tuple(found), tuple(problems))


def _take_conditions(document: Document, values: dict[str, Data], problems: dict[Problem, None]) -> None:
    """Replace propositions with examples by their conditions, and add the problems of these mappings."""
    section = values.get("propositions")
    for name, value in section.items() if isinstance(section, dict) else ():
        if not isinstance(value, dict):
            continue
        assert isinstance(section, dict), "a proposition is in a section"
        section[name] = PLACEHOLDER
        try:
            read_proposition(value)
        except ValidationError as error:
            for found in error.errors(include_url=False):
                path = ("propositions", name, *found["loc"])
                problems[_problem(document, {**found, "loc": path})] = None


def _validated(
    document: Document, model: type[Model], values: Data, at: KeyPath, problems: dict[Problem, None]
) -> tuple[Model, frozenset[str]] | None:
    """Return the values as that model without the invalid ones, and the required fields that are missing.

    Return None if the values are not a mapping.
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
"""The value of a missing name or expression, with which the rest of a pack or rule can be checked."""

SECTIONS = frozenset({"propositions", "operators", "transitions", "examples", "severities"})
"""The fields that are mappings: one invalid entry is left out; of any other field the whole value is."""


def _drop(values: dict[str, Data], key: str, inner: KeyPath) -> None:
    """Remove the invalid value."""
    section = values.get(key)
    if key in SECTIONS and isinstance(section, dict) and inner:
        section.pop(str(inner[0]), None)
    else:
        values.pop(key, None)


# ---- messages


def _problem(document: Document, error: Mapping[str, Any]) -> Problem:
    """Convert an error of pydantic to a problem."""
    path: KeyPath = error["loc"]
    for i, part in enumerate(path):
        if (i >= 2 or part == "use") and i != 1 and part in SHAPES:
            return Problem(*SHAPES[str(part)], _location(document, path[: i + 1]))
    if _is_proposition_example(path):
        return Problem(*PROPOSITION_SHAPE, _location(document, path[:4]))
    match error["type"]:
        case "missing":
            message, hint = f"missing field `{path[-1]}` in {_owner(path)}", f"add `{path[-1]}: ...`"
            return Problem("TRL210", message, hint, _location(document, path[:-1]))
        case "extra_forbidden":
            message = f"unknown field `{path[-1]}` in {_owner(path)}"
            hint = did_you_mean(str(path[-1]), _fields(path))
            return Problem("TRL211", message, hint, _key_location(document, path))
        case kind:
            code, message, hint = _value_error(kind, path, error["input"])
            return Problem(code, message, hint, _location(document, path))


def _value_error(kind: str, path: KeyPath, given: object) -> tuple[str, str, str]:
    """Return the code, message and hint of a value that its field does not accept."""
    written = f"`{given}`" if isinstance(given, str | int) else None
    if kind == "string_pattern_mismatch":
        hint = "start with a letter or digit, then use letters, digits, `-`, `_` and `.`, at most 100 in all"
        return "TRL214", f"invalid name {written} of a pack or rule", hint
    if kind == "enum" and written:
        field = "severity" if path[0] == "severities" else path[-1]
        choices = ", ".join(f"`{value.value}`" for value in (Severity if field == "severity" else Recover))
        return "TRL213", f"unknown value {written} of `{field}`", f"write one of {choices}"
    if path[-1:] == ("version",):
        message = f"invalid version {written}" if written else f"`version` cannot be {_yaml_kind(given)}"
        return "TRL212", message, f"write a whole number from 1 to {VERSION_MAX}"
    if path[-2:-1] == ("precision",) and isinstance(given, str | int | float):
        return "TRL212", f"invalid {path[-1]} `{given}` of `precision`", PRECISION_HINTS[str(path[-1])]
    return (
        "TRL212",
        f"{_subject(path)} cannot be {_yaml_kind(given)}",
        HINTS.get(kind, "write one of the field's values"),
    )


SHAPES = {
    "for_each": (
        "TRL234",
        "`for_each` is not a path, a list of paths or a tuple of paths",
        "write `args.order_id`, `[args.order_id, args.id]` for the first present, or `[[tool, args]]`",
    ),
    "use": ("TRL212", "`use` is not a pack or a list of packs", "write `use: PACK`, or `use: [PACK, PACK]`"),
    **dict.fromkeys(
        ("violated", "holds"),
        (
            "TRL240",
            "an example is neither a list of steps, each a list of propositions, nor events",
            "write `[[], [a]]` for one session, `[[[], [a]], {events: FILE}]` for several",
        ),
    ),
}
"""The fields that accept several forms: the code, message and hint for any other value."""

NO_STEPS = (
    "TRL240",
    "an example has no steps",
    "write `[[]]` for a session of one event at which nothing is true, or leave the field out for no example",
)

PROPOSITION_SHAPE = (
    "TRL240",
    "an example of a proposition is neither a text nor an event",
    "write `[yes, {kind: user, text: go ahead}]`",
)

PRECISION_HINTS = {
    "value": "write a number from 0 to 1, such as 0.44",
    "n": f"write a whole number from 1 to {VERSION_MAX}",
    "of": "write text",
}
"""The hints by the field of `precision`."""

HINTS = {
    "string_type": "write text",
    "list_type": "write a list, each entry after `- `",
    "dict_type": "write `name: value` lines, indented",
}
"""The hints by the type of pydantic's error."""


def _yaml_kind(value: object) -> str:
    """Return the YAML type of a value."""
    if value is None:
        return "empty"
    return (
        "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "a single value"
    )


def _subject(path: KeyPath) -> str:
    """Name the value at a path, as the subject of a sentence."""
    named = [part for part in path if isinstance(part, str)]
    if not path:
        return "the pack"
    return f"`{named[-1]}`" if named[-1] == path[-1] else f"an entry of `{named[-1]}`"


def _is_in_proposition(path: KeyPath) -> bool:
    """Return whether the path leads into a proposition with examples."""
    return len(path) > 2 and path[0] == "propositions"


def _is_proposition_example(path: KeyPath) -> bool:
    """Return whether the path leads into one example of a proposition."""
    return len(path) > 3 and path[0] == "propositions"


def _owner(path: KeyPath) -> str:
    """Name the mapping of the field at the end of a path."""
    if _is_in_proposition(path):
        return f"the proposition `{path[1]}`"
    return "the pack" if len(path) == 1 else "the rule" if len(path) == 3 else f"`{path[-2]}`"


def _fields(path: KeyPath) -> Iterable[str]:
    """Return the fields that the mapping at the end of a path may have."""
    if _is_in_proposition(path):
        return PROPOSITION_FIELDS
    if path[:1] == ("predict",) and len(path) > 1:
        return field_names(PredictEntry)
    models: dict[int, type[Any]] = {1: PackFile, 3: RuleEntry}
    inner = PrecisionEntry if path[-2:-1] == ("precision",) else ExamplesEntry
    return field_names(models.get(len(path), inner))


def _location(document: Document, path: KeyPath) -> Location:
    """Return the location of the value at a path: of a mapping its first key, of an empty value its key."""
    node = document.at(path)
    if isinstance(node, MappingNode) and node.entries:
        return document.location(node.entries[0][0])
    return document.location(node) if node.end > node.start else _key_location(document, path)


def _key_location(document: Document, path: KeyPath) -> Location:
    """Return the location of the key at the end of a path."""
    node = document.at(path[:-1])
    key = node.key(str(path[-1])) if isinstance(node, MappingNode) and path else None
    return document.location(key or node)
