"""The JSON paths of the arguments and results of a tool, with sample values.

Keys that are ids, as in `{"card_4421": {...}, "card_7352": {...}}`, are one path: rules cannot name them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import orjson

from ...rules.model.predicate import Path
from ...rules.model.printer import path_text

SAMPLES_MAX = 3
"""Sample values of a path."""
SAMPLE_CHARS_MAX = 200
PATHS_MAX = 200
"""Paths of one field that are listed."""
NODES_MAX = 5_000
"""Places in the JSON of one field that are counted."""
IDS_MIN = 8
"""The least number of keys of one object that are taken for ids."""
VARIED_MAX = 0.5
"""The share of objects that have a key, on average, up to which keys with digits are taken for ids."""
KEYS_COUNTED_MAX = 10_000
_DEPTH_MAX = 12
_ELEMENT = "[*]"
ANY_KEY = ".*"
"""Any of several ids as a key, in a path for people; no predicate has it."""
_LONG_ID = re.compile(r"[0-9]{4}|(?=.*[0-9])[0-9a-fA-F][0-9a-fA-F-]{7,}\Z")


@dataclass(frozen=True, slots=True)
class PathUsage:
    """A path as rules write it, with `[*]` for any element of an array.

    `values` counts the values that were read with this path, and `samples` are the first different values.
    A path with `.*`, any of the ids that are the keys of an object, cannot be written in rules; `keys` is the
    number of these ids, else None.
    """

    path: str
    values: int
    samples: tuple[str, ...]
    keys: int | None = None


@dataclass(slots=True)
class _Place:
    """A place in the JSON: its scalar values, and what is below it, by key, by id or in an array.

    `objects` counts the objects at the place, and `count` how often there was anything.
    """

    count: int = 0
    values: int = 0
    samples: list[str] = field(default_factory=list[str])
    objects: int = 0
    members: dict[str, _Place] = field(default_factory=dict[str, "_Place"])
    by_id: _Place | None = None
    ids: set[str] = field(default_factory=set[str])
    elements: _Place | None = None

    def add_sample(self, sample: str) -> None:
        """Add a value's text if there is room."""
        if len(self.samples) < SAMPLES_MAX and sample not in self.samples:
            self.samples.append(sample)

    def fold(self, ids: list[str]) -> None:
        """Make the places below these keys one."""
        self.by_id = self.by_id or _Place()
        for key in ids:
            self.by_id.merge(self.members.pop(key))
        self.note_ids(ids)

    def note_ids(self, ids: list[str]) -> None:
        """Remember the ids, up to a number."""
        self.ids.update(ids[: max(0, KEYS_COUNTED_MAX - len(self.ids))])

    def merge(self, place: _Place) -> None:
        """Add the counts of another place, and of all below it."""
        self.count += place.count
        self.values += place.values
        self.objects += place.objects
        for sample in place.samples:
            self.add_sample(sample)
        for key, member in place.members.items():
            self.members.setdefault(key, _Place()).merge(member)
        if place.by_id is not None:
            self.by_id = self.by_id or _Place()
            self.by_id.merge(place.by_id)
            self.note_ids(sorted(place.ids))
        if place.elements is not None:
            self.elements = self.elements or _Place()
            self.elements.merge(place.elements)


@dataclass(slots=True)
class PathCounter:
    """The paths of one field, `args` or `result` (the `root`), of a tool, and the keys of its objects."""

    root: str
    keys: Counter[str] = field(default_factory=Counter[str])
    _top: _Place = field(default_factory=_Place)
    _places: int = 0

    def add(self, text: str) -> None:
        """Count the paths of a value of the field; text that is no JSON is one value."""
        try:
            value: Any = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = text
        if isinstance(value, dict):
            self.keys.update(map(str, cast("dict[object, object]", value)))
        self._add(self._top, value, 0)

    def paths(self) -> tuple[PathUsage, ...]:
        """Return the first paths, those below one object together."""
        _fold_varied(self._top)
        return tuple(islice(_usages(self.root, self._top, None), PATHS_MAX))

    def _add(self, place: _Place, value: Any, depth: int) -> None:
        """Count a value and those below it; an empty or too deep container is a value itself."""
        place.count += 1
        if isinstance(value, dict) and value and depth < _DEPTH_MAX:
            place.objects += 1
            for key, member in cast("dict[str, Any]", value).items():
                below = self._member(place, key)
                if below is not None:
                    self._add(below, member, depth + 1)
        elif isinstance(value, list) and value and depth < _DEPTH_MAX:
            place.elements = place.elements or _Place()
            for member in cast("list[Any]", value):
                self._add(place.elements, member, depth + 1)
        else:
            place.values += 1
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            place.add_sample(text[:SAMPLE_CHARS_MAX])

    def _member(self, place: _Place, key: str) -> _Place | None:
        """Return the place below a key, None if there are too many places."""
        is_id = _LONG_ID.search(key) is not None
        if is_id and place.by_id is not None:
            place.note_ids([key])
            return place.by_id
        if key not in place.members:
            if self._places >= NODES_MAX:
                return None
            self._places += 1
            place.members[key] = _Place()
            ids = [each for each in place.members if _LONG_ID.search(each)] if is_id else []
            if len(ids) >= IDS_MIN:
                place.fold(ids)
                return place.by_id
        return place.members[key]


def _fold_varied(place: _Place) -> None:
    """Make one of keys with digits that most objects at a place do not have, here and below."""
    keys = [key for key in place.members if re.search(r"[0-9]", key)]
    seen = sum(place.members[key].count for key in keys)
    if len(keys) >= IDS_MIN and seen <= VARIED_MAX * len(keys) * place.objects:
        place.fold(keys)
    for below in (*place.members.values(), place.by_id, place.elements):
        if below is not None:
            _fold_varied(below)


def _usages(path: str, place: _Place, keys: int | None) -> Iterator[PathUsage]:
    """Yield the paths of a place and of those below it; `keys` are the ids that `path` stands for."""
    if place.values:
        yield PathUsage(path, place.values, tuple(place.samples), keys)
    for key, member in place.members.items():
        yield from _usages(path + path_text(Path("", (key,))), member, keys)
    if place.by_id is not None:
        yield from _usages(path + ANY_KEY, place.by_id, len(place.ids))
    if place.elements is not None:
        yield from _usages(path + _ELEMENT, place.elements, keys)


def paths_of(text: str, name: str, document: str) -> Iterator[str]:
    """Yield the paths in a field's JSON at which the value is a text, with `[*]` for any element."""
    try:
        todo: list[tuple[str, Any, int]] = [(name, orjson.loads(document), 0)]
    except orjson.JSONDecodeError:
        return
    while todo:
        path, value, depth = todo.pop()
        if value == text:
            yield path
        elif depth < _DEPTH_MAX and isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            named = ((path_text(Path(path, (key,))), member) for key, member in members.items())
            todo += [(below, member, depth + 1) for below, member in named]
        elif depth < _DEPTH_MAX and isinstance(value, list):
            todo += [(f"{path}{_ELEMENT}", member, depth + 1) for member in cast("list[Any]", value)]
