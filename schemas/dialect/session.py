"""Whose session a span says it belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from ..semconv import frameworks, openllmetry_0_4, opentelemetry_1_41, vercel_ai_6
from ..span import Value
from .parts import first_name

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

SESSION_KEYS = (
    opentelemetry_1_41.CONVERSATION,
    "langfuse.session.id",
    opentelemetry_1_41.SESSION,
    *(openllmetry_0_4.ASSOCIATION + name for name in _LOCAL_NAMES),
    *(vercel_ai_6.METADATA + name for name in _LOCAL_NAMES),
    *(f"langsmith.metadata.{name}" for name in _LOCAL_NAMES),
    "mlflow.trace.session",
    frameworks.ADK_SESSION,
    "gen_ai.thread.id",
    "gen_ai.openai.thread.id",
    "langsmith.trace.session_id",
)
"""Attributes that hold a session's key, in order of preference.

What names a conversation goes before what may name a longer visit: `session.id` is also what browsers call
one (OpenTelemetry, `docs/general/session.md`), and OpenInference a conversation. Then what an application
says of its spans: OpenLLMetry's association properties, the AI SDK's metadata, LangSmith's metadata (of which
LangSmith takes `session_id`, `conversation_id` and `thread_id` for a thread). Then frameworks' own: Langfuse
(`langfuse.session.id`, read before `session.id` there, too), MLflow, Google's ADK, and the threads of Azure's
and OpenAI's agents. `langsmith.trace.session_id` is last, since LangSmith's own kits write the id of a whole
experiment there; its documentation calls it the session of related traces.

A resource is not asked: it describes a process, and that serves many sessions.
"""


def session_of(attributes: Mapping[str, Value]) -> str | None:
    """The session key that a span's attributes say; None where there is none, or one too long to be one."""
    return first_name(attributes, SESSION_KEYS)
