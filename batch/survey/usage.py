"""The usage of a source: its tools, its agents and its kinds of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import polars as pl

from ...schemas.event import Kind
from ..contents.facts import ERROR_TEXT
from ..contents.json_paths import PathCounter, PathUsage
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..prepare.spill import passes
from ..sources.discover import Population, Sources
from ..sources.event_files import reading

CALLS_READ = 200
"""Calls, and results, of each tool per pass whose JSON is read."""


class CallerKind(StrEnum):
    """The kind of a caller: the agent, a sub-agent, or the customer with tools of their own."""

    AGENT = "agent"
    SUB_AGENT = "sub-agent"
    CUSTOMER = "customer"


_Caller: TypeAlias = tuple[str | None, CallerKind]
_CALL, _RESULT = Kind.TOOL_CALL.value, Kind.TOOL_RESULT.value


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """The usage of a tool: calls, results, failed results, sessions, and sessions in which it is first.

    `arguments` are the names of the calls' arguments, the most frequent first, and `paths` the JSON paths of
    arguments and results. `callers` counts the calls by agent (None: unnamed) and kind of caller.
    """

    name: str
    calls: int
    results: int
    failed: int
    sessions: int
    first: int
    arguments: tuple[str, ...]
    paths: tuple[PathUsage, ...]
    callers: Mapping[tuple[str | None, CallerKind], int]


@dataclass(frozen=True, slots=True)
class SourceUsage:
    """The events of a source by kind and by agent (None: unnamed), and its tools, the most called first."""

    events: int
    sessions: int
    kinds: Mapping[str, int]
    agents: Mapping[str | None, int]
    tools: tuple[ToolUsage, ...]
    population: Population


def usage(source: Sources, scratch: Path, options: AuditOptions) -> SourceUsage:
    """Return the usage of a source; `scratch` is an empty folder of the caller.

    Raises SourceError if there is nothing to read.
    """
    population = Population()
    parts = prepare(source, scratch, population, options)
    kinds, agents = Counter[str](), Counter[str | None]()
    callers: dict[str, Counter[_Caller]] = {}
    contents: dict[str, tuple[PathCounter, PathCounter]] = {}
    sessions: list[pl.DataFrame] = []
    tools: list[pl.DataFrame] = []
    for one_pass in passes(parts):
        with reading(one_pass.parts):
            rows = _rows(one_pass.frame).collect(engine="streaming")
            sampled = _sampled(one_pass.frame).collect(engine="streaming")
        kinds.update(dict(rows["kind"].value_counts().iter_rows()))
        agents.update(dict(rows["agent"].value_counts().iter_rows()))
        sessions.append(rows.select(pl.col("session").unique()))
        tools.append(rows.filter(pl.col("tool").is_not_null()).group_by("tool", "session").agg(_counts()))
        for tool, agent, kind, count in _callers(rows).iter_rows():
            callers.setdefault(tool, Counter())[agent, CallerKind(kind)] += count
        for tool, kind, content in sampled.sort("tool", "kind", "content").iter_rows():
            args, result = contents.setdefault(tool, (PathCounter("args"), PathCounter("result")))
            (result if kind == _RESULT else args).add(content)
    found = pl.concat(tools) if tools else pl.DataFrame()
    return SourceUsage(
        events=kinds.total(),
        sessions=pl.concat(sessions)["session"].n_unique() if sessions else 0,
        kinds=dict(sorted(kinds.items())),
        agents=dict(sorted(agents.items(), key=lambda item: (-item[1], item[0] or ""))),
        tools=tuple(_tools(found, contents, callers)) if len(found) else (),
        population=population,
    )


def _rows(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return the events without `end` rows, with the counted columns."""
    result = pl.col("result").str.starts_with(ERROR_TEXT).fill_null(False)
    return events.filter(pl.col("kind") != Kind.END.value).select(
        pl.col("kind").cast(pl.String),
        "agent",
        "tool",
        "seq",
        _caller_kind().alias("caller"),
        pl.struct("session_id", "occurrence").hash(0).alias("session"),
        ((pl.col("kind") == _RESULT) & (pl.col("error").is_not_null() | result)).alias("failed"),
    )


def _caller_kind() -> pl.Expr:
    """Return the kind of an event's caller. Chat logs name the customer as the requestor of a call."""
    is_customer = pl.col("attributes").map.get("requestor") == "user"
    nested = pl.when(is_customer.fill_null(False)).then(pl.lit(CallerKind.CUSTOMER.value))
    kind = pl.when(pl.col("nested")).then(nested.otherwise(pl.lit(CallerKind.SUB_AGENT.value)))
    return kind.otherwise(pl.lit(CallerKind.AGENT.value))


def _counts() -> list[pl.Expr]:
    """Return the expressions that count a tool in a session."""
    is_call = pl.col("kind") == _CALL
    return [
        is_call.sum().alias("calls"),
        (pl.col("kind") == _RESULT).sum().alias("results"),
        pl.col("failed").sum(),
        pl.col("seq").filter(is_call).min().alias("first"),
    ]


def _callers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the number of calls by tool, agent and kind of caller."""
    calls = rows.filter((pl.col("kind") == _CALL) & pl.col("tool").is_not_null())
    return calls.group_by("tool", "agent", "caller").len()


def _sampled(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return the content of some calls and results of each tool, spread over the sessions."""
    content = pl.when(pl.col("kind") == _CALL).then("args").otherwise("result").alias("content")
    place = pl.struct("session_id", "occurrence", "seq").hash(0).alias("place")
    return (
        events.filter(pl.col("kind").is_in([_CALL, _RESULT]) & pl.col("tool").is_not_null())
        .select("tool", pl.col("kind").cast(pl.String), content, place)
        .filter(pl.col("content").is_not_null())
        .group_by("tool", "kind")
        .agg(pl.col("content").bottom_k_by("place", CALLS_READ))
        .explode("content")
    )


def _tools(
    found: pl.DataFrame,
    contents: Mapping[str, tuple[PathCounter, PathCounter]],
    callers: Mapping[str, Counter[_Caller]],
) -> list[ToolUsage]:
    """Return the tools, given their counts in each session, their contents and their callers."""
    by_session = found.group_by("tool", "session").agg(
        pl.col("calls", "results", "failed").sum(), pl.col("first").min()
    )
    earliest = pl.col("first") == pl.col("first").min().over("session")
    counted = by_session.with_columns(earliest.fill_null(False).alias("is_first"))
    summed = counted.group_by("tool").agg(
        pl.col("calls", "results", "failed").sum(), pl.len().alias("sessions"), pl.col("is_first").sum()
    )
    tools: list[ToolUsage] = []
    for name, calls, results, failed, sessions, first in summed.sort(
        ["calls", "tool"], descending=[True, False]
    ).iter_rows():
        args, result = contents.get(name) or (PathCounter("args"), PathCounter("result"))
        tools.append(
            ToolUsage(
                name,
                calls,
                results,
                failed,
                sessions,
                first,
                arguments=tuple(_by_count(args.keys)),
                paths=(*args.paths(), *result.paths()),
                callers=dict(sorted(callers.get(name, Counter[_Caller]()).items(), key=_most_calls)),
            )
        )
    return tools


def _most_calls(caller: tuple[_Caller, int]) -> tuple[int, str, str]:
    """Return a sort key: the callers with the most calls first, then by name."""
    (agent, kind), count = caller
    return -count, agent or "", kind.value


def _by_count(names: Counter[str]) -> list[str]:
    return sorted(names, key=lambda name: (-names[name], name))
