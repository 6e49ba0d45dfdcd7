"""The checks of a bundle by what its own files imply: ids, certificates, the summary, the report."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from ...rules.engine.records import record_line
from ...rules.model.digest import SEMANTICS, verdict_id
from ...rules.model.problem import counted
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import parse_time
from ...schemas.verdict import Verdict
from ..attestation.statement import input_totals, tool
from ..evidence.bundle import RISK, RULES, SUMMARY, VERDICTS, read_verdicts
from ..evidence.certificates import CERTIFICATES
from ..evidence.risk_lines import read_crossings
from ..findings.audited_archive import INPUTS
from ..findings.bundle_rules import bundle_rules
from ..findings.waiving import WAIVED, WAIVERS, Waiving, read_waived
from ..following.warned_sessions import crossed_sessions, warned_sessions
from ..report.page import REPORT, report_html
from ..waivers.waiver_file import read_waivers
from .attested import AttestedBundle
from .checks import BundleCheck, failed, not_checked, passed

CHECKER = "tracline.checker.check_bundle"
"""The checker, which shares no code with tracline, runs in a process without it."""
_FOLLOWING = re.compile(r"(\d+) verdicts follow, (\d+) of them by the table only")
_COUNTED = {Verdict.VIOLATED: "violations", Verdict.UNMET: "unmet"}


def ids_check(bundle: AttestedBundle) -> BundleCheck:
    """Check that each id is the digest of its verdict."""
    if bundle.is_redacted:
        return not_checked("ids", "ids of a redacted bundle are no digests")
    count = 0
    for record in _records(bundle):
        count += 1
        if record.id != _id_of(record):
            return failed("ids", "TRL460", f"line {count} has another id than its verdict", [VERDICTS])
    for number, (stated, crossing) in enumerate(read_crossings(bundle.folder / RISK), 1):
        if stated != crossing.id:
            return failed("ids", "TRL460", f"line {number} has another id than its crossing", [RISK])
    return passed("ids", f"digests of their verdicts: {counted(count, 'id')}")


def _records(bundle: AttestedBundle) -> Iterator[VerdictRecord]:
    return read_verdicts(bundle.folder / VERDICTS)


def _id_of(record: VerdictRecord) -> str:
    return verdict_id(
        pack=record.pack,
        rule=record.rule,
        rule_digest=record.rule_digest,
        session_id=record.session_id,
        occurrence=record.occurrence,
        slice=record.slice,
        event_id=record.event_id,
        verdict=record.verdict,
    )


def checker_path() -> Path:
    """Return the file of the checker."""
    found = find_spec(CHECKER)
    assert found is not None, "the package has the checker"
    assert found.origin is not None, "the checker is a file"
    return Path(found.origin)


def run_checker(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the checker on a bundle, in a process of its own."""
    command = [sys.executable, "-I", "-X", "utf8", checker_path(), folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def certificates_check(bundle: AttestedBundle) -> BundleCheck:
    """Run the checker, which derives the violated and unmet verdicts from the certificates."""
    done = run_checker(bundle.folder)
    if done.returncode:
        what = "the checker refuses them" if done.returncode == 1 else "the checker cannot read them"
        return failed("certificates", "TRL460", what, [CERTIFICATES])
    found = _FOLLOWING.search(done.stdout)
    if found is None:
        return failed("certificates", "TRL460", "the checker does not report what follows", [CERTIFICATES])
    verdicts, by_table = map(int, found.groups())
    what = f"derived by the checker: {counted(verdicts, 'verdict')}, {by_table:,} of them by the table only"
    return passed("certificates", what)


def summary_check(bundle: AttestedBundle) -> BundleCheck:
    """Count the violations, the unmet verdicts and their sessions again, by rule."""
    summary = msgspec.json.decode((bundle.folder / SUMMARY).read_bytes())
    counts: Counter[tuple[str, str, str]] = Counter()
    sessions: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    attested: Counter[str] = Counter()
    for record in _records(bundle):
        attested[record.verdict] += 1
        if record.verdict in _COUNTED and not record.history:
            counts[record.pack, record.rule, _COUNTED[record.verdict]] += 1
            sessions[record.pack, record.rule].add((record.session_id, record.occurrence))
    seen = set[tuple[str, str]]()
    for key, entry in summary["rules"].items():
        rule = (entry["pack"], entry["id"])
        seen.add(rule)
        for name in _COUNTED.values():
            if entry[name] != counts[*rule, name]:
                return failed(
                    "summary", "TRL460", f"{name} of rule {key} are {counts[*rule, name]}", [SUMMARY]
                )
        if not _is_session_count(entry["sessions_violating"], len(sessions[rule]), bundle):
            what = f"sessions_violating of rule {key} are {len(sessions[rule])}"
            return failed("summary", "TRL460", what, [SUMMARY])
    if differs := next(_other_warnings(bundle, summary), None):
        return failed("summary", "TRL460", differs, [SUMMARY])
    if unlisted := set(sessions) - seen:
        return failed("summary", "TRL460", f"{len(unlisted)} rules with verdicts are not in it", [SUMMARY])
    return _attested_counts(bundle, attested, len(seen))


def _other_warnings(bundle: AttestedBundle, summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield each figure of a rule's warnings that is not that of the crossings and verdicts, in words."""
    stated = {key: entry for key, entry in summary["rules"].items() if "risk" in entry}
    if bool(bundle.chains) is not (bundle.folder / RISK).exists():
        yield f"an audit with a chain has {RISK}, and no other"
    if not stated:
        return
    parameters = bundle.predicate["parameters"]
    has_window = parameters["since"] is not None or parameters["until"] is not None
    with (bundle.folder / RISK).open("rb") as crossings, (bundle.folder / VERDICTS).open("rb") as verdicts:
        found = warned_sessions(crossed_sessions(crossings), verdicts)
    for key, entry in stated.items():
        rule, risk = (entry["pack"], entry["id"]), entry["risk"]
        violating, missed = found.violating[rule], found.missed[rule]
        # Crossings before the window are not in the bundle, so more sessions may be missed by it.
        missed = min(missed, risk["missed"]) if has_window else missed
        counts = {
            "sessions_warned": found.warned[rule],
            "warned_before": violating - missed,
            "missed": missed,
        }
        if parameters["as_judged"]:
            # The bundle does not name the sessions that were followed, so fewer may violate among those.
            counts = {name: min(count, risk[name]) for name, count in counts.items()}
            counts["sessions_warned"] = found.warned[rule]
        for name, count in counts.items():
            if risk[name] != count:
                yield f"{name} of rule {key} are {count}"


def _is_session_count(stated: int, counted: int, bundle: AttestedBundle) -> bool:
    """Return whether a number of sessions is that of the verdicts.

    An audit as judged counts a session once for each of its segments.
    """
    return stated >= counted if bundle.predicate["parameters"]["as_judged"] else stated == counted


def _attested_counts(bundle: AttestedBundle, counts: Counter[str], rules: int) -> BundleCheck:
    """Compare the attested numbers of verdicts and the population with the files."""
    stated = bundle.predicate["verdicts"]
    if any(stated[name] != counts[name] for name in ("violated", "unmet", "unjudged")):
        return failed("summary", "TRL460", "the attestation states other numbers of verdicts", [VERDICTS])
    if stated["waived"] != sum(1 for _ in read_waived(bundle.folder)):
        return failed(
            "summary", "TRL460", "the attestation states another number of waived verdicts", [WAIVED]
        )
    summary = msgspec.json.decode((bundle.folder / SUMMARY).read_bytes())
    if summary["population"] != bundle.predicate["population"]:
        return failed("summary", "TRL460", "the attestation states another population", [SUMMARY])
    if input_totals(bundle.folder) != bundle.predicate["inputs"]:
        return failed("summary", "TRL460", "the attestation states other inputs", [INPUTS])
    if not _has_attested_rules(bundle):
        return failed("summary", "TRL460", "the attestation states other rules", [RULES])
    return passed("summary", f"the counts of {counted(rules, 'rule')} are those of {VERDICTS}")


def _has_attested_rules(bundle: AttestedBundle) -> bool:
    """Return whether the packs in a bundle give each attested rule, and each verdict is of one of these."""
    rules = bundle.predicate["rules"]
    attested = {(rule["pack"], rule["id"], rule["rule_digest"]): rule["severity"] for rule in rules}
    if any((each.pack, each.rule, each.rule_digest) not in attested for each in _records(bundle)):
        return False
    if bundle.predicate["tool"]["semantics"] != SEMANTICS:
        return True  # the digests are of other semantics
    found = {key: rule.severity.value for key, rule in bundle_rules(bundle.folder).items()}
    return attested.items() <= found.items()


def waivers_check(bundle: AttestedBundle) -> BundleCheck:
    """Match the verdicts with the waivers in the bundle again, and compare the waived ones."""
    if bundle.predicate["waivers_at"] is None:
        if odd := [name for name in (WAIVERS, WAIVED) if (bundle.folder / name).exists()]:
            return failed("waivers", "TRL460", "the attestation states no time of waivers", odd)
        return not_checked("waivers", "the audit has no waivers")
    if bundle.is_redacted:
        return not_checked("waivers", "the waivers of a redacted bundle name other texts")
    at = parse_time(bundle.predicate["waivers_at"])
    with tempfile.TemporaryDirectory() as scratch:
        file = read_waivers((bundle.folder / WAIVERS).read_bytes(), WAIVERS)
        waiving = Waiving(file, at or 0, Path(scratch))
        for record in _records(bundle):
            waiving.waives(*record_line(record))
        counts = waiving.finish()
        is_same = (Path(scratch) / WAIVED).read_bytes() == (bundle.folder / WAIVED).read_bytes()
    if not is_same:
        return failed("waivers", "TRL460", "other verdicts are waived than the waivers cover", [WAIVED])
    lapsed = f"; {counted(len(counts.expired), 'waiver')} expired before" if counts.expired else ""
    waived = bundle.predicate["verdicts"]["waived"]
    what = f"the waivers in force cover the {counted(waived, 'waived verdict')} and no others{lapsed}"
    return passed("waivers", what)


def report_check(bundle: AttestedBundle) -> BundleCheck:
    """Draw the report again, if this is the version of tracline that drew it, and compare it."""
    made_by, version = bundle.predicate["tool"]["version"], tool()["version"]
    if made_by != version:
        return not_checked("report", f"it is drawn by tracline {made_by}, and this is {version}")
    page = report_html(bundle.folder).encode()
    if page != (bundle.folder / REPORT).read_bytes():
        return failed("report", "TRL460", "it is not what the other files give", [REPORT])
    return passed("report", "it is what the other files give")
