"""Sessions with many slices, followed from stored states, and states of the release before."""

from __future__ import annotations

from base64 import b85decode
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from tracline.predict.following.followed_chain import FollowedChain
from tracline.predict.following.live.followed_session import FollowedSession
from tracline.predict.following.live.session_follower import SessionFollower
from tracline.rules.labels.labelled_rows import FrameColumns
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs
from tracline.schemas.paged.page import stored_page

from ...support.chains.chains_by_symbol import chain_of, expected_crossings, limited, stored_and_read
from ...support.chains.counted_archives import PACK, rows
from ...support.chains.slow_bets import bets_by_row
from ...support.chains.slow_counting import SlowEvent, SlowSession
from ...support.event_rows import frame_of

FORMER = (
    b"nXoW7WiVwjG-EenGBRN>VldAbl?LMEB7gvsrgd{=ayoISb#rBMI&ds;s&Zj+WjZn|Z+C90F)JW4D<Cl-F)Ne+009BS1ONa40D=O7"
    b"p<<JwF)IN8p<|PxF)IQ91A?JqlcF&z0RW+6lcF#y0ssNP",
    b"nXoW7WiVwjG-EenGBRN>VldAbl?LMEB7gvsrgd{=ayoIQb#rBMI&i9TVRB_UGAnO)ZmKaWATlc;G9WQ4lmGw$0mK9d2nYy*0)nAo"
    b"lcF&z0sx_6lcF&z0ssSop<$DvFe?H8p<<JwFe?H80l)",
)
"""States of version 1 after the first four events of `BEGUN`, as the release before wrote them."""
BEGUN = (
    [("pq", "b"), ("", None), ("pq", None), ("q", "c"), ("pq", None), ("", None)],
    [("", None), ("p", None), ("q", "b"), ("q", "a"), ("pq", None), ("pq", None), ("p", "c")],
)


@pytest.fixture
def desk(tmp_path: Path) -> RuleSet:
    """The rules of the pack."""
    file = tmp_path / "desk.yaml"
    file.write_text(PACK)
    return load_packs(file)


def session_of(events: list[tuple[str, str | None]], name: str = "s") -> SlowSession:
    """Return a session of events, given their propositions and values."""
    made = [SlowEvent("user:" + ",".join(word), frozenset(word), value) for word, value in events]
    return SlowSession(name, made, closed=True)


def sliced_events(count: int, values: int, seed: int) -> list[tuple[str, str | None]]:
    """Return random events, half of them with a value."""
    random = Random(seed)
    return [
        (random.choice(["", "p", "q", "pq"]), random.choice([None, f"v{random.randrange(values)}"]))
        for _ in range(count)
    ]


def followed(
    chain: FollowedChain,
    events: list[dict],
    sizes: tuple[int, ...],
    state: FollowedSession | None = None,
) -> Iterator[tuple[list[dict], dict[str, FollowedSession], set[tuple], list]]:
    """Yield batches of a session's events, the states after each, its crossings, and its bets."""
    states, place = {} if state is None else {"s": state}, 0
    while place < len(events):
        follower, size = SessionFollower(chain), sizes[place % len(sizes)]
        batch, place = events[place : place + size], place + size
        labelled = chain.watched.compiled.labeler.label_rows(FrameColumns(frame_of(batch)))
        done = follower.follow(labelled, states, {})
        states = stored_and_read(done.states)
        found = {
            (
                "s",
                chain.watched.rules[each.rule].id,
                batch[each.row]["seq"],
                each.value,
                "up" if each.is_up else "down",
            )
            for each in done.crossings
        }
        assert len(found) == len(done.crossings)
        bets = bets_by_row(follower, done)
        yield batch, states, found, [bets.get(row) for row in range(len(batch))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_slices_of_a_class_have_the_crossings_and_bets_of_each(desk: RuleSet, seed: int) -> None:
    """Most slices have no event in a batch; their crossings and bets are those of whole sessions."""
    session = session_of(sliced_events(120, 40, seed))
    events, chain = rows([session]), limited(chain_of(desk), lambda _: 0.3)
    (whole,) = followed(chain, events, sizes=(len(events),))
    parts = list(followed(chain, events, sizes=(1, 2, 5, 7)))
    assert set().union(*(found for _, _, found, _ in parts)) == whole[2]
    assert whole[2] == expected_crossings(desk, [session])
    assert [bet for *_, bets in parts for bet in bets] == whole[3]
    assert len({value for _, _, _, value, _ in whole[2]}) > 25


@pytest.mark.parametrize("begun", [0, 1])
def test_a_state_of_the_release_before_goes_on(desk: RuleSet, begun: int) -> None:
    """It has a run for each rule and slice, which are classes from the next event on."""
    session, chain = session_of(BEGUN[begun]), chain_of(desk)
    state = msgspec.msgpack.decode(b85decode(FORMER[begun]), type=FollowedSession)
    follower = SessionFollower(chain)
    assert state.slices
    assert state.tables == follower.tables
    events = rows([session])
    parts = list(followed(chain, events[:4], sizes=(1,)))
    shown = list(follower.risks(state))
    assert shown == list(follower.risks(parts[-1][1]["s"]))
    crossed = set().union(*(found for _, _, found, _ in parts))
    rest = list(followed(chain, events[4:], (1,), state))
    assert rest[0][1]["s"].slices == {}
    assert crossed | set().union(*(found for _, _, found, _ in rest)) == expected_crossings(desk, [session])


@pytest.mark.slow
def test_a_state_has_as_many_bytes_after_many_slices_as_after_few(desk: RuleSet) -> None:
    """Pages are written once: the bytes of 100 events do not grow with the slices before."""
    random = Random(1)
    events = [(random.choice(["p", "q", "pq"]), f"v{number}") for number in range(900)]
    written, known = list[int](), set[int]()
    for _, states, *_ in followed(chain_of(desk), rows([session_of(events)])[:-1], sizes=(1,)):
        state = states["s"]
        pages = [page for page in state.sliced.pages if hash(page.data) not in known]
        known |= {hash(page.data) for page in pages}
        data = msgspec.msgpack.encode(state, enc_hook=stored_page)
        stored = sum(page.size for page in state.sliced.pages)
        written.append(len(data) - stored + sum(page.size for page in pages))
    first, last = sum(written[100:300]), sum(written[700:900])
    print(first / 200, last / 200)
    assert last < 2 * first
    assert max(written) < 30_000
