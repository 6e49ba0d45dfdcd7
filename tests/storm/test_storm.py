"""Storm, an independent model checker, gives the same probabilities; only `make test-storm` runs it."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import orjson
import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.predict import load_chain
from tracline.predict.chain.learned import Counted
from tracline.predict.estimation.options import EstimateOptions
from tracline.predict.explicit.chain import ExplicitChain, Transition, explicit_chain
from tracline.predict.explicit.drn import to_drn
from tracline.predict.explicit.intervals import reach_bounds
from tracline.predict.explicit.prism import to_prism
from tracline.predict.explicit.solution import violating
from tracline.predict.explicit.solve import reach, reach_within
from tracline.predict.explicit.transitions import to_lab, to_tra
from tracline.predict.folder.learned_chain import RuleChain
from tracline.predict.risk.product_chain import product_chain
from tracline.predict.risk.rule_risks import RiskOptions, rule_risks
from tracline.predict.validation.model_chain import model_chain

from ..differential.exact_chains import reach_exactly
from ..differential.test_explicit_chains import chain_of, random_rows
from ..support.chains.counts import random_counted

pytestmark = [pytest.mark.storm, pytest.mark.slow]

PYTHON = Path(__file__).parents[2] / ".storm" / "bin" / "python"
CHAINS = 200
PACKS = ("customer-service", "tool-hygiene", "privacy")
LEAST_END = 1e-9
"""Storm's intervals have no lower end of 0."""
LEAST_OF_COUNTS = 1e-3
"""Storm iterates values: where a rarer transition is the only way out, it stops before they are reached."""

FORMULAS = {
    "always (p -> next q)": 'G ((!"p") | (X "q"))',
    "always not p": 'G (!"p")',
    "always (p -> next[2] q)": 'G ((!"p") | (X (X "q")))',
    "not p weak_until q": '((!"p") U "q") | (G (!"p"))',
    "always (p -> (next q or next next q))": 'G ((!"p") | (X "q") | (X (X "q")))',
}
"""Safety formulas, for which a violation has a bad prefix, in tracline's and Storm's words."""


def task(model: str, wanted: str, values: str = "double") -> dict[str, str]:
    """Return a task for `answers.py`, of a model in Storm's direct encoding."""
    return {"model": model, "suffix": ".drn", "property": wanted, "values": values}


def asked(tasks: Sequence[dict[str, str]]) -> list[list[str]]:
    """Return Storm's answers."""
    lines = "\n".join(map(json.dumps, tasks))
    script = str(Path(__file__).parent / "answers.py")
    done = subprocess.run([PYTHON, script], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def labelled(seed: int) -> tuple[list[list[Fraction]], ExplicitChain]:
    """Return rows and their chain, whose states have random labels among `goal`, `p` and `q`."""
    rng = random.Random(seed)
    states = rng.randrange(2, 8)
    rows = [list(row) for row in random_rows(rng, states)]
    # Storm reads no label of no state.
    labels = {
        name: sorted({rng.randrange(states), *(s for s in range(states) if rng.random() < 0.3)})
        for name in ("goal", "p", "q")
    }
    return rows, chain_of(rows, labels)


CASES = [labelled(seed) for seed in range(CHAINS)]


def test_exact_answers_are_equal() -> None:
    """On rational chains Storm's exact engine and our oracle are equal; the product is within 1e-12."""
    models = [to_drn(chain).replace("double", "rational") for _, chain in CASES]
    tasks = [task(model, 'P=? [F "goal"]', "exact") for model in models]
    states = 0
    for (rows, chain), answers in zip(CASES, asked(tasks), strict=True):
        goal = chain.mask(chain.labels["goal"])
        exact = reach_exactly(rows, goal.tolist())
        assert [Fraction(answer) for answer in answers] == exact
        assert reach(chain, goal) == pytest.approx(list(map(float, exact)), abs=1e-12)
        states += len(exact)
    print(f"{states} exact probabilities of {CHAINS} chains")
    assert states > 800


@pytest.mark.parametrize("suffix", [".prism", ".tra", ".drn"])
def test_bounded_answers_of_each_format(suffix: str) -> None:
    """Storm reads each file that tracline writes, and agrees on 0 to 5 steps."""
    write = {".prism": to_prism, ".tra": to_tra, ".drn": to_drn}[suffix]
    # A module of PRISM has only the states that its initial one reaches.
    cases = [chain for _, chain in CASES if suffix != ".prism" or _reaches_all(chain)]
    tasks = [
        {**task(write(chain), f'P=? [F<={number % 6} "goal"]'), "labels": to_lab(chain), "suffix": suffix}
        for number, chain in enumerate(cases)
    ]
    for number, (chain, answers) in enumerate(zip(cases, asked(tasks), strict=True)):
        found = sorted(reach_within(chain, chain.mask(chain.labels["goal"]), number % 6))
        assert found == pytest.approx(sorted(map(float, answers)), abs=1e-9)
    print(f"{len(cases)} chains as {suffix}")
    assert len(cases) > 40


def _reaches_all(chain: ExplicitChain) -> bool:
    """Return whether the initial state reaches all states."""
    return all(
        reach(chain, chain.mask(np.array([state])))[chain.initial] > 0 for state in range(chain.states)
    )


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas(formula: str) -> None:
    """The probability of a bad prefix is 1 minus Storm's probability of the formula."""
    tasks = [task(to_drn(chain), f"P=? [{FORMULAS[formula]}]") for _, chain in CASES]
    for (_, chain), answers in zip(CASES, asked(tasks), strict=True):
        expected = [1 - float(answer) for answer in answers]
        assert violating(chain, formula, None, "chain").low == pytest.approx(expected, abs=1e-6)


def intervals(seed: int) -> ExplicitChain:
    """Return a chain of intervals around a chain's probabilities, without lower ends of 0."""
    rng = random.Random(seed)
    chain = labelled(seed)[1]
    transitions: list[Transition] = []
    for state in range(chain.states):
        entries = range(chain.starts[state], chain.starts[state + 1])
        for at in entries:
            share, width = chain.low[at], rng.choice((0, 0.05, 0.2))
            low, high = max(LEAST_END, share - width), min(1.0, share + width)
            if len(entries) == 1:
                low = high = 1.0
            transitions.append(Transition(1, state, int(chain.targets[at]), low, high))
    return explicit_chain("chain", chain.states, transitions, {"goal": chain.labels["goal"].tolist()}, 0)


def test_intervals() -> None:
    """Storm's interval engine agrees on the least and the greatest probability."""
    chains = [chain for chain in map(intervals, range(CHAINS)) if chain.has_intervals]
    tasks = [
        task(to_drn(chain), 'P=? [F "goal"]', values) for chain in chains for values in ("least", "greatest")
    ]
    answers = asked(tasks)
    for number, chain in enumerate(chains):
        for end, found in enumerate(reach_bounds(chain, chain.mask(chain.labels["goal"]))):
            assert found == pytest.approx(list(map(float, answers[2 * number + end])), abs=1e-5)
    print(f"{len(chains)} chains of intervals")
    assert len(chains) > 150


@pytest.mark.parametrize("alpha", [None, 1.0], ids=["nested", "laplace"])
def test_risks_of_learned_chains(alpha: float | None) -> None:
    """Storm's exact engine finds on the written product the risk of every context, within 1, 5 and ever."""
    horizons = {1: 'P=? [F<=1 "violated"]', 5: 'P=? [F<=5 "violated"]', None: 'P=? [F "violated"]'}
    options = RiskOptions(tuple(horizons), EstimateOptions(alpha))
    chains = [each for each in map(_counted, range(2 * CHAINS)) if each is not None][:CHAINS]
    found = [rule_risks(each, options) for each in chains]
    products = [product_chain(each.counted, each.estimate) for each in found]
    models = [to_drn(each.chain).replace("double", "rational") for each in products]
    answers = asked([task(model, wanted, "exact") for model in models for wanted in horizons.values()])
    risks = 0
    for number, each in enumerate(found):
        is_known = each.others.symbols <= each.counted.symbols.boundary
        values = np.concatenate([each.table.values, each.other_risks[is_known]])
        for column in range(len(horizons)):
            exact = [float(Fraction(text)) for text in answers[len(horizons) * number + column]]
            assert values[:, column] == pytest.approx(exact[: len(values)], abs=2e-9)
        risks += values.size
    print(f"{risks} risks of {CHAINS} learned chains")
    assert risks > 4_000


def ran(*words: str) -> None:
    """Run a command, which must not fail."""
    done = CliRunner().invoke(tracline, words)
    assert done.exit_code == 0, done.output


def test_exported_products_of_the_desk(tmp_path: Path) -> None:
    """Storm reads what `tracline predict export` writes of each shipped rule, and finds the stored risks.

    They are those of all contexts in a .tra file, and that of the start in PRISM's, to 1e-6.
    """
    archive, folder = tmp_path / "events.parquet", tmp_path / "chain"
    event_frame(conversations(Desk(sessions=400, seed=3))).write_parquet(archive)
    ran("predict", "learn", str(archive), "--rules", *PACKS, "--out", str(folder))
    chain = load_chain(folder)
    tasks, cases = list[dict[str, str]](), list[tuple[RuleChain, Path, int | None]]()
    for rule, suffix in product(chain.rules.values(), (".prism", ".tra")):
        path = tmp_path / f"{rule.rule}{suffix}"
        name = f"{rule.pack}/{rule.rule}"
        ran("predict", "export", str(folder), "--rule", name, "--format", suffix[1:], "--out", str(path))
        labels = path.with_suffix(".lab").read_text("utf-8") if suffix == ".tra" else ""
        for within, wanted in ((5, 'P=? [F<=5 "violated"]'), (None, 'P=? [F "violated"]')):
            tasks.append({**task(path.read_text("utf-8"), wanted), "labels": labels, "suffix": suffix})
            cases.append((rule, path, within))
    agreed = 0
    for (rule, path, within), answers in zip(cases, asked(tasks), strict=True):
        lines = Path(f"{path}.states.jsonl").read_text("utf-8").splitlines()
        named = [orjson.loads(line) for line in lines]
        if path.suffix == ".prism":
            named = [each for each in named if each["symbol"] == "start"]
        for each, answer in zip(named, answers, strict=False):
            where = {name: each[name] for name in ("symbol", "memory")}
            found = chain.risk(rule.pack, rule.rule, **where, state=each["machine_state"], within=within)
            if found is not None:
                assert found.risk == pytest.approx(float(answer), abs=1e-6), (path.name, each)
                agreed += 1
    print(f"{agreed} risks of {len(chain.rules)} shipped rules in exported files")
    assert agreed > 2_000


def _counted(seed: int) -> Counted | None:
    """Return random counts, or None where they have a row that no sequence comes to."""
    counted = random_counted(np.random.default_rng(seed))
    rows = {0}
    for _ in range(len(counted.steps.states)):
        rows |= set(counted.steps.next[sorted(rows)].reshape(-1).tolist())
    return counted if rows >= set(counted.contexts.states.tolist()) else None


def test_interval_chains_of_counts() -> None:
    """Storm agrees on the least and the greatest risk of rules whose rows are intervals of counts."""
    found = [
        model_chain(random_counted(np.random.default_rng(seed)), 0.1, LEAST_OF_COUNTS)
        for seed in range(CHAINS)
    ]
    wanted = [('P=? [F "violated"]', None), ('P=? [F<=4 "violated"]', 4)]
    cases = [(each, text, within) for each in found for text, within in wanted]
    answers = asked(
        [task(to_drn(each.chain), text, end) for each, text, _ in cases for end in ("least", "greatest")]
    )
    for number, (each, _, within) in enumerate(cases):
        for end, bound in enumerate(each.bounds(within)):
            expected = list(map(float, answers[2 * number + end]))[: each.contexts]
            assert bound == pytest.approx(expected, abs=2e-5)
    print(f"{len(found)} interval chains of counts")
    assert len(answers) == 4 * CHAINS
