"""Tombstones: signed statements on rows that were erased from an archive, one a line beside its manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...archive.disk import disk_errors
from ...archive.erasure import erasing
from ...archive.manifest import TOMBSTONES, RowErasure
from ...schemas.time import rfc3339
from .envelope import Envelope, EnvelopeError, decode_envelope, signed_envelope
from .signers import Signer
from .statement import STATEMENT_TYPE, tool

ERASURE_TYPE: Final = "urn:tracline:erasure:1"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A statement on erased rows: by the digest of a file before, its digest afterwards."""

    envelope: Envelope
    after: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ErasedSession:
    """The numbers of files and rows of an erasure."""

    files: int
    rows: int


def erase_session(
    archive: Path, session_id: str, reason: str, signers: Sequence[Signer], clock: Callable[[], int]
) -> ErasedSession:
    """Erase the rows of a session from an archive, and write a signed tombstone.

    The tombstone has the reason and no name of the session. It is written before the rows go, so no crash
    leaves an archive whose files changed without a statement. Raises SourceError: TRL465, TRL410, TRL432.
    """
    with erasing(archive, session_id) as erasures:
        envelope = signed_envelope(_statement(erasures, reason, clock()), signers)
        path = archive / TOMBSTONES
        with disk_errors(path), path.open("ab") as file:
            file.write(envelope.encoded())
            file.flush()
            os.fsync(file.fileno())
    return ErasedSession(len(erasures), sum(each.removed for each in erasures))


def _statement(erasures: Sequence[RowErasure], reason: str, time: int) -> dict[str, Any]:
    """Return the statement on erased rows, whose subjects are the files without them."""
    ordered = sorted(erasures, key=lambda each: each.entry.file)
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": each.entry.file, "digest": {"sha256": each.entry.sha256}} for each in ordered],
        "predicateType": ERASURE_TYPE,
        "predicate": {
            "tool": tool(),
            "erased": rfc3339(time),
            "reason": reason,
            "files": [
                {
                    "name": each.entry.file,
                    "before": each.before,
                    "after": each.entry.sha256,
                    "rows": each.removed,
                }
                for each in ordered
            ],
        },
    }


def read_tombstones(path: Path) -> list[Tombstone]:
    """Return the tombstones in a file. Raises EnvelopeError if a line is not one."""
    found: list[Tombstone] = []
    with path.open("rb") as lines:
        for line in lines:
            envelope = decode_envelope(line)
            statement = envelope.statement
            if (statement["_type"], statement["predicateType"]) != (STATEMENT_TYPE, ERASURE_TYPE):
                raise EnvelopeError("it is no statement on erased rows")
            files = statement["predicate"]["files"]
            found.append(Tombstone(envelope, {file["before"]: file["after"] for file in files}))
    return found
