"""The written product of a learned chain: solving it gives back the risks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tracline.predict.estimation.options import EstimateOptions
from tracline.predict.explicit.chain import ExplicitChain
from tracline.predict.explicit.drn import read_drn, to_drn
from tracline.predict.explicit.prism import read_prism, to_prism
from tracline.predict.explicit.solution import reaching
from tracline.predict.explicit.transitions import read_tra, to_lab, to_tra
from tracline.predict.risk.product_chain import interval_product, product_chain
from tracline.predict.risk.rule_risks import RiskOptions, rule_risks

from ...support.chains.counts import random_counted

HORIZONS = (1, 4, None)
FORMATS: dict[str, Callable[[ExplicitChain], ExplicitChain]] = {
    "prism": lambda chain: read_prism(to_prism(chain), "m"),
    "tra": lambda chain: read_tra(to_tra(chain), "m", to_lab(chain), "l"),
}


@pytest.mark.parametrize("written", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("alpha", [None, 0.0, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_an_exported_product_solves_to_the_risks(
    seed: int, alpha: float | None, written: Callable[[ExplicitChain], ExplicitChain]
) -> None:
    """For each horizon, at every context, visited or not."""
    counted = random_counted(np.random.default_rng(seed))
    found = rule_risks(counted, RiskOptions(HORIZONS, EstimateOptions(alpha)))
    product = product_chain(counted, found.estimate)
    known = len(counted.contexts)
    others = np.flatnonzero(found.others.symbols <= counted.symbols.boundary)
    for column, within in enumerate(HORIZONS):
        solved = reaching(written(product.chain), ["violated"], within, "m").low
        assert solved[:known] == pytest.approx(found.table.values[:, column], abs=2e-9)
        assert solved[known:-2] == pytest.approx(found.other_risks[others, column], abs=2e-9)
        assert solved[-2:].tolist() == [1.0, 0.0]


def test_states_are_named_by_their_contexts() -> None:
    """One name for each state but the violated and the ended one, which have labels."""
    counted = random_counted(np.random.default_rng(1))
    product = product_chain(counted, rule_risks(counted, RiskOptions((1,))).estimate)
    names = list(product.names())
    assert len({(name.symbol, name.memory, name.machine_state) for name in names}) == len(names)
    assert len(names) == product.chain.states - 2
    assert product.chain.labels["violated"].tolist() == [len(names)]
    assert product.chain.labels["end"].tolist() == [len(names) + 1]
    assert names[product.chain.initial].symbol == "start"


@pytest.mark.parametrize("seed", range(3))
def test_intervals_enclose_the_risks_of_frequencies(seed: int) -> None:
    """The frequencies of the counts are a chain within the exported intervals."""
    counted = random_counted(np.random.default_rng(seed))
    product = interval_product(counted, 0.05, 1e-12)
    chain = read_drn(to_drn(product.chain), "m")
    solved = reaching(chain, ["violated"], 3, "m")
    risks = rule_risks(counted, RiskOptions((3,), EstimateOptions(alpha=0.0))).table.values[:, 0]
    known = len(counted.contexts)
    assert (solved.low[:known] <= risks + 1e-9).all()
    assert (solved.high[:known] >= risks - 1e-9).all()
    assert len(list(product.names())) == chain.states - 2
