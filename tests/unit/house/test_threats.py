"""The threats of docs/threats.md, a test each: a hostile pack, trace or log must not succeed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.rules.engine.monitor import Monitor
from tracline.rules.language.parse import parse_predicate
from tracline.rules.model.problem import RuleError
from tracline.rules.packs.load import load_packs, pack_text

from ...support.truth.predicate_answers import evaluate

DANGEROUS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\ud800-\udfff]")
"""Control characters, bidirectional overrides and invisible characters; the line break is not among them."""

TESTS = Path(__file__).parents[2]
DOC = TESTS.parent / "docs" / "threats.md"

PACK = """
pack: probe
propositions:
  asked: kind == "user"
rules:
  - id: answered
    formula: always (asked -> eventually asked)
"""


def codes(text: str) -> set[str]:
    """Return the codes of the errors of the pack."""
    with pytest.raises(RuleError) as caught:
        pack_text(text)
    return {problem.code for problem in caught.value.problems}


def test_every_threat_has_its_test() -> None:
    """docs/threats.md names each test of this file, and only tests of other files that exist."""
    named = set(re.findall(r"`(?:([\w./]*test_\w+\.py)::)?(test_\w+)`", DOC.read_text(encoding="utf-8")))
    here = Path(__file__)
    there = {
        (file, test)
        for file in {file for file, _ in named} | {""}
        for test in re.findall(
            r"^def (test_\w+)", (TESTS / file if file else here).read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    tests = {pair for pair in there if not pair[0]}
    assert {pair for pair in named if not pair[0]} == tests - {("", "test_every_threat_has_its_test")}
    assert {pair for pair in named if pair[0]} <= there


def test_nothing_in_a_pack_is_executed(tmp_path: Path) -> None:
    """YAML that asks for a Python object is refused, and nothing has been called."""
    trap = tmp_path / "called"
    assert "TRL205" in codes(PACK + f"why: !!python/object/apply:pathlib.Path.touch ['{trap}']\n")
    assert not trap.exists()


def test_aliases_cannot_multiply_a_pack() -> None:
    """Nested aliases that stand for a billion values are refused before they are written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert "TRL204" in codes(PACK + "\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["(not " * 5000 + "p" + ")" * 5000, "not " * 5000 + "p", "p -> " * 5000 + "p"]
)
def test_deep_expressions_are_refused(text: str) -> None:
    """Nesting that would exhaust the stack is an error with a code."""
    with pytest.raises(RuleError, match="TRL151"):
        Monitor(text)


@pytest.mark.slow
def test_a_formula_cannot_take_the_machine() -> None:
    """A formula whose machine would have a million states stops at a named limit."""
    with pytest.raises(RuleError, match="TRL301"):
        Monitor("always (p -> X[20] q)")


@pytest.mark.slow
def test_a_regular_expression_cannot_hang() -> None:
    """A pattern that ruins backtracking engines is answered; patterns that need backtracking are refused."""
    hostile = parse_predicate(r'kind == "user" and text matches /^(a+)+$/')
    assert evaluate(hostile, {"kind": "user", "text": "a" * 5000 + "b"}) is False
    with pytest.raises(RuleError, match="TRL140"):
        evaluate(parse_predicate(r"text matches /(a)\1/"), {"kind": "user", "text": "aa"})
    with pytest.raises(RuleError, match="TRL141"):
        evaluate(parse_predicate(r"text matches /(\w{1000}){1000}/"), {"kind": "user", "text": "aa"})


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/x", "a/b", "", ".", "-rf", "x" * 200])
def test_a_packs_name_is_no_path(name: str) -> None:
    """A pack's name becomes a file in the bundle; one that could lead elsewhere is refused."""
    assert codes(PACK.replace("pack: probe", f"pack: '{name}'")) & {"TRL214", "TRL212"}


def test_a_pack_extends_nothing_but_packs(tmp_path: Path) -> None:
    """Files with other extensions and devices are not opened, and their content is in no error."""
    (tmp_path / "secret.txt").write_text("pack: swordfish")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    for name in ("secret.txt", "endless.yaml", "/dev/zero", ".", ""):
        file = tmp_path / "pack.yaml"
        file.write_text(f"pack: x\nextends: '{name}'\n")
        with pytest.raises(RuleError, match="TRL201") as caught:
            load_packs([file])
        assert "swordfish" not in str(caught.value)


def test_errors_cannot_drive_the_terminal(tmp_path: Path) -> None:
    """An error that quotes a pack contains no control character and no bidirectional override."""
    file = tmp_path / "hostile.yaml"
    file.write_text(PACK.replace("always (asked", "always (as\u202eked\u200b"), encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        load_packs([file])
    with pytest.raises(RuleError) as formula:
        Monitor("p \x1b]0;owned\x07 q")
    for text in (str(caught.value), str(formula.value)):
        assert not DANGEROUS.search(text)


def test_a_trace_is_read_line_by_line() -> None:
    """`eval` refuses a line above the limit and does not repeat it."""
    result = CliRunner().invoke(tracline, ["eval", "p"], input=b'["' + b"4111" * 1_000_000)
    assert result.exit_code == 2
    assert "TRL602" in result.stderr
    assert "4111" not in result.stderr


def imported(source: Path, *flags: str) -> tuple[int, str]:
    """Return the exit code and all output of `tracline import` of the source, into `out` beside it."""
    words = ["import", str(source), "--out", str(source.parent / "out"), *flags]
    result = CliRunner().invoke(tracline, words)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout + result.stderr


@pytest.mark.parametrize("form", ["table", "json"])
def test_errors_never_repeat_a_message(tmp_path: Path, form: str) -> None:
    """No error about a log repeats the content of its messages."""
    secret = "4111 1111 1111 1111"
    logs = [
        f'{{"messages": [{{"role": "user", "content": "{secret}"',
        json.dumps({"messages": [{"role": "wizard", "content": secret}]}),
        json.dumps({"messages": [{"role": "user", "content": {secret: secret}}]}),
        json.dumps({"messages": [{"role": "tool", "tool_call_id": [secret], "content": secret}]}),
        json.dumps(
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": secret}}]}]}
        ),
        json.dumps({"messages": secret}),
        json.dumps([secret]),
    ]
    source = tmp_path / "log.jsonl"
    source.write_text("\n".join(["{}", *logs]), encoding="utf-8")
    code, output = imported(source, "--format", form)
    assert code == 2
    assert "rejected" in output
    assert "4111" not in output


def test_deep_json_is_rejected(tmp_path: Path) -> None:
    """A log that nests a hundred thousand levels deep is one rejected file, not the end of the process."""
    source = tmp_path / "log.json"
    source.write_text('{"messages": ' + "[" * 100_000 + "]" * 100_000 + "}", encoding="utf-8")
    code, output = imported(source)
    assert code == 2
    assert "rejected" in output


@pytest.mark.slow
def test_a_small_file_cannot_unpack_to_a_large_one(tmp_path: Path) -> None:
    """A compressed log that grows more than a thousand times is rejected while it is unpacked."""
    source = tmp_path / "log.jsonl.zst"
    bomb = pa.Codec("zstd", compression_level=19).compress(b'[{"role": "user"}]\n' + b" " * 60_000_000)
    source.write_bytes(bomb)
    assert len(bomb) < 60_000
    code, output = imported(source)
    assert code == 2
    assert "unpacks to more than 1000 times its size" in output


def test_an_archives_files_are_not_named_by_what_is_in_them(tmp_path: Path) -> None:
    """Session ids, agents and tools that look like paths change nothing outside the archive."""
    way_out = "../../escaped"
    call = {"id": way_out, "type": "function", "function": {"name": way_out, "arguments": "{}"}}
    log = {
        "session_id": way_out,
        "agent": way_out,
        "messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "tool_calls": [call]}],
    }
    source = tmp_path / "in" / "deep" / "log.json"
    source.parent.mkdir(parents=True)
    source.write_text(json.dumps(log), encoding="utf-8")
    code, _ = imported(source)
    assert code == 0
    assert [path for path in tmp_path.rglob("*") if "escaped" in path.name] == []
    written = list(tmp_path.rglob("*.parquet"))
    assert written
    assert all(tmp_path / "in" / "deep" / "out" in path.parents for path in written)


def test_file_names_cannot_drive_the_terminal(tmp_path: Path) -> None:
    """The name of a log is cleaned of escapes wherever it is shown."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a\x1b]0;owned\x07\u202e.json").write_text("[broken", encoding="utf-8")
    (folder / "b\x1b[2J.md").write_text("notes", encoding="utf-8")
    _, output = imported(folder)
    assert "owned" in output
    assert not DANGEROUS.search(output)


HOSTILE = "\x1b]0;owned\x07\u202e</testcase>]]>&<script>\x00\r\n| `x` [x](y) [/q][bold]:smile:[/bold]"


def audited(folder: Path, form: str) -> tuple[str, str]:
    """Return both output streams of `tracline audit` over a hostile session, in that format."""
    calls = [{"id": HOSTILE, "type": "function", "function": {"name": HOSTILE, "arguments": {"id": HOSTILE}}}]
    messages = [{"role": "user", "content": HOSTILE}, {"role": "assistant", "tool_calls": calls}]
    log = {"session_id": HOSTILE, "agent": HOSTILE, "model": HOSTILE, "messages": messages}
    (folder / "log.json").write_text(json.dumps([log]), encoding="utf-8")
    rule = """
  - id: never
    title: "<b>\\e]0;owned\\a"
    formula: always not called
    for_each: args.id
"""
    pack = PACK.replace("propositions:", 'propositions:\n  called: kind == "tool_call"') + rule
    (folder / "pack.yaml").write_text(pack, encoding="utf-8")
    words = [
        "audit",
        str(folder / "log.json"),
        "--rules",
        str(folder / "pack.yaml"),
        "--out",
        str(folder / "b"),
    ]
    result = CliRunner().invoke(tracline, [*words, "--format", form])
    assert result.exit_code == 0, result.stderr
    return result.stdout, result.stderr


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "junit", "sarif"])
def test_findings_cannot_drive_the_terminal(tmp_path: Path, form: str) -> None:
    """Ids, agents, tools and slices full of escapes are cleaned or escaped in every output format."""
    out, err = audited(tmp_path, form)
    assert "owned" in out
    assert not DANGEROUS.search(out)
    assert not DANGEROUS.search(err)


def test_findings_are_no_markup(tmp_path: Path) -> None:
    """Text that looks like the terminal library's markup or an emoji's name is shown unchanged."""
    session = "[/q][bold]x[/bold]:smile:"
    events = [{"role": "user", "content": session}]
    log = tmp_path / "log.json"
    log.write_text(json.dumps([{"session_id": session, "messages": events}]), encoding="utf-8")
    pack = tmp_path / "pack.yaml"
    pack.write_text(PACK.replace("always (asked -> eventually asked)", "always not asked"), encoding="utf-8")
    rules = ["--rules", str(pack)]
    for words in (["audit", str(log), *rules, "--out", str(tmp_path / "out")], ["label", str(log), *rules]):
        result = CliRunner().invoke(tracline, words)
        assert result.exit_code == 0, result.output
        assert session[:20] in result.stdout
        assert "[bold]x[/bold]:smile:" in "".join(result.stdout.split("\n"))


@pytest.mark.slow
def test_findings_cannot_break_out_of_their_format(tmp_path: Path) -> None:
    """JUnit stays well-formed XML with the one case it has, SARIF and JSON lines stay JSON."""
    report = ElementTree.fromstring(audited(tmp_path, "junit")[0])
    assert len(list(report.iter("testcase"))) == 2
    assert list(report.iter("script")) == []
    assert json.loads(audited(tmp_path, "sarif")[0])["runs"][0]["results"]
    records = [json.loads(line) for line in audited(tmp_path, "jsonl")[0].splitlines()]
    assert {record["slice"] for record in records if record["rule"] == "never"} == {HOSTILE}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json"])
def test_what_is_shown_cannot_drive_the_terminal(tmp_path: Path, form: str) -> None:
    """Messages, names and arguments full of escapes and markup are cleaned, in lists and sessions alike."""
    audited(tmp_path, "table")
    words = ["show", str(tmp_path / "log.json"), "--rules", str(tmp_path / "pack.yaml"), "--format", form]
    for more in ([], ["--session", HOSTILE], ["--session", f"{HOSTILE}x"]):
        result = CliRunner().invoke(tracline, [*words, *more])
        assert "owned" in result.output
        assert not DANGEROUS.search(result.stdout)
        assert not DANGEROUS.search(result.stderr)


def test_slices_stay_out_of_notes_and_errors(tmp_path: Path) -> None:
    """A slice may be an e-mail address: it is part of the results, never of standard error."""
    assert "owned" not in audited(tmp_path, "json")[1]


def test_a_mistaken_out_destroys_nothing(tmp_path: Path) -> None:
    """A folder that holds anything but an earlier bundle or demo is refused and left unchanged."""
    home = tmp_path / "home"
    (home / "archive").mkdir(parents=True)
    (home / "archive" / "thesis.txt").write_text("years of work", encoding="utf-8")
    log = tmp_path / "log.json"
    log.write_text('[{"role": "user", "content": "hello"}]', encoding="utf-8")
    audit = ["audit", str(log), "--rules", "privacy", "--out", str(home)]
    for words in (audit, ["demo", "--sessions", "1", "--out", str(home)]):
        result = CliRunner().invoke(tracline, words)
        assert result.exit_code == 2
        assert "TRL406" in result.stderr
    assert [path for path in home.rglob("*") if path.is_file()] == [home / "archive" / "thesis.txt"]
