"""A predicate is found vacuous exactly if an enumeration of events shows it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tracline.rules.labels.guards import TRUE
from tracline.rules.language.parse import parse_predicate
from tracline.rules.lint.vacuity import find_vacuity
from tracline.rules.model.predicate import And, Leaf, Not, Or, Path, Predicate
from tracline.rules.model.predicate import Test as Ask
from tracline.schemas.frames.events import EVENT_SCHEMA

from .label_oracle import Event, oracle

KINDS = ("user", "assistant", "tool_call", "tool_result", "unknown")
OF_TOOLS = KINDS[2:4]
TOOLS = ("a", "5", "5.0", "z", "4", "5.5", "7")
ARGS = ('"a"', "5", "5.0", '"z"', "4", "5.5", "7", "[]", None)
fields = st.sampled_from([Path("tool"), Path("args", ("x",))])
conditions: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(lambda kind: Leaf(Path("kind"), Ask.EQ, (kind,)), st.sampled_from(["user", "tool_call"])),
    st.builds(
        lambda path, ask, value: Leaf(path, ask, (value,)),
        fields,
        st.sampled_from([Ask.EQ, Ask.NE]),
        st.sampled_from(["a", "5", 5]),
    ),
    st.builds(lambda path, ask: Leaf(path, ask, (5,)), fields, st.sampled_from([Ask.LT, Ask.GE])),
    st.builds(lambda path: Leaf(path, Ask.IS_NULL), fields),
    st.just(Leaf(Path("nested"), Ask.IS_TRUE)),
)
predicates: st.SearchStrategy[Predicate] = st.recursive(
    conditions,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=3).map(lambda args: And(tuple(args))),
        st.lists(inner, min_size=2, max_size=3).map(lambda args: Or(tuple(args))),
    ),
    max_leaves=5,
)


def event(kind: str, nested: bool, tool: str | None, args: str | None) -> Event:
    """Return a fully captured event."""
    fixed: dict[str, Any] = {"kind": kind, "nested": nested, "tool": tool, "args": args}
    return dict.fromkeys(EVENT_SCHEMA) | {"content": "captured"} | fixed


def calls() -> Iterator[tuple[str, str | None]]:
    """Yield a tool and arguments, with each value that the conditions distinguish, or without."""
    yield from product(TOOLS, ("{}" if value is None else f'{{"x": {value}}}' for value in ARGS))


def is_vacuous(predicate: Predicate) -> bool:
    """Return whether a message makes it true whatever its kind, and some tool makes it false.

    Some event of a tool must make it true, too.
    """
    if not any(
        oracle(predicate, event(kind, nested, *call))
        for kind, nested, call in product(OF_TOOLS, (True, False), calls())
    ):
        return False
    return any(
        all(oracle(predicate, event(other_kind, nested, None, None)) for other_kind in KINDS)
        and any(oracle(predicate, event(kind, nested, *call)) is False for call in calls())
        for kind, nested in product(("user", "assistant", "unknown"), (True, False))
    )


@settings(max_examples=300)
@given(predicates)
@example(parse_predicate('tool not in ["a"]'))
@example(parse_predicate('not (tool == "a" and args.x >= 5)'))
@example(parse_predicate('kind == "user" or not tool == "a"'))
@example(Not(Or((Leaf(Path("tool"), Ask.EQ, ("5",)), Leaf(Path("tool"), Ask.NE, (5,))))))
def test_vacuity_is_what_an_enumeration_of_events_shows(predicate: Predicate) -> None:
    """The search finds a predicate exactly if the oracle shows it on some event."""
    assert (find_vacuity(predicate, TRUE) is not None) == is_vacuous(predicate)
