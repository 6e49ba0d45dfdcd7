"""The console in a browser: clicked through, followed live, used from the keyboard, sent hostile text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tracline.stream.console.feed import ROWS_MAX

from ..support.console_store import EVENT, VERDICT, desk_sessions, event_row, session, user, writing
from ..support.http.alertmanager import until
from .conftest import Served, Watched, serving

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)><style>*{display:none}</style>\x1b[31m\u202e."


def add_verdicts(served: Served, count: int = 1, **changes: object) -> list[str]:
    """Copies of the latest verdict, under new ids and with these columns changed, put into the store."""
    with writing(served.store) as db:
        cursor = db.execute("SELECT * FROM verdict ORDER BY number DESC LIMIT 1")
        names = [column[0] for column in cursor.description]
        latest = dict(zip(names, cursor.fetchone(), strict=True))
        ids = [f"{latest['number'] + at:032x}" for at in range(1, count + 1)]
        for number in ids:
            row = {**latest, "verdict": "violated", **changes, "id": number}
            del row["number"]
            db.execute(VERDICT, tuple(row.values()))
    return ids


def sent_row(page: Page, rule: str) -> str:
    """Return the row of a rule's rates as the server sends it now."""
    text = page.request.get(page.url).text()
    [found] = re.findall(rf"<tr(?:(?!<tr).)*?{rule}.*?</tr>", text[text.index('id="rates"') :], re.DOTALL)
    return found


def rows(page: Page) -> int:
    """Return how many verdicts the page lists."""
    return page.locator("#live-rows tr").count()


def test_from_the_overview_to_the_event(watched: Watched) -> None:
    """Overview, rule, verdict, session: each step is a link, and the last shows the witness in its place."""
    page = watched.page
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.locator("#live-state")).to_have_text("Live.")
    row = page.locator("#live-rows tr").first
    rule = row.locator("td.rule a").inner_text()
    row.locator("td.rule a").click()
    expect(page).to_have_title(re.compile(re.escape(rule)))
    expect(page.get_by_role("heading", name="Rate over time")).to_be_visible()
    expect(page.get_by_role("img").first).to_have_attribute("aria-label", re.compile(r"of \d+ sessions"))
    page.get_by_role("table").filter(has_text="Newest first").get_by_role(
        "link", name="violated"
    ).first.click()
    expect(page.get_by_role("heading", level=2, name="Why")).to_be_visible()
    page.get_by_role("link", name=re.compile(r"^Event \d+ in session")).click()
    expect(page.get_by_role("heading", level=2, name="Events")).to_be_visible()
    seq = page.url.rpartition("#e")[2]
    event = page.locator(f"#e{seq}")
    expect(event).to_be_in_viewport()
    expect(event).to_contain_text(f"Witness of {rule}")
    expect(event).to_contain_text("violated")


def test_a_verdict_appears_without_a_reload(served: Served, watched: Watched) -> None:
    """A new session is first in the list, announced and counted; the list has a fixed length."""
    page = watched.page
    page.goto("/")
    expect(page.locator("#live-state")).to_have_text("Live.")
    page.evaluate("window.kept = true")
    before = rows(page)
    new = add_verdicts(served, session_id="brand-new")[0]
    expect(page.locator("#live-rows tr").first).to_contain_text("brand-new")
    expect(page.locator("#live-rows tr a").first).to_have_attribute("href", f"/verdicts/{new}")
    expect(page.get_by_role("status")).to_have_text(re.compile("^New: violated, "))
    expect(page.locator("#position")).to_contain_text(f"Verdicts given {int(new, 16)}", use_inner_text=True)
    assert rows(page) == min(before + 1, ROWS_MAX)
    add_verdicts(served, ROWS_MAX + 5)
    expect(page.get_by_role("status")).to_have_text(re.compile(f"^{ROWS_MAX} new verdicts; the newest: "))
    assert rows(page) == ROWS_MAX
    assert page.evaluate("window.kept")


def test_rates_follow(served: Served, watched: Watched) -> None:
    """Within ten seconds of a change the rates are those of now, and wait while the focus is in them."""
    page = watched.page
    page.clock.install()
    page.goto("/")
    expect(page.locator("#live-state")).to_have_text("Live.")
    row = page.locator("#rates tbody tr").filter(has_text="survey-once")
    before = row.locator("td.count").first.inner_text()
    sent = sent_row(page, "survey-once")
    with writing(served.store) as db:
        db.execute("UPDATE standing SET violated = applied WHERE rule = 'survey-once'")
    new = add_verdicts(served)[0]
    expect(page.locator("#position")).to_contain_text(str(int(new, 16)))
    link = row.get_by_role("link")
    link.focus()
    page.clock.run_for(11_000)
    assert row.locator("td.count").first.inner_text() == before
    # The server counts rates again after ten times as long as that took.
    until("the server sends other rates", lambda: sent_row(page, "survey-once") != sent)
    page.locator("main").focus()
    page.clock.run_for(11_000)
    expect(row.locator("td.count").first).to_have_text(row.locator("td.count").nth(1).inner_text())
    assert row.locator("td.count").first.inner_text() != before


def test_the_list_can_be_held(served: Served, watched: Watched) -> None:
    """Paused, nothing moves; going on shows what was missed."""
    page = watched.page
    page.goto("/")
    expect(page.locator("#live-state")).to_have_text("Live.")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#live-state")).to_have_text("Paused.")
    first = page.locator("#live-rows tr").first.inner_text()
    add_verdicts(served, session_id="missed")
    second_page = page.context.new_page()
    second_page.goto("/")
    expect(second_page.locator("#live-rows tr").first).to_contain_text("missed")
    assert page.locator("#live-rows tr").first.inner_text() == first
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#live-rows tr").first).to_contain_text("missed")


def test_the_first_verdict_ends_the_empty_state(served: Served, watched: Watched) -> None:
    """A page that was opened before anything was violated shows the table with the first verdict."""
    with writing(served.store) as db:
        stored = db.execute("SELECT * FROM verdict ORDER BY number LIMIT 1").fetchone()
        db.execute("DELETE FROM verdict")
    page = watched.page
    page.goto("/")
    expect(page.get_by_text("No rule was violated or unmet so far")).to_be_visible()
    expect(page.locator("#some")).to_be_hidden()
    with writing(served.store) as db:
        db.execute(VERDICT, stored[1:])
    expect(page.locator("#some")).to_be_visible()
    expect(page.get_by_text("No rule was violated or unmet so far")).to_be_hidden()
    assert rows(page) == 1


def test_the_keyboard_is_enough(watched: Watched) -> None:
    """The first stop skips to the content; every stop shows where it is; Enter follows a verdict's link."""
    page = watched.page
    page.goto("/")
    expect(page.locator("#live-state")).to_have_text("Live.")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "(e => ({outline: getComputedStyle(e).outlineStyle, href: e.getAttribute('href') || ''}))"
            "(document.activeElement)"
        )
        assert focused["outline"] == "solid"
        if focused["href"].startswith("/verdicts/"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2, name="The record")).to_be_visible()


def test_hostile_text_does_nothing(served: Served, watched: Watched) -> None:
    """Markup in messages, ids and names is read as text, in pages and in what the feed adds."""
    events = session(HOSTILE, user(HOSTILE), agent=HOSTILE)
    page = watched.page
    page.goto("/")
    expect(page.locator("#live-state")).to_have_text("Live.")
    with writing(served.store) as db:
        db.executemany(EVENT, map(event_row, events))
    add_verdicts(
        served, session_id=HOSTILE, occurrence=events[0].occurrence, agent=HOSTILE, rule=HOSTILE, pack=HOSTILE
    )
    row = page.locator("#live-rows tr").first
    expect(row.locator("td.rule")).to_contain_text("<script>alert(1)</script><img src=x")
    expect(row.locator("td.id")).to_contain_text("<script>")
    row.locator("td.id a").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(
        "<style>*{display:none}</style>U+001B[31mU+202E."
    )
    expect(page.locator("#e1 .content")).to_contain_text("<img src=x onerror=alert(2)>")
    assert page.locator("main script, main img, main style").count() == 0


def test_pages_work_without_javascript(served: Served, context: BrowserContext) -> None:
    """The overview is a whole page as it comes: the list, and how to see newer verdicts."""
    bare = context.browser.new_context(base_url=served.url, java_script_enabled=False)
    page = bare.new_page()
    page.goto("/")
    expect(page.locator("#live-state")).to_have_text("Reload the page for newer verdicts.")
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()
    assert rows(page) == ROWS_MAX
    page.locator("#live-rows td.id a").first.click()
    expect(page.get_by_role("heading", level=2, name="Events")).to_be_visible()
    bare.close()


def paths() -> list[str]:
    """A page of each kind."""
    name = desk_sessions(1)[0][0].session_id
    rule = "/rules/customer-service/authenticate-first"
    return ["/", "/rules", rule, "/sessions", f"/sessions/{name}", "/verdicts", "/dead-letters"]


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_no_page_is_wider_than_the_window(watched: Watched, width: int) -> None:
    """Nothing makes a page scroll sideways; wide tables scroll in themselves."""
    page = watched.page
    page.set_viewport_size({"width": width, "height": 800})
    for path in paths():
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_dark_and_light_follow_the_system(watched: Watched) -> None:
    """The ground is dark where the system is, and light where it is."""
    page = watched.page
    page.goto("/")
    backgrounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        backgrounds.append(sum(map(int, re.findall(r"\d+", colour))))
    light, dark = backgrounds
    assert light > 700 > 100 > dark


def test_controls_have_names(watched: Watched) -> None:
    """Every link and button has a name, every picture a text alternative, and no id occurs twice."""
    page = watched.page
    for path in paths():
        page.goto(path)
        nameless = page.evaluate(
            "[...document.querySelectorAll('a, button, summary, [role=img]')].filter("
            "e => !(e.textContent.trim() || e.getAttribute('aria-label'))).length"
        )
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert nameless == 0, path
        assert len(ids) == len(set(ids)), path


def test_a_list_is_filtered_and_the_link_can_be_sent(watched: Watched) -> None:
    """With the keyboard: choose a severity, type a text, submit; the address has both, elsewhere too."""
    page = watched.page
    page.goto("/verdicts")
    everything = page.get_by_role("table").locator("tbody tr").count()
    page.get_by_label("Severity").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_label("Text").fill("order")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("severity=critical"))
    expect(page.get_by_label("Severity")).to_have_value("critical")
    expect(page.get_by_label("Text")).to_have_value("order")
    rows = page.get_by_role("table").locator("tbody tr")
    assert 0 < rows.count() < everything
    for severity in rows.locator(".severity").all_inner_texts():
        assert severity == "critical"
    sent = page.context.new_page()
    sent.goto(page.url)
    expect(sent.get_by_label("Text")).to_have_value("order")
    assert sent.get_by_role("table").locator("tbody tr").count() == rows.count()
    page.get_by_role("link", name="Remove filters").click()
    expect(page.get_by_label("Severity")).to_have_value("")


def test_an_opened_archive_is_read_without_a_feed(filled: Path, watched: Watched) -> None:
    """From the overview to the event: no request fails, and the sentence stands at the witness."""
    with serving(filled, is_live=False) as console:
        page = watched.page
        page.goto(console.url)
        expect(page.get_by_role("heading", level=2, name="Verdicts")).to_be_visible()
        expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)
        page.locator("#live-rows").get_by_role("link", name="violated").first.click()
        broken = page.locator(".breach").inner_text()
        assert re.search(r"at event \d+ ", broken)
        page.get_by_role("link", name=re.compile(r"^Event \d+ in session")).click()
        expect(page.locator(f"#e{page.url.rpartition('#e')[2]} .breach")).to_have_text(broken)


@pytest.mark.parametrize("width", [360, 800])
def test_the_filters_fit_the_window(watched: Watched, width: int) -> None:
    """No control is wider than the window; each has a visible label."""
    page = watched.page
    page.set_viewport_size({"width": width, "height": 800})
    for path in ("/verdicts?text=order", "/sessions?agent=x"):
        page.goto(path)
        boxes = [control.bounding_box() for control in page.locator(".filters select, .filters input").all()]
        assert len(boxes) == 6
        assert all(box and box["x"] + box["width"] <= width for box in boxes)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        form = page.get_by_role("search")
        for label in ("Severity", "Verdict", "Rule", "Agent"):
            expect(form.get_by_role("combobox", name=label, exact=True)).to_be_visible()
        expect(form.get_by_role("textbox", name="Session", exact=True)).to_be_visible()
        expect(form.get_by_role("searchbox", name="Text", exact=True)).to_be_visible()


@pytest.mark.parametrize("width", [360, 1280])
def test_a_rule_is_followed_part_by_part(watched: Watched, width: int) -> None:
    """The session's page has the parts of a followed rule and their status at each event, in any window."""
    page = watched.page
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/verdicts")
    page.locator("td.id a").first.click()
    page.get_by_role("link", name=re.compile("^follow")).first.click()
    expect(page.locator(".rule-parts li").first).to_be_visible()
    parts, events = page.locator(".rule-parts li").count(), page.locator("li.event")
    statuses = (
        events.filter(has=page.locator(".part-statuses"))
        .first.locator(".part-statuses li")
        .first.locator(".part")
    )
    assert statuses.count() == parts
    expect(statuses.first).to_contain_text(re.compile("active|satisfied|inactive|violated|open"))
    page.get_by_text("The parts of the rule").press("Enter")
    expect(page.locator(".rule-parts li").first).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
