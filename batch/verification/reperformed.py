"""The check of a bundle by another audit of its archive."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from ...predict.folder.learned_chain import LearnedChain
from ...predict.following.followed_chain import followed_chain, followed_if_any
from ...rules.model.problem import counted
from ...rules.packs.load import load_packs
from ...rules.packs.selection import select_rules
from ...schemas.chat.reading import ChatReading
from ...schemas.time import parse_time
from ..attestation.statement import tool
from ..audit.as_judged import audit_as_judged
from ..audit.audit import audit
from ..evidence.bundle import RISK, RULES, SUMMARY, TYPED_VERDICTS, VERDICTS, is_typed_alike
from ..evidence.certificates import CERTIFICATES
from ..evidence.files import file_digest
from ..findings.audited_archive import read_inputs
from ..findings.waiving import WAIVERS
from ..nights.night_options import night_options
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..report.page import REPORT
from ..sources.discover import Population
from ..waivers.waiver_file import read_waivers
from .attested import AttestedBundle
from .checks import BundleCheck, failed, not_checked, passed

EXACT = (VERDICTS, SUMMARY, CERTIFICATES)
"""The files that an audit of the same archive by the same rules writes again, byte for byte."""
EXACT_WITHOUT_CHAIN = (VERDICTS, CERTIFICATES)
"""Those of them that depend on no chain."""


def rerun_check(
    bundle: AttestedBundle, archive: Sequence[str], threads: int, learned: LearnedChain | None
) -> BundleCheck:
    """Audit the archive again by the rules in the bundle, and compare the results.

    A night reads some files of the archive. Which ones it must read follows from the archive alone. Without
    the chain whose risks the audit followed, all else is compared.
    """
    if bundle.is_redacted:
        return not_checked("rerun", "a redacted bundle has other texts than an audit")
    chains = bundle.chains
    if learned is not None and learned.digest not in chains:
        return not_checked("rerun", "the audit followed " + ("another chain" if chains else "no chain"))
    parameters = bundle.predicate["parameters"]
    options = replace(audit_options(parameters, threads), **_waivers(bundle))
    if options.previous_as_of is not None:
        audited = frozenset(file.name for file in read_inputs(bundle.folder))
        needed = _files_of_night(archive, options, as_judged=parameters["as_judged"])
        if left_out := _begun(archive, needed - audited, options):
            what = f"{counted(len(left_out), 'file')} of the night not audited"
            return failed("rerun", "TRL461", what, left_out)
        options = replace(options, files=audited)
    is_whole = learned is not None or not chains
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / "bundle"
        if parameters["as_judged"]:
            above = parameters["above"] if chains else None
            follow = None if learned is None else partial(followed_if_any, learned, above=above)
            audit_as_judged(tuple(archive), again, options, follow=follow)
        else:
            _audit_again(bundle, archive, again, options, learned)
        differ = _differing(bundle, again, is_whole=is_whole)
    if differ:
        return failed("rerun", "TRL461", "an audit of this archive by these rules writes other files", differ)
    risks = "; the risks are not checked: --predict CHAIN"
    if is_whole:
        risks = " and crossings" if chains else ""
    return passed("rerun", f"an audit of this archive by these rules writes the same verdicts{risks}")


def _audit_again(
    bundle: AttestedBundle,
    archive: Sequence[str],
    again: Path,
    options: AuditOptions,
    learned: LearnedChain | None,
) -> None:
    """Audit the archive into the folder `again`, by those rules in the bundle that its summary selects."""
    summary = msgspec.json.decode((bundle.folder / SUMMARY).read_bytes())
    words = summary.get("selection", {})
    rules = load_packs([str(bundle.folder / RULES)])
    if words:
        rules = select_rules(rules, words.get("select", ()), words.get("ignore", ()))
    above = bundle.predicate["parameters"]["above"] if bundle.chains else None
    chain = None if learned is None else followed_chain(learned, rules, above)
    audit(tuple(archive), rules, again, options, chain=chain)


def _differing(bundle: AttestedBundle, again: Path, *, is_whole: bool) -> list[str]:
    """Return the names of the files that an audit wrote otherwise into `again`.

    Without the chain that the audit followed, not `is_whole`, nothing that depends on it is compared.
    """
    exact = EXACT if not bundle.chains else (*EXACT, RISK) if is_whole else EXACT_WITHOUT_CHAIN
    differ = [name for name in exact if not _is_same(bundle.folder / name, again / name)]
    if not is_whole and _without_risks(bundle.folder) != _without_risks(again):
        differ.append(SUMMARY)
    if not is_typed_alike(bundle.folder / TYPED_VERDICTS, again / VERDICTS):
        differ.append(TYPED_VERDICTS)
    is_same_version = bundle.predicate["tool"]["version"] == tool()["version"]
    if is_same_version and is_whole and not _is_same(bundle.folder / REPORT, again / REPORT):
        differ.append(REPORT)
    return differ


def _without_risks(bundle: Path) -> Any:
    """Return the summary of a bundle without what depends on a chain."""
    summary = msgspec.json.decode((bundle / SUMMARY).read_bytes())
    summary.pop("followed", None)
    for entry in summary["rules"].values():
        entry.pop("risk", None)
    return summary


def _waivers(bundle: AttestedBundle) -> dict[str, Any]:
    """Return the options of an audit on its waivers."""
    if bundle.predicate["waivers_at"] is None:
        return {}
    text = (bundle.folder / WAIVERS).read_bytes()
    return {"waivers": read_waivers(text, WAIVERS), "waivers_at": _time(bundle.predicate["waivers_at"])}


def _files_of_night(archive: Sequence[str], options: AuditOptions, *, as_judged: bool) -> frozenset[str]:
    """Return the names of the files that a night must read."""
    assert options.previous_as_of is not None, "it is a night"
    files = night_options(archive, options, options.previous_as_of, as_judged=as_judged).files
    assert files is not None, "a night names its files"
    return files


def _begun(archive: Sequence[str], files: frozenset[str], options: AuditOptions) -> set[str]:
    """Return the files with a row up to the end of a night; the others came later, as dumps do."""
    if not files:
        return set()
    population = Population()
    with tempfile.TemporaryDirectory() as scratch:
        prepare(tuple(archive), Path(scratch), population, replace(options, files=files))
    assert options.as_of is not None, "a night ends at a time"
    firsts = {name: population.extent_of(name).first for name in files}
    return {name for name, first in firsts.items() if first is None or first <= options.as_of}


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
