"""Sessions that cannot be judged: they become dead letters, and stop no other session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracline.rules.engine.judge import compile_rule_set
from tracline.schemas.event import Event
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.time import NS
from tracline.stream.messages.session_state import JudgingState, SessionState
from tracline.stream.stages.judge import SessionJudge
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ..batch.audit_rows import START
from .monitor_driver import FIRST, RULES, SECOND, says


class Fragile(RuleSetJudge):
    """A rule set that breaks on one session's events."""

    def judge(self, states: Mapping[str, JudgingState], batches: Sequence[Sequence[Event]]):  # noqa: D102
        if any(event.text == "poison" for batch in batches for event in batch):
            raise ZeroDivisionError
        return super().judge(states, batches)


def empty(name: str) -> SessionState:
    """Return the state of a session without events."""
    return SessionState(SessionAssembler(name, 60 * NS))


def test_a_session_that_cannot_be_judged_stops_no_other() -> None:
    """The spans that break a session's judging are left out by trace and span; others are judged."""
    candidates = [says(FIRST, 1, "poison"), says(SECOND, 1, "well!")]
    judge = SessionJudge(Fragile(compile_rule_set(RULES)))
    done = judge.step([FIRST, SECOND], candidates, START + 9 * NS, empty)
    assert [found.session_id for found in done.outputs.records] == [SECOND]
    [poison] = done.outputs.poison
    assert (poison.session_id, poison.spans, poison.reason) == (
        FIRST,
        (("t", "ann-1"),),
        "ZeroDivisionError",
    )
    assert done.states[FIRST].session.open is None


def test_a_session_that_breaks_without_candidates_begins_again() -> None:
    """Where the waiting spans of a session break it without a new one, its state is dropped."""
    waiting = {FIRST: says(FIRST, 1, "poison"), SECOND: says(SECOND, 1, "well!")}

    def load(name: str) -> SessionState:
        state = empty(name)
        state.session.add(waiting[name])
        return state

    judge = SessionJudge(Fragile(compile_rule_set(RULES)))
    done = judge.step(waiting, [], START + 9 * NS, load)
    assert [found.session_id for found in done.outputs.records] == [SECOND]
    assert [(poison.session_id, poison.spans) for poison in done.outputs.poison] == [(FIRST, ())]
    assert done.states[FIRST].session.due is None
