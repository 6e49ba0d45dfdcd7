"""Finding the files of a source, told by their content, and counting what is met in them."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ...archive.error import SourceError
from ...archive.gaps import gaps
from ...archive.manifest import MANIFEST, RULE_SET_START, RULE_SETS, read_manifest
from ...schemas.chat.find import InputFlaw
from ...schemas.instrumentations.census import SpanCensus, sum_of
from ...schemas.otlp.decoded import Decoded
from ..evidence.bundle import IN_EVERY_BUNDLE

REJECTS_KEPT_MAX = 1_000
"""Rejects that a population keeps one by one; further ones are counted by code only."""

_MAGIC = {b"PAR1": "parquet", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_DATA_SUFFIXES = (*_JSON_SUFFIXES, ".parquet", ".gz", ".zst")
_JSON_START = re.compile(rb"\xef?\xbb?\xbf?\s*[\[{]\s*[\[{\]}\"]")
_RULE_SET = re.compile(r"[0-9a-f]{64}\.json")
_SNIFFED_BYTES = 4_096


class FileFormat(StrEnum):
    """What a file holds, told by its first bytes."""

    PARQUET = "parquet"
    CHAT = "chat"
    SPANS = "spans"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source. `name` is its path from the source's folder, the same on every machine."""

    path: Path
    name: str
    format: FileFormat


@dataclass(frozen=True, slots=True)
class Reject:
    """Something that could not be read: the file and place in it, a stable code, what is wrong with it."""

    file: str
    position: str
    code: str
    text: str


@dataclass(slots=True)
class LogRecords:
    """How many log records the dumps hold, by what became of them.

    `content` hold message content and name their span. Of these `unjoined` add to no span: it is not there,
    or is no model's call, agent or tool. `unlinked` hold content and name no span. `passed_over` hold none.
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
    """What was met while reading: nothing that was read or left out is missing here.

    `rows` are rows of event Parquet, messages of chat logs and spans of dumps. `events` counts judged events
    (no `end` rows) by kind. `duplicates` are conversations told twice and repeated events. `instructions` are
    system and developer messages, `empty` conversations without any event; neither is an error. `gaps` counts
    ranges of offsets that a manifest lacks, and spans whose parent never came; `cut_links` parents that are
    not followed, because they go in circles. `skipped` names files that do not claim to be telemetry.
    `watermark` is the least one of the live sources that an archive is of, in nanoseconds since the epoch.
    `spans` are those of the dumps, by file, and those of imported dumps as the manifests have them.
    `metrics` counts resources of metrics, which are passed over.
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
    cut_links: int = 0
    watermark: int | None = None
    spans: dict[str, SpanCensus] = field(default_factory=dict[str, SpanCensus])
    log_records: LogRecords = field(default_factory=LogRecords)
    metrics: int = 0
    skipped: list[str] = field(default_factory=list[str])
    rejected: Counter[str] = field(default_factory=Counter[str])
    rejects: list[Reject] = field(default_factory=list[Reject])

    @property
    def census(self) -> SpanCensus:
        """Return the spans of all files by scope."""
        return sum_of(self.spans.values())

    def spans_in(self, file: str) -> SpanCensus:
        """Return the census of a dump's spans, to be added to."""
        return self.spans.setdefault(file, SpanCensus())

    def reject(self, reject: Reject) -> None:
        """Count what could not be read, and keep it while there is room."""
        self.rejected[reject.code] += 1
        if len(self.rejects) < REJECTS_KEPT_MAX:
            self.rejects.append(reject)

    def reject_many(self, counts: Mapping[str, int], first: Sequence[Reject]) -> None:
        """Count by code what could not be read, of which `first` are the first ones."""
        self.rejected.update(counts)
        self.rejects.extend(first[: max(REJECTS_KEPT_MAX - len(self.rejects), 0)])

    def flaw(self, file: str, flaw: InputFlaw) -> None:
        """Count a flaw of a chat log in that file."""
        self.reject(Reject(file, flaw.place, flaw.code, flaw.text))


def discover(source: str | Path, population: Population) -> tuple[SourceFile, ...]:
    """The files of a source (a file, a folder with all below it, or a glob), ordered by name.

    A file is known by its content. One that is neither Parquet nor JSON is rejected when its suffix says it
    were, or when it is the source itself; else it is skipped (a README beside the data) and named in the
    population, as is a folder that is a bundle. What cannot be opened is rejected, and so is a link to a
    folder, which is not followed. Hidden files are not looked at. Of an archive, the files in its manifest
    are read; others are rejected. An archive may list none, and an empty JSON file is a dump without spans.
    Raises SourceError when there is nothing to read, or a file of the manifest is missing or has another
    size.
    """
    files = _files(source, population)
    found = _listed(files, population, whole=Path(source).is_dir())
    parts: list[SourceFile] = []
    for path, name in found:
        try:
            told = sniff(path)
        except OSError:
            population.reject(Reject(name, "whole file", "source-closed", "cannot be opened"))
            continue
        claims = path.name.lower().endswith(_DATA_SUFFIXES)
        if not _is_utf8(path) and (told is not None or claims):
            text = "has a name, or stands in a folder with one, that is not UTF-8: rename it"
            population.reject(Reject(name, "whole file", "source-name", text))
        elif told is not None:
            parts.append(SourceFile(path, name, told))
        elif claims or Path(source).is_file():
            text = "is neither event Parquet nor a chat log in JSON nor a dump of spans"
            population.reject(Reject(name, "whole file", "source-kind", text))
        else:
            population.skipped.append(name)
    is_archive = any(path.name == MANIFEST for path, _ in files)
    if not parts and not population.rejects and not is_archive:
        hint = "name a file, a folder or a glob of event Parquet, of chat logs in JSON, or of OTLP dumps"
        raise SourceError("TRL401", str(source), "holds neither event Parquet nor chat logs nor spans", hint)
    population.files += len(parts)
    return tuple(parts)


def sniff(path: Path) -> FileFormat | None:
    """What a file holds by its first bytes, or None where it is no telemetry; looks through compression."""
    compression, start = head(path)
    if compression == "parquet":
        return FileFormat.PARQUET
    if not start and compression is None and path.name.lower().endswith(_JSON_SUFFIXES):
        # The collector's file exporter makes its file before the first span comes.
        return FileFormat.SPANS
    from .span_files import holds_spans

    if holds_spans(path, start):
        return FileFormat.SPANS
    if path.name.lower().endswith(_JSON_SUFFIXES) and start.strip()[:1] in (b"[", b"{"):
        return FileFormat.CHAT
    return FileFormat.CHAT if _JSON_START.match(start) else None


def head(path: Path) -> tuple[str | None, bytes]:
    """A file's compression (`parquet` for one that is Parquet) and its first bytes, decompressed."""
    with path.open("rb") as file:
        start = file.read(_SNIFFED_BYTES)
    compression = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if compression in ("gzip", "zstd"):
        from .open import open_bytes

        try:
            with open_bytes(path) as stream:
                start = stream.read(_SNIFFED_BYTES)
        except (OSError, ValueError):
            return compression, b""
    return compression, start


def _listed(found: list[tuple[Path, str]], population: Population, *, whole: bool) -> list[tuple[Path, str]]:
    """The files without the manifests, and in their folders without what those do not list.

    A manifest that is being added to may list more than was found just before; of a `whole` archive that is
    read, too. Files of which not all of a range were entered are as if they were not there.
    """
    roots = {path.parent: name.removesuffix(MANIFEST) for path, name in found if path.name == MANIFEST}
    listed: dict[Path, str] = {}
    unfinished: set[str] = set()
    for root, prefix in roots.items():
        manifest = read_manifest(root)
        unfinished |= manifest.unfinished
        population.gaps += gaps(manifest)
        for origin, spans in manifest.spans.items():
            population.spans_in(f"{prefix}{MANIFEST}: {origin.sha256}").add(spans)
        for watermark in manifest.watermarks.values():
            known = watermark if population.watermark is None else population.watermark
            population.watermark = min(watermark, known)
        for entry in manifest.entries:
            if Path(entry.file).name in manifest.unfinished:
                continue
            listed[root / entry.file] = prefix + entry.file
            path = root / entry.file
            size = path.stat().st_size if path.is_file() else None
            if size != entry.bytes:
                what = "is not there" if size is None else f"has {size} bytes and not {entry.bytes}"
                hint = "restore the file, or delete the archive and make it again"
                raise SourceError("TRL403", str(root / MANIFEST), f"lists {entry.file}, which {what}", hint)
    kept: list[tuple[Path, str]] = []
    late = listed.keys() - {path for path, _ in found} if whole else ()
    for path, name in sorted([*found, *((path, listed[path]) for path in late)], key=lambda pair: pair[1]):
        if path.name == MANIFEST or path.name in unfinished:
            continue
        if not path.is_file():
            # A pipe would be waited for; a link may lead nowhere.
            population.skipped.append(name)
            continue
        if _is_rule_set(path, roots):
            continue
        if path not in listed and any(root in path.parents for root in roots):
            text = "is not in the archive's manifest: its writing was cut off; run what wrote it again"
            population.reject(Reject(name, "whole file", "archive-unlisted", text))
        else:
            kept.append((path, name))
    return kept


def _is_rule_set(path: Path, roots: Container[Path]) -> bool:
    """Whether it is one of an archive's rule sets, which are no telemetry; a copy may have no manifest."""
    if path.parent.name != RULE_SETS:
        return False
    if path.parents[1] in roots:
        return True
    try:
        return bool(_RULE_SET.fullmatch(path.name)) and head(path)[1].startswith(RULE_SET_START)
    except OSError:
        return False


def _files(source: str | Path, population: Population) -> list[tuple[Path, str]]:
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
        hint = "check the path; a glob must be quoted, or the shell expands it"
        raise SourceError("TRL401", text, "there is no such file or folder", hint)
    names = [(file, _name_of(file, root)) for file in found]
    visible = [(file, name) for file, name in names if not any(part[0] == "." for part in name.split("/"))]
    return sorted(visible, key=lambda pair: pair[1])


def _name_of(path: Path, root: Path) -> str:
    """Return the path from the source's folder, as text: a byte that is not UTF-8 becomes `\\xff`."""
    return os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "backslashreplace")


def _is_utf8(path: Path) -> bool:
    """Return whether the path is text; Parquet's readers and the archive's manifest take no other."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return False
    return True


def _below(root: Path, population: Population) -> Iterator[Path]:
    """The files in a folder and all below it, but for hidden folders and bundles."""

    def closed(error: OSError) -> None:
        name = _name_of(Path(error.filename), root)
        population.reject(Reject(name, "whole folder", "source-closed", "cannot be listed"))

    for folder, inner, files in os.walk(root, onerror=closed):
        here = Path(folder)
        if IN_EVERY_BUNDLE.issubset(files):
            population.skipped.append(f"{_name_of(here, root)}/")
            inner.clear()
            continue
        inner[:] = sorted(name for name in inner if name[0] != ".")
        for name in inner:
            if (here / name).is_symlink():
                told = _name_of(here / name, root)
                text = "is a link to a folder, which is not followed: name the folder itself"
                population.reject(Reject(told, "whole folder", "source-link", text))
        yield from (here / file for file in files)


def _outside_bundles(files: Iterable[Path], root: Path, population: Population) -> Iterator[Path]:
    """The files of which no folder from `root` on is a bundle."""
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
