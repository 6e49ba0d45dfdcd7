"""The first contents of an archive by tool and kind, which have nearly everything that rules ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from .conditions import Context
from .json_paths import PathCounter, paths_of

PROBED_PASSES = 4
"""Passes whose first rows are searched for what conditions need, before all rows are."""
PROBED_ROWS = 20_000
"""First rows of such a pass."""
PROBED_CONTENTS = 40
"""Events of each tool and kind among them whose contents are read."""

CONTENT_FIELDS = ("args", "result")
TEXT_FIELDS = (*CONTENT_FIELDS, "call_id", "agent", "model", "service")
"""The fields of which beginnings have contents."""


class Holder(NamedTuple):
    """A path that has a value, in the events of a tool and a kind."""

    path: str
    tool: str | None
    kind: str


@dataclass
class Beginnings:
    """Contents from the first rows of some passes, a few of each tool and kind, by field."""

    _documents: dict[tuple[str | None, str], dict[str, list[str]]] = field(
        default_factory=dict[tuple[str | None, str], dict[str, list[str]]]
    )

    def add(self, rows: pl.DataFrame) -> None:
        """Add the contents of the first rows of a pass, which have a tool, a kind and some `TEXT_FIELDS`."""
        names = [name for name in TEXT_FIELDS if name in rows.columns]
        first = rows.head(PROBED_ROWS)
        # Numbers of rows: the texts of all rows would be put in lists.
        numbered = first.select("tool", "kind").with_row_index("row")
        places = numbered.group_by("tool", "kind", maintain_order=True).head(PROBED_CONTENTS)["row"]
        few = first[places].select(pl.col("tool", "kind", *names).cast(pl.String))
        for (tool, kind), group in few.group_by("tool", "kind", maintain_order=True):
            found = self._documents.setdefault((tool, kind), {})
            for name in names:
                found.setdefault(name, []).extend(group[name].drop_nulls())

    def documents(self, context: Context, name: str) -> Iterator[str]:
        """Yield the contents of a field in the events of a context."""
        for (tool, kind), found in self._documents.items():
            if context.has(tool, kind):
                yield from found.get(name, ())

    def paths(self, context: Context, name: str) -> list[str]:
        """Return the paths of a field in the events of a context."""
        return paths_in(name, self.documents(context, name)) if name in CONTENT_FIELDS else []

    def holder(self, text: str, key: str) -> Holder | None:
        """Return the path that most often has a text as its value, one that ends in `key` first."""
        counted = Counter[Holder]()
        for (tool, kind), found in self._documents.items():
            for name in CONTENT_FIELDS:
                for document in found.get(name, ()):
                    if text in document:
                        counted.update(Holder(path, tool, kind) for path in paths_of(text, name, document))
        ranked = sorted(counted, key=lambda each: (_last(each.path) != key, -counted[each], each.path))
        return ranked[0] if ranked else None


def paths_in(name: str, documents: Iterable[str]) -> list[str]:
    """Return the paths in JSON documents of a field."""
    counter = PathCounter(name)
    for document in documents:
        counter.add(document)
    return sorted(usage.path for usage in counter.paths() if usage.keys is None)


def _last(path: str) -> str:
    return path.rpartition(".")[2].removesuffix("[*]")
