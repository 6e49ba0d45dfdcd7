"""`make pictures`: the pictures of the README, of the demo's report and of the console over its archive."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import quote

from playwright.sync_api import Browser, sync_playwright

from ..support.evidence.bundle_lines import bundle_lines

TRACLINE = Path(sys.executable).with_name("tracline")
FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
PACKS = ("customer-service", "privacy", "tool-hygiene")
RULE = "customer-service/authenticate-first"
"""The rule that the console follows."""
WIDTH = 1000
HEIGHTS = {"report": 900, "timeline": 500, "console": 620}
BYTES_MAX = 200_000
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main() -> None:
    """Make the demo, take its pictures in both themes, and write them to the folder."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        demo = Path(folder) / "demo"
        subprocess.run([TRACLINE, "demo", "--out", demo, "--quiet"], check=True)
        report = (demo / "bundle" / "report.html").as_uri()
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--hide-scrollbars"]
        )
        with opened(demo / "archive") as console:
            for theme in THEMES:
                take(browser, report, "report", theme)
                take(browser, f"{report}#worst", "timeline", theme)
                take(browser, console + followed_session(demo / "bundle"), "console", theme)
        browser.close()


@contextmanager
def opened(archive: Path) -> Iterator[str]:
    """Show an archive in the console while the block runs, and yield its address."""
    words = [TRACLINE, "serve", "--open", archive, "--rules", *PACKS, "--port", "14318"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = (line for line in process.stderr if line.startswith("console on "))
        yield next(lines).removeprefix("console on ").strip()
        process.terminate()


def followed_session(bundle: Path) -> str:
    """Return the path of the page that follows the rule through the shortest session that breaks it."""
    found = [each for each in bundle_lines(bundle) if f"{each['pack']}/{each['rule']}" == RULE]
    least = min(found, key=lambda each: (each["seq"], each["session_id"]))
    query = f"occurrence={quote(least['occurrence'])}&verdict={least['id']}&rule={RULE}"
    return f"/sessions/{least['session_id']}?{query}#e{max(1, least['seq'] - 2)}"


def take(browser: Browser, address: str, name: str, theme: Literal["light", "dark"]) -> None:
    """Write a picture of the page from its anchor on."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHTS[name]}, color_scheme=theme)
    page.goto(address)
    file = FOLDER / f"{name}-{theme}.png"
    page.screenshot(path=file)
    page.close()
    size = file.stat().st_size
    assert size < BYTES_MAX, f"{file.name} has {size:,} bytes"
    print(f"{file.relative_to(FOLDER.parents[1])}: {size:,} bytes")


if __name__ == "__main__":
    main()
