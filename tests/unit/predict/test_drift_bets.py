"""The bets on live events, and the detectors of drift over ticks of event time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from random import Random
from time import process_time

import msgspec
import pytest
from tracline.predict.counting.symbols import OWN
from tracline.predict.detector import RATIOS
from tracline.predict.drift.bet_sums import BetGroups, BetSum, bet_sums
from tracline.predict.drift.detectors import (
    AGENTS_MAX,
    OTHER_AGENTS,
    Detectors,
    DriftDetector,
    by_rule,
    has_drifted,
    with_bets,
)
from tracline.predict.drift.event_bets import LOG_ONE
from tracline.predict.following.followed_chain import FollowedChain
from tracline.predict.following.followed_risks import ContextRisk
from tracline.predict.following.live.followed_session import FollowedSession
from tracline.predict.following.live.session_follower import SessionFollower
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.labels.labelled_rows import FrameColumns
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs

from ...support.chains.chains_by_symbol import chain_of, limited, stored_and_read
from ...support.chains.counted_archives import PACK, random_sessions, rows
from ...support.chains.slow_bets import bets_by_row, e_value, slow_bets
from ...support.chains.slow_counting import SlowSession
from ...support.event_rows import frame_of

Bets = dict[tuple[str, str, int], tuple[int, int, tuple[int, ...]]]
"""Bets, those found against, and log e-values by session, rule and event."""


@pytest.fixture
def desk(tmp_path: Path) -> RuleSet:
    """The rules of the pack."""
    file = tmp_path / "desk.yaml"
    file.write_text(PACK)
    return load_packs(file)


def high_of(symbol: str, state: int) -> float:
    """The limit of a context, which its symbol and its state decide."""
    return 0.05 + 0.1 * (len(symbol) % 4) + 0.02 * state


def limit_of(context: ContextRisk) -> float:
    """The limit of a context."""
    return high_of(context.symbol, context.state)


SYMBOLS = [f"user:{word}{suffix}" for word in ("", "p", "q", "p,q") for suffix in ("", OWN)]


def bets_in_batches(chain: FollowedChain, events: Sequence[dict], random: Random) -> Bets:
    """Return the bets on events that come in batches, between which the states are stored."""
    states: dict[str, FollowedSession] = {}
    found: Bets = {}
    waiting = list(events)
    while waiting:
        follower = SessionFollower(chain)
        size = random.randint(1, 20)
        batch, waiting = waiting[:size], waiting[size:]
        labelled = chain.watched.compiled.labeler.label_rows(FrameColumns(frame_of(batch)))
        done = follower.follow(
            labelled,
            {
                each["session_id"]: states[each["session_id"]]
                for each in batch
                if each["session_id"] in states
            },
            {},
        )
        states = {
            name: state for name, state in states.items() if name not in {e["session_id"] for e in batch}
        }
        states |= stored_and_read(done.states)
        if done.bets is None:
            continue
        for row, sums in bets_by_row(follower, done).items():
            for each in sums:
                key = batch[row]["session_id"], each.rule, batch[row]["seq"]
                assert key not in found
                found[key] = each.trials, each.violated, each.logs
    return found


def expected_bets(rule_set: RuleSet, sessions: list[SlowSession]) -> dict[tuple[str, str, int], tuple]:
    """Return the same by the definition, with the logarithms as they are."""
    return {
        (each.name, rule.id, bet.event + 1): (bet.trials, bet.violated, bet.logs)
        for rule in rule_set.rules
        for each in sessions
        for bet in slow_bets(
            compile_rule(rule),
            SlowSession(
                each.name,
                [e._replace(seen=rule.steps is None or bool(e.true)) for e in each.events],
                each.closed,
            ),
            rule.for_each is not None,
            high_of,
        )
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_bets_of_any_batches_are_those_of_the_definition(desk: RuleSet, seed: int) -> None:
    """Plain, stepped and sliced rules, with closes, and with a restart at every batch."""
    random, sessions = Random(seed), random_sessions(40, seed)
    by_session = [rows([each]) for each in sessions]
    events: list[dict] = []
    while by_session:
        events.append(random.choice(by_session).pop(0))
        by_session = [each for each in by_session if each]
    chain = limited(chain_of(desk, dict.fromkeys(SYMBOLS, 0.1)), limit_of)
    found, expected = bets_in_batches(chain, events, random), expected_bets(desk, sessions)
    assert found.keys() == expected.keys()
    for key, (trials, violated, logs) in found.items():
        assert (trials, violated) == expected[key][:2], key
        assert [each / LOG_ONE for each in logs] == pytest.approx(expected[key][2], abs=2e-6), key
    assert sum(violated for _, violated, _ in found.values()) > 50


def test_bets_add_up_by_message_tick_and_agent(desk: RuleSet) -> None:
    """Of any division, the sums of all groups are those of all rows; ticks may be before the epoch."""
    (session,) = random_sessions(1, 3)
    events, chain = rows([session]), limited(chain_of(desk, dict.fromkeys(SYMBOLS, 0.1)), limit_of)
    follower = SessionFollower(chain)
    done = follower.follow(chain.watched.compiled.labeler.label_rows(FrameColumns(frame_of(events))), {}, {})
    assert done.bets is not None
    single, count = bets_by_row(follower, done), len(done.bets.rows)
    groups = BetGroups([n % 2 for n in range(count)], [-(n % 3) for n in range(count)], ["a"] * count)
    summed = bet_sums("c", follower.names, done.bets, groups)
    found, expected = Counter[tuple](), Counter[tuple]()
    for message, sums in summed.items():
        for each in sums:
            found[message, each.tick, each.rule] += each.trials
            found[message, each.tick, each.rule, "log"] += each.logs[0]
    for place, row in enumerate(done.bets.rows.tolist()):
        for each in single.get(row, []):
            expected[place % 2, -(place % 3), each.rule] += each.trials
            expected[place % 2, -(place % 3), each.rule, "log"] += each.logs[0]
    assert found == expected
    assert {key[1] for key in found} == {0, -1, -2}


def test_a_bet_is_never_worth_more_than_its_stake_whatever_sequences_an_event_steps() -> None:
    """Two slices whose own events violate, and events of both that never do: the mean gain is 0."""
    alone, both = 0.25, 0.5
    limit = alone / (alone + both)
    for ratio in RATIOS:
        wins, losses = e_value(limit, True, ratio) - 1, e_value(limit, False, ratio) - 1
        mean = 2 * alone * (1 + wins / 2) + both * (1 + 2 * losses / 2)
        assert mean == pytest.approx(1)


def tick_bets(tick: int, violated: int, trials: int = 50, high: float = 0.02, agent: str = "a") -> BetSum:
    """Return the bets of a tick with so many verdicts."""
    values = [(log(e_value(high, True, r)), log(e_value(high, False, r))) for r in RATIOS]
    logs = tuple(int((violated * won + (trials - violated) * lost) * LOG_ONE // 1) for won, lost in values)
    return BetSum("c", "desk", "calm", agent, tick, trials, violated, logs)


def drift_after(bets: Sequence[BetSum]) -> Detectors:
    """Return the detectors after these bets."""
    return with_bets({}, bets)


def test_more_verdicts_than_the_limit_raise_an_alarm_and_its_end_resolves_it() -> None:
    """The alarm counts from the tick after; as many verdicts as allowed raise none."""
    calm = drift_after([tick_bets(tick, 1) for tick in range(200)])
    assert not has_drifted(calm, "c", "desk", "calm", 200)
    before, found = (drift_after([tick_bets(tick, 8) for tick in range(ticks)]) for ticks in (2, 3))
    assert not has_drifted(before, "c", "desk", "calm", 1)
    assert has_drifted(before, "c", "desk", "calm", 2)
    assert has_drifted(found, "c", "desk", "calm", 3)
    assert not has_drifted(found, "c", "desk", "other", 3)
    assert not has_drifted(found, "other", "desk", "calm", 3)
    later = with_bets(found, [tick_bets(tick, 0) for tick in range(3, 40)])
    assert not has_drifted(later, "c", "desk", "calm", 40)
    assert by_rule([calm, with_bets(found, [tick_bets(3, 0)])])["desk", "calm"].is_firing
    assert by_rule([calm])["desk", "calm"].evidence < 9


def test_bets_of_a_tick_add_up_in_any_parts_and_order() -> None:
    """The detectors do not depend on the messages that the bets came in, nor on a stored form."""
    random = Random(3)
    bets = [tick_bets(tick, random.randint(0, 5), agent=agent) for tick in range(30) for agent in "ab"]
    whole, parts = drift_after(bets), drift_after([])
    for tick in range(30):
        of_tick = [each for each in bets if each.tick == tick]
        random.shuffle(of_tick)
        for each in of_tick:
            parts = with_bets(parts, [each])
            kind = list[tuple[tuple[str, str, str, str], DriftDetector]]
            stored = msgspec.msgpack.decode(msgspec.msgpack.encode(list(parts.items())), type=kind)
            assert [each for _, each in stored] == list(parts.values())
    assert parts == whole


def test_a_late_bet_counts_in_the_open_tick() -> None:
    """No tick is settled twice."""
    found = drift_after([tick_bets(5, 1), tick_bets(4, 1)])
    late = with_bets(drift_after([tick_bets(5, 1)]), [tick_bets(4, 1)])
    assert found != late
    (detector,) = late.values()
    assert (detector.tick, detector.trials, detector.violated) == (5, 100, 2)


def test_agents_without_end_share_a_detector_and_old_ones_are_dropped() -> None:
    """The state has a bound, whatever names come."""
    found = drift_after([tick_bets(0, 0, agent=f"agent {n}") for n in range(AGENTS_MAX + 5)])
    assert len(found) == AGENTS_MAX + 1
    (shared,) = [each for key, each in found.items() if key.agent == OTHER_AGENTS]
    assert shared.trials == 5 * 50
    assert len(with_bets(found, [tick_bets(1_000, 0)])) == 1


@pytest.mark.parametrize("seed", range(8))
def test_any_division_of_bets_gives_the_same_detectors(seed: int) -> None:
    """Days may pass between two bets, in one message or in two; agents come and go."""
    random, tick = Random(seed), 0
    bets: list[BetSum] = []
    for _ in range(120):
        tick += random.choice([0, 0, 1, 5, 200, 290, 3_000])
        bets.append(tick_bets(tick, random.choice([0, 9]), agent=f"agent {random.randrange(40)}"))
    divided: Detectors = {}
    begin = 0
    while begin < len(bets):
        size = random.randint(1, 9)
        divided = with_bets(divided, bets[begin : begin + size])
        begin += size
    assert divided == with_bets({}, bets)


def seconds_of(agents: int) -> float:
    """Return the processor seconds that 5,000 bets on events of so many agents take."""
    bets = [tick_bets(0, 0, agent=f"agent {n % agents}") for n in range(5_000)]
    bets = [msgspec.structs.replace(bet, rule=f"rule {n % 25}") for n, bet in enumerate(bets)]
    begin = process_time()
    with_bets({}, bets)
    return process_time() - begin


@pytest.mark.slow
def test_bets_on_many_agents_take_as_long_as_on_few() -> None:
    """A monitor of a thousand agents must answer its group while it counts their bets."""
    assert seconds_of(1_000) < 6 * seconds_of(10)


def test_the_detector_multiplies_the_bets_of_a_tick() -> None:
    """After one tick the evidence is the mean of the e-values."""
    found = drift_after([tick_bets(0, 4), tick_bets(1, 0)])
    (detector,) = found.values()
    logs = [each / LOG_ONE for each in tick_bets(0, 4).logs]
    assert detector.evidence == pytest.approx(log(sum(map(exp, logs)) / len(logs)))
