"""The findings of an audit as SARIF 2.1.0, for code-scanning tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.verdict import Verdict
from ..terminal import clean, quoted
from .json import array

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"info": "note", "low": "note", "medium": "warning", "high": "error", "critical": "error"}
"""The SARIF level of each severity."""
MESSAGES = {
    "violated": "was violated",
    "unmet": "was left unmet when the session closed",
    "unjudged": "cannot be judged: {reason}",
}

SHOWN = ("verdict", "session_id", "occurrence", "slice", "event_id", "time", "agent", "history")
"""The fields of a verdict in the property bag of its result."""


def sarif(summary: dict[str, Any], verdicts: Iterator[VerdictRecord]) -> Iterator[str]:
    """Yield a SARIF log of one run. Only violated, unmet and unjudged verdicts are results."""
    rules = summary["rules"]
    index = {(rule["pack"], rule["id"]): (place, key) for place, (key, rule) in enumerate(rules.items())}
    driver = {
        "name": "tracline",
        "version": version("tracline"),
        "rules": [_rule(key, rule) for key, rule in rules.items()],
    }
    yield "{"
    yield f'  "$schema": {json.dumps(SCHEMA)},'
    yield '  "version": "2.1.0",'
    yield '  "runs": [{'
    yield f'    "tool": {json.dumps({"driver": driver})},'
    results = (
        _result(verdict, rules, *index[verdict.pack, verdict.rule])
        for verdict in verdicts
        if verdict.verdict in MESSAGES
    )
    yield from array("results", results, indent="    ")
    yield "  }]"
    yield "}"


def _rule(key: str, rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": key,
        "shortDescription": {"text": quoted(rule["title"]) or key},
        "defaultConfiguration": {"level": LEVELS[rule["severity"]]},
        "properties": {"pack": rule["pack"], "severity": rule["severity"], "digest": rule["rule_digest"]},
    }


def _result(verdict: VerdictRecord, rules: dict[str, Any], place: int, key: str) -> dict[str, Any]:
    message = MESSAGES[verdict.verdict].format(reason=verdict.reason)
    is_open = verdict.verdict is Verdict.UNJUDGED
    session = clean(verdict.session_id)
    return {
        "ruleId": key,
        "ruleIndex": place,
        # SARIF requires the level `none` for any kind except `fail`.
        "kind": "open" if is_open else "fail",
        "level": "none" if is_open else LEVELS[verdict.severity],
        "message": {"text": f"{quoted(rules[key]['title']) or key}: {message} (step {verdict.seq})"},
        "locations": [
            {
                "logicalLocations": [
                    {
                        "name": f"step {verdict.seq}",
                        "fullyQualifiedName": f"{session}/{verdict.occurrence}/{verdict.seq}",
                        "kind": "event",
                    }
                ]
            }
        ],
        "partialFingerprints": {"traclineVerdict/v1": verdict.id},
        "occurrenceCount": 1,
        "properties": {name: getattr(verdict, name) for name in SHOWN},
    }
