"""Chains of bundles: each names the one before, and a new key begins with a bundle that both keys sign."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tracline.archive.error import SourceError
from tracline.batch.attestation.envelope import signed_envelope
from tracline.batch.attestation.signers import KeySigner
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.redaction.redact import redact
from tracline.batch.redaction.secret import RedactionSecret
from tracline.batch.verification.attested import read_attested
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.schemas.time import NS

from ....support.event_rows import START
from ....support.evidence.signed_bundles import make_key, public, signed_bundle

pytestmark = pytest.mark.slow

AS_OF = AuditOptions(as_of=START + 60 * NS)


def previous_check(bundle: Path, previous: Path | None, *keys: str) -> str:
    """Return the result of the check with these keys, and the code of its fault."""
    folder = bundle.parent
    request = VerificationRequest(keys=tuple(public(folder, key) for key in keys), previous=previous)
    [check] = [check for check in verify(bundle, request).checks if check.check == "previous"]
    return check.detail.split()[0] if check.result == "failed" else check.result.value


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Return a folder with the keys `old` and `new`, and a first bundle signed by the old one."""
    make_key(tmp_path, "old")
    make_key(tmp_path, "new")
    signed_bundle(tmp_path, "old", options=AS_OF, name="monday")
    return tmp_path


def test_a_bundle_names_the_one_before(chain: Path) -> None:
    """The statement has the digest of the previous attestation, and the time as of which it was made."""
    tuesday = signed_bundle(chain, "old", previous=chain / "monday", name="tuesday")
    named = read_attested(tuesday).predicate["previous"]
    assert named["as_of"] == "2026-02-17T12:01:00.000000000Z"
    assert previous_check(tuesday, chain / "monday", "old") == "passed"
    assert previous_check(tuesday, chain / "monday") == "passed"
    assert previous_check(tuesday, None, "old") == "not_checked"


def test_another_bundle_before_is_found(chain: Path) -> None:
    """Neither a bundle of the same rows at another time nor the bundle itself is the one before."""
    tuesday = signed_bundle(chain, "old", previous=chain / "monday", name="tuesday")
    second = signed_bundle(chain, "old", name="second")
    assert previous_check(tuesday, second, "old") == "TRL458"
    assert previous_check(tuesday, tuesday, "old") == "TRL458"
    assert previous_check(tuesday, chain / "archive", "old") == "TRL458"
    assert previous_check(chain / "monday", tuesday, "old") == "TRL458"


def test_a_redacted_bundle_before_is_trusted_by_its_signature_only(chain: Path) -> None:
    """Anybody can write a bundle that states that it is a redacted copy."""
    tuesday = signed_bundle(chain, "old", previous=chain / "monday", name="tuesday")
    signers = (KeySigner.of(chain / "old", None),)
    redact(chain / "monday", chain / "public", RedactionSecret(bytes(32)), signers, sessions=False)
    assert previous_check(tuesday, chain / "public", "old") == "passed"
    assert previous_check(tuesday, chain / "public") == "not_checked"


def test_a_damaged_bundle_before_fails(chain: Path) -> None:
    """A statement without its members is no reason to stop."""
    tuesday = signed_bundle(chain, "old", previous=chain / "monday", name="tuesday")
    shutil.copytree(chain / "monday", chain / "odd")
    statement = read_attested(chain / "odd").envelope.statement
    statement["predicate"]["redaction"] = "none"
    (chain / "odd" / "attestation.json").write_bytes(signed_envelope(statement, ()).encoded())
    assert previous_check(tuesday, chain / "odd") == "TRL458"


def test_a_new_key_begins_with_both_signatures(chain: Path) -> None:
    """The old key vouches for the new one; from then on the new one signs alone."""
    with pytest.raises(SourceError) as caught:
        signed_bundle(chain, "new", previous=chain / "monday", name="tuesday")
    assert caught.value.code == "TRL458"
    assert not (chain / "tuesday").exists()
    tuesday = signed_bundle(chain, "new", "old", previous=chain / "monday", name="tuesday")
    wednesday = signed_bundle(chain, "new", previous=tuesday, name="wednesday")
    assert len(read_attested(tuesday).envelope.signatures) == 2
    assert previous_check(tuesday, chain / "monday", "old", "new") == "passed"
    assert previous_check(wednesday, tuesday, "old", "new") == "passed"
    request = VerificationRequest(keys=(public(chain, "old"), public(chain, "new")))
    assert verify(tuesday, request).exit_code == 0


def test_every_signature_must_be_by_a_given_key(chain: Path) -> None:
    """A signature by a key that is not given could have been changed."""
    both = signed_bundle(chain, "new", "old", name="tuesday")
    for key in ("old", "new"):
        assert verify(both, VerificationRequest(keys=(public(chain, key),))).exit_code == 1


def test_a_previous_bundle_must_be_readable(chain: Path) -> None:
    """An audit does not chain to a folder without an attestation."""
    with pytest.raises(SourceError) as caught:
        signed_bundle(chain, "old", previous=chain / "archive", name="tuesday")
    assert caught.value.code == "TRL458"
