"""The live feed of a page, and the cache of answers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from starlette.applications import Starlette
from tracline.stream.console import pages, queries
from tracline.stream.console.answer_cache import ANSWERS_CACHED_MAX, CACHE_FACTOR, AnswerCache
from tracline.stream.console.feed import FeedRenderer, feed
from tracline.stream.ingest.server.open_files import FEEDS_MAX

from ....support.console_store import empty, fill, session, user, writing
from .asking import DESK, app

pytestmark = pytest.mark.slow


class OpenFeed:
    """A feed that a test asks for its next event; between two polls of the store it calls a function."""

    def __init__(
        self, store: Path, after: int, *, breaches: bool = False, answers: AnswerCache | None = None
    ) -> None:
        self.between = [lambda: None]
        parts = pages.templates(DESK.rules).get_template("parts.html").module
        writer = FeedRenderer(parts.verdict_rows, parts.position, parts.warning_rows)
        self.events = feed(store, after, breaches, writer, answers or AnswerCache(), self.wait)

    async def wait(self) -> None:
        """Do the next thing."""
        self.between.pop(0)()


def test_the_feed_sends_what_is_new(store: Path) -> None:
    """At once what came since the page was written, later what comes into the store; then it closes."""
    fill(store, DESK, [session("s", user("no!"), user("no!"))])
    with writing(store) as db:
        last = dict(zip(*rows(db, "SELECT * FROM verdict WHERE number = 2"), strict=True))

    def insert() -> None:
        marks = ", ".join("?" * len(last))
        with writing(store) as db:
            values = {**last, "number": 3, "id": "f" * 32, "rule": "answered"}
            db.execute(f"INSERT INTO verdict VALUES ({marks})", tuple(values.values()))

    async def follow() -> list:
        opened = OpenFeed(store, after=1)
        opened.between = [lambda: None, insert, lambda: None]
        events = [await anext(opened.events) for _ in range(4)]
        await opened.events.aclose()
        return events

    first, position, second, _ = asyncio.run(follow())
    assert [(event.event, event.id) for event in (first, position, second)] == [
        ("verdicts", "2"),
        ("position", None),
        ("verdicts", "3"),
    ]
    assert first.data.count("<tr") == second.data.count("<tr") == 1
    assert 'data-announce="violated, high: Calls are answered"' in second.data
    assert "Verdicts given</dt><dd>2<" in position.data


def rows(db, query: str) -> tuple[list[str], tuple]:
    """The names of a query's columns, and its one row."""
    cursor = db.execute(query)
    return [column[0] for column in cursor.description], cursor.fetchone()


def test_the_feed_polls_again_after_a_cached_answer(store: Path) -> None:
    """The feed sends a cached position, and the current one once it is computed."""
    now = [0.0]
    answers = AnswerCache(lambda: now[0])
    fill(store, DESK, [session("s", user("hi"))])

    def slowly() -> queries.Position:
        now[0] += 1
        with queries.reading(store) as db:
            return dataclasses.replace(queries.position(db), open_sessions=77)

    answers.get("position", slowly)

    async def follow() -> list[str]:
        opened = OpenFeed(store, 0, answers=answers)
        opened.between = [lambda: None, lambda: now.append(now.pop() + CACHE_FACTOR), lambda: None]
        events = [await anext(opened.events) for _ in range(2)]
        await opened.events.aclose()
        return [str(event.data) for event in events]

    before, after = asyncio.run(follow())
    assert ">77<" in before
    assert ">0<" in after


def test_a_feed_of_breaches_leaves_the_unjudged_out(store: Path) -> None:
    """Unless all are asked for, only what is violated or unmet comes."""
    fill(store, DESK, [session("s", user(None, content="absent"))])

    async def first(breaches: bool) -> str:
        opened = OpenFeed(store, 0, breaches=breaches)
        event = await anext(opened.events)
        await opened.events.aclose()
        return event.event

    assert [asyncio.run(first(breaches)) for breaches in (True, False)] == ["position", "verdicts"]


def test_there_are_only_so_many_feeds(store: Path) -> None:
    """Of more than the limit that are asked for at one moment the others are refused; later there is room."""
    console = app(empty(store))
    many = Counter(asyncio.run(asked_at_once(console, FEEDS_MAX + 5)))
    assert many == {(200, None): FEEDS_MAX, (503, b"60"): 5}
    assert asyncio.run(asked_at_once(console, 1)) == [(200, None)]


async def asked_at_once(console: Starlette, count: int) -> list[tuple[int, bytes | None]]:
    """Ask for so many feeds, and leave them once all are answered: each status, and when to come again."""
    answers: list[tuple[int, bytes | None]] = []
    all_answered = asyncio.Event()

    async def receive() -> dict[str, str]:
        await all_answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        if message["type"] == "http.response.start":
            answers.append((message["status"], dict(message["headers"]).get(b"retry-after")))
        if len(answers) == count:
            all_answered.set()

    scope = {"type": "http", "method": "GET", "path": "/feed", "query_string": b"", "headers": []}
    await asyncio.gather(*(console(dict(scope), receive, send) for _ in range(count)))
    return answers


def test_answers_are_cached_by_their_cost() -> None:
    """An answer that took a second is cached for ten, then computed again; keys are distinct and limited."""
    now = [0.0]
    answers = AnswerCache(lambda: now[0])

    def make() -> float:
        now[0] += 1
        return now[0]

    assert answers.get("a", make) == (1.0, True)
    now[0] += CACHE_FACTOR - 0.5
    assert answers.get("a", make) == (1.0, False)
    assert answers.get("b", make) == (now[0], True)
    now[0] += 1
    assert answers.get("a", make) == (now[0], True)
    for key in range(ANSWERS_CACHED_MAX):
        answers.get(key, lambda: 0.0)
    assert answers.get("b", make)[1]
