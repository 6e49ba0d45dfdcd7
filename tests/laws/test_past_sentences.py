"""Plain sentences that need the events before a verdict: every claim of one is true of the session."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from random import Random

import msgspec
import pytest
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.engine.stepper import MachineRun
from tracline.rules.explanation.breach import explain_breach
from tracline.rules.explanation.past import RunPast
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import Formula, Op, walk
from tracline.rules.model.machine import Machine
from tracline.rules.model.rule import Rule
from tracline.rules.reference.semantics import holds
from tracline.rules.reference.slow_witness import witnesses_slowly
from tracline.schemas.verdict import Verdict

from .test_breach import record_of, recorded, rule_of, violations

Word = tuple[frozenset[str], ...]
LETTERS = tuple(frozenset(letter) for letter in ("", "p", "q", "r", "pq", "pr", "qr", "pqr"))
PLACE = r"[Ee]vent (\d+)(?: \(([`pqr, ]+)\))?"

EARLY = re.compile(rf"{PLACE} came too early: no event with `(\w)` came before it\.")
SINCE = re.compile(
    rf"{PLACE} came too early: no event with `(\w)` came since the last event with `(\w)` \(event (\d+)\)"
    rf"(?:; {PLACE} came instead)?\."
)
BETWEEN = re.compile(rf"{PLACE} came too early: {PLACE} came between {PLACE} and {PLACE}\.")
LATE = re.compile(rf"{PLACE} came too late: {PLACE} ended what {PLACE} had allowed\.")
RIGHT = re.compile(rf"{PLACE} came right after {PLACE}\.")
AFTER = re.compile(
    rf"{PLACE} came after (.*?)(?:, with no event with `(\w)` since(?: the first)?|, which excludes it)?\."
)
OFTEN = re.compile(
    rf"{PLACE} came too often: `(\w)` was true (\d+) times by then, at events ([\d, ]+) and (\d+)\."
)
EXCLUDED = re.compile(rf"The rule excludes {PLACE}\.")
WITHOUT = re.compile(rf"{PLACE} came without `(\w)`(?: and without `(\w)`)?\.")
WITHIN = re.compile(rf"{PLACE} was not followed by any event with `(\w)` within (\d+) events?\.")
TURNS = re.compile(
    rf"{PLACE} was not followed by any event with `(\w)` before {PLACE}, the (\w+) further turn\."
)
OPEN = re.compile(
    rf"{PLACE} was not followed by any event with `(\w)`: the session ended after event (\d+)\."
)


def is_early(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether no such event came before."""
    return not any(found[3] in true for true in word[: int(found[1]) - 1])


def is_since(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether the last q came where the sentence has it, and no p after it, but the event instead."""
    last, end = int(found[5]), int(found[1])
    instead = last + 1 if found[6] is None else int(found[6])
    after = word[last : end - 1]
    return (
        last < instead <= end
        and found[4] in word[last - 1]
        and not any({found[3], found[4]} & true for true in after)
    )


def is_between(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether the three events are in order."""
    return int(found[5]) < int(found[3]) < int(found[7]) <= int(found[1]) <= len(word)


def is_late(formula: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether the condition held from the event that allowed to the one before that which ended it."""
    since = next(part for part in walk(formula) if part.op is Op.SINCE)
    ended, began, end = int(found[3]), int(found[5]), int(found[1])
    allowed = [holds(since, word, at) for at in range(1, end)]
    return began < ended < end and all(allowed[began - 1 : ended - 1]) and not any(allowed[ended - 1 :])


def is_last(formula: Formula, word: Word, sentence: str) -> bool:
    """Return whether no `since` of the rule changes between the last event that the sentence names and p's.

    Where one did, a later event than those named decided: the sentence would blame the wrong one.
    """
    seqs = [int(seq) for seq, _ in re.findall(PLACE, sentence)]
    places = range(max(seq for seq in seqs if seq < seqs[0]), seqs[0])
    parts = [part for part in walk(formula) if part.op is Op.SINCE]
    return all(len({holds(part, word, at) for at in places}) == 1 for part in parts)


def is_right_after(_: Formula, __: Word, found: re.Match[str]) -> bool:
    """Return whether the events are neighbours."""
    return int(found[3]) == int(found[1]) - 1


def is_after(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether the events are earlier and in order, with no such event since the first."""
    places = [int(seq) for seq, _ in re.findall(PLACE, found[3])]
    since = word[places[0] : int(found[1]) - 1]
    is_free = found[4] is None or not any(found[4] in true for true in since)
    return is_free and places == sorted(places) and places[-1] < int(found[1])


def is_often(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether the sentence counts and names every event with the proposition."""
    named = [*map(int, found[5].split(", ")), int(found[6])]
    true = [at for at in range(1, int(found[1]) + 1) if found[3] in word[at - 1]]
    return named == true and int(found[4]) == len(true)


def is_true_there(_: Formula, __: Word, found: re.Match[str]) -> bool:
    """Return whether the sentence names propositions; that they are true there is checked of each event."""
    return bool(found[2])


def is_without(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether the propositions are false at the event."""
    return not set(found.group(3, 4)) & word[int(found[1]) - 1]


def is_within(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether so many events came, and none of them is such an event."""
    first, count = int(found[1]), int(found[4])
    return first + count <= len(word) and not any(found[3] in true for true in word[first : first + count])


def is_turn(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether no answer came up to the event, which is the turn with that number."""
    first, last = int(found[1]), int(found[4])
    count = {"first": 1, "second": 2, "third": 3}[found[6]]
    later = word[first:last]
    return not any(found[3] in true for true in later) and sum("r" in true for true in later) == count


def is_open(_: Formula, word: Word, found: re.Match[str]) -> bool:
    """Return whether no such event came to the end."""
    return int(found[4]) == len(word) and not any(found[3] in true for true in word[int(found[1]) :])


CLAIMS: dict[re.Pattern[str], Callable[[Formula, Word, re.Match[str]], bool]] = {
    EARLY: is_early,
    SINCE: is_since,
    BETWEEN: is_between,
    LATE: is_late,
    RIGHT: is_right_after,
    AFTER: is_after,
    OFTEN: is_often,
    EXCLUDED: is_true_there,
    WITHOUT: is_without,
    WITHIN: is_within,
    TURNS: is_turn,
    OPEN: is_open,
}


def sentences(text: str, words: Iterable[Word]) -> Iterator[tuple[Word, str]]:
    """Yield every sentence on the violations of a rule over the words, each with the events up to it.

    Words with a common beginning share the sentences on its events.
    """
    rule = rule_of(parse_formula(text))
    machine = compile_rule(rule)
    known = set[tuple[Word, Verdict]]()
    for word in words:
        for index, verdict in broken(machine, word).items():
            beginning = word[: index + 1]
            if (beginning, verdict) not in known:
                known.add((beginning, verdict))
                yield beginning, sentence(rule, machine, beginning, index, verdict)


def broken(machine: Machine, word: Word) -> dict[int, Verdict]:
    """Return the events that violate the rule, and the last one where it is unmet."""
    run = MachineRun(machine)
    for true in word:
        run.step(true)
    ends = dict.fromkeys(violations(machine, word), Verdict.VIOLATED)
    return ends | {len(word) - 1: Verdict.UNMET} if run.closing is Verdict.UNMET else ends


def sentence(rule: Rule, machine: Machine, word: Word, index: int, verdict: Verdict) -> str:
    """Return the sentence on one event of a word."""
    (replayed,) = witnesses_slowly(rule, machine, word, [index]).values()
    record = msgspec.structs.replace(record_of(recorded(replayed)), verdict=verdict)
    return explain_breach(rule, record, RunPast(rule, range(1, len(word) + 1), word))


WORDS_MAX = 400
"""Words of three propositions that the fast test takes of all 4,096, at random."""
WORDS_OF = {
    letters: [*product([each for each in LETTERS if each <= {*letters}], repeat=4)]
    for letters in ("pq", "pqr")
}
"""All words of four events."""
TURN = "next (not r until (q or r and next (not r until q)))"


CASES = (
    ("rule", "letters", "shapes"),
    [
        ("always (p -> (not r since q))", "pqr", [EARLY, LATE]),
        ("always (p -> previous (not r since q))", "pqr", [EARLY, LATE]),
        ("always (p -> (true since (q and (not p since r))))", "pqr", [EARLY, SINCE, BETWEEN]),
        ("always (p -> previous (not p since (q and previous (not r since p))))", "pqr", [EARLY, SINCE]),
        ("always (p -> previous (not p since (q and (not r since r))))", "pqr", [EARLY, LATE]),
        ("always (p -> previous (true since (q and (not p since r))))", "pqr", [EARLY, SINCE, BETWEEN]),
        ("always (p -> previous (true since (q and previous (not p since r))))", "pqr", [SINCE, BETWEEN]),
        ("always (p -> not previous (not r since q))", "pqr", [AFTER]),
        ("always (p -> not previous (not r since (q and previous (not r since q))))", "pqr", [AFTER]),
        ("always (p -> at_most[1] p)", "pq", [OFTEN]),
        ("always (p -> at_most[2] q)", "pq", [OFTEN]),
        ("always not (p and previous p)", "pq", [RIGHT]),
        ("always not (p and previous q)", "pq", [RIGHT]),
        ("always not p", "pq", [EXCLUDED]),
        ("always not (p and q)", "pq", [EXCLUDED]),
        ("always (p -> q)", "pq", [WITHOUT]),
        ("q", "pq", [WITHOUT]),
        ("always (p -> eventually[0,2] q)", "pq", [WITHIN, OPEN]),
        ("always (p -> eventually[1,2] q)", "pq", [WITHIN, OPEN]),
        (f"always (p -> {TURN})", "pqr", [TURNS, OPEN]),
        ("always (p -> next (not r until q))", "pqr", [TURNS, OPEN]),
    ],
)


ASKED = "always (p -> previous (not (q and not r) since (r and previous (not q since p))))"
"""A rule in which p asks, q speaks and r agrees; p also is what requires the answer."""


def test_a_sentence_names_what_decided_last() -> None:
    """Where a later question got no yes, the sentence blames its answer, over words of five events."""
    words = list(product(LETTERS, repeat=5))
    check(ASKED, Random(11).sample(words, WORDS_MAX), [SINCE, BETWEEN, LATE])


@pytest.mark.slow
def test_every_sentence_names_what_decided_last() -> None:
    """The same over all words of five events."""
    check(ASKED, product(LETTERS, repeat=5), [SINCE, BETWEEN, LATE])


@pytest.mark.parametrize(*CASES)
def test_a_plain_sentence_is_true(rule: str, letters: str, shapes: list[re.Pattern[str]]) -> None:
    """Every plain sentence on a rule over words of four events; each shape has at least one."""
    words = WORDS_OF[letters]
    check(rule, Random(7).sample(words, min(WORDS_MAX, len(words))), shapes)


@pytest.mark.parametrize("rule", [ASKED, *(case[0] for case in CASES[1])])
def test_later_events_change_no_sentence(rule: str) -> None:
    """The sentence on an event of a word is the one on it where it is the last event."""
    judged = rule_of(parse_formula(rule))
    machine = compile_rule(judged)
    later = 0
    for word in Random(3).sample(WORDS_OF["pqr"], 100):
        for index, verdict in broken(machine, word).items():
            beginning = sentence(judged, machine, word[: index + 1], index, verdict)
            assert sentence(judged, machine, word, index, verdict) == beginning
            later += index + 1 < len(word)
    assert later > 0 or rule == "q"


@pytest.mark.slow
@pytest.mark.parametrize(CASES[0], [case for case in CASES[1] if len(WORDS_OF[case[1]]) > WORDS_MAX])
def test_every_plain_sentence_is_true(rule: str, letters: str, shapes: list[re.Pattern[str]]) -> None:
    """The same over all words, where the fast test takes a sample of them."""
    check(rule, WORDS_OF[letters], shapes)


def check(rule: str, words: Iterable[Word], shapes: list[re.Pattern[str]]) -> None:
    """Check the claims of each plain sentence."""
    formula, counts = parse_formula(rule), Counter[re.Pattern[str]]()
    for word, sentence in sentences(rule, words):
        pattern = next((pattern for pattern in CLAIMS if pattern.fullmatch(sentence)), None)
        if pattern is None:
            continue
        counts[pattern] += 1
        found = pattern.fullmatch(sentence)
        assert found
        assert CLAIMS[pattern](formula, word, found), (rule, word, sentence)
        if pattern in (LATE, SINCE, BETWEEN):
            assert is_last(formula, word, sentence), (rule, word, sentence)
        for seq, true in re.findall(PLACE, sentence):
            assert set(re.findall(r"`(\w)`", true)) <= word[int(seq) - 1], (word, sentence)
    assert set(shapes) <= set(counts), {pattern.pattern: count for pattern, count in counts.items()}
