"""`tracline predict learn` on small archives: its folder, its options and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline

from ...support.event_rows import session, user, write

PACK = """
pack: desk
version: 1
propositions: {p: text contains "p", q: text contains "q"}
predict: {memory: {asked: once p}}
rules:
  - {id: answered, severity: high, formula: always (p -> eventually q)}
  - {id: once-a-case, for_each: args.id, formula: 'always (p -> at_most[1] p)'}
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of 120 sessions of two agents, and the pack beside it."""
    (tmp_path / "desk.yaml").write_text(PACK)
    random = Random(1)
    for number in range(4):
        rows = [
            row
            for each in range(30)
            for row in session(
                f"s{number}-{each}",
                *(
                    user(text, agent="ab"[each % 2], args=f'{{"id": "{random.choice("xy")}"}}')
                    for text in random.choices(["", "p", "q"], k=5)
                ),
            )
        ]
        write(tmp_path / "archive" / f"{number}.parquet", rows)
    return tmp_path / "archive"


def learn(archive: Path, out: str, *more: str) -> Result:
    """Run the command on an archive, whose pack is beside it."""
    pack, folder = archive.parent / "desk.yaml", archive.parent / out
    args = ["predict", "learn", str(archive), "--rules", str(pack), "--out", str(folder), *more]
    return CliRunner().invoke(tracline, args)


def chain(archive: Path, out: str) -> dict:
    """Return the content of `chain.json`."""
    return json.loads((archive.parent / out / "chain.json").read_bytes())


@pytest.mark.slow
def test_a_chain_has_its_sources_and_the_same_bytes_again(archive: Path) -> None:
    """One thread and many, and the files in another order, give equal folders; the pack is in them."""
    first = learn(archive, "one", "--threads", "1", "--within", "3", "--hold-out", "0.4", "--seed", "7")
    assert first.exit_code == 0, first.output
    assert "desk/answered" in first.stdout
    (archive / "0.parquet").rename(archive / "9.parquet")
    again = learn(archive, "two", "--threads", "3", "--within", "3", "--hold-out", "0.4", "--seed", "7")
    assert again.exit_code == 0, again.output
    for name in ("chain.json", "counts.parquet", "risk.parquet"):
        files = [archive.parent / out / name for out in ("one", "two")]
        assert files[0].read_bytes() == files[1].read_bytes()
    content = chain(archive, "one")
    assert content["packs"] == {"desk": PACK}
    assert (content["horizons"], content["hold_out"], content["seed"]) == ([1, 3, None], 0.4, 7)
    assert [rule["rule"] for rule in content["rules"]] == ["answered", "once-a-case"]
    assert content["sessions"] == 120 > content["learned"]
    assert content["warnings"]
    assert all(f"warning: {text}" in first.stderr for text in content["warnings"])
    scores = content["rules"][0]["scores"]
    assert [each["within"] for each in scores] == [1, 3, None]
    assert all(0 < each["violating"] < each["visits"] and 0 <= each["auc"] <= 1 for each in scores)


@pytest.mark.slow
def test_options_of_the_estimate_are_in_the_chain(archive: Path) -> None:
    """By agent, without history and with a smoothing: the chain has each, and replaces the earlier one."""
    assert learn(archive, "chain").exit_code == 0
    options = ("--by", "agent", "--history", "none", "--smoothing", "laplace:2", "--hold-out", "0")
    assert learn(archive, "chain", *options).exit_code == 0
    content = chain(archive, "chain")
    assert (content["by"], content["history"], content["smoothing"]) == ("agent", "none", "laplace:2")
    assert content["rules"][0]["agents"] == ["a", "b"]
    assert content["learned"] == content["sessions"] == 120
    assert content["rules"][0]["scores"] == []


@pytest.mark.slow
def test_only_sessions_in_the_period_are_learned(archive: Path) -> None:
    """Sessions without an event in the period are left out; without any the error is TRL806."""
    result = learn(archive, "chain", "--since", "2026-03-01")
    assert result.exit_code == 2
    assert "TRL806 0 of 0 sessions" in result.stderr
    assert not (archive.parent / "chain").exists()
    assert learn(archive, "chain", "--until", "2026-03-01").exit_code == 0
    assert chain(archive, "chain")["sessions"] == 120


@pytest.mark.slow
def test_impossible_pairs_need_a_smoothing_and_must_not_occur(archive: Path) -> None:
    """A file of pairs is read; a pair that the archive has, and what is no pair, are errors."""
    file = archive.parent / "pairs.json"
    for text, expected in (
        (b'[["user:p", "start"]]', 0),
        (b'[["user:p", "user:q"]]', 2),
        (b'[["user:p"]]', 2),
        (b"[", 2),
        (b'[["\xff", "end"]]', 2),
        (b'[["user:p", "user:never"]]', 2),
    ):
        file.write_bytes(text)
        result = learn(archive, "chain", "--smoothing", "laplace:1", "--valid", str(file))
        assert result.exit_code == expected, (text, result.output)
        assert expected == 0 or "TRL807" in result.stderr
    assert "no rule has the symbol `user:never`" in result.stderr
    result = learn(archive, "chain", "--valid", str(file))
    assert "--smoothing" in result.stderr
    assert result.exit_code == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--smoothing", "laplace:0"),
        ("--smoothing", "laplace:1e308"),
        ("--confidence", "1"),
        ("--hold-out", "1"),
        ("--within", "1001"),
    ],
)
def test_options_out_of_range_are_usage_errors(archive: Path, options: tuple[str, str]) -> None:
    """Each is refused with its name before anything is read."""
    result = learn(archive, "chain", *options)
    assert result.exit_code == 2
    assert options[0] in result.stderr
