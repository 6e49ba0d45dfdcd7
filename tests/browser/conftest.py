"""A real browser for the console: Debian's Chromium, driven by playwright; without one the tests skip."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from starlette.applications import Starlette
from tracline.rules.engine.judge import CompiledRules
from tracline.stream.console import pages
from tracline.stream.console.risks import ServedChain

from ..support.console_store import desk_sessions, fill, shipped

WAIT_S = 20.0
"""The time in seconds that a test waits for a change."""
WATCH = """
window.broken = [];
addEventListener("securitypolicyviolation", (e) => broken.push(`${e.violatedDirective}: ${e.blockedURI}`));
"""


@dataclass(frozen=True)
class Served:
    """A console that is served: its address, and the store that it shows."""

    url: str
    store: Path


class _Server(uvicorn.Server):
    """A handler that reports when it has begun."""

    def __init__(self, config: uvicorn.Config, began: threading.Event) -> None:
        super().__init__(config)
        self._began = began

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._began.set()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser."""
    path = shutil.which("chromium")
    if path is None and os.environ.get("TRACLINE_REQUIRE_BROWSER") == "1":
        pytest.fail("there is no Chromium here, and TRACLINE_REQUIRE_BROWSER asks for one")
    if path is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a day of the support desk."""
    return fill(tmp_path_factory.mktemp("desk") / "store.db", shipped(), desk_sessions(30))


@pytest.fixture
def served(tmp_path: Path, filled: Path) -> Iterator[Served]:
    """The console over a copy of that store, on a free port."""
    with serving(Path(shutil.copy(filled, tmp_path)), is_live=True) as console:
        yield console


@contextmanager
def serving(
    store: Path, *, is_live: bool, compiled: CompiledRules | None = None, chain: ServedChain | None = None
) -> Iterator[Served]:
    """Serve the console over a store on a free port while the block runs; the rules are those that ship."""
    app = Starlette(
        routes=pages.routes(store, compiled or shipped(), is_live=is_live, chain=chain),
        exception_handlers={404: lambda _request, _error: pages.missing_page()},
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        began = threading.Event()
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = _Server(config, began)
        thread = threading.Thread(target=asyncio.run, args=(server.serve([listening]),))
        thread.start()
        assert began.wait(WAIT_S)
        yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", store)
        server.should_exit = True
        thread.join(WAIT_S)
        assert not thread.is_alive()


@dataclass
class Watched:
    """A page on which nothing may go wrong."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Nothing was logged as an error, thrown, refused by the policy or asked by a dialog."""
        self.wrong += self.page.evaluate("window.broken ?? []")
        assert self.wrong == []


@pytest.fixture
def context(chromium: Browser, served: Served) -> Iterator[BrowserContext]:
    """A browser profile of its own, at the console's address."""
    context = chromium.new_context(base_url=served.url, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(WAIT_S * 1000)
    context.add_init_script(WATCH)
    yield context
    context.close()


@pytest.fixture
def watched(context: BrowserContext) -> Iterator[Watched]:
    """A page that is watched, and checked at the end of the test."""
    watched = Watched(context.new_page())
    page, wrong = watched.page, watched.wrong
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    yield watched
    watched.check()
