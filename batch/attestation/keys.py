"""Keys of attestations: Ed25519, in PEM files that `openssl` reads and writes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from ...archive.error import SourceError

PUBLIC_SUFFIX = ".pub"
"""The suffix of the file of the public key beside the private one."""
_PRIVATE_MARK = b"PRIVATE KEY-----"
_HINT = "make a key with `tracline keys new`, or with openssl genpkey -algorithm ed25519"


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key; `id` is the SHA-256, in hex, of its SubjectPublicKeyInfo in DER."""

    key: Ed25519PublicKey
    id: str

    @staticmethod
    def of(key: Ed25519PublicKey) -> TrustedKey:
        """Return the key with its id."""
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return TrustedKey(key, hashlib.sha256(der).hexdigest())

    def has_signed(self, content: bytes, signature: bytes) -> bool:
        """Return whether the signature of the content is this key's."""
        try:
            self.key.verify(signature, content)
        except InvalidSignature:
            return False
        return True


def new_key(path: Path, passphrase: bytes | None) -> TrustedKey:
    """Write a new private key, readable by its owner only, and its public key to `PATH.pub`.

    Raises SourceError (TRL450) if either file exists; then neither is written.
    """
    public = path.with_name(path.name + PUBLIC_SUFFIX)
    for file in (path, public):
        if file.exists():
            raise SourceError("TRL450", str(file), "exists", "choose another name: keys are not overwritten")
    key = Ed25519PrivateKey.generate()
    encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption), 0o600)
    public_bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _write(public, public_bytes, 0o644)
    return TrustedKey.of(key.public_key())


def _write(path: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)


def is_encrypted(path: Path) -> bool:
    """Return whether the file has a private key that needs a passphrase."""
    return b"ENCRYPTED PRIVATE KEY-----" in path.read_bytes()


def read_private(path: Path, passphrase: bytes | None) -> Ed25519PrivateKey:
    """Return a private key. Raises SourceError: TRL450 for another file, TRL451 for a wrong passphrase."""
    content = path.read_bytes()
    if _PRIVATE_MARK not in content:
        raise SourceError("TRL450", str(path), "is not a private key in PEM", _HINT)
    needs = is_encrypted(path)
    if needs and passphrase is None:
        hint = "give the passphrase with --passphrase-file"
        raise SourceError("TRL451", str(path), "needs a passphrase", hint)
    try:
        key = load_pem_private_key(content, passphrase if needs else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if needs:
            hint = "check the passphrase, which is the first line of the file"
            raise SourceError("TRL451", str(path), "cannot be decrypted", hint) from None
        raise SourceError("TRL450", str(path), "is a damaged private key", _HINT) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SourceError("TRL450", str(path), "is not an Ed25519 key", _HINT)
    return key


def read_public(path: Path) -> TrustedKey:
    """Return a public key. Raises SourceError (TRL450) for any other file, a private key included."""
    content = path.read_bytes()
    if _PRIVATE_MARK in content:
        hint = f"give the public key, which `tracline keys new` writes to {path.name}{PUBLIC_SUFFIX}"
        raise SourceError("TRL450", str(path), "is a private key", hint)
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise SourceError("TRL450", str(path), "is not a public key in PEM", _HINT) from None
    if not isinstance(key, Ed25519PublicKey):
        raise SourceError("TRL450", str(path), "is not an Ed25519 key", _HINT)
    return TrustedKey.of(key)
