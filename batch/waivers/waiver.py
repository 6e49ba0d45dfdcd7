"""Waivers as data: the findings that each accepts, and until when."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ...schemas.verdict import Verdict

WAIVABLE = frozenset({Verdict.VIOLATED, Verdict.UNMET})
"""The verdicts that a waiver can accept."""


class WaivableFields(msgspec.Struct, frozen=True):
    """The fields of a line of `verdicts.jsonl` that decide whether it is waived."""

    id: str
    pack: str
    rule: str
    session_id: str
    agent: str | None
    time: str
    verdict: Verdict
    history: bool


@dataclass(frozen=True, slots=True)
class Waiver:
    """An accepted finding, or the accepted findings of a rule (`PACK/ID`).

    `place` counts from 1. `session`, `agent`, `begin` and `end` restrict a rule's waiver: the verdict's
    session, agent and time, which is not before `begin` and before `end`. Times are nanoseconds since the
    epoch. `until` is the last day on which the waiver is in force, and `expires` is the end of that day.
    """

    place: int
    reason: str
    by: str
    until: str
    expires: int
    verdict: str | None = None
    rule: str | None = None
    session: str | None = None
    agent: str | None = None
    begin: int | None = None
    end: int | None = None

    def is_in_force(self, at: int) -> bool:
        """Return whether the waiver counts at a time."""
        return at < self.expires

    def covers(self, finding: WaivableFields, time: int) -> bool:
        """Return whether the waiver accepts a verdict, whose time is given in nanoseconds."""
        if self.verdict is not None:
            return finding.id == self.verdict
        return (
            f"{finding.pack}/{finding.rule}" == self.rule
            and self.session in (None, finding.session_id)
            and self.agent in (None, finding.agent)
            and (self.begin is None or time >= self.begin)
            and (self.end is None or time < self.end)
        )


@dataclass(frozen=True, slots=True)
class WaiverFile:
    """The waivers of a file, and its bytes."""

    text: bytes
    waivers: tuple[Waiver, ...]
