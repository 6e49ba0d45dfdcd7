"""Likely mistakes in conditions: names, paths and values of which no event of an archive has any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...rules.model.predicate import Condition, Leaf, Path, Predicate, Test, compared_text, leaves
from ...rules.model.printer import predicate_text
from ...rules.model.problem import counted
from ...schemas.event import Kind
from .archive_events import ArchiveEvents
from .asked import (
    Asked,
    Compared,
    KeyPaths,
    Required,
    Search,
    asked_by,
    asks_null,
    is_choice,
    texts_in,
    with_others,
)
from .beginnings import Beginnings
from .conditions import TOOL, Context, PlacedCondition
from .needs import Need, Shape, compared_texts, field_of, needs, place_text
from .spelling import meant_by, misspelt, part_beside
from .wording import (
    Mistake,
    errors_are_texts,
    missing,
    never_equal,
    never_of_shape,
    no_tool_meets,
    unknown_name,
    value_instead,
)

VALUES_MAX = 30
"""Different values of a path beyond which a value that never occurs is not compared with them."""
NAMES = frozenset({"agent", "model", "service", "error"})
"""The fields whose values are names, beside `tool`."""

_PARTS = (Test.MATCHES, Test.CONTAINS, Test.STARTS_WITH)
_ERROR = Path("error")


class ArchiveMistakes:
    """The mistakes in conditions and slice keys over an archive, which is read once for all of them."""

    def __init__(
        self, archive: ArchiveEvents, conditions: Iterable[PlacedCondition], keys: Iterable[KeyPaths]
    ) -> None:
        self._archive = archive
        self._names: dict[str, Mapping[str, int]] = {}
        self._beginnings = Beginnings()
        self._never = self._searched(asked_by(conditions, keys, archive.has))

    def of(self, condition: PlacedCondition) -> Iterator[Mistake]:
        """Yield the mistakes in a condition, on its names, paths and values."""
        if not self._archive.has(condition.context):
            return
        yield from self._names_of(condition.condition)
        for need in needs(condition.condition):
            found = self._of_need(condition, need)
            if found is not None:
                yield found
                return
        for place, operand in compared_texts(condition.condition):
            yield from self._value(condition, Compared(condition.context, place, operand))

    def lacks(self, required: Required) -> bool:
        """Return whether no event of the context has the shape at the place."""
        return required in self._never

    def of_place(self, required: Required, *, decides: bool) -> Mistake:
        """Return the mistake of a place that never exists; it is likely if something `decides` by it."""
        context, place = required.context, required.need.place
        known = self._archive.paths(context, field_of(place))
        return missing(self._archive, context, place, known, decides)

    def of_key(self, required: Required, *, decides: bool) -> Mistake:
        """Return the mistake of a path of a `for_each`, of which another is enough unless it `decides`.

        It is likely, too, if the path has the words of one that exists, or some of them.
        """
        known = self._archive.paths(required.context, field_of(required.need.place))
        is_part = part_beside(place_text(required.need.place), known) is not None
        return self.of_place(required, decides=decides or is_part)

    def of_errors(self, predicate: Predicate, context: Context) -> Iterator[Mistake]:
        """Yield the mistake of a predicate that asks for `error` where results report errors as text only."""
        if not asks_for_errors(predicate) or not self._archive.has(context):
            return
        failures = self._archive.failures
        found = [failures[tool] for tool in failures if context.has(tool, Kind.TOOL_RESULT)]
        texts = sum(each.texts for each in found)
        if texts and not any(each.errors for each in found):
            yield errors_are_texts(self._archive, context, texts)

    def _of_need(self, condition: PlacedCondition, need: Need) -> Mistake | None:
        """Return the mistake in what a condition reads at a place."""
        required = Required(condition.context, need)
        if not self.lacks(required):
            return None
        if self.lacks(required.of_shape(Shape.VALUE)):
            decides = condition.decides and not asks_null(condition.condition)
            return self.of_place(required, decides=decides)
        is_list = not self.lacks(required.of_shape(Shape.LIST))
        return never_of_shape(self._archive, condition, need, is_list=is_list)

    def _names_of(self, condition: Condition) -> Iterator[Mistake]:
        """Yield the misspelt names of tools, agents and the like."""
        yield from self._pattern_of(condition)
        compared = compared_names(condition)
        if compared is None:
            return
        known = self._known_names(compared.path.field)
        names = [str(operand) for operand in compared.operands]
        for name in names:
            near = None if name in known else misspelt(name, known.keys() - set(names))
            if near is not None:
                noun = "call" if compared.path == TOOL else "event"
                yield unknown_name(compared.path.field, name, near, counted(known[near], noun))

    def _pattern_of(self, condition: Condition) -> Iterator[Mistake]:
        """Yield the mistake in a pattern, or a part of a name, that no tool has."""
        if not isinstance(condition, Leaf) or condition.path != TOOL or not _is_test(condition, *_PARTS):
            return
        known = self._archive.calls
        if known and not self._archive.has_tool_of(condition):
            near = meant_by(str(condition.operands[0]), known)
            count = "" if near is None else counted(known[near], "call")
            yield no_tool_meets(predicate_text(condition), near, count)

    def _known_names(self, field: str) -> Mapping[str, int]:
        if field == TOOL.field:
            return self._archive.calls
        if field not in self._names:
            self._names[field] = self._archive.names(field)
        return self._names[field]

    def _value(self, condition: PlacedCondition, compared: Compared) -> Iterator[Mistake]:
        """Yield the mistake in a misspelt value."""
        if compared not in self._never:
            return
        known = texts_in(compared.place, self._archive.sample(compared.context, field_of(compared.place)))
        named = {compared_text(operand) for _, operand in compared_texts(condition.condition)}
        near = misspelt(compared.text, known.keys() - named) if len(known) <= VALUES_MAX else None
        if near is None and not is_choice(known):
            return
        key = place_text(compared.place).rpartition(".")[2]
        holder = None if near is not None else self._beginnings.holder(compared.text, key)
        yield never_equal(compared.place, compared.operand, value_instead(near, holder, known.keys()))

    def _searched(self, asked: Asked) -> frozenset[Search]:
        """Return what no event has, of what is a mistake then.

        Beginnings of the archive have nearly everything; all of it is read for the rest only.
        """
        left = asked.searches
        for beginnings in self._archive.beginnings() if left else ():
            self._beginnings = beginnings
            left = [each for each in left if not each.is_in(beginnings)]
            if not left:
                return frozenset()
        left = with_others(asked.suspects(left, self._beginnings))
        never = self._archive.never([each.probe for each in left])
        return frozenset(each for each, is_never in zip(left, never, strict=True) if is_never)


def asks_for_errors(predicate: Predicate) -> bool:
    """Return whether a predicate asks for `error` and not for anything in the result."""
    conditions = list(leaves(predicate))
    # A condition on lists or numbers may be on the result.
    reads_result = any(not isinstance(each, Leaf) or each.path.field == "result" for each in conditions)
    return not reads_result and any(map(is_error_test, conditions))


def compared_names(condition: Condition) -> Leaf | None:
    """Return a condition that compares a field with names, as of tools or agents; None for others."""
    if not isinstance(condition, Leaf) or not _is_test(condition, Test.EQ, Test.NE, Test.IN):
        return None
    return condition if condition.path.field in (TOOL.field, *NAMES) else None


def is_error_test(condition: Condition) -> bool:
    """Return whether a condition asks for the error of an event."""
    return isinstance(condition, Leaf) and condition.path == _ERROR


def _is_test(condition: Condition, *tests: Test) -> bool:
    return isinstance(condition, Leaf) and condition.against is None and condition.test in tests
