"""A span as it was sent, whatever the wire format: what the decoders make and the dialects read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[str, Value] | None"
"""An attribute's value: OTLP's AnyValue, an array as a list and a key-value list as a dict."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened inside a span, at `time` nanoseconds since the epoch (0: not said).

    `dropped` is how many attributes are known to be missing.
    """

    name: str
    time: int
    attributes: Mapping[str, Value] = field(default_factory=dict[str, Value])
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """One span: ids in lower-case hex (32 and 16 digits), times in nanoseconds since the epoch (0: not said).

    `parent_id` is None at a root. `failed` is whether its status is an error. `resource` has the attributes
    of what sent it, `scope` names the instrumentation that made it, `scope_version` its version (empty: not
    said). `dropped_attributes` and `dropped_events` are how many are known to be missing: an SDK's limits
    cut them off, or they could not be read.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start: int
    end: int
    attributes: Mapping[str, Value] = field(default_factory=dict[str, Value])
    events: tuple[SpanEvent, ...] = ()
    failed: bool = False
    resource: Mapping[str, Value] = field(default_factory=dict[str, Value])
    scope: str = ""
    dropped_attributes: int = 0
    dropped_events: int = 0
    scope_version: str = ""
