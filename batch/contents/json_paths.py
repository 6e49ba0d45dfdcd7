"""The JSON paths of the arguments and results of a tool, with sample values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from ...rules.model.predicate import Path
from ...rules.model.printer import path_text

SAMPLES_MAX = 3
"""Sample values of a path."""
SAMPLE_CHARS_MAX = 200
PATHS_MAX = 200
"""Paths of one field that are counted; JSON with ids as keys has a path for each id."""
_DEPTH_MAX = 12
_ELEMENT = "[*]"


@dataclass(frozen=True, slots=True)
class PathUsage:
    """A path as rules write it, with `[*]` for any element of an array.

    `values` counts the values that were read with this path, and `samples` are the first different values.
    """

    path: str
    values: int
    samples: tuple[str, ...]


@dataclass(slots=True)
class PathCounter:
    """The paths of one field, `args` or `result` (the `root`), of a tool, and the keys of its objects."""

    root: str
    keys: Counter[str] = field(default_factory=Counter[str])
    _values: Counter[str] = field(default_factory=Counter[str])
    _samples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, text: str) -> None:
        """Count the paths of a value of the field; text that is no JSON is one value."""
        try:
            value: Any = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = text
        if isinstance(value, dict):
            self.keys.update(map(str, cast("dict[object, object]", value)))
        for path, sample in _leaves(self.root, value, 0):
            self._add(path, sample)

    def paths(self) -> tuple[PathUsage, ...]:
        """Return the paths, in the order in which they were found."""
        return tuple(
            PathUsage(path, count, tuple(self._samples[path])) for path, count in self._values.items()
        )

    def _add(self, path: str, sample: str) -> None:
        if path not in self._values and len(self._values) >= PATHS_MAX:
            return
        self._values[path] += 1
        samples = self._samples.setdefault(path, [])
        if len(samples) < SAMPLES_MAX and sample not in samples:
            samples.append(sample)


def _leaves(path: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each scalar and of each empty or too deep container."""
    if isinstance(value, dict) and value and depth < _DEPTH_MAX:
        for key, member in cast("dict[str, Any]", value).items():
            yield from _leaves(path + path_text(Path("", (key,))), member, depth + 1)
    elif isinstance(value, list) and value and depth < _DEPTH_MAX:
        for member in cast("list[Any]", value):
            yield from _leaves(path + _ELEMENT, member, depth + 1)
    else:
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        yield path, text[:SAMPLE_CHARS_MAX]
