"""The cost of both stages of the pipeline: `PYTHONPATH=. python benchmarks/live/stages.py [SPANS]`.

The sources of a rekeyer and then the stage of a monitor take simulated spans in one process, without Kafka:
those of the support desk, and conversations of 5 and of 60 turns whose calls repeat their history. Prints
microseconds of processor time a span, how many times the parsing of the same bytes with upb this is, and the
share of candidates that the rekeyer's compiled loops make. The loads take turns, and the figures are medians
of the polls. With `--profile LOAD` it prints the profile of both stages with that load.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeVar

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.archive.chunk import RuleTexts
from tracline.examples.desk.script import Script
from tracline.predict.following.loaded_chains import LoadedChains
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.messages.record import Output, Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.monitor import MonitorStage
from tracline.stream.stages.monitor_step import MonitorOptions
from tracline.stream.stages.schedule import MonitorState

from benchmarks.desk_spans import desk_spans, traces
from benchmarks.walk import SCRIPTS, conversation
from tests.support.conversations.agent_spans import spans
from tests.support.conversations.keyed import Rekeyer
from tests.support.conversations.scripts import later
from tests.support.otlp_requests import to_otlp

SPANS = 6_000
POLL = 200
"""Messages of a poll; each is a trace."""
WARM = 3
"""Polls before the measurement."""
BYTES_MAX = 1 << 20
SETTINGS = SessionSettings(idle_s=3_600, lateness_s=5)
CONVERSATIONS = {5: 60, 60: 8}
"""The number of concurrent conversations, by their turns."""

Result = TypeVar("Result")


@dataclass
class Load:
    """The requests of a load, and what its polls cost: seconds a span of processor and by the clock, by part.

    `plain` of the candidates are of plain traces, which compiled loops resolve.
    `watch` gets the bodies of each poll and what the monitor sends; its time is that of no part.
    """

    name: str
    requests: Sequence[Sequence[Span]]
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    clock: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    count: int = 0
    candidates: int = 0
    plain: int = 0
    watch: Callable[[Sequence[bytes], Sequence[Output]], None] | None = None

    def timed(self, part: str, run: Callable[[], Result]) -> Result:
        """Run a part of a poll, and note what it costs a span."""
        begun, clock = time.process_time(), time.perf_counter()
        result = run()
        self.seconds.setdefault(part, []).append((time.process_time() - begun) / self.count)
        self.clock.setdefault(part, []).append((time.perf_counter() - clock) / self.count)
        return result


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("spans", type=int, nargs="?", default=SPANS)
    parser.add_argument("--profile", metavar="LOAD")
    parser.add_argument("--sort", default="tottime")
    parser.add_argument("--callers")
    options = parser.parse_args()
    rules: RuleTexts = dict(load_packs(shipped_packs()).sources)
    every = list(loads(options.spans))
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    profiler = cProfile.Profile() if options.profile else None
    chosen = [load for load in every if options.profile in (None, load.name)]
    running = [polls(load, rules, profiler) for load in chosen]
    while running:
        running = [each for each in running if next(each, False)]
    if profiler is None:
        for load in every:
            print_load(load)
    else:
        pstats.Stats(profiler).sort_stats(options.sort).print_stats(70)
        if options.callers:
            pstats.Stats(profiler).sort_stats(options.sort).print_callers(options.callers)


def loads(count: int) -> Iterator[Load]:
    """Yield the loads, of about so many spans each."""
    yield Load("desk", traces(desk_spans(count)))
    for turns, at_once in CONVERSATIONS.items():
        script = conversation(turns, SCRIPTS["Latin"])
        yield Load(f"{turns} turns", list(concurrent(script, at_once, count)))


def concurrent(script: Script, at_once: int, count: int) -> Iterator[Sequence[Span]]:
    """Yield the traces of copies of a conversation, so many at a time and about so many spans in all."""
    number = sent = begins = 0
    while sent < count:
        copies: list[list[list[Span]]] = []
        for place in range(at_once):
            session = later(replace(script, session_id=f"s{number}"), begins + place * NS // at_once)
            copies.append(traces(spans(session)))
            number += 1
        made = [trace for chats in zip(*copies, strict=True) for trace in chats]
        begins = max(span.end for trace in made for span in trace) - script.lines[0].time + NS
        sent += sum(map(len, made))
        yield from made


def polls(
    load: Load,
    rules: RuleTexts,
    profiler: cProfile.Profile | None = None,
    chains: LoadedChains | None = None,
) -> Iterator[bool]:
    """Take a poll at each step; the only chain follows the sessions, if there is one."""
    rekeyer, table = Rekeyer(SETTINGS, BYTES_MAX, sources=1, partitions=1), dict[str, bytes]()
    rekeyer.assign(0, {})
    chain = next(iter(chains.digests), None) if chains else None
    options = MonitorOptions(SETTINGS, partitions=1, bytes_max=BYTES_MAX, rules=rules, chain=chain)
    stage = MonitorStage(options, chains)
    state, offset = MonitorState(table), 0
    stage.restore(state, [0], [])
    for begin in range(0, len(load.requests), POLL):
        made = load.requests[begin : begin + POLL]
        load.count = sum(map(len, made))
        bodies = [to_otlp(trace).SerializeToString() for trace in made]
        load.timed("parse", lambda bodies=bodies: [TracesData.FromString(body) for body in bodies])
        records = [
            Record(0, begin + place, max(span.end for span in trace), body)
            for place, (trace, body) in enumerate(zip(made, bodies, strict=True))
        ]
        with profiled(profiler if begin >= WARM * POLL else None):
            rekeyed = load.timed("rekey", lambda records=records: rekeyer.take(records))
        load.candidates += rekeyed.metrics.candidates
        load.plain += rekeyed.metrics.plain
        events = list(events_of(rekeyed.outputs, offset, records[-1].time))
        offset += len(events)
        with profiled(profiler if begin >= WARM * POLL else None):
            result = load.timed("monitor", lambda events=events: stage.step(state, events))
        for key, value in result.writes.get(0, ()):
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        state.apply(result.writes)
        if load.watch is not None:
            load.watch(bodies, result.outputs)
        yield True


@contextmanager
def profiled(profiler: cProfile.Profile | None) -> Generator[None]:
    """Profile the block, if there is a profiler."""
    if profiler is not None:
        profiler.enable()
    yield
    if profiler is not None:
        profiler.disable()


def events_of(outputs: Iterable[Output], offset: int, at: int) -> Iterator[Record]:
    """Yield the records that a monitor reads."""
    values = (output.value for output in outputs if output.topic is Topic.EVENTS)
    for place, value in enumerate(values):
        assert value is not None
        yield Record(0, offset + place, at, value, Topic.EVENTS)


def print_load(load: Load) -> None:
    """Print the medians of a load, and their ratios to parsing."""
    measured = load.requests[WARM * POLL :]
    sizes = [len(to_otlp(trace).SerializeToString()) for trace in measured]
    size = sum(sizes) / sum(map(len, measured))
    parse, *parts = [median(each[WARM:]) * 1e6 for each in load.seconds.values()]
    names = [*load.seconds][1:]
    shown = [f"{name} {us:.0f} us ({us / parse:.0f}x)" for name, us in zip(names, parts, strict=True)]
    share = f"{load.plain / load.candidates:.1%} of candidates of plain traces"
    print(f"{load.name}: {size:,.0f} bytes a span, parsing {parse:.2f} us, {', '.join(shown)}, {share}")


if __name__ == "__main__":
    main()
