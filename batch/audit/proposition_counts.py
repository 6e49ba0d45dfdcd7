"""How often each proposition of a rule set is true in an archive, with sample events."""

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

SAMPLES_MAX = 3
"""Sample events of each proposition, from as many sessions."""

FEW_ROWS = 500
"""A file of so many rows is labelled as live events are."""

_SHOWN = ("session_id", "seq", "kind", "tool", "text", "args", "result", "error")


@dataclass(slots=True)
class PropositionCount:
    """What was met of one proposition: events where it is true and unknown, sessions where it is ever true.

    `samples` are the first events where it is true, of different sessions, as fields by name; `sampled` are
    the numbers of these sessions.
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
    """What was counted: `end` rows are no events. `population` says what could not be read."""

    events: int
    sessions: int
    counts: tuple[PropositionCount, ...]
    population: Population


def census(
    source: str | Path, rule_set: RuleSet, scratch: Path, terms: AuditOptions | None = None
) -> PropositionCensus:
    """Count every proposition of the rules over a source; `scratch` is an empty folder for its own files.

    Files are read one at a time. Raises SourceError where there is nothing to read.
    """
    labels = Labeler(rule_set)
    counts = tuple(PropositionCount(pack, name) for pack, name in labels.propositions)
    population = Population()
    events = 0
    sessions: list[pl.DataFrame] = []
    for part in prepare(source, scratch, population, terms):
        rows = _rows(part, labels)
        events += len(rows)
        wanted = [
            _add(count, _bits(rows, "t", bit), _bits(rows, "u", bit)) for bit, count in enumerate(counts)
        ]
        _sample(part, rows, counts, wanted)
        words = [pl.col(f"t{word}").bitwise_or() for word in range(labels.words)]
        sessions.append(rows.group_by("session").agg(words))
    told = pl.concat(sessions) if sessions else pl.DataFrame({"session": []})
    for bit, count in enumerate(counts):
        count.sessions = told.filter(_bits(told, "t", bit))["session"].n_unique() if sessions else 0
    return PropositionCensus(events, told["session"].n_unique(), counts, population)


def _rows(part: SourceFile, labels: Labeler) -> pl.DataFrame:
    """Each event's row in the file, its session as a number, and its words."""
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
    """Add a file's rows to a count; the same rows are returned, where it is true."""
    count.true += int(true.sum())
    count.unknown += int(unknown.sum())
    return true


def _sample(
    part: SourceFile, rows: pl.DataFrame, counts: tuple[PropositionCount, ...], true: list[pl.Series]
) -> None:
    """Give counts that want samples the first events of sessions that they have none of yet."""
    chosen: dict[int, list[int]] = {}
    for place, count in enumerate(counts):
        missing = SAMPLES_MAX - len(count.samples)
        if missing:
            new = true[place] & ~rows["session"].is_in(list(count.sampled))
            first = rows.filter(new).unique("session", keep="first", maintain_order=True).head(missing)
            chosen[place] = first["row"].to_list()
            count.sampled.update(first["session"])
    wanted = {row for some in chosen.values() for row in some}
    if not wanted:
        return
    events = scan(part).select(_SHOWN).with_row_index("row").filter(pl.col("row").is_in(sorted(wanted)))
    with reading([part]):
        shown = {event.pop("row"): event for event in events.collect(engine="streaming").to_dicts()}
    for place, some in chosen.items():
        counts[place].samples.extend(shown[row] for row in some)
