"""The chain and the archive of a command that puts one to the other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...progress import progress_bar
from ...rejected import report_rejected
from ...source import (
    allow_rejected_option,
    audit_options,
    chat_options,
    sources_argument,
    timezone_option,
)

if TYPE_CHECKING:
    from ....batch.prediction.chain_archive import CountedArchive
    from ....predict.folder.chain_rules import ChainRules

F = TypeVar("F", bound=Callable[..., Any])


def chain_argument(name: str = "chain", metavar: str = "CHAIN") -> Callable[[F], F]:
    """Return an argument for the folder of a chain."""
    return click.argument(
        name, metavar=metavar, type=click.Path(exists=True, file_okay=False, path_type=Path)
    )


def archive_options() -> Callable[[F], F]:
    """Return the argument ARCHIVE and the options for reading it."""

    def decorate(function: F) -> F:
        options = (
            chain_argument(),
            sources_argument("archive", "ARCHIVE"),
            timezone_option(),
            chat_options(),
            allow_rejected_option(),
        )
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def read_chain_and_archive(
    chain: Path, archive: tuple[str, ...], timezone: str, allow_rejected: int
) -> tuple[ChainRules, CountedArchive]:
    """Read a chain and count an archive by its rules; report rejects on standard error."""
    from ....batch.prediction.chain_archive import counted_archive
    from ....batch.sources.discover import Population
    from ....predict.folder.chain_rules import chain_rules
    from ....predict.folder.load import load_chain

    rules, population = chain_rules(load_chain(chain)), Population()
    with progress_bar() as on_progress, tempfile.TemporaryDirectory() as scratch:
        counted = counted_archive(
            rules, archive, Path(scratch), audit_options(timezone), population, on_progress
        )
    report_rejected(population.rejects, population.rejected, archive, allow_rejected)
    return rules, counted
