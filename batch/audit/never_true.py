"""Propositions that are true at no event of an archive, and what in them is likely a mistake.

Only an archive with such a proposition is read again: the names of its tools, and where a proposition reads
a path of a tool's arguments or results, whether that path exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...rules.labels.few import WORD_BITS
from ...rules.labels.labeler import Labeler
from ...rules.model.predicate import (
    ELEMENT,
    And,
    Condition,
    Elements,
    Fold,
    Leaf,
    Literal,
    Measured,
    Not,
    Or,
    Path,
    Predicate,
    Quantified,
    Quantifier,
    Test,
    asked_elements,
    read_paths,
)
from ...rules.model.printer import elements_text, path_text
from ...rules.model.rule import Rule, RuleSet
from ...schemas.event import Kind
from ..prepare.buckets import until
from ..prepare.spill import passes
from ..sources.discover import SourceFile
from ..sources.event_files import reading
from .json_paths import PathCounter

CONTENTS_READ = 200
"""Calls, and results, whose paths are compared with a path that does not exist."""

_LENGTHS = frozenset({"length", "len", "size", "count"})
_TOOL = Path("tool")
_KIND = Path("kind")
_CALL, _RESULT = Kind.TOOL_CALL.value, Kind.TOOL_RESULT.value
_WORDS = {_CALL: "calls", _RESULT: "results"}


@dataclass(frozen=True, slots=True)
class NeverTrue:
    """A proposition that is true at no event: the rules that use it, the likely mistake, what to write."""

    pack: str
    proposition: str
    rules: list[str]
    reason: str
    suggestion: str | None = None


def never_true(
    parts: Sequence[SourceFile], rules: Sequence[Rule], names: Iterable[tuple[str, str]], as_of: int | None
) -> tuple[NeverTrue, ...]:
    """Explain the propositions of these names (pack, name), which are true at no event up to `as_of`."""
    found = [_Proposition.of(rules, pack, name) for pack, name in names]
    if not found:
        return ()
    archive = _Archive(parts, as_of)
    tools = archive.tools()
    called = [each for each in found if not each.tools or each.tools & tools.keys()]
    missing = archive.missing_paths(rules[0], {(each, path) for each in called for path in each.paths})
    return tuple(_explained(each, tools, missing, archive) for each in found)


@dataclass(frozen=True, slots=True)
class _Proposition:
    """A proposition: its place, the rules that use it, and the conditions that all its events must meet.

    `tools` and `kinds` are those that such an event may have, empty for any; `paths` are the paths into JSON
    and attributes whose value it must have, and the elements of lists of which it must have some.
    """

    pack: str
    name: str
    rules: tuple[str, ...]
    tools: frozenset[str]
    kinds: frozenset[str]
    paths: tuple[Path | Elements, ...]

    @classmethod
    def of(cls, rules: Sequence[Rule], pack: str, name: str) -> _Proposition:
        """Return a proposition of the rules."""
        users = [rule for rule in rules if rule.pack == pack and name in rule.propositions]
        needed = [*_needed(users[0].propositions[name])]
        return cls(
            pack,
            name,
            tuple(dict.fromkeys(rule.id for rule in users)),
            _operands(needed, _TOOL),
            _operands(needed, _KIND),
            tuple(dict.fromkeys(path for leaf in needed for path in _read(leaf))),
        )

    @property
    def context(self) -> tuple[Predicate, ...]:
        """Return the conditions on tool and kind as predicates."""
        pairs = ((_TOOL, self.tools), (_KIND, self.kinds))
        return tuple(Leaf(path, Test.IN, tuple(sorted(values))) for path, values in pairs if values)

    def explained(self, reason: str, suggestion: str | None = None) -> NeverTrue:
        """Return the proposition with a reason."""
        return NeverTrue(self.pack, self.name, list(self.rules), reason, suggestion)


def _needed(predicate: Predicate) -> Iterator[Condition]:
    """Yield the leaves without which a predicate is not true: its own, or those of its conjunction."""
    if isinstance(predicate, And):
        for arg in predicate.args:
            yield from _needed(arg)
    elif isinstance(predicate, Leaf):
        if predicate.test not in (Test.IS_NULL, Test.NE):
            yield predicate
    elif not isinstance(predicate, Not | Or | Literal):
        yield predicate


def _read(condition: Condition) -> Iterator[Path | Elements]:
    """Yield the paths and elements of lists without a value of which a condition does not hold."""
    yield from (path for path in read_paths(condition) if path.steps and path.field != ELEMENT)
    if isinstance(condition, Quantified) and condition.quantifier is Quantifier.ALL:
        return
    if isinstance(condition, Measured) and condition.tally.fold is Fold.COUNT:
        return  # a count may be 0
    for elements, where in asked_elements(condition):
        if elements.steps:
            yield elements
        for leaf in _needed(where):
            paths = [path for path in read_paths(leaf) if path.field == ELEMENT and path.steps]
            yield from (Elements(elements.list, (*elements.steps, *path.steps)) for path in paths)


def _exists(path: Path | Elements) -> Predicate:
    """Return whether there is a value at a path, or at one element of a list."""
    if isinstance(path, Path):
        return Not(Leaf(path, Test.IS_NULL))
    return Quantified(Quantifier.ANY, path, Not(Leaf(Path(ELEMENT), Test.IS_NULL)))


def _text(path: Path | Elements) -> str:
    return path_text(path) if isinstance(path, Path) else elements_text(path)


def _operands(needed: Iterable[Condition], path: Path) -> frozenset[str]:
    """Return the texts that all conditions of equality on a path allow; empty without such a condition."""
    allowed = [
        frozenset(map(str, leaf.operands))
        for leaf in needed
        if isinstance(leaf, Leaf) and leaf.path == path and leaf.test in (Test.EQ, Test.IN)
    ]
    return allowed[0].intersection(*allowed[1:]) if allowed else frozenset()


def _explained(
    proposition: _Proposition,
    tools: Mapping[str, int],
    missing: set[tuple[_Proposition, Path | Elements]],
    archive: _Archive,
) -> NeverTrue:
    """Return the proposition with its likely mistake."""
    if proposition.tools and not proposition.tools & tools.keys():
        return _not_called(proposition, tools)
    path = next((path for path in proposition.paths if (proposition, path) in missing), None)
    if path is None:
        return proposition.explained("no event matches")
    where = _WORDS.get(next(iter(proposition.kinds)), "events") if len(proposition.kinds) == 1 else "events"
    of = f" of {_quoted(sorted(proposition.tools & tools.keys()))}" if proposition.tools else ""
    suggestion = None
    field = path.field if isinstance(path, Path) else path.list.field
    if isinstance(path, Path) and path.steps[-1] in _LENGTHS and field != "attributes":
        suggestion = f"the number of elements is `count({path_text(Path(field, path.steps[:-1]))})`"
    elif near := get_close_matches(_text(path), archive.paths(proposition, field), n=1, cutoff=0.6):
        suggestion = f"did you mean `{near[0]}`?"
    return proposition.explained(f"`{_text(path)}` never exists in the {where}{of}", suggestion)


def _not_called(proposition: _Proposition, tools: Mapping[str, int]) -> NeverTrue:
    """Return a proposition whose tools no event names."""
    names = sorted(proposition.tools)
    near = [found for name in names for found in get_close_matches(name, sorted(tools), n=1, cutoff=0.75)]
    suggestion = None
    if near:
        nearest = max(near, key=lambda name: tools[name])
        calls = tools[nearest]
        suggestion = f"did you mean `{nearest}`, {calls:,} {'call' if calls == 1 else 'calls'}?"
    if len(names) == 1:
        return proposition.explained(f"the tool `{names[0]}` is not called here", suggestion)
    return proposition.explained(f"none of the tools {_quoted(names)} is called here", suggestion)


def _quoted(names: Sequence[str]) -> str:
    """Return the first names in backticks."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more


@dataclass(frozen=True, slots=True)
class _Archive:
    """The events of files up to a time."""

    parts: Sequence[SourceFile]
    as_of: int | None

    def tools(self) -> dict[str, int]:
        """Return the calls of each tool that an event names."""
        calls = Counter[str]()
        is_call = (pl.col("kind") == _CALL).sum().alias("calls")
        for events in self._passes():
            named = events.filter(pl.col("tool").is_not_null()).group_by("tool").agg(is_call)
            for tool, count in named.collect(engine="streaming").iter_rows():
                calls[tool] += count
        return dict(calls)

    def missing_paths(
        self, rule: Rule, paths: set[tuple[_Proposition, Path | Elements]]
    ) -> set[tuple[_Proposition, Path | Elements]]:
        """Return the paths that exist at no event with the kind and the tool of their proposition."""
        order = sorted(paths, key=lambda item: (item[0].pack, item[0].name, _text(item[1])))
        if not order:
            return set()
        probes: dict[str, Predicate] = {}
        for number, (proposition, path) in enumerate(order):
            parts = (*proposition.context, _exists(path))
            probes[f"p{number}"] = And(parts) if len(parts) > 1 else parts[0]
        probing = replace(
            rule, propositions=probes, transitions={}, for_each=None, steps=None, applies_to=None
        )
        labeler = Labeler(RuleSet((probing,), {}))
        words = np.zeros(labeler.words, dtype=np.uint64)
        for events in self._passes():
            needed = events.filter(pl.col("kind") != Kind.END.value).select(labeler.fields)
            labels = labeler.label(needed).collect()
            for word in range(labeler.words):
                words[word] |= np.bitwise_or.reduce(labels[f"t{word}"].to_numpy(), initial=np.uint64(0))
        return {item for bit, item in enumerate(order) if not _has(words, bit)}

    def paths(self, proposition: _Proposition, field: str) -> list[str]:
        """Return the paths of a field at some events with the kind and the tool of a proposition."""
        if field not in ("args", "result"):
            return []
        place = pl.struct("session_id", "occurrence", "seq").hash(0).alias("place")
        contents: list[pl.DataFrame] = []
        for events in self._passes():
            chosen = events.filter(pl.col(field).is_not_null())
            for column, values in (("tool", proposition.tools), ("kind", proposition.kinds)):
                if values:
                    chosen = chosen.filter(pl.col(column).cast(pl.String).is_in(sorted(values)))
            sample = chosen.select(pl.col(field).alias("content"), place).bottom_k(CONTENTS_READ, by="place")
            contents.append(sample.collect(engine="streaming"))
        counter = PathCounter(field)
        for (content,) in (
            pl.concat(contents).sort("place", "content").head(CONTENTS_READ).select("content").iter_rows()
        ):
            counter.add(content)
        return sorted(path.path for path in counter.paths() if path.keys is None)

    def _passes(self) -> Iterator[pl.LazyFrame]:
        for each in passes(self.parts):
            with reading(each.parts):
                yield until(each.frame, self.as_of)


def names_never_true(
    propositions: Sequence[tuple[str, str]], true: NDArray[np.uint64], unknown: NDArray[np.uint64]
) -> list[tuple[str, str]]:
    """Return the names whose bits are in no word of true and of unknown propositions."""
    return [name for bit, name in enumerate(propositions) if not (_has(true, bit) or _has(unknown, bit))]


def _has(words: NDArray[np.uint64], bit: int) -> bool:
    """Return whether words have a bit."""
    return bool(int(words[bit // WORD_BITS]) >> bit % WORD_BITS & 1)
