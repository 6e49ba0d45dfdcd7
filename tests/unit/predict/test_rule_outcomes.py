"""The outcomes of rules in single sessions, against those that counting finds in an archive."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tracline.batch.prediction.tallied import tallied
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population
from tracline.predict.counting.split import Split
from tracline.predict.counting.watched_rules import watch
from tracline.predict.sampling.rule_outcomes import rule_outcomes
from tracline.predict.validation.outcomes import outcomes
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import pack_text
from tracline.schemas.event import Content, Event, Kind

from ...support.event_rows import session, user, write

RULES = pack_text(
    """
pack: desk
version: 1
propositions: {p: text contains "p", q: text contains "q"}
rules:
  - {id: answered, severity: low, formula: always (p -> eventually q)}
  - {id: stops, severity: low, recover: none, formula: always next next p}
  - {id: stepped, severity: low, steps: p or q, formula: always (p -> next q)}
"""
)
HORIZONS = 1, 2, 4
WORDS = "", "p", "q", "pq", None


def random_rows(seed: int) -> list[list[dict]]:
    """Return the rows of sessions by session; some texts were not captured, and some sessions are open."""
    random = Random(seed)
    return [
        session(
            f"s{number:02}",
            *(user(random.choices(WORDS, (3, 3, 3, 3, 1))[0]) for _ in range(random.randint(1, 9))),
            end=random.random() < 0.7,
        )
        for number in range(40)
    ]


def events_of(rows: list[dict]) -> list[Event]:
    """Return the rows of one session as events, without its end."""
    return [
        Event(**{**row, "kind": Kind(row["kind"]), "content": Content(row["content"])})
        for row in rows
        if row["kind"] != "end"
    ]


@pytest.mark.slow
def test_outcomes_are_those_that_counting_finds(tmp_path: Path) -> None:
    """An event or a close at which a rule is unjudged shows nothing of the horizon that it is in."""
    by_session = random_rows(3)
    archive = write(tmp_path / "events.parquet", [row for rows in by_session for row in rows])
    (tmp_path / "scratch").mkdir()
    options = AuditOptions(idle_s=1e9)
    tally = tallied(archive, watch(RULES), Split(hold_out=0.0), tmp_path / "scratch", options, Population())
    ids, compiled, compared = tally.session_ids, compile_rule_set(RULES), 0
    for number, counted in enumerate(tally.counted()):
        walks, found = counted.walks, outcomes(counted.walks)
        begins = {ids[name]: int(walks.bounds[at]) for at, name in enumerate(walks.sessions.tolist())}
        for rows in by_session:
            events = events_of(rows)
            for at in range(1, len(events) + 1):
                for within in HORIZONS:
                    outcome = rule_outcomes(compiled, events, at, within)[number]
                    if outcome is not None:
                        place = begins[rows[0]["session_id"]] + outcome.place
                        known = bool(found.is_known(within)[place])
                        wanted = bool(found.violated(within)[place]) if known else None
                        assert outcome.within(within, closed=rows[-1]["kind"] == "end") == wanted
                        compared += 1
    assert compared > 500
