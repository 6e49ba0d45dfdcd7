"""Checks of a chain's files: whatever a folder has, loading it gives a chain or an error.

`chain.json` has the digests of the tables, so its author may have written anything into both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
import polars as pl
from msgspec import Meta, Struct

from ..chain.contexts import END, NODES_MAX, START, UNSEEN
from ..chain.risks import HORIZON_MAX, Basis
from ..estimation.options import ALPHA_MAX
from .tables import COUNTS, RISK

COUNT_MAX = 2**53
"""The greatest count: floats have every whole number up to it."""

_TEXTS = ("pack", "rule", "agent", "symbol", "memory")
_CONTEXT = {**dict.fromkeys(_TEXTS, pl.String), "state": pl.Int32, "residual": pl.String}
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    COUNTS: {**_CONTEXT, "next": pl.String, "count": pl.Int64},
    RISK: {
        **_CONTEXT,
        "within": pl.Int32,
        **dict.fromkeys(("risk", "low", "high"), pl.Float64),
        **dict.fromkeys(("sessions", "violating", "visits"), pl.Int64),
        "basis": pl.String,
    },
}
_KEYS = ["agent", "symbol", "memory", "state"]

_Weight = Annotated[float, Meta(ge=0, le=ALPHA_MAX)]
_Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
_Horizons = list[Annotated[int, Meta(ge=1, le=HORIZON_MAX)] | None]


class _Level(Struct):
    columns: list[Literal["symbol", "state", "row", "memory", "agent"]]
    kappa: _Weight


class _Estimate(Struct):
    alpha: _Weight | None
    history: bool
    impossible: list[tuple[str, str]]
    levels: list[_Level]
    unseen: list[_Level]
    labels: list[_Level]


class _Threshold(Struct):
    within: int | None
    threshold: Annotated[float, Meta(ge=0, le=1)] | None


class _Rule(Struct):
    pack: str
    rule: str
    digest: str
    fingerprint: str
    agents: Annotated[list[str], Meta(min_length=1)]
    symbols: list[str]
    horizons: _Horizons
    estimate: _Estimate
    sessions: _Count
    violating: _Count
    thresholds: list[_Threshold]


class _Chain(Struct):
    """The fields of `chain.json` that its readers use."""

    horizons: _Horizons
    confidence: Annotated[float, Meta(gt=0, lt=1)]
    learned: _Count
    packs: dict[str, str]
    files: dict[str, str]
    rules: list[_Rule]
    by: Literal["agent", "model"] | None = None


def content_problem(content: object) -> str | None:
    """Return what is wrong with the content of `chain.json`, None where nothing is."""
    try:
        chain = msgspec.convert(content, _Chain)
    except msgspec.ValidationError as error:
        return str(error)
    finite = sorted({each for each in chain.horizons if each is not None})
    if not finite or any(each != [*finite, None] for each in (chain.horizons, *_horizons(chain))):
        return "the horizons do not ascend from a number of events to that of ever, the same for all rules"
    if not {COUNTS, RISK} <= chain.files.keys():
        return "a table has no digest"
    if len({(rule.pack, rule.rule) for rule in chain.rules}) < len(chain.rules):
        return "a rule is there twice"
    for rule in chain.rules:
        if any(names != sorted(set(names)) for names in (rule.agents, rule.symbols)):
            return f"agents or symbols of {rule.pack}/{rule.rule} are not distinct and in order"
        if {START, END, UNSEEN} & set(rule.symbols):
            return f"a symbol of {rule.pack}/{rule.rule} has a name that is reserved"
    return None


def _horizons(chain: _Chain) -> Iterator[_Horizons]:
    return (rule.horizons for rule in chain.rules)


def table_problem(name: str, table: pl.DataFrame) -> str | None:
    """Return what is wrong with the columns and values of a table, None where nothing is."""
    if dict(table.schema) != _SCHEMAS[name]:
        return "its columns are not those of this release"
    given = ("agent", "within", "risk", "low", "high") if name == RISK else ()
    checks = [
        ("values are missing", pl.all_horizontal(pl.all().exclude(given).is_not_null())),
        ("a state is below 0", pl.col("state") >= 0),
        ("a row is there twice", ~pl.struct("pack", "rule", *_KEYS, _key(name)).is_duplicated()),
        *(_risk_checks() if name == RISK else _count_checks()),
    ]
    return next(
        (what for what, check in checks if not table.select(check.fill_null(False).all()).item()), None
    )


def _key(name: str) -> str:
    return "within" if name == RISK else "next"


def _count_checks() -> Iterator[tuple[str, pl.Expr]]:
    yield "a count is not a number of transitions", pl.col("count").is_between(1, COUNT_MAX)


def _risk_checks() -> Iterator[tuple[str, pl.Expr]]:
    risk, low, high = map(pl.col, ("risk", "low", "high"))
    is_given = risk.is_between(0, 1) & (low >= 0) & (low <= high) & (high <= 1)
    yield "a risk or interval is none", is_given | (risk.is_null() & low.is_null() & high.is_null())
    violating, sessions, visits = map(pl.col, ("violating", "sessions", "visits"))
    is_nested = (violating >= 0) & (violating <= sessions) & (sessions <= visits) & (visits <= COUNT_MAX)
    yield "numbers of sessions contradict one another", is_nested
    yield "a basis is unknown", pl.col("basis").is_in([each.value for each in Basis])


def rule_problem(content: Mapping[str, Any], counts: pl.DataFrame, risks: pl.DataFrame) -> str | None:
    """Return what is wrong with a rule's rows of the tables, None where nothing is."""
    agents, symbols, horizons = set(content["agents"]), set(content["symbols"]), set(content["horizons"])
    others = {None} if len(agents) > 1 else set[None]()
    for what, column, known in (
        ("an agent", counts["agent"], agents),
        ("an agent", risks["agent"], agents | others),
        ("a symbol", counts["symbol"], symbols | {START}),
        ("a symbol", counts["next"], symbols | {END}),
        ("a symbol", risks["symbol"], symbols | {START, UNSEEN}),
        ("a horizon", risks["within"], horizons),
    ):
        if not known.issuperset(column.unique().to_list()):
            return f"{what} is not in chain.json"
    contexts = risks.select(_KEYS).unique()
    if len(contexts) * len(horizons) != len(risks):
        return "a context has no risk within one of the horizons"
    if len(counts.join(contexts, on=_KEYS, how="anti")):
        return "a context with counts has no risk"
    rows = contexts.select("state", "memory").n_unique()
    if (len(agents) + 1) * (len(symbols) + 2) * rows > NODES_MAX:
        return f"agents, symbols and states together are more than {NODES_MAX:,}"
    impossible = {tuple(pair) for pair in content["estimate"]["impossible"]}
    if impossible.intersection(counts.select("symbol", "next").unique().iter_rows()):
        return "an impossible pair of symbols has a count"
    return None
