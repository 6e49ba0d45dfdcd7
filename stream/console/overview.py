"""Rates for the pages: rows of rules and agents over a window of event time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...rules.model.printer import predicate_text, to_text
from ...rules.model.rule import Rule
from .queries import Position
from .rates import Series, SessionCounts, Window, series, window_to

CountSessions = Callable[[Window, tuple[str, str] | None], list[SessionCounts]]
"""Returns the counts of a window, of one rule (pack and id) or of all."""

CountAtRisk = Callable[[Window], Mapping[tuple[str, str, str], int]]
"""Returns the sessions at risk of a window by pack, rule and agent."""


@dataclass(frozen=True, slots=True)
class RiskCounts:
    """The followed rules by pack and id, and the count of their sessions at risk."""

    followed: frozenset[tuple[str, str]]
    count: CountAtRisk


WINDOWS_HOURS = (24, 72, 168)
"""The windows to choose from."""
AGENTS_SHOWN_MAX = 50
"""Agents that a page lists: those with the most sessions."""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule and its rates; `at_risk` counts the sessions at risk, None where no chain follows the rule."""

    rule: Rule
    series: Series
    at_risk: int | None = None


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent (`""`: not named) and its rates."""

    agent: str
    series: Series


def hours_asked(query: Mapping[str, str]) -> int:
    """Return the hours of the window in an address."""
    return next((hours for hours in WINDOWS_HOURS if query.get("hours") == str(hours)), WINDOWS_HOURS[0])


def overview(
    rules: Sequence[Rule],
    position: Position,
    count: CountSessions,
    hours: int,
    query: Mapping[str, str],
    risks: RiskCounts | None = None,
) -> dict[str, Any]:
    """Return the rates of all rules, most severe first; of one agent if the address names it."""
    window = _window(position, hours)
    counts = [] if window is None else count(window, None)
    agent = query.get("agent")
    chosen = [counted for counted in counts if agent is None or counted.agent == agent]
    return {
        "window": window,
        "hours": hours,
        "windows": WINDOWS_HOURS,
        "asked": {"hours": hours, "agent": agent, "show": query.get("show")},
        "agent": agent,
        "agents": _agents(counts),
        "has_risks": risks is not None,
        "rows": [] if window is None else _rule_rows(rules, chosen, window, _at_risk(risks, window, agent)),
    }


def rule_view(rule: Rule, position: Position, count: CountSessions, hours: int) -> dict[str, Any]:
    """Return the rates of one rule, over all agents and by agent."""
    window = _window(position, hours)
    counts = [] if window is None else count(window, (rule.pack, rule.id))
    agents = [] if window is None else _agent_rows(counts, window)
    return {
        "window": window,
        "hours": hours,
        "asked": {"hours": hours},
        "windows": WINDOWS_HOURS,
        "series": None if window is None else series(counts, window),
        "agents": agents,
        "formula": rule.text,
        "expanded": to_text(rule.formula),
        "steps": None if rule.steps is None else to_text(rule.steps),
        "applies_to": None if rule.applies_to is None else to_text(rule.applies_to),
        "propositions": [(name, predicate_text(p)) for name, p in rule.propositions.items()],
        "transitions": [(name, to_text(formula)) for name, formula in rule.transitions.items()],
    }


def _window(position: Position, hours: int) -> Window | None:
    """Return the window that ends at the watermark, None before there is one."""
    return None if position.watermark is None else window_to(position.watermark, hours)


def _agents(counts: Sequence[SessionCounts]) -> list[str]:
    sessions: dict[str, int] = {}
    for counted in counts:
        sessions[counted.agent] = sessions.get(counted.agent, 0) + counted.applicable + counted.unjudged
    return sorted(sorted(sessions, key=lambda agent: -sessions[agent])[:AGENTS_SHOWN_MAX])


def _at_risk(risks: RiskCounts | None, window: Window, agent: str | None) -> dict[tuple[str, str], int]:
    """Return the sessions at risk of each followed rule, of one agent or of all."""
    if risks is None:
        return {}
    found = dict.fromkeys(risks.followed, 0)
    for (pack, rule, name), count in risks.count(window).items():
        if agent in (None, name) and (pack, rule) in found:
            found[pack, rule] += count
    return found


def _rule_rows(
    rules: Sequence[Rule],
    counts: Sequence[SessionCounts],
    window: Window,
    at_risk: Mapping[tuple[str, str], int],
) -> list[RuleRow]:
    by_rule: dict[tuple[str, str], list[SessionCounts]] = {}
    for counted in counts:
        by_rule.setdefault((counted.pack, counted.rule), []).append(counted)
    names = [(rule.pack, rule.id) for rule in rules]
    rows = [
        RuleRow(rule, series(by_rule.get(name, []), window), at_risk.get(name))
        for rule, name in zip(rules, names, strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.rule.severity.rank, -row.series.total.violating))


def _agent_rows(counts: Sequence[SessionCounts], window: Window) -> list[AgentRow]:
    rows = [
        AgentRow(agent, series([counted for counted in counts if counted.agent == agent], window))
        for agent in _agents(counts)
    ]
    return sorted(rows, key=lambda row: -row.series.total.sessions)
