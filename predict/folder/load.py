"""Loading a chain from its folder; this module reads the three files and nothing else."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import orjson
import polars as pl

from ..error import PredictError
from .checks import content_problem, rule_problem, table_problem
from .learned_chain import LearnedChain, RuleChain, chain_rule
from .tables import CHAIN, COUNTS, RISK, SCHEMA

_HINT = "name a folder that `tracline predict learn` of this release wrote"


def load_chain(path: str | Path) -> LearnedChain:
    """Load a chain.

    Raises PredictError: TRL801 for a folder that is no chain of this release, TRL802 where a table is missing
    or is not the one that `chain.json` describes.
    """
    folder = Path(path)
    where = str(folder / CHAIN)
    try:
        text = (folder / CHAIN).read_bytes()
        loaded: object = orjson.loads(text)
    except (OSError, orjson.JSONDecodeError):
        raise PredictError("TRL801", str(folder), "not a chain", _HINT) from None
    if not isinstance(loaded, dict) or cast("dict[str, Any]", loaded).get("schema") != SCHEMA:
        raise PredictError("TRL801", where, f"not a chain of the version `{SCHEMA}`", _HINT)
    content = cast("dict[str, Any]", loaded)
    if (problem := content_problem(content)) is not None:
        raise PredictError("TRL801", where, problem, _HINT)
    counts, risks = (_table(folder / name, content["files"][name]) for name in (COUNTS, RISK))
    rules: dict[tuple[str, str], RuleChain] = {}
    for each in content["rules"]:
        of_rule = (pl.col("pack") == each["pack"]) & (pl.col("rule") == each["rule"])
        found = counts.filter(of_rule), risks.filter(of_rule)
        if (problem := rule_problem(each, *found)) is not None:
            raise _damaged(folder, f"{each['pack']}/{each['rule']}: {problem}")
        rules[each["pack"], each["rule"]] = chain_rule(each, *found)
    return LearnedChain(where, sha256(text).hexdigest(), content, rules)


def _table(path: Path, digest: str) -> pl.DataFrame:
    """Read a table. Raises PredictError (TRL802) where it is not the one with this digest, or is none."""
    try:
        found = path.read_bytes()
    except OSError:
        found = b""
    if sha256(found).hexdigest() != digest:
        raise _damaged(path, "does not match chain.json")
    try:
        table = pl.read_parquet(found)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise _damaged(path, "not Parquet") from None
    if (problem := table_problem(path.name, table)) is not None:
        raise _damaged(path, problem)
    return table


def _damaged(path: Path, what: str) -> PredictError:
    return PredictError("TRL802", str(path), what, "restore the folder, or learn the chain again")
