"""Chat logs as event frames: a bounded number of whole conversations at a time, without duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

import polars as pl

from ...schemas.chat.decode import DecodedConversation, decode
from ...schemas.chat.find import InputFlaw
from ...schemas.chat.reading import AS_LOGGED, ChatReading
from ...schemas.event import Event, Kind
from ...schemas.frames.events import event_frame
from ...schemas.time import is_undated
from ..sources.chat_files import read_conversations
from ..sources.discover import Population, Reject, SourceFile
from .session_ids import Fate, KnownConversations, renamed

FRAME_EVENTS_MAX = 50_000
"""Events per frame (a conversation is never split)."""
FRAME_CHARS_MAX = 1 << 26
"""Characters of text, arguments and results per frame."""


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
    """The events of a frame that is being filled; `size` and `chars` also count dropped conversations."""

    events: list[Event] = field(default_factory=list[Event])
    size: int = 0
    chars: int = 0

    def add(self, conversation: _Conversation) -> None:
        """Add a conversation."""
        events = conversation.decoded.events
        self.size += len(events)
        self.chars += sum(len(e.text or "") + len(e.args or "") + len(e.result or "") for e in events)
        if conversation.is_new:
            self.events.extend(events)

    @property
    def is_full(self) -> bool:
        """Return whether the frame is full."""
        return self.size >= FRAME_EVENTS_MAX or self.chars >= FRAME_CHARS_MAX

    def batch(self, first: int, last: int) -> ChatBatch:
        """Return a batch of the conversations with these numbers."""
        return ChatBatch(self.events, first, last, self.size, self.chars, self.is_full)


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A conversation with its number in the file; the events of one that `is_new` are judged."""

    number: int
    decoded: DecodedConversation
    is_new: bool


def chat_batches(
    part: SourceFile,
    population: Population,
    known: KnownConversations,
    zone: tzinfo = UTC,
    reading: ChatReading = AS_LOGGED,
) -> Iterator[ChatBatch]:
    """Yield the events of one chat log in batches of bounded size, and count rejects.

    A conversation with the id and the messages of an earlier one is counted as a duplicate. One that shares
    its id and start with others is renamed, or rejected if an archive has the id. The end of a batch depends
    only on the file: a batch that is read again has the same range.
    """
    filling = _Filling()
    first = number = 0
    for conversation in _conversations(part, population, known, zone, reading):
        number = conversation.number
        filling.add(conversation)
        if filling.is_full:
            if filling.events:
                yield filling.batch(first, number)
                # Ranges are contiguous, including batches without events: a gap would look like a loss.
                first = number + 1
            filling = _Filling()
    if filling.events:
        yield filling.batch(first, number)


def chat_frames(
    parts: Sequence[SourceFile],
    population: Population,
    known: KnownConversations,
    zone: tzinfo = UTC,
    reading: ChatReading = AS_LOGGED,
) -> Iterator[pl.DataFrame]:
    """Yield the same events as `chat_batches`, with many small files per frame."""
    filling = _Filling()
    for part in parts:
        for conversation in _conversations(part, population, known, zone, reading):
            filling.add(conversation)
            if filling.is_full:
                if filling.events:
                    yield event_frame(filling.events)
                filling = _Filling()
    if filling.events:
        yield event_frame(filling.events)


def _conversations(
    part: SourceFile, population: Population, known: KnownConversations, zone: tzinfo, reading: ChatReading
) -> Iterator[_Conversation]:
    """Yield and count the conversations of one chat log that have events."""
    for number, found in enumerate(read_conversations(part.path, reading)):
        if isinstance(found, InputFlaw):
            population.flaw(part.name, found)
            continue
        decoded = decode(found, zone)
        population.rows += len(found.messages)
        dated = (event.time for event in decoded.events if not is_undated(event.time))
        population.extent_of(part.name).add(len(found.messages), dated)
        population.instructions += decoded.instructions
        for flaw in decoded.flaws:
            population.flaw(part.name, flaw)
        if not decoded.events:
            population.empty += not decoded.flaws
            continue
        fate = known.add(decoded, found)
        if fate is Fate.RENAMED:
            decoded = decode(found, zone, renamed(decoded))
        yield _Conversation(number, decoded, is_new=_count(fate, decoded, population, part.name, found.place))


def _count(fate: Fate, decoded: DecodedConversation, population: Population, file: str, place: str) -> bool:
    """Count a conversation by its fate, and return whether its events are new."""
    if fate is Fate.DUPLICATE:
        population.duplicates += 1
        return False
    if fate is Fate.TAKEN:
        text = "has the id and start of another conversation in the archive; use another id or a new archive"
        population.reject(Reject(file, place, "chat-id-taken", text))
        return False
    population.renamed += fate is Fate.RENAMED
    population.sessions += 1
    population.events.update(event.kind.value for event in decoded.events if event.kind is not Kind.END)
    return True
