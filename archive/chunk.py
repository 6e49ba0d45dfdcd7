"""What is copied from the topic of judged events into an archive at a time, and how far that has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..schemas.event import Event

RuleTexts = Mapping[str, str]
"""A rule set as the text of each pack by its name."""


@dataclass(frozen=True, slots=True)
class ArchiveCheckpoint:
    """How far an archive has come with a partition of judged events.

    `next` is the offset behind the last that it has dealt with, `first` that at which the range of its next
    file begins: what held no rows belongs to the file after it, so that ranges leave no gap. `mark` is the
    (offset, index) of the last message archived. `writing` is the range that was begun behind all this and
    is not known to be done: it is to be written again, from the same messages.
    """

    next: int
    first: int
    mark: tuple[int, int] | None = None
    writing: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Judged events of one partition that are archived together, each with the digest of its rule set.

    `offsets` are the first and last that the piece covers. `mark` is that of its last message, `watermark`
    (ns since the epoch) how far the partition has judged, None where that is not known. `activated` are the
    packs of rule sets that came into force, by digest. After a piece that is `cut` something follows that
    could not be read, so that the next one's range begins behind that, at `next`.
    """

    partition: int
    offsets: tuple[int, int]
    next: int
    mark: tuple[int, int] | None
    watermark: int | None
    events: Sequence[Event] = ()
    rules: Sequence[str] = ()
    activated: Mapping[str, RuleTexts] = field(default_factory=dict[str, RuleTexts])
    cut: bool = False

    @property
    def standing(self) -> ArchiveCheckpoint:
        """Return how far the archive has come once the piece is in it."""
        begins_anew = self.cut or bool(self.events)
        return ArchiveCheckpoint(self.next, self.next if begins_anew else self.offsets[0], self.mark)
