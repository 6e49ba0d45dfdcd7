"""The judging half of the live side: candidates in; judged events, verdicts and session states out.

It has no broker, store or clock. `tracline serve` and the Kafka monitor carry candidates to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from ...predict.drift.bet_sums import BetSum
from ...schemas.attempt import Broken, attempt
from ...schemas.candidate import Candidate
from ...schemas.event import Event, Kind
from ...schemas.plain_sessions.advance import advanced
from ...schemas.records.risk_crossing import RiskCrossing
from ...schemas.records.session_status import SessionStatus, StatusChange
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.sessions.assemble import SessionAssembler
from ...schemas.time import NS_MIN
from ..error import PROCESS_ERRORS
from ..messages.session_state import SessionState
from .rule_set_judge import RuleSetJudge

HELD_MAX = 10_000
"""Spans of one session that may wait for the watermark."""
HELD_CHARS_MAX = 32 << 20
"""Characters of the waiting spans of one session."""
_END = Kind.END
"""A name of its own, because Python 3.11 looks a member up four times as long as a global name."""

Load = Callable[[str], SessionState]
"""Returns a session's state before a step, or an empty one; the caller owns it, and may change it."""
RuledAt = tuple[str, int]
"""The key of the rule set that judged a session's last event, and the occurrence of that event."""


@dataclass(frozen=True, slots=True)
class Poison:
    """Spans of a session, or else (`spans` empty) its state, that the judge leaves out.

    `code` is `internal` where assembly or judging raised an error (`reason` is the error's name), or
    `session-held` where too many spans of the session wait.
    """

    session_id: str
    spans: tuple[tuple[str, str], ...]
    reason: str
    code: str = "internal"


class Outputs(msgspec.Struct, frozen=True):
    """The outputs of one batch: events and `end` rows in judged order by session, and verdict records.

    `digests` has the digest of the rule set that judged each event, and `chains` that of the chain that
    followed it, None without one; it is empty where there is no chain at all. `unseen` counts the events with
    a symbol that their chain lacks, and `bets` are those on events against their chain. `late` counts claims
    that came after a later event was judged, `repeats` repeated claims.
    """

    events: list[Event] = []
    digests: list[str] = []
    records: list[VerdictRecord] = []
    statuses: list[StatusChange] = []
    crossings: list[RiskCrossing] = []
    chains: list[str | None] = []
    unseen: int = 0
    bets: list[BetSum] = []
    late: int = 0
    repeats: int = 0
    poison: list[Poison] = []

    def __add__(self, after: Outputs) -> Outputs:
        """Return the outputs of this batch and then those of another one."""
        batches = (self, after) if self.chains or after.chains else ()
        return Outputs(
            self.events + after.events,
            self.digests + after.digests,
            self.records + after.records,
            self.statuses + after.statuses,
            self.crossings + after.crossings,
            [chain for batch in batches for chain in batch.chains or [None] * len(batch.events)],
            self.unseen + after.unseen,
            self.bets + after.bets,
            self.late + after.late,
            self.repeats + after.repeats,
            self.poison + after.poison,
        )


@dataclass(frozen=True, slots=True)
class JudgedSessions:
    """The outputs of a step, and the states of its sessions after it."""

    outputs: Outputs
    states: dict[str, SessionState]


@dataclass(frozen=True, slots=True)
class AssembledBatch:
    """The events of a batch before they are judged; `judges` has the rule set of each.

    `active` is the key of the rule set in force. `outputs` has all but the verdicts and statuses. `ruled`
    has, for each session with events, the rule set and the occurrence of the last one.
    """

    active: str
    judges: list[RuleSetJudge]
    outputs: Outputs
    ruled: dict[str, RuledAt]


class SessionJudge:
    """Assembly and judging of sessions under the rule set `active`.

    `find` returns another rule set by its key. An occurrence that began under another rule set continues
    under that one if it is to `finish` and `find` returns it; otherwise the active rule set judges it from
    its next event on, with an empty history. An occurrence without a further event ends under the rule set
    that judged its last event.
    """

    def __init__(
        self,
        active: RuleSetJudge,
        find: Callable[[str], RuleSetJudge | None] = lambda _key: None,
        *,
        finish: bool = False,
    ) -> None:
        self._active, self._find, self._finish = active, find, finish

    def step(
        self,
        session_ids: Iterable[str],
        candidates: Sequence[Candidate],
        watermark: int,
        load: Load,
        before: int = NS_MIN,
    ) -> JudgedSessions:
        """Add the candidates, and judge what the watermark has passed in any of these sessions.

        `session_ids` has every session of the candidates and those that are due. The same states, candidates
        and watermark, and the same watermark `before` them, give the same outputs. Where this raises an
        error, each session is judged separately from the state that `load` returns again, and what raises
        the error becomes poison. Raises the errors that concern no session: PROCESS_ERRORS.
        """
        names, marks = list(session_ids), (before, watermark)
        all_judged = attempt(partial(self._step, names, candidates, marks, load), PROCESS_ERRORS)
        if not isinstance(all_judged, Broken):
            return all_judged
        outputs, states = Outputs(), dict[str, SessionState]()
        for name in names:
            of_session = [candidate for candidate in candidates if candidate.session_id == name]
            judged = self._step_alone(name, of_session, marks, load)
            outputs += judged.outputs
            states |= judged.states
        return JudgedSessions(outputs, states)

    def _step(
        self, session_ids: Iterable[str], candidates: Sequence[Candidate], marks: tuple[int, int], load: Load
    ) -> JudgedSessions:
        before, watermark = marks
        states = {session_id: load(session_id) for session_id in session_ids}
        batch = self.assemble(states, candidates, watermark, {}, before)
        (outputs,) = self.judge(states, [batch])
        return JudgedSessions(outputs, states)

    def _step_alone(
        self, session_id: str, candidates: Sequence[Candidate], marks: tuple[int, int], load: Load
    ) -> JudgedSessions:
        """Step one session: with its candidates, else without them, else from an empty state."""
        poison: list[Poison] = []
        for added in (candidates, ()) if candidates else ((),):
            judged = attempt(partial(self._step, [session_id], added, marks, load), PROCESS_ERRORS)
            if not isinstance(judged, Broken):
                return replace(judged, outputs=judged.outputs + Outputs(poison=poison))
            spans = tuple((candidate.trace_id, candidate.span_id) for candidate in added)
            poison.append(Poison(session_id, spans, judged.reason))
        empty = SessionState(SessionAssembler(session_id, load(session_id).session.idle))
        return JudgedSessions(Outputs(poison=poison), {session_id: empty})

    def assemble(
        self,
        states: Mapping[str, SessionState],
        candidates: Iterable[Candidate],
        watermark: int,
        ruled: Mapping[str, RuledAt],
        before: int = NS_MIN,
    ) -> AssembledBatch:
        """Add the candidates to their sessions, and take the events that the watermark has passed.

        The sessions of `states` change. `before` is the watermark before the candidates came. `ruled` has the
        last rule set and occurrence of sessions whose events of earlier batches are not judged yet.
        """
        late, repeats = _counts(states)
        poison = _add(states, candidates)
        events: list[Event] = []
        judges: list[RuleSetJudge] = []
        last: dict[str, RuledAt] = {}
        for session_id, state in states.items():
            ruled_at = ruled.get(session_id, (state.judging.rules, state.judging.occurrence))
            judge, begun = self._active, None
            new = advanced(state.session, watermark, before)
            for event in new:
                if event.occurrence != begun:
                    # Its rule set judges an occurrence to its end.
                    judge, begun = self._judge_of(ruled_at, event), event.occurrence
                judges.append(judge)
            if new:
                events += new
                last[session_id] = judge.key, new[-1].occurrence
        after = _counts(states)
        counted = after[0] - late, after[1] - repeats
        digests = [judge.digest for judge in judges]
        outputs = Outputs(events, digests, late=counted[0], repeats=counted[1], poison=poison)
        return AssembledBatch(self._active.key, judges, outputs, last)

    def judge(self, states: Mapping[str, SessionState], batches: Sequence[AssembledBatch]) -> list[Outputs]:
        """Judge assembled batches together, and return the outputs of each.

        The judging of `states` is as before the first batch, and afterwards as after the last one.
        """
        outputs = [batch.outputs for batch in batches]
        chains: dict[tuple[str, int], str] = {}
        judges = {judge.key: judge for batch in batches for judge in batch.judges}
        # An occurrence that ends under another rule set comes before the next one, under the active one.
        for judge in sorted(judges.values(), key=lambda judge: (judge is self._active, judge.key)):
            judged = judge.judge(
                {session_id: state.judging for session_id, state in states.items()},
                [_events_under(judge, batch) for batch in batches],
            )
            for session_id, judging in judged.states.items():
                states[session_id].judging = judging
            if judge.chain is not None:
                chains |= dict.fromkeys(judged.followed, judge.chain.digest)
            outputs = [
                before
                + Outputs(
                    records=each.records,
                    statuses=each.statuses,
                    crossings=each.crossings,
                    unseen=each.unseen,
                    bets=each.bets,
                )
                for before, each in zip(outputs, judged.verdicts, strict=True)
            ]
        return [
            msgspec.structs.replace(
                before + Outputs(statuses=[_closed(event) for event in before.events if event.kind is _END]),
                chains=_chains_of(batch, chains),
            )
            for batch, before in zip(batches, outputs, strict=True)
        ]

    def _judge_of(self, before: RuledAt, event: Event) -> RuleSetJudge:
        """Return the rule set that judges an event, the first one of its occurrence in a batch."""
        rules, occurrence = before
        if rules in ("", self._active.key) or occurrence != event.occurrence:
            return self._active
        continues = self._finish or event.kind is Kind.END or _same_rules(rules, self._active.key)
        return (self._find(rules) if continues else None) or self._active


def poisoned(poison: Poison) -> Iterator[tuple[str, str, str]]:
    """Yield place, code and reason of each thing that the judge left out, for dead letters."""
    for trace_id, span_id in poison.spans:
        yield f"trace {trace_id}, span {span_id}", poison.code, poison.reason
    if not poison.spans:
        yield "session's state", poison.code, poison.reason


def _add(states: Mapping[str, SessionState], candidates: Iterable[Candidate]) -> list[Poison]:
    """Add the candidates to their sessions; return those that are too many for their session."""
    poison: list[Poison] = []
    for candidate in candidates:
        name, session = candidate.session_id, states[candidate.session_id].session
        chars = candidate.chars
        if len(session.held) < HELD_MAX and session.held.chars + chars <= HELD_CHARS_MAX:
            session.add(candidate, chars)
        else:
            text = f"{len(session.held)} spans of its session wait already"
            poison.append(Poison(name, ((candidate.trace_id, candidate.span_id),), text, "session-held"))
    return poison


def _events_under(judge: RuleSetJudge, batch: AssembledBatch) -> list[Event]:
    if {*batch.judges} == {judge}:
        return batch.outputs.events
    pairs = zip(batch.outputs.events, batch.judges, strict=True)
    return [event for event, its_judge in pairs if its_judge.key == judge.key]


def _chains_of(batch: AssembledBatch, chains: Mapping[tuple[str, int], str]) -> list[str | None]:
    """Return the chain that followed each event of a batch; nothing where its rule sets name none."""
    if not any(judge.names_chain for judge in {*batch.judges}):
        return []
    return [chains.get((event.session_id, event.occurrence)) for event in batch.outputs.events]


def _same_rules(left: str, right: str) -> bool:
    """Return whether two keys are those of one rule set, whatever the layout of its labels."""
    return left.partition(".")[0] == right.partition(".")[0]


def _closed(event: Event) -> StatusChange:
    return StatusChange(
        SessionStatus.CLOSED,
        event.session_id,
        event.occurrence,
        None,
        None,
        None,
        None,
        event.agent,
        event.time,
    )


def _counts(states: Mapping[str, SessionState]) -> tuple[int, int]:
    """Return the numbers of late and of repeated claims of these sessions since they began."""
    sessions = [state.session for state in states.values()]
    return sum(session.late for session in sessions), sum(session.repeats for session in sessions)
