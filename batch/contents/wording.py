"""The words for likely mistakes: the reason, and what may be meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ...rules.model.fields import KIND_NOUNS
from ...rules.model.predicate import Leaf, Path, Scalar, compared_text
from ...rules.model.printer import path_text, predicate_text, scalar_text
from .archive_events import ArchiveEvents
from .conditions import Context, PlacedCondition
from .needs import Need, ReadPlace, Shape, field_of, place_text, values_at
from .spelling import misspelt_path

SIMILAR = 0.6
"""The ratio of `difflib` from which a path is worth a suggestion where another one never exists."""
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
    return Mistake(reason, _instead(text, known), is_likely)


def _instead(text: str, known: Sequence[str]) -> str | None:
    """Return the path beside which a path is missing that is most similar, else those that there are."""
    parent, _, name = text.rpartition(".")
    names = dict.fromkeys(
        path.removeprefix(f"{parent}.").split(".")[0].split("[")[0]
        for path in known
        if path.startswith(f"{parent}.")
    )
    similar = get_close_matches(name, names, n=1, cutoff=SIMILAR)
    if similar:
        return f"did you mean `{parent}.{similar[0]}`?"
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


def never_equal(place: ReadPlace, operand: Scalar, near: str) -> Mistake:
    """Return the mistake of a value of which only a similar one occurs."""
    reason = f"`{place_text(place)}` never has the value {scalar_text(compared_text(operand))}"
    return Mistake(reason, f"did you mean {scalar_text(near)}?", True)


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
