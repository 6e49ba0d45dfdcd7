"""Changes of sessions' status: what alerts count, and their JSON in the topic of verdicts."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import msgspec

from ..time import parse_time, rfc3339


class SessionStatus(StrEnum):
    """The status of a rule in a session, or of the session itself."""

    APPLIED = "applied"
    """The rule begins to apply to the occurrence, or may: something that was not captured decides it."""
    VIOLATED = "violated"
    """The occurrence violates the rule, or leaves it unmet, for the first time; history does not count."""
    UNJUDGED = "unjudged"
    """The rule can no longer be judged in the occurrence."""
    AT_RISK = "at_risk"
    """The rule's risk rises to its threshold in the occurrence for the first time; history does not count."""
    CLOSED = "closed"
    """The occurrence has ended: one change for all rules."""


class SessionCount(StrEnum):
    """A count of a rule's sessions, from which the bounds of its rate follow."""

    SESSIONS = "sessions"
    """Sessions to which the rule applies, or may apply: the denominator of the lower bound."""
    VIOLATING = "violating"
    """Sessions that violate the rule."""
    POSSIBLE = "possible"
    """Sessions in which the rule could not be judged to the end, and that had not violated it before."""
    UNCERTAIN = "uncertain"
    """Sessions in `sessions` of which it was unknown then whether the rule applies; the denominator of the
    higher bound has the others."""
    AT_RISK = "at_risk"
    """Sessions in which the rule's risk rose to its threshold."""


class StatusChange(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A change of an occurrence's status; `time` is that of its last judged event.

    Times are nanoseconds since the epoch. `pack`, `rule`, `rule_digest` and `severity` are None where the
    occurrence closed. `missing` is the state of the content that an unjudged rule lacks (`absent`,
    `truncated` or `redacted`), None if it is unjudged for another reason. `is_followed` is true where a chain
    follows the rule's risk in the occurrence. For metrics, and in no message, `previous` is the rule's status
    before, and `is_certain` is false where it is unknown whether the rule applies.
    """

    status: SessionStatus
    session_id: str
    occurrence: int
    pack: str | None
    rule: str | None
    rule_digest: str | None
    severity: str | None
    agent: str | None
    time: int
    missing: str | None = None
    is_followed: bool = False
    previous: SessionStatus | None = None
    is_certain: bool = True

    def __eq__(self, other: object) -> bool:
        """Return whether another change has the same message."""
        if not isinstance(other, StatusChange):
            return False
        return _in_message(self) == _in_message(other)

    def __hash__(self) -> int:
        """Return a hash of what a message has."""
        return hash(_in_message(self))

    @property
    def counts(self) -> tuple[SessionCount, ...]:
        """Return the counts of the rule's sessions that grow by this change."""
        sessions = () if self.previous is not None else (SessionCount.SESSIONS,)
        match self.status:
            case SessionStatus.AT_RISK:
                return (SessionCount.AT_RISK,)
            case SessionStatus.APPLIED if sessions and not self.is_certain:
                return *sessions, SessionCount.UNCERTAIN
            case SessionStatus.APPLIED:
                return sessions
            case SessionStatus.VIOLATED:
                return *sessions, SessionCount.VIOLATING
            case SessionStatus.UNJUDGED if self.previous is not SessionStatus.VIOLATED:
                return *sessions, SessionCount.POSSIBLE
            case _:
                return ()


def _in_message(change: StatusChange) -> tuple[object, ...]:
    """Return the fields of a change that its message has."""
    return msgspec.structs.astuple(change)[:-2]


class StatusJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The JSON of a status change, whose times are RFC 3339 texts with nine digits.

    It has `missing` only where content is missing, and `followed` only where it is true.
    """

    status: SessionStatus
    session_id: str
    occurrence: str
    pack: str | None
    rule: str | None
    rule_digest: str | None
    severity: str | None
    agent: str | None
    time: str
    missing: str | None = None
    followed: bool = False


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(StatusJson)

# Many changes share their times: all rules that begin to apply to an occurrence.
_text = lru_cache(maxsize=4096)(rfc3339)
_time = lru_cache(maxsize=4096)(parse_time)


def encode_status(change: StatusChange) -> bytes:
    """Return the change as JSON."""
    return _ENCODER.encode(status_json(change))


def status_json(change: StatusChange) -> StatusJson:
    """Return what an encoder writes as the JSON of the change."""
    occurrence, time = _text(change.occurrence), _text(change.time)
    named = change.pack, change.rule, change.rule_digest, change.severity
    at = change.session_id, occurrence, *named, change.agent, time
    return StatusJson(change.status, *at, change.missing, change.is_followed)


def decode_status(data: bytes | msgspec.Raw) -> StatusChange:
    """Return the change in JSON. Raises ValueError where a field is missing or invalid."""
    status = _DECODER.decode(data)
    occurrence, time = _time(status.occurrence), _time(status.time)
    if occurrence is None or time is None:
        raise ValueError("a status without a time")
    named = status.pack, status.rule, status.rule_digest, status.severity
    if (None in named[:2]) is not (status.status is SessionStatus.CLOSED):
        raise ValueError("a status of no rule, or a close of a rule")
    at = status.session_id, occurrence, *named, status.agent, time
    return StatusChange(status.status, *at, status.missing, status.followed)
