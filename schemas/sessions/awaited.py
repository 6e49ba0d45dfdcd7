"""Results that a tool's run did not capture: a model may be told them next (session assembly, stage b)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..candidate import Candidate, Claim
from ..event import Content, Kind
from .tool_use import ToolUse, claimed_use, matching_use

WAITING_MAX = 1_000
"""Results of an occurrence that wait at once."""


class Awaited(msgspec.Struct, rename={"claim": "telling"}):
    """The result of a run that waits; `run` is the key of its span, `candidate` has no tellings."""

    run: str
    claim: Claim
    candidate: Candidate


def is_awaited(telling: Claim, use: ToolUse, awaited: Sequence[Awaited]) -> bool:
    """Return whether a run's result has no content, though a model's span told the call, or follows such.

    The input of the model's next call is then likely to be told, too, and to hold the results of all runs.
    """
    if telling.kind is not Kind.TOOL_RESULT or telling.place is not None or use.asked is None:
        return False
    return len(awaited) < WAITING_MAX if awaited else _is_bare(telling)


def _is_bare(telling: Claim) -> bool:
    return telling.content is Content.ABSENT and telling.result is None


def answers(
    awaited: Iterable[Awaited], uses: Sequence[ToolUse], candidate: Candidate, key: str
) -> dict[str, Claim]:
    """Return what a model's call is told anew of the results that are awaited, by the key of the run."""
    runs = {one.run for one in awaited}
    left, found = [*uses], dict[str, Claim]()
    for telling in candidate.claims:
        if telling.kind is not Kind.TOOL_RESULT or telling.place is None or telling.past:
            continue
        use = matching_use(left, claimed_use(telling, candidate, key), telling.kind)
        if use is None:
            continue
        # Each use is answered once, and so the next claim looks among the others.
        left = [one for one in left if one is not use]
        if use.run in runs and telling.content is not Content.ABSENT:
            found[use.run] = telling
    return found


def completed_result(awaited: Awaited, found: Mapping[str, Claim]) -> Claim:
    """Return the result with what a model was told of it; without that, as its run told it."""
    telling, answer = awaited.claim, found.get(awaited.run)
    if answer is None or not _is_bare(telling):
        return telling
    return msgspec.structs.replace(
        telling,
        call_id=telling.call_id if telling.call_id is not None else answer.call_id,
        tool=telling.tool if telling.tool is not None else answer.tool,
        args=telling.args if telling.args is not None else answer.args,
        result=answer.result,
        error=telling.error or answer.error,
        content=answer.content,
    )
