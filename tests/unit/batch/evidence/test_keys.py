"""Keys and signers: files that openssl reads, passphrases, and commands that sign."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from tracline.archive.error import SourceError
from tracline.batch.attestation.keys import new_key, read_private, read_public
from tracline.batch.attestation.signers import CommandSigner, KeySigner

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")


def code_of(make: Callable[[], object]) -> str:
    """Return the code of the error that a call raises."""
    with pytest.raises(SourceError) as caught:
        make()
    return caught.value.code


def test_a_private_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """The private key has mode 0600, and the public one signs nothing."""
    key = new_key(tmp_path / "key", None)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_public(tmp_path / "key.pub").id == key.id
    signature = KeySigner.of(tmp_path / "key", None).sign(b"content")
    assert key.has_signed(b"content", signature)
    assert not key.has_signed(b"Content", signature)


@pytest.mark.parametrize("taken", ["key", "key.pub"])
def test_a_key_overwrites_no_file(tmp_path: Path, taken: str) -> None:
    """If either file exists, neither is written."""
    (tmp_path / taken).write_text("mine")
    assert code_of(lambda: new_key(tmp_path / "key", None)) == "TRL450"
    assert [path.name for path in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == "mine"


def test_an_encrypted_key_needs_its_passphrase(tmp_path: Path) -> None:
    """A missing and a wrong passphrase are refused."""
    key = new_key(tmp_path / "key", b"open sesame")
    assert b"ENCRYPTED" in (tmp_path / "key").read_bytes()
    assert code_of(lambda: read_private(tmp_path / "key", None)) == "TRL451"
    assert code_of(lambda: read_private(tmp_path / "key", b"open")) == "TRL451"
    assert KeySigner.of(tmp_path / "key", b"open sesame").public.id == key.id


def test_other_files_are_no_keys(tmp_path: Path) -> None:
    """A public key for a private one, the reverse, another text and a damaged key are refused."""
    new_key(tmp_path / "key", None)
    (tmp_path / "text").write_text("hello")
    (tmp_path / "damaged").write_bytes((tmp_path / "key").read_bytes().replace(b"M", b"N", 1))
    assert code_of(lambda: read_private(tmp_path / "key.pub", None)) == "TRL450"
    assert code_of(lambda: read_private(tmp_path / "damaged", None)) == "TRL450"
    assert code_of(lambda: read_public(tmp_path / "key")) == "TRL450"
    assert code_of(lambda: read_public(tmp_path / "text")) == "TRL450"


@pytest.mark.slow
@needs_openssl
def test_openssl_reads_the_keys_and_makes_others(tmp_path: Path) -> None:
    """The key id is the digest of what openssl writes as DER; a key of openssl signs, unless it is RSA."""
    key = new_key(tmp_path / "key", None)
    command = [str(OPENSSL), "pkey", "-pubin", "-in", tmp_path / "key.pub", "-outform", "DER"]
    der = subprocess.run(command, capture_output=True, check=True).stdout
    done = subprocess.run([str(OPENSSL), "dgst", "-sha256"], input=der, capture_output=True, check=True)
    assert done.stdout.decode().split()[-1] == key.id
    for algorithm in ("ed25519", "rsa"):
        made = [str(OPENSSL), "genpkey", "-algorithm", algorithm, "-out", tmp_path / algorithm]
        subprocess.run(made, capture_output=True, check=True)
    assert len(KeySigner.of(tmp_path / "ed25519", None).sign(b"content")) == 64
    assert code_of(lambda: read_private(tmp_path / "rsa", None)) == "TRL450"


SIGNING = """
import sys
from cryptography.hazmat.primitives.serialization import load_pem_private_key
key = load_pem_private_key(open(sys.argv[1], "rb").read(), None)
sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))
"""


def test_a_command_signs(tmp_path: Path) -> None:
    """A command reads the content from standard input and writes the signature."""
    key = new_key(tmp_path / "a key", None)
    (tmp_path / "sign.py").write_text(SIGNING)
    signer = CommandSigner(f"'{sys.executable}' '{tmp_path}/sign.py' '{tmp_path}/a key'", key)
    assert key.has_signed(b"content", signer.sign(b"content"))


@pytest.mark.parametrize(
    "command",
    [
        "no-such-command-here",
        "false",
        "true",
        "'unclosed",
        f"'{sys.executable}' -c 'print(\"x\" * 63)'",
        "head -c 64 /dev/zero",
    ],
)
def test_a_command_that_does_not_sign_is_an_error(tmp_path: Path, command: str) -> None:
    """A command that is missing, fails, or writes anything but this key's signature is refused."""
    key = new_key(tmp_path / "key", None)
    assert code_of(lambda: CommandSigner(command, key).sign(b"content")) == "TRL452"
    with pytest.raises(InvalidSignature):
        key.key.verify(bytes(64), b"content")
