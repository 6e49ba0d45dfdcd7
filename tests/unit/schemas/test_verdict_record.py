"""Verdict records: their JSON is canonical, and lines of early releases are read."""

from __future__ import annotations

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from tracline.schemas.event import Content
from tracline.schemas.instrumentations.missing import Missing
from tracline.schemas.records.verdict_record import (
    VerdictRecord,
    Witness,
    WitnessEvent,
    WitnessHistory,
    decode_verdict,
    encode_verdict,
)
from tracline.schemas.verdict import Severity, Verdict

texts = st.text(st.characters(exclude_categories=["Cs"]))
seqs = st.integers(1, 2**32 - 1)
witnesses = st.builds(
    Witness,
    events=st.lists(
        st.builds(
            WitnessEvent,
            event_id=texts,
            residual=texts,
            seq=seqs,
            true=st.lists(texts, max_size=2).map(tuple),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    history=st.lists(
        st.builds(WitnessHistory, st.none() | texts, texts, st.none() | seqs, st.booleans()), max_size=2
    ).map(tuple),
    truncated=st.booleans(),
)
missing = st.builds(Missing, st.sampled_from(Content), texts, st.none() | texts)
records = st.builds(
    VerdictRecord,
    agent=st.none() | texts,
    event_id=texts,
    history=st.booleans(),
    id=texts,
    late=st.booleans(),
    missing=missing,
    occurrence=texts,
    pack=texts,
    reason=st.none() | texts,
    rule=texts,
    rule_digest=texts,
    seq=seqs,
    session_id=texts,
    severity=st.sampled_from(Severity),
    slice=st.none() | texts,
    time=texts,
    verdict=st.sampled_from(Verdict),
    witness=st.none() | witnesses,
)


@pytest.mark.slow
@given(records)
def test_the_json_of_a_record_is_canonical(record: VerdictRecord) -> None:
    """The bytes are those that RFC 8785 prescribes, and they decode to the same record."""
    data = encode_verdict(record)
    assert data == rfc8785.dumps(json.loads(data))
    assert decode_verdict(data) == record


def test_only_an_unjudged_record_has_missing_content() -> None:
    """The field is left out elsewhere, as in lines of early releases; null states that nothing is known."""
    line = b'{"agent":null,"event_id":"e","history":false,"id":"i","late":false,"occurrence":"o","pack":"p",'
    line += b'"reason":null,"rule":"r","rule_digest":"d","seq":1,"session_id":"s","severity":"low",'
    line += b'"slice":null,"time":"t","verdict":"violated","witness":null}'
    record = decode_verdict(line)
    assert encode_verdict(record) == line
    assert record.why is None
    unjudged = decode_verdict(line.replace(b'"occurrence"', b'"missing":null,"occurrence"'))
    assert b'"missing":null' in encode_verdict(unjudged)


def test_an_unmet_verdict_is_owed_since_the_first_event_of_its_witness() -> None:
    """The words name the first event of the pending obligation, not the last event of the session."""
    events = tuple(WitnessEvent(f"e{seq}", "eventually reply", seq, ("request",)) for seq in (38, 41))
    record = VerdictRecord(
        agent=None, event_id="e41", history=False, id="i", late=False, occurrence="o", pack="p", rule="r",
        rule_digest="d", seq=41, session_id="s", severity=Severity.LOW, slice=None, time="t",
        verdict=Verdict.UNMET, witness=Witness(events, (), truncated=False),
    )  # fmt: skip
    assert (record.owed_since, record.described) == (38, "unmet, owed since step 38")
