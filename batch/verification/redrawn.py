"""Drawing the report of a bundle again, without a byte that its attestation does not state."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...archive.error import SourceError
from ..attestation.envelope import ATTESTATION
from ..report.page import REPORT, report_html, write_report
from .attested import read_attested


def redraw_report(bundle: Path) -> None:
    """Draw the report of a bundle again.

    Raises SourceError (TRL456) if the attestation states another page, as another version of tracline draws;
    then nothing is written. Raises like `read_attested` if there is an attestation that cannot be read.
    """
    if (bundle / ATTESTATION).exists():
        attested = read_attested(bundle)
        page = hashlib.sha256(report_html(bundle).encode()).hexdigest()
        if attested.subjects.get(REPORT) != page:
            version = attested.predicate["tool"]["version"]
            what = f"is attested with another {REPORT}, which tracline {version} drew"
            hint = (
                f"use that version, run `tracline verify {bundle}`, or draw in a copy without {ATTESTATION}"
            )
            raise SourceError("TRL456", str(bundle), what, hint)
    write_report(bundle)
