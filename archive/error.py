"""Expected errors of reading and writing sources and archives: a code, the place, what is wrong, a hint."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TRL401": "a source does not exist, or contains nothing readable",
    "TRL402": "a column of event Parquet is missing or has the wrong type",
    "TRL403": "an archive's manifest contradicts its files",
    "TRL404": "a source was imported before, with another time zone",
    "TRL405": "an unknown time zone",
    "TRL406": "an output folder with other content",
    "TRL407": "an archive that does not name the rules that judged its events",
    "TRL408": "a rule set that is missing from an archive, or does not match its digest",
    "TRL409": "a file of an archive cannot be written",
    "TRL410": "an unknown session",
    "TRL411": "a source without spans, for `tracline doctor`",
    "TRL420": "the archive of a bundle is missing, or is not the one that was audited",
    "TRL421": "an unknown rule or verdict of a bundle",
    "TRL422": "an unknown rule of the packs, for `tracline explain`",
    "TRL423": "a step that an explained session does not have",
    "TRL424": "a bundle that cannot be reported",
    "TRL425": "a report that cannot be written as PDF",
    "TRL440": "a bundle that cannot be a baseline",
    "TRL441": "an audit as of a time up to which its archive is not complete",
    "TRL442": "a bundle that cannot be the previous one of a nightly audit",
    "TRL450": "a key file that exists, or is not of the right kind",
    "TRL451": "a passphrase that is missing or wrong",
    "TRL452": "a signer that does not sign",
    "TRL453": "a folder without an attestation",
    "TRL454": "an attestation that is damaged, or a file of a bundle in another form",
    "TRL455": "an attestation of an unknown version",
    "TRL456": "files of a bundle that are missing, added or changed",
    "TRL457": "a signature that is missing, by another key, or of another statement",
    "TRL458": "a previous bundle that is not the one that a bundle names",
    "TRL465": "an archive from which nothing can be erased",
    "TRL459": "a timestamp that is missing or does not hold, or an authority that gives none",
    "TRL460": "a file of a bundle that does not follow from the others",
    "TRL461": "an archive that is not the audited one, or gives other results",
    "TRL462": "a bundle that cannot be redacted, or a field of no known class",
    "TRL463": "a secret that is too short",
    "TRL464": "a value that a redacted bundle does not have, or that its revelation does not show",
}
"""The codes of sources and archives; a test triggers each."""


class SourceError(Exception):
    """An error of a whole source or archive; single rows and messages are rejected instead.

    `str(error)` is `where: CODE what`, with the hint on a separate line, and quotes no content.
    """

    def __init__(self, code: str, where: str, what: str, hint: str) -> None:
        assert code in CODES, f"{code} is not in the table of codes"
        super().__init__(f"{where}: {code} {what}\n  hint: {hint}")
        self.code = code
        self.where = where
        self.what = what
        self.hint = hint
