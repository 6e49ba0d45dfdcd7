"""Counts and walks of an archive against the same in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tracline.batch.prediction.tallied import labelled_sessions, tallied
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.over_archive import over_archive
from tracline.predict.chain.walks import CLOSED_UNMET, CUT
from tracline.predict.counting.split import Split
from tracline.predict.counting.tally import ChainTally
from tracline.predict.counting.watched_rules import WatchedRules, watch
from tracline.predict.error import PredictError
from tracline.predict.risk.rule_risks import RiskOptions, rule_risks
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.engine.kernel import EVENTS_MAX
from tracline.rules.language.parse import parse_predicate
from tracline.rules.model.printer import to_text
from tracline.rules.model.rule import Rule, RuleSet
from tracline.rules.packs.load import load_packs
from tracline.schemas.verdict import Recover

from ...support.chains.counted_archives import EVERYTHING, PACK, counted, random_sessions, rows
from ...support.chains.slow_counting import (
    UNKNOWN_VALUE,
    SlowEvent,
    SlowSession,
    counted_transitions,
    counted_walks,
    slow_sequences,
    transitions,
)
from ...support.event_rows import session, user, write
from ...support.formulas import is_accepted, of_size

PREDICATES = {name: parse_predicate(f'text contains "{name}"') for name in ("p", "q")}


def rule_set_of_up_to_three_nodes() -> RuleSet:
    """Return a rule for each accepted formula of up to three nodes and each way of recovering."""
    formulas = [formula for nodes in (1, 2, 3) for formula in of_size(nodes) if is_accepted(formula)]
    rules = tuple(
        Rule("set", f"r{number}-{recover}", "", formula, to_text(formula), PREDICATES, recover=recover)
        for number, formula in enumerate(formulas)
        for recover in Recover
    )
    return RuleSet(rules, {})


@pytest.mark.slow
def test_every_rule_of_up_to_three_nodes_is_counted_as_stepped(tmp_path: Path) -> None:
    """Transitions and walks are those of stepping each session, for all ways of recovering."""
    sessions, rule_set = random_sessions(40, 1), rule_set_of_up_to_three_nodes()
    found = counted(sessions, rule_set, tmp_path)
    assert len(found) == len(rule_set.rules) > 1_000
    for rule, counts in zip(rule_set.rules, found, strict=True):
        machine = compile_rule(rule)
        expected = [each for session in sessions for each in slow_sequences(machine, session, False)]
        assert counted_transitions(counts) == transitions(expected), rule.id
        assert_walks(counts, expected)


def assert_walks(counts: Counted, expected: Sequence) -> None:
    """Check that the walks are these sequences, in the order of the sessions' ids."""
    for walk, sequence in zip(counted_walks(counts), expected, strict=True):
        assert (walk.places, walk.ending) == (sequence.places, sequence.ending)


@pytest.fixture
def desk(tmp_path: Path) -> RuleSet:
    """The rules of the pack."""
    file = tmp_path / "desk.yaml"
    file.write_text(PACK)
    return load_packs(file)


@pytest.mark.parametrize(("rule", "sliced"), [("stepped", False), ("sliced", True), ("both", True)])
def test_steps_and_slices_make_their_own_sequences(
    desk: RuleSet, tmp_path: Path, rule: str, sliced: bool
) -> None:
    """A slice has the events without a value from the start and its own; `steps` leaves events out."""
    sessions = random_sessions(60, 2)
    number = [each.id for each in desk.rules].index(rule)
    seen = [
        SlowSession(
            each.name,
            [event._replace(seen=rule == "sliced" or bool(event.true)) for event in each.events],
            each.closed,
        )
        for each in sessions
    ]
    counts = counted(sessions, desk, tmp_path)[number]
    machine = compile_rule(desk.rules[number])
    expected = [found for each in seen for found in slow_sequences(machine, each, sliced)]
    assert counted_transitions(counts) == transitions(expected)
    assert_walks(counts, expected)


def tables(counts: Counted) -> list:
    """Return all that counts have, as lists."""
    parts = [counts.contexts, counts.counts, counts.walks, counts.steps]
    return [
        counts.agents,
        counts.symbols.symbols,
        *(np.asarray(getattr(part, name)).tolist() for part in parts for name in part.__slots__),
    ]


def buckets(watched: WatchedRules, sessions: Sequence[SlowSession], folder: Path) -> list:
    """Return the sessions of an archive as buckets of one file each."""
    folder.mkdir()
    archive = write(folder / "events.parquet", rows(sessions))
    return list(labelled_sessions(archive, watched, folder, AuditOptions(as_of=2**62), Population()))


@pytest.mark.slow
@pytest.mark.parametrize(("hold_out", "symbols_max"), [(0.0, 512), (0.3, 512), (0.0, 12)])
def test_counts_of_parts_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold_out: float, symbols_max: int
) -> None:
    """Any division of the sessions into buckets, in any order, has the counts and walks of one bucket.

    So it has where the rarest symbols share texts.
    """
    monkeypatch.setattr("tracline.predict.counting.numbering.SYMBOLS_MAX", symbols_max)
    sessions, random = random_sessions(60, 3, "r"), Random(3)
    watched, split = watch(with_memory(tmp_path, MEMORY)), Split(hold_out, seed=7)
    whole = ChainTally(watched, split)
    for bucket in buckets(watched, sessions, tmp_path / "whole"):
        whole.add(bucket)
    expected = [tables(counts) for counts in whole.counted()]
    for attempt in range(5):
        random.shuffle(sessions)
        places = sorted(random.sample(range(1, len(sessions)), 4))
        parts = ChainTally(watched, split)
        for number, (first, last) in enumerate(zip([0, *places], [*places, 60], strict=True)):
            name = f"part-{attempt}-{number}"
            for bucket in buckets(watched, sessions[first:last], tmp_path / name):
                parts.add(bucket)
        assert [tables(counts) for counts in parts.counted()] == expected


@pytest.mark.slow
def test_threads_files_and_spilled_buckets_change_nothing(
    desk: RuleSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file and one thread, and shuffled files with small buckets and threads, have equal counts."""
    sessions = random_sessions(80, 4)
    expected = [tables(counts) for counts in counted(sessions, desk, tmp_path, Split(0.3, 1))]
    random = Random(4)
    random.shuffle(sessions)
    archive = tmp_path / "files"
    for number in range(8):
        write(archive / f"{number}.parquet", rows(sessions[number * 10 : number * 10 + 10]))
    monkeypatch.setattr("tracline.batch.prepare.spill.BUCKET_ROWS", 60)
    monkeypatch.setattr("tracline.batch.prepare.spill.HELD_BYTES", 0)
    scratch = tmp_path / "again"
    scratch.mkdir()
    options = AuditOptions(threads=3)
    tally = tallied(archive, watch(desk), Split(0.3, 1), scratch, options, Population())
    assert [tables(counts) for counts in tally.counted()] == expected


def test_hold_out_divides_the_sessions_by_their_ids(desk: RuleSet, tmp_path: Path) -> None:
    """What is learned and what is walked are the sessions that the split names, and no other."""
    sessions, split = random_sessions(80, 5), Split(0.4, seed=3)
    counts = counted(sessions, desk, tmp_path, split)[0]
    machine = compile_rule(desk.rules[0])
    folds = {each.name: split.of(each.name) for each in sessions}
    learned = [each for each in sessions if folds[each.name] >= 0]
    held = [each for each in sessions if folds[each.name] < 0]
    assert 15 < len(held) < 50
    assert {folds[each.name] for each in learned} == set(range(5))
    walked = [found for each in learned for found in slow_sequences(machine, each, False)]
    assert counted_transitions(counts) == transitions(walked)
    assert_walks(counts, [found for each in held for found in slow_sequences(machine, each, False)])


def test_an_unknown_slice_cuts_every_sequence_of_its_session(desk: RuleSet, tmp_path: Path) -> None:
    """After an event whose slice cannot be read there is no place, and no end."""
    number = [each.id for each in desk.rules].index("sliced")
    events = [
        SlowEvent("user:p", frozenset("p"), "a"),
        SlowEvent("user:q", frozenset("q"), "b"),
        SlowEvent("user:", frozenset(), UNKNOWN_VALUE),
        SlowEvent("user:q", frozenset("q"), "a"),
    ]
    counts = counted([SlowSession("s", events)], desk, tmp_path)[number]
    assert [[place[0] for place in walk.places] for walk in counted_walks(counts)] == [
        ["start", "user:p+own"],
        ["start", "user:q+own"],
    ]
    assert counts.walks.endings.tolist() == [CUT, CUT]
    expected = slow_sequences(compile_rule(desk.rules[number]), SlowSession("s", events), True)
    assert counted_transitions(counts) == transitions(expected)


MEMORY = """
predict:
  propositions: [r]
  memory: {met: once q, decided: not q since p}
"""


def with_memory(folder: Path, text: str) -> RuleSet:
    """Return the rules of the pack with a third proposition and this section."""
    file = folder / "memory.yaml"
    file.write_text(PACK.replace("rules:", '  r: text contains "r"\nrules:') + text)
    return load_packs(file)


def test_memory_formulas_divide_the_contexts_by_their_values(tmp_path: Path) -> None:
    """The memory of a place has the formulas that are true after its event, for every kind of rule."""
    rule_set = with_memory(tmp_path, MEMORY)
    sessions = random_sessions(40, 6)
    for counts in counted(sessions, rule_set, tmp_path):
        is_sliced = counts.rule in ("sliced", "both")
        walks = counts.walks
        symbols = (*counts.symbols.symbols, "start")
        for first, last in zip(walks.bounds[:-1], walks.bounds[1:], strict=True):
            after_q = decided = False
            for context in walks.contexts[first:last].tolist():
                true = symbols[counts.contexts.symbols[context]].partition(":")[2].partition("+")[0]
                after_q |= "q" in true
                decided = "p" in true or (decided and "q" not in true)
                memory = counts.steps.memory[counts.contexts.states[context]]
                expected = ["met"] * after_q + ["decided"] * decided
                assert [name for name in memory.split(",") if name not in ("", "+own")] == expected
                assert is_sliced or "+own" not in memory


def test_a_memory_formula_that_the_state_decides_changes_nothing(tmp_path: Path) -> None:
    """`once p` is what the machine of the rule remembers, so contexts, counts and risks stay."""
    sessions = random_sessions(40, 7)
    pack = PACK[: PACK.index("  - {id: plain")] + "  - {id: r, formula: 'always (q -> once p)'}\n"
    found: list[Counted] = []
    for name, text in (("with", "predict: {memory: {seen: once p}}\n"), ("without", "")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "desk.yaml").write_text(pack + text)
        found += counted(sessions, load_packs(folder / "desk.yaml"), folder)
    assert found[0].counts.counts.tolist() == found[1].counts.counts.tolist()
    assert len(found[0].steps.states) == len(found[1].steps.states)
    assert set(found[0].steps.memory) == {"", "seen"}
    risks = [rule_risks(each, RiskOptions()) for each in found]
    values = [np.concatenate([each.table.values, each.other_risks]) for each in risks]
    assert values[0].tolist() == values[1].tolist()
    assert (values[0] > 0.01).any()


def test_propositions_of_the_section_are_part_of_symbols(tmp_path: Path) -> None:
    """A proposition that no rule uses distinguishes events only where the section names it."""
    archive = [SlowSession("s", [SlowEvent("", frozenset("pr"))])]
    texts: list[tuple[str, ...]] = []
    for name, text in (("with", MEMORY), ("without", "")):
        folder = tmp_path / name
        folder.mkdir()
        texts.append(counted(archive, with_memory(folder, text), folder)[0].symbols.symbols)
    assert texts == [("user:p,r",), ("user:p",)]


def test_what_is_unknown_leads_to_sets_of_states_and_cuts_where_runs_differ(
    desk: RuleSet, tmp_path: Path
) -> None:
    """An uncaptured text may have either word; the sequence is cut where only some completions violate."""
    rows_of_archive = session("s", user("p"), user(None), user(""), user("p"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    archive = write(tmp_path / "events.parquet", rows_of_archive)
    tally = tallied(archive, watch(desk), EVERYTHING, scratch, AuditOptions(), Population())
    plain, stepped, *_ = tally.counted()
    # always (p -> eventually q): the unknown event may have answered the first p, or not; the last one asks.
    machine = compile_rule(desk.rules[0])
    states = len(machine.next)
    numbers = [int(plain.steps.states[plain.contexts.states[place]]) for place in plain.walks.contexts]
    assert [number >= states for number in numbers] == [False, False, True, True, False]
    assert plain.walks.endings.tolist() == [CLOSED_UNMET]
    # always (p -> next q): at the unknown event only some completions have the q that the first p needs.
    assert stepped.walks.endings.tolist() == [CUT]
    assert len(stepped.walks.contexts) == 2
    assert counted_transitions(stepped)["user:p", int(stepped.steps.states[1]), "user:p?,q?"] == 1


@pytest.mark.slow
def test_events_over_the_limit_and_open_sessions_cut(desk: RuleSet, tmp_path: Path) -> None:
    """No place follows the event number `EVENTS_MAX`; the rule has no end there."""
    events = [SlowEvent("user:p", frozenset("p"))] * (EVENTS_MAX + 2)
    counts = counted([SlowSession("long", events)], desk, tmp_path)[0]
    assert len(counts.walks.contexts) == EVENTS_MAX + 1
    assert counts.walks.endings.tolist() == [CUT]
    assert "end" not in {following for _, _, following in counted_transitions(counts)}


def test_the_texts_of_symbols_give_back_the_step_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules and texts suffice for the steps of a chain, rare and own symbols and memory included."""
    rule_set, sessions = with_memory(tmp_path, MEMORY), random_sessions(60, 8, "r")
    watched = watch(rule_set)
    for limit in (512, 12):
        monkeypatch.setattr("tracline.predict.counting.numbering.SYMBOLS_MAX", limit)
        folder = tmp_path / str(limit)
        folder.mkdir()
        for rule, counts in enumerate(counted(sessions, rule_set, folder)):
            assert len(counts.symbols.symbols) <= limit
            table = watched.step_table(rule, counts.symbols.symbols)
            assert table.next.tolist() == counts.steps.next.tolist()
            assert table.verdicts.tolist() == counts.steps.verdicts.tolist()
            assert (table.memory, table.residuals) == (counts.steps.memory, counts.steps.residuals)


def test_rules_of_another_chain_cannot_read_its_symbols(desk: RuleSet) -> None:
    """A symbol with a proposition that the pack lacks is an error, and so is one that the rule leaves out."""
    watched = watch(desk)
    for rule, symbol in ((0, "user:p,z"), (1, "user:")):
        with pytest.raises(PredictError, match="TRL803"):
            watched.step_table(rule, [symbol])


def test_rare_symbols_step_as_the_symbols_that_they_stand_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the limit the least used symbols become one for each letter, and no verdict changes."""
    rule_set, sessions = with_memory(tmp_path, MEMORY), random_sessions(60, 9, "r")
    every = counted(sessions, rule_set, tmp_path)
    monkeypatch.setattr("tracline.predict.counting.numbering.SYMBOLS_MAX", 12)
    folder = tmp_path / "again"
    folder.mkdir()
    fewer = counted(sessions, rule_set, folder)
    assert any(text.startswith("rare:") for counts in fewer for text in counts.symbols.symbols)
    for whole, counts in zip(every, fewer, strict=True):
        assert counts.walks.violated.tolist() == whole.walks.violated.tolist()
        assert counts.walks.endings.tolist() == whole.walks.endings.tolist()
        states = [each.steps.states[each.contexts.states[each.walks.contexts]] for each in (whole, counts)]
        assert states[0].tolist() == states[1].tolist()


def test_limits_of_contexts_symbols_and_rows_are_errors(
    desk: RuleSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond each limit the rule is named with TRL810, and nothing is cut silently."""
    sessions = random_sessions(30, 10)
    for number, limit in enumerate(("numbering.CONTEXTS_MAX", "numbering.SYMBOLS_MAX", "step_rows.ROWS_MAX")):
        folder = tmp_path / str(number)
        folder.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(f"tracline.predict.counting.{limit}", 1)
            with pytest.raises(PredictError, match="desk/plain: TRL810"):
                counted(sessions, desk, folder)


def test_agents_number_the_contexts_of_their_sessions(desk: RuleSet, tmp_path: Path) -> None:
    """A session belongs to the first agent that an event of it names, and to "" where none does."""
    named = [session("a", user("p"), user("q", agent="zed")), session("b", user("p", agent="abe"))]
    archive = write(
        tmp_path / "e.parquet", [row for rows in [*named, session("c", user("q"))] for row in rows]
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    tally = tallied(archive, watch(desk), EVERYTHING, scratch, AuditOptions(), Population(), by="agent")
    counts = next(tally.counted())
    assert counts.agents == ("", "abe", "zed")
    first = counts.contexts.agents[counts.walks.contexts[counts.walks.bounds[:-1]]]
    assert first.tolist() == [2, 1, 0]


@pytest.mark.slow
def test_an_archive_has_the_rare_symbols_of_its_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is rare in it: so none of the sessions that a chain was learned from has an unseen symbol."""
    rule_set, sessions = with_memory(tmp_path, MEMORY), random_sessions(60, 9, "r")
    monkeypatch.setattr("tracline.predict.counting.numbering.SYMBOLS_MAX", 12)
    chain = counted(sessions, rule_set, tmp_path)
    known = [frozenset(counts.symbols.symbols) for counts in chain]
    assert any(text.startswith("rare:") for symbols in known for text in symbols)
    for limit in (12, 512):
        monkeypatch.setattr("tracline.predict.counting.numbering.SYMBOLS_MAX", limit)
        for number, count in ((0, 60), (1, 5)):
            folder = tmp_path / f"{limit}-{number}"
            folder.mkdir()
            archive = tallied(
                write(folder / "e.parquet", rows(sessions[:count])),
                *(watch(rule_set), EVERYTHING, folder, AuditOptions(), Population()),
            )
            for first, second in zip(chain, archive.counted(known), strict=True):
                assert over_archive(first, second).unseen == 0
                assert set(second.symbols.symbols) <= set(first.symbols.symbols)
