"""The files of a bundle as a redaction reads and writes them, line by line."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from ...archive.error import SourceError
from ...rules.engine.records import RecordKey, record_key
from ...schemas.records.risk_crossing import decode_crossing
from ...schemas.records.verdict_record import decode_verdict
from ..attestation.statement import UNATTESTED
from ..evidence.bundle import OPEN_SESSIONS, RISK, RULES, SUMMARY, TYPED_VERDICTS, VERDICTS
from ..evidence.canonical_json import canonical_line
from ..evidence.certificates import CERTIFICATES, SessionPlace
from ..evidence.files import bundle_files
from ..evidence.risk_lines import CrossingKey, crossing_key
from ..evidence.sorted_lines import SortedLines
from ..findings.audited_archive import INPUTS, SOURCE
from ..findings.waiving import WAIVED, WAIVERS
from ..report.drawn import SESSIONS
from ..report.page import REPORT
from .fields import (
    CERTIFIED_SESSION,
    CROSSING,
    DRAWN_SESSION,
    INPUT,
    OPEN_SESSION,
    SOURCE_FIELDS,
    SUMMARY_FIELDS,
    VERDICT,
    WAIVED_VERDICT,
    FieldShape,
)
from .redactor import Redactor

_MADE_AGAIN: Final = frozenset({REPORT, TYPED_VERDICTS, *UNATTESTED})
_LEFT_OUT: Final = frozenset({WAIVERS})
"""Files that people wrote: any word in them may be an id, and the bundle follows without them."""
_DOCUMENTS: Final = {SOURCE: SOURCE_FIELDS, SUMMARY: SUMMARY_FIELDS}


class LineKey(NamedTuple):
    """The sort key of a line by two texts."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class _Lines:
    """A file of lines: their shape, their key once they are redacted, and the class of the key."""

    shape: FieldShape
    key: Callable[[dict[str, Any], bytes], Any]
    kind: Callable[..., Any]


def _by(first: str, second: str) -> Callable[[dict[str, Any], bytes], LineKey]:
    return lambda line, _: LineKey(line[first], line[second])


def _certificate_key(line: dict[str, Any], _: bytes) -> SessionPlace:
    first = line["events"][0][0] if line["events"] else 0
    return SessionPlace(line["session_id"], line["occurrence"], first, 0)


_LINES: Final = {
    VERDICTS: _Lines(VERDICT, lambda _, text: record_key(decode_verdict(text)), RecordKey),
    RISK: _Lines(CROSSING, lambda _, text: crossing_key(decode_crossing(text)), CrossingKey),
    SESSIONS: _Lines(DRAWN_SESSION, _by("session_id", "occurrence"), LineKey),
    OPEN_SESSIONS: _Lines(OPEN_SESSION, _by("session_id", "occurrence"), LineKey),
    INPUTS: _Lines(INPUT, _by("name", "sha256"), LineKey),
    CERTIFICATES: _Lines(CERTIFIED_SESSION, _certificate_key, SessionPlace),
    WAIVED: _Lines(WAIVED_VERDICT, _by("id", "until"), LineKey),
}


def write_redacted(bundle: Path, work: Path, redactor: Redactor, scratch: Path) -> None:
    """Write the redacted files of a bundle into the folder `work`, but for those made again or left out.

    Raises SourceError (TRL462) for a file that no redaction knows.
    """
    for name in bundle_files(bundle):
        if name in _LINES:
            _write_lines(bundle / name, work / name, redactor, scratch / name)
        elif name in _DOCUMENTS:
            content = orjson.loads((bundle / name).read_bytes())
            (work / name).write_bytes(canonical_line(redactor.redacted(content, _DOCUMENTS[name], name)))
        elif name.startswith(f"{RULES}/"):
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(bundle / name, work / name)
        elif name not in _MADE_AGAIN | _LEFT_OUT:
            hint = "use the version of tracline that made the bundle"
            raise SourceError("TRL462", str(bundle), f"has a file of no known class: {name}", hint)


def _write_lines(source: Path, out: Path, redactor: Redactor, scratch: Path) -> None:
    """Write a file of redacted lines in the order of their new keys; only sessions of certificates change."""
    lines = _LINES[source.name]
    found = SortedLines(scratch, lines.kind)
    before, behind = list[bytes](), list[bytes]()
    for text in _texts(source):
        content = orjson.loads(text)
        if source.name == CERTIFICATES and content["kind"] != "session":
            (behind if content["kind"] == "end" else before).append(text)
            continue
        new = canonical_line(redactor.redacted(content, lines.shape, source.name))
        found.add(lines.key(orjson.loads(new), new), new)
    with out.open("wb") as file:
        file.writelines(before)
        file.writelines(line for _, line in found.merged())
        file.writelines(behind)


def _texts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as lines:
        yield from lines


def walk(bundle: Path, redactor: Redactor) -> None:
    """Redact the lines of a bundle without writing them, for the calls of `on_replaced`."""
    for name in bundle_files(bundle):
        if name not in _LINES:
            continue
        lines = _LINES[name]
        for text in _texts(bundle / name):
            content = orjson.loads(text)
            if name != CERTIFICATES or content["kind"] == "session":
                redactor.redacted(content, lines.shape, name)
