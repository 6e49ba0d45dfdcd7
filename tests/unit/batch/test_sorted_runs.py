"""Verdicts put in order by way of the disk."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tracline.batch.audit import sorted_runs as runs
from tracline.batch.audit.sorted_runs import Runs
from tracline.schemas.records.verdict_record import VerdictRecord, encode_verdict
from tracline.schemas.verdict import Severity, Verdict


def record(session: str, seq: int, value: str | None) -> VerdictRecord:
    """As much of a record as says where it stands, and something to write."""
    return VerdictRecord(
        agent=None,
        event_id=f"{session}-{seq}",
        history=False,
        id="",
        late=False,
        occurrence="2026-01-01T00:00:00.000000000Z",
        pack="p",
        reason=f'"{session}"\n',
        rule="r",
        rule_digest="",
        seq=seq,
        session_id=session,
        severity=Severity.LOW,
        slice=value,
        time="2026-01-01T00:00:00.000000000Z",
        verdict=Verdict.VIOLATED,
    )


@pytest.mark.parametrize(("records_max", "bytes_max"), [(7, 1 << 20), (1_000, 500), (1_000, 1 << 20)])
def test_what_is_added_in_any_order_is_told_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records_max: int, bytes_max: int
) -> None:
    """By session, event and slice, null first, however many runs there are and however often they merge."""
    monkeypatch.setattr(runs, "RUN_RECORDS", records_max)
    monkeypatch.setattr(runs, "RUN_BYTES", bytes_max)
    monkeypatch.setattr(runs, "RUNS_OPEN_MAX", 3)
    wanted = [
        record(session, seq, value)
        for session in ("a", "b", "é", "😀")
        for seq in range(1, 11)
        for value in (None, "", "x")
    ]
    mixed = wanted.copy()
    Random(5).shuffle(mixed)
    held = Runs(tmp_path)
    for one in mixed:
        held.add(one)
    assert [text for _, text in held.merged()] == [encode_verdict(one) + b"\n" for one in wanted]
    assert (len(list(tmp_path.iterdir())) > 0) == (records_max == 7 or bytes_max == 500)
