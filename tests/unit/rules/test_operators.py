"""The operator library: every construct of LLMon's tables against its description and its formula there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product

import pytest
from tracline.rules.compiler.compile import compile_formula
from tracline.rules.model.formula import Formula
from tracline.rules.model.machine import VERDICT_MASK, VIOLATED
from tracline.rules.packs.load import pack_text
from tracline.rules.reference.semantics import holds

Bits = Sequence[bool]
LENGTH_MAX = 6
TABLE_BITS = {
    "a1": "not previous a1",
    "third": "not (previous[2] true -> (previous[3] true and not previous[3] third))",
}
"""The auxiliary variables of Table 2 as printed (COOE's second one is not used: it contradicts the text)."""


def latest(q: Bits) -> int | None:
    """Return the index of the latest true value, from 0."""
    return max((i for i, true in enumerate(q) if true), default=None)


def changes(p: Bits) -> list[bool]:
    """Return whether p changed its value at each event but the first."""
    return [before != after for before, after in pairwise(p)]


# Table 1: name, the table's formula, its natural-language description.
UNARY: dict[str, tuple[str, Callable[[Bits], bool]]] = {
    # "q1 was true from the beginning until one step before the most recent event"
    "previous_time_historically": ("previous historically p", lambda p: len(p) > 1 and all(p[:-1])),
    # "q1 should change its value at every step"
    "value_alternation": (
        "historically (previous true -> (p <-> previous not p))",
        lambda p: all(changes(p)),
    ),
    # "true if q1 is the same across all timesteps"
    "consistent_boolean_value": ("historically p or historically not p", lambda p: len(set(p)) == 1),
    # "q1 never holds"
    "never": ("historically not p", lambda p: True not in p),
    # "q1 has been true at least once from start": the description, not the table's `once historically p`
    "at_least_once_from_start": ("once p", lambda p: True in p),
    # "q1 changes its value once in the sequence"
    "changes_only_once": (
        "(p and (p since historically not p)) or (not p and (not p since historically p))",
        lambda p: sum(changes(p)) == 1,
    ),
    # "q1 holds at odd timesteps"
    "holds_at_odd": ("historically (a1 -> p)", lambda p: all(p[0::2])),
    # "q1 holds at some timestep divisible by 3"
    "holds_at_some_divisible_by_3": ("once (third and p)", lambda p: any(p[2::3])),
    # "q1 has the same value at all odd timesteps, and holds in at least one even timestep"
    "consistent_odd_and_once_even": (
        "(historically (a1 -> p) or historically (a1 -> not p)) and once (not a1 and p)",
        lambda p: len(set(p[0::2])) == 1 and any(p[1::2]),
    ),
}

BINARY: dict[str, tuple[str, Callable[[Bits, Bits], bool]]] = {
    # "q1 has been true since the last time q2 was true (one step after that). If q2 never became true, q1
    # must hold for the entire sequence"
    "true_since": (
        "(p since q) or historically p",
        lambda p, q: all(p[last + 1 :]) if (last := latest(q)) is not None else all(p),
    ),
    # "at any given timestep it is true that if q2 holds, q1 happened before that (or at the same timestep)"
    "happened_before": (
        "historically (q -> once p)",
        lambda p, q: all(any(p[: i + 1]) for i in range(len(q)) if q[i]),
    ),
    # "since one step after the latest occurrence of q2, q1 has been false. If q2 was never true, q1 FS q2 is
    # true"
    "false_since": (
        "once q -> (not p since q)",
        lambda p, q: (last := latest(q)) is None or True not in p[last + 1 :],
    ),
    # "Before the current q2, q1 was always false"
    "false_before": ("q -> historically not p", lambda p, q: not q[-1] or True not in p),
}

CONSTRUCTS = [
    *((f"{name}(p)", table, described) for name, (table, described) in UNARY.items()),
    *((f"{name}(p, q)", table, described) for name, (table, described) in BINARY.items()),
]


def library_formula(
    text: str, transitions: dict[str, str] | None = None
) -> tuple[Formula, dict[str, Formula]]:
    """Return a formula that calls the library, as a rule of a pack, and the transition bits that it uses."""
    lines = ["pack: x", "propositions:", '  p: kind == "user"', '  q: kind == "assistant"', "transitions:"]
    lines += [f"  {name}: {right}" for name, right in (transitions or {}).items()]
    lines += ["rules:", "  - id: r", f"    formula: {text}"]
    (rule,) = pack_text("\n".join(lines) + "\n").rules
    return rule.formula, dict(rule.transitions)


def traces(size: int) -> list[list[frozenset[str]]]:
    """Return all traces of one to `size` events over p and q."""
    letters = [frozenset[str](), frozenset({"p"}), frozenset({"q"}), frozenset({"p", "q"})]
    return [list(trace) for length in range(1, size + 1) for trace in product(letters, repeat=length)]


def test_the_library_has_thirteen_constructs() -> None:
    """Ten constructs of Table 1 and three of Table 2 can be called from a pack that defines nothing."""
    assert len(CONSTRUCTS) == 13
    for call, *_ in CONSTRUCTS:
        library_formula(f"always {call}")


@pytest.mark.parametrize(("call", "described"), [(call, described) for call, _, described in CONSTRUCTS])
def test_the_machine_flags_where_the_description_is_false(call: str, described: Callable[..., bool]) -> None:
    """On every trace of up to six events an invariant of it flags just where its description fails."""
    formula, transitions = library_formula(f"always {call}")
    machine = compile_formula(formula, transitions=transitions)
    for trace in traces(LENGTH_MAX):
        state, flagged = 0, False
        for label in trace:
            state, output = machine.step(state, machine.word(label))
            flagged = output & VERDICT_MASK == VIOLATED
        columns = [[name in label for label in trace] for name in ("p", "q")[: call.count(",") + 1]]
        assert flagged == (not described(*columns)), trace


@pytest.mark.parametrize(("call", "table"), [(call, table) for call, table, _ in CONSTRUCTS])
def test_the_operator_means_the_formula_of_the_table(call: str, table: str) -> None:
    """On every trace of up to four events the reference semantics gives operator and formula the same truth.

    The two rows that contradict their descriptions stand corrected in this file.
    """
    formula, bits = library_formula(call)
    used = {name: right for name, right in TABLE_BITS.items() if name in table}
    printed, printed_bits = library_formula(table, used)
    for trace in traces(4):
        at = len(trace)
        assert holds(formula, trace, at, bits) == holds(printed, trace, at, printed_bits), trace


@pytest.mark.parametrize(
    ("table", "bits", "described", "trace"),
    [
        (
            "(historically (a1 -> p) or historically (a1 -> not p)) and once (a2 and p)",
            {"a1": "not previous a1", "a2": "not (previous true -> previous a1)"},
            UNARY["consistent_odd_and_once_even"][1],
            [True, False, True],
        ),
        ("once historically p", {}, UNARY["at_least_once_from_start"][1], [False, True]),
    ],
)
def test_two_rows_of_the_tables_contradict_their_descriptions(
    table: str, bits: dict[str, str], described: Callable[[Bits], bool], trace: list[bool]
) -> None:
    """COOE and OAS as printed differ from their descriptions on a short trace; we ship the descriptions."""
    printed, printed_bits = library_formula(table, bits)
    labels = [frozenset({"p"}) if true else frozenset[str]() for true in trace]
    assert holds(printed, labels, len(labels), printed_bits) != described(trace)
