"""A chain with its rules compiled again, and archives counted by them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...predict.chain.learned import Counted
from ...predict.counting.split import Split
from ...predict.counting.watched_rules import WatchedRules
from ...predict.folder.compiled_chain import compiled_chain
from ...predict.folder.learned_chain import LearnedChain, RuleChain
from ...predict.folder.load import load_chain
from ...predict.validation.behaviour import ViolatingShare, violating_share
from ..audit.audit import OnProgress, silent
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources
from .tallied import tallied

EVERY_SESSION = Split(hold_out=0.0)
"""No session is held out, so all have walks."""


@dataclass(frozen=True, slots=True)
class ChainRules:
    """A chain, its rules compiled again, and the counts of each rule in the order of `watched`."""

    chain: LearnedChain
    watched: WatchedRules
    rules: tuple[RuleChain, ...]
    counted: tuple[Counted, ...]

    def violating(self, place: int, error: float) -> ViolatingShare:
        """Return the violating sessions of a rule, of those that give the chain its intervals."""
        rule = self.rules[place]
        return violating_share(rule.violating, rule.sessions, error)


@dataclass(frozen=True, slots=True)
class CountedArchive:
    """The counts of an archive's sessions by rule; the ids have the numbers of the walks' sessions."""

    counted: tuple[Counted, ...]
    ids: tuple[str, ...]
    events: int


def chain_rules(path: Path) -> ChainRules:
    """Read a chain, and compile its rules. Raises PredictError for a folder that is no chain."""
    chain = load_chain(path)
    watched = compiled_chain(chain)
    rules = tuple(chain.rule(rule.pack, rule.id) for rule in watched.rules)
    counted = tuple(
        rule.counted(watched.step_table(number, rule.symbols.symbols)) for number, rule in enumerate(rules)
    )
    return ChainRules(chain, watched, rules, counted)


def counted_archive(
    rules: ChainRules,
    archive: Sources,
    scratch: Path,
    options: AuditOptions,
    population: Population,
    on_progress: OnProgress = silent,
) -> CountedArchive:
    """Return the counts of an archive by the rules of a chain, with the walks of all sessions.

    `scratch` is an empty folder of the caller. Raises SourceError if there is nothing to read.
    """
    by = rules.chain.document.get("by")
    column = None if by in (None, "none") else str(by)
    tally = tallied(archive, rules.watched, EVERY_SESSION, scratch, options, population, column, on_progress)
    return CountedArchive(tuple(tally.counted()), tally.session_ids, tally.events)
