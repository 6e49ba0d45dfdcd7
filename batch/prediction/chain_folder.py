"""The folder of a chain, which is written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from ...predict.folder.tables import CHAIN, COUNTS, RISK, RuleToWrite, chain_json, chain_tables
from ...predict.learning.document import chain_document, rules_to_write
from ...predict.learning.learn import ChainLearned
from ..evidence.output_folder import replacing


def write_learned(out: Path, chain: ChainLearned, since: str | None = None, until: str | None = None) -> str:
    """Write a learned chain like `write_chain`; the times are those of the sessions that were read."""
    document = chain_document(chain) | {"since": since, "until": until}
    return write_chain(out, rules_to_write(chain), document)


def write_chain(out: Path, rules: Sequence[RuleToWrite], document: Mapping[str, object]) -> str:
    """Write a chain into the folder `out`, and return its digest; `document` has what all rules share.

    The same counts and options give the same bytes. Raises SourceError (TRL406) if `out` exists and is
    neither empty nor a chain. An exception leaves `out` unchanged.
    """
    with replacing(out, "a chain", {CHAIN, COUNTS, RISK}.__eq__) as work:
        digests: dict[str, str] = {}
        for name, table in chain_tables(rules).items():
            table.write_parquet(work / name, compression="zstd")
            digests[name] = sha256((work / name).read_bytes()).hexdigest()
        content = chain_json(rules, document, digests)
        (work / CHAIN).write_bytes(content)
    return sha256(content).hexdigest()
