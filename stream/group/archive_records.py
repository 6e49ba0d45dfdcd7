"""The records of the topic of judged events as values."""

from __future__ import annotations

import re

from ...schemas.chat.find import InputFlaw
from ..messages.codec import DAMAGED_CODE, Damaged, JudgedBatch, decode_judged
from ..messages.record import Record
from ..stages.archive import JudgedRecord

_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIMES = range(-(1 << 63), 1 << 63)
_PLACES = range(1, 1 << 32)
"""The values that the columns of an event frame can hold."""


def read_judged(record: Record) -> JudgedRecord:
    """Return a record of the topic of judged events, with its flaw where it is no message.

    Raises StreamError (TRL731) where another release wrote it.
    """
    content: JudgedBatch | InputFlaw
    try:
        content = _judged(record)
    except Damaged as error:
        content = InputFlaw("record", DAMAGED_CODE, str(error))
    offset, digest = record.origin
    size = len(record.value)
    return JudgedRecord(record.partition, offset, record.time, size, digest.hex(), content)


def _judged(record: Record) -> JudgedBatch:
    """Return a message whose numbers and names can be relied on. Raises Damaged where it is none."""
    judged = decode_judged(record.value)
    digests = {*judged.digests, *judged.activated}
    is_sound = (
        len(judged.events) == len(judged.sets)
        and all(map(_DIGEST.fullmatch, digests))
        and all(0 <= number < len(judged.digests) for number in judged.sets)
        and judged.mark.partition == record.partition
        and all(
            event.seq in _PLACES and event.time in _TIMES and event.occurrence in _TIMES
            for event in judged.events
        )
    )
    if not is_sound:
        raise Damaged("a message of judged events contradicts itself")
    return judged
