"""Log records that hold message content: how they are decoded, and what they add to their span."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry._logs import LogRecord as ApiRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from tracline.batch.sources.span_files import holds_spans, requests
from tracline.schemas.dialects.parts.log_record import LogRecord, content_of
from tracline.schemas.event import Content
from tracline.schemas.otlp.decode import decode_json, decode_logs_protobuf, is_span_dump
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.sessions.span_reading import join_records, read_span
from tracline.schemas.span import Span, Value
from tracline.schemas.span_content import Role, SpanContent

from ...laws.otlp_messages import otlp_json

TRACE, SPAN = "4bedea77bb33b9c5f280371eae21ea97", "00c0ffee00000002"
START = 1_771_368_896_312_716_000
DETAILS = "gen_ai.client.inference.operation.details"
MESSAGES = [{"role": "user", "parts": [{"type": "text", "content": "héllo"}]}]


def sdk_records() -> list[ReadableLogRecord]:
    """Return what an application sends, as the SDK hands it to an exporter."""
    exporter, provider = InMemoryLogRecordExporter(), LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    ids: dict[str, Any] = {"trace_id": int(TRACE, 16), "span_id": int(SPAN, 16), "observed_timestamp": START}
    logger = provider.get_logger("openai")
    body = {"content": "héllo", "n": 3}
    logger.emit(ApiRecord(event_name="gen_ai.user.message", body=body, timestamp=START, **ids))
    logger.emit(
        ApiRecord(
            event_name=DETAILS,
            attributes={"gen_ai.input.messages": MESSAGES, "gen_ai.request.model": "m"},  # pyright: ignore[reportArgumentType]
            **ids,
        )
    )
    logger.emit(ApiRecord(body="GET /", timestamp=START + 5_000, **ids))
    logger.emit(ApiRecord(event_name="gen_ai.choice", body={"index": 0}, timestamp=START))
    return list(exporter.get_finished_logs())


def request() -> LogsData:
    """Return the export request of these."""
    return LogsData.FromString(encode_logs(sdk_records()).SerializeToString())


def expected() -> tuple[LogRecord, ...]:
    """Return the two of them that hold content and name their span."""
    user = {"gen_ai.event.content": {"content": "héllo", "n": 3}}
    details = {"gen_ai.input.messages": MESSAGES, "gen_ai.request.model": "m"}
    return (
        LogRecord(TRACE, SPAN, START, "gen_ai.user.message", orjson.dumps(user).decode(), place=0),
        LogRecord(TRACE, SPAN, START, DETAILS, orjson.dumps(details).decode(), place=1),
    )


def check(decoded: Decoded) -> None:
    """Check that these records were decoded, and the others counted."""
    assert decoded.spans == decoded.flaws == ()
    assert [orjson.loads(record.content) for record in decoded.records] == [
        orjson.loads(record.content) for record in expected()
    ]
    assert [(record.trace_id, record.span_id, record.time, record.name) for record in decoded.records] == [
        (record.trace_id, record.span_id, record.time, record.name) for record in expected()
    ]
    assert (decoded.passed_over, decoded.unlinked, decoded.rejected) == (1, 1, 0)
    assert decoded.latest == START + 5_000


def test_what_the_sdk_sends_is_read_in_protobuf_and_json() -> None:
    """Times are the records' own, else when they were observed; records without content are counted."""
    check(decode_logs_protobuf(request().SerializeToString()))
    value = MessageToDict(request())
    check(decode_json(value))
    check(decode_json(otlp_json(value)))
    check(decode_json(value["resourceLogs"]))


def test_what_the_sdk_prints_is_read_as_log_records_and_not_as_spans() -> None:
    """The console's JSON has the ids of a span at the same place."""
    printed = [json.loads(record.to_json()) for record in sdk_records()]
    assert is_span_dump(printed)
    check(decode_json(printed))


def test_the_name_of_an_event_may_stand_in_an_attribute() -> None:
    """As where it is sent through Python's logging, which has no other place for it."""
    attributes = [{"key": "event.name", "value": {"stringValue": "gen_ai.choice"}}]
    record = {"traceId": TRACE, "spanId": SPAN, "attributes": attributes, "timeUnixNano": "5"}
    value = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    assert [item.name for item in decode_json(value).records] == ["gen_ai.choice"]
    value["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0] |= {
        "traceId": b64encode(bytes.fromhex(TRACE)).decode(),
        "spanId": b64encode(bytes.fromhex(SPAN)).decode(),
    }
    data = ParseDict(value, LogsData()).SerializeToString()
    assert [item.name for item in decode_logs_protobuf(data).records] == ["gen_ai.choice"]
    printed = {"trace_id": TRACE, "span_id": SPAN, "body": {}, "attributes": {"event.name": "gen_ai.choice"}}
    assert [item.name for item in decode_json(printed).records] == ["gen_ai.choice"]


def test_a_file_of_all_signals_is_read(tmp_path: Path) -> None:
    """The collector may write spans, log records and metrics to one file, as JSON lines or in protobuf."""
    spans = TracesData()
    span = spans.resource_spans.add().scope_spans.add().spans.add(name="chat", start_time_unix_nano=5)
    span.trace_id, span.span_id = bytes.fromhex(TRACE), bytes.fromhex(SPAN)
    metrics = MetricsData()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="tokens")
    metric.gauge.data_points.add(time_unix_nano=5, as_int=3)
    lines = [MessageToDict(spans), MessageToDict(metrics), MessageToDict(request())]
    plain = tmp_path / "all.jsonl"
    plain.write_bytes(b"\n".join(json.dumps(line).encode() for line in lines))
    parts = [item.SerializeToString() for item in (spans, metrics, request())]
    packed = tmp_path / "all.pb.gz"
    packed.write_bytes(gzip.compress(b"".join(len(part).to_bytes(4, "big") + part for part in parts)))
    for path in (plain, packed):
        found = [decoded for _, decoded in requests(path)]
        assert [len(item.spans) for item in found] == [1, 0, 0]
        assert [item.metrics for item in found] == [0, 1, 0]
        assert [len(item.records) for item in found] == [0, 0, 2]
        assert not any(item.flaws for item in found)
    logs = tmp_path / "logs.json"
    logs.write_text(json.dumps(lines[2]))
    assert holds_spans(logs, logs.read_bytes())


def in_json(**more: object) -> Decoded:
    """Return what is decoded of one record in JSON with these members."""
    record = {"traceId": TRACE, "spanId": SPAN, "eventName": "gen_ai.choice", "timeUnixNano": "5", **more}
    return decode_json({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})


@pytest.mark.parametrize(
    ("more", "code", "dropped"),
    [
        ({"body": {"stringValue": "\ud800"}}, "otlp-text", 1),
        ({"body": {"intValue": "x"}}, "otlp-value", 1),
        ({"attributes": 5}, "otlp-value", 1),
        ({"attributes": [{"key": "", "value": {"intValue": "1"}}]}, "otlp-key", 1),
        ({"droppedAttributesCount": 2}, None, 2),
        ({"timeUnixNano": "x"}, "otlp-time", 0),
        (
            {"body": {"kvlistValue": {"values": [{"key": "content", "value": {"bytesValue": "aGk="}}]}}},
            None,
            0,
        ),
    ],
)
def test_what_cannot_be_read_of_a_record_is_a_flaw(
    more: dict[str, Any], code: str | None, dropped: int
) -> None:
    """The rest of it is read, and it is known to lack something."""
    decoded = in_json(**more)
    assert [flaw.code for flaw in decoded.flaws] == ([code] if code else [])
    assert [record.dropped for record in decoded.records] == [dropped]
    assert decoded.rejected == 0


@pytest.mark.parametrize("ids", [{"traceId": "0" * 32}, {"spanId": ""}, {"traceId": None}, {"spanId": "xy"}])
def test_a_record_that_names_no_span_is_counted(ids: dict[str, Any]) -> None:
    """It cannot be joined, and is no error of its sender."""
    decoded = in_json(**ids)
    assert (decoded.records, decoded.unlinked, decoded.flaws) == ((), 1, ())


def test_a_deep_or_damaged_body_takes_no_other_record_along() -> None:
    """Of a body that is nested beyond all bounds, or is not UTF-8, its record is known to lack it."""
    message = request()
    records = message.resource_logs[0].scope_logs[0].log_records
    value = records[0].body
    for _ in range(30):
        inner = type(value)()
        inner.CopyFrom(value)
        value.Clear()
        value.array_value.values.append(inner)
    deep = decode_logs_protobuf(message.SerializeToString())
    assert [record.dropped for record in deep.records] == [1, 0]
    assert [flaw.code for flaw in deep.flaws] == ["otlp-depth"]
    broken = request().SerializeToString().replace("héllo".encode(), b"h\xff\xffllo", 1)
    damaged = decode_logs_protobuf(broken)
    assert [record.name for record in damaged.records] == [record.name for record in expected()]
    assert {flaw.code for flaw in damaged.flaws} == {"otlp-value"}
    assert "llo" not in str(damaged.flaws)


def joined_content(
    *bodies: tuple[str, Value], attributes: dict[str, Value] | None = None, **more: Any
) -> SpanContent:
    """Return the content of a model's call from these log records."""
    about: dict[str, Value] = {"gen_ai.operation.name": "chat", **(attributes or {})}
    span = Span(TRACE, SPAN, None, "chat", START, START + 9, attributes=about, **more)
    records = [
        LogRecord(TRACE, SPAN, START + place, name, content_of(name, body, {})[0], place=place)
        for place, (name, body) in enumerate(bodies)
    ]
    return join_records(read_span(span), records).content


def rows_of(content: SpanContent) -> list[tuple[str, str | None]]:
    """Return role and text of each message of a span's content."""
    return [
        (message.role.value, message.text) for message in (*(content.input or ()), *(content.output or ()))
    ]


def test_what_the_span_has_itself_is_not_repeated() -> None:
    """Records fill the half that the span lacks, and nothing else."""
    attributes: dict[str, Value] = {"gen_ai.input.messages": '[{"role": "user", "content": "mine"}]'}
    bodies = (
        ("gen_ai.user.message", {"content": "theirs"}),
        ("gen_ai.choice", {"message": {"content": "yes"}}),
    )
    assert rows_of(joined_content(*bodies, attributes=attributes)) == [("user", "mine"), ("assistant", "yes")]
    assert rows_of(joined_content(*bodies)) == [("user", "theirs"), ("assistant", "yes")]


def test_records_without_content_leave_the_half_absent() -> None:
    """If capture is off they only show that there was a message."""
    content = joined_content(
        ("gen_ai.user.message", None), ("gen_ai.choice", {"index": 0, "message": {"role": "assistant"}})
    )
    assert (content.input, content.output, content.content) == (None, None, Content.ABSENT)


def test_a_prompt_of_which_a_place_is_missing_is_truncated() -> None:
    """Semantic Kernel writes the place of each message of a prompt."""
    span = Span(TRACE, SPAN, None, "chat", START, START, attributes={"gen_ai.operation.name": "chat"})
    body = '{"role": "user", "content": "hi"}'
    records = [
        LogRecord(TRACE, SPAN, START, "gen_ai.user.message", content_of("", body, {})[0], order=place)
        for place in (0, 2)
    ]
    answer = content_of("", {"message": {"content": "yes"}}, {})[0]
    records.append(LogRecord(TRACE, SPAN, START + 1, "gen_ai.choice", answer))
    content = join_records(read_span(span), records).content
    assert (content.input, rows_of(content), content.content) == (
        None,
        [("assistant", "yes")],
        Content.TRUNCATED,
    )
    whole = [*records, LogRecord(TRACE, SPAN, START, "gen_ai.user.message", "{}", order=1)]
    assert len(join_records(read_span(span), whole).content.input or ()) == 3


def test_a_prompt_without_its_answer_may_not_be_whole() -> None:
    """Exporters send in order, and the answer comes last: some of the prompt may be on its way, too."""
    content = joined_content(("gen_ai.user.message", {"content": "hi"}))
    assert (content.input, content.output) == (None, None)
    attributes: dict[str, Value] = {"gen_ai.output.messages": '[{"role": "assistant", "content": "yes"}]'}
    assert rows_of(joined_content(("gen_ai.user.message", {"content": "hi"}), attributes=attributes)) == [
        ("user", "hi"),
        ("assistant", "yes"),
    ]


def test_a_failed_call_with_its_prompt_in_records_has_no_answer() -> None:
    """The input is known, and the output is empty, not absent."""
    content = joined_content(("gen_ai.user.message", {"content": "hi"}), failed=True)
    assert (rows_of(content), content.output, content.content) == ([("user", "hi")], (), Content.CAPTURED)


def adk(content: object) -> Value:
    """Return the body of a record of Google's ADK, which dumps contents with all their fields."""
    return {"content": content} if isinstance(content, str) else {"content": dict(content)}  # pyright: ignore


def test_the_records_of_the_adk_are_read() -> None:
    """All contents of a request come as `gen_ai.user.message`; the role is that of the content."""
    empty = {"inline_data": None, "file_data": None, "function_call": None, "function_response": None}
    call = {"id": "c1", "name": "look", "args": {"n": 1}}
    answer = {"id": "c1", "name": "look", "response": {"result": "found"}}
    contents = [
        {"role": "user", "parts": [{**empty, "text": "find it"}]},
        {"role": "model", "parts": [{**empty, "text": None, "function_call": call}]},
        {"role": "user", "parts": [{**empty, "text": None, "function_response": answer}]},
    ]
    joined = joined_content(
        ("gen_ai.system.message", adk("be kind")),
        *(("gen_ai.user.message", adk(content)) for content in contents),
        ("gen_ai.choice", {**adk({"role": "model", "parts": [{**empty, "text": "here"}]}), "index": 0}),  # pyright: ignore
        attributes={"gen_ai.operation.name": "generate_content"},
    )
    messages = [*(joined.input or ()), *(joined.output or ())]
    roles = [Role.INSTRUCTION, Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
    assert [message.role for message in messages] == roles
    assert [message.text for message in messages] == ["be kind", "find it", None, None, "here"]
    assert [(call.call_id, call.tool, call.args) for call in messages[2].calls] == [("c1", "look", '{"n":1}')]
    assert [(result.call_id, result.tool) for result in messages[3].results] == [("c1", "look")]


def choice(reason: str | None, *, index: int | None = 0, **part: object) -> tuple[str, Value]:
    """Return a record of an answer in the ADK's form; a part of a streamed one has no reason to finish."""
    body: dict[str, Any] = {"content": {"role": "model", "parts": [part]}}
    body |= {} if index is None else {"index": index}
    return "gen_ai.choice", body | ({} if reason is None else {"finish_reason": reason})


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([choice(None, text="Good"), choice(None, text="bye"), choice("STOP", text="Goodbye")], ["Goodbye"]),
        ([choice(None, text="Good"), choice("STOP", text="bye")], ["Goodbye"]),
        ([choice(None, text="Good"), choice(None, text="bye")], ["Goodbye"]),
        ([choice("STOP", text="one"), choice("STOP", text="two")], ["one", "two"]),
        ([choice(None, text="one"), choice(None, text="two", index=1)], ["one", "two"]),
        ([choice(None, text="one", index=None), choice(None, text="two", index=None)], ["one", "two"]),
    ],
)
def test_parts_of_a_streamed_choice_are_one_message(
    choices: list[tuple[str, Value]], expected: list[str]
) -> None:
    """They have one index and no reason to finish; choices with other indices, or without any, are others."""
    content = joined_content(("gen_ai.user.message", {"content": "hi"}), *choices)
    assert [message.text for message in content.output or ()] == expected


def test_a_call_in_parts_of_a_streamed_choice_is_one_call() -> None:
    """The parts name it before its arguments are there."""
    begun = {"id": "c1", "name": "look", "args": None, "will_continue": True}
    whole = {"id": "c1", "name": "look", "args": {"n": 1}}
    content = joined_content(
        ("gen_ai.user.message", {"content": "hi"}),
        choice(None, function_call=begun),
        choice(None, function_call=begun),
        choice("STOP", function_call=whole),
    )
    calls = [(call.call_id, call.args) for message in content.output or () for call in message.calls]
    assert calls == [("c1", '{"n":1}')]


def test_parts_of_a_streamed_answer_in_the_details_are_one_message() -> None:
    """There each has an empty reason to finish."""
    output = [
        {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": reason}
        for text, reason in (("Good", ""), ("bye", ""), ("Goodbye", "stop"))
    ]
    content = joined_content((DETAILS, {"gen_ai.input.messages": MESSAGES, "gen_ai.output.messages": output}))
    assert rows_of(content) == [("user", "héllo"), ("assistant", "Goodbye")]


@pytest.mark.parametrize(("scope", "error"), [("gcp.vertex.agent", "tool_error"), ("other", None)])
def test_a_result_in_the_adks_records_shows_that_its_tool_failed(scope: str, error: str | None) -> None:
    """It stands in the object that the ADK puts text into, as it does on the spans of tools."""
    response = {"id": "c1", "name": "look", "response": {"result": "Error: no such user"}}
    part = {"type": "tool_call_response", "id": "c1", "response": response["response"]}
    listed = [{"role": "user", "parts": [part]}]
    answer = choice("STOP", text="I am sorry")
    content = adk({"role": "user", "parts": [{"function_response": response}]})
    on_span: dict[str, Value] = {"gen_ai.input.messages": json.dumps(listed)}
    for joined in (
        joined_content(("gen_ai.user.message", content), answer, scope=scope),
        joined_content((DETAILS, {"gen_ai.input.messages": listed}), answer, scope=scope),
        joined_content(answer, attributes=on_span, scope=scope),
    ):
        results = [result for message in joined.input or () for result in message.results]
        assert [(result.result, result.error) for result in results] == [
            ('{"result":"Error: no such user"}', error)
        ]


def test_what_the_adk_elides_is_redacted() -> None:
    """It writes a placeholder where capture of content is off."""
    content = joined_content(
        ("gen_ai.system.message", adk("<elided>")),
        ("gen_ai.user.message", adk("<elided>")),
        ("gen_ai.choice", {"content": "<elided>", "index": 0}),
        attributes={"gen_ai.operation.name": "generate_content"},
    )
    assert (content.input, content.output, content.content) == (None, None, Content.REDACTED)
