"""Verdicts put in order by way of the disk."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tracline.batch.evidence import sorted_lines
from tracline.batch.evidence.sorted_lines import SortedLines
from tracline.rules.engine.records import RecordKey, record_line
from tracline.schemas.records.verdict_record import VerdictRecord, encode_verdict
from tracline.schemas.verdict import Severity, Verdict


def record(session: str, seq: int, value: str | None) -> VerdictRecord:
    """The fields of a record that decide its place, and a payload."""
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


@pytest.mark.parametrize(("lines_max", "bytes_max"), [(7, 1 << 20), (1_000, 500), (1_000, 1 << 20)])
def test_what_is_added_in_any_order_is_read_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines_max: int, bytes_max: int
) -> None:
    """By session, event and slice, null first, however many runs there are and however often they merge."""
    monkeypatch.setattr(sorted_lines, "RUN_LINES", lines_max)
    monkeypatch.setattr(sorted_lines, "RUN_BYTES", bytes_max)
    monkeypatch.setattr(sorted_lines, "RUNS_OPEN_MAX", 3)
    monkeypatch.setattr(sorted_lines, "BLOCK_LINES", 4)
    wanted = [
        record(session, seq, value)
        for session in ("a", "b", "é", "😀")
        for seq in range(1, 11)
        for value in (None, "", "x")
    ]
    mixed = wanted.copy()
    Random(5).shuffle(mixed)
    held = SortedLines(tmp_path, RecordKey)
    for item in mixed:
        held.add(*record_line(item))
    assert [text for _, text in held.merged()] == [encode_verdict(item) + b"\n" for item in wanted]
    assert (len(list(tmp_path.iterdir())) > 0) == (lines_max == 7 or bytes_max == 500)
