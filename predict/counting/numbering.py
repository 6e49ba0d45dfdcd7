"""Counts with numbers of their named become counts whose numbers depend on nothing but the sessions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...rules.engine.kernel_loop import numbered
from ...rules.model.arrays import I32, I64, U64
from ..chain.contexts import Contexts, RuleCounts, SymbolSet
from ..chain.learned import Counted
from ..chain.walks import Walks
from ..error import PredictError
from .grouped import packed
from .sequence_loop import END_SYMBOL, NO_SYMBOL
from .step_rows import RowKey, StepRows, SymbolLetters
from .symbols import RARE, SYMBOLS_MAX, of_slice
from .walk_parts import WalkPart, joined
from .watched_rules import WatchedRules

CONTEXTS_MAX = 200_000
"""Contexts of one rule."""

_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class RuleTally:
    """The tally of one rule: symbols by number with their letters and uses, rows, and transitions by key."""

    texts: Sequence[str]
    letters: Mapping[int, SymbolLetters]
    uses: Mapping[int, int]
    rows: Sequence[RowKey]
    keys: U64
    counts: I64


def counted_rule(
    watched: WatchedRules,
    rule: int,
    tally: RuleTally,
    parts: Iterable[WalkPart],
    names: tuple[str, ...],
    agents: I32,
    rank: I64,
    known: Collection[str] = (),
) -> Counted:
    """Return the counts of a rule; `agents` are the places of the tally's agents in `names`.

    `known` are the symbols of a chain: a symbol that it has among its rare ones is that of these.
    Raises PredictError where the rule has too many contexts, or symbols that no rarity can join.
    """
    subject = watched.rules[rule]
    where = f"{subject.pack}/{subject.id}"
    texts, letters = _texts(tally, where, known)
    symbols = tuple(sorted(letters))
    number = {text: place for place, text in enumerate(symbols)}
    steps: StepRows = watched.steps(rule)
    table = steps.table([letters[text] for text in symbols])
    place = {key: row for row, key in enumerate(steps.rows)}
    rows = np.array([place.get(key, -1) for key in tally.rows], dtype=np.int32)
    codes = _codes(texts, number)
    walks = joined(parts, rank)
    keys = _Keys.of(tally.keys)
    walked = (
        np.repeat(agents[walks.agents], walks.lengths) if len(walks.agents) else np.empty(0, np.int32),
        codes[walks.symbols],
        rows[walks.rows],
    )
    learned = agents[keys.agents] if len(keys.agents) else keys.agents, codes[keys.symbols], rows[keys.rows]
    contexts, numbers = _contexts([np.concatenate(pair) for pair in zip(learned, walked, strict=True)], where)
    bounds = np.concatenate([[0], np.cumsum(walks.lengths)]).astype(np.int64)
    return Counted(
        pack=subject.pack,
        rule=subject.id,
        rule_digest=watched.compiled.digests[rule],
        agents=names,
        symbols=SymbolSet(symbols),
        steps=table,
        contexts=contexts,
        counts=_counts(keys.folds, numbers[: len(tally.keys)], codes[keys.nexts], tally.counts),
        walks=Walks(numbers[len(tally.keys) :], walks.violated, bounds, walks.sessions, walks.endings),
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """The columns of the keys of a tally."""

    agents: I32
    folds: I32
    rows: I32
    symbols: I32
    nexts: I32

    @staticmethod
    def of(keys: U64) -> _Keys:
        parts = [
            (keys[:, column] >> np.uint64(shift) & _LOW).astype(np.uint32).view(np.int32)
            for column, shift in ((0, 32), (0, 0), (1, 32), (1, 0))
        ]
        return _Keys(parts[0] >> 3, parts[0] & 7, parts[1], parts[2], parts[3])


def _texts(
    tally: RuleTally, where: str, known: Collection[str]
) -> tuple[dict[int, str], dict[str, SymbolLetters]]:
    """Return the text of each used symbol, and the letters of each text; the rarest share texts.

    Which are rare depends on their uses and then on their texts, after those that are `known`.
    """
    named = {code: of_slice(tally.texts[code // 2], bool(code % 2)) for code in tally.uses}
    letters = {code: tally.letters[code // 2]._replace(is_own=bool(code % 2)) for code in tally.uses}
    rare = {code: of_slice(RARE + letters[code].text, bool(code % 2)) for code in named}
    for code, text in named.items():
        if text not in known and rare[code] in known:
            named[code] = rare[code]
    if len(set(named.values())) <= SYMBOLS_MAX:
        return named, {text: letters[code] for code, text in named.items()}
    order = sorted(named, key=lambda code: (named[code] not in known, -tally.uses[code], named[code]))
    whole = SYMBOLS_MAX
    while whole >= 0 and whole + len({rare[code] for code in order[whole:]}) > SYMBOLS_MAX:
        whole -= 1
    if whole < 0:
        what = f"events differ for the rule in more than {SYMBOLS_MAX} ways"
        raise PredictError("TRL810", where, what, "use fewer memory formulas, or simpler ones")
    texts = {code: named[code] if place < whole else rare[code] for place, code in enumerate(order)}
    return texts, {text: letters[code] for code, text in texts.items()}


def _codes(texts: Mapping[int, str], number: Mapping[str, int]) -> I32:
    """Return the number of each symbol of the tally; the last two are those of `end` and `start`."""
    boundary = len(number)
    codes = np.full(max(texts, default=0) + 3, boundary, dtype=np.int32)
    for code, text in texts.items():
        codes[code] = number[text]
    assert {END_SYMBOL, NO_SYMBOL} == {-2, -1}
    return codes


def _contexts(columns: Sequence[I32], where: str) -> tuple[Contexts, I32]:
    """Return the distinct contexts in order, and the number of each of these."""
    agents, symbols, rows = columns
    words = np.stack([packed(agents, symbols), packed(np.zeros_like(rows), rows)], axis=1)
    found, firsts = numbered(words)
    distinct = [column[firsts] for column in columns]
    order = np.lexsort(distinct[::-1])
    numbers = np.empty(len(order), dtype=np.int32)
    numbers[order] = np.arange(len(order))
    if len(order) > CONTEXTS_MAX:
        what = f"{len(order):,} contexts, more than {CONTEXTS_MAX:,}"
        raise PredictError("TRL810", where, what, "use fewer memory formulas, or learn by agent no more")
    return Contexts(*(column[order].astype(np.int32) for column in distinct)), numbers[found]


def _counts(folds: I32, contexts: I32, nexts: I32, counts: I64) -> RuleCounts:
    """Return the counts in order, each transition of a fold once."""
    order = np.lexsort((nexts, contexts, folds))
    keys = [column[order] for column in (folds, contexts, nexts)]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in keys])
    starts = np.flatnonzero(new)
    total = np.add.reduceat(counts[order], starts) if len(starts) else counts
    folds, contexts, nexts = (column[new].astype(np.int32) for column in keys)
    return RuleCounts(folds, contexts, nexts, total.astype(np.int64))
