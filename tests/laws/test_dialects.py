"""The spans of a conversation become its events in any dialect, and nothing is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.examples.desk.bot import Break, Desk, conversations
from tracline.examples.desk.script import Script, support_session, turn_bounds
from tracline.schemas.candidate import Candidate
from tracline.schemas.dialects import read_content
from tracline.schemas.dialects.names import (
    frameworks,
    langfuse_3,
    mlflow_3,
    openinference_0_1,
    openllmetry_0_4,
    opentelemetry_1_36,
    opentelemetry_1_41,
    scopes,
    vercel_ai_6,
)
from tracline.schemas.event import Event, canonical_text
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.resolve import candidate_of
from tracline.schemas.sessions.span_reading import read_span
from tracline.schemas.sessions.trace import Trace
from tracline.schemas.span import Span, SpanEvent
from tracline.schemas.time import NS

from ..support.conversations.agent_spans import expected, spans
from ..support.conversations.scripts import random_session, tidy
from ..support.conversations.span_plan import Dialect, Keys, Manner
from .quick_draws import quickly

IDLE_NS = 3600 * NS
DESK = Desk(sessions=3, seed=11, rates=dict.fromkeys(Break, 0.03), spike=None)
SUPPORT = list(map(support_session, conversations(DESK)))
RANDOM = list(map(random_session, range(5)))

MANNERS = {
    "plain": Manner(),
    "structured": Manner(structured=True),
    "everywhere": Manner(keys=Keys.EVERYWHERE),
    "first calls": Manner(keys=Keys.FIRST_CALLS, one_trace=True),
    "no content": Manner(captured=False),
    "no input": Manner(inputs_captured=False),
    "no tool spans": Manner(tool_spans=False),
    "messages on agents": Manner(agent_messages=True, end_mark=True),
    "late": Manner(skip_turns=1),
    "wrapped": Manner(wrapped=1.0),
    "wrapped by Vercel": Manner(wrapped=1.0, wrapper=Dialect.VERCEL),
    "wrapped by GenAI": Manner(wrapped=1.0, wrapper=Dialect.GENAI),
    "retried": Manner(retried=0.5),
    "doubled": Manner(doubled=0.5),
    "clocks": Manner(clock_faults=0.5),
    "trouble": Manner(wrapped=0.3, retried=0.3, doubled=0.3, clock_faults=0.3, agent_messages=True),
}


def assembled(sent: Iterable[Span]) -> dict[str, list[Event]]:
    """Return the events of every session of the spans."""
    traces: dict[str, Trace] = {}
    for span in sent:
        traces.setdefault(span.trace_id, Trace()).add(read_span(span))
    sessions: dict[str, SessionAssembler] = {}
    last = 0
    for trace in traces.values():
        inside = trace.coverage()
        for reading in trace.all():
            candidate = candidate_of(trace, reading, inside)
            assert isinstance(candidate, Candidate)
            if candidate.claims:
                sessions.setdefault(
                    candidate.session_id, SessionAssembler(candidate.session_id, IDLE_NS)
                ).add(candidate)
                last = max(last, candidate.end)
    return {session_id: session.advance(last) for session_id, session in sessions.items()}


def bare(events: Iterable[Event]) -> list[Event]:
    """Return events without their span, its attributes, and the layout of arguments in JSON."""
    return [
        msgspec.structs.replace(
            event,
            trace_id=None,
            span_id=None,
            attributes={},
            args=None if event.args is None else canonical_text(event.args),
        )
        for event in events
    ]


def sayable(session: Script, dialect: Dialect) -> Script:
    """Return the conversation without what the dialect cannot express.

    Where a message's result does not name its tool, a second answer to one call belongs to no known call.
    """
    if dialect in (Dialect.OPENINFERENCE, Dialect.VERCEL):
        return session
    return replace(session, lines=tuple(line for line in session.lines if not line.again))


def check(session: Script, manner: Manner) -> None:
    """A conversation instrumented in that manner becomes what it was."""
    session = sayable(session, manner.dialect)
    truth = bare(expected(session, manner))
    found = assembled(spans(session, manner))
    events = bare(found.pop(session.session_id))
    if manner.dialect is Dialect.VERCEL and not manner.tool_spans:
        # The AI SDK has no spans for agents: only the enclosing tool shows that an agent is nested.
        truth, events = (
            [msgspec.structs.replace(event, nested=False) for event in sequence]
            for sequence in (truth, events)
        )
    assert events == truth
    assert not found


@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
@pytest.mark.parametrize("dialect", Dialect)
def test_a_conversation_becomes_its_events(dialect: Dialect, manner: Manner) -> None:
    """In each dialect and each manner of instrumentation, with any defect of the spans."""
    # Spans of OpenLLMetry's tools have no call ids: an equal run may be taken for one of the history.
    is_vague = dialect is Dialect.OPENLLMETRY and manner.skip_turns
    for seed, session in enumerate(SUPPORT if is_vague else (*SUPPORT, *RANDOM)):
        dialect_manner = replace(manner, dialect=dialect, seed=seed)
        if len(list(turn_bounds(session.lines))) > manner.skip_turns:
            check(session, dialect_manner)


@pytest.mark.parametrize("dialect", Dialect)
def test_calls_without_ids_find_their_results(dialect: Dialect) -> None:
    """Without call ids, tools and arguments decide what belongs together."""
    for seed, session in enumerate((*SUPPORT, *RANDOM)):
        check(tidy(session), Manner(dialect=dialect, call_ids=False, seed=seed))


KNOWN = sorted(
    name
    for module in (
        frameworks,
        langfuse_3,
        mlflow_3,
        openinference_0_1,
        openllmetry_0_4,
        opentelemetry_1_36,
        opentelemetry_1_41,
        vercel_ai_6,
    )
    for value in vars(module).values()
    for name in (value if isinstance(value, (tuple, frozenset)) else (value,))
    if isinstance(name, str) and "\n" not in name
)
"""Attribute names, and words that stand in them."""
SCOPES = sorted(
    {name for value in vars(scopes).values() for name in (value if isinstance(value, frozenset) else ())}
    | {scopes.LANGCHAIN, scopes.LLAMA_INDEX, scopes.LITELLM, scopes.LOGFIRE}
)
"""Scopes of instrumentations that are read in a way of their own."""
FLAT = st.builds(
    "{}.{}.{}".format,
    st.sampled_from(
        ["gen_ai.prompt", "gen_ai.completion", "llm.input_messages", "llm.output_messages", "llm.prompts"]
    ),
    st.integers(0, 3) | st.sampled_from(["9999999999", "x", ""]),
    st.sampled_from(
        [
            *(
                "role",
                "content",
                "tool_call_id",
                "tool_calls.0.name",
                "tool_calls.0.arguments",
                "tool_calls.1",
            ),
            *("message.role", "message.content", "message.contents.0.message_content.text", "message"),
            *("message.tool_calls.0.tool_call.function.name", "message.tool_calls.0.tool_call", "0", ""),
        ]
    ),
)
WORDS = st.sampled_from(
    [
        *("user", "assistant", "system", "tool", "model", "text", "tool_call", "tool_use", "tool-result"),
        *("tool_call_response", "function_call", "reasoning", "LLM", "TOOL", "AGENT", "chat", "execute_tool"),
        *(
            "invoke_agent",
            "call_llm",
            "ai.toolCall",
            "ai.generateText",
            "agent",
            "__REDACTED__",
            "{",
            "[",
            '"',
        ),
        *('[{"role": "user"', '[{"role": "user", "content": "\\ud83d"}]', "null", "[]", "{}", "NaN", "[NaN]"),
        *("\ud800", "\udfff half", "[" * 2000, '{"a":' * 300 + "1" + "}" * 300, "true", "x" * 1001),
        *KNOWN,
    ]
)
FIELDS = st.sampled_from(
    [
        *("role", "content", "parts", "type", "text", "tool_calls", "function", "name", "arguments", "args"),
        *("id", "call_id", "toolCallId", "toolName", "input", "output", "result", "response", "messages"),
        *(
            "value",
            "kwargs",
            "message",
            "choices",
            "system",
            "prompt",
            "tool.name",
            "tool.args",
            "error",
            "data",
        ),
        *("message_content", "tool_call", "candidates", "generations", "inputs", "outputs", "is_error"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=3),
    st.text(max_size=5),
    WORDS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | WORDS, inner, max_size=4),
    max_leaves=8,
)


def as_text(value: object) -> object:
    """The value as JSON text, where JSON can hold it."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return value


ATTRIBUTES = st.dictionaries(st.sampled_from(KNOWN) | FLAT | WORDS, VALUES | VALUES.map(as_text), max_size=10)
EVENT_NAMES = st.sampled_from(
    [
        *("gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message", "gen_ai.choice"),
        *("gen_ai.content.prompt", "gen_ai.content.completion", "exception"),
        "gen_ai.client.inference.operation.details",
    ]
)
SPANS = st.builds(
    Span,
    trace_id=st.just("0" * 31 + "1"),
    span_id=st.just("0" * 15 + "1"),
    parent_id=st.none(),
    name=WORDS,
    start=st.just(1),
    end=st.just(2),
    attributes=ATTRIBUTES,
    events=st.lists(st.builds(SpanEvent, EVENT_NAMES, st.just(1), ATTRIBUTES), max_size=3).map(tuple),
    failed=st.booleans(),
    resource=ATTRIBUTES,
    scope=st.sampled_from(SCOPES) | WORDS,
    dropped_attributes=st.integers(0, 1),
    dropped_events=st.integers(0, 1),
)


@given(quickly(SPANS))
@settings(max_examples=120, deadline=None)
def test_nothing_that_telemetry_may_hold_is_refused(span: Span) -> None:
    """Known names with any value give a step, and one that can be written down; so does what follows."""
    content = read_content(span)
    assert orjson.dumps(msgspec.to_builtins(content))
    assembled([span])
