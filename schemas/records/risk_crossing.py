"""Risk crossings: the events at which a rule's risk in a session rises to a threshold, or falls from it."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import lru_cache

import msgspec
import orjson
import rfc8785

from ..verdict import Severity

_ENCODER = msgspec.json.Encoder(order="sorted")

DECIMALS = 9
"""Decimals of a risk at most."""


class RiskLevel(StrEnum):
    """The side of the threshold that a risk comes to."""

    UP = "up"
    DOWN = "down"


class RiskCrossing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A crossing of a rule's threshold at an event of a session, as docs/bundle.md describes it.

    `within` is the horizon in events, None until the session's end. `risk`, `low` and `high` are None where
    the rule can be violated no more. `sessions` counts the held-out sessions behind the interval. `drift` is
    true where verdicts come more often than the intervals of the chain allow; records of earlier releases
    lack it.
    """

    agent: str | None
    basis: str | None
    chain: str
    drift: bool = False
    event_id: str
    high: float | None
    history: bool
    late: bool
    level: RiskLevel
    low: float | None
    occurrence: str
    pack: str
    risk: float | None
    rule: str
    rule_digest: str
    seq: int
    session_id: str
    sessions: int | None
    severity: Severity
    slice: str | None
    threshold: float
    time: str
    within: int | None

    @property
    def id(self) -> str:
        """Return the id: 32 hex digits, the same for the same crossing live and in every audit."""
        parts = [
            "tracline-risk/1",
            self.pack,
            self.rule,
            self.rule_digest,
            self.chain,
            self.session_id,
            self.occurrence,
            self.slice,
            self.event_id,
            self.level.value,
            self.within,
        ]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]


def encode_crossing(crossing: RiskCrossing) -> bytes:
    """Return the crossing with its id as canonical JSON (RFC 8785)."""
    fields = {"id": crossing.id, **msgspec.to_builtins(crossing)}
    numbers = {
        name: msgspec.Raw(decimal(value)) for name, value in fields.items() if isinstance(value, float)
    }
    return _ENCODER.encode(fields | numbers)


@lru_cache(maxsize=65_536)
def decimal(value: float) -> bytes:
    """Return a risk of at most `DECIMALS` decimals as RFC 8785 writes it: msgspec writes 1.0 and 1e-5."""
    if 1e-6 <= value < 1:
        return f"{value:.{DECIMALS}f}".rstrip("0").encode()
    return rfc8785.dumps(value)


def decode_crossing(data: bytes) -> RiskCrossing:
    """Return the crossing in a line or value. Raises msgspec.MsgspecError where there is none."""
    return msgspec.json.decode(data, type=RiskCrossing)


def rounded(value: float) -> float:
    """Return a risk as records have it."""
    return round(value, DECIMALS)
