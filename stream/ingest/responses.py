"""Answers over HTTP as OTLP has them: messages in the encoding of the request."""

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
VIOLATIONS_TOLD_MAX = 20
"""Flaws in the details of a refusal."""

DRAINED_BYTES_MAX = 64 << 20
"""Bytes of a refused request that the server still reads, so that its sender sees the answer."""

_HEADERS: dict[Reason, dict[str, str]] = {
    Reason.METHOD: {"Allow": "POST"},
    Reason.CODING: {"Accept-Encoding": ", ".join(CODINGS)},
}
_ENDED = frozenset({Reason.SLOW, Reason.STOPPING})
"""The rest of what comes is not waited for."""
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


def encoding_of(content_type: str) -> Encoding:
    """The encoding that a `Content-Type` header names. Raises Refused for one that is not read."""
    kind, *parameters = (part.strip() for part in content_type.lower().split(";"))
    encoding = next((encoding for encoding, known in CONTENT_TYPE.items() if kind == known), None)
    if encoding is None:
        raise Refused(Reason.TYPE, f"the content types that are read are {', '.join(CONTENT_TYPE.values())}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(' "') not in _CHARSETS:
            raise Refused(Reason.TYPE, "the character set that is read is UTF-8")
    return encoding


def export_response(endpoint: Endpoint, taken: PartialSuccess) -> ExportResponse:
    """Return the answer to a request that was taken, with `partial_success` where something of it was not."""
    message = endpoint.response()
    if taken.text:
        setattr(message.partial_success, endpoint.rejected, taken.rejected)
        message.partial_success.error_message = taken.text
    return message


def status_of(refused: Refused) -> Status:
    """The `google.rpc.Status` that says why; where its flaws are known they are its details."""
    status = Status(code=STATUS_CODES[refused.reason].grpc, message=refused.text)
    if refused.flaws:
        told = refused.flaws[:VIOLATIONS_TOLD_MAX]
        violations = [
            BadRequest.FieldViolation(field=flaw.place, description=f"{flaw.code} {flaw.text}")
            for flaw in told
        ]
        detail = Any()
        detail.Pack(BadRequest(field_violations=violations))
        status.details.append(detail)
    return status


def written(
    message: Message, encoding: Encoding, code: int, headers: Mapping[str, str] | None = None
) -> Response:
    """The message as an HTTP response with that status code."""
    json = encoding is Encoding.JSON
    body = MessageToJson(message, indent=None).encode() if json else message.SerializeToString()
    return Response(body, code, {**(headers or {}), "Content-Type": CONTENT_TYPE[encoding]})


def refusal(refused: Refused, headers: Mapping[str, str]) -> Response:
    """The answer to a request with those headers that is not taken; in JSON where its encoding is unknown."""
    try:
        encoding = encoding_of(headers.get("content-type", ""))
    except Refused:
        encoding = Encoding.JSON
    said = dict(_HEADERS.get(refused.reason, {}))
    if refused.retry_after_s is not None:
        said["Retry-After"] = str(max(1, math.ceil(refused.retry_after_s)))
    if refused.reason in _ENDED or body_bytes(headers) > DRAINED_BYTES_MAX:
        said["Connection"] = "close"
    response = written(status_of(refused), encoding, STATUS_CODES[refused.reason].http, said)
    if refused.reason is Reason.TOKEN:
        for scheme in ("Bearer", "Basic"):
            response.headers.append("WWW-Authenticate", f'{scheme} realm="tracline", charset="UTF-8"')
    return response


def body_bytes(headers: Mapping[str, str]) -> float:
    """Return how many bytes of body the sender announces; infinitely many where it does not say how many."""
    said = headers.get("content-length", "")
    if said.isascii() and said.isdigit():
        return float(said)
    return math.inf if "transfer-encoding" in headers else 0.0
