"""The statement of an attestation: an in-toto Statement on the files of a bundle and how they were made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import to_builtins

from ...predict.following.followed_chain import FollowedChain
from ...rules.engine.judge import CompiledRules
from ...rules.model.digest import SEMANTICS
from ...schemas.time import rfc3339
from ...schemas.verdict import Verdict
from ..evidence.bundle import SUMMARY
from ..evidence.files import bundle_files, digests, file_digest
from ..findings.audited_archive import INPUTS, read_inputs
from ..findings.waiving import read_waived
from ..prepare.options import AuditOptions
from .chain import PreviousBundle
from .envelope import ATTESTATION, TIMESTAMP

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:tracline:audit:1"
UNATTESTED: Final = frozenset({ATTESTATION, TIMESTAMP})
"""The files of a bundle that are no subjects of its statement."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


_COUNTED = (Verdict.VIOLATED, Verdict.UNMET, Verdict.UNJUDGED)
"""The verdicts that the statement counts, those at history events included."""


def statement(bundle: Path, predicate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statement on a bundle as its files are now."""
    names = [name for name in bundle_files(bundle) if name not in UNATTESTED]
    subjects = [
        {"name": name, "digest": {"sha256": digest}} for name, digest in digests(bundle, names).items()
    ]
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {**predicate},
    }


def audit_predicate(
    bundle: Path,
    rule_sets: Mapping[str, CompiledRules],
    options: AuditOptions,
    made: Mapping[str, str],
    previous: PreviousBundle | None,
    verdicts: Mapping[str, int],
    *,
    as_judged: bool,
    chain: FollowedChain | None = None,
) -> dict[str, Any]:
    """Return the predicate of an audit by rule sets, by digest, which wrote the other files of a bundle.

    `verdicts` has the numbers of lines by verdict.
    """
    summary = msgspec.json.decode((bundle / SUMMARY).read_bytes())
    return {
        "tool": tool(),
        "made": {**made},
        "parameters": _parameters(options, as_judged=as_judged) | _threshold(chain),
        "rules": _rules(rule_sets.values()),
        "rule_sets": sorted(rule_sets),
        "inputs": input_totals(bundle),
        "population": summary["population"],
        "verdicts": {
            **{verdict.value: verdicts.get(verdict, 0) for verdict in _COUNTED},
            "waived": sum(1 for _ in read_waived(bundle)),
        },
        "previous": None if previous is None else {"sha256": previous.sha256, "as_of": previous.as_of},
        "waivers_at": _time(options.waivers_in_force_at),
        "chains": [] if chain is None else [chain.digest],
        "redaction": None,
    }


@cache
def tool() -> Mapping[str, Any]:
    """Return the versions of tracline, of its semantics, and of its dependencies."""
    try:
        needed = [text for text in requires("tracline") or () if "extra ==" not in text]
        found = {name[0]: version(name[0]) for text in needed if (name := _NAME.match(text))}
        release = version("tracline")
    except PackageNotFoundError:
        release, found = "unknown", {}
    return {"version": release, "semantics": SEMANTICS, "dependencies": found}


def _parameters(options: AuditOptions, *, as_judged: bool) -> dict[str, Any]:
    """Return everything that decides the bytes of the bundle, besides the rules and the input."""
    return {
        "as_judged": as_judged,
        "as_of": _time(options.as_of),
        "previous_as_of": _time(options.previous_as_of),
        "since": _time(options.since),
        "until": _time(options.until),
        "satisfied": options.satisfied,
        "timezone": str(options.zone),
        "with_text": options.with_text,
        "seed": options.seed,
        "sessions": {"idle_s": options.idle_s, "scope": list(options.scope)},
        "chat": to_builtins(options.chat),
    }


def _threshold(chain: FollowedChain | None) -> dict[str, Any]:
    """Return the parameter of an audit that follows a chain."""
    return {} if chain is None else {"above": chain.above}


def _time(time: int | None) -> str | None:
    return None if time is None else rfc3339(time)


def _rules(rule_sets: Iterable[CompiledRules]) -> list[dict[str, str]]:
    """Return the rules of all sets, each once."""
    found = {
        (rule.pack, rule.id, rule.severity.value, digest)
        for compiled in rule_sets
        for rule, digest in zip(compiled.rules, compiled.digests, strict=True)
    }
    names = ("pack", "id", "severity", "rule_digest")
    return [dict(zip(names, each, strict=True)) for each in sorted(found)]


def input_totals(bundle: Path) -> dict[str, Any]:
    """Return the totals of the files that the audit read, and the digest of their list."""
    files = list(read_inputs(bundle))
    return {
        "files": len(files),
        "rows": sum(file.rows for file in files),
        "first_time": min((file.first_time for file in files if file.first_time), default=None),
        "last_time": max((file.last_time for file in files if file.last_time), default=None),
        "sha256": file_digest(bundle / INPUTS),
    }
