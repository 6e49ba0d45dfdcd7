"""A chain learned from an archive: the counts of all rules, their risks and the evidence for these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from ...predict.chain.walks import Walks
from ...predict.counting.split import Split
from ...predict.counting.tally import ChainTally
from ...predict.counting.watched_rules import WatchedRules
from ...predict.error import PredictError
from ...predict.learning.learn_rule import LearnedFrom, RuleLearned, learn_rule
from ...predict.learning.options import SESSIONS_MIN, LearnOptions
from ..audit.audit import OnProgress, silent
from ..evidence.files import file_digest
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources, discover, named
from .tallied import tallied


@dataclass(frozen=True, slots=True)
class ChainLearned:
    """The rules of a learned chain, and the sessions that it comes from."""

    rules: tuple[RuleLearned, ...]
    source: LearnedFrom


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
    digests = sorted(file_digest(part.path) for part in discover(archive, Population(), options.files))
    digest = sha256("".join(digests).encode()).hexdigest()
    source = LearnedFrom(tally.sessions, tally.learned, tally.events, len(digests), digest)
    return ChainLearned(tuple(_learned(tally, learning, on_progress)), source)


def _learned(tally: ChainTally, learning: LearnOptions, on_progress: OnProgress) -> Iterator[RuleLearned]:
    """Yield the rules without their walks, which only the evidence needs."""
    rules = len(tally.watched.rules)
    for number, counted in enumerate(tally.counted(), start=1):
        try:
            found = learn_rule(counted, learning)
        except ValueError as error:
            if not learning.risks.estimate.impossible:
                raise
            hint = "leave out of the file what does follow"
            raise PredictError("TRL807", "impossible pairs", str(error), hint) from error
        yield replace(found, counted=replace(counted, walks=no_walks()))
        on_progress("learning", number, rules)


def no_walks() -> Walks:
    """Return walks of no session."""
    nothing = np.empty(0, dtype=np.int32)
    violated, endings = np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.uint8)
    return Walks(nothing, violated, np.zeros(1, dtype=np.int64), nothing, endings)
