"""The cost of a call that judges live events: `PYTHONPATH=. python benchmarks/live/judge_calls.py [CALLS]`.

Judges simulated conversations of the support desk by the shipped packs, 50 at a time, as a monitor does: the
events of all of them in the order of their times, 3, 150, 500 or 1,500 in a call, four in a message, each
from the state that the call before left. Prints microseconds of processor time an event, and what part of
them the labels, and the kernel with its records and state take. The sizes take turns, and
the figures are medians of the calls. With `--profile SIZE` it prints the profile of calls of that size.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from statistics import median
from typing import Any

import msgspec
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import events
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.event import Event
from tracline.schemas.time import NS
from tracline.stream.messages.session_state import JudgingState
from tracline.stream.stages import rule_set_judge
from tracline.stream.stages.rule_set_judge import RuleSetJudge

SIZES = (3, 150, 500, 1_500)
"""Events in a call."""
MESSAGE_EVENTS = 4
"""Events in a message."""
AT_ONCE = 50
"""The number of concurrent conversations."""
PARTS = {"labels": "label_rows", "kernel, records, state": "continue_judging"}
"""The parts of a call, by the names of the functions."""


@dataclass
class Calls:
    """Calls of one size: the sessions, the events to come, and the seconds of each call and of its parts."""

    size: int
    coming: Iterator[Event]
    states: dict[str, JudgingState] = field(default_factory=dict[str, JudgingState])
    seconds: list[float] = field(default_factory=list[float])
    parts: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PARTS})

    def call(self, judge: RuleSetJudge) -> float:
        """Judge the next events, and return the seconds of processor time."""
        batch = list(islice(self.coming, self.size))
        assert len(batch) == self.size, "the simulated conversations are exhausted"
        fresh = JudgingState(judge.key, 0, None)
        states = {event.session_id: self.states.get(event.session_id, fresh) for event in batch}
        messages = [batch[begin : begin + MESSAGE_EVENTS] for begin in range(0, self.size, MESSAGE_EVENTS)]
        start = time.process_time()
        judged = judge.judge(states, messages)
        seconds = time.process_time() - start
        self.states.update(judged.states)
        return seconds


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("calls", type=int, nargs="?", default=40)
    parser.add_argument("--profile", type=int)
    parser.add_argument("--sort", default="tottime")
    options = parser.parse_args()
    compiled = compile_rule_set(load_packs(shipped_packs()))
    judge = RuleSetJudge(compiled)
    if options.profile:
        profile(judge, options.profile, options.calls, options.sort)
        return
    spent = measured_parts(compiled.labeler)
    every = [Calls(size, desk_events(options.calls + 5)) for size in SIZES]
    for number in range(options.calls + 5):
        for calls in every:
            spent.clear()
            seconds = calls.call(judge)
            if number >= 5:
                calls.seconds.append(seconds)
                for name, found in calls.parts.items():
                    found.append(spent.get(name, 0.0))
    print("events a call | ms a call | us an event | " + " | ".join(PARTS))
    for calls in every:
        parts = [f"{median(found) / calls.size * 1e6:.1f}" for found in calls.parts.values()]
        each = median(calls.seconds)
        print(f"{calls.size:,} | {each * 1e3:.1f} | {each / calls.size * 1e6:.1f} | {' | '.join(parts)}")


def profile(judge: RuleSetJudge, size: int, count: int, order: str) -> None:
    """Print where calls of one size spend their processor time."""
    calls, profiler = Calls(size, desk_events(count + 5)), cProfile.Profile()
    for _ in range(5):
        calls.call(judge)
    judged = judge.judge

    def profiled(*args: Any) -> Any:
        profiler.enable()
        result = judged(*args)
        profiler.disable()
        return result

    judge.judge = profiled
    for _ in range(count):
        calls.call(judge)
    pstats.Stats(profiler).sort_stats(order).print_stats(60)


def measured_parts(labeler: Any) -> dict[str, float]:
    """Measure the parts of each call from now on, and return the seconds of the last one by part."""
    spent: dict[str, float] = {}
    for name, function in PARTS.items():
        owner = type(labeler) if hasattr(labeler, function) else rule_set_judge
        setattr(owner, function, _timed(spent, name, getattr(owner, function)))
    return spent


def _timed(spent: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any, **options: Any) -> Any:
        start = time.process_time()
        result = function(*args, **options)
        spent[name] = spent.get(name, 0.0) + time.process_time() - start
        return result

    return timed


def desk_events(calls: int) -> Iterator[Event]:
    """Yield the events of the desk's conversations, as many as the calls of the largest size need."""
    chats = map(events, conversations(Desk(sessions=calls * SIZES[-1] // 4, seed=1)))
    while together := list(islice(chats, AT_ONCE)):
        moved = (
            _later(chat, place * NS + together[0][0].time - chat[0].time)
            for place, chat in enumerate(together)
        )
        yield from sorted((event for chat in moved for event in chat), key=attrgetter("time", "seq"))


def _later(chat: Sequence[Event], by_ns: int) -> list[Event]:
    return [
        msgspec.structs.replace(event, occurrence=event.occurrence + by_ns, time=event.time + by_ns)
        for event in chat
    ]


if __name__ == "__main__":
    main()
