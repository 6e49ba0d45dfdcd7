"""Lines of many crossings of one rule: the parts that depend on the rule and the risk are made once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ...schemas.records.risk_crossing import RiskLevel, decimal, rounded
from ...schemas.verdict import Severity

json_text = msgspec.json.Encoder().encode


class CrossedRule(NamedTuple):
    """The fields of a crossing that its rule and the chain decide."""

    pack: str
    rule: str
    rule_digest: str
    severity: Severity
    chain: str
    within: int | None
    threshold: float


class CrossedRisk(NamedTuple):
    """The fields of a crossing that the context decides, None where the rule has no risk any more."""

    risk: float
    low: float
    high: float
    sessions: int
    basis: str


class EventTexts(NamedTuple):
    """The fields of a crossing that its event decides, as the texts of their JSON values."""

    session_id: str
    occurrence: str
    event_id: str
    time: str
    seq: str
    agent: str
    late: str
    history: str


class CrossingLines:
    """The lines of a rule's crossings, byte for byte those of `encode_crossing`, without drift."""

    def __init__(self, rule: CrossedRule) -> None:
        self._rule = {name: json_text(value).decode() for name, value in rule._asdict().items()}
        self._rule["threshold"] = decimal(rounded(rule.threshold)).decode()
        named = ",".join(self._rule[name] for name in ("pack", "rule", "rule_digest", "chain"))
        self._id_begins = f'["tracline-risk/1",{named},'
        self._id_ends = f",{self._rule['within']}]"
        self._parts: dict[tuple[int, RiskLevel], tuple[str, ...]] = {}

    def line(
        self, place: int, level: RiskLevel, risk: CrossedRisk | None, event: EventTexts, value: str
    ) -> str:
        """Return the line of a crossing; `place` identifies the risk, `value` is the JSON of the slice."""
        parts = self._parts.get((place, level))
        if parts is None:
            parts = self._parts[place, level] = self._made(risk, level)
        session_id, occurrence, event_id, time, seq, agent, late, history = event
        basis, high, after_id, low, middle, sessions, end, id_level = parts
        text = f"{self._id_begins}{session_id},{occurrence},{value},{event_id}{id_level}"
        crossing_id = hashlib.sha256(text.encode()).hexdigest()[:32]
        return (
            f'{{"agent":{agent}{basis}{event_id}{high}{history},"id":"{crossing_id}{after_id}{late}{low}'
            f'{occurrence}{middle}{seq},"session_id":{session_id}{sessions}{value}{end}{time}'
            f',"within":{self._rule["within"]}}}\n'
        )

    def _made(self, risk: CrossedRisk | None, level: RiskLevel) -> tuple[str, ...]:
        """Return the parts between the fields of the event, and the end of the text that the id hashes."""
        rule, numbers = self._rule, _numbers(risk)
        return (
            f',"basis":{numbers["basis"]},"chain":{rule["chain"]},"drift":false,"event_id":',
            f',"high":{numbers["high"]},"history":',
            '","late":',
            f',"level":"{level.value}","low":{numbers["low"]},"occurrence":',
            f',"pack":{rule["pack"]},"risk":{numbers["risk"]},"rule":{rule["rule"]}'
            f',"rule_digest":{rule["rule_digest"]},"seq":',
            f',"sessions":{numbers["sessions"]},"severity":{rule["severity"]},"slice":',
            f',"threshold":{rule["threshold"]},"time":',
            f',"{level.value}"{self._id_ends}',
        )


def _numbers(risk: CrossedRisk | None) -> Mapping[str, str]:
    """Return the JSON texts of a risk's fields."""
    if risk is None:
        return dict.fromkeys(CrossedRisk._fields, "null")
    texts = {name: decimal(rounded(getattr(risk, name))).decode() for name in ("risk", "low", "high")}
    return {**texts, "sessions": str(risk.sessions), "basis": json_text(risk.basis).decode()}
