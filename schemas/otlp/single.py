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
from .wire import delimited, varint

CACHED_MAX = 1_024
CACHED_BYTES_MAX = 4_096
"""Resources and scopes that are cached, and the bytes of one: processes send the same ones with all spans."""
_FIRST, _SECOND = delimited(1, b"")[0], delimited(2, b"")[0]


def single_request(resource: bytes, scope: bytes, span: bytes) -> bytes:
    """Return a request of one span with its resource and its scope."""
    return delimited(1, delimited(1, resource) + delimited(2, delimited(1, scope) + delimited(2, span)))


def decode_single(request: bytes) -> Span:
    """Return the only span of a request, as `decode_protobuf` does; raise ValueError where it has not one."""
    try:
        resource, scope, content = _cut(request)
        attributes, name = _resource(resource), _scope(scope)
        message = Message.FromString(content)
    except (DecodeError, ValueError):
        (span,) = decode_protobuf(request).spans
        return span
    decoding = Decoding()
    decode_span(message, attributes, name, str, decoding)
    (span,) = decoding.spans
    return span


def _cut(request: bytes) -> tuple[bytes, bytes, bytes]:
    """Return resource, scope and span of a request as `single_request` writes it; else raise ValueError."""
    inner = _field(request, 0, _FIRST)
    _, stop = resource = _field(request, inner[0], _FIRST)
    scope_spans = _field(request, stop, _SECOND)
    _, stop = scope = _field(request, scope_spans[0], _FIRST)
    span = _field(request, stop, _SECOND)
    if not inner[1] == scope_spans[1] == span[1] == len(request):
        raise ValueError("has other fields")
    return request[slice(*resource)], request[slice(*scope)], request[slice(*span)]


def _field(data: bytes, at: int, tag: int) -> tuple[int, int]:
    """Return the offsets of the content of the field with that tag; raise ValueError where it is another."""
    if at >= len(data) or data[at] != tag:
        raise ValueError("has another field")
    size, begin = varint(data, at + 1)
    return begin, begin + size


def _resource(data: bytes) -> dict[str, Value]:
    return _cached_resource(data) if len(data) <= CACHED_BYTES_MAX else _read_resource(data)


def _read_resource(data: bytes) -> dict[str, Value]:
    pairs = Resource.FromString(data).attributes
    return from_protobuf(pairs, len(pairs), str, Decoding())


def _scope(data: bytes) -> tuple[str, str]:
    return _cached_scope(data) if len(data) <= CACHED_BYTES_MAX else _read_scope(data)


def _read_scope(data: bytes) -> tuple[str, str]:
    scope = InstrumentationScope.FromString(data)
    return scope.name, scope.version


_cached_resource = lru_cache(maxsize=CACHED_MAX)(_read_resource)
_cached_scope = lru_cache(maxsize=CACHED_MAX)(_read_scope)
