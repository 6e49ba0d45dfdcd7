"""Chat logs as event frames: a bounded number of whole conversations at a time, each told once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

import polars as pl

from ...schemas.chat.decode import DecodedConversation, decode
from ...schemas.chat.find import InputFlaw
from ...schemas.event import Event, Kind
from ...schemas.frames.events import event_frame
from ..sources.chat_files import read_conversations
from ..sources.discover import Population, Reject, SourceFile
from .session_ids import Fate, KnownConversations, renamed

FRAME_EVENTS_MAX = 50_000
"""Events after which a frame is full (a conversation is never split)."""
FRAME_CHARS_MAX = 1 << 26
"""Characters of text, arguments and results after which a frame is full."""


@dataclass(frozen=True, slots=True)
class ChatBatch:
    """Whole conversations of one file, in its order: events in judged order with their `end` rows.

    `first` and `last` number the conversations, from 0, among all that the file holds. `size` and `chars`
    count the events and their characters. `is_full` is false of a file's last batch only.
    """

    events: Sequence[Event]
    first: int
    last: int
    size: int
    chars: int
    is_full: bool


@dataclass(slots=True)
class _Filling:
    """The events of a frame that is being filled; `size` and `chars` count what was left out of it, too."""

    events: list[Event] = field(default_factory=list[Event])
    size: int = 0
    chars: int = 0

    def add(self, told: _Conversation) -> None:
        """Add a conversation."""
        self.size += len(told.decoded.events)
        self.chars += sum(
            len(e.text or "") + len(e.args or "") + len(e.result or "") for e in told.decoded.events
        )
        if told.is_kept:
            self.events.extend(told.decoded.events)

    @property
    def is_full(self) -> bool:
        """Return whether nothing more should be added."""
        return self.size >= FRAME_EVENTS_MAX or self.chars >= FRAME_CHARS_MAX

    def batch(self, first: int, last: int) -> ChatBatch:
        """Return the events as a batch of the conversations with these numbers."""
        return ChatBatch(self.events, first, last, self.size, self.chars, self.is_full)


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A conversation of a file by its number there, and whether its events are to be judged."""

    number: int
    decoded: DecodedConversation
    is_kept: bool


def chat_batches(
    part: SourceFile, population: Population, met: KnownConversations, zone: tzinfo = UTC
) -> Iterator[ChatBatch]:
    """The events of one chat log, in batches of bounded size; what cannot be read is counted.

    A conversation with the id and the messages of one met before is counted as a duplicate. One that shares
    its id and start with others is renamed, or rejected where an archive has the id already. Where a batch
    ends depends on the file alone: a batch that is made again replaces what it made before.
    """
    filling = _Filling()
    first = number = 0
    for told in _conversations(part, population, met, zone):
        number = told.number
        filling.add(told)
        if filling.is_full:
            if filling.events:
                yield filling.batch(first, number)
                # Ranges follow each other, over batches that were left out whole: a gap is a loss.
                first = number + 1
            filling = _Filling()
    if filling.events:
        yield filling.batch(first, number)


def chat_frames(
    parts: Sequence[SourceFile], population: Population, met: KnownConversations, zone: tzinfo = UTC
) -> Iterator[pl.DataFrame]:
    """The events of chat logs as `chat_batches` tells them, many small files to a frame."""
    filling = _Filling()
    for part in parts:
        for told in _conversations(part, population, met, zone):
            filling.add(told)
            if filling.is_full:
                if filling.events:
                    yield event_frame(filling.events)
                filling = _Filling()
    if filling.events:
        yield event_frame(filling.events)


def _conversations(
    part: SourceFile, population: Population, met: KnownConversations, zone: tzinfo
) -> Iterator[_Conversation]:
    """The conversations of one chat log that have events, counted."""
    for number, found in enumerate(read_conversations(part.path)):
        if isinstance(found, InputFlaw):
            population.flaw(part.name, found)
            continue
        decoded = decode(found, zone)
        population.rows += len(found.messages)
        population.instructions += decoded.instructions
        for flaw in decoded.flaws:
            population.flaw(part.name, flaw)
        if not decoded.events:
            population.empty += not decoded.flaws
            continue
        fate = met.meet(decoded, found)
        if fate is Fate.RENAMED:
            decoded = decode(found, zone, renamed(decoded))
        yield _Conversation(
            number, decoded, is_kept=_count(fate, decoded, population, part.name, found.place)
        )


def _count(fate: Fate, decoded: DecodedConversation, population: Population, file: str, place: str) -> bool:
    """Count a conversation by what becomes of it; whether it is to be judged."""
    if fate is Fate.DUPLICATE:
        population.duplicates += 1
        return False
    if fate is Fate.TAKEN:
        text = "has id and start of another conversation in the archive; give it another id, or a new archive"
        population.reject(Reject(file, place, "chat-id-taken", text))
        return False
    population.renamed += fate is Fate.RENAMED
    population.sessions += 1
    population.events.update(event.kind.value for event in decoded.events if event.kind is not Kind.END)
    return True
