"""The tool uses of plain claims, found by their ids (session assembly, stage b).

Most calls are claimed three times, with one id, tool and arguments: by the model that makes the call, by the
run, and by the next call of the model, which has the result. Where a claim is of such a use, no other use can
match it. All other claims are joined in the ordinary way (`sessions/memory/tool_use.py`).
"""

from __future__ import annotations

from ..candidate import Candidate, Claim
from ..event import Kind, canonical_text
from ..sessions.memory.claimed_text import brief
from ..sessions.memory.seen import (
    WAITING_MAX,
    SeenClaims,
    claim_use,
    completed_by_call,
    completed_by_use,
)
from ..sessions.memory.tool_use import ToolUse, is_item

_CALL, _RESULT = Kind.TOOL_CALL, Kind.TOOL_RESULT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


def joined(
    seen: SeenClaims, claim: Claim, candidate: Candidate, key: str
) -> tuple[int | None, Claim, Candidate]:
    """Join a captured call or result to its tool use.

    Return the time of the event that states it already, if there is one, and the claim and its candidate
    completed from the use.
    """
    is_call = claim.kind is _CALL
    use = None
    if claim.call_id is not None and claim.tool is not None and claim.args is not None:
        if claim.place is not None:
            use = _asked(seen, claim, candidate) if is_call else _answered(seen, claim)
        else:
            use = _begun(seen, claim, candidate, key) if is_call else _ended(seen, key)
    if use is None:
        return _joined_ordinarily(seen, claim, candidate, key)
    if is_call:
        before = use.called
        if before is None:
            use.called, use.nested, use.known = claim.time, candidate.nested, max(use.known, candidate.end)
    else:
        before = use.returned
        if before is None:
            use.returned = claim.time
        if use.nested != candidate.nested or use.call_id != claim.call_id or use.tool != claim.tool:
            claim, candidate = completed_by_use((seen,), use, claim, candidate)
    if use.is_complete:
        seen.drop_use(use)
    return before, claim, candidate


def _joined_ordinarily(
    seen: SeenClaims, claim: Claim, candidate: Candidate, key: str
) -> tuple[int | None, Claim, Candidate]:
    """Return what `joined` returns."""
    known = (seen,)
    claim = completed_by_call(known, claim)
    before, use = claim_use(known, claim, candidate, key)
    return before, *completed_by_use(known, use, claim, candidate)


def _asked(seen: SeenClaims, claim: Claim, candidate: Candidate) -> ToolUse | None:
    """Return a new use for a model's call; None where a run of before may be of it."""
    for known in seen.uses.values():
        if known.asked is None:
            return None
    args = brief(canonical_text(claim.args or ""))
    use = ToolUse(brief(claim.call_id), brief(claim.tool), args)
    use.since, use.asked, use.known = candidate.start, claim.time, candidate.end
    seen.add_use(use)
    if len(seen.uses) > WAITING_MAX:
        seen.drop_use(next(iter(seen.uses.values())))
    return use


def _begun(seen: SeenClaims, claim: Claim, candidate: Candidate, key: str) -> ToolUse | None:
    """Return the use of a call that a run begins, where a model has made it."""
    use = _of(seen, claim)
    if use is None or len(candidate.claims) != 2 or candidate.claims[0] is not claim:
        return None
    result = candidate.claims[1]
    if result.kind is not _RESULT or result.place is not None:
        return None
    if use.run is not None or use.answered is not None or use.since > claim.time:
        return None
    use.run, use.began, use.ended = key, claim.time, result.time
    use.result = None if result.error is not None else brief(result.result)
    seen.change_use(use)
    return use


def _ended(seen: SeenClaims, key: str) -> ToolUse | None:
    """Return the use of the run that ends with a result: the claim of its call joined all else."""
    found = None
    for use in seen.uses.values():
        if use.run == key:
            if found is not None:
                return None
            found = use
    if found is None or found.call_id is None or found.tool is None or found.args is None:
        return None
    found.is_ended = True
    seen.change_use(found)
    return found


def _answered(seen: SeenClaims, claim: Claim) -> ToolUse | None:
    """Return the use of a result that a model's call has, where its run has ended with the same result."""
    use = _of(seen, claim)
    if use is None or claim.error is not None or use.answered is not None:
        return None
    if (use.asked is not None and use.asked > claim.time) or (use.run is not None and use.ended > claim.time):
        return None
    result = brief(claim.result)
    if use.result is None:
        use.result = result
    elif use.result != result:
        return None
    use.answered = claim.time
    seen.change_use(use)
    return use


def _of(seen: SeenClaims, claim: Claim) -> ToolUse | None:
    """Return the use with the id, tool and arguments of a claim, where no other use can match these."""
    call_id, found = brief(claim.call_id), None
    for use in seen.uses.values():
        if use.call_id == call_id:
            if found is not None:
                return None
            found = use
        elif use.lacks_id or is_item(use.call_id):
            return None
    if found is None or is_item(call_id) or found.tool != brief(claim.tool):
        return None
    return found if found.args == brief(canonical_text(claim.args or "")) else None
