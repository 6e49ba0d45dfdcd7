"""The cost of an event in a long session of `serve`: `PYTHONPATH=. python benchmarks/live/long_serve.py`.

Sessions of 100, of 1,000 and of 5,000 events go on, each in a pipeline with a store of its own: requests come
with a few further spans of each session. A span repeats the messages of its own conversation alone, of some
ten events, so that all are equally long. Prints processor time and bytes of state written, by event, and the
ratios of long sessions to the short ones. The first argument is the number of sessions.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.script import support_session
from tracline.rules.engine.judge import CompiledRules, compile_rule_set
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.dialects.names import opentelemetry_1_41 as otel
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding, ExportRequest
from tracline.stream.serve.changes import StoreChanges
from tracline.stream.serve.pipeline import Pipeline, PipelineRuntime
from tracline.stream.serve.store import open_store
from tracline.stream.stages.judge import SessionJudge
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from tests.support.conversations.agent_spans import spans
from tests.support.conversations.scripts import START_NS, later
from tests.support.otlp_requests import to_otlp

LENGTHS = (100, 1_000, 5_000)
ROUNDS, SPANS = 60, 4
"""Rounds that are measured, and spans of each session in a round."""
FIRST_SPANS = 40
"""Spans of each session in a round before."""
SETTINGS = SessionSettings(idle_s=86_400, lateness_s=5)


class Run:
    """A pipeline with a store of its own, to which the spans of a session come as those of each session."""

    def __init__(self, folder: Path, compiled: CompiledRules, sessions: int, every: Sequence[Span]) -> None:
        archive: Any = None
        runtime = PipelineRuntime(lambda: self.now, lambda: 1 << 40, archive, self.count)
        self.store, self.now, self.place, self.events, self.written = open_store(folder, "run"), 1, 0, 0, 0
        judge = SessionJudge(RuleSetJudge(compiled))
        self.pipeline = Pipeline(self.store, judge, SETTINGS, runtime)
        self.names, self.spans = [f"s{number}" for number in range(sessions)], every

    def count(self, batch: StoreChanges) -> None:
        """Count the events and the bytes of state of a commit."""
        self.events += len(batch.events)
        for row in filter(None, batch.sessions.values()):
            self.written += len(row.state) + len(row.pages) + sum(len(page) for _, page in row.new)
        self.written += sum(len(row.data or b"") for row in batch.traces.values())

    def take(self, count: int) -> None:
        """Work on a request with the next spans of each session."""
        chosen = self.spans[self.place : self.place + count]
        self.place, self.now = self.place + count, max(span.end for span in chosen)
        sent = [span_of(span, number, name) for number, name in enumerate(self.names) for span in chosen]
        body = to_otlp(sent).SerializeToString()
        self.store.accept([ExportRequest(body, Encoding.PROTOBUF, Decoded(), self.now)])
        self.pipeline.begin()


def main() -> None:
    """Run the benchmark and print its table."""
    # As the command does.
    gc.set_threshold(100_000)
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    compiled = compile_rule_set(load_packs(shipped_packs()))
    every = list(session_spans(2 * LENGTHS[-1]))
    with tempfile.TemporaryDirectory() as folder:
        runs = [Run(Path(folder) / str(length), compiled, sessions, every) for length in LENGTHS]
        found = measured(runs, sessions)
        for run in runs:
            run.store.close()
    for length, (seconds, written) in zip(LENGTHS, found, strict=True):
        print(f"{length:,} events: {seconds * 1e6:.0f} us and {written:,.0f} bytes of state an event")
    for length, figures in zip(LENGTHS[1:], found[1:], strict=True):
        ratios = [high / low for low, high in zip(found[0], figures, strict=True)]
        print(f"{length:,} over {LENGTHS[0]}: time {ratios[0]:.2f}, bytes {ratios[1]:.2f}")


def measured(runs: Sequence[Run], sessions: int) -> list[tuple[float, float]]:
    """Return seconds and bytes of state by event of each run; the runs take turns."""
    for length, run in zip(LENGTHS, runs, strict=True):
        while run.events < length * sessions:
            run.take(FIRST_SPANS)
        run.events = run.written = 0
    seconds = [list[float]() for _ in runs]
    for _ in range(ROUNDS):
        for run, times in zip(runs, seconds, strict=True):
            events, start = run.events, time.process_time()
            run.take(SPANS)
            times.append((time.process_time() - start) / max(1, run.events - events))
    pairs = zip(runs, seconds, strict=True)
    return [(median(times), run.written / run.events) for run, times in pairs]


def session_spans(events: int) -> Iterator[Span]:
    """Yield the spans of one session with so many events: simulated conversations one after another."""
    begins, claimed = START_NS, 0
    for script in map(support_session, conversations(Desk(sessions=events, seed=1))):
        sent = sorted(spans(later(script, begins - script.lines[0].time)), key=lambda span: span.end)
        begins = sent[-1].end + NS
        yield from sent
        claimed += len(script.lines)
        if claimed >= events:
            return


def span_of(span: Span, number: int, session_id: str) -> Span:
    """Return a span as that of another session."""
    trace_id = f"{number + 1:08x}{span.trace_id[8:]}"
    attributes = {**span.attributes, otel.CONVERSATION: session_id}
    return msgspec.structs.replace(span, trace_id=trace_id, attributes=attributes)


if __name__ == "__main__":
    main()
