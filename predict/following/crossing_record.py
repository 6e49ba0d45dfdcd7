"""The record of a crossing, live and in an audit."""

from __future__ import annotations

from typing import NamedTuple

from ...schemas.records.risk_crossing import RiskCrossing, RiskLevel, rounded
from ...schemas.time import rfc3339
from .followed_chain import FollowedChain
from .followed_risks import ContextRisk


class CrossedEvent(NamedTuple):
    """The event of a crossing, with its session; times are nanoseconds since the epoch."""

    session_id: str
    occurrence: int
    seq: int
    event_id: str
    time: int
    agent: str | None
    late: bool
    history: bool


def crossing_record(
    chain: FollowedChain,
    number: int,
    event: CrossedEvent,
    value: str | None,
    context: ContextRisk | None,
    *,
    is_up: bool,
) -> RiskCrossing:
    """Return the record of a crossing of the rule with that number; `value` is that of its slice."""
    risks, rule = chain.risks[number], chain.watched.rules[number]
    return RiskCrossing(
        level=RiskLevel.UP if is_up else RiskLevel.DOWN,
        pack=rule.pack,
        rule=rule.id,
        rule_digest=risks.rule_digest,
        chain=chain.digest,
        session_id=event.session_id,
        occurrence=rfc3339(event.occurrence),
        slice=value,
        seq=event.seq,
        event_id=event.event_id,
        time=rfc3339(event.time),
        within=risks.within,
        risk=None if context is None else rounded(context.risk),
        low=None if context is None else rounded(context.low),
        high=None if context is None else rounded(context.high),
        sessions=None if context is None else context.sessions,
        basis=None if context is None else context.basis,
        threshold=rounded(risks.threshold),
        severity=rule.severity,
        agent=event.agent,
        late=event.late,
        history=event.history,
    )
