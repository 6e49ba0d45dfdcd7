"""What a pack's YAML file holds: its fields, and what each takes."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from functools import cache
from typing import Any, TypeVar

# Pydantic's engine by itself: to make models with pydantic takes as long as all the rest of a start.
from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

from ...schemas.verdict import Recover, Severity

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
VERSION_MAX = 1_000_000_000

SessionEntry = list[list[str]]
"""A whole session: a list of steps, each the list of the propositions that are true at it."""

Model = TypeVar("Model")

# ---- what a field takes; `editors` is added to its JSON Schema


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


def _choice(choices: type[Enum]) -> CoreSchema:
    return core_schema.enum_schema(choices, list(choices), sub_type="str", strict=False)


def _several(*schemas: CoreSchema) -> CoreSchema:
    """Any of these shapes, or nothing."""
    return core_schema.nullable_schema(core_schema.union_schema([*schemas]))


TEXT = core_schema.str_schema()
NAME = core_schema.str_schema(pattern=NAME_PATTERN)
EXPRESSION = core_schema.str_schema(metadata={"editors": {"type": ["string", "boolean"]}})
"""A text of the rule language; an unquoted `true` is one too, whatever editors take it for."""

TEXTS = core_schema.list_schema(TEXT)
SESSION = core_schema.list_schema(TEXTS)
SESSIONS = _several(SESSION, core_schema.list_schema(SESSION))
SLICE = _several(TEXT, TEXTS, core_schema.list_schema(TEXTS))
SECTION = core_schema.no_info_before_validator_function(_nothing, core_schema.dict_schema(TEXT, EXPRESSION))
SEVERITIES = core_schema.dict_schema(TEXT, _choice(Severity))
VERSION = core_schema.no_info_before_validator_function(_number, core_schema.int_schema(ge=1, le=VERSION_MAX))


def _accepts(schema: CoreSchema, description: str) -> dict[str, object]:
    """Return what a field of a file takes and is for, as the metadata of a dataclass's field."""
    return {"schema": schema, "description": description}


def mapping_schema(model: type[Any]) -> CoreSchema:
    """What a mapping must be to be read as that dataclass, whose fields' metadata are from `_takes`."""
    schemas = {
        entry_field.name: core_schema.typed_dict_field(
            entry_field.metadata["schema"],
            required=_is_required(entry_field),
            metadata={"editors": _editor_metadata(entry_field)},
        )
        for entry_field in fields(model)
    }
    metadata = {"editors": {"title": model.__name__, "description": model.__doc__}}
    mapping = core_schema.typed_dict_schema(schemas, extra_behavior="forbid", metadata=metadata)
    return core_schema.no_info_after_validator_function(lambda values: model(**values), mapping)


def _is_required(entry_field: Field[Any]) -> bool:
    """Return whether a file must have the field."""
    return entry_field.default is MISSING and entry_field.default_factory is MISSING


def _editor_metadata(entry_field: Field[Any]) -> dict[str, object]:
    """Return what editors are told of a field beside what it takes."""
    default = {} if entry_field.default is MISSING else {"default": entry_field.default}
    return {"description": entry_field.metadata["description"], **default}


# ---- the fields of a file


@dataclass(frozen=True, slots=True)
class ExamplesEntry:
    """Sessions that break the rule and sessions that keep it; several are a list of sessions."""

    violated: SessionEntry | list[SessionEntry] | None = field(
        default=None,
        metadata=_accepts(
            SESSIONS, "A session (a list of steps, each a list of propositions) that must break the rule."
        ),
    )
    holds: SessionEntry | list[SessionEntry] | None = field(
        default=None, metadata=_accepts(SESSIONS, "A session that must keep the rule.")
    )


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One rule: what must hold of every session."""

    id: str = field(metadata=_accepts(NAME, "The rule's name, unique in its pack."))
    formula: str = field(
        metadata=_accepts(EXPRESSION, "What must hold: a temporal formula over the propositions.")
    )
    title: str = field(default="", metadata=_accepts(TEXT, "The rule in one sentence, for reports."))
    severity: Severity = field(
        default=Severity.MEDIUM, metadata=_accepts(_choice(Severity), "How much a violation matters.")
    )
    recover: Recover = field(
        default=Recover.BOTH,
        metadata=_accepts(
            _choice(Recover), "After which verdicts the rule begins anew: both kinds, violations, none."
        ),
    )
    for_each: str | list[str] | list[list[str]] | None = field(
        default=None,
        metadata=_accepts(
            SLICE, "Judged per value: a path, a list of paths (first present), a tuple [[tool, args]]."
        ),
    )
    steps: str | None = field(
        default=None,
        metadata=_accepts(
            _several(EXPRESSION), "Which events count at all: a Boolean formula over propositions."
        ),
    )
    applies_to: str | None = field(
        default=None,
        metadata=_accepts(
            _several(EXPRESSION),
            "When the rule applies to a session: a formula about the present and past.",
        ),
    )
    examples: ExamplesEntry = field(
        default_factory=ExamplesEntry,
        metadata=_accepts(mapping_schema(ExamplesEntry), "Sessions that `tracline test` judges."),
    )
    why: str = field(
        default="", metadata=_accepts(TEXT, "Why the rule is there, for whoever reads a finding.")
    )
    blind_spots: str = field(default="", metadata=_accepts(TEXT, "What the rule is known not to see."))


@dataclass(frozen=True, slots=True)
class PackFile:
    """A tracline rule pack."""

    pack: str = field(metadata=_accepts(NAME, "The pack's name; it stands in every verdict."))
    version: int = field(
        default=1, metadata=_accepts(VERSION, "A whole number that grows with every change.")
    )
    title: str = field(default="", metadata=_accepts(TEXT, "The pack in one line."))
    description: str = field(default="", metadata=_accepts(TEXT, "What the pack is for."))
    extends: str = field(
        default="",
        metadata=_accepts(
            TEXT,
            "The pack whose rules are inherited: a shipped pack's name, or a path from this file's folder.",
        ),
    )
    drop: list[str] = field(
        default_factory=list[str],
        metadata=_accepts(TEXTS, "The inherited rules that are left out, by their ids."),
    )
    severities: dict[str, Severity] = field(
        default_factory=dict[str, Severity],
        metadata=_accepts(SEVERITIES, "Other severities of inherited rules, by their ids."),
    )
    propositions: dict[str, str] = field(
        default_factory=dict[str, str], metadata=_accepts(SECTION, "Questions about one event, by name.")
    )
    operators: dict[str, str] = field(
        default_factory=dict[str, str],
        metadata=_accepts(
            SECTION, "Formulas with parameters: `happened_before(p, q): historically (q -> once p)`."
        ),
    )
    transitions: dict[str, str] = field(
        default_factory=dict[str, str],
        metadata=_accepts(
            SECTION, "Bits that remember, false before the first event: `odd: not previous odd`."
        ),
    )
    rules: list[RuleEntry] = field(
        default_factory=list[RuleEntry],
        metadata=_accepts(
            core_schema.list_schema(mapping_schema(RuleEntry)), "What must hold of every session."
        ),
    )


# ---- reading them


def read_fields(model: type[Model], values: object) -> Model:
    """The values as that model. Raises pydantic's ValidationError with everything that is wrong in them."""
    return _validator(model).validate_python(values)


def field_names(model: type[Any]) -> tuple[str, ...]:
    """The fields that a mapping of that model may have."""
    return tuple(entry_field.name for entry_field in fields(model))


def required_names(model: type[Any]) -> frozenset[str]:
    """The fields that it must have."""
    return frozenset(entry_field.name for entry_field in fields(model) if _is_required(entry_field))


@cache
def _validator(model: type[Any]) -> SchemaValidator:
    return SchemaValidator(mapping_schema(model), CoreConfig(strict=True))
