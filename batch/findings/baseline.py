"""Baselines: the known findings of an earlier bundle, and those that are neither known nor waived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from ...archive.error import SourceError
from ...schemas.records.verdict_record import VerdictRecord, decode_verdict
from ..evidence.bundle import SUMMARY, VERDICTS
from ..waivers.waiver import WAIVABLE, WaivableFields
from .waiving import RuleName, read_waived

_FIELDS = msgspec.json.Decoder(WaivableFields)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The ids of the findings of a bundle, as bytes, the digests of its rules, and its open file of verdicts.

    The open file can be read also where the audited bundle replaces this one.
    """

    ids: frozenset[bytes]
    rules: Mapping[RuleName, str]
    lines: BinaryIO

    def has(self, verdict_id: str) -> bool:
        """Return whether the bundle has the finding."""
        return bytes.fromhex(verdict_id) in self.ids

    def vanished(self, bundle: Path) -> Iterator[VerdictRecord]:
        """Yield the records of the findings that a bundle does not have any more, in their order."""
        present = {bytes.fromhex(each.id) for each in _findings(bundle)}
        self.lines.seek(0)
        records = map(decode_verdict, self.lines)
        return (each for each in records if bytes.fromhex(each.id) not in present)

    def close(self) -> None:
        """Close the file of verdicts."""
        self.lines.close()


def read_baseline(bundle: Path) -> Baseline:
    """Read the findings of a bundle, `unjudged` verdicts too. Raises SourceError (TRL440) if it has none."""
    try:
        summary = msgspec.json.decode((bundle / SUMMARY).read_bytes())
        rules = {(rule["pack"], rule["id"]): rule["rule_digest"] for rule in summary["rules"].values()}
        ids = frozenset(bytes.fromhex(each.id) for each in _findings(bundle))
        return Baseline(ids, rules, (bundle / VERDICTS).open("rb"))
    except (OSError, msgspec.MsgspecError, ValueError, KeyError) as error:
        what = f"cannot be a baseline: {type(error).__name__} in its files"
        raise SourceError("TRL440", str(bundle), what, "name the folder of a bundle") from error


def remaining_findings(bundle: Path, baseline: Baseline | None) -> Counter[RuleName]:
    """Count the findings of each rule that are neither waived nor in the baseline.

    Only violated and unmet verdicts count, and none at `history` events.
    """
    waived = {bytes.fromhex(each.id) for each in read_waived(bundle)}
    return Counter(
        (each.pack, each.rule)
        for each in _findings(bundle)
        if each.verdict in WAIVABLE
        and not each.history
        and bytes.fromhex(each.id) not in waived
        and not (baseline is not None and baseline.has(each.id))
    )


def _findings(bundle: Path) -> Iterator[WaivableFields]:
    with (bundle / VERDICTS).open("rb") as lines:
        yield from map(_FIELDS.decode, lines)
