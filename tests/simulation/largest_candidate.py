"""The size of the largest candidate of conversations."""

from __future__ import annotations

from tracline.schemas.candidate import Candidate
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.time import NS
from tracline.stream.messages.codec import CandidateBatch, encode

from ..support.processes.live import SETTINGS
from ..support.sources import Source
from ..support.truth.conversations import PlayedSession


def largest_candidate(played: list[PlayedSession]) -> int:
    """The bytes of the largest candidate: a message must have room for it."""
    source = Source(SETTINGS)
    for session_played in played:
        source.add_request(Decoded(tuple(session_played.spans)), session_played.spans[-1].end)
    source.idle(source.record_time + round(SETTINGS.hold_s) * NS)
    released = [session_played.made for session_played in source.release(source.record_time)]
    candidates = [session_played for session_played in released if isinstance(session_played, Candidate)]
    return max(len(encode(CandidateBatch(0, 1, 0, 0, [candidate]))) for candidate in candidates)
