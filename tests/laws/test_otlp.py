"""Span data: all encodings of a request decode alike, and no input raises or loses spans silently."""

from __future__ import annotations

import json
from typing import Any

import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.schemas.otlp.decode import (
    decode_json,
    decode_protobuf,
    decode_request,
    is_span_dump,
    read_span_json,
)
from tracline.schemas.otlp.decoded import CODES, Decoded
from tracline.schemas.otlp.framing import Frame, frames

from ..support.otlp_messages import REQUESTS, SPANS, otlp_json, protobuf_json
from .quick_draws import quickly

FEW = settings(max_examples=100)
"""Enough for laws of which one example holds many spans or cuts."""


def text(decoded: Decoded) -> str:
    """Return what was decoded as text, in which NaN equals NaN."""
    return repr(decoded)


def messages(request: TracesData) -> list[Message]:
    """The span messages of a request in their order."""
    return [
        span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans
    ]


def plain(value: AnyValue) -> Any:
    """The value of an AnyValue, by its definition."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: plain(pair.value) for pair in value.kvlist_value.values}
    return None if kind is None else getattr(value, kind)


@given(quickly(REQUESTS))
@FEW
def test_protobuf_is_decoded_field_by_field(request: TracesData) -> None:
    """Every span of a well-formed request is decoded in order with all its fields, and without a flaw."""
    decoded = decode_protobuf(request.SerializeToString())
    assert decoded.flaws == ()
    assert decoded.rejected == 0
    for span, message in zip(decoded.spans, messages(request), strict=True):
        assert bytes.fromhex(span.trace_id) == message.trace_id
        assert bytes.fromhex(span.span_id) == message.span_id
        assert bytes.fromhex(span.parent_id or "") == message.parent_span_id
        assert (span.name, span.start, span.end) == (
            message.name,
            message.start_time_unix_nano,
            message.end_time_unix_nano,
        )
        assert span.failed == (message.status.code == 2)
        assert repr(span.attributes) == repr({pair.key: plain(pair.value) for pair in message.attributes})
        assert [(event.name, event.time) for event in span.events] == [
            (event.name, event.time_unix_nano) for event in message.events
        ]
        assert [event.dropped for event in span.events] == [
            event.dropped_attributes_count for event in message.events
        ]
        nameless = sum(event.name == "" for event in message.events)
        assert (span.dropped_attributes, span.dropped_events - nameless) == (
            message.dropped_attributes_count,
            message.dropped_events_count,
        )


@given(quickly(REQUESTS))
@FEW
def test_every_json_spelling_equals_protobuf(request: TracesData) -> None:
    """Hex and base64 ids, camel and snake case, enums by name and number, and a bare array decode alike."""
    expected = text(decode_protobuf(request.SerializeToString()))
    camel = protobuf_json(request)
    spellings: list[Any] = [
        camel,
        otlp_json(camel),
        protobuf_json(request, snake=True),
        protobuf_json(request, numbers=True),
    ]
    if request.resource_spans and all(resource.scope_spans for resource in request.resource_spans):
        spellings.append(camel["resourceSpans"])
    for value in spellings:
        read = read_span_json(json.dumps(value).encode())
        assert text(decode_json(read)) == expected
        assert text(decode_request(json.dumps(value).encode())) == expected
        assert is_span_dump(read) or not messages(request)


@given(quickly(REQUESTS.filter(lambda request: bool(messages(request)))))
@FEW
def test_a_request_cut_anywhere_is_a_flaw(request: TracesData) -> None:
    """Cut at any byte, a request gives one flaw and nothing made up; cut between two resources, the first."""
    data = request.SerializeToString()
    whole = [text(Decoded((span,))) for span in decode_protobuf(data).spans]
    edges = {0}
    for resource in request.resource_spans:
        edges.add(max(edges) + TracesData(resource_spans=[resource]).ByteSize())
    for size in range(len(data)):
        decoded = decode_protobuf(data[:size])
        assert [text(Decoded((span,))) for span in decoded.spans] == whole[: len(decoded.spans)]
        assert len(decoded.flaws) == (size not in edges)
        assert decoded.spans == () or size in edges


@given(quickly(SPANS), quickly(SPANS), st.sampled_from([b"\xff\xfe\xfd", b"\xed\xa0\x80"]))
def test_text_that_is_not_utf8_costs_its_attribute_alone(first: Message, second: Message, bad: bytes) -> None:
    """An attribute's value that is not UTF-8 is None and a flaw with its place; all else is unchanged."""
    assume(b"said" not in first.SerializeToString() + second.SerializeToString())
    first.attributes.add(key="said").value.string_value = "@@@"
    request = TracesData()
    request.resource_spans.add().scope_spans.add().spans.extend([first, second])
    clean = decode_protobuf(request.SerializeToString())
    first.attributes[-1].value.string_value = "@" * len(bad)
    request.resource_spans[0].scope_spans[0].spans[0].CopyFrom(first)
    marked = request.SerializeToString()
    end = marked.rindex(b"\n\x04said\x12") + 10 + len(bad)
    damaged = decode_protobuf(marked[: end - len(bad)] + bad + marked[end:])
    assert [(flaw.place, flaw.code) for flaw in damaged.flaws] == [
        (f"resource 1, scope 1, span 1, attribute {len(first.attributes)}", "otlp-value")
    ]
    assert damaged.rejected == 0
    assert repr(damaged.spans[0].attributes) == repr({**clean.spans[0].attributes, "said": None})
    assert text(Decoded(damaged.spans[1:])) == text(Decoded(clean.spans[1:]))


def check_accounted(decoded: Decoded) -> None:
    """Decoded spans are well-formed, and every flaw has a code of the table and a place."""
    for span in decoded.spans:
        assert (len(span.trace_id), len(span.span_id)) == (32, 16)
        assert 0 <= span.start < 2**63
        assert 0 <= span.end < 2**63
        assert "" not in span.attributes
    assert all(flaw.code in CODES and flaw.place for flaw in decoded.flaws)
    assert decoded.flaws or not decoded.rejected


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    """Bytes of any kind end in spans or flaws, as protobuf, as a request of a file, and packed."""
    check_accounted(decode_protobuf(data))
    check_accounted(decode_request(data))
    check_accounted(decode_request(zstandard.compress(data)))


@given(
    quickly(REQUESTS),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
)
@settings(max_examples=300)
def test_a_request_with_wrong_bytes_is_decoded_or_refused(
    request: TracesData, changes: list[tuple[int, int]]
) -> None:
    """A request in which bytes were changed gives spans and flaws, and never raises."""
    for data in (request.SerializeToString(), json.dumps(protobuf_json(request)).encode()):
        wrong = bytearray(data or b"\n")
        for at, byte in changes:
            wrong[at % len(wrong)] = byte
        check_accounted(decode_request(bytes(wrong)))
        check_accounted(decode_request(zstandard.compress(wrong)))


NAMES = st.sampled_from([
    "resourceSpans", "scopeSpans", "spans", "resource", "scope", "attributes", "key", "value", "values",
    "stringValue", "intValue", "arrayValue", "kvlistValue", "traceId", "spanId", "trace_id", "span_id",
    "context", "name", "events", "status", "code", "start_time", "endTime", "startTimeUnixNano", "parent",
    "parent_id",
])  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["\ud800", "0" * 32, "ab" * 16, "ab" * 8, "0x" + "1" * 16, "12", "NaN"])
    | st.text(max_size=4)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=30,
)


@given(quickly(JSON))
@settings(max_examples=1_000)
def test_any_json_is_decoded_or_refused(value: object) -> None:
    """JSON with the right names in wrong places, numbers without bounds and half surrogates never raises."""
    check_accounted(decode_json(value))
    data = json.dumps(value).encode()
    read = read_span_json(data)
    check_accounted(decode_json(read))
    assert is_span_dump(read) in (True, False)


@given(st.lists(st.binary(max_size=20), max_size=4), st.integers(0, 200))
def test_frames_come_back_and_a_cut_is_a_flaw(parts: list[bytes], size: int) -> None:
    """Length-prefixed frames are read back with their offsets; of a stream cut anywhere, all whole frames."""
    data = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    cut = data[:size]
    found = list(frames(Reader(cut).read))
    whole: list[Frame] = []
    offset = 0
    for part in parts:
        if offset + 4 + len(part) <= size:
            whole.append(Frame(offset, part))
            offset += 4 + len(part)
        else:
            break
    assert found[: len(whole)] == whole
    rest = found[len(whole) :]
    assert [getattr(flaw, "code", "") for flaw in rest] == ["otlp-cut"] * (offset < len(cut))
    assert [getattr(flaw, "place", "") for flaw in rest] == [f"byte {offset}"] * (offset < len(cut))


class Reader:
    """Bytes that are read as a file is."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end only."""
        out, self.data = self.data[:size], self.data[size:]
        return out
