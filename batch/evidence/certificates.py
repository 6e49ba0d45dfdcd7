"""Certificates: what a checker needs to derive every `violated` and `unmet` verdict of an audit.

`certificates.jsonl` has a head, a line for each rule with its content and its machine, a line for each
session with such a verdict, which has the labels of all its events, and an end.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson
import polars as pl
import rfc8785
from numpy.typing import NDArray

from ...rules.engine import kernel, kernel_loop
from ...rules.engine.judge import CompiledRules, Judged
from ...rules.engine.letters import LabelWords
from ...rules.engine.records import TIME_TEXT
from ...rules.model.arrays import I32, I64
from ...rules.model.digest import rule_content, slice_key_content
from ...rules.model.machine import Machine
from ...rules.model.rule import Rule, SliceKey
from ...schemas.frames.text_views import text_views
from .canonical_json import canonical_line_of_integers
from .certificate_loop import ESCAPED, number_values, write_events
from .sorted_lines import SortedLines

CERTIFICATES = "certificates.jsonl"
VERSION = "tracline-certificates/1"

CERTIFICATES_BYTES_MAX = 1 << 30
"""Bytes of the lines of sessions. Further lines are left out and counted."""

_NO_VALUE = kernel_loop.NO_SLICE

_NUMBER_BYTES = 21
"""Bytes of a number of 64 bits and a comma."""
_EVENT_BYTES = _NUMBER_BYTES + 5
"""Bytes of an event beside its id and its numbers: `seq`, quotes, brackets and a comma."""


class SessionPlace(NamedTuple):
    """The sort key of a session's line, and the number of verdicts that the line explains."""

    session_id: str
    occurrence: str
    seq: int
    verdicts: int


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The propositions and `for_each` keys that the lines of sessions number, each with its number."""

    propositions: Mapping[tuple[str, str], int]
    keys: Mapping[SliceKey, int]

    @staticmethod
    def of(rule_sets: Sequence[CompiledRules]) -> Vocabulary:
        """Return the vocabulary of all rule sets."""
        names = sorted({name for each in rule_sets for name in each.propositions})
        keys = {
            key: rfc8785.dumps(slice_key_content(key))
            for each in rule_sets
            for key in each.labeler.slice_keys
        }
        ordered = sorted(keys, key=lambda key: keys[key])
        return Vocabulary(
            {name: number for number, name in enumerate(names)},
            {key: number for number, key in enumerate(ordered)},
        )


@dataclass(slots=True)
class Certificates:
    """The certificates of an audit in progress; the lines of sessions wait in `lines` until all are known.

    `window` is the audit's, as texts: verdicts outside of it are not in the bundle. `rule_sets` are those of
    an audit as judged, by digest; other audits have a single one without a digest.
    """

    rule_sets: Mapping[str | None, CompiledRules]
    window: tuple[str | None, str | None]
    lines: SortedLines[SessionPlace]
    vocabulary: Vocabulary = field(init=False)

    def __post_init__(self) -> None:
        self.vocabulary = Vocabulary.of(list(self.rule_sets.values()))

    def add(self, judged: Judged, rule_set: str | None = None) -> None:
        """Add the sessions of a bucket that have a violated or unmet verdict, judged by that rule set."""
        for place, line in session_lines(self.rule_sets[rule_set], judged, self.vocabulary, rule_set):
            self.lines.add(place, line)

    def write(self, path: Path) -> None:
        """Write the certificates."""
        with path.open("wb") as out:
            out.write(self._head())
            for line in _rule_lines(self.rule_sets.values()):
                out.write(line)
            out.write(self._write_sessions(out))

    def _head(self) -> bytes:
        since, until = self.window
        sets = {digest: _members(compiled) for digest, compiled in self.rule_sets.items() if digest}
        return canonical_line_of_integers(
            {
                "kind": "head",
                "version": VERSION,
                "propositions": list(self.vocabulary.propositions),
                "keys": [slice_key_content(key) for key in self.vocabulary.keys],
                "since": since,
                "until": until,
                "rule_sets": sets,
            }
        )

    def _write_sessions(self, out: BinaryIO) -> bytes:
        """Write the lines of sessions as far as there is room, and return the end."""
        size = 0
        written, left_out = {"sessions": 0, "verdicts": 0}, {"sessions": 0, "verdicts": 0}
        for place, line in self.lines.merged():
            size += len(line)
            has_room = size <= CERTIFICATES_BYTES_MAX
            counts = written if has_room else left_out
            counts["sessions"] += 1
            counts["verdicts"] += place.verdicts
            if has_room:
                out.write(line)
        return canonical_line_of_integers({"kind": "end", **written, "left_out": left_out})


def _members(compiled: CompiledRules) -> list[list[str]]:
    """Return what the digest of a rule set covers of each rule, as it covers it."""
    rules = zip(compiled.rules, compiled.digests, strict=True)
    return sorted([rule.pack, rule.id, rule.severity.value, digest] for rule, digest in rules)


def _rule_lines(rule_sets: Iterable[CompiledRules]) -> Iterator[bytes]:
    """Yield a line for each distinct rule, sorted by digest."""
    found: dict[str, tuple[CompiledRules, int]] = {}
    named: dict[str, set[tuple[str, str]]] = {}
    for compiled in rule_sets:
        for number, (rule, digest) in enumerate(zip(compiled.rules, compiled.digests, strict=True)):
            found.setdefault(digest, (compiled, number))
            named.setdefault(digest, set()).add((rule.pack, rule.id))
    for digest, (compiled, number) in sorted(found.items(), key=lambda item: item[0]):
        rule, machine = compiled.rules[number], compiled.machines[number]
        line = rule_line(digest, sorted(named[digest]), rule, machine)
        # Contents may have fractions, which RFC 8785 writes in its own way.
        line["content"] = orjson.Fragment(rfc8785.dumps(line["content"]))
        yield canonical_line_of_integers(line)


def rule_line(digest: str, names: Sequence[tuple[str, str]], rule: Rule, machine: Machine) -> dict[str, Any]:
    """Return the line of a rule, which several packs may have."""
    return {
        "kind": "rule",
        "rules": names,
        "rule_digest": digest,
        "content": rule_content(rule),
        "machine": _tables(machine),
    }


def _tables(machine: Machine) -> dict[str, Any]:
    """Return the tables of a machine."""
    return {
        "propositions": machine.propositions,
        "letters": b64encode(machine.letters).decode(),
        "next": machine.next,
        "output": machine.output,
        "closing": machine.closing,
        "residual": machine.residual,
    }


def session_lines(
    compiled: CompiledRules, judged: Judged, vocabulary: Vocabulary, rule_set: str | None
) -> Iterator[tuple[SessionPlace, bytes]]:
    """Yield a line for each session of a bucket that has a violated or unmet verdict.

    It has all events that can be judged, up to the limit of events.
    """
    verdicts = _verdicts(judged)
    slots = np.flatnonzero(verdicts)
    if not len(slots):
        return
    events = _events(judged, slots)
    words = _distinct(events.slots, judged.codes[events.places])
    texts = list(map(_fragment, _word_texts(compiled, judged.words, vocabulary)))
    keys = [_key_column(compiled, judged, events, key) for key in vocabulary.keys]
    written = _event_texts(events, [words.numbers, *(column.numbers for column in keys)])
    begins = judged.sessions.bounds[slots]
    ids = judged.column("session_id", begins).to_list()
    occurrences = judged.column("occurrence", begins).dt.strftime(TIME_TEXT).to_list()
    is_closed = (~judged.sessions.open[slots] & ~events.is_cut).tolist()
    codes = judged.codes[events.places[words.firsts]].tolist()
    first_seqs = events.seqs[events.bounds[:-1]].tolist()
    for at, slot in enumerate(slots.tolist()):
        content: dict[str, Any] = {
            "kind": "session",
            "session_id": ids[at],
            "occurrence": occurrences[at],
            "rule_set": rule_set,
            "closed": is_closed[at],
            "words": [texts[code] for code in codes[words.of(at)]],
            "values": [column.values(at) for column in keys],
            "events": written[at],
        }
        place = SessionPlace(ids[at], occurrences[at], first_seqs[at], int(verdicts[slot]))
        yield place, canonical_line_of_integers(content)


def _fragment(content: Any) -> orjson.Fragment:
    """Return a part of a line, written once."""
    return orjson.Fragment(orjson.dumps(content))


def _verdicts(judged: Judged) -> I64:
    """Return the number of violated and unmet verdicts of each session."""
    violated = judged.found.slots[judged.found.kinds == kernel_loop.FOUND_VIOLATED]
    unmet = judged.closed.slots[judged.closed.kinds == kernel.CLOSING_UNMET]
    size = len(judged.sessions.open)
    return np.bincount(violated, minlength=size) + np.bincount(unmet, minlength=size)


@dataclass(frozen=True, slots=True)
class _Events:
    """The judged events of some sessions, by their places in judged order.

    `slots` numbers the session of each event, and the events of session `s` are `bounds[s]` to
    `bounds[s + 1]`. `is_cut` is true of the sessions that go on beyond the limit of events.
    """

    places: I64
    slots: I64
    bounds: I64
    is_cut: NDArray[np.bool_]
    seqs: NDArray[np.uint32]
    ids: pl.Series


def _events(judged: Judged, slots: I64) -> _Events:
    """Return the events of these sessions up to the limit of events."""
    bounds = judged.sessions.bounds
    sizes = np.diff(bounds)[slots]
    ends = np.cumsum(sizes)
    places = np.arange(int(ends[-1]), dtype=np.int64) + np.repeat(bounds[slots] - (ends - sizes), sizes)
    seqs = judged.column("seq", places).to_numpy()
    owners = np.repeat(np.arange(len(slots)), sizes)
    is_judged = seqs <= kernel.EVENTS_MAX
    places, seqs, owners = places[is_judged], seqs[is_judged], owners[is_judged]
    counts = np.bincount(owners, minlength=len(slots))
    return _Events(
        places=places,
        slots=owners,
        bounds=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        is_cut=counts < sizes,
        seqs=seqs,
        ids=judged.column("event_id", places),
    )


def _event_texts(events: _Events, numbers: Sequence[I64]) -> Sequence[orjson.Fragment]:
    """Return the events of each session in JSON: of each its `seq`, its id, and its number by column."""
    ids, columns = text_views(events.ids), np.stack(numbers)
    size = int((ids.ends - ids.begins).sum()) + len(events.seqs) * (
        _EVENT_BYTES + _NUMBER_BYTES * len(columns)
    )
    out = np.empty(size + 2 * len(events.bounds), dtype=np.uint8)
    bounds = np.zeros(len(events.bounds), dtype=np.int64)
    end = write_events(ids.data, ids.begins, ids.ends, events.seqs, columns, events.bounds, out, bounds)
    if end == ESCAPED:
        return _escaped_event_texts(events, columns)
    text, ends = out[:end].tobytes(), bounds.tolist()
    return [orjson.Fragment(text[begin:end]) for begin, end in pairwise(ends)]


def _escaped_event_texts(events: _Events, columns: I64) -> Sequence[orjson.Fragment]:
    """Return the same where ids have characters that JSON escapes."""
    rows = list(zip(events.seqs.tolist(), events.ids, *columns.tolist(), strict=True))
    return [_fragment(rows[begin:end]) for begin, end in pairwise(events.bounds.tolist())]


@dataclass(frozen=True, slots=True)
class _Distinct:
    """The distinct values of each session in the order of their first events.

    `numbers` has the number of each event's value in its session, from 0; a negative value is its own number.
    `firsts` are the first events of the values, session by session, and those of session `s` are
    `bounds[s]` to `bounds[s + 1]`.
    """

    numbers: I64
    firsts: I64
    bounds: I64

    def of(self, session: int) -> slice:
        """Return the values of a session."""
        return slice(int(self.bounds[session]), int(self.bounds[session + 1]))


def _distinct(slots: I64, values: I32) -> _Distinct:
    """Return the distinct values of events that are ordered by session; `slots` numbers the sessions."""
    most = int(values.max(initial=-1)) + 1
    numbers, firsts = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    marks, places = np.full(most, -1, np.int64), np.empty(most, np.int64)
    count = int(number_values(slots, values, marks, places, numbers, firsts))
    firsts = firsts[:count]
    return _Distinct(numbers, firsts, np.searchsorted(slots[firsts], np.arange(int(slots[-1]) + 2)))


@dataclass(frozen=True, slots=True)
class _KeyColumn:
    """The values of a `for_each` key: the number of each event's value in its session, and the texts."""

    numbers: I64
    distinct: _Distinct | None
    texts: list[str]

    def values(self, session: int) -> list[str]:
        """Return the values of a session by their numbers."""
        return [] if self.distinct is None else self.texts[self.distinct.of(session)]


def _key_column(compiled: CompiledRules, judged: Judged, events: _Events, key: SliceKey) -> _KeyColumn:
    """Return the values of a key at these events; a rule set without the key reads none."""
    if key not in compiled.labeler.slice_keys:
        return _KeyColumn(np.full(len(events.ids), _NO_VALUE, np.int64), None, [])
    number = compiled.labeler.slice_keys.index(key)
    distinct = _distinct(events.slots, _slices(compiled, judged, number)[events.places])
    texts = judged.column(f"s{number}", events.places[distinct.firsts]).to_list()
    return _KeyColumn(distinct.numbers, distinct, texts)


def _slices(compiled: CompiledRules, judged: Judged, key: int) -> I32:
    """Return the slice slot of each event for a key, none where no rule of the key sees the event.

    There the labels leave it undefined.
    """
    program = compiled.program
    columns = slice(int(program.group_columns[key]), int(program.group_columns[key + 1]))
    sees = (judged.letters.letters[:, columns] != program.skip[columns]).any(axis=1)
    return np.where(sees[judged.codes], judged.slices[:, key], np.int32(_NO_VALUE))


def _word_texts(compiled: CompiledRules, words: LabelWords, vocabulary: Vocabulary) -> list[list[list[int]]]:
    """Return for each word the numbers of the propositions that are true, and of those that are unknown."""
    numbers = [(vocabulary.propositions[name], bit) for name, bit in compiled.propositions.items()]
    found: list[list[list[int]]] = [[[], []] for _ in range(len(words.true))]
    for number, bit in sorted(numbers):
        for place, holds in enumerate((words.holds(bit), words.is_unknown(bit))):
            for code in np.flatnonzero(holds).tolist():
                found[code][place].append(number)
    return found
