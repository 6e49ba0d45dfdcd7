"""Filters of the lists: what they leave, that links have them, and that nothing hostile passes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tracline.schemas.verdict import Severity
from tracline.stream.console import filters, queries
from tracline.stream.console.filters import Filters, filters_of, occurrences_with

from ....support.console_store import call, fill, result, session, shipped, user, writing
from .asking import DESK, app, get, links, plain

pytestmark = pytest.mark.slow

BROKEN = {"loud-one", "loud-two", "pays"}
ALL = BROKEN | {"quiet"}


def listed(store: Path, path: str, compiled=DESK, **asked: str) -> list[str]:
    """Return the sessions that a list shows, over all its pages, by following its links."""
    console, found = app(store, compiled), list[str]()
    at: str | None = f"{path}?{urlencode(asked)}"
    while at is not None:
        text = get(console, at).text
        rows = re.findall(r'class="id"><a href="/sessions/([^"?]*)', text)
        found += rows
        at = next((link for link in links(text) if "before=" in link), None)
        assert at is None or rows
    return found


@pytest.fixture
def shop(store: Path) -> Path:
    """Sessions of two agents that shout, one that pays twice, and a quiet one."""
    sessions = [
        session("loud-one", user("Give it BACK!"), agent="Ann"),
        session("loud-two", user("no!"), call("pay", args='{"order": "Zürich-7"}'), result(), agent="Bob"),
        session("pays", call("pay"), result(), call("pay", "c1"), result(result="denied by ÄGIS")),
        session("quiet", user("thank you"), agent="Ann"),
    ]
    return fill(store, DESK, sessions)


@pytest.mark.parametrize(
    ("asked", "verdicts", "sessions"),
    [
        ({}, BROKEN, ALL),
        ({"severity": "high"}, {"loud-one", "loud-two"}, {"loud-one", "loud-two"}),
        ({"rule": "desk/paid-once"}, {"pays"}, {"pays"}),
        ({"pack": "desk", "rule": "paid-once"}, {"pays"}, {"pays"}),
        ({"agent": "Ann"}, {"loud-one"}, {"loud-one", "quiet"}),
        ({"session": "loud"}, {"loud-one", "loud-two"}, {"loud-one", "loud-two"}),
        ({"text": "back!"}, {"loud-one"}, {"loud-one"}),
        ({"text": "zürich"}, {"loud-two"}, {"loud-two"}),
        ({"text": "ägis"}, {"pays"}, {"pays"}),
        ({"text": "100%_"}, set(), set()),
        ({"severity": "high", "agent": "Bob", "text": "NO"}, {"loud-two"}, {"loud-two"}),
        ({"severity": "", "rule": "", "agent": ""}, BROKEN, ALL),
        ({"verdict": "unmet"}, set(), set()),
        ({"severity": "nonsense"}, BROKEN, ALL),
    ],
)  # fmt: skip
def test_each_filter_leaves_what_it_names(
    shop: Path, asked: dict[str, str], verdicts: set[str], sessions: set[str]
) -> None:
    """Of verdicts and of sessions; several filters all hold; empty and unknown values filter nothing."""
    assert set(listed(shop, "/verdicts", **asked)) == verdicts
    assert set(listed(shop, "/sessions", **asked)) == sessions


def rows(db: sqlite3.Connection, asked: Filters) -> Iterator[str]:
    """Yield the verdicts that the filters leave, by a plain reading of all."""
    for row in queries.latest(db, 10_000):
        events = queries.events(db, row.session_id, row.occurrence, 10_000)
        texts = [part or "" for e in events for part in (e.text, e.tool, e.args, e.result, e.error)]
        if (
            (asked.severity in (None, row.severity))
            and asked.rule in (None, f"{row.pack}/{row.rule}")
            and asked.agent in (None, row.agent)
            and (asked.session or "") in row.session_id
            and (asked.text is None or any(asked.text.casefold() in text.casefold() for text in texts))
        ):
            yield row.id


def test_filters_leave_what_a_plain_reading_leaves(desk: Path) -> None:
    """All combinations of some values over a day of the desk; most leave something and not all."""
    with queries.reading(desk) as db:
        agents = [None, *filters.agents_of(db, 1_000)][:3]
        choices = product(
            [None, *Severity][:4],
            [None, "privacy/no-password", "customer-service/authenticate-first"],
            agents,
            [None, "1"],
            [None, "ORDER", "{"],
        )
        left: list[int] = []
        for severity, rule, agent, part, text in choices:
            asked = Filters(severity, None, rule, agent, part, text)
            found = None if text is None else occurrences_with(db, text)
            given = queries.latest(db, 10_000, where=filters.verdict_conditions(asked, found))
            assert [row.id for row in given] == list(rows(db, asked)), asked
            left.append(len(given))
    assert len([count for count in left if 0 < count < max(left)]) > 0


def test_pages_of_a_filtered_list_continue_it(desk: Path) -> None:
    """The link to older verdicts has the filters; nothing is listed twice or left out."""
    all_sessions = listed(desk, "/verdicts", shipped(), severity="critical")
    with queries.reading(desk) as db:
        critical = [row for row in queries.latest(db, 10_000) if row.severity is Severity.CRITICAL]
    assert all_sessions == [row.session_id for row in critical]


def test_the_form_has_the_filters_of_the_address(shop: Path) -> None:
    """A link that was sent shows what it filters by; filters that leave nothing have a text of their own."""
    text = get(app(shop), "/verdicts?severity=high&agent=Ann&text=back%21&session=lo&rule=desk%2Fcalm").text
    for value in ('<option value="high" selected>', '<option value="desk/calm" selected>', 'value="Ann"'):
        assert value in text
    assert 'value="back!"' in text
    assert "Remove filters" in text
    nothing = plain(get(app(shop), "/sessions?text=nowhere").text)
    assert "There are no sessions with these filters." in nothing
    assert "Send spans" not in nothing


def test_hostile_filters_are_text(shop: Path) -> None:
    """Quotes, markup and hidden characters in an address neither break the query nor the page."""
    hostile = "\"'><script>alert(1)</script>\x1b\u202e%_) OR 1=1 --"
    for name in ("severity", "rule", "agent", "session", "text"):
        for path in ("/verdicts", "/sessions"):
            answer = get(app(shop), f"{path}?{urlencode({name: hostile})}")
            assert answer.status_code == 200
            assert "<script>alert" not in answer.text
            assert "\x1b" not in answer.text
            assert "\u202e" not in answer.text
    assert listed(shop, "/verdicts", session=hostile) == []


def test_only_the_newest_events_are_searched(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is stated on the page."""
    monkeypatch.setattr(filters, "EVENTS_SEARCHED_MAX", 1)
    with writing(shop) as db:
        assert occurrences_with(db, "back") == ()
    assert "among the newest 500,000 events" in plain(get(app(shop), "/verdicts?text=x").text)


def test_an_address_is_read_and_written_alike() -> None:
    """`query` gives the parameters that were read, and a long text is cut."""
    asked = {"severity": "low", "verdict": "unmet", "rule": "a/b", "agent": "x", "session": "s", "text": "t"}
    assert filters_of(asked).query == asked
    assert filters_of({}).query == {}
    assert len(filters_of({"text": "x" * 999}).text or "") == 200
