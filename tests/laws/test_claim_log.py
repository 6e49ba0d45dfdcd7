"""No claim of a span vanishes: each is an event, or is dropped with a reason."""

from __future__ import annotations

import json
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
from tracline.schemas.event import Kind
from tracline.schemas.frames.candidates import candidate_frame
from tracline.schemas.sessions.claim_log import ClaimLog, DropReason
from tracline.schemas.sessions.claims import claims_of
from tracline.schemas.sessions.order import session_order
from tracline.schemas.sessions.resolve import candidate_of, omitted_claims
from tracline.schemas.sessions.span_reading import SpanReading, read_span
from tracline.schemas.sessions.trace import Trace

from ..support.agent_spans import spans
from ..support.span_plan import Dialect
from .test_arrival import SPANS
from .test_dialects import MANNERS, RANDOM, SUPPORT

RECORDINGS = sorted(Path(__file__).parents[1].glob("frameworks/recordings/*/otlp"))
Said = Counter[tuple[str, str]]
"""How many readings there are, by span id and kind."""
Place = tuple[str, str, int, str]
"""An event's session, occurrence, place and id."""


def all_readings(heard: Iterable[SpanReading]) -> Said:
    """Return the claims of spans, each span alone. An end mark is no message and no use of a tool."""
    said = ((one.span_id, telling.kind) for one in heard for telling in claims_of(one.content, 1, 2)[0])
    return Counter((span, kind.value) for span, kind in said if kind is not Kind.END)


def accounted(heard: Sequence[SpanReading]) -> Said:
    """Return what is reported of the spans, session by session: their events, and what was dropped."""
    traces: dict[str, Trace] = {}
    for one in heard:
        traces.setdefault(one.trace_id, Trace()).add(one)
    found: list[tuple[Candidate, tuple]] = []
    for trace in traces.values():
        inside = trace.coverage()
        for one in trace.all():
            candidate = candidate_of(trace, one, inside)
            assert isinstance(candidate, Candidate)
            found.append((candidate, omitted_claims(trace, one, inside)))
    frame = candidate_frame([candidate for candidate, _ in found])
    said: Said = Counter()
    for name in {candidate.session_id for candidate, _ in found}:
        claim_log = ClaimLog(name)
        for candidate, left in found:
            if candidate.session_id == name:
                claim_log.leave(DropReason.OTHER_SPAN, candidate.span_key, candidate, left)
        rows = session_order(frame, 3600, claim_log=claim_log).events.filter(session_id=name)
        events = rows.filter(pl.col("kind") != Kind.END.value)
        said.update(events.select("span_id", "kind").rows())
        dropped = [one for one in claim_log.dropped() if one.claim.kind is not Kind.END]
        said.update((one.candidate.span_id, one.claim.kind.value) for one in dropped)
        assert {one.of for one in dropped} - {None} <= set(rows["event_id"])
        for event_id, told in claim_log.spans().items():
            first = rows.filter(event_id=event_id)
            assert first["kind"][0] == Kind.END or first["span_id"][0] == told[0]
            assert len(told) == len(set(told))
    return said


@given(st.lists(SPANS, min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_odd_traces_lose_no_reading(heard: list[SpanReading]) -> None:
    """Spans of one id, copies, circles, hidden halves: as many readings as the spans have, kind by kind."""
    assert accounted(heard) == all_readings(heard)


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS)
def test_conversations_lose_no_reading(manner: str) -> None:
    """In each manner of instrumentation, with wrappers, retries and doubled spans."""
    for seed, told in enumerate((*SUPPORT, *RANDOM)):
        how = replace(MANNERS[manner], dialect=list(Dialect)[seed % len(Dialect)], seed=seed)
        if len(list(turn_bounds(told.lines))) <= how.skip_turns:
            continue
        heard = [read_span(span) for span in spans(told, how)]
        assert accounted(heard) == all_readings(heard)


@pytest.mark.slow
@pytest.mark.parametrize("source", RECORDINGS, ids=lambda source: source.parent.name)
def test_recordings_lose_no_reading_and_are_shown_as_judged(source: Path, tmp_path: Path) -> None:
    """What real frameworks sent: events and dropped readings are all of it; the events are an audit's."""
    said: Said = Counter()
    events: list[Place] = []
    (tmp_path / "all").mkdir()
    names = dict.fromkeys(line.session_id for line in sessions(source, tmp_path / "all", Population()))
    for name in names:
        (tmp_path / name).mkdir()
        view = session(source, name, tmp_path / name, Population(), repeats=True)
        said.update((row["span_id"], row["kind"]) for row in (*view.events, *view.dropped))
        attributes = {event["event_id"]: event["spans"] for event in view.events}
        assert all(row["of"] is None or row["span_id"] in attributes[row["of"]] for row in view.dropped)
        assert all(event["spans"][0] == event["span_id"] for event in view.events)
        events += map(place, view.events)
    assert said == all_readings(heard_in(source))
    assert events == judged(source, tmp_path)


def heard_in(source: Path) -> Iterator[SpanReading]:
    """Every span of the dumps of a source."""
    for part in discover(source, Population()):
        for _, decoded in requests(part.path):
            yield from map(read_span, decoded.spans)


def judged(source: Path, folder: Path) -> list[Place]:
    """Every event that an audit judges, in its order, by a rule that every event breaks."""
    rules = pack_text("{pack: every, version: 1, rules: [{id: event, formula: always false}]}")
    audit(source, rules, folder / "bundle", AuditOptions())
    lines = (folder / "bundle" / "verdicts.jsonl").read_text().splitlines()
    return [place(json.loads(line)) for line in lines]


def place(event: Mapping[str, Any]) -> Place:
    """Which event it is, and where it stands."""
    return event["session_id"], event["occurrence"], event["seq"], event["event_id"]
