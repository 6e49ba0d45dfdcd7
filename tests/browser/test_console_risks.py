"""The risks of sessions and rules in a browser: drawn, explained, live, accessible and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from random import Random
from typing import Literal
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect
from tracline.predict.detector import DetectorState
from tracline.predict.drift.detectors import DriftDetector, DriftKey
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.time import NS
from tracline.stream.console import queries
from tracline.stream.messages.drift_state import encode_detectors
from tracline.stream.serve.store import FILE

from ..support.chains.chain_of_conversations import learned_chain, served_chain
from ..support.console_store import writing
from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Manner
from ..support.processes.live import Live, schedule
from ..support.truth.conversations import PlayedSession, answered_once, paced, write_pack
from .conftest import WAIT_S, WATCH, Served, Watched, serving

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
"""The script of axe-core."""
PLAYED = [
    PlayedSession(paced(answered_once(random_session(seed)), START_NS + 60 * place * NS, 15), Manner())
    for place, seed in enumerate((237, 104, 51, 267, 12, 13))
]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The console over a store with open sessions that a chain follows."""
    folder = tmp_path_factory.mktemp("risks")
    pack = write_pack(folder)
    chain = served_chain(learned_chain(folder, pack), pack)
    compiled = compile_rule_set(load_packs([pack]))
    with closing(Live(folder, compiled, chain=chain.followed)) as live:
        live.play(schedule(PLAYED, Random(4)), Random(6))
    with serving(folder / "state" / FILE, is_live=True, compiled=compiled, chain=chain) as served:
        yield served


@pytest.fixture
def watched(chromium: Browser, console: Served) -> Iterator[Watched]:
    """A page of the console on which nothing goes wrong."""
    context = chromium.new_context(base_url=console.url, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(WAIT_S * 1000)
    context.add_init_script(WATCH)
    page = Watched(context.new_page())
    page.page.on("pageerror", lambda error: page.wrong.append(str(error)))
    yield page
    page.check()
    context.close()


def paths(console: Served) -> tuple[str, str]:
    """Return the pages of an open session with a warning, and of the rule that warned."""
    with queries.reading(console.store) as db:
        query = (
            "SELECT pack, rule, session_id FROM crossing WHERE session_id IN"
            " (SELECT session_id FROM session WHERE open) ORDER BY risk DESC LIMIT 1"
        )
        pack, rule, session_id = db.execute(query).fetchone()
    return f"/sessions/{session_id}", f"/rules/{pack}/{rule}"


def test_a_session_shows_its_risks_and_their_reasons(console: Served, watched: Watched) -> None:
    """A table of risks now, their likeliest ways to a verdict, a line over the events, and rises as links."""
    page = watched.page
    page.goto(paths(console)[0])
    risk = page.locator("section", has=page.get_by_role("heading", level=2, name="Risk"))
    expect(risk.get_by_role("table")).to_contain_text("%")
    expect(risk.locator("details").first).to_contain_text("The likeliest ways to a verdict")
    line = risk.get_by_role("img").first
    expect(line).to_have_attribute("aria-label", re.compile(r"risk within 3 events, at most .* warning from"))
    expect(line).to_be_visible()
    rise = risk.get_by_role("link", name=re.compile(r"^event \d+$")).first
    rise.click()
    expect(page.locator(f"#e{page.url.rpartition('#e')[2]}")).to_be_in_viewport()


def test_a_rule_shows_its_contexts_and_warnings(console: Served, watched: Watched) -> None:
    """The page of the rule has its threshold, its riskiest contexts, and a link to each warned event."""
    page = watched.page
    page.goto(paths(console)[1])
    risk = page.locator("section", has=page.get_by_role("heading", level=2, name="Risk"))
    expect(risk).to_contain_text("a probability of at least")
    expect(risk.get_by_role("table").first).to_contain_text("%")
    risk.get_by_role("table").last.get_by_role("link").last.click()
    expect(page.get_by_role("heading", level=2, name="Risk")).to_be_visible()


def test_the_overview_counts_the_sessions_at_risk(console: Served, watched: Watched) -> None:
    """Each followed rule has the number of its warned sessions, which the store has; drift is a note."""
    page = watched.page
    with queries.reading(console.store) as db:
        query = (
            "SELECT rule, count(DISTINCT session_id || occurrence) FROM crossing"
            " WHERE level = 'up' AND NOT history GROUP BY rule"
        )
        counts = dict(db.execute(query).fetchall())
    page.goto("/")
    for rule, count in counts.items():
        row = page.locator("#rates tbody tr", has=page.get_by_role("link", name=rule, exact=True))
        shown = re.compile(rf"^{count}(\D|\d+\.\d%|$)")
        expect(row.locator("td[data-label='At risk']")).to_contain_text(shown)
    assert len(counts) > 1
    expect(page.locator(".note")).to_have_count(0)
    with queries.reading(console.store) as db:
        digest, pack, rule, session_id = db.execute(
            "SELECT json_extract(record, '$.chain'), pack, rule, session_id FROM crossing LIMIT 1"
        ).fetchone()
    key = DriftKey(digest, pack, rule, "")
    detector = DriftDetector(0, 0, 0, (0,) * 4, DetectorState(firing=True))
    with writing(console.store) as db:
        db.execute("INSERT OR REPLACE INTO fact VALUES ('drift', ?)", (encode_detectors({key: detector}),))
    page.goto("/")
    expect(page.locator(".note")).to_contain_text("come more often than the chain allows")
    page.locator(".note").get_by_role("link", name=f"{pack}/{rule}").click()
    expect(page.locator(".note")).to_contain_text("Learn the chain again.")
    page.goto(f"/sessions/{quote(session_id, safe='')}")
    risk = page.locator("section", has=page.get_by_role("heading", level=2, name="Risk"))
    expect(risk.locator(".note")).to_contain_text(f"any more for {pack}/{rule}.")
    with writing(console.store) as db:
        db.execute("DELETE FROM fact WHERE name = 'drift'")


def test_a_warning_appears_without_a_reload(console: Served, watched: Watched) -> None:
    """The overview lists it once it is in the store."""
    page = watched.page
    page.goto("/")
    expect(page.locator("#live-state")).to_have_text("Live.")
    with writing(console.store) as db:
        cursor = db.execute("SELECT * FROM crossing WHERE level = 'up' ORDER BY number DESC LIMIT 1")
        names = [column[0] for column in cursor.description if column[0] != "number"]
        row = dict(zip(["number", *names], cursor.fetchone(), strict=True)) | {
            "id": "f" * 32,
            "session_id": "warned just now",
        }
        marks = ", ".join("?" * len(names))
        query = f"INSERT INTO crossing ({', '.join(names)}) VALUES ({marks})"
        db.execute(query, tuple(row[name] for name in names))
    expect(page.locator("#live-warnings tr").first).to_contain_text("warned just now")


@pytest.mark.parametrize("width", [360, 640])
def test_risks_fit_a_phone(console: Served, watched: Watched, width: int) -> None:
    """No page is wider than the window."""
    page = watched.page
    page.set_viewport_size({"width": width, "height": 800})
    for path in ("/", *paths(console)):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(console: Served, watched: Watched, scheme: Literal["light", "dark"]) -> None:
    """No rule of axe-core is violated on pages with risks, in either theme."""
    page = watched.page
    page.emulate_media(color_scheme=scheme)
    for path in ("/", *paths(console)):
        page.goto(path)
        page.evaluate(AXE)
        found = page.evaluate("axe.run()")
        assert [each["id"] for each in found["violations"]] == [], path
