"""A learned chain over another archive, and the graph that explains its risks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tracline.examples.markov_desk import MarkovDesk, steps
from tracline.predict.chain.contexts import Contexts, SymbolSet
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.over_archive import OverArchive, over_archive
from tracline.predict.chain.walks import CLOSED, CUT
from tracline.predict.estimation.expectation import NextSymbolChain
from tracline.predict.estimation.nested import nested
from tracline.predict.explaining.rule_graph import explained_chain
from tracline.predict.risk.solve import RiskSolver
from tracline.predict.validation.next_symbol_costs import next_symbol_costs
from tracline.predict.validation.outcomes import outcomes

from ...support.chains.counts import random_counted
from ...support.chains.desk_counts import desk_counts
from ...support.chains.markov import desk_rules
from ...support.chains.walks import Walk, walks_of


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Counted], list[Counted]]:
    """Return the counts of a few sessions, and of more by another seed."""
    folder = tmp_path_factory.mktemp("desks")
    few = desk_counts(MarkovDesk(sessions=40, seed=3), folder / "few")
    return few, desk_counts(MarkovDesk(sessions=120, seed=4), folder / "more")


@pytest.mark.slow
def test_an_archive_has_the_walks_of_its_steps(desks: tuple[list[Counted], list[Counted]]) -> None:
    """Stepping the compiled rules along the stated sessions gives the same verdicts and closes."""
    desk = MarkovDesk(sessions=120, seed=4)
    for rule, found in zip(desk_rules(), desks[1], strict=True):
        stepped = walks_of([rule.walk(number, steps(desk, number)) for number in range(desk.sessions)])
        assert found.rule == rule.name
        assert found.walks.bounds.tolist() == stepped.bounds.tolist()
        assert found.walks.violated.tolist() == stepped.violated.tolist()
        assert found.walks.endings.tolist() == stepped.endings.tolist()
        assert stepped.violated.any() or (outcomes(stepped).distances == 1).any()


@pytest.mark.slow
def test_walks_keep_their_contexts_in_the_chains_numbers(
    desks: tuple[list[Counted], list[Counted]],
) -> None:
    """Each place has the symbol and the row that it has in the archive, unless the chain lacks them."""
    unknown = new = 0
    for chain, archive in zip(*desks, strict=True):
        found = over_archive(chain, archive)
        contexts = found.counted.contexts
        for place, number in enumerate(found.counted.walks.contexts.tolist()):
            name = named(archive, int(archive.walks.contexts[place]))
            if number >= found.unknown:
                assert name[0] not in {*chain.symbols.symbols, "start"}
                unknown += 1
                continue
            assert named(found.counted, number) == name
            assert found.learned[number] == (number in chain.counts.contexts)
            new += number >= len(chain.contexts)
        assert len(contexts) == len(found.learned)
        assert found.unseen_share == pytest.approx(found.unseen / found.places)
    assert new


def named(counts: Counted, context: int) -> tuple[str, int, str]:
    """Return the symbol, machine state and memory of a context."""
    symbol, row = int(counts.contexts.symbols[context]), int(counts.contexts.states[context])
    text = "start" if symbol == counts.symbols.boundary else counts.symbols.symbols[symbol]
    return text, int(counts.steps.states[row]), counts.steps.memory[row]


def test_a_symbol_that_the_chain_lacks_is_unseen() -> None:
    """Its places have no context of the chain, but a number for their agent and row."""
    rng = np.random.default_rng(2)
    chain = random_counted(rng)
    starts = int(np.flatnonzero(chain.contexts.symbols == chain.symbols.boundary)[0])
    new = int(np.flatnonzero(chain.contexts.symbols == 2)[0])
    walks = walks_of([Walk(0, [starts, new], [False, False], CLOSED)])
    archive = replace(chain, symbols=SymbolSet(("s0", "s1", "new")), walks=walks)
    found = over_archive(chain, archive)
    assert found.counted.walks.contexts.tolist() == [starts, found.unknown + 1]
    pairs = found.after_unseen.agents.tolist(), found.after_unseen.states.tolist()
    assert pairs[0][0] == chain.contexts.agents[new]
    assert pairs[1][0] == chain.contexts.states[new]
    assert (found.unseen, found.places, found.unseen_share) == (1, 1, 1.0)
    count = len(found.after_unseen)
    values = np.zeros((len(chain.contexts), 2))
    assert np.isnan(found.with_unknown(values)[found.unknown :]).all()
    given = found.with_unknown(values, np.full((count, 2), 0.5))
    assert np.isnan(given[found.unknown]).all()
    assert given[found.unknown + 1 :].tolist() == [[0.5, 0.5]] * count


@pytest.mark.parametrize("within", [1, 4, None])
@pytest.mark.parametrize("seed", range(5))
def test_an_explained_risk_is_the_solved_one(seed: int, within: int | None) -> None:
    """At the start of the session and at a context without a visit; its next symbols add up to it."""
    counts = random_counted(np.random.default_rng(seed))
    chain = NextSymbolChain(counts, nested(counts))
    solver = RiskSolver(counts, chain)
    risks = solver.ever() if within is None else solver.within(within)
    for start in ((0, counts.symbols.boundary, 0), (0, 1, 2)):
        found = explained_chain(counts, chain, start, within).explain(0, 5)
        assert found.risk == pytest.approx(risks[start], abs=1e-8)
        assert sum(each.probability * each.risk for each in found.nexts) == pytest.approx(
            found.risk, abs=1e-8
        )
        assert len({path.steps for path in found.paths}) == len(found.paths)
        if within == 1:
            assert found.covered == pytest.approx(1)
        else:
            assert 0 < found.covered <= 1 + 1e-8
            assert len(found.paths) == 5


def test_costs_are_those_of_each_next_symbol() -> None:
    """Events and closes cost -log of their probability; cut ends and places the chain lacks cost nothing."""
    counts = random_counted(np.random.default_rng(3))
    size, end = len(counts.contexts), counts.symbols.boundary
    probabilities = np.random.default_rng(4).dirichlet(np.ones(end + 1), size)
    closed, cut = Walk(0, [0, 1], [False, False], CLOSED), Walk(1, [1, size, 2], [False] * 3, CUT)
    unseen = Walk(2, [1, size + 1, 2], [False] * 3, CUT)
    over = OverArchive(
        counted=replace(counts, walks=walks_of([closed, cut, unseen])),
        learned=np.ones(size, dtype=np.bool_),
        after_unseen=Contexts(*np.array([[0], [end + 1], [0]], dtype=np.int32)),
        unseen=2,
        places=5,
    )
    found = next_symbol_costs(over, probabilities)
    symbol = int(counts.contexts.symbols[1])
    assert found.sessions.tolist() == [0, 0]
    assert found.costs == pytest.approx(-np.log([probabilities[0, symbol], probabilities[1, end]]))
    assert found.expected[0] == pytest.approx(-(probabilities[0] * np.log(probabilities[0])).sum())
