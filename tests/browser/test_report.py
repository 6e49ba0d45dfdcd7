"""The report of a bundle in a browser: from disk, in both themes, on paper, and for screen readers."""

from __future__ import annotations

from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, expect
from tracline.cli import tracline

from ..support.event_rows import PACK, call, result, session, user, write
from .conftest import WATCH

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
"""The script of axe-core."""
CONTRAST = """
() => {
  const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratios = [...document.querySelectorAll("p, li, td, th, dt, dd, a, code, svg text")].map((e) => {
    const style = getComputedStyle(e);
    let behind = e;
    const ground = () => getComputedStyle(behind).backgroundColor;
    while (behind.parentElement && ground() === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    const text = e instanceof SVGElement ? style.fill : style.color;
    const [low, high] = [text, ground()].map(light).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  });
  return Math.min(...ratios);
}
"""
"""The least contrast of any text with its background (WCAG 2, 1.4.3)."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a small archive with sessions that break rules, and clean ones."""
    folder = tmp_path_factory.mktemp("report")
    rows = session("bad", user("no!"), call("pay", "c1"), call("pay", "c1"), user("<b>well</b>"))
    rows += [row for at in range(8) for row in session(f"s{at}", user("a"), call(), result())]
    write(folder / "archive" / "events.parquet", rows)
    (folder / "desk.yaml").write_text(PACK)
    archive, pack, bundle = (str(folder / name) for name in ("archive", "desk.yaml", "bundle"))
    words = ["audit", archive, "--rules", pack, "--out", bundle, "--with-text", "-q"]
    assert CliRunner().invoke(tracline, words).exit_code == 0
    return folder / "bundle" / "report.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_from_disk_in_both_themes(chromium: Browser, report: Path, scheme: str) -> None:
    """Nothing breaks the policy; text has contrast; no window is too narrow; drawings have words."""
    page = chromium.new_page(color_scheme=scheme, viewport={"width": 360, "height": 800})
    wrong: list[str] = []
    page.add_init_script(WATCH)
    page.on("console", lambda message: wrong.append(message.text))
    page.goto(report.as_uri())
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit of 9 sessions")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')").strip()
    assert page.evaluate(CONTRAST) >= 4.5
    drawings = page.get_by_role("img")
    assert drawings.count() >= 6
    assert all(name.get_attribute("aria-label") for name in drawings.all())
    assert page.evaluate("broken") == wrong == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(chromium: Browser, report: Path, scheme: Literal["light", "dark"]) -> None:
    """No rule of axe-core is violated; it decides all but the contrast of drawn text, measured above."""
    page = chromium.new_page(color_scheme=scheme)
    page.goto(report.as_uri())
    page.evaluate(AXE)
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 20
    assert [places_of(each) for each in found["violations"]] == []
    undecided = [places_of(each) for each in found["incomplete"]]
    assert [rule for rule, _ in undecided] == ["color-contrast"]
    assert all(place.startswith("<text ") for _, places in undecided for place in places)
    page.close()


def test_axe_finds_a_fault(chromium: Browser, report: Path) -> None:
    """The check runs in the page: without its language the page has exactly that fault."""
    page = chromium.new_page()
    page.goto(report.as_uri())
    page.evaluate(AXE)
    page.evaluate("document.documentElement.removeAttribute('lang')")
    assert [each["id"] for each in page.evaluate("axe.run()")["violations"]] == ["html-has-lang"]
    page.close()


def places_of(finding: dict) -> tuple[str, list[str]]:
    """Return the rule of a finding of axe-core, and its elements."""
    return finding["id"], [node["html"][:200] for node in finding["nodes"]]


def test_the_keyboard_reaches_every_section(chromium: Browser, report: Path) -> None:
    """The first links lead to the sections; tables that scroll can be focused."""
    page = chromium.new_page()
    page.goto(report.as_uri())
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="What was audited")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#found")
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((e) => Number(e.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))
    page.close()


def test_the_report_prints(chromium: Browser, report: Path) -> None:
    """On paper the page is light, and without its links to sections."""
    page = chromium.new_page(color_scheme="dark")
    page.goto(report.as_uri())
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation")).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(CONTRAST) >= 4.5
    assert page.pdf().startswith(b"%PDF")
    page.close()
