"""`tracline label`: what is counted, which samples are shown, and that they cannot harm a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.frames.events import event_frame

PACK = """\
pack: shop
propositions:
  agrees: kind == "user" and text contains "yes"
  refund: kind == "tool_call" and tool == "refund"
  never: tool == "nothing"
rules:
  - id: asked
    formula: always (refund -> once agrees)
  - id: none
    formula: always not never
"""
HOUR_NS = 3_600 * 10**9


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a pack and an archive of two files, one session in both."""
    (tmp_path / "shop.yaml").write_text(PACK)
    (tmp_path / "archive").mkdir()
    first = [
        _event("s1", 1, Kind.USER, text="oh \x1b[31myes\u202e\nplease " + "x" * 500),
        _event("s1", 2, Kind.TOOL_CALL, tool="refund", args='{"amount": 5}'),
        _event("s1", 3, Kind.USER, text="yes"),
        _event("s2", 1, Kind.USER, content=Content.ABSENT),
        _event("s2", 2, Kind.END),
    ]
    second = [_event(f"t{i}", 1, Kind.USER, text="yes") for i in range(5)]
    second += [_event("s1", 4, Kind.USER, text="no, yes")]
    for name, events in (("a", first), ("b", second)):
        event_frame(events).write_parquet(tmp_path / "archive" / f"{name}.parquet")
    return tmp_path


def _event(
    session: str,
    seq: int,
    kind: Kind,
    *,
    text: str | None = None,
    tool: str | None = None,
    args: str | None = None,
    content: Content = Content.CAPTURED,
) -> Event:
    time = seq * HOUR_NS // 100
    return Event(
        session,
        0,
        time,
        seq,
        kind,
        text=text,
        tool=tool,
        args=args,
        content=content,
        event_id=f"{session}{seq}",
    )


def _label(shop: Path, *more: str) -> str:
    arguments = ["label", str(shop / "archive"), "--rules", str(shop / "shop.yaml"), *more]
    done = CliRunner().invoke(tracline, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_events_and_sessions_are_counted_over_all_files(shop: Path) -> None:
    """True and unknown events are counted, a session of two files once; end rows are no events."""
    report = json.loads(_label(shop, "--format", "json"))
    assert (report["events"], report["sessions"]) == (10, 7)
    counts = {each["name"]: each for each in report["propositions"]}
    found = {name: (each["true"], each["unknown"], each["sessions"]) for name, each in counts.items()}
    assert found == {"agrees": (8, 1, 6), "refund": (1, 0, 1), "never": (0, 0, 0)}
    assert [sample["session_id"] for sample in counts["agrees"]["samples"]] == ["s1", "t0", "t1"]
    assert counts["refund"]["samples"][0]["text"] == '{"amount": 5}'


def test_samples_are_cleaned_and_cut(shop: Path) -> None:
    """A customer's text stands on one line, without escapes and marks of direction, cut to its width."""
    table = _label(shop)
    line = next(line for line in table.splitlines() if line.startswith("  s1"))
    assert "oh �[31myes� please" in line
    assert len(line) <= 100
    assert not set(table) & {"\x1b", "\u202e", "\r"}


def test_a_proposition_that_is_never_true_stands_in_the_table_without_samples(shop: Path) -> None:
    """Zero is the count that matters most."""
    table, note = (line.split() for line in _label(shop).splitlines() if "shop/never" in line)
    assert table == ["shop/never", "0", "·", "0"]
    assert " ".join(note) == "shop/never: the tool `nothing` is not called here"


@pytest.mark.slow
def test_input_that_cannot_be_read_is_reported_and_fails(shop: Path) -> None:
    """Counts that leave something out are marked: exit 2, unless as much is allowed."""
    (shop / "archive" / "c.parquet").write_bytes(b"no parquet")
    arguments = ["label", str(shop / "archive"), "--rules", str(shop / "shop.yaml")]
    refused = CliRunner().invoke(tracline, arguments)
    assert refused.exit_code == 2
    assert "c.parquet" in refused.stderr
    assert "TRL603" in refused.stderr
    allowed = CliRunner().invoke(tracline, [*arguments, "--allow-rejected", "1"])
    assert allowed.exit_code == 0
    assert "shop/agrees" in allowed.stdout


def test_samples_are_of_different_sessions_whatever_the_files(tmp_path: Path) -> None:
    """A session whose rows lie in three files is one sample, its first."""
    (tmp_path / "shop.yaml").write_text(PACK)
    (tmp_path / "archive").mkdir()
    for seq in (1, 2, 3):
        rows = event_frame([_event("s1", seq, Kind.USER, text=f"yes {seq}")])
        rows.write_parquet(tmp_path / "archive" / f"{seq}.parquet")
    report = json.loads(_label(tmp_path, "--format", "json"))
    samples = {each["name"]: each["samples"] for each in report["propositions"]}
    assert [sample["text"] for sample in samples["agrees"]] == ["yes 1"]


def test_times_without_a_zone_are_read_as_asked(tmp_path: Path) -> None:
    """As by `audit` and `import`: of one id, two conversations that start at the same time are distinct."""
    (tmp_path / "shop.yaml").write_text(PACK)
    (tmp_path / "archive").mkdir()
    log = [_conversation("yes", "2024-07-01T10:00:00Z"), _conversation("yes, yes", "2024-07-01T10:00:00")]
    (tmp_path / "archive" / "log.json").write_text(json.dumps(log))
    assert _sampled(_label(tmp_path, "--format", "json", "--timezone", "Europe/Berlin")) == ["a", "a"]
    assert len(set(_sampled(_label(tmp_path, "--format", "json")))) == 2
    arguments = ["label", str(tmp_path / "archive"), "--rules", str(tmp_path / "shop.yaml")]
    refused = CliRunner().invoke(tracline, [*arguments, "--timezone", "Nowhere/At_All"])
    assert refused.exit_code == 2
    assert "TRL405" in refused.stderr


def _log(shop: Path, texts: list[str]) -> Path:
    """Write conversations of one message each, and return the file."""
    file = shop / "log.json"
    chats = [
        {"id": f"c{at:02}", "messages": [{"role": "user", "content": text}]} for at, text in enumerate(texts)
    ]
    file.write_text(json.dumps(chats))
    return file


def _labelled(shop: Path, source: Path, *more: str) -> dict:
    """Return the first proposition that the command reports on a source."""
    words = ["label", str(source), "--rules", str(shop / "shop.yaml"), "--format", "json", *more]
    done = CliRunner().invoke(tracline, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["propositions"][0]


@pytest.mark.slow
def test_one_proposition_with_many_samples(shop: Path) -> None:
    """--only leaves the others out, --samples sets their number, each of another session, in order."""
    source = _log(shop, ["oh yes"] * 30)
    report = json.loads(_label(shop, "--only", "shop/agrees", "--format", "json"))
    assert [each["name"] for each in report["propositions"]] == ["agrees"]
    found = _labelled(shop, source, "--only", "agrees", "--samples", "20")
    assert [sample["session_id"] for sample in found["samples"]] == [f"c{at:02}" for at in range(20)]
    assert _labelled(shop, source, "--only", "agrees", "--samples", "0")["samples"] == []


@pytest.mark.slow
def test_a_seed_draws_samples_over_all_sessions(shop: Path) -> None:
    """The same seed draws the same events, another one others; each of another session."""
    source = _log(shop, ["oh yes"] * 30)
    drawn = [
        [
            sample["session_id"]
            for sample in _labelled(shop, source, "--samples", "8", "--seed", seed)["samples"]
        ]
        for seed in "112"
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(set(ids)) == 8 for ids in drawn)
    assert max(drawn[0] + drawn[2]) > "c10"


def test_the_match_is_marked(shop: Path) -> None:
    """The text beside the match, with the match apart in JSON and marked in the table."""
    source = _log(shop, ["é " * 300 + "well yes, of course " + "ü" * 300])
    found = _labelled(shop, source, "--only", "agrees", "--around-match")
    (match,) = found["samples"][0]["matches"]
    assert (match["path"], match["match"]) == ("text", "yes")
    assert match["before"].endswith("é well ")
    assert match["after"].startswith(", of course ü")
    words = ["label", str(source), "--rules", str(shop / "shop.yaml"), "--around-match"]
    lines = CliRunner().invoke(tracline, words).stdout.splitlines()
    (line,) = (line for line in lines if ">>yes<<" in line)
    assert len(line) <= 100
    assert "well >>yes<<, of course" in line


@pytest.mark.slow
def test_missed_texts_are_those_where_it_is_false(shop: Path) -> None:
    """Events that meet the proposition's condition on the kind and are false; --where gives another one."""
    source = _log(shop, ["yes", "sure thing", "Absolutely", "no", "oh yes"])
    found = _labelled(shop, source, "--missed", "agrees", "--samples", "9")
    assert (found["true"], found["missed"], found["where"]) == (2, 3, 'kind == "user"')
    assert {sample["text"] for sample in found["samples"]} == {"sure thing", "Absolutely", "no"}
    found = _labelled(shop, source, "--missed", "agrees", "--where", "text matches /(?i)sure|absol/")
    assert {sample["text"] for sample in found["samples"]} == {"sure thing", "Absolutely"}
    unknown = json.loads(_label(shop, "--missed", "agrees", "--format", "json"))["propositions"][0]
    assert (unknown["unknown"], unknown["missed"]) == (1, 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--only", "agree"], "no rule uses a proposition named 'agree'. Did you mean agrees?"),
        (["--missed", "shop/x"], "no rule uses a proposition named 'shop/x'"),
        (["--where", "nested"], "--where requires --missed"),
        (["--missed", "agrees", "--only", "never"], "exclude each other"),
        (["--missed", "agrees", "--where", "text == ="], "TRL1"),
    ],
)
def test_mistakes_in_the_options_are_explained(shop: Path, more: list[str], words: str) -> None:
    """Exit 2 with a remedy, and nothing on standard output."""
    done = CliRunner().invoke(
        tracline, ["label", str(shop / "archive"), "--rules", str(shop / "shop.yaml"), *more]
    )
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def _conversation(text: str, time: str) -> dict[str, object]:
    return {"id": "a", "messages": [{"role": "user", "content": text, "timestamp": time}]}


def _sampled(report: str) -> list[str]:
    """The sessions of the samples of `agrees`."""
    (found,) = (each["samples"] for each in json.loads(report)["propositions"] if each["name"] == "agrees")
    return [sample["session_id"] for sample in found]


@pytest.mark.slow
def test_sessions_of_two_tenants_stay_apart(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the settings name the distinguishing key, equal ids in span dumps are two sessions."""
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "yes"}]}])
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "c",
        "gen_ai.input.messages": messages,
    }
    span = {
        "spanId": "5e" * 8,
        "name": "chat",
        "startTimeUnixNano": str(HOUR_NS),
        "endTimeUnixNano": str(HOUR_NS + 1),
        "attributes": _attributes(attributes),
    }
    requests = [
        {
            "resource": {"attributes": _attributes({"tenant": tenant})},
            "scopeSpans": [{"spans": [{**span, "traceId": 16 * place}]}],
        }
        for tenant, place in (("a", "0a"), ("b", "0b"))
    ]
    (shop / "spans.json").write_text(json.dumps({"resourceSpans": requests}))
    found: list[int] = []
    for scope in ("region", "tenant"):
        monkeypatch.setenv("TRACLINE_SESSIONS_SCOPE", scope)
        line = ["label", str(shop / "spans.json"), "--rules", str(shop / "shop.yaml"), "--format", "json"]
        result = CliRunner().invoke(tracline, line)
        assert result.exit_code == 0, result.output
        found.append(json.loads(result.stdout)["sessions"])
    assert found == [1, 2]


def _attributes(values: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
