"""Archives counted by the rules of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...predict.chain.learned import Counted
from ...predict.counting.split import Split
from ...predict.folder.chain_rules import ChainRules
from ..audit.audit import OnProgress, silent
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources
from .tallied import tallied

EVERY_SESSION = Split(hold_out=0.0)
"""No session is held out, so all have walks."""


@dataclass(frozen=True, slots=True)
class CountedArchive:
    """The counts of an archive's sessions by rule; the ids have the numbers of the walks' sessions."""

    counted: tuple[Counted, ...]
    ids: tuple[str, ...]
    events: int


def counted_archive(
    rules: ChainRules,
    archive: Sources,
    scratch: Path,
    options: AuditOptions,
    population: Population,
    on_progress: OnProgress = silent,
) -> CountedArchive:
    """Return the counts of an archive by the rules of a chain, with the walks of all sessions.

    A symbol that the chain has among its rare ones is that of these. `scratch` is an empty folder of the
    caller. Raises SourceError if there is nothing to read.
    """
    by = rules.chain.document.get("by")
    tally = tallied(archive, rules.watched, EVERY_SESSION, scratch, options, population, by, on_progress)
    known = [frozenset(rule.symbols.symbols) for rule in rules.rules]
    return CountedArchive(tuple(tally.counted(known)), tally.session_ids, tally.events)
