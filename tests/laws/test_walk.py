"""The walk over a request finds of each span what the dialects read, or leaves the request to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData
from tracline.examples.desk.bot import Break, Desk, conversations
from tracline.examples.desk.script import support_session
from tracline.schemas.dialects.names import scopes
from tracline.schemas.otlp.protobuf import decode_protobuf
from tracline.schemas.otlp.single import decode_single
from tracline.schemas.otlp.wire import WireField, delimited, fields_of
from tracline.schemas.sessions.span_reading import SpanReading, read_span
from tracline.schemas.span import Value
from tracline.schemas.walk.keys import FLATTENED, slots_of
from tracline.schemas.walk.locate import PlacedSpan, located, request_of
from tracline.schemas.walk.wire_loops import SLOT_ODD, SLOT_SPAN

from ..support.conversations.agent_spans import spans
from ..support.conversations.recordings import FOLDER, names, requests_of
from ..support.conversations.span_plan import Dialect
from ..support.otlp_messages import DROPPED, NS, REQUESTS, SPAN_IDS, TRACE_IDS, VALUES, pairs
from ..support.otlp_requests import to_otlp
from .quick_draws import quickly
from .test_dialects import MANNERS

DESK = list(conversations(Desk(sessions=6, seed=5, rates=dict.fromkeys(Break, 0.03), spike=None)))
SCOPE = ("deployment.environment", "service.name")


def read(data: bytes) -> list[tuple[SpanReading, bool]]:
    """Return the bare readings of the dialects, and which spans end their session."""
    found: list[tuple[SpanReading, bool]] = []
    for span in decode_protobuf(data).spans:
        reading = read_span(span, SCOPE)
        found.append((msgspec.structs.replace(reading.bare(), scope=reading.scope), reading.content.ends))
    return found


def bare_of(span: PlacedSpan) -> tuple[SpanReading, bool]:
    """Return a located span as `read` does; only what the walk read has no content yet."""
    bare = msgspec.structs.replace(span.reading.bare(), scope=span.reading.scope)
    assert not span.is_walked or bare == span.reading
    return bare, span.ends


def agreed(data: bytes) -> list[PlacedSpan]:
    """Return the located spans after a check that they are what the ordinary path reads, if there are any."""
    found = located(data, SCOPE)
    if found is None:
        return []
    decoded = decode_protobuf(data)
    assert decoded.flaws == ()
    assert [bare_of(span) for span in found] == read(data)
    for place, span in enumerate(found):
        request = request_of(data, span)
        alone = decode_protobuf(request)
        assert (repr(alone.spans), alone.flaws) == (repr(decoded.spans[place : place + 1]), ())
        assert repr(decode_single(request)) == repr(alone.spans[0])
    return found


def recorded() -> Iterator[bytes]:
    """Yield the requests of all recordings."""
    for name in names():
        yield from requests_of(FOLDER / name / "otlp" / "requests.pb.zst")


def generated(dialect: Dialect, manner: str, seed: int = 0) -> list[bytes]:
    """Return a request of each conversation's spans in a dialect and a manner."""
    written = replace(MANNERS[manner], dialect=dialect, seed=seed)
    return [to_otlp(spans(support_session(session), written)).SerializeToString() for session in DESK]


@pytest.mark.parametrize("name", names())
def test_recordings_are_located_as_they_are_read(name: str) -> None:
    """Every span of a recording has the located reading that the dialects give it."""
    for data in requests_of(FOLDER / name / "otlp" / "requests.pb.zst"):
        assert agreed(data)


@pytest.mark.parametrize(("dialect", "manner"), list(product(Dialect, MANNERS)))
def test_generated_traces_are_located_as_they_are_read(dialect: Dialect, manner: str) -> None:
    """Spans in all dialects and manners have the located reading that the dialects give them."""
    for data in generated(dialect, manner):
        assert agreed(data)


def test_the_walk_alone_reads_the_desk() -> None:
    """No span of GenAI's conventions with messages as JSON text needs the dialects."""
    found = [span for data in generated(Dialect.GENAI, "plain") for span in agreed(data)]
    assert len(found) > 50
    assert all(span.is_walked for span in found)


@given(quickly(REQUESTS))
@settings(max_examples=120)
def test_any_request_is_located_as_it_is_read(request: TracesData) -> None:
    """A request of any values is located as it is read, or refused."""
    agreed(request.SerializeToString())


TEXTS = (
    *(
        "",
        "a",
        "null",
        "{}",
        "[]",
        " [ ] ",
        "[REDACTED]",
        '"[REDACTED]"',
        '"a"',
        '"',
        "__REDACTED__",
        "é" * 9,
    ),
    *("[1]", "[{}]", '[{"role":"user"}', "true", '{"a":1', '{"a":1}'),
    '[{"role":"user","content":"hi \\u00e9 \\ud83d\\ude00 \\n"}]',
    '[{"role":"user","content":"\\ud83d"}]',
    '[{"role":"user","content":"\\x"}]',
    '[{"role":"user","content":"a\tb"}]',
    '[{"role":"user","parts":[{"type":"text","content":"hi"}]},{"role":"assistant","parts":[]}]',
    '[{"role":"assistant","parts":[{"type":"text","content":"\u6f22\u5b57"}],"finish_reason":"stop"}]',
    '[{"role":"assistant","parts":[{"type":"tool_call","id":"1","name":"f","arguments":{"a":[1,-2.5e3]}}]}]',
    '[{"role":"assistant","content":null,"finish_reason":""},{"role":"assistant","content":"b"}]',
    '[{"role":"assistant","type":"reasoning"}]',
    '[{"role":"assistant","message":{"type":"thinking"}}]',
    '[{"role":"assistant","content":{"parts":[],"type":"thinking"}}]',
    '[{"role":"tool","content":"x"}]',
    '[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]',
    '[{"role":"assistant","role":"user","content":"x"}]',
    '[{"role":"assistant","\\u0074ype":"reasoning","content":"x"}]',
    '[{"r\\u006fle":"assistant","content":"x"}]',
    '[{"role":null,"content":"x"}]',
    '[{"role":"Assistant","content":"x"}]',
    '[{"role":"assistant","content":1e400}]',
    '[{"role":"assistant","content":01}]',
    '[{"role":"assistant","content":-}]',
    '[{"role":"assistant","content":1.}]',
    '[{"role":"assistant","content":[' + "[" * 70 + "]" * 70 + "]}]",
    '[{"role":"assistant","content":"x"},]',
    '[{"role":"assistant","content":"x",}]',
    '[{"role":"assistant","content":"x"}] x',
    '[{"role":"assistant","content":nul}]',
    '{"messages":[{"role":"user","content":"x"}]}',
    '{"id":"r-1","choices":[]}',
    *(
        "chat",
        "execute_tool",
        "invoke_agent",
        "embeddings",
        "call_llm",
        "create_thread",
        "(merged tools)",
        "x" * 1_001,
    ),
    *("true", "False", "tool", "llm", "LLM", "AGENT", "ai.generateText", "ERROR", "generation", "agent_run"),
)
NAMES = [
    *sorted(name for name, slot in slots_of().items() if slot >= SLOT_ODD),
    *(f"{prefix}.0.role" for prefix in FLATTENED),
    *(f"{prefix}.0.message.role" for prefix in FLATTENED),
    "app.user",
]
WALKED = sorted(name for name, slot in slots_of().items() if slot >= SLOT_SPAN)


def chosen(values: Sequence[str]) -> st.SearchStrategy[str]:
    """Return a strategy of the values that does not list them where it is shown."""
    return st.integers(0, len(values) - 1).map(values.__getitem__)


GIVEN = st.one_of(chosen(TEXTS).map(lambda text: AnyValue(string_value=text)), VALUES)
MESSAGES = chosen([text for text in TEXTS if text[:1] == "["])
MODELS = st.fixed_dictionaries(
    {"gen_ai.operation.name": st.sampled_from(["chat", "invoke_agent", "execute_tool", "other"])},
    optional={
        "gen_ai.input.messages": MESSAGES,
        "gen_ai.output.messages": MESSAGES,
        "gen_ai.tool.name": st.sampled_from(["f", ""]),
        "gen_ai.tool.call.id": st.sampled_from(["c", ""]),
        "gen_ai.tool.call.arguments": chosen(TEXTS),
        "gen_ai.tool.call.result": chosen(TEXTS),
        "gen_ai.conversation.id": st.sampled_from(["s", "", "x" * 1_001]),
        "session.id": st.just("t"),
        "gen_ai.agent.name": st.sampled_from(["a", ""]),
        "gen_ai.request.model": st.sampled_from(["m", ""]),
        "gen_ai.response.model": st.sampled_from(["n", ""]),
        "gen_ai.response.id": st.sampled_from(["r", ""]),
        "error.type": st.sampled_from(["e", ""]),
        "tracline.nested": st.sampled_from(["true", "no"]),
        "tracline.session.end": st.sampled_from(["true", "no"]),
    },
).map(lambda texts: pairs({name: AnyValue(string_value=text) for name, text in texts.items()}))
EVENTS = st.builds(
    Span.Event,
    name=st.sampled_from(["exception", "gen_ai.choice", "log", ""]),
    time_unix_nano=NS,
    attributes=st.dictionaries(
        st.sampled_from(["exception.type", "exception.escaped", "exception.message"]), GIVEN, max_size=3
    ).map(pairs),
)
ATTRIBUTED = st.builds(
    Span,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    start_time_unix_nano=NS,
    end_time_unix_nano=NS,
    attributes=st.one_of(
        MODELS,
        st.dictionaries(chosen(WALKED), GIVEN, max_size=5).map(pairs),
        st.dictionaries(chosen(NAMES), GIVEN, max_size=5).map(pairs),
    ),
    events=st.lists(EVENTS, max_size=2) | st.just([]),
    dropped_attributes_count=st.just(0) | DROPPED,
    status=st.builds(Status, code=st.sampled_from(Status.StatusCode.values())),
)
SCOPES = st.sampled_from(
    ["", "app", scopes.HAYSTACK, "logfire.openai", *scopes.AGENTS_BESIDE, *scopes.TEXT_PARTS]
)
SENDERS = st.fixed_dictionaries(
    {},
    optional={
        "service.name": st.sampled_from(["desk", "unknown_service:x", ""]),
        "telemetry.sdk.language": st.sampled_from(["nodejs", "python"]),
        "deployment.environment": st.sampled_from(["a/b", ""]),
    },
)


@given(st.lists(quickly(ATTRIBUTED), min_size=1, max_size=3), SCOPES, SENDERS)
@settings(max_examples=400)
def test_attributes_of_all_dialects_are_located_as_they_are_read(
    sent: list[Span], scope: str, sender: dict[str, str]
) -> None:
    """Spans with any values in the attributes that dialects know are located as they are read, or refused."""
    request = TracesData()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(
        pairs({name: AnyValue(string_value=text) for name, text in sender.items()})
    )
    within = resource.scope_spans.add()
    within.scope.name = scope
    within.spans.extend(sent)
    agreed(request.SerializeToString())


def damaged(data: bytes, random: Random) -> bytes:
    """Return a request with one kind of damage at a random place."""
    at = random.randrange(len(data))
    kind = random.randrange(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + random.randbytes(3) + data[at + random.randrange(4) :]
    if kind == 3:
        begin = random.randrange(len(data))
        return data[:at] + data[begin : begin + 20] + data[at:]
    return with_field(data, random, kind == 4)


def with_field(data: bytes, random: Random, is_repeated: bool) -> bytes:
    """Return a request with a field more in a random message of it: a repeated one, or one of any number."""
    path = [(0, len(data))]
    while len(path) < 6 and random.random() < 0.8:
        inner = [field for field in whole_fields(data, *path[-1]) if field.wire == 2 and field.size]
        if not inner:
            break
        chosen = random.choice(inner)
        path.append((chosen.content, chosen.end))
    fields = whole_fields(data, *path[-1])
    content = data[slice(*path[-1])]
    if is_repeated and fields:
        chosen = random.choice(fields)
        content += data[chosen.start : chosen.end]
    else:
        content += random.choice(
            [b"\x98\x06\x01", b"\x0a\x80\x00", b"\xa8\x80\x00\x01", b"\xda\x1f\x01a", b"\x50\x01"]
        )
    for outer, inner in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        field = next(f for f in whole_fields(data, *outer) if (f.content, f.end) == inner)
        content = data[outer[0] : field.start] + delimited(field.number, content) + data[field.end : outer[1]]
    return content


def whole_fields(data: bytes, begin: int, end: int) -> list[WireField]:
    """Return the fields between two offsets, none where the bytes are no fields."""
    try:
        return list(fields_of(data, begin, end))
    except ValueError:
        return []


@pytest.mark.parametrize("seed", range(8))
def test_damaged_requests_are_located_as_they_are_read(seed: int) -> None:
    """Truncated and changed bytes, unknown and repeated fields are located as they are read, or refused."""
    random = Random(seed)
    sent = [*generated(Dialect.GENAI, "trouble"), *generated(Dialect.OPENINFERENCE, "plain")[:2]]
    small = [data[: len(data)] for data in sent]
    small += [request_of(data, span) for data in sent for span in (located(data) or [])[:6]]
    for _ in range(300):
        agreed(damaged(random.choice(small[len(sent) :] if random.random() < 0.9 else small), random))


def test_a_name_out_of_the_table_is_not_read() -> None:
    """The dialects look no attribute up that the walk ignores."""
    asked: set[str] = set()

    class Spied(dict[str, Value]):
        """Attributes that note what is looked up."""

        def get(self, key: str, default: Any = None) -> Any:
            """Return an attribute and note its name."""
            asked.add(key)
            return super().get(key, default)

        def __contains__(self, key: object) -> bool:
            asked.add(str(key))
            return super().__contains__(key)

        def __getitem__(self, key: str) -> Value:
            asked.add(key)
            return super().__getitem__(key)

    every = [
        span
        for data in (*recorded(), *generated(Dialect.VERCEL, "plain"))
        for span in decode_protobuf(data).spans
    ]
    for span in every:
        read_span(msgspec.structs.replace(span, attributes=Spied(span.attributes)))
    known = {name for name, slot in slots_of().items() if slot >= SLOT_ODD}
    assert {name for name in asked - known if not name.startswith(FLATTENED)} == set()
