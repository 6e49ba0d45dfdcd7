"""The fields of a pack's YAML file and the values that they accept."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from functools import cache
from typing import Any, TypeVar

# Only Pydantic's engine: building models with Pydantic would double the start-up time.
from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

from ...schemas.verdict import Recover, Severity, Unknown

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
VERSION_MAX = 1_000_000_000
_DECIMAL = re.compile(r"[0-9]{1,3}(\.[0-9]{1,9})?\Z", re.ASCII)

SessionEntry = list[list[str]] | dict[str, str]
"""A whole session: a list of steps, each a list of its true propositions, or `events: FILE`."""

Model = TypeVar("Model")

# ---- the schemas of fields; `editors` is added to the JSON Schema


def _to_number(value: object) -> object:
    """Convert a version's digits to a number: all scalars of a document are text."""
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12
        else value
    )


def _to_ratio(value: object) -> object:
    """Convert the text of a decimal number to a number."""
    return float(value) if isinstance(value, str) and _DECIMAL.match(value) else value


def _to_section(value: object) -> object:
    """Convert a section without entries (`transitions:` and nothing under it) to an empty one."""
    return {} if value is None else value


def _choice(choices: type[Enum]) -> CoreSchema:
    return core_schema.enum_schema(choices, list(choices), sub_type="str", strict=False)


def _any_of_or_null(*schemas: CoreSchema) -> CoreSchema:
    """Return a schema of any of these forms, or null."""
    choices: list[Any] = [*schemas]
    return core_schema.nullable_schema(core_schema.union_schema(choices))


TEXT = core_schema.str_schema()
NAME = core_schema.str_schema(pattern=NAME_PATTERN)
EXPRESSION = core_schema.str_schema(metadata={"editors": {"type": ["string", "boolean"]}})
"""A text of the rule language; editors must also accept an unquoted `true`."""

TEXTS = core_schema.list_schema(TEXT)
TAGS = core_schema.list_schema(NAME)
SESSION = core_schema.list_schema(TEXTS)
EVENTS = core_schema.typed_dict_schema(
    {"events": core_schema.typed_dict_field(TEXT)},
    extra_behavior="forbid",
    metadata={
        "editors": {
            "title": "Events",
            "description": "A file of events, a line of JSON each, beside the pack.",
        }
    },
)
SESSIONS = _any_of_or_null(SESSION, core_schema.list_schema(core_schema.union_schema([SESSION, EVENTS])))
PROPOSITION_FIELDS = {
    "is": "The condition on one event.",
    "true": "Texts and events of which the condition must be true, for `tracline test`.",
    "false": "Texts and events of which the condition must be false.",
}
"""The fields of a proposition with examples, with their descriptions."""

_TRIED = core_schema.list_schema(
    core_schema.union_schema([TEXT, core_schema.dict_schema(TEXT, core_schema.any_schema())])
)
PROPOSITION = core_schema.typed_dict_schema(
    {
        "is": core_schema.typed_dict_field(EXPRESSION),
        "true": core_schema.typed_dict_field(_TRIED, required=False),
        "false": core_schema.typed_dict_field(_TRIED, required=False),
    },
    extra_behavior="forbid",
)
"""A proposition with examples; its keys are no names of fields in Python."""

_TRIED_IN_EDITORS: dict[str, Any] = {"type": "array", "items": {"type": ["string", "object"]}, "default": []}
CONDITION = core_schema.str_schema(
    metadata={
        "editors": {
            "type": ["string", "boolean", "object"],
            "required": ["is"],
            "additionalProperties": False,
            "properties": {
                name: {
                    **({"type": ["string", "boolean"]} if name == "is" else _TRIED_IN_EDITORS),
                    "description": description,
                }
                for name, description in PROPOSITION_FIELDS.items()
            },
        }
    }
)
"""The condition of a proposition; `validate.py` takes it from a mapping with examples."""
SLICE = _any_of_or_null(TEXT, TEXTS, core_schema.list_schema(TEXTS))
SECTION = core_schema.no_info_before_validator_function(
    _to_section, core_schema.dict_schema(TEXT, EXPRESSION)
)
PROPOSITIONS = core_schema.no_info_before_validator_function(
    _to_section, core_schema.dict_schema(TEXT, CONDITION)
)
SEVERITIES = core_schema.dict_schema(TEXT, _choice(Severity))
VERSION = core_schema.no_info_before_validator_function(
    _to_number, core_schema.int_schema(ge=1, le=VERSION_MAX)
)
RATIO = core_schema.no_info_before_validator_function(_to_ratio, core_schema.float_schema(ge=0, le=1))


def _accepts(schema: CoreSchema, description: str) -> dict[str, object]:
    """Return the schema and description of a file's field, as the metadata of a dataclass field."""
    return {"schema": schema, "description": description}


def mapping_schema(model: type[Any]) -> CoreSchema:
    """Return the schema of a mapping that is read as that dataclass; its fields have `_accepts` metadata."""
    schemas = {
        part.name: core_schema.typed_dict_field(
            part.metadata["schema"],
            required=_is_required(part),
            metadata={"editors": _editor_metadata(part)},
        )
        for part in fields(model)
    }
    metadata = {"editors": {"title": model.__name__, "description": model.__doc__}}
    mapping = core_schema.typed_dict_schema(schemas, extra_behavior="forbid", metadata=metadata)
    return core_schema.no_info_after_validator_function(lambda values: model(**values), mapping)


def _is_required(part: Field[Any]) -> bool:
    """Return whether the field is required."""
    return part.default is MISSING and part.default_factory is MISSING


def _editor_metadata(part: Field[Any]) -> dict[str, object]:
    """Return the description and default of a field for editors."""
    default = {} if part.default is MISSING else {"default": part.default}
    return {"description": part.metadata["description"], **default}


# ---- the fields of a file


@dataclass(frozen=True, slots=True)
class ExamplesEntry:
    """Sessions that violate the rule and sessions that do not; several are a list of sessions."""

    violated: SessionEntry | list[SessionEntry] | None = field(
        default=None,
        metadata=_accepts(
            SESSIONS,
            "A session that must violate the rule: steps, each a list of propositions, or `events: FILE`.",
        ),
    )
    holds: SessionEntry | list[SessionEntry] | None = field(
        default=None, metadata=_accepts(SESSIONS, "A session that must not violate the rule.")
    )


@dataclass(frozen=True, slots=True)
class PrecisionEntry:
    """The measured precision of what a rule reads from texts; reports show it beside the rule's rate."""

    value: float = field(metadata=_accepts(RATIO, "The share of the cases found that are right, 0 to 1."))
    n: int = field(metadata=_accepts(VERSION, "The number of cases that were marked by hand."))
    of: str = field(metadata=_accepts(TEXT, "The cases: `customer messages marked for agrees`."))


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One rule: a requirement on every session."""

    id: str = field(metadata=_accepts(NAME, "The rule's name, unique in its pack."))
    formula: str = field(
        metadata=_accepts(
            EXPRESSION, "A temporal formula over the propositions that every session must satisfy."
        )
    )
    title: str = field(default="", metadata=_accepts(TEXT, "The rule in one sentence, for reports."))
    severity: Severity = field(
        default=Severity.MEDIUM, metadata=_accepts(_choice(Severity), "The severity of a violation.")
    )
    recover: Recover = field(
        default=Recover.BOTH,
        metadata=_accepts(
            _choice(Recover), "The verdicts after which the rule restarts: both kinds, violations, none."
        ),
    )
    unknown: Unknown = field(
        default=Unknown.FOLLOW,
        metadata=_accepts(
            _choice(Unknown),
            "The treatment of what was not captured: follow every completion, or stop judging the session.",
        ),
    )
    for_each: str | list[str] | list[list[str]] | None = field(
        default=None,
        metadata=_accepts(
            SLICE, "The slice key: a path, a list of paths (first present), or a tuple [[tool, args]]."
        ),
    )
    steps: str | None = field(
        default=None,
        metadata=_accepts(
            _any_of_or_null(EXPRESSION), "The events that the rule sees: a Boolean formula over propositions."
        ),
    )
    applies_to: str | None = field(
        default=None,
        metadata=_accepts(
            _any_of_or_null(EXPRESSION),
            "The condition under which the rule applies to a session: a formula without future operators.",
        ),
    )
    examples: ExamplesEntry = field(
        default_factory=ExamplesEntry,
        metadata=_accepts(mapping_schema(ExamplesEntry), "Sessions that `tracline test` runs."),
    )
    why: str = field(
        default="", metadata=_accepts(TEXT, "The reason for the rule, for readers of a finding.")
    )
    blind_spots: str = field(
        default="", metadata=_accepts(TEXT, "Known violations that the rule does not find.")
    )
    precision: PrecisionEntry | None = field(
        default=None,
        metadata=_accepts(
            core_schema.nullable_schema(mapping_schema(PrecisionEntry)),
            "How precise a proposition that the rule depends on is, as measured.",
        ),
    )
    policy: str = field(
        default="",
        metadata=_accepts(TEXT, "The sentence of the policy that the rule implements, with its place."),
    )
    owner: str = field(default="", metadata=_accepts(TEXT, "The person or team that answers for the rule."))
    tags: list[str] = field(
        default_factory=list[str],
        metadata=_accepts(TAGS, "Names for `--select` and `--ignore`."),
    )


@dataclass(frozen=True, slots=True)
class PredictEntry:
    """The basis of prediction beside the rules; no part of any rule's digest."""

    propositions: list[str] = field(
        default_factory=list[str],
        metadata=_accepts(
            TEXTS, "Propositions of events that a learned chain distinguishes, beside those of the rules."
        ),
    )
    memory: dict[str, str] = field(
        default_factory=dict[str, str],
        metadata=_accepts(
            SECTION, "Past formulas by name, on whose values the next event may depend, beside the rules."
        ),
    )


@dataclass(frozen=True, slots=True)
class PackFile:
    """A tracline rule pack."""

    pack: str = field(metadata=_accepts(NAME, "The pack's name; every verdict has it."))
    version: int = field(
        default=1, metadata=_accepts(VERSION, "A whole number that grows with every change.")
    )
    title: str = field(default="", metadata=_accepts(TEXT, "The pack in one line."))
    description: str = field(default="", metadata=_accepts(TEXT, "The purpose of the pack."))
    extends: str = field(
        default="",
        metadata=_accepts(
            TEXT,
            "The pack whose rules are inherited: a shipped pack's name, or a path from this file's folder.",
        ),
    )
    use: str | list[str] = field(
        default="",
        metadata=_accepts(
            _any_of_or_null(TEXT, TEXTS),
            "The packs whose propositions, operators and transitions are shared, without their rules.",
        ),
    )
    drop: list[str] = field(
        default_factory=list[str],
        metadata=_accepts(TEXTS, "The ids of inherited rules to leave out."),
    )
    severities: dict[str, Severity] = field(
        default_factory=dict[str, Severity],
        metadata=_accepts(SEVERITIES, "Other severities of inherited rules, by their ids."),
    )
    propositions: dict[str, str] = field(
        default_factory=dict[str, str], metadata=_accepts(PROPOSITIONS, "Conditions on one event, by name.")
    )
    operators: dict[str, str] = field(
        default_factory=dict[str, str],
        metadata=_accepts(
            SECTION, "Formulas with parameters: `happened_before(p, q): historically (q -> once p)`."
        ),
    )
    transitions: dict[str, str] = field(
        default_factory=dict[str, str],
        metadata=_accepts(SECTION, "State bits, false before the first event: `odd: not previous odd`."),
    )
    predict: PredictEntry | None = field(
        default=None,
        metadata=_accepts(
            core_schema.nullable_schema(mapping_schema(PredictEntry)),
            "What a chain learned by `tracline predict learn` distinguishes beside what the rules do.",
        ),
    )
    rules: list[RuleEntry] = field(
        default_factory=list[RuleEntry],
        metadata=_accepts(core_schema.list_schema(mapping_schema(RuleEntry)), "The rules of the pack."),
    )


# ---- validation


def read_fields(model: type[Model], values: object) -> Model:
    """Validate the values as that model. Raises pydantic's ValidationError with every error."""
    return _validator(model).validate_python(values)


def read_proposition(values: object) -> None:
    """Validate a proposition with examples. Raises pydantic's ValidationError with every error."""
    SchemaValidator(PROPOSITION, CoreConfig(strict=True)).validate_python(values)


def field_names(model: type[Any]) -> tuple[str, ...]:
    """Return the names of a model's fields."""
    return tuple(part.name for part in fields(model))


def required_names(model: type[Any]) -> frozenset[str]:
    """Return the names of a model's required fields."""
    return frozenset(part.name for part in fields(model) if _is_required(part))


@cache
def _validator(model: type[Any]) -> SchemaValidator:
    return SchemaValidator(mapping_schema(model), CoreConfig(strict=True))
