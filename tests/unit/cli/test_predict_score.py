"""`tracline predict score`, `compare`, `drift` and `explain` on two versions of a small agent."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from random import Random

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.predict.folder.load import load_chain

from ...support.event_rows import session, user, write

pytestmark = pytest.mark.slow

PACK = """
pack: desk
version: 1
propositions: {p: text contains "p", q: text contains "q", r: text contains "r"}
rules:
  - {id: answered, severity: high, formula: "always (p -> next q)"}
  - {id: never-r, severity: low, formula: always not r}
"""


def archive_of(folder: Path, texts: str, seed: int) -> Path:
    """Write 150 sessions of six events, whose texts are drawn from the words."""
    draw = Random(seed)
    rows = [
        row
        for number in range(150)
        for row in session(f"s{number:03}", *(user(text) for text in draw.choices(texts.split(), k=6)))
    ]
    write(folder / "events.parquet", rows)
    return folder


def predict(*args: object) -> Result:
    """Run a command of prediction."""
    return CliRunner().invoke(tracline, ["predict", *map(str, args)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archives of a good agent, of the same again and of a worse one, with their chains."""
    found = tmp_path_factory.mktemp("score")
    (found / "desk.yaml").write_text(PACK)
    for name, texts, seed in (("good", "a a a q q p", 1), ("again", "a a a q q p", 2), ("bad", "a p p p", 3)):
        archive_of(found / name, texts, seed)
        done = predict(
            "learn", found / name, "--rules", found / "desk.yaml", "--out", found / f"{name}.chain"
        )
        assert done.exit_code == 0, done.output
    return found


def test_scores_name_the_events_and_the_risks_are_the_chains(folder: Path) -> None:
    """The start of every session has the risk that a look-up in the chain gives."""
    args = (folder / "good.chain", folder / "again")
    found = predict("score", *args, "--format", "json", "--out", folder / "out")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    chain = load_chain(folder / "good.chain")
    assert (document["chain"], document["sessions"]) == (chain.digest, 150)
    [answered, _] = document["rules"]
    assert [each["within"] for each in answered["horizons"]] == [1, 5, None]
    assert answered["horizons"][0]["chain"]["violating"] > 20
    rows = pl.read_parquet(folder / "out" / "risks.parquet").filter(rule="answered", event=0)
    assert rows["session_id"].n_unique() == 150
    expected = chain.risk("desk", "answered", symbol="start", state=0, within=5)
    assert expected is not None
    assert set(rows["risk_5"]) == {expected.risk}
    table = predict("score", *args)
    assert "within 5 events" in table.stdout
    assert "desk/answered" in table.stdout


def test_symbols_that_a_chain_never_saw_are_a_warning(folder: Path) -> None:
    """TRL812 has their share."""
    archive_of(folder / "new", "a pqr", 4)
    found = predict("score", folder / "good.chain", folder / "new")
    assert found.exit_code == 0
    assert "TRL812 the chain of desk/answered" in found.stderr


def test_after_a_symbol_that_a_chain_never_saw_the_state_alone_has_a_risk(folder: Path) -> None:
    """Each such event is scored by the stored risk of its state, whose basis is `state`."""
    archive_of(folder / "new", "a pqr", 4)
    args = (folder / "good.chain", folder / "new", "--out", folder / "out-new", "--format", "json")
    found = predict("score", *args)
    rows = pl.read_parquet(folder / "out-new" / "risks.parquet").filter(pl.col("symbol").is_null())
    stored = pl.read_parquet(folder / "good.chain" / "risk.parquet").filter(basis="state", within=5)
    [answered, _] = json.loads(found.stdout)["rules"]
    for rule in ("answered", "never-r"):
        of_rule = rows.filter(rule=rule)
        risks = dict(stored.filter(rule=rule).select("residual", "risk").iter_rows())
        assert len(of_rule) > 300
        assert of_rule["risk_5"].to_list() == [risks[each] for each in of_rule["residual"].to_list()]
    # A start and six events in each of 150 sessions.
    assert answered["horizons"][0]["chain"]["visits"] == 150 * 7


def test_a_worse_version_exits_1_and_the_same_one_0(folder: Path) -> None:
    """A rule of lesser severity than asked for does not."""
    good, again, bad = (folder / f"{name}.chain" for name in ("good", "again", "bad"))
    assert predict("compare", good, again).exit_code == 0
    worse = predict("compare", good, bad)
    assert worse.exit_code == 1
    assert "worse" in worse.stdout
    assert "to 100 %)" in worse.stdout
    assert predict("compare", bad, good).exit_code == 0
    assert predict("compare", good, bad, "--fail-on", "critical").exit_code == 0
    [answered, never] = json.loads(predict("compare", good, bad, "--format", "json").stdout)["rules"]
    assert (answered["is_worse"], answered["is_better"], never["is_worse"]) == (True, False, False)


def test_chains_without_a_common_rule_are_not_compared(folder: Path) -> None:
    """TRL803 with exit code 2: a gate must not pass where nothing was compared."""
    (folder / "other.yaml").write_text(PACK.replace("pack: desk", "pack: other"))
    args = (folder / "good", "--rules", folder / "other.yaml", "--out", folder / "other.chain")
    assert predict("learn", *args).exit_code == 0
    done = predict("compare", folder / "good.chain", folder / "other.chain")
    assert done.exit_code == 2
    assert "TRL803 no rule is also in" in done.stderr


def test_drift_is_evidence_only_where_the_agent_got_worse(folder: Path) -> None:
    """The same agent's log score is about the expected one; the worse one's verdicts raise the evidence."""
    same = json.loads(predict("drift", folder / "good.chain", folder / "again", "--format", "json").stdout)
    worse = json.loads(predict("drift", folder / "good.chain", folder / "bad", "--format", "json").stdout)
    [before, _], [after, _] = same["rules"], worse["rules"]
    assert not before["drift"]
    assert abs(before["log_score"]["score"] - before["log_score"]["expected"]) < 0.1
    assert after["log_score"]["low"] > 0
    assert "desk/answered" in predict("drift", folder / "good.chain", folder / "bad").stdout


def test_an_archive_without_sessions_has_no_figures(folder: Path, tmp_path: Path) -> None:
    """Tables have a dash where a figure is not defined."""
    events = pl.read_parquet(folder / "good" / "events.parquet")
    events.clear().write_parquet(tmp_path / "events.parquet")
    for command in ("drift", "score"):
        found = predict(command, folder / "good.chain", tmp_path)
        assert found.exit_code == 0, found.output
        lines = [line for line in found.stdout.splitlines() if line.startswith("desk/")]
        assert len(lines) >= 2
        for line in lines:
            assert "-" in line.split()
            assert "nan" not in line
            assert "inf" not in line


def test_another_agent_has_the_risks_of_any_other(folder: Path) -> None:
    """A chain that distinguishes agents scores and explains the sessions of one that it never saw."""
    for name, agents in (("known", ("one", "two")), ("other", ("three",))):
        draw, rows = Random(name), list[dict]()
        for number in range(120):
            agent, texts = draw.choice(agents), draw.choices("aaqp", k=6)
            rows += session(f"{name}{number:03}", *(user(text, agent=agent) for text in texts))
        write(folder / name / "events.parquet", rows)
    by = folder / "by.chain"
    done = predict("learn", folder / "known", "--rules", folder / "desk.yaml", "--by", "agent", "--out", by)
    assert done.exit_code == 0, done.output
    found = predict("score", by, folder / "other", "--format", "json", "--out", folder / "by")
    [answered, _] = json.loads(found.stdout)["rules"]
    assert [each["chain"]["visits"] for each in answered["horizons"]] == [120 * 7] * 3
    risks = pl.read_parquet(folder / "by" / "risks.parquet").filter(rule="answered", event=0)
    context = {"symbol": "start", "state": 0, "within": 5}
    expected = load_chain(by).risk("desk", "answered", agent="three", **context)
    assert expected is not None
    assert risks["risk_5"].to_list() == [expected.risk] * 120
    done = predict(
        "explain", by, folder / "other", "--session", "other000", "--rule", "answered", "--at", "0"
    )
    assert f"after event 0 the risk is {expected.risk:.0%}".replace("%", " %") in done.stdout


def test_an_explanation_names_the_way_and_the_next_event(folder: Path) -> None:
    """After `p` the risk is highest, and the event that lowers it most is `q`."""
    args = ("--session", "s000", "--rule", "answered", "--format", "json", "--examples")
    found = predict("explain", folder / "bad.chain", folder / "bad", *args)
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["session"] == "s000"
    text = predict("explain", folder / "bad.chain", folder / "bad", "--session", "s000").stdout
    assert "likeliest ways to a verdict" in text
    shortest = ("explain", folder / "bad.chain", folder / "bad", "--session", "s000", "--paths", "1")
    assert "the likeliest way to a verdict, " in predict(*shortest).stdout
    missing = predict("explain", folder / "bad.chain", folder / "bad", "--session", "nobody")
    assert missing.exit_code == 2


@pytest.mark.parametrize("within", ["0", "1001", "\u00b2", "9" * 5000, "-1", "always"])
def test_a_horizon_that_is_none_is_a_usage_error(folder: Path, within: str) -> None:
    """Neither numbers out of range nor digits that are no number are a traceback."""
    args = ("--session", "s000", "--within", within)
    found = predict("explain", folder / "bad.chain", folder / "bad", *args)
    assert found.exit_code == 2
    assert "is not a number of events up to 1,000, or ever" in found.output


@pytest.mark.parametrize("within", ["5", "ever", "3"])
def test_a_session_is_explained_after_a_symbol_that_the_chain_never_saw(folder: Path, within: str) -> None:
    """The risk is that of the state, as `score` and live risks have it; so are the ways to a verdict."""
    rows = session("new", *(user(text) for text in ("a", "r", "q", "a")), end=False)
    write(folder / "new" / "events.parquet", rows)
    args = ("--session", "new", "--rule", "never-r", "--within", within, "--format", "json", "--paths", "100")
    found = predict("explain", folder / "good.chain", folder / "new", *args, "--at", "2")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert [each["symbol"] for each in document["events"]][2] == "unseen"
    risks = [each["risk"] for each in document["events"]]
    assert None not in risks
    assert document["risk"] == pytest.approx(risks[2], abs=1e-8)
    nexts = document["nexts"]
    assert sum(each["probability"] for each in nexts) == pytest.approx(1)
    assert sum(each["probability"] * each["risk"] for each in nexts) == pytest.approx(risks[2], abs=1e-8)
    assert sum(each["probability"] for each in document["paths"]) <= risks[2] + 1e-8
    if within != "3":
        horizon = None if within == "ever" else int(within)
        stored = load_chain(folder / "good.chain").risk(
            "desk", "never-r", symbol="unseen", state=0, within=horizon
        )
        assert stored is not None
        assert stored.risk == pytest.approx(risks[2], abs=1e-9)


@pytest.mark.parametrize(("at", "symbol", "state"), [(3, "unseen", 0), (4, "user:", 2)])
@pytest.mark.parametrize("within", ["4", "ever"])
def test_the_probability_of_a_pattern_is_explained(
    folder: Path, within: str, at: int, symbol: str, state: int
) -> None:
    """It is the chain's, also after a symbol that the chain never saw; the ways to it have two verdicts."""
    pattern = "eventually (violated and next eventually violated)"
    rows = session("more", *(user(text) for text in ("a", "p", "r", "a")), end=False)
    write(folder / "more" / "events.parquet", rows)
    args = ("--session", "more", "--rule", "answered", "--within", within, "--at", at)
    args = (*args, "--pattern", pattern)
    found = predict(
        "explain", folder / "good.chain", folder / "more", *args, "--format", "json", "--examples"
    )
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert (document["pattern"], document["within"]) == (pattern, None if within == "ever" else int(within))
    assert document["risk"] == pytest.approx(document["events"][at]["risk"], abs=1e-8)
    context = {"symbol": symbol, "state": state, "within": document["within"]}
    stored = load_chain(folder / "good.chain").risk("desk", "answered", pattern=pattern, **context)
    assert stored is not None
    assert stored.risk == pytest.approx(document["risk"], abs=1e-8)
    nexts = document["nexts"]
    assert sum(each["probability"] * each["risk"] for each in nexts) == pytest.approx(
        document["risk"], abs=1e-8
    )
    assert len(document["paths"]) == (5 if within == "ever" else 4)
    assert 0 < document["covered"] <= 1 + 1e-9
    for path in document["paths"]:
        symbols = [step["symbol"] for step in path["steps"]]
        broken = [this == "user:p" and after != "user:q" for this, after in pairwise(symbols)]
        assert sum(broken) >= 2
    lines = predict("explain", folder / "good.chain", folder / "more", *args).stdout.splitlines()
    assert lines[0].endswith(f": {pattern}")
    assert any("likeliest ways to the pattern, " in line for line in lines)


def test_a_mistake_in_a_pattern_is_an_error_before_the_archive_is_read(folder: Path) -> None:
    """With its place, as of `show`."""
    args = ("--session", "s000", "--pattern", "eventually violatd")
    found = predict("explain", folder / "bad.chain", folder / "bad", *args)
    assert found.exit_code == 2
    assert "unknown proposition `violatd`" in found.output
