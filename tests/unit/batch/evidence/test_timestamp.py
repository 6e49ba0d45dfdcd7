"""Timestamps: an authority made with openssl stamps signatures, and every fault of a timestamp is found."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from tracline.archive.error import SourceError
from tracline.batch.attestation.attest import Attesting
from tracline.batch.attestation.signers import KeySigner
from tracline.batch.attestation.timestamp import TimestampAuthority, read_certificates, stamped_bytes
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.verification.attested import read_attested
from tracline.batch.verification.stamped import timestamp_check
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.rules.packs.load import pack_text

from ....support.event_rows import PACK, session, user, write
from ....support.evidence.signed_bundles import make_key
from ....support.evidence.timestamp_authority import authority, make_authority

pytest.importorskip("rfc3161_client", reason="the extra `timestamp` is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]


def audited(folder: Path, url: str) -> Path:
    """Audit an archive into a bundle, signed and stamped by the authority at an address."""
    archive = write(folder / "archive" / "events.parquet", session("a", user("no!"))).parent
    attesting = Attesting((KeySigner.of(folder / "key", None),), authority=TimestampAuthority(url))
    audit(archive, pack_text(PACK), folder / "bundle", AuditOptions(), attesting=attesting)
    return folder / "bundle"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a key, two authorities, and a bundle that the first has stamped."""
    folder = tmp_path_factory.mktemp("stamped")
    make_key(folder)
    make_authority(folder / "first")
    make_authority(folder / "second", "Second")
    with authority(folder / "first") as url:
        audited(folder, url)
    return folder


def check(bundle: Path, *certificates: Path) -> tuple[str, str]:
    """Return the result and the sentence of the check, with the certificates of trusted authorities."""
    trusted = [each for path in certificates for each in read_certificates(path)]
    found = timestamp_check(read_attested(bundle), trusted)
    return found.result.value, found.detail


def test_a_trusted_authority_stamps_the_signature(desk: Path) -> None:
    """The time is checked by the authority's root, and not without it."""
    result, detail = check(desk / "bundle", desk / "first" / "ca.pem")
    assert (result, detail.startswith("the signatures existed at 20")) == ("passed", True)
    assert check(desk / "bundle")[0] == "not_checked"
    request = VerificationRequest(authorities=tuple(read_certificates(desk / "first" / "ca.pem")))
    assert verify(desk / "bundle", request).exit_code == 0


def test_openssl_verifies_the_timestamp_of_the_signatures_bytes(desk: Path) -> None:
    """The timestamp is that of the 64 bytes of the signature."""
    signature = stamped_bytes(read_attested(desk / "bundle").envelope)
    assert len(signature) == 64
    (desk / "signature.bin").write_bytes(signature)
    command = [
        "openssl",
        "ts",
        "-verify",
        "-data",
        desk / "signature.bin",
        "-CAfile",
        desk / "first" / "ca.pem",
    ]
    done = subprocess.run(
        [*command, "-in", desk / "bundle" / "timestamp.tsr"], capture_output=True, check=False
    )
    assert b"Verification: OK" in done.stdout + done.stderr


def test_another_authority_is_not_trusted(desk: Path) -> None:
    """A timestamp by a stranger shows nothing."""
    result, detail = check(desk / "bundle", desk / "second" / "ca.pem")
    assert (result, detail) == ("failed", "TRL459 no given authority signed it")


def test_a_timestamp_of_another_signature_is_refused(desk: Path, tmp_path: Path) -> None:
    """Also without certificates: it is a stamp of other content."""
    bundle = shutil.copytree(desk / "bundle", tmp_path / "bundle")
    with authority(desk / "first") as url:
        (bundle / "timestamp.tsr").write_bytes(TimestampAuthority(url).stamp(b"other content"))
    for certificates in ((), (desk / "first" / "ca.pem",)):
        assert check(bundle, *certificates) == ("failed", "TRL459 it is a stamp of other content")


def test_a_missing_timestamp_is_found_if_it_is_asked_for(desk: Path, tmp_path: Path) -> None:
    """With the authority's certificate a bundle without a timestamp fails."""
    bundle = shutil.copytree(desk / "bundle", tmp_path / "bundle")
    (bundle / "timestamp.tsr").unlink()
    assert check(bundle) == ("not_checked", "there is none")
    assert check(bundle, desk / "first" / "ca.pem") == ("failed", "TRL459 there is none")


def test_each_changed_byte_is_found(desk: Path, tmp_path: Path) -> None:
    """With the certificate of the authority, but for the name of the algorithm, which it does not sign."""
    bundle = shutil.copytree(desk / "bundle", tmp_path / "bundle")
    path = bundle / "timestamp.tsr"
    content, random, passed = path.read_bytes(), Random(5), []
    for at in sorted(random.sample(range(len(content)), 300)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :])
        if check(bundle, desk / "first" / "ca.pem")[0] == "passed":
            passed.append(at)
    path.write_bytes(content + b"\n")
    assert check(bundle, desk / "first" / "ca.pem")[0] == "failed"
    name = bytes.fromhex("300d06092a864886f70d0101010500")
    assert content.count(name) == 2
    assert set(passed) <= set(range(content.rindex(name), content.rindex(name) + len(name)))


def test_an_authority_that_does_not_stamp_stops_the_audit(desk: Path, tmp_path: Path) -> None:
    """Another answer, no answer and an address that is none: nothing is written."""
    make_key(tmp_path)
    with authority(desk / "first", refuses=True) as refusing:
        pass
    for url in (refusing, "file:///etc/hostname", "http://127.0.0.1:1/"):
        with pytest.raises(SourceError) as caught:
            audited(tmp_path, url)
        assert caught.value.code == "TRL459"
    with authority(desk / "first", refuses=True) as url, pytest.raises(SourceError) as caught:
        audited(tmp_path, url)
    assert caught.value.code == "TRL459"
    assert not (tmp_path / "bundle").exists()


def test_a_file_without_certificates_is_an_error(tmp_path: Path) -> None:
    """The certificates of the authority are PEM."""
    (tmp_path / "none.pem").write_text("hello")
    with pytest.raises(SourceError) as caught:
        read_certificates(tmp_path / "none.pem")
    assert caught.value.code == "TRL459"
