"""The cost of both stages by script, length and dialect: `PYTHONPATH=. python benchmarks/live/figures.py`.

The stages of `stages.py` take conversations in texts of four scripts, sessions of 10 to 5,000 events, and the
support desk in each dialect. The rival of `benchmarks/kafka/rival.py` takes the same bytes in the same
process, with a message for each span and its session's state written after each, both as JSON, as its Faust
program has them, but without Faust and Kafka. It reads GenAI spans only, and must find the violations that
the stages find, by rule and session; those at other events are counted. Prints for each load the bytes of a
span, microseconds of processor time a span of bare parsing with upb, of rekeying, of the monitor and of the
rival, and ratios: the stages over parsing, and the rival over the stages, by processor time and by the clock.
The figures are medians of polls. The first argument is the number of spans, the rest select loads by the
beginnings of their names.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from statistics import median

import orjson
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.schemas.verdict import Verdict
from tracline.stream.messages.codec import decode_verdicts
from tracline.stream.messages.record import Output
from tracline.stream.messages.topics import Topic

from benchmarks.desk_spans import desk_spans, moved, traces
from benchmarks.kafka.rival import Rival, new_state, spans_of
from benchmarks.live.long_serve import session_spans, span_of
from benchmarks.live.stages import WARM, Load, concurrent, polls
from benchmarks.walk import SCRIPTS, conversation
from tests.support.conversations.span_plan import Dialect, Manner
from tests.support.otlp_requests import to_otlp

SPANS = 8_000
TURNS, CONVERSATIONS = 5, 60
"""Turns of a conversation in a script, and concurrent conversations."""
LENGTHS = {10: 60, 100: 60, 1_000: 20, 5_000: 6}
"""Concurrent sessions, by their events."""
MEASURED = 8
"""Polls that are measured: the last ones before the end, in which long sessions are long."""

Violation = tuple[str, str, str, int]
"""Pack, rule, session and the event's place in it."""


class Watch:
    """The rival, which judges the bodies of each poll. `found` and `expected` are the violations."""

    def __init__(self, load: Load, rules: RuleSet, *, is_read: bool) -> None:
        self.load, self.is_read = load, is_read
        self.rival, self.states = Rival(rules), dict[str, dict]()
        self.found, self.expected = Counter[Violation](), Counter[Violation]()

    def __call__(self, bodies: Sequence[bytes], outputs: Sequence[Output]) -> None:
        """Let the rival judge, if it reads the dialect, and count what the stages found."""
        if self.is_read:
            self.found.update(self.load.timed("rival", lambda: list(self._violations(bodies))))
        for output in outputs:
            if output.topic is Topic.VERDICTS and output.value is not None:
                for verdict in decode_verdicts(output.value).verdicts:
                    if verdict.verdict is Verdict.VIOLATED:
                        self.expected[verdict.pack, verdict.rule, verdict.session_id, verdict.seq] += 1

    def check(self) -> None:
        """Raise SystemExit unless rival and stages find the same violations by rule and session.

        Print how many are at other events: a greeting that a session's later conversation repeats is an event
        for the rival, and history for the stages.
        """
        more, missing = (self.found - self.expected).total(), (self.expected - self.found).total()
        if _by_session(self.found) != _by_session(self.expected):
            raise SystemExit(f"{self.load.name}: the rival finds {more} more violations, and {missing} not")
        if more:
            print(f"  {more:,} of {self.found.total():,} violations at other events")

    def _violations(self, bodies: Sequence[bytes]) -> Iterator[Violation]:
        for body in bodies:
            for session, sent in spans_of(body):
                span = orjson.loads(orjson.dumps(sent))
                state = self.states.setdefault(session, new_state())
                for violation in self.rival.judge(state, span):
                    yield violation["pack"], violation["rule"], session, violation["seq"]
                orjson.dumps(state)


def _by_session(found: Counter[Violation]) -> Counter[tuple[str, ...]]:
    by_session = Counter[tuple[str, ...]]()
    for place, number in found.items():
        by_session[place[:3]] += number
    return by_session


def main() -> None:
    """Run the benchmark and print its table."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else SPANS
    rules = load_packs(shipped_packs())
    gc.set_threshold(100_000, 50, 50)
    print(
        "load | bytes a span | parsing, us | rekey | monitor | of parsing | rival | over both | by the clock"
    )
    for load, is_read in loads(wanted):
        if not load.name.startswith(tuple(sys.argv[2:]) or ""):
            continue
        load.watch = watch = Watch(load, rules, is_read=is_read)
        gc.collect()
        for _ in polls(load, dict(rules.sources), None):
            pass
        print(line(load), flush=True)
        if is_read:
            watch.check()


def loads(wanted: int) -> Iterator[tuple[Load, bool]]:
    """Yield the loads, of about so many spans or of sessions that are long enough; is the dialect GenAI?"""
    for script, text in SCRIPTS.items():
        made = list(concurrent(conversation(TURNS, text), CONVERSATIONS, wanted))
        yield Load(script, ended(made)), True
    for length, at_once in LENGTHS.items():
        yield Load(f"{length:,} events", ended(list(long_sessions(length, at_once, wanted)))), True
    for dialect in Dialect:
        made = traces(desk_spans(wanted, manner=Manner(dialect=dialect)))
        yield Load(f"desk in {dialect}", ended(made)), dialect is Dialect.GENAI


def long_sessions(length: int, at_once: int, wanted: int) -> Iterator[Sequence[Span]]:
    """Yield the traces of sessions of so many events, so many at once, and at least `wanted` spans."""
    every = list(session_spans(length))
    last = every[-1].end - every[0].start
    numbers, sent = count(), 0
    while sent < wanted:
        begins = sent // len(every) // at_once * (last + NS)
        names = [next(numbers) for _ in range(at_once)]
        for trace in traces(list(moved(every, begins))):
            for number in names:
                yield [span_of(span, number, f"s{number}") for span in trace]
        sent += at_once * len(every)


def ended(made: Sequence[Sequence[Span]]) -> list[Sequence[Span]]:
    """Return the traces, and a later span of no session, so that the monitor waits for no span before it."""
    at = max(span.end for trace in made for span in trace) + 60 * NS
    return [*made, [Span(trace_id="f" * 32, span_id="f" * 16, parent_id=None, name="late", start=at, end=at)]]


def line(load: Load) -> str:
    """Return the line of a load."""
    processor, clock = (
        {
            part: median(times[max(WARM, len(times) - 1 - MEASURED) : -1]) * 1e6
            for part, times in found.items()
        }
        for found in (load.seconds, load.clock)
    )
    sizes = [len(to_otlp(trace).SerializeToString()) for trace in load.requests]
    cells = [load.name, f"{sum(sizes) / sum(map(len, load.requests)):,.0f}", f"{processor['parse']:.2f}"]
    cells += [f"{processor[part]:.0f}" for part in ("rekey", "monitor")]
    both, by_clock = (times["rekey"] + times["monitor"] for times in (processor, clock))
    cells.append(f"{both / processor['parse']:.0f}x")
    if "rival" in processor:
        cells += [f"{processor['rival']:.0f}", f"{processor['rival'] / both:.1f}x"]
        cells.append(f"{clock['rival'] / by_clock:.1f}x")
    return " | ".join(cells)


if __name__ == "__main__":
    main()
