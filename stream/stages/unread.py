"""Candidates whose content nobody has read yet: the monitor reads it from the bytes of their spans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from ...schemas.attempt import Broken, attempt
from ...schemas.candidate import Candidate
from ...schemas.plain.span import PlainSpans
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.sessions.resolve import whole_candidate
from ...schemas.sessions.span_reading import SessionMemory
from ..error import PROCESS_ERRORS
from ..messages.codec import CandidateBatch

MEMORIES_MAX = 4_000
"""Sessions whose last calls of models are remembered."""
CHARS_MAX = 1 << 25
"""Characters of the inputs of these calls; what was read of them takes as much again."""

ReadBatch: TypeAlias = tuple[list[Candidate], list[DeadLetter]]
"""The candidates of a batch that have claims, and dead letters of those that cannot be read."""


class UnreadCandidates:
    """Reads candidates, and remembers the last calls of the sessions that were read last.

    The memory is a cache: candidates are read the same without it. Dead letters name the `process`.
    """

    def __init__(self, process: str = "monitor") -> None:
        self._process = process
        self._memories: dict[str, SessionMemory] = {}
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
        plain = PlainSpans([candidate.request for candidate in found])
        dead_letters: list[list[DeadLetter]] = [[] for _ in batches]
        # Rekeyers release by trace, and each source has a batch of its own; in the order of time, a call
        # follows those that it repeats.
        starts = [candidate.start for candidate in found]
        for place in sorted(range(len(found)), key=starts.__getitem__):
            candidate = found[place]
            if not candidate.request:
                continue
            whole = attempt(partial(self._whole, candidate, plain, place), PROCESS_ERRORS)
            if isinstance(whole, Broken):
                batch, time = batches[numbers[place]]
                dead_letters[numbers[place]].append(self._dead_letter(batch, candidate, time, whole.reason))
            else:
                found[place] = whole
        candidates: list[list[Candidate]] = [[] for _ in batches]
        for number, candidate in zip(numbers, found, strict=True):
            # A candidate that cannot be read has no claims either.
            if candidate.has_claims:
                candidates[number].append(candidate)
        return list(zip(candidates, dead_letters, strict=True))

    def _whole(self, candidate: Candidate, plain: PlainSpans, place: int) -> Candidate:
        """Return a candidate with its claims; the memory of its session becomes the latest.

        `place` is that of its span among the plain ones.
        """
        memories, session_id = self._memories, candidate.session_id
        memory = memories.pop(session_id, None)
        if memory is None:
            memory = SessionMemory()
        else:
            self._chars -= memory.chars
        whole = whole_candidate(candidate, plain.span(place), memory)
        memories[session_id] = memory
        self._chars += memory.chars
        while len(memories) > MEMORIES_MAX or self._chars > CHARS_MAX:
            self._chars -= memories.pop(next(iter(memories))).chars
        return whole

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
