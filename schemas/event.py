"""Events: the steps of a session, and their ids.

`schemas/frames/events.py` has the same columns as a Polars schema, apart so that this module imports fast.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Protocol, cast

import msgspec
import orjson
import rfc8785

from .canonical_json import canonical_json, is_deep
from .time import rfc3339


class Kind(StrEnum):
    """The kind of an event, in the sort order of kinds at one place (`end` is no event and sorts last)."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    UNKNOWN = "unknown"
    END = "end"


_MESSAGES, _CALL, _RESULT = (Kind.USER, Kind.ASSISTANT), Kind.TOOL_CALL, Kind.TOOL_RESULT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_dumps, _sha256 = orjson.dumps, hashlib.sha256
_BEGINS = {str(kind): b"[%b," % _dumps(kind) for kind in Kind}
"""The begins of the arrays of `event_body`."""


class Content(StrEnum):
    """The state of an event's content."""

    CAPTURED = "captured"
    ABSENT = "absent"
    TRUNCATED = "truncated"
    REDACTED = "redacted"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One judged event, or the `end` of an occurrence: a row of the event frame, columns in its order.

    `time` and `occurrence` are nanoseconds since the epoch (UTC). `seq` counts from 1 inside the occurrence.
    """

    session_id: str
    occurrence: int
    time: int
    seq: int
    kind: Kind
    late: bool = False
    history: bool = False
    agent: str | None = None
    model: str | None = None
    service: str | None = None
    nested: bool = False
    text: str | None = None
    tool: str | None = None
    call_id: str | None = None
    args: str | None = None
    result: str | None = None
    error: str | None = None
    content: Content = Content.CAPTURED
    trace_id: str | None = None
    span_id: str | None = None
    event_id: str = ""
    attributes: Mapping[str, str] = {}


def event_content(
    kind: str,
    *,
    text: str | None = None,
    tool: str | None = None,
    call_id: str | None = None,
    args: str | None = None,
    result: str | None = None,
) -> list[str | None]:
    """Return an event's content, as the list of texts that `event_id` hashes.

    A call is its call id, tool and arguments (JSON arguments in canonical form); a result its call id, tool
    and result; a message its text; `unknown` and `end` have none. Errors, times, agents and provenance are no
    content.
    """
    if kind in _MESSAGES:
        return [text]
    if kind == _CALL:
        return [call_id, tool, None if args is None else canonical_text(args)]
    return [call_id, tool, result] if kind == _RESULT else []


class EventLike(Protocol):
    """Any object with the content fields of an event, from chat logs, spans or simulations."""

    @property
    def kind(self) -> str: ...  # noqa: D102 (the fields of `Event`)
    @property
    def text(self) -> str | None: ...  # noqa: D102
    @property
    def tool(self) -> str | None: ...  # noqa: D102
    @property
    def call_id(self) -> str | None: ...  # noqa: D102
    @property
    def args(self) -> str | None: ...  # noqa: D102
    @property
    def result(self) -> str | None: ...  # noqa: D102


def content_of(event: EventLike) -> list[str | None]:
    """Return the `event_content` of an object with the fields of an event."""
    if event.kind in _MESSAGES:
        return [event.text]
    return event_content(
        event.kind,
        text=event.text,
        tool=event.tool,
        call_id=event.call_id,
        args=event.args,
        result=event.result,
    )


def end_event(session_id: str, occurrence: int, time: int, seq: int, attributes: Mapping[str, str]) -> Event:
    """Return the `end` row that closes an occurrence at that time; `seq` is one above its last event's."""
    return Event(
        session_id=session_id,
        occurrence=occurrence,
        time=time,
        seq=seq,
        kind=Kind.END,
        event_id=event_id(session_id, occurrence, Kind.END, [], 0),
        attributes=attributes,
    )


def event_id(session_id: str, occurrence: int, kind: str, content: list[str | None], ordinal: int) -> str:
    """Return the id of an event: the first 32 hex digits of the SHA-256 of a canonical JSON array (RFC 8785).

    The array is `[session_id, occurrence, kind, content, ordinal]`: the occurrence as RFC 3339 text with nine
    digits, `content` as `event_content` gives it, and `ordinal` the number of events before it in the
    occurrence (in judged order) with the same kind and content. Strings must be encodable as UTF-8.
    """
    return event_id_of(session_id, occurrence, event_body(kind, content), ordinal)


def event_body(kind: str, content: list[str | None]) -> bytes:
    """Return the part of an event's id that is the event's own: a JSON array of its kind and content."""
    # Of strings, nulls and small integers orjson writes the same bytes as RFC 8785, forty times as fast.
    return _BEGINS[kind] + _dumps(content) + b"]"


def event_id_of(session_id: str, occurrence: int, body: bytes, ordinal: int) -> str:
    """Return the id of an event with that `event_body`."""
    array = b"%b,%b,%d]" % (_head(session_id, occurrence), body[1:-1], ordinal)
    return _sha256(array).hexdigest()[:32]


@lru_cache(maxsize=4096)
def _head(session_id: str, occurrence: int) -> bytes:
    """Return the begin of the array of an event's id: all events of an occurrence have it."""
    return _dumps([session_id, rfc3339(occurrence)])[:-1]


CANONICAL_CACHED_CHARS_MAX = 4_096
"""Characters of JSON text with a cached canonical form: agents repeat the same arguments many times."""


def canonical_text(text: str) -> str:
    """Return JSON text in canonical form (`schemas/canonical_json.py`), and any other or deep text as it is.

    That is the form of RFC 8785 for every text that has one.
    """
    return _canonical(text) if len(text) > CANONICAL_CACHED_CHARS_MAX else _cached_canonical(text)


_BEYOND_ORJSON = re.compile(
    r"[^\x00-\x7f]|\\u|[0-9.]{16}|[0-9][eE]|-0(?![.0-9])|[0-9]\.(?!0{0,2}[1-9]|[^0-9])", re.ASCII
)
"""Text in which JSON may have a member or a number that orjson orders or writes in another way than RFC 8785.

Without it each name is ASCII, each number a decimal with at most 15 digits, and each fraction at least 0.001.
"""


def _canonical(text: str) -> str:
    if is_deep(text):
        return text
    if _BEYOND_ORJSON.search(text) is None:
        try:
            return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
        except orjson.JSONDecodeError:
            # It may be `NaN` or an infinity, which have a canonical form.
            pass
    try:
        value = cast("object", json.loads(text))
        return rfc8785.dumps(value).decode()  # pyright: ignore[reportArgumentType]
    except json.JSONDecodeError:
        return text
    except ValueError:
        # RFC 8785 has no form for it.
        canonical = canonical_json(text)
        return text if canonical is None else canonical


_cached_canonical = lru_cache(maxsize=4096)(_canonical)
