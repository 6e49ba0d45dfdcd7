"""A chunk of judged events that is archived at a time, and the checkpoint of an archive after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..schemas.event import Event

RuleTexts: TypeAlias = dict[str, str]
"""A rule set as the texts of its packs and of the packs that they extend (`RuleSet.sources`)."""


@dataclass(frozen=True, slots=True)
class ArchiveCheckpoint:
    """The progress of an archive with one partition of judged events.

    `next` is the offset after the last one archived. `first` is where the range of the next file begins: it
    includes offsets without rows, so that ranges leave no gap. `mark` is the (offset, index) of the last
    message archived. `pending` is a range that a writer started and did not finish: it is written again from
    the same messages.
    """

    next: int
    first: int
    mark: tuple[int, int] | None = None
    pending: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Judged events of one partition that are archived together, each with the digest of its rule set.

    `chains` has the digest of the chain that followed each event's session, None where no risk was computed;
    it is empty where the rule sets of all events name none.
    `offsets` are the first and last that the chunk covers. `mark` is that of its last message. `watermark`
    (ns since the epoch) is how far the partition has judged, None if that is unknown. `activated` are the
    packs of rule sets that came into force, by digest. An unreadable message follows a chunk that is `cut`:
    the next range begins after it, at `next`.
    """

    partition: int
    offsets: tuple[int, int]
    next: int
    mark: tuple[int, int] | None
    watermark: int | None
    events: Sequence[Event] = ()
    rules: Sequence[str] = ()
    chains: Sequence[str | None] = ()
    activated: Mapping[str, RuleTexts] = field(default_factory=dict[str, RuleTexts])
    cut: bool = False

    @property
    def checkpoint(self) -> ArchiveCheckpoint:
        """Return the archive's checkpoint once it contains the chunk."""
        starts_range = self.cut or bool(self.events)
        return ArchiveCheckpoint(self.next, self.next if starts_range else self.offsets[0], self.mark)
