"""Counts of the events at which each proposition of a rule set is true, with sample events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ...rules.labels.few import WORD_BITS
from ...rules.labels.guards import TRUE, shadow
from ...rules.labels.labeler import Labeler
from ...rules.labels.matches import TextMatch, matches
from ...rules.model.formula import TRUE as TRUE_FORMULA
from ...rules.model.predicate import Leaf, Not, Predicate, Test
from ...rules.model.predicate import Path as FieldPath
from ...rules.model.rule import Rule, RuleSet
from ...schemas.event import Kind
from ..contents.never_true import RuleMistakes, rule_mistakes
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population, SourceFile, Sources
from ..sources.event_files import reading, row_count, scan
from .proposition_samples import SampleDraw, Sampling, events_at

FEW_ROWS = 500
"""Files with at most this many rows are labelled like live events."""

_SHOWN = ("session_id", "seq", "kind", "tool", "text", "args", "result", "error")
_HAS_TEXT = Not(Leaf(FieldPath("text"), Test.IS_NULL))


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample event: some of its columns, and what searches match in it.

    They are those of the proposition, or of the condition of missed events.
    """

    event: Mapping[str, Any]
    matches: tuple[TextMatch, ...]


@dataclass(slots=True)
class PropositionCount:
    """The counts of one proposition: events where it is true and unknown, and sessions where it is ever true.

    `samples` are events where it is true, from different sessions. If texts that it misses are asked for,
    `where` is the condition that they meet, `missed` their number, and the samples are such events.
    """

    pack: str
    name: str
    true: int = 0
    unknown: int = 0
    sessions: int = 0
    samples: tuple[Sample, ...] = ()
    where: Predicate | None = None
    missed: int = 0


@dataclass(frozen=True, slots=True)
class PropositionCensus:
    """The counts of the propositions; `end` rows are not events. `population` has the rejects.

    `mistakes` explains the propositions that are true, and unknown, at no event.
    """

    events: int
    sessions: int
    counts: tuple[PropositionCount, ...]
    population: Population
    mistakes: RuleMistakes = field(default_factory=RuleMistakes)


@dataclass(frozen=True, slots=True)
class Census:
    """The propositions to count (pack and name), and their samples: events where they are true, or missed.

    An event is missed by a proposition that is false there, if it meets `where`: by default the proposition's
    own conditions on kind, tool and sub-agents, else that it has a text.
    """

    only: frozenset[tuple[str, str]] | None = None
    sampling: Sampling = field(default_factory=Sampling)
    missed: bool = False
    where: Predicate | None = None


def census(
    source: Sources,
    rule_set: RuleSet,
    scratch: Path,
    options: AuditOptions | None = None,
    wanted: Census | None = None,
) -> PropositionCensus:
    """Count the propositions of the rules over a source; `scratch` is an empty folder of the caller.

    The function reads one file at a time. Raises SourceError if there is nothing to read.
    """
    wanted = wanted or Census()
    predicates = _predicates(rule_set, wanted.only)
    counts = tuple(PropositionCount(pack, name) for pack, name in predicates)
    if wanted.missed:
        for count, predicate in zip(counts, predicates.values(), strict=True):
            count.where = wanted.where or _default_where(predicate)
    labels = Labeler(_labelled_rules(predicates, counts))
    draws = [SampleDraw(wanted.sampling) for _ in counts]
    population = Population()
    parts = prepare(source, scratch, population, options)
    events = 0
    sessions: list[pl.DataFrame] = []
    for number, part in enumerate(parts):
        rows = _rows(part, labels)
        events += len(rows)
        for bit, (count, draw) in enumerate(zip(counts, draws, strict=True)):
            drawn = _add(count, rows, bit, len(counts) + bit)
            if not draw.is_final:
                draw.add(number, rows.filter(drawn))
        words = [pl.col(f"t{word}").bitwise_or() for word in range(labels.words)]
        sessions.append(rows.group_by("session").agg(words))
    merged = pl.concat(sessions) if sessions else pl.DataFrame({"session": []})
    for bit, (count, draw) in enumerate(zip(counts, draws, strict=True)):
        count.sessions = merged.filter(_bits(merged, "t", bit))["session"].n_unique() if sessions else 0
        searched = count.where or predicates[count.pack, count.name]
        count.samples = tuple(_samples(parts, draw, searched))
    names = [(count.pack, count.name) for count in counts if events and not (count.true or count.unknown)]
    found = rule_mistakes(parts, rule_set.rules, names, None, wanted.only) if events else RuleMistakes()
    return PropositionCensus(events, merged["session"].n_unique(), counts, population, found)


def _predicates(
    rule_set: RuleSet, only: frozenset[tuple[str, str]] | None
) -> dict[tuple[str, str], Predicate]:
    """Return the propositions to count by pack and name."""
    found = {
        (rule.pack, name): predicate
        for rule in rule_set.rules
        for name, predicate in rule.propositions.items()
    }
    return {key: predicate for key, predicate in found.items() if only is None or key in only}


def _default_where(predicate: Predicate) -> Predicate:
    """Return the conditions of a predicate on kind, tool and sub-agents, else that there is a text."""
    cheap = shadow(predicate)
    return _HAS_TEXT if cheap == TRUE else cheap


def _labelled_rules(
    predicates: Mapping[tuple[str, str], Predicate], counts: Sequence[PropositionCount]
) -> RuleSet:
    """Return rules with the propositions, then those with the conditions of missed events, in their order."""
    rules = [
        Rule(pack, name, "", TRUE_FORMULA, "", {name: predicate})
        for (pack, name), predicate in predicates.items()
    ]
    rules += [
        Rule(f"where {count.pack}", count.name, "", TRUE_FORMULA, "", {count.name: count.where})
        for count in counts
        if count.where is not None
    ]
    return RuleSet(tuple(rules), {})


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


def _add(count: PropositionCount, rows: pl.DataFrame, bit: int, where: int) -> pl.Series:
    """Add a file's rows to a count, and return the rows to draw samples from."""
    true, unknown = _bits(rows, "t", bit), _bits(rows, "u", bit)
    count.true += int(true.sum())
    count.unknown += int(unknown.sum())
    if count.where is None:
        return true
    missed = ~true & ~unknown & _bits(rows, "t", where)
    count.missed += int(missed.sum())
    return missed


def _samples(parts: Sequence[SourceFile], draw: SampleDraw, predicate: Predicate) -> Iterator[Sample]:
    """Yield the drawn events with the matches of a predicate."""
    events = events_at(parts, draw.places())
    shown = events.select(_SHOWN).iter_rows(named=True)
    for event, found in zip(shown, matches(predicate, events), strict=True):
        yield Sample(event, tuple(found))
