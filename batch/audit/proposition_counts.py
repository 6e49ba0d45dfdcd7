"""Counts of the events at which each proposition of a rule set is true, with sample events."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ...rules.labels.labeler import WORD_BITS, Labeler
from ...rules.model.rule import RuleSet
from ...schemas.event import Kind
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population, SourceFile
from ..sources.event_files import reading, row_count, scan
from .never_true import NeverTrue, never_true

SAMPLES_MAX = 3
"""Sample events per proposition, each from another session."""

FEW_ROWS = 500
"""Files with at most this many rows are labelled like live events."""

_SHOWN = ("session_id", "seq", "kind", "tool", "text", "args", "result", "error")


@dataclass(slots=True)
class PropositionCount:
    """The counts of one proposition: events where it is true and unknown, and sessions where it is ever true.

    `samples` are the first events where it is true, from different sessions; `sampled` are the numbers of
    these sessions.
    """

    pack: str
    name: str
    true: int = 0
    unknown: int = 0
    sessions: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sampled: set[int] = field(default_factory=set[int])


@dataclass(frozen=True, slots=True)
class PropositionCensus:
    """The counts of all propositions; `end` rows are not events. `population` has the rejects.

    `never_true` explains the propositions that are true, and unknown, at no event.
    """

    events: int
    sessions: int
    counts: tuple[PropositionCount, ...]
    population: Population
    never_true: tuple[NeverTrue, ...] = ()


def census(
    source: str | Path, rule_set: RuleSet, scratch: Path, options: AuditOptions | None = None
) -> PropositionCensus:
    """Count every proposition of the rules over a source; `scratch` is an empty folder of the caller.

    The function reads one file at a time. Raises SourceError if there is nothing to read.
    """
    labels = Labeler(rule_set)
    counts = tuple(PropositionCount(pack, name) for pack, name in labels.propositions)
    population = Population()
    events = 0
    sessions: list[pl.DataFrame] = []
    parts = prepare(source, scratch, population, options)
    for part in parts:
        rows = _rows(part, labels)
        events += len(rows)
        wanted = [
            _add(count, _bits(rows, "t", bit), _bits(rows, "u", bit)) for bit, count in enumerate(counts)
        ]
        _sample(part, rows, counts, wanted)
        words = [pl.col(f"t{word}").bitwise_or() for word in range(labels.words)]
        sessions.append(rows.group_by("session").agg(words))
    merged = pl.concat(sessions) if sessions else pl.DataFrame({"session": []})
    for bit, count in enumerate(counts):
        count.sessions = merged.filter(_bits(merged, "t", bit))["session"].n_unique() if sessions else 0
    names = [(count.pack, count.name) for count in counts if events and not (count.true or count.unknown)]
    never = never_true(parts, rule_set.rules, names, None)
    return PropositionCensus(events, merged["session"].n_unique(), counts, population, never)


def _rows(part: SourceFile, labels: Labeler) -> pl.DataFrame:
    """Return each event's row number in the file, its session as a number, and its words of labels."""
    session = pl.struct("session_id", "occurrence").hash(0).alias("session")
    events = scan(part).with_row_index("row").with_columns(session).filter(pl.col("kind") != Kind.END.value)
    keep = ("row", "session")
    with reading([part]):
        if row_count(part) <= FEW_ROWS:
            return labels.label_few(events.select(*keep, *labels.fields).collect(engine="streaming"), keep)
        return labels.label(events, keep).collect(engine="streaming")


def _bits(rows: pl.DataFrame, letter: str, bit: int) -> pl.Series:
    """Return where a proposition's bit is set."""
    word = rows[f"{letter}{bit // WORD_BITS}"]
    return (word & (1 << bit % WORD_BITS)) != 0


def _add(count: PropositionCount, true: pl.Series, unknown: pl.Series) -> pl.Series:
    """Add a file's rows to a count, and return `true`."""
    count.true += int(true.sum())
    count.unknown += int(unknown.sum())
    return true


def _sample(
    part: SourceFile, rows: pl.DataFrame, counts: tuple[PropositionCount, ...], true: list[pl.Series]
) -> None:
    """Add samples to the counts that need more, each from a session without a sample."""
    chosen: dict[int, list[int]] = {}
    for place, count in enumerate(counts):
        missing = SAMPLES_MAX - len(count.samples)
        if missing:
            new = true[place] & ~rows["session"].is_in(list(count.sampled))
            first = rows.filter(new).unique("session", keep="first", maintain_order=True).head(missing)
            chosen[place] = first["row"].to_list()
            count.sampled.update(first["session"])
    wanted = {row for rows_of in chosen.values() for row in rows_of}
    if not wanted:
        return
    events = scan(part).select(_SHOWN).with_row_index("row").filter(pl.col("row").is_in(sorted(wanted)))
    with reading([part]):
        shown = {event.pop("row"): event for event in events.collect(engine="streaming").to_dicts()}
    for place, rows_of in chosen.items():
        counts[place].samples.extend(shown[row] for row in rows_of)
