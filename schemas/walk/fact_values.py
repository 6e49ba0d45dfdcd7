"""The facts that the walk found of one span, as values, and what of its reading depends on its role."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ..chat.message import ID_CHARS_MAX, string_of
from ..dialects.parts.message_parts import name_of
from ..dialects.span_facts import truth_of
from ..event import Content
from ..span import Value
from ..span_content import INPUT, OUTPUT, SpanRole, ToolCall
from .wire_loops import NOTHING, NUMBER, TEXT, TRUTH

Facts: TypeAlias = dict[int, list[int]]
"""The facts of a span by slot."""
_PAIR = (INPUT, OUTPUT)


class Odd(Exception):
    """A span that the dialects have to read."""


class RoleFacts(NamedTuple):
    """The fields of a reading that depend on the role, as `SpanContent` and `SpanReading` name them."""

    role: SpanRole
    has_claims: bool = False
    captured: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    model: str | None = None
    call: ToolCall | None = None
    response_id: str | None = None
    agent: str | None = None


OTHER = RoleFacts(SpanRole.OTHER)
FAILED_OTHER = RoleFacts(SpanRole.OTHER, captured=(OUTPUT,))
"""A failed span without an output counts as one with an empty output, whatever its role."""


def halves_of(has_input: bool, has_output: bool) -> tuple[str, ...]:
    """Return the halves that are there."""
    return _PAIR if has_input and has_output else (INPUT,) if has_input else (OUTPUT,) if has_output else ()


def model_call(
    asked: bool | None,
    answered: bool | None,
    error: str | None,
    model: str | None,
    response_id: str | None,
) -> RoleFacts:
    """Return the call of a model; a half has messages or none, and is None where it is absent."""
    captured, lacks = _captured(asked, answered, error)
    has_claims = bool(asked or answered) or len(captured) < 2
    return RoleFacts(SpanRole.CHAT, has_claims, captured, lacks, string_of(model), None, response_id)


def agent_run(
    asked: bool | None, answered: bool | None, error: str | None, model: str | None, agent: str | None = None
) -> RoleFacts:
    """Return the run of an agent; a half has messages or none, and is None where it is absent."""
    captured, lacks = _captured(asked, answered, error)
    has_messages = bool(asked or answered)
    return RoleFacts(SpanRole.AGENT, has_messages, captured, lacks, string_of(model), agent=agent)


def _captured(
    asked: bool | None, answered: bool | None, error: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the captured halves, and those that are absent."""
    has_output = answered is not None or error is not None
    return halves_of(asked is not None, has_output), halves_of(asked is None, answered is None)


def tool_run_of(call: ToolCall, asked: Content, answered: Content, error: str | None) -> RoleFacts:
    """Return the run of a tool; `asked` and `answered` are the states of its arguments and its result."""
    lacks = halves_of(asked is Content.ABSENT, answered is Content.ABSENT)
    if error is not None and asked is Content.CAPTURED and answered is Content.ABSENT:
        answered = Content.CAPTURED
    captured = halves_of(call.content is Content.CAPTURED, answered is Content.CAPTURED)
    return RoleFacts(SpanRole.TOOL, has_claims=True, captured=captured, lacks=lacks, call=call)


def truth_in(data: bytes, fact: list[int] | None) -> bool | None:
    """Return an attribute as `truth_of` does; None where it is missing."""
    return None if fact is None else truth_of(value_in(data, fact))


def name_in(data: bytes, fact: list[int]) -> str | None:
    """Return an attribute as `name_of` does."""
    _, kind, at, size = fact
    is_name = kind == TEXT and 0 < size <= ID_CHARS_MAX
    return data[at : at + size].decode() if is_name else name_of(value_in(data, fact))


def string_in(data: bytes, fact: list[int]) -> str | None:
    """Return an attribute as `string_of` does."""
    return name_in(data, fact) if fact[1] == TEXT else string_of(value_in(data, fact))


def text_in(data: bytes, fact: list[int] | None) -> str | None:
    """Return the text of an attribute; None where it is missing."""
    if fact is None:
        return None
    _, kind, at, size = fact
    if kind != TEXT:
        raise Odd
    return data[at : at + size].decode()


def plain_in(data: bytes, fact: list[int] | None) -> Value:
    """Return the value of an attribute; None where it is missing."""
    return None if fact is None else value_in(data, fact)


def value_in(data: bytes, fact: list[int]) -> Value:
    """Return the value of an attribute."""
    _, kind, at, size = fact
    if kind == TEXT:
        return data[at : at + size].decode()
    if kind in (TRUTH, NUMBER):
        return at != 0 if kind == TRUTH else at
    if kind == NOTHING:
        return None
    raise Odd
