"""The fingerprint of a machine, by which a chain knows the machines whose states it numbers."""

from __future__ import annotations

import hashlib

import orjson

from ...rules.model.machine import Machine


def machine_fingerprint(machine: Machine) -> str:
    """Return the SHA-256 of a machine's tables: what a chain's states mean depends on their numbers."""
    parts = [
        machine.propositions,
        machine.letters.hex(),
        machine.next,
        machine.output,
        [None if verdict is None else verdict.value for verdict in machine.closing],
    ]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()
