"""The state of a followed session: all that following needs to go on, without its events."""

from __future__ import annotations

from typing import Literal

import msgspec

from ....rules.incremental.carried_slices import CarriedSlices

ABOVE, STOPPED, CUT, WARNED = 1, 2, 4, 8
"""Bits of the flags of a run: its risk is above the threshold, and the run was cut.

Of a rule's own run also: the rule was cut in the session, and its risk rose to the threshold at an event that
is no history.
"""

NO_SYMBOL = -1
"""The place of the symbol of a run without an event."""

BETWEEN = " "
"""The text between two names of rows."""


class FollowedSlice(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The run of a slice in a state of version 1: its row, the place of its last symbol, and its flags."""

    row: str
    symbol: int
    flags: int


class FollowedSession(msgspec.Struct, array_like=True, frozen=True):
    """The open occurrence of a session as a chain's rules follow it.

    `tables` is the `SessionFollower.tables` of the chain by whose rules and machines the rest goes, with an
    element for each followed rule. `rows` are names of rows (`RowKey.text`), with `BETWEEN` between them, and
    `symbols` are those of the chain. `lasts` has the place of each rule's last symbol in them, `NO_SYMBOL`
    before its first event, and `flags` a byte for each rule. `agent` is the last one that an event named;
    states of earlier releases have none. `sliced` has the slices in classes and pages, with the runs of
    `slice_runs`. Version 1 has them in `slices`, by the place of the rule and then by value.
    """

    tables: str
    occurrence: int
    symbols: list[str]
    rows: str
    lasts: list[int]
    flags: bytes
    slices: dict[int, dict[str, FollowedSlice]] = {}
    version: Literal[1, 2] = 2
    agent: str | None = None
    sliced: CarriedSlices = msgspec.field(default_factory=CarriedSlices)
