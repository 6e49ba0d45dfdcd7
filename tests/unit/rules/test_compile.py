"""The compiler: sizes of machines, limits, applicability, and residuals as text."""

from typing import Any

import pytest
from tracline.rules import Monitor, RuleError, Verdict
from tracline.rules.compiler.compile import compile_formula
from tracline.rules.compiler.limits import CompilerLimits
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.machine import APPLIES, Machine


def compiled(text: str, **options: Any) -> Machine:
    """Return the machine of a formula's text."""
    return compile_formula(parse_formula(text), **options)


def residuals(machine: Machine) -> set[str]:
    """Return the distinct residuals that a machine can show."""
    return set(machine.residual)


def test_residuals_of_a_bounded_response_absorb() -> None:
    """`always (p -> F[0,16] q)` asks one of 17 things, not of 65,536."""
    assert len(residuals(compiled("always (p -> F[0,16] q)"))) == 17


def test_two_bounded_responses_stay_a_product() -> None:
    """Independent deadlines multiply, and each residual is spelled with both."""
    machine = compiled("always (p -> F[0,3] q) and always (r -> F[0,5] s)")
    assert len(residuals(machine)) == 4 * 6
    assert any("eventually[0,2] q" in text and "eventually[0,4] s" in text for text in machine.residual)


def test_a_count_needs_a_counter_not_a_register() -> None:
    """`at_most[k]` and the bounded past operators take as many states as they count steps."""
    assert len(compiled("always at_most[20] p").next) <= 2 * 22
    assert len(compiled("always (q -> O[0,20] p)").next) <= 2 * 22
    assert len(compiled("always (q -> H[0,20] p)").next) <= 2 * 22


@pytest.mark.slow
def test_an_exponential_rule_is_refused_by_name_and_limit() -> None:
    """`always (p -> X[10] q)` has a residual for each subset of ten pending steps; the error shows it."""
    with pytest.raises(RuleError) as error:
        compiled("always (p -> X[10] q)", name="shop/exact-delay")
    text = str(error.value)
    assert "TRL301" in text
    assert "shop/exact-delay" in text
    assert "1000 of machine states" in text


@pytest.mark.parametrize(
    ("limits", "text", "named"),
    [
        (CompilerLimits(propositions_max=2), "always (a -> eventually (b or c))", "propositions"),
        (CompilerLimits(delay_max=9), "F[0,10] p", "steps of delay"),
        (CompilerLimits(pending_max=9), "F[0,10] p", "pending obligations"),
        (CompilerLimits(letters_max=4), "always (a -> eventually b) and next c", "letter classes"),
        (CompilerLimits(nodes_max=40), "F[0,50] p", "formula nodes"),
        (CompilerLimits(states_max=5), "always (p -> F[0,16] q)", "machine states"),
        (CompilerLimits(edges_max=30), "always (p -> F[0,16] q)", "machine edges"),
        (CompilerLimits(steps_max=500), "always (p -> F[0,16] q)", "steps of work"),
        (CompilerLimits(tableau_max=3), "(F G p) and (F G q) and (F G (p xor_ q))", "tableau states"),
    ],
)
def test_every_limit_stops_the_search_with_its_name(limits: CompilerLimits, text: str, named: str) -> None:
    """A rule that is too large is an error that names the limit, never a slow or wrong machine."""
    with pytest.raises(RuleError, match=named):
        compiled(text.replace("p xor_ q", "not (p <-> q)"), limits=limits)


@pytest.mark.parametrize(
    "text", ["X[1000] p", "N[1000] p", "F[600,600] p", "G[500,505] p", "X[200] X[200] p"]
)
def test_a_long_delay_is_refused_by_name(text: str) -> None:
    """Bounds that the language reads but no machine can hold never end in a traceback."""
    with pytest.raises(RuleError, match="steps of delay"):
        compiled(text)


@pytest.mark.slow
def test_the_longest_delays_compile() -> None:
    """`F[0,250]` and counts near a thousand are within the limits."""
    assert len(residuals(compiled("F[0,250] p"))) == 251
    assert len(compiled("always at_most[900] p").next) > 900


def test_a_text_is_no_set_of_names() -> None:
    """`step("happy")` would find the proposition `app` in it."""
    with pytest.raises(AssertionError):
        Monitor("app").step("happy")


def test_a_table_has_letters_only_for_what_the_rule_distinguishes() -> None:
    """Thirteen propositions in one disjunction are two letters beside `done`."""
    tools = " or ".join(f"t{i}" for i in range(12))
    machine = compiled(f"always (({tools}) -> eventually done)")
    assert len(machine.next[0]) <= 4
    assert len(machine.letters) == 1 << 13


@pytest.mark.slow
def test_more_letters_than_a_byte_holds_are_refused() -> None:
    """Eight propositions read one by one are 256 letters; the kernel has 250."""
    one_by_one = " or ".join(f"next[{i}] p{i}" for i in range(8))
    with pytest.raises(RuleError, match="letters of the table"):
        compiled(one_by_one)


def applies(machine: Machine, *steps: set[str]) -> list[bool]:
    """Return whether the rule is reported to apply at each step."""
    state, found = 0, list[bool]()
    for true in steps:
        state, output = machine.step(state, machine.word(true))
        found.append(bool(output & APPLIES))
    return found


def test_a_rule_applies_where_its_antecedent_holds() -> None:
    """The antecedent of the outermost implication counts, under one outermost `always`."""
    assert applies(compiled("always (pay -> once agreed)"), set(), {"pay"}, set()) == [False, True, False]


def test_a_rule_without_an_antecedent_applies_at_once() -> None:
    """Also where the antecedent speaks of the future."""
    assert applies(compiled("eventually survey"), set())[0]
    assert applies(compiled("(eventually p) -> q"), set())[0]


def test_a_past_antecedent_is_followed_after_a_final_verdict() -> None:
    """A rule that was satisfied for good before its antecedent held still reports when it does."""
    from tracline.schemas.verdict import Recover

    machine = compiled("always (once p -> q)", recover=Recover.NONE)
    assert applies(machine, set(), {"p", "q"}, set()) == [False, True, True]
    given = compiled("eventually q", applies_to=parse_formula("p and previous p"), recover=Recover.NONE)
    assert applies(given, {"q"}, {"p"}, {"p"}, set()) == [False, False, True, False]


@pytest.mark.parametrize(
    ("formula", "steps", "residual"),
    [
        ("p until q", [{"p"}], "p until q"),
        ("p weak_until q", [{"p"}], "p weak_until q"),
        ("next (p and q)", [set()], "p and q"),
        ("q or next (p until q)", [set()], "p until q"),
        ("F[0,3] g", [set()], "eventually[0,2] g"),
        ("G[1,3] g", [set()], "always[0,2] g"),
        ("X[3] g", [set()], "next[2] g"),
        ("always (pay -> eventually (receipt and once agreed))", [{"pay"}], None),
        ("always eventually p", [set()], "always eventually p"),
        ("p release q", [{"q"}], "p release q"),
        ("p strong_release q", [{"q"}], "q until (p and q)"),
    ],
)
def test_a_residual_is_the_shortest_text_of_what_is_left(
    formula: str, steps: list[set[str]], residual: str | None
) -> None:
    """Bounds count down, words are the shortest spelling, past parts stand as written."""
    monitor = Monitor(formula)
    for true in steps:
        monitor.step(true)
    expected = residual or f"{formula} and eventually (receipt and once agreed)"
    assert monitor.residual == expected


def test_completion_finds_what_progression_alone_does_not() -> None:
    """A residual that only *is* unsatisfiable is a violation at once (LTL3), with history counted in."""
    assert Monitor("always eventually p and eventually always not p").step(set()) is Verdict.VIOLATED
    # once p stays true for ever after the first p: nothing free about that bit
    monitor = Monitor("eventually (q and not once p)")
    assert monitor.step(set()) is Verdict.PENDING
    assert monitor.step({"p"}) is Verdict.VIOLATED
