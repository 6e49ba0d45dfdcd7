"""The walks of prediction have the verdicts of an audit, for every shipped rule on the simulated desk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prediction.tallied import tallied
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.walks import CLOSED_UNMET
from tracline.predict.counting.split import Split
from tracline.predict.counting.watched_rules import watch
from tracline.rules.packs.load import load_packs

pytestmark = pytest.mark.slow
PACKS = ["customer-service", "tool-hygiene", "privacy"]


@pytest.mark.parametrize("by", [None, "agent"])
def test_walks_have_the_verdicts_of_an_audit(tmp_path: Path, by: str | None) -> None:
    """The violating sessions, the violations of plain rules and the unmet closings are those of the audit."""
    archive, scratch, rule_set = tmp_path / "archive", tmp_path / "scratch", load_packs(PACKS)
    archive.mkdir()
    scratch.mkdir()
    event_frame(conversations(Desk(sessions=600, seed=5))).write_parquet(archive / "events.parquet")
    audit(archive, rule_set, tmp_path / "bundle", AuditOptions())
    verdicts = pl.read_parquet(tmp_path / "bundle" / "verdicts.parquet")
    tally = tallied(archive, watch(rule_set), Split(0.0), scratch, AuditOptions(), Population(), by)
    seen = 0
    for rule, counts in zip(rule_set.rules, tally.counted(), strict=True):
        found = verdicts.filter((pl.col("pack") == rule.pack) & (pl.col("rule") == rule.id))
        violated = found.filter(pl.col("verdict") == "violated")
        assert violating(counts) == violated["session_id"].n_unique()
        if rule.for_each is None:
            assert int(counts.walks.violated.sum()) == len(violated)
        unmet = found.filter(pl.col("verdict") == "unmet")
        assert int((counts.walks.endings == CLOSED_UNMET).sum()) == len(unmet)
        seen += len(violated) + len(unmet)
    assert seen > 20


def violating(counts: Counted) -> int:
    """Return the number of sessions with a violation at an event."""
    walks = counts.walks
    if not len(walks.sessions):
        return 0
    hits = np.add.reduceat(walks.violated.astype(np.int64), walks.bounds[:-1]) > 0
    return len(np.unique(walks.sessions[hits]))
