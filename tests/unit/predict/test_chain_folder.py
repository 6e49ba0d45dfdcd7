"""The folder of a chain: written and loaded again, looked up in, and refused where it is damaged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import orjson
import polars as pl
import pytest
from tracline.archive.error import SourceError
from tracline.batch.prediction.chain_folder import write_chain
from tracline.predict import PredictError, load_chain
from tracline.predict.chain.contexts import Contexts
from tracline.predict.chain.learned import Counted
from tracline.predict.estimation.expectation import NextSymbolChain
from tracline.predict.estimation.nested import NestedLevel
from tracline.predict.estimation.options import EstimateOptions
from tracline.predict.folder.tables import COUNTS, RISK, RuleToWrite
from tracline.predict.risk.rule_risks import RiskOptions, RuleRisks, rule_risks
from tracline.predict.risk.solve import RiskSolver
from tracline.predict.validation.context_intervals import ContextIntervals

from ...support.chains.counts import random_counted

HORIZONS = (1, 5, None)
DOCUMENT = {"horizons": HORIZONS, "confidence": 0.95, "learned": 7, "packs": {}}


def intervals_of(contexts: int) -> ContextIntervals:
    """Return intervals that name the context: of 100 + context sessions, context violated."""
    numbers = np.repeat(np.arange(contexts)[:, None], len(HORIZONS), axis=1)
    low = np.full(numbers.shape, 0.12345678949)
    return ContextIntervals(low, low + 0.5, numbers + 100, numbers, numbers + 200)


def rule(
    seed: int,
    options: EstimateOptions | None = None,
    agents: tuple[str, ...] = ("",),
    memory: tuple[str, ...] = ("", "", ""),
    states: tuple[int, ...] = (0, 1, 2),
) -> RuleToWrite:
    """Return a rule of random counts; with several agents each context is that of a random one."""
    rng = np.random.default_rng(seed)
    counted = random_counted(rng)
    steps = replace(counted.steps, memory=memory, states=np.array(states, dtype=np.int32))
    counted = replace(counted, steps=steps)
    numbers = np.sort(rng.integers(0, len(agents), len(counted.contexts)).astype(np.int32))
    contexts = Contexts(numbers, counted.contexts.symbols, counted.contexts.states)
    counted = replace(counted, rule=f"r{seed}", agents=agents, contexts=contexts)
    risks = rule_risks(counted, RiskOptions(HORIZONS, options or EstimateOptions()))
    more = {"sessions": 7, "violating": 2, "thresholds": []}
    return RuleToWrite(risks, intervals_of(len(contexts)), "f" * 64, more)


def written(tmp_path: Path, *rules: RuleToWrite) -> Path:
    """Write a chain into a new folder."""
    write_chain(tmp_path / "chain", rules, DOCUMENT)
    return tmp_path / "chain"


def names_of(counted: Counted, number: int) -> tuple[str, int]:
    """Return the symbol and the state of a context."""
    symbols = (*counted.symbols.symbols, "start")
    row = int(counted.contexts.states[number])
    return symbols[counted.contexts.symbols[number]], int(counted.steps.states[row])


@pytest.mark.parametrize("seed", range(4))
def test_every_context_is_looked_up_as_it_was_solved(tmp_path: Path, seed: int) -> None:
    """With its interval, its sessions and its basis, for each horizon."""
    subject = rule(seed)
    chain, risks = load_chain(written(tmp_path, subject, rule(9))), subject.risks
    for number in range(len(risks.counted.contexts)):
        symbol, state = names_of(risks.counted, number)
        for column, within in enumerate(HORIZONS):
            found = chain.risk("p", f"r{seed}", symbol=symbol, state=state, within=within)
            assert found is not None
            assert found.risk == risks.table.values[number, column]
            assert (found.low, found.high) == (0.123456789, 0.62345679)
            assert (found.sessions, found.violating, found.basis) == (100 + number, number, "context")


def test_a_symbol_that_the_chain_lacks_rests_on_the_state(tmp_path: Path) -> None:
    """Its risk is that of the row, without any session; a state that cannot be has none."""
    subject = rule(0)
    chain, others = load_chain(written(tmp_path, subject)), subject.risks.others
    place = int(np.flatnonzero((others.symbols == 4) & (others.states == 1))[0])
    found = chain.risk("p", "r0", symbol="tool:new", state=1, within=5)
    assert found is not None
    assert found.risk == subject.risks.other_risks[place, 1]
    assert (found.low, found.high, found.sessions, found.basis) == (0.0, 1.0, 0, "state")
    assert chain.risk("p", "r0", symbol="tool:new", state=77, within=5) is None


def test_memory_may_be_left_out_where_one_text_fits(tmp_path: Path) -> None:
    """Nothing remembered comes first; several texts are named, and a given one is looked up."""
    subject = rule(0, memory=("", "a", "b"), states=(0, 1, 1))
    chain, others = load_chain(written(tmp_path, subject)), subject.risks.others

    def risk(symbol: str, state: int, memory: str | None = None) -> float:
        found = chain.risk("p", "r0", symbol=symbol, state=state, memory=memory, within=5)
        return np.nan if found is None else found.risk

    unseen = {int(row): place for place, row in enumerate(others.states) if others.symbols[place] == 4}
    assert risk("new", 0) == subject.risks.other_risks[unseen[0], 1]
    assert risk("new", 1, "b") == subject.risks.other_risks[unseen[2], 1]
    with pytest.raises(ValueError, match="give `memory`, which may be 'a' or 'b'"):
        risk("new", 1)
    rows = subject.risks.counted.steps.next
    single = [symbol for symbol in range(3) if len({*rows[:, symbol].tolist()} - {0}) == 1]
    assert single
    for symbol in single:
        (row,) = {*rows[:, symbol].tolist()} - {0}
        assert risk(f"s{symbol}", 1) == risk(f"s{symbol}", 1, "ab"[row - 1])


def test_any_other_agent_has_the_risk_of_all(tmp_path: Path) -> None:
    """It leans on the counts of all agents, and its basis is not the context."""
    chain = load_chain(written(tmp_path, rule(1, agents=("a", "b"))))
    known = [chain.risk("p", "r1", symbol="start", state=0, within=5, agent=name) for name in "abz"]
    assert all(known)
    assert known[2] is not None
    assert known[2].basis == "symbol"


def solved_again(risks: RuleRisks, path: Path) -> np.ndarray:
    """Return the risks within 5 of the table's contexts, by stepping the loaded chain."""
    loaded = load_chain(path).rule("p", risks.counted.rule)
    counted = loaded.counted(risks.counted.steps)
    assert counted.contexts.symbols.tolist() == risks.counted.contexts.symbols.tolist()
    solver = RiskSolver(counted, NextSymbolChain(counted, loaded.estimate(counted)))
    contexts = counted.contexts
    return solver.within(5)[contexts.agents, contexts.symbols, contexts.states]


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("alpha", [None, 0.0, 0.5])
def test_a_loaded_chain_steps_to_the_stored_risks(tmp_path: Path, alpha: float | None, history: bool) -> None:
    """Its counts and weights give the same distributions as the ones that were learned."""
    subject = rule(2, EstimateOptions(alpha, history), agents=("a", "b"))
    path = written(tmp_path, subject)
    loaded = load_chain(path).rule("p", "r2")
    assert loaded.highs(loaded.counted(subject.risks.counted.steps), 5) == pytest.approx(0.62345679)
    assert solved_again(subject.risks, path) == pytest.approx(subject.risks.table.values[:, 1], abs=1e-9)


@pytest.mark.parametrize("alpha", [None, 0.5])
def test_the_chain_over_labels_has_the_weights_that_learning_chose(
    tmp_path: Path, alpha: float | None
) -> None:
    """A folder has no folds of sessions to choose them by again."""
    subject = rule(2, EstimateOptions(alpha))
    chosen = replace(subject.risks.labels, levels=(NestedLevel(("symbol",), 20.0),))
    subject = replace(subject, risks=replace(subject.risks, labels=chosen))
    loaded = load_chain(written(tmp_path, subject)).rule("p", "r2")
    found = loaded.labels(loaded.counted(subject.risks.counted.steps))
    assert found.levels == chosen.levels
    assert found.top.tolist() == chosen.top.tolist()


def test_the_same_counts_give_the_same_bytes(tmp_path: Path) -> None:
    """Whatever the order of the rules; a chain replaces a chain."""
    path = written(tmp_path, rule(0), rule(1))
    before = {each.name: each.read_bytes() for each in path.iterdir()}
    digest = load_chain(path).digest
    assert write_chain(path, [rule(1), rule(0)], DOCUMENT) == digest
    assert {each.name: each.read_bytes() for each in path.iterdir()} == before
    assert [each.name for each in tmp_path.iterdir()] == ["chain"]


def test_nothing_else_is_replaced(tmp_path: Path) -> None:
    """A folder that is no chain stays as it is."""
    (tmp_path / "chain").mkdir()
    (tmp_path / "chain" / "mine").write_text("")
    with pytest.raises(SourceError, match="TRL406"):
        written(tmp_path, rule(0))
    assert [each.name for each in (tmp_path / "chain").iterdir()] == ["mine"]


@pytest.mark.parametrize("failing", ["out", "rmtree"])
def test_a_chain_that_cannot_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Or is replaced whole: where only its deletion fails, the new one is there."""
    path = written(tmp_path, rule(0))
    digest, replace_path, attempts = load_chain(path).digest, Path.replace, list[Path]()

    def fail_once(source: Path, target: Path) -> Path:
        if target == path and not attempts:
            attempts.append(source)
            raise PermissionError("no")
        return replace_path(source, target)

    def fail(*_args: object, **_more: object) -> None:
        raise PermissionError("no")

    if failing == "out":
        monkeypatch.setattr(Path, "replace", fail_once)
    else:
        monkeypatch.setattr("shutil.rmtree", fail)
    with pytest.raises(PermissionError):
        written(tmp_path, rule(1))
    assert (load_chain(path).digest == digest) == (failing == "out")


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    """No chain, one of another release, and changed or missing tables."""
    path = written(tmp_path, rule(0))
    with pytest.raises(PredictError, match="TRL801"):
        load_chain(tmp_path)
    counts = path / "counts.parquet"
    pl.read_parquet(counts).with_columns(pl.col("count") + 1).write_parquet(counts)
    with pytest.raises(PredictError, match="TRL802"):
        load_chain(path)
    counts.unlink()
    with pytest.raises(PredictError, match="TRL802"):
        load_chain(path)
    content = orjson.loads((path / "chain.json").read_bytes())
    (path / "chain.json").write_bytes(orjson.dumps({**content, "schema": "tracline-chain/0"}))
    with pytest.raises(PredictError, match="TRL801"):
        load_chain(path)


def rewritten(path: Path, content: Mapping[str, object], tables: Mapping[str, pl.DataFrame]) -> None:
    """Write a chain with other content, whose digests are right."""
    for name, table in tables.items():
        table.write_parquet(path / name)
    files = {name: sha256((path / name).read_bytes()).hexdigest() for name in (COUNTS, RISK)}
    (path / "chain.json").write_bytes(orjson.dumps({"files": files, **content}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("confidence", 1),
        ("horizons", [None]),
        ("horizons", [5, 1, None]),
        ("by", "content"),
        ("files", {}),
        ("packs", {"p": 1}),
        ("rules", [{}]),
        ("rules", "twice"),
        ("kappa", 1e308),
        ("symbols", ["s0", "s0", "s1"]),
        ("symbols", ["s0", "s1", "start"]),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(tmp_path: Path, field: str, value: object) -> None:
    """Values of another type or out of range, rules and symbols that are there twice: TRL801."""
    path = written(tmp_path, rule(0))
    content = orjson.loads((path / "chain.json").read_bytes())
    (first,) = content["rules"]
    if value == "twice":
        value = [first, first]
    if field == "kappa":
        first["estimate"]["levels"][0]["kappa"] = value
    elif field == "symbols":
        first["symbols"] = value
    else:
        content[field] = value
    (path / "chain.json").write_bytes(orjson.dumps(content))
    with pytest.raises(PredictError, match="TRL801"):
        load_chain(path)


TABLE_CHANGES: dict[str, tuple[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "its columns": (COUNTS, lambda table: table.drop("residual")),
    "its columns are": (RISK, lambda table: table.cast({"state": pl.Int64})),
    "values are missing": (COUNTS, lambda table: table.with_columns(next=pl.lit(None, pl.String))),
    "a row is there twice": (RISK, lambda table: pl.concat([table, table.head(1)])),
    "a row is there": (COUNTS, lambda table: pl.concat([table, table.head(1)])),
    "a state is below 0": (RISK, lambda table: table.with_columns(state=pl.lit(-1, pl.Int32))),
    "a count": (COUNTS, lambda table: table.with_columns(count=pl.lit(0, pl.Int64))),
    "a risk or interval": (RISK, lambda table: table.with_columns(risk=pl.lit(float("nan")))),
    "a risk or": (RISK, lambda table: table.with_columns(low=pl.lit(0.9), high=pl.lit(0.1))),
    "a basis": (RISK, lambda table: table.with_columns(basis=pl.lit("faith"))),
    "sessions contradict": (RISK, lambda table: table.with_columns(sessions=pl.lit(-1, pl.Int64))),
    "an agent is not": (COUNTS, lambda table: table.with_columns(agent=pl.lit("z"))),
    "a symbol is not": (COUNTS, lambda table: table.with_columns(next=pl.col("next") + "!")),
    "a horizon is not": (RISK, lambda table: table.with_columns(pl.col("within") + 1)),
    "has no risk within": (RISK, lambda table: table.slice(1)),
    "with counts has no risk": (COUNTS, lambda table: table.with_columns(memory=pl.lit("m"))),
}
"""The error of a changed table, and its change."""


@pytest.mark.parametrize("error", TABLE_CHANGES)
def test_tables_with_impossible_rows_are_refused(tmp_path: Path, error: str) -> None:
    """Though their digests are those of chain.json: other columns, doubled rows and no numbers are TRL802."""
    path = written(tmp_path, rule(0))
    content = orjson.loads((path / "chain.json").read_bytes())
    del content["files"]
    name, change = TABLE_CHANGES[error]
    rewritten(path, content, {name: change(pl.read_parquet(path / name))})
    with pytest.raises(PredictError, match=f"TRL802.*{error}"):
        load_chain(path)


def test_a_table_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    """Though its digest is that of chain.json."""
    path = written(tmp_path, rule(0))
    content = orjson.loads((path / "chain.json").read_bytes())
    (path / RISK).write_bytes(b"PAR1PAR1")
    content["files"][RISK] = sha256(b"PAR1PAR1").hexdigest()
    (path / "chain.json").write_bytes(orjson.dumps(content))
    with pytest.raises(PredictError, match=r"TRL802 not Parquet"):
        load_chain(path)


def test_a_rule_that_the_chain_lacks_is_refused(tmp_path: Path) -> None:
    """A horizon that it lacks is a mistake of the caller."""
    chain = load_chain(written(tmp_path, rule(0)))
    with pytest.raises(PredictError, match="TRL803"):
        chain.risk("p", "other", symbol="start", state=0, within=1)
    with pytest.raises(ValueError, match="no horizon 4"):
        chain.risk("p", "r0", symbol="start", state=0, within=4)
