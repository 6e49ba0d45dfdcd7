"""`tracline keys new`, `audit --key` and `verify`, from the command line."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline

from ...support.event_rows import PACK, session, user, write

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, which has an archive, a pack and a key."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "archive" / "events.parquet", session("a", user("hello"), user("no!")))
    (tmp_path / "pack.yaml").write_text(PACK)
    assert run("keys new key").exit_code == 0
    return tmp_path


def run(line: str, input: str | None = None) -> Result:
    """Run a command of tracline."""
    return CliRunner().invoke(tracline, line.split(), input=input, prog_name="tracline")


def audited(*options: str) -> Result:
    """Audit the archive into `bundle`."""
    return run(" ".join(["audit archive --rules pack.yaml --out bundle", *options]))


def test_a_signed_bundle_is_verified(desk: Path) -> None:
    """The exit code is 0, and each check has a line."""
    assert audited("--key key").exit_code == 0
    found = run("verify bundle --key key.pub --archive archive --rerun")
    assert found.exit_code == 0, found.output
    assert found.stdout.count("passed ") == 10
    assert found.stdout.count("not checked") == 3
    assert "Traceback" not in found.output
    assert desk.is_dir()


def test_a_changed_bundle_exits_1_and_names_the_file(desk: Path) -> None:
    """The failed checks are in the JSON, with code and file."""
    assert audited("--key key").exit_code == 0
    (desk / "bundle" / "open.jsonl").write_text(" ")
    found = run("verify bundle --key key.pub --format json")
    assert found.exit_code == 1
    content = json.loads(found.stdout)
    assert content["bundle"] == "bundle"
    assert content["ok"] is False
    [digests] = [check for check in content["checks"] if check["check"] == "digests"]
    assert digests == {
        "check": "digests",
        "result": "failed",
        "detail": "TRL456 1 file changed since the attestation",
        "files": ["open.jsonl"],
    }


def test_bad_keys_are_errors_and_nothing_is_written(desk: Path) -> None:
    """A public key does not sign, a private one does not verify, and a signer that fails stops the audit."""
    shutil.copy(desk / "key.pub", desk / "only.pub")
    for options, code in (
        ("--key only.pub", "TRL450"),
        ("--signer false --key key.pub", "TRL452"),
        ("--signer true --key key", "TRL450"),
    ):
        found = audited(options)
        assert (found.exit_code, code in found.stderr) == (2, True), found.stderr
        assert not (desk / "bundle").exists()
    assert audited("--signer true").exit_code == 2
    assert [path.name for path in desk.iterdir() if path.name.startswith(".")] == []
    assert audited("--key key").exit_code == 0
    found = run("verify bundle --key key")
    assert (found.exit_code, "TRL450" in found.stderr) == (2, True)


def test_a_passphrase_is_on_the_first_line_of_a_file(desk: Path) -> None:
    """The key is encrypted by it, and signs with it only; without a terminal nothing is asked."""
    (desk / "phrase").write_text("correct horse\nbattery\n")
    assert run("keys new locked --passphrase-file phrase").exit_code == 0
    assert "TRL451" in audited("--key locked").stderr
    (desk / "empty").write_text("\n")
    assert "TRL451" in audited("--key locked --passphrase-file empty").stderr
    assert audited("--key locked --passphrase-file phrase").exit_code == 0
    assert run("verify bundle --key locked.pub").exit_code == 0
    assert "TRL450" in run("keys new locked").stderr


def test_a_passphrase_can_be_asked_for(desk: Path) -> None:
    """It is typed twice."""
    assert run("keys new asked --passphrase", input="secret\nsecret\n").exit_code == 0
    (desk / "phrase").write_text("secret")
    assert audited("--key asked --passphrase-file phrase").exit_code == 0


def test_a_command_signs_a_bundle(desk: Path) -> None:
    """The private key lives in the command; `--key` is the public key."""
    (desk / "sign.py").write_text(
        "import sys\n"
        "from cryptography.hazmat.primitives.serialization import load_pem_private_key\n"
        "key = load_pem_private_key(open('key', 'rb').read(), None)\n"
        "sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))\n"
    )
    line = ["audit", "archive", "--rules", "pack.yaml", "--out", "bundle", "--key", "key.pub"]
    command = [*line, "--signer", f"'{sys.executable}' sign.py"]
    assert CliRunner().invoke(tracline, command).exit_code == 0
    assert run("verify bundle --key key.pub").exit_code == 0


def test_what_cannot_be_verified_exits_2(desk: Path) -> None:
    """A folder without an attestation, a damaged attestation, and a second audit without an archive."""
    (desk / "empty").mkdir()
    assert "TRL453" in run("verify empty").stderr
    assert audited().exit_code == 0
    assert run("verify bundle --rerun").exit_code == 2
    (desk / "bundle" / "attestation.json").write_text("{}")
    found = run("verify bundle")
    assert (found.exit_code, "TRL454" in found.stderr) == (2, True)


def test_a_bundle_is_redacted_and_an_event_revealed(desk: Path) -> None:
    """The copy is verified with the same key, and the revealed lines too, unless one is changed."""
    (desk / "secret").write_bytes(bytes(32))
    assert audited("--key key --with-text").exit_code == 0
    assert run("redact bundle --out other --secret secret --key key").exit_code == 0
    found = run("reveal other --secret secret --event a-2 --original bundle")
    assert [json.loads(line)["value"] for line in found.stdout.splitlines()] == ["a-2", "no!"]
    (desk / "revealed").write_text(found.stdout)
    assert run("verify other --key key.pub --reveal revealed").exit_code == 0
    (desk / "revealed").write_text(found.stdout.replace("no!", "no?"))
    found = run("verify other --key key.pub --reveal revealed")
    assert (found.exit_code, "TRL464" in found.stdout) == (1, True)
    assert run("verify other --archive archive --rerun").exit_code == 2


def test_a_session_is_erased_with_a_signed_tombstone(desk: Path) -> None:
    """A key and a reason are required, and verification reports the erasure."""
    logs = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    for name in ("ann", "bob"):
        (desk / f"{name}.json").write_text(json.dumps({"session_id": name, "messages": logs}))
    assert run("import ann.json bob.json --out stored").exit_code == 0
    assert run("audit stored --rules pack.yaml --out bundle --key key").exit_code == 0
    assert run("erase stored --session ann --reason asked").exit_code == 2
    assert "TRL410" in run("erase stored --session eve --reason asked --key key").stderr
    found = run("erase stored --session ann --reason asked --key key")
    assert (found.exit_code, found.stdout) == (0, "erased 3 rows from 1 file\n")
    found = run("verify bundle --key key.pub --archive stored")
    assert (found.exit_code, "erased: rows of 1 file" in found.stdout) == (0, True)
    assert "TRL465" in run("erase archive --session a --reason asked --key key").stderr
