"""The series that a status counts for: its rule, the rule's risk, and the capture of content.

Without content, rules judge nothing. So `CAPTURE` counts like a rule, which applies to every session with a
rule, and which a session violates in which a rule becomes unjudged because content is missing. The risk of a
rule that a chain follows counts like a rule, too: it applies where the rule does, and a session violates it
in which the risk rises to its threshold.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...schemas.records.session_status import SessionStatus, StatusChange

CAPTURE = ("tracline", "content-capture")
"""The pack and id of alerts that the content of sessions is not captured; no rule has them."""

CAPTURE_SEVERITY = "high"
"""The severity of these alerts."""


RISK_PREFIX = "risk:"
"""The beginning of the name of a rule's risk; no rule has such an id."""


def risk_of(pack: str, rule: str) -> tuple[str, str]:
    """Return the pack and the name under which the risk of a rule is counted."""
    return pack, RISK_PREFIX + rule


def rule_id(name: str) -> str:
    """Return the id of the rule under whose name, or whose risk's name, sessions are counted."""
    return name.removeprefix(RISK_PREFIX)


def counted_statuses(status: StatusChange) -> Iterator[tuple[tuple[str, str], SessionStatus]]:
    """Yield the rules that a status counts for, `CAPTURE` last, each with its status; none for a close.

    A followed rule's risk counts as `risk_of`.
    """
    if status.pack is None or status.rule is None:
        return
    if status.status is SessionStatus.AT_RISK:
        yield risk_of(status.pack, status.rule), SessionStatus.VIOLATED
        return
    yield (status.pack, status.rule), status.status
    if status.is_followed:
        is_unjudged = status.status is SessionStatus.UNJUDGED
        kind = SessionStatus.UNJUDGED if is_unjudged else SessionStatus.APPLIED
        yield risk_of(status.pack, status.rule), kind
    yield CAPTURE, SessionStatus.APPLIED if status.missing is None else SessionStatus.VIOLATED
