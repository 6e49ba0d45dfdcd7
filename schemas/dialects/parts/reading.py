"""What a dialect finds on a span: its part, and what was heard, said, called and returned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...event import Content
from ...span_content import INPUT, OUTPUT, Message, Role, SpanRole, ToolCall, ToolResult

_OTHERS = (Role.USER, Role.TOOL)
_WORSE = (Content.CAPTURED, Content.TRUNCATED, Content.REDACTED, Content.ABSENT)


@dataclass(frozen=True, slots=True)
class Half:
    """What a model was told, or what it said; `messages` is None where that was not captured."""

    messages: tuple[Message, ...] | None
    content: Content = Content.CAPTURED


ABSENT = Half(None, Content.ABSENT)
TRUNCATED = Half(None, Content.TRUNCATED)
REDACTED = Half(None, Content.REDACTED)


@dataclass(frozen=True, slots=True)
class DialectReading:
    """What one dialect finds on a span; None and `ABSENT` stand for what it does not find."""

    role: SpanRole
    agent: str | None = None
    model: str | None = None
    input: Half = ABSENT
    output: Half = ABSENT
    call: ToolCall | None = None
    result: ToolResult | None = None

    @property
    def has_gaps(self) -> bool:
        """Return whether another dialect on the same span may still have something to add."""
        if self.role is SpanRole.TOOL:
            return _has_gap(self.call) or _has_gap(self.result)
        return self.role is not SpanRole.OTHER and (self.input is ABSENT or self.output is ABSENT)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return the halves without content, though not hidden on purpose: log records may have it."""
        if self.role is SpanRole.OTHER:
            return ()
        if self.role is SpanRole.TOOL:
            gaps = (_has_gap(self.call), _has_gap(self.result))
        else:
            halves = (self.input, self.output)
            gaps = tuple(half.messages is None and half.content is not Content.REDACTED for half in halves)
        return tuple(half for half, is_gap in zip((INPUT, OUTPUT), gaps, strict=True) if is_gap)

    def filled(self, other: DialectReading) -> DialectReading:
        """This with what only the other dialect tells of the same part."""
        if other.role is not self.role:
            return self
        return replace(
            self,
            agent=self.agent or other.agent,
            model=self.model or other.model,
            input=other.input if self.input is ABSENT else self.input,
            output=other.output if self.output is ABSENT else self.output,
            call=other.call if _has_gap(self.call) and not _has_gap(other.call) else self.call,
            result=other.result if _has_gap(self.result) and not _has_gap(other.result) else self.result,
        )


def _has_gap(one: ToolCall | ToolResult | None) -> bool:
    return one is None or one.content is Content.ABSENT


def worst(*contents: Content) -> Content:
    """Return the one that leaves least to be read."""
    return max(contents, key=_WORSE.index)


def own_output(part: SpanRole, output: Half) -> Half:
    """Return the output of a model or an agent without what others said."""
    if part is SpanRole.CHAT and any(one.role in _OTHERS for one in output.messages or ()):
        # A model may answer in JSON that looks like a conversation: nobody else speaks by that.
        return TRUNCATED
    return _new(output) if part is SpanRole.AGENT else output


def _new(output: Half) -> Half:
    """Return an agent's output without the conversation before it, which graphs give back whole."""
    messages = output.messages or ()
    last = max((place for place, one in enumerate(messages) if one.role is Role.USER), default=-1)
    return output if last < 0 else replace(output, messages=messages[last + 1 :])
