"""Propositions that are true at no event, in the output of `tracline audit` and `tracline label`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.prepare import spill
from tracline.cli import tracline

from ...support.event_rows import session, user, write

pytestmark = pytest.mark.slow

PACK = """
pack: shop
propositions:
  seen: kind == "tool_result" and tool == "get_order"
  misspelt: kind == "tool_call" and tool == "get_ordr"
  unlike: tool in ["transfer", "escalate"]
  length: tool == "get_order" and args.items.length > 2
  field: kind == "tool_result" and tool == "get_order" and result.order.state == "sent"
  other_half: kind == "tool_call" and tool == "get_order" and result.order.status == "sent"
  attribute: attributes["tenant"] == "x"
  underage: tool == "get_order" and any(args.guests, .agee < 12)
  no_list: tool == "get_order" and args.id in result.itms[*].id
  unequal: kind == "tool_call" and args.id == "3"
  unlucky: kind == "user" and text contains "zebra"
  uncaptured: kind == "assistant" and text contains "zebra"
rules:
  - id: first
    formula: always (misspelt or unlike or length or field or other_half or attribute -> once seen)
  - {id: lists, formula: always not (underage or no_list)}
  - {id: second, formula: always not (unequal or unlucky or uncaptured)}
"""
ARGS = '{"id": "1", "items": ["a", "b"], "guests": [{"age": 3}]}'
ORDER = {"kind": "tool_call", "tool": "get_order", "args": ARGS}
ANSWER = {"kind": "tool_result", "tool": "get_order", "result": '{"order": {"status": "sent"}}'}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the pack, and an archive of two files in which all but one proposition are never true."""
    (tmp_path / "shop.yaml").write_text(PACK)
    first = session("a", user("hello"), ORDER, ANSWER, {"kind": "assistant", "text": "sent"})
    second = session("b", ORDER, ANSWER, {"kind": "assistant", "text": None, "content": "absent"})
    write(tmp_path / "archive" / "a.parquet", first)
    write(tmp_path / "archive" / "b.parquet", second)
    return tmp_path


def run(place: Path, command: str, *more: str) -> Result:
    """Run a command over the archive with the pack."""
    line = [command, str(place / "archive"), "--rules", str(place / "shop.yaml"), *more]
    return CliRunner().invoke(tracline, line)


def reasons(entries: list[dict]) -> dict[str, tuple[str, str | None]]:
    """Return reason and suggestion of each entry."""
    return {entry["proposition"]: (entry["reason"], entry["suggestion"]) for entry in entries}


EXPECTED = {
    "misspelt": ("the tool `get_ordr` is not called here", "did you mean `get_order`, 2 calls?"),
    "unlike": ("none of the tools `escalate`, `transfer` is called here", None),
    "length": (
        "`args.items.length` never exists in the events of `get_order`",
        "the number of elements is `count(args.items)`",
    ),
    "underage": (
        "`args.guests[*].agee` never exists in the events of `get_order`",
        "did you mean `args.guests[*].age`?",
    ),
    "no_list": ("`result.itms` never exists in the events of `get_order`", "there is `result.order`"),
    "field": (
        "`result.order.state` never exists in the results of `get_order`",
        "did you mean `result.order.status`?",
    ),
    "other_half": ("`result.order.status` never exists in the calls of `get_order`", None),
    "attribute": ('`attributes["tenant"]` never exists in the events', None),
    "unequal": ("no event matches", None),
    "unlucky": ("no event matches", None),
}


def test_each_mistake_has_its_reason(place: Path) -> None:
    """The summary has every proposition that is never true and never unknown, with the rules that use it."""
    assert run(place, "audit", "--out", str(place / "out")).exit_code == 0
    entries = json.loads((place / "out" / "summary.json").read_text())["never_true"]
    assert reasons(entries) == EXPECTED
    assert {tuple(entry["rules"]) for entry in entries} == {("first",), ("second",), ("lists",)}
    labelled = json.loads(run(place, "label", "--format", "json").stdout)["never_true"]
    assert labelled == entries


def test_the_table_and_notes_name_them(place: Path) -> None:
    """The table ends with them, label too; other formats have likely mistakes on standard error."""
    line = "shop/misspelt: the tool `get_ordr` is not called here: did you mean `get_order`, 2 calls?"
    table = run(place, "audit", "--out", str(place / "out"))
    assert line in table.stdout
    assert "shop/unequal, shop/unlucky: no event matches" in table.stdout
    exported = run(place, "audit", "--out", str(place / "out"), "--format", "junit")
    assert line in exported.stderr
    assert "no event matches" not in exported.stderr
    assert line not in exported.stdout
    assert line in run(place, "label").stdout


def test_the_summary_is_the_same_however_the_rows_are_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes of single rows, and sessions judged in order, give the same bytes."""
    run(place, "audit", "--out", str(place / "whole"))
    monkeypatch.setattr(spill, "PASS_ROWS", 1)
    monkeypatch.setattr(spill, "BUCKET_ROWS", 2)
    run(place, "audit", "--out", str(place / "parts"))
    whole, parts = (json.loads((place / name / "summary.json").read_text()) for name in ("whole", "parts"))
    assert whole["never_true"] == parts["never_true"] != []


def test_an_empty_archive_has_no_mistakes(place: Path) -> None:
    """Without events no proposition is a mistake."""
    for file in (place / "archive").iterdir():
        write(file, [])
    run(place, "audit", "--out", str(place / "out"))
    assert json.loads((place / "out" / "summary.json").read_text())["never_true"] == []
