"""`tracline audit`: judge an archive by rules, and write a bundle of verdicts."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....schemas.time import parse_time
from ....schemas.verdict import Severity
from ...options import (
    Command,
    colors,
    format_option,
    load_selected,
    note,
    out_option,
    quiet,
    rules_option,
    selection_options,
)
from ...source import (
    allow_empty_option,
    allow_rejected_option,
    audit_options,
    chat_options,
    report_empty,
    report_rejected,
    report_unread,
    sources_argument,
    timezone_option,
)
from ...terminal import quoted
from .failing import accepted_rules, failing_rules, read_rates

if TYPE_CHECKING:
    from ....batch.audit.audit import AuditResult, OnProgress


class Instant(click.ParamType):
    """A time or day as an argument: nanoseconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read `2026-02-17`, `2026-02-17T08:00` or with seconds and offset; the default zone is UTC."""
        if isinstance(value, int):
            return value
        ns = parse_time(value)
        if ns is None:
            ns = parse_time(f"{value}T00:00")
        if ns is None:
            self.fail(f"{value!r} is not a time: use 2026-02-17 or 2026-02-17T08:00:00Z", param, ctx)
        return ns


@click.command("audit", cls=Command)
@sources_argument("archive", "ARCHIVE")
@rules_option(required=False)
@selection_options()
@click.option(
    "--as-judged",
    is_flag=True,
    help="Judge each event by the rules that judged it live, from the archive.",
)
@out_option("BUNDLE", "The folder for the bundle; an existing bundle is replaced.")
@click.option(
    "--fail-on",
    type=click.Choice([severity.value for severity in Severity]),
    help="Exit 1 if a rule of at least this severity is broken.",
)
@click.option(
    "--tolerate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="With --fail-on: exit 1 only for rates above these, of `tracline alerts rates`.",
)
@click.option(
    "--min-severity",
    type=click.Choice([severity.value for severity in Severity]),
    default=Severity.INFO.value,
    show_default=True,
    help="The least severity of the rules in SARIF and JUnit.",
)
@allow_rejected_option()
@allow_empty_option()
@click.option("--since", type=Instant(), metavar="TIME", help="Omit verdicts before this time or day.")
@click.option("--until", type=Instant(), metavar="TIME", help="Omit verdicts from this time or day on.")
@click.option(
    "--as-of",
    type=Instant(),
    metavar="TIME",
    help="Judge as of this time: ignore later events; sessions open at that time are open.",
)
@click.option("--satisfied", is_flag=True, help="Write satisfied and held verdicts too.")
@timezone_option()
@chat_options()
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="The number of threads.  [default: one per processor]",
)
@format_option("table", "json", "jsonl", "junit", "sarif")
def command(
    archive: tuple[str, ...],
    rules: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    as_judged: bool,
    out: Path,
    fail_on: str | None,
    tolerate: Path | None,
    min_severity: str,
    allow_rejected: int,
    allow_empty: bool,
    since: int | None,
    until: int | None,
    as_of: int | None,
    satisfied: bool,
    timezone: str,
    threads: int | None,
    format: str,
) -> None:
    """Judge an archive by rule packs and write a bundle of verdicts.

    ARCHIVE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps; the
    latter two are read as by `tracline import`. Several are read as one. The bundle contains verdicts.jsonl,
    verdicts.parquet, summary.json and the rules. Sessions that span --since or --until are judged whole.

    Archives of `tracline serve` and `tracline stream archive` contain the rules that were active: --as-judged
    judges by these rules and their changes instead of --rules.
    """
    if as_judged and rules:
        raise click.UsageError("--as-judged and --rules exclude each other.")
    if as_judged and (select or ignore):
        raise click.UsageError("--as-judged takes all active rules: omit --select and --ignore.")
    if not as_judged and not rules:
        ctx = click.get_current_context()
        raise click.MissingParameter(ctx=ctx, param_hint="'--rules'", param_type="option")
    if tolerate is not None and fail_on is None:
        raise click.UsageError("--tolerate requires --fail-on.")
    from ....batch.prepare.options import ALLOCATOR, allocator_settings

    # Polars starts its threads, and its allocator reads its settings, on the first import.
    if threads is not None:
        os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    threads = threads or os.cpu_count() or 1
    if "polars" not in sys.modules:
        os.environ.setdefault(ALLOCATOR, allocator_settings(threads))
    rates = None if tolerate is None else read_rates(tolerate)
    from ....batch.audit.as_judged import audit_as_judged
    from ....batch.audit.audit import audit

    rule_set = None if as_judged else load_selected(rules, select, ignore)
    options = audit_options(
        timezone,
        since=since,
        until=until,
        as_of=as_of,
        satisfied=satisfied,
        threads=threads,
    )
    with _progress_bar() as on_progress:
        if rule_set is None:
            result = audit_as_judged(archive, out, options, on_progress)
        else:
            result = audit(archive, rule_set, out, options, on_progress)
    accepted = accepted_rules(result.summary, None if fail_on is None else Severity(fail_on), rates)
    failing = failing_rules(result.summary, accepted)
    _write(result, rules, out, format, accepted, Severity(min_severity))
    population = result.summary["population"]
    records = population["log_records"]
    rows = population["rows"] + population["spans"] + records["content"] + records["unlinked"]
    report_empty(rows + population["rejected"], archive)
    spans, events = result.population.census, population["events"]
    code = report_unread(spans, events, archive, allow_empty=allow_empty)
    report_rejected(result.population.rejects, population["rejected_by_reason"], archive, allow_rejected)
    if code:
        click.get_current_context().exit(code)
    if rates is not None:
        for key, reason in accepted.items():
            note(quoted(f"{key}: {reason}"))
    if fail_on is not None and failing:
        click.get_current_context().exit(1)


def _write(
    result: AuditResult,
    packs: Sequence[str],
    out: Path,
    format: str,
    accepted: Mapping[str, str],
    min_severity: Severity,
) -> None:
    """Write the results to standard output."""
    from ....batch.evidence.bundle import VERDICTS, read_verdicts

    verdicts = read_verdicts(out / VERDICTS)
    match format:
        case "json":
            from ...render.json import json_text

            chunks = json_text(result.summary, verdicts)
        case "jsonl":
            from ...render.json import lines

            chunks = lines(verdicts)
        case "junit":
            from ...render.junit import junit

            chunks = iter([junit(result.summary, result.examples, accepted, min_severity)])
        case "sarif":
            from ...render.rule_places import rule_places
            from ...render.sarif import sarif

            places = rule_places(packs, out, result.summary)
            chunks = sarif(result.summary, lambda: read_verdicts(out / VERDICTS), places, min_severity)
        case _:
            from ...render.table import print_table

            print_table(result, out)
            return
    for chunk in chunks:
        click.echo(chunk)


@contextmanager
def _progress_bar() -> Generator[OnProgress]:
    """Show a progress bar on standard error if that is a terminal and `--quiet` is not given."""
    if quiet() or not sys.stderr.isatty():
        yield lambda _what, _done, _of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, no_color=colors() is False)
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def update(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield update
