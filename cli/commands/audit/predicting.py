"""The options of an audit that follows the risks of a learned chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import NumberType, grouped_options
from ..predict.reading import followed_by, read_chain

if TYPE_CHECKING:
    from ....batch.audit.as_judged import FollowRules
    from ....predict.following.followed_chain import FollowedChain
    from ....rules.model.rule import RuleSet

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """The folder of a chain, and the threshold of rules without a guaranteed one."""

    predict: Path | None
    above: float | None

    def check(self) -> None:
        """Raise a usage error if the options contradict each other."""
        if self.predict is None and self.above is not None:
            raise click.UsageError("--above requires --predict.")

    def chain(self, rule_set: RuleSet) -> FollowedChain | None:
        """Return the chain as it is followed, and report the rules without a risk or a threshold."""
        if self.predict is None:
            return None
        return followed_by(read_chain(self.predict), rule_set, self.above)

    def follow(self, found: list[FollowedChain]) -> FollowRules | None:
        """Return the function that returns the chain for one of an archive's rule sets.

        Each that it returns is added to `found`.
        """
        if self.predict is None:
            return None
        from ....predict.following.followed_chain import followed_if_any

        learned, above = read_chain(self.predict), self.above

        def followed(rule_set: RuleSet) -> FollowedChain | None:
            chain = followed_if_any(learned, rule_set, above)
            if chain is not None:
                found.append(chain)
            return chain

        return followed


def predict_options(
    text: str = "Follow the risks of the chain, and write their crossings to risk.jsonl.",
) -> Callable[[F], F]:
    """Return the options `--predict`, with this help, and `--above`: the PredictOptions `predicting`."""
    return grouped_options(
        "predicting",
        PredictOptions,
        click.option(
            "--predict",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            metavar="CHAIN",
            help=text,
        ),
        click.option(
            "--above",
            type=NumberType(0, 1, min_open=True),
            metavar="P",
            help="The threshold of rules for which the chain guarantees none.",
        ),
    )
