"""Risk crossings as canonical JSON."""

from __future__ import annotations

import random

import msgspec
import pytest
import rfc8785
from tracline.schemas.records.risk_crossing import (
    RiskCrossing,
    RiskLevel,
    decode_crossing,
    encode_crossing,
    rounded,
)
from tracline.schemas.verdict import Severity

RISKS = (0.0, 1.0, 1e-9, 9e-9, 1e-7, 1.23e-7, 1e-6, 1e-5, 1.1e-5, 1e-4, 0.1, 0.3, 0.123456789, 0.999999999)


def crossing(risk: float | None) -> RiskCrossing:
    """Return a crossing with that risk, threshold and upper end."""
    return RiskCrossing(
        agent='a "quoted" name, é',
        basis="context",
        chain="c" * 64,
        event_id="e",
        high=risk,
        history=False,
        late=True,
        level=RiskLevel.UP,
        low=None,
        occurrence="2026-01-01T00:00:00.000000001Z",
        pack="p",
        risk=risk,
        rule="r",
        rule_digest="d" * 64,
        seq=12,
        session_id="s",
        sessions=None,
        severity=Severity.HIGH,
        slice='["a",1]',
        threshold=0.5 if risk is None else risk,
        time="2026-01-01T00:00:01Z",
        within=None,
    )


@pytest.mark.parametrize(
    "risk", [None, *RISKS, *(rounded(random.Random(n).random() ** 9) for n in range(40))]
)
def test_a_line_is_canonical_json(risk: float | None) -> None:
    """The bytes are those of RFC 8785, and are read back."""
    record = crossing(risk)
    line = encode_crossing(record)
    assert line == rfc8785.dumps({"id": record.id, **msgspec.to_builtins(record)})
    assert decode_crossing(line) == record
