"""The status of rules and of their parts against the paper's modules, and open parts against all futures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from random import Random

import pytest
from tracline.rules.explanation.rule_status import PartStatus, Status, assess
from tracline.rules.model.formula import Formula
from tracline.rules.reference.semantics import holds

from ..support.formulas import accepted
from ..support.truth.status_modules import Modules, Timesets
from .samples import samples

LABELS = tuple(map(frozenset, ((), ("p",), ("q",), ("p", "q"))))
Trace = tuple[frozenset[str], ...]
SAMPLED = 500
"""Pairs of a formula of four nodes and a trace that are tried every day."""


def traces(longest: int) -> list[Trace]:
    """Return every trace of one up to so many steps."""
    return [trace for length in range(1, longest + 1) for trace in product(LABELS, repeat=length)]


def timesets(part: PartStatus, t0: int) -> Timesets:
    """Return the timesets of a part from a start; a satisfied part is active, too."""
    found: dict[Status, set[int]] = {status: set() for status in Status}
    for t in range(t0, len(part.ends) + 1):
        found[part.status(t0, t)].add(t)
    return Timesets(
        frozenset(found[Status.ACTIVE] | found[Status.SATISFIED]),
        frozenset(found[Status.SATISFIED]),
        frozenset(found[Status.INACTIVE]),
        frozenset(found[Status.VIOLATED]),
    )


def compare(formula: Formula, trace: Trace, transitions: Mapping[str, Formula] | None = None) -> int:
    """Compare every part from every start with the modules; return the number of pairs."""
    modules, count = Modules(trace, transitions or {}), 0
    for part in assess(formula, trace, transitions).parts:
        for t0 in range(1, len(trace) + 1):
            wanted = modules.timesets(part.formula, t0)
            assert timesets(part, t0) == wanted, (str(formula), trace, part.node, t0)
            assert holds(part.formula, trace, t0, transitions or {}) is not bool(wanted.violated)
            count += 1
    return count


def pairs(formulas: Sequence[Formula], count: int) -> Iterable[tuple[Formula, Trace]]:
    """Return seeded pairs of a formula and a trace."""
    random, every = Random(5), traces(5)
    return [(random.choice(formulas), random.choice(every)) for _ in range(count)]


def test_small_formulas_have_the_papers_timesets() -> None:
    """All formulas of up to two nodes on all traces of up to three steps, and a sample beyond them."""
    small = [formula for formula in accepted() if formula.size <= 2]
    count = sum(compare(formula, trace) for formula in small for trace in traces(3))
    count += sum(compare(*pair) for pair in pairs(accepted(), SAMPLED))
    assert count > 10_000


def test_bounds_counts_and_bits_have_the_timesets_of_their_meaning() -> None:
    """Step bounds, `at_most` and transition bits, which the paper does not have."""
    random, every = Random(6), traces(5)
    for sample in samples():
        compare(sample.formula, random.choice(every), sample.transitions)


def compare_all(trace: Trace) -> int:
    """Compare every accepted formula of the fixed set with the modules over one trace, from every start.

    Formulas come after their operands: as a part of a larger formula each has the ends that it has alone.
    """
    modules, ends, count = Modules(trace), dict[Formula, bytes](), 0
    for formula in accepted():
        whole, *operands = assess(formula, trace).parts
        for t0 in range(1, len(trace) + 1):
            wanted = modules.timesets(formula, t0)
            assert timesets(whole, t0) == wanted, (str(formula), trace, t0)
            assert holds(formula, trace, t0) is not bool(wanted.violated)
            count += 1
        ends[formula] = whole.ends.tobytes()
        for part in operands:
            assert part.ends.tobytes() == ends[part.formula], (str(formula), trace, part.node)
    return count


@pytest.mark.exhaustive
def test_every_formula_of_the_fixed_set_has_the_papers_timesets() -> None:
    """All formulas of up to four nodes on all traces of up to five steps."""
    every = traces(5)
    count = sum(map(compare_all, every))
    assert count == len(accepted()) * sum(map(len, every))
    print(f"{count:,} timesets of {len(accepted()):,} formulas on {len(every):,} traces")


def futures(longest: int) -> list[Trace]:
    """Return every way in which a session may go on for up to so many steps."""
    return [(), *traces(longest)]


def test_a_part_is_open_only_where_the_future_may_decide() -> None:
    """A part that is not open has the same truth on every longer trace."""
    openings = closings = 0
    for formula, trace in pairs([formula for formula in accepted() if formula.size <= 3], 250):
        for part in assess(formula, trace, is_closed=False).parts:
            for t0 in range(1, len(trace) + 1):
                truths = {holds(part.formula, (*trace, *future), t0) for future in futures(2)}
                status = part.status(t0, len(trace))
                if status is not Status.OPEN:
                    assert truths == {status is not Status.VIOLATED}, (str(part.formula), trace, t0)
                    closings += 1
                openings += len(truths) == 2
    assert openings > 60
    assert closings > 300
