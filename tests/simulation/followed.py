"""The crossings of a simulated pipeline, and those of judging each run of events at once."""

from __future__ import annotations

from functools import cache
from itertools import takewhile

import orjson
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import load_packs, pack_text
from tracline.schemas.event import Event
from tracline.schemas.records.risk_crossing import encode_crossing
from tracline.stream.messages.codec import Mark
from tracline.stream.messages.risk_messages import decode_risk
from tracline.stream.messages.session_state import JudgingState
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ..support.chains.chains_by_symbol import chain_by_state
from .simulated_pipeline import SimulatedPipeline


def crossings(simulation: SimulatedPipeline) -> dict[str, dict]:
    """The crossings of risk by id."""
    seen: dict[int, Mark] = {}
    found: dict[str, dict] = {}
    for record in simulation.read(Topic.RISK):
        message = decode_risk(record.value)
        if message.mark <= seen.get(message.mark.partition, Mark(-1, -1, -1)):
            continue
        seen[message.mark.partition] = message.mark
        for crossing in message.crossings:
            assert crossing.id not in found, "a crossing came twice above the mark"
            found[crossing.id] = orjson.loads(encode_crossing(crossing))
    return found


def expected_crossings(simulation: SimulatedPipeline, judged: list[tuple[Event, str]]) -> dict[str, dict]:
    """The crossings by id of judging the first run of each occurrence under one rule set at once.

    After a change of the rules, following does not begin in the middle.
    """
    by_digest = {
        rule_set_digest(load_packs([pack])): followed_judge(pack.read_text()) for pack in simulation.packs
    }
    by_session: dict[tuple[str, int], list[tuple[Event, str]]] = {}
    for event, digest in judged:
        by_session.setdefault((event.session_id, event.occurrence), []).append((event, digest))
    found: dict[str, dict] = {}
    for (session_id, _), pairs in by_session.items():
        first = pairs[0][1]
        events = [event for event, _ in takewhile(lambda pair: pair[1] == first, pairs)]  # noqa: B023
        [verdicts] = by_digest[first].judge({session_id: JudgingState()}, [events]).verdicts
        found |= {each.id: orjson.loads(encode_crossing(each)) for each in verdicts.crossings}
    return found


@cache
def followed_judge(text: str) -> RuleSetJudge:
    """Return the judge of a pack that the simulation's chain follows."""
    rule_set = pack_text(text)
    return RuleSetJudge(compile_rule_set(rule_set), chain=chain_by_state(rule_set))
