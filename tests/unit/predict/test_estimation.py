"""Smoothing and the sample sizes of Pro2Guard, on the paper's chains."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tracline.predict.estimation.sample_size import pac_local, spread
from tracline.predict.estimation.smoothing import laplace
from tracline.predict.explicit.chain import ExplicitChain, Transition, explicit_chain
from tracline.predict.explicit.solve import reach

FORK = [[150, 30, 0, 0, 0], [0, 0, 0, 0, 30], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
"""Pro2Guard's figure 1, a fork and a microwave: the counts between s0 to s3 and the end."""
IMPOSSIBLE = ((0, 3), (1, 2), (2, 1), (3, 0))

STATES = ("0101", "0111", "1101", "1111", "law", "collision", "reached")
TURN = {
    "0101": {"0101": 1119, "0111": 3, "1101": 1, "collision": 19},
    "0111": {"0101": 20, "0111": 4646, "1101": 1, "1111": 16},
    "1101": {"1101": 18, "law": 61, "collision": 1},
    "1111": {"0111": 33, "1101": 60, "1111": 118221, "reached": 28},
    "law": {"0111": 1, "1111": 106, "law": 6399, "collision": 10},
}
"""Pro2Guard's table 2, a left turn, by vehicle, pedestrian, moving and green; 12 more states were not
reached."""


def chain_of(rows: list[list[float]]) -> ExplicitChain:
    """Return rows of probabilities as a chain."""
    entries = [(s, t, share) for s, row in enumerate(rows) for t, share in enumerate(row) if share]
    return explicit_chain("chain", len(rows), [Transition(1, s, t, p, p) for s, t, p in entries], {}, 0)


def reached(rows: list[list[float]], target: int) -> list[float]:
    """Return the probability of a state from each state."""
    goal = np.zeros(len(rows), dtype=np.bool_)
    goal[target] = True
    return reach(chain_of(rows), goal).tolist()


def test_figure_1_with_valid_transitions() -> None:
    """31/184 as printed; what can reach the unsafe state is smoothing alone."""
    valid = [[(s, t) not in IMPOSSIBLE and s < 4 for t in range(5)] for s in range(5)]
    rows = laplace(FORK, 1, valid)
    assert rows[0][1] == pytest.approx(31 / 184)
    assert rows[4] == [0, 0, 0, 0, 1]
    # By hand: 33 s0 = 31 s1 + s2, 33 s1 = s0 + 1, 3 s2 = s0 + 1.
    assert reached(rows, 3)[:3] == pytest.approx([14 / 349, 11 / 349, 121 / 349])
    assert reached(laplace(FORK, 0), 3) == [0, 0, 0, 1, 0]


def test_table_2_of_nineteen_states() -> None:
    """The collision from the table's three states: smoothed, by frequencies, and with the law absorbing."""
    size = 19
    counts = [[0] * size for _ in range(size)]
    for source, row in TURN.items():
        for target, count in row.items():
            counts[STATES.index(source)][STATES.index(target)] = count

    def collisions(alpha: float, absorbing: Sequence[str]) -> list[float]:
        rows = laplace(counts, alpha)
        for state in map(STATES.index, absorbing):
            rows[state] = [float(target == state) for target in range(size)]
        found = reached(rows, STATES.index("collision"))
        return [round(100 * found[STATES.index(state)], 2) for state in ("1101", "1111", "0111")]

    assert collisions(1, ["collision", "reached"]) == [49.97, 42.24, 57.67]
    assert collisions(0, ["collision", "reached"]) == [50.14, 44.33, 71.39]
    assert collisions(0, ["collision", "reached", "law"]) == [1.61, 15.95, 55.55]


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": [[1, 0]], "alpha": 1},
        {"counts": [[-1]], "alpha": 1},
        {"counts": [[1]], "alpha": -1},
        {"counts": [[1]], "alpha": 1, "valid": [[False]]},
        {"counts": [[1]], "alpha": 1, "valid": []},
    ],
)
def test_smoothing_refuses_what_are_no_counts(wrong: dict[str, list[list[int]]]) -> None:
    """Rows of another length, negative numbers, and counts of transitions that cannot be."""
    with pytest.raises(ValueError, match=r"laplace needs|state 0 has"):
        laplace(**wrong)  # pyright: ignore[reportArgumentType]


def test_the_bound_of_a_state() -> None:
    """H* is that of the successor nearest to one half; a state that was never left has none."""
    found = pac_local([[90, 10, 0], [50, 25, 25], [0, 0, 0]], eps=0.1, delta=0.05)
    scale = 2 / 0.01 * math.log(2 / (0.05 / 3))
    assert found[0] == pytest.approx(scale * (0.25 - (0.4 - 0.2 / 3) ** 2))
    assert found[1] == pytest.approx(scale * (0.25 - (0 - 0.2 / 3) ** 2))
    assert found[2] is None
    assert pac_local([[1, 1]], eps=1e-200) == [math.inf]
    with pytest.raises(ValueError, match="between 0 and 1"):
        pac_local([[1]], eps=0)


def test_the_spread_of_errors() -> None:
    """|S| / Cond: half of the walks leave a state in each step, so Cond is 1 - 2^-2."""
    assert spread([[0.5, 0.5], [0.0, 1.0]]) == pytest.approx(2 / (1 - 0.25))
    assert spread([[1.0, 0.0], [0.0, 1.0]]) == 0
    circle = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    assert spread(circle) == pytest.approx(3.0)
