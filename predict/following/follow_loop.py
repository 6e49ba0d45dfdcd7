"""The compiled loop that steps the sequences of all followed rules event by event, bets, and finds crossings.

A session has a run of each rule for its events without a slice's value, and one for each slice, which begins
as a copy of that run. The first run reports no crossing once a slice has begun; each slice reports its own
from there on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...rules.engine.kernel_loop import NO_SLICE, UNKNOWN_SLICE
from ...rules.model.arrays import F64, I32, I64, U8, Mask
from ...schemas.compiled import compiled
from ..chain.steps import CUT_STEP, VIOLATED_STEP
from ..counting.sequence_loop import MAY_SKIP_COLUMN, NOT_SEEN, UNJUDGED_COLUMN
from ..drift.bet_loop import add_bet, count_sequences

DOWN, UP = 0, 1
"""Levels of a crossing."""

DOWN_SHARE = 0.8
"""A risk has come down where it is below this share of the threshold."""

NO_TEXT = -1
"""The symbol of a run before its first event."""

NO_THRESHOLD = float("inf")
"""The threshold of a run that reports nothing."""


class FollowMemory(NamedTuple):
    """The state of sequences: the own runs of each session, rule by rule, and then those of slices.

    A run has a row of its rule's step table, the number of its last symbol (`NO_TEXT` before the first one),
    the place of its context, negative without a risk, whether its risk is above the threshold, and whether it
    was cut. It stands for as many equal sequences as its weight.

    A rule may be cut in a session, too. The slices of a rule are numbered from `members` on, in the order of
    rules; those in a session that have begun are a list from `heads` on, and `sizes` counts them.
    """

    rows: I32
    symbols: I32
    contexts: I32
    weights: I64
    above: Mask
    stopped: Mask
    cut: Mask
    born: Mask
    heads: I32
    links: I32
    sizes: I32
    members: I64


class FollowTables(NamedTuple):
    """The effect of events on the sequences of rules; a rule's part of a flat array begins at its base.

    `columns` and `own_columns` of the step table are by rule and code of an event, and `symbols` by rule and
    twice the code, plus one where the event carries the slice's value. `marks` are by column. `following` and
    `verdicts` are the step tables, with so many columns as `widths`, and `closings` are by row.

    `symbol_numbers` are by rule and symbol, and `row_numbers` by row: both are indices of `places`, which has
    the places of risks in `values`. `keys` are the places of the `for_each` of rules, negative without one.
    """

    columns: I32
    own_columns: I32
    symbols: I32
    mark_bases: I64
    marks: U8
    step_bases: I64
    widths: I64
    following: I32
    verdicts: U8
    row_bases: I64
    row_numbers: I32
    closings: U8
    symbol_numbers: I32
    place_bases: I64
    place_widths: I64
    places: I32
    values: F64
    thresholds: F64
    keys: I32


class Crossings(NamedTuple):
    """Crossings: the event, the session, the rule and the slice, the place of the risk, and the level."""

    events: I32
    slots: I32
    rules: I32
    slices: I32
    places: I32
    levels: U8


@compiled
def follow_events(
    spans: Any, events: Any, tables: Any, slices_max: Any, memory: Any, bets: Any, out: Any
) -> Any:
    """Step the events of each session in `spans` for each rule, and return the number of crossings.

    `spans` are the first events and the ends by session; `events` are the codes of events, whether each is
    over the limit, and their slices by key. `memory` changes. The bets on the events are added to `bets`, and
    the crossings fill `out` as far as it has room.
    """
    begins, ends = spans
    count, sessions, rules = 0, len(begins), len(tables.keys)
    for r in range(rules):
        for s in range(sessions):
            if not memory.cut[s * rules + r]:
                span = r, s, begins[s], ends[s]
                count = _follow_session(span, events, tables, slices_max, memory, bets, out, count)
    return count


@compiled
def _follow_session(
    span: Any, events: Any, tables: Any, slices_max: Any, memory: Any, bets: Any, out: Any, count: Any
) -> Any:
    """Step the events of a session for a rule, and return the number of crossings with its own."""
    r, s, begin, end = span
    codes, over, slices = events
    key, rules, threshold = tables.keys[r], len(tables.keys), tables.thresholds[r]
    session, first, marks = s * rules + r, memory.members[r], tables.mark_bases[r]
    runs = len(memory.rows) - len(memory.links)
    for i in range(begin, end):
        code = codes[i]
        column = tables.columns[r, code]
        x = slices[key, i] if key >= 0 else NO_SLICE
        if over[i] or (column != NOT_SEEN and x == UNKNOWN_SLICE):
            memory.cut[session] = True
            break
        if column == NOT_SEEN:
            continue
        if tables.marks[marks + column] & UNJUDGED_COLUMN:
            memory.cut[session] = True
            break
        known, is_bet = memory.sizes[session], memory.heads[session] < 0
        if x >= 0:
            member = first + x
            # The events before a later slice were no bets on it.
            is_bet = is_bet or memory.born[member]
            if not memory.born[member]:
                if known == slices_max or tables.marks[marks + column] & MAY_SKIP_COLUMN:
                    memory.cut[session] = True
                    break
                _begin(session, member, runs, memory)
            count_sequences(r, i, known, bets)
            at, event = (i, s, x, runs + member), (r, 2 * code + 1, tables.own_columns[r, code])
            count = _step(at, event, is_bet, tables, threshold, memory, bets, out, count)
            continue
        count_sequences(r, i, known, bets)
        member = memory.heads[session]
        level = threshold if member < 0 else NO_THRESHOLD
        event = r, 2 * code, column
        count = _step((i, s, NO_SLICE, session), event, is_bet, tables, level, memory, bets, out, count)
        while member >= 0:
            at = i, s, member - first, runs + member
            count = _step(at, event, True, tables, threshold, memory, bets, out, count)
            member = memory.links[member]
    return count


@compiled
def _begin(session: Any, member: Any, runs: Any, memory: Any) -> None:
    """Begin a slice of a session: its run is a copy of the session's, below the threshold."""
    run = runs + member
    memory.rows[run], memory.stopped[run], memory.above[run] = (
        memory.rows[session],
        memory.stopped[session],
        False,
    )
    memory.symbols[run], memory.contexts[run] = memory.symbols[session], memory.contexts[session]
    memory.born[member] = True
    memory.links[member] = memory.heads[session]
    memory.heads[session] = member
    memory.sizes[session] += 1
    # The session's own run reports nothing from here on.
    memory.above[session] = False


@compiled
def _step(
    at: Any,
    event: Any,
    is_bet: Any,
    tables: Any,
    threshold: Any,
    memory: Any,
    bets: Any,
    out: Any,
    count: Any,
) -> Any:
    """Step one run on an event, and return the number of crossings with that of this run."""
    place, slot, member, run = at
    rule, symbol, column = event
    row, context = memory.rows[run], memory.contexts[run]
    if memory.stopped[run]:
        return count
    entry = tables.step_bases[rule] + row * tables.widths[rule] + column
    verdict = tables.verdicts[entry]
    if verdict == CUT_STEP:
        memory.stopped[run] = True
        return count
    if is_bet and context >= 0:
        add_bet(rule, place, context, verdict == VIOLATED_STEP, memory.weights[run], bets)
    memory.rows[run] = row = tables.following[entry]
    memory.symbols[run] = text = tables.symbols[rule, symbol]
    memory.contexts[run] = context = context_of(rule, text, row, tables)
    # The last value is that of no risk.
    risk, is_above = tables.values[context], memory.above[run]
    # A rule that stopped has no risk (NaN), and is not above.
    stays = risk >= (DOWN_SHARE * threshold if is_above else threshold)
    if stays == is_above:
        return count
    memory.above[run] = stays
    if count < len(out.events):
        out.events[count], out.slots[count], out.rules[count] = place, slot, rule
        out.slices[count], out.places[count], out.levels[count] = member, context, UP if stays else DOWN
    return count + 1


@compiled
def context_of(rule: Any, text: Any, row: Any, tables: Any) -> Any:
    """Return the place of a rule's risk after a symbol in a row, negative without a risk."""
    number = tables.row_numbers[tables.row_bases[rule] + row]
    symbol = tables.symbol_numbers[rule, text]
    return tables.places[tables.place_bases[rule] + symbol * tables.place_widths[rule] + number]


@compiled
def restore(tables: Any, owners: Any, memory: Any) -> None:
    """Find the contexts of restored runs, and link the slices that have begun.

    `owners` are the sessions of the slices of each rule in the order of their numbers.
    """
    rules, runs = len(tables.keys), len(memory.rows) - len(memory.links)
    for run in range(runs):
        if memory.symbols[run] >= 0:
            rule = run % rules
            memory.contexts[run] = context_of(rule, memory.symbols[run], memory.rows[run], tables)
    for rule in range(rules):
        for member in range(memory.members[rule], memory.members[rule + 1]):
            run, session = runs + member, owners[member] * rules + rule
            if memory.born[member]:
                if memory.symbols[run] >= 0:
                    memory.contexts[run] = context_of(rule, memory.symbols[run], memory.rows[run], tables)
                memory.links[member], memory.heads[session] = memory.heads[session], member
                memory.sizes[session] += memory.weights[run]
