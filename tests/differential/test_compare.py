"""`compare` against the reference semantics, over all pairs of formulas of up to three nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import pytest
from tracline.rules.comparison.compare import Difference, compare
from tracline.rules.compiler.compile import compile_formula
from tracline.rules.model.formula import Formula
from tracline.rules.reference.semantics import Run, advance, begin, close, judge
from tracline.schemas.verdict import Recover, Verdict

from ..support.formulas import accepted
from .tables import Remembering

LETTERS = tuple(frozenset(letter) for letter in ("", "p", "q", "pq"))
LENGTH = 3
Word = tuple[frozenset[str], ...]
Answer = tuple[tuple[Verdict, ...], Verdict | None]
BROKEN = (Verdict.VIOLATED, Verdict.UNMET)


def answers(formula: Formula, word: Sequence[frozenset[str]], recover: Recover) -> Answer:
    """Return the verdicts of the reference after each event, and its reading at the close."""
    judged = judge(formula, word, recover=recover)
    return judged.verdicts, judged.closing


def all_answers(formula: Formula, recover: Recover) -> tuple[Answer, ...]:
    """Return the answers on all `WORDS`; those with a common beginning share its steps."""
    meaning = Remembering(formula)
    found: dict[Word, Answer] = {}
    runs: list[tuple[Word, tuple[Verdict, ...], Run]] = [((), (), begin(meaning))]
    for word, verdicts, run in runs:  # the loop appends runs
        for letter in LETTERS:
            longer, (verdict, after) = (*word, letter), advance(meaning, run, letter, recover)
            found[longer] = (*verdicts, verdict), close(meaning, after, longer)
            if len(longer) < LENGTH:
                runs.append((longer, (*verdicts, verdict), after))
    return tuple(found[word] for word in WORDS)


def is_broken(answer: Answer) -> bool:
    """Return whether a session is violated or unmet."""
    return Verdict.VIOLATED in answer[0] or answer[1] is Verdict.UNMET


class Sign(NamedTuple):
    """The answers on all `WORDS`, and whether each session is broken."""

    answers: tuple[Answer, ...]
    broken: tuple[bool, ...]


def size(word: Sequence[frozenset[str]]) -> tuple[int, int, list[list[str]]]:
    """Return the order of sessions: length, true propositions, alphabet."""
    return len(word), sum(map(len, word)), [sorted(true) for true in word]


WORDS: list[Word] = sorted(
    (word for length in range(1, LENGTH + 1) for word in product(LETTERS, repeat=length)), key=size
)
"""All sessions of up to `LENGTH` events, in their order."""


def tables(formula: Formula, recover: Recover) -> tuple:
    """Return all that `compare` reads of a formula: its machine without the residuals."""
    machine = compile_formula(formula, recover=recover)
    return machine.propositions, machine.letters, machine.next, machine.output, machine.closing


def first_difference(left: Sequence, right: Sequence) -> Word | None:
    """Return the first of `WORDS` for which two sequences differ."""
    return None if left == right else next(w for w, a, b in zip(WORDS, left, right, strict=True) if a != b)


def check(
    found: Difference | None, left: Formula, right: Formula, signs: Sequence[Sign], recover: Recover
) -> bool:
    """Compare one answer with the reference, and return whether the reference saw a difference itself."""
    least = first_difference(signs[0].answers, signs[1].answers)
    shortest = first_difference(signs[0].broken, signs[1].broken)
    pair = f"{left} | {right} | {recover}"
    if found is None:
        assert least is None, f"a wrong equal: {pair}"
        return False
    session = [frozenset(labels) for labels in found.session]
    first, second = answers(left, session, recover), answers(right, session, recover)
    assert first != second, f"no difference: {pair}"
    assert first[0][:-1] == second[0][:-1], pair
    if found.step is None:
        assert first[0] == second[0], pair
        assert [found.left, found.right] == [each[1] or "nothing pending" for each in (first, second)]
    else:
        assert found.step == len(session)
        assert [found.left, found.right] == [first[0][-1], second[0][-1]]
    assert (least is None) == (len(session) > LENGTH), pair
    assert least is None or size(least) == size(session), pair
    if found.breaks is None or len(found.breaks) > LENGTH:
        assert shortest is None, pair
    else:
        assert shortest is not None, pair
        assert size(shortest) == size([frozenset(labels) for labels in found.breaks]), pair
    return least is not None


def compared(recover: Recover) -> tuple[int, int, int]:
    """Compare all pairs of formulas; return the pairs, the equal ones, and those that differ later."""
    classes: dict[tuple[tuple, Sign], list[Formula]] = {}
    for formula in (formula for formula in accepted() if formula.size <= 3):
        found_answers = all_answers(formula, recover)
        sign = Sign(found_answers, tuple(map(is_broken, found_answers)))
        classes.setdefault((tables(formula, recover), sign), []).append(formula)
    pairs = equal = later = 0
    for place, ((_, sign), lefts) in enumerate(classes.items()):
        for number, ((_, facing), rights) in enumerate([*classes.items()][: place + 1]):
            # Their machines decide, so a pair of machines stands for all formulas that have them. The pair is
            # compared in one direction, which alternates.
            sides = [(lefts[0], sign), (rights[-1], facing)]
            (left, first), (right, second) = sides if (place + number) % 2 else sides[::-1]
            found = compare(left, right, recover=recover)
            is_seen = check(found, left, right, (first, second), recover)
            count = len(lefts) * len(rights) * (1 if place == number else 2)
            pairs, equal = pairs + count, equal + count * (found is None)
            later += count * (found is not None and not is_seen)
    return pairs, equal, later


SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in Recover if each is not Recover.BOTH]


@pytest.mark.parametrize("recover", [Recover.BOTH, *SLOW])
def test_all_pairs_of_formulas_of_up_to_three_nodes(recover: Recover) -> None:
    """The answer, the shortest session, its answers, and the shortest session that only one breaks."""
    pairs, equal, later = compared(recover)
    print(f"pairs {pairs}, equal {equal}, with a difference after {LENGTH} events {later}")
    assert pairs >= 211_600
    assert equal >= 18_366
