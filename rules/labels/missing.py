"""The column of missing content: the field that an event lacks where its content was not fully captured."""

from __future__ import annotations

from typing import Any

import polars as pl

from ...schemas.dialects.names.opentelemetry_1_41 import SCOPE_NAME
from ...schemas.event import Content, Event, Kind
from ...schemas.instrumentations.missing import Missing

MISSING = "missing"
"""The column's name: a struct of `content`, `field` and `scope`, null where everything was captured."""
MISSING_TYPE = pl.Struct({"content": pl.String, "field": pl.String, "scope": pl.String})
FIELDS = ("kind", "content", "tool", "args", "result", "attributes")
"""The event columns that it is computed from."""

NOTHING = pl.lit(None, MISSING_TYPE).alias(MISSING)
"""The column of rows whose content was captured."""
HAS_GAPS = (pl.col("content") != Content.CAPTURED.value).any()
"""An expression that is true if any row has missing content."""


def missing_column() -> pl.Expr:
    """Return the expression of the column, for rows with `FIELDS`."""
    kind, content, tool = pl.col("kind"), pl.col("content"), pl.col("tool")
    call = _named(tool.is_null(), pl.col("args").is_null(), "arguments")
    result = _named(tool.is_null(), pl.col("result").is_null(), "result")
    has_result = tool.is_not_null() & pl.col("result").is_not_null()
    field = (
        pl.when(kind == Kind.TOOL_CALL.value)
        .then(call)
        .when(kind == Kind.TOOL_RESULT.value)
        .then(pl.when(has_result & pl.col("args").is_null()).then(pl.lit("arguments")).otherwise(result))
        .when(kind == Kind.UNKNOWN.value)
        .then(pl.lit("messages"))
        .otherwise(pl.lit("message text"))
    )
    scope: Any = pl.col("attributes").map.get(SCOPE_NAME)
    value = pl.struct(content.cast(pl.String).alias("content"), field.alias("field"), scope.alias("scope"))
    is_missing = (content != Content.CAPTURED.value) & (kind != Kind.END.value)
    return pl.when(is_missing).then(value).otherwise(pl.lit(None, MISSING_TYPE)).alias(MISSING)


def _named(tool_is_null: pl.Expr, content_is_null: pl.Expr, content: str) -> pl.Expr:
    """Return the name of what a call or a result lacks: the tool name, the `content`, or both."""
    return (
        pl.when(tool_is_null & content_is_null)
        .then(pl.lit(f"tool name and {content}"))
        .when(tool_is_null)
        .then(pl.lit("tool name"))
        .otherwise(pl.lit(content))
    )


def missing_in(event: Event) -> dict[str, Any] | None:
    """Return the value of the column for one event: a Polars expression costs 2 ms, whatever the rows."""
    if event.content is Content.CAPTURED or event.kind is Kind.END:
        return None
    tool_is_null, args_are_null = event.tool is None, event.args is None
    match event.kind:
        case Kind.TOOL_CALL:
            field = _name_of(tool_is_null, args_are_null, "arguments")
        case Kind.TOOL_RESULT if args_are_null and not tool_is_null and event.result is not None:
            field = "arguments"
        case Kind.TOOL_RESULT:
            field = _name_of(tool_is_null, event.result is None, "result")
        case Kind.UNKNOWN:
            field = "messages"
        case _:
            field = "message text"
    return {"content": event.content.value, "field": field, "scope": event.attributes.get(SCOPE_NAME)}


def _name_of(tool_is_null: bool, content_is_null: bool, content: str) -> str:
    """Return the name of what a call or a result lacks, as `_named`."""
    if not tool_is_null:
        return content
    return f"tool name and {content}" if content_is_null else "tool name"


def missing_of(value: dict[str, Any] | None) -> Missing | None:
    """Return a value of the column as a `Missing`."""
    if value is None:
        return None
    return Missing(Content(value["content"]), value["field"], value["scope"])
