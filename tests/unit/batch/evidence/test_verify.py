"""Verification: given the key, every changed byte and every file added or removed is found."""

from __future__ import annotations

import json
import os
import shutil
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import rfc8785
from tracline.archive.error import SourceError
from tracline.batch.attestation.signers import KeySigner
from tracline.batch.attestation.statement import statement
from tracline.batch.audit.audit import audit
from tracline.batch.evidence.files import bundle_files
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.verification.attested import read_attested
from tracline.batch.verification.checks import CheckResult
from tracline.batch.verification.verify import VerificationRequest, checks, verify
from tracline.rules.packs.load import pack_text

from ....support.event_rows import PACK, session, user, write
from ....support.evidence.bundle_lines import bundle_lines
from ....support.evidence.signed_bundles import make_key, public, signed_bundle

pytestmark = pytest.mark.slow

ORDER = [
    "files",
    "digests",
    "format",
    "signature",
    "timestamp",
    "previous",
    "ids",
    "certificates",
    "summary",
    "waivers",
    "report",
    "archive",
    "rerun",
]
REGIONS = 12
"""Bytes that are changed in each file, one in each of as many parts of it."""


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an archive, a key and a signed bundle, which no test changes."""
    folder = tmp_path_factory.mktemp("signed")
    make_key(folder)
    signed_bundle(folder, "key")
    return folder


@pytest.fixture
def bundle(signed: Path, tmp_path: Path) -> Path:
    """Return a copy of the signed bundle."""
    shutil.copytree(signed / "bundle", tmp_path / "bundle")
    return tmp_path / "bundle"


def fault(bundle: Path, signed: Path) -> str | None:
    """Return the code of the first fault that verification with the key finds, or None."""
    request = VerificationRequest(keys=(public(signed),))
    try:
        for check in checks(read_attested(bundle), request):
            if check.result is CheckResult.FAILED:
                return check.detail.split()[0]
    except SourceError as error:
        return error.code
    return None


def results(bundle: Path, **request: Any) -> dict[str, str]:
    """Return the result of each check."""
    return {
        check.check: check.result.value for check in verify(bundle, VerificationRequest(**request)).checks
    }


def test_a_signed_bundle_is_verified(signed: Path) -> None:
    """With the key, the archive and a second audit all checks pass but those that this bundle lacks."""
    asked = {"keys": (public(signed),), "archive": (str(signed / "archive"),), "rerun": True}
    found = verify(signed / "bundle", VerificationRequest(**asked))
    unmade = {"timestamp", "previous", "waivers"}
    assert [check.check for check in found.checks] == ORDER
    assert {check.check for check in found.checks if check.result is not CheckResult.PASSED} == unmade
    assert found.exit_code == 0
    assert found.as_json()["ok"] is True


def test_checks_that_no_flag_asks_for_are_not_made(signed: Path) -> None:
    """Without a key and an archive the signature and the archive are not checked, and that is no failure."""
    found = results(signed / "bundle")
    assert {name for name, result in found.items() if result == "not_checked"} == {
        *("signature", "timestamp", "previous", "waivers", "archive", "rerun")
    }


def test_the_statement_has_every_file_and_the_circumstances(signed: Path) -> None:
    """It is an in-toto Statement v1 in canonical JSON; its subjects are all other files, sorted."""
    content = json.loads((signed / "bundle" / "attestation.json").read_bytes())
    payload = b64decode(content["payload"])
    statement = json.loads(payload)
    assert content["payloadType"] == "application/vnd.in-toto+json"
    assert rfc8785.dumps(statement) == payload
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:tracline:audit:1"
    names = [each["name"] for each in statement["subject"]]
    assert names == sorted(names)
    assert {*names, "attestation.json"} == set(bundle_files(signed / "bundle"))
    predicate = statement["predicate"]
    members = (
        "chains inputs made parameters population previous redaction rule_sets rules tool verdicts waivers_at"
    )
    assert sorted(predicate) == members.split()
    lines = bundle_lines(signed / "bundle")
    counts = {
        name: sum(line["verdict"] == name for line in lines) for name in ("violated", "unmet", "unjudged")
    }
    assert predicate["verdicts"] == {**counts, "waived": 0}
    assert counts["violated"] > 2
    assert counts["unmet"] > 0
    assert {rule["id"] for rule in predicate["rules"]} == {"answered", "calm", "paid-once", "gives-up"}


def test_each_changed_byte_of_each_file_is_found(signed: Path, bundle: Path) -> None:
    """A byte in each part of each file is changed, and each file is shortened and lengthened."""
    random, count = Random(7), 0
    for name in bundle_files(bundle):
        path = bundle / name
        content = path.read_bytes()
        size = len(content)
        places = {
            random.randrange(part * size // REGIONS, (part + 1) * size // REGIONS or 1)
            for part in range(REGIONS)
        }
        changed = [
            content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]
            for at in places
            if at < size
        ]
        for new in (*changed, content[:-1], content + b"\n", b""):
            if new != content:
                path.write_bytes(new)
                assert fault(bundle, signed) is not None, (name, len(new))
                count += 1
        path.write_bytes(content)
    assert fault(bundle, signed) is None
    assert count > 100


def test_each_byte_of_the_attestation_matters(signed: Path, bundle: Path) -> None:
    """Every byte outside of the payload, and 300 in it, are changed in turn."""
    path = bundle / "attestation.json"
    content = path.read_bytes()
    begin, end = content.index(b':"') + 2, content.index(b'","payloadType')
    inside = Random(8).sample(range(begin, end), 300)
    for at in [*range(begin), *inside, *range(end, len(content))]:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert fault(bundle, signed) in {"TRL454", "TRL455", "TRL456", "TRL457"}, at
    assert len(content) - (end - begin) > 200


def test_each_removed_file_is_found(signed: Path, bundle: Path) -> None:
    """Without the attestation nothing can be verified; any other file is missed by name."""
    for name in bundle_files(bundle):
        path = bundle / name
        content = path.read_bytes()
        path.unlink()
        assert fault(bundle, signed) == ("TRL453" if name == "attestation.json" else "TRL456"), name
        path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["more.json", "rules/more.yaml", "new/file", ".hidden", "attestation.json.bak"]
)
def test_an_added_file_is_found(signed: Path, bundle: Path, name: str) -> None:
    """The folder has the attested files and nothing else."""
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_text("x")
    assert fault(bundle, signed) == "TRL456"


def test_a_link_is_no_file_of_a_bundle(signed: Path, bundle: Path, tmp_path: Path) -> None:
    """A link to a file with the attested content could change later; a link to a folder is an added file."""
    (bundle / "summary.json").rename(tmp_path / "summary.json")
    (bundle / "summary.json").symlink_to(tmp_path / "summary.json")
    assert fault(bundle, signed) == "TRL456"
    (bundle / "summary.json").unlink()
    (tmp_path / "summary.json").rename(bundle / "summary.json")
    assert fault(bundle, signed) is None
    (bundle / "more").symlink_to(tmp_path)
    assert fault(bundle, signed) == "TRL456"


def test_another_key_has_not_signed(signed: Path, tmp_path: Path) -> None:
    """A signature is checked by the key that made it, and by no other."""
    stranger = make_key(tmp_path)
    found = verify(signed / "bundle", VerificationRequest(keys=(stranger,)))
    [check] = [check for check in found.checks if check.check == "signature"]
    assert check.detail == f"TRL457 it is signed by another key: {public(signed).id}"
    assert found.exit_code == 1


def test_an_unsigned_bundle_fails_with_a_key(tmp_path: Path) -> None:
    """Without `--key` an audit states the digests and signs nothing."""
    key = make_key(tmp_path)
    bundle = signed_bundle(tmp_path)
    assert results(bundle)["signature"] == "not_checked"
    found = verify(bundle, VerificationRequest(keys=(key,)))
    assert [check.detail for check in found.checks if check.check == "signature"] == [
        "TRL457 the attestation is not signed"
    ]


def envelope(bundle: Path) -> dict[str, Any]:
    """Return the envelope of a bundle as JSON."""
    return json.loads((bundle / "attestation.json").read_bytes())


def store(bundle: Path, content: dict[str, Any]) -> None:
    """Write an envelope in canonical form."""
    (bundle / "attestation.json").write_bytes(rfc8785.dumps(content) + b"\n")


def test_the_signature_of_another_bundle_is_refused(signed: Path, bundle: Path, tmp_path: Path) -> None:
    """Neither another bundle's signature nor its whole attestation fits this bundle."""
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(signed / "key", tmp_path / "elsewhere")
    second = signed_bundle(tmp_path / "elsewhere", "key", options=AuditOptions(seed=1))
    store(bundle, {**envelope(bundle), "signatures": envelope(second)["signatures"]})
    assert fault(bundle, signed) == "TRL457"
    shutil.copy(second / "attestation.json", bundle / "attestation.json")
    assert fault(bundle, signed) == "TRL456"


def restated(bundle: Path, signed: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Sign another statement with the key of the bundle."""
    content = envelope(bundle)
    stated = json.loads(b64decode(content["payload"]))
    change(stated)
    payload = rfc8785.dumps(stated)
    signer = KeySigner.of(signed / "key", None)
    signature = signer.sign(b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload))
    signatures = [{"keyid": signer.public.id, "sig": b64encode(signature).decode()}]
    store(bundle, {**content, "payload": b64encode(payload).decode(), "signatures": signatures})


@pytest.mark.parametrize("member", ["_type", "predicateType"])
def test_an_unknown_version_is_refused(signed: Path, bundle: Path, member: str) -> None:
    """A statement of a later version is not verified as one of this version."""
    restated(bundle, signed, lambda statement: statement.update({member: f"{statement[member]}0"}))
    assert fault(bundle, signed) == "TRL455"


def test_claims_that_the_files_do_not_bear_out_are_found(signed: Path, bundle: Path) -> None:
    """Even a holder of the key cannot state other numbers of verdicts, or another population."""
    restated(bundle, signed, lambda statement: statement["predicate"]["verdicts"].update(violated=0))
    assert fault(bundle, signed) == "TRL460"
    restated(bundle, signed, lambda statement: statement["predicate"]["population"].update(sessions=5))
    assert fault(bundle, signed) == "TRL460"


@pytest.mark.parametrize("member", ["rows", "files", "sha256", "last_time"])
def test_other_inputs_than_those_listed_are_found(signed: Path, bundle: Path, member: str) -> None:
    """The attested inputs are the totals of `inputs.jsonl`."""
    restated(bundle, signed, lambda statement: statement["predicate"]["inputs"].update({member: None}))
    assert fault(bundle, signed) == "TRL460"


@pytest.mark.parametrize("member", ["severity", "rule_digest", "id"])
def test_other_rules_than_those_of_the_packs_are_found(signed: Path, bundle: Path, member: str) -> None:
    """The attested rules are those in `rules/`."""
    restated(bundle, signed, lambda statement: statement["predicate"]["rules"][0].update({member: "low"}))
    assert fault(bundle, signed) == "TRL460"


def test_another_text_of_a_rule_is_found(signed: Path, bundle: Path) -> None:
    """The packs in the bundle are those of the verdicts, even where their holder signs others."""
    [pack] = (bundle / "rules").glob("*.yaml")
    text = pack.read_text()
    changed = text.replace("always", "eventually", 1)
    assert changed != text
    resigned(bundle, signed, f"rules/{pack.name}", changed.encode())
    assert fault(bundle, signed) == "TRL460"


def test_waived_verdicts_without_a_time_of_waivers_are_found(signed: Path, bundle: Path) -> None:
    """Readers of a bundle take the verdicts in `waived.jsonl` as accepted."""
    [waived, *_] = (json.loads(line) for line in (bundle / "verdicts.jsonl").read_bytes().splitlines())
    line = {"by": "b", "id": waived["id"], "reason": "r", "until": "2099-01-01", "waiver": 1}
    resigned(bundle, signed, "waived.jsonl", rfc8785.dumps(line) + b"\n")
    restated(bundle, signed, lambda statement: statement["predicate"]["verdicts"].update(waived=1))
    failed = {name for name, result in results(bundle).items() if result == "failed"}
    assert "waivers" in failed


def test_a_pipe_is_no_file_of_a_bundle(signed: Path, bundle: Path) -> None:
    """Nothing waits for its content."""
    (bundle / "open.jsonl").unlink()
    os.mkfifo(bundle / "open.jsonl")
    assert fault(bundle, signed) == "TRL456"
    assert results(bundle)["format"] == "passed"


def resigned(bundle: Path, signed: Path, name: str, content: bytes) -> None:
    """Replace a file, and sign a statement with its new digest."""
    (bundle / name).write_bytes(content)
    predicate = read_attested(bundle).predicate
    restated(bundle, signed, lambda stated: stated.update(statement(bundle, predicate)))


def test_a_signature_does_not_make_a_verdict_follow(signed: Path, bundle: Path) -> None:
    """A verdict that its author leaves out, and signs so, does not agree with the certificates."""
    lines = (bundle / "verdicts.jsonl").read_bytes().splitlines(keepends=True)
    resigned(bundle, signed, "verdicts.jsonl", b"".join(lines[1:]))
    found = results(bundle, keys=(public(signed),))
    failed = {name for name, result in found.items() if result == "failed"}
    assert failed == {"format", "certificates", "summary", "report"}


@pytest.mark.parametrize(
    ("name", "code"), [("summary.json", "TRL454"), ("report.html", "TRL460"), ("inputs.jsonl", "TRL454")]
)
def test_a_signature_does_not_excuse_another_form(signed: Path, bundle: Path, name: str, code: str) -> None:
    """JSON with a space is not canonical, and a report with one is not what the files give."""
    content = (bundle / name).read_bytes()
    resigned(bundle, signed, name, content.replace(b":", b": ", 1))
    assert fault(bundle, signed) == code


def test_an_archive_with_another_byte_is_found(signed: Path, bundle: Path, tmp_path: Path) -> None:
    """The archive is compared by digests, and another one gives other verdicts."""
    archive = tmp_path / "archive"
    shutil.copytree(signed / "archive", archive)
    asked = {"archive": (str(archive),), "rerun": True}
    assert results(bundle, **asked)["rerun"] == "passed"
    write(archive / "events.parquet", session("a", user("hello"), user("no!")))
    found = verify(bundle, VerificationRequest(**asked))
    details = {check.check: check.detail for check in found.checks if check.result is CheckResult.FAILED}
    assert details["archive"].startswith("TRL461 1 file changed since the audit")
    assert details["rerun"].startswith("TRL461")


def test_an_audit_by_other_settings_is_performed_again_by_them(tmp_path: Path) -> None:
    """The parameters of the statement are enough to repeat an audit."""
    rows = [*session("a", user("hello"), user("no!")), *session("b", user("well!"), end=False)]
    archive = write(tmp_path / "archive" / "events.parquet", rows).parent
    options = AuditOptions(satisfied=True, idle_s=0.5, seed=3, with_text=True, since=1, threads=2)
    audit(archive, pack_text(PACK), tmp_path / "bundle", options)
    assert results(tmp_path / "bundle", archive=(str(archive),), rerun=True)["rerun"] == "passed"


def test_a_folder_without_an_attestation_cannot_be_verified(tmp_path: Path) -> None:
    """Nothing can be concluded about it."""
    with pytest.raises(SourceError) as caught:
        verify(tmp_path, VerificationRequest())
    assert caught.value.code == "TRL453"
