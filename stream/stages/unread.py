"""Candidates whose content nobody has read yet: the monitor reads it from the bytes of their spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from ...schemas.attempt import Broken, attempt
from ...schemas.candidate import Candidate
from ...schemas.plain.span import PlainSpans
from ...schemas.plain_calls.calls import CallBatch
from ...schemas.plain_calls.conversation import PlainCalls
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.sessions.resolve import whole_candidate
from ...schemas.sessions.span_reading import SessionMemory
from ...schemas.span_content import SpanRole
from ..error import PROCESS_ERRORS
from ..messages.codec import CandidateBatch

MEMORIES_MAX = 4_000
"""Sessions whose last calls of models are remembered."""
CHARS_MAX = 1 << 25
"""Characters of the inputs of these calls; what was read of them takes as much again."""

_TOOL = SpanRole.TOOL
"""A name of its own, because Python 3.11 looks a member up four times as long as a global name."""

ReadBatch: TypeAlias = tuple[list[Candidate], list[DeadLetter]]
"""The candidates of a batch that have claims, and dead letters of those that cannot be read."""


class _RememberedCalls(msgspec.Struct):
    """The last calls of a session, the plain ones and all others; `counted` are the characters counted."""

    plain: PlainCalls = msgspec.field(default_factory=PlainCalls)
    others: SessionMemory = msgspec.field(default_factory=SessionMemory)
    counted: int = 0


class UnreadCandidates:
    """Reads candidates, and remembers the last calls of the sessions that were read last.

    The memory is a cache: candidates are read the same without it. Dead letters name the `process`.
    """

    def __init__(self, process: str = "monitor") -> None:
        self._process = process
        self._memories: dict[str, _RememberedCalls] = {}
        """The memories of sessions, the latest last."""
        self._chars = 0

    def read(self, batch: CandidateBatch, time: int) -> ReadBatch:
        """Return what `read_all` returns of one batch."""
        (read,) = self.read_all([(batch, time)])
        return read

    def read_all(self, batches: Sequence[tuple[CandidateBatch, int]]) -> list[ReadBatch]:
        """Return of each batch the candidates that have claims, and the dead letters of others.

        A dead letter names the record that the span came in; the time of each batch is that of its record.
        """
        found = [candidate for batch, _ in batches for candidate in batch.candidates]
        numbers = [number for number, (batch, _) in enumerate(batches) for _ in batch.candidates]
        dead_letters: list[list[DeadLetter]] = [[] for _ in batches]
        for place, reason in self._read_each(found):
            batch, time = batches[numbers[place]]
            dead_letters[numbers[place]].append(self._dead_letter(batch, found[place], time, reason))
        candidates: list[list[Candidate]] = [[] for _ in batches]
        for number, candidate in zip(numbers, found, strict=True):
            # A candidate that cannot be read has no claims either.
            if candidate.claims or candidate.history is not None:
                candidates[number].append(candidate)
        return list(zip(candidates, dead_letters, strict=True))

    def _read_each(self, found: list[Candidate]) -> Iterator[tuple[int, str]]:
        """Put claims into candidates; yield the places of those that cannot be read, with the reasons."""
        plain = PlainSpans([candidate.request for candidate in found])
        # Rekeyers release by trace, and each source has a batch of its own; in the order of time, a call
        # follows those that it repeats.
        starts = [candidate.start for candidate in found]
        order = [place for place in sorted(range(len(found)), key=starts.__getitem__) if found[place].request]
        memories = {found[place].session_id: _RememberedCalls() for place in order}
        memories |= {name: self._memories.pop(name) for name in memories if name in self._memories}
        plain_calls = partial(_read_plain_calls, found, order, plain, memories)
        if isinstance(attempt(plain_calls, PROCESS_ERRORS), Broken):
            # The ordinary way reads each candidate by itself.
            for memory in memories.values():
                memory.plain.leave()
        left, at = iter(order), [0]
        read_others = partial(_read_others, found, left, at, plain, memories)
        while isinstance(read := attempt(read_others, PROCESS_ERRORS), Broken):
            yield at[0], read.reason
        self._remember(memories)

    def _remember(self, memories: Mapping[str, _RememberedCalls]) -> None:
        """Make the memories of sessions the latest, and forget the oldest."""
        for memory in memories.values():
            chars = memory.plain.chars + memory.others.chars
            self._chars += chars - memory.counted
            memory.counted = chars
        self._memories |= memories
        while len(self._memories) > MEMORIES_MAX or self._chars > CHARS_MAX:
            self._chars -= self._memories.pop(next(iter(self._memories))).counted

    def _dead_letter(self, batch: CandidateBatch, candidate: Candidate, time: int, reason: str) -> DeadLetter:
        offset, digest = candidate.origin or (batch.offset, b"")
        return DeadLetter(
            process=self._process,
            topic=batch.topic,
            partition=batch.source,
            offset=offset,
            time=time,
            place=f"trace {candidate.trace_id}, span {candidate.span_id}",
            code="internal",
            reason=reason,
            sha256=digest.hex(),
        )


def _read_plain_calls(
    found: list[Candidate], order: Sequence[int], plain: PlainSpans, memories: Mapping[str, _RememberedCalls]
) -> None:
    """Put claims into the plain calls of models."""
    batch = CallBatch(plain, found)
    for place in order:
        candidate = found[place]
        if candidate.role is not _TOOL and candidate.run is None and not candidate.without:
            batch.add(place, memories[candidate.session_id].plain)
    batch.read()


def _read_others(
    found: list[Candidate],
    left: Iterator[int],
    at: list[int],
    plain: PlainSpans,
    memories: Mapping[str, _RememberedCalls],
) -> None:
    """Put claims into the candidates at the places that are left; `at` has the latest place."""
    for place in left:
        candidate = found[place]
        if candidate.request:
            at[0] = place
            found[place] = whole_candidate(
                candidate, plain.span(place), memories[candidate.session_id].others
            )
