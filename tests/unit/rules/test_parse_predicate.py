"""Parsing of predicates and paths, and the spellings of their literals."""

from __future__ import annotations

import pytest
from tracline.rules.language.parse import parse_path, parse_predicate
from tracline.rules.model.fields import FIELDS, FieldType
from tracline.rules.model.predicate import And, Leaf, Literal, Not, Or, Path, Predicate
from tracline.rules.model.predicate import Test as Asks
from tracline.rules.model.printer import predicate_text
from tracline.rules.model.problem import RuleError
from tracline.schemas.frames.events import EVENT_SCHEMA

KIND, TEXT, TOOL, ERROR = Path("kind"), Path("text"), Path("tool"), Path("error")
NESTED = Leaf(Path("nested"), Asks.IS_TRUE)
USER = Leaf(KIND, Asks.EQ, ("user",))

TREES: dict[str, Predicate] = {
    'kind == "user"': USER,
    'tool != "refund"': Leaf(TOOL, Asks.NE, ("refund",)),
    "args.amount > 100": Leaf(Path("args", ("amount",)), Asks.GT, (100,)),
    "args.amount <= -2.5": Leaf(Path("args", ("amount",)), Asks.LE, (-2.5,)),
    "args.rate < 1e-3": Leaf(Path("args", ("rate",)), Asks.LT, (0.001,)),
    'args.day >= "2024-05-01"': Leaf(Path("args", ("day",)), Asks.GE, ("2024-05-01",)),
    "result.done == true": Leaf(Path("result", ("done",)), Asks.EQ, (True,)),
    'tool in ["a", "b"]': Leaf(TOOL, Asks.IN, ("a", "b")),
    'tool not in ["a"]': Not(Leaf(TOOL, Asks.IN, ("a",))),
    'args.n in [1, "1", true]': Leaf(Path("args", ("n",)), Asks.IN, (1, "1", True)),
    r"text matches /(?i)\b(yes|go ahead)\b/": Leaf(TEXT, Asks.MATCHES, (r"(?i)\b(yes|go ahead)\b",)),
    r"text matches /a\/b\\\/\./": Leaf(TEXT, Asks.MATCHES, (r"a/b\\/\.",)),
    'text contains "card"': Leaf(TEXT, Asks.CONTAINS, ("card",)),
    'text starts with "Dear"': Leaf(TEXT, Asks.STARTS_WITH, ("Dear",)),
    "error is null": Leaf(ERROR, Asks.IS_NULL),
    "error is not null": Not(Leaf(ERROR, Asks.IS_NULL)),
    "nested": NESTED,
    "not nested": Not(NESTED),
    "true or false": Or((Literal(True), Literal(False))),
    'not kind == "user" and nested': And((Not(USER), NESTED)),
    'kind == "user" or nested and not nested': Or((USER, And((NESTED, Not(NESTED))))),
    '(kind == "user" or nested) and nested': And((Or((USER, NESTED)), NESTED)),
    'nested and (nested and kind == "user")': And((NESTED, And((NESTED, USER)))),
    r'text contains "a \"b\" \\ é"': Leaf(TEXT, Asks.CONTAINS, ('a "b" \\ é',)),
}


@pytest.mark.parametrize(("text", "tree"), TREES.items())
def test_a_predicate_parses_and_prints(text: str, tree: Predicate) -> None:
    """Every kind of condition parses; `not` is tightest, then `and`, then `or`."""
    assert parse_predicate(text) == tree
    assert parse_predicate(predicate_text(tree)) == tree


def test_an_index_is_read_whole() -> None:
    """Zeros before an index change nothing, and an index beyond the limit is no smaller one."""
    assert parse_path("args.x[0000000000012]") == Path("args", ("x", 12))
    for digits in ("4294967296", "1" * 5000):
        with pytest.raises(RuleError, match="TRL142"):
            parse_path(f"args.x[{digits}]")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("nested == true", "nested"),
        ("nested == false", "not nested"),
        ("nested != true", "not nested"),
        ("late != false", "late"),
        ("!nested && late || history", "not nested and late or history"),
        ("((nested))", "nested"),
        ('not tool in ["a"]', 'tool not in ["a"]'),
        ('attributes.tenant == "a"', 'attributes["tenant"] == "a"'),
        (r'text contains "\u00e9\n"', 'text contains "é\\n"'),
    ],
)
def test_alternative_spellings_of_a_predicate(text: str, same: str) -> None:
    """Signs, comparisons with true and false, and escapes give the same tree."""
    assert parse_predicate(text) == parse_predicate(same)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("tool", Path("tool")),
        ("args", Path("args")),
        ("args.order_id", Path("args", ("order_id",))),
        ("result.items[0].id", Path("result", ("items", 0, "id"))),
        ('args["odd key"].x', Path("args", ("odd key", "x"))),
        ('args["0"][0]', Path("args", ("0", 0))),
        ("args.until.F.not", Path("args", ("until", "F", "not"))),
        ('attributes["k.l"]', Path("attributes", ("k.l",))),
    ],
)
def test_a_path_parses_to_its_steps(text: str, path: Path) -> None:
    """Keys are after dots or in quotes, indices in brackets; a key may be a reserved word."""
    assert parse_path(text) == path


def test_every_field_is_a_column_of_the_event_frame() -> None:
    """The fields of predicates are columns of the event frame, without provenance and time."""
    assert set(EVENT_SCHEMA) >= set(FIELDS)
    asked_by_nobody = {"occurrence", "time", "seq", "trace_id", "span_id", "event_id"}
    assert set(EVENT_SCHEMA) - set(FIELDS) == asked_by_nobody


def test_the_choices_of_kind_and_content_are_those_of_events() -> None:
    """The choices of a field are exactly the values that events have."""
    for name in ("kind", "content"):
        for word in FIELDS[name].choices:
            assert parse_predicate(f'{name} == "{word}"') == Leaf(Path(name), Asks.EQ, (word,))
        assert FIELDS[name].type is FieldType.CHOICE


def test_all_problems_of_a_predicate_come_at_once() -> None:
    """All problems other than syntax errors are reported, in the order of the text."""
    with pytest.raises(RuleError) as caught:
        parse_predicate('kind == "bot" and text.x == "a" and tol == "b" and args and nested > 1')
    assert [problem.code for problem in caught.value.problems] == [
        "TRL132",
        "TRL131",
        "TRL130",
        "TRL134",
        "TRL135",
    ]


@pytest.mark.slow
def test_a_deep_predicate_does_not_exhaust_the_stack() -> None:
    """Thousands of levels of `not` are an error; hundreds of alternatives in one `or` are not deep."""
    with pytest.raises(RuleError, match="TRL151"):
        parse_predicate("not " * 5_000 + "nested")
    with pytest.raises(RuleError, match="TRL151"):
        parse_predicate("(nested or nested and " * 300 + "nested" + ")" * 300)
    wide = parse_predicate(" or ".join(["nested"] * 500))
    assert isinstance(wide, Or)
    assert len(wide.args) == 500
    with pytest.raises(RuleError, match="TRL143"):
        parse_predicate(" or ".join(["nested"] * 501))
