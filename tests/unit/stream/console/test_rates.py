"""Rates by rule, agent and hour, and their charts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracline.schemas.time import NS
from tracline.stream.console import queries
from tracline.stream.console.chart import RATE_TOP_MIN, chart
from tracline.stream.console.rates import HOUR, SessionCounts, Share, series, window_to

from ..console_store import INSERT_STATUS, START, fill, session, user, writing
from .asking import DESK, app, get, plain

pytestmark = pytest.mark.slow

STATUSES = [
    ("s1", 0, "desk", "calm", "ann", START, None, None, None),
    ("s2", 0, "desk", "calm", "ann", START, START + NS, None, None),
    ("s3", 0, "desk", "calm", "bob", START - HOUR, None, START, None),
    ("s4", 0, "desk", "calm", "bob", START - HOUR, START, START, None),
    ("s5", 0, "desk", "calm", None, None, START, None, None),
    ("s6", 0, "desk", "calm", "ann", None, None, START, None),
    ("s7", 0, "desk", "calm", "ann", START - 30 * HOUR, START, None, None),
    ("s8", 0, "desk", "answered", "ann", START, None, None, START),
]


def test_rates_count_applicable_judged_sessions(store: Path) -> None:
    """Violating sessions count as applicable, unjudged ones that do not violate apart, others not at all."""
    fill(store, DESK, [session("s", user("hi"))])
    with writing(store) as db:
        db.execute("DELETE FROM standing")
        db.executemany(INSERT_STATUS, STATUSES)
    window = window_to(START, 24)
    with queries.reading(store) as db:
        found = queries.session_counts(db, window.since, window.until, HOUR, ("desk", "calm"))
    assert sorted(found, key=lambda tally: (tally.agent, tally.bucket)) == [
        SessionCounts("desk", "calm", "", 23, 1, 1, 0),
        SessionCounts("desk", "calm", "ann", 23, 2, 1, 0),
        SessionCounts("desk", "calm", "bob", 22, 1, 1, 1),
    ]
    text = plain(get(app(store), "/rules/desk/calm").text)
    assert (
        "75.0%: 3 of 4 sessions in the 24 hours up to 2026-02-17 13:00:00; 1 more could not be judged" in text
    )
    assert "2026-02-17 12:00:00 2 3 66.7% 0" in text
    overview = plain(get(app(store), "/?agent=bob").text)
    assert "calm desk Nobody shouts high 1 1 100.0% 1" in overview


def test_bars_stand_in_their_box() -> None:
    """A bar's height is the hour's rate by that of the top, which is never less than a tenth."""
    window = window_to(START, 24)
    drawn = chart(
        series(
            [SessionCounts("p", "r", "a", 3, 40, 1, 0), SessionCounts("p", "r", "a", 5, 10, 0, 0)], window
        ),
        240,
        50,
    )
    assert drawn.top == RATE_TOP_MIN
    rate, none = drawn.bars
    assert (rate.x, rate.height, none.height) == (30.0, round(drawn.middle / 4, 2), 0.0)
    assert rate.base == 4 * none.base == drawn.height - drawn.middle - 1
    assert (
        drawn.words
        == "2.0%, 1 of 50 sessions, in 24 hours; highest 2.5%, 1 of 40 sessions, from 2026-02-16 16:00 UTC"
    )


def test_shares_add_up() -> None:
    """The sum of shares divides sums; nothing divides by nothing."""
    total = Share(1, 4, 0) + Share(0, 4, 2)
    assert (total.rate, total.unjudged) == (0.125, 2)
    assert Share(0, 0, 3).rate is None
