"""The statuses of the sessions at risk of an archive, by the crossings of an audit that follows a chain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ....schemas.records.risk_crossing import RiskCrossing, RiskLevel
from ....schemas.records.session_status import SessionStatus, StatusChange
from ....schemas.time import parse_time

if TYPE_CHECKING:
    from ....batch.prepare.options import AuditOptions
    from ....predict.following.followed_chain import FollowedChain
    from ....rules.model.rule import RuleSet
    from ....stream.alerts.history import TimedStatus

_TURN = {status: turn for turn, status in enumerate(SessionStatus)}


def with_risks(
    statuses: Sequence[TimedStatus],
    archive: tuple[str, ...],
    rule_set: RuleSet,
    chain: FollowedChain,
    options: AuditOptions,
    scratch: Path,
) -> list[TimedStatus]:
    """Return the statuses as those of a pipeline that follows the chain, with the sessions at risk.

    The archive is audited once more, in the folder `scratch`.
    """
    from ....batch.audit.audit import audit
    from ....batch.evidence.bundle import RISK
    from ....batch.evidence.risk_lines import read_crossings

    audit(archive, rule_set, scratch / "bundle", options, chain=chain)
    followed = {(risks.pack, risks.rule) for risks in chain.risks.values()}
    marked = [
        (at, msgspec.structs.replace(each, is_followed=(each.pack, each.rule) in followed))
        for at, each in statuses
    ]
    known = {(each.session_id, each.occurrence) for _, each in statuses}
    seen: set[tuple[str, int, str, str]] = set()
    for _, crossing in read_crossings(scratch / "bundle" / RISK):
        status = _at_risk(crossing)
        rule = status.session_id, status.occurrence, crossing.pack, crossing.rule
        is_first = crossing.level is RiskLevel.UP and not crossing.history and rule not in seen
        if is_first and rule[:2] in known:
            seen.add(rule)
            marked.append((status.time, status))
    return sorted(marked, key=lambda item: (item[0], _TURN[item[1].status]))


def _at_risk(crossing: RiskCrossing) -> StatusChange:
    occurrence, time = parse_time(crossing.occurrence), parse_time(crossing.time)
    assert occurrence is not None, "a record's times are RFC 3339"
    assert time is not None
    named = crossing.pack, crossing.rule, crossing.rule_digest, crossing.severity.value
    at = crossing.session_id, occurrence
    return StatusChange(SessionStatus.AT_RISK, *at, *named, crossing.agent, time, is_followed=True)
