"""Langfuse's SDKs and MLflow: spans of a type, each with the input and the output of a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..chat.message import string_of
from ..span import Span, Value
from ..span_content import Role, SpanRole
from .names import langfuse_3 as lf
from .names import mlflow_3 as ml
from .names import opentelemetry_1_41 as otel
from .parts.message_parts import name_of
from .parts.messages import spoken, worded
from .parts.reading import ABSENT, DialectReading, Half
from .parts.tool_runs import called_arguments, tool_result, tool_run, unquoted


@dataclass(frozen=True, slots=True)
class Names:
    """The attributes of one convention, and the types in it that are a model's call."""

    type: str
    input: str
    output: str
    model: str
    models: frozenset[str]
    quotes_text: bool
    """True where text is written as JSON, in quotes."""


_CONVENTIONS = (
    Names(lf.TYPE, lf.INPUT, lf.OUTPUT, lf.MODEL, frozenset({lf.GENERATION}), quotes_text=False),
    Names(ml.TYPE, ml.INPUT, ml.OUTPUT, ml.MODEL, ml.MODELS, quotes_text=True),
)
MARKS = tuple(names.type for names in _CONVENTIONS)
"""Attributes of which a span of these conventions has one."""
_TOOL, _AGENT = frozenset({lf.TOOL, ml.TOOL}), frozenset({lf.AGENT, ml.AGENT})


def read(span: Span) -> DialectReading | None:
    """Read a span by the attributes of Langfuse or MLflow; return None where it has no such attributes."""
    for names in _CONVENTIONS:
        kind = unquoted(span.attributes.get(names.type))
        if isinstance(kind, str):
            return _observation(span, kind.lower(), names)
    return None


def _observation(span: Span, kind: str, names: Names) -> DialectReading:
    attributes = span.attributes
    if kind in _TOOL:
        return _tool(span, attributes.get(names.input), attributes.get(names.output))
    is_agent = kind in _AGENT
    if not is_agent and kind not in names.models:
        return DialectReading(SpanRole.OTHER)
    return DialectReading(
        SpanRole.AGENT if is_agent else SpanRole.CHAT,
        agent=string_of(span.name) if is_agent else None,
        model=string_of(unquoted(attributes.get(names.model))),
        input=_half(attributes, names.input, names, Role.USER, ABSENT),
        # An agent's output is often the state of a program.
        output=_half(attributes, names.output, names, Role.ASSISTANT, ABSENT if is_agent else None),
    )


def _half(
    attributes: Mapping[str, Value], name: str, names: Names, speaker: Role, unread: Half | None
) -> Half:
    """Read messages, or just text; JSON without messages is `unread`, or a message where that is None."""
    value = attributes.get(name)
    if names.quotes_text and isinstance(value, str) and isinstance(text := unquoted(value), str):
        return spoken(text, speaker) if text else ABSENT
    return worded(value, speaker, unread)


def _tool(span: Span, given: Value, returned: Value) -> DialectReading:
    """Read a tool's run; the tool has the span's name."""
    tool = string_of(span.name)
    call_id = name_of(span.attributes.get(otel.TOOL_CALL_ID))
    return tool_run(tool, call_id, called_arguments(given), tool_result(returned, tool))
