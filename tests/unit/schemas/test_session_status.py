"""Tests of session statuses and dead letters: their JSON."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tracline.schemas.records.dead_letter import DeadLetter, decode_dead_letter, encode_dead_letter
from tracline.schemas.records.session_status import (
    SessionStatus,
    StatusChange,
    decode_status,
    encode_status,
)
from tracline.schemas.time import NS, rfc3339

CHANGE = StatusChange(
    SessionStatus.VIOLATED, "s\u20281", 0, "desk", "confirm", "0" * 64, "high", None, 7 * NS
)
CLOSED = StatusChange(SessionStatus.CLOSED, "s1", 0, None, None, None, None, "bot", 7 * NS)
JSON = {
    "status": "violated", "session_id": "s\u20281", "occurrence": rfc3339(0), "pack": "desk",
    "rule": "confirm", "rule_digest": "0" * 64, "severity": "high", "agent": None, "time": rfc3339(7 * NS),
}  # fmt: skip
LETTER = DeadLetter("rekey", "tracline.spans", 1, 2, -3, "span", "size", "too large", "f" * 64)


def test_a_status_is_json_with_times_as_text() -> None:
    """The fields stand in their documented order, and decoding returns the same change."""
    data = encode_status(CHANGE)
    assert list(json.loads(data).items()) == list(JSON.items())
    assert decode_status(data) == CHANGE
    assert decode_status(encode_status(CLOSED)) == CLOSED


@pytest.mark.parametrize(
    "wrong",
    [{"time": "soon"}, {"occurrence": 5}, {"status": "closed"}, {"pack": None}, {"status": "x"}, {"more": 1}],
)
def test_a_status_without_sense_is_refused(wrong: dict[str, object]) -> None:
    """A status has a time; a rule has a pack and an id, and a close has neither."""
    with pytest.raises(ValueError, match=r"status|time|pack|Expected|Invalid|unknown"):
        decode_status(json.dumps(JSON | wrong).encode())


@pytest.mark.parametrize(
    ("status", "previous", "is_certain", "counts"),
    [
        ("applied", None, True, ["sessions"]),
        ("applied", None, False, ["sessions", "uncertain"]),
        ("applied", "unjudged", False, []),
        ("violated", "unjudged", True, ["violating"]),
        ("violated", None, True, ["sessions", "violating"]),
        ("unjudged", "violated", True, []),
        ("unjudged", "applied", True, ["possible"]),
        ("unjudged", None, True, ["sessions", "possible"]),
    ],
)
def test_a_session_is_counted_once(
    status: str, previous: str | None, is_certain: bool, counts: list[str]
) -> None:
    """The counts of a change depend on the status that it changes."""
    before = None if previous is None else SessionStatus(previous)
    change = replace(CHANGE, status=SessionStatus(status), previous=before, is_certain=is_certain)
    assert list(change.counts) == counts


def test_a_dead_letter_is_json_with_its_version() -> None:
    """The version comes first; decoding returns the same dead letter."""
    data = encode_dead_letter(LETTER)
    assert list(json.loads(data))[:2] == ["version", "process"]
    assert decode_dead_letter(data) == LETTER


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"x":' + b"[" * 100_000])
def test_other_json_is_no_dead_letter(data: bytes) -> None:
    """Records of others in the topic are refused, also deeply nested ones."""
    with pytest.raises((ValueError, RecursionError)):
        decode_dead_letter(data)
