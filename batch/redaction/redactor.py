"""Replacing the values of a file's fields by their classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...archive.error import SourceError
from .fields import FieldClass, FieldShape
from .secret import RedactionSecret


@dataclass(frozen=True, slots=True)
class ReplacedValue:
    """A value with its replacement; of a text with the event that has it."""

    field: str
    value: str
    event_id: str | None
    replacement: str


@dataclass(frozen=True, slots=True)
class _ValuePlace:
    """The place of a value: the path of its field, and the event and slice of the objects around it."""

    path: str
    event_id: str | None = None
    slice: str | None = None


@dataclass(frozen=True, slots=True)
class Redactor:
    """A redaction in progress. `on_replaced` is called with each replaced value."""

    secret: RedactionSecret
    sessions: bool
    on_replaced: Callable[[ReplacedValue], None] = field(default=lambda _: None)

    def redacted(self, value: Any, shape: FieldShape, name: str) -> Any:
        """Return the content of a file or line; `name` is the file's.

        Raises SourceError (TRL462) for a field without a class.
        """
        return self._redacted(value, shape, _ValuePlace(name))

    def _redacted(self, value: Any, shape: FieldShape, place: _ValuePlace) -> Any:
        if value is None or shape is FieldClass.OPEN:
            return value
        if isinstance(shape, Mapping):
            return self._members(value, shape, place)
        if isinstance(shape, FieldClass):
            return self._replaced(value, shape, place)
        return [self._redacted(each, shape[0], place) for each in value]

    def _members(
        self, value: Mapping[str, Any], shape: Mapping[str, Any], place: _ValuePlace
    ) -> dict[str, Any]:
        """Return an object with redacted members."""
        for name in value.keys() - shape.keys():
            hint = "use the version of tracline that made the bundle, or report the field"
            raise SourceError("TRL462", f"{place.path}.{name}", "is a field of no known class", hint)
        inside = _ValuePlace(
            place.path,
            value.get("event_id") or place.event_id,
            value.get("slice") or place.slice,
        )
        return {
            name: self._redacted(
                each, shape[name], _ValuePlace(f"{place.path}.{name}", inside.event_id, inside.slice)
            )
            for name, each in value.items()
        }

    def _replaced(self, value: Any, kind: FieldClass, place: _ValuePlace) -> Any:
        """Return what replaces the value of a field."""
        match kind:
            case FieldClass.SENTENCE:
                return self._sentence(value, place.slice)
            case FieldClass.CERTIFIED:
                return [[seq, self.replace("event_id", event), *rest] for seq, event, *rest in value]
            case FieldClass.SESSION_ID:
                return self.replace("session_id", value) if self.sessions else value
            case FieldClass.TEXT:
                return self.replace("text", value, place.event_id)
            case _:
                return self.replace(kind.value, value)

    def _sentence(self, sentence: str, slice: str | None) -> str:
        """Return a sentence on a verdict, which begins with the slice if there is one."""
        if slice is None:
            return sentence
        scope = f"For `{slice}`"
        new = f"For `{self.replace('slice', slice)}`"
        return new + sentence.removeprefix(scope) if sentence.startswith(scope) else sentence

    def replace(self, field: str, value: str, event_id: str | None = None) -> str:
        """Return what replaces a value."""
        new = self.secret.replacement(field, value, event_id)
        self.on_replaced(ReplacedValue(field, value, event_id, new))
        return new
