"""The audit before: up to what time it judged, the files that it read, and those of its open sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ...archive.error import SourceError
from ...archive.manifest import Manifest
from ...schemas.time import parse_time
from ..evidence.bundle import OPEN_SESSIONS, SUMMARY
from ..findings.audited_archive import SOURCE, BundleSource, InputFile, read_inputs
from ..prepare.options import AuditOptions


@dataclass(frozen=True, slots=True)
class PreviousAudit:
    """A bundle as the next one in a series needs it; times are nanoseconds since the epoch.

    `inputs` are the files that it read, by name, and `open_files` those with rows of its open sessions.
    """

    folder: str
    as_of: int
    source: BundleSource
    inputs: Mapping[str, InputFile]
    open_files: frozenset[str]

    def is_done(self, name: str, size: int) -> bool:
        """Return whether a file has no row that a later night needs: none later, none of an open session."""
        known = self.inputs.get(name)
        if known is None or known.bytes != size or name in self.open_files:
            return False
        last = None if known.last_time is None else parse_time(known.last_time)
        return last is None or last <= self.as_of

    def files_done(self, manifest: Manifest, prefix: str) -> frozenset[str]:
        """Return the files of a live archive that are done, those of earlier nights too.

        This audit saw the files that were listed before the archive was complete up to its time.
        """
        live = [entry for entry in manifest.entries if entry.source in manifest.watermarks]
        done = {prefix + entry.file for entry in live if self.is_done(prefix + entry.file, entry.bytes)}
        for entry in manifest.listed_until(self.as_of):
            name, last = prefix + entry.file, parse_time(entry.last_time)
            if last is not None and last <= self.as_of and name not in self.inputs:
                done.add(name)
        return frozenset(done)

    def check(self, options: AuditOptions) -> None:
        """Raise SourceError (TRL442) if sessions of this audit close otherwise than those of this bundle."""
        if (self.source.idle_s, self.source.scope) != (options.idle_s, options.scope):
            what = "was made with other [sessions] settings, by which sessions close at other times"
            hint = "use the same idle_s and scope for all nights of a series"
            raise SourceError("TRL442", self.folder, what, hint)
        if options.as_of is not None and options.as_of < self.as_of:
            what = f"is as of {self.source.as_of}, which is after this audit"
            raise SourceError("TRL442", self.folder, what, "name the bundle before, or a later --as-of")


def read_previous_audit(folder: Path) -> PreviousAudit:
    """Read the bundle of the night before.

    Raises SourceError (TRL442) if it is damaged, is not as of a time, or is as of a time up to which the
    archive was not complete: rows that came later would be in no night.
    """
    try:
        source = msgspec.json.decode((folder / SOURCE).read_bytes(), type=BundleSource)
        summary: Any = msgspec.json.decode((folder / SUMMARY).read_bytes())
        watermark = parse_time(summary["population"]["watermark"])
        inputs = {file.name: file for file in read_inputs(folder)}
        open_lines: list[Any] = [msgspec.json.decode(line) for line in _lines(folder / OPEN_SESSIONS)]
        open_files = frozenset(name for line in open_lines for name in line["files"])
    except (OSError, msgspec.MsgspecError, LookupError, TypeError) as error:
        what = f"cannot be the previous bundle: {type(error).__name__} in its files"
        hint = "name the folder of the bundle of the night before"
        raise SourceError("TRL442", str(folder), what, hint) from error
    as_of = None if source.as_of is None else parse_time(source.as_of)
    if as_of is None:
        what = "is not as of a time, so what came after it is not known"
        raise SourceError("TRL442", str(folder), what, "make the first bundle with --as-of")
    if watermark is not None and as_of > watermark:
        what = f"is as of {source.as_of}, but its archive was complete only up to an earlier time"
        raise SourceError("TRL442", str(folder), what, "make it again: with --previous or an earlier --as-of")
    return PreviousAudit(str(folder), as_of, source, inputs, open_files)


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()
