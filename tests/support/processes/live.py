"""The pipeline of `tracline serve` in this process: a real store and archive, and a clock that is written.

Spans come as they would: each some time after it ended, in requests that mix sessions, some of them twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import orjson
import polars as pl
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.cli.commands.live.serve import serve_archive
from tracline.predict.following.followed_chain import FollowedChain
from tracline.rules.engine.judge import CompiledRules
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs
from tracline.schemas.event import Kind
from tracline.schemas.otlp.signal import Signal
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding, ExportRequest, decode, read
from tracline.stream.serve.archiving import ArchiveSink, StoreIntervals
from tracline.stream.serve.changes import StoreChanges
from tracline.stream.serve.pipeline import Pipeline, PipelineRuntime
from tracline.stream.serve.rows import frame_of
from tracline.stream.serve.store import Store, open_store
from tracline.stream.stages.judge import SessionJudge
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ..evidence.bundle_lines import bundle_lines
from ..otlp_requests import to_otlp, to_otlp_json
from ..truth.conversations import Place, PlayedSession

IDLE_S = 3_600
SETTINGS = SessionSettings(lateness_s=120, hold_s=4 * IDLE_S, idle_s=IDLE_S, tick_s=1, skew_s=60)
UNDERWAY_S = 60
"""The time that a span may be underway after its end; half the lateness, for clocks that are wrong, too."""
TOGETHER_S = 10
"""The time that spans wait for others sent with them, and requests for others of their round."""
AGAIN_S = 900
"""The most seconds after which a span may come a second time."""
STORE_ID = "5e1f" * 16


@dataclass(frozen=True)
class Sent:
    """A request, and when it comes."""

    time: int
    body: bytes
    encoding: Encoding
    signal: Signal = Signal.SPANS

    @property
    def request(self) -> ExportRequest:
        """Return what a receiver makes of it."""
        content = read(self.body, self.encoding, self.signal, self.time)
        return ExportRequest(self.body, self.encoding, content, self.time, self.signal)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Return its spans."""
        return decode(self.body, self.encoding, self.signal).spans


def wire(spans: Sequence[Span], encoding: Encoding) -> bytes:
    """A request of these spans."""
    request = to_otlp(spans)
    if encoding is Encoding.JSON:
        return orjson.dumps(to_otlp_json(request))
    return request.SerializeToString()


def arriving(played: Iterable[PlayedSession], random: Random, again: float) -> list[tuple[int, Span]]:
    """The spans of conversations in the order in which they come, with the times; a share comes twice."""
    coming: list[tuple[int, Span]] = []
    for session_played in played:
        for span in session_played.spans:
            ended = max(span.start, span.end)
            coming.append((ended + random.randrange(UNDERWAY_S * NS), span))
            if random.random() < again:
                coming.append((ended + random.randrange(AGAIN_S * NS), span))
    return sorted(coming, key=lambda session_played: session_played[0])


def schedule(
    played: Iterable[PlayedSession], random: Random, again: float = 0.1, most: int = 20
) -> list[Sent]:
    """The spans of conversations as requests, in the order in which they come."""
    made: list[Sent] = []
    for time, batch in _together(arriving(played, random, again), random, most):
        spans = [span for _, span in batch]
        random.shuffle(spans)
        encoding = random.choice(list(Encoding))
        made.append(Sent(time, wire(spans, encoding), encoding))
    return made


def _together(timed: list, random: Random, most: int) -> Iterator[tuple[int, list]]:
    """Neighbours, at most so many, that wait `TOGETHER_S` at most for each other; with the last's time."""
    first = 0
    while first < len(timed):
        last = first + random.randint(1, most)
        until = timed[first][0] + TOGETHER_S * NS
        batch = [timed_span for timed_span in timed[first:last] if timed_span[0] <= until]
        yield batch[-1][0], batch
        first += len(batch)


@dataclass
class Live:
    """A pipeline over the store in `folder`, the time (ns since the epoch), and the batches it wrote.

    `archived_by` may put something before the archive, `chain` follows risks, and `is_compiled` returns that
    its loops are compiled.
    """

    folder: Path
    compiled: CompiledRules
    settings: SessionSettings = SETTINGS
    now: int = 0
    batches: list[StoreChanges] = field(default_factory=list)
    free_bytes: int = 1 << 40
    chain: FollowedChain | None = None
    archived_by: Callable[[ArchiveSink], ArchiveSink] = lambda archive: archive
    is_compiled: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Begin as a process that starts does."""
        self.opened = ExitStack()
        self.store: Store = self.opened.enter_context(closing(open_store(self.folder / "state", STORE_ID)))
        runtime = PipelineRuntime(
            now=lambda: self.now,
            free_bytes=lambda: self.free_bytes,
            archive=self.archived_by(
                self.opened.enter_context(serve_archive(self.folder / "archive", STORE_ID))
            ),
            on_commit=self.batches.append,
            is_compiled=self.is_compiled,
        )
        self.pipeline = Pipeline(
            self.store,
            SessionJudge(RuleSetJudge(self.compiled, chain=self.chain)),
            self.settings,
            runtime,
            StoreIntervals(archive_s=600),
        )
        self.pipeline.begin()

    def restart(self) -> None:
        """End as a process that is killed does, and begin again."""
        self.close()
        self.open()

    def close(self) -> None:
        """Leave store and archive to others."""
        self.opened.close()

    def send(self, *sent: Sent) -> None:
        """Take requests, all in one round; each must be taken."""
        asyncio.run(self.take([message.request for message in sent]))

    async def take(self, requests: Sequence[ExportRequest]) -> None:
        """Take requests in one round. Raises Busy where one of them is not taken."""
        waiting = [asyncio.ensure_future(self.pipeline.put(request)) for request in requests]
        await asyncio.sleep(0)
        self.pipeline.turn()
        await asyncio.gather(*waiting)

    def tick(self, seconds: float) -> None:
        """Let time pass in which nothing comes."""
        self.now += round(seconds * NS)
        self.pipeline.turn()

    def play(self, sent: Iterable[Sent], random: Random, *, restarts: bool = False) -> None:
        """Let requests come at their times, a few of them together; with restarts, restart after each."""
        timed = [(message.time, message) for message in sent]
        for time, batch in _together(timed, random, 4):
            while self.now and self.now < time - 30 * NS and random.random() < 0.7:
                self.tick(random.uniform(1, 30))
            self.now = max(self.now, time)
            self.send(*(message for _, message in batch))
            if restarts:
                self.restart()

    def finish(self) -> None:
        """Let every session close, and all be archived."""
        self.tick(2 * IDLE_S + SETTINGS.hold_s)
        self.tick(2 * IDLE_S + SETTINGS.hold_s)
        self.pipeline.archive()

    @property
    def watermark(self) -> int:
        """The time up to which everything is judged, as the store has it."""
        return int(self.store.fact("watermark") or 0)

    @property
    def records(self) -> dict[str, dict]:
        """The records of all verdicts given, by id."""
        rows = [row for batch in self.batches for row in batch.verdicts]
        records = {str(row[0]): orjson.loads(row[-1]) for row in rows}
        assert len(records) == len(rows), "a verdict was given twice"
        return records

    @property
    def events(self) -> pl.DataFrame:
        """All judged events and `end` rows, in the order in which they were judged."""
        return frame_of([row for _, row in self.store.events(0, 1_000_000)])


def places_of(events: pl.DataFrame) -> Counter[Place]:
    """Return where the rows of an event frame stand, without `end` rows."""
    rows = events.filter(pl.col("kind") != Kind.END.value).select(
        "session_id", pl.col("occurrence").to_physical(), "seq", "event_id"
    )
    return Counter(rows.iter_rows())


def audited(
    source: Path,
    pack: Path | Sequence[str],
    out: Path,
    as_of: int | None = None,
    chain: Callable[[RuleSet], FollowedChain | None] = lambda _: None,
) -> dict[str, dict]:
    """Return the records of an audit by id; it must reject nothing. `chain` follows the rules' risks."""
    rules, options = load_packs(pack), AuditOptions(idle_s=IDLE_S, as_of=as_of)
    outcome = audit(source, rules, out, options, chain=chain(rules))
    assert not outcome.population.rejected.total()
    return {record["id"]: record for record in bundle_lines(out)}
