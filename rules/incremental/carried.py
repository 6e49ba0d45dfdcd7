"""The carried part of a session: the kernel's memory and the witness trails of its open occurrence."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import numpy as np

from ..engine.judge import CompiledRules

LATE, HISTORY = 1, 2
"""Bits of `CarriedEvent.flags`."""


class CarriedEvent(msgspec.Struct, array_like=True, frozen=True):
    """An event that a coming record may name; `time` is in nanoseconds after the occurrence's beginning."""

    event_id: str
    seq: int
    time: int
    flags: int
    agent: str | None


class Carried(msgspec.Struct, array_like=True):
    """The open occurrence of a session after some of its events.

    Its size depends on the rules, the events that coming witnesses show, and the slices, and not on the
    number of events. `slices` are the values of the slices by `for_each` key, in the order in which `runs`
    has them; `carry_loop` documents the bytes of `runs`. The numbers in them are those of the tables whose
    `program_digest` is `program`.
    """

    program: str
    occurrence: int
    events: list[CarriedEvent]
    slices: list[list[str]]
    runs: bytes
    version: Literal[1] = 1


def program_digest(compiled: CompiledRules) -> str:
    """Return 16 hex digits that identify the tables by whose numbers runs are carried.

    Two releases may compile one rule set to tables that number states otherwise.
    """
    program, digest = compiled.program, hashlib.sha256()
    for array in (program.table, program.closing, program.order, program.groups, *compiled.trails.arrays):
        digest.update(np.ascontiguousarray(array).tobytes())
    for table in compiled.trails.tables:
        digest.update(np.ascontiguousarray(table.machine_states).tobytes())
    return digest.hexdigest()[:16]
