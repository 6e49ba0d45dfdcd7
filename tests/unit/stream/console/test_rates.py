"""Rates by rule, agent and hour, and their charts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracline.schemas.time import NS
from tracline.stream.console import queries
from tracline.stream.console.chart import RATE_TOP_MIN, chart
from tracline.stream.console.rates import HOUR, SessionCounts, series, window_to

from ....support.console_store import INSERT_STATUS, START, fill, session, user, writing
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


def test_rates_count_every_session_of_a_rule_once(store: Path) -> None:
    """Violating sessions count as applicable; unjudged ones that do not violate make the rate bounds."""
    fill(store, DESK, [session("s", user("hi"))])
    with writing(store) as db:
        db.execute("DELETE FROM standing")
        db.executemany(INSERT_STATUS, STATUSES)
    window = window_to(START, 24)
    with queries.reading(store) as db:
        found = queries.session_counts(db, window.since, window.until, HOUR, ("desk", "calm"))
    assert sorted(found, key=lambda tally: (tally.agent, tally.bucket)) == [
        SessionCounts("desk", "calm", "", 23, 1, 1, 0),
        SessionCounts("desk", "calm", "ann", 23, 2, 1, 1),
        SessionCounts("desk", "calm", "bob", 22, 1, 1, 1),
    ]
    text = plain(get(app(store), "/rules/desk/calm").text)
    rate = "50.0% to 83.3%: 3 of 6 sessions in the 24 hours up to 2026-02-17 13:00:00"
    assert f"{rate}; 2 were not judged to the end." in text
    assert "2026-02-17 12:00:00 2 4 50.0% to 75.0% 1" in text
    overview = plain(get(app(store), "/?agent=bob").text)
    assert "calm desk Nobody shouts high 1 2 50.0% to 100.0% 1" in overview


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
