"""The options of live commands that follow the risks of learned chains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...error import CommandError
from ...options import NumberType, grouped_options, note
from ...terminal import clean, quoted

if TYPE_CHECKING:
    from ....predict.following.loaded_chains import LoadedChains
    from ....rules.model.rule import RuleSet

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ChainsOptions:
    """A chain's folder or a folder of such, and the threshold of rules without a guaranteed one."""

    predict: Path | None
    above: float | None

    def loaded(self) -> LoadedChains:
        """Return the chains of the folder, none without one. Raises CommandError where one is unusable."""
        from ....predict.error import PredictError
        from ....predict.folder.load import load_chain
        from ....predict.folder.tables import CHAIN
        from ....predict.following.loaded_chains import LoadedChains

        if self.predict is None:
            if self.above is not None:
                raise click.UsageError("--above requires --predict.")
            return LoadedChains()
        folders = [self.predict]
        if not (self.predict / CHAIN).exists():
            folders = sorted(path.parent for path in self.predict.glob(f"*/{CHAIN}"))
        try:
            chains = [load_chain(folder) for folder in folders or [self.predict]]
        except PredictError as error:
            raise CommandError("\n".join(map(quoted, str(error).splitlines()))) from error
        return LoadedChains({chain.digest: chain for chain in chains}, self.above)


def first_chain(chains: LoadedChains, rule_set: RuleSet | None) -> str | None:
    """Return the digest of the only chain, which follows the rules of the start, and report what it lacks."""
    if rule_set is None or len(chains.digests) != 1:
        return None
    [digest] = chains.digests
    followed = chains.followed(digest, rule_set)
    if followed is None:
        raise CommandError("TRL803 the chain cannot follow these rules: learn it again from them")
    for names, what in (
        (followed.unknown, "not learned by the chain"),
        (followed.no_threshold, "without a threshold: give one with --above"),
    ):
        if names:
            note(clean(f"{what}: {', '.join(names)}"))
    return digest


def chains_options() -> Callable[[F], F]:
    """Return the options `--predict` and `--above`: the ChainsOptions `predicting`."""
    return grouped_options(
        "predicting",
        ChainsOptions,
        click.option(
            "--predict",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            metavar="CHAINS",
            help="Follow the risks of chains: the folder of one, or a folder of such folders. An activation"
            " names the chain; a single one also follows the rules of --rules.",
        ),
        click.option(
            "--above",
            type=NumberType(0, 1, min_open=True),
            metavar="P",
            help="The threshold of rules for which a chain guarantees none.",
        ),
    )
