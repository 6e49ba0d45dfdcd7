"""Candidates whose content nobody has read yet: the monitor reads it from the bytes of their spans."""

from __future__ import annotations

from functools import partial

from ...schemas.attempt import Broken, attempt
from ...schemas.candidate import Candidate
from ...schemas.plain.span import PlainSpans
from ...schemas.records.dead_letter import DeadLetter
from ...schemas.sessions.resolve import whole_candidate
from ...schemas.sessions.span_reading import SessionMemory
from ..error import PROCESS_ERRORS
from ..messages.codec import CandidateBatch

MEMORIES_MAX = 1_000
"""Sessions whose last calls of models are remembered."""
CHARS_MAX = 1 << 25
"""Characters of the inputs of these calls; what was read of them takes as much again."""


class UnreadCandidates:
    """Reads candidates, and remembers the last calls of the sessions that were read last.

    The memory is a cache: candidates are read the same without it. Dead letters name the `process`.
    """

    def __init__(self, process: str = "monitor") -> None:
        self._process = process
        self._memories: dict[str, SessionMemory] = {}
        self._chars = 0

    def read(self, batch: CandidateBatch, time: int) -> tuple[list[Candidate], list[DeadLetter]]:
        """Return the candidates of a batch that have claims, and dead letters of those that cannot be read.

        A dead letter names the record that the span came in; `time` is that of the batch's record.
        """
        candidates = [*batch.candidates]
        plain = PlainSpans([candidate.request for candidate in candidates])
        dead_letters: list[DeadLetter] = []
        # Rekeyers release by trace; in the order of time, a call follows those that it repeats.
        for place in sorted(range(len(candidates)), key=lambda place: candidates[place].start):
            candidate = candidates[place]
            if not candidate.request:
                continue
            whole = attempt(partial(self._whole, candidate, plain, place), PROCESS_ERRORS)
            if isinstance(whole, Broken):
                dead_letters.append(self._dead_letter(batch, candidate, time, whole.reason))
            else:
                candidates[place] = whole
        # A candidate that cannot be read has no claims either.
        return [candidate for candidate in candidates if candidate.has_claims], dead_letters

    def _whole(self, candidate: Candidate, plain: PlainSpans, place: int) -> Candidate:
        """Return a candidate with its claims; the memory of its session becomes the latest.

        `place` is that of its span among the plain ones.
        """
        memory = self._memories.pop(candidate.session_id, None) or SessionMemory()
        self._chars -= memory.chars
        whole = whole_candidate(candidate, plain.span(place), memory)
        self._memories[candidate.session_id] = memory
        self._chars += memory.chars
        while len(self._memories) > MEMORIES_MAX or self._chars > CHARS_MAX:
            self._chars -= self._memories.pop(next(iter(self._memories))).chars
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
