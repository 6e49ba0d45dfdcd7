"""Generated loads of a rekeyer: conversations whose spans come split, late, twice, or unusual."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TypeAlias
from zlib import crc32

import msgspec
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from tracline.schemas.dialects.names import scopes
from tracline.schemas.span import Span, SpanEvent, Value
from tracline.schemas.time import NS
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic

from ..otlp_requests import to_otlp
from .agent_spans import spans
from .scripts import START_NS, later, random_session
from .span_plan import Dialect, Keys, Manner

Change: TypeAlias = Callable[[Span, Random], Span]
MANNERS = (
    Manner(),
    Manner(keys=Keys.EVERYWHERE, agent_messages=True),
    Manner(one_trace=True, keys=Keys.FIRST_CALLS),
    Manner(captured=False),
    Manner(inputs_captured=False, retried=0.4),
    Manner(wrapped=0.6, wrapper=Dialect.GENAI, end_mark=True),
    Manner(doubled=0.3, retried=0.2, clock_faults=0.1),
)
SECOND, MS = 1_000_000_000, 1_000_000


def _with(attributes: dict[str, Value]) -> Change:
    """Return a change that adds attributes to a span."""
    return lambda span, _: msgspec.structs.replace(span, attributes={**span.attributes, **attributes})


def _to(**fields: object) -> Change:
    return lambda span, _: msgspec.structs.replace(span, **fields)


def _raised(name: str, attributes: dict[str, Value]) -> Change:
    event = SpanEvent(name, START_NS, attributes)
    return lambda span, random: msgspec.structs.replace(
        span, events=(*span.events, event), failed=random.random() < 0.5
    )


CHANGES: tuple[Change, ...] = (
    *(_with({"tracline.nested": value}) for value in (True, False, "true", 3)),
    *(_with({"tracline.session.end": value}) for value in (True, False, "true")),
    *(_with({"gen_ai.conversation.id": value}) for value in ("other", "é" * 60, "x" * 300, "", 7)),
    *(_with({"session.id": value}) for value in ("visit", "")),
    *(_with({"gen_ai.agent.name": value}) for value in ("second", "", "x" * 201, "x" * 1_001)),
    *(_with({"gen_ai.operation.name": value}) for value in ("chat", "execute_tool", "invoke_agent", "")),
    *(_with({"gen_ai.operation.name": value}) for value in ("embeddings", "call_llm", "unheard_of", 3)),
    *(_with({"gen_ai.tool.name": value}) for value in ("(merged tools)", "t", "", None)),
    *(_with({"gen_ai.tool.call.id": value}) for value in ("same", "", 5)),
    *(
        _with({"gen_ai.tool.call.arguments": value})
        for value in ("[REDACTED]", "", "text", '{"a": 1}', '{"a')
    ),
    *(_with({"gen_ai.tool.call.result": value}) for value in ("[REDACTED]", '"[REDACTED]"', '"a\\u0062"')),
    *(_with({"gen_ai.tool.call.result": value}) for value in ('"fine"', "", "<elided> not", 1.5)),
    *(_with({"gen_ai.response.id": value}) for value in ("answer", "", 3)),
    *(_with({"gen_ai.response.model": value}) for value in ("m", "", None)),
    *(_with({"gen_ai.input.messages": value}) for value in ("[]", "no json", [])),
    *(_with({"gen_ai.output.messages": value}) for value in ("[]", "[{}]")),
    *(_with({"error.type": value}) for value in ("timeout", "", False, "x" * 400)),
    *(_with({name: "x"}) for name in ("openinference.span.kind", "traceloop.span.kind", "unknown")),
    _raised("exception", {"exception.type": "ValueError"}),
    _raised("exception", {"exception.type": "", "exception.escaped": True}),
    _raised("log", {}),
    *(_to(failed=failed) for failed in (True, False)),
    *(_to(scope=scope) for scope in ("", scopes.HAYSTACK, "logfire.openai", *scopes.AGENTS_BESIDE)),
    *(_to(scope=scope) for scope in (*scopes.TEXT_PARTS, "another")),
    *(_to(parent_id=parent) for parent in (None, "ab" * 8)),
    *(_to(**times) for times in ({"start": 0}, {"end": 0}, {"start": START_NS + 30 * SECOND})),
    *(_to(resource=resource) for resource in ({}, {"service.name": "other"}, {"deployment": "a/b"})),
    _to(resource={"service.name": "web", "telemetry.sdk.language": "nodejs"}),
    lambda span, _: msgspec.structs.replace(span, parent_id=span.span_id),
    lambda span, random: msgspec.structs.replace(span, end=span.end + random.randrange(90 * SECOND)),
    lambda span, random: msgspec.structs.replace(
        span, start=max(1, span.start - random.randrange(20 * SECOND))
    ),
)
"""Changes of a span, most of which make it unusual."""

_RESPONSE = '{ "id": "r-1", "choices": []}'
FLAT_CHANGES: tuple[Change, ...] = (
    *(_with({"openinference.span.kind": kind}) for kind in ("LLM", "TOOL", "AGENT", "CHAIN", "llm", "", 3)),
    *(_with({"traceloop.span.kind": kind}) for kind in ("tool", "agent", "workflow", "task", "", None)),
    *(_with({"llm.request.type": kind}) for kind in ("chat", "completion", "rerank", "", 2)),
    *(
        _with({f"{name}.0.{field}": value})
        for name in ("llm.input_messages", "llm.output_messages")
        for field, value in (
            ("message.role", "assistant"),
            ("message.role", "Assistant"),
            ("message.role", None),
            ("message.content", 3),
            ("message.contents.0.message_content.text", "hello"),
            ("message.name", "n"),
            ("message.other", "x"),
            ("role", "user"),
        )
    ),
    *(
        _with({f"{name}.{place}.{field}": value})
        for name in ("gen_ai.prompt", "gen_ai.completion")
        for place, field, value in (
            ("0", "role", "tool"),
            ("0", "finish_reason", "stop"),
            ("1", "role", "assistant"),
            ("2", "content", "[]"),
            ("07", "role", "user"),
            ("70", "role", "user"),
            ("x", "role", "user"),
            ("0", "tool_calls.0.name", "f"),
        )
    ),
    *(
        _with({"output.value": text})
        for text in (_RESPONSE, '{"id" : "r"}', '{"id": "é"}', '"text"', "words", "")
    ),
    *(
        _with({"output.value": text})
        for text in ('{"type": "tool", "content": "x"}', '{"a": 1}', "[REDACTED]", 3)
    ),
    *(
        _with({"input.value": text})
        for text in ("words", '{"a": 1}', '{"a', " {}", "[]", "__REDACTED__", None)
    ),
    *(_with({"output.mime_type": kind}) for kind in ("text/plain", "application/json", 1)),
    *(_with({"tool.name": name}) for name in ("f", "", "x" * 300)),
    *(_with({name: "c-1"}) for name in ("tool.id", "tool_call.id", "graph.node.id", "graph.node.name")),
    *(_with({"tool.parameters": text}) for text in ('{"a": 1}', '{"properties": {}}', "x")),
    *(_with({"llm.model_name": name}) for name in ("m", "", "x" * 300, 1)),
    *(_with({"llm.response.model_name": "n"}), _with({"agent.name": "second"}), _with({"agent.name": ""})),
    *(_with({"traceloop.entity.name": name}) for name in ("f", "", 3)),
    *(
        _with({"traceloop.entity.input": text})
        for text in (
            '{"args": [], "kwargs": {"a": 1}}',
            ' {"args": [ ], "kwargs" : { "a b" : [1, -2, true, null], "c" : "x, y" } } ',
            '{"args": [], "kwargs": {"a": 1, "a": 2}}',
            '{"args": [], "kwargs": {"a": 1.0}}',
            '{"args": [], "kwargs": {"a": {"b": 1}}}',
            '{"args": [], "kwargs": {"a": "\\u00e9"}}',
            '{"args":[],"kwargs":{"a":"é {[", "b":-0}}',
            '{"args":[],"kwargs":{ }}',
            '{"args": [], "kwargs": {"a": 1e3, "b": 12345678901234567890}}',
            '{"args": [1], "kwargs": {}}',
            '{"kwargs": {"a": 1}, "args": []}',
            '{"kwargs": [], "args": []}',
            '{"input_str": "x", "inputs": {"a": 1}}',
            "words",
            '{"a": 1}',
            '{"a": 1',
            "[1]",
        )
    ),
    *(
        _with({"traceloop.entity.output": text})
        for text in ('"fine"', '"[REDACTED]"', '{"kwargs": {}}', "null")
    ),
    *(
        _with({name: "x"})
        for name in ("llm.prompts.0.content", "metadata", "gen_ai.operation.name", "unknown")
    ),
    *(_to(scope=f"openinference.instrumentation.{name}") for name in ("langchain", "openai_agents", "dspy")),
    *(_to(scope=scope) for scope in ("litellm", scopes.HAYSTACK, "logfire.x")),
)
"""Changes of a span of a convention with flattened messages."""


MESSAGES = '[{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}]'
SIZES = (*range(1, 13), *range(1, 13), *range(2, 8), 25)
"""Spans of a random trace."""


def trees(seed: int, rate: float, count: int = 25, sources: int = 2) -> list[Record]:
    """Return the records of random trees of spans, in which any span may be around any other one."""
    random = Random(f"trees {seed}")
    every = [span for number in range(count) for span in _by_any_clock(_tree(number, random), random)]
    return _records(every, rate, sources, random)


def _by_any_clock(made: Iterable[Span], random: Random) -> Iterator[Span]:
    """Yield spans, some of them by JavaScript's clock, whose starts are whole milliseconds and ends late."""
    made = list(made)
    if random.random() < 0.6:
        yield from made
        return
    for span in made:
        resource: dict[str, Value] = {**span.resource, "telemetry.sdk.language": "nodejs"}
        start = span.start if random.random() < 0.1 else span.start // MS * MS
        end = span.end // MS * MS + random.choice((0, 0, 1, MS // 2, MS - 1, MS, MS + 1))
        end = start + random.choice((0, 1, MS // 2)) if random.random() < 0.05 else end
        yield msgspec.structs.replace(span, resource=resource, start=start, end=end)


def _tree(number: int, random: Random) -> Iterator[Span]:
    """Yield the spans of a random trace, in any order."""
    size, trace_id = random.choice(SIZES), random.randbytes(16).hex()
    ids = [random.randbytes(8).hex() for _ in range(size)]
    is_chain = random.random() < 0.2
    begun = START_NS + number * 2 * SECOND
    roles = random.choice(
        [("chat", "invoke_agent", "execute_tool", None), ("chat", "invoke_agent"), ("chat", None)]
    )
    made: list[Span] = []
    for place, span_id in enumerate(ids):
        parent = ids[place - 1 if is_chain else random.randrange(place)] if place else None
        start = begun + random.randrange(20) * SECOND
        end = start + random.randrange(1, 20) * SECOND
        attributes = _attributes(random.choice(roles), random)
        scope = random.choice(("app", "app", "agent"))
        resource: dict[str, Value] = {} if random.random() < 0.1 else {"service.name": random.choice("ab")}
        failed = random.random() < 0.1
        fields = {"attributes": attributes, "resource": resource, "scope": scope, "failed": failed}
        made.append(Span(trace_id, span_id, parent, "span", start, end, **fields))
    random.shuffle(made)
    yield from made


def _attributes(operation: str | None, random: Random) -> dict[str, Value]:
    """Return random attributes of a span in a role."""
    chosen: dict[str, Value] = {} if operation is None else {"gen_ai.operation.name": operation}
    choices: dict[str, Sequence[Value]] = {
        "gen_ai.input.messages": (MESSAGES, "[]"),
        "gen_ai.output.messages": (MESSAGES, "[]"),
        "gen_ai.agent.name": ("a", "b", "a"),
        "gen_ai.conversation.id": (*("one", "two") * 10, *(f"key {number}" for number in range(20))),
        "session.id": ("visit",),
        "gen_ai.request.model": ("m", "n"),
        "gen_ai.response.model": ("m",),
        "gen_ai.response.id": tuple(f"answer {number}" for number in range(40)),
        "gen_ai.tool.name": ("t", "u"),
        "gen_ai.tool.call.id": ("c", "d", "e"),
        "gen_ai.tool.call.arguments": ("{}", '{"a": 1}'),
        "gen_ai.tool.call.result": ("fine", "wrong"),
        "tracline.nested": (True, False),
        "tracline.session.end": (True,),
        "error.type": ("timeout",),
    }
    rates = {"gen_ai.input.messages": 0.7, "gen_ai.output.messages": 0.7, "gen_ai.tool.name": 0.5}
    rates |= {"gen_ai.conversation.id": 0.4, "gen_ai.agent.name": 0.4}
    rates |= {"tracline.nested": 0.05, "tracline.session.end": 0.05, "error.type": 0.1, "session.id": 0.1}
    for name, values in choices.items():
        if random.random() < rates.get(name, 0.3) and (operation or not name.startswith("gen_ai.tool")):
            chosen[name] = random.choice(values)
    return chosen


def flat_load(seed: int, rate: float, dialect: Dialect) -> list[Record]:
    """Return the records of a load in a convention with flattened messages, as `load` makes them."""
    return load(seed, rate, dialect=dialect, changes=(*FLAT_CHANGES, *CHANGES))


def load(
    seed: int,
    rate: float,
    conversations: int = 12,
    sources: int = 2,
    dialect: Dialect = Dialect.GENAI,
    changes: Sequence[Change] = CHANGES,
) -> list[Record]:
    """Return the records of a load, of which so many are changed, doubled, late or of another form."""
    random = Random(seed)
    every: list[Span] = []
    for number in range(conversations):
        session = later(random_session(100 * seed + number), START_NS + number * 4 * SECOND)
        manner = replace(random.choice(MANNERS), seed=number, dialect=dialect)
        if random.random() < rate / 4:
            manner = replace(manner, dialect=random.choice([*Dialect]))
        every += _by_any_clock(spans(session, manner), random)
    return _records(every, rate, sources, random, changes)


def _records(
    every: Sequence[Span], rate: float, sources: int, random: Random, changes: Sequence[Change] = CHANGES
) -> list[Record]:
    """Return the records of spans, of which so many are changed, doubled, late or of another form."""
    changed = list(_changed(every, rate, random, changes))
    offsets: dict[tuple[Topic, int], int] = {}
    records: list[Record] = []
    for time, _, topic, source, body in sorted(_sent(changed, rate, sources, random)):
        offset = offsets[topic, source] = offsets.get((topic, source), -1) + 1
        records.append(Record(source, offset, time // 1_000_000 * 1_000_000, body, topic))
    return records


def _changed(every: Sequence[Span], rate: float, random: Random, changes: Sequence[Change]) -> Iterator[Span]:
    """Yield spans, some of them changed, with a wrong parent, or twice."""
    for span in every:
        made = span
        if random.random() < rate:
            made = random.choice(changes)(span, random)
        if random.random() < rate / 4:
            made = msgspec.structs.replace(made, parent_id=random.choice(every).span_id)
        yield made
        if random.random() < rate / 8:
            yield made
        if random.random() < rate / 8:
            yield random.choice(changes)(made, random)


def _sent(
    every: Sequence[Span], rate: float, sources: int, random: Random
) -> Iterator[tuple[int, int, Topic, int, bytes]]:
    """Yield requests with their times and places: parts of a trace, sometimes of several traces together."""
    traces: dict[str, list[Span]] = {}
    for span in every:
        traces.setdefault(span.trace_id, []).append(span)
    number = 0
    for trace_id, of_trace in traces.items():
        source = crc32(trace_id.encode()) % sources
        cuts = sorted(random.randrange(len(of_trace)) for _ in range(random.choice((0, 0, 1, 3))))
        for begin, stop in zip([0, *cuts], [*cuts, len(of_trace)], strict=True):
            part = of_trace[begin:stop]
            if not part:
                continue
            if random.random() < rate / 2:
                part = [*part, random.choice(every)]
            ended = max(max(span.start, span.end) for span in part)
            time = ended + random.randrange(2 * SECOND if random.random() > rate / 3 else 200 * SECOND)
            if random.random() < rate / 8:
                time = max(SECOND, ended - 400 * SECOND)
            yield time, number, Topic.SPANS, source, _body(part, rate, random)
            number += 1
            if random.random() < rate / 3:
                yield time + SECOND, number, Topic.LOGS, source, _log(random.choice(part), time)
                number += 1


def _body(part: Sequence[Span], rate: float, random: Random) -> bytes:
    """Return a request, sometimes damaged."""
    data = to_otlp(part).SerializeToString()
    if random.random() < rate / 8:
        at = random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    return data


def _log(span: Span, time: int) -> bytes:
    """Return a request of a log record of a span."""
    logs = LogsData()
    scope = logs.resource_logs.add().scope_logs.add()
    record = scope.log_records.add()
    record.trace_id, record.span_id = bytes.fromhex(span.trace_id), bytes.fromhex(span.span_id)
    record.time_unix_nano = record.observed_time_unix_nano = time
    record.event_name = "gen_ai.user.message"
    record.body.string_value = "hello"
    return logs.SerializeToString()


LAST = START_NS + 900 * NS
"""A time after all spans of a load."""
