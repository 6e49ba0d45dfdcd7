"""The command line's own conventions: several values after one flag, quiet, places of arguments."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.cli.options import Command, format_option, note, rules_option


@click.command(cls=Command)
@click.argument("archive")
@rules_option()
@click.option("--out")
@format_option("table", "json")
def audit(archive: str, rules: tuple[str, ...], out: str | None, format: str) -> None:
    """A command shaped like `tracline audit` that prints its arguments."""
    note("working")
    click.echo(f"{archive}|{','.join(rules)}|{out}|{format}")


def run(line: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command with the words of `line`."""
    result = CliRunner().invoke(audit, line.split())
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    "line",
    [
        "in --rules a b --out x",
        "--out x in --rules a b",
        "--rules a b --out x in",
        "--rules a --rules b --out x in",
        "--rules a --out x --rules b -- in",
        "--out x --rules a b -- in",
        "--out=x --rules=a --rules b -- in",
    ],
)
def test_one_flag_takes_several_values_wherever_the_argument_stands(line: str) -> None:
    """`--rules a b` gives both values, and ARCHIVE may stand before, between options, or after `--`."""
    assert run(line)[:2] == (0, "in|a,b|x|table\n")


def test_an_argument_swallowed_by_a_flag_is_explained() -> None:
    """ARCHIVE right after the rules is taken for a rule; the error names where to put it."""
    code, _, err = run("--rules a b in")
    assert code == 2
    assert "Missing argument 'ARCHIVE'. Put ARCHIVE before --rules, or after '--'." in err


@pytest.mark.parametrize("line", ["in --rules", "in --rules --out x"])
def test_a_flag_without_values_is_an_error(line: str) -> None:
    """`--rules` followed by nothing, or by another flag, never takes that flag for a value."""
    code, _, err = run(line)
    assert code == 2
    assert "Option '--rules' requires at least one value." in err


def test_a_lone_dash_is_a_value() -> None:
    """`-` stands for a stream and is no flag."""
    assert run("in --rules - b")[:2] == (0, "in|-,b|None|table\n")


def test_quiet_silences_notes_alone() -> None:
    """`--quiet` leaves standard error empty and standard output as it was."""
    assert run("in --rules a")[2] == "working\n"
    assert run("in --rules a --quiet") == (0, "in|a|None|table\n", "")


@pytest.mark.slow
def test_too_much_rejected_input_has_a_code(tmp_path: Path) -> None:
    """Both commands that read logs exit with 2 and TRL603 where more is rejected than they were allowed."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"messages": [{"role": "user", "content": "hi"}]}\n[broken\n', encoding="utf-8")
    for words in (["import", str(log)], ["audit", str(log), "--rules", "privacy"]):
        words += ["--out", str(tmp_path / words[0])]
        refused = CliRunner().invoke(tracline, words)
        assert refused.exit_code == 2
        assert f"{log}: TRL603 1 rejected" in refused.stderr
        assert CliRunner().invoke(tracline, [*words, "--allow-rejected", "1"]).exit_code == 0
