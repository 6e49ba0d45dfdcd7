"""Several sources at once: they are read as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.importing.run import import_source
from tracline.batch.sources.discover import Population, discover
from tracline.cli import tracline

from ...support.event_rows import call, session, user, write

PACK = """\
pack: desk
propositions:
  shouts: kind == "user" and text matches /!/
rules:
  - {id: calm, formula: always not shouts}
"""


def chat(name: str, *texts: str) -> dict:
    """Return a conversation of the customer's messages."""
    messages = [{"role": "user", "content": text, "timestamp": "2026-02-17T08:00:00Z"} for text in texts]
    return {"id": name, "messages": messages}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with two folders of logs, an archive, and a pack."""
    for folder, sessions in (("north", [chat("a", "hi")]), ("south/logs", [chat("b", "help!")])):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "log.json").write_text(json.dumps(sessions))
    (tmp_path / "pack.yaml").write_text(PACK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*line: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(tracline, line)


def audited(*sources: str) -> dict:
    """Audit the sources and return the summary."""
    found = run("audit", *sources, "--rules", "pack.yaml", "--out", "bundle")
    assert found.exit_code == 0, found.output
    return json.loads(Path("bundle/summary.json").read_text())


def test_files_are_named_from_the_folder_that_they_have_in_common(place: Path) -> None:
    """The order of the sources does not matter."""
    for sources in (["north", "south"], ["south", place / "north" / "log.json"], ["*/log.json", "south"]):
        names = [part.name for part in discover(sources, Population())]
        assert names == ["north/log.json", "south/logs/log.json"]
    assert [part.name for part in discover(["north"], Population())] == ["log.json"]


def test_a_file_in_several_sources_is_read_once(place: Path) -> None:
    """Overlapping sources count its sessions once."""
    population = Population()
    assert len(discover(["south", "south/logs", str(place / "south")], population)) == 1
    assert population.files == 1


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_an_audit_of_several_sources_is_that_of_one_folder(tmp_path: Path) -> None:
    """The verdicts are those of an audit of a folder with all files."""
    assert audited("north", "south")["population"]["sessions"] == 2
    apart = Path("bundle/verdicts.jsonl").read_bytes()
    assert audited("south", "north")["rules"]["calm"]["sessions_violating"] == 1
    assert Path("bundle/verdicts.jsonl").read_bytes() == apart
    (tmp_path / "all").mkdir()
    for folder in ("north", "south"):
        (tmp_path / folder).rename(tmp_path / "all" / folder)
    audited("all")
    assert Path("bundle/verdicts.jsonl").read_bytes() == apart


@pytest.mark.slow
def test_sessions_of_one_id_in_two_chat_logs(place: Path) -> None:
    """Equal conversations are one; different ones of one start are renamed, as in one source."""
    (place / "south" / "same.json").write_text(json.dumps([chat("a", "hi")]))
    population = audited("north", "south")["population"]
    assert (population["sessions"], population["duplicates"]) == (2, 1)
    (place / "south" / "same.json").write_text(json.dumps([chat("a", "hi, again!")]))
    population = audited("north", "south")["population"]
    assert (population["sessions"], population["duplicates"]) == (3, 0)


def test_a_session_in_two_archives_is_one(place: Path) -> None:
    """Equal rows are duplicates; rows that claim one place differently are rejected."""
    rows = session("s", user("hi"), call())
    write(place / "one" / "events.parquet", rows)
    write(place / "two" / "events.parquet", rows)
    population = audited("one", "two")["population"]
    assert (population["sessions"], population["duplicates"]) == (1, 2)
    write(place / "two" / "events.parquet", session("s", user("ho", event_id="other"), call()))
    found = run("audit", "one", "two", "--rules", "pack.yaml", "--out", "bundle")
    assert found.exit_code == 2
    assert "row-conflict" in found.stderr


@pytest.mark.slow
def test_other_commands_take_several_sources(place: Path) -> None:
    """`import`, `label`, `tools` and `alerts rates`; the output of an import may be in none of them."""
    assert "2 sessions" in " ".join(run("import", "north", "south", "--out", "archive").stdout.split())
    assert run("import", "north", "south", "--out", "south/archive").exit_code == 2
    assert len(import_source(["north", "south"], place / "archive").known) == 2
    labelled = run("label", "north", "south", "--rules", "pack.yaml", "--format", "json")
    assert json.loads(labelled.stdout)["sessions"] == 2
    assert run("tools", "north", "south").stdout.startswith("0 tools in 2 events of 2 sessions")
    learned = run("alerts", "rates", "north", "south", "--rules", "pack.yaml", "--out", "rates.json")
    assert learned.exit_code == 0, learned.output
    assert "no such file" in run("audit", "north", "west", "--rules", "pack.yaml", "--out", "b").stderr


def test_a_bundle_of_several_sources_shows_its_findings(place: Path) -> None:
    """It names all of them, and how their chat logs were read; a missing one is an error."""
    log = {"runs": [{"id": "c", "log": chat("x", "oh no!")["messages"]}]}
    (place / "north" / "wrapped.json").write_text(json.dumps(log))
    sources = ["north", "south", "--messages-at", "runs[].log", "--agent", "bot"]
    assert audited(*sources)["rules"]["calm"]["sessions_violating"] == 2
    shown = run("show", "bundle", "--format", "json")
    assert shown.exit_code == 0, shown.output
    found = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(found) == 2
    assert sorted(finding["verdict"]["session_id"] for finding in found) == ["b", "c"]
    (place / "south").rename(place / "west")
    missing = run("show", "bundle")
    assert (missing.exit_code, "TRL420" in missing.stderr) == (2, True)


@pytest.mark.slow
def test_sessions_of_several_sources_are_shown_and_explained_alike(place: Path) -> None:
    """`show`, `explain` and `init` read two folders as the folder that has both."""
    (place / "both").mkdir()
    for folder in ("north", "south"):
        (place / folder).rename(place / "both" / folder)
    rules = ("--rules", "pack.yaml")
    for words in (["show"], ["show", *rules], ["explain", "--session", "b", *rules]):
        name, *more = words
        whole, parts = run(name, "both", *more), run(name, "both/north", "both/south", *more)
        assert whole.exit_code == 0, whole.output
        assert parts.stdout == whole.stdout
    for out, sources in (("one.yaml", ["both"]), ("two.yaml", ["both/north", "both/south"])):
        assert run("init", *sources, "--out", out).exit_code == 0
    assert (place / "two.yaml").read_text() == (place / "one.yaml").read_text().replace(
        "pack: one", "pack: two"
    )
    assert audited("both")["population"]["sessions"] == 2
    together = run("show", "bundle", "both")
    assert (together.exit_code, "A bundle is shown alone" in together.stderr) == (2, True)
