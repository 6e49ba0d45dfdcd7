"""Discovery of the files of a source by their content, and the population that reading counts."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...archive.error import SourceError
from ...archive.gaps import gaps
from ...archive.manifest import (
    MANIFEST,
    RULE_SET_START,
    RULE_SETS,
    TOMBSTONES,
    Manifest,
    ManifestEntry,
    read_manifest,
)
from ...schemas.chat.find import InputFlaw
from ...schemas.instrumentations.census import SpanCensus, sum_of
from ...schemas.otlp.decoded import Decoded
from ..evidence.bundle import IN_EVERY_BUNDLE
from .file_extent import FileExtent
from .file_format import JSON_SUFFIXES, FileFormat, head, sniff

REJECTS_LISTED_MAX = 1_000
"""Rejects that a population lists; further ones are only counted by code."""

_DATA_SUFFIXES = (*JSON_SUFFIXES, ".parquet", ".gz", ".zst")
_RULE_SET = re.compile(r"[0-9a-f]{64}\.json")


Sources = str | Path | Sequence[str | Path]
"""One or several files, folders and globs."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source. `name` is its path from the source's folder, the same on every machine.

    In several sources it is the path from the folder that all their files have in common.
    """

    path: Path
    name: str
    format: FileFormat


@dataclass(frozen=True, slots=True)
class Reject:
    """Unreadable input: the file and the place in it, a stable code, and a text."""

    file: str
    position: str
    code: str
    text: str


@dataclass(slots=True)
class LogRecords:
    """The number of log records in the dumps by outcome.

    `content` records have message content and a span id. Of these, `unjoined` records add to no span: it is
    missing, or is not a model call, agent or tool. `unlinked` records have content and no span id.
    `passed_over` records have no content.
    """

    content: int = 0
    unjoined: int = 0
    unlinked: int = 0
    passed_over: int = 0

    def count(self, decoded: Decoded) -> None:
        """Count the records of a request."""
        self.content += len(decoded.records)
        self.unlinked += decoded.unlinked
        self.passed_over += decoded.passed_over


@dataclass(slots=True)
class Population:
    """The counts of everything that was read, dropped or rejected.

    `rows` are rows of event Parquet, messages of chat logs and spans of dumps. `events` counts judged events
    (not `end` rows) by kind. `duplicates` are repeated conversations and events. `instructions` are system
    and developer messages, `empty` conversations without an event; neither is an error. `gaps` counts ranges
    of offsets that a manifest lacks, and spans whose parent is missing. `skipped` lists files that are not
    telemetry. `watermark` is the lowest one of the archive's live sources, in nanoseconds since the epoch.
    `spans` are those of the dumps by file, and those of imported dumps from the manifests. `metrics` counts
    ignored metric resources. `inputs` are the files, and `extents` are by their names.
    """

    files: int = 0
    rows: int = 0
    events: Counter[str] = field(default_factory=Counter[str])
    sessions: int = 0
    duplicates: int = 0
    instructions: int = 0
    empty: int = 0
    renamed: int = 0
    gaps: int = 0
    watermark: int | None = None
    spans: dict[str, SpanCensus] = field(default_factory=dict[str, SpanCensus])
    log_records: LogRecords = field(default_factory=LogRecords)
    metrics: int = 0
    skipped: list[str] = field(default_factory=list[str])
    rejected: Counter[str] = field(default_factory=Counter[str])
    rejects: list[Reject] = field(default_factory=list[Reject])
    inputs: list[SourceFile] = field(default_factory=list[SourceFile])
    extents: dict[str, FileExtent] = field(default_factory=dict[str, FileExtent])

    @property
    def census(self) -> SpanCensus:
        """Return the spans of all files by scope."""
        return sum_of(self.spans.values())

    def spans_in(self, file: str) -> SpanCensus:
        """Return the census of a dump's spans, for adding to it."""
        return self.spans.setdefault(file, SpanCensus())

    def extent_of(self, file: str) -> FileExtent:
        """Return the extent of a file, for adding to it."""
        return self.extents.setdefault(file, FileExtent())

    def reject(self, reject: Reject) -> None:
        """Count a reject, and list it while there is room."""
        self.rejected[reject.code] += 1
        if len(self.rejects) < REJECTS_LISTED_MAX:
            self.rejects.append(reject)

    def reject_many(self, counts: Mapping[str, int], first: Sequence[Reject]) -> None:
        """Count rejects by code, and list the `first` ones while there is room."""
        self.rejected.update(counts)
        self.rejects.extend(first[: max(REJECTS_LISTED_MAX - len(self.rejects), 0)])

    def flaw(self, file: str, flaw: InputFlaw) -> None:
        """Count a flaw of a chat log in that file."""
        self.reject(Reject(file, flaw.place, flaw.code, flaw.text))


def each_source(sources: Sources) -> tuple[str | Path, ...]:
    """Return the sources one by one."""
    return (sources,) if isinstance(sources, str | Path) else tuple(sources)


def named(sources: Sources) -> str:
    """Return the sources as the place of an error."""
    return ", ".join(map(str, each_source(sources)))


FilesDone = Callable[[Manifest, str], Container[str]]
"""Returns the names of a live archive's files that need not be read again, each with a prefix."""


def discover(
    source: Sources,
    population: Population,
    only: frozenset[str] | None = None,
    files_done: FilesDone | None = None,
    gaps_until: int | None = None,
) -> tuple[SourceFile, ...]:
    """Return the files of a source (a file, a folder with its subfolders, or a glob), ordered by name.

    Several sources are read as one: a file that is in several of them is one file.

    The content determines the format. A file that is neither Parquet nor JSON is rejected if it has such a
    suffix or is the source itself; otherwise it is skipped (a README beside the data) and listed in the
    population, as is a folder that is a bundle. Files that cannot be opened are rejected, and so are links to
    folders. Hidden files are ignored. In an archive, files that the manifest does not list are rejected. A
    manifest may list none, and an empty JSON file is a dump without spans. Raises SourceError if there is
    nothing to read, or a file of the manifest is missing or has another size.

    With `only`, no file of another name is opened. Files of a live archive in `files_done` are not opened
    either. Its gaps are counted up to its rows at `gaps_until`.
    """
    files = _files(source, population)
    given = [Path(part) for part in each_source(source)]
    found = _listed(
        files,
        population,
        whole=all(path.is_dir() for path in given),
        files_done=files_done,
        gaps_until=gaps_until,
    )
    if only is not None:
        found = [(path, name) for path, name in found if name in only]
    parts = [part for path, name in found if (part := _opened(path, name, given, population)) is not None]
    is_archive = any(path.name == MANIFEST for path, _ in files)
    if not parts and not population.rejects and not is_archive and only is None:
        hint = "choose a file, a folder or a glob of event Parquet, chat logs in JSON, or OTLP dumps"
        raise SourceError("TRL401", named(source), "contains no event Parquet, chat logs or spans", hint)
    population.files += len(parts)
    population.inputs += parts
    return tuple(parts)


def _opened(path: Path, name: str, given: Sequence[Path], population: Population) -> SourceFile | None:
    """Return the file with its format; otherwise count it as rejected or as skipped, and return None.

    `given` are the paths that the caller named: what was named is never skipped.
    """

    def reject(code: str, text: str) -> None:
        population.reject(Reject(name, "whole file", code, text))

    try:
        format = sniff(path)
    except OSError:
        return reject("source-closed", "cannot be opened")
    claims = path.name.lower().endswith(_DATA_SUFFIXES)
    if not _is_utf8(path) and (format is not None or claims):
        return reject("source-name", "has a path that is not UTF-8: rename the file or folder")
    if format is not None:
        return SourceFile(path, name, format)
    if claims or path in given:
        return reject("source-kind", "is not event Parquet, a chat log in JSON or a span dump")
    population.skipped.append(name)
    return None


def _listed(
    found: list[tuple[Path, str]],
    population: Population,
    *,
    whole: bool,
    files_done: FilesDone | None,
    gaps_until: int | None,
) -> list[tuple[Path, str]]:
    """Return the files without the manifests, and reject files of archives that no manifest lists.

    A live manifest may list files that were written after `found`; they are added if the archive is read
    `whole`. Files of an unfinished range are ignored.
    """
    roots = {path.parent: name.removesuffix(MANIFEST) for path, name in found if path.name == MANIFEST}
    listed: dict[Path, str] = {}
    unfinished: set[str] = set()
    done: set[Path] = set()
    for root, prefix in roots.items():
        manifest = read_manifest(root)
        unfinished |= manifest.unfinished
        population.gaps += gaps(manifest, gaps_until)
        _count(manifest, prefix, population)
        done_names = () if files_done is None else files_done(manifest, prefix)
        for entry in manifest.entries:
            if Path(entry.file).name not in manifest.unfinished:
                _require_whole(root, entry)
                listed[root / entry.file] = prefix + entry.file
                if prefix + entry.file in done_names:
                    done.add(root / entry.file)
    files: list[tuple[Path, str]] = []
    late = listed.keys() - {path for path, _ in found} if whole else ()
    for path, name in sorted([*found, *((path, listed[path]) for path in late)], key=lambda pair: pair[1]):
        is_record = path.name == MANIFEST or (path.name == TOMBSTONES and path.parent in roots)
        if is_record or path.name in unfinished or path in done:
            continue
        if not path.is_file():
            # Opening a pipe would block; a link may be broken.
            population.skipped.append(name)
            continue
        if _is_rule_set(path, roots):
            continue
        if path not in listed and any(root in path.parents for root in roots):
            text = "is not in the archive's manifest: writing it was interrupted; run the writer again"
            population.reject(Reject(name, "whole file", "archive-unlisted", text))
        else:
            files.append((path, name))
    return files


def _count(manifest: Manifest, prefix: str, population: Population) -> None:
    """Add the spans and the watermark of an archive to the population."""
    for origin, spans in manifest.spans.items():
        population.spans_in(f"{prefix}{MANIFEST}: {origin.sha256}").add(spans)
    for watermark in manifest.watermarks.values():
        known = watermark if population.watermark is None else population.watermark
        population.watermark = min(watermark, known)


def _require_whole(root: Path, entry: ManifestEntry) -> None:
    """Raise SourceError (TRL403) unless the file of the archive exists with the size in the manifest."""
    path = root / entry.file
    size = path.stat().st_size if path.is_file() else None
    if size != entry.bytes:
        what = "does not exist" if size is None else f"has {size} bytes instead of {entry.bytes}"
        hint = "restore the file, or delete the archive and write it again"
        raise SourceError("TRL403", str(root / MANIFEST), f"lists {entry.file}, which {what}", hint)


def _is_rule_set(path: Path, roots: Container[Path]) -> bool:
    """Return whether a file is a rule set of an archive; a copied archive may have no manifest."""
    if path.parent.name != RULE_SETS:
        return False
    if path.parents[1] in roots:
        return True
    try:
        return bool(_RULE_SET.fullmatch(path.name)) and head(path)[1].startswith(RULE_SET_START)
    except OSError:
        return False


def _files(sources: Sources, population: Population) -> list[tuple[Path, str]]:
    found = [_files_of(source, population) for source in each_source(sources)]
    if len(found) == 1:
        return found[0]
    # Links are not resolved: copies of a file are two files, as in one source.
    paths = {Path(os.path.abspath(path)): path for files in found for path, _ in files}
    root = Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
    return sorted(((path, _name_of(key, root)) for key, path in paths.items()), key=lambda pair: pair[1])


def _files_of(source: str | Path, population: Population) -> list[tuple[Path, str]]:
    text = str(source)
    path = Path(text)
    if path.is_file():
        return [(path, _name_of(path, path.parent))]
    if path.is_dir():
        root, found = path, list(_below(path, population))
    elif glob.has_magic(text):
        found = [Path(match) for match in glob.glob(text, recursive=True) if Path(match).is_file()]
        root = Path(os.path.commonpath([file.parent for file in found])) if found else path
        found = list(_outside_bundles(found, root, population))
    else:
        hint = "check the path; quote a glob, or the shell expands it"
        raise SourceError("TRL401", text, "no such file or folder", hint)
    names = [(file, _name_of(file, root)) for file in found]
    visible = [(file, name) for file, name in names if not any(part[0] == "." for part in name.split("/"))]
    return sorted(visible, key=lambda pair: pair[1])


def _name_of(path: Path, root: Path) -> str:
    """Return the path from the source's folder, as text: a byte that is not UTF-8 becomes `\\xff`."""
    text, prefix = str(path), f"{root}{os.sep}"
    # To split both paths takes longer than everything else that is done to find a file.
    name = text.removeprefix(prefix) if text.startswith(prefix) else path.relative_to(root).as_posix()
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _is_utf8(path: Path) -> bool:
    """Return whether the path is UTF-8, which Parquet readers and the manifest require."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return False
    return True


def _below(root: Path, population: Population) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders, except hidden folders and bundles."""

    def on_error(error: OSError) -> None:
        name = _name_of(Path(error.filename), root)
        population.reject(Reject(name, "whole folder", "source-closed", "cannot be listed"))

    for folder, inner, files in os.walk(root, onerror=on_error):
        here = Path(folder)
        if IN_EVERY_BUNDLE.issubset(files):
            population.skipped.append(f"{_name_of(here, root)}/")
            inner.clear()
            continue
        inner[:] = sorted(name for name in inner if name[0] != ".")
        for name in inner:
            if (here / name).is_symlink():
                text = "is a link to a folder, which is not followed: use the folder itself"
                link = _name_of(here / name, root)
                population.reject(Reject(link, "whole folder", "source-link", text))
        yield from (here / file for file in files)


def _outside_bundles(files: Iterable[Path], root: Path, population: Population) -> Iterator[Path]:
    """Yield the files that are in no bundle below `root`."""
    bundles: dict[Path, bool] = {}
    for file in files:
        folders = [folder for folder in file.parents if folder == root or root in folder.parents]
        for folder in folders:
            if folder not in bundles:
                bundles[folder] = all((folder / name).is_file() for name in IN_EVERY_BUNDLE)
        if not any(bundles[folder] for folder in folders):
            yield file
    skipped = [f"{_name_of(folder, root)}/" for folder in sorted(bundles) if bundles[folder]]
    population.skipped.extend(skipped)
