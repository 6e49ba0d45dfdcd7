"""Baselines: the known findings of an earlier bundle, and those that are neither known nor waived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...archive.error import SourceError
from ..evidence.bundle import SUMMARY, VERDICTS
from ..waivers.waiver import WAIVABLE, WaivableFields
from .waiving import RuleName, read_waived

_FIELDS = msgspec.json.Decoder(WaivableFields)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The ids of the findings of a bundle, as bytes, and the digests of its rules."""

    ids: frozenset[bytes]
    rules: Mapping[RuleName, str]

    def has(self, verdict_id: str) -> bool:
        """Return whether the bundle has the finding."""
        return bytes.fromhex(verdict_id) in self.ids


def read_baseline(bundle: Path) -> Baseline:
    """Read the findings of a bundle, `unjudged` verdicts too. Raises SourceError (TRL440) if it has none."""
    try:
        summary = msgspec.json.decode((bundle / SUMMARY).read_bytes())
        rules = {(rule["pack"], rule["id"]): rule["rule_digest"] for rule in summary["rules"].values()}
        return Baseline(frozenset(bytes.fromhex(each.id) for each in _findings(bundle)), rules)
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
