"""Labels are those of a plain evaluator, written from the language's words."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.rules.labels.labeler import Labeler
from tracline.rules.labels.slices import FEW_ROWS
from tracline.rules.model.formula import TRUE, prop
from tracline.rules.model.predicate import Predicate
from tracline.rules.model.rule import Rule, RuleSet, SliceKey

from ..support.truth.predicate_answers import answers
from .label_inputs import events, frame, kind_leaves, predicates, slice_keys
from .label_oracle import Event, oracle
from .slice_oracle import slice_oracle


@settings(max_examples=300)
@given(st.lists(predicates, min_size=1, max_size=6), st.lists(events, min_size=1, max_size=25))
def test_every_answer_is_the_one_that_the_words_of_the_language_give(
    questions: list[Predicate], rows: list[Event]
) -> None:
    """Each predicate is true, false or unknown on each event as in the plain evaluator."""
    for question, found in zip(questions, answers(questions, frame(rows)), strict=True):
        assert found == [oracle(question, row) for row in rows]


@settings(max_examples=200)
@given(slice_keys, st.none() | predicates, st.lists(events, min_size=1, max_size=25))
def test_slices_are_named_by_the_value_that_the_event_carries(
    key: SliceKey, only: Predicate | None, rows: list[Event]
) -> None:
    """A `for_each` value, tuple or doubt is what the event carries, wherever the rule's `steps` take it."""
    propositions = {} if only is None else {"only": only}
    steps = None if only is None else prop("only")
    rule = Rule("p", "r", "", TRUE, "true", propositions, for_each=key, steps=steps)
    labels, few = Labeler(RuleSet((rule,), {})), frame(rows)
    many = pl.concat([few] * (FEW_ROWS + 1), rechunk=True)
    whole = labels.label(few.lazy()).collect(), labels.label(many.lazy()).collect().tail(len(few))
    single = pl.concat([labels.label_few(few[place]) for place in range(len(few))])
    for found in (*whole, labels.label_few(few), single):
        for row, value, unknown in zip(rows, found["s0"], found["su0"], strict=True):
            if only is None or oracle(only, row) is not False:
                assert (value, unknown) == slice_oracle(key, row)


@settings(max_examples=30)
@given(st.lists(kind_leaves, min_size=60, max_size=70), st.lists(events, min_size=1, max_size=10))
def test_words_hold_one_bit_for_each_proposition(questions: list[Predicate], rows: list[Event]) -> None:
    """Bit i % 64 of `t` and `u` word i // 64 is set if the proposition i is true, or unknown."""
    propositions = {f"p{place}": question for place, question in enumerate(questions)}
    rule = Rule("p", "r", "", TRUE, "true", propositions)
    labels = Labeler(RuleSet((rule,), {}))
    found = labels.label(frame(rows).lazy(), keep=["kind"]).collect()
    assert found["kind"].to_list() == [row["kind"] for row in rows]
    for bit, (_, name) in enumerate(labels.propositions):
        expected = [oracle(propositions[name], row) for row in rows]
        true, unknown = ([word >> bit % 64 & 1 for word in found[f"{w}{bit // 64}"]] for w in "tu")
        assert true == [answer is True for answer in expected]
        assert unknown == [answer is None for answer in expected]
