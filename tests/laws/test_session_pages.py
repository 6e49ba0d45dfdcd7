"""A session that is stored in pages and read again goes on as the one that never was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.paged import page
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.memory import held, seen, seen_page
from tracline.schemas.span_content import SpanRole
from tracline.stream.messages.monitor_state import (
    decode_head,
    decode_session,
    encode_session,
    keys_of_session,
)
from tracline.stream.messages.session_state import SessionState

IDLE = 1_000
SEEDS = 25
STEPS = 120


class Store:
    """The records of one session, as the monitor writes them."""

    def __init__(self, bytes_max: int, reached: Counter[str]) -> None:
        self.bytes_max, self.reached = bytes_max, reached
        self.table: dict[str, bytes] = {}
        self.names: list[str] = []

    def write(self, state: SessionState, offset: int) -> None:
        """Write the state after a message."""
        record, chunks, pages, _ = encode_session(state, offset, 0, self.bytes_max)
        names = keys_of_session(0, "s", decode_head(record))
        written = dict(zip(names, chunks, strict=False))
        written |= {f"g/0/{place.offset}/{place.number}/s": data for place, data in pages}
        assert written.keys() <= set(names)
        assert self.table.keys().isdisjoint(written)
        self.table |= written
        self.table = {name: self.table[name] for name in names} | {"": record}
        self.reached["bytes"] += len(record) + sum(map(len, written.values()))
        self.reached["pages of seen"] += bool(state.session.pages)
        self.reached["merged pages"] += any(each.level for each in state.session.pages)
        self.reached["pages of held"] += bool(state.session.held.pages)

    def read(self) -> SessionState:
        """Return the state as a monitor that starts reads it."""
        record = self.table[""]
        head = decode_head(record)
        stored = [self.table[name] for name in keys_of_session(0, "s", head)]
        self.reached["restarts"] += 1
        return decode_session(record, stored[: head.chunks], stored[head.chunks :])


def claims(random: Random, start: int, end: int) -> Iterator[Claim]:
    """Yield the claims of a span, few of a kind, so that many of them repeat others."""
    for rank in range(random.randint(1, 3)):
        time = random.choice((start, end))
        kind = random.choice([Kind.USER, Kind.ASSISTANT, *[Kind.TOOL_CALL, Kind.TOOL_RESULT] * 3])
        key = random.choice(("", f"k{random.randrange(40)}"))
        place = random.choice((None, rank)) if kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT) else rank
        if kind in (Kind.USER, Kind.ASSISTANT):
            yield Claim(kind, time, random.choice(("a", "b", "c" * 300)), place=place, rank=rank, key=key)
            continue
        call_id = random.choice((None, f"c{random.randrange(12)}", f"c{start}"))
        tool, args = random.choice((None, "look", "pay")), random.choice((None, "{}", '{"a":1}'))
        is_result = kind is Kind.TOOL_RESULT
        result = random.choice((None, "x", "y")) if is_result else None
        content = Content.ABSENT if is_result and result is None else Content.CAPTURED
        yield Claim(
            kind, time, None, tool, call_id, args, result, None, content, place, rank, False, key, True
        )
    if random.random() < 0.03:
        yield Claim(Kind.END, end)


def candidate(random: Random, now: int) -> Candidate:
    """Return a span near that time, sometimes one that came before."""
    number = random.choice((now, now, now, random.randrange(max(now, 1))))
    start = max(0, now - random.choice((0, 3, 40)))
    end = start + random.choice((0, 2, 60))
    role = random.choice((SpanRole.CHAT, SpanRole.TOOL))
    within = tuple(f"{role}.t.{number - back}" for back in range(random.choice((0, 0, 1, 2))))
    found = tuple(claims(random, start, end))
    return Candidate("s", role, start, end, found, "t", f"{number}", "", random.random() < 0.1, within=within)


def taken(session: SessionAssembler, candidates: Sequence[Candidate], watermark: int) -> list[Event]:
    """Return the events after candidates have come."""
    for each in candidates:
        session.add(each)
    return session.advance(watermark)


def run(seed: int, reached: Counter[str]) -> None:
    """Compare a session that is stored, and often read again, with one in memory."""
    random = Random(seed)
    store = Store(random.choice((60, 1 << 20)), reached)
    memory, state = SessionAssembler("s", IDLE), SessionState(SessionAssembler("s", IDLE))
    now = 0
    for offset in range(STEPS):
        now += random.choice((0, 1, 5, 30, 30, IDLE // 3, *[2 * IDLE + 5] * (random.random() < 0.05)))
        sent = [candidate(random, now) for _ in range(random.randint(0, 4))]
        watermark = now - random.choice((0, 50, 100))
        events = taken(memory, sent, watermark)
        assert taken(state.session, sent, watermark) == events, (seed, offset)
        reached["events"] += len(events)
        reached["occurrences"] += sum(event.kind is Kind.END for event in events)
        store.write(state, offset)
        if random.random() < 0.3:
            state = store.read()
        assert state.session == memory, (seed, offset)
        assert state.session.due == memory.due


def test_a_session_in_pages_goes_on_as_one_in_memory() -> None:
    """Whatever comes, and after whatever message it is read again: the same events and the same state."""
    reached = Counter[str]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(seen, "RECENT_MAX", 4)
        patched.setattr(seen_page, "UNREFERENCED_MIN", 8)
        patched.setattr(seen_page, "PAGE_BYTES_MAX", 2_000)
        patched.setattr(held, "RECENT_CHARS_MAX", 200)
        patched.setattr(held, "PAGE_BYTES_MAX", 400)
        patched.setattr(page, "PAGE_BYTES_MAX", 2_000)
        for seed in range(SEEDS):
            run(seed, reached)
    print(f"session pages: {dict(reached)}")
    wanted = ("pages of seen", "merged pages", "pages of held", "restarts", "occurrences")
    assert min(reached[name] for name in wanted) >= 100, reached
