"""Learning: the sessions of an archive to the risks of all rules, with their evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...rules.model.rule import RuleSet
from ..chain.contexts import END, START
from ..chain.walks import no_walks
from ..counting.labelled_sessions import LabelledSessions
from ..counting.split import Split
from ..counting.tally import ChainTally
from ..counting.walk_parts import WalkStore
from ..counting.watched_rules import WatchedRules, watch
from ..error import PredictError
from .learn_rule import LearnedFrom, RuleLearned, learn_rule
from .options import SESSIONS_MIN, LearnOptions


class SessionArchive(Protocol):
    """An archive as learning reads it, once; that of files is in `batch/prediction/source_archive.py`."""

    @property
    def name(self) -> str:
        """Return the name of the archive in errors."""
        ...

    @property
    def walks(self) -> WalkStore:
        """Return an empty store of walks, which may be as large as the archive."""
        ...

    def sessions(self, watched: WatchedRules, by: str | None) -> Iterator[LabelledSessions]:
        """Yield whole sessions, some at a time, all of an id together; `by` names an agent's column."""
        ...

    def inputs(self) -> tuple[int, str]:
        """Return the number of files, and the SHA-256 of their sorted SHA-256."""
        ...


@dataclass(frozen=True, slots=True)
class Learning:
    """The options of learning, and the split of the sessions; `by` is the column that names an agent."""

    options: LearnOptions = field(default_factory=LearnOptions)
    split: Split = field(default_factory=Split)
    by: str | None = None


@dataclass(frozen=True, slots=True)
class ChainLearned:
    """The rules of a learned chain, the sessions that it comes from, and how it was learned."""

    rules: tuple[RuleLearned, ...]
    source: LearnedFrom
    rule_set: RuleSet
    watched: WatchedRules
    learning: Learning


def learn(
    archive: SessionArchive,
    rules: RuleSet,
    learning: Learning | None = None,
    on_progress: Callable[[str, int, int], None] = lambda _what, _done, _of: None,
) -> ChainLearned:
    """Learn the chain of each rule from an archive.

    Raises PredictError: TRL806 if too few of the sessions to learn from have closed, TRL807 where a pair of
    symbols occurs that the options exclude, or has a symbol that no rule has; and what the archive raises.
    """
    learning, watched = learning or Learning(), watch(rules)
    tally = ChainTally(watched, learning.split, archive.walks)
    for sessions in archive.sessions(watched, learning.by):
        tally.add(sessions)
    if tally.closed < SESSIONS_MIN:
        counted = f"{tally.closed:,} of {tally.learned:,} sessions to learn from have closed"
        held = tally.sessions - tally.learned
        what = f"{counted} ({held:,} are held out): a chain needs {SESSIONS_MIN}"
        raise PredictError("TRL806", archive.name, what, "learn from more sessions, or hold out fewer")
    source = LearnedFrom(tally.sessions, tally.learned, tally.events, *archive.inputs())
    learned = tuple(_learned(tally, learning.options, on_progress))
    return ChainLearned(learned, source, rules, watched, learning)


def _learned(
    tally: ChainTally, options: LearnOptions, on_progress: Callable[[str, int, int], None]
) -> Iterator[RuleLearned]:
    """Yield the rules without their walks, which only the evidence needs."""
    rules, known = len(tally.watched.rules), {START, END}
    for number, counted in enumerate(tally.counted(), start=1):
        try:
            found = learn_rule(counted, options)
        except ValueError as error:
            if not options.risks.estimate.impossible:
                raise
            hint = "leave out of the file what does follow"
            raise PredictError("TRL807", "impossible pairs", str(error), hint) from error
        known.update(counted.symbols.symbols)
        yield replace(found, counted=replace(counted, walks=no_walks()))
        on_progress("learning", number, rules)
    unknown = {symbol for pair in options.risks.estimate.impossible for symbol in pair} - known
    if unknown:
        what = f"no rule has the symbol {', '.join(f'`{symbol}`' for symbol in sorted(unknown))}"
        hint = "write symbols as `tracline predict show` prints them, of a chain without --valid"
        raise PredictError("TRL807", "impossible pairs", what, hint)
