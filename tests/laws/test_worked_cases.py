"""Worked cases: verdicts written by hand, which machine and reference must both give.

A case is a formula, a way of recovering, a trace (one word per event, `a+b` where two propositions are true,
`-` where none is), the verdicts (`.` pending, `V` violated, `S` satisfied) and the closing reading.
"""

from __future__ import annotations

import pytest
from tracline.rules.engine.monitor import Monitor
from tracline.rules.language.parse import parse_formula
from tracline.rules.reference.semantics import judge
from tracline.schemas.verdict import Recover, Verdict

Case = tuple[str, str, str, str, str | None]

TRAC = [
    # TRAC, Algorithm 1: the first verdict stays.
    ("always (take -> next examine)", "none", "take examine take - take", "...VV", None),
    ("eventually done", "none", "- done - done", ".SSS", None),
    # TRAC_R, Algorithm 2: every breach and every success is reported, and the obligation restarts.
    ("always (take -> next examine)", "both", "take examine take - take take take", "...V.V.", "unmet"),
    ("always (take -> next examine)", "both", "take examine+take examine -", "....", "held"),
    ("always not drop", "both", "drop - drop drop", "V.VV", None),
    ("eventually done", "both", "- done - done", ".S.S", None),
    # Recovery from violations only: a satisfaction is final.
    ("eventually done", "violation", "- done - done", ".SSS", None),
    ("not drop until done", "violation", "drop - done drop", "V.SS", None),
    # Progression alone would not see these; the verdict comes at the earliest event.
    ("eventually (p and not p)", "both", "- p", "VV", None),
    ("next false", "both", "- -", "VV", None),
    ("always eventually p or eventually always not p", "none", "- p", "SS", None),
    ("next (p and next not p and next p)", "none", "- -", "VV", None),
]
INVARIANTS = [
    # Judged where they stand, at every event.
    ("always not (call and previous call)", "both", "call call call - call", ".VV..", "held"),
    ("always historically p", "both", "p - p p", ".VVV", None),
    ("historically p", "both", "p - p -", ".V.V", None),
    ("always (write -> once login)", "both", "write login write -", "V...", "held"),
    ("always (write -> once login)", "none", "write login write -", "VVVV", None),
    ("always (write -> once login)", "violation", "write login write write", "V...", "held"),
    ("refund -> at_most[2] refund", "both", "refund refund - refund - refund", "...V.V", None),
    ("always at_most[2] refund", "both", "refund refund - refund - refund", "...VVV", None),
    ("true since p", "both", "- p -", "V..", "held"),
    ("always not previous once handover", "both", "handover - -", ".VV", None),
    # Never satisfied, never completed: `once p` stays true, and stays pending.
    ("once p", "both", "p - -", "...", "held"),
    ("once p", "none", "", "", None),
]
HISTORY = [
    # Restarts do not touch history: the second breach is one because of the first event.
    ("always (close -> once open) and always not bad", "both", "open close bad close close", "..V..", "held"),
    ("eventually (b and once a)", "both", "a b - b", ".S.S", None),
    ("eventually (b and previous a)", "both", "a b+a b", ".SS", None),
    # History decides before the event does: never b before a, so the second a cannot help.
    ("eventually (a and historically not b)", "none", "b a", "VV", None),
    ("always (a -> eventually (b and once c))", "both", "c a b a", "....", "unmet"),
]
CLOSING = [
    # The finite reading: what was promised and did not come.
    ("always (ask -> eventually reply)", "both", "ask reply ask", "...", "unmet"),
    ("always (ask -> eventually reply)", "both", "ask reply -", "...", "held"),
    ("always (ask -> next reply)", "both", "- ask", "..", "unmet"),
    ("always (ask -> weak_next reply)", "both", "- ask", "..", "held"),
    ("not next p", "both", "-", ".", "held"),
    ("not weak_next p", "both", "-", ".", "unmet"),
    ("next not p", "both", "-", ".", "unmet"),
    ("handover -> weak_next false", "both", "handover", "V", None),
    ("G[0,2] p", "both", "p p", "..", "held"),
    ("F[0,2] p", "both", "- -", "..", "unmet"),
    ("p release q", "both", "q q", "..", "held"),
    ("p strong_release q", "both", "q q", "..", "unmet"),
    # Asked nothing since it was satisfied: held, in every spelling.
    ("eventually survey", "both", "- survey - -", ".S..", "held"),
    ("survey or eventually survey", "both", "survey -", "S.", "held"),
    ("true until survey", "both", "survey -", "S.", "held"),
    ("eventually (a and next b)", "both", "a b -", ".S.", "held"),
    ("eventually (a and next b)", "both", "a b a", ".S.", "unmet"),
    ("eventually survey", "both", "- -", "..", "unmet"),
    # After a violation there is no such mercy.
    ("not hang until bye", "both", "hang - -", "V..", "unmet"),
    ("not hang until bye", "both", "bye - -", "S..", "held"),
    ("eventually survey", "both", "", "", None),
]
FORGETTING = [
    # After a restart open obligations are gone ...
    ("always ((call -> eventually result) and not secret)", "both", "call secret -", ".V.", "held"),
    # ... and an anchored rule restarts.
    ("not refund until verify", "both", "verify refund", "SV", None),
    ("not refund until verify", "violation", "verify refund", "SS", None),
    ("F[0,3] greet", "both", "greet - - - - greet", "S...VS", None),
    ("F[0,3] greet", "violation", "greet - - - - greet", "SSSSSS", None),
]


def _trace(text: str) -> list[frozenset[str]]:
    return [frozenset(word.split("+")) - {"-"} for word in text.split()]


@pytest.mark.parametrize("case", [*TRAC, *INVARIANTS, *HISTORY, *CLOSING, *FORGETTING], ids=str)
def test_worked_case(case: Case) -> None:
    """Verdicts and closing are as written, by the machine and by the reference."""
    text, recover, events, marks, closing = case
    spoken = {".": Verdict.PENDING, "V": Verdict.VIOLATED, "S": Verdict.SATISFIED}
    expected = [spoken[mark] for mark in marks]
    monitor = Monitor(text, recover)
    assert [monitor.step(label) for label in _trace(events)] == expected
    assert monitor.close() == closing
    meant = judge(parse_formula(text), _trace(events), recover=Recover(recover))
    assert (list(meant.verdicts), meant.closing) == (expected, closing)


def test_a_final_verdict_is_recorded_once() -> None:
    """Under `none` the machine goes on answering; what is written down is the first verdict."""
    meant = judge(parse_formula("always not drop"), _trace("- drop - drop"), recover=Recover.NONE)
    assert meant.recorded == (2,)
    assert meant.verdicts == (Verdict.PENDING, *[Verdict.VIOLATED] * 3)


def test_a_transition_bit_counts_events_by_parity() -> None:
    """`odd: not previous odd` is true at the first event, then at every other one."""
    bits = {"odd": parse_formula("not previous odd")}
    meant = judge(parse_formula("always (p -> odd)"), _trace("p p p p"), transitions=bits)
    assert meant.verdicts == (Verdict.PENDING, Verdict.VIOLATED, Verdict.PENDING, Verdict.VIOLATED)
