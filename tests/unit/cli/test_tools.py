"""`tracline tools`: the tools of a source, their callers and the paths that rules can name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.contents import json_paths
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


def test_a_number_of_paths_is_listed_and_one_of_places_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter stops at a number of places, and goes on with the values of those that it has."""
    monkeypatch.setattr(json_paths, "NODES_MAX", 300)
    counter = PathCounter("result")
    names = ["".join(letters) for letters in product("abcdefgh", repeat=3)]
    for name in names:
        counter.add(json.dumps({"same": 1, name: 1}))
    paths = {path.path: path.values for path in counter.paths()}
    assert len(paths) == PATHS_MAX
    assert paths["result.same"] == len(names) > 300


def paths_of(values: Iterable[object]) -> dict[str, tuple[int, int | None]]:
    """Return the number of values and of ids by path."""
    counter = PathCounter("result")
    for value in values:
        counter.add(json.dumps(value))
    return {path.path: (path.values, path.keys) for path in counter.paths()}


def test_keys_that_are_ids_are_one_path() -> None:
    """Long numbers, hexadecimal ids and days are ids, and so are keys with digits that few objects have."""
    cards = [{"cards": {f"card_{4000 + at}": {"brand": "visa", "id": at}}, "name": "x"} for at in range(20)]
    wanted = {"result.cards.*.brand": (20, 20), "result.cards.*.id": (20, 20), "result.name": (20, None)}
    assert paths_of(cards) == paths_of(reversed(cards)) == wanted
    assert paths_of([{f"0a-{at:08x}": 1 for at in range(9)}]) == {"result.*": (9, 9)}
    assert paths_of([{f"2026-03-{at:02}": {"free": [at]} for at in range(1, 11)}]) == {
        "result.*.free[*]": (10, 10)
    }
    assert paths_of({f"B{at}K": 1, "total": 2} for at in range(10)) == {
        "result.total": (10, None),
        "result.*": (10, 10),
    }


def test_names_and_numbered_fields_are_no_ids() -> None:
    """Few keys are fields, keys without digits are names, and numbered fields are in most objects."""
    few = {f"item_{1000 + at}": 1 for at in range(7)}
    assert set(paths_of([few])) == {f"result.{key}" for key in few}
    form = {f"q{at}": at for at in range(20)}
    assert set(paths_of([form] * 5)) == {f"result.{key}" for key in form}
    words = {f"{letter}{letter}x": 1 for letter in "abcdefghijkl"}
    assert set(paths_of([words])) == {f"result.{key}" for key in words}


def test_folded_paths_are_shown_with_their_ids(tmp_path: Path) -> None:
    """The table counts the ids, JSON has their number; `label` suggests no such path."""
    calls = [call("find", f"c{at}") | {"args": "{}"} for at in range(9)]
    results = [
        {
            "kind": "tool_result",
            "call_id": f"c{at}",
            "tool": "find",
            "result": json.dumps({f"card_{5000 + at}": {"brnd": 1}}),
        }
        for at in range(9)
    ]
    write(tmp_path / "events.parquet", session("s", *calls, *results))
    assert re.search(r"result\.\*\.brnd +9 +\(9 keys\)  1", run(tmp_path / "events.parquet").stdout)
    (tool,) = json.loads(run(tmp_path / "events.parquet", "--format", "json").stdout)
    assert tool["paths"][-1] == {"path": "result.*.brnd", "values": 9, "samples": ["1"], "keys": 9}
    pack = tmp_path / "pack.yaml"
    pack.write_text(
        'pack: x\npropositions: {odd: kind == "tool_result" and tool == "find" and result.card.brnd == "a"}\n'
        "rules: [{id: r, formula: always not odd}]\n"
    )
    words = ["label", str(tmp_path / "events.parquet"), "--rules", str(pack)]
    found = CliRunner().invoke(tracline, words)
    assert "never exists" in found.output
    assert "did you mean" not in found.output


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
