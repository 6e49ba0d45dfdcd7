"""The carried part of a session: the kernel's memory and the witness trails of its open occurrence."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import numpy as np

from ...schemas.paged.page import page_of, stored_page
from ..engine.judge import CompiledRules
from .carried_slices import CarriedEvent, CarriedSlices


class Carried(msgspec.Struct, array_like=True):
    """The open occurrence of a session after some of its events.

    Its size depends on the rules, the events that coming witnesses show, and the slices, and not on the
    number of events. `carry_loop` documents the bytes of `runs`. The numbers in them are those of the tables
    whose `program_digest` is `program`. Version 1 has its slices in `slices`, the values by `for_each` key in
    the order in which `runs` has them, and version 2 in `sliced`.
    """

    program: str
    occurrence: int
    events: list[CarriedEvent]
    slices: list[list[str]]
    runs: bytes
    version: Literal[1, 2] = 2
    sliced: CarriedSlices = msgspec.field(default_factory=CarriedSlices)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=stored_page)
_DECODER = msgspec.msgpack.Decoder(Carried, dec_hook=page_of)


def encode_carried(carried: Carried) -> bytes:
    """Return the carried part of a session as bytes, with all of its slices."""
    return _ENCODER.encode(carried)


def decode_carried(data: bytes) -> Carried:
    """Return the carried part in the bytes."""
    return _DECODER.decode(data)


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
