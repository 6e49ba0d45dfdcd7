"""Conditions of predicates with the events on which they matter."""

from __future__ import annotations

import pytest
from tracline.batch.contents.conditions import Context, placed
from tracline.rules.language.parse import parse_predicate
from tracline.rules.model.printer import predicate_text

CALL, BOOK = 'kind == "tool_call"', 'tool == "book"'
OF_BOOK = (("book",), ("tool_call",), True)
CASES = {
    f"{CALL} and {BOOK} and args.n > 5": OF_BOOK,
    f"{CALL} and {BOOK} and not (args.n > 5)": OF_BOOK,
    f"not ({CALL} and {BOOK}) or args.n > 5": OF_BOOK,
    'kind != "tool_call" or tool != "book" or args.n > 5': OF_BOOK,
    f'{CALL} and ({BOOK} and args.n > 5 or tool == "think")': OF_BOOK,
    f'{CALL} and (tool == "a" or {BOOK}) and tool != "a" and args.n > 5': (
        ("a", "book"),
        ("tool_call",),
        True,
    ),
    f"{CALL} and {BOOK} and (args.n > 5 or args.n is null)": (("book",), ("tool_call",), False),
    f"{CALL} and {BOOK} and not (args.n > 5 and args.m > 5)": (("book",), ("tool_call",), False),
    f'{BOOK} and tool == "a" and args.n > 5': ((), None, True),
    "args.n > 5": (None, None, True),
    'tool not in ["a"] and args.n > 5': (None, None, True),
}


@pytest.mark.parametrize("text", CASES)
def test_a_condition_matters_on_some_events(text: str) -> None:
    """Its siblings restrict tool and kind, and one of several alternatives does not decide."""
    (found,) = [
        each for each in placed(parse_predicate(text)) if predicate_text(each.condition) == "args.n > 5"
    ]
    tools, kinds, decides = CASES[text]
    context = Context(*(None if names is None else frozenset(names) for names in (tools, kinds)))
    assert (found.context, found.decides) == (context, decides)
