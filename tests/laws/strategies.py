"""Inputs of the laws: formulas with every operator, traces, and ways of recovering."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from tracline.rules.model.formula import FALSE, TRUE, Formula, Op, prop
from tracline.schemas.verdict import Recover

LAWS = settings(max_examples=300)
"""For most laws."""

FEWER = settings(max_examples=40)
"""For a test that is run once for each of many laws."""

NAMES = ("p", "q")
LEAVES = st.sampled_from([*map(prop, NAMES), TRUE, FALSE])
BOUNDS = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda ab: (ab[0], ab[0] + ab[1]))


def _boolean(inner: SearchStrategy[Formula]) -> SearchStrategy[Formula]:
    binary = st.sampled_from([Op.AND, Op.OR, Op.IMPLIES, Op.IFF])
    return st.one_of(_unary(st.just(Op.NOT), inner), _binary(binary, inner))


def _unary(op: SearchStrategy[Op], inner: SearchStrategy[Formula]) -> SearchStrategy[Formula]:
    return st.builds(lambda op, arg: Formula(op, (arg,)), op, inner)


def _binary(op: SearchStrategy[Op], inner: SearchStrategy[Formula]) -> SearchStrategy[Formula]:
    return st.builds(lambda op, left, right: Formula(op, (left, right)), op, inner, inner)


def _past(inner: SearchStrategy[Formula]) -> SearchStrategy[Formula]:
    unary = st.sampled_from([Op.PREVIOUS, Op.WEAK_PREVIOUS, Op.ONCE, Op.HISTORICALLY])
    bounded = st.sampled_from([Op.ONCE, Op.HISTORICALLY])
    return st.one_of(
        _boolean(inner),
        _unary(unary, inner),
        _binary(st.sampled_from([Op.SINCE, Op.WEAK_SINCE]), inner),
        st.builds(lambda op, arg, bounds: Formula(op, (arg,), bounds=bounds), bounded, inner, BOUNDS),
        st.builds(lambda arg, k: Formula(Op.AT_MOST, (arg,), bounds=(0, k)), inner, st.integers(0, 2)),
    )


def _future(inner: SearchStrategy[Formula]) -> SearchStrategy[Formula]:
    unary = st.sampled_from([Op.NEXT, Op.WEAK_NEXT, Op.EVENTUALLY, Op.ALWAYS])
    binary = st.sampled_from([Op.UNTIL, Op.WEAK_UNTIL, Op.RELEASE, Op.STRONG_RELEASE])
    bounded = st.sampled_from([Op.EVENTUALLY, Op.ALWAYS])
    return st.one_of(
        _boolean(inner),
        _unary(unary, inner),
        _binary(binary, inner),
        st.builds(lambda op, arg, bounds: Formula(op, (arg,), bounds=bounds), bounded, inner, BOUNDS),
    )


PAST_FORMULAS = st.recursive(LEAVES, _past, max_leaves=3)
FUTURE_FORMULAS = st.recursive(LEAVES, _future, max_leaves=4)
FORMULAS = st.recursive(PAST_FORMULAS, _future, max_leaves=3)
"""Mixed ones: past inside future, never the other way."""

LETTERS = st.frozensets(st.sampled_from(NAMES))
TRACES = st.lists(LETTERS, max_size=10)
LOOPS = st.lists(LETTERS, min_size=1, max_size=3)
RECOVERS = st.sampled_from(list(Recover))
