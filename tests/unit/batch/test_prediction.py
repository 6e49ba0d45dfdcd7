"""Drift, explanations and risk rows of a chain of the desk whose risks are known, on other sessions of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tracline.batch.prediction.drifted import DriftedRule, drifted_rule
from tracline.batch.prediction.explained import ExplainedRule, session_rule
from tracline.batch.prediction.risk_rows import risk_rows
from tracline.batch.prediction.scored import scored_rule
from tracline.examples.markov_desk import MarkovDesk, steps
from tracline.predict.chain.learned import Counted
from tracline.predict.estimation.nested import nested, over_labels
from tracline.predict.validation.behaviour import violating_sessions, violating_share
from tracline.predict.validation.context_intervals import context_intervals
from tracline.predict.validation.outcomes import outcomes
from tracline.predict.validation.rule_scores import Promise

from ...support.chains.desk_counts import desk_counts

pytestmark = pytest.mark.slow
LEARNED, OTHERS = MarkovDesk(sessions=600, seed=5), MarkovDesk(sessions=300, seed=6)
FIND, AGREE, LAST, REPORT = range(4)


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Counted], list[Counted]]:
    """Return the counts of the sessions to learn from, and of others."""
    folder: Path = tmp_path_factory.mktemp("desks")
    return desk_counts(LEARNED, folder / "learned"), desk_counts(OTHERS, folder / "others")


def drifted(chain: Counted, archive: Counted) -> DriftedRule:
    """Return the drift, with the intervals of the learned sessions."""
    every = np.ones(len(chain.contexts), dtype=np.bool_)
    highs = context_intervals(chain.walks, outcomes(chain.walks), (1,), every, every, 0.95).high[:, 0]
    before = violating_share(*violating_sessions(chain.walks), 0.01)
    return drifted_rule(chain, nested(chain), highs, before, archive, 0.01)


def test_other_sessions_of_the_same_desk_are_no_drift(desks: tuple[list[Counted], list[Counted]]) -> None:
    """Neither their verdicts nor their next symbols: no alarm, no worse share, and at most one context."""
    for chain, archive in zip(*desks, strict=True):
        found = drifted(chain, archive)
        assert not found.has_drifted
        assert not found.change.is_worse
        assert len(found.change.changed) <= 1
        assert found.log_score.low < 0.02
        assert {name: each.sessions for name, each in found.evidence.items()} == {"": OTHERS.sessions}


def test_a_desk_that_breaks_a_rule_more_often_has_drifted(desks: tuple[list[Counted], list[Counted]]) -> None:
    """Where every third event is a verdict all at once, the evidence is overwhelming."""
    chain, archive = desks[0][FIND], desks[1][FIND]
    violated = archive.walks.violated.copy()
    violated[::3] = True
    found = drifted(chain, replace(archive, walks=replace(archive.walks, violated=violated)))
    (evidence,) = found.evidence.values()
    assert found.has_drifted
    assert evidence.violated > evidence.expected
    assert found.change.is_worse


def rule_of(desks: tuple[list[Counted], list[Counted]], rule: int, within: int | None = 3) -> ExplainedRule:
    """Return a rule of the chain over the other sessions."""
    chain = desks[0][rule]
    return session_rule(chain, nested(chain), nested(chain), desks[1][rule], within)


def test_a_session_has_its_events_and_verdicts(desks: tuple[list[Counted], list[Counted]]) -> None:
    """One sequence with a place before the first event; a refund without an account found is a verdict."""
    rule = rule_of(desks, FIND)
    for number in range(40):
        (sequence,) = rule.sequences(number)
        taken = steps(OTHERS, number)
        verdicts = [name == "refunds" and "found" not in taken[:at] for at, name in enumerate(taken)]
        assert [each.violated for each in sequence.places] == [False, *verdicts]
        assert [each.at for each in sequence.places] == list(range(len(taken) + 1))
        assert sequence.places[0].symbol == "start"
        for rise in sequence.rises:
            assert (sequence.places[rise.at - 1].risk, sequence.places[rise.at].risk) == (
                rise.before,
                rise.after,
            )


def test_a_yes_before_an_account_was_found_is_what_leads_to_the_refund(
    desks: tuple[list[Counted], list[Counted]],
) -> None:
    """The likeliest way to a verdict is the refund next, which the agent does, and real sessions did."""
    rule = rule_of(desks, FIND)
    number, at = next(
        (number, taken.index("agrees") + 1)
        for number, taken in enumerate(steps(OTHERS, each) for each in range(OTHERS.sessions))
        if "agrees" in taken and "found" not in taken[: taken.index("agrees")]
    )
    (sequence,) = rule.sequences(number)
    ids = [f"markov-{each:07d}" for each in range(OTHERS.sessions)]
    found = rule.explain(sequence, at, 5, ids)
    assert sequence.places[at].symbol == "user:agrees"
    assert found.explanation.risk == pytest.approx(sequence.places[at].risk)
    best = found.explanation.paths[0]
    assert [step.symbol for step in best.steps] == ["tool_call:call,refunds"]
    # The policy refunds at once after 25 of 100 such answers.
    assert best.probability == pytest.approx(0.25, abs=0.05)
    taken = steps(OTHERS, ids.index(str(found.sessions[0])))
    assert any(
        pair == ("agrees", "refunds") and "found" not in taken[:place]
        for place, pair in enumerate(pairwise(taken))
    )
    assert rule.explain(sequence, at, 5, None).sessions == (None,) * 5


def test_risk_rows_are_those_of_every_event(desks: tuple[list[Counted], list[Counted]]) -> None:
    """Each session has its events in order with the scores' risks."""
    chain, archive = desks[0][REPORT], desks[1][REPORT]
    labels = over_labels(chain)
    scored = scored_rule(chain, nested(chain), labels, archive, (1, None), Promise())
    ids = [f"markov-{each:07d}" for each in range(OTHERS.sessions)]
    rows = risk_rows(scored, ids)
    assert rows.columns[-2:] == ["risk_1", "risk_ever"]
    assert rows["sequence"].unique().to_list() == [0]
    session = rows.filter(session_id=ids[7])
    assert session["event"].to_list() == list(range(len(steps(OTHERS, 7)) + 1))
    (sequence,) = session_rule(chain, nested(chain), nested(chain), archive, None).sequences(7)
    assert session["symbol"].to_list() == [each.symbol for each in sequence.places]
    assert session["residual"].to_list() == [each.residual for each in sequence.places]
    assert session["risk_ever"].to_list() == pytest.approx([each.risk for each in sequence.places], abs=1e-8)
