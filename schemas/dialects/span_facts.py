"""Facts of a span in any dialect: its error, its agent, its service, its other attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from math import isfinite

from ..chat.message import ATTRIBUTE_CHARS_MAX, ATTRIBUTES_MAX, string_of
from ..span import Span, Value
from ..tolerant_json import encode, json_text
from .names import frameworks as fw
from .names import langfuse_3 as lf
from .names import mastra_1 as ma
from .names import mlflow_3 as ml
from .names import openinference_0_1 as oi
from .names import openllmetry_0_4 as tl
from .names import opentelemetry_1_36 as old
from .names import opentelemetry_1_41 as otel
from .names import vercel_ai_6 as ai
from .parts.message_parts import name_of
from .parts.values import is_object, parsed_if_nested

END = "tracline.session.end"
"""The attribute for: the session is over when the span ends."""
NESTED = "tracline.nested"
"""The attribute for: the span, and all below it, belongs to a sub-agent."""
UNNAMED_ERROR = "error"
"""The error type of a failed span without one."""

_NO_ERROR = (None, "", False)
AGENTS = (otel.AGENT_NAME, oi.AGENT_NAME, ai.FUNCTION, fw.LANGSMITH_AGENT)
"""Attributes that name an agent on a span of any role, in order of preference."""

COLUMNS = frozenset(
    [
        *(END, NESTED, otel.ERROR_TYPE, otel.SERVICE_NAME, *AGENTS),
        *(otel.TOOL_NAME, otel.TOOL_CALL_ID, oi.TOOL_NAME, oi.TOOL_ID, oi.TOOL_CALL_ID, oi.TOOL_CALL_NAME),
        *(ai.TOOL_NAME, ai.TOOL_ID),
    ]
)
"""Attributes that columns of the event hold."""

CONTENTS = frozenset(
    [
        *(
            otel.INPUT_MESSAGES,
            otel.OUTPUT_MESSAGES,
            otel.INSTRUCTIONS,
            otel.TOOL_ARGUMENTS,
            otel.TOOL_RESULT,
        ),
        *(otel.TOOL_DEFINITIONS, otel.RETRIEVAL_QUERY, otel.RETRIEVAL_DOCUMENTS, otel.EVALUATION_EXPLANATION),
        *(otel.EXCEPTION_MESSAGE, otel.EXCEPTION_STACKTRACE, old.PROMPT, old.COMPLETION, old.EVENT_BODY),
        *(fw.ADK_REQUEST, fw.ADK_RESPONSE, fw.ADK_TOOL_ARGS, fw.ADK_TOOL_RESPONSE, fw.ANY_AGENT_OUTPUT),
        *(fw.ANY_AGENT_TOOL_ARGS, fw.PYDANTIC_TOOL_ARGUMENTS, fw.PYDANTIC_TOOL_RESPONSE, fw.TOOL_OUTPUT),
        *(fw.INPUT, fw.OUTPUT, oi.INPUT_VALUE, oi.OUTPUT_VALUE, oi.TOOL_PARAMETERS, oi.TOOL_CALL_ARGUMENTS),
        *(tl.ENTITY_INPUT, tl.ENTITY_OUTPUT, ai.PROMPT, ai.TOOL_ARGS, ai.TOOL_RESULT, *ai.RESPONSE_TEXT),
        *(*ai.RESPONSE_CALLS, *ai.RESPONSE_OBJECT, "ai.response.reasoning", "ai.value", "ai.values"),
        *("ai.embedding", "ai.embeddings", "ai.schema", "gen_ai.agent.system_prompt", "gen_ai.agent.tools"),
        *(lf.INPUT, lf.OUTPUT, lf.STATUS_MESSAGE, lf.TRACE_INPUT, lf.TRACE_OUTPUT),
        *(ml.INPUT, ml.OUTPUT, "all_messages_events"),
        *(*ma.INPUT.values(), *ma.OUTPUT.values(), ma.METADATA + "body"),
        *(
            "pydantic_ai.all_messages",
            "final_result",
            fw.PYDANTIC_EVENTS,
            "gcp.vertex.agent.data",
            "mcp.request.argument",
            "mcp.response.value",
        ),
    ]
)
"""Attributes with the content of messages, calls and results, and of searches for them."""
_LEFT_OUT = COLUMNS | CONTENTS
NAMES_CACHED_MAX = 4_096
"""Names of attributes that are looked up once."""
_CONTENT_PREFIXES = (
    *(f"{prefix}.{digit}" for prefix in (tl.PROMPT, tl.COMPLETION) for digit in range(10)),
    *(f"{name}." for name in (oi.INPUT_MESSAGES, oi.OUTPUT_MESSAGES, tl.OLD_COMPLETION, ai.PROMPT)),
    *(oi.PROMPTS, oi.CHOICES, "llm.prompt_template.", "llm.tools.", "llm.function_call"),
    *("retrieval.documents.", "reranker.", "embedding.embeddings.", "embedding.text"),
)


def error_of(span: Span) -> str | None:
    """Return the error type of a span; None where it did not fail.

    Without `error.type` it is that of the last exception of a failed span. A recorded exception of another
    span is no failure, unless it escaped the span.
    """
    given = span.attributes.get(otel.ERROR_TYPE)
    failed = span.failed or span.attributes.get(lf.LEVEL) == lf.ERROR
    if given not in _NO_ERROR:
        return name_of(given) or UNNAMED_ERROR
    for event in reversed(span.events):
        escaped = event.attributes.get("exception.escaped") in (True, "true", "True")
        if event.name == otel.EXCEPTION_EVENT and (failed or escaped):
            return string_of(event.attributes.get(otel.EXCEPTION_TYPE)) or UNNAMED_ERROR
    return UNNAMED_ERROR if failed else None


def agent_of(attributes: Mapping[str, Value]) -> str | None:
    """Return the agent named on a span of any role."""
    for name in AGENTS:
        if name in attributes and (agent := string_of(attributes[name])):
            return agent
    metadata = attributes.get(oi.METADATA)
    if not isinstance(metadata, str) or oi.LANGCHAIN_AGENT not in metadata:
        return None
    opened = parsed_if_nested(metadata)
    return string_of(opened.get(oi.LANGCHAIN_AGENT)) if is_object(opened) else None


def service_of(resource: Mapping[str, Value]) -> str | None:
    """Return the service that sent a span; None where it has no name."""
    name = string_of(resource.get(otel.SERVICE_NAME))
    return None if name is None or name.split(":")[0] == otel.SERVICE_UNKNOWN else name


def truth_of(value: Value) -> bool | None:
    """Return the truth value of an attribute; None where it is none."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def attributes_of(span: Span) -> dict[str, str]:
    """Return the name of the span's scope, its other plain attributes as text, then its resource's."""
    found = {otel.SCOPE_NAME: span.scope} if span.scope and _is_short(span.scope) else {}
    for key, value in chain(plain_attributes(span.attributes), plain_attributes(span.resource)):
        if key not in found:
            found[key] = value
            if len(found) == ATTRIBUTES_MAX:
                break
    return found


def plain_attributes(attributes: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Yield the attributes that are neither a column's nor content, as text."""
    for key, value in attributes.items():
        if len(key) > ATTRIBUTE_CHARS_MAX or not is_plain(key):
            continue
        if isinstance(value, str):
            if _is_short(value):
                yield key, value
        elif isinstance(value, float):
            if isfinite(value):
                yield key, json_text(value)
        elif isinstance(value, bool):
            yield key, "true" if value else "false"
        elif isinstance(value, int) and value.bit_length() <= 128:
            yield key, str(value)


@lru_cache(maxsize=NAMES_CACHED_MAX)
def is_plain(key: str) -> bool:
    """Return whether an attribute is neither a column's nor content, by its name."""
    return bool(key) and key not in _LEFT_OUT and not key.startswith(_CONTENT_PREFIXES) and _is_short(key)


def _is_short(text: str) -> bool:
    """Return whether an attribute's name or text is short enough, and UTF-8 can carry it."""
    return len(text) <= ATTRIBUTE_CHARS_MAX and (text.isascii() or encode(text) is not None)
