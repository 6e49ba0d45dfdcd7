"""`tracline show BUNDLE`: findings with their events, from the archive beside the bundle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.findings.findings import FINDINGS_MAX
from tracline.cli import tracline

from ...support.event_rows import PACK, call, session, user, write
from ...support.evidence.bundle_lines import bundle_lines
from ..batch.test_as_judged import ROWS, archive

pytestmark = pytest.mark.slow

RECORDINGS = Path(__file__).parents[2] / "frameworks" / "recordings"
BOUNDED = """
pack: bounded
version: 1
propositions:
  asks: kind == "user"
  replies: kind == "assistant"
  calls: kind == "tool_call"
rules:
  - {id: soon, title: Answered within two events, severity: high, formula: "always (asks -> F[1,2] replies)"}
  - {id: no-call, title: No call, severity: low, formula: always not calls}
"""


def replied(text: str) -> dict:
    """Return a message of the agent."""
    return {"kind": "assistant", "text": text}


def run(*words: str | Path) -> Result:
    """Run the command with these words."""
    return CliRunner().invoke(tracline, list(map(str, words)))


def show(bundle: Path, *more: str | Path) -> Result:
    """Run `tracline show` on the bundle."""
    return run("show", bundle, *more)


def shown(bundle: Path, *more: str | Path) -> list[dict]:
    """Return the findings that `tracline show` writes as JSON."""
    found = show(bundle, "--format", "json", *more)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def audited(folder: Path, source: Path, pack: str, *more: str) -> Path:
    """Audit the source by a pack into a bundle beside it."""
    (folder / "pack.yaml").write_text(pack)
    bundle = folder / "bundle"
    done = run("audit", source, "--rules", folder / "pack.yaml", "--out", bundle, "-q", *more)
    assert done.exit_code == 0, done.output
    return bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle of thirty sessions that shout, beside its archive."""
    rows = [
        row for at in range(30) for row in session(f"s{at:02}", user("a"), user("no!"), call(), user("b"))
    ]
    write(tmp_path / "archive" / "events.parquet", rows)
    return audited(tmp_path, tmp_path / "archive", PACK)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a demo with 400 conversations."""
    out = tmp_path_factory.mktemp("demo") / "demo"
    assert run("demo", "--out", out, "--sessions", "400", "--quiet").exit_code == 0
    return out / "bundle"


def test_a_finding_has_its_events_the_witness_and_a_sentence(tmp_path: Path) -> None:
    """The events near the witness, its own marked, with the propositions at each; the rest is counted."""
    steps = [user("hello", span_id="x"), *(call(f"t{at}", f"c{at}") for at in range(9))]
    write(tmp_path / "archive" / "events.parquet", session("s", *steps))
    bundle = audited(tmp_path, tmp_path / "archive", BOUNDED)
    (found,) = shown(bundle, "--rule", "soon")
    assert found["sentence"] == (
        "The user message at event 1 (`asks`) was not followed by any assistant message within 2 events."
    )
    assert found["decisive"] == ["replies"]
    assert [event["seq"] for event in found["events"]] == [1, 2, 3, 4, 5]
    assert [event["true"] for event in found["events"]] == [["asks"], [], [], [], []]
    assert [event["witness"] is not None for event in found["events"]] == [True, True, True, False, False]
    assert found["events"][0]["text"] == "hello"
    table = show(bundle, "--rule", "soon").stdout
    assert found["sentence"] in " ".join(table.split())
    assert "> 3 tool_call" in table
    assert "(5 events left out)" in table


ASKED = """
pack: asked
version: 1
propositions:
  asks: kind == "assistant" and text contains "?"
  speaks: kind == "user"
  agrees: kind == "user" and text contains "yes"
  acts: kind == "tool_call" and tool == "act"
  fails: kind == "tool_call" and tool == "fail"
rules:
  - id: agreed
    title: Agreed to
    formula: >-
      acts -> previous (not (speaks and not agrees) since (agrees and previous (not speaks since asks)))
  - {id: fails, title: Fails at most twice, formula: "fails -> at_most[2] fails"}
"""


def test_a_later_question_without_a_yes_is_shown(tmp_path: Path) -> None:
    """The sentence names the last question and its answer, and all events from there on are shown."""
    steps = [
        replied("Go?"),
        user("yes"),
        user("or not"),
        replied("Now?"),
        user("hm"),
        call("look"),
        call("act"),
    ]
    write(tmp_path / "archive" / "events.parquet", session("s", *steps))
    (found,) = shown(audited(tmp_path, tmp_path / "archive", ASKED), "--rule", "agreed")
    assert found["sentence"] == (
        "The `act` call at event 7 (`acts`) came too early: no user message with `agrees` came since the "
        "last assistant message with `asks` (event 4); the user message at event 5 (`speaks`) came instead."
    )
    assert {4, 5, 6, 7} <= {event["seq"] for event in found["events"]}


def test_events_between_that_the_rule_reads_are_shown(tmp_path: Path) -> None:
    """The events between those that the sentence names, at which something of the rule is true, are shown."""
    looks = [call(f"look{at}", f"c{at}") for at in range(6)]
    steps = [replied("Go?"), user("hm"), user("well"), *looks, call("act")]
    write(tmp_path / "archive" / "events.parquet", session("s", *steps))
    (found,) = shown(audited(tmp_path, tmp_path / "archive", ASKED), "--rule", "agreed")
    assert [event["seq"] for event in found["events"]] == [1, 2, 3, 8, 9, 10]


def test_events_that_are_too_many_are_named_and_shown(tmp_path: Path) -> None:
    """Each event that counts is in the sentence and among the events."""
    steps = [step for at in range(3) for step in (call("fail", f"f{at}"), *(user("hm"),) * 5)]
    write(tmp_path / "archive" / "events.parquet", session("s", *steps))
    (found,) = shown(audited(tmp_path, tmp_path / "archive", ASKED), "--rule", "fails")
    assert found["sentence"].endswith("`fails` was true 3 times by then, at events 1, 7 and 13.")
    assert {1, 7, 13} <= {event["seq"] for event in found["events"]}


def test_the_rules_of_the_demo_are_explained(demo: Path) -> None:
    """The propositions at each event of a witness are those of the verdict; each sentence names its event."""
    findings = shown(demo, "--sample", "1000")
    assert len({found["verdict"]["rule"] for found in findings}) > 10
    for found in findings:
        record, events = found["verdict"], {event["seq"]: event for event in found["events"]}
        used = {name for event in record["witness"]["events"] for name in event["true"]}
        for witnessed in record["witness"]["events"]:
            event = events[witnessed["seq"]]
            assert set(witnessed["true"]) <= set(event["true"])
            assert used & set(event["true"]) == set(witnessed["true"]) & used
        assert f"vent {record['seq']}" in found["sentence"]
        assert events[record["seq"]]["event_id"] == record["event_id"]


def test_a_sample_depends_on_the_seed_alone(bundle: Path) -> None:
    """The same seed draws the same findings, another one others; N at most, each once."""
    ids = [[found["verdict"]["id"] for found in shown(bundle, "--sample", "8", "--seed", s)] for s in "112"]
    assert ids[0] == ids[1] != ids[2]
    assert len(set(ids[0])) == 8
    assert {found["verdict"]["rule"] for found in shown(bundle, "--sample", "99")} == {"answered", "calm"}
    assert len(shown(bundle, "--sample", "99")) == 60
    assert len(shown(bundle)) == FINDINGS_MAX
    assert "20 of 60 findings" in show(bundle).stderr


def test_a_verdict_or_a_rule_can_be_chosen(bundle: Path) -> None:
    """By the id that the audit's table and `verdicts.jsonl` have, by the rule's id, and with its pack."""
    fourth = shown(bundle)[3]
    (found,) = shown(bundle, "--verdict", fourth["verdict"]["id"])
    assert found == fourth
    assert shown(bundle, "--rule", "calm") == shown(bundle, "--rule", "desk/calm")
    unknown = show(bundle, "--rule", "clam")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "TRL421" in unknown.stderr
    assert "did you mean calm?" in unknown.stderr
    assert "TRL421" in show(bundle, "--verdict", "0" * 32).stderr


def test_an_archive_that_moved_or_changed_is_an_error(bundle: Path, tmp_path: Path) -> None:
    """Bundle and archive can move together; --archive states where it is; another content is refused."""
    expected = shown(bundle)
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.move(bundle, moved / "bundle")
    missing = show(moved / "bundle")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "TRL420" in missing.stderr
    assert "--archive" in missing.stderr
    assert shown(moved / "bundle", "--archive", tmp_path / "archive") == expected
    shutil.move(tmp_path / "archive", moved)
    assert shown(moved / "bundle") == expected
    write(moved / "archive" / "events.parquet", session("s00", user("no!")))
    changed = show(moved / "bundle")
    assert (changed.exit_code, changed.stdout) == (2, "")
    assert "events.parquet differs from the file that the audit read" in changed.stderr


def test_a_bundle_of_an_early_release_needs_the_archive(bundle: Path, tmp_path: Path) -> None:
    """Without the files on its input the archive is named by hand, and a note states the lack of digests."""
    expected = shown(bundle)
    (bundle / "source.json").unlink()
    (bundle / "inputs.jsonl").unlink()
    assert "TRL420" in show(bundle).stderr
    assert shown(bundle, "--archive", tmp_path / "archive") == expected
    assert "no digests" in show(bundle, "--archive", tmp_path / "archive").stderr
    write(tmp_path / "archive" / "events.parquet", session("s00", user("hi")))
    wrong = show(bundle, "--archive", tmp_path / "archive")
    assert wrong.exit_code == 2
    assert "does not have the events of verdict" in wrong.stderr


def test_findings_in_chat_logs_and_dumps_are_read_again(tmp_path: Path) -> None:
    """The source of an audit may be anything that it reads, with its options."""
    chat = [{"id": "c", "messages": [{"role": "user", "content": "Why?"}] * 3}]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "chat.json").write_text(json.dumps(chat))
    (found,) = shown(audited(tmp_path, tmp_path / "logs", BOUNDED))
    assert [event["text"] for event in found["events"]] == ["Why?"] * 3
    dump = tmp_path / "dump"
    dump.mkdir()
    source = RECORDINGS / "openai-openinference" / "otlp"
    found = shown(audited(dump, source, BOUNDED), "--rule", "no-call")
    assert found
    assert all(event["tool"] for each in found for event in each["events"] if event["witness"])


def test_an_unjudged_rule_states_what_was_unknown(tmp_path: Path) -> None:
    """Its verdict can be shown by its id: the event, and the propositions that are unknown there."""
    rows = session("s", user("hi"), user(None, content="absent"))
    write(tmp_path / "archive" / "events.parquet", rows)
    bundle = audited(tmp_path, tmp_path / "archive", PACK)
    record, *_ = bundle_lines(bundle)
    assert record["verdict"] == "unjudged"
    (found,) = shown(bundle, "--verdict", record["id"])
    assert found["sentence"].startswith("The rule is unjudged from event 2 on: ")
    assert found["events"][1]["unknown"]


def test_options_of_bundles_and_of_sources_exclude_each_other(bundle: Path, tmp_path: Path) -> None:
    """A mistake in the options is an error of usage with a remedy."""
    for more in (["--session", "s00"], ["--rules", "privacy"], ["--repeats"]):
        assert show(bundle, *more).exit_code == 2
        assert "A bundle takes" in show(bundle, *more).stderr
    wrong = run("show", tmp_path / "archive", "--sample", "3")
    assert wrong.exit_code == 2
    assert "require a bundle" in wrong.stderr


def test_hostile_text_is_shown_harmlessly(tmp_path: Path) -> None:
    """Escapes and markup in messages, ids and names neither reach the terminal nor style it."""
    evil = "no!\x1b[31m [bold]x[/bold] \u202e"
    write(tmp_path / "archive" / "events.parquet", session("s\x1b[2J", user(evil)))
    table = show(audited(tmp_path, tmp_path / "archive", PACK)).stdout
    assert "\x1b" not in table
    assert "\u202e" not in table
    assert "[bold]x[/bold]" in table


def test_results_keep_to_the_terminal(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content is cut to some lines of a terminal and never in a pipe; ids are whole in both."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = show(bundle, "--sample", "2").stdout.splitlines()
    assert max(map(len, lines)) <= 60
    monkeypatch.delenv("COLUMNS")
    for found in shown(bundle, "--sample", "2"):
        assert f"verdict {found['verdict']['id']}" in lines


def test_findings_as_judged_are_shown_by_the_rules_that_judged(tmp_path: Path) -> None:
    """Of two rule sets in one archive each finding has the propositions of its own."""
    archive(tmp_path / "live", (ROWS, "aaa" + "b" * (len(ROWS) - 3)))
    bundle = tmp_path / "bundle"
    assert run("audit", tmp_path / "live", "--as-judged", "--out", bundle, "-q").exit_code == 0
    found = {
        (each["verdict"]["session_id"], each["verdict"]["seq"]): each
        for each in shown(bundle, "--rule", "calm")
    }
    assert sorted(found) == [("s", 3), ("s", 6), ("t", 2)]
    for (_, seq), each in found.items():
        (event,) = (event for event in each["events"] if event["seq"] == seq)
        assert "angry" in event["true"]
        assert each["sentence"] == f"The rule excludes the user message at event {seq} (`angry`)."


def test_files_that_came_later_change_nothing(bundle: Path, tmp_path: Path) -> None:
    """A live archive grows: findings are read from it as long as their events are there."""
    expected = shown(bundle)
    write(tmp_path / "archive" / "later.parquet", session("zz", user("no!")))
    assert shown(bundle) == expected


def test_sessions_as_of_a_time_are_read_as_of_it(tmp_path: Path) -> None:
    """The audit's options are the bundle's: later events of a session are not shown."""
    write(tmp_path / "archive" / "events.parquet", session("s", user("no!"), user("later"), user("last")))
    bundle = audited(tmp_path, tmp_path / "archive", PACK, "--as-of", "2026-02-17T12:00:01Z")
    (found,) = shown(bundle, "--rule", "calm")
    assert [event["text"] for event in found["events"]] == ["no!", "later"]
    assert found["session_events"] == 2


def test_a_bundle_of_several_sources_is_read_from_all_of_them(tmp_path: Path) -> None:
    """A chat log at a path of its own and a Parquet file are found again, with the options of the audit."""
    write(tmp_path / "north" / "events.parquet", session("parquet", user("a"), user("no!")))
    messages = [{"role": "user", "content": "no!"}]
    log = tmp_path / "south" / "log.json"
    log.parent.mkdir()
    log.write_text(json.dumps({"results": [{"id": "chat", "messages": messages}]}))
    (tmp_path / "pack.yaml").write_text(PACK)
    options = ("--messages-at", "results[].messages", "--agent", "desk", "--quiet")
    done = run(
        *("audit", tmp_path / "north", log.parent, "--rules", tmp_path / "pack.yaml", *options),
        *("--out", tmp_path / "bundle"),
    )
    assert done.exit_code == 0, done.output
    found = shown(tmp_path / "bundle", "--rule", "calm")
    agents = {each["verdict"]["session_id"]: each["events"][-1]["agent"] for each in found}
    assert agents.keys() == {"parquet", "chat"}
    assert agents["chat"] == "desk"
    log.write_text("[]")
    changed = show(tmp_path / "bundle")
    assert changed.exit_code == 2
    assert "TRL420" in changed.stderr


def test_words_select_the_findings_of_rules(bundle: Path) -> None:
    """`--select` and `--ignore` take ids, tags and severities, as for an audit; unknown words are errors."""
    rules = {found["verdict"]["rule"] for found in shown(bundle, "--sample", "99")}
    assert rules == {"answered", "calm"}
    assert {found["verdict"]["rule"] for found in shown(bundle, "--select", "calm")} == {"calm"}
    assert {found["verdict"]["rule"] for found in shown(bundle, "--ignore", "calm")} == {"answered"}
    unknown = show(bundle, "--select", "clam")
    assert (unknown.exit_code, "TRL226" in unknown.stderr) == (2, True)
    with_rules = show(bundle, "--rules", bundle / "rules", "--select", "calm")
    assert with_rules.exit_code == 2
    assert "--select, --ignore" in with_rules.stderr


AGREED = """
pack: agreed
version: 1
propositions:
  asks: kind == "assistant" and text contains "?"
  replies: kind == "assistant"
  agrees: kind == "user" and text == "yes"
  pays: kind == "tool_call" and tool == "pay"
rules:
  - id: agreed
    title: Paid after a yes
    formula: always (pays -> (not asks since (agrees and (not replies since asks))))
"""


def test_the_events_that_a_sentence_names_are_shown(tmp_path: Path) -> None:
    """The last question is far from the witness; its event is shown, without those beside it."""
    question = {"kind": "assistant", "text": "ok?"}
    steps = [user("hello"), question, *(call(f"t{at}", f"c{at}") for at in range(9)), call("pay", "p")]
    write(tmp_path / "archive" / "events.parquet", session("s", *steps))
    (found,) = shown(audited(tmp_path, tmp_path / "archive", AGREED))
    assert found["sentence"] == (
        "The `pay` call at event 12 (`pays`) came too early: no user message with `agrees` came since the "
        "last assistant message with `asks` (event 2)."
    )
    assert [event["seq"] for event in found["events"]] == [2, 10, 11, 12]


def test_nothing_is_claimed_of_what_was_not_captured(tmp_path: Path) -> None:
    """A message without text may be the yes: the sentence is that of the witness, or there is no finding."""
    question = {"kind": "assistant", "text": "ok?"}
    steps = [user("hi"), question, user(None), question, user("no"), call("pay", "p")]
    write(tmp_path / "archive" / "events.parquet", session("s", *steps))
    (found,) = shown(audited(tmp_path, tmp_path / "archive", AGREED))
    assert "broke `" in found["sentence"]
