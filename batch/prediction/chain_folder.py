"""The folder of a chain, which is written whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from ...archive.error import SourceError
from ...predict.folder.tables import CHAIN, COUNTS, RISK, RuleToWrite, chain_json, chain_tables


def write_chain(out: Path, rules: Sequence[RuleToWrite], document: Mapping[str, object]) -> str:
    """Write a chain into the folder `out`, and return its digest; `document` has what all rules share.

    The same counts and options give the same bytes. Raises SourceError (TRL406) if `out` exists and is
    neither empty nor a chain. An exception leaves `out` unchanged.
    """
    if out.exists() and not _is_replaceable(out):
        hint = "choose a folder that does not exist, is empty, or contains a chain"
        raise SourceError("TRL406", str(out), "exists and is not a chain", hint)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        digests: dict[str, str] = {}
        for name, table in chain_tables(rules).items():
            table.write_parquet(work / name, compression="zstd")
            digests[name] = sha256((work / name).read_bytes()).hexdigest()
        content = chain_json(rules, document, digests)
        (work / CHAIN).write_bytes(content)
        work.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        work.replace(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return sha256(content).hexdigest()


def _is_replaceable(out: Path) -> bool:
    if not out.is_dir():
        return False
    names = {path.name for path in out.iterdir()}
    return not names or names == {CHAIN, COUNTS, RISK}
