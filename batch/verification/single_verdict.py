"""The check of a single verdict: one session of the archive is judged, and gives the verdict or does not."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...archive.manifest import TOMBSTONES
from ...rules.engine.records import record_line
from ...rules.model.problem import counted
from ...rules.model.rule import RuleSet
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import parse_time
from ..attestation.keys import TrustedKey
from ..audit.as_judged import audit_as_judged
from ..audit.audit import audit
from ..evidence.bundle import VERDICTS, read_verdicts
from ..findings.bundle_rules import bundle_rules
from ..prepare.options import AuditOptions
from .archive_files import compare_archive
from .attested import AttestedBundle
from .checks import BundleCheck, CheckResult, failed, not_checked, passed
from .derived import run_checker
from .reperformed import audit_options
from .single_session import SessionExtract, SessionKey, extract_session

_UNMADE = "the events of the archive do not give this verdict"


@dataclass(frozen=True, slots=True)
class WantedVerdict:
    """A verdict by its id, the archive whose events must give it, and the threads to judge them."""

    id: str
    archive: tuple[str, ...]
    threads: int = 1


def stated_verdict_check(
    bundle: AttestedBundle, wanted: WantedVerdict, keys: Sequence[TrustedKey]
) -> BundleCheck:
    """Judge the session of a verdict that a bundle states, by its rule in the bundle.

    The verdict must have the same line as in the bundle, and the files that have the session's rows must be
    as audited, or tombstones that the keys have signed lead to them.
    """
    if bundle.is_redacted:
        return not_checked("verdict", "ids of a redacted bundle are no digests")
    record = verdict_in(bundle.folder, wanted.id)
    if record is None:
        return failed("verdict", "TRL421", f"no line of {VERDICTS} has this id", [VERDICTS])
    parameters = bundle.predicate["parameters"]
    options = audit_options(parameters, wanted.threads)
    as_judged = bool(parameters["as_judged"])
    last = parse_time(bundle.predicate["inputs"]["last_time"] or "")
    if options.as_of is None and not as_judged:
        options = replace(options, as_of=last)
    rules = None if as_judged else RuleSet((bundle_rules(bundle.folder)[_key(record)],), {})
    with tempfile.TemporaryDirectory() as scratch:
        place = SessionKey(record.session_id, parse_time(record.occurrence))
        found = extract_session(wanted.archive, place, Path(scratch), options, as_judged=as_judged)
        if not found.rows:
            return _missing(wanted.archive)
        if found.files:
            files = compare_archive(bundle, wanted.archive, keys, frozenset(found.files)).check
            if files.result is not CheckResult.PASSED:
                return replace(files, check="verdict")
        return _judged(found, rules, Path(scratch), wanted.id, record)


def archived_verdict_check(
    wanted: WantedVerdict, session_id: str | None, rules: RuleSet | None, options: AuditOptions
) -> BundleCheck:
    """Judge a session of an archive, by rules or else by those that judged it live, and look for a verdict.

    Without a session the whole archive is judged to find the verdict's.
    """
    as_judged = rules is None
    with tempfile.TemporaryDirectory() as scratch:
        if session_id is None:
            record = _found(wanted.archive, rules, Path(scratch) / "whole", wanted.id, options)
            if record is None:
                return failed("verdict", "TRL461", _UNMADE)
            place = SessionKey(record.session_id, parse_time(record.occurrence))
        else:
            place = SessionKey(session_id, None)
        found = extract_session(wanted.archive, place, Path(scratch), options, as_judged=as_judged)
        return _judged(found, rules, Path(scratch), wanted.id) if found.rows else _missing(wanted.archive)


def _key(record: VerdictRecord) -> tuple[str, str, str]:
    return record.pack, record.rule, record.rule_digest


def _missing(archive: Sequence[str]) -> BundleCheck:
    """Return the check of a session without rows."""
    if any(found for source in archive for found in Path(source).rglob(TOMBSTONES)):
        return not_checked(
            "verdict", "the archive has no event of its session; rows of the archive are erased"
        )
    return failed("verdict", "TRL461", "the archive has no event of its session")


def _found(
    archive: str | Path | Sequence[str], rules: RuleSet | None, out: Path, id: str, options: AuditOptions
) -> VerdictRecord | None:
    """Audit an archive into the bundle `out`, by rules or as judged, and return the verdict with an id."""
    if rules is None:
        audit_as_judged(archive, out, options)
    else:
        audit(archive, rules, out, options)
    return verdict_in(out, id)


def verdict_in(bundle: Path, id: str) -> VerdictRecord | None:
    """Return the verdict of a bundle with an id."""
    return next((each for each in read_verdicts(bundle / VERDICTS) if each.id == id), None)


def _judged(
    found: SessionExtract, rules: RuleSet | None, scratch: Path, id: str, stated: VerdictRecord | None = None
) -> BundleCheck:
    """Audit the rows of a session, look for the verdict, and have the checker derive it."""
    audited = scratch / "bundle"
    record = _found(found.archive, rules, audited, id, found.options)
    if record is None:
        return failed("verdict", "TRL461", _UNMADE, found.files)
    if stated is not None and record_line(record) != record_line(stated):
        return failed("verdict", "TRL461", f"{_UNMADE} with the stated witness and fields", found.files)
    if run_checker(audited).returncode:
        return failed("verdict", "TRL460", "the checker does not derive it from its certificate", found.files)
    rows = (
        f"{counted(found.rows, 'row')}, in {counted(len(found.files), 'file')}" if found.files else "its rows"
    )
    what = (
        f"{record.verdict} {record.pack}/{record.rule} at event {record.seq} of session {record.session_id}"
    )
    return passed("verdict", f"{what} follows from {rows}")
