"""The id of a model's answer, by which two spans are known to tell of one call."""

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
"""How the JSON of a provider's response begins."""


def response_of(span: Span) -> str | None:
    """Return the id of the answer that a model's span tells of; None where it says none.

    OpenInference leaves the response in `output.value`. Logfire begins a span for a call whose answer is
    streamed, and tells the answer in another one, of no length, when the stream is over: both have the
    request, and no id.
    """
    attributes = span.attributes
    told = first_name(attributes, (otel.RESPONSE_ID, ai.RESPONSE_ID))
    if told is not None:
        return told
    output = attributes.get(oi.OUTPUT_VALUE)
    if isinstance(output, str) and (found := _IN_RESPONSE.match(output)):
        return found[1]
    request = attributes.get(otel.INPUT_MESSAGES)
    if span.scope.startswith(scopes.LOGFIRE) and isinstance(request, str):
        return RETOLD + hashlib.blake2b(request.encode(errors="replace"), digest_size=16).hexdigest()
    return None
