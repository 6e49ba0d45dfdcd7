"""A chain learned from an archive: the counts of all rules, their risks and the evidence for these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...predict.chain.walks import Walks
from ...predict.counting.split import Split
from ...predict.counting.tally import ChainTally
from ...predict.counting.watched_rules import WatchedRules
from ...predict.error import PredictError
from ...predict.learning.learn_rule import RuleLearned, learn_rule
from ...predict.learning.options import SESSIONS_MIN, LearnOptions
from ..audit.audit import OnProgress, silent
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources, named
from .tallied import tallied


@dataclass(frozen=True, slots=True)
class ChainLearned:
    """A learned chain: its rules, and the counts of sessions, of those learned from, and of events."""

    rules: tuple[RuleLearned, ...]
    sessions: int
    learned: int
    events: int


def learn_chain(
    archive: Sources,
    watched: WatchedRules,
    split: Split,
    scratch: Path,
    options: AuditOptions,
    learning: LearnOptions,
    population: Population,
    by: str | None = None,
    on_progress: OnProgress = silent,
) -> ChainLearned:
    """Learn the chain of an archive; `by` is the column that names a session's agent.

    `scratch` is an empty folder of the caller. Raises SourceError if there is nothing to read, and
    PredictError (TRL806) if too few of the sessions to learn from have closed.
    """
    tally = tallied(archive, watched, split, scratch, options, population, by, on_progress)
    if tally.closed < SESSIONS_MIN:
        counted = f"{tally.closed:,} of {tally.learned:,} sessions to learn from have closed"
        held = tally.sessions - tally.learned
        what = f"{counted} ({held:,} are held out): a chain needs {SESSIONS_MIN}"
        raise PredictError("TRL806", named(archive), what, "learn from more sessions, or hold out fewer")
    return ChainLearned(
        tuple(_learned(tally, learning, on_progress)), tally.sessions, tally.learned, tally.events
    )


def _learned(tally: ChainTally, learning: LearnOptions, on_progress: OnProgress) -> Iterator[RuleLearned]:
    """Yield the rules without their walks, which only the evidence needs."""
    rules = len(tally.watched.rules)
    for number, counted in enumerate(tally.counted(), start=1):
        found = learn_rule(counted, learning)
        yield replace(found, counted=replace(counted, walks=no_walks()))
        on_progress("learning", number, rules)


def no_walks() -> Walks:
    """Return walks of no session."""
    nothing = np.empty(0, dtype=np.int32)
    violated, endings = np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.uint8)
    return Walks(nothing, violated, np.zeros(1, dtype=np.int64), nothing, endings)
