"""The risk of one rule over a session's events, and the explanation of it at one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...predict.chain.contexts import END, START, UNSEEN
from ...predict.chain.learned import Counted
from ...predict.chain.over_archive import OverArchive, over_archive
from ...predict.estimation.expectation import NextSymbolChain
from ...predict.estimation.nested import NestedEstimate
from ...predict.explaining.explanation import ExplainedChain, ExplainedPath, RiskExplanation
from ...predict.explaining.pattern_graph import explained_pattern
from ...predict.explaining.real_sessions import session_along
from ...predict.explaining.rises import RiskRise, risk_rises
from ...predict.explaining.rule_graph import explained_chain
from ...predict.risk.pattern import Pattern, PatternSolver
from ...predict.risk.rule_risks import risks_at, unseen_shares, with_unseen
from ...predict.risk.solve import RiskSolver
from ...rules.model.arrays import F64, I64, Mask


@dataclass(frozen=True, slots=True)
class PlaceRisk:
    """The risk after the event `at` of a sequence, counted from 1; 0 is before any event.

    After a symbol that the chain lacks (`UNSEEN`) it is that of the state alone. It is None where the rule
    stopped, and where the chain lacks the state.
    """

    at: int
    symbol: str
    residual: str
    violated: bool
    risk: float | None


@dataclass(frozen=True, slots=True)
class SequenceRisks:
    """One sequence of a session: its risks over the events, their greatest rises, and its contexts."""

    places: tuple[PlaceRisk, ...]
    rises: tuple[RiskRise, ...]
    contexts: tuple[int, ...]

    @property
    def riskiest(self) -> int | None:
        """Return the place with the greatest risk, the first of equal ones; None where none has a risk."""
        known = [place for place in self.places if place.risk is not None]
        return max(known, key=lambda place: place.risk or 0.0).at if known else None


@dataclass(frozen=True, slots=True)
class ExplainedRisk:
    """The explanation of a rule's risk after the event `at` of a sequence.

    `sessions` are the ids of real sessions that went the ways of the paths, None for each without one.
    """

    sequence: SequenceRisks
    at: int
    explanation: RiskExplanation
    sessions: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class ExplainedRule:
    """One rule over an archive, to be explained in a session of it.

    `risks` are those of the contexts of `over` within `within` events, also of those after symbols that the
    chain lacks, which have the distribution `unseen` of the next symbol by [row, next]. With a `pattern` they
    are its probabilities, `solved` by its states.
    """

    over: OverArchive
    chain: NextSymbolChain
    unseen: F64
    risks: F64
    within: int | None
    pattern: Pattern | None = None
    solved: tuple[F64, F64] | None = None

    def sequences(self, session: int) -> list[SequenceRisks]:
        """Return the sequences of a session."""
        return list(sequence_risks(self.over, self.risks, session))

    def explain(
        self, sequence: SequenceRisks, at: int, paths: int, ids: Sequence[str] | None
    ) -> ExplainedRisk:
        """Return the explanation after an event that has a risk; `ids` are those of all sessions."""
        context = sequence.contexts[at]
        explanation = self._graph(self.over.context(context)).explain(0, paths)
        found = [
            None if ids is None else _session_along(self.over, context, path, ids)
            for path in explanation.paths
        ]
        return ExplainedRisk(sequence, at, explanation, tuple(found))

    def _graph(self, start: tuple[int, int, int]) -> ExplainedChain:
        counted = self.over.counted
        if self.pattern is None or self.solved is None:
            return explained_chain(counted, self.chain, start, self.within, self.unseen)
        return explained_pattern(
            counted, self.chain, self.pattern, start, self.within, self.solved, self.unseen
        )


def session_rule(
    chain: Counted,
    estimate: NestedEstimate,
    unseen: NestedEstimate,
    archive: Counted,
    within: int | None,
    pattern: Pattern | None = None,
) -> ExplainedRule:
    """Return a rule of a chain over an archive; `unseen` is the estimate after unknown symbols.

    With a `pattern` its risk is the probability that the coming verdicts make that true. Raises PredictError
    (TRL810) where it makes too many states, or hardly any session closes.
    """
    over = over_archive(chain, archive)
    follows, shares = NextSymbolChain(over.counted, estimate), unseen_shares(over.counted, unseen)
    solved: tuple[F64, F64] | None = None
    if pattern is None:
        solver = RiskSolver(over.counted, follows)
        values, before = solver.each_within((within,))[within]
        gains = solver.gains(before)
    else:
        patterns = PatternSolver(over.counted, follows, pattern)
        solved = patterns.by_state(within)
        values, gains = solved[0][0], patterns.gains(0, solved[1])
    table = [with_unseen(shares, values, gains)]
    known = risks_at(over.counted, table, over.counted.contexts)
    risks = over.with_unknown(known, risks_at(over.counted, table, over.after_unseen))
    return ExplainedRule(over, follows, shares, risks[:, 0], within, pattern, solved)


def sequence_risks(over: OverArchive, risks: F64, session: int) -> Iterator[SequenceRisks]:
    """Yield the sequences of a session; `risks` are by context of `over`, its unknown one last."""
    walks = over.counted.walks
    for number in _sequences(over, session):
        places = np.arange(int(walks.bounds[number]), int(walks.bounds[number + 1]))
        contexts: list[int] = walks.contexts[places].tolist()
        history = risks[walks.contexts[places]]
        events = tuple(_places(over, places, history, walks.violated[places].tolist()))
        yield SequenceRisks(events, tuple(risk_rises(history)), tuple(contexts))


def _sequences(over: OverArchive, session: int) -> list[int]:
    of_session: Mask = np.equal(over.counted.walks.sessions, session)
    return np.flatnonzero(of_session).tolist()


def _places(over: OverArchive, places: I64, risks: F64, violated: Sequence[bool]) -> Iterator[PlaceRisk]:
    counted = over.counted
    names = (*counted.symbols.symbols, START, UNSEEN)
    for at, (place, risk) in enumerate(zip(places.tolist(), risks.tolist(), strict=True)):
        context = int(counted.walks.contexts[place])
        if context == over.unknown:
            yield PlaceRisk(at, UNSEEN, "", violated[at], None)
            continue
        _, symbol, row = over.context(context)
        residual = counted.steps.residuals[row]
        yield PlaceRisk(at, names[symbol], residual, violated[at], None if np.isnan(risk) else risk)


def _session_along(over: OverArchive, context: int, path: ExplainedPath, ids: Sequence[str]) -> str | None:
    counted = over.counted
    number = {text: place for place, text in enumerate((*counted.symbols.symbols, END))}
    columns = over.padded(counted.contexts.symbols, -1)
    if any(step.symbol not in number for step in path.steps):
        # Nothing follows: no session of the chain went on there.
        return None
    nexts = [number[step.symbol] for step in path.steps]
    found = session_along(counted.walks, columns, counted.symbols.boundary, context, nexts)
    return None if found is None else ids[found]
