"""The console's pages: what they show of a store, and that nothing hostile in it gets out."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from urllib.parse import urljoin

import pytest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import pack_text
from tracline.schemas.display import HIDDEN
from tracline.stream.console import formatting

from ....support.console_store import (
    DEAD_LETTER,
    START,
    call,
    empty,
    fill,
    result,
    session,
    shipped,
    user,
    writing,
)
from .asking import DESK, PACK, app, get, links, plain

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> \x1b[31m\x07\u202egnp.exe\u200b\x9b\r."
PAGES = ("/", "/?show=all&hours=168", "/rules", "/sessions", "/verdicts", "/dead-letters")


@pytest.mark.parametrize("path", [*PAGES, "/style.css", "/console.js", "/nowhere"])
def test_every_answer_is_guarded(desk: Path, path: str) -> None:
    """Nothing is loaded from elsewhere, framed, guessed, referred to or cached; nothing is inline."""
    answer = get(app(desk, shipped()), path)
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
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
def test_an_empty_store_shows_where_to_send_spans(store: Path, path: str) -> None:
    """Before the first session the pages show how to send spans."""
    text = plain(get(app(empty(store)), path).text)
    assert "Send spans to http://127.0.0.1:4318/v1/traces" in text


def test_a_missing_store_is_reported(store: Path) -> None:
    """Without a store the answer is 503, with SQLite's error."""
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


def test_hostile_text_is_shown_as_text(store: Path) -> None:
    """Markup from telemetry is escaped, and what would steer a terminal or hide is written out."""
    events = session(
        HOSTILE,
        user(HOSTILE + "!", attributes={HOSTILE: HOSTILE}),
        call(HOSTILE, HOSTILE, args=f'{{"a": "{HOSTILE}"}}'),
        result(HOSTILE, result=HOSTILE, error=HOSTILE),
        agent=HOSTILE,
    )
    console = app(fill(store, DESK, [events]))
    record = get(console, "/verdicts").text
    verdict = next(href for href in links(record) if re.match(r"/verdicts/[0-9a-f]{32}", href))
    where = formatting.session_path(HOSTILE)
    for path in ("/", "/rules", "/rules/desk/calm", "/sessions", "/verdicts", verdict, where):
        text = get(console, path).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert not [char for char in text if char != "\n" and unicodedata.category(char) in HIDDEN]
    page = plain(get(console, where).text)
    assert page.count(HOSTILE[:25]) >= 5
    assert "U+001B[31mU+0007U+202Egnp.exeU+200BU+009BU+000D." in page


def test_what_is_open_is_counted(store: Path) -> None:
    """The overview has the watermark and the number of open sessions."""
    events = [
        session("a", user("hi")),
        session("b", user("hi"), end=False),
        session("c", user("hi"), end=False),
    ]
    text = plain(get(app(fill(store, DESK, events)), "/").text)
    assert "Watermark 2026-02-17 12:00:00" in text
    assert "Open sessions 2 of 3" in text


def test_spans_that_are_not_read_are_reported(store: Path) -> None:
    """The overview counts the spans that came, and names the scopes where none of them is read."""
    with writing(empty(store)) as db:
        db.executemany("INSERT INTO scope VALUES (?, ?, ?)", [("sdk-x", 36, 0), ("<b>", 2, 0)])
    text = plain(get(app(store), "/").text)
    assert "Spans 0 of 38 belong to a conversation" in text
    assert "38 spans, none contains a conversation; scopes: sdk-x 36, <b> 2. Run tracline doctor" in text
    with writing(store) as db:
        db.execute("UPDATE scope SET read = 1 WHERE name = 'sdk-x'")
    text = plain(get(app(store), "/").text)
    assert "Spans 1 of 38 belong to a conversation" in text
    assert "none contains" not in text


def test_a_verdict_of_another_version_of_the_rule_is_marked(store: Path) -> None:
    """A record whose digest is not that of the rule in use, or whose rule is gone, is marked."""
    fill(store, DESK, [session("s", user("no!"))])
    verdict = next(href for href in links(get(app(store), "/").text) if href.startswith("/verdicts/"))
    assert "another version" not in get(app(store), verdict).text
    changed = compile_rule_set(pack_text(PACK.replace('contains "!"', 'contains "!!"')))
    assert "judged by another version of the rule" in get(app(store, changed), verdict).text
    gone = compile_rule_set(pack_text(PACK.replace("id: calm", "id: calmer")))
    assert "has no rule desk/calm" in plain(get(app(store, gone), verdict).text)


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


def test_dead_letters_show_where_and_why(store: Path) -> None:
    """Each unreadable input is listed with place, code, reason and digest, newest first."""
    with writing(empty(store)) as db:
        db.execute(DEAD_LETTER, (START, "span 3", "otlp-trace-id", "the trace id has 7 bytes", "ab" * 32))
        db.execute(DEAD_LETTER, (START, "span 9", "otlp-time", "no time", "cd" * 32))
    text = plain(get(app(store), "/dead-letters").text)
    assert text.index("span 9") < text.index("otlp-trace-id the trace id has 7 bytes span 3 " + "ab" * 32)
    assert "Dead letters 2" in plain(get(app(store), "/").text)
