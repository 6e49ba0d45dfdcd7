"""Serve decodes a span once, unless it restarts before the span's content is read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.candidate import Candidate
from tracline.schemas.sessions import span_reading
from tracline.schemas.sessions.span_reading import SpanReading, read_span
from tracline.schemas.span import Span
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS
from tracline.stream.serve import decoded_spans
from tracline.stream.serve.decoded_spans import DecodedSpans

from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Manner
from ..support.processes.live import Live, schedule
from ..support.truth.conversations import PlayedSession, answered_once, paced, true_ids

PLAYED = [
    PlayedSession(paced(answered_once(random_session(seed)), START_NS + 60 * place * NS, 15), Manner())
    for place, seed in enumerate((237, 104))
]


@pytest.mark.parametrize(("restarts", "is_again"), [(False, False), (True, True)])
def test_a_span_is_decoded_again_after_a_restart_only(
    restarts: bool, is_again: bool, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdicts are those of the truth either way."""
    decoded: list[bytes] = []
    decode_single = span_reading.decode_single

    def counted(request: bytes) -> Span:
        decoded.append(request)
        return decode_single(request)

    monkeypatch.setattr(span_reading, "decode_single", counted)
    with closing(Live(tmp_path, compile_rule_set(load_packs([pack])))) as live:
        live.play(schedule(PLAYED, Random(4), again=0.2, most=6), Random(6), restarts=restarts)
        live.finish()
        assert live.records.keys() == true_ids(PLAYED, pack).keys() != set()
    assert bool(decoded) is is_again


def reading(number: int) -> tuple[Span, SpanReading]:
    """Return a span, and its reading without content."""
    span = Span(f"{number:032x}", f"{number:016x}", None, "chat", 1, 2)
    return span, SpanReading(
        span.trace_id, span.span_id, None, 1, 2, read_span(span).content, request=bytes([number]) * 10
    )


def test_the_oldest_spans_are_forgotten_and_read_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The requests of the remembered spans have at most so many bytes."""
    monkeypatch.setattr(decoded_spans, "REQUEST_BYTES_MAX", 35)
    spans = DecodedSpans()
    spans.add(map(reading, range(5)))
    assert [*spans.by_request] == [bytes([number]) * 10 for number in (2, 3, 4)]
    spans.forget([Candidate("s", SpanRole.CHAT, 1, 2, (), request=bytes([3]) * 10)])
    spans.add([reading(6)])
    assert [*spans.by_request] == [bytes([number]) * 10 for number in (2, 4, 6)]
