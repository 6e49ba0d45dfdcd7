"""Files of Markov chains: round trips, the formats of others, and the line of each mistake."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tracline.predict.error import PredictError
from tracline.predict.explicit.chain import STATES_MAX, ExplicitChain, Transition, explicit_chain
from tracline.predict.explicit.drn import read_drn, to_drn
from tracline.predict.explicit.prism import read_prism, to_prism
from tracline.predict.explicit.transitions import read_tra, to_lab, to_tra

DRN = """// Exported by storm
// Original model type: DTMC
@type: DTMC
@value_type: double-interval
@parameters

@reward_models

@nr_states
3
@nr_choices
3
@model
state 0 init
\taction 0
\t\t1 : [0.1, 0.5]
\t\t2 : [1/4, 0.9]
state 1 violated
\taction 0
\t\t1 : [1, 1]
state 2 end
\taction 0
\t\t2 : 1
"""
PRISM = """dtmc // one of Storm's examples, shortened
module die
  s : [0..2] init 0;
  [] s=0 -> 1/3 : (s'=1)
          + 2/3 : (s'=2);
  [] s=1 -> 1 : (s'=1);
  [] (s=2) -> 0.5 : (s'=2) + 5e-1 : (s'=1);
endmodule
label "violated" = (s=1) | s=2;
label "none" = false;
"""


def random_chain(seed: int) -> ExplicitChain:
    """Return a chain whose probabilities need all their bits."""
    rng = random.Random(seed)
    states = rng.randrange(1, 9)
    transitions: list[Transition] = []
    for source in range(states):
        targets = rng.sample(range(states), rng.randrange(1, states + 1))
        shares = [rng.random() for _ in targets]
        transitions += [
            Transition(1, source, target, share / sum(shares), share / sum(shares))
            for target, share in zip(targets, shares, strict=True)
        ]
    labels = {"init": [0], "violated": [0], "end": sorted(rng.sample(range(states), 1))}
    return explicit_chain("chain", states, transitions, labels, 0)


def same(left: ExplicitChain, right: ExplicitChain) -> bool:
    """Return whether two chains are equal, bit by bit."""
    arrays = ("starts", "targets", "low", "high")
    labels = [{name: states.tolist() for name, states in each.labels.items()} for each in (left, right)]
    return (
        all(np.array_equal(getattr(left, name), getattr(right, name)) for name in arrays)
        and labels[0] == labels[1]
        and left.initial == right.initial
    )


@pytest.mark.parametrize("seed", range(20))
def test_files_give_the_chain_back(seed: int) -> None:
    """A chain written and read is the same, in each format, to the last bit."""
    chain = random_chain(seed)
    assert same(read_prism(to_prism(chain), "m.prism"), chain)
    assert same(read_tra(to_tra(chain), "m.tra", to_lab(chain), "m.lab"), chain)
    assert same(read_drn(to_drn(chain), "m.drn"), chain)


def test_intervals_of_storm() -> None:
    """Storm's direct encoding has intervals, rationals and plain numbers; written again, it is the same."""
    chain = read_drn(DRN, "m.drn")
    assert chain.low.tolist() == [0.1, 0.25, 1, 1]
    assert chain.high.tolist() == [0.5, 0.9, 1, 1]
    assert chain.has_intervals
    assert same(read_drn(to_drn(chain), "m.drn"), chain)


def test_a_module_of_prism() -> None:
    """Rationals, exponents, comments, brackets around guards, and a label of no state."""
    chain = read_prism(PRISM, "m.prism")
    assert chain.low.tolist() == [1 / 3, 2 / 3, 1, 0.5, 0.5]
    assert {name: states.tolist() for name, states in chain.labels.items()} == {
        "violated": [1, 2],
        "none": [],
    }


def test_transitions_without_the_first_line_and_labels() -> None:
    """A `.tra` file may lack Storm's first line and a `.lab` file; a state without a row is absorbing."""
    chain = read_tra("0 1 1/4\n0 2 0.75\n\n2 2 1\n", "m.tra")
    assert chain.states == 3
    assert chain.absorbing.tolist() == [1]
    assert chain.labels == {}


def test_an_initial_label_of_no_state() -> None:
    """State 0 is the initial one where `init` is declared and no state has it."""
    assert read_tra("0 1 1\n", "m", "#DECLARATION\ninit\n#END\n", "l").initial == 0


LAB = "#DECLARATION\ninit\n#END\n"
MISTAKES = {
    "no such state of prism": (lambda: read_prism(PRISM.replace("(s'=2);", "(s'=3);"), "m"), "m:5: TRL807"),
    "a label twice": (lambda: read_prism(PRISM + 'label "none" = s=0;', "m"), "m:11: TRL807"),
    "a state of 5,000 digits": (lambda: read_tra(f"0 {'9' * 5000} 1\n", "m"), "m: TRL810"),
    "the same in prism": (lambda: read_prism(PRISM.replace("..2", f"..{'9' * 5000}"), "m"), "m: TRL810"),
    "another variable": (lambda: read_prism(PRISM.replace("[] s=1", "[] t=1"), "m"), "m:6: TRL807"),
    "a fraction of a state": (lambda: read_prism(PRISM.replace("0..2", "0..2.5"), "m"), "m:3: TRL807"),
    "states from 1": (lambda: read_prism(PRISM.replace("0..2", "1..2"), "m"), "m:3: TRL807"),
    "division by 0": (lambda: read_prism(PRISM.replace("1/3", "1/0"), "m"), "m:4: TRL807"),
    "a choice": (lambda: read_prism(PRISM.replace("dtmc", "mdp"), "m"), "m:1: TRL807"),
    "the end is missing": (lambda: read_prism(PRISM[:60], "m"), "TRL807"),
    "a row of 0.9": (lambda: read_prism(PRISM.replace("2/3", "0.6"), "m"), "m:4: TRL808"),
    "a negative number": (lambda: read_tra("0 1 -1\n0 0 2\n", "m"), "m:2: TRL808"),
    "no number": (lambda: read_tra("0 1 half\n", "m"), "m:1: TRL807"),
    "not a number": (lambda: read_tra("0 1 nan\n", "m"), "m:1: TRL808"),
    "two words": (lambda: read_tra("0 1 1\n0 1\n", "m"), "m:2: TRL807"),
    "nothing": (lambda: read_tra("dtmc\n", "m"), "m: TRL807"),
    "twice": (lambda: read_tra("0 1 0.5\n0 1 0.5\n", "m"), "m:2: TRL807"),
    "a state without a label line": (lambda: read_tra("0 0 1\n", "m", LAB + "1 init\n", "l"), "l:4: TRL807"),
    "an undeclared label": (lambda: read_tra("0 0 1\n", "m", LAB + "0 end\n", "l"), "l:4: TRL807"),
    "no end of declarations": (lambda: read_tra("0 0 1\n", "m", "#DECLARATION\ninit\n", "l"), "l: TRL807"),
    "not a Markov chain": (lambda: read_drn(DRN.replace("DTMC", "MDP"), "m"), "m: TRL807"),
    "a state out of turn": (lambda: read_drn(DRN.replace("state 1", "state 2"), "m"), "m:18: TRL807"),
    "no interval": (lambda: read_drn(DRN.replace("[1, 1]", "[1]"), "m"), "m:20: TRL807"),
    "ends in the wrong order": (
        lambda: read_drn(DRN.replace("[0.1, 0.5]", "[0.5, 0.1]"), "m"),
        "m:16: TRL808",
    ),
    "intervals without a distribution": (lambda: read_drn(DRN.replace("0.5]", "0.05]"), "m"), "TRL808"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_has_its_line(mistake: str) -> None:
    """The error names the file and the line, and does not quote more."""
    read, expected = MISTAKES[mistake]
    with pytest.raises(PredictError) as raised:
        read()
    assert expected in str(raised.value)
    assert "hint: " in str(raised.value)


def test_too_many_states() -> None:
    """A chain has a limit, and nothing is allocated for a larger one."""
    with pytest.raises(PredictError, match="TRL810"):
        explicit_chain("m", STATES_MAX + 1, [], {}, 0)
