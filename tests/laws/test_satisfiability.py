"""No event makes an unsatisfiable predicate true."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tracline.rules.language.parse import parse_predicate
from tracline.rules.lint.satisfiability import is_satisfiable
from tracline.rules.model.fields import FIELDS
from tracline.rules.model.predicate import And, Leaf, Not, Or, Path, Predicate
from tracline.rules.model.predicate import Test as Ask
from tracline.schemas.frames.events import EVENT_SCHEMA

from .label_inputs import events, predicates
from .label_oracle import Event, oracle

TEXTS = ("a", "b", "ab", "5", "6", "true")
tools = st.sampled_from([Path("tool"), Path("args", ("x",)), Path("error")])
close_leaves = st.one_of(
    st.builds(lambda kind: Leaf(Path("kind"), Ask.EQ, (kind,)), st.sampled_from(["user", "tool_call"])),
    st.builds(
        lambda path, ask, text: Leaf(path, ask, (text,)),
        tools,
        st.sampled_from([Ask.EQ, Ask.NE, Ask.LT, Ask.GE, Ask.CONTAINS, Ask.STARTS_WITH]),
        st.sampled_from(TEXTS),
    ),
    st.builds(
        lambda path, ask, number: Leaf(path, ask, (number,)),
        tools,
        st.sampled_from([Ask.EQ, Ask.NE, Ask.LT, Ask.LE, Ask.GT, Ask.GE]),
        st.sampled_from([5, 6, 5.5]),
    ),
    st.builds(lambda path: Leaf(path, Ask.IS_NULL), tools),
)
close_predicates: st.SearchStrategy[Predicate] = st.recursive(
    close_leaves,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=4).map(lambda args: And(tuple(args))),
        st.lists(inner, min_size=2, max_size=2).map(lambda args: Or(tuple(args))),
    ),
    max_leaves=7,
)
values = st.sampled_from(['"a"', '"b"', '"abc"', '"5"', "5", "5.25", "5.5", "6", "7", "true", "[]", "null"])
close_events = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["user", "tool_call", "tool_result", "unknown"]),
        "content": st.just("captured"),
        "nested": st.booleans(),
        "tool": st.sampled_from([*TEXTS, "c", "5.2"]) | st.none(),
        "args": values.map(lambda value: f'{{"x": {value}}}') | st.none(),
        "error": st.sampled_from([*TEXTS, "7"]) | st.none(),
    }
)


def fitting(event: Event) -> Event:
    """Return the event with null in missing fields and in fields that its kind does not have."""
    valid = {
        name: value
        for name, value in event.items()
        if name not in FIELDS or event["kind"] in FIELDS[name].kinds
    }
    return {**dict.fromkeys(EVENT_SCHEMA), "content": "captured", "nested": False, **valid}


@given(predicates, st.lists(events, min_size=1, max_size=20))
@settings(max_examples=200)
def test_a_predicate_that_holds_is_satisfiable(predicate: Predicate, rows: list[Event]) -> None:
    """A predicate that some event makes true is satisfiable."""
    if any(oracle(predicate, fitting(event)) for event in rows):
        assert is_satisfiable(predicate)


@given(close_predicates, st.lists(close_events, min_size=10, max_size=20))
@settings(max_examples=300)
@example(
    parse_predicate('kind == "tool_call" and args.x > 5 and args.x < 6'),
    [{"kind": "tool_call", "args": '{"x": 5.25}'}],
)
@example(
    parse_predicate('not kind == "user" and not tool == "a"'),
    [{"kind": "tool_call", "tool": "b"}],
)
def test_a_predicate_that_holds_is_satisfiable_where_questions_nearly_exclude_each_other(
    predicate: Predicate, rows: list[Event]
) -> None:
    """The same, with questions about few values of few fields, many of which contradict each other."""
    if any(oracle(predicate, fitting(event)) for event in rows):
        assert is_satisfiable(predicate)
