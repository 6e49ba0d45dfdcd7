"""Chat logs of shapes that are nearly known: the place of their messages, and their agents."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.batch.sources.chat_files import read_conversations
from tracline.cli import tracline
from tracline.schemas.chat.find import InputFlaw, RecordedConversation, conversations
from tracline.schemas.chat.reading import ChatReading, conversations_at, messages_path

MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]
PATH = "task_results[].trajectory.messages"
LOG = {
    "id": "run-7",
    "model": "m-1",
    "task_results": [
        {"task_id": 1, "trajectory": {"messages": MESSAGES, "agent_name": "desk"}},
        {"task_id": 2, "trajectory": {"messages": [*MESSAGES, {"role": "user", "content": "bye"}]}},
        {"task_id": 3, "trajectory": None},
    ],
}


def hinted(value: object) -> list[str | None]:
    """Return the option that each flaw of a value names."""
    flaws = [found for found in conversations(value) if isinstance(found, InputFlaw)]
    return [flaw.text.partition("--messages-at ")[2] or None for flaw in flaws]


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (LOG, [PATH]),
        ([{"log": {"messages": MESSAGES}}, {"log": {"messages": MESSAGES}}], ["[].log.messages"] * 2),
        ({"simulations": [{"trace": MESSAGES}]}, ["simulations[].trace"]),
        ({"data": [[MESSAGES], [MESSAGES]]}, ["data[][]"]),
        ({"an e-mail@example.com": {"messages": MESSAGES}}, [None]),
        ({"numbers": list(range(10))}, [None]),
        ({"rows": [{"text": "hello"}]}, [None]),
    ],
)
def test_a_shape_that_is_nearly_known_names_the_place_of_its_messages(
    value: object, paths: list[str | None]
) -> None:
    """The path is that of the option; keys that may be personal data are never quoted."""
    assert hinted(value) == paths
    for path in filter(None, paths):
        steps = messages_path(path)
        assert steps is not None
        found = conversations_at(value, steps)
        assert any(isinstance(part, RecordedConversation) and part.messages for part in found)


def test_the_search_for_messages_is_bounded() -> None:
    """A deep or wide value is not searched to its end."""
    deep: object = MESSAGES
    for _ in range(5_000):
        deep = {"in": deep}
    assert hinted(deep) == [None]
    assert hinted({f"k{number}": {} for number in range(10_000)} | {"messages": None, "z": MESSAGES}) == [
        None
    ]


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a[", "a[0]", "[]a", "a b[]c"])
def test_a_path_is_keys_and_lists(text: str) -> None:
    """Anything else is refused."""
    assert messages_path(text) is None


def test_a_conversation_has_the_fields_of_its_own_objects() -> None:
    """An outer id is not the session's; an outer model is."""
    steps = messages_path(PATH)
    assert steps == ("task_results", "[]", "trajectory", "messages")
    first, second, third = conversations_at(LOG, steps)
    assert isinstance(first, RecordedConversation)
    assert (first.header["task_id"], first.header["agent_name"], first.header["model"]) == (1, "desk", "m-1")
    assert "id" not in first.header
    assert isinstance(second, RecordedConversation)
    assert second.place == "session 2"
    assert third == InputFlaw("session 3", "chat-shape", "has no list of messages at --messages-at")
    assert conversations_at({"messages": MESSAGES}, steps) == []


def test_values_without_the_path_are_read_as_they_are(tmp_path: Path) -> None:
    """One file may hold both shapes."""
    log = tmp_path / "log.jsonl"
    values = [{"trajectory": {"messages": MESSAGES}}, {"messages": MESSAGES, "id": "plain"}]
    log.write_text("".join(json.dumps(value) + "\n" for value in values))
    found = list(read_conversations(log, ChatReading(("trajectory", "messages"))))
    assert [isinstance(part, RecordedConversation) for part in found] == [True, True]


# ---- the commands


def run(place: Path, *line: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(tracline, [*line[:1], str(place / "log.json"), *line[1:]])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with the log."""
    (tmp_path / "log.json").write_text(json.dumps({**LOG, "task_results": LOG["task_results"][:2]}))
    return tmp_path


def test_import_names_the_place_and_takes_it(place: Path) -> None:
    """First an error that names the option, then the sessions."""
    out = str(place / "archive")
    refused = run(place, "import", "--out", out)
    assert refused.exit_code == 2
    assert f"messages are at {PATH}: add --messages-at {PATH}" in refused.stderr
    taken = run(place, "import", "--out", out, "--messages-at", PATH, "--format", "json")
    assert taken.exit_code == 0, taken.output
    assert json.loads(taken.stdout)["sessions"] == 2
    assert run(place, "import", "--out", out, "--messages-at", "a..b").exit_code == 2


@pytest.mark.parametrize(
    ("options", "agents"),
    [
        ([], {"desk", None}),
        (["--agent", "bot"], {"desk", "bot"}),
        (["--agent-by-model"], {"desk", "m-1"}),
    ],
)
def test_conversations_without_an_agent_get_one(
    place: Path, options: list[str], agents: set[str | None]
) -> None:
    """A named agent stays; an import and an audit give the same ones."""
    line = ["--out", str(place / "archive"), "--messages-at", PATH, *options]
    assert run(place, "import", *line).exit_code == 0
    rows = pl.read_parquet(place / "archive" / "**" / "*.parquet").filter(pl.col("kind") != "end")
    assert set(rows["agent"]) == agents
    pack = place / "pack.yaml"
    pack.write_text('pack: p\npropositions: {a: kind == "user"}\nrules: [{id: r, formula: always not a}]\n')
    audited = run(
        place, "audit", "--rules", str(pack), "--out", str(place / "b"), "--messages-at", PATH, *options
    )
    assert audited.exit_code == 0, audited.output
    summary = json.loads((place / "b" / "summary.json").read_text())
    assert set(summary["population"]["sessions_by_agent"]) == {agent or "" for agent in agents}


def test_an_agent_is_named_in_one_way(place: Path) -> None:
    """The two options exclude each other."""
    found = run(place, "tools", "--agent", "bot", "--agent-by-model")
    assert found.exit_code == 2
    assert "exclude each other" in found.stderr
