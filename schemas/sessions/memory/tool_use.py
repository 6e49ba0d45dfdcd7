"""Tool calls with their results, joined from the claims of models and runs (session assembly, stage b).

A model claims a call in its output and the result in a later input; a tool's run claims both. A claim joins
the use that it belongs to, or begins a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ...candidate import Candidate, Claim
from ...event import Content, Kind, canonical_text
from ...time import NS_MIN
from .claimed_text import agree, brief, equal

UNLINKED = ""
"""The run of a claim in a candidate that has only one half of the run."""
_AFTER_PLUGIN = "-"
_CALL, _RESULT = Kind.TOOL_CALL, Kind.TOOL_RESULT
_TRUNCATED = Content.TRUNCATED
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_ITEMS = ("fc_", "ctc_")
"""Prefixes of the ids of OpenAI's Responses for the items that hold calls; calls have another id besides."""


class ToolUse(msgspec.Struct, gc=False, omit_defaults=True):
    """One call of a tool and its result, in brief; times in nanoseconds, None before a claim of it.

    `called` and `returned` are the times of the two events. `asked` is when a model claimed the call; its run
    cannot begin before `since`. `answered` is when a model claimed the result. `run` is the key of the span
    that ran the tool, from `began` to `ended`; it has claimed the result once `is_ended`. `lacks_id` is
    whether one of the claims has no id. `known` is the end of the last span that identified the call, and
    `nested` is that of the call's event. `number` is that among the uses of an occurrence.
    """

    call_id: str | None = None
    tool: str | None = None
    args: str | None = None
    result: str | None = None
    called: int | None = None
    returned: int | None = None
    since: int = NS_MIN
    asked: int | None = None
    answered: int | None = None
    run: str | None = None
    began: int = NS_MIN
    ended: int = NS_MIN
    is_ended: bool = False
    lacks_id: bool = False
    known: int = NS_MIN
    nested: bool = False
    number: int = 0

    @property
    def is_complete(self) -> bool:
        """Return whether both sides have claimed both halves, so that nothing can join it any more."""
        by_model = self.asked is not None and self.answered is not None
        return by_model and self.is_ended and self.called is not None

    @property
    def placed(self) -> int:
        """Return the time of the call, as far as it is known."""
        times = self.asked, None if self.run is None else self.began, self.answered
        return next(time for time in times if time is not None)


def claimed_use(claim: Claim, candidate: Candidate, key: str) -> ToolUse:
    """Return the use that one claim of a call or a result states; `key` is that of its span."""
    args = None if claim.args is None else canonical_text(claim.args)
    use = ToolUse(
        brief(claim.call_id),
        brief(claim.tool),
        brief(args, truncated=claim.content is _TRUNCATED and claim.kind is _CALL),
    )
    is_call = claim.kind is _CALL
    if claim.place is not None and is_call:
        use.since, use.asked = NS_MIN if claim.past else candidate.start, claim.time
    elif claim.place is not None:
        use.answered, use.result = claim.time, _result(claim)
    else:
        call = result = None
        for half in candidate.claims:
            if half.place is None:
                if half.kind is _CALL:
                    call = half
                elif half.kind is _RESULT:
                    result = half
        use.run = UNLINKED if call is None or result is None else key
        call, result = call or claim, result or claim
        use.began, use.ended, use.result = call.time, result.time, _result(result)
        use.is_ended = not is_call
    use.lacks_id = use.call_id is None
    use.known = candidate.end
    return use


def _result(claim: Claim) -> str | None:
    """Return a result in brief; None of a failure, which each side may word differently."""
    if claim.error is not None or claim.kind is not _RESULT:
        return None
    return brief(claim.result, truncated=claim.content is _TRUNCATED)


def matching_use(uses: Sequence[ToolUse], claimed: ToolUse, kind: Kind) -> ToolUse | None:
    """Return the use that a claimed call or result belongs to, or None where it is a new use.

    Of several that match, the use called last wins, since a result answers the nearest call; among calls of
    one message the use with the result most like the claimed one, then one that has run, then the one with
    its id, else the first.
    """
    if claimed.asked is not None:
        return min(_asked(uses, claimed), key=lambda use: use.began, default=None)
    if claimed.answered is not None:
        fitting = [*_answered(uses, claimed)]
    else:
        fitting = [*(_ran(uses, claimed) if kind is _CALL else _returned(uses, claimed))]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return max(fitting, key=lambda use: _nearness(use, claimed))


def join(use: ToolUse, claimed: ToolUse) -> None:
    """Add to a use what a claim of it knows and the use lacks."""
    if use.asked is None:
        use.asked, use.since = claimed.asked, claimed.since
    if use.run is None:
        use.run, use.began, use.ended = claimed.run, claimed.began, claimed.ended
    use.is_ended = use.is_ended or claimed.is_ended
    use.lacks_id = use.lacks_id or claimed.lacks_id
    use.answered = claimed.answered if use.answered is None else use.answered
    if use.call_id is None or use.tool is None or use.args is None:
        known = use.call_id, use.tool, use.args
        use.call_id = claimed.call_id if use.call_id is None else use.call_id
        use.tool = claimed.tool if use.tool is None else use.tool
        use.args = claimed.args if use.args is None else use.args
        if known != (use.call_id, use.tool, use.args):
            use.known = max(use.known, claimed.known)
    use.result = claimed.result if use.result is None else use.result


def _asked(uses: Sequence[ToolUse], claimed: ToolUse) -> Iterator[ToolUse]:
    """Yield runs of a model's call: they began during the model's span, or before a call in its history.

    Some spans end a little after what they time, and then after the next model's call has begun that has the
    result: a span that began before that may have made the call.
    """
    assert claimed.asked is not None
    made = claimed.asked if claimed.since == NS_MIN else claimed.since
    for use in uses:
        if (
            use.asked is None
            and use.run is not None
            and claimed.since <= use.began
            and (claimed.since != NS_MIN or use.began <= claimed.asked)
            and (use.answered is None or made <= use.answered)
            and _same_call(use, claimed)
        ):
            yield use


def _ran(uses: Sequence[ToolUse], claimed: ToolUse) -> Iterator[ToolUse]:
    """Yield calls that a model made before this run, or that have a result in a model's input after it."""
    for use in uses:
        if (
            use.run is None
            and use.since <= claimed.began
            and (use.answered is None or _is_in_time(claimed, use.answered, use.result))
            and _same_call(use, claimed)
            and _same_result(use, claimed, uses)
        ):
            yield use


def _returned(uses: Sequence[ToolUse], claimed: ToolUse) -> Iterator[ToolUse]:
    """Yield the use of the run that this result ends; of a run in two candidates the other's call."""
    if claimed.run != UNLINKED:
        yield from (use for use in uses if use.run == claimed.run)
        return
    for use in uses:
        is_open = use.run == UNLINKED and use.returned is None and use.began <= claimed.ended
        if (is_open or use.run is None) and _same_call(use, claimed):
            in_time = use.answered is None or claimed.ended <= use.answered
            if in_time and use.since <= claimed.ended and _same_result(use, claimed, uses):
                yield use


def _answered(uses: Sequence[ToolUse], claimed: ToolUse) -> Iterator[ToolUse]:
    """Yield calls without a result in a model's input, made and run before this input has it."""
    assert claimed.answered is not None
    for use in uses:
        if (
            use.answered is None
            and (use.asked is None or use.asked <= claimed.answered)
            and (use.run is None or _is_in_time(use, claimed.answered, claimed.result))
            and _same_call(use, claimed)
            and _same_result(use, claimed, uses)
        ):
            yield use


def _is_in_time(run: ToolUse, answered: int, result: str | None) -> bool:
    """Return whether a run had ended when a model got its result, or had begun and the results agree.

    Some spans end a little after what they time; a tool that runs in the background is answered before its
    end with another text.
    """
    if run.ended <= answered:
        return True
    is_known = run.result is not None and result is not None
    return run.began <= answered and is_known and agree(run.result, result)


def is_item(call_id: str | None) -> bool:
    """Return whether an id is of the item that holds a call, and not the id in the call's result."""
    return call_id is not None and call_id.startswith(_ITEMS)


def _same_call(use: ToolUse, claimed: ToolUse) -> bool:
    """Return whether a claim can be of a use: by id and tool, else by tool and arguments.

    The id of an item and that of a call can be of one call.
    """
    is_same_id = use.call_id is not None and use.call_id == claimed.call_id
    if use.tool is not None and claimed.tool is not None and use.tool != claimed.tool:
        return is_same_id and is_qualified(use.tool, claimed.tool) and agree(use.args, claimed.args)
    if is_same_id:
        return agree(use.args, claimed.args)
    lacks_id = use.lacks_id or claimed.lacks_id or is_item(use.call_id) != is_item(claimed.call_id)
    return lacks_id and equal(use.args, claimed.args)


def is_qualified(name: str, second: str) -> bool:
    """Return whether one of two names of a tool is the other with its plugin before it (Semantic Kernel)."""
    return name.endswith(f"{_AFTER_PLUGIN}{second}") or second.endswith(f"{_AFTER_PLUGIN}{name}")


def _same_result(use: ToolUse, claimed: ToolUse, uses: Sequence[ToolUse]) -> bool:
    """Return whether a claimed result can be that of a use.

    Where model and run share an id that no other use has, the text does not matter: frameworks mask, cut and
    rewrite results.
    """
    if agree(use.result, claimed.result):
        return True
    by_id = use.call_id == claimed.call_id and not (use.lacks_id or claimed.lacks_id)
    by_both = use.asked is not None and not (use.run is None and claimed.run is None)
    return by_id and by_both and sum(same.call_id == use.call_id for same in uses) == 1


def _nearness(use: ToolUse, claimed: ToolUse) -> tuple[int, int, bool, bool]:
    """Return how near a matching use is to a claim: by time, by the result, by a run that ended, by id.

    A run without an id may have joined another of several equal calls than the one with the result in a
    model's input. If the id came first, that result would become two events.
    """
    is_known = use.result is not None and claimed.result is not None
    likeness = (1 + (use.result == claimed.result)) if is_known else 0
    is_same_id = use.call_id is not None and use.call_id == claimed.call_id
    return use.placed, likeness, use.is_ended, is_same_id
