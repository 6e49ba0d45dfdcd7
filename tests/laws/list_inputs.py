"""Events with JSON lists, and conditions on lists, for the laws of labels."""

from __future__ import annotations

import json
from functools import cache

from hypothesis import strategies as st
from tracline.rules.language.literal_builder import ORDER
from tracline.rules.model.predicate import (
    ELEMENT,
    And,
    Contained,
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
    Tally,
)
from tracline.rules.model.predicate import Test as Ask

from .label_inputs import ORDERED, PATTERNS, WORDS, literals, maybe_json, maybe_text, numbers, numerals, paths
from .label_inputs import scalars as jsons
from .quick_draws import quickly

small = st.integers(-2, 5).map(str)
values = st.one_of(small, jsons)
members = st.one_of(
    values,
    st.tuples(values, values).map(lambda pair: f'{{"a":{pair[0]},"b":{pair[1]}}}'),
    st.tuples(values, st.lists(values, max_size=3)).map(
        lambda pair: f'{{"b":{pair[0]},"a":[{",".join(pair[1])}],"a":[{",".join(pair[1])}]}}'
    ),
)
added = st.one_of(small, numbers, numerals, numerals.map(json.dumps))
lists = st.one_of(
    st.lists(added, max_size=4),
    st.lists(added.map(lambda number: f'{{"a":{number}}}'), max_size=3),
    st.lists(members, max_size=4),
).map(lambda items: f"[{', '.join(items)}]")
"""JSON lists of scalars, of objects with lists in them, and of numbers."""
documents = st.one_of(
    lists,
    lists.map(lambda items: f'{{"a":{items}}}'),
    st.tuples(lists, values).map(lambda pair: f'{{"b":{pair[1]},"a":{pair[0]}}}'),
    lists.map(json.dumps),
    lists.map(lambda items: f'{{"a":{json.dumps(items)}}}'),
)
list_events = quickly(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["tool_result"] * 6 + ["tool_call", "user"]),
            "content": st.sampled_from(["captured"] * 9 + ["truncated", "absent", "redacted"]),
            "nested": st.just(False),
            "text": st.none(),
            "tool": maybe_text,
            "args": documents,
            "result": documents | maybe_json,
            "error": maybe_text,
            "attributes": st.none(),
        }
    )
)
"""Events with lists at the paths that the conditions read."""

of_event = [Path(field, steps) for field in ("args", "result") for steps in ((), ("a",))]
of_element = [Path(ELEMENT, steps) for steps in ((), ("a",), ())]
places = [*of_element, Path(ELEMENT, ("b",)), Path(ELEMENT, ("a", 0)), Path(ELEMENT, (0,))]
PATHS_OR_PLACES = paths | st.sampled_from(places)
numbers_compared = [0, 1, 2, 3, -2, 150, 1.5, 0.1 + 0.2, 2**53, 2**53 + 1, -0.0, 1e300, 2**63 - 1]


@cache
@st.composite
def element_leaves(draw: st.DrawFn) -> Predicate:
    """Return a condition on what is at a path in an element."""
    path, test = draw(st.sampled_from(places)), draw(st.sampled_from(list(Ask)))
    match test:
        case Ask.IN:
            return Leaf(path, test, tuple(draw(st.lists(literals, min_size=1, max_size=3))))
        case Ask.MATCHES:
            return Leaf(path, test, (draw(st.sampled_from(PATTERNS)),))
        case Ask.CONTAINS | Ask.STARTS_WITH:
            return Leaf(path, test, (draw(st.sampled_from(WORDS)),))
        case Ask.IS_NULL:
            return Leaf(path, test)
        case Ask.IS_TRUE:
            return Literal(draw(st.booleans()))
        case _:
            if draw(st.booleans()):
                value = draw(literals | st.integers(-2, 5))
                # Booleans have no order in the language.
                return Leaf(path, test, (int(value) if test in ORDER and isinstance(value, bool) else value,))
            return Leaf(path, test, against=draw(st.sampled_from(places) | paths))


@cache
def _conditions(depth: int) -> st.SearchStrategy[Predicate]:
    return element_leaves() | list_conditions(depth) if depth else element_leaves()


@cache
@st.composite
def wheres(draw: st.DrawFn, depth: int) -> Predicate:
    """Return a condition on an element, in which conditions on lists nest so deep."""
    condition = _conditions(depth)
    match draw(st.sampled_from(["one", "one", "not", "and", "or"])):
        case "one":
            return draw(condition)
        case "not":
            return Not(draw(condition))
        case "and":
            return And((draw(condition), draw(condition)))
        case _:
            return Or((draw(condition), draw(condition)))


@cache
@st.composite
def tallies(draw: st.DrawFn, depth: int) -> Tally:
    """Return the number of a list."""
    elements = draw(elements_of(depth))
    if draw(st.booleans()):
        return Tally(Fold.SUM, elements)
    if draw(st.booleans()):
        return Tally(Fold.COUNT, elements, draw(wheres(depth - 1)))
    return Tally(Fold.COUNT, Elements(elements.list))


@cache
@st.composite
def elements_of(draw: st.DrawFn, depth: int) -> Elements:
    """Return the elements of a list of the event, or of an element where `depth` is less than `DEPTH`."""
    steps = draw(st.sampled_from([(), (), ("a",), ("b",), (0,), ("a", 0)]))
    return Elements(draw(st.sampled_from(of_event if depth == DEPTH else of_element)), steps)


@cache
@st.composite
def list_conditions(draw: st.DrawFn, depth: int) -> Predicate:
    """Return a condition on a list."""
    elements = draw(elements_of(depth))
    compared = paths if depth == DEPTH else PATHS_OR_PLACES
    match draw(st.sampled_from(["quantified", "quantified", "contained", "number", "in", "field", "tally"])):
        case "quantified":
            return Quantified(draw(st.sampled_from(Quantifier)), elements, draw(wheres(depth - 1)))
        case "contained":
            if depth == DEPTH - 1 and draw(st.booleans()):  # in a list of the event
                elements = Elements(draw(st.sampled_from(of_event)), elements.steps)
                return Contained(draw(st.sampled_from(places)), elements)
            return Contained(draw(compared), elements)
        case "in":
            found = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
            return Measured(draw(tallies(depth)), Ask.IN, tuple(found))
        case how:
            tally, test = draw(tallies(depth)), draw(st.sampled_from(ORDERED))
            if how == "number":
                return Measured(tally, test, (draw(st.sampled_from(numbers_compared)),))
            against = draw(compared if how == "field" else tallies(depth))
            return Measured(tally, test, against=against)


DEPTH = 2
"""Levels of conditions on lists inside each other."""
list_questions = quickly(list_conditions(DEPTH))


@cache
@st.composite
def two_lists(draw: st.DrawFn) -> tuple[list[Predicate], dict[str, str]]:
    """Return conditions on the members of `args` in `result`, and two lists with members in common."""
    shared = draw(st.lists(members | added, min_size=1, max_size=5))
    steps = draw(st.sampled_from([(), ("a",)]))
    members_at = Elements(Path("result"), draw(st.sampled_from([(), ("a",), (0,)])))
    contained = Contained(Path(ELEMENT, steps), members_at)
    wheres = [contained, Not(contained), And((contained, draw(element_leaves())))]
    found = [
        Quantified(quantifier, Elements(Path("args")), where) for quantifier in Quantifier for where in wheres
    ]
    drawn = st.lists(st.sampled_from(shared) | members, max_size=4)
    return found, {field: f"[{','.join(draw(drawn))}]" for field in ("args", "result")}
