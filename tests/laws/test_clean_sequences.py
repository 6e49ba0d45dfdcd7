"""Sequences without a verdict are counted in one pass as they are in two."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tracline.predict.chain.walks import CLOSED, CUT
from tracline.predict.following.archive import session_loop
from tracline.predict.following.archive.session_loop import (
    FAR,
    HAS_RISK,
    IS_BET,
    IS_HIGH,
    PLACE_SHIFT,
    RATIOS,
    Tallies,
)

PLACES = 4
entries = st.builds(
    lambda place, flags: place << PLACE_SHIFT | sum(map(int, flags)),
    st.integers(0, PLACES - 1),
    st.sets(st.sampled_from([HAS_RISK, IS_BET, IS_HIGH])),
)


def tallies(table: np.ndarray) -> Tallies:
    """Return empty tallies with these log e-values."""
    mask = np.zeros(1, np.bool_)
    outcomes, bets = np.zeros(2 * PLACES, np.int64), np.zeros(2 * PLACES, np.int64)
    return Tallies(outcomes, bets, table, np.zeros(RATIOS, np.int64), mask, mask, np.zeros(1, np.int64))


@given(
    st.lists(entries, min_size=1, max_size=8),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from([1, 3, int(FAR)]),
    st.integers(0, 2**32),
)
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
