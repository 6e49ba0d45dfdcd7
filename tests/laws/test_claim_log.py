"""No claim of a span vanishes: each is an event, or is dropped with a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population, discover
from tracline.batch.sources.span_files import requests
from tracline.batch.survey.sessions import session, sessions
from tracline.examples.desk.script import turn_bounds
from tracline.rules.packs.load import pack_text
from tracline.schemas.candidate import Candidate
from tracline.schemas.claims.span_claims import claims_of
from tracline.schemas.event import Kind
from tracline.schemas.frames.candidates import candidate_frame
from tracline.schemas.sessions.claim_log import ClaimLog, DropReason
from tracline.schemas.sessions.order import session_order
from tracline.schemas.sessions.resolve import candidate_of, omitted_claims
from tracline.schemas.sessions.span_reading import SpanReading, read_span
from tracline.schemas.sessions.trace import Trace

from ..support.conversations.agent_spans import spans
from ..support.conversations.span_plan import Dialect
from ..support.evidence.bundle_lines import bundle_lines
from .test_arrival import SPANS
from .test_dialects import MANNERS, RANDOM, SUPPORT

RECORDINGS = sorted(Path(__file__).parents[1].glob("frameworks/recordings/*/otlp"))
Readings = Counter[tuple[str, str]]
"""The number of readings, by span id and kind."""
Place = tuple[str, str, int, str]
"""An event's session, occurrence, place and id."""


def all_readings(readings: Iterable[SpanReading]) -> Readings:
    """Return the claims of spans, each span alone. An end mark is no message and no use of a tool."""
    claims = (
        (reading.span_id, claim.kind) for reading in readings for claim in claims_of(reading.content, 1, 2)[0]
    )
    return Counter((span, kind.value) for span, kind in claims if kind is not Kind.END)


def accounted(readings: Sequence[SpanReading]) -> Readings:
    """Return what is reported of the spans, session by session: their events, and what was dropped."""
    traces: dict[str, Trace] = {}
    for reading in readings:
        traces.setdefault(reading.trace_id, Trace()).add(reading)
    found: list[tuple[Candidate, tuple]] = []
    for trace in traces.values():
        inside = trace.coverage()
        for reading in trace.all():
            candidate = candidate_of(trace, reading, inside)
            assert isinstance(candidate, Candidate)
            found.append((candidate, omitted_claims(trace, reading, inside)))
    frame = candidate_frame([candidate for candidate, _ in found])
    accounted_readings: Readings = Counter()
    for name in {candidate.session_id for candidate, _ in found}:
        claim_log = ClaimLog(name)
        for candidate, left in found:
            if candidate.session_id == name:
                claim_log.leave(DropReason.OTHER_SPAN, candidate.span_key, candidate, left)
        rows = session_order(frame, 3600, claim_log=claim_log).events.filter(session_id=name)
        events = rows.filter(pl.col("kind") != Kind.END.value)
        accounted_readings.update(events.select("span_id", "kind").rows())
        dropped = [reading for reading in claim_log.dropped() if reading.claim.kind is not Kind.END]
        accounted_readings.update(
            (reading.candidate.span_id, reading.claim.kind.value) for reading in dropped
        )
        assert {reading.of for reading in dropped} - {None} <= set(rows["event_id"])
        for event_id, span_ids in claim_log.spans().items():
            first = rows.filter(event_id=event_id)
            assert first["kind"][0] == Kind.END or first["span_id"][0] == span_ids[0]
            assert len(span_ids) == len(set(span_ids))
    return accounted_readings


@given(st.lists(SPANS, min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_odd_traces_lose_no_reading(readings: list[SpanReading]) -> None:
    """Spans of one id, copies, circles, hidden halves: as many readings as the spans have, kind by kind."""
    assert accounted(readings) == all_readings(readings)


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS)
def test_conversations_lose_no_reading(manner: str) -> None:
    """In each manner of instrumentation, with wrappers, retries and doubled spans."""
    for seed, played in enumerate((*SUPPORT, *RANDOM)):
        how = replace(MANNERS[manner], dialect=list(Dialect)[seed % len(Dialect)], seed=seed)
        if len(list(turn_bounds(played.lines))) <= how.skip_turns:
            continue
        readings = [read_span(span) for span in spans(played, how)]
        assert accounted(readings) == all_readings(readings)


@pytest.mark.slow
@pytest.mark.parametrize("source", RECORDINGS, ids=lambda source: source.parent.name)
def test_recordings_lose_no_reading_and_are_shown_as_judged(source: Path, tmp_path: Path) -> None:
    """Events and dropped readings are all that real frameworks sent; the events are an audit's."""
    found: Readings = Counter()
    events: list[Place] = []
    (tmp_path / "all").mkdir()
    names = dict.fromkeys(line.session_id for line in sessions(source, tmp_path / "all", Population()))
    for name in names:
        (tmp_path / name).mkdir()
        view = session(source, name, tmp_path / name, Population(), repeats=True)
        found.update((row["span_id"], row["kind"]) for row in (*view.events, *view.dropped))
        attributes = {event["event_id"]: event["spans"] for event in view.events}
        assert all(row["of"] is None or row["span_id"] in attributes[row["of"]] for row in view.dropped)
        assert all(event["spans"][0] == event["span_id"] for event in view.events)
        events += map(place, view.events)
    assert found == all_readings(readings_in(source))
    assert events == judged(source, tmp_path)


def readings_in(source: Path) -> Iterator[SpanReading]:
    """Every span of the dumps of a source."""
    for part in discover(source, Population()):
        for _, decoded in requests(part.path):
            yield from map(read_span, decoded.spans)


def judged(source: Path, folder: Path) -> list[Place]:
    """Return every event that an audit judges, in its order, by a rule that every event breaks."""
    rules = pack_text("{pack: every, version: 1, rules: [{id: event, formula: always false}]}")
    audit(source, rules, folder / "bundle", AuditOptions())
    return list(map(place, bundle_lines(folder / "bundle")))


def place(event: Mapping[str, Any]) -> Place:
    """Return the event's id and its place."""
    return event["session_id"], event["occurrence"], event["seq"], event["event_id"]
