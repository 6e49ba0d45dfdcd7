"""`tracline predict score --forecasts`: the risks of a sampler, scored as those of a chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.examples.markov_desk import MarkovDesk, event_frame
from tracline.schemas.time import rfc3339

from ...support.chains.markov import PACK

pytestmark = pytest.mark.slow
RULES = ("find-first", "last-call", "report-it")
SCORES = ("brier", "skill", "log_score", "ece", "auc")


def predict(*args: object) -> Result:
    """Run a command of prediction."""
    return CliRunner().invoke(tracline, ["predict", *map(str, args)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of the desk with the known policy, another archive of it, and the chain's risks there."""
    found = tmp_path_factory.mktemp("forecasts")
    (found / "desk.yaml").write_text(PACK)
    for name, sessions, seed in (("first", 300, 1), ("second", 120, 2)):
        (found / name).mkdir()
        event_frame(MarkovDesk(sessions=sessions, seed=seed)).write_parquet(found / name / "0.parquet")
    args = (found / "first", "--rules", found / "desk.yaml", "--within", 3, "--out", found / "chain")
    assert predict("learn", *args).exit_code == 0
    scores = predict("score", found / "chain", found / "second", "--out", found, "--format", "json")
    (found / "scores.json").write_text(scores.stdout)
    return found


def chains_forecasts(folder: Path, *rules: str) -> list[dict[str, Any]]:
    """Return the documents of the chain's own risks of rules without `steps`, after every event."""
    events = pl.read_parquet(folder / "second" / "0.parquet").filter(seq=1)
    begun = dict(events.select("session_id", pl.col("occurrence").to_physical()).iter_rows())
    rows = pl.read_parquet(folder / "risks.parquet").filter(pl.col("rule").is_in(rules))
    named = pl.struct(pack=pl.lit("markov-desk"), rule="rule", risk="risk_3")
    by_event = rows.group_by("session_id", "event", maintain_order=True).agg(risks=named)
    return [
        {
            "session": session,
            "occurrence": rfc3339(begun[session]),
            "at": event,
            "within": 3,
            "how": "chain",
            "risks": risks,
        }
        for session, event, risks in by_event.iter_rows()
    ]


def score(folder: Path, documents: list[dict[str, Any]], *more: str) -> Result:
    """Score documents of forecasts."""
    file = folder / "forecasts.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in documents))
    return predict("score", folder / "chain", folder / "second", "--forecasts", file, *more)


def test_forecasts_are_scored_as_the_chain_is(folder: Path) -> None:
    """The chain's own risks as forecasts have the scores that the chain has, also beside them."""
    done = score(folder, chains_forecasts(folder, *RULES), "--format", "json")
    assert done.exit_code == 0, done.output
    scores = json.loads((folder / "scores.json").read_text())
    by_rule = {
        each["rule"]: horizon["chain"]
        for each in scores["rules"]
        for horizon in each["horizons"]
        if horizon["within"] == 3
    }
    forecasts = json.loads(done.stdout)["forecasts"]
    assert sorted(found["rule"] for found in forecasts) == sorted(RULES)
    for found in forecasts:
        expected = by_rule[found["rule"]]
        assert (found["how"], found["within"], found["left_out"]) == ("chain", 3, 0)
        assert expected["violating"] > 0
        for name in ("given", "chain"):
            assert {key: found[name][key] for key in ("visits", "violating", "sessions")} == {
                key: expected[key] for key in ("visits", "violating", "sessions")
            }
            for key in SCORES:
                assert found[name][key]["value"] == pytest.approx(expected[key]["value"], abs=1e-12)


def test_forecasts_of_a_horizon_that_the_chain_lacks_are_scored_alone(folder: Path) -> None:
    """A note names the option with which the chain is learned that has scores beside them."""
    documents = [each | {"within": 4} for each in chains_forecasts(folder, "report-it")]
    done = score(folder, documents, "--format", "json")
    assert "the chain has no risk within 4 to put beside forecasts: learn it with --within 4" in done.stderr
    [found] = json.loads(done.stdout)["forecasts"]
    assert (found["given"]["visits"] > 0, found["chain"]["visits"]) == (True, 0)


def test_wrong_forecasts_are_calibrated_by_other_sessions(folder: Path) -> None:
    """Risks three times too high, and none of them: the calibrated ones are nearly as good as the chain's."""
    documents = chains_forecasts(folder, "report-it")
    for document in documents:
        [each] = document["risks"]
        each["risk"] = min(1.0, 3 * each["risk"])
    done = score(folder, documents, "--format", "json")
    [found] = json.loads(done.stdout)["forecasts"]
    assert found["given"]["ece"]["value"] > 4 * found["calibrated"]["ece"]["value"]
    assert found["calibrated"]["skill"]["value"] > found["chain"]["skill"]["value"] - 0.1
    table = score(folder, documents[:50]).stdout.splitlines()
    assert table[0].split()[:8] == ["rule", "how", "within", "forecasts", "against", "left", "out", "ECE"]
    assert table[1].startswith("markov-desk/report-it  chain")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"session": "nobody"}, "no occurrence"),
        ({"occurrence": "2020-01-01T00:00:00.000000000Z"}, "no occurrence 2020"),
        ({"risks": [{"pack": "p", "rule": "r", "risk": 0.5}]}, "no rule p/r"),
        ({"risks": [{"pack": "p", "rule": "r", "risk": 1.5}]}, "forecasts.jsonl:1: TRL822 not a line"),
        ({"risks": [{"pack": "p", "rule": "r", "risk": True}]}, "forecasts.jsonl:1: TRL822 not a line"),
        ({"risks": 5}, "forecasts.jsonl:1: TRL822 not a line"),
        ({"at": "1"}, "forecasts.jsonl:1: TRL822 not a line"),
        ({"at": -1}, "forecasts.jsonl:1: TRL822 not a line"),
        ({"within": 0}, "forecasts.jsonl:1: TRL822 not a line"),
    ],
)
def test_forecasts_of_something_else_are_an_error(folder: Path, change: dict[str, Any], message: str) -> None:
    """TRL822, with the line where it is one."""
    [first, *_] = chains_forecasts(folder, "find-first")
    done = score(folder, [first | change])
    assert done.exit_code == 2
    assert "TRL822" in done.stderr
    assert message in done.stderr


def test_a_file_without_forecasts_has_no_scores(folder: Path) -> None:
    """Rules without a risk are no forecasts."""
    [first, *_] = chains_forecasts(folder, "find-first")
    first["risks"][0]["risk"] = None
    done = score(folder, [first], "--format", "json")
    assert json.loads(done.stdout)["forecasts"] == []
