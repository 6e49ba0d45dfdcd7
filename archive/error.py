"""Errors of the world that reading or writing history meets: a code, where, what is wrong, what to do."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TRL401": "a source is not there, or holds nothing that can be read",
    "TRL402": "event Parquet lacks a column or has one of another type",
    "TRL403": "an archive's manifest and its files do not agree",
    "TRL404": "a source was imported before, with other settings",
    "TRL405": "a time zone that there is not",
    "TRL406": "an output folder that holds something else",
    "TRL407": "an archive that does not say by which rules its events were judged",
    "TRL408": "a rule set that an archive lacks, or that is not what its name says",
    "TRL409": "a file of an archive that cannot be written",
    "TRL411": "a source without spans, of which instrumentations are asked for",
    "TRL410": "a session that a source does not hold",
}
"""The codes of this room; each has a test that triggers it."""


class SourceError(Exception):
    """A source or an archive that cannot be worked on at all; rows and messages are rejected one by one.

    `str(error)` is `where: CODE what` and the hint on a line of its own, without anything of the content.
    """

    def __init__(self, code: str, where: str, what: str, hint: str) -> None:
        assert code in CODES, f"{code} is not in the table of codes"
        super().__init__(f"{where}: {code} {what}\n  hint: {hint}")
        self.code = code
        self.where = where
        self.what = what
        self.hint = hint
