"""The probability that a chain violates a formula, by the product of the chain and the formula's machine.

The word of a path is the labels of its states, the first one included. The product, and the reachability of
its violated states, are those of Baier and Katoen 2008, 10.3, for the bad prefixes of the formula.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rules.model.arrays import I64, Mask
from ...rules.model.machine import STAYS_VIOLATED, VERDICT_MASK, Machine
from ...rules.model.problem import did_you_mean
from ..error import PredictError
from .chain import STATES_MAX, ExplicitChain


@dataclass(frozen=True, slots=True)
class Product:
    """The product of a chain and a machine: state `s * machine states + q`.

    `first` has for each state of the chain the product's state after the word of that state alone, and
    `violated` the states of which the formula is violated.
    """

    chain: ExplicitChain
    first: I64
    violated: Mask


def product(chain: ExplicitChain, machine: Machine, where: str) -> Product:
    """Return the product of a chain and the machine of a formula that never restarts.

    Raises PredictError: TRL809 for a proposition that is no label, TRL810 for too many states.
    """
    states = len(machine.next)
    if chain.states * states > STATES_MAX:
        what = f"the product has {chain.states * states:,} states"
        raise PredictError("TRL810", where, what, f"it may have {STATES_MAX:,}")
    after = np.array(machine.next, dtype=np.int64)[:, _letters(chain, machine, where)]
    outputs = np.array(machine.output)[:, 0] & VERDICT_MASK
    return Product(
        chain=_joint(chain, after),
        first=np.arange(chain.states) * states + after[0],
        violated=np.tile(outputs == STAYS_VIOLATED, chain.states),
    )


def _letters(chain: ExplicitChain, machine: Machine, where: str) -> I64:
    """Return the machine's letter of each state's labels."""
    words = np.zeros(chain.states, dtype=np.int64)
    for bit, name in enumerate(machine.propositions):
        words[label_states(chain, name, where)] |= 1 << bit
    return np.frombuffer(machine.letters, dtype=np.uint8)[words].astype(np.int64)


def label_states(chain: ExplicitChain, name: str, where: str) -> I64:
    """Return the states with a label; state `i` of a chain without labels has the label `s<i>`.

    Raises PredictError: TRL809 for a label that no state has.
    """
    if name in chain.labels:
        return chain.labels[name]
    if (
        set(chain.labels) <= {"init"}
        and name[:1] == "s"
        and name[1:].isdecimal()
        and int(name[1:]) < chain.states
    ):
        return np.array([int(name[1:])])
    names = chain.labels or [f"s{state}" for state in range(min(chain.states, 10))]
    raise PredictError("TRL809", where, f"no state has the label `{name}`", did_you_mean(name, names))


def _joint(chain: ExplicitChain, after: I64) -> ExplicitChain:
    """Return the product's chain, with `after[q, s]` the machine's state after reading state `s` in `q`."""
    states = len(after)
    entries: I64 = np.diff(chain.starts)
    # Rows are ordered by the chain's state, then by the machine's.
    rows = np.repeat(np.arange(chain.states), states)
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(entries[rows], out=starts[1:])
    offsets: I64 = chain.starts[rows] - starts[:-1]
    order = np.repeat(offsets, entries[rows]) + np.arange(int(starts[-1]))
    machine = np.repeat(np.tile(np.arange(states), chain.states), entries[rows])
    targets = chain.targets[order]
    return ExplicitChain(
        starts=starts,
        targets=targets * states + after[machine, targets],
        low=chain.low[order],
        high=chain.high[order],
        labels={},
        initial=0,
        absorbing=np.empty(0, dtype=np.int64),
    )
