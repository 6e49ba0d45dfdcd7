"""Errors of the process and of what it is given: no session is put aside for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from errno import ENOSPC

import pytest
from tracline.rules.engine.judge import compile_rule_set
from tracline.schemas.event import Event
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.messages.codec import Activation
from tracline.stream.messages.session_state import JudgingState
from tracline.stream.stages.judge import SessionJudge
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ..batch.audit_rows import START
from .monitor_driver import FIRST, OPTIONS, OTHER_TEXTS, RULES, Monitor, batch, says
from .test_session_judge import empty


@pytest.mark.parametrize("kept", [b'{"desk": "pack: desk\\nversion: 1\\nrules: 7\\n"}', b"{"])
@pytest.mark.parametrize("finish", [True, False])
def test_kept_rules_that_this_release_cannot_use_end_the_process(kept: bytes, finish: bool) -> None:
    """Open sessions are not put aside for rules that another release could read, nor judged by others."""
    monitor = Monitor(replace(OPTIONS, finish=finish))
    monitor.take(0, batch(2, says(FIRST, 1, "hello")))
    monitor.take(1, Activation(OTHER_TEXTS))
    monitor.table.update({key: kept for key in monitor.table if key.startswith("r/")})
    with pytest.raises(StreamError, match="cannot be used by this release") as caught:
        monitor.begin()
    assert caught.value.code == "TRL741"


def test_a_session_whose_rules_cannot_be_used_is_not_put_aside() -> None:
    """Where only the rules that it began under cannot be read, the process ends all the same."""
    monitor = Monitor()
    monitor.take(0, batch(2, says(FIRST, 1, "hello")))
    [began] = [key for key in monitor.table if key.startswith("r/")]
    monitor.take(1, Activation(OTHER_TEXTS))
    monitor.table[began] = b"{"
    monitor.begin()
    with pytest.raises(StreamError, match="cannot be used by this release"):
        monitor.take(2, batch(9, says(FIRST, 4, "now!")))


class Full(RuleSetJudge):
    """A rule set that finds the disk full when it is made ready."""

    def judge(  # noqa: D102
        self,
        states: Mapping[str, JudgingState],  # noqa: ARG002
        batches: Sequence[Sequence[Event]],  # noqa: ARG002
    ):
        raise OSError(ENOSPC, "no space left on device")


def test_what_the_machine_lacks_is_held_against_no_session() -> None:
    """An error of the disk is raised, and nothing is put aside."""
    judge = SessionJudge(Full(compile_rule_set(RULES)))
    with pytest.raises(OSError, match="no space"):
        judge.step([FIRST], [says(FIRST, 1, "hello")], START + 9 * NS, empty)
