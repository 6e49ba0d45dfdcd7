"""Requests in protobuf, whole, damaged and packed: what remains, and the flaws for the rest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable

import pytest
import zstandard
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.schemas.otlp import decoded, salvage
from tracline.schemas.otlp.decode import (
    decode_protobuf,
    decode_request,
)
from tracline.schemas.otlp.decoded import Decoded, Unreadable
from tracline.schemas.otlp.framing import Frame, Layout, frames, layout_of, unpacked

from .otlp_spans import (
    codes,
    delimited,
    javascript,
    message,
    request,
    sdk_spans,
    sent_spans,
)


def test_what_the_exporter_sends_is_decoded() -> None:
    """The SDK's protobuf gives ids in hex, nanoseconds, values, events, status, resource and scope."""
    assert decode_protobuf(encode_spans(sdk_spans()).SerializeToString()) == Decoded(sent_spans())


def test_values_nested_deeper_than_protobuf_allows_cost_one_attribute() -> None:
    """If the protobuf library itself gives up, the attribute alone is lost, and the span stays."""
    deep = b"\x0a\x01x"
    for _ in range(200):
        inner = delimited(1, deep)
        deep = delimited(5, inner)
    attribute = delimited(9, delimited(1, b"deep") + delimited(2, deep))
    sound = message(name="kept")
    sound.attributes.add(key="after").value.int_value = 1
    spans = delimited(2, attribute + sound.SerializeToString()) + delimited(2, message().SerializeToString())
    found = decode_protobuf(delimited(1, delimited(2, spans)))
    assert codes(found) == [("resource 1, scope 1, span 1, attribute 1", "otlp-value")]
    assert dict(found.spans[0].attributes) == {"deep": None, "after": 1}
    assert len(found.spans) == 2


def damaged(whole: TracesData, marks: Iterable[bytes] = (b"@@@@",)) -> bytes:
    """The request with each mark made bytes that are not UTF-8."""
    data = whole.SerializeToString()
    for mark in marks:
        assert data.count(mark) == 1
        data = data.replace(mark, b"\xff" * len(mark))
    return data


@pytest.mark.parametrize("where", ["name", "trace_state", "status", "event", "scope", "schema"])
def test_names_that_are_not_utf8_are_left_out(where: str) -> None:
    """A span's name, a note or a scope's name that is not UTF-8 is a flaw; all else of the span stays."""
    span_message = message(start_time_unix_nano=7)
    span_message.attributes.add(key="a").value.string_value = "b"
    whole = request(span_message)
    span = whole.resource_spans[0].scope_spans[0].spans[0]
    if where == "status":
        span.status.message = "@@@@"
    elif where == "event":
        span.events.add(name="@@@@", time_unix_nano=3)
    elif where == "scope":
        whole.resource_spans[0].scope_spans[0].scope.name = "@@@@"
    elif where == "schema":
        whole.resource_spans[0].schema_url = "@@@@"
    else:
        setattr(span, where, "@@@@")
    found = decode_protobuf(damaged(whole))
    assert [code for _, code in codes(found)] == ["otlp-text"]
    assert [(found_span.start, dict(found_span.attributes)) for found_span in found.spans] == [
        (7, {"a": "b"})
    ]
    assert [event.time for event in found.spans[0].events] == ([3] if where == "event" else [])
    assert found.spans[0].dropped_events == (where == "event")


def test_a_key_that_is_not_utf8_costs_its_attribute() -> None:
    """An attribute without a readable key is left out; the one flaw names its place."""
    span_message = message()
    span_message.attributes.add(key="@@@@").value.string_value = "b"
    span_message.attributes.add(key="a").value.string_value = "b"
    found = decode_protobuf(damaged(request(span_message)))
    assert codes(found) == [("resource 1, scope 1, span 1, attribute 1", "otlp-protobuf")]
    assert dict(found.spans[0].attributes) == {"a": "b"}
    assert found.spans[0].dropped_attributes == 1


def test_a_span_that_is_damaged_inside_is_lost_alone() -> None:
    """If a span's bytes are no fields, it alone is lost, counted and a flaw; places stay as they were."""
    whole = request(message(), message(name="@@@@"), message(parent_span_id=b"1"))
    data = whole.SerializeToString()
    found = decode_protobuf(data.replace(b"\x2a\x04@@@@", b"\x2b\xff\xff\xff\xff\xff"))
    assert codes(found) == [
        ("resource 1, scope 1, span 2", "otlp-protobuf"),
        ("resource 1, scope 1, span 3", "otlp-parent-id"),
    ]
    assert (len(found.spans), found.rejected) == (2, 1)


def test_bytes_that_are_no_request_are_one_flaw() -> None:
    """Something else in place of protobuf gives one flaw for the request and no span."""
    for data in (b"hello, world", b"\x0a\xff", b"\xff" * 40, b"<html>" * 100):
        found = decode_protobuf(data)
        assert codes(found) == [("request", "otlp-protobuf")]
        assert found.spans == ()
    assert decode_protobuf(b"") == Decoded()


def test_the_search_for_damage_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged request with more fields than are looked at is rejected as a whole, with a flaw."""
    monkeypatch.setattr(salvage, "FIELDS_MAX", 20)
    found = decode_protobuf(damaged(request(*[message() for _ in range(20)], message(name="@@@@"))))
    assert codes(found) == [("request", "otlp-protobuf")]
    assert found.spans == ()


def test_flaws_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a request with many bad spans the first flaws are listed, the others counted in a last one."""
    monkeypatch.setattr(decoded, "FLAWS_MAX", 3)
    found = decode_protobuf(request(*[Message() for _ in range(10)]).SerializeToString())
    assert [code for _, code in codes(found)] == ["otlp-trace-id"] * 3 + ["otlp-more"]
    assert "7 more" in found.flaws[-1].text
    assert found.rejected == 10


def test_packed_requests_are_unpacked_within_limits() -> None:
    """zstd and gzip of either format are read; what is damaged, cut off or too large is a flaw."""
    data = encode_spans(sdk_spans()).SerializeToString()
    text = json.dumps([javascript(span) for span in sdk_spans()]).encode()
    for body in (data, text):
        for packed in (body, gzip.compress(body), zstandard.compress(body), unsized(body)):
            assert decode_request(packed) == Decoded(sent_spans())
    for packed in (gzip.compress(data), zstandard.compress(data), unsized(data)):
        for wrong in (packed[:-1], packed[:6], packed + b"more", packed[:4] + b"\xff" * 9):
            assert codes(decode_request(wrong)) == [("request", "otlp-packed")]
    nothing = bytes(10**7)
    for bomb in (gzip.compress(nothing), zstandard.compress(nothing), unsized(nothing)):
        assert codes(decode_request(bomb)) == [("request", "otlp-size")]
    with pytest.raises(Unreadable, match="unpacks to more than 100 bytes"):
        unpacked(gzip.compress(data), 100)
    assert codes(decode_request(b'{"resourceSpans": ')) == [("request", "json")]


def unsized(data: bytes) -> bytes:
    """Return a zstd frame without a content size."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def test_a_frame_beyond_the_limit_is_passed_over() -> None:
    """A request that is too large is a flaw with its byte, and the next one is read."""
    parts = [b"one", b"much too long", b"two"]
    stream = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    chunks = iter([stream[:4], stream[4:7], stream[7:11], stream[11:24], stream[24:28], stream[28:], b""])
    found = list(frames(lambda _: next(chunks), bytes_max=5))
    assert found[0] == Frame(0, b"one")
    assert getattr(found[1], "place", "") == "byte 7"
    assert getattr(found[1], "code", "") == "otlp-size"
    assert found[2] == Frame(24, b"two")


def test_layouts_are_recognised_by_the_first_bytes() -> None:
    """Frames of protobuf or zstd and a single request are known; text of any kind is not taken for them."""
    data = encode_spans(sdk_spans()).SerializeToString()
    framed = len(data).to_bytes(4, "big") + data
    assert layout_of(framed[:64]) is Layout.FRAMES
    assert layout_of((len(data)).to_bytes(4, "big") + zstandard.compress(data)) is Layout.FRAMES
    assert layout_of(data[:64]) is Layout.REQUEST
    for text in (
        b"",
        b"{}",
        b"\n{\n",
        b"\n\n\n\n\n\n",
        b"[1]",
        b"# notes",
        b"PAR1\x15",
        b"\x00\x00",
        b"\n\x0c",
    ):
        assert layout_of(text) is None
    assert layout_of(b"\n\n\n# A title\n\nand more text than that") is None
