"""Spans as the decoders make them from any wire format, and as the dialects read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[str, Value] | None"
"""An attribute's value: OTLP's AnyValue, an array as a list and a key-value list as a dict."""


class SpanEvent(msgspec.Struct, frozen=True, gc=False):
    """A span event, at `time` nanoseconds since the epoch (0: not set).

    `dropped` is the number of attributes known to be missing.
    """

    name: str
    time: int
    attributes: Mapping[str, Value] = {}
    dropped: int = 0


class Span(msgspec.Struct, frozen=True, gc=False):
    """One span: ids in lower-case hex (32 and 16 digits), times in nanoseconds since the epoch (0: not set).

    `parent_id` is None at a root. `failed` is whether the status is an error. `resource` has the resource's
    attributes, `scope` is the name of the instrumentation scope, `scope_version` its version (empty: not
    set). `dropped_attributes` and `dropped_events` are the numbers known to be missing: an SDK's limits cut
    them off, or they could not be decoded.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start: int
    end: int
    attributes: Mapping[str, Value] = {}
    events: tuple[SpanEvent, ...] = ()
    failed: bool = False
    resource: Mapping[str, Value] = {}
    scope: str = ""
    dropped_attributes: int = 0
    dropped_events: int = 0
    scope_version: str = ""
