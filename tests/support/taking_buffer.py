"""A buffer of judged events that takes one record at a time."""

from __future__ import annotations

from tracline.archive.chunk import ArchiveCheckpoint, Chunk
from tracline.schemas.records.dead_letter import DeadLetter
from tracline.stream.group.archive_records import read_judged
from tracline.stream.messages.record import Record
from tracline.stream.stages.archive import ArchiveStage, ChunkLimits, chunk_of


class TakingBuffer:
    """The archive stage with the buffer of one partition."""

    def __init__(
        self, partition: int, checkpoint: ArchiveCheckpoint, limits: ChunkLimits | None = None
    ) -> None:
        self._stage = ArchiveStage("tracline.judged", limits)
        self.buffer = self._stage.buffer(partition, checkpoint)
        self.repeats = 0

    def take(self, record: Record) -> DeadLetter | None:
        """Gather a record; return its dead letter, if it is one."""
        result = self._stage.step(self.buffer, [read_judged(record)])
        self.buffer.apply(result.writes)
        self.repeats += result.metrics.repeats
        assert result.metrics.dead_letters == [letter.code for letter in result.outputs]
        return result.outputs[0] if result.outputs else None

    @property
    def chunk(self) -> Chunk:
        """Return what was gathered."""
        return chunk_of(self.buffer)

    @property
    def is_due(self) -> bool:
        """Return whether it is to be archived now."""
        return self._stage.is_due(self.buffer)

    @property
    def is_ready(self) -> bool:
        """Return whether it may be archived."""
        return self.buffer.is_ready

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was read."""
        return self.buffer.progress.next == self.buffer.checkpoint.next

    def archived(self, checkpoint: ArchiveCheckpoint) -> None:
        """Go on behind the archived chunk."""
        self.buffer.restart(checkpoint, self._stage.limits.every_s)
