"""The field names under which messages and stored states hold what session assembly works with."""

from __future__ import annotations

import msgspec
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Kind
from tracline.schemas.sessions.awaited import Awaited
from tracline.schemas.sessions.span_reading import SpanReading
from tracline.schemas.sessions.trace import Trace
from tracline.schemas.span_content import SpanContent, SpanRole
from tracline.stream.messages.earlier_session import EarlierSession

CLAIM = Claim(Kind.USER, 1, "Hi")
CANDIDATE = Candidate("s", SpanRole.CHAT, 1, 2, (CLAIM,))
CONTENT = SpanContent(SpanRole.CHAT)
READING = SpanReading("t", "s", None, 1, 2, CONTENT, has_claims=False)


def test_renamed_fields_are_stored_under_their_old_names() -> None:
    """A release that renames a field reads what an earlier one wrote, and the other way round."""
    renamed = [
        (CANDIDATE, {"part": "role", "tellings": "claims"}),
        (CONTENT, {"part": "role"}),
        (READING, {"step": "content", "tells": "has_claims"}),
        (Trace(), {"said": "ended_by_key"}),
        (EarlierSession("s", 1), {"told": "seen"}),
        (Awaited("r", CLAIM, CANDIDATE), {"telling": "claim"}),
    ]
    for value, names in renamed:
        data = msgspec.msgpack.encode(value)
        stored = msgspec.msgpack.decode(data)
        assert names.keys() <= stored.keys(), type(value)
        assert stored.keys().isdisjoint(names.values()), type(value)
        assert msgspec.msgpack.decode(data, type=type(value)) == value
