"""Predicates of single events: what is unknown, what JSON compares as, what a label's columns are."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import polars as pl
import pytest
from tracline.rules.labels.guards import guards, shadow
from tracline.rules.labels.labeler import Labeler
from tracline.rules.labels.plan import combined
from tracline.rules.language.parse import parse_path, parse_predicate
from tracline.rules.model.formula import TRUE, prop
from tracline.rules.model.predicate import And, Leaf, Or
from tracline.rules.model.rule import Rule, RuleSet, SliceKey
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import event_frame
from tracline.schemas.verdict import Severity

from ...support.truth.predicate_answers import answers, evaluate

AMOUNTS = [
    ("150", True),
    ('"150"', True),
    ("1.5e2", True),
    ('"150.0"', True),
    ("100", False),
    ('"99"', False),
    ('"much"', False),
    ('" 150 "', False),
    ('"+150"', False),
    ("true", False),
    ("null", False),
    ("[150]", False),
    ('{"value": 150}', False),
]


@pytest.mark.parametrize(("amount", "above"), AMOUNTS)
def test_json_scalars_compare_with_numbers_by_value(amount: str, above: bool) -> None:
    """A number and the text of one are alike; what is no number is neither above nor below one."""
    predicate = parse_predicate('kind == "tool_call" and args.amount > 100')
    assert evaluate(predicate, {"kind": "tool_call", "args": f'{{"amount": {amount}}}'}) is above


@pytest.mark.parametrize("args", [None, "", "{", '{"amount": 1e999}', "not json", '{"sum": 150}', "[150]"])
def test_a_missing_path_or_broken_json_makes_every_comparison_false(args: str | None) -> None:
    """`!=` is a comparison, too; only `is null` holds."""
    event = {"kind": "tool_call", "args": args}
    for question in ("> 100", "<= 100", "== 150", "!= 150", 'contains "1"', "matches /./", 'in ["", "150"]'):
        assert evaluate(parse_predicate(f"args.amount {question}"), event) is False
    assert evaluate(parse_predicate("args.amount is null"), event) is True


def test_integers_beyond_doubles_compare_exactly() -> None:
    """2**53 + 1 is above 2**53, though the nearest double is not."""
    predicate = parse_predicate(f"args.id > {2**53}")
    assert evaluate(predicate, {"kind": "tool_call", "args": f'{{"id": {2**53 + 1}}}'}) is True
    assert evaluate(predicate, {"kind": "tool_call", "args": f'{{"id": "{2**53 + 1}"}}'}) is True
    assert evaluate(predicate, {"kind": "tool_call", "args": f'{{"id": {2**53}}}'}) is False


def test_true_and_false_are_their_text_and_no_numbers() -> None:
    """Models write `true` and `"true"`; neither is 1."""
    for written in ("true", '"true"'):
        event = {"kind": "tool_call", "args": f'{{"dry_run": {written}}}'}
        assert evaluate(parse_predicate("args.dry_run == true"), event) is True
        assert evaluate(parse_predicate("args.dry_run == 1"), event) is False


UNKNOWNS: list[tuple[str, Mapping[str, object], bool | None]] = [
    ('kind == "user" and text matches /yes/', {"kind": "tool_call", "content": "absent"}, False),
    ('kind == "user" and text matches /yes/', {"kind": "user", "content": "absent"}, None),
    (
        'kind == "user" and text matches /yes/',
        {"kind": "user", "content": "truncated", "text": "yes, b"},
        True,
    ),
    ('kind == "user" and text matches /yes/', {"kind": "user", "content": "truncated", "text": "well"}, None),
    ('not text contains "no"', {"kind": "user", "content": "truncated", "text": "well, no"}, False),
    ('text starts with "we"', {"kind": "user", "content": "truncated", "text": "w"}, None),
    ('text == "well"', {"kind": "user", "content": "truncated", "text": "well"}, None),
    ('text contains "x"', {"kind": "user", "content": "redacted", "text": "xx"}, None),
    ("text is null", {"kind": "user", "content": "truncated", "text": "well"}, False),
    ("text is null", {"kind": "user", "content": "absent"}, None),
    ("text is null", {"kind": "tool_call", "content": "absent"}, True),
    ("text is null", {"kind": "user"}, True),
    ("args.a is null", {"kind": "tool_result"}, True),
    ("args.a is null", {"kind": "tool_result", "content": "absent"}, None),
    ("args.a == 1", {"kind": "tool_result", "content": "absent", "args": '{"a": 1}'}, True),
    ("error is null", {"kind": "tool_result", "content": "absent"}, True),
    ('kind == "user"', {"kind": "unknown", "content": "absent"}, None),
    ('kind != "assistant"', {"kind": "unknown", "content": "absent"}, None),
    ('kind == "tool_call"', {"kind": "unknown", "content": "absent"}, False),
    ('kind != "tool_call"', {"kind": "unknown", "content": "absent"}, True),
    ('kind in ["user", "unknown"]', {"kind": "unknown", "content": "absent"}, True),
    ('kind in ["user", "assistant"]', {"kind": "unknown", "content": "absent"}, None),
    ('text contains "x" or nested', {"kind": "user", "content": "absent", "nested": True}, True),
    ('text contains "x" or nested', {"kind": "user", "content": "absent"}, None),
]


@pytest.mark.parametrize(("question", "event", "answer"), UNKNOWNS)
def test_what_was_not_captured_is_unknown(
    question: str, event: Mapping[str, object], answer: bool | None
) -> None:
    """Only fields that the event's kind has can be unknown, and only what they were asked for."""
    assert evaluate(parse_predicate(question), event) is answer


def test_the_text_of_a_string_is_not_mistaken_for_an_array() -> None:
    """`"[1]"` is a string with a text, `[1]` is no scalar."""
    predicate = parse_predicate('args.ids == "[1]"')
    assert evaluate(predicate, {"kind": "tool_call", "args": '{"ids": "[1]"}'}) is True
    assert evaluate(predicate, {"kind": "tool_call", "args": '{"ids": [1]}'}) is False


def test_an_escaped_key_is_found() -> None:
    """JSON may write any character of a key as an escape."""
    event = {"kind": "tool_call", "args": r'{"\u0061mount": 150}'}
    assert evaluate(parse_predicate("args.amount == 150"), event) is True


def test_one_broken_row_leaves_its_neighbours_alone() -> None:
    """Rows are asked one by one, whatever the others hold."""
    rows = [_event(args=args) for args in ('{"a": 1}', "{", '{"a": 2}', None, '{"a": [1]}', '{"a": "1"}')]
    (found,) = answers([parse_predicate("args.a == 1")], event_frame(rows))
    assert found == [True, False, False, False, False, True]


def test_a_costly_question_is_guarded_by_its_cheap_siblings() -> None:
    """The rows on which a regular expression matters are those where nothing beside it is false."""
    both = parse_predicate('(kind == "user" and text matches /a/) or (nested and text matches /a/)')
    (found,) = guards([both]).values()
    assert found == parse_predicate('kind == "user" or nested')
    alone = parse_predicate('kind == "user" or text matches /a/')
    assert list(guards([alone]).values()) == [parse_predicate("true")]


def test_a_shadow_is_weaker_than_its_predicate() -> None:
    """A negation of something costly guards nothing."""
    assert shadow(parse_predicate('nested and not (text contains "a" and late)')) == parse_predicate("nested")


def test_the_fields_are_those_that_the_rules_ask_about() -> None:
    """Reading fewer columns is most of the speed."""
    labels = Labeler(_rules({"p": 'tool == "x" and nested', "q": "args.a == 1"}))
    assert labels.fields == ("kind", "nested", "tool", "args", "content")
    assert labels.propositions == (("pack", "p"), ("pack", "q"))


def test_labels_are_the_same_in_memory_and_streamed() -> None:
    """Live events and archives go through one evaluator."""
    key = SliceKey((parse_path("args.a"), parse_path("tool")), joint=True)
    labels = Labeler(_rules({"p": "args.a > 0", "q": 'text contains "x"'}, key))
    rows = [_event(args=f'{{"a": {i % 3}}}', tool="t", seq=i + 1) for i in range(5_000)]
    frame = event_frame(rows).lazy()
    streamed = labels.label(frame, keep=["seq"]).collect(engine="streaming")
    assert streamed.equals(labels.label(frame, keep=["seq"]).collect(engine="in-memory"))
    assert streamed["s0"][1] == '[1,"t"]'
    assert streamed.schema == {
        "seq": pl.UInt32,
        "t0": pl.UInt64,
        "u0": pl.UInt64,
        "s0": pl.String,
        "su0": pl.Boolean,
    }


@pytest.mark.parametrize("question", ["true", "false", "not true", "true and not false"])
def test_a_constant_is_answered_for_every_row(question: str) -> None:
    """Asked alone, streamed or in memory, with other columns present or none."""
    predicate = parse_predicate(question)
    events = event_frame([Event("s", 0, 0, seq, Kind.USER, text="hi") for seq in (1, 2, 3)])
    wanted = [question.startswith("true")] * 3
    labels = Labeler(RuleSet((Rule("p", "r", "", TRUE, "true", {"c": predicate}),), {}))
    bits = [int(answer) for answer in wanted]
    lazy = [labels.label(events.lazy(), keep) for keep in ([], ["seq"])]
    streamed = [labelled.collect(engine="streaming") for labelled in lazy]
    for found in (*(labelled.collect() for labelled in lazy), *streamed, labels.label_few(events)):
        assert (found["t0"].to_list(), found["u0"].to_list()) == (bits, [0, 0, 0])


def test_a_question_that_its_neighbours_rule_out_is_answered() -> None:
    """If no row can need a costly answer, it is looked for in none."""
    question = parse_predicate('kind == "user" and result.a matches /yes|no/ and (nested and result.a == "")')
    assert evaluate(question, {"kind": "user"}) is False
    assert evaluate(question, {"kind": "tool_result", "result": '{"a": "yes"}'}) is False
    column = pl.col("seq")
    frame = event_frame([Event("s", 0, 0, seq, Kind.USER) for seq in (1, 2)])
    for predicate, answer in ((And(()), True), (Or(()), False)):
        assert frame.select(combined(predicate, lambda _: column > 0)).to_series().to_list() == [answer] * 2


def test_a_rule_set_without_propositions_has_no_words() -> None:
    """A rule may speak of `true` alone."""
    labels = Labeler(_rules({}))
    assert labels.words == 0
    assert labels.label(event_frame([_event()]).lazy(), keep=["seq"]).collect().to_dict(as_series=False) == {
        "seq": [1]
    }


TUPLES = [
    ('{"b": 1, "a": "x"}', '["t",{"a":"x","b":1}]'),
    ('{"a": {"z": 1, "y": [1.0, 1e3]}}', '["t",{"a":{"y":[1,1000],"z":1}}]'),
    ('{"a b": 1, "a": 2}', '["t",{"a":2,"a b":1}]'),
    ('{"a": "\\u00e9\\n"}', '["t",{"a":"é\\n"}]'),
    ('{"a": 201.63, "items": ["x", "y,z"]}', '["t",{"a":201.63,"items":["x","y,z"]}]'),
    ("{}", '["t",{}]'),
    ("broken {", '["t","broken {"]'),
    ('"text"', '["t","text"]'),
    ("12", '["t",12]'),
    ("null", None),
]


@pytest.mark.parametrize(("args", "value"), TUPLES)
def test_a_tuple_is_canonical_json(args: str, value: str | None) -> None:
    """Equal arguments name one slice however they are written (RFC 8785)."""
    labels = Labeler(_rules({}, SliceKey((parse_path("tool"), parse_path("args")), joint=True)))
    found = labels.label(event_frame([_event(args=args, tool="t")]).lazy()).collect()
    assert found.row(0) == (value, False)


def test_slices_are_read_where_a_rule_steps() -> None:
    """Events that `steps` leave out are not parsed, and their slice means nothing; others have the value."""
    key = SliceKey((parse_path("args.a"),), joint=False)
    labels = Labeler(_rules({"call": 'kind == "tool_call"'}, key, steps="call"))
    rows = [_event(args='{"a": "x"}'), _event(kind=Kind.TOOL_RESULT, args='{"a": "x"}')]
    assert labels.label(event_frame(rows).lazy()).collect()["s0"].to_list() == ["x", None]


VAST = [
    ("12345678901234567890123", True),
    ("-12345678901234567890123", True),
    ("1e16", True),
    ("18446744073709551615", False),
    ("-9223372036854775808", False),
    ("1e15", False),
    ('"12345678901234567890123"', False),
    ('"1.5e+20"', False),
]


@pytest.mark.parametrize(("number", "is_unknown"), VAST)
def test_a_number_whose_digits_are_lost_names_no_slice(number: str, is_unknown: bool) -> None:
    """Ids beyond 64 bits are read as doubles, where neighbours are equal; written as strings they are not."""
    paths = (parse_path("args.a"),)
    row = _event(args=f'{{"a": {number}, "b": "[1.5e+20, \\"]"}}')
    for key in (SliceKey(paths, joint=False), SliceKey(paths, joint=True)):
        value, found = Labeler(_rules({}, key)).label(event_frame([row]).lazy()).collect().row(0)
        assert (found, value is None) == (is_unknown, is_unknown)
    whole = SliceKey((parse_path("tool"), parse_path("args")), joint=True)
    found = (
        Labeler(_rules({}, whole))
        .label(event_frame([msgspec.structs.replace(row, tool="t")]).lazy())
        .collect()
    )
    assert found["su0"].to_list() == [is_unknown]


def test_leaves_that_python_takes_for_equal_are_distinct() -> None:
    """In Python `1 == True`; in a predicate they are different questions."""
    path = parse_path("args.a")
    number, true = (Leaf(path, parse_predicate("args.a == 1").test, (value,)) for value in (1, True))
    assert answers([number, true], event_frame([_event(args='{"a": true}')])) == [[False], [True]]


def _event(
    kind: Kind = Kind.TOOL_CALL, args: str | None = None, tool: str | None = None, seq: int = 1
) -> Event:
    return Event("s", 0, 0, seq, kind, args=args, tool=tool)


def _rules(propositions: dict[str, str], key: SliceKey | None = None, steps: str | None = None) -> RuleSet:
    rule = Rule(
        pack="pack",
        id="rule",
        title="",
        formula=TRUE,
        text="true",
        propositions={name: parse_predicate(text) for name, text in propositions.items()},
        severity=Severity.LOW,
        for_each=key,
        steps=None if steps is None else prop(steps),
    )
    return RuleSet((rule,), {})
