"""The session key of a span."""

from __future__ import annotations

from collections.abc import Mapping

from ..span import Value
from .names import (
    frameworks,
    langfuse_3,
    mastra_1,
    mlflow_3,
    openllmetry_0_4,
    opentelemetry_1_41,
    vercel_ai_6,
)
from .names import openinference_0_1 as oi
from .parts.message_parts import first_name, name_of
from .parts.tool_runs import unquoted
from .parts.values import is_object, parsed_if_nested

_LOCAL_NAMES = (
    "session_id",
    "conversation_id",
    "thread_id",
    "chat_id",
    "sessionId",
    "conversationId",
    "threadId",
    "chatId",
)

_LANGSMITH_NAMES = ("session_id", "conversation_id", "thread_id")
_THREADS = ("gen_ai.thread.id", "gen_ai.openai.thread.id")

SESSION_KEYS = (
    opentelemetry_1_41.CONVERSATION,
    langfuse_3.SESSION,
    opentelemetry_1_41.SESSION,
    *(openllmetry_0_4.ASSOCIATION + name for name in _LOCAL_NAMES),
    *(vercel_ai_6.METADATA + name for name in _LOCAL_NAMES),
    *(vercel_ai_6.CONTEXT + name for name in _LOCAL_NAMES),
    *(f"langsmith.metadata.{name}" for name in _LOCAL_NAMES),
    *(mastra_1.METADATA + name for name in _LOCAL_NAMES),
    *(f"metadata.{name}" for name in _LANGSMITH_NAMES),
    mlflow_3.SESSION,
    frameworks.ADK_SESSION,
    *_THREADS,
    "langsmith.trace.session_id",
)
"""Attributes that hold a session's key, in order of preference.

An id of a conversation precedes one that may be of a longer visit: `session.id` is a browser's visit
(OpenTelemetry, `docs/general/session.md`) or a conversation (OpenInference). Then come the attributes of
applications: OpenLLMetry's association properties, the AI SDK's metadata and (since version 7) runtime
context, LangSmith's metadata (LangSmith takes `session_id`, `conversation_id` and `thread_id` for a thread),
Mastra's and LiteLLM's metadata. Then those of frameworks: Langfuse (`langfuse.session.id`, read before
`session.id` there, too), MLflow, Google's ADK, and the threads of Azure's and OpenAI's agents.
`langsmith.trace.session_id` is last, since LangSmith's own kits write the id of a whole experiment there; its
documentation calls it the session of related traces.

A resource's attributes do not count: it describes a process, and that serves many sessions.
"""


_NAMES = frozenset(SESSION_KEYS)
CONVERSATIONS = frozenset({opentelemetry_1_41.CONVERSATION, frameworks.ADK_SESSION, *_THREADS})
"""Keys that frameworks set by themselves; a sub-agent's run may have a separate one."""


def session_of(attributes: Mapping[str, Value]) -> tuple[str | None, bool]:
    """Return the session key in a span's attributes, and whether it is one of `CONVERSATIONS`.

    None where there is none, or it is too long.
    """
    for name in () if _NAMES.isdisjoint(attributes) else SESSION_KEYS:
        if name in attributes and (key := _key(name, attributes[name])) is not None:
            return key, name in CONVERSATIONS
    return _of_metadata(attributes.get(oi.METADATA)), False


def _key(name: str, value: Value) -> str | None:
    """Return the key; MLflow's attributes are JSON, also of text."""
    return name_of(unquoted(value) if name == mlflow_3.SESSION else value)


def _of_metadata(value: Value) -> str | None:
    """Return the key in OpenInference's metadata, JSON text, under LangSmith's names of a thread."""
    if not isinstance(value, str) or not any(name in value for name in _LANGSMITH_NAMES):
        return None
    opened = parsed_if_nested(value)
    return first_name(opened, _LANGSMITH_NAMES) if is_object(opened) else None
