"""What a pack's YAML file holds: models of its fields, their JSON Schema, and what is wrong with one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from ..schemas.verdict import Recover, Severity
from .document import Data, Document, Fields, data
from .error import Place, Problem, did_you_mean

SCHEMA_FILE = Path(__file__).with_name("pack.schema.json")
"""Where the JSON Schema for editors is kept; a test compares it with `json_schema()`."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
VERSION_MAX = 1_000_000_000


def _number(value: object) -> object:
    """A version's digits as a number: scalars come as text, however they were written."""
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12
        else value
    )


def _nothing(value: object) -> object:
    """A section without entries, `transitions:` and nothing under it, is an empty one."""
    return {} if value is None else value


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Expression = Annotated[str, WithJsonSchema({"type": ["string", "boolean"]})]
"""A text of the rule language; an unquoted `true` is one too, whatever editors take it for."""

Section = Annotated[dict[str, Expression], BeforeValidator(_nothing)]
Session = list[list[str]]
"""A whole session: a list of steps, each the list of the propositions that are true at it."""


Way = tuple[str | int, ...]
"""Keys and indices from a document's root to a value."""

Model = TypeVar("Model", bound=BaseModel)


class ExamplesEntry(BaseModel):
    """Sessions that break the rule and sessions that keep it; several are a list of sessions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    violated: Annotated[
        Session | list[Session] | None,
        Field(
            description="A session (a list of steps, each a list of propositions) that must break the rule."
        ),
    ] = None
    holds: Annotated[
        Session | list[Session] | None, Field(description="A session that must keep the rule.")
    ] = None


class RuleEntry(BaseModel):
    """One rule: what must hold of every session."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: Annotated[Name, Field(description="The rule's name, unique in its pack.")]
    formula: Annotated[
        Expression, Field(description="What must hold: a temporal formula over the propositions.")
    ]
    title: Annotated[str, Field(description="The rule in one sentence, for reports.")] = ""
    severity: Annotated[Severity, Field(strict=False, description="How much a violation matters.")] = (
        Severity.MEDIUM
    )
    recover: Annotated[
        Recover,
        Field(
            strict=False,
            description="After which verdicts the rule begins anew: both kinds, violations, none.",
        ),
    ] = Recover.BOTH
    for_each: Annotated[
        str | list[str] | list[list[str]] | None,
        Field(
            description="Judged per value: a path, a list of paths (first present), a tuple [[tool, args]]."
        ),
    ] = None
    steps: Annotated[
        Expression | None,
        Field(description="Which events count at all: a Boolean formula over propositions."),
    ] = None
    applies_to: Annotated[
        Expression | None,
        Field(description="When the rule applies to a session: a formula about the present and past."),
    ] = None
    examples: ExamplesEntry = ExamplesEntry()
    why: Annotated[str, Field(description="Why the rule is there, for whoever reads a finding.")] = ""
    blind_spots: Annotated[str, Field(description="What the rule is known not to see.")] = ""


class PackFile(BaseModel):
    """A tracline rule pack."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    pack: Annotated[Name, Field(description="The pack's name; it stands in every verdict.")]
    version: Annotated[
        int,
        Field(ge=1, le=VERSION_MAX, description="A whole number that grows with every change."),
        BeforeValidator(_number),
    ] = 1
    title: Annotated[str, Field(description="The pack in one line.")] = ""
    description: Annotated[str, Field(description="What the pack is for.")] = ""
    propositions: Annotated[Section, Field(description="Questions about one event, by name.")] = {}
    operators: Annotated[
        Section,
        Field(description="Formulas with parameters: `happened_before(p, q): historically (q -> once p)`."),
    ] = {}
    transitions: Annotated[
        Section,
        Field(description="Bits that remember, false before the first event: `odd: not previous odd`."),
    ] = {}
    rules: Annotated[list[RuleEntry], BeforeValidator(lambda value: [] if value is None else value)] = []


def json_schema() -> str:
    """The JSON Schema of a pack file, as text with a final line break."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **PackFile.model_json_schema()}
    return json.dumps(schema, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule of the file: its `index` in the list, and its fields but for those that are wrong.

    Where a field that a rule must have is missing or wrong, it stands in `lacks` and `fields` has a stand-in.
    """

    index: int
    fields: RuleEntry
    lacks: frozenset[str]


@dataclass(frozen=True, slots=True)
class Entries:
    """A pack file as far as it has the right shape: its name, if that is one, and its rules.

    What was wrong is left out of both and stands in `problems`.
    """

    name: str | None
    rules: tuple[Entry, ...]
    problems: tuple[Problem, ...]


def entries(document: Document) -> Entries:
    """What the document holds, and every problem of its shape (TRL210 to TRL240)."""
    values = data(document.root)
    if not isinstance(values, dict):
        fault = {"type": "dict_type", "loc": (), "input": values}
        return Entries(None, (), (_problem(document, fault),))
    problems: dict[Problem, None] = {}
    rules = values.pop("rules", None)
    if not isinstance(rules, list | None):
        problems[_problem(document, {"type": "list_type", "loc": ("rules",), "input": rules})] = None
        rules = None
    head = _validated(document, PackFile, values, (), problems)
    found: list[Entry] = []
    for i, rule in enumerate(rules or []):
        read = _validated(document, RuleEntry, rule, ("rules", i), problems)
        found += [] if read is None else [Entry(i, *read)]
    name = head[0].pack if head and "pack" not in head[1] else None
    return Entries(name, tuple(found), tuple(problems))


def _validated(
    document: Document, model: type[Model], values: Data, at: Way, problems: dict[Problem, None]
) -> tuple[Model, frozenset[str]] | None:
    """The values as that model without what is wrong in them, and the required fields that it lacks.

    None where the values are no mapping.
    """
    try:
        return model.model_validate(values), frozenset()
    except ValidationError as error:
        faults = error.errors(include_url=False)
    for fault in faults:
        way: Way = fault["loc"]
        problems[_problem(document, {**fault, "loc": (*at, *way)})] = None
        if isinstance(values, dict) and way:
            _drop(values, str(way[0]), way[1:])
    if not isinstance(values, dict):
        return None
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    lacks = frozenset(required - values.keys())
    return model.model_validate({**values, **dict.fromkeys(lacks, STAND_IN)}), lacks


STAND_IN = "unnamed"
"""Stands for a missing name or expression, so that the rest of a pack or rule can be looked at."""

SECTIONS = frozenset({"propositions", "operators", "transitions", "examples"})
"""The fields that are mappings: of these the wrong entry is left out, of any other the whole field."""


def _drop(values: dict[str, Data], key: str, inner: Way) -> None:
    """Take out what is at fault."""
    section = values.get(key)
    if key in SECTIONS and isinstance(section, dict) and inner:
        section.pop(str(inner[0]), None)
    else:
        values.pop(key, None)


# ---- what is wrong, in words


def _problem(document: Document, fault: Mapping[str, Any]) -> Problem:
    """One fault that pydantic found, as a problem of ours."""
    way: Way = fault["loc"]
    for i, part in enumerate(way):
        if i >= 2 and part in SHAPES:
            return Problem(*SHAPES[str(part)], _place(document, way[: i + 1]))
    match fault["type"]:
        case "missing":
            message, hint = f"{_whose(way)} has no `{way[-1]}`", f"add `{way[-1]}: ...`"
            return Problem("TRL210", message, hint, _place(document, way[:-1]))
        case "extra_forbidden":
            message, hint = (
                f"{_whose(way)} has no field `{way[-1]}`",
                did_you_mean(str(way[-1]), _fields(way)),
            )
            return Problem("TRL211", message, hint, _key_place(document, way))
        case kind:
            code, message, hint = _value_fault(kind, way, fault["input"])
            return Problem(code, message, hint, _place(document, way))


def _value_fault(kind: str, way: Way, given: object) -> tuple[str, str, str]:
    """The code, message and hint of a value that is not what its field takes."""
    written = f"`{given}`" if isinstance(given, str | int) else None
    if kind == "string_pattern_mismatch":
        hint = "begin with a letter or digit, then letters, digits, `-`, `_` and `.`, at most 100 in all"
        return "TRL214", f"{written} cannot be the name of a pack or rule", hint
    if kind == "enum" and written:
        choices = ", ".join(f"`{value.value}`" for value in (Severity if way[-1] == "severity" else Recover))
        return "TRL213", f"{written} is no `{way[-1]}`", f"write one of {choices}"
    if way[-1:] == ("version",):
        message = f"{written} is no version" if written else f"`version` is {_kind(given)}"
        return "TRL212", message, f"write a whole number from 1 to {VERSION_MAX}"
    return "TRL212", f"{_what(way)} is {_kind(given)}", KINDS.get(kind, "write one of the field's words")


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

KINDS = {
    "string_type": "write a text",
    "list_type": "write a list, each entry after `- `",
    "dict_type": "write `name: value` lines, indented",
    "model_type": "write `name: value` lines, indented",
}
"""What to write instead, by the type of pydantic's fault."""


def _kind(value: object) -> str:
    """What sort of value it is, in the words of YAML."""
    if value is None:
        return "empty"
    return (
        "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "a single value"
    )


def _what(way: Way) -> str:
    """The value at that way, as the subject of a sentence."""
    named = [part for part in way if isinstance(part, str)]
    if not way:
        return "the pack"
    return f"`{named[-1]}`" if named[-1] == way[-1] else f"an entry of `{named[-1]}`"


def _whose(way: Way) -> str:
    """What lacks, or has too much of, the field at that way's end."""
    return "the pack" if len(way) == 1 else "the rule" if len(way) == 3 else f"`{way[-2]}`"


def _fields(way: Way) -> Iterable[str]:
    """The fields that could stand where that way ends."""
    models: dict[int, type[BaseModel]] = {1: PackFile, 3: RuleEntry}
    return models.get(len(way), ExamplesEntry).model_fields


def _place(document: Document, way: Way) -> Place:
    """The place of the value at that way; of a mapping, its first key; of nothing, its key."""
    node = document.at(way)
    if isinstance(node, Fields) and node.entries:
        return document.place(node.entries[0][0])
    return document.place(node) if node.end > node.start else _key_place(document, way)


def _key_place(document: Document, way: Way) -> Place:
    """The place of the key at that way's end."""
    node = document.at(way[:-1])
    key = node.key(str(way[-1])) if isinstance(node, Fields) and way else None
    return document.place(key or node)
