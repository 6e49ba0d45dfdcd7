"""Redaction: nothing that can be guessed stays, all still follows, and a value can be shown alone."""

from __future__ import annotations

import hmac
import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tracline.archive.error import SourceError
from tracline.batch.attestation.attest import Attesting
from tracline.batch.attestation.envelope import signed_envelope
from tracline.batch.attestation.signers import KeySigner
from tracline.batch.attestation.statement import statement
from tracline.batch.audit.audit import audit
from tracline.batch.evidence.files import bundle_files
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.redaction.redact import redact
from tracline.batch.redaction.reveal import reveal, reveal_check
from tracline.batch.redaction.secret import RedactionSecret
from tracline.batch.verification.attested import read_attested
from tracline.batch.verification.checks import CheckResult
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.batch.waivers.waiver_file import read_waivers
from tracline.rules.packs.load import pack_text

from ....support.checker import derived
from ....support.event_rows import call, result, session, user, write
from ....support.evidence.bundle_lines import bundle_lines
from ....support.evidence.signed_bundles import make_key, public

PACK = """
pack: desk
version: 1
propositions:
  pay: kind == "tool_call" and tool == "pay"
  result: kind == "tool_result"
  angry: kind == "user" and text contains "!"
rules:
  - {id: calm, severity: high, formula: always not angry}
  - {id: paid-once, severity: low, for_each: args.order, formula: 'always (pay -> at_most[1] pay)'}
  - {id: answered, severity: low, for_each: args.order, formula: always (pay -> eventually result)}
"""
SECRET = RedactionSecret(bytes(range(32)))
WAIVERS = """
waivers:
  - rule: desk/paid-once
    session: session-anna
    reason: anna pays order-zeta twice
    by: clerk-dora
    until: 2099-12-31
"""


def pay(order: str, call_id: str) -> dict[str, Any]:
    """Return a payment of an order."""
    return call("pay", call_id, args=json.dumps({"order": order}))


def rows() -> list[dict[str, Any]]:
    """Return the rows of sessions that share an order, one of them open."""
    first = session("session-anna", user("yes please"), pay("order-zeta", "c1"), pay("order-zeta", "c2"))
    second = session("session-bert", user("no never!"), pay("order-zeta", "c3"), pay("order-alpha", "c4"))
    third = session("session-carl", user("yes please"), pay("order-alpha", "c5"), result("c5"), end=False)
    return [*first, *second, *third]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a key, a signed bundle with texts, and its redacted copies."""
    folder = tmp_path_factory.mktemp("redaction")
    make_key(folder)
    signers = (KeySigner.of(folder / "key", None),)
    archive = write(folder / "files-of-anna" / "march.parquet", rows()).parent
    waivers = read_waivers(WAIVERS.encode(), "waivers.yaml")
    options = AuditOptions(with_text=True, satisfied=True, waivers=waivers, waivers_at=0)
    audit(archive, pack_text(PACK), folder / "bundle", options, attesting=Attesting(signers))
    for name, sessions in (("redacted", False), ("sessionless", True)):
        redact(folder / "bundle", folder / name, SECRET, signers, sessions=sessions)
    return folder


def secrets_of(bundle: Path) -> set[str]:
    """Return all that a redaction must not leave, read from the files by hand."""
    verdicts = bundle_lines(bundle)
    certified = [line for line in bundle_lines(bundle, "certificates.jsonl") if line["kind"] == "session"]
    found = {line["id"] for line in verdicts} | {line["event_id"] for line in verdicts}
    found |= {event[1] for line in certified for event in line["events"]}
    found |= {value for line in certified for values in line["values"] for value in values}
    found |= {
        event["event_id"] for line in bundle_lines(bundle, "sessions.jsonl") for event in line["events"]
    }
    found |= {line["name"] for line in bundle_lines(bundle, "inputs.jsonl")}
    found |= {line[name] for line in bundle_lines(bundle, "waived.jsonl") for name in ("id", "reason", "by")}
    return found | {"yes please", "no never!", "order-zeta", "order-alpha", "files-of-anna"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["redacted", "sessionless"])
def test_nothing_that_can_be_guessed_stays(desk: Path, name: str) -> None:
    """No file has an id, a slice, a text or a file name of the original, nor its own digest of one."""
    forbidden = secrets_of(desk / "bundle") | (
        {"session-anna", "session-bert"} if name == "sessionless" else set()
    )
    assert len(forbidden) > 20
    for file in bundle_files(desk / name):
        path = desk / name / file
        is_text = path.suffix != ".parquet"
        content = path.read_text("utf-8") if is_text else str(pl.read_parquet(path).rows())
        assert [text for text in forbidden if text in content] == [], file
    assert b"session-anna" in (desk / "bundle" / "verdicts.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["redacted", "sessionless"])
def test_a_redacted_bundle_is_verified(desk: Path, name: str) -> None:
    """Ids and a second audit are not checked; everything else holds, and the checker derives all verdicts."""
    request = VerificationRequest((public(desk),), (str(desk / "files-of-anna"),), rerun=True)
    found = {check.check: check.result for check in verify(desk / name, request).checks}
    unmade = {check for check, result in found.items() if result is CheckResult.NOT_CHECKED}
    assert unmade == {"timestamp", "previous", "ids", "waivers", "rerun"}
    assert CheckResult.FAILED not in found.values()
    assert derived(desk / name) == derived(desk / "bundle")
    redaction = read_attested(desk / name).predicate["redaction"]
    assert redaction["original"] == sha256((desk / "bundle" / "attestation.json").read_bytes()).hexdigest()
    fields = {"event_id", "hint", "id", "name", "path", "slice", "text"}
    assert set(redaction["fields"]) == fields | ({"session_id"} if name == "sessionless" else set())


@pytest.mark.slow
def test_equal_values_stay_equal(desk: Path) -> None:
    """An order has one replacement in all sessions; equal texts of different events have different ones."""
    before, after = (bundle_lines(desk / name) for name in ("bundle", "redacted"))
    slices = {line["slice"] for line in after if line["slice"]}
    assert len(slices) == len({line["slice"] for line in before if line["slice"]}) == 2
    assert {len(text) for text in slices} == {34}
    texts = [
        event["text"]
        for line in bundle_lines(desk / "redacted", "sessions.jsonl")
        for event in line["events"]
    ]
    shown = [text for text in texts if text is not None]
    assert len(shown) == len(set(shown)) == 3


@pytest.mark.slow
def test_lines_are_sorted_by_what_they_have(desk: Path) -> None:
    """The order of the new lines is that of their new keys, so that it shows nothing of the old ones."""
    found = bundle_lines(desk / "sessionless")
    keys = [
        (each["session_id"], each["occurrence"], each["seq"], each["pack"], each["rule"]) for each in found
    ]
    assert keys == sorted(keys)
    names = [line["session_id"] for line in bundle_lines(desk / "sessionless", "sessions.jsonl")]
    assert names == sorted(names)


def test_the_replacement_is_as_documented(desk: Path) -> None:
    """It is 32 hex digits of HMAC-SHA256(s, value), where s is keyed by the secret over field and value."""
    value = "order-zeta"
    s = hmac.digest(SECRET.secret, b'["slice","order-zeta"]', sha256)
    expected = "r:" + hmac.digest(s, value.encode(), sha256).hex()[:32]
    assert expected in {line["slice"] for line in bundle_lines(desk / "redacted")}


def test_a_value_is_revealed_alone(desk: Path) -> None:
    """The keys of an event show its id and its text, and no other value of the bundle."""
    bundle = read_attested(desk / "redacted")
    revealed = reveal(desk / "redacted", desk / "bundle", SECRET, "session-bert-1")
    assert {(each.field, each.value) for each in revealed} == {
        ("event_id", "session-bert-1"),
        ("text", "no never!"),
    }
    content = [
        json.dumps({name: getattr(each, name) for name in each.__struct_fields__}).encode()
        for each in revealed
    ]
    assert reveal_check(bundle, content).result is CheckResult.PASSED
    present = (desk / "redacted" / "sessions.jsonl").read_text()
    for each in revealed:
        # With the key of one value nothing shows whether another one is in the bundle.
        for guess in ("yes please", "session-bert-2", "order-zeta"):
            assert hmac.digest(bytes.fromhex(each.s), guess.encode(), sha256).hex()[:32] not in present


def test_an_id_is_revealed_without_the_original(desk: Path) -> None:
    """A holder of an event's id and the secret can show it; another secret shows nothing."""
    [revealed] = reveal(desk / "redacted", None, SECRET, "session-bert-1")
    assert (revealed.field, revealed.value) == ("event_id", "session-bert-1")
    [again] = [
        each
        for each in reveal(desk / "redacted", desk / "bundle", SECRET, revealed.replacement)
        if each.field == "event_id"
    ]
    assert again == revealed
    for event, secret in (("session-bert-9", SECRET), ("session-bert-1", RedactionSecret(bytes(32)))):
        with pytest.raises(SourceError) as caught:
            reveal(desk / "redacted", None, secret, event)
        assert caught.value.code == "TRL464"


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line | {"value": "session-bert-2"},
        lambda line: line | {"s": "00" * 32},
        lambda line: line | {"field": "slice"},
        lambda line: line | {"replacement": "r:" + "0" * 32},
    ],
)
def test_a_false_revelation_fails(desk: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """Another value, key or field does not give the replacement."""
    [each] = reveal(desk / "redacted", None, SECRET, "session-bert-1")
    line = {name: getattr(each, name) for name in each.__struct_fields__}
    bundle = read_attested(desk / "redacted")
    assert reveal_check(bundle, [json.dumps(line).encode()]).result is CheckResult.PASSED
    check = reveal_check(bundle, [json.dumps(change(line)).encode()])
    assert (check.result, check.detail.split()[0]) == (CheckResult.FAILED, "TRL464")


def test_an_unclassed_field_stops_the_redaction(desk: Path, tmp_path: Path) -> None:
    """A field or file of a later version could have a text; nothing is written then."""
    for name, content in (("open.jsonl", None), ("notes.txt", b"hello")):
        bundle = shutil.copytree(desk / "bundle", tmp_path / name)
        new = (
            b'{"comment":"a text","files":[],"occurrence":"x","session_id":"s"}\n'
            if content is None
            else content
        )
        (bundle / name).write_bytes(new)
        stated = signed_envelope(statement(bundle, read_attested(bundle).predicate), ())
        (bundle / "attestation.json").write_bytes(stated.encoded())
        with pytest.raises(SourceError) as caught:
            redact(bundle, tmp_path / "out", SECRET, (), sessions=False)
        assert caught.value.code == "TRL462"
        assert [path.name for path in tmp_path.iterdir() if path.name.endswith("out")] == []


def test_only_an_intact_original_is_redacted(desk: Path, tmp_path: Path) -> None:
    """A changed bundle, a redacted one, and the bundle itself as the output are refused."""
    changed = shutil.copytree(desk / "bundle", tmp_path / "bundle")
    (changed / "summary.json").write_text("{}")
    for bundle, out in (
        (changed, tmp_path / "out"),
        (desk / "redacted", tmp_path / "out"),
        (desk / "bundle", desk / "bundle"),
    ):
        with pytest.raises(SourceError) as caught:
            redact(bundle, out, SECRET, (), sessions=False)
        assert caught.value.code == "TRL462"
    assert not (tmp_path / "out").exists()


def test_a_short_secret_is_refused(tmp_path: Path) -> None:
    """A secret that can be guessed protects nothing."""
    (tmp_path / "secret").write_bytes(b"123456789012345")
    with pytest.raises(SourceError) as caught:
        RedactionSecret.of(tmp_path / "secret")
    assert caught.value.code == "TRL463"


def test_waived_verdicts_stay_counted(desk: Path) -> None:
    """A line of a waived verdict names its new id; the file of waivers, which people wrote, is left out."""
    (waived,) = bundle_lines(desk / "redacted", "waived.jsonl")
    (found,) = [line for line in bundle_lines(desk / "redacted") if line["id"] == waived["id"]]
    assert (found["rule"], found["verdict"], waived["until"]) == ("paid-once", "violated", "2099-12-31")
    assert (desk / "bundle" / "waivers.yaml").exists()
    assert not (desk / "redacted" / "waivers.yaml").exists()
