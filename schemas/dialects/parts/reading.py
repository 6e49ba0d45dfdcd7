"""The reading of a span by one dialect: its role, messages, call and result."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ...event import Content
from ...span_content import INPUT, OUTPUT, Message, Role, SpanRole, ToolCall, ToolResult

_CHAT = SpanRole.CHAT
_OTHERS = (Role.USER, Role.TOOL)
_WORSE = (Content.CAPTURED, Content.TRUNCATED, Content.REDACTED, Content.ABSENT)


class Half(msgspec.Struct, frozen=True, gc=False):
    """One half of a conversation; `messages` is None where it was not captured."""

    messages: tuple[Message, ...] | None
    content: Content = Content.CAPTURED


ABSENT = Half(None, Content.ABSENT)
TRUNCATED = Half(None, Content.TRUNCATED)
REDACTED = Half(None, Content.REDACTED)
EMPTY = Half(())
"""The output of a model that failed before it answered."""


class DialectReading(msgspec.Struct, frozen=True, gc=False):
    """The fields of a span in one dialect; those that it lacks are None or `ABSENT`."""

    role: SpanRole
    agent: str | None = None
    model: str | None = None
    input: Half = ABSENT
    output: Half = ABSENT
    call: ToolCall | None = None
    result: ToolResult | None = None

    @property
    def has_gaps(self) -> bool:
        """Return whether another dialect on the same span may fill gaps."""
        if self.role is SpanRole.TOOL:
            return _has_gap(self.call) or _has_gap(self.result)
        return self.role is not SpanRole.OTHER and (self.input is ABSENT or self.output is ABSENT)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return the halves without content, except redacted ones: log records may have it."""
        if self.role is SpanRole.OTHER:
            return ()
        if self.role is SpanRole.TOOL:
            gaps = (_has_gap(self.call), _has_gap(self.result))
        else:
            halves = (self.input, self.output)
            gaps = tuple(half.messages is None and half.content is not Content.REDACTED for half in halves)
        return tuple(half for half, is_gap in zip((INPUT, OUTPUT), gaps, strict=True) if is_gap)

    def filled(self, filler: DialectReading) -> DialectReading:
        """Return this reading with its gaps filled from another one of the same role."""
        if filler.role is not self.role:
            return self
        return replace(
            self,
            agent=self.agent or filler.agent,
            model=self.model or filler.model,
            input=filler.input if self.input is ABSENT else self.input,
            output=filler.output if self.output is ABSENT else self.output,
            call=filler.call if _has_gap(self.call) and not _has_gap(filler.call) else self.call,
            result=filler.result if _has_gap(self.result) and not _has_gap(filler.result) else self.result,
        )


def _has_gap(half: ToolCall | ToolResult | None) -> bool:
    return half is None or half.content is Content.ABSENT


def worst(*contents: Content) -> Content:
    """Return the state with the least content."""
    return contents[0] if contents.count(contents[0]) == len(contents) else max(contents, key=_WORSE.index)


def own_output(role: SpanRole, output: Half) -> Half:
    """Return the output of a model or an agent without messages of other roles."""
    if role is _CHAT:
        for message in output.messages or ():
            if message.role in _OTHERS:
                # A model may answer in JSON that looks like a conversation; it proves no message of another
                # role.
                return TRUNCATED
        return output
    return _new(output) if role is SpanRole.AGENT else output


def _new(output: Half) -> Half:
    """Return an agent's output without the conversation before it, which graphs return with it."""
    messages = output.messages or ()
    last = max((place for place, message in enumerate(messages) if message.role is Role.USER), default=-1)
    return output if last < 0 else replace(output, messages=messages[last + 1 :])
