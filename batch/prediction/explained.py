"""The risk of one rule over a session's events, and the explanation of it at one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...predict.chain.contexts import END, START
from ...predict.chain.over_archive import OverArchive
from ...predict.estimation.expectation import NextSymbolChain
from ...predict.explaining.explanation import RiskExplanation
from ...predict.explaining.real_sessions import session_along
from ...predict.explaining.rises import RiskRise, risk_rises
from ...predict.explaining.rule_graph import explained_chain
from ...rules.model.arrays import F64, I64, Mask


@dataclass(frozen=True, slots=True)
class PlaceRisk:
    """The risk after the event `at` of a sequence, counted from 1; 0 is before any event.

    `risk` is None where the rule stopped, and where the chain lacks the event's symbol.
    """

    at: int
    symbol: str
    residual: str
    violated: bool
    risk: float | None


@dataclass(frozen=True, slots=True)
class SequenceRisks:
    """One sequence of a session: its risks over the events, and their greatest rises."""

    places: tuple[PlaceRisk, ...]
    rises: tuple[RiskRise, ...]

    def words(self, rise: RiskRise) -> str:
        """Return a rise in words."""
        place = self.places[rise.at]
        rest = f"; due: {place.residual}" if place.residual else ""
        return (
            f"from {percent(rise.before)} to {percent(rise.after)} at event {rise.at}: {place.symbol}{rest}"
        )


@dataclass(frozen=True, slots=True)
class ExplainedRisk:
    """The explanation of the risk after the event `at` of a sequence.

    `sessions` are the numbers of real sessions that went the ways of the paths, None for each without one.
    """

    sequence: SequenceRisks
    at: int
    explanation: RiskExplanation
    sessions: tuple[int | None, ...]


def sequence_risks(over: OverArchive, risks: F64, session: int) -> Iterator[SequenceRisks]:
    """Yield the sequences of a session; `risks` are by context of `over`, its unknown one last."""
    walks = over.counted.walks
    for number in _sequences(over, session):
        places = np.arange(int(walks.bounds[number]), int(walks.bounds[number + 1]))
        history = risks[walks.contexts[places]]
        yield SequenceRisks(
            tuple(_places(over, places, history, walks.violated[places].tolist())), tuple(risk_rises(history))
        )


def explained_risk(
    over: OverArchive,
    chain: NextSymbolChain,
    sequence: SequenceRisks,
    context: int,
    at: int,
    within: int | None,
    paths: int,
    *,
    with_sessions: bool,
) -> ExplainedRisk:
    """Return the explanation at the place `at` of a sequence, whose context is not the unknown one."""
    contexts = over.counted.contexts
    start = int(contexts.agents[context]), int(contexts.symbols[context]), int(contexts.states[context])
    rule = explained_chain(over.counted, chain, start, within)
    explanation = rule.explain(0, paths)
    found = [
        _session_along(over, context, [step.symbol for step in path.steps]) if with_sessions else None
        for path in explanation.paths
    ]
    return ExplainedRisk(sequence, at, explanation, tuple(found))


def contexts_of(over: OverArchive, session: int) -> list[list[int]]:
    """Return the contexts of a session's sequences by place."""
    walks = over.counted.walks
    return [
        walks.contexts[walks.bounds[number] : walks.bounds[number + 1]].tolist()
        for number in _sequences(over, session)
    ]


def _sequences(over: OverArchive, session: int) -> list[int]:
    of_session: Mask = np.equal(over.counted.walks.sessions, session)
    return np.flatnonzero(of_session).tolist()


def percent(share: float) -> str:
    """Return a share in per cent with two digits that matter."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _places(over: OverArchive, places: I64, risks: F64, violated: Sequence[bool]) -> Iterator[PlaceRisk]:
    counted = over.counted
    names = (*counted.symbols.symbols, START)
    for at, (place, risk) in enumerate(zip(places.tolist(), risks.tolist(), strict=True)):
        context = int(counted.walks.contexts[place])
        if context == over.unknown:
            yield PlaceRisk(at, "unseen", "", violated[at], None)
            continue
        residual = counted.steps.residuals[int(counted.contexts.states[context])]
        symbol = names[int(counted.contexts.symbols[context])]
        yield PlaceRisk(at, symbol, residual, violated[at], None if np.isnan(risk) else risk)


def _session_along(over: OverArchive, context: int, symbols: Sequence[str]) -> int | None:
    counted = over.counted
    number = {text: place for place, text in enumerate((*counted.symbols.symbols, END))}
    columns = np.append(counted.contexts.symbols, -1).astype(np.int32)
    return session_along(
        counted.walks, columns, counted.symbols.boundary, context, [number[text] for text in symbols]
    )
