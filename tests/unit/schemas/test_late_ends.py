"""A model's span that ends late, after its call was run and answered in the next model's input."""

from __future__ import annotations

from tracline.schemas.event import Kind
from tracline.schemas.sessions.memory.tool_use import ToolUse, matching_use

ARGS = '{"amount":34.5}'
RUN = ToolUse("call_4", "refund", ARGS, "ok", run="tool", began=110, ended=111, is_ended=True, answered=119)
"""A run from 110 to 111 whose result a model's call had in its input at 119."""


def call(since: int, asked: int) -> ToolUse:
    """Return what a model's span from `since` to `asked` claims: a call without an id."""
    return ToolUse(None, "refund", ARGS, since=since, asked=asked, lacks_id=True)


def test_a_span_that_ends_after_the_next_call_began_made_the_call() -> None:
    """Its end at 120 is after the answer at 119, but it began at 50: the run is of its call."""
    assert matching_use([RUN], call(50, 120), Kind.TOOL_CALL) is RUN


def test_a_span_that_began_after_the_answer_makes_another_call() -> None:
    """It began at 120, when the run was over and answered."""
    assert matching_use([RUN], call(120, 130), Kind.TOOL_CALL) is None
