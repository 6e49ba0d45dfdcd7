"""A session's page: its events, the rules' steps at them, and witnesses."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from tracline.schemas.event import Kind
from tracline.schemas.time import NS, rfc3339
from tracline.stream.console.replay import EVENTS_REPLAYED_MAX, replay
from tracline.stream.console.session import EVENTS_A_PAGE

from ....support.console_store import START, call, fill, result, session, user, writing
from .asking import DESK, app, get, links, plain

pytestmark = pytest.mark.slow

ODD_IDS = ["", ".", "..", "a/../b", "a b?c=d#e&f", "%2e%2e", "<b>é</b>", "\u202e\x1b[2J\n", "\u4f1a\u8bdd"]


@pytest.mark.parametrize("name", ODD_IDS)
def test_any_session_id_has_a_page(store: Path, name: str) -> None:
    """Whatever a session is called, the list and its verdicts link a page that shows it."""
    console = app(fill(store, DESK, [session(name, user("no!"), user("really"))]))
    for start in ("/sessions", "/verdicts"):
        link = next(href for href in links(get(console, start).text) if "occurrence=" in href)
        answer = get(console, link)
        assert answer.status_code == 200
        assert "really" in answer.text


def test_a_rule_that_cannot_judge_shows_from_where(store: Path) -> None:
    """A rule is unjudged from the event whose text decides it; a later violation that is certain is shown."""
    events = session("s", user("hi"), user(None, content="absent"), user("no!"))
    marks = [step.shown[0].verdict.value for step in replay(DESK, events[:-1])[1].steps]
    assert marks == ["pending", "unjudged", "violated"]
    text = plain(get(app(fill(store, DESK, [events])), "/sessions/s").text)
    assert "1 rule is unjudged" in text
    assert "? unjudged from event 2" in text


def test_the_page_of_a_session_explains_the_chosen_verdict(store: Path) -> None:
    """A verdict's link marks its witness' events, with what was true and what was still asked."""
    events = session("s", user("hi"), call(), user("well"))
    console = app(fill(store, DESK, [events]))
    verdict = next(href for href in links(get(console, "/").text) if href.startswith("/verdicts/"))
    page = get(console, verdict)
    assert "unmet Calls are answered" in plain(page.text)
    link = next(href for href in links(page.text) if href.endswith("#e3"))
    text = get(console, link).text
    marked = [html for html in text.split('<li id="e')[1:] if "Witness of" in html]
    assert [int(html[0]) for html in marked] == [2, 3]
    assert (
        "True here: call Required afterwards: always (call -> eventually result) and eventually result"
        in plain(marked[0])
    )


def test_a_rule_can_be_followed(store: Path) -> None:
    """With a rule chosen, that rule alone stands beside each event."""
    console = app(fill(store, DESK, [session("s", user("hi"), call(), result())]))
    text = get(console, "/sessions/s?rule=desk/answered").text
    events = plain(text[text.index('id="events-title"') : text.index('id="rules-title"')])
    assert events.count("answered pending") == 3
    assert "calm" not in events


def test_a_followed_rule_has_the_status_of_its_parts_at_each_event(store: Path) -> None:
    """Each part has a letter, listed above; each event has the status of each, in words too."""
    console = app(fill(store, DESK, [session("s", user("hi"), call(), result())]))
    text = get(console, "/sessions/s?rule=desk/answered").text
    parts = plain(text[text.index('class="rule-parts"') : text.index('<ol class="events"')])
    assert "a always (call -> eventually result)" in parts
    assert "e result" in parts
    found = re.findall(r'title="(\w): (\w+)"', text)
    assert found == [
        *zip("abcde", ("active", "inactive", "violated", "active", "violated"), strict=True),
        *zip("abcde", ("active", "satisfied", "satisfied", "active", "violated"), strict=True),
        *zip("abcde", ("satisfied", "inactive", "violated", "satisfied", "satisfied"), strict=True),
    ]
    assert "worth a look" in text
    assert "rule-parts" not in get(console, "/sessions/s").text


def test_the_parts_that_break_a_rule_are_marked_where_they_break_it(store: Path) -> None:
    """Parts that are false where nothing asks for them are not marked, nor is the rule before its breach."""
    console = app(fill(store, DESK, [session("s", user("hi"), call(), user("no?"))]))
    text = get(console, "/sessions/s?rule=desk/answered").text
    text = text[text.index('<ol class="events"') :]
    marked = re.findall(r'class="part violated( breaks)?" title="(\w):', text)
    assert [letter for mark, letter in marked if mark] == [*"abd"]
    assert text.count("violated and breaks the rule") == 3


def test_the_parts_of_an_open_session_are_open(store: Path) -> None:
    """Coming events decide, so an unanswered call is open and not violated."""
    console = app(fill(store, DESK, [session("s", user("hi"), call(), end=False)]))
    found = re.findall(r'title="(\w): (\w+)"', get(console, "/sessions/s?rule=desk/answered").text)
    assert found[5:] == [
        *zip("abcde", ("open", "open", "satisfied", "open", "violated"), strict=True),
    ]


def test_long_sessions_come_in_pages(store: Path) -> None:
    """A verdict far down leads to its page; the rules are replayed up to a limit, which the page states."""
    far = EVENTS_REPLAYED_MAX + 5
    events = session("s", *(user("no!" if at == far else "hi") for at in range(1, far + 1)))
    console = app(fill(store, DESK, [events]))
    link = next(href for href in links(get(console, "/").text) if href.startswith("/sessions/"))
    text = get(console, link).text
    assert text.count('<li id="e') == far % EVENTS_A_PAGE
    assert f'id="e{far}"' in text
    assert f"The rules are shown at the first {EVENTS_REPLAYED_MAX:,} events only" in plain(text)
    earlier = next(href for href in links(text) if "#events-title" in href and "page=" in href)
    assert get(console, earlier).text.count('<li id="e') == EVENTS_A_PAGE


def test_a_session_without_its_beginning_is_shown_without_rules(store: Path) -> None:
    """If retention deleted the first events, the page shows the rest and states that it replays none."""
    console = app(fill(store, DESK, [session("s", user("hi"), user("no!"), user("well"))]))
    with writing(store) as db:
        db.execute("DELETE FROM event WHERE seq = 1")
    text = get(console, "/sessions/s").text
    assert "The first 1 events are no longer in the store" in plain(text)
    assert re.findall(r'<li id="e(\d)"', text) == ["2", "3"]
    assert "Open sessions 0 of 0" in plain(get(console, "/").text)


def test_an_id_that_came_back_has_all_its_occurrences(store: Path) -> None:
    """The page shows the latest occurrence, links the others, and shows one that is asked for."""
    later = START + 9000 * NS
    console = app(fill(store, DESK, [session("s", user("old")), session("s", user("new"), start=later)]))
    text = get(console, "/sessions/s").text
    assert "new" in plain(text)
    assert "also began 2026-02-17 12:00:00" in plain(text)
    assert "old" in plain(get(console, f"/sessions/s?occurrence={rfc3339(START)}").text)


def test_an_event_without_fields_is_shown(store: Path) -> None:
    """An unknown event, late, nested, in history has all these tags."""
    (event, end) = session("s", user("hi"))
    bare = msgspec.structs.replace(
        event,
        kind=Kind.UNKNOWN,
        text=None,
        content="absent",
        agent=None,
        late=True,
        nested=True,
        history=True,
    )
    text = plain(get(app(fill(store, DESK, [(bare, end)])), "/sessions/s").text)
    assert "1 Not captured +0.0 s sub-agent late history content absent" in text
