"""Sessions followed over batches from stored states, against following them at once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tracline.predict.following.followed_chain import FollowedChain
from tracline.predict.following.live.followed_session import FollowedSession
from tracline.predict.following.live.session_follower import SessionFollower
from tracline.rules.labels.labelled_rows import FrameColumns, LabelledRows
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs

from ...support.chains.chains_by_symbol import chain_of, expected_crossings, stored_and_read
from ...support.chains.counted_archives import PACK, random_sessions, rows
from ...support.event_rows import frame_of


@pytest.fixture
def desk(tmp_path: Path) -> RuleSet:
    """The rules of the pack."""
    file = tmp_path / "desk.yaml"
    file.write_text(PACK)
    return load_packs(file)


def labelled_rows(chain: FollowedChain, events: list[dict]) -> LabelledRows:
    """Return the columns and labels of these event rows."""
    return chain.watched.compiled.labeler.label_rows(FrameColumns(frame_of(events)))


def in_batches(chain: FollowedChain, events: list[dict], random: Random, stored: bool) -> list[tuple]:
    """Return the crossings of events that come in batches; stored states are read by another follower."""
    follower, states = SessionFollower(chain), dict[str, FollowedSession]()
    found: list[tuple] = []
    waiting = list(events)
    while waiting:
        size = random.randint(1, 30)
        batch, waiting = waiting[:size], waiting[size:]
        if stored:
            follower = SessionFollower(chain)
            states = stored_and_read(states)
        named = {each["session_id"] for each in batch}
        done = follower.follow(
            labelled_rows(chain, batch), {name: states[name] for name in named & states.keys()}, {}
        )
        states = {name: state for name, state in states.items() if name not in named} | dict(done.states)
        for crossing in done.crossings:
            event = batch[crossing.row]
            rule = chain.watched.rules[crossing.rule].id
            level = "up" if crossing.is_up else "down"
            found.append((event["session_id"], rule, event["seq"], crossing.value, level))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True])
def test_crossings_of_any_batches_are_those_at_once(desk: RuleSet, stored: bool) -> None:
    """Plain, stepped and sliced rules of interleaved sessions, with and without a restart at every batch."""
    for seed in range(6):
        random, sessions = Random(seed), random_sessions(30, seed)
        chain = chain_of(desk)
        by_session = [rows([each]) for each in sessions]
        events: list[dict] = []
        while by_session:
            queue = random.choice(by_session)
            events.append(queue.pop(0))
            by_session = [each for each in by_session if each]
        found = in_batches(chain, events, random, stored)
        assert len(found) == len(set(found)) > 20
        assert set(found) == expected_crossings(desk, sessions)


def test_distinct_events_without_end_are_forgotten(desk: RuleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that begins again with its tables or translations goes on with the same crossings."""
    random, sessions, chain = Random(9), random_sessions(30, 9), chain_of(desk)
    for module in ("run_texts", "session_follower"):
        monkeypatch.setattr(f"tracline.predict.following.live.{module}.REMEMBERED_MAX", 2)
        found = in_batches(chain, rows(sessions), random, stored=False)
        assert set(found) == expected_crossings(desk, sessions)
