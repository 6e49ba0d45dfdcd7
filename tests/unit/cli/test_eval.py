"""`tracline eval`: a formula stepped over a trace from the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

CALLS = '["call"]\n[]\n["result"]\n'


def run(*words: str, trace: str | bytes = CALLS) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `tracline eval` with the trace on standard input."""
    result = CliRunner().invoke(tracline, ["eval", *words], input=trace)
    return result.exit_code, result.stdout, result.stderr


def lines(*words: str, trace: str = CALLS) -> list[dict[str, object]]:
    """The lines of a run that succeeds."""
    code, out, err = run(*words, trace=trace)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_each_step_has_a_line_and_the_end_has_one() -> None:
    """The lines hold step, verdict and residual; the last has the verdict at the trace's end."""
    rule = "always (call -> eventually result)"
    assert lines(rule) == [
        {"step": 1, "verdict": "pending", "residual": f"{rule} and eventually result"},
        {"step": 2, "verdict": "pending", "residual": f"{rule} and eventually result"},
        {"step": 3, "verdict": "pending", "residual": rule},
        {"end": "held"},
    ]


def test_a_verdicts_line_shows_what_was_left_of_the_formula() -> None:
    """The residual is `false` where the step violates and `true` where it satisfies."""
    assert lines("not result")[2] == {"step": 3, "verdict": "violated", "residual": "false"}
    assert lines("not call")[0] == {"step": 1, "verdict": "violated", "residual": "false"}
    assert lines("call")[0] == {"step": 1, "verdict": "satisfied", "residual": "true"}


@pytest.mark.parametrize(
    ("recover", "verdicts", "end"),
    [
        ("both", ["pending", "pending", "satisfied"], None),
        ("violation", ["pending", "pending", "satisfied"], None),
        ("none", ["pending", "pending", "satisfied"], None),
    ],
)
def test_the_end_is_null_where_nothing_is_open(recover: str, verdicts: list[str], end: None) -> None:
    """After a verdict at the last step no pending instance has seen an event."""
    found = lines("eventually result", "--recover", recover)
    assert [line.get("verdict") for line in found[:-1]] == verdicts
    assert found[-1] == {"end": end}


def test_recovery_decides_what_follows_a_verdict() -> None:
    """`both` restarts after each verdict, `violation` after violations, `none` repeats the first."""
    trace = '["p"]\n[]\n["p"]\n'

    def verdicts(recover: str) -> list[object]:
        return [line["verdict"] for line in lines("p", "--recover", recover, trace=trace)[:-1]]

    assert verdicts("both") == ["satisfied", "violated", "satisfied"]
    assert verdicts("violation") == ["satisfied", "satisfied", "satisfied"]
    assert verdicts("none") == ["satisfied", "satisfied", "satisfied"]


def test_a_trace_may_be_a_file_a_dash_or_nothing(tmp_path: Path) -> None:
    """A file gives the same answer as standard input, named or not."""
    file = tmp_path / "trace.jsonl"
    file.write_text(CALLS)
    assert lines("call", str(file), trace="") == lines("call", "-") == lines("call")


def test_an_empty_trace_ends_with_null() -> None:
    """Without a step nothing has been asked."""
    assert lines("always p", trace="") == [{"end": None}]


def test_the_table_shows_the_same() -> None:
    """`--format table` has the same steps, verdicts and residuals, for a person."""
    _, out, _ = run("eventually result", "--format", "table")
    assert [line.split(maxsplit=2) for line in out.splitlines()] == [
        ["step", "verdict", "residual"],
        ["1", "pending", "eventually result"],
        ["2", "pending", "eventually result"],
        ["3", "satisfied", "true"],
        ["end", "-"],
    ]


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (b'["card 4111"', "not JSON"),
        (b'"card 4111"', "not an array of strings"),
        (b'["p", 4111]', "not an array of strings"),
        (b'["\xff4111"]', "not JSON"),
        (b'["' + b"4111" * 250_000 + b'"]', "longer than 1,000,000 bytes"),
    ],
)
def test_a_bad_line_is_named_and_never_shown(bad: bytes, what: str) -> None:
    """The error has the line's number, blank lines counted, and nothing of what the line holds."""
    code, out, err = run("p", trace=b'["p"]\n\n' + bad + b"\n")
    assert code == 2
    assert out.count("\n") == 1
    assert err.startswith("<stdin>:3: TRL602 ")
    assert what in err
    assert "4111" not in err


def test_a_formula_that_is_none_draws_a_caret() -> None:
    """A parse error goes to standard error with the place and exits with 2."""
    code, out, err = run("always (p ->")
    assert (code, out) == (2, "")
    assert "<formula>:1:" in err
    assert "^" in err
