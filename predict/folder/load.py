"""Loading a chain from its folder; this module reads the three files and nothing else."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import orjson
import polars as pl

from ..error import PredictError
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
    tables = {name: _table(folder / name, content["files"][name]) for name in (COUNTS, RISK)}
    counts = tables[COUNTS].partition_by("pack", "rule", as_dict=True)
    risks = tables[RISK].partition_by("pack", "rule", as_dict=True)
    rules: dict[tuple[str, str], RuleChain] = {
        (each["pack"], each["rule"]): chain_rule(
            each, counts.get((each["pack"], each["rule"])), risks[each["pack"], each["rule"]]
        )
        for each in content["rules"]
    }
    return LearnedChain(where, sha256(text).hexdigest(), content, rules)


def _table(path: Path, digest: str) -> pl.DataFrame:
    """Read a table. Raises PredictError (TRL802) where it is not the one with this digest."""
    try:
        found = path.read_bytes()
    except OSError:
        found = b""
    if sha256(found).hexdigest() != digest:
        hint = "restore the folder, or learn the chain again"
        raise PredictError("TRL802", str(path), "does not match chain.json", hint)
    return pl.read_parquet(found)
