"""The file of waivers: YAML to waivers, with every mistake at its line and column.

It is `waivers: [...]`. A waiver has `verdict`, the id of a verdict, or `rule`, which is `PACK/ID`, with at
least one of `session`, `agent`, `from` and `to`; and `reason`, `by` and `until`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from ...rules.model.problem import Problem, RuleError, by_location, did_you_mean
from ...rules.packs.yaml.document import (
    Document,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
    read_document,
)
from ...schemas.time import NS, parse_time
from .waiver import Waiver, WaiverFile

DAY = 86_400 * NS
_EPOCH = date(1970, 1, 1)
_DAY_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_VERDICT = re.compile(r"[0-9a-f]{32}\Z")
_REQUIRED = ("reason", "by", "until")
_RESTRICTIONS = ("session", "agent", "from", "to")
_OF_A_VERDICT = ("verdict", *_REQUIRED)
_OF_A_RULE = ("rule", *_RESTRICTIONS, *_REQUIRED)
_SHAPE = "write `waivers:`, and below it a list of waivers, each with `verdict` or `rule`"


def read_waivers(text: bytes, source: str) -> WaiverFile:
    """Read a file of waivers; `source` names it in errors.

    Raises RuleError with all mistakes of the file: a waiver that nobody reads is a finding that nobody sees.
    """
    try:
        document = read_document(text.decode("utf-8"), source)
    except UnicodeDecodeError:
        problem = Problem("TRL202", f"{source} is not UTF-8", "save the file as UTF-8")
        raise RuleError([problem]) from None
    reading = _WaiverReading(document, list(document.problems))
    waivers = tuple(reading.waivers())
    if reading.problems:
        raise RuleError(sorted(reading.problems, key=by_location))
    return WaiverFile(text, waivers)


@dataclass(slots=True)
class _WaiverReading:
    """The reading of one file, and the problems so far."""

    document: Document
    problems: list[Problem] = field(default_factory=list[Problem])

    def waivers(self) -> Iterator[Waiver]:
        """Yield the waivers without a mistake."""
        root = self.document.root
        if not isinstance(root, MappingNode):
            self._report("TRL212", "the file of waivers is no mapping", _SHAPE, root)
            return
        self._check_keys(root, ("waivers",), "the file of waivers")
        entries = root.value("waivers")
        if entries is None:
            self._report("TRL210", "missing field `waivers` in the file of waivers", _SHAPE, root)
        elif not isinstance(entries, SequenceNode):
            self._report("TRL212", "`waivers` is no list", _SHAPE, entries)
        else:
            for place, entry in enumerate(entries.items, start=1):
                count = len(self.problems)
                waiver = self._waiver(entry, place)
                if waiver is not None and len(self.problems) == count:
                    yield waiver

    def _waiver(self, entry: YamlNode, place: int) -> Waiver | None:
        """Return a waiver, or None where it is so incomplete that there is none."""
        if not isinstance(entry, MappingNode):
            self._report("TRL212", f"waiver {place} is no mapping", _SHAPE, entry)
            return None
        is_of_verdict = entry.key("verdict") is not None
        owner = f"waiver {place} of a {'verdict' if is_of_verdict else 'rule'}"
        self._check_keys(entry, _OF_A_VERDICT if is_of_verdict else _OF_A_RULE, owner)
        texts = {key.text: self._text(key, value) for key, value in entry.entries}
        missing = [name for name in _REQUIRED if name not in texts]
        if not is_of_verdict and "rule" not in texts:
            missing.insert(0, "verdict` or `rule")
        for name in missing:
            self._report("TRL210", f"missing field `{name}` in waiver {place}", _SHAPE, entry)
        if not is_of_verdict and texts.keys().isdisjoint(_RESTRICTIONS):
            hint = "add at least one of `session`, `agent`, `from` and `to`: a rule is not waived as a whole"
            self._report("TRL210", f"missing restriction in waiver {place} of a rule", hint, entry)
        if missing or None in texts.values():
            return None
        given = {name: text for name, text in texts.items() if text is not None}
        return Waiver(
            place=place,
            reason=given["reason"],
            by=given["by"],
            until=given["until"],
            expires=self._day(entry, "until", given) + DAY,
            verdict=self._matching(entry, "verdict", given, _VERDICT, "32 hex digits, as in verdicts.jsonl"),
            rule=self._matching(entry, "rule", given, re.compile(r"[^/]+/[^/]+\Z"), "`PACK/ID`"),
            session=given.get("session"),
            agent=given.get("agent"),
            **self._window(entry, given),
        )

    def _window(self, entry: MappingNode, given: dict[str, str]) -> dict[str, int | None]:
        """Return the times of `from` and `to`; both are inclusive, a day of `to` to its end."""
        begin = self._time(entry, "from", given)
        end = self._time(entry, "to", given)
        if end is not None:
            end += DAY if _DAY_TEXT.match(given["to"]) else 1
        if begin is not None and end is not None and end <= begin:
            self._report("TRL212", "`to` is before `from`", "exchange the two", entry.value("to") or entry)
        return {"begin": begin, "end": end}

    def _text(self, key: ScalarNode, value: YamlNode) -> str | None:
        """Return the text of a field; report anything else."""
        if (
            isinstance(value, ScalarNode)
            and value.text.strip()
            and (value.style or value.text not in ("~", "null"))
        ):
            return value.text
        self._report("TRL212", f"`{key.text}` is no text", "write text", key)
        return None

    def _day(self, entry: MappingNode, name: str, given: dict[str, str]) -> int:
        """Return the begin of a day; report another text."""
        try:
            if _DAY_TEXT.match(given[name]):
                # A year such as 9999 is beyond 64 bits of nanoseconds, but not beyond Python's integers.
                return (date.fromisoformat(given[name]) - _EPOCH).days * DAY
        except ValueError:
            pass
        message = f"`{name}` is no day: `{given[name]}`"
        self._report("TRL212", message, "write a day such as 2026-12-31", entry.value(name) or entry)
        return 0

    def _time(self, entry: MappingNode, name: str, given: dict[str, str]) -> int | None:
        """Return a time or the begin of a day, None where the field is missing; report another text."""
        if name not in given:
            return None
        if _DAY_TEXT.match(given[name]):
            return self._day(entry, name, given)
        time = parse_time(given[name])
        if time is None:
            hint = "write a day such as 2026-12-31, or a time such as 2026-12-31T08:00:00Z"
            message = f"`{name}` is no time: `{given[name]}`"
            self._report("TRL212", message, hint, entry.value(name) or entry)
        return time

    def _matching(
        self, entry: MappingNode, name: str, given: dict[str, str], pattern: re.Pattern[str], shape: str
    ) -> str | None:
        """Return the text of a field, None where it is missing; report one of another shape."""
        text = given.get(name)
        if text is not None and not pattern.match(text):
            message = f"invalid `{name}`: `{text}`"
            self._report("TRL212", message, f"write {shape}", entry.value(name) or entry)
        return text

    def _check_keys(self, node: MappingNode, known: Sequence[str], owner: str) -> None:
        """Report the keys that a mapping does not have."""
        for key, _ in node.entries:
            if key.text not in known:
                message = f"unknown field `{key.text}` in {owner}"
                self._report("TRL211", message, did_you_mean(key.text, known), key)

    def _report(self, code: str, message: str, hint: str, node: YamlNode) -> None:
        if isinstance(node, MappingNode) and node.entries:
            node = node.entries[0][0]
        self.problems.append(Problem(code, message, hint, self.document.location(node)))
