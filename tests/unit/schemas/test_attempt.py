"""The boundary around code that reads the input of others."""

from __future__ import annotations

import pytest
from tracline.schemas.attempt import Broken, attempt


def test_work_that_succeeds_returns_its_result() -> None:
    """A result comes back as it is."""
    assert attempt(lambda: 3) == 3


def test_an_error_of_an_input_is_named() -> None:
    """The reason is the error's name, without its text."""
    broken = attempt(lambda: int("a secret"))
    assert isinstance(broken, Broken)
    assert broken.reason == "ValueError"


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, SystemExit])
def test_an_error_of_the_process_is_raised(error: type[BaseException]) -> None:
    """Lack of memory and the end of the process are not an input's fault."""

    def work() -> None:
        raise error

    with pytest.raises(error):
        attempt(work)


def test_the_caller_may_name_further_errors_of_the_process() -> None:
    """Errors in `unless` are raised, and only these."""
    with pytest.raises(ValueError, match="invalid literal"):
        attempt(lambda: int("x"), (ValueError,))
