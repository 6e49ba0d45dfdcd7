"""A monitor that follows a chain: activations, restarts, and a chain that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from tracline.predict.following.followed_chain import FollowedChain
from tracline.rules.model.rule import RuleSet
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Kind
from tracline.schemas.records.risk_crossing import RiskCrossing
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS
from tracline.stream.messages.codec import Activation, CandidateBatch, decode_judged, decode_verdicts
from tracline.stream.messages.record import Output
from tracline.stream.messages.risk_messages import decode_risk
from tracline.stream.messages.topics import Topic

from ...support.chains.chains_by_symbol import CHAIN, ChainsBySymbol
from ...support.event_rows import START
from .monitor_driver import (
    FIRST,
    OPTIONS,
    OTHER_TEXTS,
    RULES,
    SECOND,
    Monitor,
    batch,
    codes,
    record,
    verdicts,
    wrote,
)

RISKS = {"user:": 0.1, "user:angry": 0.9}
FOLLOWED = replace(OPTIONS, chain=CHAIN)
TEXTS = dict(RULES.sources)


class ChainsWithoutThresholds(ChainsBySymbol):
    """A chain that guarantees no threshold for any rule, and `--above` gives none."""

    def followed(self, digest: str, rule_set: RuleSet) -> FollowedChain | None:
        """The chain of these rules, of which it follows none."""
        found = super().followed(digest, rule_set)
        return None if found is None else replace(found, risks={})


def crossings(outputs: Sequence[Output]) -> list[RiskCrossing]:
    """Return the crossings among outputs."""
    messages = [decode_risk(output.value or b"") for output in outputs if output.topic is Topic.RISK]
    return [crossing for message in messages for crossing in message.crossings]


def chains(outputs: Sequence[Output]) -> list[tuple[str, str | None]]:
    """Return the session and the chain of each judged event among outputs."""
    messages = [decode_judged(output.value or b"") for output in outputs if output.topic is Topic.JUDGED]
    return [
        (event.session_id, chain)
        for message in messages
        for event, chain in zip(message.events, message.event_chains or (), strict=True)
    ]


def risks_of(outputs: Sequence[Output]) -> set[str]:
    """Return the ids of the crossings among outputs."""
    return {crossing.id for crossing in crossings(outputs)}


def named(found: Sequence[RiskCrossing]) -> list[tuple[str, str, str]]:
    """Return session, rule and level of crossings."""
    return [(each.session_id, each.rule, each.level.value) for each in found]


@pytest.mark.slow
def test_a_session_goes_on_being_followed_after_a_restart() -> None:
    """The risk that rose before a restart falls after it, and `at_risk` comes once."""
    chain = ChainsBySymbol(risks=RISKS)
    monitor = Monitor(FOLLOWED, chains=chain)
    up = monitor.take(0, batch(4, wrote(FIRST, 1, "hello"), wrote(FIRST, 3, "now!")))
    monitor.begin()
    down = monitor.take(1, batch(8, wrote(FIRST, 5, "sorry")))
    monitor.begin()
    again = monitor.take(2, batch(12, wrote(FIRST, 9, "but now!")))
    rules = ["answered", "calm", "gives-up", "paid-once"]
    assert sorted(named(crossings(up.outputs))) == [(FIRST, rule, "up") for rule in rules]
    assert sorted(named(crossings(down.outputs))) == [(FIRST, rule, "down") for rule in rules]
    assert [each.level.value for each in crossings(again.outputs)] == ["up"] * 4
    statuses = [
        status.status.value
        for done in (up, down, again)
        for output in done.outputs
        if output.topic is Topic.VERDICTS
        for status in decode_verdicts(output.value or b"").statuses
    ]
    assert statuses.count("at_risk") == 4
    assert chains(down.outputs) == [(FIRST, CHAIN)]


def test_a_monitor_that_lacks_the_chain_judges_on_and_follows_nothing() -> None:
    """The events name no chain; a session that began so is not followed later, and a new one is."""
    chain = ChainsBySymbol(is_loaded=False, risks=RISKS)
    monitor = Monitor(chains=chain)
    monitor.take(0, batch(0))
    monitor.take(1, Activation(TEXTS, chain=CHAIN))
    lacking = monitor.take(2, batch(4, wrote(FIRST, 1, "hello"), wrote(FIRST, 3, "now!")))
    assert monitor.stage.lacking(monitor.state) == {CHAIN}
    assert chains(lacking.outputs) == [(FIRST, None), (FIRST, None)]
    assert verdicts(lacking.outputs) == [(FIRST, "calm", "violated")]
    chain.is_loaded = True
    monitor.begin()
    assert monitor.stage.lacking(monitor.state) == frozenset()
    later = monitor.take(3, batch(9, wrote(FIRST, 5, "now!"), wrote(SECOND, 6, "now!")))
    assert {each.session_id for each in crossings(later.outputs)} == {SECOND}
    assert sorted(chains(later.outputs)) == [(FIRST, None), (SECOND, CHAIN)]


def test_a_session_keeps_the_chain_that_it_began_with() -> None:
    """An activation without a chain ends following for sessions that begin after it."""
    monitor = Monitor(FOLLOWED, chains=ChainsBySymbol(risks=RISKS))
    monitor.take(0, batch(2, wrote(FIRST, 1, "hello")))
    monitor.take(1, Activation(TEXTS))
    done = monitor.take(2, batch(9, wrote(FIRST, 3, "now!"), wrote(SECOND, 4, "now!")))
    assert {each.session_id for each in crossings(done.outputs)} == {FIRST}
    assert sorted(chains(done.outputs), key=str) == [(FIRST, CHAIN), (SECOND, None)]
    assert sorted(verdicts(done.outputs)) == [(FIRST, "calm", "violated"), (SECOND, "calm", "violated")]


def test_without_a_chain_messages_are_as_before() -> None:
    """Neither activations nor judged events have a field of chains."""
    monitor = Monitor()
    plain = monitor.take(0, batch(4, wrote(FIRST, 3, "now!")))
    activated = monitor.take(1, Activation(OTHER_TEXTS))
    data = b"".join(output.value or b"" for output in (*plain.outputs, *activated.outputs))
    assert b"chain" not in data
    assert b"follow" not in data


@pytest.mark.slow
def test_a_repeated_message_has_the_same_crossings() -> None:
    """After a crash between two writes, a message has no other crossings than before."""
    message = batch(4, wrote(FIRST, 1, "hello"), wrote(FIRST, 3, "now!"), wrote(SECOND, 3, "now!"))
    whole = risks_of(Monitor(FOLLOWED, chains=ChainsBySymbol(risks=RISKS)).take(0, message).outputs)
    for writes in range(3):
        monitor = Monitor(FOLLOWED, chains=ChainsBySymbol(risks=RISKS))
        monitor.take(0, message, writes)
        monitor.begin()
        again = risks_of(monitor.take(0, message).outputs)
        assert again == whole if writes == 0 else again <= whole


@pytest.mark.slow
def test_a_chain_of_the_start_that_is_not_in_force_is_known() -> None:
    """Rules in force without a chain stay so; the stage names the partitions, and open sessions go on."""
    plain = Monitor()
    plain.take(0, batch(2, wrote(FIRST, 1, "hello")))
    monitor = Monitor(FOLLOWED, plain.table, chains=ChainsBySymbol(risks=RISKS))
    assert monitor.stage.under_other_rules(monitor.state) == [0]
    done = monitor.take(1, batch(9, wrote(FIRST, 3, "now!"), wrote(SECOND, 4, "now!")))
    assert crossings(done.outputs) == []
    monitor.take(2, Activation(TEXTS, chain=CHAIN))
    assert monitor.stage.under_other_rules(monitor.state) == []
    later = monitor.take(3, batch(19, wrote(FIRST, 11, "now!"), wrote("cy", 12, "now!")))
    assert {each.session_id for each in crossings(later.outputs)} == {"cy"}


def test_a_session_that_goes_on_under_other_rules_is_not_followed_from_its_middle() -> None:
    """The events before are not at hand, so the risks would not be those of an audit."""
    monitor = Monitor(replace(OPTIONS, finish=False), chains=ChainsBySymbol(risks=RISKS))
    monitor.take(0, batch(2, wrote(FIRST, 1, "hello")))
    monitor.take(1, Activation(OTHER_TEXTS, chain=CHAIN))
    done = monitor.take(2, batch(9, wrote(FIRST, 3, "now!"), wrote(SECOND, 4, "now!")))
    assert {each.session_id for each in crossings(done.outputs)} == {SECOND}
    assert sorted(chains(done.outputs), key=str) == [(FIRST, None), (SECOND, CHAIN)]


def test_a_chain_without_a_threshold_follows_nothing() -> None:
    """The sessions are judged as without a chain, and the events name none."""
    monitor = Monitor(FOLLOWED, chains=ChainsWithoutThresholds(risks=RISKS))
    done = monitor.take(0, batch(9, wrote(FIRST, 3, "now!")))
    assert verdicts(done.outputs) == [(FIRST, "calm", "violated")]
    assert chains(done.outputs) == [(FIRST, None)]
    assert (crossings(done.outputs), codes(done.outputs)) == ([], [])
    monitor.begin()
    assert codes(monitor.take(1, batch(99, wrote(FIRST, 5, "now!"))).outputs) == []


LIMITED = ChainsBySymbol(risks=RISKS, next_high=0.01)
MANY = range(12)


def angry_ticks(drop: int | None = None, writes: int = 0) -> tuple[Monitor, dict[str, bool], bytes]:
    """Step a message for each of twelve ticks, with a verdict in each; at one a crash cuts the writes.

    Return the monitor, the drift of each crossing, and the detectors as they are stored.
    """
    monitor, drift = Monitor(FOLLOWED, chains=LIMITED), dict[str, bool]()
    for number in MANY:
        at = 300 * number
        texts = [wrote(f"{name} {number}", at + 1, "hello") for name in (FIRST, SECOND)]
        texts += [wrote(f"{name} {number}", at + 3, "now!") for name in (FIRST, SECOND)]
        message = batch(at + 10, *texts)
        steps: list[int | None] = [writes, None] if number == drop else [None]
        for step in steps:
            done = monitor.take(number, message, step)
            for each in crossings(done.outputs):
                assert drift.setdefault(each.id, each.drift) == each.drift, "a repeat differs"
            if step is not None:
                monitor.begin()
    return monitor, drift, monitor.table["d/0"]


def test_crossings_state_the_drift_of_the_ticks_before() -> None:
    """Two angry users a tick where one event of a hundred may violate: the rule has drifted, no other."""
    monitor, drift, _ = angry_ticks()
    later = batch(9_000, wrote("cy", 8_900, "hm"), wrote("cy", 8_990, "now!"))
    found = crossings(monitor.take(len(MANY), later).outputs)
    assert {each.rule for each in found if each.drift} == {"calm"}
    assert 0 < sum(drift.values()) < len(drift)
    assert monitor.state.drift["desk", "calm"].is_firing
    assert not monitor.state.drift["desk", "answered"].is_firing
    # A process reads them five times a second.
    assert monitor.state.partitions[0].detectors is monitor.state.partitions[0].detectors


@pytest.mark.slow
@pytest.mark.parametrize("writes", range(6))
def test_a_crash_changes_no_drift(writes: int) -> None:
    """Whatever writes of a message a crash leaves, repeated crossings and the detectors are the same."""
    whole = angry_ticks()[1:]
    for drop in (0, 3, 4, 11):
        assert angry_ticks(drop, writes)[1:] == whole


@pytest.mark.slow
@pytest.mark.parametrize("writes", [0, 1, 2, 3, 5, 8])
def test_drift_does_not_depend_on_the_division_into_steps(writes: int) -> None:
    """Messages of one step that a crash cuts come again one by one, with the same crossings and detectors."""
    messages = [
        record(
            number,
            batch(
                300 * number + 10,
                *(wrote(FIRST, 300 * number + at, text) for at, text in ((1, "hello"), (3, "now!"))),
            ),
        )
        for number in range(16)
    ]
    alone, together = (Monitor(FOLLOWED, chains=LIMITED) for _ in range(2))
    expected = {
        each.id: each.drift for message in messages for each in crossings(alone.step([message]).outputs)
    }
    found: dict[str, bool] = {}
    for begin in range(0, 16, 4):
        step = together.stage.step(together.state, messages[begin : begin + 4])
        found |= {each.id: each.drift for each in crossings(step.outputs)}
        together.write(step.writes[0][:writes])
        together.begin()
        for message in messages[begin : begin + 4]:
            found |= {each.id: each.drift for each in crossings(together.step([message]).outputs)}
    assert found == expected
    assert 0 < sum(expected.values()) < len(expected)
    assert together.state.drift == alone.state.drift


def several_ticks(first: int, count: int) -> CandidateBatch:
    """Return a message with a session in each of so many ticks."""
    sessions = [(f"{number}", 300 * number) for number in range(first, first + count)]
    texts = [
        wrote(name, at + second, text) for name, at in sessions for second, text in ((1, "hm"), (3, "now!"))
    ]
    return batch(300 * (first + count), *texts)


def of_drift(keys: Iterable[str]) -> set[str]:
    """Return the keys of records of drift, and of their chunks."""
    return {key for key in keys if key.startswith("d/")}


@pytest.mark.slow
@pytest.mark.parametrize("writes", [0, 1, 2, 3, 4, 5, 40])
def test_no_record_of_drift_is_larger_than_a_message(writes: int) -> None:
    """A message that comes late may have bets in many ticks; wherever a crash cuts, no chunk stays behind."""
    whole, cut = (Monitor(replace(FOLLOWED, bytes_max=600), chains=LIMITED) for _ in range(2))
    sizes, chunks = list[int](), 0
    messages = [several_ticks(*each) for each in ((0, 60), (60, 50), (110, 2), (112, 1))]
    together = cut.stage.step(cut.state, [record(0, messages[0]), record(1, messages[1])])
    cut.write(together.writes[0][:writes])
    cut.begin()
    for offset, message in enumerate(messages):
        sizes += [len(value or b"") for _, value in whole.take(offset, message).writes]
        chunks = max(chunks, len(of_drift(whole.table)) - 1)
        cut.take(offset, message, writes)
        cut.begin()
        cut.take(offset, message)
        cut.begin()
    # A crash after the last message may leave chunks, which the next step deletes.
    for monitor in (whole, cut):
        monitor.take(len(messages), several_ticks(113, 1))
    assert cut.state.drift == whole.state.drift
    assert of_drift(cut.table) == of_drift(whole.table)
    assert chunks > 1
    assert max(sizes) <= 700
    assert of_drift(whole.table) == {"d/0"}
    assert whole.state.drift["desk", "calm"].is_firing


def paid(session_id: str, second: int, call_id: str) -> Candidate:
    """Return a call that pays, in a second of its own."""
    time = START + second * NS
    claims = (Claim(Kind.TOOL_CALL, time, tool="pay", call_id=call_id, place=0, key=f"{second}"),)
    return Candidate(
        session_id, SpanRole.CHAT, time, time, claims, "t", f"{session_id}-{second}", str(second)
    )


@pytest.mark.slow
def test_a_session_with_many_slices_goes_on_from_its_pages() -> None:
    """After a restart at every message the crossings are those of one; a closed session leaves no page."""
    claims: list[Candidate] = []
    for number in range(60):
        claims += [paid(FIRST, 3 * number + 1, f"c{number}"), wrote(FIRST, 3 * number + 2, "hello")]
        claims += [paid(FIRST, 3 * number + 3, f"c{number // 2}")]
    chain = ChainsBySymbol(risks={"user:": 0.1, "tool_call:call,pay+own": 0.9, "unseen": 0.7})
    whole = Monitor(FOLLOWED, chains=chain).take(0, batch(999, *claims))
    parts = Monitor(FOLLOWED, chains=chain)
    found: list[RiskCrossing] = []
    sizes: list[int] = []
    for number, claim in enumerate(claims):
        done = parts.take(number, batch(number + 7, claim))
        found += crossings(done.outputs)
        sizes.append(sum(len(value or b"") for _, value in done.writes))
        parts.begin()
    assert {each.id for each in found} == {each.id for each in crossings(whole.outputs)}
    assert len({each.slice for each in found if each.slice}) == 60
    assert any(key.startswith("g/") for key in parts.table)
    assert sum(sizes[-40:]) < 2 * sum(sizes[60:100])
    parts.take(len(claims), batch(99_999))
    parts.take(len(claims) + 1, batch(199_999))
    assert not [key for key in parts.table if key.startswith(("g/", "s/"))]
