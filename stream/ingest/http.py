"""OTLP over HTTP: the routes under `/v1/`.

The server answers 200 once the request is on disk. OTLP 1.x, "OTLP/HTTP":
https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import math

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from .decompress import IDENTITY, coding_of
from .endpoint import ENDPOINTS, OTHER_PATHS, REFUSED, Endpoint
from .limits import Admission, ReceiverLimits
from .meter import OtlpTransport, RequestKind
from .receive import RequestHandler
from .rejections import Reason, Refused
from .responses import body_bytes, encoding_of, export_response, refusal, written
from .server.connections import peer_of


def routes(handler: RequestHandler) -> list[Route]:
    """Return the routes of a receiver, for a Starlette app behind a `GateMiddleware`."""
    return [
        *(Route(path, _HttpExport(endpoint, handler)) for endpoint in ENDPOINTS for path in endpoint.paths),
        *(Route(path, _HttpUnsupported(handler)) for path in OTHER_PATHS),
    ]


class _HttpExport:
    """The handler of one signal's requests."""

    def __init__(self, endpoint: Endpoint, handler: RequestHandler) -> None:
        self._endpoint, self._handler = endpoint, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive)
        try:
            response = await self._answer(request)
        except Refused as refused:
            self._handler.meter.refused(refused.reason)
            response = refusal(refused, request.headers)
        except ClientDisconnect:
            self._handler.meter.refused(Reason.GONE)
            return
        await response(scope, receive, send)

    async def _answer(self, request: HttpRequest) -> Response:
        if request.method != "POST":
            raise Refused(Reason.METHOD, f"send requests of {self._endpoint.items} with POST")
        encoding = encoding_of(request.headers.get("content-type", ""))
        coding = coding_of(request.headers.get("content-encoding", ""))
        with self._handler.admissions.admit(_peer(request)) as admission:
            data = await _body(request, admission, coding, self._handler.limits)
            kind = RequestKind(self._endpoint.signal, OtlpTransport.HTTP, encoding)
            result = await self._handler.handle(admission, kind, data, coding)
        return written(export_response(self._endpoint, result), encoding, 200)


class _HttpUnsupported:
    """The handler of unsupported signals' requests."""

    def __init__(self, handler: RequestHandler) -> None:
        self._meter = handler.meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._meter.refused(Reason.SIGNAL)
        response = refusal(Refused(Reason.SIGNAL, REFUSED), HttpRequest(scope).headers)
        await response(scope, receive, send)


async def _body(request: HttpRequest, admission: Admission, coding: str, limits: ReceiverLimits) -> bytes:
    """Return the body as it was sent. Raises Refused as soon as it is too large or too slow."""
    bytes_max = limits.packed_bytes_max
    if coding == IDENTITY:
        bytes_max = min(bytes_max, limits.unpacked_bytes_max)
    too_large = Refused(Reason.SIZE, f"the body has more than {bytes_max} bytes")
    if bytes_max < body_bytes(request.headers) < math.inf:
        raise too_large
    body = bytearray()
    async with admission.reading(limits.stall_s):
        async for chunk in request.stream():
            admission.hold(len(chunk))
            body += chunk
            if len(body) > bytes_max:
                raise too_large
    return bytes(body)


def _peer(request: HttpRequest) -> str:
    return peer_of(request.client.host) if request.client else ""
