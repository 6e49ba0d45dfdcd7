"""Settings from `tracline.toml`, then the environment (`TRACLINE_*`), then flags: what comes later wins."""

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
"""The tables there are."""

_NAME = "letters, digits, full stops, _ and -; 200 at most"
KAFKA_HINTS = {
    "bootstrap_servers": 'it is a list of host:port, as ["kafka-1:9092", "kafka-2:9092"]; in the environment'
    " and on the command line they are divided at commas",
    "prefix": _NAME,
    "spans_topic": _NAME,
    "logs_topic": _NAME,
}
"""What to write instead, of the settings of `[kafka]` that are more than a word or a number."""

S = TypeVar("S", bound="DataclassInstance")


@dataclass(frozen=True)
class _Table(Generic[S]):
    """A table of the file: its name, the dataclass of its settings, what to say of a value it cannot use.

    `hints` are of single settings, `hint` of all others.
    """

    name: str
    kind: type[S]
    hint: str
    hints: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def keys(self) -> tuple[str, ...]:
        """The settings there are."""
        return tuple(one.name for one in fields(self.kind))

    @property
    def lists(self) -> frozenset[str]:
        """The settings that are lists, which the environment and flags divide at commas."""
        return frozenset(one.name for one in fields(self.kind) if str(one.type).startswith("tuple"))


def session_settings(flags: Mapping[str, object] | None = None) -> SessionSettings:
    """The `[sessions]` settings in force.

    They come from `tracline.toml` in the working directory (or the file that `TRACLINE_CONFIG` names), from
    `TRACLINE_SESSIONS_IDLE_S` and its like (`TRACLINE_SESSIONS_SCOPE` is divided at commas), and from
    `flags`, in which None means not given.

    Raises:
        CommandError: TRL601 (a named file that cannot be read), TRL610, TRL611, TRL612.
    """
    hint = "seconds are numbers, zero or more; scope is a list of resource attributes; sessions is a table"
    return _in_force(_Table("sessions", SessionSettings, hint), flags or {})


def kafka_settings(flags: Mapping[str, object] | None = None) -> KafkaSettings:
    """The `[kafka]` settings in force, from where `session_settings` says; they do not contradict each other.

    Raises:
        CommandError: TRL601, TRL610, TRL611, TRL612 as there, and TRL721 for a contradiction.
    """
    from ..stream.error import StreamError
    from ..stream.kafka.settings import KafkaSettings, check

    table = _Table("kafka", KafkaSettings, "docs/kafka.md says what each setting may be", KAFKA_HINTS)
    settings = _in_force(table, flags or {})
    try:
        check(settings)
    except StreamError as error:
        raise coded_error(error.code, "[kafka]", str(error), error.hint) from None
    return settings


def _in_force(table: _Table[S], flags: Mapping[str, object]) -> S:
    """Return what all sources say together, each of them checked by itself so that the error names it."""
    adapter = TypeAdapter(table.kind)
    given: dict[str, Any] = {}
    for where, said in _sources(table, flags):
        try:
            checked = adapter.validate_python(said)
        except ValidationError as error:
            raise _unusable(error.errors(include_url=False)[0], where, table) from None
        given |= {key: getattr(checked, key) for key in said}
    return table.kind(**given)


def _sources(table: _Table[Any], flags: Mapping[str, object]) -> list[tuple[str, Mapping[str, Any]]]:
    """Each source's name and what it says of the table, the weakest first."""
    named = os.environ.get("TRACLINE_CONFIG")
    file = Path(named or FILE)
    written: Mapping[str, Any] = _written(file).get(table.name, {}) if named or file.is_file() else {}
    prefix = f"{PREFIX}{table.name.upper()}_"
    said: dict[str, Any] = {
        name.removeprefix(prefix).lower(): value
        for name, value in os.environ.items()
        if name.startswith(prefix)
    }
    told = {key: value for key, value in flags.items() if value is not None}
    for source in (said, told):
        for key in table.lists & set(source):
            if isinstance(text := source[key], str):
                source[key] = [part.strip() for part in text.split(",")]
    return [(str(file), written), ("the environment", said), ("the command line", told)]


def _written(file: Path) -> Mapping[str, Any]:
    """The tables of the file."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise file_error(error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = "write tables and keys as in: [sessions] on one line, idle_s = 3600 on the next"
        raise command_error("TRL610", str(file), str(error), hint) from error
    if strange := sorted(set(document) - set(TABLES)):
        hint = f"the tables are {', '.join(f'[{name}]' for name in TABLES)}"
        raise command_error("TRL611", str(file), f"there is no table or key {strange[0]!r}", hint)
    return document


def _unusable(fault: Any, where: str, table: _Table[Any]) -> CommandError:
    """Return what pydantic found wrong with one source's table."""
    key = str(fault["loc"][0]) if fault["loc"] else table.name
    if fault["type"] == "unexpected_keyword_argument":
        near = get_close_matches(key, table.keys, n=1) or table.keys
        return command_error("TRL611", where, f"[{table.name}] has no {key!r}", f"known: {', '.join(near)}")
    hint = table.hints.get(key, table.hint)
    if key in table.hints:
        # pydantic would show its pattern.
        return command_error("TRL612", where, f"{key} cannot be used", hint)
    what = f"{key} cannot be used: {fault['msg'][:1].lower()}{fault['msg'][1:]}"
    return command_error("TRL612", where, what, hint)
