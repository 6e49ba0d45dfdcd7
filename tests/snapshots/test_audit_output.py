"""The output and files of `tracline audit`, and the output of `tracline show`, for chat logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

Snapshot = Callable[[str, str], None]

PACK = """\
pack: refunds
version: 1
propositions:
  verified: kind == "tool_result" and tool == "verify"
  refund: kind == "tool_call" and tool == "refund"
  call: kind == "tool_call"
  result: kind == "tool_result"
  survey: kind == "assistant" and text contains "rate"
rules:
  - id: verify-first
    title: No refund before the customer is verified
    severity: high
    formula: always (refund -> once verified)
  - id: answered
    title: Every call gets a result
    severity: low
    for_each: call_id
    formula: always (call -> eventually result)
  - id: one-refund
    title: An order is refunded once
    severity: critical
    for_each: args.order
    formula: "always (refund -> at_most[1] refund)"
  - id: survey-once
    title: One survey a chat
    severity: info
    formula: "always (survey -> at_most[1] survey)"
"""


def called(tool: str, call_id: str, **args: str) -> dict:
    """A message in which the assistant calls a tool."""
    function = {"name": tool, "arguments": json.dumps(args)}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def answered(call_id: str) -> dict:
    """The tool's answer."""
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


CHATS = [
    {
        "id": "clean",
        "messages": [
            {"role": "user", "content": "I want my money back"},
            called("verify", "c1", email="ann@example.com"),
            answered("c1"),
            called("refund", "c2", order="A1"),
            answered("c2"),
        ],
    },
    {
        "id": "hasty",
        "messages": [
            {"role": "user", "content": "Refund A2, please"},
            called("refund", "c1", order="A2"),
            answered("c1"),
            called("refund", "c2", order="A2"),
        ],
    },
    {"id": "chatty", "messages": [{"role": "assistant", "content": "Please rate us!"}] * 2},
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the chat logs and the pack."""
    for number, chat in enumerate(CHATS):
        start = f"2026-02-1{number}T09:00:00Z"
        stamped = [{**message, "timestamp": start} for message in chat["messages"]]
        (tmp_path / "chats").mkdir(exist_ok=True)
        (tmp_path / "chats" / f"{number}.json").write_text(json.dumps({**chat, "messages": stamped}))
    (tmp_path / "refunds.yaml").write_text(PACK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_table(place: Path, snapshot: Snapshot) -> None:
    """The table of an audit with broken, held and unapplied rules."""
    assert place.is_dir()
    found = CliRunner().invoke(tracline, ["audit", "chats", "--rules", "refunds.yaml", "--out", "bundle"])
    assert found.exit_code == 0, found.output
    snapshot("audit-table.txt", found.output)


def test_the_verdicts(place: Path, snapshot: Snapshot) -> None:
    """The lines of the bundle: ids, times and witnesses are the same on any machine."""
    CliRunner().invoke(tracline, ["audit", "chats", "--rules", "refunds.yaml", "--out", "bundle"])
    snapshot("audit-verdicts.jsonl", (place / "bundle" / "verdicts.jsonl").read_text())


@pytest.mark.slow
def test_the_sessions_that_are_shown(place: Path, snapshot: Snapshot) -> None:
    """The list of sessions with what rules find, and one session, on a narrow screen, too."""
    assert place.is_dir()
    for name, words in (
        ("show-sessions.txt", ["show", "chats", "--rules", "refunds.yaml"]),
        ("show-session.txt", ["show", "chats", "--session", "hasty", "--rules", "refunds.yaml"]),
    ):
        found = CliRunner().invoke(tracline, words)
        assert found.exit_code == 0, found.output
        snapshot(name, found.output)
    narrow = CliRunner().invoke(tracline, ["show", "chats", "--session", "hasty"], env={"COLUMNS": "40"})
    snapshot("show-session-narrow.txt", narrow.output)
