"""`tracline tools`: the tools of a source, their callers and the paths that rules can name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.contents.json_paths import PATHS_MAX, PathCounter
from tracline.cli import tracline

from ...support.event_rows import call, session, user, write

ORDER = '{"order": {"lines": [{"sku": "a1", "odd key": 2}, {"sku": "b2"}]}, "paid": true, "tags": []}'


def run(source: Path, *more: str) -> Result:
    """Run the command on a source."""
    return CliRunner().invoke(tracline, ["tools", str(source), *more])


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return an archive with a tool that the agent, a sub-agent and an unnamed agent call."""

    def returned(text: str, **more: object) -> dict:
        return {"kind": "tool_result", "call_id": "c1", "tool": "find_order", "result": text, **more}

    rows = [
        *session(
            "one",
            user("hi", agent="desk"),
            call("find_order", args='{"id": "w1"}', agent="desk"),
            returned(ORDER, agent="desk"),
            call("find_order", args='{"id": "w2", "deep": {"x": 1}}', agent="desk", nested=True),
            returned("Error: no such order", agent="desk"),
        ),
        *session("two", call("find_order", args='{"id": "w1"}'), call("escalate", args="{}")),
    ]
    write(tmp_path / "archive" / "events.parquet", rows)
    return tmp_path / "archive"


def test_every_path_of_a_tool_is_listed_with_samples(archive: Path) -> None:
    """Arguments and results have their leaves as predicates name them, with counts and different samples."""
    found = run(archive, "--format", "json")
    assert found.exit_code == 0, found.output
    order, escalate = json.loads(found.stdout)
    paths = {path["path"]: (path["values"], set(path["samples"])) for path in order["paths"]}
    assert paths == {
        "args.id": (3, {"w1", "w2"}),
        "args.deep.x": (1, {"1"}),
        "result.order.lines[*].sku": (2, {"a1", "b2"}),
        'result.order.lines[*]["odd key"]': (1, {"2"}),
        "result.paid": (1, {"true"}),
        "result.tags": (1, {"[]"}),
        "result": (1, {"Error: no such order"}),
    }
    assert (order["calls"], order["results"], order["errors"], order["sessions"]) == (3, 2, 1, 2)
    assert sorted(order["callers"], key=str) == [
        {"agent": "desk", "caller": "agent", "nested": False, "calls": 1},
        {"agent": "desk", "caller": "sub-agent", "nested": True, "calls": 1},
        {"agent": None, "caller": "agent", "nested": False, "calls": 1},
    ]
    assert (escalate["tool"], escalate["paths"]) == (
        "escalate",
        [{"path": "args", "values": 1, "samples": ["{}"]}],
    )


def test_the_table_is_not_cut_in_a_pipe(archive: Path) -> None:
    """Piped lines are whole; a tool can be selected by a part of its name."""
    found = run(archive, "--tool", "order")
    assert found.stdout.startswith("2 tools in 7 events of 2 sessions\n")
    assert "escalate" not in found.stdout
    callers = "an unnamed agent 1, desk 1, desk (sub-agent) 1"
    assert f"  called by {callers}\n" in found.stdout
    assert "…" not in found.stdout


def test_a_narrow_terminal_cuts_lines(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines fit the columns that are set."""
    monkeypatch.setenv("COLUMNS", "40")
    lines = run(archive).stdout.splitlines()
    assert max(map(len, lines)) <= 40
    assert any(line.endswith("…") for line in lines)


def test_json_with_ids_as_keys_is_bounded() -> None:
    """A counter stops at a number of paths, and goes on with the values of those that it has."""
    counter = PathCounter("result")
    for number in range(2 * PATHS_MAX):
        counter.add(json.dumps({f"id{number}": number, "same": 1}))
    paths = {path.path: path.values for path in counter.paths()}
    assert len(paths) == PATHS_MAX
    assert paths["result.same"] == 2 * PATHS_MAX


def test_the_customers_tools_are_apart(tmp_path: Path) -> None:
    """A chat log names the customer as the requestor of a call; the answer counts as no call."""
    call = {"id": "c1", "name": "toggle_roaming", "arguments": {}, "requestor": "user"}
    messages = [
        {"role": "user", "content": None, "tool_calls": [call]},
        {"role": "tool", "id": "c1", "requestor": "user", "content": "on"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**call, "id": "c2", "requestor": "assistant"}],
        },
    ]
    (tmp_path / "log.json").write_text(json.dumps([{"id": "a", "messages": messages}]))
    (tool,) = json.loads(run(tmp_path / "log.json", "--format", "json").stdout)
    assert sorted((caller["caller"], caller["calls"]) for caller in tool["callers"]) == [
        ("agent", 1),
        ("customer", 1),
    ]
    assert "called by an unnamed agent 1, the customer 1" in run(tmp_path / "log.json").stdout
