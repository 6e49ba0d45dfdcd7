"""`tracline import`: chat logs and span dumps to an archive of event Parquet."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...options import Command, format_option, note, out_option
from ...source import (
    allow_empty_option,
    allow_rejected_option,
    report_empty,
    report_rejected,
    report_unread,
    timezone_option,
)
from ...terminal import clean

if TYPE_CHECKING:
    from ....batch.importing.run import ImportResult


@click.command("import", cls=Command)
@click.argument("source")
@out_option("ARCHIVE", "The archive's folder, made where it is not there.")
@timezone_option()
@allow_rejected_option()
@allow_empty_option()
@format_option("table", "json")
def command(
    source: str, out: Path, timezone: str, allow_rejected: int, allow_empty: bool, format: str
) -> None:
    """Turn chat logs and OpenTelemetry span dumps into an archive of event Parquet.

    SOURCE is a file, a folder or a quoted glob. Chat logs are OpenAI-style message lists: JSON arrays, JSON
    lines, objects with `messages` or `traj`, or tau2 results; each conversation is complete and gets an
    `end`. Span dumps are OTLP as the collector's file exporter writes it (JSON lines, or requests behind
    their lengths), single requests, or what SDKs dump as JSON; their sessions are put together when the
    archive is judged. Gzip and zstd are looked through. Importing the same source again changes nothing.
    """
    from ....batch.importing.run import import_source
    from ...settings import session_settings

    scope = session_settings().scope
    imported = import_source(source, out, timezone, scope, lambda name: note(f"importing {clean(name)}"))
    told = summary(imported)
    click.echo(json.dumps(told, indent=2) if format == "json" else _table(told, out))
    population = imported.population
    records = population.log_records
    rows = population.rows + records.content + records.unlinked
    report_empty(rows + population.rejected.total() + len(imported.known), source)
    code = report_unread(population.census, population.events.total(), source, allow_empty=allow_empty)
    report_rejected(population.rejects, told["rejected"]["codes"], source, allow_rejected)
    click.get_current_context().exit(code)


def summary(imported: ImportResult) -> dict[str, Any]:
    """Return what an import did, as plain data."""
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


def _table(told: dict[str, Any], out: Path) -> str:
    lines = [f"{told['sessions']:>10,} sessions"]
    lines += [f"{count:>10,} {kind}" for kind, count in told["events"].items()]
    lines += [
        f"{count:>10,} {what}"
        for what, count in (
            ("spans, whose sessions are put together when they are judged", told["spans"]),
            ("spans whose parent never came", told["gaps"]),
            ("log records with content of spans", told["log_records"]["content"]),
            ("of these without a span in the source that they add to", told["log_records"]["unjoined"]),
            ("log records with content that name no span", told["log_records"]["unlinked"]),
            ("other log records, passed over", told["log_records"]["passed_over"]),
            ("resources of metrics, passed over", told["metrics"]),
            ("system and developer messages, which are no events", told["instructions"]),
            ("conversations met before", told["duplicates"]),
            ("sessions renamed: their id and time were taken", told["renamed"]),
            ("conversations without an event", told["empty"]),
            ("files imported before", told["files_known"]),
            ("files skipped: " + clean(", ".join(told["files_skipped"][:5])), len(told["files_skipped"])),
            ("rejected", told["rejected"]["count"]),
        )
        if count
    ]
    return "\n".join([*lines, f"{len(told['written'])} files written to {clean(str(out))}"])
