"""The console's pages: what they show of a store, and that nothing hostile in it gets out."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from starlette.applications import Starlette
from tracline.rules.judge import statute_of
from tracline.rules.monitor import Monitor
from tracline.rules.pack import pack_text
from tracline.schemas.event import Event, Kind
from tracline.schemas.shown import HIDDEN
from tracline.schemas.time import NS, rfc3339
from tracline.schemas.verdict import Verdict
from tracline.stream.console import ledger, pages, shown
from tracline.stream.console.chart import RATE_TOP_MIN, chart
from tracline.stream.console.feed import FEEDS_MAX, Feeds, Writer, feed
from tracline.stream.console.kept import ANSWERS_KEPT_MAX, REST, Kept
from tracline.stream.console.rates import HOUR, Share, Tally, series, window_to
from tracline.stream.console.replay import EVENTS_REPLAYED_MAX, MARKS_AN_EVENT_MAX, Course, replay
from tracline.stream.console.session import EVENTS_A_PAGE
from tracline.stream.console.templates import FOLDER

from .console_store import (
    DEAD_LETTER,
    STANDING,
    START,
    call,
    desk_sessions,
    empty,
    fill,
    result,
    session,
    shipped,
    user,
    writing,
)

pytestmark = pytest.mark.slow

PACK = """
pack: desk
version: 1
propositions:
  call: kind == "tool_call"
  pay: kind == "tool_call" and tool == "pay"
  result: kind == "tool_result"
  angry: kind == "user" and text contains "!"
rules:
  - {id: answered, title: Calls are answered, severity: medium, formula: always (call -> eventually result)}
  - {id: calm, title: Nobody shouts, severity: high, formula: always not angry}
  - {id: paid-once, severity: low, for_each: call_id, formula: 'always (pay -> at_most[1] pay)'}
"""
DESK = statute_of(pack_text(PACK))
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> \x1b[31m\x07\u202egnp.exe\u200b\x9b\r."
ODD_IDS = ["", ".", "..", "a/../b", "a b?c=d#e&f", "%2e%2e", "<b>é</b>", "\u202e\x1b[2J\n", "\u4f1a\u8bdd"]


def app(store: Path, statute=DESK) -> Starlette:
    """The console as an application."""
    return Starlette(
        routes=pages.routes(store, statute),
        exception_handlers={404: lambda _request, _error: pages.missing_page()},
    )


def get(console: Starlette, path: str) -> httpx.Response:
    """What the console answers."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=console)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path)

    return asyncio.run(ask())


def plain(html: str) -> str:
    """The text of a page, in one line."""
    text = re.sub(r"</?(?:a|b|bdi|code|span|strong|time)(?: [^>]*)?>", "", html)
    text = re.sub(r"<[^>]+>", " ", text)
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&#34;", '"'), ("&#39;", "'"), ("&amp;", "&")):
        text = text.replace(entity, char)
    return " ".join(text.split())


def links(html: str) -> list[str]:
    """Where a page's links lead."""
    return [href.replace("&amp;", "&") for href in re.findall(r'<a [^>]*href="([^"]*)"', html)]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a day of the support desk."""
    return fill(tmp_path_factory.mktemp("desk") / "store.db", shipped(), desk_sessions(30))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a test puts its own store."""
    return tmp_path / "store.db"


PAGES = ("/", "/?show=all&hours=168", "/rules", "/sessions", "/verdicts", "/dead-letters")


@pytest.mark.parametrize("path", [*PAGES, "/style.css", "/console.js", "/nowhere"])
def test_every_answer_is_guarded(desk: Path, path: str) -> None:
    """Nothing is loaded from elsewhere, framed, guessed, referred to or kept; nothing is inline."""
    answer = get(app(desk, shipped()), path)
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(
        r"<style|<script>|\sstyle=|\son[a-z]+=|https?://(?!127\.0\.0\.1|www\.w3\.org)", answer.text
    )


def test_every_link_leads_somewhere(desk: Path) -> None:
    """From the overview on, each link of the console is answered by a page, every verdict's session too."""
    console = app(desk, shipped())
    seen, todo = set(), ["/"]
    while todo and len(seen) < 120:
        path = todo.pop(0)
        answer = get(console, path)
        assert answer.status_code == 200, path
        assert f'id="{path.partition("#")[2]}"' in answer.text or "#" not in path
        seen.add(path)
        found = [urljoin(path, href) for href in links(answer.text)]
        todo += [link for link in dict.fromkeys(found) if link not in seen and link not in todo]
    assert len(seen) == 120


@pytest.mark.parametrize("path", PAGES)
def test_pages_have_landmarks_and_headings(desk: Path, path: str) -> None:
    """One main part, one h1, a way past the navigation; captions on tables, scopes on their headers."""
    text = get(app(desk, shipped()), path).text
    assert text.count("<main ") == text.count("<h1") == 1
    assert '<html lang="en">' in text
    assert text.index('class="skip" href="#main"') < text.index("<nav ")
    assert text.count("<table") == text.count("<caption")
    assert not re.search(r"<th(?![^>]*scope=)[ >]", text)


@pytest.mark.parametrize("path", ["/", "/rules", "/sessions", "/verdicts"])
def test_an_empty_store_says_where_to_send_spans(store: Path, path: str) -> None:
    """Before the first session the pages say what to do."""
    text = plain(get(app(empty(store)), path).text)
    assert "Send spans to http://127.0.0.1:4318/v1/traces" in text


def test_a_store_that_is_not_there_is_said(store: Path) -> None:
    """Without a store the answer is 503, with what SQLite says."""
    answer = get(app(store), "/")
    assert answer.status_code == 503
    assert "SQLITE_CANTOPEN" in answer.text
    assert not store.exists()


@pytest.mark.parametrize(
    "path",
    ["/rules/desk/nope", "/rules/no/calm", "/sessions/nope", "/verdicts/nope", "/a?b", "/sessions?id=nope",
     "/sessions/one?occurrence=2026-02-18T00:00:00Z", "/sessions/one?occurrence=yesterday"],
)  # fmt: skip
def test_what_is_not_there_is_a_page_of_its_own(store: Path, path: str) -> None:
    """Unknown rules, sessions, occurrences, verdicts and addresses are answered 404, with ways on."""
    answer = get(app(fill(store, DESK, [session("one", user("hi"))])), path)
    assert answer.status_code == 404
    assert "Not found" in answer.text
    assert "/rules" in links(answer.text)


@pytest.mark.parametrize("name", ODD_IDS)
def test_any_session_id_has_a_page(store: Path, name: str) -> None:
    """Whatever a session is called, the list and its verdicts link a page that shows it."""
    console = app(fill(store, DESK, [session(name, user("no!"), user("really"))]))
    for start in ("/sessions", "/verdicts"):
        link = next(href for href in links(get(console, start).text) if "occurrence=" in href)
        answer = get(console, link)
        assert answer.status_code == 200
        assert "really" in answer.text


def test_hostile_text_is_shown_as_text(store: Path) -> None:
    """Markup from telemetry is escaped, and what would steer a terminal or hide is written out."""
    told = session(
        HOSTILE,
        user(HOSTILE + "!", attributes={HOSTILE: HOSTILE}),
        call(HOSTILE, HOSTILE, args=f'{{"a": "{HOSTILE}"}}'),
        result(HOSTILE, result=HOSTILE, error=HOSTILE),
        agent=HOSTILE,
    )
    console = app(fill(store, DESK, [told]))
    record = get(console, "/verdicts").text
    verdict = next(href for href in links(record) if re.match(r"/verdicts/[0-9a-f]{32}", href))
    where = shown.session_path(HOSTILE)
    for path in ("/", "/rules", "/rules/desk/calm", "/sessions", "/verdicts", verdict, where):
        text = get(console, path).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert not [char for char in text if char != "\n" and unicodedata.category(char) in HIDDEN]
    page = plain(get(console, where).text)
    assert page.count(HOSTILE[:25]) >= 5
    assert "U+001B[31mU+0007U+202Egnp.exeU+200BU+009BU+000D." in page


def test_long_text_is_cut_and_says_so() -> None:
    """A text shows its first characters and how many more there are."""
    html = shown.shown("é" * (shown.TEXT_SHOWN_MAX + 1234))
    assert html.count("é") == shown.TEXT_SHOWN_MAX
    assert "… 1,234 more characters" in html


def stored(store: Path, told: tuple[Event, ...]) -> list[ledger.Record]:
    """The records of one session."""
    with ledger.reading(store) as db:
        return ledger.records_of(db, told[0].session_id, told[0].occurrence, 1000)


def test_a_session_told_again_comes_to_its_verdicts(desk: Path) -> None:
    """Replaying a session gives the verdicts that are in the store, each at its event and in its slice."""
    found = 0
    for told in desk_sessions(30):
        courses = replay(shipped(), told[:-1])
        replayed = {(course.number, *one) for course in courses for one in verdicts(course)}
        names = {(rule.pack, rule.id): number for number, rule in enumerate(shipped().rules)}
        records = stored(desk, told)
        assert replayed == {(names[r.pack, r.rule], r.slice, r.seq, r.verdict) for r in records}
        found += len(records)
    assert found > 30


def verdicts(course: Course) -> Iterator[tuple[str | None, int, Verdict]]:
    """What a course reports, and what is left unmet."""
    for at, marks in enumerate(course.marks):
        yield from ((m.slice, at + 1, m.verdict) for m in marks.shown if m.reported)
    for standing in course.standings:
        if standing.closing is Verdict.UNMET:
            yield standing.mark.slice, standing.seq, Verdict.UNMET


def test_the_residual_at_each_event_is_the_monitors() -> None:
    """Beside each event stands what a monitor of the formula asks next there."""
    told = session("s", call(), user("hm"), result(), user("x!"), call(), end=False)
    answered, calm, _ = replay(DESK, told)
    monitor = Monitor("always (call -> eventually result)")
    for event, marks in zip(told, answered.marks, strict=True):
        verdict = monitor.step(
            {"call"} if event.tool and not event.result else {"result"} if event.result else set()
        )
        assert [(mark.verdict, mark.residual) for mark in marks.shown] == [(verdict, monitor.residual)]
    assert [marks.shown[0].residual for marks in calm.marks] == ["always not angry"] * 3 + [
        "false",
        "always not angry",
    ]
    assert [marks.is_news for marks in answered.marks] == [True, False, True, False, True]


def test_slices_are_told_apart() -> None:
    """A rule with slices has a mark for each slice that an event steps, and the last of each stands."""
    told = session("s", call("pay", "a"), call("pay", "b"), user("hm"), call("pay", "a"), end=False)
    course = replay(DESK, told)[2]
    assert [[mark.slice for mark in marks.shown] for marks in course.marks] == [
        ["a"],
        ["b"],
        [None, "a", "b"],
        ["a"],
    ]
    assert [mark.verdict for mark in course.marks[3].shown] == [Verdict.VIOLATED]
    assert {(s.mark.slice, s.seq, s.closing) for s in course.standings} == {
        ("a", 4, None),
        ("b", 3, Verdict.HELD),
    }


def test_an_event_of_many_slices_shows_some() -> None:
    """An event without a value steps every slice; some are shown, and the others counted."""
    told = session("s", *(call("pay", f"c{i}") for i in range(20)), user("hm"), end=False)
    marks = replay(DESK, told)[2].marks[-1]
    assert (len(marks.shown), marks.more) == (MARKS_AN_EVENT_MAX, 21 - MARKS_AN_EVENT_MAX)


def test_a_rule_that_cannot_judge_says_from_where(store: Path) -> None:
    """From the event on whose text was not captured the rule shows nothing but `unjudged`."""
    told = session("s", user("hi"), user(None, content="absent"), user("no!"))
    assert [len(marks.shown) for marks in replay(DESK, told[:-1])[1].marks] == [1, 1, 0]
    text = plain(get(app(fill(store, DESK, [told])), "/sessions/s").text)
    assert "1 rule is unjudged" in text
    assert "? unjudged from event 2" in text


def test_the_page_of_a_session_explains_the_chosen_verdict(store: Path) -> None:
    """A verdict's link marks its witness' events, with what was true and what was still asked."""
    told = session("s", user("hi"), call(), user("well"))
    console = app(fill(store, DESK, [told]))
    verdict = next(href for href in links(get(console, "/").text) if href.startswith("/verdicts/"))
    page = get(console, verdict)
    assert "unmet Calls are answered" in plain(page.text)
    link = next(href for href in links(page.text) if href.endswith("#e3"))
    text = get(console, link).text
    marked = [html for html in text.split('<li id="e')[1:] if "Witness of" in html]
    assert [int(html[0]) for html in marked] == [2, 3]
    assert (
        "True here: call Asked afterwards: always (call -> eventually result) and eventually result"
        in plain(marked[0])
    )


def test_a_rule_can_be_followed(store: Path) -> None:
    """With a rule chosen, that rule alone stands beside each event."""
    console = app(fill(store, DESK, [session("s", user("hi"), call(), result())]))
    text = get(console, "/sessions/s?rule=desk/answered").text
    events = plain(text[text.index('id="events-title"') : text.index('id="rules-title"')])
    assert events.count("answered pending") == 3
    assert "calm" not in events


def test_long_sessions_come_in_pages(store: Path) -> None:
    """A verdict far down leads to its page; the rules are told again up to a limit, which is said."""
    far = EVENTS_REPLAYED_MAX + 5
    told = session("s", *(user("no!" if at == far else "hi") for at in range(1, far + 1)))
    console = app(fill(store, DESK, [told]))
    link = next(href for href in links(get(console, "/").text) if href.startswith("/sessions/"))
    text = get(console, link).text
    assert text.count('<li id="e') == far % EVENTS_A_PAGE
    assert f'id="e{far}"' in text
    assert f"The rules are shown at the first {EVENTS_REPLAYED_MAX:,} events only" in plain(text)
    earlier = next(href for href in links(text) if "#events-title" in href and "page=" in href)
    assert get(console, earlier).text.count('<li id="e') == EVENTS_A_PAGE


def test_a_session_without_its_beginning_is_shown_without_rules(store: Path) -> None:
    """Where retention took the first events, the rest is shown, and that the rules cannot be told again."""
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


def test_what_is_open_is_counted(store: Path) -> None:
    """The overview says how far the time is, and how many sessions are open."""
    told = [
        session("a", user("hi")),
        session("b", user("hi"), end=False),
        session("c", user("hi"), end=False),
    ]
    text = plain(get(app(fill(store, DESK, told)), "/").text)
    assert "Time judged up to 2026-02-17 12:00:00" in text
    assert "Open sessions 2 of 3" in text


def test_a_verdict_of_another_version_of_the_rule_says_so(store: Path) -> None:
    """A record whose digest is not that of the rule in use, or whose rule is gone, is marked."""
    fill(store, DESK, [session("s", user("no!"))])
    verdict = next(href for href in links(get(app(store), "/").text) if href.startswith("/verdicts/"))
    assert "another version" not in get(app(store), verdict).text
    changed = statute_of(pack_text(PACK.replace('contains "!"', 'contains "!!"')))
    assert "judged by another version of the rule" in get(app(store, changed), verdict).text
    gone = statute_of(pack_text(PACK.replace("id: calm", "id: calmer")))
    assert "has no rule desk/calm any more" in plain(get(app(store, gone), verdict).text)


STANDINGS = [
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
        db.executemany(STANDING, STANDINGS)
    window = window_to(START, 24)
    with ledger.reading(store) as db:
        found = ledger.tallies(db, window.since, window.until, HOUR, ("desk", "calm"))
    assert sorted(found, key=lambda tally: (tally.agent, tally.bucket)) == [
        Tally("desk", "calm", "", 23, 1, 1, 0),
        Tally("desk", "calm", "ann", 23, 2, 1, 0),
        Tally("desk", "calm", "bob", 22, 1, 1, 1),
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
        series([Tally("p", "r", "a", 3, 40, 1, 0), Tally("p", "r", "a", 5, 10, 0, 0)], window), 240, 50
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


def test_older_verdicts_are_reached_page_by_page(store: Path) -> None:
    """Following `Older` shows every verdict once, newest first, and ends."""
    console = app(fill(store, DESK, [session("s", *(user("no!") for _ in range(120)))]))
    found: list[str] = []
    path: str | None = "/verdicts"
    while path:
        html = get(console, path).text
        found += re.findall(r'href="(/verdicts/[0-9a-f]{32})"', html)
        path = next((href for href in links(html) if "before=" in href), None)
    assert len(found) == len(set(found)) == 120


def test_dead_letters_say_where_and_why(store: Path) -> None:
    """What could not be read is listed with place, code, reason and digest, newest first."""
    with writing(empty(store)) as db:
        db.execute(DEAD_LETTER, (START, "span 3", "otlp-trace-id", "the trace id has 7 bytes", "ab" * 32))
        db.execute(DEAD_LETTER, (START, "span 9", "otlp-time", "no time", "cd" * 32))
    text = plain(get(app(store), "/dead-letters").text)
    assert text.index("span 9") < text.index("otlp-trace-id the trace id has 7 bytes span 3 " + "ab" * 32)
    assert "2 dead letters" in plain(get(app(store), "/").text)


class Heard:
    """A feed that a test asks for its next event; between two looks at the store it does what it is told."""

    def __init__(self, store: Path, after: int, *, breaches: bool = False, kept: Kept | None = None) -> None:
        self.readers: list[int] = []
        self.between = [lambda: None]
        parts = pages.templates(DESK.rules).get_template("parts.html").module
        writer = Writer(parts.verdict_rows, parts.position)
        self.events = feed(
            store, after, breaches, writer, Feeds(self.readers.append), kept or Kept(), self.wait
        )

    async def wait(self) -> None:
        """Do the next thing."""
        self.between.pop(0)()


def test_the_feed_tells_what_is_new(store: Path) -> None:
    """At once what came since the page was written, later what comes into the store; then it closes."""
    fill(store, DESK, [session("s", user("no!"), user("no!"))])
    with writing(store) as db:
        last = dict(zip(*rows(db, "SELECT * FROM verdict WHERE number = 2"), strict=True))

    def insert() -> None:
        marks = ", ".join("?" * len(last))
        with writing(store) as db:
            values = {**last, "number": 3, "id": "f" * 32, "rule": "answered"}
            db.execute(f"INSERT INTO verdict VALUES ({marks})", tuple(values.values()))

    async def follow() -> tuple[list, list[int]]:
        heard = Heard(store, after=1)
        heard.between = [lambda: None, insert, lambda: None]
        events = [await anext(heard.events) for _ in range(4)]
        await heard.events.aclose()
        return events, heard.readers

    (first, position, second, _), readers = asyncio.run(follow())
    assert [(event.event, event.id) for event in (first, position, second)] == [
        ("verdicts", "2"),
        ("position", None),
        ("verdicts", "3"),
    ]
    assert first.data.count("<tr") == second.data.count("<tr") == 1
    assert 'data-said="violated, high: Calls are answered"' in second.data
    assert "Verdicts given</dt><dd>2<" in position.data
    assert readers == [1, 0]


def test_the_feed_looks_again_where_an_answer_was_kept(store: Path) -> None:
    """A position that was counted before the latest change is told, and the right one once it is made."""
    now = [0.0]
    kept = Kept(lambda: now[0])
    fill(store, DESK, [session("s", user("hi"))])

    def slowly() -> ledger.Position:
        now[0] += 1
        with ledger.reading(store) as db:
            return dataclasses.replace(ledger.position(db), open_sessions=77)

    kept.get("position", slowly)

    async def follow() -> list[str]:
        heard = Heard(store, 0, kept=kept)
        heard.between = [lambda: None, lambda: now.append(now.pop() + REST), lambda: None]
        events = [await anext(heard.events) for _ in range(2)]
        await heard.events.aclose()
        return [str(event.data) for event in events]

    before, after = asyncio.run(follow())
    assert ">77<" in before
    assert ">0<" in after


def rows(db, query: str) -> tuple[list[str], tuple]:
    """The names of a query's columns, and its one row."""
    cursor = db.execute(query)
    return [column[0] for column in cursor.description], cursor.fetchone()


def test_a_feed_of_breaches_leaves_the_unjudged_out(store: Path) -> None:
    """Unless all are asked for, only what is violated or unmet comes."""
    fill(store, DESK, [session("s", user(None, content="absent"))])

    async def first(breaches: bool) -> str:
        heard = Heard(store, 0, breaches=breaches)
        event = await anext(heard.events)
        await heard.events.aclose()
        return event.event

    assert [asyncio.run(first(breaches)) for breaches in (True, False)] == ["position", "verdicts"]


def test_there_are_only_so_many_feeds(store: Path) -> None:
    """One more than the limit is refused, and told when to come again."""
    console = app(empty(store))
    route = next(route for route in console.routes if route.path == "/feed")
    held = closure(route).feeds
    held.open = FEEDS_MAX
    answer = get(console, "/feed")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")


def closure(route) -> pages.Console:
    """The console behind a route."""
    endpoint = route.endpoint
    assert isinstance(endpoint, partial)
    return endpoint.args[0]


def test_answers_are_kept_for_as_long_as_they_cost() -> None:
    """An answer that took a second is kept for ten, then made anew; keys are told apart, and limited."""
    now = [0.0]
    kept = Kept(lambda: now[0])

    def make() -> float:
        now[0] += 1
        return now[0]

    assert kept.get("a", make) == (1.0, True)
    now[0] += REST - 0.5
    assert kept.get("a", make) == (1.0, False)
    assert kept.get("b", make) == (now[0], True)
    now[0] += 1
    assert kept.get("a", make) == (now[0], True)
    for key in range(ANSWERS_KEPT_MAX):
        kept.get(key, lambda: 0.0)
    assert kept.get("b", make)[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(theme: str) -> None:
    """Every colour of text has a contrast of 4.5 (WCAG 2, AA) against every ground it stands on."""
    css = (FOLDER / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[["light", "dark"].index(theme)]))
    texts = ("ink", "quiet", "link", "violated", "unmet", "unjudged", "good")
    for text in texts:
        for ground in ("paper", "raised", "mark"):
            lighter, darker = sorted(map(luminance, (colours[text], colours[ground])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (text, ground)


def luminance(colour: str) -> float:
    """The relative luminance of a colour (WCAG 2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_times_are_told_shortly() -> None:
    """A stretch of time shows its two largest units; an instant is there to the nanosecond."""
    assert [shown.apart(s * NS) for s in (0, 2, 61, 3725, 200_000, -5)] == [
        "0.0 s", "2.0 s", "1 min 1 s", "1 h 2 min", "2 d 7 h", "-5.0 s",
    ]  # fmt: skip
    assert shown.when(START + 5) == (
        '<time datetime="2026-02-17T12:00:00.000000005Z" title="2026-02-17T12:00:00.000000005Z">'
        "2026-02-17 12:00:00</time>"
    )


def test_an_event_without_fields_is_shown(store: Path) -> None:
    """An unknown event, late, nested, told as history, says all of that."""
    (event, end) = session("s", user("hi"))
    bare = dataclasses.replace(
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
