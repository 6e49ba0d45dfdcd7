"""`tracline predict show` and `export` on a learned chain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.predict import load_chain

from ...support.event_rows import session, user, write

PACK = """
pack: desk
version: 1
propositions: {p: text contains "p", q: text contains "q"}
predict: {memory: {asked: once p}}
rules:
  - {id: answered, formula: always (p -> eventually q)}
  - {id: never-twice, formula: always (p -> not previous p)}
"""


def predict(*args: str | Path) -> Result:
    """Run a command of prediction."""
    return CliRunner().invoke(tracline, ["predict", *map(str, args)])


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """A chain of 60 sessions; in every third one p follows p, in every fifth none follows."""
    (tmp_path / "desk.yaml").write_text(PACK)
    rows = [
        row
        for number in range(60)
        for row in session(
            f"s{number}",
            *(user(text) for text in ("", "p", "p" if number % 3 == 0 else "", "q" if number % 5 else "")),
        )
    ]
    write(tmp_path / "archive" / "0.parquet", rows)
    done = predict(
        "learn", tmp_path / "archive", "--rules", tmp_path / "desk.yaml", "--out", tmp_path / "desk.chain"
    )
    assert done.exit_code == 0, done.output
    return tmp_path / "desk.chain"


@pytest.mark.slow
def test_contexts_are_shown_by_their_risk(chain: Path) -> None:
    """The riskiest first, of all rules or of one, within any horizon of the chain."""
    done = predict("show", chain, "--top", "4", "--format", "json")
    assert done.exit_code == 0, done.output
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["risk"] for each in shown] == sorted((each["risk"] for each in shown), reverse=True)
    assert len(shown) == 4
    first = shown[0]
    found = load_chain(chain).risk(
        "desk", first["rule"], symbol=first["symbol"], state=first["state"], memory=first["memory"], within=5
    )
    assert found is not None
    assert (found.risk, found.sessions) == (first["risk"], first["sessions"])
    shown_rule = predict("show", chain, "--rule", "never-twice", "--within", "ever")
    assert shown_rule.exit_code == 0, shown_rule.output
    assert "desk/never-twice" in shown_rule.stdout
    assert "answered" not in shown_rule.stdout


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["prism", "tra"])
def test_an_exported_rule_solves_to_its_risks(chain: Path, suffix: str) -> None:
    """At each state that is named, within 5 events."""
    out = chain.parent / f"desk.{suffix}"
    done = predict("export", chain, "--rule", "desk/never-twice", "--format", suffix, "--out", out)
    assert done.exit_code == 0, done.output
    solved = predict("solve", out, "--reach", "violated", "--within", "5", "--format", "json")
    assert solved.exit_code == 0, solved.output
    values = [json.loads(line)["probability"] for line in solved.stdout.splitlines()]
    loaded = load_chain(chain)
    names = [json.loads(line) for line in Path(f"{out}.states.jsonl").read_text().splitlines()]
    for each in names:
        found = loaded.risk(
            "desk",
            "never-twice",
            symbol=each["symbol"],
            state=each["machine_state"],
            memory=each["memory"],
            within=5,
        )
        assert found is not None
        assert found.risk == pytest.approx(values[each["state"]], abs=2e-9)
    assert len(names) == len(values) - 2


def test_intervals_are_exported_for_storm(chain: Path) -> None:
    """The format drn has an interval for each transition, which `solve` reads."""
    out = chain.parent / "desk.drn"
    assert predict("export", chain, "--rule", "answered", "--format", "drn", "--out", out).exit_code == 0
    solved = predict("solve", out, "--reach", "violated", "--within", "2", "--format", "json")
    assert solved.exit_code == 0, solved.output
    assert any(each["low"] < each["high"] for each in map(json.loads, solved.stdout.splitlines()))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("show", "--rule", "other"), "has no rule other"),
        (("show", "--within", "4"), "has no horizon 4; it has 1, 5, ever"),
        (("export", "--rule", "answered", "--format", "tra", "--out", "x.txt"), "ends in .tra"),
    ],
)
def test_choices_that_a_chain_lacks_are_named(chain: Path, args: tuple[str, ...], message: str) -> None:
    """An unknown rule or horizon, and a file with another suffix."""
    done = predict(args[0], chain, *args[1:])
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize("field", ["digest", "fingerprint"])
def test_a_rule_whose_states_have_other_numbers_is_refused(chain: Path, field: str) -> None:
    """As where another release compiles it otherwise, or the packs of the chain were edited: TRL803."""
    file = chain / "chain.json"
    content = json.loads(file.read_text())
    content["rules"][0][field] = "0" * 64
    file.write_text(json.dumps(content))
    rules = chain.parent / "desk.yaml"
    bundle = ("--out", chain.parent / "bundle", "--predict", chain, "--above", "0.5")
    audited = CliRunner().invoke(
        tracline, ["audit", *map(str, (chain.parent / "archive", "--rules", rules, *bundle))]
    )
    for done in (predict("score", chain, chain.parent / "archive"), audited):
        assert done.exit_code == 2
        assert "TRL803 the packs of the chain do not have desk/answered as it was learned" in done.output


def test_a_folder_that_is_no_chain_is_an_error(tmp_path: Path) -> None:
    """With its code."""
    done = predict("show", tmp_path)
    assert done.exit_code != 0
    assert "TRL801" in done.output
