"""`tracline predict sample`: what a model is asked, and what is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline

from ...support.event_rows import call, result, session, user, write
from ...support.http.chat_server import ChatServer, RawAnswer, chat_server, spoken

PACK = """
pack: desk
version: 1
propositions: {shouts: 'kind == "assistant" and text contains "!"', asks: 'kind == "user"'}
rules:
  - {id: calm, title: The agent does not shout, formula: always not shouts}
  - {id: quiet, title: The agent does not shout at first, formula: shouts -> once asks}
"""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """A server whose model shouts at every other question."""
    texts = iter(["Hey!", "a", "b", "Hey!", "a", "b"] * 9)
    with chat_server(lambda _: spoken(next(texts))) as found:
        yield found


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with a session of five events, and the pack beside it."""
    (tmp_path / "desk.yaml").write_text(PACK)
    rows = session("s1", user("hi"), call(args='{"id": 1}'), result(), user("and?", model="small"))
    rows += session("s2", user("hello"))
    write(tmp_path / "archive" / "0.parquet", rows)
    return tmp_path / "archive"


def sample(archive: Path, address: str, *more: str) -> Result:
    """Run the command on the first session."""
    pack = archive.parent / "desk.yaml"
    args = ["predict", "sample", str(archive), "--session", "s1", "--rules", str(pack), "--model", address]
    return CliRunner().invoke(tracline, [*args, *more])


@pytest.mark.slow
def test_the_table_has_hits_and_intervals(archive: Path, server: ChatServer) -> None:
    """The riskiest rule first."""
    done = sample(archive, server.address, "--within", "1", "--n", "3")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "rule        risk    hits       interval",
        "desk/calm   33 %  1 of 3  6.1 % to 79 %",
        "desk/quiet   0 %  0 of 3    0 % to 56 %",
    ]


@pytest.mark.slow
def test_a_document_names_the_event_after_which_the_risk_is(
    archive: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The request has the conversation up to it, the key of the environment, and members of a file."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    (tmp_path / "request.json").write_text('{"model": "large", "tools": [], "messages": "no"}')
    (tmp_path / "system.txt").write_text("Be calm")
    files = ("--request", str(tmp_path / "request.json"), "--system", str(tmp_path / "system.txt"))
    done = sample(archive, server.address, "--at", "3", "--within", "2", "--format", "json", *files)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert {key: document[key] for key in ("session", "at", "within", "how")} == {
        "session": "s1",
        "at": 3,
        "within": 2,
        "how": "sampled",
    }
    [calm, _] = document["risks"]
    assert (calm["pack"], calm["rule"], calm["hits"], calm["n"]) == ("desk", "calm", 2, 3)
    assert server.requests[0]["model"] == "large"
    assert server.requests[0]["temperature"] == 1.0
    assert [each["role"] for each in server.requests[0]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert server.headers[0]["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in done.output


def test_the_model_may_be_asked_instead(archive: Path, server: ChatServer) -> None:
    """An answer that is no probability is counted and named, with its code."""
    server.script = lambda _: spoken('{"desk/calm": 0.25, "desk/quiet": 2}')
    done = sample(archive, server.address, "--ask")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].split()[:3] == ["desk/calm", "25", "%"]
    assert "TRL821 no probability of 1 of 2 rules: desk/quiet: a number outside [0, 1]" in done.stderr
    assert server.requests[0]["temperature"] == 0.0


@pytest.mark.slow
def test_continuations_that_were_given_up_are_counted(archive: Path, server: ChatServer) -> None:
    """The others have the risk; where all are, the exit code is 2."""
    texts = iter([RawAnswer(400), spoken("a"), spoken("Hey!")])
    server.script = lambda _: next(texts)
    done = sample(archive, server.address, "--within", "1")
    assert done.exit_code == 0, done.output
    assert "TRL821 1 of 3 continuations were given up: answered 400" in done.stderr
    assert "1 of 2" in done.stdout
    server.script = lambda _: RawAnswer(401, b'{"error": {"code": "invalid_api_key"}}')
    done = sample(archive, server.address)
    assert done.exit_code == 2
    assert "TRL821 answered 401 (invalid_api_key)" in done.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--at", "9"), "s1 has 4 events"),
        (("--n", "0"), "--n"),
        (("--within", "101"), "--within"),
        (("--session", "s9"), "TRL410"),
        (("--model", "here"), "TRL821 the address is no absolute one"),
    ],
)
def test_wrong_choices_are_named(archive: Path, more: tuple[str, ...], message: str) -> None:
    """Before a model is asked."""
    done = sample(archive, "http://127.0.0.1:9", *more)
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize("text", ["[]", "{"])
def test_members_of_a_request_are_a_json_object(archive: Path, text: str) -> None:
    """Any other file is an error with its name."""
    file = archive.parent / "request.json"
    file.write_text(text)
    done = sample(archive, "http://127.0.0.1:9", "--request", str(file))
    assert done.exit_code == 2
    assert "request.json" in done.stderr
    assert "TRL612" in done.stderr
