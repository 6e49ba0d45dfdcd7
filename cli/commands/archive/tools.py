"""`tracline tools`: the tools of a source, with the arguments and results that rules can name."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...options import Command, format_option
from ...rejected import report_rejected
from ...source import allow_rejected_option, audit_options, chat_options, sources_argument, timezone_option
from ...terminal import clean, plain_console

if TYPE_CHECKING:
    from rich.text import Text

    from ....batch.contents.json_paths import PathUsage
    from ....batch.survey.usage import CallerKind, SourceUsage, ToolUsage

NAME_WIDTH = 100
SAMPLE_WIDTH = 40


@click.command("tools", cls=Command)
@sources_argument("source", "SOURCE")
@click.option("--tool", "wanted", metavar="NAME", help="Show only the tools whose name contains this.")
@timezone_option()
@chat_options()
@allow_rejected_option()
@format_option("table", "json")
def command(
    source: tuple[str, ...], wanted: str | None, timezone: str, allow_rejected: int, format: str
) -> None:
    """List the tools of a source: calls, errors, callers, and the paths that rules can name.

    SOURCE is a folder, a file or a quoted glob of event Parquet, chat logs or OpenTelemetry span dumps. Each
    path of a tool's arguments and results has the number of values read there and sample values, from up to
    200 calls and 200 results of the tool. Samples show the content of events.
    """
    from ....batch.survey.usage import usage

    with tempfile.TemporaryDirectory() as scratch:
        found = usage(source, Path(scratch), audit_options(timezone))
    tools = [tool for tool in found.tools if wanted is None or wanted in tool.name]
    if format == "json":
        click.echo(json.dumps([_as_data(tool) for tool in tools], indent=2, ensure_ascii=False))
    else:
        _print(found, tools)
    report_rejected(found.population.rejects, found.population.rejected, source, allow_rejected)


def _as_data(tool: ToolUsage) -> dict[str, Any]:
    """Return the usage of a tool as plain data, with cleaned names and samples."""
    return {
        "tool": clean(tool.name),
        "calls": tool.calls,
        "results": tool.results,
        "errors": tool.failed,
        "sessions": tool.sessions,
        "callers": [
            {
                "agent": None if agent is None else clean(agent),
                "caller": kind.value,
                "nested": kind.value != "agent",
                "calls": count,
            }
            for (agent, kind), count in tool.callers.items()
        ],
        "paths": [
            {
                "path": clean(path.path),
                "values": path.values,
                "samples": [clean(sample) for sample in path.samples],
                **({} if path.keys is None else {"keys": path.keys}),
            }
            for path in tool.paths
        ],
    }


def _print(found: SourceUsage, tools: list[ToolUsage]) -> None:
    """Print each tool with its paths."""
    console = plain_console()
    console.print(f"{len(found.tools):,} tools in {found.events:,} events of {found.sessions:,} sessions")
    for tool in tools:
        console.print()
        for line in _lines(tool):
            console.print(line, no_wrap=True, overflow="ellipsis")


def _lines(tool: ToolUsage) -> Iterator[Text]:
    """Yield the lines of a tool: its counts, its callers and its paths."""
    from rich.text import Text

    errors = f", {tool.failed:,} of {tool.results:,} results are errors" if tool.failed else ""
    counts = f"  {tool.calls:,} calls in {tool.sessions:,} sessions{errors}"
    yield Text.assemble((clean(tool.name, NAME_WIDTH), "bold"), counts)
    if callers := ", ".join(_caller(*caller, count) for caller, count in tool.callers.items()):
        yield Text(f"  called by {callers}", style="dim")
    width = max((len(clean(path.path, NAME_WIDTH)) for path in tool.paths), default=0)
    for path in tool.paths:
        keys = "" if path.keys is None else f"({path.keys:,} keys)  "
        yield Text(f"  {clean(path.path, NAME_WIDTH):{width}}  {path.values:>5,}  {keys}{_samples(path)}")


def _caller(agent: str | None, kind: CallerKind, count: int) -> str:
    if kind.value == "customer":
        return f"the customer {count:,}"
    of_kind = "agent" if kind.value == "agent" else "sub-agent"
    if agent is None:
        return f"an unnamed {of_kind} {count:,}"
    return f"{clean(agent, NAME_WIDTH)}{' (sub-agent)' if of_kind == 'sub-agent' else ''} {count:,}"


def _samples(path: PathUsage) -> str:
    """Return the samples of a path on one line."""
    return " | ".join(clean(" ".join(sample.split()), SAMPLE_WIDTH) for sample in path.samples)
