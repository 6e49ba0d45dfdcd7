"""Spans as nobody should send them: values that no convention knows, times and parents that cannot be."""

from __future__ import annotations

import json
from random import Random

from ..support.otlp_requests import to_otlp, to_otlp_json
from .truth import PlayedSession

TEXTS = ("\ud800", "a\x00b", "\x1b[31m", "x" * 5_000, "", "null", "{", "[[[[", '{"a": 1e999}', "NaN", "[1, 2")
TEXTS = (
    *TEXTS,
    '[{"role": "user", "parts": [{"type": "text", "content": "\\ud800"}]}]',
    '{"id": 1' + "0" * 30,
)
VALUES = [
    *({"stringValue": text} for text in TEXTS),
    *({"intValue": text} for text in ("9223372036854775807", "-9223372036854775808", "1e400", "x")),
    *({"doubleValue": number} for number in (1e308, -0.0, "NaN", "Infinity")),
    {"boolValue": True},
    {"arrayValue": {"values": [{}, {"stringValue": "\ud800"}, {"arrayValue": {}}]}},
    {"kvlistValue": {"values": [{"key": "", "value": {"intValue": 5}}, {"key": "role"}]}},
    {"bytesValue": "AAAA"},
    {},
]
TIMES = ("0", "1", "-5", str(2**63 - 1), str(2**64 - 1), "x", None, 1.5)


def spoilt(played: PlayedSession, random: Random) -> bytes:
    """A request of the conversation's spans in JSON, in which anything may be something else."""
    request = json.loads(json.dumps(to_otlp_json(to_otlp(played.spans))))
    spans = [
        span
        for resource in request["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    for span in spans:
        for _ in range(random.choice((0, 0, 1, 2))):
            _spoil(span, random.choice(spans), random)
    return json.dumps(request, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")


def _spoil(span: dict, neighbour: dict, random: Random) -> None:
    """Change something of a span; `other` is one of the same request."""
    match random.choice(("attribute",) * 5 + ("time", "time", "parent", "id", "name", "status")):
        case "attribute":
            random.choice(span.get("attributes") or [{}])["value"] = random.choice(VALUES)
        case "time":
            span[random.choice(("startTimeUnixNano", "endTimeUnixNano"))] = random.choice(TIMES)
        case "parent":
            parents = (span["spanId"], "", "00" * 8, "zz", neighbour["spanId"])
            span["parentSpanId"] = random.choice(parents)
        case "id":
            span["spanId"] = neighbour["spanId"]
        case "name":
            span["name"] = random.choice(("\ud800", "", None, 5))
        case _:
            span["status"] = random.choice(({"code": 99}, None, {"code": 2, "message": "\ud800"}))
