"""The progress bar of an audit on standard error."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .options import colors, quiet

if TYPE_CHECKING:
    from ..batch.audit.audit import OnProgress


@contextmanager
def progress_bar() -> Generator[OnProgress]:
    """Show a progress bar on standard error if that is a terminal and `--quiet` is not given."""
    if quiet() or not sys.stderr.isatty():
        yield lambda _what, _done, _of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, no_color=colors() is False)
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def update(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield update
