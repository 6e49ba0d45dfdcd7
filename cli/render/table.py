"""The result of an audit as tables for a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ...batch.report.figures import interval
from ...rules.model.rule import Precision
from ...schemas.instrumentations.missing import with_setting
from ...schemas.records.violation_rate import rate_of
from ...schemas.verdict import Severity
from ..rule_mistakes import rule_mistake_lines
from ..terminal import clean, plain_console, quoted
from .fitted import FittedTable, aligned

if TYPE_CHECKING:
    from ...batch.audit.audit import AuditResult
    from ...schemas.records.verdict_record import VerdictRecord

STYLES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
SCOPE_WIDTH = 80
"""Characters of a scope's name in a reason."""
SLICE_WIDTH = 40
"""Characters of a slice's value in an example."""


def print_table(result: AuditResult, out: Path) -> None:
    """Print the population, the broken rules, worst first, with examples, and the other rules."""
    console = plain_console()
    rules = result.summary["rules"]
    ranked = sorted(rules, key=lambda key: rank(rules[key]))
    broken = [key for key in ranked if rules[key]["sessions_violating"]]
    console.print(_population(result.summary["population"]))
    if broken:
        with_interval = _broken(rules, broken, with_interval=True)
        is_wide = with_interval.fits(console)
        console.print(with_interval if is_wide else _broken(rules, broken, with_interval=False))
        for key in broken:
            if "precision" in rules[key]:
                console.print(Text(f"{clean(key)}: {clean(Precision(**rules[key]['precision']).described)}"))
        with_examples = [key for key in broken if result.examples.get(key)]
        if with_examples:
            console.print(Group(*_examples(console, result, with_examples)), crop=False)
        console.print()
    for key in broken:
        if rules[key].get("waived"):
            console.print(Text(_waived(key, rules[key])))
    unjudged = [key for key in ranked if rules[key]["sessions_unjudged"]]
    rest = [key for key in ranked if key not in broken]
    judged = [key for key in rest if key not in unjudged]
    applied = [key for key in judged if rules[key]["sessions_applicable"]]
    _print_rules(console, "Held", applied)
    _print_rules(console, "Applied to no session", [key for key in judged if key not in applied])
    counts = [f"{key} ({_unjudged(rules[key])})" for key in unjudged]
    _print_rules(console, "Unjudged in some sessions", counts)
    for reason, keys in _reasons(rules, unjudged).items():
        console.print(Text(clean(f"  unjudged: {reason}: {', '.join(keys)}")))
    for line in rule_mistake_lines(result.summary):
        console.print(Text(line))
    console.print(Text(f"Bundle: {clean(str(out))}"))
    if broken:
        console.print(Text(f"Read the findings: tracline show {clean(str(out))}"))


def _waived(key: str, rule: dict[str, Any]) -> str:
    """Return the numbers of waived verdicts of a rule and of the sessions with others, in words."""
    rest = rule["sessions_violating_unwaived"]
    left = f"{rest:,} {'session' if rest == 1 else 'sessions'}"
    return f"{clean(key)}: {rule['waived']:,} waived, {left} with findings that are not"


def _unjudged(rule: dict[str, Any]) -> str:
    """Return the number of unjudged sessions; of a rule that is not broken with its rate."""
    count = f"{rule['sessions_unjudged']:,}"
    return (
        count
        if rule["sessions_violating"]
        else f"{count} of {rate_of(rule).sessions:,}: {rate_of(rule).percent}"
    )


def _reasons(rules: dict[str, Any], unjudged: list[str]) -> dict[str, list[str]]:
    """Return the rules by the reason why they are unjudged, with the number of sessions and the setting."""
    found: dict[str, list[str]] = {}
    for key in unjudged:
        for row in rules[key]["unjudged"]:
            scope = row["scope"] and clean(row["scope"], SCOPE_WIDTH)
            reason = with_setting(row["reason"], scope, row["setting"])
            text = f"{row['sessions']:,} {'session' if row['sessions'] == 1 else 'sessions'}, {reason}"
            found.setdefault(text, []).append(key)
    return found


def _print_rules(console: Console, title: str, keys: list[str]) -> None:
    """Print a line of rules if there are any."""
    if keys:
        console.print(Text.assemble((f"{title}: ", "bold"), clean(", ".join(keys))))


def rank(rule: dict[str, Any]) -> tuple[bool, int, int, str]:
    """Return a sort key: broken rules first, then by severity, sessions and name."""
    broken = rule["sessions_violating"] > 0
    return not broken, -Severity(rule["severity"]).rank, -rule["sessions_violating"], rule["id"]


def _population(population: dict[str, Any]) -> Text:
    parts = [
        f"{population['events']:,} events in {population['sessions']:,} sessions "
        f"from {population['files']:,} {'file' if population['files'] == 1 else 'files'}"
    ]
    for name, label in (
        ("open_sessions", "still open"),
        ("duplicates", "duplicates dropped"),
        ("rejected", "rejected"),
        ("gaps", "gaps in the archive"),
    ):
        if population[name]:
            parts.append(f"{population[name]:,} {label}")
    records = population["log_records"]
    if lost := records["unjoined"] + records["unlinked"]:
        parts.append(f"{lost:,} log records with content but without their span")
    return Text(", ".join(parts))


def _broken(rules: dict[str, Any], broken: list[str], *, with_interval: bool) -> FittedTable:
    """Return the broken rules with their rates, and the Wilson intervals of these."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("rule", no_wrap=True)
    table.add_column("severity", no_wrap=True)
    rates = {key: rate_of(rules[key]) for key in broken}
    shown = ["95% interval"] if with_interval else []
    has_possible = any(rate.possible for rate in rates.values())
    for name in ("violated", "unmet", "sessions", *(["not judged"] if has_possible else []), "rate", *shown):
        table.add_column(name, justify="right", no_wrap=True)
    for key, rate in rates.items():
        rule = rules[key]
        style = STYLES[rule["severity"]]
        table.add_row(
            Text(clean(key), style=style),
            Text(rule["severity"], style=style),
            Text(_number(rule["violations"])),
            Text(_number(rule["unmet"])),
            Text(f"{rate.violating:,} of {rate.sessions:,}"),
            *([Text(_number(rate.possible))] if has_possible else []),
            Text(rate.percent),
            *([Text(interval(rate))] if with_interval else []),
        )
    return FittedTable(table)


def _number(count: int) -> str:
    return f"{count:,}" if count else "·"


def _examples(console: Console, result: AuditResult, keys: list[str]) -> Iterator[Text]:
    """Yield the lines of the first examples; ids are whole, so that they can be copied."""
    yield Text("First examples", style="bold")
    for key in keys:
        rule = result.summary["rules"][key]
        yield Text.assemble((clean(key), STYLES[rule["severity"]]), ": ", quoted(rule["title"]))
        about = [quoted(rule[name]) for name in ("policy", "owner") if name in rule]
        if about:
            yield Text(f"  {'; '.join(about)}", style="dim")
        rows = [_example(found) for found in result.examples[key]]
        yield from aligned(rows, console.width, indent=2)


def _example(found: VerdictRecord) -> list[Text]:
    """Return the cells of an example."""
    cells = (
        clean(found.session_id),
        f"step {found.seq}",
        found.described,
        "" if found.slice is None else f"for {clean(found.slice, SLICE_WIDTH)}",
        f"event {clean(found.event_id)}",
        f"verdict {found.id}",
    )
    return list(map(Text, cells))
