"""The archive stage: messages of judged events in, chunks to be archived out.

The stage drops the messages that a restarted monitor sends again, by their marks. A restarted archiver reads
from the offset in the archive's manifest; a range that was being written is buffered from the same messages,
so that its files are the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...archive.chunk import ArchiveCheckpoint, Chunk, RuleTexts
from ...schemas.event import Event
from ...schemas.time import NS
from ..messages.codec import Damaged, DeadLetter, JudgedBatch, decode_judged
from ..messages.record import Record

ROWS_MAX = 50_000
BYTES_MAX = 32 << 20
"""Rows, and bytes of messages, that a partition's buffer may have."""
HELD_BYTES_MAX = 64 << 20
"""Bytes of messages that all buffers may have together; memory holds up to three times that."""
EVERY_S = 900.0
"""Record time after which a buffer is archived, in seconds. Each time makes a file a partition."""
FIRST_S = 15.0
"""The same for the first buffer of a partition in a process; each later one waits twice as long."""


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The limits of a partition's buffer: rows, bytes, and seconds of record time."""

    rows: int = ROWS_MAX
    bytes: int = BYTES_MAX
    every_s: float = EVERY_S


def resumed(standing: ArchiveCheckpoint, start: int) -> ArchiveCheckpoint:
    """Return where to go on in a topic whose first message is at `start`.

    What was deleted before it was archived is a gap; a range that was being written then stays as it is.
    """
    if start <= standing.next:
        return standing
    begin = start if standing.pending is None else max(start, standing.pending[1] + 1)
    return ArchiveCheckpoint(begin, begin, standing.mark)


class ChunkBuffer:
    """The messages of one partition that are not archived yet.

    Call `take` with messages in the order of their offsets. When the buffer `is_due`, archive its `piece`
    before the next message, and call `archived`. `next` is the offset behind the last message, `mark` the
    mark of the last message in the buffer, `repeats` how many messages were dropped for their marks.
    `watermark` is how far the monitor had judged, None before the first message that has it. `patience_s` is
    the current limit in seconds: a user who has just started wants to see files soon.
    """

    def __init__(
        self, topic: str, partition: int, standing: ArchiveCheckpoint, limits: ChunkLimits | None = None
    ) -> None:
        """Go on with a partition of that topic where an archive stands; nothing is gathered."""
        self._topic, self._partition = topic, partition
        self._limits = limits or ChunkLimits()
        self.standing = standing
        self.repeats = 0
        self.watermark: int | None = None
        self.patience_s = min(FIRST_S, self._limits.every_s)
        self._begin(standing)

    def _begin(self, standing: ArchiveCheckpoint) -> None:
        """Gather what follows."""
        self.next, self.mark = standing.next, standing.mark
        self._until = None if standing.pending is None else standing.pending[1]
        self._events: list[Event] = []
        self._rules: list[str] = []
        self._activated: dict[str, RuleTexts] = {}
        self.bytes = 0
        self._begun: int | None = None
        self._now = 0
        self._cut = False

    @property
    def rows(self) -> int:
        """Return how many rows are gathered."""
        return len(self._events)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to say of the partition."""
        return self.next == self.standing.next

    @property
    def is_ready(self) -> bool:
        """Return whether what was gathered may be archived: a range that is written again has to be whole."""
        return not self.is_empty and (self._until is None or self.next > self._until)

    @property
    def is_due(self) -> bool:
        """Return whether what was gathered is to be archived now."""
        if not self.is_ready:
            return False
        if self._until is not None or self._cut:
            return True
        if self.rows >= self._limits.rows or self.bytes >= self._limits.bytes:
            return True
        return self._begun is not None and self._now - self._begun >= self.patience_s * NS

    def take(self, record: Record) -> DeadLetter | None:
        """Gather a message; gives a dead letter where it is none.

        Raises StreamError (TRL731) where another release wrote it.
        """
        assert not self.is_due, "what is due is archived first"
        try:
            judged = _judged(record)
        except Damaged as error:
            self._cut = True
            self.next = record.offset + 1
            return self._letter(record, str(error))
        self.next = record.offset + 1
        self._begun = record.time if self._begun is None else self._begun
        self._now = max(self._now, record.time)
        mark = (judged.mark.offset, judged.mark.index)
        if self.mark is not None and mark <= self.mark:
            self.repeats += 1
            return None
        self.mark = mark
        self.bytes += len(record.value)
        self._events += judged.events
        self._rules += [judged.digests[number] for number in judged.sets]
        self._activated |= judged.activated
        if judged.watermark is not None:
            self.watermark = judged.watermark
        return None

    def piece(self) -> Chunk:
        """Return what was gathered."""
        return Chunk(
            partition=self._partition,
            offsets=(self.standing.first, self._last),
            next=self.next,
            mark=self.mark,
            watermark=self.watermark,
            events=self._events,
            rules=self._rules,
            activated=self._activated,
            cut=self._cut,
        )

    @property
    def _last(self) -> int:
        """The last offset that a file of the piece covers: what cannot be read is in none."""
        return self.next - (2 if self._cut else 1)

    def archived(self, standing: ArchiveCheckpoint) -> None:
        """The piece is archived; gather what follows."""
        self.standing = standing
        self.patience_s = min(2 * self.patience_s, self._limits.every_s)
        self._begin(standing)

    def _letter(self, record: Record, reason: str) -> DeadLetter:
        return DeadLetter(
            process="archive",
            topic=self._topic,
            partition=record.partition,
            offset=record.offset,
            time=record.time,
            place="record",
            code="TRL731",
            reason=reason,
            sha256=hashlib.sha256(record.value).hexdigest(),
        )


def too_many(gathered: Mapping[int, ChunkBuffer], bytes_max: int = HELD_BYTES_MAX) -> list[int]:
    """The partitions to archive, so that no more than `bytes_max` stay gathered: as few as may be."""
    held = sum(one.bytes for one in gathered.values())
    found: list[int] = []
    for number, one in sorted(gathered.items(), key=lambda item: item[1].bytes, reverse=True):
        if held > bytes_max and one.is_ready:
            found.append(number)
            held -= one.bytes
    return found


_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIMES = range(-(1 << 63), 1 << 63)
_PLACES = range(1, 1 << 32)
"""What fits the columns of an event frame."""


def _judged(record: Record) -> JudgedBatch:
    """A message whose numbers and names can be relied on. Raises Damaged where it is none."""
    judged = decode_judged(record.value)
    digests = {*judged.digests, *judged.activated}
    is_sound = (
        len(judged.events) == len(judged.sets)
        and all(map(_DIGEST.fullmatch, digests))
        and all(0 <= number < len(judged.digests) for number in judged.sets)
        and judged.mark.partition == record.partition
        and all(
            one.seq in _PLACES and one.time in _TIMES and one.occurrence in _TIMES for one in judged.events
        )
    )
    if not is_sound:
        raise Damaged("a message of judged events contradicts itself")
    return judged
