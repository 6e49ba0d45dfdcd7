"""The compiled loop that counts warnings, verdicts and outcomes over the sequences of one rule."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...rules.model.arrays import F64, I32, I64, U8, Mask
from ...schemas.compiled import compiled
from ..chain.walks import CLOSED_UNMET, CUT

FAR = np.int64(1) << 40
"""A number of events that no session has."""


class FollowedPlaces(NamedTuple):
    """Sequences as `Sequences` has them, with the places of their risks in `values`.

    `counted[place]` is true where a verdict at the event counts: inside the window, and no history.
    `has_own[place]` is true at an event of the slice's own. `ranks` are the places of sequences among those
    of their sessions, from 1.
    """

    bounds: I64
    slots: I32
    endings: U8
    violated: Mask
    counted: Mask
    risks: I32
    values: F64
    has_own: Mask
    ranks: I64


class SessionWarnings(NamedTuple):
    """The warnings of sessions by slot.

    A session is `missed` where one of its sequences has no warning before its first verdict against the
    agent. `leads` are the least numbers of events between both, `FAR` without any.
    """

    violating: Mask
    missed: Mask
    leads: I64


class ContextOutcomes(NamedTuple):
    """The events after which each risk was looked up, and those of them with a verdict within the horizon.

    An event counts if its sequence shows the whole horizon.
    """

    events: I64
    violated: I64


class DriftBets(NamedTuple):
    """The bets of drift: the number of events and of verdicts by context, and the log e-values.

    `table` has the log e-values of one event by context, outcome and ratio; a context without any has no bet.
    `logs` are those of sequences.
    """

    events: I64
    violated: I64
    is_bet: Mask
    table: F64
    logs: F64


@compiled
def count_warnings(places: Any, within: Any, threshold: Any, sessions: Any, contexts: Any, bets: Any) -> None:
    """Add the sequences to the warnings of their sessions, the outcomes of their contexts, and the bets."""
    for sequence in range(len(places.slots)):
        first, last = places.bounds[sequence], places.bounds[sequence + 1]
        slot, ending = places.slots[sequence], places.endings[sequence]
        warned, verdict = _first_warning(places, first, last, ending, threshold)
        if verdict >= 0:
            sessions.violating[slot] = True
            if warned < 0:
                sessions.missed[slot] = True
            else:
                sessions.leads[slot] = min(sessions.leads[slot], verdict - warned)
        _count_outcomes(places, first, last, ending, within, contexts)
        _bet(places, sequence, bets)


@compiled
def _first_warning(places: Any, first: Any, last: Any, ending: Any, threshold: Any) -> Any:
    """Return the places of the first warning and of the first verdict that counts, -1 without one.

    The risk after the event of a verdict is that of the next one. The close is one place after the last.
    """
    warned = np.int64(-1)
    for place in range(first + 1, last):
        if places.violated[place] and places.counted[place]:
            return warned, place
        if warned < 0 and places.values[places.risks[place]] >= threshold:
            warned = place
    if ending == CLOSED_UNMET and last > first + 1 and places.counted[last - 1]:
        return warned, last
    return warned, np.int64(-1)


@compiled
def _count_outcomes(places: Any, first: Any, last: Any, ending: Any, within: Any, contexts: Any) -> None:
    """Count the outcome after each event of a sequence; the end of a cut one is not known."""
    is_cut = ending == CUT
    verdict = last if ending == CLOSED_UNMET else last + FAR
    for place in range(last - 1, first, -1):
        risk, following = places.risks[place], last - 1 - place
        if not np.isnan(places.values[risk]) and (not is_cut or following >= within):
            contexts.events[risk] += 1
            contexts.violated[risk] += verdict - place <= within
        if places.violated[place]:
            verdict = place


@compiled
def _bet(places: Any, sequence: Any, bets: Any) -> None:
    """Bet on the events of a sequence; the first one of a session has those before its own, too."""
    first, last = places.bounds[sequence], places.bounds[sequence + 1]
    ending = places.endings[sequence]
    has_begun = places.ranks[sequence] == 1
    for place in range(first + 1, last):
        has_begun = has_begun or places.has_own[place]
        risk = places.risks[place]
        is_last = place == last - 1
        if not has_begun or not bets.is_bet[risk] or (is_last and ending == CUT):
            continue
        outcome = np.int64(ending == CLOSED_UNMET if is_last else places.violated[place + 1])
        bets.events[risk] += 1
        bets.violated[risk] += outcome
        for ratio in range(bets.logs.shape[1]):
            bets.logs[sequence, ratio] += bets.table[risk, outcome, ratio]
