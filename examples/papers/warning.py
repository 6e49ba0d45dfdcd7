"""The warning in advance, and the sample-size rule, of chains learned from the simulated support desk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...batch.prediction.source_archive import source_archive
from ...predict.learning.learn import Learning, learn
from ...predict.learning.learn_rule import RuleLearned
from ...predict.learning.options import LearnOptions
from ...predict.risk.rule_risks import RiskOptions
from ...predict.validation.thresholds import RiskThreshold
from ...rules.packs.load import load_packs
from ..desk.bot import Desk, conversations
from ..desk.formats import event_frame

PACK = "customer-service"
SESSIONS, WITHIN = 20_000, 5


def desk_rules(sessions: int = SESSIONS) -> tuple[RuleLearned, ...]:
    """Return the chains of the pack's rules, learned from so many sessions, three tenths held out."""
    with tempfile.TemporaryDirectory() as folder:
        frame = event_frame(conversations(Desk(sessions=sessions, seed=1)))
        frame.write_parquet(Path(folder) / "events.parquet")
        with source_archive(folder) as archive:
            options = LearnOptions(RiskOptions((1, WITHIN, None)))
            return tuple(learn(archive, load_packs([PACK]), Learning(options)).rules)


def warning_in_advance(rules: tuple[RuleLearned, ...]) -> Iterator[list[str]]:
    """Yield a row for each rule whose threshold has a guarantee, with its effect on the sessions held out."""
    for rule in rules:
        found = rule.thresholds[rule.risks.table.horizons.index(WITHIN)]
        if found.threshold is not None:
            warned = f"{found.violating - found.missed} of {found.violating}"
            others = f"{found.warned_others} of {found.others}"
            yield [rule.counted.rule, f"{found.threshold:.4f}", warned, others, _lead(found)]


def _lead(found: RiskThreshold) -> str:
    lead = found.lead
    return "-" if lead is None else f"{lead.median:g} ({lead.lower:g} to {lead.upper:g})"


def sample_sizes(rules: tuple[RuleLearned, ...]) -> str:
    """Return how many of the contexts and rules meet Pro2Guard's sample-size rule."""
    contexts = sum(len(rule.sizes.left) for rule in rules)
    local = sum(rule.sizes.local_sufficient for rule in rules)
    whole = sum(rule.sizes.is_sufficient for rule in rules)
    return (
        f"{len(rules)} rules with {contexts:,} contexts: H* is reached in {local:,} contexts, "
        f"and the whole rule is met by {whole} of the rules."
    )
