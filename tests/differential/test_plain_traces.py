"""The compiled path of the rekeyer against its ordinary one: outputs, state and counts are the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tracline.schemas.otlp.protobuf import decode_protobuf
from tracline.schemas.plain_traces.requests import PlainRequest
from tracline.schemas.plain_traces.trace import PlainTrace
from tracline.schemas.sessions import pending
from tracline.schemas.settings import SessionSettings
from tracline.schemas.time import NS
from tracline.stream.group.rekey_sources import EncodedRekeyResult, ordinary, requests_of
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic

from ..support.conversations.keyed import Rekeyer, inputs
from ..support.conversations.log_records import by_trace
from ..support.conversations.recordings import FOLDER, names
from ..support.conversations.recordings import requests_of as requests_of_recording
from ..support.conversations.rekeyed_loads import LAST, flat_load, load, trees
from ..support.conversations.span_plan import Dialect

SOURCES, PARTITIONS = 2, 3
BYTES_MAX = 1 << 20
LATENESS = SessionSettings(lateness_s=5, hold_s=60, idle_s=300)
SETTINGS = {
    "usual": LATENESS,
    "without lateness": replace(LATENESS, lateness_s=0),
    "short hold": replace(LATENESS, hold_s=3, idle_s=20),
    "prefixes": replace(LATENESS, scope=("service.name", "deployment")),
}
RATES = {"plain": 0.0, "some": 0.03, "many": 0.25}
SHARE = {"plain": 0.6, "some": 0.3, "many": 0.05}
"""The least share of candidates that are of plain traces, by the rate of what is unusual."""
FLAT_SHARE = {Dialect.OPENINFERENCE: 0.5, Dialect.OPENLLMETRY: 0.3}
"""The part of these shares in conventions with flattened messages."""
SEEDS = 4
PLAIN = {
    *("anthropic-openinference", "anthropic-openllmetry", "google-adk", "google-adk-events"),
    *("litellm-openinference", "openai-agents-openinference-responses", "openai-openinference"),
    *("openai-openinference-responses", "openai-opentelemetry", "openai-opentelemetry-default"),
    *("openai-opentelemetry-events", "pydantic-ai-5", "semantic-kernel", "vercel-ai-7"),
}
"""Recordings of which all requests are plain; `benchmarks/walk.py` names the others, with the reasons."""
DOUBLED = {"anthropic-openinference", "anthropic-openllmetry"}
"""Those of them with two spans for each call."""


class Pair:
    """A rekeyer of each path, with what is stored of each."""

    def __init__(self, settings: SessionSettings, bytes_max: int) -> None:
        self._settings, self._bytes_max = settings, bytes_max
        self.rekeyers = [self._rekeyer() for _ in range(2)]
        self.stored: list[dict[str, bytes]] = [{} for _ in range(SOURCES)]
        self.assign()
        self.counts: Counter[str] = Counter()

    def assign(self) -> None:
        """Begin again from what is stored."""
        self.rekeyers = [self._rekeyer() for _ in range(2)]
        for each in self.rekeyers:
            for source in range(SOURCES):
                each.assign(source, self.stored[source])

    def _rekeyer(self) -> Rekeyer:
        return Rekeyer(self._settings, self._bytes_max, SOURCES, PARTITIONS)

    def take(self, records: list[Record]) -> None:
        """Take records on both paths."""
        requests = requests_of(records, self._settings.scope)
        compiled, usual = self.rekeyers
        self.counts["requests"] += len(requests)
        self.counts["plain requests"] += sum(isinstance(each.content, PlainRequest) for each in requests)
        self._compare(compiled.step(requests), usual.step([ordinary(request) for request in requests]))

    def tick(self, sources: list[int], now: int) -> None:
        """Send a tick of both."""
        quiet = inputs(sources)
        compiled, usual = (each.tick(quiet, now) for each in self.rekeyers)
        self._compare(compiled, usual)

    def _compare(self, compiled: EncodedRekeyResult, usual: EncodedRekeyResult) -> None:
        """Compare what both send, store and count, apply it, and compare what they remember."""
        for output, expected in zip(compiled.outputs, usual.outputs, strict=False):
            assert output == expected
        assert len(compiled.outputs) == len(usual.outputs)
        self.counts["plain"] += compiled.metrics.plain
        self.counts["candidates"] += compiled.metrics.candidates
        assert replace(compiled.metrics, plain=0, plain_requests=[]) == usual.metrics
        for each, result in zip(self.rekeyers, (compiled, usual), strict=True):
            each.apply(result.writes)
        for output in usual.outputs:
            if output.topic is Topic.REKEY_STATE:
                stored = self.stored[output.partition or 0]
                if output.value is None:
                    del stored[output.key or ""]
                else:
                    stored[output.key or ""] = output.value
        remembered, known = [[each.assigned[number] for number in range(SOURCES)] for each in self.rekeyers]
        for source, expected in zip(remembered, known, strict=True):
            assert (source.state.times, source.stored) == (expected.state.times, expected.stored)
            assert source.state.waiting == expected.state.waiting
            assert source.state.waiting_records == expected.state.waiting_records
            traces, usual_traces = source.state.traces, expected.state.traces
            assert [*traces.traces] == [*usual_traces.traces]
            assert (traces.waiting, traces.chars) == (usual_traces.waiting, usual_traces.chars)
            for name, trace in traces.traces.items():
                assert trace.touched == usual_traces.traces[name].touched
                assert trace.is_waiting == usual_traces.traces[name].is_waiting
                self.counts["remembered as bytes"] += isinstance(trace, PlainTrace)
                self.counts["by coarse clocks"] += isinstance(trace, PlainTrace) and is_coarse(trace)

    def check_remembered(self) -> None:
        """Compare every trace that both remember."""
        for number in range(SOURCES):
            compiled, usual = (each.assigned[number].state.traces.traces for each in self.rekeyers)
            for name, trace in compiled.items():
                assert trace.opened() == usual[name].opened()


def is_coarse(trace: PlainTrace) -> bool:
    """Return whether a span of a trace was timed by JavaScript's clock."""
    return any(span.coarse for spans in trace.opened().trace.spans.values() for span in spans)


def run(pair: Pair, records: list[Record], random: Random, restarts: float) -> None:
    """Take the records in polls of random sizes, with restarts and ticks between them."""
    at = 0
    while at < len(records):
        size = random.choice((1, 2, 5, 20, 60))
        pair.take(records[at : at + size])
        at += size
        if random.random() < 0.2:
            pair.check_remembered()
        if random.random() < restarts:
            pair.assign()
        if random.random() < 0.1 and at < len(records):
            pair.tick([], records[at].time)
    pair.tick([*range(SOURCES)], LAST)
    pair.check_remembered()


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("rate", RATES)
def test_both_paths_send_and_store_the_same(rate: str, settings: str) -> None:
    """With late, changed, doubled and damaged spans, log records, ticks, and restarts between polls."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        pair = Pair(SETTINGS[settings], BYTES_MAX)
        random = Random(f"{rate} {settings} {seed}")
        run(pair, load(seed, RATES[rate]), random, restarts=0.03 * (seed % 2))
        counts += pair.counts
    share, requests = counts["plain"] / counts["candidates"], counts["plain requests"] / counts["requests"]
    print(f"{rate}, {settings}: {share:.1%} of {counts['candidates']} candidates, {requests:.1%} of requests")
    assert share > SHARE[rate], "the compiled path is hardly taken"
    assert counts["remembered as bytes"]
    assert counts["by coarse clocks"]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("dialect", FLAT_SHARE)
def test_both_paths_send_and_store_the_same_of_flattened_messages(dialect: Dialect, rate: str) -> None:
    """In conventions with flattened messages, with any of their attributes changed."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        pair = Pair(LATENESS, BYTES_MAX)
        run(pair, flat_load(seed, RATES[rate], dialect), Random(f"{rate} {seed}"), restarts=0.03 * (seed % 2))
        counts += pair.counts
    share = counts["plain"] / counts["candidates"]
    print(f"{dialect}, {rate}: {share:.1%} of {counts['candidates']} candidates")
    assert share > FLAT_SHARE[dialect] * SHARE[rate], "the compiled path is hardly taken"


@pytest.mark.parametrize("lateness_s", [0, 60])
def test_random_trees(lateness_s: float) -> None:
    """Spans of any role are around one another, with any names, keys, halves and answers."""
    counts: Counter[str] = Counter()
    for seed in range(6):
        pair = Pair(replace(LATENESS, lateness_s=lateness_s), BYTES_MAX)
        run(pair, trees(seed, 0.01), Random(f"trees {seed}"), restarts=0.03)
        counts += pair.counts
    print(f"trees: {counts['plain'] / counts['candidates']:.1%} of {counts['candidates']} candidates")
    assert counts["plain"] > counts["candidates"] / 20
    assert counts["by coarse clocks"]


def test_recordings() -> None:
    """Frameworks send the same on both paths, cut by trace; the requests of some are all plain."""
    plain: set[str] = set()
    for name in names():
        bodies = requests_of_recording(FOLDER / name / "otlp" / "requests.pb.zst")
        parts = [part for body in bodies for _, _, part in by_trace(Topic.SPANS, body)]
        last = max(max(span.start, span.end) for part in parts for span in decode_protobuf(part).spans)
        pair = Pair(LATENESS, BYTES_MAX)
        for offset, part in enumerate(parts):
            pair.take([Record(0, offset, last, part)])
        pair.tick([0, 1], last + 600 * NS)
        pair.check_remembered()
        if pair.counts["plain requests"] == pair.counts["requests"]:
            # Two spans report each call of some, with one answer: the ordinary path finds out which.
            assert pair.counts["plain"] or name in DOUBLED
            plain.add(name)
    assert plain == PLAIN


@pytest.mark.parametrize("seed", range(6))
def test_where_little_room_is_left(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many characters wait, few traces are remembered, or messages are small."""
    random = Random(f"room {seed}")
    monkeypatch.setattr(pending, "WAITING_CHARS_MAX", 600_000)
    monkeypatch.setattr(pending, "WAITING_CHARS_LEFT", 200_000)
    monkeypatch.setattr(pending, "TRACES_MAX", 20)
    pair = Pair(LATENESS, 30_000)
    run(pair, load(seed, 0.05), random, restarts=0.05)
    assert pair.counts["plain"]
    assert pair.counts["remembered as bytes"]
