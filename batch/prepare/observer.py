"""An observer of the events of an archive, which sees each of them once, while they are labelled."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import polars as pl


class EventObserver(Protocol):
    """An observer of all passes of an archive, one after the other."""

    @property
    def columns(self) -> Collection[str]:
        """Return the columns that it needs of the next pass."""
        ...

    def add(self, events: pl.DataFrame) -> None:
        """Observe the events of a pass, which have the columns."""
        ...
