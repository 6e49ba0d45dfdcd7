"""Signers of attestations: a private key in a file, or a command for keys that live elsewhere."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ...archive.error import SourceError
from .keys import TrustedKey, read_private

SIGNATURE_BYTES = 64
SIGNER_SECONDS_MAX = 60.0
"""Seconds after which a command that has not signed is stopped."""


class Signer(Protocol):
    """A holder of a private key."""

    @property
    def public(self) -> TrustedKey:
        """Return the public key."""
        ...

    def sign(self, content: bytes) -> bytes:
        """Return the signature of the content."""
        ...


@dataclass(frozen=True, slots=True)
class KeySigner:
    """A signer with the private key in memory."""

    key: Ed25519PrivateKey

    @staticmethod
    def of(path: Path, passphrase: bytes | None) -> KeySigner:
        """Return the signer of a key file. Raises SourceError (TRL450, TRL451) like `read_private`."""
        return KeySigner(read_private(path, passphrase))

    @property
    def public(self) -> TrustedKey:
        """Return the public key."""
        return TrustedKey.of(self.key.public_key())

    def sign(self, content: bytes) -> bytes:
        """Return the signature of the content."""
        return self.key.sign(content)


@dataclass(frozen=True, slots=True)
class CommandSigner:
    """A command that reads the content from standard input and writes the 64 bytes of its signature.

    It runs without a shell. `public` is the key that must verify what it writes.
    """

    command: str
    public: TrustedKey

    def sign(self, content: bytes) -> bytes:
        """Return the signature of the content. Raises SourceError (TRL452) if the command gives none."""
        try:
            done = subprocess.run(
                shlex.split(self.command),
                input=content,
                capture_output=True,
                timeout=SIGNER_SECONDS_MAX,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise self._failed(f"cannot run: {type(error).__name__}") from error
        if done.returncode:
            raise self._failed(f"exits with {done.returncode}")
        if len(done.stdout) != SIGNATURE_BYTES:
            raise self._failed(f"writes {len(done.stdout)} bytes instead of a signature of {SIGNATURE_BYTES}")
        if not self.public.has_signed(content, done.stdout):
            raise self._failed("writes a signature that the public key does not verify")
        return done.stdout

    def _failed(self, what: str) -> SourceError:
        hint = (
            "the command reads the content from standard input and writes the bytes of an Ed25519 signature"
        )
        return SourceError("TRL452", "--signer", what, hint)
