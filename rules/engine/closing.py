"""The closing verdicts of sessions, from the kernel's memory of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.arrays import I32, U8, U64
from .kernel import CLOSING_FOLLOWED, CLOSING_HELD, CLOSING_UNMET, Findings, Memory, Program, findings, join
from .kernel_loop import FOUND_UNSETTLED, NO_SLICE, OUTPUT_BITS, UNBORN, UNDECIDED, chained, closing_codes


def reported_closing(program: Program, *, held: bool) -> U8:
    """Return the closing code of each state, 0 where it is not reported: `held` codes only on request."""
    return program.closing if held else np.where(program.closing < CLOSING_UNMET, 0, program.closing)


def close_sessions(
    program: Program, memory: Memory, slots: I32, *, held: bool = True
) -> tuple[Findings, Findings]:
    """Return the closing verdicts of these sessions, and the unsettled closings; `held` ones on request.

    `kinds` are codes of `CLOSING`. A rule with `for_each` closes by slice, and events without a value close
    nothing; an unjudged rule has no closing. The stamps are those of the last event that the rule saw, in
    the slice where it has one. A run that follows closes where all its states have that code; where only
    some are unmet, its closing is unsettled (`FOUND_UNSETTLED`).
    """
    sliced = _close_slices(program, memory, slots, held)
    closed = join([_close_unsliced(program, memory, slots, held), *sliced])
    is_unsettled = closed.kinds == FOUND_UNSETTLED
    return closed.take(~is_unsettled), closed.take(is_unsettled)


def become_unjudged(memory: Memory, unsettled: Findings) -> Findings:
    """Return the first unsettled closing of each session and rule that is not unjudged, and mark these."""
    found = unsettled.take(np.argsort(unsettled.stamps, kind="stable"))
    found = found.take(memory.doubts[found.slots, found.columns] & UNDECIDED == 0)
    pairs = found.slots.astype(np.int64) << 32 | found.columns
    found = found.take(np.sort(np.unique(pairs, return_index=True)[1]))
    memory.doubts[found.slots, found.columns] |= UNDECIDED
    return replace(found, slices=np.full_like(found.slices, NO_SLICE))


def _settled(program: Program, columns: NDArray[Any], codes: U8, sets: U64, held: bool) -> U8:
    """Return the codes with those of the runs that follow: their common code, or `FOUND_UNSETTLED`."""
    for place in np.flatnonzero(codes == CLOSING_FOLLOWED).tolist():
        column = int(columns[place])
        width = int(program.skip[column]) + 2
        bits = closing_codes(sets[place], program.closing, int(program.start[column]), width)
        if bits & 1 << CLOSING_UNMET:
            codes[place] = CLOSING_UNMET if bits == 1 << CLOSING_UNMET else FOUND_UNSETTLED
        else:
            codes[place] = CLOSING_HELD if held and bits == 1 << CLOSING_HELD else 0
    return codes


def _close_unsliced(program: Program, memory: Memory, slots: I32, held: bool) -> Findings:
    closing = reported_closing(program, held=held)
    codes = closing[memory.state[slots, : program.unsliced] >> OUTPUT_BITS]
    at, columns = np.nonzero(codes)
    stamps = memory.seen[slots[at]]
    stepped = columns >= program.plain
    stamps[stepped] = memory.last[slots[at[stepped]], columns[stepped] - program.plain]
    kinds = _settled(program, columns, codes[at, columns], memory.sets[slots[at], columns], held)
    found = findings(stamps, slots[at], columns, np.full(len(at), NO_SLICE), kinds)
    return found.take(kinds != 0)


def _close_slices(program: Program, memory: Memory, slots: I32, held: bool) -> Iterator[Findings]:
    closing = reported_closing(program, held=held)
    owners, members, keys = chained(memory.head, memory.link, slots)
    for column in range(program.unsliced, program.columns):
        key = int(program.groups[column])
        place = column - int(program.group_columns[key])
        session, slice_slot = owners[keys == key], members[keys == key]
        state = memory.slice_state[slice_slot, place]
        judged = (state != UNBORN) & (memory.state[session, column] >> OUTPUT_BITS != program.dead[column])
        session, slice_slot = session[judged], slice_slot[judged]
        codes = closing[state[judged] >> OUTPUT_BITS]
        columns = np.full(len(session), column)
        codes = _settled(program, columns, codes, memory.slice_sets[slice_slot, place], held)
        stamps = memory.slice_last[slice_slot, place]
        yield findings(stamps, session, columns, slice_slot, codes).take(codes != 0)
