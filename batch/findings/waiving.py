"""The waived verdicts of an audit: the lines of `waived.jsonl`, their counts, and the waivers without any.

A waived verdict stays in `verdicts.jsonl`, and the files of verdicts and the summary have the same bytes as
without waivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ...rules.engine.records import RecordKey
from ...schemas.time import parse_time
from ..evidence.canonical_json import canonical_line
from ..waivers.waiver import WAIVABLE, WaivableFields, Waiver, WaiverFile

WAIVERS = "waivers.yaml"
"""The file of waivers as given."""
WAIVED = "waived.jsonl"
"""The waived verdicts, a line each, in the order of `verdicts.jsonl`."""

LINES_MAX = 10_000
"""Lines in memory."""

_FIELDS = msgspec.json.Decoder(WaivableFields)

RuleName = tuple[str, str]
"""The pack and the id of a rule."""


@dataclass(frozen=True, slots=True)
class WaivedCounts:
    """The waived verdicts of each rule, and the sessions all of whose verdicts of a rule are waived.

    Verdicts at `history` events have lines and do not count, as in the summary. `expired` and `unmatched` are
    the waivers that are no longer in force, and those in force that match no verdict.
    """

    verdicts: Mapping[RuleName, int]
    sessions: Mapping[RuleName, int]
    expired: tuple[Waiver, ...]
    unmatched: tuple[Waiver, ...]

    def add_to(self, summary: Mapping[str, Any]) -> None:
        """Add `waived` and `sessions_violating_unwaived` to the rules of a summary."""
        for rule in summary["rules"].values():
            name = rule["pack"], rule["id"]
            rule["waived"] = self.verdicts.get(name, 0)
            rule["sessions_violating_unwaived"] = rule["sessions_violating"] - self.sessions.get(name, 0)


@dataclass(slots=True)
class Waiving:
    """The matching of an audit's verdicts, which come in the order of `verdicts.jsonl`, with waivers.

    `at` is the time at which waivers are in force, in nanoseconds since the epoch, and `work` is the
    folder of the bundle.
    """

    file: WaiverFile
    at: int
    work: Path
    _by_verdict: dict[str, Waiver] = field(init=False)
    _by_rule: dict[str, list[Waiver]] = field(init=False)
    _lines: list[bytes] = field(default_factory=list[bytes])
    _matched: set[int] = field(default_factory=set[int])
    _verdicts: Counter[RuleName] = field(default_factory=Counter[RuleName])
    _sessions: Counter[RuleName] = field(default_factory=Counter[RuleName])
    _place: tuple[str, str] | None = None
    _open: dict[RuleName, bool] = field(default_factory=dict[RuleName, bool])

    def __post_init__(self) -> None:
        self._by_verdict, self._by_rule = {}, {}
        for waiver in self.file.waivers:
            if not waiver.is_in_force(self.at):
                continue
            if waiver.verdict is not None:
                self._by_verdict.setdefault(waiver.verdict, waiver)
            elif waiver.rule is not None:
                self._by_rule.setdefault(waiver.rule, []).append(waiver)

    def waives(self, at: RecordKey, line: bytes) -> bool:
        """Return whether a verdict is waived, and count it; the first waiver that covers it counts."""
        if at.verdict not in WAIVABLE:
            return False
        finding = _FIELDS.decode(line)
        waiver = self._waiver_of(finding)
        self._count(at, finding, is_waived=waiver is not None)
        if waiver is None:
            return False
        self._lines.append(
            canonical_line(
                {
                    "id": finding.id,
                    "waiver": waiver.place,
                    "reason": waiver.reason,
                    "by": waiver.by,
                    "until": waiver.until,
                }
            )
        )
        if len(self._lines) == LINES_MAX:
            self._write_lines()
        return True

    def _waiver_of(self, finding: WaivableFields) -> Waiver | None:
        time = parse_time(finding.time) or 0
        candidates = self._by_rule.get(f"{finding.pack}/{finding.rule}", [])
        covering = [waiver for waiver in candidates if waiver.covers(finding, time)]
        if finding.id in self._by_verdict:
            covering.append(self._by_verdict[finding.id])
        self._matched.update(waiver.place for waiver in covering)
        return min(covering, key=lambda waiver: waiver.place, default=None)

    def _count(self, at: RecordKey, finding: WaivableFields, *, is_waived: bool) -> None:
        """Count a verdict of the current session."""
        if finding.history:
            return
        place, name = (at.session_id, at.occurrence), (at.pack, at.rule)
        if place != self._place:
            self._end_session()
            self._place = place
        self._verdicts[name] += is_waived
        self._open[name] = self._open.get(name, True) and is_waived

    def _end_session(self) -> None:
        self._sessions.update(name for name, is_waived in self._open.items() if is_waived)
        self._open.clear()

    def _write_lines(self) -> None:
        with (self.work / WAIVED).open("ab") as out:
            out.writelines(self._lines)
        self._lines.clear()

    def finish(self) -> WaivedCounts:
        """Write the files of the bundle once all verdicts have come, and return the counts."""
        self._end_session()
        self._write_lines()
        (self.work / WAIVERS).write_bytes(self.file.text)
        expired = tuple(each for each in self.file.waivers if not each.is_in_force(self.at))
        unmatched = (each for each in self.file.waivers if each.place not in self._matched)
        in_force = tuple(each for each in unmatched if each.is_in_force(self.at))
        return WaivedCounts(self._verdicts, self._sessions, expired, in_force)


class WaivedVerdict(msgspec.Struct, frozen=True):
    """A line of `waived.jsonl`: the verdict, the place of its waiver, and why who accepts it until when."""

    by: str
    id: str
    reason: str
    until: str
    waiver: int


def read_waived(bundle: Path) -> Iterable[WaivedVerdict]:
    """Yield the waived verdicts of a bundle; one without waivers has none."""
    path = bundle / WAIVED
    if path.exists():
        with path.open("rb") as lines:
            for line in lines:
                yield msgspec.json.decode(line, type=WaivedVerdict)
