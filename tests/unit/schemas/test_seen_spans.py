"""Spans that are remembered at once, as a session's short pass does, and one by one."""

from __future__ import annotations

from random import Random

import pytest
from tracline.schemas.sessions.memory import seen
from tracline.schemas.sessions.memory.seen import SeenClaims


def test_spans_are_remembered_at_once_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the limit of each, also with entries in pages; what they cover counts once."""
    random, full = Random(1), 0
    for most in [*range(9), 100] * 40:
        monkeypatch.setattr(seen, "REMEMBERED_MAX", most)
        at_once, single = SeenClaims(), SeenClaims()
        for _ in range(4):
            spans = {
                f"{random.randrange(9)}": [
                    f"{random.choice(('agent', 'chat'))}.t.{random.randrange(4)}"
                    for _ in range(random.randrange(4))
                ]
                for _ in range(random.randrange(4))
            }
            at_once.add_spans(spans)
            for key, within in spans.items():
                single.add_span(key, within)
            if random.random() < 0.2:
                for each in (at_once, single):
                    each.page([each.recent, *each.older])
            assert at_once == single
            assert at_once.covers_calls == single.covers_calls
        full += single.counts.within == most
    assert full > 40
