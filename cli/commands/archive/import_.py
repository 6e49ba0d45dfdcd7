"""`tracline import`: chat logs and span dumps to an archive of event Parquet."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...options import Command, format_option, note, out_option
from ...rejected import report_rejected
from ...source import (
    allow_empty_option,
    allow_rejected_option,
    chat_options,
    chat_reading,
    sources_argument,
    timezone_option,
)
from ...terminal import clean
from ...unread import report_empty, report_unread

if TYPE_CHECKING:
    from ....batch.importing.run import ImportResult


@click.command("import", cls=Command)
@sources_argument("source", "SOURCE")
@out_option("ARCHIVE", "The archive's folder, created if necessary.")
@timezone_option()
@chat_options()
@allow_rejected_option()
@allow_empty_option()
@format_option("table", "json")
def command(
    source: tuple[str, ...], out: Path, timezone: str, allow_rejected: int, allow_empty: bool, format: str
) -> None:
    """Convert chat logs and OpenTelemetry span dumps to an archive of event Parquet.

    SOURCE is a file, a folder or a quoted glob, plain or compressed with gzip or zstd. Chat logs are
    OpenAI-style message lists: JSON arrays, JSON lines, objects with `messages` or `traj`, or tau2 results;
    each conversation is complete and gets an `end`. Span dumps are OTLP from the collector's file exporter
    (JSON lines, or length-delimited requests), single requests, or JSON dumps of SDKs; an audit assembles
    their sessions. Several sources are read as one. Importing the same source again changes nothing.
    """
    from ....batch.importing.run import import_source
    from ...settings import session_settings

    scope = session_settings().scope
    imported = import_source(
        source, out, timezone, scope, lambda name: note(f"importing {clean(name)}"), chat_reading()
    )
    result = summary(imported)
    click.echo(json.dumps(result, indent=2) if format == "json" else _table(result, out))
    population = imported.population
    records = population.log_records
    rows = population.rows + records.content + records.unlinked
    report_empty(rows + population.rejected.total() + len(imported.known), source)
    code = report_unread(population.census, population.events.total(), source, allow_empty=allow_empty)
    report_rejected(population.rejects, result["rejected"]["codes"], source, allow_rejected)
    click.get_current_context().exit(code)


def summary(imported: ImportResult) -> dict[str, Any]:
    """Return the result of an import as plain data."""
    population = imported.population
    return {
        "files": population.files,
        "files_known": len(imported.known),
        "files_skipped": population.skipped,
        "messages": population.rows - imported.spans,
        "spans": imported.spans,
        "spans_read": population.census.read.total(),
        "scopes": population.census.as_json(),
        "instructions": population.instructions,
        "sessions": population.sessions,
        "events": {
            kind: population.events[kind] for kind in ("user", "assistant", "tool_call", "tool_result")
        },
        "duplicates": population.duplicates,
        "renamed": population.renamed,
        "gaps": population.gaps,
        "log_records": asdict(population.log_records),
        "metrics": population.metrics,
        "empty": population.empty,
        "written": [entry.file for entry in imported.written],
        "rejected": {
            "count": population.rejected.total(),
            "codes": dict(sorted(population.rejected.items())),
            "first": [
                {"file": reject.file, "position": reject.position, "code": reject.code, "text": reject.text}
                for reject in population.rejects
            ],
        },
    }


def _table(result: dict[str, Any], out: Path) -> str:
    lines = [f"{result['sessions']:>10,} sessions"]
    lines += [f"{count:>10,} {kind}" for kind, count in result["events"].items()]
    records, skipped = result["log_records"], result["files_skipped"]
    lines += [
        f"{count:>10,} {what}"
        for what, count in (
            ("spans; an audit assembles their sessions", result["spans"]),
            ("spans whose parent is missing", result["gaps"]),
            ("log records with content of spans", records["content"]),
            ("of these, log records whose span is not in the source", records["unjoined"]),
            ("log records with content and no span id", records["unlinked"]),
            ("other log records, ignored", records["passed_over"]),
            ("metric resources, ignored", result["metrics"]),
            ("system and developer messages, which are not events", result["instructions"]),
            ("duplicate conversations", result["duplicates"]),
            ("sessions renamed: another session has their id and time", result["renamed"]),
            ("conversations without an event", result["empty"]),
            ("files imported before", result["files_known"]),
            ("files skipped: " + clean(", ".join(skipped[:5])), len(skipped)),
            ("rejected", result["rejected"]["count"]),
        )
        if count
    ]
    return "\n".join([*lines, f"{len(result['written'])} files written to {clean(str(out))}"])
