"""Names of conversations: their own id, and a suffix that no order decides if others share it."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tracline.archive.manifest import MANIFEST, read_manifest
from tracline.batch.importing.run import ImportResult, import_source
from tracline.batch.prepare import chat_frames as chatframe
from tracline.batch.prepare.prepare import prepare
from tracline.batch.sources.discover import Population
from tracline.batch.sources.event_files import scan

START = "2026-01-01T10:00:00Z"


def talk(text: str, own_id: str | None = "s", time: str | None = None, **more: Any) -> dict[str, Any]:
    """A conversation of one question and one answer."""
    question = {"role": "user", "content": text} | ({} if time is None else {"timestamp": time})
    header = {} if own_id is None else {"id": own_id}
    return {**header, **more, "messages": [question, {"role": "assistant", "content": "ok"}]}


def put(path: Path, value: Any) -> Path:
    """The value as a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def events(source: Path, scratch: Path) -> tuple[pl.DataFrame, Population]:
    """The judged events of a source, in one order."""
    scratch.mkdir()
    population = Population()
    parts = prepare(source, scratch, population)
    return pl.concat([scan(part) for part in parts]).collect().sort("session_id", "time", "seq"), population


def archived(archive: Path) -> dict[str, str]:
    """The session of each question in an archive, by its text."""
    files = [archive / entry.file for entry in read_manifest(archive).entries]
    rows = pl.concat([pl.read_parquet(file) for file in files]).filter(pl.col("kind") == "user")
    return dict(rows.select("text", "session_id").rows())


def rejected(imported: ImportResult) -> list[tuple[str, str, str]]:
    """File, place and code of what was rejected."""
    return [(reject.file, reject.position, reject.code) for reject in imported.population.rejects]


def test_a_log_keeps_its_own_id(tmp_path: Path) -> None:
    """An id that one conversation has is the session's; also one that comes back at another time."""
    later = talk("b", time="2026-01-02T10:00:00Z")
    log = [talk("a", time=START), later, talk("c", "t"), talk("c", "t"), {"id": "s", "messages": []}]
    found, population = events(put(tmp_path / "log.json", log), tmp_path / "scratch")
    assert sorted(found["session_id"].unique()) == ["s", "t"]
    assert (population.sessions, population.duplicates, population.renamed) == (3, 1, 0)


@pytest.mark.parametrize("time", [None, START])
def test_neither_names_nor_order_of_files_decide_ids(tmp_path: Path, time: str | None) -> None:
    """All that share an id and a start are named by their messages: any order gives the same events."""
    talks = [talk(text, time=time) for text in ("a", "b", "c")]
    seen: list[pl.DataFrame] = []
    for number, order in enumerate(permutations(talks)):
        folder = tmp_path / str(number)
        put(folder / "1.json", [order[0], order[1]])
        put(folder / "2.json", [order[2], order[0]])
        found, population = events(folder, tmp_path / f"scratch-{number}")
        assert (population.sessions, population.renamed, population.duplicates) == (3, 3, 1)
        seen.append(found)
    assert all(found.equals(seen[0]) for found in seen)
    assert seen[0]["session_id"].str.contains("^s~[0-9a-f]{16}$").all()
    assert seen[0]["session_id"].n_unique() == 3


@pytest.mark.slow
def test_the_source_of_a_conversation_does_not_depend_on_the_order(tmp_path: Path) -> None:
    """Equal messages with different agents in their headers are one conversation, always the same one."""
    copies = [talk("a", agent=agent, model=model) for agent in ("x", "y") for model in (None, "m")]
    agents: set[tuple[str, str | None]] = set()
    for number, order in enumerate(permutations(copies)):
        found, population = events(
            put(tmp_path / f"{number}.json", list(order)), tmp_path / f"scratch-{number}"
        )
        assert (population.sessions, population.duplicates, population.renamed) == (1, 3, 0)
        agents.update(found.filter(kind="user").select("agent", "model").rows())
    assert len(agents) == 1


def test_an_id_that_an_archive_has_is_not_taken_by_another_conversation(tmp_path: Path) -> None:
    """The later one is rejected by file and place, again at the next try; the archive stays as it was."""
    first = put(tmp_path / "first.json", [talk("a")])
    second = put(tmp_path / "second.json", [talk("other", "o"), talk("b"), talk("a")])
    out = tmp_path / "out"
    import_source(first, out)
    for _ in range(2):
        again = import_source(second, out)
        assert rejected(again) == [("second.json", "session 2", "chat-id-taken")]
        assert archived(out) == {"a": "s", "other": "o"}
    together = tmp_path / "together"
    (tmp_path / "in").mkdir()
    for file in (first, second):
        file.rename(tmp_path / "in" / file.name)
    assert rejected(import_source(tmp_path / "in", together)) == []
    named = archived(together)
    assert (named["other"], named["a"][:2], named["b"][:2]) == ("o", "s~", "s~")


def test_ids_that_an_archive_knows_to_be_shared_are_named_alike_later(tmp_path: Path) -> None:
    """A third conversation with a shared id gets the name that it has when all are imported at once."""
    a, b, c = talk("a"), talk("b"), talk("c")
    import_source(put(tmp_path / "two.json", [a, b]), tmp_path / "out")
    later = import_source(put(tmp_path / "third.json", [c, a]), tmp_path / "out")
    assert (later.population.sessions, later.population.duplicates, rejected(later)) == (1, 1, [])
    import_source(put(tmp_path / "all.json", [c, b, a]), tmp_path / "once")
    assert archived(tmp_path / "out") == archived(tmp_path / "once")


def test_an_import_that_was_cut_off_keeps_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a cut-off import under its own id stay; later sources beside it do not rename it."""
    monkeypatch.setattr(chatframe, "FRAME_EVENTS_MAX", 3)
    source, out = tmp_path / "in", tmp_path / "out"
    put(source / "first.json", [talk("a"), talk("x", "x")])
    import_source(source, out)
    manifest = out / MANIFEST
    manifest.write_bytes(manifest.read_bytes().splitlines(keepends=True)[0])
    put(source / "second.json", [talk("b"), talk("y", "y")])
    assert rejected(import_source(source, out)) == [("second.json", "session 1", "chat-id-taken")]
    assert archived(out) == {"a": "s", "x": "x", "y": "y"}
