"""The archive stage: messages of judged events in, chunks to be archived out.

The stage drops the messages that a restarted monitor sends again, by their marks. A restarted archiver reads
from the offset in the archive's manifest; a range that was being written is gathered from the same messages,
so that its files are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ...archive.chunk import ArchiveCheckpoint, Chunk, RuleTexts
from ...schemas.chat.find import InputFlaw
from ...schemas.event import Event
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.time import NS
from ..messages.codec import JudgedBatch
from .result import StageResult

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


@dataclass(frozen=True, slots=True)
class JudgedRecord:
    """A record of the topic of judged events: its time (ns since the epoch), size, and content or flaw."""

    partition: int
    offset: int
    time: int
    size: int
    sha256: str
    content: JudgedBatch | InputFlaw


@dataclass(frozen=True, slots=True)
class BufferProgress:
    """The progress of a buffer: the offset behind the last message, and the mark of the last one in it.

    `watermark` is how far the monitor had judged, None before the first message that has it. `rows` and
    `bytes` are gathered, from messages of the record time `begun` up to `time`. An unreadable message follows
    a buffer that `is_cut`.
    """

    next: int
    mark: tuple[int, int] | None
    watermark: int | None = None
    rows: int = 0
    bytes: int = 0
    begun: int | None = None
    time: int = 0
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class ChunkWrites:
    """The changes of a buffer: its progress, and the batches to be added."""

    progress: BufferProgress
    batches: tuple[JudgedBatch, ...]


@dataclass(slots=True)
class ChunkBuffer:
    """The messages of one partition that are not archived yet; only `apply` and `restart` change it.

    `checkpoint` is the archive's. `patience_s` is the current limit in seconds of record time: a user who has
    just started wants to see files soon.
    """

    partition: int
    checkpoint: ArchiveCheckpoint
    patience_s: float
    progress: BufferProgress = field(init=False)
    events: list[Event] = field(default_factory=list[Event])
    rules: list[str] = field(default_factory=list[str])
    chains: list[str | None] = field(default_factory=list[str | None])
    activated: dict[str, RuleTexts] = field(default_factory=dict[str, RuleTexts])

    def __post_init__(self) -> None:
        """Gather what follows the checkpoint."""
        self.progress = BufferProgress(self.checkpoint.next, self.checkpoint.mark)

    @property
    def is_ready(self) -> bool:
        """Return whether the buffer may be archived: a range that is written again must be whole."""
        return _is_ready(self.checkpoint, self.progress)

    def apply(self, writes: ChunkWrites) -> None:
        """Become what a step has made of this buffer; takes as long as there are new events."""
        self.progress = writes.progress
        for judged in writes.batches:
            followed = judged.event_chains
            if followed is not None or self.chains:
                self.chains += [None] * (len(self.events) - len(self.chains))
                self.chains += [None] * len(judged.events) if followed is None else followed
            self.events += judged.events
            self.rules += [judged.digests[number] for number in judged.sets]
            self.activated |= judged.activated

    def restart(self, checkpoint: ArchiveCheckpoint, every_s: float) -> None:
        """Gather what follows the archived chunk."""
        self.checkpoint = checkpoint
        self.patience_s = min(2 * self.patience_s, every_s)
        self.progress = BufferProgress(checkpoint.next, checkpoint.mark, self.progress.watermark)
        self.events, self.rules, self.chains, self.activated = [], [], [], {}


@dataclass(slots=True)
class ArchiveCounts:
    """The counts of a step: the records that were taken, the dropped repeats among them, and dead letters."""

    taken: int = 0
    repeats: int = 0
    dead_letters: list[str] = field(default_factory=list[str])


ArchiveResult: TypeAlias = StageResult[DeadLetter, ChunkWrites, ArchiveCounts]


class ArchiveStage:
    """The archive stage, which holds its configuration only; `topic` is a name for dead letters."""

    def __init__(self, topic: str, limits: ChunkLimits | None = None) -> None:
        self.topic, self.limits = topic, limits or ChunkLimits()

    def buffer(self, partition: int, checkpoint: ArchiveCheckpoint) -> ChunkBuffer:
        """Return the empty buffer of a partition, behind the archive's checkpoint."""
        return ChunkBuffer(partition, checkpoint, min(FIRST_S, self.limits.every_s))

    def step(self, buffer: ChunkBuffer, records: Iterable[JudgedRecord]) -> ArchiveResult:
        """Return what the buffer gathers of records in their order, up to the one that makes it due.

        The driver archives a buffer that is due, and steps again with the records that were not taken.
        """
        assert not self.is_due(buffer), "what is due is archived first"
        progress, counts = buffer.progress, ArchiveCounts()
        dead_letters: list[DeadLetter] = []
        batches: list[JudgedBatch] = []
        for record in records:
            counts.taken += 1
            if isinstance(record.content, InputFlaw):
                dead_letters.append(self._dead_letter(record, record.content))
                progress = replace(progress, next=record.offset + 1, is_cut=True)
            else:
                after = _gathered(progress, record, record.content)
                if after.mark == progress.mark:
                    counts.repeats += 1
                else:
                    batches.append(record.content)
                progress = after
            if self._is_due(buffer, progress):
                break
        counts.dead_letters = [dead_letter.code for dead_letter in dead_letters]
        return StageResult(tuple(dead_letters), ChunkWrites(progress, tuple(batches)), counts)

    def is_due(self, buffer: ChunkBuffer) -> bool:
        """Return whether the buffer is to be archived now."""
        return self._is_due(buffer, buffer.progress)

    def _is_due(self, buffer: ChunkBuffer, progress: BufferProgress) -> bool:
        if not _is_ready(buffer.checkpoint, progress):
            return False
        if buffer.checkpoint.pending is not None or progress.is_cut:
            return True
        if progress.rows >= self.limits.rows or progress.bytes >= self.limits.bytes:
            return True
        return progress.begun is not None and progress.time - progress.begun >= buffer.patience_s * NS

    def _dead_letter(self, record: JudgedRecord, flaw: InputFlaw) -> DeadLetter:
        at = "archive", self.topic, record.partition, record.offset, record.time
        return DeadLetter(*at, flaw.place, flaw.code, flaw.text, record.sha256)


def chunk_of(buffer: ChunkBuffer) -> Chunk:
    """Return what was gathered, to be archived."""
    progress = buffer.progress
    # No file covers a record that cannot be read.
    last = progress.next - (2 if progress.is_cut else 1)
    return Chunk(
        partition=buffer.partition,
        offsets=(buffer.checkpoint.first, last),
        next=progress.next,
        mark=progress.mark,
        watermark=progress.watermark,
        events=buffer.events,
        rules=buffer.rules,
        chains=buffer.chains,
        activated=buffer.activated,
        cut=progress.is_cut,
    )


def resumed(checkpoint: ArchiveCheckpoint, start: int) -> ArchiveCheckpoint:
    """Return where to resume in a topic whose first message is at `start`.

    What was deleted before it was archived is a gap; a range that was being written then stays as it is.
    """
    if start <= checkpoint.next:
        return checkpoint
    begin = start if checkpoint.pending is None else max(start, checkpoint.pending[1] + 1)
    return ArchiveCheckpoint(begin, begin, checkpoint.mark)


def too_many(buffers: Mapping[int, ChunkBuffer], bytes_max: int = HELD_BYTES_MAX) -> list[int]:
    """Return the partitions to archive, as few as may be, so that the others hold at most `bytes_max`."""
    held = sum(buffer.progress.bytes for buffer in buffers.values())
    found: list[int] = []
    for number, buffer in sorted(buffers.items(), key=lambda item: item[1].progress.bytes, reverse=True):
        if held > bytes_max and buffer.is_ready:
            found.append(number)
            held -= buffer.progress.bytes
    return found


def _is_ready(checkpoint: ArchiveCheckpoint, progress: BufferProgress) -> bool:
    """Return whether something was gathered, and all of a range that is written again."""
    is_empty = progress.next == checkpoint.next
    return not is_empty and (checkpoint.pending is None or progress.next > checkpoint.pending[1])


def _gathered(progress: BufferProgress, record: JudgedRecord, judged: JudgedBatch) -> BufferProgress:
    """Return the progress behind a message; one that repeats another leaves the mark and adds no rows."""
    progress = replace(
        progress,
        next=record.offset + 1,
        begun=record.time if progress.begun is None else progress.begun,
        time=max(progress.time, record.time),
    )
    mark = (judged.mark.offset, judged.mark.index)
    if progress.mark is not None and mark <= progress.mark:
        return progress
    return replace(
        progress,
        mark=mark,
        rows=progress.rows + len(judged.events),
        bytes=progress.bytes + record.size,
        watermark=progress.watermark if judged.watermark is None else judged.watermark,
    )
