"""Compilation of a process's loops before it joins its group.

Where no cache has them, compiling takes as many seconds as a group waits for a silent member. So each process
first takes a small sample, which compiles all loops that it needs, or loads them from the cache.
"""

from __future__ import annotations

from ...archive.chunk import RuleTexts
from ...predict.chain.contexts import UNSEEN
from ...predict.counting.watched_rules import watch
from ...predict.following.followed_chain import FollowedChain
from ...predict.following.followed_risks import ContextRisk, FollowedRisks
from ...predict.following.loaded_chains import LoadedChains
from ...rules.model.rule import RuleSet
from ...schemas.candidate import Candidate, Claim
from ...schemas.event import Kind
from ...schemas.plain_calls.calls import compile_call_loops
from ...schemas.plain_traces.resolve import compile_loops
from ...schemas.settings import SessionSettings
from ...schemas.span_content import SpanRole
from ..messages.codec import CandidateBatch, encode
from ..messages.record import Record
from ..messages.topics import Topic
from .monitor import MonitorStage
from .monitor_step import MonitorOptions
from .schedule import MonitorState

_BYTES_MAX = 1 << 20
_CHAIN = "0" * 64
_RULES: RuleTexts = {
    "sample": """
pack: sample
version: 1
propositions:
  call: kind == "tool_call"
  result: kind == "tool_result"
rules:
  - {id: answered, title: Calls are answered, severity: low, formula: always (call -> eventually result)}
  - {id: calls, title: Nothing is called, severity: low, formula: always not call}
  - {id: once, title: Once, severity: low, for_each: call_id, formula: 'always (call -> at_most[1] call)'}
  - {id: asked, title: Asked, severity: low, formula: always (result -> once call)}
"""
}
"""Rules with each kind of finding, about sessions and about slices of them."""


def compile_rekey_loops() -> None:
    """Compile the loops of a rekeyer."""
    compile_loops()


def compile_monitor_loops(*, follows: bool = False) -> None:
    """Compile the loops of a monitor: it judges a session in two messages, in which rules are violated.

    With `follows`, compile also those of a monitor that follows a chain.
    """
    compile_call_loops()
    chain = _CHAIN if follows else None
    options = MonitorOptions(SessionSettings(), 1, _BYTES_MAX, rules=_RULES, chain=chain)
    stage = MonitorStage(options, _SampleChains())
    table = _SampleTable()
    state = MonitorState(table)
    stage.restore(state, [0], [])
    for offset, time in enumerate((1, 2)):
        result = stage.step(state, [_message(offset, time)])
        table.records.update(result.writes.get(0, ()))
        state.apply(result.writes)


class _SampleChains(LoadedChains):
    """A chain that gives every state of every rule one risk."""

    def followed(self, digest: str, rule_set: RuleSet) -> FollowedChain:
        """Return the chain of these rules."""
        watched = watch(rule_set)
        risks: dict[int, FollowedRisks] = {}
        for number, rule in enumerate(rule_set.rules):
            contexts = [
                ContextRisk(UNSEEN, state, "", 0.5, 0.0, 1.0, 0, "state")
                for state in range(len(watched.compiled.machines[number].next))
            ]
            digest_of_rule = watched.compiled.digests[number]
            risks[number] = FollowedRisks(rule.pack, rule.id, digest_of_rule, 1, 0.5, contexts)
        return FollowedChain(digest, watched, risks)


class _SampleTable:
    """A table in memory."""

    def __init__(self) -> None:
        self.records: dict[str, bytes | None] = {}

    def get(self, key: str) -> bytes | None:
        """Return the record under a key."""
        return self.records.get(key)


def _message(offset: int, time: int) -> Record:
    """Return a message with two runs of tools in one session."""
    candidates = [
        Candidate("s", SpanRole.TOOL, time, time, claims, span_id=f"{offset}{number}")
        for number, claims in enumerate((_claims("a", time), _claims(f"b{offset}", time)))
    ]
    batch = CandidateBatch(0, 1, offset, time, candidates)
    return Record(0, offset, time, encode(batch), Topic.EVENTS)


def _claims(call_id: str, time: int) -> tuple[Claim, ...]:
    return (
        Claim(Kind.TOOL_CALL, time, tool="t", call_id=call_id, args="{}"),
        Claim(Kind.TOOL_RESULT, time, tool="t", call_id=call_id, result="r"),
    )
