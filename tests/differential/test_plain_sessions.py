"""The short pass over plain sessions against the ordinary way: events and states are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

import msgspec
import pytest
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.plain_sessions import uses
from tracline.schemas.plain_sessions.advance import advanced
from tracline.schemas.plain_sessions.ready import ready_claims
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.memory import seen
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS, NS_MIN
from tracline.stream.messages.session_state import SessionState, decode, encode

from ..laws import test_session_pages as pages
from ..laws.test_dialects import MANNERS
from ..laws.test_history_apart import parted, sent, stepped
from ..laws.test_remembered import SESSIONS
from ..laws.test_tool_use import IDS, conversation
from ..support.conversations.span_plan import Manner

IDLES = (3600 * NS, 3 * NS)
Steps = Sequence[tuple[Sequence[Candidate], int]]
SEEDS = 60
RATES = {"plain": 0.0, "some": 0.05, "many": 0.3}
SHARE = {"plain": 0.45, "some": 0.25, "many": 0.05}
"""The least share of events that the short pass makes, by the rate of what is unusual."""


class Pair:
    """A session that takes the short pass where it is plain, and one that never does."""

    def __init__(self, idle: int, counts: Counter[str]) -> None:
        self.plain, self.ordinary = SessionAssembler("s", idle), SessionAssembler("s", idle)
        self.counts, self.before = counts, NS_MIN

    def step(self, added: Iterable[Candidate], watermark: int, *, is_stored: bool) -> None:
        """Add candidates and advance; assert that both sessions are the same. Perhaps read them again."""
        for candidate in added:
            self.plain.add(candidate)
            self.ordinary.add(candidate)
        ready = ready_claims(self.plain, watermark)
        begun = self.ordinary.seen[0].number
        found = advanced(self.plain, watermark, self.before)
        expected = self.ordinary.advance(watermark, before=self.before)
        assert found == expected
        self.before = watermark
        self.count(expected, is_plain=ready is not None)
        self.counts["closed"] += ready is not None and self.ordinary.seen[-1].number > begun
        assert self.plain.due == self.ordinary.due
        assert self.plain.held.chars == self.ordinary.held.chars
        if is_stored:
            self.plain.make_pages()
            self.ordinary.make_pages()
            self.counts["pages"] += bool(self.ordinary.pages)
        states = [encode(SessionState(session)) for session in (self.plain, self.ordinary)]
        assert states[0] == states[1]
        if is_stored:
            self.plain, self.ordinary = (decode(state).session for state in states)

    def count(self, events: Sequence[Event], *, is_plain: bool) -> None:
        """Count events, and those of the short pass by kind."""
        self.counts["events"] += len(events)
        self.counts["late"] += is_plain and any(event.late for event in events)
        if is_plain:
            self.counts["plain"] += len(events)
            self.counts.update([event.kind.value for event in events])


def check(steps: Steps, idle: int, random: Random, counts: Counter[str]) -> None:
    """Assert that both ways give the same after each step."""
    pair = Pair(idle, counts)
    rate = random.choice((0, 0.3))
    for added, watermark in steps:
        pair.step(added, watermark, is_stored=random.random() < rate)


Change = Callable[[Candidate, Random], Candidate]


def _changed_claim(**fields: object) -> Change:
    def change(candidate: Candidate, random: Random) -> Candidate:
        if not candidate.claims:
            return candidate
        claims = [*candidate.claims]
        place = random.randrange(len(claims))
        claims[place] = msgspec.structs.replace(claims[place], **fields)
        return msgspec.structs.replace(candidate, claims=tuple(claims))

    return change


def _changed(**fields: object) -> Change:
    return lambda candidate, _: msgspec.structs.replace(candidate, **fields)


def _later(candidate: Candidate, random: Random) -> Candidate:
    """Return a span some time later or earlier, so that claims have one time, or come out of order."""
    by = random.choice((-2, -1, 1, 2, 4_000)) * NS

    def moved(claim: Claim) -> Claim:
        return msgspec.structs.replace(claim, time=max(claim.time + by, 1))

    claims = tuple(map(moved, candidate.claims))
    start = max(candidate.start + by, 1)
    return msgspec.structs.replace(
        candidate,
        claims=claims,
        start=start,
        end=max(candidate.end + by, start),
        digest=candidate.digest + "m",
    )


def _cut(candidate: Candidate, random: Random) -> Candidate:
    """Return a span without its first claim or its last."""
    claims = random.choice((candidate.claims[1:], candidate.claims[:-1]))
    return msgspec.structs.replace(candidate, claims=claims)


def _with_end(candidate: Candidate, _random: Random) -> Candidate:
    return msgspec.structs.replace(candidate, claims=(*candidate.claims, Claim(Kind.END, candidate.end)))


LONG = "x" * 300
CHANGES: tuple[Change, ...] = (
    *(_later, _later, _cut, _with_end, _changed(failed=True), _changed(nested=True), _changed(covered=True)),
    *(_changed(role=SpanRole.AGENT), _changed(within=("agent.t.1",)), _changed(within=("chat.t.1/in",))),
    *(_changed(within=("tool.t.2", "agent.t.1")), _changed(history=None), _changed(digest="d")),
    *(_changed_claim(call_id=value) for value in (None, "call_0", "fc_1", "a\0b", LONG)),
    *(_changed_claim(tool=value) for value in (None, "refund", "plug-refund", LONG)),
    *(_changed_claim(args=value) for value in (None, "{}", '{"order": 1 }', "a\0", LONG)),
    *(_changed_claim(result=value, error=error) for value in (None, "ok", LONG) for error in (None, "e")),
    *[_changed_claim(result=None, content=Content.ABSENT)] * 3,
    *(_changed_claim(content=content) for content in (Content.ABSENT, Content.TRUNCATED)),
    *(_changed_claim(key=""), _changed_claim(key="k"), _changed_claim(answered=False)),
    *(_changed_claim(place=None), _changed_claim(place=0), _changed_claim(past=True)),
    *(_changed_claim(kind=Kind.UNKNOWN), _changed_claim(kind=Kind.TOOL_RESULT)),
)


def with_claims(spans: Iterable[Candidate]) -> list[Candidate]:
    """Return the spans with claims, as the monitor reads them."""
    return [parted(candidate) for candidate in spans if candidate.has_claims]


def unusual(spans: Iterable[Candidate], random: Random, rate: float) -> Iterator[Candidate]:
    """Yield spans, some of them changed in any way, or sent again."""
    for candidate in spans:
        while random.random() < rate:
            candidate = random.choice(CHANGES)(candidate, random)
        yield candidate
        if random.random() < rate / 3:
            yield _later(candidate, random) if random.random() < 0.5 else candidate


@pytest.mark.parametrize("rate", RATES)
def test_conversations_become_the_same_events(rate: str) -> None:
    """Conversations of agents, some with unusual spans, in random steps and orders."""
    counts = Counter[str]()
    for seed, script in enumerate(SESSIONS * 4):
        random = Random(f"{rate} {seed}")
        spans = with_claims(sent(script, MANNERS["plain"]))
        changed = sorted(unusual(spans, random, RATES[rate]), key=lambda span: span.end)
        # A session may begin at any place of the conversation.
        changed = changed[random.choice((0, 0, 1, 2, 3)) :]
        for idle in IDLES:
            check(stepped(changed, random), idle, random, counts)
    print(f"{rate}: {dict(counts)}")
    assert counts["events"] > 2_000
    assert counts["plain"] >= SHARE[rate] * counts["events"], counts
    assert min(counts[each] for each in ("user", "assistant", "tool_call", "tool_result", "pages")) >= 20


@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
def test_every_manner_of_instrumentation_becomes_the_same_events(manner: Manner) -> None:
    """Conversations whose spans lack contents, ids or order in any known manner."""
    for seed, script in enumerate(SESSIONS):
        spans = with_claims(sent(script, manner))
        check(stepped(spans, Random(seed)), IDLES[seed % 2], Random(seed), Counter())


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("rate", RATES)
def test_tools_of_all_kinds_of_ids_become_the_same_events(ids: str, rate: str) -> None:
    """Calls that are alike, parallel calls, ids that come again, and runs without an id or a span."""
    counts = Counter[str]()
    for seed in range(SEEDS):
        random = Random(f"{ids} {rate} {seed}")
        spans, _ = conversation(random, ids)
        changed = list(unusual(with_claims(spans), random, RATES[rate]))
        check([(changed, max(span.end for span in changed) + 1)], IDLES[0], random, counts)
        changed = sorted(changed, key=lambda span: span.end)
        changed = changed[min(random.choice((0, 0, 1, 2)), len(changed) - 1) :]
        check(stepped(changed, random), IDLES[0], random, counts)
    assert counts["plain"] > 100, counts
    assert counts["tool_result"] > 30


def plainer(candidate: Candidate, random: Random) -> Candidate:
    """Return a span mostly without what no plain session has."""
    if random.random() < 0.05:
        return candidate
    claims = [
        msgspec.structs.replace(claim, content=Content.CAPTURED, result=claim.result or "x")
        if claim.kind is Kind.TOOL_RESULT
        else claim
        for claim in candidate.claims
        if claim.kind is not Kind.END
    ]
    return msgspec.structs.replace(candidate, claims=tuple(claims[:2]), within=())


def test_any_claims_become_the_same_events() -> None:
    """Spans with claims of any kind, times that come again, and occurrences that close."""
    counts = Counter[str]()
    for seed in range(SEEDS):
        random, now = Random(seed), 0
        pair = Pair(pages.IDLE, counts)
        for _ in range(60):
            gaps = (1, 5, 30, 30, pages.IDLE // 3, *[2 * pages.IDLE + 5] * (random.random() < 0.05))
            now += random.choice(gaps)
            added = [plainer(pages.candidate(random, now), random) for _ in range(random.randint(0, 3))]
            watermark = now - random.choice((0, 50, 100))
            pair.step(added, watermark, is_stored=random.random() < 0.2)
    assert counts["plain"] > 500, counts
    assert counts["closed"] > 5
    assert counts["late"] > 20


def tool_span(random: Random, number: int, now: int, odd: int) -> Candidate:
    """Return a model's call with results and calls, or a tool's run, of few ids, tools and arguments.

    One id in `odd` or so is not the usual one.
    """
    start = now - random.randrange(random.choice((40, 40, 40, 300)))
    end = start + random.randrange(1, 60)

    def claim(kind: Kind, time: int, place: int | None, rank: int) -> Claim:
        call_id = random.choice((*("c0", "c1", "c2") * odd, None, "fc_1", LONG))
        named = random.choice("fffffg"), call_id, random.choice(("{}", "{}", '{"a":1}') * odd + (None,))
        result = random.choice(("x", "x", "y")) if kind is Kind.TOOL_RESULT else None
        error = "e" if random.random() < 0.05 else None
        return Claim(kind, time, None, *named, result, error, place=place, rank=rank, answered=True)

    if random.random() < 0.5:
        call = claim(Kind.TOOL_CALL, start, None, 0)
        result = claim(Kind.TOOL_RESULT, end, None, 0)
        if random.random() < 0.95:
            result = msgspec.structs.replace(result, call_id=call.call_id, tool=call.tool, args=call.args)
        more = (msgspec.structs.replace(call, time=end + 1),) if random.random() < 0.1 else ()
        claims, role = (call, result, *more)[: random.choice((9, 9, 9, 9, 1))], SpanRole.TOOL
    else:
        results = [claim(Kind.TOOL_RESULT, start, 0, rank) for rank in range(random.choice((0, 1, 1, 2)))]
        calls = [claim(Kind.TOOL_CALL, end, 1, rank) for rank in range(random.choice((0, 1, 1, 2)))]
        claims, role = (*results, *calls), SpanRole.CHAT
    nested = random.random() < 0.1
    outer = (f"{random.choice(('agent', 'chat', 'tool'))}.t.{number + random.randrange(9)}",)
    within = outer if random.random() < 0.03 else ()
    return Candidate("s", role, start, end, claims, "t", f"{number}", "", within=within, nested=nested)


def test_uses_of_few_ids_become_the_same_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls, runs and results of few ids in any order, joined by their ids or in the ordinary way."""
    counts = Counter[str]()
    for seed in range(5 * SEEDS):
        random, now = Random(seed), 400
        waiting_max = random.choice((2, 1_000))
        for module in (seen, uses):
            monkeypatch.setattr(module, "WAITING_MAX", waiting_max)
        monkeypatch.setattr(seen, "RECENT_MAX", random.choice((3, 32)))
        monkeypatch.setattr(seen, "REMEMBERED_MAX", random.choice((10, 50_000)))
        odd = random.choice((1, 5, 20))
        pair = Pair(1 << 40, counts)
        for number in range(30):
            now += random.randrange(100)
            added = [tool_span(random, 4 * number + n, now, odd) for n in range(random.randrange(4))]
            pair.step(added, now - random.choice((0, 0, 30)), is_stored=random.random() < 0.2)
    assert counts["plain"] > 5_000, counts


def test_a_result_without_content_is_no_plain_claim() -> None:
    """A run's result is awaited though it seems captured: its call's arguments are too long to be carried."""
    args = f'"{"x" * 40_000}"'
    call = Claim(Kind.TOOL_CALL, 2, None, "f", "c", args, place=1)
    asked = Candidate("s", SpanRole.CHAT, 1, 2, (Claim(Kind.USER, 1, "a", place=0), call), "t", "1")
    begun = Claim(Kind.TOOL_CALL, 3, None, "f", "c")
    ran = Candidate("s", SpanRole.TOOL, 3, 4, (begun, Claim(Kind.TOOL_RESULT, 4, None, "f", "c")), "t", "2")
    pair = Pair(1 << 40, Counter())
    pair.step([asked, ran], 4, is_stored=False)
    assert pair.ordinary.awaited


def test_histories_decide_as_in_the_ordinary_way() -> None:
    """Calls with a history and with nothing new in their input, at any time beside other calls."""
    counts = Counter[str]()
    for seed, script in enumerate(SESSIONS * 6):
        random = Random(seed)
        changed: list[Candidate] = []
        for candidate in with_claims(sent(script, MANNERS["plain"])):
            if candidate.history is not None and random.random() < 0.5:
                start = max(1, candidate.start - random.choice((0, 1, 5, 50, 5_000)) * NS)
                start = candidate.end if random.random() < 0.3 else start
                claims = tuple(claim for claim in candidate.claims if claim.time == candidate.end)
                claims = claims if random.random() < 0.5 else ()
                candidate = msgspec.structs.replace(candidate, start=start, claims=claims)
            changed.append(candidate)
        changed = changed[random.choice((0, 0, 1, 2, 3)) :]
        for idle in (*IDLES, 60 * NS, NS // 2):
            check(stepped(changed, random), idle, random, counts)
    assert counts["plain"] > 500


def test_a_very_late_occurrence_has_a_time_of_its_own() -> None:
    """A span that comes after its session was forgotten begins one that is not named by its own time."""
    claims = (Claim(Kind.USER, 1, "a", place=0), Claim(Kind.ASSISTANT, 2, "b", place=1))
    pair = Pair(10, Counter())
    pair.before = 1_000
    pair.step([Candidate("s", SpanRole.CHAT, 1, 2, claims, "t", "1")], 2, is_stored=False)
    assert pair.counts["plain"] == 2
    assert pair.plain.begun is not None
    assert pair.plain.begun > 2
