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
from ....rules.labels.labelled_rows import LabelledRows
from ....rules.model.arrays import I32, I64, U64, Mask
from ....schemas.event import Kind
from ...counting.labelled_sessions import DistinctEvents
from ...counting.sequences import SymbolNumbers
from ...drift.bet_loop import bet_on_ends
from ...drift.event_bets import BatchBets, EventBets, bet_values, no_bets
from ..follow_loop import UP, Crossings
from ..followed_chain import FollowedChain
from ..followed_risks import ContextRisk
from ..follower import RuleFollower, follow
from ..rule_tables import RuleTables
from .batch_slots import BatchSlots, CarriedRuns, batch_slots
from .followed_session import (
    ABOVE,
    BETWEEN,
    CUT,
    NO_SYMBOL,
    STOPPED,
    WARNED,
    FollowedSession,
)
from .key_slices import KeySlices
from .rule_runs import RuleRuns, slot_flags
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


class FoundCrossings(NamedTuple):
    """The crossings of the rule at a place, whose slices are members of `slices`."""

    place: int
    crossings: Crossings
    slices: KeySlices | None


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
        self._sliced = SlicedRules([follower.key for follower in self._followers])

    def _begin(self) -> None:
        """Begin with no distinct events."""
        watched = self.chain.watched
        symbols = {rule.pack: SymbolNumbers() for rule in watched.rules}
        self._followers = [
            RuleFollower(watched, rule, self.chain.risks[rule], symbols[watched.rules[rule].pack])
            for rule in self.rules
        ]
        self._tables: list[RuleTables] = [follower.tables() for follower in self._followers]
        self._values = [bet_values(follower.risks.next_highs) for follower in self._followers]
        self._codes: dict[bytes, int] = {}
        self._unseen: list[bool] = []

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
        if len(self._codes) > REMEMBERED_MAX:
            self._begin()
        codes = self._numbered(labelled, slots.rows)
        over = labelled.seqs[slots.rows] > kernel.EVENTS_MAX
        spans, slices = (slots.bounds[:-1], slots.bounds[1:]), self._sliced.of_batch(labelled, slots)
        carried = CarriedRuns(slots.states, len(self.rules))
        all_runs: list[RuleRuns] = []
        found: list[FoundCrossings] = []
        bets = no_bets(len(self.rules), np.concatenate([slots.rows, slots.ended[:, 1]]))
        for place, (follower, tables) in enumerate(zip(self._followers, self._tables, strict=True)):
            runs = RuleRuns(place, slots, carried, tables, slices.of_rule(place))
            events = codes, over, runs.event_slices
            threshold = follower.risks.threshold
            of_rule = EventBets(self._values[place], bets.gains[place], bets.counts[place])
            crossed = follow(tables.arrays(), threshold, spans, events, runs.memory, of_rule)
            if len(slots.ended):
                bet_on_ends(slots.ended[:, 0], len(slots.rows), tables.closings, runs.memory, of_rule)
            if len(crossed.events):
                found.append(FoundCrossings(place, crossed, slices.of_rule(place).slices))
            all_runs.append(runs)
        warned = np.zeros((len(slots.places), len(self.rules)), dtype=np.bool_)
        warned[carried.slots] = carried.flags & WARNED != 0
        crossings = self._crossings(found, slots, labelled.columns.column("history"), warned)
        unseen: list[int] = slots.rows[np.array(self._unseen, dtype=np.bool_)[codes]].tolist()
        agents, last = _agents(slots, labelled.columns.column("agent"))
        states = self._states(slots, all_runs, slices, warned, last)
        return FollowedBatch(crossings, frozenset(slots.places), states, tuple(unseen), bets, agents)

    def risks(self, state: FollowedSession) -> Iterator[CurrentRisk]:
        """Yield the risks of a state's rules now: for a rule with slices, that of each slice."""
        rows, slices = state.rows.split(BETWEEN), self._sliced.runs(state)
        for place, tables in enumerate(self._tables):
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
            self._add(DistinctEvents(words, table, np.arange(len(new), dtype=np.int32), named))
            self._codes |= {key: len(self._codes) + number for number, key in enumerate(new)}
        return np.array([self._codes[key] for key in keys], dtype=np.int32)[numbers]

    def _add(self, events: DistinctEvents) -> None:
        unseen = [False] * len(events.kinds)
        for tables in self._tables:
            unseen = [before or lacks for before, lacks in zip(unseen, tables.add(events), strict=True)]
        self._unseen += unseen

    def _crossings(
        self,
        found: Sequence[FoundCrossings],
        slots: BatchSlots,
        history: Sequence[bool],
        warned: Mask,
    ) -> list[EventCrossing]:
        """Return the crossings in order; `warned` is by slot and place of a rule, and changes."""
        rows: list[int] = slots.rows.tolist()
        crossed: list[tuple[int, int, str | None, int, int, int]] = []
        for place, each, slices in found:
            for columns in np.stack([column.astype(np.int32) for column in each], axis=1).tolist():
                event, slot, member, context, level = cast("tuple[int, ...]", columns)
                values = [None] if member == NO_SLICE or slices is None else slices.values(member)
                crossed += [(rows[event], place, value, slot, context, level) for value in values]
        crossed.sort(key=lambda each: (*each[:2], each[2] or ""))
        crossings: list[EventCrossing] = []
        for row, place, value, slot, context, level in crossed:
            is_up = level == UP
            is_first = is_up and not history[row] and not warned[slot, place]
            warned[slot, place] |= is_first
            risk = self._followers[place].risks.at(context)
            crossings.append(EventCrossing(row, self.rules[place], value, risk, is_up, is_first))
        return crossings

    def _states(
        self,
        slots: BatchSlots,
        runs: Sequence[RuleRuns],
        slices: SlicedBatch,
        warned: Mask,
        agents: Sequence[str | None],
    ) -> dict[str, FollowedSession]:
        """Return the states of the open slots after the batch; `agents` are the last ones by slot."""
        rows = list(zip(*[each.names for each in runs], strict=True))
        texts = list(zip(*[each.symbols for each in runs], strict=True))
        flags = slot_flags(runs, len(slots.places)) | warned.astype(np.uint8) * np.uint8(WARNED)
        of_keys = [[runs[place].slice_runs() for place in places] for places in self._sliced.places]
        sliced = list(slices.after([list(zip(*of_rules, strict=True)) for of_rules in of_keys]))
        found: dict[str, FollowedSession] = {}
        for slot in slots.open:
            # The first one has the place `NO_SYMBOL`.
            symbols: dict[str | None, int] = {None: NO_SYMBOL}
            session_id, occurrence = slots.places[slot]
            found[session_id] = FollowedSession(
                tables=self.tables,
                occurrence=occurrence,
                rows=BETWEEN.join(rows[slot]),
                lasts=[symbols.setdefault(text, len(symbols) - 1) for text in texts[slot]],
                flags=flags[slot].tobytes(),
                symbols=[text for text in symbols if text is not None],
                agent=agents[slot],
                sliced=sliced[slot],
            )
        return found


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
