"""`compare` of rules and packs: what counts as one proposition, as a possible event, and as a change."""

from __future__ import annotations

import pytest
from tracline.rules import Rule, RuleError, RuleSet, compare
from tracline.rules.comparison import compare as comparison
from tracline.rules.comparison.packs import RuleComparison, compare_packs
from tracline.rules.language.parse import parse_predicate
from tracline.rules.lint.satisfiability import is_satisfiable
from tracline.rules.packs.load import pack_text

PACK = """
pack: desk
version: 1
propositions:
  call: kind == "tool_call"
  said: kind == "user"
  pay: kind == "tool_call" and tool == "pay"
  late: args.days > 30
rules:
  - {id: one, formula: always (pay -> once said)}
  - {id: two, formula: always not (call and said)}
  - {id: three, steps: call, formula: always (pay -> once late)}
"""


def rule(formula: str, more: str = "", pack: str = PACK) -> Rule:
    """Return a rule with that formula over the pack's propositions."""
    written = f"  - {{id: asked, formula: {formula}{more}}}\n"
    return next(each for each in pack_text(pack + written).rules if each.id == "asked")


def changes(old: str, new: str) -> dict[str, RuleComparison]:
    """Return the comparison of two texts of a pack by rule."""
    return {each.name: each for each in compare_packs(pack_text(old), pack_text(new))}


def test_equal_rules_have_no_difference() -> None:
    """However they are written; impossible events do not count."""
    assert compare("always (p -> once q)", "historically (q or not p) or always (p -> once q)") is not None
    assert compare("always (p -> eventually q)", "G (not p or F q)") is None
    assert compare(rule("always (pay -> once said)"), rule("always (pay -> previous once said)")) is None
    assert compare("always (pay -> once said)", "always (pay -> previous once said)") is not None


def test_the_difference_is_a_shortest_session() -> None:
    """With the fewest true propositions, the answers there, and the session that only one breaks."""
    found = compare("always not p", "always (p -> eventually q)")
    assert found is not None
    assert (found.session, found.step, found.left, found.right) == ((("p",),), 1, "violated", "pending")
    assert found.breaks == (("p", "q"),)
    closing = compare("eventually p", "eventually (p and true) or next true")
    assert closing is not None
    at_close = compare("next p", "weak_next p")
    assert at_close is not None
    assert (at_close.step, at_close.left, at_close.right) == (None, "unmet", "held")
    assert at_close.session == at_close.breaks == ((),)


def test_propositions_are_one_where_their_predicates_are() -> None:
    """Not where their names are: a renamed one is the same, and one with another predicate is another."""
    renamed = PACK.replace("pay:", "paid:").replace("pay ->", "paid ->")
    assert (
        compare(rule("always (pay -> once said)"), rule("always (paid -> once said)", pack=renamed)) is None
    )
    refund = PACK.replace('"pay"', '"refund"')
    found = compare(rule("always not pay"), rule("always not pay", pack=refund))
    assert found is not None
    assert {label for labels in found.session for label in labels} <= {"pay", "pay'"}
    swapped = PACK.replace("said: kind", "x: kind").replace("call: kind", "said: kind")
    swapped = swapped.replace("x: kind", "call: kind")
    assert compare(rule("always not said"), rule("always not said", pack=swapped)) is not None


def test_numbers_and_flags_are_different_values() -> None:
    """`== 1` and `== true` are equal in Python; neither a comparison nor the search for events mixes them."""
    number, flag = (PACK.replace("args.days > 30", f"args.days == {value}") for value in ("1", "true"))
    assert compare(rule("always not late", pack=number), rule("always not late", pack=flag)) is not None
    mixed = 'args.x == true and kind == "tool_call" and args.x == 1'
    assert not is_satisfiable(parse_predicate(mixed))
    assert is_satisfiable(parse_predicate(mixed.replace("true", "1")))


def test_rules_with_steps_see_only_these_events() -> None:
    """An event that `steps` leaves out gives no verdict."""
    steps = ", steps: call"
    never = rule("always not (pay and said)", steps), rule("always not (said and call)", steps)
    assert compare(*never) is None
    found = compare(rule("always not late"), rule("always not late", steps))
    assert found is not None
    assert (found.session, found.step, found.left, found.right) == (((),), None, "held", "nothing pending")
    assert found.breaks == (("late",),)


def test_a_formula_takes_the_names_of_the_rule() -> None:
    """So its events are those that the rule's predicates allow."""
    assert compare(rule("always not (call and said)"), "true") is not None
    assert compare(rule("always not (call and said)"), "always (said -> not call)") is None


@pytest.mark.slow
def test_too_many_events_are_an_error() -> None:
    """Never an `equal`; the error names the rules and the limit."""
    wide = " or ".join(f"p{number}" for number in range(9))
    other_names = " or ".join(f"q{number}" for number in range(9))
    with pytest.raises(RuleError, match=r"TRL303 the formulas are too large to compare.* 65,536"):
        compare(f"always ({wide})", f"always ({other_names})")


def test_too_long_a_search_for_events_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the code and the hint of a comparison, not those of a rule that cannot be compiled."""
    monkeypatch.setattr(comparison, "SEARCH_STEPS_MAX", 10)
    with pytest.raises(RuleError, match=r"TRL303 desk/asked .* too large to compare: .* possible events, 10"):
        compare(rule("always (pay -> once said)"), rule("always (pay -> once late)"))


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("always (pay -> once said)", "always (not pay or once said)", {}),
        ("always (pay -> once said)", "always (pay -> once late)", {"one": ("formula",)}),
        ("{id: one,", "{id: one, severity: low,", {"one": ("severity",)}),
        ("{id: one,", "{id: one, unknown: stop,", {"one": ("unknown",)}),
        ("{id: one,", "{id: one, applies_to: late,", {"one": ("applies_to",)}),
        ("{id: one,", "{id: one, for_each: args.id,", {"one": ("for_each",)}),
        ("{id: one,", "{id: one, recover: none,", {"one": ("recover",)}),
        ("{id: one,", "{id: one, title: New, why: New,", {}),
        ("steps: call", "steps: call and (call or said)", {}),
        ("steps: call", "steps: call or said", {"three": ("steps",)}),
        ("steps: call", "steps: said", {"three": ("steps",)}),
        ("args.days > 30", "args.days > 31", {"three": ("predicate",)}),
        ('kind == "user"', 'kind == "assistant"', {"one": ("predicate",), "two": ("predicate",)}),
    ],
)
def test_what_changed_in_a_pack(old: str, new: str, changed: dict[str, tuple[str, ...]]) -> None:
    """A rule is changed with what changed, and else the same."""
    assert old in PACK
    found = changes(PACK, PACK.replace(old, new))
    assert {name: each.changes for name, each in found.items() if each.status != "same"} == changed


def test_rules_that_come_and_go() -> None:
    """They are added and removed; rules of one id in several packs have the pack's name, too."""
    found = changes(PACK, PACK.replace("id: one", "id: four"))
    assert [(name, each.status) for name, each in found.items()] == [
        ("one", "removed"),
        ("two", "same"),
        ("three", "same"),
        ("four", "added"),
    ]
    both = RuleSet((*pack_text(PACK).rules, *pack_text(PACK.replace("pack: desk", "pack: shop")).rules), {})
    assert {each.name for each in compare_packs(both, both)} == {
        f"{pack}/{name}" for pack in ("desk", "shop") for name in ("one", "two", "three")
    }


def test_a_rule_that_stops_asks_for_what_it_names() -> None:
    """A rewriting that names another proposition is unjudged at other events."""
    stop = PACK.replace("{id: one,", "{id: one, unknown: stop,")
    longer = stop.replace("always (pay ->", "always (pay and (late or not late) ->")
    assert changes(stop, longer)["one"].changes == ("unknown",)
    assert changes(PACK, longer.replace(" unknown: stop,", ""))["one"].status == "same"


@pytest.mark.parametrize(
    ("steps", "rewritten", "changed"),
    [
        ("call or said", "said or call", ()),
        ("call or said", "call or (said and not call)", ("unknown",)),
        ("said and not call", "not call and said", ()),
        ("said", "said and (pay or not pay)", ()),
    ],
)
def test_steps_that_are_unknown_at_other_events_are_a_change(
    steps: str, rewritten: str, changed: tuple[str, ...]
) -> None:
    """A rule that stops is unjudged where its `steps` is unknown, which the rewriting can change."""
    packs = [PACK.replace("steps: call", f"unknown: stop, steps: {text}") for text in (steps, rewritten)]
    assert changes(*packs)["three"].changes == changed
