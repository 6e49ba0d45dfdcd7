"""The cost of locating spans (`schemas/walk/`): `PYTHONPATH=. python benchmarks/walk.py [SPANS]`.

Prints the share of spans that the walk alone reads, and that of spans in plain requests, by dialect and by
recording. It fails where either is below `SHARE` on the simulated desk, or on a recording that
`DIALECTS_READ` does not name; `PARTLY` names the dialects of the desk that may be below it. Then prints the
processor time a span of parsing the same bytes with upb, of locating the spans, and of reading them with the
dialects, as ratios to parsing, and the time of the walk's first call. Last come the claims of model's calls,
with and without a memory of the call before.
"""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.script import Script, ScriptCall, ScriptLine, support_session
from tracline.schemas.claims.span_claims import claims_of, parted_claims
from tracline.schemas.otlp.protobuf import decode_protobuf
from tracline.schemas.plain.span import plain_span
from tracline.schemas.plain_traces.requests import PlainRecord, PlainRequests
from tracline.schemas.sessions.span_reading import SessionMemory, claimed_content, read_span
from tracline.schemas.span import Span
from tracline.schemas.span_content import Role
from tracline.schemas.walk.locate import located
from tracline.stream.messages.topics import Topic

from benchmarks.desk_spans import desk_spans, traces
from tests.support.conversations.agent_spans import spans
from tests.support.conversations.log_records import by_trace
from tests.support.conversations.recordings import FOLDER, names, requests_of
from tests.support.conversations.scripts import START_NS
from tests.support.conversations.span_plan import Dialect, Manner
from tests.support.otlp_requests import to_otlp

SPANS = 3_000
SHARE = 0.95
RUNS = 5
_FLATTENED = "messages are flattened into attributes in unusual forms"
_FUNCTIONS = "messages are the input and the output of a function, in JSON of any form"
_EVENTS = "messages are span events"
_OLDER = "messages are attributes of older conventions"
DIALECTS_READ = {
    **dict.fromkeys(
        [
            *("autogen", "crewai", "dspy", "google-adk-openinference", "haystack"),
            *("langgraph-openinference", "llama-index", "smolagents", "openai-agents-openinference"),
            *("langgraph-openllmetry", "litellm", "openai-agents-openllmetry"),
            *("openai-openllmetry", "openai-openllmetry-responses"),
        ],
        _FLATTENED,
    ),
    **dict.fromkeys(["langfuse", "mastra", "mlflow"], _FUNCTIONS),
    **dict.fromkeys(["strands"], _EVENTS),
    **dict.fromkeys(["vercel-ai-5", "vercel-ai-6", "google-adk-1", "google-adk-1-events"], _OLDER),
    **dict.fromkeys(["pydantic-ai-2"], _OLDER),
    **dict.fromkeys(["agent-framework"], "messages have parts of types that the walk does not know"),
}
"""Recordings with spans that only the dialects can read, and the reason."""
PARTLY = (Dialect.OPENLLMETRY, Dialect.VERCEL)
"""Dialects of the desk with spans that are not plain: tools with escapes in their arguments, and all."""
SCRIPTS = {
    "Latin": "The parcel left our house on Tuesday and should reach you soon. ",
    "Cyrillic": "Посылка вышла со склада во вторник и скоро будет у вас дома. ",
    "Devanagari": "पार्सल मंगलवार को निकल गया है और जल्द ही आपके पास पहुँचेगा। ",
    "Chinese": "包裹已于星期二离开我们的仓库，很快就会送到您的家中，请您耐心等待。",
}
TURNS = (5, 60)


def main() -> None:
    """Run the benchmark and print its tables."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else SPANS
    begun = _cpu()
    located(b"")
    print(f"first call: {_cpu() - begun:.2f} s of processor time")
    bodies = {"desk": _requests(desk_spans(wanted))}
    for dialect in Dialect:
        sessions = map(support_session, islice(conversations(Desk(sessions=20)), 20))
        made = [spans(session, Manner(dialect=dialect)) for session in sessions]
        bodies[f"desk in {dialect}"] = [body for every in made for body in _requests(every)]
    for turns in TURNS:
        for script, text in SCRIPTS.items():
            bodies[f"{turns} turns, {script}"] = _requests(spans(conversation(turns, text)))
    _print_shares(bodies)
    _print_times(bodies)
    _print_remembered(bodies)


def _requests(every: Sequence[Span]) -> list[bytes]:
    """Return a request for each trace, as a collector sends them that partitions by trace."""
    return [to_otlp(trace).SerializeToString() for trace in traces(every)]


def conversation(turns: int, text: str) -> Script:
    """Return a conversation of turns with one call of a tool each."""
    lines: list[ScriptLine] = []
    for turn in range(turns):
        call = ScriptCall(f"call_{turn}", "get_order", f'{{"order_id": "{turn}"}}')
        lines += [
            ScriptLine(Role.USER, f"{text} {turn}?"),
            ScriptLine(Role.ASSISTANT, None, (call,)),
            ScriptLine(Role.TOOL, '{"status": "sent"}', (), call),
            ScriptLine(Role.ASSISTANT, f"{text} {turn}."),
        ]
    timed = (replace(line, time=START_NS + place * 1_000_000_000) for place, line in enumerate(lines))
    return Script("a-session", "desk", "lumen-4", "shop-web", tuple(timed))


def _share(bodies: Sequence[bytes]) -> float:
    """Return the share of spans that the walk alone reads."""
    found = [span.is_walked for body in bodies for span in located(body) or ()]
    return sum(found) / sum(len(decode_protobuf(body).spans) for body in bodies)


def _plain_share(bodies: Sequence[bytes]) -> float:
    """Return the share of spans in plain requests, whose traces compiled loops can resolve.

    Each request is one of a trace, as the collector sends them to Kafka.
    """
    parts = [part for body in bodies for _, _, part in by_trace(Topic.SPANS, body)]
    batch = PlainRequests([PlainRecord(part, 1, place, bytes(32)) for place, part in enumerate(parts)])
    plain = [request for place in range(len(parts)) if (request := batch.at(place)) is not None]
    spans = sum(run.stop - run.first for request in plain for run in request.runs)
    return spans / sum(len(decode_protobuf(body).spans) for body in bodies)


def _print_shares(bodies: dict[str, list[bytes]]) -> None:
    """Print shares; raise SystemExit where one is too small, or where a recording is named in vain."""
    recorded = {name: [*requests_of(FOLDER / name / "otlp" / "requests.pb.zst")] for name in names()}
    shares = {name: _share(made) for name, made in {**bodies, **recorded}.items()}
    plain = {name: _plain_share(made) for name, made in {**bodies, **recorded}.items()}
    print("\nshare of spans that the walk alone reads, and of those in plain requests")
    for name, share in shares.items():
        print(f"  {name:40} {share:6.1%} {plain[name]:6.1%}  {DIALECTS_READ.get(name, '')}")
    low = {name for name in recorded if min(shares[name], plain[name]) < SHARE}
    desks = ["desk", *(f"desk in {dialect}" for dialect in Dialect if dialect not in PARTLY)]
    low |= {name for name in desks if min(shares[name], plain[name]) < SHARE}
    if low != DIALECTS_READ.keys():
        raise SystemExit(f"not read by the walk, or named in vain: {sorted(low ^ DIALECTS_READ.keys())}")


def _print_times(bodies: dict[str, list[bytes]]) -> None:
    heads = ("bytes", "upb, us", "located", "decoded", "read")
    print(f"\n{'processor time a span':28}", *(f"{head:>8}" for head in heads))
    for name, made in bodies.items():
        count = sum(len(decode_protobuf(body).spans) for body in made)
        parsed = _best(lambda made=made: [TracesData.FromString(body) for body in made])
        ways: list[Callable[[], object]] = [
            lambda made=made: [located(body) for body in made],
            lambda made=made: [decode_protobuf(body) for body in made],
            lambda made=made: [read_span(span) for body in made for span in decode_protobuf(body).spans],
        ]
        ratios = " ".join(f"{_best(way) / parsed:7.1f}x" for way in ways)
        print(f"{name:28} {sum(map(len, made)) / count:8.0f} {parsed / count * 1e6:8.2f} {ratios}")


def _print_remembered(bodies: dict[str, list[bytes]]) -> None:
    """Print the time of the claims of a model's call, without and with a memory of the call before."""
    print(f"\n{'processor time a call':28} {'upb, us':>8} {'claims':>8} {'with memory':>12}")
    for name, made in bodies.items():
        calls = [span for body in made for span in decode_protobuf(body).spans if _is_call(span)]
        if not calls:
            continue
        alone = [to_otlp([span]).SerializeToString() for span in calls]
        parsed = _best(lambda alone=alone: [TracesData.FromString(body) for body in alone])
        keyed = list(zip(map(_key, calls), alone, strict=True))
        ratios = [_best(lambda k=keyed, is_on=is_on: _claims(k, is_on)) / parsed for is_on in (False, True)]
        print(f"{name:28} {parsed / len(calls) * 1e6:8.2f} {ratios[0]:7.1f}x {ratios[1]:11.1f}x")


def _is_call(span: Span) -> bool:
    return "gen_ai.input.messages" in span.attributes or "ai.prompt.messages" in span.attributes


def _key(span: Span) -> str:
    """Return a key of the conversation of a call: the desk has its sessions on roots only."""
    attributes = span.attributes
    return str(attributes.get("ai.prompt.messages", attributes.get("gen_ai.input.messages")))[:120]


def _claims(calls: Sequence[tuple[str, bytes]], is_remembered: bool) -> None:
    """Read the claims of calls from their requests, each conversation with a memory if that is on."""
    memories: dict[str, SessionMemory] = {}
    for key, request in calls:
        memory = memories.setdefault(key, SessionMemory()) if is_remembered else None
        content, claims = claimed_content(request, plain_span(request), memory)
        if claims is None:
            claims_of(content, 1, 2)
        else:
            parted_claims(content, 1, 2, claims)


def _best(run: Callable[[], object]) -> float:
    """Return the least processor time of several runs."""
    gc.collect()
    gc.disable()
    times: list[float] = []
    for _ in range(RUNS):
        begun = _cpu()
        run()
        times.append(_cpu() - begun)
    gc.enable()
    return min(times)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
