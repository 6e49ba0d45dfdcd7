"""A request of one span is decoded as any request is, whatever its bytes are."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.schemas.otlp import single
from tracline.schemas.otlp.protobuf import decode_protobuf
from tracline.schemas.otlp.single import decode_single, single_request
from tracline.schemas.span import Span

from ..support.conversations.agent_spans import spans
from ..support.conversations.scripts import random_session
from ..support.otlp_messages import REQUESTS
from ..support.otlp_requests import to_otlp
from .quick_draws import quickly

SENT = [to_otlp([span]).SerializeToString() for seed in range(2) for span in spans(random_session(seed))]


def ordinary(request: bytes) -> Span | None:
    """Return the only span of a request, None where it has another number of them."""
    found = decode_protobuf(request).spans
    return found[0] if len(found) == 1 else None


def quick(request: bytes) -> Span | None:
    """Return the span as the monitor decodes it, None where that raises ValueError."""
    try:
        return decode_single(request)
    except ValueError:
        return None


def as_sent_on(request: bytes) -> list[bytes]:
    """Return a request of each span of a request."""
    message = TracesData.FromString(request)
    return [
        single_request(*(part.SerializeToString() for part in (resource.resource, scope.scope, span)))
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@pytest.mark.parametrize("request_", SENT[::7])
def test_damaged_requests_are_decoded_as_ever(request_: bytes) -> None:
    """Cut and changed at many places, a request is decoded as by the ordinary decoder."""
    (request,) = as_sent_on(request_)
    random = Random(len(request))
    damaged = [request[:size] for size in range(0, len(request), 11)]
    for place in (*range(40), *(random.randrange(len(request)) for _ in range(200))):
        changed = bytearray(request)
        changed[place] ^= 1 << random.randrange(8)
        damaged.append(bytes(changed))
    for data in (request, request + request, *damaged):
        assert repr(quick(data)) == repr(ordinary(data))


@given(quickly(REQUESTS))
@settings(max_examples=120)
def test_any_span_is_decoded_as_ever(request: TracesData) -> None:
    """Spans of any values are those of the ordinary decoder."""
    for data in as_sent_on(request.SerializeToString()):
        assert repr(quick(data)) == repr(ordinary(data))


def test_a_request_as_the_rekeyer_sends_it_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ordinary decoder is not called."""
    sent = [data for request in SENT for data in as_sent_on(request)]
    expected = [repr(ordinary(data)) for data in sent]
    monkeypatch.delattr(single, "decode_protobuf")
    assert [repr(decode_single(data)) for data in sent] == expected


def test_spans_of_one_resource_do_not_share_attributes() -> None:
    """Two spans have attributes of their own; their resource is decoded once."""
    first, second = (decode_single(data) for data in as_sent_on(SENT[0] + SENT[0]))
    assert first.attributes is not second.attributes
    assert first.resource is second.resource
