"""Plain spans are read from their bytes, and as the dialects read any span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from math import inf, nan
from pkgutil import iter_modules
from random import Random

import pytest
from hypothesis import given, settings
from opentelemetry.proto.trace.v1.trace_pb2 import Status, TracesData
from tracline.schemas.claims.span_claims import claims_of
from tracline.schemas.dialects import MARKS, names
from tracline.schemas.dialects.names import frameworks as fw
from tracline.schemas.dialects.names import opentelemetry_1_41 as otel
from tracline.schemas.dialects.names import scopes
from tracline.schemas.otlp.decoded import Unreadable
from tracline.schemas.plain.content import error_of, input_text, tool_content
from tracline.schemas.plain.runs import run_claims
from tracline.schemas.plain.span import PlainSpan, PlainSpans, plain_span
from tracline.schemas.sessions.span_reading import claimed_content
from tracline.schemas.span import Span, Value
from tracline.schemas.span_content import SpanContent

from benchmarks.desk_spans import desk_spans

from ..support.conversations.agent_spans import spans
from ..support.conversations.recordings import FOLDER, requests_of
from ..support.conversations.recordings import names as recordings
from ..support.conversations.scripts import random_session
from ..support.conversations.span_plan import Dialect, Manner
from ..support.otlp_messages import REQUESTS
from ..support.otlp_requests import to_otlp
from .quick_draws import quickly
from .test_single import as_sent_on

PLAIN_RECORDINGS = frozenset(
    [
        *("agent-framework", "anthropic-openllmetry", "langgraph-openllmetry", "litellm"),
        *("openai-agents-openllmetry", "openai-openllmetry", "openai-openllmetry-responses"),
        *("openai-opentelemetry", "openai-opentelemetry-default", "openai-opentelemetry-events"),
        *("pydantic-ai-2", "pydantic-ai-5", "semantic-kernel", "vercel-ai-7"),
    ]
)
"""Recordings with plain spans."""
CHAT = {
    otel.OPERATION: "chat",
    otel.INPUT_MESSAGES: '[{"role": "user", "parts": [{"type": "text", "content": "é"}]}]',
    otel.OUTPUT_MESSAGES: '[{"role": "assistant", "parts": [{"type": "text", "content": "b"}]}]',
}
TOOL = {
    otel.OPERATION: "execute_tool",
    otel.TOOL_NAME: "f",
    otel.TOOL_CALL_ID: "c",
    otel.TOOL_ARGUMENTS: '{"a": 1}',
    otel.TOOL_RESULT: "r",
}
VALUES: tuple[Value, ...] = (
    *("", "x", "{}", "[1]", '"q"', "[REDACTED]", '{"a": ', '[{"role": "tool", "parts": []}]', "é" * 1_001),
    *(None, 7, True, 1.5, ["a"], {"role": "user"}, b"a"),
)


def every_name() -> list[str]:
    """Return all attribute names that the dialects know, and names of further kinds."""
    found = {"x", "gen_ai.completion.0.content", "gen_ai.completion.x", "llm.output_messages.0.message.role"}
    for module in iter_modules(names.__path__, f"{names.__name__}."):
        values: list[object] = [*vars(__import__(module.name, fromlist=["x"])).values()]
        for value in values:
            each: Iterable[object] = value if isinstance(value, (tuple, frozenset)) else [value]
            found.update(name for name in each if isinstance(name, str) and 0 < len(name) < 100)
    return sorted(found)


def request(attributes: dict[str, Value], status: int = 0, scope: str = "s") -> bytes:
    """Return a request of one span with these attributes."""
    span = Span("5e" * 16, "a1" * 8, "b2" * 8, "n", 1, 2, attributes, failed=status == 2, scope=scope)
    return as_sent_on(to_otlp([span]).SerializeToString())[0]


def is_plain(request: bytes) -> bool:
    """Return whether a span is read as a plain one."""
    span = plain_span(request)
    return span is not None and (input_text(span) is not None or tool_content(span) is not None)


def ordinary(request: bytes) -> SpanContent | str:
    """Return what the dialects read of a span, or the error of it."""
    return read(request, None)


def read(request: bytes, plain: PlainSpan | None) -> SpanContent | str:
    """Return what is read of a span, which may be plain, or the error of it."""
    try:
        return claimed_content(request, plain)[0]
    except (ValueError, Unreadable) as error:
        return repr(error)


def check(requests: Iterable[bytes]) -> Counter[bool]:
    """Assert that spans are read as by the dialects; return how many are plain and how many are not."""
    sent, counts = list(requests), Counter[bool]()
    plain = PlainSpans(sent)
    for place, each in enumerate(sent):
        counts[is_plain(each)] += 1
        span, content = plain.span(place), ordinary(each)
        assert span == plain.span_by_attributes(place)
        # The loops that find its messages refuse a call whose texts are no UTF-8.
        if span is not None and (call := plain.call(place)) is not None:
            assert (call.attributes, call.error) == (span.attributes, error_of(span))
            assert plain.data[call.asked : call.asked_stop].decode() == input_text(span)
        assert repr(read(each, span)) == repr(content), each.hex()
        run = None if span is None else run_claims(span, 1, 2)
        assert run is None or (isinstance(content, SpanContent) and run == claims_of(content, 1, 2)), (
            each.hex()
        )
    return counts


NUMBERS = (0, 1, -1, 127, 128, 2**31, 2**62, 2**63 - 1, -(2**63), 0.0, -0.0, 1.5, 1e300, inf, nan)
VARYING = (
    otel.OUTPUT_TOKENS,
    otel.RESPONSE_ID,
    "x",
    "é",
    *sorted(MARKS)[:2],
    otel.CONVERSATION,
    otel.ERROR_TYPE,
)
"""Names of attributes that vary from span to span, if as numbers."""


def varying() -> Iterator[bytes]:
    """Yield calls and runs with attributes that differ from span to span, also several and in any place."""
    texts = ("", "r1", "é", "r" * 140)
    for base, name, value in product((CHAT, TOOL), VARYING, (*NUMBERS, *texts)):
        yield request({**base, name: value})
        yield request({name: value, **base, "y": 3, "gen_ai.response.id": "r2"})
        yield with_resource(request({**base, name: value}), name)
        yield request({**base, name: value}).replace("é".encode(), b"\xc3x")


def with_resource(data: bytes, name: str) -> bytes:
    """Return a request of one span with an attribute of that name of the resource, too."""
    traces = TracesData.FromString(data)
    traces.resource_spans[0].resource.attributes.add(key=name).value.string_value = "of the resource"
    return traces.SerializeToString()


def small() -> Iterator[bytes]:
    """Yield calls of models and runs of tools with any attribute changed or added, failed and not."""
    failed = {name: text for name, text in CHAT.items() if name != otel.OUTPUT_MESSAGES}
    silent = {name: text for name, text in TOOL.items() if name != otel.TOOL_RESULT}
    for base, name, value in product((CHAT, TOOL), every_name(), VALUES):
        yield request({**base, name: value})
    for base, name, value in product((failed, silent), every_name(), VALUES[1:10:3]):
        yield from (request({**base, name: value}, status) for status in (0, 2))
    every_scope = [name for name in vars(scopes).values() if isinstance(name, str)]
    for base, scope in product((CHAT, TOOL, failed, silent), (*every_scope, *scopes.ADK, *scopes.TEXT_PARTS)):
        yield from (request(base, status, scope) for status in (0, 2))


def test_small_spans_are_read_alike() -> None:
    """All spans with one attribute more than plain ones; most of them are plain, and many are not."""
    counts = check(small())
    assert min(counts.values()) > sum(counts.values()) / 10


def test_values_of_each_span_are_read_alike() -> None:
    """Numbers and ids of responses, which are apart from what spans share; also damaged ones."""
    counts = check(varying())
    assert min(counts.values()) > sum(counts.values()) / 10


@pytest.mark.parametrize("dialect", Dialect)
def test_conversations_are_read_alike(dialect: Dialect) -> None:
    """Spans of all dialects; those of OpenTelemetry's conventions are plain."""
    sent = [span for seed in range(6) for span in spans(random_session(seed), Manner(dialect=dialect))]
    counts = check(each for span in sent for each in as_sent_on(to_otlp([span]).SerializeToString()))
    assert counts[True] > 0 or dialect is not Dialect.GENAI


def test_runs_have_their_claims_straight_from_their_attributes() -> None:
    """Those of the desk, failed and not; a run without a result, or with a hidden or cut half, has not."""
    runs = [span for span in desk_spans(500) if span.attributes.get(otel.OPERATION) == otel.TOOL_OPERATION]
    made = as_sent_on(to_otlp(runs).SerializeToString())
    found = [plain_span(each) for each in (*made, request({**TOOL}), request({**TOOL}, 2))]
    assert len(found) > 50
    assert all(span is not None and run_claims(span, 1, 2) is not None for span in found)
    silent = {name: text for name, text in TOOL.items() if name != otel.TOOL_RESULT}
    hidden = [{**TOOL, name: "[REDACTED]"} for name in (otel.TOOL_ARGUMENTS, otel.TOOL_RESULT)]
    cut = {**TOOL, otel.TOOL_ARGUMENTS: '{"a": '}
    odd = [plain_span(request(attributes)) for attributes in (silent, *hidden, cut, CHAT)]
    assert all(span is not None and run_claims(span, 1, 2) is None for span in odd)
    check([request({**TOOL, otel.TOOL_NAME: fw.MERGED_TOOLS}), *map(request, (cut, silent, *hidden))])


def test_loops_part_the_attributes_of_most_plain_spans() -> None:
    """Those of the desk and of conversations; not those with a long or odd attribute beside the messages."""
    sent = [span for seed in range(6) for span in spans(random_session(seed), Manner(dialect=Dialect.GENAI))]
    made = as_sent_on(to_otlp([*sent, *desk_spans(500)]).SerializeToString())
    plain = PlainSpans(made)
    places = [place for place, each in enumerate(made) if is_plain(each)]
    assert sum(map(plain.is_parted, places)) > 0.9 * len(places) > 200
    long = [CHAT | {name: "x" * 200} for name in ("a", otel.INSTRUCTIONS, otel.TOOL_DEFINITIONS)]
    odd = [CHAT | {otel.INSTRUCTIONS: "é"}, CHAT | {otel.INSTRUCTIONS: 5}, CHAT | {otel.TOOL_NAME: None}]
    shown = PlainSpans([request(attributes) for attributes in (*long, *odd)])
    assert [*map(shown.is_parted, range(6))] == [False, True, True, False, False, False]
    check(request(attributes) for attributes in (*long, *odd))


@pytest.mark.parametrize("name", recordings())
def test_recordings_are_read_alike(name: str) -> None:
    """Spans as instrumentations wrote them."""
    sent = requests_of(FOLDER / name / "otlp" / "requests.pb.zst")
    counts = check(each for body in sent for each in as_sent_on(body))
    print(f"{name}: {counts[True]} of {counts.total()} spans are plain")
    assert (counts[True] > 0) is (name in PLAIN_RECORDINGS)


def test_the_spans_of_the_desk_are_plain() -> None:
    """Of the spans with claims at least 95 % are."""
    sent = [each for span in desk_spans(600) for each in as_sent_on(to_otlp([span]).SerializeToString())]
    counts = check(each for each in sent if isinstance(found := ordinary(each), SpanContent) and found.call)
    counts += check(each for each in sent if isinstance(found := ordinary(each), SpanContent) and found.input)
    assert counts[True] > 100
    assert counts[True] >= 0.95 * counts.total()


@pytest.mark.parametrize("base", [CHAT, TOOL])
def test_damaged_spans_are_read_alike(base: dict[str, Value]) -> None:
    """Cut and changed at every place."""
    whole = request({**base, "n": 3, "m": True}, 2)
    random = Random(len(whole))
    damaged = [whole[:size] for size in range(len(whole))]
    for place in (*range(len(whole)), *(random.randrange(len(whole)) for _ in range(300))):
        changed = bytearray(whole)
        changed[place] ^= 1 << random.randrange(8)
        damaged.append(bytes(changed))
    counts = check([whole, whole + whole, *damaged])
    assert min(counts[True], counts[False]) > 50


def test_repeated_fields_are_read_alike() -> None:
    """Of a span, its parts appended to it; two statuses are one with the fields of both."""
    trace = TracesData.FromString(request(dict(CHAT)))
    scope = trace.resource_spans[0].scope_spans[0]
    span = scope.spans[0].SerializeToString()
    more = [
        span[:18],
        span[18:28],
        b"\x2a\x01\xff",
        b"\x2a\x00",
        b"\x7a\x02\x18\x02",
        b"\x7a\x00",
        b"\x0a\x00",
    ]
    more += [b"\x85\x01" + bytes(4), b"\x85\x01", b"\x50\x01", b"\x30\x81\x01", b"\x39" + bytes(8), b"\x39"]
    more += [Status(message="é", code=Status.STATUS_CODE_ERROR).SerializeToString(), b"\x4a\x00", b"\x0a\x00"]
    made = [
        b"\x0a" + _sized(b"\x0a\x00\x12" + _sized(b"\x0a\x00\x12" + _sized(span + first + second)))
        for first, second in product(more, more)
    ]
    assert check(made)[True] > 0


def _sized(data: bytes) -> bytes:
    size = len(data)
    assert size < 1 << 14
    return (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data


@given(quickly(REQUESTS))
@settings(max_examples=120)
def test_any_span_is_read_alike(sent: TracesData) -> None:
    """Spans of any values."""
    check(as_sent_on(sent.SerializeToString()))
