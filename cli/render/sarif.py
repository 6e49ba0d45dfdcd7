"""The findings of an audit as SARIF 2.1.0, for code hosts and code-scanning tools.

A result has the place that code hosts require, the line of the rule in its pack; the event is its logical
location. Counts and texts stay within the limits that GitHub documents for uploads ("SARIF support for code
scanning").
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...rules.model.rule import Precision
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.verdict import Severity, Verdict
from ..terminal import clean, quoted
from .json import array
from .rule_places import RulePlace

if TYPE_CHECKING:
    from ...batch.findings.waiving import WaivedVerdict

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

RESULTS_MAX = 25_000
TAGS_MAX = 20
TEXT_CHARACTERS_MAX = 1_024
"""The limits of a run's results, of a rule's tags and of its descriptions."""

_UNJUDGED_RANK = -1


class ComparedBaseline(NamedTuple):
    """The findings of a baseline: whether it has one, by id, and those that vanished since."""

    has: Callable[[str], bool]
    vanished: Callable[[], Iterator[VerdictRecord]]


def sarif(
    summary: dict[str, Any],
    read: Callable[[], Iterator[VerdictRecord]],
    places: Mapping[str, RulePlace],
    min_severity: Severity = Severity.INFO,
    waived: Mapping[str, WaivedVerdict] = MappingProxyType({}),
    baseline: ComparedBaseline | None = None,
) -> Iterator[str]:
    """Yield a SARIF log of one run. Only violated, unmet and unjudged verdicts are results.

    `read` reads the verdicts from the beginning. `places` are those of the rules, by their names in the
    summary. Of too many results the most severe are in the log, and a notification counts the others. Waived
    verdicts, by id, are suppressed. With a baseline, results have their state against it, and its findings
    that vanished are results, too, as far as these rules have them.
    """
    rules = {
        key: rule
        for key, rule in summary["rules"].items()
        if Severity(rule["severity"]).rank >= min_severity.rank
    }
    index = {(rule["pack"], rule["id"]): (place, key) for place, (key, rule) in enumerate(rules.items())}

    def is_result(found: VerdictRecord) -> bool:
        return found.verdict in MESSAGES and (found.pack, found.rule) in index

    def absent() -> Iterator[VerdictRecord]:
        return iter(()) if baseline is None else filter(is_result, baseline.vanished())

    def result(found: VerdictRecord) -> dict[str, Any]:
        return _result(found, rules, places, *index[found.pack, found.rule])

    room, left_out = _room(filter(is_result, read()))
    absent_room = RESULTS_MAX - room.total()
    left_out += max(0, sum(1 for _ in absent()) - absent_room)
    listed = (
        result(found) | _suppressed(waived.get(found.id)) | _baseline_state(found, baseline)
        for found in filter(is_result, read())
        if _takes(room, found)
    )
    gone = (result(found) | {"baselineState": "absent"} for found in islice(absent(), absent_room))
    descriptors = [_rule(key, rule, places[key]) for key, rule in rules.items()]
    yield from _log(descriptors, left_out, chain(listed, gone))


def _log(rules: Sequence[dict[str, Any]], left_out: int, results: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a log of one run."""
    driver = {"name": "tracline", "version": version("tracline"), "rules": rules}
    yield "{"
    yield f'  "$schema": {json.dumps(SCHEMA)},'
    yield '  "version": "2.1.0",'
    yield '  "runs": [{'
    yield f'    "tool": {json.dumps({"driver": driver})},'
    yield '    "columnKind": "unicodeCodePoints",'
    yield f'    "invocations": {json.dumps([_invocation(left_out)])},'
    yield from array("results", results, indent="    ")
    yield "  }]"
    yield "}"


def _suppressed(waived: WaivedVerdict | None) -> dict[str, Any]:
    """Return the suppression of a waived result."""
    if waived is None:
        return {}
    text = f"{quoted(waived.reason)} (waived by {quoted(waived.by)} until {waived.until})"
    return {"suppressions": [{"kind": "external", "status": "accepted", "justification": text}]}


def _baseline_state(found: VerdictRecord, baseline: ComparedBaseline | None) -> dict[str, Any]:
    """Return the state of a result against the baseline, if there is one."""
    if baseline is None:
        return {}
    return {"baselineState": "unchanged" if baseline.has(found.id) else "new"}


def _rank(verdict: VerdictRecord) -> int:
    return _UNJUDGED_RANK if verdict.verdict is Verdict.UNJUDGED else verdict.severity.rank


def _room(verdicts: Iterator[VerdictRecord]) -> tuple[Counter[int], int]:
    """Return how many results of each rank the log has room for, and how many it leaves out."""
    counts = Counter(map(_rank, verdicts))
    room: Counter[int] = Counter()
    for rank in sorted(counts, reverse=True):
        room[rank] = min(counts[rank], RESULTS_MAX - room.total())
    return room, counts.total() - room.total()


def _takes(room: Counter[int], verdict: VerdictRecord) -> bool:
    """Return whether there is room for the verdict, and use it."""
    room[_rank(verdict)] -= 1
    return room[_rank(verdict)] >= 0


def _invocation(left_out: int) -> dict[str, Any]:
    """Return the invocation, with a notification if results are left out."""
    if not left_out:
        return {"executionSuccessful": True}
    text = f"{left_out} further results are left out: code hosts accept {RESULTS_MAX}; the bundle has all"
    notification = {"level": "warning", "message": {"text": text}}
    return {"executionSuccessful": True, "toolExecutionNotifications": [notification]}


def _rule(key: str, rule: dict[str, Any], place: RulePlace) -> dict[str, Any]:
    properties = {"pack": rule["pack"], "severity": rule["severity"], "digest": rule["rule_digest"]}
    properties |= {name: rule[name] for name in ("owner",) if name in rule}
    # Code hosts read `precision` as one of their own words.
    if "precision" in rule:
        properties["measuredPrecision"] = rule["precision"]
    if tags := list(dict.fromkeys(rule.get("tags", ())))[:TAGS_MAX]:
        properties["tags"] = tags
    title = quoted(rule["title"]) or key
    texts = [quoted(text) for text in (rule.get("policy", ""), *place.texts) if text] or [title]
    if "owner" in rule:
        texts.append(f"Owner: {clean(rule['owner'])}")
    if "precision" in rule:
        texts.append(f"Measured {clean(Precision(**rule['precision']).described)}.")
    return {
        "id": key,
        "name": rule["id"],
        "shortDescription": {"text": title[:TEXT_CHARACTERS_MAX]},
        "fullDescription": {"text": texts[0][:TEXT_CHARACTERS_MAX]},
        "help": {"text": "\n\n".join(texts)},
        "defaultConfiguration": {"level": LEVELS[rule["severity"]]},
        "properties": properties,
    }


def _result(
    verdict: VerdictRecord, rules: dict[str, Any], places: Mapping[str, RulePlace], place: int, key: str
) -> dict[str, Any]:
    message = MESSAGES[verdict.verdict].format(reason=verdict.reason)
    is_open = verdict.verdict is Verdict.UNJUDGED
    session = clean(verdict.session_id)
    title = quoted(rules[key]["title"]) or key
    event = {
        "name": f"step {verdict.seq}",
        "fullyQualifiedName": f"{session}/{verdict.occurrence}/{verdict.seq}",
        "kind": "event",
    }
    return {
        "ruleId": key,
        "ruleIndex": place,
        # SARIF requires the level `none` for any kind except `fail`.
        "kind": "open" if is_open else "fail",
        "level": "none" if is_open else LEVELS[verdict.severity],
        "message": {"text": f"{title}: {message} (session {session}, step {verdict.seq})"},
        "locations": [{"physicalLocation": places[key].as_sarif(), "logicalLocations": [event]}],
        # GitHub tracks alerts by `primaryLocationLineHash` only: all findings of a rule have one line.
        "partialFingerprints": {"primaryLocationLineHash": verdict.id, "traclineVerdict/v1": verdict.id},
        "occurrenceCount": 1,
        "properties": {name: getattr(verdict, name) for name in SHOWN},
    }
