"""The live feed: verdicts and the position as server-sent events, written by the pages' own templates."""

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
from .queries import Position, VerdictRow

ROWS_MAX = 20
"""Verdicts that the overview lists and the feed sends at once, the newest."""
POLL_S = 0.5


@dataclass(slots=True)
class Feeds:
    """The open feeds, at most `feeds_max`; `on_change` is called with their number at each change."""

    on_change: Callable[[int], None]
    feeds_max: int = FEEDS_MAX
    open: int = 0

    @contextmanager
    def opening(self) -> Generator[None]:
        """A feed is open meanwhile; there must be room for one."""
        self.open += 1
        self.on_change(self.open)
        try:
            yield
        finally:
            self.open -= 1
            self.on_change(self.open)


@dataclass(frozen=True, slots=True)
class FeedRenderer:
    """How news is written as HTML."""

    rows: Callable[[list[VerdictRow]], str]
    position: Callable[[Position], str]


async def feed(
    store: Path,
    after: int,
    breaches: bool,
    writer: FeedRenderer,
    answers: AnswerCache,
    wait: Callable[[], Awaitable[None]],
) -> AsyncGenerator[ServerSentEvent]:
    """Yield what is new since the verdict of that number: at once what there is, then whatever comes.

    With `breaches` only what is violated or unmet. `wait` is awaited between two looks at the store. An
    event's id is the number of its newest verdict.
    """
    version, shown = None, None
    # A store that cannot be read ends the feed: the browser asks again, and pages say what it is.
    with suppress(sqlite3.Error), closing(await to_thread.run_sync(queries.connect, store)) as db:
        while True:
            now = await to_thread.run_sync(queries.version, db)
            if now != version:
                new, where, is_fresh = await to_thread.run_sync(_news, db, answers, after, breaches)
                # An answer that was kept may be older than the change: look once more.
                version = now if is_fresh else None
                if new:
                    after = new[0].number
                    yield ServerSentEvent(writer.rows(new), event="verdicts", id=str(after))
                if where != shown:
                    shown = where
                    yield ServerSentEvent(writer.position(where), event="position")
            await wait()


def _news(
    db: sqlite3.Connection, answers: AnswerCache, after: int, breaches: bool
) -> tuple[list[VerdictRow], Position, bool]:
    """The new verdicts, and the position: whether it is as new as they are."""
    new = queries.latest(db, ROWS_MAX, after=after, breaches=breaches)
    return new, *answers.get("position", partial(queries.position, db))
