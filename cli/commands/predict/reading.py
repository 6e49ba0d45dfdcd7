"""Reading of a learned chain for a command, and the rules that it is followed for."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...error import CommandError
from ...options import note
from ...terminal import clean, quoted

if TYPE_CHECKING:
    from ....predict.folder.learned_chain import LearnedChain
    from ....predict.following.followed_chain import FollowedChain
    from ....rules.model.rule import RuleSet


def read_chain(folder: Path) -> LearnedChain:
    """Return the chain in a folder. Raises CommandError (TRL801, TRL802) where it cannot be read."""
    from ....predict.folder.load import load_chain

    with predict_errors():
        return load_chain(folder)


def followed_by(learned: LearnedChain, rule_set: RuleSet, above: float | None) -> FollowedChain:
    """Return the chain as it is followed for rules, and report the rules without a risk or a threshold.

    Raises CommandError where it was learned from none of the rules (TRL803).
    """
    from ....predict.following.followed_chain import followed_chain

    with predict_errors():
        found = followed_chain(learned, rule_set, above)
    note_without_risk([found])
    return found


def note_without_risk(chains: Sequence[FollowedChain]) -> None:
    """Report the rules without a risk or a threshold in any of these, which are of one chain."""
    for found, what in (
        ([each.unknown for each in chains], "not learned by the chain"),
        ([each.no_threshold for each in chains], "without a threshold: give one with --above"),
    ):
        names = dict.fromkeys(name for each in found for name in each)
        if names:
            note(clean(f"{what}: {', '.join(names)}"))


@contextmanager
def predict_errors() -> Generator[None]:
    """Turn errors of prediction in the block into errors of the command."""
    from ....predict.error import PredictError

    try:
        yield
    except PredictError as error:
        raise CommandError("\n".join(map(quoted, str(error).splitlines()))) from error
