"""Counting of status changes by tick, and the watch over the counts."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

import pytest
from tracline.predict.detector import AlarmState, DetectorSettings
from tracline.schemas.records.session_status import SessionStatus, StatusChange
from tracline.schemas.time import NS
from tracline.stream.alerts import session_counts as sessions
from tracline.stream.alerts.counted_statuses import CAPTURE
from tracline.stream.alerts.rates import Rate, Rates, RuleRates, tolerance
from tracline.stream.alerts.session_counts import RateKey, SessionCounter, TickCounts
from tracline.stream.alerts.watch import AlarmChange, Watch, WatchState
from tracline.stream.alerts.watch_state import read_watch, write_watch
from tracline.stream.error import StreamError

TICK = 100
BOT = RateKey("desk", "confirm", "bot")
APPLIED, VIOLATED, UNJUDGED, AT_RISK, CLOSED = SessionStatus


def changed(
    kind: SessionStatus,
    at_s: int,
    session: str = "s1",
    agent: str | None = "bot",
    missing: str | None = None,
    followed: bool = False,
) -> StatusChange:
    """A change of a session's status at a second of event time."""
    rule = (None,) * 4 if kind is CLOSED else ("desk", "confirm", "0" * 64, "high")
    return StatusChange(kind, session, 0, *rule, agent, at_s * NS, missing, followed)


def settled(
    counter: SessionCounter, *statuses: StatusChange, until_s: int, rule: str = "confirm"
) -> list[tuple[int, int, int]]:
    """The ticks of a rule that these changes and the watermark settle: tick, violating, applicable."""
    for status in statuses:
        counter.add(status)
    ticks = counter.advance(until_s * NS)
    return [(tick.number, tick.violating, tick.applicable) for tick in ticks if tick.key.rule == rule]


@pytest.fixture
def counter() -> SessionCounter:
    """Ticks of 100 s, which wait for two more."""
    return SessionCounter(TICK, lambda _pack, _rule: 2)


def test_a_session_counts_in_the_tick_in_which_the_rule_applied(counter: SessionCounter) -> None:
    """Violating later, while its tick waits, it is a violating session of that tick."""
    assert settled(counter, changed(APPLIED, 110), until_s=200) == []
    assert settled(counter, changed(VIOLATED, 310), until_s=330) == [(1, 1, 1)]


def test_a_tick_is_settled_at_its_end_when_all_its_sessions_are_decided(counter: SessionCounter) -> None:
    """One that violated and one that closed are decided; nothing is settled before the tick is over."""
    statuses = [
        changed(APPLIED, 10),
        changed(APPLIED, 20, "s2"),
        changed(VIOLATED, 30, "s2"),
        changed(CLOSED, 40),
    ]
    assert settled(counter, *statuses, until_s=99) == []
    assert settled(counter, until_s=100) == [(0, 1, 2)]


def test_an_undecided_session_holds_its_tick_for_so_long_only(counter: SessionCounter) -> None:
    """The tick is settled two ticks after its end, with the open session as one that does not violate."""
    assert settled(counter, changed(APPLIED, 10), until_s=299) == []
    assert settled(counter, until_s=300) == [(0, 0, 1)]


def test_a_violation_of_a_settled_tick_is_overdue(counter: SessionCounter) -> None:
    """It is counted as overdue, and in no tick: none has more violating sessions than sessions."""
    settled(counter, changed(APPLIED, 10), until_s=300)
    assert settled(counter, changed(VIOLATED, 310), changed(CLOSED, 320), until_s=1_000) == []
    assert counter.overdue == {("desk", "confirm"): 1}


def test_everything_is_counted_once(counter: SessionCounter) -> None:
    """Statuses that come again, in the same tick or later, change nothing."""
    statuses = [changed(APPLIED, 10), changed(VIOLATED, 20)]
    assert settled(
        counter, *statuses, *statuses, changed(APPLIED, 90), changed(VIOLATED, 95), until_s=100
    ) == [(0, 1, 1)]
    assert settled(counter, *statuses, changed(APPLIED, 110), changed(VIOLATED, 120), until_s=1_000) == []


def test_a_violation_counts_without_the_rule_having_applied(counter: SessionCounter) -> None:
    """A session that violates a rule is one to which it applies."""
    assert settled(counter, changed(VIOLATED, 10), until_s=100) == [(0, 1, 1)]


def test_what_cannot_be_judged_stays_in_the_rate(counter: SessionCounter) -> None:
    """An unjudged session counts as one that does not violate, unless it has violated, or does later."""
    statuses = [
        *(changed(APPLIED, 10, name) for name in ("s1", "s2", "s3")),
        *(changed(UNJUDGED, 20), changed(VIOLATED, 30, "s2"), changed(UNJUDGED, 40, "s2")),
        *(changed(UNJUDGED, 50, "s3"), changed(VIOLATED, 60, "s3")),
    ]
    assert settled(counter, *statuses, until_s=100) == [(0, 2, 3)]


def test_a_tick_of_unjudged_sessions_alone_is_settled(counter: SessionCounter) -> None:
    """None of its sessions certainly violates the rule, whether the rule had applied or not."""
    assert settled(
        counter, changed(APPLIED, 10), changed(UNJUDGED, 20), changed(UNJUDGED, 30, "s2"), until_s=100
    ) == [(0, 0, 2)]


def test_sessions_without_content_count_under_a_name_of_their_own(counter: SessionCounter) -> None:
    """A session counts once, whatever rules lack content; one that is unjudged for a limit lacks none."""
    statuses = [
        *(changed(APPLIED, 10, name) for name in ("s1", "s2", "s3")),
        *(changed(UNJUDGED, 20, missing="absent"), changed(UNJUDGED, 30, missing="truncated")),
        *(changed(UNJUDGED, 40, "s2"), changed(UNJUDGED, 50, "s4", missing="redacted")),
        *(changed(CLOSED, 60, name) for name in ("s1", "s2", "s3", "s4")),
    ]
    assert settled(counter, *statuses, until_s=100, rule=CAPTURE[1]) == [(0, 2, 4)]


def test_an_outage_of_capture_is_one_alarm() -> None:
    """The sessions of 5 ticks of 40 lose content after a tenth violated: no rule raises an alarm."""
    ticks: list[tuple[list[StatusChange], int]] = []
    for tick in range(40):
        statuses: list[StatusChange] = []
        for place in range(20):
            name, at = f"{tick}-{place}", tick * TICK + place
            statuses.append(changed(APPLIED, at, name))
            if place == 0 and tick % 2:
                statuses.append(changed(VIOLATED, at + 1, name))
            if 20 <= tick < 25:
                statuses.append(changed(UNJUDGED, at + 2, name, missing="absent"))
            statuses.append(changed(CLOSED, at + 3, name))
        ticks.append((statuses, (tick + 1) * TICK * NS))
    fired, resolved = run(watch(), ticks)
    assert (fired.key, resolved.key) == (RateKey(*CAPTURE, "bot"), RateKey(*CAPTURE, "bot"))
    assert 20 <= fired.begins // NS // TICK <= 22
    assert fired.alarm.observed == 1.0


def test_what_comes_late_counts_in_the_tick_that_is_open_now(counter: SessionCounter) -> None:
    """A status from before the watermark counts in the watermark's tick."""
    settled(counter, changed(APPLIED, 10), changed(CLOSED, 20), until_s=450)
    assert settled(counter, changed(APPLIED, 30, "s2"), changed(VIOLATED, 40, "s2"), until_s=500) == [
        (4, 1, 1)
    ]


def test_agents_count_by_themselves(counter: SessionCounter) -> None:
    """Each agent has ticks of its own, the sessions of none too; a session keeps the agent it came with."""
    statuses = [changed(APPLIED, 10), changed(APPLIED, 20, "s2", None), changed(VIOLATED, 30, "s2", "bot")]
    for status in statuses:
        counter.add(status)
    assert counter.advance(300 * NS)[:2] == [
        TickCounts(RateKey("desk", "confirm", ""), 0, 1, 1),
        TickCounts(BOT, 0, 0, 1),
    ]


def test_agents_without_end_count_together(counter: SessionCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, new agents of a rule count under one name."""
    monkeypatch.setattr(sessions, "AGENTS_MAX", 2)
    for number in range(5):
        counter.add(changed(APPLIED, 10, f"s{number}", f"bot-{number}"))
    counts = {tick.key.agent: tick.applicable for tick in counter.advance(300 * NS)}
    assert counts == {"bot-0": 1, "bot-1": 1, sessions.OTHER_AGENTS: 3}


def test_closed_sessions_are_forgotten(counter: SessionCounter) -> None:
    """The counter holds nothing of a session once it closed, nor of one that is silent for a week."""
    settled(counter, changed(APPLIED, 10), changed(APPLIED, 20, "s2"), changed(CLOSED, 30), until_s=100)
    assert set(counter.sessions) == {("s2", 0)}
    settled(counter, until_s=sessions.FORGET_S + 200)
    assert not counter.sessions
    assert not counter.cohorts
    assert counter.dropped == 1


def test_sessions_without_end_are_forgotten(counter: SessionCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, the one longest unheard of goes first."""
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    settled(counter, *(changed(APPLIED, 10, name) for name in ("s1", "s2", "s3", "s1")), until_s=50)
    assert [session for session, _ in counter.sessions] == ["s3", "s1"]


def test_sessions_are_limited_while_time_stands_still(
    counter: SessionCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a partition lags nothing is settled, but closed sessions make room, and then the oldest."""
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    counter.add(changed(APPLIED, 10, "open"))
    for number in range(100):
        settled = changed(APPLIED, 20, f"s{number}"), changed(CLOSED, 30, f"s{number}")
        for status in settled:
            counter.add(status)
    assert len(counter.sessions) <= 3
    assert ("open", 0) in counter.sessions
    assert counter.dropped == 0
    for name in ("s200", "s201", "s202"):
        counter.add(changed(APPLIED, 40, name))
    assert [session for session, _ in counter.sessions] == ["s200", "s201", "s202"]
    assert counter.advance(300 * NS)[0] == TickCounts(BOT, 0, 0, 104)


def test_agents_that_look_the_same_count_together(counter: SessionCounter) -> None:
    """An agent counts under the name that alerts give it, live and in histories; `unknown` is no name."""
    names = ("bot", " bot", "bot\t", None, "", "unknown", "x\u202e", "x\u202d", "y" * 130, "y" * 140)
    for number, name in enumerate(names):
        counter.add(changed(APPLIED, 10, f"s{number}", name))
    counts = {tick.key.agent: tick.applicable for tick in counter.advance(300 * NS)}
    assert counts == {"": 3, "bot": 3, "x\ufffd": 2, "y" * 120: 2}


def watch_rate() -> Rate:
    """One session in 20 is tolerated."""
    return Rate(tolerated=0.05, dispersion=0.0, mean=0.02)


def watch(state: WatchState | None = None) -> Watch:
    """A watch that tolerates one session in 20, and wants 100 ticks between false alarms."""
    rate = watch_rate()
    rates = Rates(1, TICK, 2, rate, (RuleRates("desk", "confirm", 2, rate, {}),))
    return Watch(tolerance(rates), DetectorSettings(arl_ticks=100, resolve_ticks=4, stale_ticks=10), state)


def day(broken: Iterable[int], ticks: int) -> list[tuple[list[StatusChange], int]]:
    """Ticks of ten sessions each, of which half violate in the broken ones, and each tick's end in ns."""
    bad = set(broken)
    return [
        (
            [
                changed(kind, tick * TICK + place * 9 + after, f"{tick}-{place}")
                for place in range(10)
                for after, kind in enumerate((APPLIED, VIOLATED, CLOSED))
                if kind is not VIOLATED or (tick in bad and place % 2)
            ],
            (tick + 1) * TICK * NS,
        )
        for tick in range(ticks)
    ]


def run(watched: Watch, settled: list[tuple[list[StatusChange], int]]) -> list[AlarmChange]:
    """Return the counts of the watch over these ticks."""
    changes: list[AlarmChange] = []
    for statuses, watermark in settled:
        for status in statuses:
            watched.add(status)
        changes += watched.advance(watermark)
    return changes


def test_a_spike_is_an_alarm_and_then_over() -> None:
    """Five broken ticks of 40 raise an alarm while they last, which is resolved soon after."""
    fired, resolved = run(watch(), day(range(20, 25), 40))
    assert (fired.key, fired.alarm.state, resolved.alarm.state) == (
        BOT,
        AlarmState.FIRED,
        AlarmState.RESOLVED,
    )
    assert 20 <= fired.begins // NS // TICK <= 22
    assert 25 <= resolved.begins // NS // TICK <= 30
    assert fired.watermark == fired.ends == fired.begins + TICK * NS
    assert fired.alarm.observed == 0.5


def test_an_alarm_of_which_nobody_speaks_ends() -> None:
    """When no session comes any more, an alarm is resolved after so many ticks, however the time advances."""
    watched = watch()
    run(watched, day(range(5), 5))
    assert watched.advance(14 * TICK * NS) == []
    (change,) = watched.advance(10_000 * TICK * NS)
    assert change.alarm.state is AlarmState.RESOLVED
    assert change.begins // NS // TICK == 14


def test_the_end_of_traffic_raises_nothing() -> None:
    """Violations that come long after count with their own sessions: at the end of traffic, too."""
    slow = Watch(
        tolerance(Rates(1, TICK, 14, watch_rate(), ())), DetectorSettings(arl_ticks=100, violating_min=0)
    )
    waiting: dict[int, list[StatusChange]] = {}
    for tick in range(40):
        for place in range(20):
            name, at = f"{tick}-{place}", tick * TICK + place
            waiting.setdefault(tick, []).append(changed(APPLIED, at, name))
            if place == 7 and tick % 2:
                waiting.setdefault(tick + 12, []).append(changed(VIOLATED, at + 12 * TICK, name))
            waiting.setdefault(tick + 12, []).append(changed(CLOSED, at + 12 * TICK + 1, name))
    settled = [(waiting.get(tick, []), (tick + 1) * TICK * NS) for tick in range(80)]
    assert run(slow, settled) == []
    assert slow.ticks == 2 * 40, "those of the rule, and those of the capture of content"
    assert not slow.counter.overdue


@pytest.mark.slow
def test_a_watch_cut_anywhere_reports_the_same() -> None:
    """A watch that reads the records of another at any tick, written as they change, ends like that one."""
    settled = day(range(20, 25), 40)
    whole = run(watch(), settled)
    for cut in range(0, 40, 3):
        state, store = WatchState(), dict[str, bytes]()
        first_half: list[AlarmChange] = []
        for step in settled[:cut]:
            watched, before = watch(state), deepcopy(state)
            first_half += run(watched, [step])
            writes = watched.writes()
            assert state == before, "the step leaves the state as it is"
            for name, data in write_watch(state, writes).items():
                store.pop(name, None)
                if data is not None:
                    store[name] = data
            state.apply(writes)
            assert read_watch(store, TICK) == state
        assert first_half + run(watch(state), settled[cut:]) == whole
        assert len(store) <= 4, "closed sessions leave no record"


def test_ticks_without_sessions_do_not_count() -> None:
    """Only ticks in which a session counts could have had an alarm."""
    watched = watch()
    settled = [changed(APPLIED, 10), changed(CLOSED, 30), changed(APPLIED, 210, "s2")]
    run(watched, [(settled, 1_000 * NS)])
    assert watched.ticks == 2 * 2


def test_state_of_other_ticks_is_refused() -> None:
    """Cohorts are numbered by their tick: with ticks of another length they would be of another century."""
    first = watch()
    run(first, day((), 3))
    store = {
        name: data for name, data in write_watch(WatchState(), first.writes()).items() if data is not None
    }
    with pytest.raises(StreamError) as refused:
        read_watch(store, 2 * TICK)
    assert refused.value.code == "TRL763"
    same = read_watch(store, TICK)
    assert "tick_s" not in write_watch(same, watch(same).writes())
    older = read_watch({name: data for name, data in store.items() if name != "tick_s"}, TICK)
    written = write_watch(older, watch(older).writes())
    assert "tick_s" in written, "a state of before is taken for one of these ticks"


@pytest.mark.parametrize(
    "records",
    [
        {"watermark": b"\x02\x00"},
        {"watermark": b""},
        {"tick_s": b"\x01\xc0"},
        {'rate ["desk","confirm","bot"]': b"\x01\xc1"},
        {'rate ["desk"]': b"\x01\x80"},
        {"session [1]": b"\x01\x80"},
        {"something": b"\x01\x80"},
    ],
)
def test_records_of_another_release_are_refused(records: dict[str, bytes]) -> None:
    """Another version, damage and unknown names are refused with what to do (TRL761)."""
    with pytest.raises(StreamError) as refused:
        read_watch(records, TICK)
    assert refused.value.code == "TRL761"


def test_the_risk_of_a_rule_is_a_series_of_its_own(counter: SessionCounter) -> None:
    """Sessions that are at risk count among the followed ones, and change nothing in the rule's series."""
    statuses = [
        changed(APPLIED, 10, "s1", followed=True),
        changed(AT_RISK, 12, "s1", followed=True),
        changed(AT_RISK, 13, "s2", followed=True),
        changed(APPLIED, 15, "s2", followed=True),
        changed(APPLIED, 20, "s3", followed=True),
        changed(APPLIED, 20, "s4"),
        changed(VIOLATED, 30, "s4"),
        changed(UNJUDGED, 40, "s3", followed=True),
    ]
    for status in statuses:
        counter.add(status)
    ticks = {tick.key.rule: (tick.violating, tick.applicable) for tick in counter.advance(900 * NS)}
    assert ticks == {"confirm": (1, 4), "risk:confirm": (2, 3), CAPTURE[1]: (0, 4)}
