"""The id of a model's answer, by which two spans of one call are recognised."""

from __future__ import annotations

import hashlib
import re

from ...span import Span
from ...span_content import RETOLD
from ..names import openinference_0_1 as oi
from ..names import opentelemetry_1_41 as otel
from ..names import scopes
from ..names import vercel_ai_6 as ai
from .message_parts import first_name

_IN_RESPONSE = re.compile(r'\{\s*"id":\s*"([\w.:-]{1,200})"')
"""The beginning of the JSON of a provider's response."""


def response_of(span: Span) -> str | None:
    """Return the id of the answer of a model's span; None where there is none.

    OpenInference leaves the response in `output.value`. For a streamed answer Logfire makes two spans: one
    for the call, and when the stream is over one of no length with the answer. Both have the request, and no
    id.
    """
    attributes = span.attributes
    response_id = first_name(attributes, (otel.RESPONSE_ID, ai.RESPONSE_ID))
    if response_id is not None:
        return response_id
    output = attributes.get(oi.OUTPUT_VALUE)
    if isinstance(output, str) and (response_id := id_in_response(output)) is not None:
        return response_id
    request = attributes.get(otel.INPUT_MESSAGES)
    if span.scope.startswith(scopes.LOGFIRE) and isinstance(request, str):
        return RETOLD + hashlib.blake2b(request.encode(errors="replace"), digest_size=16).hexdigest()
    return None


def id_in_response(text: str) -> str | None:
    """Return the id at the beginning of a provider's response in JSON; None where there is none."""
    found = _IN_RESPONSE.match(text)
    return None if found is None else found[1]
