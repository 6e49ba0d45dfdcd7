"""Crossings of a threshold over any batches of events, against the same in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import orjson
import pytest
from tracline.predict.chain.contexts import UNSEEN
from tracline.predict.counting.labelled_sessions import LabelledSessions
from tracline.predict.counting.sequences import SymbolNumbers
from tracline.predict.counting.symbols import OWN
from tracline.predict.counting.watched_rules import watch
from tracline.predict.folder.load import load_chain
from tracline.predict.following.follow_loop import UP
from tracline.predict.following.followed_chain import followed_chain
from tracline.predict.following.followed_risks import ContextRisk, FollowedRisks
from tracline.predict.following.follower import RuleFollower, begun, follow
from tracline.predict.following.joined_tables import JoinedTables
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs

from ...support.chains.counted_archives import PACK
from ...support.chains.slow_counting import UNKNOWN_VALUE, SlowSession
from ...support.chains.slow_following import SlowCrossing, slow_crossings
from ...support.chains.small_chain import learned_chain
from .test_counting import buckets, random_sessions

KNOWN = ("user:p", "user:q", "user:p,q", "user:p+own", "user:q+own")
"""The symbols that the chain knows; `user:` and others are unseen."""
RULES = [("plain", False), ("stepped", False), ("sliced", True), ("both", True)]


@pytest.fixture
def desk(tmp_path: Path) -> RuleSet:
    """The rules of the pack."""
    file = tmp_path / "desk.yaml"
    file.write_text(PACK)
    return load_packs(file)


def random_risks(random: Random, states: int) -> dict[tuple[str, int], float]:
    """Return risks of some contexts; a few have none, and others that of the state alone."""
    named = [(symbol, state) for symbol in (*KNOWN, UNSEEN) for state in range(states)]
    return {each: random.choice((0.0, 0.39, 0.4, 0.45, 0.5, 0.9, float("nan"))) for each in named[:-1]}


def rule_risks(found: dict[tuple[str, int], float]) -> FollowedRisks:
    """Return the risks as a chain gives them, the same before and after the beginning of a slice."""
    contexts = [
        ContextRisk(symbol, state, memory, risk, 0.0, 1.0, 0, "context")
        for (symbol, state), risk in found.items()
        for memory in ("", OWN)
    ]
    return FollowedRisks("desk", "rule", "digest", 5, 0.5, contexts)


def followed(
    follower: RuleFollower, sessions: LabelledSessions, random: Random, batches: int
) -> list[SlowCrossing]:
    """Return the crossings of sessions whose events come in so many batches, cut at random."""
    count = 0 if follower.key is None else sessions.slice_count
    memory = begun(len(sessions.counted), 1, np.array([0, count]))
    begins = sessions.bounds[:-1].copy()
    tables = JoinedTables([follower], [None if follower.key is None else 0])
    tables.add(sessions.distinct)
    keys = [] if follower.key is None else [follower.key]
    events = sessions.codes, sessions.over, np.ascontiguousarray(sessions.slices[:, keys].T)
    places = {slot: int(place) for slot, place in enumerate(sessions.bounds[:-1])}
    found: list[SlowCrossing] = []
    for batch in range(batches):
        ends = sessions.bounds[1:].copy()
        if batch < batches - 1:
            pairs = zip(begins.tolist(), ends.tolist(), strict=True)
            ends = np.array([random.randint(begin, end) for begin, end in pairs], dtype=np.int64)
        spans = begins, ends
        bets = tables.bets.begin(len(sessions.codes))
        crossings = follow(tables.arrays(), spans, events, memory, bets)
        begins = ends
        for event, slot, _, member, _, level in zip(*map(np.ndarray.tolist, crossings), strict=True):
            name = sessions.ids[slot], event - places[slot]
            found.append(SlowCrossing(*name, str(member), "up" if level == UP else "down"))
    return sorted(found, key=str)


def named_slices(found: Sequence[SlowCrossing], sessions: Sequence[SlowSession]) -> list[SlowCrossing]:
    """Return crossings with the numbers that slices have in their bucket in place of their values."""
    values: dict[tuple[str, str | None], str] = {}
    for session in sorted(sessions, key=lambda each: each.name):
        for event in session.events:
            if event.value not in (None, UNKNOWN_VALUE):
                values.setdefault((session.name, event.value), str(len(values)))
    named = [each._replace(value=values.get((each.session, each.value), "-1")) for each in found]
    return sorted(named, key=str)


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "sliced"), RULES)
def test_crossings_of_any_batches_are_those_of_plain_python(
    desk: RuleSet, tmp_path: Path, rule: str, sliced: bool
) -> None:
    """Risks, unseen symbols, slices and steps: one batch and many have the crossings of plain stepping."""
    number = [each.id for each in desk.rules].index(rule)
    machine, watched, crossed = compile_rule(desk.rules[number]), watch(desk), 0
    for seed in range(12):
        random = Random(seed)
        sessions = [
            SlowSession(
                each.name,
                [
                    event._replace(seen="steps" not in PACK_RULES[rule] or bool(event.true))
                    for event in each.events
                ],
                each.closed,
            )
            for each in random_sessions(25, seed)
        ]
        risks = random_risks(random, len(machine.next))

        def risk_of(symbol: str, state: int, risks: dict = risks) -> float | None:
            known = symbol if (symbol, state) in risks else UNSEEN
            return risks.get((known, state))

        expected = [
            each for session in sessions for each in slow_crossings(machine, session, sliced, risk_of, 0.5)
        ]
        crossed += len(expected)
        [bucket] = buckets(watched, sessions, tmp_path / str(seed))
        follower = RuleFollower(watched, number, rule_risks(risks), SymbolNumbers())
        for batches in (1, 2, 5):
            assert followed(follower, bucket, random, batches) == named_slices(expected, sessions)
    assert crossed > 100


PACK_RULES = {line.split("id: ")[1].split(",")[0]: line for line in PACK.splitlines() if "id:" in line}
"""The line of each rule in the pack."""


def test_a_context_that_the_chain_lacks_has_the_risk_of_its_state() -> None:
    """A symbol that was never seen, and a known one in a state that it never led to."""
    risks = rule_risks({("user:p", 0): 0.9, (UNSEEN, 0): 0.1, (UNSEEN, 1): 0.2})
    places = risks.places(["user:p", "user:r"], [0, 1, 7], ["", "", ""])
    assert risks.values[places].tolist()[0][:2] == [0.9, 0.2]
    assert risks.values[places].tolist()[1][:2] == [0.1, 0.2]
    assert np.isnan(risks.values[places][:, 2]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "thresholds"), [((), {0.25}), (("--by", "agent"), set()), (("--hold-out", "0"), set())]
)
def test_a_threshold_has_its_guarantee_only_for_the_risks_that_are_followed(
    tmp_path: Path, options: tuple[str, ...], thresholds: set[float]
) -> None:
    """A chain by agents is followed by the risks of any other; one that held nothing out has none."""
    path = learned_chain(tmp_path, *options)
    content = orjson.loads((path / "chain.json").read_bytes())
    for rule in content["rules"]:
        for each in rule["thresholds"]:
            each["threshold"] = 0.25
    (path / "chain.json").write_bytes(orjson.dumps(content))
    rules = load_packs(tmp_path / "desk.yaml")
    found = followed_chain(load_chain(path), rules, None)
    assert {each.threshold for each in found.risks.values()} == thresholds
    assert len(found.no_threshold) == (0 if thresholds else len(rules.rules))
    assert {each.threshold for each in followed_chain(load_chain(path), rules, 0.5).risks.values()} == (
        thresholds or {0.5}
    )
