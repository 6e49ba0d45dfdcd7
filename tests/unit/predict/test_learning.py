"""Learning of a chain from an archive: its risks and evidence, and archives that teach nothing."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from tracline.batch.prediction.source_archive import source_archive
from tracline.predict import learn
from tracline.predict.chain.steps import HELD_CLOSING, PENDING_STEP
from tracline.predict.counting.split import Split
from tracline.predict.error import PredictError
from tracline.predict.learning.learn import ChainLearned, Learning
from tracline.predict.learning.learn_rule import RuleLearned, fit_warnings
from tracline.predict.learning.sample_sizes import sample_sizes
from tracline.rules.packs.load import pack_text

from ...support.chains.counts import counted_of, steps_of
from ...support.event_rows import session, user, write

PACK = """
pack: desk
version: 1
propositions: {p: text contains "p", q: text contains "q", z: text contains "z"}
rules:
  - {id: answered, formula: always (p -> eventually q)}
  - {id: never-p, formula: always not p}
  - {id: not-z, formula: always not z}
  - {id: no-first, formula: 'not p', recover: none}
"""


EVERYTHING = Split(0.0)


def learned(folder: Path, sessions: list[list[dict]], split: Split = EVERYTHING) -> ChainLearned:
    """Return the chain of sessions, which are rows of events."""
    file = write(folder / "events.parquet", [row for rows in sessions for row in rows])
    with source_archive(str(file)) as archive:
        return learn(archive, pack_text(PACK), Learning(split=split))


def words(count: int, texts: str, *, end: bool = True) -> list[list[dict]]:
    """Return equal sessions with a message for each letter."""
    return [session(f"s{number}", *map(user, texts), end=end) for number in range(count)]


def rule(chain: ChainLearned, name: str) -> RuleLearned:
    """Return the rule of that id."""
    return next(each for each in chain.rules if each.counted.rule == name)


@pytest.mark.parametrize(
    ("sessions", "closed"),
    [([], 0), (words(19, "pq"), 19), (words(40, "pq", end=False), 0), (words(1, "pq" * 500), 1)],
)
def test_too_few_closed_sessions_teach_nothing(
    tmp_path: Path, sessions: list[list[dict]], closed: int
) -> None:
    """19 sessions, one long one, only open ones and an empty archive are TRL806, with their number."""
    rows = sessions or [[{**session("none", user(""))[0], "kind": "end"}]]
    with pytest.raises(PredictError, match=f"TRL806 {closed} of "):
        learned(tmp_path, rows)


def test_a_rule_violated_in_every_session_and_one_that_never_applies(tmp_path: Path) -> None:
    """The risks come near 1 and 0, and the intervals of contexts contain the shares of sessions."""
    chain = learned(tmp_path, words(200, "ap"))
    assert (chain.source.sessions, chain.source.learned, chain.source.events) == (200, 200, 400)
    assert (chain.source.files, len(chain.source.digest)) == (1, 64)
    for name, likely, violating in (("never-p", True, 200), ("not-z", False, 0)):
        found = rule(chain, name)
        start = int(np.flatnonzero(found.counted.contexts.symbols == found.counted.symbols.boundary)[0])
        within_5, ever = found.risks.table.values[start, 1:].tolist()
        assert (within_5 > 0.95, within_5 < 0.05) == (likely, not likely)
        assert within_5 <= ever + 1e-9
        assert found.intervals.violating[start].tolist()[1:] == [violating, violating]
        low, high = found.intervals.low[start, 1], found.intervals.high[start, 1]
        assert low <= within_5 <= high
        assert (found.violating, found.sessions) == (violating, 200)


def test_a_rule_that_has_stopped_has_no_risk(tmp_path: Path) -> None:
    """After the verdict of a rule with `recover: none` the risk is none, and before it is one."""
    found = rule(learned(tmp_path, words(100, "pa")), "no-first")
    stopped = found.counted.steps.finals[found.counted.contexts.states]
    assert stopped.any()
    assert np.isnan(found.risks.table.values[stopped]).all()
    assert not np.isnan(found.risks.table.values[~stopped]).any()


def test_held_out_sessions_are_no_part_of_the_counts(tmp_path: Path) -> None:
    """The intervals rest on the sessions held out, and what was learned on the others."""
    chain = learned(tmp_path, words(400, "pq"), Split(0.5, seed=2))
    found = rule(chain, "answered")
    start = int(np.flatnonzero(found.counted.contexts.symbols == found.counted.symbols.boundary)[0])
    from_start = found.counted.counts.contexts == start
    assert found.counted.counts.counts[from_start].sum() == chain.source.learned < 250
    assert found.intervals.sessions[start, 0] == 400 - chain.source.learned


@pytest.mark.slow
def test_the_sample_sizes_claim_only_what_is_sufficient(tmp_path: Path) -> None:
    """Few sessions do not meet H*, and a context that was never left is not met; many of one kind do."""
    random = Random(1)
    few = [session(f"s{number}", *map(user, random.choices("paq", k=5))) for number in range(40)]
    sizes = rule(learned(tmp_path, few), "answered").sizes
    assert not sizes.is_sufficient
    assert np.isnan(sizes.factor)
    many = tmp_path / "many"
    many.mkdir()
    counted = rule(learned(many, words(1_000, "pq")), "answered").counted
    wide = sample_sizes(counted, eps=0.45, delta=0.5)
    assert wide.local_sufficient == len(wide.left)
    assert wide.is_sufficient == bool((wide.left >= (1.1 * wide.factor) ** 2 * wide.local).all())


def test_the_sample_sizes_claim_nothing_for_a_context_that_only_an_open_session_came_to() -> None:
    """It was never left, so the chain cannot claim the guarantee; learning does not fail of it."""
    steps = steps_of([[0, 0]], [[PENDING_STEP] * 2], [HELD_CLOSING])
    transitions = {(2, 0, 0): 1000, (0, 0, 0): 1000, (0, 0, 2): 1000}
    known = sample_sizes(counted_of(steps, 2, transitions), eps=0.45, delta=0.5)
    assert known.local_sufficient == 2
    assert not np.isnan(known.factor)
    sizes = sample_sizes(counted_of(steps, 2, transitions | {(0, 0, 1): 1}), eps=0.45, delta=0.5)
    assert np.isnan(sizes.factor)
    assert not sizes.is_sufficient


@pytest.mark.slow
def test_a_chain_that_does_not_fit_is_warned_of(tmp_path: Path) -> None:
    """No chain over single symbols knows at the end of `qaaap` and `zaaaa` how they began: TRL811."""
    sessions = [session(f"s{number}", *map(user, ("qaaap", "zaaaa")[number % 2])) for number in range(600)]
    found = fit_warnings(rule(learned(tmp_path, sessions), "never-p"))
    assert found
    assert all(text.startswith("desk/never-p: TRL811 the chain does not fit within ") for text in found)
    assert fit_warnings(rule(learned_again(tmp_path, words(100, "pq")), "answered")) == []


def learned_again(folder: Path, sessions: list[list[dict]]) -> ChainLearned:
    """Return the chain of other sessions."""
    (folder / "again").mkdir()
    return learned(folder / "again", sessions)
