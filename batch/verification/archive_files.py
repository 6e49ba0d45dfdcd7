"""The check of the files of an archive against those that an audit read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...archive.manifest import TOMBSTONES
from ...rules.model.problem import counted
from ..attestation.keys import TrustedKey
from ..attestation.tombstones import Tombstone, read_tombstones
from ..evidence.files import file_digest
from ..findings.audited_archive import InputFile, read_inputs
from ..sources.discover import Population, discover
from .attested import AttestedBundle, signature_check
from .checks import BundleCheck, CheckResult, failed, not_checked, passed


@dataclass(frozen=True, slots=True)
class ArchiveComparison:
    """The comparison of an archive with the audited files. `erased` are files from which rows were erased."""

    check: BundleCheck
    erased: tuple[str, ...] = ()


def compare_archive(
    bundle: AttestedBundle,
    archive: Sequence[str],
    keys: Sequence[TrustedKey],
    only: frozenset[str] | None = None,
) -> ArchiveComparison:
    """Compare the files of an archive, or only those of these names, with those that the audit read.

    A file that differs is erased, and not changed, if tombstones of the archive lead from the audited digest
    to its own. Anybody can write an unsigned tombstone, so without keys that check is not made.
    """
    inputs = list(read_inputs(bundle.folder))
    present = {file.name: file.path for file in discover(tuple(archive), Population(), only)}
    if bundle.is_redacted:
        return _unnamed(inputs, present.values(), _tombstones(archive), keys)
    expected = {file.name: file.sha256 for file in inputs if only is None or file.name in only}
    if only is not None and (added := only - expected.keys()):
        what = f"{counted(len(added), 'file')} not audited"
        return ArchiveComparison(failed("archive", "TRL461", what, added))
    if missing := expected.keys() - present.keys():
        what = f"{counted(len(missing), 'file')} missing"
        return ArchiveComparison(failed("archive", "TRL461", what, missing))
    digests = {name: file_digest(present[name]) for name in expected}
    differing = {name for name, digest in expected.items() if digests[name] != digest}
    tombstones = _tombstones(archive) if differing else []
    after = _after(tombstones)
    changed = {name for name in differing if not _leads(expected[name], digests[name], after)}
    if changed:
        what = f"{counted(len(changed), 'file')} changed since the audit"
        return ArchiveComparison(failed("archive", "TRL461", what, changed))
    if differing:
        return ArchiveComparison(
            _erased(tombstones, keys, differing, len(expected)), tuple(sorted(differing))
        )
    further = len(present) - len(expected)
    rest = f"; {counted(further, 'further file')} not audited" if further else ""
    return ArchiveComparison(passed("archive", f"{_audited(len(expected))}{rest}"))


def _audited(files: int) -> str:
    return f"{counted(files, 'file')} unchanged since the audit"


def _tombstones(archive: Sequence[str]) -> list[Tombstone]:
    """Return the tombstones of all archives in the given folders."""
    paths = [path for source in archive for path in sorted(Path(source).rglob(TOMBSTONES))]
    return [each for path in paths for each in read_tombstones(path)]


def _after(tombstones: Iterable[Tombstone]) -> dict[str, str]:
    """Return the digests of files after an erasure by those before it."""
    return {before: digest for each in tombstones for before, digest in each.after.items()}


def _leads(before: str, digest: str, after: Mapping[str, str]) -> bool:
    """Return whether erasures lead from one digest to another."""
    for _ in range(len(after)):
        if before not in after:
            return False
        before = after[before]
        if before == digest:
            return True
    return False


def _erased(
    tombstones: Sequence[Tombstone], keys: Sequence[TrustedKey], erased: Collection[str], files: int
) -> BundleCheck:
    """Return the check of an archive from which rows were erased."""
    rows = f"erased: rows of {counted(len(erased), 'file')}"
    if not keys:
        return not_checked("archive", f"{rows}; whose tombstones state it is not checked: --key PUBLIC")
    for each in tombstones:
        signed = signature_check(each.envelope, keys)
        if signed.result is CheckResult.FAILED:
            return failed("archive", "TRL461", f"a tombstone cannot be trusted: {signed.detail}", erased)
    return passed("archive", f"{rows}, signed tombstones state it; {_audited(files - len(erased))}")


def _unnamed(
    expected: Sequence[InputFile],
    present: Iterable[Path],
    tombstones: Sequence[Tombstone],
    keys: Sequence[TrustedKey],
) -> ArchiveComparison:
    """Compare the digests of files whose names are replaced; tombstones account for missing ones."""
    found = Counter(map(file_digest, present))
    missing = Counter(file.sha256 for file in expected) - found
    after = _after(tombstones)
    rest = [digest for digest in missing.elements() if not any(_leads(digest, each, after) for each in found)]
    if rest:
        return ArchiveComparison(
            failed("archive", "TRL461", f"{counted(len(rest), 'file')} missing or changed")
        )
    if erased := sorted(missing):
        # The check names files, and their names are replaced.
        check = replace(_erased(tombstones, keys, erased, len(expected)), files=())
        return ArchiveComparison(check, tuple(erased))
    return ArchiveComparison(passed("archive", f"{_audited(len(expected))}, whatever their names"))
