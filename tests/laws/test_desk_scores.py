"""Chains of the simulated desk, learned from one archive and scored on another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tracline.batch.prediction.scored import ScoredRule, scored_rule
from tracline.batch.prediction.tallied import tallied
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.predict.chain.learned import Counted
from tracline.predict.counting.split import Split
from tracline.predict.counting.watched_rules import WatchedRules, watch
from tracline.predict.estimation.nested import nested, over_labels
from tracline.predict.validation.rule_scores import Promise
from tracline.rules.packs.load import load_packs

pytestmark = pytest.mark.slow
PACKS = ["customer-service", "tool-hygiene", "privacy"]
WITHIN = 5


def counted(frame: pl.DataFrame, watched: WatchedRules, folder: Path) -> list[Counted]:
    """Return the counts of every rule over an archive of these events."""
    folder.mkdir()
    frame.write_parquet(folder / "events.parquet")
    archive = [str(folder / "events.parquet")]
    return list(tallied(archive, watched, Split(0.0), folder, AuditOptions(), Population()).counted())


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> list[ScoredRule]:
    """Return the scores of chains learned from 3,000 sessions on 3,000 others, five events ahead."""
    folder, watched = tmp_path_factory.mktemp("scores"), watch(load_packs(PACKS))
    first, second = (
        counted(event_frame(conversations(Desk(seed=seed))), watched, folder / str(seed)) for seed in (1, 2)
    )
    return [
        scored_rule(chain, nested(chain), over_labels(chain), archive, (WITHIN,), Promise())
        for chain, archive in zip(first, second, strict=True)
    ]


def names(rules: Sequence[ScoredRule]) -> list[str]:
    """Return the names of the rules."""
    return [each.over.counted.rule for each in rules]


def test_risks_are_calibrated_and_beat_the_base_rate(scores: list[ScoredRule]) -> None:
    """For each rule with 20 events to predict: ECE at most 0.002, and skill at least -0.02."""
    predicted = [each for each in scores if each.horizons[0].chain.violating >= 20]
    assert len(predicted) >= 20
    assert names([each for each in predicted if each.horizons[0].chain.ece.value > 0.002]) == []
    assert names([each for each in predicted if each.horizons[0].chain.skill.value < -0.02]) == []


def test_the_chain_over_labels_is_wrong_for_rules_that_remember(scores: list[ScoredRule]) -> None:
    """It is an order of magnitude off where the machine knows what the last event does not show."""
    by_name = {each.over.counted.rule: each.horizons[0] for each in scores}
    for rule in ("authenticate-first", "handover-is-final", "confirm-before-change"):
        assert by_name[rule].labels.ece.value > 10 * by_name[rule].chain.ece.value
        assert by_name[rule].labels.skill.value < -1 < by_name[rule].chain.skill.value


def test_most_contexts_lie_inside_their_intervals(scores: list[ScoredRule]) -> None:
    """95 % do, and fewer of the chain over labels; nothing of the archive is unseen."""
    contexts = sum(each.horizons[0].fit.contexts for each in scores)
    outside = sum(len(each.horizons[0].fit.outside) for each in scores)
    without = sum(len(each.horizons[0].labels_fit.outside) for each in scores)
    assert contexts > 500
    print(f"{contexts - outside} of {contexts} contexts inside, by labels {contexts - without}")
    assert outside <= 0.05 * contexts < without
    assert not any(each.is_unseen for each in scores)


def test_the_log_score_is_about_what_the_chain_expects(scores: list[ScoredRule]) -> None:
    """The interval of the surplus of an archive of the same desk comes within 0.01 nats of none."""
    for each in scores:
        assert np.isfinite(each.log_score.score)
        assert each.log_score.low < 0.01
        assert each.log_score.high > -0.01
