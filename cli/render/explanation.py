"""An explained session as JSON, and as a timeline for a person that works without colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...rules.explanation.deciding import DecidingParts
from ...rules.explanation.nouns import events_of
from ...rules.explanation.rule_status import PartStatus, Status
from ...rules.explanation.timeline import RunExplanation, explanation_data
from ...rules.model.formula import Op
from ...rules.model.printer import to_text
from ...schemas.verdict import Verdict
from ..terminal import clean, plain_console, quoted
from .content import event_text
from .session import brief
from .styles import KINDS, VERDICTS

if TYPE_CHECKING:
    from ...batch.survey.explained import ExplainedSession

GLYPHS = {
    Status.ACTIVE: ("●", "cyan"),
    Status.SATISFIED: ("✓", "green"),
    Status.INACTIVE: ("·", "dim"),
    Status.VIOLATED: ("✗", "bold red"),
    Status.OPEN: ("?", "yellow"),
}
"""The glyph of each status, and its style; the glyphs suffice without colour."""
COLUMNS = ascii_letters + digits
"""The names of the parts in the timeline; a rule with more parts shows its first ones."""
RUNS_SHOWN = 20
"""Runs of one rule in the table: those with verdicts come first. JSON has all."""
ROWS_AT_ONCE = 500
MARK = ">"
"""The mark of the steps that are worth a look."""
LINES = 1
"""Lines of a terminal that one event's content takes at most, about."""


def explanation_json(session: ExplainedSession, at: int | None) -> dict[str, Any]:
    """Return an explained occurrence as plain data."""
    return {
        "session_id": session.session_id,
        "occurrence": session.occurrence,
        "closed": session.closed,
        "events": list(session.events),
        "rules": [explanation_data(run, session.sentences, at) for run in session.runs],
    }


def print_explanation(sessions: Sequence[ExplainedSession], at: int | None, *, every: bool) -> None:
    """Print each occurrence: a line for each rule, then each run's timeline, or its parts at step `at`.

    With `every` a timeline has all parts and steps, else those that matter (`DecidingParts`).
    """
    console = plain_console()
    key = [Text.assemble((glyph, style), f" {status}") for status, (glyph, style) in GLYPHS.items()]
    console.print(Text("  ").join(key))
    if not every and at is None:
        blank = "blank: false, and the rule does not ask for it"
        console.print(
            Text(f"the parts that decide, where they matter ({blank}); --all shows all", style="dim")
        )
    for session in sessions:
        console.print()
        count, agents = len(session.events), (event["agent"] for event in session.events)
        agent = next((agent for agent in agents if agent is not None), None)
        console.print(brief(session.session_id, session.occurrence, count, agent, closed=session.closed))
        if not session.runs:
            console.print("no rule applies")
        for rule in dict.fromkeys((run.rule.pack, run.rule.id) for run in session.runs):
            runs = [run for run in session.runs if (run.rule.pack, run.rule.id) == rule]
            _print_rule(
                console, session, sorted(runs, key=lambda run: not _has_verdict(run)), at, every=every
            )


def _has_verdict(run: RunExplanation) -> bool:
    return run.close is Verdict.UNMET or any(step.is_reported for step in run.steps)


def _print_rule(
    console: Console,
    session: ExplainedSession,
    runs: Sequence[RunExplanation],
    at: int | None,
    *,
    every: bool,
) -> None:
    """Print the runs of one rule."""
    rule = runs[0].rule
    console.print()
    name = clean(f"{rule.pack}/{rule.id}")
    console.print(Text.assemble((name, "bold"), f" ({rule.severity.value})  {quoted(rule.title)}"))
    is_whole = every or at is not None
    shown = runs[0].status.parts if is_whole else DecidingParts(runs[0].status).parts
    for line in _legend(shown, is_whole=is_whole):
        console.print(line)
    for run in runs[:RUNS_SHOWN]:
        console.print()
        for line in _heading(run, session):
            console.print(line)
        if at is None:
            for grid in _timeline(run, session, console, every=every):
                console.print(grid)
        elif at <= len(run.steps):
            console.print(_parts_at(run, at))
    if len(runs) > RUNS_SHOWN:
        console.print(f"({len(runs) - RUNS_SHOWN:,} slices left out; --format json has all)")


def _legend(parts: Sequence[PartStatus], *, is_whole: bool) -> Iterator[Text]:
    """Yield a line for each part: its column in the timeline, its number, and its formula."""
    for column, part in zip(COLUMNS, parts, strict=False):
        depth = part.node.count(".") if is_whole else 1
        yield Text.assemble(
            f"{'  ' * depth}{column} ", (part.node, "dim"), f" {quoted(to_text(part.formula))}"
        )
    if len(parts) > len(COLUMNS):
        yield Text(f"({len(parts) - len(COLUMNS):,} parts left out; --format json has all)", style="dim")


def _heading(run: RunExplanation, session: ExplainedSession) -> Iterator[Text]:
    """Yield the lines above a timeline: the slice, the outcome, and the sentences on the close."""
    counts = Counter(step.step.verdict.value for step in run.steps if step.is_reported)
    words = [
        Text(verdict if count == 1 else f"{verdict} {count:,} times", style=VERDICTS.get(verdict, ""))
        for verdict, count in counts.items()
    ]
    if run.unjudged is not None:
        words.append(Text(f"unjudged from event {run.unjudged} on", style=VERDICTS[Verdict.UNJUDGED]))
    if run.close is not None:
        closing = f"at the close {run.close.value}"
        words.append(Text(closing, style=VERDICTS.get(run.close.value, "")))
    if not words:
        words.append(Text("pending" if run.steps else "saw no event"))
    sliced = [] if run.slice is None else [Text(f"slice {clean(run.slice)}: ")]
    yield Text.assemble(*sliced, Text(", ").join(words))
    for sentence in run.end_sentences(session.sentences):
        yield Text(clean(sentence))


def _timeline(
    run: RunExplanation, session: ExplainedSession, console: Console, *, every: bool
) -> Iterator[Table]:
    """Yield the steps of a run as rows, some hundred at a time."""
    deciding = None if every or not run.steps else DecidingParts(run.status)
    parts = run.status.parts if deciding is None else deciding.parts
    columns = COLUMNS[: len(parts)]
    rows = _rows(run, session, parts[: len(columns)], deciding, console)
    last = run.steps[-1].seq if run.steps else 0
    is_filtered = last != len(run.steps)
    while block := list(islice(rows, ROWS_AT_ONCE)):
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=1, no_wrap=True)
        for head in ("step", "event") if is_filtered else ("event",):
            grid.add_column(Text(head, style="dim"), justify="right", width=max(len(head), len(str(last))))
        grid.add_column(Text(columns, style="dim"), width=len(columns), overflow="fold")
        grid.add_column(overflow="fold")
        grid.show_header = block[0].is_first
        for row in block:
            numbers = (row.number, row.seq) if is_filtered else (row.seq,)
            places = [Text("" if row.number is None else str(number)) for number in numbers]
            grid.add_row(row.mark, *places, row.glyphs, row.about)
        yield grid


class _Row(NamedTuple):
    """A row of a timeline; one without a number counts the steps that are left out."""

    mark: Text
    number: int | None
    seq: int
    glyphs: Text
    about: Text
    is_first: bool


def _rows(
    run: RunExplanation,
    session: ExplainedSession,
    parts: Sequence[PartStatus],
    deciding: DecidingParts | None,
    console: Console,
) -> Iterator[_Row]:
    """Yield a row for each step: the statuses from it on, the event, its verdict and the residual.

    With deciding parts there are rows for the steps that matter only.
    """
    worth, before = set(run.status.worth()), to_text(run.rule.formula)
    events = {event["seq"]: event for event in session.events}
    named = _named_events(run, session)
    left_out, is_first = 0, True
    for number, (seq, step, is_reported) in enumerate(run.steps, start=1):
        is_asked = step.residual != before and step.residual not in ("true", "false")
        breaking = frozenset[str]() if deciding is None else deciding.breaking(number)
        if deciding is not None and not (
            is_reported or is_asked or breaking or seq in named or deciding.changes(number)
        ):
            left_out += 1
            continue
        if left_out:
            yield _left_out(left_out, is_first=is_first)
            left_out, is_first = 0, False
        lines = [_event(events[seq], console)]
        if deciding is not None and (true := deciding.true_names(number)):
            lines.append(Text(f"true: {clean(', '.join(true))}", style="green"))
        if is_reported:
            sentence = run.sentence(seq, step.verdict, session.sentences)
            verdict = step.verdict.value if sentence is None else f"{step.verdict.value}: {clean(sentence)}"
            lines.append(Text(verdict, style=VERDICTS.get(step.verdict.value, "")))
        if is_asked:
            before = step.residual
            if deciding is None:
                lines.append(Text(f"then required: {clean(before)}", style="dim"))
        is_marked = number in worth if deciding is None else bool(breaking) or is_reported
        mark = Text(MARK if is_marked else "", style="bold")
        cells = [(part, part.status(number, number)) for part in parts]
        if deciding is None:
            glyphs = Text.assemble(*(_glyph(*cell) for cell in cells))
        else:
            glyphs = Text.assemble(*(_decisive_glyph(*cell, breaking) for cell in cells))
        yield _Row(mark, number, seq, glyphs, Text("\n").join(lines), is_first)
        is_first = False
    if left_out:
        yield _left_out(left_out, is_first=is_first)


def _named_events(run: RunExplanation, session: ExplainedSession) -> set[int]:
    """Return the events that the sentences on the run name."""
    sentences = [run.sentence(seq, step.verdict, session.sentences) for seq, step, _ in run.steps]
    texts = [*filter(None, sentences), *run.end_sentences(session.sentences)]
    return set[int]().union(*map(events_of, texts))


def _left_out(count: int, *, is_first: bool) -> _Row:
    text = f"({count:,} {'step' if count == 1 else 'steps'} left out)"
    return _Row(Text(), None, 0, Text(), Text(text, style="dim"), is_first)


def _decisive_glyph(part: PartStatus, status: Status, breaking: frozenset[str]) -> tuple[str, str]:
    """Return the glyph of a deciding part and its style: blank where it is false and nothing asks for it."""
    glyph, style = GLYPHS[status]
    if part.node in breaking:
        return glyph, "bold red"
    return (" ", "") if status is Status.VIOLATED else (glyph, style)


def _glyph(part: PartStatus, status: Status) -> tuple[str, str]:
    """Return the glyph of a part and its style; a proposition that is not true is nothing to point at."""
    glyph, style = GLYPHS[status]
    is_false = status is Status.VIOLATED and part.formula.op is Op.PROP
    return glyph, "dim" if is_false else style


def _event(event: Mapping[str, Any], console: Console) -> Text:
    """Return the kind of an event and the beginning of its content."""
    kind = Text(event["kind"], style=KINDS.get(event["kind"], "yellow"))
    tool = "" if event["tool"] is None else f" {clean(event['tool'])}"
    text = event_text(event, LINES * max(console.width - 20, 20))
    return Text.assemble(kind, tool, f" {text}" if text else "")


def _parts_at(run: RunExplanation, at: int) -> Table:
    """Return the status of each part at a step, and how long a part is active."""
    grid = Table.grid(padding=(0, 1))
    for _ in range(2):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for part in run.status.parts:
        status, end = part.status(at, at), int(part.ends[at - 1])
        glyph, style = _glyph(part, status)
        until = f" until event {run.steps[end - 1].seq}" if status is Status.ACTIVE else ""
        grid.add_row(part.node, Text(glyph, style=style), f"{status}{until}: {quoted(to_text(part.formula))}")
    return grid
