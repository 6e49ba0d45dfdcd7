"""Likely mistakes from what was observed while events were labelled: as from reading them again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from tracline.batch.audit import audit as auditing
from tracline.batch.audit.audit import audit
from tracline.batch.contents import archive_events, beginnings, observed_events
from tracline.batch.contents.archive_events import ArchiveEvents
from tracline.batch.contents.never_true import rule_mistakes
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.prepare.prepare import prepare
from tracline.batch.sources.discover import Population
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import pack_text

from ...support.event_rows import call, result, session, user, write

pytestmark = pytest.mark.slow

PACK = """
pack: desk
propositions:
  call: kind == "tool_call"
  misspelt: kind == "tool_call" and tool == "refnd"
  pattern: tool starts with "ship_"
  sent: kind == "tool_result" and tool == "ship" and result.status == "sent"
  never_sent: kind == "tool_result" and tool == "ship" and result.status == "packd"
  late: kind == "tool_call" and tool == "late" and args.reason == "rain"
  number: kind == "tool_call" and tool == "ship" and args.wieght > 3
  list: kind == "tool_call" and tool == "ship" and any(args.items, .nam == "tea")
  whole: kind == "tool_call" and tool == "ship" and args.items == "tea"
  tenant: attributes["tenant"] == "x"
  failed: kind == "tool_result" and tool == "refund" and error is not null
  of_agent: agent == "suport" or kind == "user"
rules:
  - {id: r0, formula: always not (misspelt or pattern or number or list or whole)}
  - {id: r1, formula: always not (sent or never_sent or late)}
  - {id: r2, formula: always not (tenant or failed or of_agent)}
  - {id: r3, formula: always not call, for_each: args.order_id}
  - {id: r4, formula: always not late, for_each: args.order_id}
  - {id: r5, formula: always not (misspelt or call), for_each: [args.parcel, args.ordr]}
"""


def rows() -> list[list[dict]]:
    """Return sessions in which the later ones have what the first ones lack."""
    found: list[list[dict]] = []
    for number in range(30):
        status = "sent" if number > 20 else ["packed", "shipped"][number % 2]
        args = json.dumps({"order": number, "weight": number, "items": [{"name": "tea"}]})
        steps = [
            user("hello"),
            call("ship", args=args, agent="support"),
            result("c1", tool="ship", args=args, result=json.dumps({"status": status})),
            call("refund", "c2", args="{}"),
            result("c2", tool="refund", args="{}", result="Error: closed"),
        ]
        if number > 25:
            steps.append(call("late", "c3", args='{"reason": "snow", "ordr": 3}'))
        found.append(session(f"s{number:02d}", *steps))
    return found


@pytest.fixture
def rules() -> RuleSet:
    """Return rules with a mistake of each kind."""
    return pack_text(PACK)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of three files."""
    sessions = rows()
    for number in range(3):
        part = [row for each in sessions[10 * number : 10 * number + 10] for row in each]
        write(tmp_path / "archive" / f"{number}.parquet", part)
    return tmp_path / "archive"


def entries(summary: dict) -> dict:
    """Return the entries of a summary on likely mistakes."""
    return {name: summary[name] for name in ("never_true", "likely_mistakes")}


def read_again(archive: Path, rules: RuleSet, summary: dict, scratch: Path) -> dict:
    """Return the entries that reading the archive gives, with the propositions that an audit found."""
    scratch.mkdir(exist_ok=True)
    never = [(each["pack"], each["proposition"]) for each in summary["never_true"]]
    return asdict(rule_mistakes(prepare(archive, scratch, Population()), rules.rules, never, None))


@pytest.mark.parametrize(
    ("in_order", "threads", "probed", "pass_rows"),
    [(False, 1, 4, 500_000), (False, 2, 1, 40), (True, 2, 2, 20), (True, 1, 4, 25)],
)
def test_what_was_observed_is_what_reading_finds(
    archive: Path,
    rules: RuleSet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_order: bool,
    threads: int,
    probed: int,
    pass_rows: int,
) -> None:
    """With few or many beginnings, in passes of any size, with and without a sort: the same entries."""
    monkeypatch.setattr(spill, "PASS_ROWS", pass_rows)
    for module in (archive_events, observed_events):
        monkeypatch.setattr(module, "PROBED_PASSES", probed)
    monkeypatch.setattr(beginnings, "PROBED_CONTENTS", 2)
    if in_order:
        monkeypatch.setattr(auditing, "FILE_ROWS_MIN", 0)
        monkeypatch.setattr(spill, "BUCKET_ROWS", 1)
    found = audit(archive, rules, tmp_path / "out", AuditOptions(threads=threads))
    assert (found.rows_in_order > 0) == in_order
    assert entries(found.summary) == read_again(archive, rules, found.summary, tmp_path / "scratch")
    reasons = [each["reason"] for each in found.summary["never_true"] + found.summary["likely_mistakes"]]
    assert '`result.status` never has the value "packd"' in reasons
    assert "`args.wieght` never exists in the calls of `ship`" in reasons
    assert not any('"sent"' in reason for reason in reasons)


def test_an_audit_reads_no_events_again_for_mistakes(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kinds of mistakes are found among the events that were labelled.

    A slice key is an exception where a proposition of its rule is never true.
    """
    text = "\n".join(line for line in PACK.splitlines() if "r4" not in line and "r5" not in line)
    rules = pack_text(text)
    plain = audit(archive, rules, tmp_path / "plain", AuditOptions())
    monkeypatch.setattr(ArchiveEvents, "_each", unread)
    found = audit(archive, rules, tmp_path / "observed", AuditOptions())
    assert entries(found.summary) == entries(plain.summary)
    named = {each["proposition"] for each in found.summary["never_true"] if each["suggestion"]}
    assert named >= {"misspelt", "never_sent", "number", "list"}


def unread(_archive: ArchiveEvents, query: Callable[..., object]) -> Iterator[object]:
    """Fail instead of reading events."""
    raise AssertionError(f"{query} reads events again")
