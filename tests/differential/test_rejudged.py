"""Live judging from carried state against judging each occurrence again from its first event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

from tracline.rules.engine.judge import compile_rule_set
from tracline.schemas.event import Event
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.stream.messages.session_state import JudgingState, SessionState, decode, encode
from tracline.stream.stages.rule_set_judge import BatchVerdicts, RuleSetJudge

from ..support.conversations.rule_sessions import random_session, rule_set
from ..support.truth.rejudging import Rejudge, RejudgedState

COMPILED = compile_rule_set(rule_set())

Batch = list[Event]


def messages(random: Random, sessions: int, events: int) -> list[Batch]:
    """Return the events of sessions as messages give them: session by session in each."""
    queues = [random_session(random, f"session-{number}", events, 0.02) for number in range(sessions)]
    found: list[Batch] = []
    while any(queues):
        batch: Batch = []
        for queue in queues:
            taken = random.choice((0, 0, 1, 3, 9))
            batch += queue[:taken]
            del queue[:taken]
        found.append(batch)
    return found


def polls(random: Random, batches: Sequence[Batch]) -> list[Sequence[Batch]]:
    """Return the messages cut into polls of some messages each."""
    cuts = sorted({0, len(batches), *(random.randrange(len(batches)) for _ in range(6))})
    return [batches[begin:end] for begin, end in pairwise(cuts)]


def stored(judging: JudgingState) -> JudgingState:
    """Return the state as it is read back from its record."""
    return decode(encode(SessionState(SessionAssembler("s", 1), judging))).judging


def ordered(verdicts: Sequence[BatchVerdicts]) -> list[tuple[list, list]]:
    """Return records and changes of status in one order.

    Continued records come by the values of slices, and the oracle's by the first events of slices; a message
    may have two occurrences.
    """
    return [
        (sorted(batch.records, key=lambda record: record.id), sorted(batch.statuses, key=repr))
        for batch in verdicts
    ]


def of_the_release_before(state: RejudgedState) -> JudgingState:
    """Return a state as the release before stored it."""
    return JudgingState(state.rules, state.applied_in, None, state.rows)


def continued(
    judge: RuleSetJudge, states: dict[str, JudgingState], poll: Sequence[Batch]
) -> list[BatchVerdicts]:
    """Judge a poll, and change the states."""
    judged = judge.judge(with_all(states, poll, JudgingState()), poll)
    states |= {name: stored(state) for name, state in judged.states.items()}
    return judged.verdicts


def with_all(states: Mapping[str, object], poll: Sequence[Batch], empty: object) -> dict:
    """Return the states with an empty one for each new session."""
    return {event.session_id: empty for batch in poll for event in batch} | dict(states)


def test_live_judging_gives_what_judging_again_gives() -> None:
    """Records and changes of status of each message, for any polls and stored states."""
    count = 0
    for seed in range(25):
        random = Random(seed)
        satisfied = random.random() < 0.5
        judge, oracle = (kind(COMPILED, satisfied=satisfied) for kind in (RuleSetJudge, Rejudge))
        states, again = dict[str, JudgingState](), dict[str, RejudgedState]()
        for poll in polls(random, messages(random, 4, random.choice((8, 40)))):
            wanted, after = oracle.judge(with_all(again, poll, RejudgedState()), poll)
            again |= after
            found = continued(judge, states, poll)
            assert ordered(found) == ordered(wanted), seed
            count += sum(len(batch.records) + len(batch.statuses) for batch in found)
    print(f"rejudged: {count} records and changes")
    assert count >= 5_000


def test_states_of_the_release_before_are_continued() -> None:
    """Wherever the release before stopped, its rows are judged once, and nothing is reported again."""
    for seed in range(25):
        random = Random(seed)
        judge, oracle = RuleSetJudge(COMPILED), Rejudge(COMPILED)
        again = dict[str, RejudgedState]()
        batches = polls(random, messages(random, 3, 40))
        changed = random.randrange(len(batches))
        states: dict[str, JudgingState] = {}
        for number, poll in enumerate(batches):
            if number == changed:
                states = {name: stored(of_the_release_before(state)) for name, state in again.items()}
            wanted, after = oracle.judge(with_all(again, poll, RejudgedState()), poll)
            again |= after
            if number >= changed:
                assert ordered(continued(judge, states, poll)) == ordered(wanted), seed
