"""Quick draws have values of their own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from .quick_draws import quickly

EXAMPLES = 1_000


def test_examples_beside_other_arguments_have_values_of_their_own() -> None:
    """An example that repeats a value proves nothing new; few do, whatever is drawn beside it."""
    found: list[tuple[int, ...]] = []

    @given(quickly(st.tuples(*[st.integers(0, 2**32)] * 4)), st.integers(0, 99))
    @settings(max_examples=EXAMPLES)
    def law(value: tuple[int, ...], _: int) -> None:
        found.append(value)

    law()
    assert len(found) >= EXAMPLES
    # Hypothesis itself repeats 2 to 7 % of the bytes that it draws, depending on what the run imports.
    assert len(set(found)) > 0.9 * EXAMPLES
