"""The cost of an event in a long session: `PYTHONPATH=. python benchmarks/live/continued.py [SESSIONS]`.

First the whole stage of the monitor: spans of 100, of 1,000 and of 5,000 events come in each session, and
then messages with a few further spans of each. A span repeats the messages of its own conversation alone, of
some ten events, so that all are equally long. Then judging alone, from events, once by the shipped packs, and
once without the rules that slice sessions. Prints processor time and bytes of state written, by event, and
the ratios of long sessions to the short ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import msgspec
import numpy as np
import polars as pl
from tracline.archive.chunk import RuleTexts
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.examples.desk.script import support_session
from tracline.rules.engine.judge import JUDGED_COLUMNS, CompiledRules, compile_rule_set, label_columns
from tracline.rules.incremental.carried import Carried
from tracline.rules.incremental.carry_layout import CarryLayout
from tracline.rules.incremental.continue_judging import continue_judging
from tracline.rules.labels.labelled_rows import LabelledRows
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.candidate import Candidate
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.pending import Traces, TracesStep
from tracline.schemas.sessions.span_reading import read_span
from tracline.schemas.settings import SessionSettings
from tracline.schemas.time import NS
from tracline.stream.messages.codec import CandidateBatch, encode
from tracline.stream.messages.monitor_state import encode_session
from tracline.stream.messages.record import Record
from tracline.stream.messages.session_state import JudgingState, SessionState
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.monitor import MonitorStage
from tracline.stream.stages.monitor_step import MonitorOptions
from tracline.stream.stages.schedule import MonitorState

from tests.support.conversations.agent_spans import spans
from tests.support.conversations.scripts import START_NS, later

LENGTHS = (100, 1_000, 5_000)
BATCHES, EVENTS = 150, 2
"""Batches that are measured, and events of each session in a batch."""
FIRST_EVENTS = 20
"""Events of each session in a batch before."""
BYTES_MAX = 1 << 20
LATENESS_NS = 5 * NS
SETTINGS = SessionSettings(idle_s=3_600, lateness_s=5)


def main() -> None:
    """Run the benchmark and print its table."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    packs = load_packs(shipped_packs())
    print("stage | events a session | us an event | bytes of state an event | slices | classes")
    print_ratios("monitor", measured_stage(packs, sessions))
    unsliced = replace(packs, rules=tuple(rule for rule in packs.rules if rule.for_each is None))
    for name, rule_set in (("judging", packs), ("judging without slices", unsliced)):
        print_ratios(name, measured(name, rule_set, sessions))


def print_ratios(name: str, found: list[tuple[float, float]]) -> None:
    """Print the ratios of long sessions to the shortest."""
    for length, figures in zip(LENGTHS[1:], found[1:], strict=True):
        ratios = [high / low for low, high in zip(found[0], figures, strict=True)]
        print(f"{name}: {length:,} over {LENGTHS[0]}: time {ratios[0]:.2f}, bytes {ratios[1]:.2f}")


class StageRun:
    """A monitor with a table of its own, and the spans of one session that it gets for each of its own."""

    def __init__(self, rules: RuleTexts, sessions: int, spans: Sequence[Candidate]) -> None:
        options = MonitorOptions(SETTINGS, partitions=1, bytes_max=BYTES_MAX, rules=rules)
        self.table: dict[str, bytes] = {}
        self.stage, self.state = MonitorStage(options), MonitorState(self.table)
        self.stage.restore(self.state, [0], [])
        self.names, self.spans = [f"s{number}" for number in range(sessions)], spans
        self.place = self.offset = self.events = self.written = 0

    def message(self, count: int) -> Record:
        """Return a message with the next spans of each session."""
        spans = self.spans[self.place : self.place + count]
        candidates = [msgspec.structs.replace(span, session_id=name) for name in self.names for span in spans]
        watermark = max(span.end for span in spans) - LATENESS_NS
        batch = CandidateBatch(0, 1, self.offset, watermark, candidates)
        self.place, self.offset = self.place + count, self.offset + 1
        return Record(0, self.offset, spans[0].end, encode(batch), Topic.EVENTS)

    def take(self, record: Record) -> None:
        """Step a message, and write its result."""
        result = self.stage.step(self.state, [record])
        for key, value in result.writes[0]:
            if value is None:
                del self.table[key]
            else:
                self.table[key] = value
                self.written += len(value)
        self.state.apply(result.writes)
        self.events += sum(len(message.judged.events) for message in result.metrics.messages)


def measured_stage(rule_set: RuleSet, sessions: int) -> list[tuple[float, float]]:
    """Return microseconds and bytes of state by event of the monitor's stage, for sessions of each length."""
    spans = session_spans(LENGTHS[-1] + 2 * BATCHES * EVENTS)
    runs = [StageRun(dict(rule_set.sources), sessions, spans) for _ in LENGTHS]
    for length, run in zip(LENGTHS, runs, strict=True):
        while run.events < length * sessions:
            run.take(run.message(FIRST_EVENTS))
        run.events = run.written = 0
    seconds = [list[float]() for _ in runs]
    for _ in range(BATCHES):
        for run, times in zip(runs, seconds, strict=True):
            record, events = run.message(EVENTS), run.events
            start = time.process_time()
            run.take(record)
            times.append((time.process_time() - start) / max(1, run.events - events))
    found = list[tuple[float, float]]()
    for length, run, times in zip(LENGTHS, runs, seconds, strict=True):
        found.append((median(times), run.written / run.events))
        print(f"monitor | {length:,} | {found[-1][0] * 1e6:.1f} | {found[-1][1]:,.0f} | |")
    return found


def session_spans(events: int) -> list[Candidate]:
    """Return the spans of one session of about so many events: simulated conversations one after another."""
    traces, found, claimed = TracesStep(Traces(), NS, NS), list[Candidate](), 0
    begins = START_NS
    for script in map(support_session, conversations(Desk(sessions=events, seed=1))):
        sent = spans(later(script, begins - script.lines[0].time))
        begins = max(span.end for span in sent) + NS
        for span in sent:
            traces.add(read_span(span))
        made = (released.made for released in traces.release(begins, begins + 10 * NS))
        news = [each for each in made if isinstance(each, Candidate) and each.claims]
        found += sorted(news, key=lambda candidate: candidate.end)
        claimed += len(script.lines)
        if claimed >= 2 * events:
            break
    return found


def measured(name: str, rule_set: RuleSet, sessions: int) -> list[tuple[float, float]]:
    """Return microseconds and bytes of state by event in sessions of each length.

    The lengths take turns, batch by batch, and the time is the median of all batches.
    """
    compiled = compile_rule_set(rule_set)
    layout, found = CarryLayout(compiled), list[tuple[float, float]]()
    rows = labelled(compiled, LENGTHS[-1] + BATCHES * EVENTS)
    carried: list[dict[str, Carried]] = [{} for _ in LENGTHS]
    for length, states in zip(LENGTHS, carried, strict=True):
        for begin in range(0, length, FIRST_EVENTS):
            first = batch(compiled, rows, sessions, begin, min(FIRST_EVENTS, length - begin))
            judged(layout, states, first, begin)
    seconds, written = [[0.0] * BATCHES for _ in LENGTHS], [0 for _ in LENGTHS]
    for number in range(BATCHES):
        for i, (length, states) in enumerate(zip(LENGTHS, carried, strict=True)):
            place = length + number * EVENTS
            events = batch(compiled, rows, sessions, place, EVENTS)
            start = time.process_time()
            written[i] += judged(layout, states, events, place)
            seconds[i][number] = time.process_time() - start
    for length, states, times, count in zip(LENGTHS, carried, seconds, written, strict=True):
        found.append((median(times) / (EVENTS * sessions), count / (BATCHES * EVENTS * sessions)))
        classes = next(iter(states.values())).sliced.classes.values()
        slices = sum(each.members for each in classes)
        figures = f"{found[-1][0] * 1e6:.1f} | {found[-1][1]:,.0f} | {slices:,} | {len(classes)}"
        print(f"{name} | {length:,} | {figures}")
    return found


def judged(layout: CarryLayout, carried: dict[str, Carried], rows: LabelledRows, offset: int) -> int:
    """Judge a batch, change what is carried, and return the number of bytes that a monitor writes."""
    done = continue_judging(layout, carried, rows, np.zeros(len(rows), dtype=np.int64), satisfied=False)
    written = 0
    for session, after in done.carried.items():
        assert after is not None
        carried[session] = after
        state = SessionState(SessionAssembler(session, 1), JudgingState("", 0, after))
        record, chunks, pages, _ = encode_session(state, offset, 0, BYTES_MAX)
        written += len(record) + sum(map(len, chunks)) + sum(len(page) for _, page in pages)
    return written


def labelled(compiled: CompiledRules, count: int) -> pl.DataFrame:
    """Return so many labelled events of simulated conversations, as one session."""
    events = event_frame(conversations(Desk(sessions=count // 10, seed=1)))
    rows = compiled.labeler.label(events.lazy(), keep=JUDGED_COLUMNS).collect()
    rows = rows.filter(pl.col("kind") != "end").head(count)
    assert len(rows) == count
    columns = rows.select(*JUDGED_COLUMNS, *label_columns(compiled))
    seq = pl.int_range(1, count + 1, dtype=pl.UInt32).alias("seq")
    return columns.with_columns(seq, pl.lit(0).cast(columns.schema["occurrence"]).alias("occurrence"))


def batch(compiled: CompiledRules, rows: pl.DataFrame, sessions: int, begin: int, count: int) -> LabelledRows:
    """Return some of the rows in each of the sessions."""
    part = rows.slice(begin, count)
    frame = pl.concat([part.with_columns(pl.lit(f"s{i}").alias("session_id")) for i in range(sessions)])
    return LabelledRows.of_frame(frame, compiled.labeler.words, compiled.program.keys)


if __name__ == "__main__":
    main()
