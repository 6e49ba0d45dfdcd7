"""The live feed: verdicts and the position as server-sent events, rendered by the pages' templates."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from anyio import to_thread
from sse_starlette import ServerSentEvent

from ..ingest.server.open_files import FEEDS_MAX
from . import queries
from .answer_cache import AnswerCache
from .queries import CrossingRow, Position, VerdictRow

ROWS_MAX = 20
"""The latest verdicts that the overview lists and the feed sends at a time."""
WARNINGS_MAX = 10
"""The latest warnings that a page lists, and the feed sends."""
POLL_S = 0.5


@dataclass(slots=True)
class Feeds:
    """The open feeds, at most `feeds_max`; `on_change` gets their number at each change."""

    on_change: Callable[[int], None]
    feeds_max: int = FEEDS_MAX
    open: int = 0

    @contextmanager
    def opening(self) -> Generator[None]:
        """Count a feed as open while the block runs; the caller has checked the limit."""
        self.open += 1
        self.on_change(self.open)
        try:
            yield
        finally:
            self.open -= 1
            self.on_change(self.open)


@dataclass(frozen=True, slots=True)
class FeedRenderer:
    """The templates that render the feed as HTML."""

    rows: Callable[[list[VerdictRow]], str]
    position: Callable[[Position], str]
    warnings: Callable[[list[CrossingRow]], str]


async def feed(
    store: Path,
    after: int,
    breaches: bool,
    renderer: FeedRenderer,
    answers: AnswerCache,
    wait: Callable[[], Awaitable[None]],
) -> AsyncGenerator[ServerSentEvent]:
    """Yield the verdicts after that number, the position and the warnings: those in the store, then new ones.

    With `breaches` yield violated and unmet verdicts only. The position and the latest warnings come whole
    when they change. `wait` is awaited between two polls of the store. An event's id is the number of its
    newest verdict.
    """
    version, shown, warned = None, None, list[CrossingRow]()
    # A store that cannot be read ends the feed: the browser reconnects, and pages show the error.
    with suppress(sqlite3.Error), closing(await to_thread.run_sync(queries.connect, store)) as db:
        while True:
            now = await to_thread.run_sync(queries.version, db)
            if now != version:
                new, where, is_fresh, latest = await to_thread.run_sync(_news, db, answers, after, breaches)
                # A cached answer may be older than the change: poll once more.
                version = now if is_fresh else None
                if new:
                    after = new[0].number
                    yield ServerSentEvent(renderer.rows(new), event="verdicts", id=str(after))
                if where != shown:
                    shown = where
                    yield ServerSentEvent(renderer.position(where), event="position")
                if latest != warned:
                    warned = latest
                    yield ServerSentEvent(renderer.warnings(latest), event="warnings")
            await wait()


def _news(
    db: sqlite3.Connection, answers: AnswerCache, after: int, breaches: bool
) -> tuple[list[VerdictRow], Position, bool, list[CrossingRow]]:
    """Return the new verdicts, the position, whether that is as new as they are, and the latest warnings."""
    new = queries.latest(db, ROWS_MAX, after=after, breaches=breaches)
    warned = queries.warnings(db, WARNINGS_MAX)
    return new, *answers.get("position", partial(queries.position, db)), warned
