"""The compiled loops over sequences and walks count and find what plain Python does."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tracline.predict.chain.walks import CLOSED, CLOSED_UNMET, CUT, Walks
from tracline.predict.counting.sequence_loop import END_SYMBOL, NO_SYMBOL
from tracline.predict.counting.transition_loop import count_transitions
from tracline.predict.validation.outcomes import outcomes, visit_counts
from tracline.predict.validation.place_loops import NEVER, find_greatest, find_warnings

CONTEXTS = 4
places = st.tuples(st.integers(0, CONTEXTS - 1), st.booleans())
sequence = st.tuples(
    st.integers(0, CONTEXTS - 1),
    st.lists(places, max_size=5),
    st.sampled_from([CUT, CLOSED, CLOSED_UNMET]),
    st.booleans(),
)


@st.composite
def walks(draw: st.DrawFn) -> Walks:
    """Draw walks of some sequences; a sequence may be of the session before."""
    found = draw(st.lists(sequence, max_size=6))
    lengths = [1 + len(events) for _, events, _, _ in found]
    sessions = np.cumsum([int(is_new) for *_, is_new in found])
    return Walks(
        contexts=np.array(
            [context for start, events, _, _ in found for context in (start, *(each for each, _ in events))],
            dtype=np.int32,
        ),
        violated=np.array(
            [broken for _, events, _, _ in found for broken in (False, *(each for _, each in events))],
            dtype=np.bool_,
        ),
        bounds=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        sessions=sessions.astype(np.int32),
        endings=np.array([ending for *_, ending, _ in found], dtype=np.uint8),
    )


def sequences(walks: Walks) -> list[range]:
    """Return the places of each sequence."""
    bounds = walks.bounds.tolist()
    return [range(begin, end) for begin, end in pairwise(bounds)]


@given(walks())
def test_outcomes_are_the_distances_to_the_next_verdict(walks: Walks) -> None:
    """The close counts as one event, and a cut sequence is known as far as it goes."""
    found = outcomes(walks)
    for each, ending in zip(sequences(walks), walks.endings.tolist(), strict=True):
        for place in each:
            verdicts = [later - place for later in each if later > place and walks.violated[later]]
            if ending == CLOSED_UNMET:
                verdicts.append(each.stop - place)
            assert found.distances[place] == min(verdicts, default=NEVER)
            assert found.known[place] == (each.stop - 1 - place if ending == CUT else NEVER)


@given(walks(), st.sampled_from([None, 1, 2]))
def test_visits_are_counted_by_context(walks: Walks, within: int | None) -> None:
    """All visits, those with a verdict, and those that are the first of their session and context."""
    found = outcomes(walks)
    is_known, violated = found.is_known(within), found.violated(within)
    expected: list[Counter[int]] = [Counter() for _ in range(4)]
    seen: set[tuple[int, int]] = set()
    for each, session in zip(sequences(walks), walks.sessions.tolist(), strict=True):
        for place in each:
            context = int(walks.contexts[place])
            is_first = (session, context) not in seen
            seen.add((session, context))
            for counts, counted in zip(
                expected, (True, violated[place], is_first, is_first and violated[place]), strict=True
            ):
                counts[context] += bool(counted and is_known[place])
    got = visit_counts(walks, found, within, CONTEXTS)
    for counts, array in zip(
        expected, (got.visits, got.violated, got.firsts, got.violated_firsts), strict=True
    ):
        assert array.tolist() == [counts[context] for context in range(CONTEXTS)]


risks = st.lists(st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 1.0]), min_size=CONTEXTS, max_size=CONTEXTS)


@given(walks(), risks, st.sampled_from([0.0, 0.25, 0.5, np.inf]))
def test_warnings_come_after_the_start_and_before_the_verdict(
    walks: Walks, risks: list[float], threshold: float
) -> None:
    """The greatest risk of each sequence, and the first place with a risk of at least the threshold."""
    starts = walks.bounds[:-1]
    distances = outcomes(walks).distances[starts]
    verdicts = np.where(distances < NEVER, starts + np.minimum(distances, 1 << 30), NEVER)
    values, count = np.array(risks), len(starts)
    greatest, first = np.empty(count), np.empty(count, dtype=np.int64)
    find_greatest(walks.contexts, walks.bounds, verdicts, values, greatest)
    find_warnings(walks.contexts, walks.bounds, verdicts, values, threshold, first)
    for number, each in enumerate(sequences(walks)):
        may_warn = [place for place in each[1:] if place < verdicts[number]]
        by_place = {place: risks[walks.contexts[place]] for place in may_warn}
        assert greatest[number] == max(by_place.values(), default=-np.inf)
        assert first[number] == min((p for p, risk in by_place.items() if risk >= threshold), default=NEVER)


symbols = st.integers(0, 5)
counted = st.tuples(
    st.integers(-1, 3),
    st.lists(st.tuples(symbols, st.integers(0, 3)), max_size=5),
    st.sampled_from([NO_SYMBOL, END_SYMBOL, 0, 3]),
)


@given(st.lists(counted, max_size=8), st.sampled_from([2, 64]))
def test_transitions_are_counted(given: list[tuple[int, list[tuple[int, int]], int]], room: int) -> None:
    """The transitions of sequences that count, and the symbols of all; without room there is no count."""
    sequences = [[(NO_SYMBOL, 0), *events] for _, events, _ in given]
    expected: Counter[tuple[int, int, int, int]] = Counter()
    uses: Counter[int] = Counter()
    for (head, _, successor), places in zip(given, sequences, strict=True):
        followings = [*(symbol for symbol, _ in places[1:]), successor]
        uses.update(symbol for symbol in followings if symbol >= 0)
        if head >= 0:
            for (symbol, row), following in zip(places, followings, strict=True):
                if following != NO_SYMBOL:
                    expected[head, row, symbol, following] += 1
    flat = [place for each in sequences for place in each]
    arrays = (
        np.array([symbol for symbol, _ in flat], dtype=np.int32),
        np.array([row for _, row in flat], dtype=np.int32),
        np.concatenate([[0], np.cumsum([len(each) for each in sequences])]).astype(np.int64),
        np.array([successor for *_, successor in given], dtype=np.int32),
    )
    heads, times = np.array([head for head, *_ in given], dtype=np.int64), np.zeros(6, dtype=np.int64)
    keys, counts = np.empty((room, 2), dtype=np.uint64), np.empty(room, dtype=np.int64)
    distinct = count_transitions(arrays, heads, times, (keys, counts, np.full(4 * room, -1, dtype=np.int32)))
    if len(expected) > room:
        assert distinct == -1
        return
    words = keys[:distinct].view(np.uint32).view(np.int32).tolist()
    found = {
        (head, row, symbol, following): count
        for (row, head, following, symbol), count in zip(words, counts[:distinct].tolist(), strict=True)
    }
    assert found == expected
    assert times.tolist() == [uses[symbol] for symbol in range(6)]
