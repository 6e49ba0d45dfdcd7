"""Span data as SDKs write it and as JSON has it: every spelling is read, and anything else is a flaw."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.schemas.otlp.attributes import DEPTH_MAX
from tracline.schemas.otlp.decode import (
    decode_json,
    decode_protobuf,
    is_span_dump,
    read_span_json,
)
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.span import Span
from tracline.schemas.tolerant_json import read_json

from .otlp_spans import (
    CHILD,
    ROOT,
    TRACE,
    attributes,
    codes,
    delimited,
    integers,
    javascript,
    message,
    request,
    sdk_spans,
    sent_spans,
    span_json,
)


def test_what_the_console_exporter_prints_is_decoded() -> None:
    """Python's `to_json` names no scope; ids after `0x` and ISO times with microseconds are read."""
    values = [json.loads(span.to_json()) for span in sdk_spans()]
    assert is_span_dump(values)
    assert decode_json(values) == Decoded(sent_spans(scope=""))
    assert is_span_dump(values[0])
    assert decode_json(values[0]) == Decoded(sent_spans(scope="")[:1])


def test_integer_ids_of_128_bits_keep_their_digits() -> None:
    """A dump with integer ids is read exactly; a JSON reader that rounds them loses the span, with a flaw."""
    data = json.dumps({"spans": [integers(span) for span in sdk_spans()], "final_output": None}).encode()
    value = read_span_json(data)
    assert is_span_dump(value)
    assert decode_json(value) == Decoded(sent_spans(scope=""))
    rounded = decode_json(read_json(data))
    assert codes(rounded) == [("span 1", "otlp-trace-id"), ("span 2", "otlp-trace-id")]
    assert (rounded.spans, rounded.rejected) == ((), 2)


def test_what_javascript_sdks_dump_is_decoded() -> None:
    """Objects of the JavaScript SDK, in a list or by operation in an object of lists, are read."""
    values = [javascript(span) for span in sdk_spans()]
    assert decode_json(values) == Decoded(sent_spans())
    grouped = {"chat": values[:1], "invoke_agent": values[1:]}
    assert is_span_dump(grouped)
    assert decode_json(grouped) == Decoded(sent_spans())


def test_libraries_before_scopes_are_decoded() -> None:
    """Exporters older than OTLP 0.15 send `instrumentationLibrarySpans`; in protobuf that is field 1000."""
    new = encode_spans(sdk_spans()).SerializeToString()
    value = TracesData.FromString(new)
    scopes = value.resource_spans[0].scope_spans[0].SerializeToString()
    del value.resource_spans[0].scope_spans[:]
    inner = value.resource_spans[0].SerializeToString()
    inner += b"\xc2\x3e" + delimited(1, scopes)[1:]
    assert decode_protobuf(delimited(1, inner)) == Decoded(sent_spans())
    library = {
        "instrumentationLibrary": {"name": "agent"},
        "spans": [span_json_of(sent_span) for sent_span in sent_spans()],
    }
    desk = {"attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]}
    found = decode_json({"resourceSpans": [{"resource": desk, "instrumentationLibrarySpans": [library]}]})
    assert [(span.span_id, span.scope, span.resource) for span in found.spans] == [
        (span.span_id, span.scope, span.resource) for span in sent_spans()
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
    """A span without valid ids is left out, counted and a flaw with its place; its neighbours stay."""
    found = decode_protobuf(request(message(), message(**fields), message()).SerializeToString())
    assert codes(found) == [("resource 1, scope 1, span 2", code)]
    assert (len(found.spans), found.rejected) == (2, 1)
    names = {"trace_id": "traceId", "span_id": "spanId"}
    decoded = decode_json(span_json(**{names[key]: value.hex() for key, value in fields.items()}))
    assert codes(decoded) == [("resource 1, scope 1, span 1", code)]
    assert (decoded.spans, decoded.rejected) == ((), 1)


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
def test_a_parent_that_is_no_id_is_a_flaw_and_the_span_stays(given: object) -> None:
    """A span with a parent that cannot be read becomes a root, with a flaw."""
    found = decode_json(span_json(parentSpanId=given))
    assert codes(found) == [("resource 1, scope 1, span 1", "otlp-parent-id")]
    assert [span.parent_id for span in found.spans] == [None]
    packed = decode_protobuf(request(message(parent_span_id=b"123")).SerializeToString())
    assert codes(packed) == codes(found)
    assert packed.spans == found.spans


@pytest.mark.parametrize("given", ["soon", -1, 2**63, 1.5, True, [1], [1, "x"], {}, "1" * 21, "9" * 5_000])
def test_a_time_that_is_none_is_read_as_not_set(given: object) -> None:
    """Times before 1970, after 2262 or of another shape become 0, with a flaw; the span stays."""
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
    """A value of another type becomes None, so that its key is there, and is a flaw with its place."""
    found = decode_json(attributes(good={"stringValue": "g"}, bad=value, last={"boolValue": True}))
    assert codes(found) == [("resource 1, scope 1, span 1, attribute 2", code)]
    assert dict(found.spans[0].attributes) == {"good": "g", "bad": None, "last": True}


def test_keys_that_are_missing_or_repeated_are_flaws() -> None:
    """An attribute without a key is left out; of two with one the last counts, equal ones are no flaw."""
    pairs: list[Any] = [{"key": "a", "value": {"stringValue": value}} for value in "xxy"]
    pairs += [{"key": "", "value": {"stringValue": "x"}}, {"value": {"stringValue": "x"}}]
    found = decode_json(span_json(attributes=pairs))
    at = "resource 1, scope 1, span 1, attribute"
    assert codes(found) == [(f"{at} {n}", "otlp-key") for n in (3, 4, 5)]
    span_message = message()
    for pair in pairs:
        span_message.attributes.add(key=pair.get("key", "")).value.string_value = pair["value"]["stringValue"]
    packed = decode_protobuf(request(span_message).SerializeToString())
    assert packed == found
    assert dict(found.spans[0].attributes) == {"a": "y"}
    assert found.spans[0].dropped_attributes == 2
    odd = decode_json(span_json(attributes=[*pairs[:1], "pair", {"key": 1}, {"key": "\udc00"}]))
    assert codes(odd) == [(f"{at} 2", "otlp-value"), (f"{at} 3", "otlp-value"), (f"{at} 4", "otlp-text")]


@pytest.mark.parametrize(
    ("fields", "dropped"),
    [
        ({}, (0, 0)),
        ({"droppedAttributesCount": 3, "droppedEventsCount": "2"}, (3, 2)),
        ({"dropped_attributes_count": 3, "dropped_events_count": 2}, (3, 2)),
        ({"_droppedAttributesCount": 3, "_droppedEventsCount": 2}, (3, 2)),
        ({"droppedAttributesCount": None, "droppedEventsCount": -1}, (0, 0)),
        ({"attributes": 7, "events": {}}, (1, 0)),
        ({"attributes": [{"key": "a", "value": {"laterValue": 1}}, {"key": 7}], "events": "x"}, (1, 1)),
        ({"events": [{"name": "e"}, 7, {"name": "", "droppedAttributesCount": 1}]}, (0, 2)),
    ],
)
def test_what_was_dropped_is_counted(fields: dict[str, Any], dropped: tuple[int, int]) -> None:
    """An SDK's counts, and with them what was sent and has no key, no name or not its shape."""
    (span,) = decode_json(span_json(**fields)).spans
    assert (span.dropped_attributes, span.dropped_events) == dropped
    assert [event.dropped for event in span.events] == ([0, 1] if len(span.events) == 2 else [])


@pytest.mark.parametrize("given", ["many", 1.5, [], True])
def test_a_count_that_is_none_stands_for_one(given: object) -> None:
    """If a count of dropped items cannot be read, one was dropped."""
    found = decode_json(span_json(droppedAttributesCount=given))
    assert codes(found) == [("resource 1, scope 1, span 1", "otlp-value")]
    assert [span.dropped_attributes for span in found.spans] == [1]


@pytest.mark.parametrize("kind", ["array", "kvlist"])
def test_values_nest_to_one_depth_in_every_format(kind: str) -> None:
    """A value of `DEPTH_MAX` levels is read from protobuf, OTLP JSON and plain JSON; one more is a flaw."""
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
        span_message = message()
        span_message.attributes.add(key="a", value=packed)
        dump = {"context": {"trace_id": TRACE, "span_id": ROOT}, "attributes": {"a": plain}}
        everywhere = [
            decode_protobuf(request(span_message).SerializeToString()),
            decode_json(attributes(a=value)),
            decode_json([dump]),
        ]
        for found in everywhere:
            assert [code_ for _, code_ in codes(found)] == ([code] if code else [])
            assert found.spans == everywhere[0].spans
            assert (found.spans[0].attributes["a"] is None) == (code is not None)


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
        ({"resourceProfiles": []}, "request", "otlp-signal"),
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
def test_json_of_another_shape_is_a_flaw_with_its_place(value: object, place: str, code: str) -> None:
    """A value where something else belongs gives one flaw with its place, and never raises."""
    assert codes(decode_json(value)) == [(place, code)]


@pytest.mark.parametrize("status", [2, "STATUS_CODE_ERROR", "ERROR", "error", "StatusCode.ERROR", 2.0])
def test_errors_in_every_spelling(status: object) -> None:
    """The code of an error is 2 or any of its names; other codes are none."""
    assert decode_json(span_json(status={"code": status})).spans[0].failed
    assert decode_json(span_json(status={"status_code": status})).spans[0].failed
    for code in (0, 1, None, "STATUS_CODE_OK", "UNSET", {}):
        found = decode_json(span_json(status={"code": code} if code != {} else {}))
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
