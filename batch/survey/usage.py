"""The usage of a source: its tools, its agents and its kinds of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from ...schemas.event import Kind
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..prepare.spill import passes
from ..sources.discover import Population
from ..sources.event_files import reading

CALLS_READ = 200
"""Calls of each tool per pass whose argument names are read."""

_CALL, _RESULT = Kind.TOOL_CALL.value, Kind.TOOL_RESULT.value


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """The usage of a tool: calls, results, failed results, sessions, and sessions in which it is first.

    `arguments` are the names of the calls' arguments, the most frequent first.
    """

    name: str
    calls: int
    results: int
    failed: int
    sessions: int
    first: int
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceUsage:
    """The events of a source by kind and by agent (None: unnamed), and its tools, the most called first."""

    events: int
    sessions: int
    kinds: Mapping[str, int]
    agents: Mapping[str | None, int]
    tools: tuple[ToolUsage, ...]
    population: Population


def usage(source: str | Path, scratch: Path, options: AuditOptions) -> SourceUsage:
    """Return the usage of a source; `scratch` is an empty folder of the caller.

    Raises SourceError if there is nothing to read.
    """
    population = Population()
    parts = prepare(source, scratch, population, options)
    kinds, agents = Counter[str](), Counter[str | None]()
    arguments: dict[str, Counter[str]] = {}
    sessions: list[pl.DataFrame] = []
    tools: list[pl.DataFrame] = []
    for one_pass in passes(parts):
        with reading(one_pass.parts):
            rows = _rows(one_pass.frame).collect(engine="streaming")
        kinds.update(dict(rows["kind"].value_counts().iter_rows()))
        agents.update(dict(rows["agent"].value_counts().iter_rows()))
        sessions.append(rows.select(pl.col("session").unique()))
        tools.append(rows.filter(pl.col("tool").is_not_null()).group_by("tool", "session").agg(_counts()))
        for tool, args in _sampled(rows).iter_rows():
            arguments.setdefault(tool, Counter()).update(_names(args))
    found = pl.concat(tools) if tools else pl.DataFrame()
    return SourceUsage(
        events=kinds.total(),
        sessions=pl.concat(sessions)["session"].n_unique() if sessions else 0,
        kinds=dict(sorted(kinds.items())),
        agents=dict(sorted(agents.items(), key=lambda item: (-item[1], item[0] or ""))),
        tools=tuple(_tools(found, arguments)) if len(found) else (),
        population=population,
    )


def _rows(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return the events without `end` rows, with the counted columns."""
    result = pl.col("result").str.starts_with("Error").fill_null(False)
    return events.filter(pl.col("kind") != Kind.END.value).select(
        pl.col("kind").cast(pl.String),
        "agent",
        "tool",
        "seq",
        pl.when(pl.col("kind") == _CALL).then("args").alias("args"),
        pl.struct("session_id", "occurrence").hash(0).alias("session"),
        ((pl.col("kind") == _RESULT) & (pl.col("error").is_not_null() | result)).alias("failed"),
    )


def _counts() -> list[pl.Expr]:
    """Return the expressions that count a tool in a session."""
    is_call = pl.col("kind") == _CALL
    return [
        is_call.sum().alias("calls"),
        (pl.col("kind") == _RESULT).sum().alias("results"),
        pl.col("failed").sum(),
        pl.col("seq").filter(is_call).min().alias("first"),
    ]


def _sampled(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the arguments of the first calls of each tool, by session and place."""
    calls = rows.filter(pl.col("tool").is_not_null() & pl.col("args").is_not_null())
    return calls.sort("session", "seq").group_by("tool").head(CALLS_READ).select("tool", "args")


def _names(args: str) -> list[str]:
    """Return the names of a call's arguments."""
    try:
        arguments: Any = orjson.loads(args)
    except orjson.JSONDecodeError:
        return []
    return [str(name) for name in arguments] if isinstance(arguments, dict) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _tools(found: pl.DataFrame, arguments: Mapping[str, Counter[str]]) -> list[ToolUsage]:
    """Return the tools, given their counts in each session."""

    by_session = found.group_by("tool", "session").agg(
        pl.col("calls", "results", "failed").sum(), pl.col("first").min()
    )
    earliest = pl.col("first") == pl.col("first").min().over("session")
    counted = by_session.with_columns(earliest.fill_null(False).alias("is_first"))
    summed = counted.group_by("tool").agg(
        pl.col("calls", "results", "failed").sum(), pl.len().alias("sessions"), pl.col("is_first").sum()
    )
    return [
        ToolUsage(
            name, calls, results, failed, sessions, first, tuple(_by_count(arguments.get(name, Counter())))
        )
        for name, calls, results, failed, sessions, first in summed.sort(
            ["calls", "tool"], descending=[True, False]
        ).iter_rows()
    ]


def _by_count(names: Counter[str]) -> list[str]:
    return sorted(names, key=lambda name: (-names[name], name))
