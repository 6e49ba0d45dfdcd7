"""The claims of plain runs of tools, without a `SpanContent` between the span and them."""

from __future__ import annotations

from ..candidate import Claim
from ..chat.message import string_of
from ..claims.digests import digest_of
from ..dialects.genai import returned
from ..dialects.names import frameworks as fw
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.parts.message_parts import is_cut, name_of
from ..dialects.parts.values import arguments
from ..event import Content, Kind
from .content import error_of
from .span import PlainSpan

_CALL, _RESULT, _CAPTURED = Kind.TOOL_CALL, Kind.TOOL_RESULT, Content.CAPTURED
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


def run_claims(span: PlainSpan, start: int, end: int) -> tuple[tuple[Claim, ...], str] | None:
    """Return the claims of a tool's run, and their digest; None where not all of it was captured."""
    texts = span.texts
    given, answer = texts.get(otel.TOOL_ARGUMENTS), texts.get(otel.TOOL_RESULT)
    name = texts.get(otel.TOOL_NAME)
    is_run = texts.get(otel.OPERATION) == otel.TOOL_OPERATION and name != fw.MERGED_TOOLS
    if not is_run or given is None or answer is None:
        return None
    args, asked = arguments(given)
    result, answered = returned(answer)
    if asked is not _CAPTURED or answered is not _CAPTURED or args is None or is_cut(args):
        return None
    named = string_of(name), name_of(texts.get(otel.TOOL_CALL_ID)), args
    claims = (
        Claim(_CALL, start, None, *named),
        Claim(_RESULT, end, None, *named, result, error_of(span)),
    )
    return claims, digest_of(claims)
