"""The words for likely mistakes: the reason, and what may be meant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...rules.model.fields import KIND_NOUNS
from ...rules.model.predicate import Leaf, Path, Scalar, compared_text
from ...rules.model.printer import path_text, predicate_text, scalar_text
from .archive_events import ArchiveEvents
from .beginnings import Holder
from .conditions import Context, PlacedCondition
from .needs import Need, ReadPlace, Shape, field_of, place_text, values_at
from .spelling import contained, misspelt_path, names_beside, similar

_OTHER_FIELD = {"args": "result", "result": "args"}
_LENGTHS = frozenset({"length", "len", "size", "count"})
_NOUNS = {**KIND_NOUNS, "tool_call": "calls", "tool_result": "results"}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A likely mistake in a condition: the reason, and what may be meant.

    `is_likely` is false where the condition may well be right, although no event has what it asks for.
    """

    reason: str
    suggestion: str | None
    is_likely: bool


def unknown_name(field: str, name: str, near: str, count: str) -> Mistake:
    """Return the mistake of a name of which only a similar one occurs."""
    reason = (
        f"the tool `{name}` is not called here" if field == "tool" else f"no event has the {field} `{name}`"
    )
    return Mistake(reason, f"did you mean `{near}`, {count}?", True)


def missing(
    archive: ArchiveEvents, context: Context, place: ReadPlace, known: Sequence[str], is_likely: bool
) -> Mistake:
    """Return the mistake of a place that never exists, where these paths do."""
    text = place_text(place)
    reason = f"`{text}` never exists in {events_of(archive, context)}"
    near = misspelt_path(text, known)
    if near is not None:
        return Mistake(reason, f"did you mean `{near}`?", True)
    if isinstance(place, Path) and place.field in ("args", "result") and place.steps[-1:]:
        if place.steps[-1] in _LENGTHS:
            whole = path_text(Path(place.field, place.steps[:-1]))
            return Mistake(reason, f"the number of elements is `count({whole})`", True)
        if list(known) == [place.field]:
            hint = f'they are texts, which `{place.field} contains "..."` searches'
            return Mistake(reason, hint, is_likely)
    found = _most_similar(text, known) or _in_other_field(archive, context, place) or _there(text, known)
    return Mistake(reason, found, is_likely)


def _most_similar(text: str, known: Sequence[str]) -> str | None:
    """Return the path beside a missing one that is most similar to it, None if none is."""
    parent, names = names_beside(text, known)
    near = similar(text.rpartition(".")[2], names)
    if near is not None:
        return f"did you mean `{parent}.{near}`?"
    return None


def _in_other_field(archive: ArchiveEvents, context: Context, place: ReadPlace) -> str | None:
    """Return the path of the same name in the results, of a path in the arguments, or the other way."""
    if not isinstance(place, Path) or len(place.steps) != 1 or place.field not in _OTHER_FIELD:
        return None
    field = _OTHER_FIELD[place.field]
    known = archive.paths(context, field)
    parent, names = names_beside(path_text(Path(field, place.steps)), known)
    name = str(place.steps[0])
    near = name if name in names else contained(name, names)
    return None if near is None else f"did you mean `{parent}.{near}`?"


def _there(text: str, known: Sequence[str]) -> str | None:
    """Return the paths beside a missing one."""
    parent, names = names_beside(text, known)
    return f"there is {quoted([f'{parent}.{each}' for each in names])}" if names else None


def never_of_shape(archive: ArchiveEvents, placed: PlacedCondition, need: Need, *, is_list: bool) -> Mistake:
    """Return the mistake of a place that has values, of which none is what the condition can compare."""
    condition, context, is_likely = placed
    text, events = place_text(need.place), events_of(archive, context)
    if need.shape is Shape.LIST:
        sample = archive.sample(context, field_of(need.place))
        values = [value for document in sample for value in values_at(need.place, document)]
        noun = next((_noun(value) for value in values if value is not None), None)
        hint = None if noun is None else f"it is {noun}, and only lists have elements to ask for"
        return Mistake(f"`{text}` is never a list in {events}", hint, is_likely)
    if is_list and need.shape is not Shape.WORDS:
        hint = _of_list(condition, need) if isinstance(condition, Leaf) else None
        return Mistake(f"`{text}` is a list in {events}", hint, is_likely)
    if need.shape is Shape.SCALAR:
        return Mistake(f"`{text}` is an object in {events}", "compare a part of it", is_likely)
    if need.shape is Shape.NUMBER:
        return Mistake(f"`{text}` is never a number in {events}", None, is_likely)
    hint = None
    if isinstance(condition, Leaf) and condition.path == need.place:
        hint = f"write `{path_text(condition.path)} {condition.test.value} {condition.operands[0]}`"
    return Mistake(
        f"`{text}` is always a number in {events}, and compares with a text as text", hint, is_likely
    )


def never_equal(place: ReadPlace, operand: Scalar, suggestion: str) -> Mistake:
    """Return the mistake of a value that never occurs at a place."""
    reason = f"`{place_text(place)}` never has the value {scalar_text(compared_text(operand))}"
    return Mistake(reason, suggestion, True)


def value_instead(near: str | None, holder: Holder | None, known: Collection[str]) -> str:
    """Return what may be meant by a value that never occurs: a similar one, or the place that has it."""
    if near is not None:
        return f"did you mean {scalar_text(near)}?"
    if holder is not None:
        noun = _NOUNS.get(holder.kind, "events")
        events = f"the {noun}" if holder.tool is None else f"the {noun} of `{holder.tool}`"
        return f"`{holder.path}` in {events} has it"
    listed = [scalar_text(each) for each in sorted(known)]
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return f"its values are {', '.join(listed[:5])}{more}"


def no_tool_meets(text: str, near: str | None, count: str) -> Mistake:
    """Return the mistake of a pattern for names of tools that matches none."""
    suggestion = None if near is None else f"did you mean `{near}`, {count}?"
    return Mistake(f"no tool meets `{text}`", suggestion, True)


def errors_are_texts(archive: ArchiveEvents, context: Context, texts: int) -> Mistake:
    """Return the mistake of asking for `error` where results report errors as text only."""
    begin = "1 of them begins" if texts == 1 else f"{texts:,} of them begin"
    return Mistake(
        f"`error` is null in all of {events_of(archive, context)}, but {begin} with `Error`",
        'add `not result starts with "Error"` for success, or `result starts with "Error"` for failure',
        True,
    )


def events_of(archive: ArchiveEvents, context: Context) -> str:
    """Return the events of a context in words: `the calls of `refund``."""
    kinds = context.kinds or ()
    noun = _NOUNS.get(next(iter(kinds)), "events") if len(kinds) == 1 else "events"
    called = sorted((context.tools or frozenset[str]()) & archive.tools.keys())
    return f"the {noun} of {quoted(called)}" if called else f"the {noun}"


def quoted(names: Sequence[str]) -> str:
    """Return the first names in backticks."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more


def _of_list(leaf: Leaf, need: Need) -> str | None:
    """Return how to write a comparison of a list."""
    if leaf.path != need.place or leaf.against is not None:
        return None
    if need.shape is Shape.NUMBER:
        whole = f"count({path_text(leaf.path)})"
        return (
            f"the number of its elements is `{predicate_text(leaf).replace(path_text(leaf.path), whole, 1)}`"
        )
    asked = predicate_text(Leaf(Path("element"), leaf.test, leaf.operands))
    return f"write `any({path_text(leaf.path)}, {asked})`"


def _noun(value: Any) -> str:
    return "an object" if isinstance(value, dict) else "a text" if isinstance(value, str) else "a number"
