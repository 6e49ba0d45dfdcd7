"""Settings from `tracline.toml`, the environment (`TRACLINE_*`) and flags; the later source wins."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..schemas.settings import SessionSettings
from .error import CommandError, coded_error, command_error, file_error

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ..stream.kafka.settings import KafkaSettings

FILE = "tracline.toml"
PREFIX = "TRACLINE_"
TABLES = ("sessions", "kafka")
"""The names of all tables."""

_NAME = "use letters, digits, full stops, _ and -; 200 at most"
KAFKA_HINTS = {
    "bootstrap_servers": 'use a list of host:port, as in ["kafka-1:9092", "kafka-2:9092"]; in the environment'
    " and on the command line separate them by commas",
    "prefix": _NAME,
    "spans_topic": _NAME,
    "logs_topic": _NAME,
}
"""Hints for the settings of `[kafka]` that are more than a word or a number."""

S = TypeVar("S", bound="DataclassInstance")


@dataclass(frozen=True)
class _Table(Generic[S]):
    """A table of the file: its name, the dataclass of its settings, and hints for invalid values.

    `hints` are for single settings, `hint` is for all others.
    """

    name: str
    kind: type[S]
    hint: str
    hints: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the settings."""
        return tuple(setting.name for setting in fields(self.kind))

    @property
    def lists(self) -> frozenset[str]:
        """Return the names of list settings, which the environment and flags separate by commas."""
        return frozenset(item.name for item in fields(self.kind) if str(item.type).startswith("tuple"))


def session_settings(flags: Mapping[str, object] | None = None) -> SessionSettings:
    """Return the `[sessions]` settings.

    They come from `tracline.toml` in the working directory (or the file that `TRACLINE_CONFIG` names), from
    `TRACLINE_SESSIONS_IDLE_S` and similar variables (`TRACLINE_SESSIONS_SCOPE` is separated by commas), and
    from `flags`, in which None means not given.

    Raises:
        CommandError: TRL601 (a named file that cannot be read), TRL610, TRL611, TRL612.
    """
    hint = "seconds are numbers of at least 0; scope is a list of resource attributes; sessions is a table"
    return _merged(_Table("sessions", SessionSettings, hint), flags or {})


def kafka_settings(flags: Mapping[str, object] | None = None) -> KafkaSettings:
    """Return the `[kafka]` settings, from the same sources as `session_settings`.

    Raises:
        CommandError: TRL601, TRL610, TRL611, TRL612 as there, and TRL721 if settings contradict each other.
    """
    from ..stream.error import StreamError
    from ..stream.kafka.settings import KafkaSettings, check

    table = _Table("kafka", KafkaSettings, "docs/kafka.md describes the settings", KAFKA_HINTS)
    settings = _merged(table, flags or {})
    try:
        check(settings)
    except StreamError as error:
        raise coded_error(error.code, "[kafka]", str(error), error.hint) from None
    return settings


def _merged(table: _Table[S], flags: Mapping[str, object]) -> S:
    """Merge all sources. Each is validated separately, so that an error names its source."""
    adapter = TypeAdapter(table.kind)
    merged: dict[str, Any] = {}
    for where, values in _sources(table, flags):
        try:
            checked = adapter.validate_python(values)
        except ValidationError as error:
            raise _invalid(error.errors(include_url=False)[0], where, table) from None
        merged |= {key: getattr(checked, key) for key in values}
    return table.kind(**merged)


def _sources(table: _Table[Any], flags: Mapping[str, object]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the name and the values of each source, the weakest first."""
    named = os.environ.get("TRACLINE_CONFIG")
    file = Path(named or FILE)
    in_file: Mapping[str, Any] = _tables(file).get(table.name, {}) if named or file.is_file() else {}
    prefix = f"{PREFIX}{table.name.upper()}_"
    in_environment: dict[str, Any] = {
        name.removeprefix(prefix).lower(): value
        for name, value in os.environ.items()
        if name.startswith(prefix)
    }
    given = {key: value for key, value in flags.items() if value is not None}
    for source in (in_environment, given):
        for key in table.lists & set(source):
            if isinstance(text := source[key], str):
                source[key] = [part.strip() for part in text.split(",")]
    return [(str(file), in_file), ("the environment", in_environment), ("the command line", given)]


def _tables(file: Path) -> Mapping[str, Any]:
    """Return the tables of the file."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise file_error(error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = "write tables and keys as in: [sessions] on one line, idle_s = 3600 on the next"
        raise command_error("TRL610", str(file), str(error), hint) from error
    if unknown := sorted(set(document) - set(TABLES)):
        hint = f"the tables are {', '.join(f'[{name}]' for name in TABLES)}"
        raise command_error("TRL611", str(file), f"unknown table or setting `{unknown[0]}`", hint)
    return document


def _invalid(fault: Any, where: str, table: _Table[Any]) -> CommandError:
    """Return the error for a fault that pydantic found in one source's table."""
    key = str(fault["loc"][0]) if fault["loc"] else table.name
    if fault["type"] == "unexpected_keyword_argument":
        near = get_close_matches(key, table.keys, n=1) or table.keys
        hint = f"did you mean `{near[0]}`?" if len(near) == 1 else f"known settings: {', '.join(near)}"
        return command_error("TRL611", where, f"unknown setting `{key}` in [{table.name}]", hint)
    hint = table.hints.get(key, table.hint)
    if key in table.hints:
        # pydantic would show its pattern.
        return command_error("TRL612", where, f"invalid value of `{key}`", hint)
    what = f"invalid value of `{key}`: {fault['msg'][:1].lower()}{fault['msg'][1:]}"
    return command_error("TRL612", where, what, hint)
