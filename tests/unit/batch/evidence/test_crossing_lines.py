"""Lines of many crossings, against the encoding of each crossing's record."""

from __future__ import annotations

from random import Random

import pytest
from tracline.batch.evidence.crossing_lines import (
    CrossedRisk,
    CrossedRule,
    CrossingLines,
    EventTexts,
    json_text,
)
from tracline.schemas.records.risk_crossing import RiskCrossing, RiskLevel, encode_crossing, rounded
from tracline.schemas.time import rfc3339
from tracline.schemas.verdict import Severity

TEXTS = ("s", "é😀", 'a"b\\c/', "".join(map(chr, range(33))), "\x7f\u2028", "")
RISKS = (0.0, 1.0, 0.5, 1e-9, 1e-7, 0.1234567894, 1 / 3, 0.9999999999)


@pytest.mark.parametrize("seed", range(20))
def test_the_lines_are_those_of_the_records(seed: int) -> None:
    """Any texts, risks, horizons and absent values."""
    random = Random(seed)
    text, number = (lambda: random.choice(TEXTS)), (lambda: random.choice(RISKS))
    within = random.choice((5, None))
    rule = CrossedRule(text(), text(), "d" * 64, random.choice(list(Severity)), "c" * 64, within, number())
    lines = CrossingLines(rule)
    for place in range(5):
        risk = CrossedRisk(number(), number(), number(), random.randint(0, 99), "context")
        given = risk if place else None
        for level in RiskLevel:
            session, event, agent, value = text(), text(), random.choice((None, text())), text()
            times = random.randint(-(10**17), 10**18), random.randint(0, 10**18)
            late, history, seq = random.random() < 0.5, random.random() < 0.5, random.randint(1, 10**6)
            record = RiskCrossing(
                level=level,
                pack=rule.pack,
                rule=rule.rule,
                rule_digest=rule.rule_digest,
                chain=rule.chain,
                session_id=session,
                occurrence=rfc3339(times[0]),
                slice=value or None,
                seq=seq,
                event_id=event,
                time=rfc3339(times[1]),
                within=within,
                risk=None if given is None else rounded(given.risk),
                low=None if given is None else rounded(given.low),
                high=None if given is None else rounded(given.high),
                sessions=None if given is None else given.sessions,
                basis=None if given is None else given.basis,
                threshold=rounded(rule.threshold),
                severity=rule.severity,
                agent=agent,
                late=late,
                history=history,
            )
            fields = session, rfc3339(times[0]), event, rfc3339(times[1]), seq, agent, late, history
            texts = EventTexts(*(json_text(each).decode() for each in fields))
            found = lines.line(place, level, given, texts, json_text(value or None).decode())
            assert found.encode() == encode_crossing(record) + b"\n"
