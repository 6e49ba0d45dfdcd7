"""Answers to requests as OTLP defines them: messages in the encoding of the request."""

from __future__ import annotations

import math
from collections.abc import Mapping

from google.protobuf.any_pb2 import Any
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status
from starlette.responses import Response

from .decompress import CODINGS
from .endpoint import Endpoint
from .endpoint import Response as ExportResponse
from .receive import PartialSuccess
from .rejections import STATUS_CODES, Reason, Refused
from .request import Encoding

CONTENT_TYPE = {Encoding.PROTOBUF: "application/x-protobuf", Encoding.JSON: "application/json"}
VIOLATIONS_MAX = 20
"""Flaws in the details of a refusal."""

DRAINED_BYTES_MAX = 64 << 20
"""Bytes of a refused request that the server still reads, so that its sender gets the answer."""

_HEADERS: dict[Reason, dict[str, str]] = {
    Reason.METHOD: {"Allow": "POST"},
    Reason.CODING: {"Accept-Encoding": ", ".join(CODINGS)},
}
_CLOSING = frozenset({Reason.SLOW, Reason.STOPPING})
"""After these the server closes the connection without reading the rest of the body."""
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


def encoding_of(content_type: str) -> Encoding:
    """Return the encoding that a `Content-Type` header names. Raises Refused for an unsupported one."""
    kind, *parameters = (part.strip() for part in content_type.lower().split(";"))
    encoding = next((encoding for encoding, known in CONTENT_TYPE.items() if kind == known), None)
    if encoding is None:
        raise Refused(Reason.TYPE, f"supported content types: {', '.join(CONTENT_TYPE.values())}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(' "') not in _CHARSETS:
            raise Refused(Reason.TYPE, "supported character set: UTF-8")
    return encoding


def export_response(endpoint: Endpoint, result: PartialSuccess) -> ExportResponse:
    """Return the answer to an accepted request, with `partial_success` where items were rejected."""
    message = endpoint.response()
    if result.text:
        setattr(message.partial_success, endpoint.rejected, result.rejected)
        message.partial_success.error_message = result.text
    return message


def status_of(refused: Refused) -> Status:
    """Return the `google.rpc.Status` of a refusal, with the flaws of the request as its details."""
    status = Status(code=STATUS_CODES[refused.reason].grpc, message=refused.text)
    if refused.flaws:
        violations = [
            BadRequest.FieldViolation(field=flaw.place, description=f"{flaw.code} {flaw.text}")
            for flaw in refused.flaws[:VIOLATIONS_MAX]
        ]
        detail = Any()
        detail.Pack(BadRequest(field_violations=violations))
        status.details.append(detail)
    return status


def written(
    message: Message, encoding: Encoding, code: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the message as an HTTP response with that status code."""
    json = encoding is Encoding.JSON
    body = MessageToJson(message, indent=None).encode() if json else message.SerializeToString()
    return Response(body, code, {**(headers or {}), "Content-Type": CONTENT_TYPE[encoding]})


def refusal(refused: Refused, headers: Mapping[str, str]) -> Response:
    """Return the answer to a refused request with those headers; in JSON where its encoding is unknown."""
    try:
        encoding = encoding_of(headers.get("content-type", ""))
    except Refused:
        encoding = Encoding.JSON
    answered = dict(_HEADERS.get(refused.reason, {}))
    if refused.retry_after_s is not None:
        answered["Retry-After"] = str(max(1, math.ceil(refused.retry_after_s)))
    if refused.reason in _CLOSING or body_bytes(headers) > DRAINED_BYTES_MAX:
        answered["Connection"] = "close"
    response = written(status_of(refused), encoding, STATUS_CODES[refused.reason].http, answered)
    if refused.reason is Reason.TOKEN:
        for scheme in ("Bearer", "Basic"):
            response.headers.append("WWW-Authenticate", f'{scheme} realm="tracline", charset="UTF-8"')
    return response


def body_bytes(headers: Mapping[str, str]) -> float:
    """Return the announced length of the body, infinity where its length is unknown."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit():
        return float(length)
    return math.inf if "transfer-encoding" in headers else 0.0
