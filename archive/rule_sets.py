"""The rule sets of an archive: `rules/<digest>.json`, each whole, beside the events that it judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import orjson
import rfc8785

from ..rules.model.digest import rule_set_digest
from ..rules.model.rule import RuleSet, stopping
from ..rules.packs.load import load_texts
from .disk import disk_errors, sync_path
from .error import SourceError
from .manifest import RULE_SETS

_DIGEST = re.compile(r"[0-9a-f]{64}")


def write_rule_set(root: Path, digest: str, packs: Mapping[str, str]) -> None:
    """Write the packs of a rule set to the archive at `root`, whole and synced, unless they are there."""
    assert _DIGEST.fullmatch(digest), "a digest is 64 hex digits"
    path = root / RULE_SETS / f"{digest}.json"
    if path.exists():
        return
    temporary = path.with_name(f".writing-{path.name}")
    with disk_errors(path):
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
            sync_path(root)
        temporary.write_bytes(rfc8785.dumps({"packs": dict(packs)}) + b"\n")
        sync_path(temporary)
        temporary.replace(path)
        sync_path(path.parent)


def read_rule_set(roots: Iterable[Path], digest: str) -> RuleSet:
    """Return the rule set of that digest from the first of these archives that has it.

    A release that had no `unknown` wrote digests of rules that stop, and the rule set is then read so.
    Raises SourceError (TRL408) if none has it or its content has another digest, and RuleError if its packs
    cannot be read.
    """
    path = None
    if _DIGEST.fullmatch(digest):
        name = f"{RULE_SETS}/{digest}.json"
        path = next((root / name for root in roots if (root / name).is_file()), None)
    if path is None:
        hint = (
            "restore the archive's folder `rules`, or activate the same packs again, which writes them; "
            "or choose rules with --rules instead of --as-judged"
        )
        raise SourceError("TRL408", RULE_SETS, f"the archive has no rule set {digest[:12]}", hint)
    hint = "restore the file, or use the release of tracline that wrote it"
    try:
        content = cast("dict[str, Any]", orjson.loads(path.read_bytes()))
        packs = {str(name): str(text) for name, text in content["packs"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SourceError("TRL408", str(path), "is not a rule set", hint) from None
    rule_set = load_texts(packs)
    for readable in (rule_set, stopping(rule_set)):
        if rule_set_digest(readable) == digest:
            return readable
    raise SourceError("TRL408", str(path), "does not match the digest in its name", hint)
