"""Rates of violating sessions and their words."""

from __future__ import annotations

from tracline.schemas.records.violation_rate import ViolationRate, rate_of


def test_a_rate_is_one_number_where_all_sessions_are_judged() -> None:
    """The bounds are equal, and are shown once."""
    rate = ViolationRate(1, 7) + ViolationRate(0, 8)
    assert rate.as_json() == {"low": 0.0625, "high": 0.0625}
    assert rate.described == "1 of 16: 6.2%"


def test_sessions_that_were_not_judged_to_the_end_make_bounds() -> None:
    """They are in the denominator; each may be violating or not."""
    rate = rate_of({"sessions_violating": 1, "sessions_applicable": 1, "sessions_possible": 9})
    assert rate.described == "1 of 10, 9 not judged to the end: 10.0% to 100.0%"
    assert rate.as_json() == {"low": 0.1, "high": 1.0}


def test_sessions_to_which_a_rule_may_not_apply_make_bounds() -> None:
    """They are in the denominator of the lower bound alone."""
    counts = {"sessions_violating": 1, "sessions_applicable": 5, "sessions_uncertain": 5}
    assert rate_of(counts).described == "1 of 10, 5 to which it may not apply: 10.0% to 20.0%"
    assert ViolationRate(uncertain=3).as_json() == {"low": 0.0, "high": 0.0}


def test_no_session_has_no_rate() -> None:
    """Nothing divides by nothing; a summary of an early release has no possible sessions."""
    assert ViolationRate().as_json() is None
    assert ViolationRate().percent == "–"
    assert rate_of({"sessions_violating": 1, "sessions_applicable": 2}) == ViolationRate(1, 1)
