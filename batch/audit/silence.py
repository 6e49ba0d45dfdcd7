"""Agents whose telemetry fell silent: they have no sessions lately, against their usual.

Silence is no cleanness: an agent that stopped exporting breaks no rule.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from itertools import pairwise
from typing import Any

from ...archive.writer import UNKNOWN_DAY
from ...schemas.time import rfc3339

DAYS_MIN = 3
"""Days with sessions that an agent must have, so that it has a usual."""
EXPECTED_MIN = 5.0
"""Sessions that an agent must have been expected to have in its silence."""
SILENT_MAX = 100
"""Silent agents that a summary lists, those with the most expected sessions."""


def silent_agents(
    groups: Mapping[tuple[str, str, str], int], ends: Iterable[int | None]
) -> list[dict[str, Any]]:
    """Return the agents without sessions on the last whole days of an audit, those most missed first.

    The silence is longer than any between two days of the agent's sessions before, and at the agent's mean of
    sessions a day it would have had several. `groups` count sessions by agent, day and model. The audit ends
    with the first of the known `ends`, else with the last day on which a session began.
    """
    agents = _by_agent(groups)
    last = max((day for counts in agents.values() for day in counts), default=0)
    known = [end for end in ends if end is not None]
    if known:
        last = date.fromisoformat(rfc3339(min(known))[:10]).toordinal()
    found: list[dict[str, Any]] = []
    for agent, counts in agents.items():
        days = sorted(counts)
        silent = last - days[-1] - 1
        longest = max((after - before - 1 for before, after in pairwise(days)), default=0)
        expected = counts.total() / (days[-1] - days[0] + 1) * silent
        if len(days) >= DAYS_MIN and silent > longest and expected >= EXPECTED_MIN:
            last_day = date.fromordinal(days[-1]).isoformat()
            found.append(
                {
                    "agent": agent,
                    "last_day": last_day,
                    "silent_days": silent,
                    "sessions_expected": round(expected),
                }
            )
    found.sort(key=lambda each: (-each["sessions_expected"], each["agent"]))
    return found[:SILENT_MAX]


def _by_agent(groups: Mapping[tuple[str, str, str], int]) -> dict[str, Counter[int]]:
    """Return the sessions of each named agent by day, as days of the calendar."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for (agent, day, _), count in groups.items():
        if agent and day != UNKNOWN_DAY and count:
            found[agent][date.fromisoformat(day).toordinal()] += count
    return found
