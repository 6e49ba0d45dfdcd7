"""Agents that fell silent, and counts by model, in the summary of an audit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tracline.batch.audit.audit import audit
from tracline.batch.audit.silence import silent_agents
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import pack_text
from tracline.schemas.time import parse_time

from ...support.event_rows import PACK, session, user, write


def counts(**agents: dict[int, int]) -> Counter[tuple[str, str, str]]:
    """Return sessions by agent, day of March 2026 and model."""
    return Counter(
        {
            (agent, f"2026-03-{day:02}", "m"): count
            for agent, by_day in agents.items()
            for day, count in by_day.items()
        }
    )


def daily(*days: int, count: int = 10) -> dict[int, int]:
    """Return as many sessions on each of the days."""
    return dict.fromkeys(days, count)


def names(groups: Counter[tuple[str, str, str]], *ends: str) -> list[str]:
    """Return the silent agents, the most missed first."""
    return [each["agent"] for each in silent_agents(groups, [parse_time(end) for end in ends])]


def test_an_agent_without_its_usual_sessions_is_silent() -> None:
    """The last whole day counts, not the day on which the archive ends."""
    groups = counts(steady=daily(1, 2, 3, 4, 5, 6), gone=daily(1, 2, 3, 4))
    (found,) = silent_agents(groups, [])
    assert found == {"agent": "gone", "last_day": "2026-03-04", "silent_days": 1, "sessions_expected": 10}
    assert names(counts(steady=daily(1, 2, 3, 4, 5), gone=daily(1, 2, 3, 4))) == []


def test_the_audit_ends_with_the_first_known_end() -> None:
    """A watermark shows that all agents fell silent; the sessions themselves cannot."""
    groups = counts(all=daily(1, 2, 3))
    assert names(groups) == []
    assert names(groups, "2026-03-05T12:00:00Z", "2026-03-09T00:00:00Z") == ["all"]
    assert names(groups, "2026-03-04T23:00:00Z") == []


def test_a_usual_pause_is_no_silence() -> None:
    """An agent that rests at weekends is silent from the third day on; a rare or new one has no usual."""
    weekday = counts(weekday=daily(2, 3, 4, 5, 6, 9, 10, 11, 12, 13))
    assert names(weekday, "2026-03-16T00:00:00Z") == []
    assert names(weekday, "2026-03-17T00:00:00Z") == ["weekday"]
    assert names(counts(rare=daily(1, 2, 3, count=1)), "2026-03-07T00:00:00Z") == []
    assert names(counts(new=daily(1, 2)), "2026-03-20T00:00:00Z") == []


def test_those_most_missed_come_first() -> None:
    """By the sessions that were expected, then by name; sessions without an agent or a time are nobody's."""
    groups = counts(few=daily(1, 2, 3), a=daily(1, 2, 3, count=50), b=daily(1, 2, 3, count=50))
    groups |= {("", "2026-03-01", "m"): 90, ("few", "unknown", "m"): 90}
    assert names(groups, "2026-03-06T00:00:00Z") == ["a", "b", "few"]


def test_a_summary_counts_by_model(tmp_path: Path) -> None:
    """A session counts under the first model that its events name."""
    rows = session("one", user("no!"), user("a", model="small"), user("b", model="large"))
    rows += session("two", user("a", model="large")) + session("none", user("no!"))
    write(tmp_path / "archive" / "events.parquet", rows)
    found = audit(tmp_path / "archive", pack_text(PACK), tmp_path / "bundle", AuditOptions()).summary
    assert found["population"]["sessions_by_model"] == {"": 1, "large": 1, "small": 1}
    by_model = found["rules"]["calm"]["by_model"]
    assert {model: each["sessions_violating"] for model, each in by_model.items()} == {
        "": 1,
        "large": 0,
        "small": 1,
    }
