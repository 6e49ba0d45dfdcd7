"""Results that a tool's run did not capture, and the next model call may have (session assembly, stage b)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..candidate import Candidate, Claim
from ..event import Content, Kind
from .memory.tool_use import ToolUse, claimed_use, matching_use

WAITING_MAX = 1_000
"""Results of an occurrence that wait at once."""


class Awaited(msgspec.Struct, rename={"claim": "telling"}):
    """The result of a run that waits; `run` is the key of its span, `candidate` has no claims."""

    run: str
    claim: Claim
    candidate: Candidate


def is_awaited(claim: Claim, use: ToolUse, awaited: Sequence[Awaited]) -> bool:
    """Return whether a run's result lacks content though a model's span has the call, or follows such one.

    The input of the model's next call is then likely to be captured, too, with the results of all runs.
    """
    if claim.kind is not Kind.TOOL_RESULT or claim.place is not None or use.asked is None:
        return False
    return len(awaited) < WAITING_MAX if awaited else _is_bare(claim)


def _is_bare(claim: Claim) -> bool:
    return claim.content is Content.ABSENT and claim.result is None


def answers(
    awaited: Iterable[Awaited], uses: Sequence[ToolUse], candidate: Candidate, key: str
) -> dict[str, Claim]:
    """Return the new results in a model call's input that are awaited, by the key of the run."""
    runs = {result.run for result in awaited}
    left, found = [*uses], dict[str, Claim]()
    for claim in candidate.claims:
        if claim.kind is not Kind.TOOL_RESULT or claim.place is None or claim.past:
            continue
        use = matching_use(left, claimed_use(claim, candidate, key), claim.kind)
        if use is None:
            continue
        # Each use is answered once, so the next claim cannot match it.
        left = [known for known in left if known is not use]
        if use.run in runs and claim.content is not Content.ABSENT:
            found[use.run] = claim
    return found


def completed_result(awaited: Awaited, found: Mapping[str, Claim]) -> Claim:
    """Return an awaited result completed from the model call's input, or as its run has it."""
    claim, answer = awaited.claim, found.get(awaited.run)
    if answer is None or not _is_bare(claim):
        return claim
    return msgspec.structs.replace(
        claim,
        call_id=claim.call_id if claim.call_id is not None else answer.call_id,
        tool=claim.tool if claim.tool is not None else answer.tool,
        args=claim.args if claim.args is not None else answer.args,
        result=answer.result,
        error=claim.error or answer.error,
        content=answer.content,
    )
