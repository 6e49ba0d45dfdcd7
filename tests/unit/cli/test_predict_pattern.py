"""`tracline predict show --pattern` and `LearnedChain.risk(pattern=)` on a learned chain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.predict import load_chain
from tracline.rules.model.problem import RuleError

from ...support.chains.small_chain import learned_chain

AGAINST = "eventually (violated or unmet)"
AGAIN = "eventually (violated and next eventually violated)"


def show(*args: str | Path) -> Result:
    """Run `tracline predict show`."""
    return CliRunner().invoke(tracline, ["predict", "show", *map(str, args)])


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--by", "agent"), ("--smoothing", "none"), ("--history", "none")])
def test_the_default_pattern_is_the_risk_in_every_context(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Those of other agents, of symbols that the chain lacks, and of contexts without a visit included."""
    chain = load_chain(learned_chain(tmp_path, *options))
    bases: set[str] = set()
    for rule in chain.rules.values():
        for agent, symbol, state, memory, basis in rule.contexts.select(
            "agent", "symbol", "state", "memory", "basis"
        ).iter_rows():
            bases.add(basis)
            context = {"symbol": symbol, "state": state, "memory": memory, "agent": agent or "other"}
            risk = chain.risk(rule.pack, rule.rule, within=5, **context)
            found = chain.risk(rule.pack, rule.rule, within=5, pattern=AGAINST, **context)
            ever = chain.risk(rule.pack, rule.rule, within=None, **context)
            as_pattern = chain.risk(rule.pack, rule.rule, within=None, pattern=AGAINST, **context)
            assert (ever is None) == (as_pattern is None)
            if ever is not None and as_pattern is not None:
                assert as_pattern.risk == pytest.approx(ever.risk, abs=3e-9)
            assert (risk is None) == (found is None)
            if risk is not None and found is not None:
                assert found.risk == pytest.approx(risk.risk, abs=1.1e-9)
                assert (found.basis, found.low, found.high) == (risk.basis, 0.0, 1.0)
    assert bases >= {"context", "state"}


@pytest.mark.slow
def test_contexts_are_shown_by_the_probability_of_a_pattern(tmp_path: Path) -> None:
    """The greatest first, within any number of events, and without an interval."""
    path = learned_chain(tmp_path)
    chain = load_chain(path)
    done = show(path, "--pattern", AGAIN, "--rule", "never-twice", "--within", "4", "--format", "json")
    assert done.exit_code == 0, done.output
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["risk"] for each in shown] == sorted((each["risk"] for each in shown), reverse=True)
    assert {each["rule"] for each in shown} == {"never-twice"}
    assert shown[0]["risk"] > 0
    for each in shown:
        assert "low" not in each
        context = {name: each[name] for name in ("symbol", "state", "memory", "agent")}
        found = chain.risk("desk", "never-twice", within=4, pattern=AGAIN, **context)
        once = chain.risk("desk", "never-twice", within=4, pattern="eventually violated", **context)
        assert found is not None
        assert once is not None
        assert found.risk == each["risk"] < once.risk
    table = show(path, "--pattern", AGAIN, "--top", "1")
    assert table.exit_code == 0, table.output
    heading, numbers, texts = table.stdout.splitlines()
    assert heading == f"    risk  rule, within 5: {AGAIN}"
    assert numbers.split()[1] == "desk/never-twice"
    assert texts.startswith("          after user:p")
    ever = show(path, "--pattern", AGAIN, "--within", "ever", "--top", "1").stdout.splitlines()
    assert ever[0] == f"    risk  rule, within ever: {AGAIN}"
    assert float(ever[1].split()[0]) > float(numbers.split()[0])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--pattern", "eventually violatd"), "TRL120 unknown proposition `violatd`"),
        (("--pattern", "once eventually violated"), "^"),
        (("--pattern", AGAIN, "--within", "never"), "a number of events from 1 to 1,000, or ever"),
        (("--pattern", AGAIN, "--within", "1001"), "a number of events from 1 to 1,000"),
        (("--pattern", AGAIN, "--rule", "other"), "has no rule other"),
    ],
)
def test_mistakes_in_a_pattern_exit_2(chain: Path, args: tuple[str, ...], message: str) -> None:
    """Its text with a caret, a horizon that is no number of events, and a rule that the chain lacks."""
    done = show(chain, *args)
    assert done.exit_code == 2
    assert message in done.output


def test_mistakes_in_python_are_raised(chain: Path) -> None:
    """A pattern within no event, and one whose text is no formula."""
    loaded = load_chain(chain)
    with pytest.raises(ValueError, match="from 1 to 1,000"):
        loaded.risk("desk", "answered", symbol="start", state=0, within=0, pattern=AGAIN)
    with pytest.raises(RuleError, match="unknown proposition"):
        loaded.risk("desk", "answered", symbol="start", state=0, within=5, pattern="eventually p")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small chain."""
    return learned_chain(tmp_path_factory.mktemp("chain"))
