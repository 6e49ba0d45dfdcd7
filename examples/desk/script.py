"""Scripts: the desk's conversations as messages, with the calls that results answer, for agents to play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ...schemas.span_content import Role
from .bot import DeskConversation
from .scene import SceneStep


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


def turn_bounds(lines: Sequence[ScriptLine]) -> Iterator[tuple[int, int]]:
    """Return the bounds of turns; each begins with the customer's first message after other messages."""
    starts = [
        i
        for i, line in enumerate(lines)
        if i == 0 or (line.role is Role.USER and lines[i - 1].role is not Role.USER)
    ]
    return zip(starts, [*starts[1:], len(lines)], strict=True)
