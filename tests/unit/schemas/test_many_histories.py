"""Calls with a history, as many as wait where a partition without records has held the time back."""

from __future__ import annotations

from tracline.schemas.candidate import CallHistory, Candidate, Claim
from tracline.schemas.event import Kind
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS


def test_any_number_of_calls_with_a_history_is_assembled_at_once() -> None:
    """Each call begins an occurrence here, so that its history counts."""
    count = 1_200
    at_once = SessionAssembler("s", 60 * NS)
    for number in range(count):
        time = 1_000 * number * NS
        past = tuple(
            Claim(Kind.USER, 0, text=text, place=place, key=f"{number}.{place}", past=True)
            for place, text in enumerate(("Hi", "Well?"))
        )
        spoken = Claim(Kind.ASSISTANT, time, text="Yes", place=2, key=f"{number}.2")
        at_once.add(
            Candidate(
                "s", SpanRole.CHAT, time, time, (spoken,), "t", f"{number}", history=CallHistory(past, 7)
            )
        )
    kinds = [event.kind for event in at_once.advance(1_000 * count * NS)]
    assert kinds == [Kind.USER, Kind.USER, Kind.ASSISTANT, Kind.END] * count
