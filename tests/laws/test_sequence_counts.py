"""Outcomes and bets of sequences are those of their definitions, in one pass and in two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tracline.predict.chain.steps import CUT_CLOSING, HELD_CLOSING, UNMET_CLOSING
from tracline.predict.chain.walks import CLOSED, CLOSED_UNMET, CUT
from tracline.predict.counting.sequence_loop import NOT_SEEN
from tracline.predict.following.archive import session_loop
from tracline.predict.following.archive.session_loop import (
    CUTS,
    FAR,
    HAS_RISK,
    IS_BET,
    IS_HIGH,
    PLACE_SHIFT,
    RATIOS,
    ROW_MASK,
    ROW_SHIFT,
    STAYS_HIGH,
    VIOLATES,
    ArchiveTables,
    BucketSpans,
    FollowedOut,
    RuleLimits,
    Scratch,
    Tallies,
)
from tracline.rules.engine.kernel import SLICES_MAX

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
    return Tallies(outcomes, bets, table, np.zeros(PLACES, np.int64), mask, mask, np.zeros(1, np.int64))


def defined(drawn: Sequence[int], begun: int, ending: int, within: int) -> tuple[Counter[int], Counter[int]]:
    """Return the outcomes and bets of a sequence by their definitions.

    An outcome is a verdict within the horizon, where that is seen whole; a bet is on the next event.
    """
    count = len(drawn)
    verdicts = {place for place, entry in enumerate(drawn, 1) if entry & VIOLATES}
    verdicts |= {count + 1} if ending == CLOSED_UNMET else set()
    outcomes, bets = Counter[int](), Counter[int]()
    for place, entry in enumerate(drawn, 1):
        risk = 2 * (entry >> PLACE_SHIFT)
        if entry & HAS_RISK and (ending != CUT or place + within <= count):
            outcomes[risk + any(place < at <= place + within for at in verdicts)] += 1
        if entry & IS_BET and 0 < begun <= place and (ending != CUT or place < count):
            bets[risk + (place + 1 in verdicts)] += 1
    return outcomes, bets


@given(ANY, st.integers(0, 9), st.sampled_from([CLOSED, CLOSED_UNMET, CUT]), WITHINS)
def test_outcomes_and_bets_are_those_of_their_definitions(
    drawn: list[int], begun: int, ending: int, within: int
) -> None:
    """Those of sequences with any verdicts and endings, which begin to count at any event."""
    count, begun = len(drawn), min(begun, len(drawn))
    outcomes, bets = defined(drawn, begun, ending, within)
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


ROWS, KINDS, SEEN = 3, 4, 5
"""Rows and kinds of a small rule, and the codes of events, the last of which it does not see."""
RISKS = [HAS_RISK | IS_BET, HAS_RISK, IS_BET, 0]
"""The flags of risks by place, which decide whether there is one and whether it is bet on."""


def small_rule(random: Random) -> ArchiveTables:
    """Return the tables of a rule without slices, with few verdicts and warnings."""
    found: list[int] = []
    for _ in range(ROWS * KINDS):
        place, row = random.randrange(PLACES), random.randrange(ROWS)
        rare = (
            random.choice([CUTS, VIOLATES, IS_HIGH | STAYS_HIGH, STAYS_HIGH]) if random.random() < 0.1 else 0
        )
        found.append(place << PLACE_SHIFT | row * KINDS << ROW_SHIFT | int(RISKS[place] | rare))
    closings = random.choices([HELD_CLOSING, UNMET_CLOSING, CUT_CLOSING], [8, 1, 1], k=ROWS)
    kinds = np.array([*range(KINDS), NOT_SEEN], np.int32)
    marks = np.zeros(KINDS, np.uint8)
    entries_, codes = np.array(found, np.int64), np.array(closings, np.uint8)
    return ArchiveTables(kinds, kinds, marks, entries_, KINDS, codes)


def sequence(rule: ArchiveTables, codes: Sequence[int], is_open: bool) -> tuple[list[int], int]:
    """Return the entries of a session's sequence, and its ending."""
    row, found = 0, list[int]()
    for code in codes:
        if code < KINDS:
            entry = int(rule.entries[row + code])
            if entry & CUTS:
                return found, CUT
            found.append(entry)
            row = entry >> ROW_SHIFT & ROW_MASK
    closing = CUT_CLOSING if is_open else int(rule.closings[row // KINDS])
    return found, {CUT_CLOSING: CUT, UNMET_CLOSING: CLOSED_UNMET}.get(closing, CLOSED)


def followed(
    rule: ArchiveTables, sessions: Sequence[Sequence[int]], is_open: Sequence[bool], within: int
) -> Tallies:
    """Return the counts of sessions, given the codes of their events."""
    bounds = np.cumsum([0, *map(len, sessions)])
    codes = np.array([code for session in sessions for code in session], np.int32)
    counted = np.ones(len(sessions), np.bool_)
    spans = BucketSpans(bounds, bounds[1:], counted, np.array(is_open))
    none = np.empty(0, np.int32)
    events = codes, np.zeros(len(codes), np.bool_), none, np.ones(len(codes), np.bool_)
    zeros = [np.zeros(2 * PLACES, np.int64) for _ in range(2)]
    masks = [np.zeros(len(sessions), np.bool_) for _ in range(2)]
    leads, visits = np.full(len(sessions), FAR), np.zeros(PLACES, np.int64)
    found = Tallies(*zeros, np.zeros((2 * PLACES, RATIOS)), visits, *masks, leads)
    scratch = Scratch(np.empty(len(codes) + 1, np.int64), np.zeros(0, np.uint8), none)
    out = FollowedOut(np.empty((99, 5), np.int32), np.empty((0, RATIOS)), np.empty(99, np.int32))
    limits = RuleLimits(False, False, SLICES_MAX, within)
    end, *_ = session_loop.follow_sessions(0, spans, events, rule, limits, found, scratch, out)
    assert end == len(sessions)
    return found


def test_calm_sequences_are_counted_by_their_contexts() -> None:
    """The visits of calm sequences are outcomes and bets without a verdict; all others are counted apart."""
    calm = stirred = 0
    for seed in range(60):
        random = Random(seed)
        rule, within = small_rule(random), random.choice([1, 3, int(FAR)])
        sessions = [random.choices(range(SEEN), k=random.randint(1, 9)) for _ in range(12)]
        is_open = [random.random() < 0.1 for _ in sessions]
        outcomes, bets, seen = Counter[int](), Counter[int](), 0
        for codes, of_session in zip(sessions, is_open, strict=True):
            drawn, ending = sequence(rule, codes, of_session)
            of_sequence = defined(drawn, 1, ending, within)
            outcomes += of_sequence[0]
            bets += of_sequence[1]
            is_calm = ending == CLOSED and not any(entry & (VIOLATES | IS_HIGH) for entry in drawn)
            calm, stirred = calm + is_calm, stirred + (not is_calm)
            seen += len(drawn) * is_calm
        counted = followed(rule, sessions, is_open, within)
        visits = counted.visits.tolist()
        for place, flags in enumerate(RISKS):
            added = [visits[place] if flags & flag else 0 for flag in (HAS_RISK, IS_BET)]
            for of_kind, found, more in zip(
                (outcomes, bets), (counted.outcomes, counted.bets), added, strict=True
            ):
                assert found[2 * place] + more == of_kind[2 * place], (seed, place)
                assert found[2 * place + 1] == of_kind[2 * place + 1], (seed, place)
        assert sum(visits) == seen, seed
    assert min(calm, stirred) > 100
