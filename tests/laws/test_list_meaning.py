"""Conditions on lists are those of a plain evaluator, written from the language's words."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.rules.language.parse import parse_predicate
from tracline.rules.lint.satisfiability import is_satisfiable
from tracline.rules.model.predicate import And, Leaf, Not, Path, Predicate
from tracline.rules.model.predicate import Test as Ask
from tracline.rules.model.printer import predicate_text

from ..support.truth.predicate_answers import answers, few_answers
from .label_inputs import events, frame
from .label_oracle import Event, oracle
from .list_inputs import list_events, list_questions, two_lists
from .quick_draws import quickly

questions = st.lists(list_questions, min_size=2, max_size=6)
rows_of_lists = st.lists(list_events | events, min_size=5, max_size=30)


@settings(max_examples=60)
@given(questions, rows_of_lists)
def test_every_answer_about_a_list_is_the_one_that_the_words_of_the_language_give(
    conditions: list[Predicate], rows: list[Event]
) -> None:
    """Each condition is true, false or unknown as in the plain evaluator, for files and for live events."""
    many, few = answers(conditions, frame(rows)), few_answers(conditions, frame(rows))
    assert many == few
    for condition, found in zip(conditions, many, strict=True):
        assert found == [oracle(condition, row) for row in rows]


ELEMENTS = ['"12"', "7", '["7", 1]', '{"a": "12"}', '{"a": ["7"]}', '{"0": 7}', "null"]
EVENT: Event = {
    **dict.fromkeys(("text", "tool", "result", "error", "attributes")),
    "kind": "tool_call",
    "content": "captured",
    "nested": False,
}
TEXTS = [
    "any(args.x[*]{}, . == 7)",
    "all(args.x[*]{}, . is not null)",
    "sum(args.x[*]{}) > 0",
    "args.y in args.x[*]{}",
    "any(args.x, any(.[*]{}, . == 7))",
]
STEPS = ["", "[0]", "[1]", ".a", ".a[0]"]


def test_every_small_list_is_read_as_the_words_of_the_language_state() -> None:
    """Each element of a few, alone and beside another, at each short path in it; a string has no elements."""
    rows: list[Event] = [
        {**EVENT, "args": f'{{"x": [{left}, {right}], "y": "7"}}'} for left in ELEMENTS for right in ELEMENTS
    ]
    conditions = [parse_predicate(text.format(step)) for step in STEPS for text in TEXTS]
    for condition, found in zip(conditions, answers(conditions, frame(rows)), strict=True):
        assert found == [oracle(condition, row) for row in rows]


@settings(max_examples=30)
@given(questions, rows_of_lists)
def test_a_guarded_condition_on_a_list_has_the_same_answers(
    conditions: list[Predicate], rows: list[Event]
) -> None:
    """Under a condition on the kind, lists are read at some rows only."""
    kind = Leaf(Path("kind"), Ask.EQ, ("tool_result",))
    guarded: list[Predicate] = [And((kind, condition)) for condition in conditions]
    for condition, found in zip(guarded, answers(guarded, frame(rows)), strict=True):
        assert found == [oracle(condition, row) for row in rows]


@settings(max_examples=60)
@given(st.lists(quickly(two_lists()), min_size=1, max_size=4), list_events)
def test_the_members_of_two_lists_are_those_of_the_plain_evaluator(
    pairs: list[tuple[list[Predicate], dict[str, str]]], event: Event
) -> None:
    """Lists that share members, in any spelling of their numbers, several rows at once."""
    rows = [{**event, "kind": "tool_result", **fields} for _, fields in pairs]
    for condition, found in zip(pairs[0][0], answers(pairs[0][0], frame(rows)), strict=True):
        assert found == [oracle(condition, row) for row in rows]


@settings(max_examples=200)
@given(list_questions)
def test_a_printed_condition_on_a_list_reads_back_as_the_same_tree(condition: Predicate) -> None:
    """`parse_predicate(predicate_text(p)) == p`, negated, too."""
    for predicate in (condition, Not(condition)):
        assert parse_predicate(predicate_text(predicate)) == predicate


@settings(max_examples=60)
@given(list_questions, rows_of_lists)
def test_a_condition_on_a_list_that_holds_is_satisfiable(condition: Predicate, rows: list[Event]) -> None:
    """A condition that some event makes true is satisfiable."""
    if any(oracle(condition, row) for row in rows if row["kind"] != "user"):
        assert is_satisfiable(condition)
