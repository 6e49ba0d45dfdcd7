"""The result of an audit as JUnit XML: a suite per pack, a case per rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from ...rules.model.rule import Precision
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.records.violation_rate import rate_of
from ...schemas.verdict import Severity
from ..terminal import clean, quoted


def junit(
    summary: dict[str, Any],
    examples: Mapping[str, Sequence[VerdictRecord]],
    accepted: Mapping[str, str],
    min_severity: Severity = Severity.INFO,
) -> str:
    """Return the XML text. A broken rule fails and lists its first sessions.

    A broken rule in `accepted` is skipped for the reason given there. So is a rule that applied to no
    session, or was unjudged in a session and never broken: it has not passed.
    """
    packs: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for key, rule in summary["rules"].items():
        if Severity(rule["severity"]).rank < min_severity.rank:
            continue
        packs.setdefault(rule["pack"], []).append((key, rule))
    root = Xml.Element("testsuites", name="tracline audit")
    for pack, rules in packs.items():
        suite = Xml.SubElement(root, "testsuite", name=pack)
        for key, rule in rules:
            case = Xml.SubElement(suite, "testcase", classname=pack, name=rule["id"], time="0")
            _describe(case, rule)
            _judge(case, rule, examples.get(key, ()), accepted.get(key))
        _count(suite, tests="testcase", failures="failure", skipped="skipped")
    _count(root, tests="testcase", failures="failure")
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode")


def _judge(
    case: Xml.Element, rule: dict[str, Any], examples: Sequence[VerdictRecord], accepted: str | None
) -> None:
    broken, unjudged = rule["violations"] + rule["unmet"], rule["sessions_unjudged"]
    rate, times = rate_of(rule), f"{broken} {'time' if broken == 1 else 'times'}"
    if broken and accepted is not None:
        Xml.SubElement(case, "skipped", message=f"{quoted(rule['title'])}: {times}, {accepted}")
    elif broken:
        failure = Xml.SubElement(
            case,
            "failure",
            type=rule["severity"],
            message=f"{quoted(rule['title'])}: {times}, in sessions: {rate.described}",
        )
        lines = [
            f"session {clean(found.session_id)}, step {found.seq}: {found.described}, "
            f"event {clean(found.event_id)}, verdict {found.id}"
            for found in examples
        ]
        if more := broken - len(lines):
            lines.append(f"and {more:,} more findings, in the bundle's verdicts.jsonl")
        failure.text = "\n".join(lines)
        if unjudged:
            Xml.SubElement(case, "system-out").text = f"sessions unjudged: {unjudged}"
    elif not rule["sessions_applicable"]:
        reason = "applies to no session that could be judged"
        Xml.SubElement(case, "skipped", message=f"{reason} ({unjudged} unjudged)")
    elif unjudged:
        message = f"sessions held: {rate.clear}, unjudged: {unjudged}, rate: {rate.percent}"
        Xml.SubElement(case, "skipped", message=message)


def _describe(case: Xml.Element, rule: dict[str, Any]) -> None:
    """Add the texts about the rule that its pack gives as properties of the case."""
    texts = {
        "policy": quoted(rule.get("policy", "")),
        "owner": clean(rule.get("owner", "")),
        "tags": ", ".join(rule.get("tags", ())),
        "precision": clean(Precision(**rule["precision"]).described) if "precision" in rule else "",
    }
    if any(texts.values()):
        properties = Xml.SubElement(case, "properties")
        for name, text in texts.items():
            if text:
                Xml.SubElement(properties, "property", name=name, value=text)


def _count(element: Xml.Element, **counted: str) -> None:
    """Set attributes of the element to the number of its descendants with a tag."""
    for name, tag in counted.items():
        element.set(name, str(len(element.findall(f".//{tag}"))))
    element.set("errors", "0")
    element.set("time", "0")
