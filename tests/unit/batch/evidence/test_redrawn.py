"""The report of a bundle is drawn again, and never against its attestation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracline.archive.error import SourceError
from tracline.batch.attestation.envelope import signed_envelope
from tracline.batch.attestation.signers import KeySigner
from tracline.batch.attestation.statement import statement
from tracline.batch.verification.attested import read_attested
from tracline.batch.verification.redrawn import redraw_report
from tracline.batch.verification.verify import VerificationRequest, verify

from ....support.evidence.signed_bundles import make_key, public, signed_bundle

pytestmark = pytest.mark.slow


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a signed bundle."""
    make_key(tmp_path)
    return signed_bundle(tmp_path, "key")


def exit_code(bundle: Path) -> int:
    """Return the exit code of the verification with the key."""
    return verify(bundle, VerificationRequest((public(bundle.parent),))).exit_code


def test_a_changed_report_is_drawn_again(bundle: Path) -> None:
    """The page has the attested bytes again."""
    (bundle / "report.html").write_text("nothing")
    assert exit_code(bundle) == 1
    redraw_report(bundle)
    assert exit_code(bundle) == 0


def test_a_report_of_another_version_stays(bundle: Path) -> None:
    """The page of this version would break the digest that is attested, so it is not written."""
    page = bundle / "report.html"
    page.write_text(page.read_text() + "<!-- 0.0 -->\n")
    predicate = {
        **read_attested(bundle).predicate,
        "tool": {"version": "0.0", "semantics": "0", "dependencies": {}},
    }
    signer = KeySigner.of(bundle.parent / "key", None)
    envelope = signed_envelope(statement(bundle, predicate), [signer])
    (bundle / "attestation.json").write_bytes(envelope.encoded())
    before = page.read_bytes()
    assert exit_code(bundle) == 0
    with pytest.raises(SourceError, match="another report"):
        redraw_report(bundle)
    assert page.read_bytes() == before
    assert exit_code(bundle) == 0


def test_a_bundle_without_an_attestation_is_drawn_again(bundle: Path) -> None:
    """Bundles of early releases have none."""
    (bundle / "attestation.json").unlink()
    (bundle / "report.html").unlink()
    redraw_report(bundle)
    assert (bundle / "report.html").stat().st_size > 1000
