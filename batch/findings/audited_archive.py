"""The input of a bundle: where the audited source is, how it was read, and the digests of its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from ...archive.error import SourceError
from ...schemas.chat.reading import ChatReading
from ...schemas.time import parse_time, rfc3339
from ..evidence.bundle import IN_EVERY_BUNDLE
from ..evidence.canonical_json import canonical_line, canonical_line_of_integers
from ..evidence.files import digest_and_size, file_digest
from ..prepare.options import AuditOptions
from ..sources.discover import Population, SourceFile, Sources, discover, each_source, named
from ..sources.file_extent import FileExtent

INPUTS = "inputs.jsonl"
"""The files that the audit read: a line a file, sorted by name."""
SOURCE = "source.json"
"""The audited source as seen from the bundle, and how it was read."""


class InputFile(msgspec.Struct, frozen=True):
    """A file that an audit read; `name` is its path from the source's folder.

    Its rows are messages in a chat log, and spans in a dump. Bundles of early releases lack them.
    """

    bytes: int
    name: str
    sha256: str
    rows: int = 0
    first_time: str | None = None
    last_time: str | None = None


class BundleSource(msgspec.Struct, frozen=True):
    """The source of a bundle: its paths from the bundle's folder, and the options with which it was read."""

    as_judged: bool
    as_of: str | None
    chat: ChatReading
    idle_s: float
    paths: tuple[str, ...]
    scope: tuple[str, ...]
    timezone: str
    seed: int = 0
    with_text: bool = False
    waivers_at: str | None = None
    previous_as_of: str | None = None

    @property
    def options(self) -> AuditOptions:
        """Return the options that read the same sessions again."""
        zone: tzinfo = UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)
        as_of = None if self.as_of is None else parse_time(self.as_of)
        return AuditOptions(as_of=as_of, idle_s=self.idle_s, scope=self.scope, zone=zone, chat=self.chat)


@dataclass(frozen=True, slots=True)
class BundleInput:
    """The archive beside a bundle: its paths, the options, and whether its digests were compared."""

    paths: tuple[str, ...]
    options: AuditOptions
    is_checked: bool


def is_bundle(folder: str | Path) -> bool:
    """Return whether the folder is a bundle."""
    return all((Path(folder) / name).is_file() for name in IN_EVERY_BUNDLE)


def write_inputs(
    work: Path,
    out: Path,
    archive: Sources,
    inputs: bytes,
    options: AuditOptions,
    *,
    as_judged: bool = False,
) -> None:
    """Write the files on the input into the bundle `work`, which replaces `out` later.

    `inputs` are the lines of the files that were read.
    """
    waivers_at = options.waivers_in_force_at
    source = BundleSource(
        as_judged=as_judged,
        as_of=None if options.as_of is None else rfc3339(options.as_of),
        chat=options.chat,
        idle_s=options.idle_s,
        paths=tuple(os.path.relpath(path, out) for path in each_source(archive)),
        scope=options.scope,
        timezone=str(options.zone),
        seed=options.seed,
        with_text=options.with_text,
        previous_as_of=None if options.previous_as_of is None else rfc3339(options.previous_as_of),
        waivers_at=None if waivers_at is None else rfc3339(waivers_at),
    )
    (work / SOURCE).write_bytes(canonical_line(msgspec.to_builtins(source)))
    (work / INPUTS).write_bytes(inputs)


def input_lines(population: Population) -> bytes:
    """Return a line for each file that was read, with its digest."""
    read = {_input(file, population.extent_of(file.name)) for file in population.inputs}
    found = sorted(read, key=lambda file: (file.name, file.sha256))
    return b"".join(canonical_line_of_integers(msgspec.to_builtins(file)) for file in found)


def _input(file: SourceFile, extent: FileExtent) -> InputFile:
    first, last = (None if time is None else rfc3339(time) for time in (extent.first, extent.last))
    digest, size = digest_and_size(file.path)
    return InputFile(size, file.name, digest, extent.rows, first, last)


def bundle_input(bundle: Path, archive: str | None, options: AuditOptions) -> BundleInput:
    """Return the archive of a bundle: `archive` if it is given, else the one that the bundle names.

    `options` are those for bundles of early releases, which do not name their input. Raises SourceError
    (TRL420) if the archive is missing, or if a file differs from the one that the audit read.
    """
    source = _source(bundle)
    if archive is None and source is None:
        raise _missing(bundle, "does not name its archive: an early release wrote it")
    stated = () if source is None else source.paths
    paths = tuple(os.path.normpath(bundle.absolute() / path) for path in stated)
    if archive is not None:
        paths = (archive,)
    elif not all(map(_exists, paths)):
        raise _missing(bundle, "names an archive that is not there")
    if source is not None:
        _check(bundle, paths)
    return BundleInput(paths, options if source is None else source.options, source is not None)


def _source(bundle: Path) -> BundleSource | None:
    try:
        return msgspec.json.decode((bundle / SOURCE).read_bytes(), type=BundleSource)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        raise _damaged(bundle, SOURCE) from None


def _exists(path: str) -> bool:
    """Return whether a path is there; a glob is found or not when it is read."""
    return Path(path).exists() or any(mark in path for mark in "*?[")


def _check(bundle: Path, paths: tuple[str, ...]) -> None:
    """Compare the files of the archive with those that the audit read; further files are newer."""
    try:
        expected = {file.name: file for file in read_inputs(bundle)}
    except msgspec.MsgspecError:
        raise _damaged(bundle, INPUTS) from None
    present = {file.name: file for file in discover(paths, Population())}
    for name, file in expected.items():
        if name not in present:
            raise _changed(named(paths), name, "is missing")
        path = present[name].path
        if path.stat().st_size != file.bytes or file_digest(path) != file.sha256:
            raise _changed(named(paths), name, "differs from the file that the audit read")


def read_inputs(bundle: Path) -> Iterator[InputFile]:
    """Yield the files that the audit of a bundle read, in the order of their names."""
    with (bundle / INPUTS).open("rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line, type=InputFile)


def _missing(bundle: Path, what: str) -> SourceError:
    return SourceError("TRL420", str(bundle), what, "say where the archive is: --archive PATH")


def _changed(path: str, name: str, what: str) -> SourceError:
    hint = "use the archive as it was, or audit again"
    return SourceError("TRL420", path, f"is not the archive that was audited: {name} {what}", hint)


def _damaged(bundle: Path, name: str) -> SourceError:
    return SourceError("TRL420", str(bundle), f"has a damaged {name}", "write the bundle again")
