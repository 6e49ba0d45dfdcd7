"""Settings from `tracline.toml`, then the environment, then flags: what comes later wins."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..schemas.settings import SessionSettings
from .error import WorldError, file_error, world_error

FILE = "tracline.toml"
PREFIX = "TRACLINE_SESSIONS_"
SETTINGS = TypeAdapter(SessionSettings)
KEYS = tuple(field.name for field in fields(SessionSettings))


def session_settings(flags: Mapping[str, object] | None = None) -> SessionSettings:
    """The `[sessions]` settings in force.

    They come from `tracline.toml` in the working directory (or the file that `TRACLINE_CONFIG` names), from
    `TRACLINE_SESSIONS_IDLE_S` and its like (`TRACLINE_SESSIONS_SCOPE` is divided at commas), and from
    `flags`, in which None means not given.

    Raises:
        WorldError: TRL601 (a named file that cannot be read), TRL610, TRL611, TRL612.
    """
    given: dict[str, Any] = {}
    for where, table in _sources(flags or {}):
        try:
            checked = SETTINGS.validate_python(table)
        except ValidationError as error:
            raise _unusable(error.errors(include_url=False)[0], where) from None
        given |= {key: getattr(checked, key) for key in table}
    return SessionSettings(**given)


def _sources(flags: Mapping[str, object]) -> list[tuple[str, Mapping[str, Any]]]:
    """Each source's name and what it says of `[sessions]`, the weakest first."""
    named = os.environ.get("TRACLINE_CONFIG")
    file = Path(named or FILE)
    table: Mapping[str, Any] = _table(file) if named or file.is_file() else {}
    said: dict[str, Any] = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(PREFIX)
    }
    if "scope" in said:
        said["scope"] = said["scope"].split(",")
    told = {key: value for key, value in flags.items() if value is not None}
    return [(str(file), table), ("the environment", said), ("the command line", told)]


def _table(file: Path) -> Mapping[str, Any]:
    """The `[sessions]` table of the file."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise file_error(error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = "write tables and keys as in: [sessions] on one line, idle_s = 3600 on the next"
        raise world_error("TRL610", str(file), str(error), hint) from error
    if strange := sorted(set(document) - {"sessions"}):
        hint = "the one table there is is [sessions]"
        raise world_error("TRL611", str(file), f"there is no table or key {strange[0]!r}", hint)
    return document.get("sessions", {})


def _unusable(fault: Any, where: str) -> WorldError:
    """What pydantic found wrong with one source's table."""
    key = str(fault["loc"][0]) if fault["loc"] else "sessions"
    if fault["type"] == "unexpected_keyword_argument":
        near = get_close_matches(key, KEYS, n=1) or KEYS
        return world_error("TRL611", where, f"[sessions] has no {key!r}", f"known: {', '.join(near)}")
    hint = "seconds are numbers, zero or more; scope is a list of resource attributes; sessions is a table"
    return world_error("TRL612", where, f"{key} cannot be used: {fault['msg'].lower()}", hint)
