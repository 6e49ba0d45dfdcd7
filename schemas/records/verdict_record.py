"""Verdict records: the lines of `verdicts.jsonl`, of the topic of verdicts and of the store."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ..instrumentations.missing import Missing, with_setting
from ..verdict import Severity, Verdict


# Records hold no cycles, so the garbage collector need not visit them.
class WitnessEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that changed the residual: its true propositions, and the residual after it."""

    event_id: str
    residual: str
    seq: int
    true: tuple[str, ...]


class WitnessHistory(msgspec.Struct, frozen=True, gc=False):
    """A past formula that decided the verdict, its value, and the event that last changed it (None: none)."""

    event_id: str | None
    formula: str
    seq: int | None
    value: bool


class Witness(msgspec.Struct, frozen=True, gc=False):
    """The explanation of a verdict: events in order, the verdict's event last, and the deciding history.

    `truncated` states that events between the first ones and the last one are left out.
    """

    events: tuple[WitnessEvent, ...]
    history: tuple[WitnessHistory, ...]
    truncated: bool


NoField: TypeAlias = msgspec.UnsetType


class VerdictRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A verdict of a rule on an event of a session, as docs/bundle.md describes it.

    Times are RFC 3339 texts with nine digits. Only unjudged records have `missing`, which lines of early
    releases lack. The fields stand in the order of their names, so that the JSON is canonical.
    """

    agent: str | None
    event_id: str
    history: bool
    id: str
    late: bool
    missing: Missing | NoField | None = msgspec.UNSET
    occurrence: str
    pack: str
    reason: str | None = None
    rule: str
    rule_digest: str
    seq: int
    session_id: str
    severity: Severity
    slice: str | None
    time: str
    verdict: Verdict
    witness: Witness | None = None

    @property
    def owed_since(self) -> int | None:
        """Return the `seq` of the event since which an unmet obligation is owed; None for other verdicts."""
        if self.verdict is not Verdict.UNMET or self.witness is None:
            return None
        return self.witness.events[0].seq

    @property
    def described(self) -> str:
        """Return the verdict in words, an unmet one with the event since which it is owed."""
        since = self.owed_since
        return self.verdict.value if since is None else f"{self.verdict.value}, owed since step {since}"

    @property
    def why(self) -> str | None:
        """Return why the session is unjudged, with the setting that would help where it is known."""
        if not isinstance(self.missing, Missing):
            return self.reason
        return with_setting(self.missing.reason, self.missing.scope, self.missing.setting)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(VerdictRecord)


def encode_verdict(record: VerdictRecord) -> bytes:
    """Return the record as canonical JSON (RFC 8785).

    A record holds only texts, nulls, flags and integers below 2**53 under ASCII keys. For those msgspec
    writes the bytes that RFC 8785 prescribes.
    """
    return _ENCODER.encode(record)


def decode_verdict(data: bytes | msgspec.Raw) -> VerdictRecord:
    """Return the record in a line or value. Raises msgspec.MsgspecError where there is none."""
    return _DECODER.decode(data)
