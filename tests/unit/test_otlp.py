"""Span data as SDKs write it and as it arrives broken: what is kept, and what is told of the rest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from typing import Any

import pytest
import zstandard
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import IdGenerator, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, set_span_in_context
from tracline.schemas import decoded, salvage
from tracline.schemas.attributes import DEPTH_MAX
from tracline.schemas.decoded import Decoded, Unreadable
from tracline.schemas.framing import Frame, Layout, frames, layout_of, unpacked
from tracline.schemas.jsontext import read_json
from tracline.schemas.otlp import (
    decode_json,
    decode_protobuf,
    decode_request,
    is_span_dump,
    read_span_json,
)
from tracline.schemas.span import Span, SpanEvent

TRACE = "4bedea77bb33b9c5f280371eae21ea97"
ROOT = "8100d9dbee1f3e47"
CHILD = "00c0ffee00000002"
START = 1_771_368_896_312_716_000


class Ids(IdGenerator):
    """The ids above, in turn."""

    def __init__(self) -> None:
        self.left = [int(ROOT, 16), int(CHILD, 16)]

    def generate_trace_id(self) -> int:
        """The one trace."""
        return int(TRACE, 16)

    def generate_span_id(self) -> int:
        """The next span's id."""
        return self.left.pop(0)


def sdk_spans() -> tuple[ReadableSpan, ...]:
    """A failed child and its root, as the SDK hands them to an exporter."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "desk"}), id_generator=Ids())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    root = tracer.start_span("invoke_agent", start_time=START)
    child = tracer.start_span(
        "chat",
        set_span_in_context(root),
        attributes={"n": 3, "tags": ["a", "b"], "ok": True},
        start_time=START,
    )
    child.add_event("said", {"text": "é"}, timestamp=START + 1_000)
    child.set_status(Status(StatusCode.ERROR, "no"))
    child.end(START + 2_000)
    root.end(START + 3_000)
    return exporter.get_finished_spans()


def told(scope: str = "agent") -> tuple[Span, ...]:
    """The same two, decoded."""
    said = (SpanEvent("said", START + 1_000, {"text": "é"}),)
    own = {"n": 3, "tags": ["a", "b"], "ok": True}
    desk = {"service.name": "desk"}
    return (
        Span(TRACE, CHILD, ROOT, "chat", START, START + 2_000, own, said, True, desk, scope),
        Span(TRACE, ROOT, None, "invoke_agent", START, START + 3_000, {}, (), False, desk, scope),
    )


def integers(span: ReadableSpan) -> dict[str, Any]:
    """A span as some agent frameworks dump it: ids as integers, times in nanoseconds."""
    value = json.loads(span.to_json())
    parent_id = value.pop("parent_id", None)
    context = {"trace_id": int(TRACE, 16), "span_id": int(value["context"]["span_id"], 16)}
    parent = {**context, "span_id": int(parent_id, 16)} if parent_id else None
    events = [{**event, "timestamp": START + 1_000} for event in value["events"]]
    status = {"status_code": value["status"]["status_code"].lower()}
    times = {"start_time": span.start_time, "end_time": span.end_time}
    return {**value, **times, "context": context, "parent": parent, "events": events, "status": status}


def javascript(span: ReadableSpan) -> dict[str, Any]:
    """A span as a dump of the JavaScript SDK's objects has it."""
    value = integers(span)

    def moment(ns: int) -> list[int]:
        return list(divmod(ns, 1_000_000_000))

    return {
        "name": value["name"],
        "spanContext": {"traceId": TRACE, "spanId": f"{value['context']['span_id']:016x}"},
        "parentSpanId": f"{value['parent']['span_id']:016x}" if value["parent"] else None,
        "startTime": moment(value["start_time"]),
        "endTime": moment(value["end_time"]),
        "attributes": value["attributes"],
        "events": [
            {"name": e["name"], "time": moment(e["timestamp"]), "attributes": e["attributes"]}
            for e in value["events"]
        ],
        "status": {"code": 2 if value["status"]["status_code"] == "error" else 0},
        "resource": {"attributes": value["resource"]["attributes"]},
        "instrumentationScope": {"name": "agent"},
    }


def codes(found: Decoded) -> list[tuple[str, str]]:
    """Place and code of each flaw."""
    return [(flaw.place, flaw.code) for flaw in found.flaws]


def request(*spans: Message) -> TracesData:
    """A request of these spans."""
    whole = TracesData()
    whole.resource_spans.add().scope_spans.add().spans.extend(spans)
    return whole


def message(**fields: Any) -> Message:
    """A span with good ids."""
    return Message(**{"trace_id": bytes.fromhex(TRACE), "span_id": bytes.fromhex(ROOT), **fields})


def span_json(**fields: Any) -> dict[str, Any]:
    """A span of OTLP JSON with good ids, in a request."""
    span = {"traceId": TRACE, "spanId": ROOT, **fields}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def attributes(**values: Any) -> dict[str, Any]:
    """The attributes of a request with one span that has these, by key the AnyValue's JSON."""
    pairs = [{"key": key, "value": value} for key, value in values.items()]
    return span_json(attributes=pairs)


def test_what_the_exporter_sends_is_decoded() -> None:
    """The SDK's protobuf gives ids in hex, nanoseconds, values, events, status, resource and scope."""
    assert decode_protobuf(encode_spans(sdk_spans()).SerializeToString()) == Decoded(told())


def test_what_the_console_exporter_prints_is_decoded() -> None:
    """Python's `to_json` names no scope; ids after `0x` and ISO times with microseconds are read."""
    values = [json.loads(span.to_json()) for span in sdk_spans()]
    assert is_span_dump(values)
    assert decode_json(values) == Decoded(told(scope=""))
    assert is_span_dump(values[0])
    assert decode_json(values[0]) == Decoded(told(scope="")[:1])


def test_integer_ids_of_128_bits_keep_their_digits() -> None:
    """A dump with integer ids is read exactly; a JSON reader that rounds them loses the span, and says so."""
    data = json.dumps({"spans": [integers(span) for span in sdk_spans()], "final_output": None}).encode()
    value = read_span_json(data)
    assert is_span_dump(value)
    assert decode_json(value) == Decoded(told(scope=""))
    rounded = decode_json(read_json(data))
    assert codes(rounded) == [("span 1", "otlp-trace-id"), ("span 2", "otlp-trace-id")]
    assert (rounded.spans, rounded.rejected) == ((), 2)


def test_what_javascript_sdks_dump_is_decoded() -> None:
    """Objects of the JavaScript SDK, in a list or by operation in an object of lists, are read."""
    values = [javascript(span) for span in sdk_spans()]
    assert decode_json(values) == Decoded(told())
    grouped = {"chat": values[:1], "invoke_agent": values[1:]}
    assert is_span_dump(grouped)
    assert decode_json(grouped) == Decoded(told())


def test_libraries_before_scopes_are_decoded() -> None:
    """Exporters older than OTLP 0.15 send `instrumentationLibrarySpans`; in protobuf that is field 1000."""
    new = encode_spans(sdk_spans()).SerializeToString()
    value = TracesData.FromString(new)
    scopes = value.resource_spans[0].scope_spans[0].SerializeToString()
    del value.resource_spans[0].scope_spans[:]
    inner = value.resource_spans[0].SerializeToString()
    inner += b"\xc2\x3e" + delimited(1, scopes)[1:]
    assert decode_protobuf(delimited(1, inner)) == Decoded(told())
    library = {"instrumentationLibrary": {"name": "agent"}, "spans": [span_json_of(one) for one in told()]}
    desk = {"attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]}
    found = decode_json({"resourceSpans": [{"resource": desk, "instrumentationLibrarySpans": [library]}]})
    assert [(span.span_id, span.scope, span.resource) for span in found.spans] == [
        (span.span_id, span.scope, span.resource) for span in told()
    ]


def span_json_of(span: Span) -> dict[str, Any]:
    """The ids of a span in OTLP JSON."""
    return {"traceId": span.trace_id, "spanId": span.span_id, "parentSpanId": span.parent_id}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"trace_id": b""}, "otlp-trace-id"),
        ({"trace_id": bytes(16)}, "otlp-trace-id"),
        ({"trace_id": bytes(range(15))}, "otlp-trace-id"),
        ({"span_id": b""}, "otlp-span-id"),
        ({"span_id": bytes(8)}, "otlp-span-id"),
        ({"span_id": bytes(range(9))}, "otlp-span-id"),
    ],
)
def test_a_span_without_good_ids_is_rejected_alone(fields: dict[str, bytes], code: str) -> None:
    """A span that cannot be named is left out, counted and told with its place; its neighbours are kept."""
    found = decode_protobuf(request(message(), message(**fields), message()).SerializeToString())
    assert codes(found) == [("resource 1, scope 1, span 2", code)]
    assert (len(found.spans), found.rejected) == (2, 1)
    names = {"trace_id": "traceId", "span_id": "spanId"}
    one = decode_json(span_json(**{names[key]: value.hex() for key, value in fields.items()}))
    assert codes(one) == [("resource 1, scope 1, span 1", code)]
    assert (one.spans, one.rejected) == ((), 1)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        *((given, None) for given in ("", "0" * 16, "AAAAAAAAAAA=", 0)),
        *((given, CHILD) for given in ("0xC0ffee00000002", CHILD.upper(), int(CHILD, 16))),
        *((given, CHILD) for given in ("AMD/7gAAAAI=", "AMD/7gAAAAI")),
    ],
)
def test_parents_in_every_spelling(given: object, read: str | None) -> None:
    """Empty and all-zero parents mean a root; hex of either case, `0x`, base64 and integers name one."""
    found = decode_json(span_json(parentSpanId=given))
    assert found.flaws == ()
    assert found.spans[0].parent_id == read


@pytest.mark.parametrize("given", ["12", "zz" * 8, "@@@@", -1, 1.5, 2**64, True, [CHILD]])
def test_a_parent_that_is_no_id_is_told_and_the_span_kept(given: object) -> None:
    """A span with a parent that cannot be read is kept as a root, and the flaw says so."""
    found = decode_json(span_json(parentSpanId=given))
    assert codes(found) == [("resource 1, scope 1, span 1", "otlp-parent-id")]
    assert [span.parent_id for span in found.spans] == [None]
    packed = decode_protobuf(request(message(parent_span_id=b"123")).SerializeToString())
    assert codes(packed) == codes(found)
    assert packed.spans == found.spans


@pytest.mark.parametrize("given", ["soon", -1, 2**63, 1.5, True, [1], [1, "x"], {}, "1" * 21])
def test_a_time_that_is_none_is_read_as_not_said(given: object) -> None:
    """Times before 1970, after 2262 or of another shape become 0 and are told; the span is kept."""
    for name in ("endTimeUnixNano", "endTime"):
        found = decode_json(span_json(**{name: given}))
        if name == "endTime" and given in (1.5, 2**63, True):
            continue
        assert codes(found) == [("resource 1, scope 1, span 1", "otlp-time")]
        assert [span.end for span in found.spans] == [0]
    packed = decode_protobuf(request(message(end_time_unix_nano=2**63)).SerializeToString())
    assert codes(packed) == [("resource 1, scope 1, span 1", "otlp-time")]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": 5}, 5),
        ({"intValue": 5.0}, 5),
        ({"doubleValue": 5}, 5.0),
        ({"doubleValue": "-Infinity"}, float("-inf")),
        ({"double_value": "2.5"}, 2.5),
        ({"bytesValue": "AP8="}, b"\x00\xff"),
        ({"boolValue": False}, False),
        ({"stringValue": ""}, ""),
        ({"stringValue": None}, None),
        ({}, None),
        (None, None),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "1"}}]}}, {"k": 1}),
        ({"kvlistValue": {"values": [{"key": "e"}]}}, {"e": None}),
    ],
)
def test_values_in_json(value: object, read: object) -> None:
    """Integers as text or number, floats as text, bytes in base64, nested values, and no value."""
    found = decode_json(attributes(a=value))
    assert found.flaws == ()
    assert dict(found.spans[0].attributes) == {"a": read}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *(({"intValue": value}, "otlp-value") for value in ("x", 2**63, True, 1.5)),
        *(({"doubleValue": value}, "otlp-value") for value in ("x", True, [])),
        *(({"arrayValue": value}, "otlp-value") for value in ({"values": 1}, [], "x")),
        ({"boolValue": "true"}, "otlp-value"),
        ({"bytesValue": "@"}, "otlp-value"),
        ({"stringValue": 1}, "otlp-value"),
        ("bare", "otlp-value"),
        ({"laterValue": 1}, "otlp-value"),
        ({"stringValue": "a", "intValue": "1"}, "otlp-value"),
        ({"kvlistValue": {"values": [1]}}, "otlp-value"),
        ({"stringValue": "\ud800"}, "otlp-text"),
    ],
)
def test_a_value_that_cannot_be_read_leaves_its_key(value: object, code: str) -> None:
    """What is not of its type becomes None, so that its key is seen to be there, and its place is told."""
    found = decode_json(attributes(good={"stringValue": "g"}, bad=value, last={"boolValue": True}))
    assert codes(found) == [("resource 1, scope 1, span 1, attribute 2", code)]
    assert dict(found.spans[0].attributes) == {"good": "g", "bad": None, "last": True}


def test_keys_that_are_missing_or_repeated_are_told() -> None:
    """An attribute without a key is left out; of two with one the last is kept, equal ones are no flaw."""
    pairs: list[Any] = [{"key": "a", "value": {"stringValue": value}} for value in "xxy"]
    pairs += [{"key": "", "value": {"stringValue": "x"}}, {"value": {"stringValue": "x"}}]
    found = decode_json(span_json(attributes=pairs))
    at = "resource 1, scope 1, span 1, attribute"
    assert codes(found) == [(f"{at} {n}", "otlp-key") for n in (3, 4, 5)]
    one = message()
    for pair in pairs:
        one.attributes.add(key=pair.get("key", "")).value.string_value = pair["value"]["stringValue"]
    packed = decode_protobuf(request(one).SerializeToString())
    assert packed == found
    assert dict(found.spans[0].attributes) == {"a": "y"}
    odd = decode_json(span_json(attributes=[*pairs[:1], "pair", {"key": 1}, {"key": "\udc00"}]))
    assert codes(odd) == [(f"{at} 2", "otlp-value"), (f"{at} 3", "otlp-value"), (f"{at} 4", "otlp-text")]


@pytest.mark.parametrize("kind", ["array", "kvlist"])
def test_values_nest_to_one_depth_in_every_format(kind: str) -> None:
    """A value of `DEPTH_MAX` levels is read from protobuf, OTLP JSON and plain JSON; one more is told."""
    for depth, code in ((DEPTH_MAX, None), (DEPTH_MAX + 1, "otlp-depth")):
        packed, plain = AnyValue(string_value="x"), "x"
        value: Any = {"stringValue": "x"}
        for _ in range(depth):
            outer = AnyValue()
            if kind == "array":
                outer.array_value.values.append(packed)
                value, plain = {"arrayValue": {"values": [value]}}, [plain]
            else:
                outer.kvlist_value.values.add(key="k", value=packed)
                value, plain = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}, {"k": plain}
            packed = outer
        one = message()
        one.attributes.add(key="a", value=packed)
        dump = {"context": {"trace_id": TRACE, "span_id": ROOT}, "attributes": {"a": plain}}
        everywhere = [
            decode_protobuf(request(one).SerializeToString()),
            decode_json(attributes(a=value)),
            decode_json([dump]),
        ]
        for found in everywhere:
            assert [code_ for _, code_ in codes(found)] == ([code] if code else [])
            assert found.spans == everywhere[0].spans
            assert (found.spans[0].attributes["a"] is None) == (code is not None)


def delimited(number: int, content: bytes) -> bytes:
    """A field of protobuf with less than 16,384 bytes in it."""
    size = len(content)
    return bytes([number << 3 | 2, size & 127 | 128, size >> 7]) + content


def test_values_nested_deeper_than_protobuf_allows_cost_one_attribute() -> None:
    """Where the protobuf library itself gives up, the attribute alone is lost, and the span is kept."""
    deep = b"\x0a\x01x"
    for _ in range(200):
        inner = delimited(1, deep)
        deep = delimited(5, inner)
    attribute = delimited(9, delimited(1, b"deep") + delimited(2, deep))
    one = message(name="kept")
    one.attributes.add(key="after").value.int_value = 1
    spans = delimited(2, attribute + one.SerializeToString()) + delimited(2, message().SerializeToString())
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
    """A span's name, a note or a scope's name that is not UTF-8 is told; all else of the span is kept."""
    one = message(start_time_unix_nano=7)
    one.attributes.add(key="a").value.string_value = "b"
    whole = request(one)
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
    assert [(kept.start, dict(kept.attributes)) for kept in found.spans] == [(7, {"a": "b"})]
    assert [event.time for event in found.spans[0].events] == ([3] if where == "event" else [])


def test_a_key_that_is_not_utf8_costs_its_attribute() -> None:
    """An attribute whose key cannot be read is left out; the one flaw names its place."""
    one = message()
    one.attributes.add(key="@@@@").value.string_value = "b"
    one.attributes.add(key="a").value.string_value = "b"
    found = decode_protobuf(damaged(request(one)))
    assert codes(found) == [("resource 1, scope 1, span 1, attribute 1", "otlp-protobuf")]
    assert dict(found.spans[0].attributes) == {"a": "b"}


def test_a_span_that_is_damaged_inside_is_lost_alone() -> None:
    """Where a span's bytes are no fields, it alone is lost, told and counted; places stay as they were."""
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
    """A damaged request with more fields than are looked at is given up as a whole, and the flaw says so."""
    monkeypatch.setattr(salvage, "FIELDS_MAX", 20)
    found = decode_protobuf(damaged(request(*[message() for _ in range(20)], message(name="@@@@"))))
    assert codes(found) == [("request", "otlp-protobuf")]
    assert found.spans == ()


def test_flaws_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a request with many bad spans the first are told, the others counted in one last flaw."""
    monkeypatch.setattr(decoded, "FLAWS_MAX", 3)
    found = decode_protobuf(request(*[Message() for _ in range(10)]).SerializeToString())
    assert [code for _, code in codes(found)] == ["otlp-trace-id"] * 3 + ["otlp-more"]
    assert "7 more" in found.flaws[-1].text
    assert found.rejected == 10


@pytest.mark.parametrize(
    ("value", "place", "code"),
    [
        (None, "request", "otlp-shape"),
        ("text", "request", "otlp-shape"),
        ({"messages": []}, "request", "otlp-shape"),
        ({"resourceSpans": {}}, "request", "otlp-shape"),
        ({"resourceSpans": [1]}, "resource 1", "otlp-shape"),
        ({"resourceSpans": [{"scopeSpans": 1}]}, "resource 1", "otlp-shape"),
        ({"resourceSpans": [{"scopeSpans": [1]}]}, "resource 1, scope 1", "otlp-shape"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": 1}]}]}, "resource 1, scope 1", "otlp-shape"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": [1]}]}]}, "resource 1, scope 1, span 1", "otlp-shape"),
        ({"resourceSpans": [{"resource": 1}]}, "resource 1", "otlp-value"),
        ({"resourceLogs": []}, "request", "otlp-signal"),
        ({"resourceMetrics": [{}]}, "request", "otlp-signal"),
        ([1], "member 1", "otlp-shape"),
        ([[]], "member 1", "otlp-shape"),
        ([{"scopeSpans": [{"spans": [1]}]}], "resource 1, scope 1, span 1", "otlp-shape"),
        ([{"resourceSpans": [1]}], "request 1, resource 1", "otlp-shape"),
        ([{"role": "user"}], "request 1", "otlp-shape"),
        ({"spans": [1]}, "span 1", "otlp-shape"),
        (span_json(attributes=1), "resource 1, scope 1, span 1", "otlp-value"),
        (span_json(events=1), "resource 1, scope 1, span 1", "otlp-value"),
        (span_json(events=[1]), "resource 1, scope 1, span 1, event 1", "otlp-value"),
        (span_json(status=[1]), "resource 1, scope 1, span 1", "otlp-value"),
        (span_json(name=1), "resource 1, scope 1, span 1", "otlp-value"),
        (span_json(name="\udfff"), "resource 1, scope 1, span 1", "otlp-text"),
    ],
)
def test_json_of_another_shape_is_told_with_its_place(value: object, place: str, code: str) -> None:
    """What stands where something else belongs gives one flaw with its place, and never raises."""
    assert codes(decode_json(value)) == [(place, code)]


@pytest.mark.parametrize("status", [2, "STATUS_CODE_ERROR", "ERROR", "error", "StatusCode.ERROR", 2.0])
def test_errors_in_every_spelling(status: object) -> None:
    """The code of an error is 2 or any of its names; other codes are none."""
    assert decode_json(span_json(status={"code": status})).spans[0].failed
    assert decode_json(span_json(status={"status_code": status})).spans[0].failed
    for other in (0, 1, None, "STATUS_CODE_OK", "UNSET", {}):
        found = decode_json(span_json(status={"code": other} if other != {} else {}))
        assert [(span.failed, found.flaws) for span in found.spans] == [(False, ())]


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [], "spans": []},
        {"trace_id": TRACE, "span_id": ROOT, "messages": []},
        [{"role": "user", "content": "x"}],
        [[{"role": "user"}]],
        {"simulations": []},
        {"traj": []},
        {"a": [1]},
        {},
        [],
        1,
    ],
)
def test_chat_logs_are_no_span_dumps(value: object) -> None:
    """Lists of messages and objects that hold some are not taken for spans."""
    assert not is_span_dump(value)


def test_empty_requests_hold_nothing() -> None:
    """A request without resources is no error, as the protocol has it."""
    for value in ({}, {"resourceSpans": []}, {"resource_spans": None}, [], {"resourceSpans": [{}]}):
        assert decode_json(value) == Decoded()


def test_packed_requests_are_unpacked_within_limits() -> None:
    """zstd and gzip of either format are read; what is damaged, cut off or too large is told."""
    data = encode_spans(sdk_spans()).SerializeToString()
    text = json.dumps([javascript(span) for span in sdk_spans()]).encode()
    for body in (data, text):
        for packed in (body, gzip.compress(body), zstandard.compress(body), unsized(body)):
            assert decode_request(packed) == Decoded(told())
    for packed in (gzip.compress(data), zstandard.compress(data), unsized(data)):
        for wrong in (packed[:-1], packed[:6], packed + b"more", packed[:4] + b"\xff" * 9):
            assert codes(decode_request(wrong)) == [("request", "otlp-packed")]
    for bomb in (gzip.compress(bytes(10**7)), zstandard.compress(bytes(10**7))):
        assert codes(decode_request(bomb)) == [("request", "otlp-size")]
    assert codes(decode_request(unsized(bytes(10**7)))) == [("request", "otlp-packed")]
    with pytest.raises(Unreadable, match="unpacks to more than 100 bytes"):
        unpacked(gzip.compress(data), 100)
    assert codes(decode_request(b'{"resourceSpans": ')) == [("request", "json")]


def unsized(data: bytes) -> bytes:
    """A zstd frame that does not say how much it holds."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def test_a_frame_beyond_the_limit_is_passed_over() -> None:
    """A request that is too large is told with its byte, and the next one is read."""
    parts = [b"one", b"much too long", b"two"]
    stream = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    pieces = iter([stream[:4], stream[4:7], stream[7:11], stream[11:24], stream[24:28], stream[28:], b""])
    found = list(frames(lambda _: next(pieces), bytes_max=5))
    assert found[0] == Frame(0, b"one")
    assert getattr(found[1], "place", "") == "byte 7"
    assert getattr(found[1], "code", "") == "otlp-size"
    assert found[2] == Frame(24, b"two")


def test_layouts_are_told_by_the_first_bytes() -> None:
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
