"""The muddy yard of Brindise and Langbort, section V, with its timesets, and the starts worth a look."""

from __future__ import annotations

import pytest
from tracline.rules.explanation.rule_status import RuleStatus, Status, assess
from tracline.rules.language.parse import parse_formula

YARD = (
    {"outside"},
    {"outside"},
    {"outside", "muddy"},
    {"outside"},
    {"outside"},
    {"outside", "wiped"},
    {"outside"},
    {"outside"},
    {"outside", "inside"},
    {"inside"},
    {"inside"},
    {"inside", "washed"},
)
"""The labels of the agent's run. The paper counts steps from 0, tracline from 1."""
LAST = len(YARD) - 1


def yard(text: str) -> RuleStatus:
    """Return the status of a rule in the yard."""
    return assess(parse_formula(text), tuple(map(frozenset, YARD)))


def active(status: RuleStatus, node: str, t0: int) -> tuple[list[int], list[int], list[int]]:
    """Return the active, satisfied and inactive steps of a part from a start, as the paper counts them."""
    part = status.part(node)
    found = {t: part.status(t0 + 1, t + 1) for t in range(t0, len(YARD))}
    assert Status.VIOLATED not in found.values()
    return (
        [t for t, at in found.items() if at in (Status.ACTIVE, Status.SATISFIED)],
        [t for t, at in found.items() if at is Status.SATISFIED],
        [t for t, at in found.items() if at is Status.INACTIVE],
    )


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        ("eventually outside", 0),
        ("eventually inside -> eventually washed", 0),
        ("always (muddy -> (not inside weak_until wiped))", LAST),
        ("always not impassable", LAST),
    ],
)
def test_the_rules_of_the_yard_from_its_first_step(rule: str, last: int) -> None:
    """Rules 1 and 2 are active at the first step only, rules 3 and 4 at every step."""
    every = list(range(LAST + 1))
    assert active(yard(rule), "0", 0) == (every[: last + 1], [last], every[last + 1 :])


def test_mud_starts_an_obligation_and_wiping_ends_it() -> None:
    """Rule 3.1 is active at step 2 alone, and 3.1.2 from 2 to 5.

    The paper also lists steps 0 and 1 as inactive from the start 2, before which no status is defined.
    """
    status = yard("always (muddy -> (not inside weak_until wiped))")
    assert active(status, "0.1", 2) == ([2], [2], list(range(3, 12)))
    assert active(status, "0.1.2", 2) == ([2, 3, 4, 5], [5], list(range(6, 12)))


def test_going_inside_and_washing() -> None:
    """Rule 2: both parts are active at 3 from 0; washing is satisfied at 11.

    The paper calls `eventually inside` inactive at 9 from 9. By its own Table III it is satisfied there: the
    agent is inside at 9.
    """
    status = yard("eventually inside -> eventually washed")
    inside, washed = status.part("0.1"), status.part("0.2")
    assert {inside.status(1, 4), washed.status(1, 4)} == {Status.ACTIVE}
    assert inside.status(10, 10) is Status.SATISFIED
    assert washed.status(10, 10) is Status.ACTIVE
    assert washed.status(10, 12) is Status.SATISFIED


def test_the_start_at_the_mud_is_worth_a_look() -> None:
    """The heuristic of section V finds the start 2 for rule 3.1: it becomes active there."""
    status = yard("always (muddy -> (not inside weak_until wiped))")
    assert 3 in status.worth()


def test_an_open_session_leaves_parts_open() -> None:
    """An obligation is open until the session closes; a breach is violated at once."""
    asked, trace = (
        parse_formula("always (asked -> eventually done)"),
        (frozenset({"asked"}), frozenset[str]()),
    )
    assert assess(asked, trace, is_closed=False).part("0").status(1, 1) is Status.OPEN
    assert assess(asked, trace).part("0").status(1, 1) is Status.VIOLATED
    never = assess(parse_formula("always not asked"), trace, is_closed=False)
    assert never.part("0").status(1, 2) is Status.VIOLATED
    assert never.part("0").status(2, 2) is Status.OPEN
