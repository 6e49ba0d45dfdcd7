"""Serve stores the same rows whether compiled loops or the dialects read its requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.plain_traces.trace import PlainTrace
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding, ExportRequest, decode
from tracline.stream.serve.changes import StoreChanges
from tracline.stream.serve.doctor import Doctor

from ..support.conversations.days import day
from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Dialect, Keys, Manner
from ..support.processes.live import SETTINGS, Live, Sent, schedule, wire
from ..support.truth.conversations import PlayedSession, answered_once, paced, true_ids

TABLES = ("session", "page", "trace", "trace_change", "event", "verdict", "standing", "dead_letter", "scope")
MANNERS = (
    Manner(),
    Manner(keys=Keys.EVERYWHERE, agent_messages=True),
    Manner(one_trace=True, keys=Keys.FIRST_CALLS),
    Manner(captured=False),
    Manner(wrapped=0.6, wrapper=Dialect.GENAI, end_mark=True),
    Manner(retried=0.3, doubled=0.2),
)


class Pair:
    """A pipeline that takes requests as receivers read them, and one that takes them decoded."""

    def __init__(self, folder: Path, pack: Path) -> None:
        compiled = compile_rule_set(load_packs([pack]))
        settings = replace(SETTINGS, lateness_s=70)
        self.lives = [Live(folder / name, compiled, settings) for name in ("plain", "decoded")]
        self.doctors = [Doctor() for _ in self.lives]
        self.counts: Counter[str] = Counter()

    def take(self, sent: Sequence[Sent]) -> None:
        """Take requests in one round of both, and compare what they store then."""
        for live, doctor in zip(self.lives, self.doctors, strict=True):
            live.now = max(live.now, sent[-1].time)
            requests = [message.request for message in sent]
            if live is self.lives[1]:
                requests = [replace(request, content=decoded(request)) for request in requests]
            before = len(live.batches)
            asyncio.run(live.take(requests))
            for batch in live.batches[before:]:
                doctor.add_spans(batch.spans, batch.plain_requests)
                doctor.add_events(batch.outputs.events, log_records=batch.log_records)
        self.compare()

    def compare(self) -> None:
        """Compare what both have stored and counted, and count how much of it is of plain traces."""
        plain, usual = self.lives
        for table in TABLES:
            rows, expected = (
                live.store._db.execute(f"SELECT * FROM {table}").fetchall() for live in self.lives
            )
            assert rows == expected, table
        assert counted(plain.batches) == counted(usual.batches)
        assert not any(batch.plain_requests for batch in usual.batches)
        found, expected = (doctor.diagnosed() for doctor in self.doctors)
        assert found == expected
        traces, usual_traces = (live.pipeline._source.traces.traces for live in self.lives)
        assert [*traces] == [*usual_traces]
        assert all(trace.opened() == usual_traces[name].opened() for name, trace in traces.items())
        waiting = [trace for trace in traces.values() if trace.is_waiting]
        runs = [run for trace in waiting if isinstance(trace, PlainTrace) for run in trace.runs]
        self.counts["waiting spans"] += sum(trace.waiting_count for trace in waiting)
        self.counts["waiting as bytes"] += sum(len(run.readings) for run in runs)
        self.counts["cut"] += sum(run.resource_begin != run.begin for run in runs)

    def finish(self) -> None:
        """Let every session close, and compare."""
        for live in self.lives:
            live.finish()
        self.compare()

    @property
    def share(self) -> float:
        """Return the share of spans in plain requests."""
        batches = self.lives[0].batches
        plain = sum(request.size for batch in batches for request in batch.plain_requests)
        return plain / (plain + sum(len(batch.spans) for batch in batches))


def decoded(request: ExportRequest) -> object:
    """Return the content of a request as the decoder reads it."""
    return decode(request.body, request.encoding, request.signal)


def counted(batches: Iterable[StoreChanges]) -> list[tuple[object, ...]]:
    """Return what metrics have of batches."""
    return [
        (batch.census, batch.spans_waiting, batch.spans_early, batch.records_waiting, batch.times)
        for batch in batches
    ]


def together(sent: Iterable[Sent], random: Random) -> Iterator[list[Sent]]:
    """Yield requests by round."""
    left = list(sent)
    while left:
        size = random.choice((1, 1, 2, 5))
        yield left[:size]
        left = left[size:]


def protobuf(sent: Iterable[Sent]) -> list[Sent]:
    """Return the same requests in protobuf."""
    return [Sent(each.time, wire(each.spans, Encoding.PROTOBUF), Encoding.PROTOBUF) for each in sent]


def compare(pair: Pair, sent: Iterable[Sent], random: Random, restarts: float) -> None:
    """Let both pipelines of a pair take requests, with restarts between them."""
    with closing(pair.lives[0]), closing(pair.lives[1]):
        for batch in together(sent, random):
            pair.take(batch)
            if random.random() < restarts:
                for live in pair.lives:
                    live.restart()
        pair.finish()


@pytest.mark.parametrize("restarts", [0, 0.1])
def test_both_store_the_same(tmp_path: Path, pack: Path, restarts: float) -> None:
    """Requests have spans of several traces, which wait over many rounds; some come twice."""
    played = [
        PlayedSession(paced(answered_once(random_session(seed)), START_NS + 9 * seed * NS, 6), manner)
        for seed, manner in enumerate(MANNERS * 2)
    ]
    random = Random(f"plain requests {restarts}")
    pair = Pair(tmp_path, pack)
    compare(pair, protobuf(schedule(played, random, most=60)), random, restarts)
    print(f"{pair.share:.1%} of spans in plain requests, {dict(pair.counts)}")
    assert pair.lives[0].records.keys() == true_ids(played, pack).keys() != set()
    assert pair.share > 0.9, "the compiled path is hardly taken"
    assert pair.counts["waiting as bytes"] > pair.counts["waiting spans"] / (8 if restarts else 4)
    assert pair.counts["cut"]


@pytest.mark.parametrize("seed", range(3))
def test_a_day_in_any_dialect(tmp_path: Path, pack: Path, seed: int) -> None:
    """Some requests are plain, others are in JSON or have spans that only the dialects read."""
    random = Random(f"plain day {seed}")
    played = [
        PlayedSession(each.session, replace(each.manner, dialect=Dialect.GENAI, structured=False))
        if random.random() < 0.8
        else each
        for each in day(seed)
    ]
    sent = schedule(played, random, most=8)
    sent = [message if random.random() < 0.1 else protobuf([message])[0] for message in sent]
    pair = Pair(tmp_path, pack)
    compare(pair, sent, random, 0.02)
    print(f"{pair.share:.1%} of spans in plain requests, {dict(pair.counts)}")
    assert 0.02 < pair.share < 0.98
