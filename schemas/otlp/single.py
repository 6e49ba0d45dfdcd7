"""A request of one span in protobuf, as the rekeyer sends it on."""

from __future__ import annotations

from functools import lru_cache

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from ..span import Span, Value
from .attributes import from_protobuf
from .decoded import Decoding
from .protobuf import decode_protobuf, decode_span
from .wire import header, varint

CACHED_MAX = 1_024
CACHED_BYTES_MAX = 4_096
"""Resources and scopes that are cached, and the bytes of one: processes send the same ones with all spans."""
_FIRST, _SECOND = header(1, 0)[0], header(2, 0)[0]


def single_request(resource: bytes, scope: bytes, span: bytes) -> bytes:
    """Return a request of one span with its resource and its scope."""
    scope_begin, span_begin = header(1, len(scope)), header(2, len(span))
    size = len(scope_begin) + len(scope) + len(span_begin) + len(span)
    resource_begin, scoped_begin = header(1, len(resource)), header(2, size)
    begin = header(1, len(resource_begin) + len(resource) + len(scoped_begin) + size)
    return b"".join((begin, resource_begin, resource, scoped_begin, scope_begin, scope, span_begin, span))


def decode_single(request: bytes) -> Span:
    """Return the only span of a request, as `decode_protobuf` does; raise ValueError where it has not one."""
    try:
        resource, scope, content = [request[slice(*place)] for place in places_in(request)]
        attributes, name = resource_of(resource), scope_of(scope)
        message = Message.FromString(content)
    except (DecodeError, ValueError):
        (span,) = decode_protobuf(request).spans
        return span
    decoding = Decoding()
    decode_span(message, attributes, name, str, decoding)
    (span,) = decoding.spans
    return span


def places_in(request: bytes) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Return the offsets of resource, scope and span in a request as `single_request` writes it.

    Raises ValueError for any other request.
    """
    inner, end = _field(request, 0, _FIRST)
    resource = _field(request, inner, _FIRST)
    scope_spans, stop = _field(request, resource[1], _SECOND)
    scope = _field(request, scope_spans, _FIRST)
    span = _field(request, scope[1], _SECOND)
    if not end == stop == span[1] == len(request):
        raise ValueError("has other fields")
    return resource, scope, span


def _field(data: bytes, at: int, tag: int) -> tuple[int, int]:
    """Return the offsets of the content of the field with that tag; raise ValueError where it is another."""
    if at >= len(data) or data[at] != tag:
        raise ValueError("has another field")
    size, begin = varint(data, at + 1)
    return begin, begin + size


def resource_of(data: bytes) -> dict[str, Value]:
    """Return the attributes of a resource in protobuf; spans of one resource share them."""
    return _cached_resource(data) if len(data) <= CACHED_BYTES_MAX else _read_resource(data)


def _read_resource(data: bytes) -> dict[str, Value]:
    pairs = Resource.FromString(data).attributes
    return from_protobuf(pairs, len(pairs), str, Decoding())


def scope_of(data: bytes) -> tuple[str, str]:
    """Return the name and the version of an instrumentation scope in protobuf."""
    return _cached_scope(data) if len(data) <= CACHED_BYTES_MAX else _read_scope(data)


def _read_scope(data: bytes) -> tuple[str, str]:
    scope = InstrumentationScope.FromString(data)
    return scope.name, scope.version


def attribute_names(span: bytes) -> list[str]:
    """Return the names of the attributes of a span in protobuf."""
    return [pair.key for pair in Message.FromString(span).attributes]


_cached_resource = lru_cache(maxsize=CACHED_MAX)(_read_resource)
_cached_scope = lru_cache(maxsize=CACHED_MAX)(_read_scope)
