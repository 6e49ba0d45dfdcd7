"""The check of a bundle by another audit of its archive."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from ...rules.packs.load import load_packs
from ...rules.packs.selection import select_rules
from ...schemas.chat.reading import ChatReading
from ...schemas.time import parse_time
from ..attestation.statement import tool
from ..audit.as_judged import audit_as_judged
from ..audit.audit import audit
from ..evidence.bundle import RULES, SUMMARY, TYPED_VERDICTS, VERDICTS, is_typed_alike
from ..evidence.certificates import CERTIFICATES
from ..evidence.files import file_digest
from ..findings.audited_archive import INPUTS, InputFile
from ..findings.waiving import WAIVERS
from ..prepare.options import AuditOptions
from ..report.page import REPORT
from ..waivers.waiver_file import read_waivers
from .attested import AttestedBundle
from .checks import BundleCheck, failed, not_checked, passed

EXACT = (VERDICTS, SUMMARY, CERTIFICATES)
"""The files that an audit of the same archive by the same rules writes again, byte for byte."""


def rerun_check(bundle: AttestedBundle, archive: Sequence[str], threads: int) -> BundleCheck:
    """Audit the archive again by the rules in the bundle, and compare the results."""
    if bundle.is_redacted:
        return not_checked("rerun", "a redacted bundle has other texts than an audit")
    options = replace(audit_options(bundle.predicate["parameters"], threads), **_given(bundle))
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / "bundle"
        if bundle.predicate["parameters"]["as_judged"]:
            audit_as_judged(tuple(archive), again, options)
        else:
            summary = msgspec.json.decode((bundle.folder / SUMMARY).read_bytes())
            words = summary.get("selection", {})
            rules = load_packs([str(bundle.folder / RULES)])
            if words:
                rules = select_rules(rules, words.get("select", ()), words.get("ignore", ()))
            audit(tuple(archive), rules, again, options)
        differ = [name for name in EXACT if not _is_same(bundle.folder / name, again / name)]
        if not is_typed_alike(bundle.folder / TYPED_VERDICTS, again / VERDICTS):
            differ.append(TYPED_VERDICTS)
        is_same_version = bundle.predicate["tool"]["version"] == tool()["version"]
        if is_same_version and not _is_same(bundle.folder / REPORT, again / REPORT):
            differ.append(REPORT)
    if differ:
        return failed("rerun", "TRL461", "an audit of this archive by these rules writes other files", differ)
    return passed("rerun", "an audit of this archive by these rules writes the same verdicts")


def _given(bundle: AttestedBundle) -> dict[str, Any]:
    """Return the waivers of a bundle, and the files that it names where it is a night's."""
    given: dict[str, Any] = {}
    if bundle.predicate["waivers_at"] is not None:
        text = (bundle.folder / WAIVERS).read_bytes()
        at = _time(bundle.predicate["waivers_at"])
        given = {"waivers": read_waivers(text, WAIVERS), "waivers_at": at}
    if bundle.predicate["parameters"]["previous_as_of"] is not None:
        with (bundle.folder / INPUTS).open("rb") as lines:
            names = (msgspec.json.decode(line, type=InputFile).name for line in lines)
            given["files"] = frozenset(names)
    return given


def _is_same(left: Path, right: Path) -> bool:
    return file_digest(left) == file_digest(right)


def audit_options(parameters: Mapping[str, Any], threads: int) -> AuditOptions:
    """Return the options that an attestation states."""
    since, until = _time(parameters["since"]), _time(parameters["until"])
    return AuditOptions(
        since=since,
        until=until,
        as_of=_time(parameters["as_of"]),
        previous_as_of=_time(parameters["previous_as_of"]),
        satisfied=parameters["satisfied"],
        idle_s=parameters["sessions"]["idle_s"],
        scope=tuple(parameters["sessions"]["scope"]),
        zone=ZoneInfo(parameters["timezone"]),
        chat=msgspec.convert(parameters["chat"], ChatReading),
        threads=threads,
        seed=parameters["seed"],
        with_text=parameters["with_text"],
    )


def _time(text: str | None) -> int | None:
    return None if text is None else parse_time(text)
