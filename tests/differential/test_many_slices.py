"""Sessions of many slices, judged from stored records with restarts, against judging them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random

import msgspec
import numpy as np
import pytest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.incremental import carried_slices, continue_judging
from tracline.rules.incremental.carried import Carried, decode_carried, encode_carried
from tracline.rules.incremental.carried_slices import CarriedSlices
from tracline.rules.incremental.carry_layout import CarryLayout
from tracline.rules.packs.load import pack_text
from tracline.schemas.event import Event, end_event
from tracline.schemas.records.verdict_record import encode_verdict
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.stream.messages.monitor_state import (
    decode_head,
    decode_session,
    encode_session,
    keys_of_session,
)
from tracline.stream.messages.session_state import JudgingState, SessionState

from ..support.conversations.rule_sessions import PACK, SECOND, START, random_event
from .test_continued import COMPILED, at_once, live_rows

ALONE = 740
"""Events of a long session before those that are judged alone."""
SLICED = compile_rule_set(
    pack_text(
        PACK
        + """
  - {id: answered, title: T, formula: always (p -> eventually q), for_each: call_id}
  - {id: seen, title: T, formula: always (p -> once q), for_each: args.k}
  - {id: back, title: T, formula: "always (q -> previous[2] p)", for_each: args.k}
  - {id: stepped, title: T, formula: always (s -> not q since r), for_each: call_id, steps: p or s}
  - {id: final, title: T, formula: p until q, for_each: args.k, recover: none}
  - {id: soon, title: T, formula: "always (r -> F[0,4] (p and once q))", for_each: [[args.k, call_id]]}
  - {id: ever, title: T, formula: eventually (p and q), for_each: call_id}
  - {id: whole, title: T, formula: "always (s -> not previous once s)"}
"""
    )
)


def sessions(random: Random, count: int, events: int, spread: int) -> list[Event]:
    """Return interleaved sessions of one or two occurrences; most events carry one of `spread` values."""
    queues = [session(random, f"session-{number}", events, spread) for number in range(count)]
    found: list[Event] = []
    while queues := [queue for queue in queues if queue]:
        found.append(random.choice(queues).pop(0))
    return found


def session(random: Random, session_id: str, events: int, spread: int) -> list[Event]:
    """Return the rows of one or two occurrences of a session; the last may be open."""
    found, time = list[Event](), START
    for _ in range(random.randint(1, 2)):
        begun, valueless = time, random.choice((0.02, 0.2, 0.5))
        unknowns = random.choice((0.0, 0.0, 0.002))
        for seq in range(1, random.randint(events // 2, events) + 1):
            event = random_event(random, session_id, begun, time, seq, spread, unknowns, seq <= 2)
            if random.random() < valueless:
                event = msgspec.structs.replace(event, call_id=None)
            found.append(event)
            time += random.choice((0, 1, 7)) * SECOND
        if random.random() < 0.7:
            found.append(end_event(session_id, begun, time, seq + 1, {"end": "mark"}))
        time += 100 * SECOND
    return found


class Monitor:
    """Sessions in memory, and their records in a table as the monitor writes them."""

    def __init__(self, layout: CarryLayout, random: Random, *, satisfied: bool, bytes_max: int) -> None:
        self.layout, self.random, self.satisfied, self.bytes_max = layout, random, satisfied, bytes_max
        self.table: dict[str, bytes | None] = {}
        self.carried: dict[str, Carried] = {}
        self.lines: list[bytes] = []
        self.seen = Counter[str]()

    def judge(self, offset: int, events: Sequence[Event]) -> None:
        """Judge a message."""
        if self.random.random() < 0.5:
            self.restart()
        rows = live_rows(self.layout.compiled, events)
        none = np.zeros(len(rows), dtype=np.int64)
        names = {event.session_id for event in events}
        before = {name: self.carried[name] for name in names & self.carried.keys()}
        done = continue_judging.continue_judging(self.layout, before, rows, none, satisfied=self.satisfied)
        self.lines += [encode_verdict(record) for each in done.outcomes for record in each.records]
        for name, carried in done.carried.items():
            self.write(name, carried, offset)

    def write(self, name: str, carried: Carried | None, offset: int) -> None:
        """Write the records of a session."""
        before = self.table.get(f"s/{name}")
        old = set[str]() if before is None else set(keys_of_session(0, name, decode_head(before)))
        state = SessionState(SessionAssembler(name, 1), JudgingState("", 0, carried))
        record, chunks, pages, _ = encode_session(state, offset, 0, self.bytes_max)
        keys = keys_of_session(0, name, decode_head(record))
        self.table.update(zip(keys, chunks, strict=False))
        for place, data in pages:
            key = f"g/0/{place.offset}/{place.number}/{name}"
            assert key in keys
            assert key not in self.table
            self.table[key] = data
        self.table[f"s/{name}"] = record
        for key in old - set(keys):
            del self.table[key]
        assert set(keys) <= self.table.keys()
        self.carried.pop(name, None)
        if carried is not None:
            self.carried[name] = carried
            self.count(carried.sliced)

    def count(self, sliced: CarriedSlices) -> None:
        """Count what the test must reach."""
        self.seen["pages"] += bool(sliced.pages)
        self.seen["merged pages"] += any(page.level for page in sliced.pages)
        self.seen["merged classes"] += bool(sliced.merged)
        self.seen["classes of many"] += any(each.members > 20 for each in sliced.classes.values())

    def restart(self) -> None:
        """Read all sessions from the table."""
        self.seen["restarts"] += 1
        for name in self.carried:
            record = self.table[f"s/{name}"]
            assert record is not None
            head = decode_head(record)
            stored = [self.table[key] for key in keys_of_session(0, name, head)]
            state = decode_session(record, stored[: head.chunks], stored[head.chunks :])
            assert state.judging.carried is not None
            self.carried[name] = state.judging.carried


@contextmanager
def counted_expansions(seen: Counter[str]) -> Iterator[None]:
    """Count the slices that a verdict of their class gets a slot for."""
    members = CarriedSlices.members

    def counted(slices: CarriedSlices, numbers: set[int]) -> Iterator[tuple[str, object]]:
        found = list(members(slices, numbers))
        seen["expanded slices"] += len(found)
        return iter(found)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CarriedSlices, "members", counted)
        yield


def of_many_slices(satisfied: bool, recent_max: int) -> Mapping[str, int]:
    """Compare sessions of up to 120 values of a key; return what occurred."""
    layout, seen = CarryLayout(SLICED), Counter[str]()
    for seed in range(3):
        random = Random(seed)
        events = sessions(random, 2, 240, random.choice((12, 40, 120)))
        monitor = Monitor(layout, random, satisfied=satisfied, bytes_max=random.choice((600, 1 << 20)))
        monitor.seen = seen
        with pytest.MonkeyPatch.context() as patched, counted_expansions(seen):
            patched.setattr(carried_slices, "RECENT_MAX", recent_max)
            begin = 0
            while begin < len(events):
                end = begin + random.choice((2, 9, 40))
                monitor.judge(begin, events[begin:end])
                begin = end
        lines, _ = at_once(SLICED, events, satisfied=satisfied)
        assert sorted(monitor.lines) == lines, seed
        seen["verdicts"] += len(lines)
    return seen


@pytest.mark.parametrize("recent_max", [2, carried_slices.RECENT_MAX])
@pytest.mark.parametrize("satisfied", [False, True])
def test_sessions_of_many_slices(satisfied: bool, recent_max: int) -> None:
    """Any cuts and restarts give the records of judging at once."""
    seen = of_many_slices(satisfied, recent_max)
    print(f"many slices: {dict(seen)}")
    wanted = ("pages", "merged classes", "classes of many", "restarts", "expanded slices", "verdicts")
    assert min(seen[name] for name in wanted) >= 30
    assert recent_max > 2 or seen["merged pages"] >= 30


def test_a_class_of_slices_is_stepped_once() -> None:
    """However many slices a session has, a batch unpacks those with a value in it, and the classes."""
    layout, random = CarryLayout(SLICED), Random(1)
    monitor = Monitor(layout, random, satisfied=False, bytes_max=1 << 20)
    sizes: list[int] = []
    batch_slices = continue_judging.BatchSlices

    class Counted(batch_slices):
        """Slices that report their number of slots."""

        def slice_slots(self) -> object:
            slots = super().slice_slots()
            sizes.append(len(slots.owners))
            return slots

    events = session(random, "session-0", 4_000, 900)[:800]
    events = [event for event in events if event.occurrence == START and event.seq > 2]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(continue_judging, "BatchSlices", Counted)
        for place in range(0, ALONE, 20):
            monitor.judge(place, events[place : place + 20])
        for place in range(ALONE, len(events)):
            monitor.judge(place, events[place : place + 1])
    members = sum(each.members for each in monitor.carried["session-0"].sliced.classes.values())
    late = sorted(sizes[ALONE // 20 :])
    print(f"many slices: {members} slices, {late[len(late) // 2]} slots in a batch")
    assert members >= 500
    assert late[len(late) // 2] <= 60


def test_carried_bytes_have_all_slices() -> None:
    """The form without a table restores the same slices."""
    random = Random(3)
    monitor = Monitor(CarryLayout(COMPILED), random, satisfied=True, bytes_max=1 << 20)
    for place, event in enumerate(session(random, "session-0", 300, 60)[:120]):
        monitor.judge(place, [event])
    carried = monitor.carried["session-0"]
    numbers = carried.sliced.classes.keys()
    restored = decode_carried(encode_carried(carried)).sliced
    assert dict(restored.members(numbers)) == dict(carried.sliced.members(numbers))
    assert restored.classes == carried.sliced.classes
