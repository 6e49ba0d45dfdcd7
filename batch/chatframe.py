"""Chat logs as event frames: a bounded number of whole conversations at a time, each told once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

import polars as pl

from ..schemas.chat import Decoded, decode
from ..schemas.conversation import Conversation, Flaw
from ..schemas.event import Event, Kind
from ..schemas.frame import event_frame
from .chatlog import read_conversations
from .read import Part, Population

FRAME_EVENTS_MAX = 50_000
"""Events after which a frame is full (a conversation is never split)."""
FRAME_CHARS_MAX = 1 << 27
"""Characters of text, arguments and results after which a frame is full."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole conversations of one file, in its order: events in judged order with their `end` rows.

    `first` and `last` number the conversations, from 0, among all that the file holds.
    """

    events: pl.DataFrame
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Met:
    """The conversations met so far: of each session and occurrence the digest of its messages."""

    digests: dict[bytes, str] = field(default_factory=dict[bytes, str])

    def add(self, session_id: str, occurrence: int, digest: str) -> str | None:
        """Remember a conversation; the digest of the one that was there before, else None."""
        # A short hash instead of the ids: a million conversations stay under 200 MB.
        key = hashlib.blake2b(f"{occurrence}/{session_id}".encode(), digest_size=16).digest()
        before = self.digests.get(key)
        if before is None:
            self.digests[key] = digest
        return before


def chat_batches(part: Part, population: Population, met: Met, zone: tzinfo = UTC) -> Iterator[Batch]:
    """The events of one chat log, in batches of bounded size; what cannot be read is counted.

    A conversation with the id and the messages of one met before is counted as a duplicate. One with the
    id and the start of another, but other messages, is a session of its own: `~` and eight digits of its
    digest are put behind its id, and it is counted as renamed.
    """
    events: list[Event] = []
    first, chars = 0, 0
    number = -1
    for number, found in enumerate(read_conversations(part.path)):
        if isinstance(found, Flaw):
            population.flaw(part.name, found)
            continue
        decoded = _told_once(found, population, met, zone, part.name)
        if decoded is None:
            continue
        events.extend(decoded.events)
        chars += sum(len(e.text or "") + len(e.args or "") + len(e.result or "") for e in decoded.events)
        if len(events) >= FRAME_EVENTS_MAX or chars >= FRAME_CHARS_MAX:
            yield Batch(event_frame(events), first, number)
            events, first, chars = [], number + 1, 0
    if events:
        yield Batch(event_frame(events), first, number)


def _told_once(
    found: Conversation, population: Population, met: Met, zone: tzinfo, file: str
) -> Decoded | None:
    """The conversation's events, counted; None where it has none, or was met before."""
    decoded = decode(found, zone)
    population.rows += len(found.messages)
    population.instructions += decoded.instructions
    for flaw in decoded.flaws:
        population.flaw(file, flaw)
    if not decoded.events:
        population.empty += not decoded.flaws
        return None
    before = met.add(decoded.session_id, decoded.events[0].occurrence, decoded.digest)
    if before is not None and before != decoded.digest:
        decoded = decode(found, zone, f"{decoded.session_id}~{decoded.digest[:8]}")
        before = met.add(decoded.session_id, decoded.events[0].occurrence, decoded.digest)
        population.renamed += before is None
    if before is not None:
        population.duplicates += 1
        return None
    population.sessions += 1
    population.events.update(event.kind.value for event in decoded.events if event.kind is not Kind.END)
    return decoded
