"""Small signed bundles, for tests of what finds a change in them."""

from __future__ import annotations

from pathlib import Path

from tracline.batch.attestation.attest import Attesting
from tracline.batch.attestation.chain import read_previous
from tracline.batch.attestation.keys import TrustedKey, new_key, read_public
from tracline.batch.attestation.signers import KeySigner
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import pack_text

from ..event_rows import PACK, START, call, result, session, user, write


def events() -> list[dict]:
    """Return the rows of four sessions: two that shout, one without an answer, one clean."""
    rows = session("a", user("hello"), user("no!"), call(), result())
    rows += session("b", user("well!"), call("pay", "c7"), result("c7"), call("pay", "c7"))
    rows += session("c", user("hi"), call())
    return rows + session("d", user("hi"), call(), result())


def make_key(folder: Path, name: str = "key") -> TrustedKey:
    """Write a key pair, and return the public key."""
    folder.mkdir(exist_ok=True)
    return new_key(folder / name, None)


def signed_bundle(
    folder: Path,
    *keys: str,
    options: AuditOptions | None = None,
    previous: Path | None = None,
    name: str = "bundle",
) -> Path:
    """Audit the events of `folder/archive` into `folder/NAME`, signed by these key files of the folder."""
    archive = write(folder / "archive" / "events.parquet", events()).parent
    signers = tuple(KeySigner.of(folder / key, None) for key in keys)
    before = None if previous is None else read_previous(previous)
    attesting = Attesting(signers, before, clock=lambda: START)
    audit(archive, pack_text(PACK), folder / name, options or AuditOptions(), attesting=attesting)
    return folder / name


def public(folder: Path, name: str = "key") -> TrustedKey:
    """Return the public key of a key file."""
    return read_public(folder / f"{name}.pub")
