"""The messages of candidates, whose bytes are put together, are those that the encoder writes."""

from __future__ import annotations

import msgspec
import pytest
from tracline.schemas.candidate import Candidate
from tracline.schemas.span_content import SpanRole
from tracline.stream.messages.codec import CandidateBatch, candidate_messages, decode, encode

BATCH = CandidateBatch(3, 4, 1 << 40, -1, [], topic="the candidates\x90 of \xaacandidates\x90")


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_a_message_is_what_the_encoder_writes(count: int) -> None:
    """It has any number of candidates; a text like the name of its list changes nothing."""
    candidate = Candidate("s", SpanRole.TOOL, 1, 2, ())
    encoded = (b"s", msgspec.msgpack.encode(candidate))
    messages, too_large = candidate_messages(BATCH, [encoded] * count, 1 << 30, 7)
    expected = msgspec.structs.replace(BATCH, candidates=[candidate] * count)
    assert messages == [encode(expected)]
    assert decode(messages[0]) == expected
    assert not too_large


def test_only_the_last_message_has_the_watermark_after_the_batch() -> None:
    """A session with more than a message has several of its own, all with `more` but the last."""
    candidates = [Candidate("s", SpanRole.TOOL, number, 2, ()) for number in range(3)]
    messages, _ = candidate_messages(BATCH, candidates, len(msgspec.msgpack.encode(candidates[0])), 7)
    parts = [([candidates[0]], True, 7), ([candidates[1]], True, 7), ([candidates[2]], False, -1)]
    assert messages == [
        encode(msgspec.structs.replace(BATCH, candidates=group, more=more, watermark=watermark))
        for group, more, watermark in parts
    ]
