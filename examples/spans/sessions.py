"""Scripts of conversations for spans: from the simulated desk, from chat messages, and random ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import groupby
from random import Random
from typing import cast

from ...schemas.span_content import Role
from ...schemas.time import parse_time
from ..desk.bot import DeskConversation
from ..desk.scene import SceneStep

START_NS = 1_772_438_400_000_000_000
"""The start of a conversation without times: 2026-03-02 08:00 UTC."""


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A tool call of the agent; `args` is JSON text."""

    call_id: str | None
    tool: str
    args: str


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """One message of a conversation, at `time` nanoseconds since the epoch (0: unknown).

    A tool's line has the call that it answers, and the result as `text`. `again` marks a second answer,
    `error` is the error type of a failed run, and `inner` is the conversation of a sub-agent that did the
    tool's work.
    """

    role: Role
    text: str | None = None
    calls: tuple[ScriptCall, ...] = ()
    answers: ScriptCall | None = None
    again: bool = False
    error: str | None = None
    time: int = 0
    inner: tuple[ScriptLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation, with its agent, model and service."""

    session_id: str
    agent: str
    model: str
    service: str
    lines: tuple[ScriptLine, ...]


def support_session(conversation: DeskConversation) -> Script:
    """Return the script of a conversation of the simulated desk, with its times and sub-agents."""
    lines: list[ScriptLine] = []
    calls: dict[str | None, ScriptCall] = {}
    for _, group in groupby(conversation.steps, key=lambda step: step.message):
        steps = list(group)
        visible = [step for step in steps if not step.nested]
        calls |= {step.call_id: _call(step) for step in visible if step.kind == "tool_call"}
        lines.append(_support_line(visible, calls, lines))
        inner = tuple(
            ScriptLine(Role(step.kind), step.text, time=step.time_ns) for step in steps if step.nested
        )
        if inner:
            # These steps ran during the call before them: the result of the call gets them.
            lines[-1] = replace(lines[-1], inner=inner)
    agent = conversation.agent
    return Script(
        conversation.session_id, agent.name, agent.model, agent.service, tuple(_inner_to_results(lines))
    )


def _support_line(
    steps: list[SceneStep], calls: Mapping[str | None, ScriptCall], before: Sequence[ScriptLine]
) -> ScriptLine:
    first, time = steps[0], steps[0].time_ns
    if first.kind == "tool_call":
        return ScriptLine(Role.ASSISTANT, calls=tuple(calls[step.call_id] for step in steps), time=time)
    if first.kind == "tool_result":
        call = calls[first.call_id]
        again = any(line.answers == call for line in before)
        return ScriptLine(Role.TOOL, first.result, (), call, again, first.error, time)
    return ScriptLine(Role(first.kind), first.text, time=time)


def _call(step: SceneStep) -> ScriptCall:
    return ScriptCall(step.call_id, step.tool or "", step.args or "{}")


def _inner_to_results(lines: Sequence[ScriptLine]) -> Iterator[ScriptLine]:
    """Yield the lines, with inner conversations moved from the call to its result."""
    waiting: tuple[ScriptLine, ...] = ()
    for line in lines:
        if line.role is Role.TOOL:
            yield replace(line, inner=waiting)
            waiting = ()
        else:
            waiting += line.inner
            yield replace(line, inner=())


def chat_session(
    messages: Sequence[Mapping[str, object]],
    *,
    session_id: str,
    agent: str = "assistant",
    model: str = "lumen-4",
    service: str = "shop-web",
) -> Script:
    """Return the script of OpenAI-style chat messages, without instructions.

    Calls are nested (`function`) or flat; arguments are JSON text or an object. A result answers the nearest
    earlier open call of its id, or else the last call of its id again; a result without a call is dropped.
    """
    lines: list[ScriptLine] = []
    asked: list[ScriptCall] = []
    waiting: list[ScriptCall] = []
    for message in messages:
        role = message.get("role")
        line = ScriptLine(
            Role.USER, _text(message.get("content")), time=parse_time(message.get("timestamp"), UTC) or 0
        )
        if role == Role.USER:
            lines.append(line)
        elif role == Role.ASSISTANT:
            found = cast("list[Mapping[str, object]]", message.get("tool_calls") or [])
            calls = tuple(_chat_call(call) for call in found)
            asked += calls
            waiting += calls
            lines.append(replace(line, role=Role.ASSISTANT, calls=calls))
        elif role == Role.TOOL:
            lines += _result_line(line, message, asked, waiting)
    return Script(session_id, agent, model, service, tuple(lines))


def _text(content: object) -> str | None:
    return content if content is None or isinstance(content, str) else json.dumps(content)


def _chat_call(asked: Mapping[str, object]) -> ScriptCall:
    inner = cast("Mapping[str, object]", asked.get("function") or asked)
    args = inner.get("arguments")
    return ScriptCall(
        cast("str | None", asked.get("id")),
        str(inner.get("name")),
        args if isinstance(args, str) else json.dumps(args or {}),
    )


def _result_line(
    line: ScriptLine, message: Mapping[str, object], asked: list[ScriptCall], waiting: list[ScriptCall]
) -> Iterator[ScriptLine]:
    """Yield the line of a tool's message if a call has its id, and close that call."""
    call_id, error = message.get("tool_call_id"), message.get("error")
    place = max((i for i, call in enumerate(waiting) if call.call_id == call_id), default=None)
    called = [call for call in asked if call.call_id == call_id]
    if not called:
        return
    again = place is None
    yield replace(
        line,
        role=Role.TOOL,
        answers=called[-1] if place is None else waiting.pop(place),
        again=again,
        error=str(error) if error else None,
    )


_TEXTS = ("yes", "no", "yes", "What is it about?", "Done, thank you.", "«über» 🙂 <b>&amp;</b>\n", "refund")
_TOOLS = ("find_user", "get_order", "issue_refund")
_ARGS = ('{"id": 1}', '{"id": 1, "note": "a\\"b"}', "{}", '{"amount": 120.5, "ids": [1, 2]}')
_RESULTS = ("ok", '{"status": "done", "items": [1, 2]}', "Error: no answer", "[]")


def random_session(seed: int, turns: int = 6) -> Script:
    """Return a short random conversation with many equal texts, calls and results.

    Calls run in parallel, fail, stay unanswered, or are answered twice or by a sub-agent; the customer
    sometimes writes twice in a row. Every call has a unique id.
    """
    rng = Random(f"random session {seed}")
    lines: list[ScriptLine] = []
    if rng.random() < 0.4:
        lines.append(ScriptLine(Role.ASSISTANT, rng.choice(_TEXTS)))
    for _ in range(rng.randint(1, turns)):
        lines += [ScriptLine(Role.USER, rng.choice(_TEXTS)) for _ in range(1 + (rng.random() < 0.2))]
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            lines += _random_calls(rng)
        if rng.random() < 0.9:
            lines += [
                ScriptLine(Role.ASSISTANT, rng.choice(_TEXTS)) for _ in range(1 + (rng.random() < 0.15))
            ]
    return Script(f"random-{seed}", "desk", "lumen-4", "shop-web", tuple(lines))


def _random_calls(rng: Random) -> Iterator[ScriptLine]:
    calls = tuple(
        ScriptCall(f"call_{rng.getrandbits(32):08x}", rng.choice(_TOOLS), rng.choice(_ARGS))
        for _ in range(rng.choice((1, 1, 1, 2, 3)))
    )
    yield ScriptLine(Role.ASSISTANT, rng.choice((None, None, "One moment.")), calls)
    for call in calls:
        chance = rng.random()
        if chance < 0.1:
            continue
        inner: tuple[ScriptLine, ...] = ()
        if chance < 0.25:
            inner = (
                ScriptLine(Role.USER, rng.choice(_TEXTS)),
                ScriptLine(Role.ASSISTANT, rng.choice(_TEXTS)),
            )
        error = rng.choice(("timeout", "not_found")) if chance > 0.85 else None
        yield ScriptLine(Role.TOOL, rng.choice(_RESULTS), (), call, error=error, inner=inner)
        if 0.25 < chance < 0.32:
            yield ScriptLine(Role.TOOL, rng.choice(_RESULTS), (), call, again=True)


def tidy(session: Script) -> Script:
    """Return the session without unanswered calls and without second answers.

    Without ids, these leave open which call a result answers. Messages without text and calls are dropped.
    """
    answered = [line.answers for line in session.lines if line.answers is not None]
    pruned = [replace(line, calls=tuple(c for c in line.calls if c in answered)) for line in session.lines]
    lines = tuple(line for line in pruned if not line.again and (line.text is not None or line.calls))
    return replace(session, lines=lines)


def later(session: Script, by_ns: int) -> Script:
    """Return the same conversation later, under the same id; it must have times.

    Its spans have different ids.
    """

    return replace(session, lines=_later(session.lines, by_ns))


def _later(lines: Sequence[ScriptLine], by_ns: int) -> tuple[ScriptLine, ...]:
    return tuple(replace(line, time=line.time + by_ns, inner=_later(line.inner, by_ns)) for line in lines)
