"""The kernel's edges: limits, empty input, and what a machine's two extra letters do."""

from __future__ import annotations

import numpy as np
import pytest
from tracline.rules.compiler.compile import compile_formula
from tracline.rules.engine import kernel, kernel_loop
from tracline.rules.engine.closing import close_sessions
from tracline.rules.engine.kernel import known_letters
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.machine import Machine
from tracline.rules.model.problem import RuleError
from tracline.schemas.verdict import Verdict


def machine(formula: str) -> Machine:
    """Return the machine of a formula."""
    return compile_formula(parse_formula(formula))


def rows(words: list[int]) -> kernel.Rows:
    """Return one session whose events have these words."""
    count = len(words)
    return kernel.Rows(
        words=np.array(words, dtype=np.int32),
        slots=np.zeros(count, dtype=np.int32),
        stamps=np.arange(count, dtype=np.int64),
        slices=np.empty((count, 0), dtype=np.int32),
    )


def test_rule_sets_too_large_for_the_table_are_refused() -> None:
    """A thousand of the largest machines are an error that names the limit, before any table is made."""
    states, letters = 1_000, 250
    wide = ((0,) * letters,) * states
    large = Machine(("p",), bytes(2), wide, wide, (None,) * states, ("",) * states)
    with pytest.raises(RuleError, match="TRL302"):
        kernel.lay_out([large] * 1_100, [False] * 1_100, [None] * 1_100)


def test_no_rules_and_no_rows_find_nothing() -> None:
    """An empty rule set runs over rows, and rules over no rows."""
    empty = kernel.lay_out([], [], [])
    memory = kernel.remember(empty, 1, 0)
    assert (
        list(kernel.judge(empty, known_letters(np.empty((1, 0), dtype=np.uint8)), rows([0, 0]), memory)) == []
    )
    program = kernel.lay_out([machine("always p")], [False], [None])
    memory = kernel.remember(program, 1, 0)
    assert (
        list(kernel.judge(program, known_letters(np.zeros((1, 1), dtype=np.uint8)), rows([]), memory)) == []
    )
    assert len(close_sessions(program, memory, np.array([0], dtype=np.int32))[0].kinds) == 0


def test_an_unknown_event_ends_a_rule_for_its_session() -> None:
    """It is reported once; later violations and the closing are not, and the rule counts as unjudged."""
    compiled = machine("always p")
    program = kernel.lay_out([compiled], [False], [None])
    letters = np.array([[compiled.letters[0]], [compiled.letters[1]], [program.unknown[0]]], dtype=np.uint8)
    memory = kernel.remember(program, 1, 0)
    [found] = kernel.judge(program, known_letters(letters), rows([1, 0, 2, 0, 2, 0]), memory)
    assert found.stamps.tolist() == [1, 2]
    assert found.kinds.tolist() == [kernel_loop.FOUND_VIOLATED, kernel_loop.FOUND_UNKNOWN]
    assert kernel.unjudged(memory).tolist() == [[True]]
    assert len(close_sessions(program, memory, np.array([0], dtype=np.int32))[0].kinds) == 0


def test_events_that_a_rule_does_not_see_leave_no_trace() -> None:
    """`previous` and the closing's event count the seen events only."""
    compiled = machine("always (q -> previous p)")
    program = kernel.lay_out([compiled], [True], [None])
    row_letters = [compiled.letters[compiled.word(true)] for true in ({"p"}, {"q"})]
    letters = np.array([[row_letters[0]], [row_letters[1]], [program.skip[0]]], dtype=np.uint8)
    memory = kernel.remember(program, 1, 0)
    assert list(kernel.judge(program, known_letters(letters), rows([0, 2, 2, 1, 2]), memory)) == []
    closed, _ = close_sessions(program, memory, np.array([0], dtype=np.int32))
    assert [kernel.CLOSING[kind] for kind in closed.kinds] == [Verdict.HELD]
    assert closed.stamps.tolist() == [3]


@pytest.mark.parametrize(("count", "width", "values"), [(0, 2, 1), (1, 2, 1), (500, 2, 3), (500, 4, 10**6)])
def test_rows_of_words_are_numbered_in_the_order_in_which_they_appear(
    count: int, width: int, values: int
) -> None:
    """Equal rows share a number, others never do; each number knows its first row."""
    words = np.random.default_rng(7).integers(0, values, (count, width)).astype(np.uint64)
    codes, firsts = kernel_loop.numbered(words)
    numbers: dict[tuple[int, ...], int] = {}
    expected = [numbers.setdefault(tuple(row), len(numbers)) for row in words.tolist()]
    assert codes.tolist() == expected
    assert firsts.tolist() == [expected.index(number) for number in range(len(numbers))]
