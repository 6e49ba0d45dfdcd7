"""Findings of a bundle as text for a person: a sentence on what broke the rule, and the events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...rules.explanation.breach import without_rule
from ...schemas.time import UNDATED
from ..terminal import clean, plain_console, quoted
from .content import event_text
from .styles import KINDS, VERDICTS

if TYPE_CHECKING:
    from ...batch.findings.findings import Finding, FindingEvent
    from ...rules.model.rule import Rule

LINES = 3
"""Lines of a terminal that one event's content takes at most, about; in a pipe nothing is cut."""
MARK = ">"
"""The mark of the events of the witness."""


def finding_data(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain data: the verdict's record, the rule, the sentence and the events."""
    rule = finding.rule
    return {
        "verdict": msgspec.to_builtins(finding.record),
        "title": rule.title,
        "formula": rule.text,
        "policy": rule.policy or None,
        "sentence": finding.sentence,
        "decisive": list(finding.decisive),
        "session_events": finding.length,
        "events": [
            {
                **event.columns,
                "true": list(event.true),
                "unknown": list(event.unknown),
                "witness": None if event.witness is None else event.witness.residual,
                "history": [{"formula": bit.formula, "value": bit.value} for bit in event.bits],
            }
            for event in finding.events
        ],
    }


def print_findings(findings: Iterable[Finding]) -> None:
    """Print each finding, apart by an empty line."""
    console = plain_console()
    for number, finding in enumerate(findings):
        if number:
            console.print()
        for line in _heading(finding):
            console.print(line)
        console.print(_events(finding, console))


def _heading(finding: Finding) -> Iterator[Text]:
    """Yield the lines above the events: the rule, the session, the sentence."""
    record, rule = finding.record, finding.rule
    style = VERDICTS.get(record.verdict.value, "")
    name = clean(f"{record.pack}/{record.rule}")
    yield Text.assemble((record.verdict.value, style), " ", (name, "bold"), f" ({record.severity.value})")
    yield Text(quoted(rule.title))
    if rule.policy:
        yield Text(f"policy: {quoted(rule.policy)}")
    time = "no times" if record.time.startswith(UNDATED) else record.time
    place = f"session {clean(record.session_id)}, event {record.seq} of {finding.length}, {time}"
    agent = "" if record.agent is None else f", agent {clean(record.agent)}"
    yield Text(f"{place}{agent}{', known from history' if record.history else ''}", style="dim")
    yield Text(f"verdict {record.id}", style="dim")
    yield Text(clean(finding.sentence))


def _events(finding: Finding, console: Console) -> Table:
    """Return the events as rows: a mark, the place, the kind, the content and the propositions."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1, no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(width=len("tool_result"), no_wrap=True)
    grid.add_column(overflow="fold")
    before = 0
    for event in finding.events:
        seq = event.columns["seq"]
        if left_out := seq - before - 1:
            grid.add_row("", "", "", Text(_left_out(left_out), style="dim"))
        before = seq
        mark = MARK if event.witness is not None or event.bits else ""
        kind = Text(event.columns["kind"], style=KINDS.get(event.columns["kind"], "yellow"))
        bold = "bold" if mark else ""
        about = _about(event, finding.rule, console)
        grid.add_row(Text(mark, style="bold"), Text(str(seq), style=bold), kind, about)
    if left_out := finding.length - before:
        grid.add_row("", "", "", Text(_left_out(left_out), style="dim"))
    return grid


def _left_out(count: int) -> str:
    return f"({count:,} {'event' if count == 1 else 'events'} left out)"


def _about(event: FindingEvent, rule: Rule, console: Console) -> Text:
    """Return the content of an event, its propositions, and its part of the witness."""
    columns = event.columns
    width = LINES * max(console.width - 20, 20)
    tool = "" if columns["tool"] is None else f"{clean(columns['tool'])} "
    lines = [Text(f"{tool}{event_text(columns, width)}".rstrip())]
    flags = [flag for flag in ("history", "late", "nested") if columns[flag]]
    flags += [f"content {columns['content']}"] if columns["content"] != "captured" else []
    if flags:
        lines.append(Text(", ".join(flags), style="dim"))
    if event.true:
        lines.append(Text(f"true: {clean(', '.join(event.true))}", style="green"))
    if event.unknown:
        lines.append(Text(f"unknown: {clean(', '.join(event.unknown))}", style="yellow"))
    for bit in event.bits:
        lines.append(Text(f"made `{clean(bit.formula)}` {'true' if bit.value else 'false'}", style="bold"))
    if event.witness is not None and event.witness.residual not in ("true", "false"):
        required = clean(without_rule(event.witness.residual, rule), width)
        lines.append(Text(f"then required: {required}", style="bold"))
    return Text("\n").join(lines)
