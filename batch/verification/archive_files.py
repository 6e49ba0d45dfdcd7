"""The check of the files of an archive against those that an audit read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        return ArchiveComparison(_digests_present(inputs, present.values()))
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
    after = {before: digest for each in tombstones for before, digest in each.after.items()}
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


def _digests_present(expected: Sequence[InputFile], present: Iterable[Path]) -> BundleCheck:
    """Compare the digests of files whose names are replaced."""
    found = Counter(map(file_digest, present))
    if missing := Counter(file.sha256 for file in expected) - found:
        what = f"{counted(missing.total(), 'file')} missing or changed"
        return failed("archive", "TRL461", what)
    return passed("archive", f"{_audited(len(expected))}, whatever their names")
