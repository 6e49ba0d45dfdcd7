"""The reasons for a risk, against the enumeration of all continuations."""

from __future__ import annotations

import numpy as np
import pytest
from tracline.predict.chain.contexts import END
from tracline.predict.chain.walks import CLOSED, CLOSED_UNMET, CUT
from tracline.predict.explaining.chain_graph import ENDED_NODE, GOAL_NODE, ChainGraph
from tracline.predict.explaining.next_symbols import Actor, actor_of, next_symbols
from tracline.predict.explaining.paths import likeliest_paths
from tracline.predict.explaining.real_sessions import session_along
from tracline.predict.explaining.rises import RiskRise, risk_rises

from ...support.chains.graphs import continuations, random_graph
from ...support.chains.walks import Walk, walks_of


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("within", [1, 2, 5])
def test_likeliest_paths_are_the_first_of_all(seed: int, within: int) -> None:
    """Their probabilities are those of the enumeration in order, and each path has its own probability."""
    graph = random_graph(np.random.default_rng(seed))
    every = {nexts: share for nexts, share in continuations(graph, 0, within) if share > 0}
    found = likeliest_paths(graph, 0, within, 20)
    assert [each.probability for each in found] == pytest.approx(sorted(every.values(), reverse=True)[:20])
    assert len({each.nexts for each in found}) == len(found)
    for each in found:
        assert each.probability == pytest.approx(every[each.nexts])
        assert len(each.nodes) == len(each.nexts) - 1
        steps = zip((0, *each.nodes), each.nexts, (*each.nodes, GOAL_NODE), strict=True)
        assert all(graph.targets[node, place] == target for node, place, target in steps)


@pytest.mark.parametrize("seed", range(8))
def test_paths_of_ever_are_those_of_a_long_horizon(seed: int) -> None:
    """Where a session ends soon, the five likeliest of ever lie within ten events."""
    graph = random_graph(np.random.default_rng(seed), nodes=3, symbols=2)
    graph.probabilities[:, :-1] *= 0.5
    graph.probabilities[:, -1] = 1 - graph.probabilities[:, :-1].sum(axis=1)
    ever, soon = likeliest_paths(graph, 0, None, 5), likeliest_paths(graph, 0, 10, 5)
    assert [each.probability for each in ever] == pytest.approx([each.probability for each in soon])


@pytest.mark.parametrize("within", [40, None])
def test_equally_likely_paths_are_not_all_looked_at(within: int | None) -> None:
    """Of 2^40 continuations, and of as many of any length, the first by length and by symbols are found."""
    probabilities, targets = np.array([[0.25, 0.25, 0.5]]), np.array([[0, 0, ENDED_NODE]], dtype=np.int64)
    if within is None:
        targets[0, 2] = GOAL_NODE
    graph = ChainGraph(probabilities, targets, None if within is None else np.array([True]))
    found = [path.nexts for path in likeliest_paths(graph, 0, within, 4)]
    if within is None:
        assert found == [(2,), (0, 2), (1, 2), (0, 0, 2)]
    else:
        ends = (0, 0), (0, 1), (1, 0), (1, 1)
        assert found == [(*[0] * 38, *end) for end in ends]


@pytest.mark.parametrize("seed", range(8))
def test_next_symbols_divide_the_risk(seed: int) -> None:
    """The risk of a node is the mean of the risks after its next symbols, and all paths together have it."""
    graph = random_graph(np.random.default_rng(seed))
    symbols = ("user:a", "tool_call:b", "assistant")
    found = next_symbols(graph, 0, graph.risks_within(3), (*symbols, END))
    risk = graph.risks_within(4)[0]
    assert sum(each.probability * each.risk for each in found) == pytest.approx(risk)
    assert sum(each.probability for each in found) == pytest.approx(1)
    assert sum(share for _, share in continuations(graph, 0, 4)) == pytest.approx(risk)


def test_the_agent_acts_by_its_messages_and_calls() -> None:
    """Customers, results, the close and rare symbols are the environment."""
    agents = [actor_of(symbol) for symbol in ("assistant:offers", "assistant", "tool_call:refunds+own")]
    others = [actor_of(symbol) for symbol in ("user:agrees", "tool_result", "end", "rare:3")]
    assert {*agents} == {Actor.AGENT}
    assert {*others} == {Actor.ENVIRONMENT}


def test_loops_do_not_hide_the_way_out() -> None:
    """A node that almost always stays where it is violates by ever longer paths, each less likely."""
    graph = ChainGraph(np.array([[0.9, 0.05, 0.05]]), np.array([[0, GOAL_NODE, ENDED_NODE]], dtype=np.int64))
    found = likeliest_paths(graph, 0, None, 4)
    assert [each.nexts for each in found] == [(1,), (0, 1), (0, 0, 1), (0, 0, 0, 1)]


def test_the_greatest_rises_are_named_in_order() -> None:
    """Small rises, falls and the rule's stop are left out."""
    risks = np.array([0.02, 0.025, 0.31, 0.1, 0.2, 0.25, 0.5, np.nan])
    assert risk_rises(risks) == [RiskRise(2, 0.025, 0.31), RiskRise(4, 0.1, 0.2), RiskRise(6, 0.25, 0.5)]
    assert risk_rises(np.array([0.2, 0.1])) == []


def test_a_real_session_goes_the_way_of_a_path() -> None:
    """The first that did; a close is the end of a closed sequence only, and slices do not run together."""
    walks = walks_of(
        [
            Walk(4, [0, 1], [False, False], CUT),
            Walk(4, [2, 1], [False, True], CLOSED_UNMET),
            Walk(7, [0, 1, 2], [False, False, True], CLOSED),
        ]
    )
    symbols, end = np.array([3, 0, 1], dtype=np.int32), 3
    ways = {(0, (0,)): 4, (0, (0, 1)): 7, (0, (0, 3)): None, (2, (0, 3)): 4, (1, (3,)): 4, (0, (2,)): None}
    assert {way: session_along(walks, symbols, end, *way) for way in ways} == ways
