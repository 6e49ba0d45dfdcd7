"""`tracline reveal`: single values of a redacted bundle with the keys that show them, and their check."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ...archive.error import SourceError
from ...rules.model.problem import counted
from ..verification.attested import AttestedBundle, read_attested
from ..verification.checks import BundleCheck, failed, passed
from .files import walk
from .redactor import Redactor, ReplacedValue
from .secret import PREFIX, RedactionSecret, replacement


class Revelation(msgspec.Struct, frozen=True):
    """A value of a redacted bundle, and the key `s` by which anyone can compute its replacement."""

    field: str
    value: str
    s: str
    replacement: str


def reveal(redacted: Path, original: Path | None, secret: RedactionSecret, event_id: str) -> list[Revelation]:
    """Return the id of an event of a redacted bundle, and with the original bundle its text.

    `event_id` is the original id, or with the original bundle also its replacement. Raises SourceError
    (TRL464) if the redacted bundle does not have the event.
    """
    bundle = read_attested(redacted)
    present = replacements(bundle)
    values = {ReplacedValue("event_id", event_id, None, secret.replacement("event_id", event_id))}
    if original is not None:
        values |= {
            each
            for each in _values(original, secret)
            if event_id in (each.event_id, each.value) or each.replacement == event_id
        }
        ids = {each.value for each in values if each.field == "event_id"}
        values |= {each for each in _values(original, secret) if each.event_id in ids}
    found = [each for each in values if (each.field, each.replacement) in present]
    if not found:
        hint = "give the original id of an event, or --original with the bundle before its redaction"
        raise SourceError("TRL464", str(redacted), "does not have this event with this secret", hint)
    return sorted((_revelation(each, secret) for each in found), key=lambda each: (each.field, each.value))


def _values(original: Path, secret: RedactionSecret) -> set[ReplacedValue]:
    """Return the event ids and texts of a bundle, with their replacements."""
    found = set[ReplacedValue]()

    def add(value: ReplacedValue) -> None:
        if value.field in ("event_id", "text"):
            found.add(value)

    walk(original, Redactor(secret, sessions=False, on_replaced=add))
    return found


def _revelation(value: ReplacedValue, secret: RedactionSecret) -> Revelation:
    key = secret.key(value.field, value.value, value.event_id)
    return Revelation(value.field, value.value, key.hex(), value.replacement)


def replacements(bundle: AttestedBundle) -> set[tuple[str, str]]:
    """Return the replaced values in a redacted bundle, each with its field."""
    found = set[tuple[str, str]]()

    def add(value: ReplacedValue) -> None:
        if value.value.startswith(PREFIX):
            found.add((value.field, value.value))

    walk(bundle.folder, Redactor(RedactionSecret(b""), sessions=True, on_replaced=add))
    return found


def reveal_check(bundle: AttestedBundle, revealed: Iterable[bytes]) -> BundleCheck:
    """Check that the replacements in a bundle stand for the values of revelations, a line each."""
    if not bundle.is_redacted:
        return failed("reveal", "TRL464", "the bundle is not redacted")
    present, count = replacements(bundle), 0
    for count, line in enumerate(revealed, start=1):
        each = msgspec.json.decode(line, type=Revelation)
        if replacement(bytes.fromhex(each.s), each.value) != each.replacement:
            return failed("reveal", "TRL464", f"the value in line {count} does not give its replacement")
        if (each.field, each.replacement) not in present:
            return failed("reveal", "TRL464", f"the replacement in line {count} is not in the bundle")
    return passed("reveal", f"{counted(count, 'revealed value')} of the bundle")
