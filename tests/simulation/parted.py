"""Spans whose messages are sent as log records, as OpenTelemetry's own instrumentations send them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import orjson
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from tracline.schemas.span import Span, Value

EVENT = "gen_ai.client.inference.operation.details"
MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages")


def parted(span: Span) -> tuple[Span, bytes | None]:
    """A model's call without its messages, and the request of a log record with them; others as they are."""
    content = {name: span.attributes[name] for name in MESSAGES if name in span.attributes}
    if span.attributes.get("gen_ai.operation.name") != "chat" or not content:
        return span, None
    rest = {name: value for name, value in span.attributes.items() if name not in content}
    return msgspec.structs.replace(span, attributes=rest), _request(span, content)


def _request(span: Span, content: Mapping[str, Value]) -> bytes:
    """A request of one log record, which names the span."""
    request = LogsData()
    record = request.resource_logs.add().scope_logs.add().log_records.add(event_name=EVENT)
    record.time_unix_nano = max(span.start, span.end)
    record.trace_id, record.span_id = bytes.fromhex(span.trace_id), bytes.fromhex(span.span_id)
    for name, value in content.items():
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        record.attributes.add(key=name).value.string_value = text
    return request.SerializeToString()
