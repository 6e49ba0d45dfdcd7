"""The two chains that Pro2Guard prints (figure 1 and table 2), from their counts.

The counts are facts of the paper: how often its agents went from each abstract state to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...predict.estimation.smoothing import laplace
from ...predict.explicit.chain import ExplicitChain, Transition, explicit_chain
from ...predict.explicit.solve import reach

Counts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class CountedChain:
    """Counts of transitions by state, and the transitions that cannot occur.

    `absorbing` states are never left. The numbers of the states are their places in `states`.
    """

    states: tuple[str, ...]
    counts: Counts
    impossible: frozenset[tuple[str, str]] = frozenset()
    absorbing: frozenset[str] = frozenset()

    def rows(self, alpha: float) -> list[list[float]]:
        """Return the probabilities smoothed by equation (1) of the paper; `alpha` 0 gives the frequencies."""
        counts = [[self.counts.get(a, {}).get(b, 0) for b in self.states] for a in self.states]
        valid = [[self._is_valid(a, b) for b in self.states] for a in self.states]
        return laplace(counts, alpha, valid)

    def chain(self, alpha: float) -> ExplicitChain:
        """Return the smoothed chain; each state has its name as a label."""
        transitions = [
            Transition(0, source, target, share, share)
            for source, row in enumerate(self.rows(alpha))
            for target, share in enumerate(row)
            if share > 0
        ]
        labels = {name: [number] for number, name in enumerate(self.states)}
        return explicit_chain("chain", len(self.states), transitions, labels, 0)

    def reaching(self, target: str, alpha: float) -> Mapping[str, float]:
        """Return by state the probability of ever reaching a target."""
        chain = self.chain(alpha)
        values = reach(chain, chain.mask(chain.labels[target]))
        return dict(zip(self.states, values.tolist(), strict=True))

    def _is_valid(self, source: str, target: str) -> bool:
        if source in self.absorbing:
            return source == target
        return (source, target) not in self.impossible


FORK_AND_MICROWAVE = CountedChain(
    states=("s0", "s1", "s2", "s3", "end"),
    counts=MappingProxyType({"s0": {"s0": 150, "s1": 30}, "s1": {"end": 30}}),
    impossible=frozenset({("s0", "s3"), ("s1", "s2"), ("s2", "s1"), ("s3", "s0")}),
    absorbing=frozenset({"end"}),
)
"""Figure 1: whether a fork is in the microwave and whether it is on; in s3, the unsafe state, both hold."""

LEFT_TURN = CountedChain(
    states=(*(f"{number:04b}" for number in range(16)), "law", "collision", "reached"),
    counts=MappingProxyType(
        {
            "0101": {"0101": 1119, "0111": 3, "1101": 1, "collision": 19},
            "0111": {"0101": 20, "0111": 4646, "1101": 1, "1111": 16},
            "1101": {"1101": 18, "law": 61, "collision": 1},
            "1111": {"0111": 33, "1101": 60, "1111": 118221, "reached": 28},
            "law": {"0111": 1, "1111": 106, "law": 6399, "collision": 10},
        }
    ),
    absorbing=frozenset({"collision", "reached"}),
)
"""Table 2: states by no vehicle, no pedestrian, moving and a green light; `law` is a broken traffic law."""
