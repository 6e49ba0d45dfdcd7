"""What the pages show of rates: rows of rules and agents over a window of event time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...rules.model.printer import predicate_text, to_text
from ...rules.model.rule import Rule
from .queries import Position
from .rates import Series, SessionCounts, Window, series, window_to

CountSessions = Callable[[Window, tuple[str, str] | None], list[SessionCounts]]
"""The tallies of a window, of one rule (pack and id) or of all."""

WINDOWS_HOURS = (24, 72, 168)
"""The windows that may be asked for."""
AGENTS_SHOWN_MAX = 50
"""Agents that a page tells apart, those with the most sessions."""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule and its rate."""

    rule: Rule
    series: Series


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent (`""`: none named) and its rate."""

    agent: str
    series: Series


def hours_asked(query: Mapping[str, str]) -> int:
    """The window's hours that an address asks for."""
    return next((hours for hours in WINDOWS_HOURS if query.get("hours") == str(hours)), WINDOWS_HOURS[0])


def overview(
    rules: Sequence[Rule], position: Position, tallied: CountSessions, hours: int, query: Mapping[str, str]
) -> dict[str, Any]:
    """The rates of all rules, of one agent where the address names it; most severe first."""
    window = _window(position, hours)
    tallies = [] if window is None else tallied(window, None)
    agent = query.get("agent")
    chosen = [tally for tally in tallies if agent is None or tally.agent == agent]
    return {
        "window": window,
        "hours": hours,
        "windows": WINDOWS_HOURS,
        "asked": {"hours": hours, "agent": agent, "show": query.get("show")},
        "agent": agent,
        "agents": _agents(tallies),
        "rows": [] if window is None else _rule_rows(rules, chosen, window),
    }


def rule_view(rule: Rule, position: Position, tallied: CountSessions, hours: int) -> dict[str, Any]:
    """The rate of one rule, and of each agent under it."""
    window = _window(position, hours)
    tallies = [] if window is None else tallied(window, (rule.pack, rule.id))
    agents = [] if window is None else _agent_rows(tallies, window)
    return {
        "window": window,
        "hours": hours,
        "asked": {"hours": hours},
        "windows": WINDOWS_HOURS,
        "series": None if window is None else series(tallies, window),
        "agents": agents,
        "formula": rule.text,
        "expanded": to_text(rule.formula),
        "steps": None if rule.steps is None else to_text(rule.steps),
        "applies_to": None if rule.applies_to is None else to_text(rule.applies_to),
        "propositions": [(name, predicate_text(p)) for name, p in rule.propositions.items()],
        "transitions": [(name, to_text(formula)) for name, formula in rule.transitions.items()],
    }


def _window(position: Position, hours: int) -> Window | None:
    """The window that ends at the watermark, None before there is one."""
    return None if position.watermark is None else window_to(position.watermark, hours)


def _agents(tallies: Sequence[SessionCounts]) -> list[str]:
    sessions: dict[str, int] = {}
    for tally in tallies:
        sessions[tally.agent] = sessions.get(tally.agent, 0) + tally.applicable
    return sorted(sorted(sessions, key=lambda agent: -sessions[agent])[:AGENTS_SHOWN_MAX])


def _rule_rows(rules: Sequence[Rule], tallies: Sequence[SessionCounts], window: Window) -> list[RuleRow]:
    by_rule: dict[tuple[str, str], list[SessionCounts]] = {}
    for tally in tallies:
        by_rule.setdefault((tally.pack, tally.rule), []).append(tally)
    rows = [RuleRow(rule, series(by_rule.get((rule.pack, rule.id), []), window)) for rule in rules]
    return sorted(rows, key=lambda row: (-row.rule.severity.rank, -row.series.total.violating))


def _agent_rows(tallies: Sequence[SessionCounts], window: Window) -> list[AgentRow]:
    rows = [
        AgentRow(agent, series([tally for tally in tallies if tally.agent == agent], window))
        for agent in _agents(tallies)
    ]
    return sorted(rows, key=lambda row: -row.series.total.applicable)
