"""Outcomes and bets of sequences are those of their definitions, in one pass and in two."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tracline.predict.chain.walks import CLOSED, CLOSED_UNMET, CUT
from tracline.predict.following.archive import session_loop
from tracline.predict.following.archive.session_loop import (
    FAR,
    HAS_RISK,
    IS_BET,
    IS_HIGH,
    PLACE_SHIFT,
    RATIOS,
    VIOLATES,
    Tallies,
)

PLACES = 4
WITHINS = st.sampled_from([1, 3, int(FAR)])


def entries(*flags: np.int64) -> st.SearchStrategy[int]:
    """Return entries of any risk with some of these flags."""
    return st.builds(
        lambda place, drawn: place << PLACE_SHIFT | sum(map(int, drawn)),
        st.integers(0, PLACES - 1),
        st.sets(st.sampled_from(flags)),
    )


CLEAN = st.lists(entries(HAS_RISK, IS_BET, IS_HIGH), min_size=1, max_size=8)
ANY = st.lists(entries(HAS_RISK, IS_BET, VIOLATES), min_size=1, max_size=8)


def tallies(table: np.ndarray) -> Tallies:
    """Return empty tallies with these log e-values."""
    mask = np.zeros(1, np.bool_)
    outcomes, bets = np.zeros(2 * PLACES, np.int64), np.zeros(2 * PLACES, np.int64)
    return Tallies(outcomes, bets, table, np.zeros(RATIOS, np.int64), mask, mask, np.zeros(1, np.int64))


@given(ANY, st.integers(0, 9), st.sampled_from([CLOSED, CLOSED_UNMET, CUT]), WITHINS)
def test_outcomes_and_bets_are_those_of_their_definitions(
    drawn: list[int], begun: int, ending: int, within: int
) -> None:
    """An outcome is a verdict within the horizon, where that is seen whole; a bet is on the next event."""
    count, begun = len(drawn), min(begun, len(drawn))
    verdicts = {place for place, entry in enumerate(drawn, 1) if entry & VIOLATES}
    verdicts |= {count + 1} if ending == CLOSED_UNMET else set()
    outcomes, bets = Counter[int](), Counter[int]()
    for place, entry in enumerate(drawn, 1):
        risk = 2 * (entry >> PLACE_SHIFT)
        if entry & HAS_RISK and (ending != CUT or place + within <= count):
            outcomes[risk + any(place < at <= place + within for at in verdicts)] += 1
        if entry & IS_BET and 0 < begun <= place and (ending != CUT or place < count):
            bets[risk + (place + 1 in verdicts)] += 1
    table = np.arange(2 * PLACES * RATIOS, dtype=np.float64).reshape(2 * PLACES, RATIOS)
    counted, read = tallies(table), np.array([0, *drawn], np.int64)
    session_loop._count_outcomes(read, count, ending, within, counted.outcomes)
    logs = session_loop._bet(read, begun, count, ending, counted)
    assert counted.outcomes.tolist() == [outcomes[at] for at in range(2 * PLACES)]
    assert counted.bets.tolist() == [bets[at] for at in range(2 * PLACES)]
    assert list(logs) == (counted.bets @ table).tolist()


@given(CLEAN, st.integers(0, 9), st.booleans(), WITHINS, st.integers(0, 2**32))
def test_one_pass_counts_what_two_count(
    drawn: list[int], begun: int, is_cut: bool, within: int, seed: int
) -> None:
    """Outcomes, bets and log e-values, of cut and of closed sequences, from any event on."""
    read, count = np.array([0, *drawn], np.int64), len(drawn)
    ending, begun = CUT if is_cut else CLOSED, min(begun, count)
    table = np.random.default_rng(seed).normal(size=(2 * PLACES, RATIOS))
    once, twice = tallies(table), tallies(table)
    found = session_loop._count_clean(read, begun, count, ending == CUT, within, once)
    session_loop._count_outcomes(read, count, ending, within, twice.outcomes)
    assert found == session_loop._bet(read, begun, count, ending, twice)
    assert once.outcomes.tolist() == twice.outcomes.tolist()
    assert once.bets.tolist() == twice.bets.tolist()
