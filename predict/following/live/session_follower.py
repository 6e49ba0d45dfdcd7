"""The follower of all rules of a chain: the crossings at new events of sessions, from their carried state.

However the events of a session are cut into batches, and however often its state is stored between them, all
batches together have the crossings of its whole occurrences.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
import orjson

from ....rules.engine import kernel
from ....rules.engine.kernel_loop import NO_SLICE, numbered
from ....rules.engine.letters import LabelWords, letters
from ....rules.labels.few import REMEMBERED_MAX
from ....rules.labels.labeler import Labeler
from ....rules.labels.labelled_rows import LabelledRows
from ....rules.model.arrays import I32, I64, U64
from ....schemas.event import Kind
from ...counting.labelled_sessions import DistinctEvents
from ...counting.sequences import SymbolNumbers
from ...drift.bet_loop import bet_on_ends
from ...drift.bet_sums import BatchBets
from ..follow_loop import UP, Crossings
from ..followed_chain import FollowedChain
from ..followed_risks import ContextRisk
from ..follower import RuleFollower, follow
from ..joined_tables import JoinedTables
from .batch_runs import BatchRuns
from .batch_slots import BatchSlots, batch_slots
from .followed_session import ABOVE, BETWEEN, CUT, NO_SYMBOL, STOPPED, FollowedSession
from .run_texts import RunTexts
from .slice_runs import StoredRun
from .sliced_rules import SlicedBatch, SlicedRules

_KINDS = tuple(kind.value for kind in Kind)


class EventCrossing(NamedTuple):
    """A crossing of a rule's threshold at a row of a batch; `value` is that of the slice.

    `is_first` is true where the rule's risk rises to its threshold for the first time in the occurrence at
    an event that is no history.
    """

    row: int
    rule: int
    value: str | None
    context: ContextRisk | None
    is_up: bool
    is_first: bool


class CurrentRisk(NamedTuple):
    """The risk of a rule after the last event of a session or of a slice; None where there is none."""

    pack: str
    rule: str
    value: str | None
    context: ContextRisk | None
    within: int | None
    threshold: float
    is_above: bool


@dataclass(frozen=True, slots=True)
class FollowedBatch:
    """The crossings of a batch in the order of rows, rules and values, and the states after it by session.

    `occurrences` are those that are followed. A session without an open one has no state. `unseen` are the
    rows of events with a symbol that the chain lacks. `bets` are those of the rules, and `agents` the agents
    named before their rows, empty without one.
    """

    crossings: list[EventCrossing] = field(default_factory=list[EventCrossing])
    occurrences: frozenset[tuple[str, int]] = frozenset()
    states: Mapping[str, FollowedSession] = field(default_factory=dict[str, FollowedSession])
    unseen: tuple[int, ...] = ()
    bets: BatchBets | None = None
    agents: tuple[str, ...] = ()


class SessionFollower:
    """The rules of a chain over batches of labelled events; it holds nothing of a session.

    `rules` are the followed ones, by number, and `names` their packs and ids. `tables` identifies them with
    their machines: no state of other tables continues here.
    """

    def __init__(self, chain: FollowedChain) -> None:
        self.chain, self.rules = chain, tuple(sorted(chain.risks))
        self.tables = _tables_digest(chain, self.rules)
        risks = [chain.risks[rule] for rule in self.rules]
        self.names = tuple((each.pack, each.rule) for each in risks)
        self._begin()

    def _begin(self) -> None:
        """Begin with no distinct events."""
        watched = self.chain.watched
        symbols = {rule.pack: SymbolNumbers() for rule in watched.rules}
        followers = [
            RuleFollower(watched, rule, self.chain.risks[rule], symbols[watched.rules[rule].pack])
            for rule in self.rules
        ]
        self._sliced = SlicedRules([follower.key for follower in followers])
        self._tables = JoinedTables(followers, self._sliced.keys)
        self._texts = RunTexts(self._tables, self._sliced.places)
        self._codes: dict[bytes, int] = {}
        self._unseen: list[bool] = []

    @property
    def labeler(self) -> Labeler:
        """Return the labeler of the chain's rules."""
        return self.chain.watched.compiled.labeler

    def continues(self, state: FollowedSession | None) -> bool:
        """Return whether a session is followed on from a state."""
        return state is not None and state.tables == self.tables

    def follow(
        self, labelled: LabelledRows, before: Mapping[str, FollowedSession], midway: Mapping[str, int]
    ) -> FollowedBatch:
        """Follow new events of sessions from the states before, each of which `continues` here.

        `labelled` has the labels of the chain's rules, and the rows of each session in judged order. `midway`
        has the occurrences that began without this chain: they are not followed.
        """
        slots = batch_slots(labelled, before, midway)
        if not slots.places:
            return FollowedBatch()
        if max(len(self._codes), len(self._tables.texts)) > REMEMBERED_MAX:
            self._begin()
        self._texts.forget()
        codes = self._numbered(labelled, slots.rows)
        over = labelled.seqs[slots.rows] > kernel.EVENTS_MAX
        slices = self._sliced.of_batch(labelled, slots)
        runs = BatchRuns(slots, len(self.rules), slices, self._texts)
        tables, bet_tables = self._tables.arrays(), self._tables.bets
        runs.link(tables)
        bets = bet_tables.begin(len(slots.rows) + len(slots.ended))
        spans, events = (slots.bounds[:-1], slots.bounds[1:]), (codes, over, slices.event_slices)
        crossed = follow(tables, spans, events, runs.memory, bets)
        ended = np.ascontiguousarray(slots.ended[:, 0])
        bet_on_ends(ended, len(slots.rows), tables, runs.memory, bets)
        crossings = self._crossings(crossed, slots, labelled.columns.column("history"), runs, slices)
        unseen: list[int] = slots.rows[np.array(self._unseen, dtype=np.bool_)[codes]].tolist()
        agents, last = _agents(slots, labelled.columns.column("agent"))
        states = dict(runs.states(self.tables, last))
        rows = np.concatenate([slots.rows, slots.ended[:, 1]])
        batch_bets = BatchBets(rows, bet_tables, bets)
        return FollowedBatch(crossings, frozenset(slots.places), states, tuple(unseen), batch_bets, agents)

    def risks(self, state: FollowedSession) -> Iterator[CurrentRisk]:
        """Yield the risks of a state's rules now: for a rule with slices, that of each slice."""
        rows, slices = state.rows.split(BETWEEN), self._sliced.runs(state)
        for place, tables in enumerate(self._tables.rules):
            flags, last = state.flags[place], state.lasts[place]
            symbol = None if last == NO_SYMBOL else state.symbols[last]
            key, column = self._sliced.column(place) or (None, 0)
            of_slices = [] if key is None else slices.get(key, [])
            runs = [(value, run) for value, of_rules in of_slices if (run := of_rules[column]) is not None]
            for value, run in runs or [(None, StoredRun(rows[place], symbol, flags))]:
                context = None
                if not (flags & CUT or run.flags & STOPPED or run.symbol is None):
                    context = tables.context(run.symbol, run.row)
                named, is_above = (tables.risks.pack, tables.risks.rule, value), bool(run.flags & ABOVE)
                yield CurrentRisk(*named, context, tables.risks.within, tables.risks.threshold, is_above)

    def _numbered(self, labelled: LabelledRows, rows: I64) -> I32:
        """Return the code of each of these rows; the tables have all of them from now on."""
        compiled = self.chain.watched.compiled
        count = compiled.labeler.words
        # The last column is the kind.
        bits: U64 = np.empty((len(rows), 2 * count + 1), dtype=np.uint64)
        bits[:, :-1] = labelled.labels.words[rows]
        bits[:, -1] = labelled.kinds[rows]
        numbers, firsts = numbered(bits)
        keys = [bits[place].tobytes() for place in firsts.tolist()]
        new = {key: place for key, place in zip(keys, firsts.tolist(), strict=True) if key not in self._codes}
        if new:
            places = list(new.values())
            words = LabelWords(bits[places, :count], bits[places, count:-1])
            rules = compiled.rules, compiled.machines, compiled.propositions
            table = letters(compiled.program, *rules, words)
            kinds: list[int] = bits[places, -1].tolist()
            named = tuple(_KINDS[kind] for kind in kinds)
            distinct = DistinctEvents(words, table, np.arange(len(new), dtype=np.int32), named)
            self._unseen += self._tables.add(distinct)
            self._codes |= {key: len(self._codes) + number for number, key in enumerate(new)}
        return np.array([self._codes[key] for key in keys], dtype=np.int32)[numbers]

    def _crossings(
        self,
        crossed: Crossings,
        slots: BatchSlots,
        history: Sequence[bool],
        runs: BatchRuns,
        slices: SlicedBatch,
    ) -> list[EventCrossing]:
        """Return the crossings in order; the warnings of `runs` change."""
        found: list[tuple[int, int, str | None, int, int, int]] = []
        rows = np.stack([column.astype(np.int32) for column in crossed], axis=1).tolist()
        for event, slot, place, member, context, level in cast("list[list[int]]", rows):
            key = self._sliced.keys[place]
            values = [None] if member == NO_SLICE or key is None else slices.values(key, member)
            found += [(int(slots.rows[event]), place, value, slot, context, level) for value in values]
        found.sort(key=lambda each: (*each[:2], each[2] or ""))
        crossings: list[EventCrossing] = []
        for row, place, value, slot, context, level in found:
            is_up = level == UP
            is_first = is_up and not history[row] and not runs.warned[slot, place]
            runs.warned[slot, place] |= is_first
            risk = self._tables.context(place, context)
            crossings.append(EventCrossing(row, self.rules[place], value, risk, is_up, is_first))
        return crossings


def _agents(slots: BatchSlots, agents: Sequence[str | None]) -> tuple[tuple[str, ...], list[str | None]]:
    """Return the agent named before each row and each end, empty without one, and the last one by slot."""
    last: list[str | None] = [None if state is None else state.agent for state in slots.states]
    before: list[str] = []
    rows: list[int] = slots.rows.tolist()
    of_rows: list[int] = slots.slots.tolist()
    for row, slot in zip(rows, of_rows, strict=True):
        before.append(last[slot] or "")
        last[slot] = agents[row] or last[slot]
    ended: list[int] = slots.ended[:, 0].tolist()
    return (*before, *(last[slot] or "" for slot in ended)), last


def _tables_digest(chain: FollowedChain, rules: Sequence[int]) -> str:
    """Return 16 hex digits that identify the chain, and the followed rules with their machines."""
    watched = chain.watched
    parts = [
        chain.digest,
        *(
            [
                watched.rules[rule].pack,
                watched.rules[rule].id,
                watched.fingerprint(rule),
            ]
            for rule in rules
        ),
    ]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]
