"""A learned chain in memory: the look-up of risks, and the counts for those who step the chain again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from ...rules.model.arrays import F64, I32, I64
from ..chain.contexts import END, START, UNSEEN, Contexts, RuleCounts, SymbolSet
from ..chain.learned import Counted
from ..chain.risks import HORIZON_MAX, Basis
from ..chain.steps import StepTable
from ..chain.walks import no_walks
from ..error import PredictError
from ..estimation.nested import NestedEstimate, NestedLevel, jeffreys_top
from ..estimation.options import EstimateOptions, estimated
from ..risk.pattern import read_pattern
from ..sampling.continuations import ContinuationStart, SampledContinuation, sampled_continuations
from .chain_rules import chain_rules
from .pattern_risks import pattern_risks

ABSENT = -1
"""The number of a context that cannot occur."""


@dataclass(frozen=True, slots=True)
class Risk:
    """A risk with its interval, the sessions that came to its context, and the violating ones of these."""

    risk: float
    low: float
    high: float
    sessions: int
    violating: int
    basis: Basis


@dataclass(frozen=True, slots=True)
class RuleChain:
    """One rule of a chain.

    `numbers[agent, symbol, row]` is the number of a context, or `ABSENT`; the arrays of numbers have a row
    for each context and a column for each horizon. `rows` are the numbers of pairs of a machine state and a
    memory text. The last symbols are `start` and `unseen`; where `agents` are several, one number more stands
    for any other agent.
    """

    content: Mapping[str, Any]
    agents: tuple[str, ...]
    symbols: SymbolSet
    symbol_numbers: Mapping[str, int]
    rows: Mapping[tuple[int, str], int]
    horizons: Mapping[int | None, int]
    numbers: I32
    risks: F64
    low: F64
    high: F64
    context_sessions: I64
    context_violating: I64
    bases: tuple[Basis, ...]
    contexts: pl.DataFrame
    counts: pl.DataFrame

    @property
    def pack(self) -> str:
        """Return the name of the rule's pack."""
        return self.content["pack"]

    @property
    def rule(self) -> str:
        """Return the id of the rule."""
        return self.content["rule"]

    @property
    def sessions(self) -> int:
        """Return the sessions that give the chain its intervals."""
        return self.content["sessions"]

    @property
    def violating(self) -> int:
        """Return those of them that violated the rule."""
        return self.content["violating"]

    @property
    def digest(self) -> str:
        """Return the digest of the rule that the chain was learned from."""
        return self.content["digest"]

    def agent(self, name: str | None) -> int:
        """Return the number of an agent, known or not; None is one that is not."""
        if len(self.agents) < 2:
            return 0
        return self.agents.index(name) if name in self.agents else len(self.agents)

    def number(self, agent: str | None, symbol: str, state: int, memory: str) -> int:
        """Return the number of a context; a symbol that the chain lacks is `unseen`, and so is a context.

        It is `ABSENT` where the machine cannot be in that state after symbols of the chain.
        """
        row = self.rows.get((state, memory))
        if row is None:
            return ABSENT
        found = self.numbers[self.agent(agent)]
        number = int(found[self.symbol_numbers.get(symbol, len(found) - 1), row])
        return number if number != ABSENT else int(found[-1, row])

    def memory_at(self, agent: str, symbol: str, state: int) -> str:
        """Return what the memory formulas remember in a context: nothing, where that may be.

        Raises ValueError where they remember something and it may be different things.
        """
        found = self.numbers[self.agent(agent)]
        rows = {memory: row for (each, memory), row in self.rows.items() if each == state}
        place = self.symbol_numbers.get(symbol, len(found) - 1)
        fitting = [memory for memory, row in rows.items() if found[place, row] != ABSENT] or [*rows]
        if "" in fitting or not fitting:
            return ""
        if len(fitting) > 1:
            raise ValueError(f"give `memory`, which may be {' or '.join(map(repr, sorted(fitting)))}")
        return fitting[0]

    def counted(self, steps: StepTable) -> Counted:
        """Return the counts with the step table that the rules give; folds and walks are not stored."""
        rows = {key: row for row, key in enumerate(zip(steps.states.tolist(), steps.memory, strict=True))}
        texts = self.symbols.symbols
        symbols = {text: number for number, text in enumerate((*texts, START))}
        nexts = {text: number for number, text in enumerate((*texts, END))}
        agents = {name: number for number, name in enumerate(self.agents)}
        table = self.contexts.filter(pl.col("agent").is_not_null(), pl.col("symbol") != UNSEEN)
        learned = {*self.counts.select("agent", "symbol", "state", "memory").iter_rows()}
        walked = {*table.filter("visited").select("agent", "symbol", "state", "memory").iter_rows()}
        keys = sorted(
            (agents[agent], symbols[symbol], rows[state, memory])
            for agent, symbol, state, memory in learned | walked
        )
        number = {key: place for place, key in enumerate(keys)}
        columns = np.array(keys, dtype=np.int32).reshape(-1, 3)
        found = [
            (number[agents[agent], symbols[symbol], rows[state, memory]], nexts[following], count)
            for agent, symbol, state, memory, following, count in self.counts.select(
                "agent", "symbol", "state", "memory", "next", "count"
            ).iter_rows()
        ]
        transitions = np.array(sorted(found), dtype=np.int64).reshape(-1, 3)
        return Counted(
            pack=self.pack,
            rule=self.rule,
            rule_digest=self.digest,
            agents=self.agents,
            symbols=self.symbols,
            steps=steps,
            contexts=Contexts(columns[:, 0], columns[:, 1], columns[:, 2]),
            counts=RuleCounts(
                np.zeros(len(transitions), dtype=np.int32),
                transitions[:, 0].astype(np.int32),
                transitions[:, 1].astype(np.int32),
                transitions[:, 2],
            ),
            walks=no_walks(),
        )

    def highs(self, counted: Counted, within: int | None) -> F64:
        """Return the upper ends of the intervals of the contexts of `counted`; NaN without a risk."""
        symbols, steps, column = (*self.symbols.symbols, START), counted.steps, self.horizons[within]
        contexts = counted.contexts
        columns = contexts.agents, contexts.symbols, contexts.states
        keys: list[tuple[int, int, int]] = np.stack(columns, axis=1).tolist()
        found: list[float] = []
        for agent, symbol, row in keys:
            memory: str = steps.memory[row]
            number = self.number(self.agents[agent], symbols[symbol], int(steps.states[row]), memory)
            found.append(float(self.high[number, column]))
        return np.array(found, dtype=np.float64)

    def unseen_risks(self, counted: Counted, contexts: Contexts) -> F64:
        """Return the risks after a symbol that the chain lacks, by [context, horizon]; NaN without one."""
        steps = counted.steps
        found = np.full((len(contexts), len(self.horizons)), np.nan)
        keys: list[tuple[int, int]] = np.stack([contexts.agents, contexts.states], axis=1).tolist()
        agents = (*self.agents, None)
        for place, (agent, row) in enumerate(keys):
            number = self.number(agents[agent], UNSEEN, int(steps.states[row]), steps.memory[row])
            if number != ABSENT:
                found[place] = self.risks[number]
        return found

    def estimate(self, counted: Counted) -> NestedEstimate:
        """Return the estimate of these counts with the weights that learning chose."""
        stored: dict[str, Any] = self.content["estimate"]
        if stored["alpha"] is not None:
            impossible = frozenset((first, second) for first, second in stored["impossible"])
            return estimated(counted, EstimateOptions(stored["alpha"], stored["history"], impossible))
        return _nested(counted, stored["levels"])

    def unseen_estimate(self, counted: Counted) -> NestedEstimate:
        """Return the estimate of what follows a symbol that the chain lacks: that of the row alone."""
        return _nested(counted, self.content["estimate"]["unseen"])

    def labels(self, counted: Counted) -> NestedEstimate:
        """Return the estimate of the chain over labels, with the weights that learning chose."""
        return _nested(counted, self.content["estimate"]["labels"])


@dataclass(frozen=True, slots=True)
class LearnedChain:
    """A learned chain: its digest, the content of `chain.json`, and its rules by pack and id."""

    where: str
    digest: str
    document: Mapping[str, Any]
    rules: Mapping[tuple[str, str], RuleChain]

    @property
    def horizons(self) -> tuple[int | None, ...]:
        """Return the horizons, that of ever last."""
        return tuple(self.document["horizons"])

    @property
    def confidence(self) -> float:
        """Return the confidence of the intervals."""
        return self.document["confidence"]

    def rule(self, pack: str, rule: str) -> RuleChain:
        """Return a rule of the chain. Raises PredictError (TRL803) where the chain lacks it."""
        if (pack, rule) not in self.rules:
            hint = "learn the chain again from these rules"
            raise PredictError("TRL803", self.where, f"the chain has no rule {pack}/{rule}", hint)
        return self.rules[pack, rule]

    def risk(
        self,
        pack: str,
        rule: str,
        *,
        symbol: str,
        state: int,
        within: int | None,
        memory: str | None = None,
        agent: str = "",
        pattern: str | None = None,
    ) -> Risk | None:
        """Return the risk after an event with that symbol, which leaves the rule's machine in that state.

        `within` is a horizon of the chain, None for that of ever. `memory` is what the memory formulas
        remember, as the tables write it; it may be left out where they remember nothing, or where only one
        text fits. There is no risk where the rule has stopped, and none where the machine cannot be in that
        state after symbols of the chain. Raises PredictError (TRL803) for a rule that the chain lacks, and
        ValueError for another horizon, or without a memory where several fit.

        With a `pattern`, a formula over `violated`, `satisfied`, `unmet` and `held`, it is the probability
        that the verdicts of the next `within` events are such, for any number of events; with None those up
        to the close. It is computed here, no session is evidence for it, and its interval is 0 to 1. Raises
        RuleError for its text.
        """
        found = self.rule(pack, rule)
        if pattern is None and within not in found.horizons:
            raise ValueError(f"the chain has no horizon {within}: {list(found.horizons)}")
        if memory is None:
            memory = found.memory_at(agent, symbol, state)
        number = found.number(agent, symbol, state, memory)
        if pattern is not None:
            return self._pattern_risk(found, number, pattern, within)
        column = found.horizons[within]
        if number == ABSENT or np.isnan(found.risks[number, column]):
            return None
        return Risk(
            risk=float(found.risks[number, column]),
            low=float(found.low[number, column]),
            high=float(found.high[number, column]),
            sessions=int(found.context_sessions[number, column]),
            violating=int(found.context_violating[number, column]),
            basis=found.bases[number],
        )

    def _pattern_risk(self, rule: RuleChain, number: int, text: str, within: int | None) -> Risk | None:
        if within is not None and not 1 <= within <= HORIZON_MAX:
            raise ValueError(
                f"`within` of a pattern is None, or a number of events from 1 to {HORIZON_MAX:,}"
            )
        pattern = read_pattern(text)
        if number == ABSENT:
            return None
        risks = pattern_risks(rule, self._counted(rule), pattern, within)
        if np.isnan(risks[number]):
            return None
        return Risk(float(risks[number]), 0.0, 1.0, sessions=0, violating=0, basis=rule.bases[number])

    def _counted(self, rule: RuleChain) -> Counted:
        """Return the counts of a rule, which is compiled again."""
        compiled = chain_rules(self)
        [found] = [
            counted for each, counted in zip(compiled.rules, compiled.counted, strict=True) if each is rule
        ]
        return found

    def sample(
        self,
        pack: str,
        rule: str,
        *,
        symbol: str,
        state: int,
        within: int,
        n: int,
        seed: int,
        memory: str = "",
        agent: str = "",
    ) -> tuple[SampledContinuation, ...] | None:
        """Return `n` continuations after such an event, of at most `within` events each.

        The share of those that are violated estimates the risk within so many events. There are none where
        the machine cannot be in that state. Raises PredictError (TRL803) for a rule that the chain lacks.
        """
        found = self.rule(pack, rule)
        number = found.number(agent, symbol, state, memory)
        if number == ABSENT:
            return None
        counted = self._counted(found)
        rows = list(zip(counted.steps.states.tolist(), counted.steps.memory, strict=True))
        if len(counted.agents) > 1:
            counted = replace(counted, agents=(*counted.agents, ""))
        estimate, place, row = found.estimate(counted), found.agent(agent), rows.index((state, memory))
        start = ContinuationStart(place, found.symbol_numbers.get(symbol, 0), row, estimate)
        if found.bases[number] is Basis.STATE:
            start = ContinuationStart(place, 0, row, found.unseen_estimate(counted))
        return sampled_continuations(counted, estimate, start, within, n, np.random.default_rng(seed))


def chain_rule(content: Mapping[str, Any], counts: pl.DataFrame, risks: pl.DataFrame) -> RuleChain:
    """Return a rule from its part of `chain.json` and its rows of the tables."""
    horizons = {within: column for column, within in enumerate(content["horizons"])}
    agents = tuple(content["agents"])
    symbol_set = SymbolSet(tuple(content["symbols"]))
    symbols = {text: number for number, text in enumerate((*symbol_set.symbols, START, UNSEEN))}
    keys = ["agent", "symbol", "state", "memory"]
    order = [*keys, "residual", "basis"]
    # Each context has a row for each horizon, and the horizons ascend to that of ever.
    ordered, count = risks.sort(["within", *keys], nulls_last=True), len(risks) // len(horizons)
    contexts = ordered[:count].select(order)

    def table(name: str) -> np.ndarray:
        return ordered[name].to_numpy().reshape(len(horizons), count).T.copy()

    visited = pl.Series("visited", np.asarray((table("visits") > 0).any(axis=1)))
    names = sorted({(state, memory) for state, memory in contexts.select("state", "memory").iter_rows()})
    rows = {key: row for row, key in enumerate(names)}
    places = {name: number for number, name in enumerate(agents)}
    numbers = np.full((len(agents) + (len(agents) > 1), len(symbols), len(rows)), ABSENT, dtype=np.int32)
    for number, (agent, symbol, state, memory) in enumerate(contexts.select(keys).iter_rows()):
        place = len(agents) if agent is None else places[agent]
        numbers[place, symbols[symbol], rows[state, memory]] = number

    return RuleChain(
        content=content,
        agents=agents,
        symbols=symbol_set,
        symbol_numbers=symbols,
        rows=rows,
        horizons=horizons,
        numbers=numbers,
        risks=table("risk"),
        low=table("low"),
        high=table("high"),
        context_sessions=table("sessions"),
        context_violating=table("violating"),
        bases=tuple(map(Basis, contexts["basis"].to_list())),
        contexts=contexts.with_columns(visited),
        counts=counts,
    )


def _nested(counted: Counted, stored: Iterable[Mapping[str, Any]]) -> NestedEstimate:
    """Return the estimate with stored weights: without folds of sessions none can be chosen."""
    levels = tuple(NestedLevel(tuple(each["columns"]), each["kappa"]) for each in stored)
    return NestedEstimate(jeffreys_top(counted), levels)
