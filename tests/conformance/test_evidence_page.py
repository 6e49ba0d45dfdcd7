"""The steps of the page on evidence, executed by a third party: without tracline, and again with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ..support.checker import SCRIPT
from ..support.evidence.signed_bundles import make_key, signed_bundle

PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"
RECIPES = re.findall(r"^```sh recipe\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return a folder with the bundle, the public key and the checker, and nothing else."""
    make_key(tmp_path / "operator", "audit-key")
    desk = tmp_path / "third party"
    desk.mkdir()
    shutil.copytree(signed_bundle(tmp_path / "operator", "audit-key"), desk / "bundle")
    shutil.copy(tmp_path / "operator" / "audit-key.pub", desk)
    shutil.copy(SCRIPT, desk)
    return desk


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a recipe with a plain shell."""
    command = ["sh", "-e", "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_recipes_verify_a_bundle(desk: Path) -> None:
    """Signature, digests and verdicts are verified with openssl, a shell and the checker."""
    signature, digests, checker = (run(recipe, desk) for recipe in RECIPES)
    assert (signature.returncode, signature.stdout.strip()) == (0, "Signature Verified Successfully")
    assert (digests.returncode, digests.stdout) == (0, "")
    names = {line[66:] for line in (desk / "digests.txt").read_text().splitlines()}
    files = {
        path.relative_to(desk / "bundle").as_posix()
        for path in (desk / "bundle").rglob("*")
        if path.is_file()
    }
    assert names == files - {"attestation.json"}
    assert checker.returncode == 0
    assert "files are as attested" in checker.stdout


@pytest.mark.slow
def test_the_recipes_refuse_a_changed_bundle(desk: Path) -> None:
    """A changed statement has no valid signature, and a changed file has another digest."""
    summary = desk / "bundle" / "summary.json"
    content = summary.read_bytes()
    summary.write_bytes(content + b"\n")
    signature, digests, checker = (run(recipe, desk) for recipe in RECIPES)
    assert (signature.returncode, digests.returncode, checker.returncode) == (0, 1, 1)
    summary.write_bytes(content)
    attestation = desk / "bundle" / "attestation.json"
    attestation.write_bytes(attestation.read_bytes().replace(b'"payload":"ey', b'"payload":"ez', 1))
    assert run(RECIPES[0], desk).returncode != 0


@pytest.mark.slow
def test_the_recipes_refuse_another_key(desk: Path, tmp_path: Path) -> None:
    """The signature is checked by the operator's key alone."""
    make_key(tmp_path / "stranger")
    shutil.copy(tmp_path / "stranger" / "key.pub", desk / "audit-key.pub")
    assert run(RECIPES[0], desk).returncode != 0
