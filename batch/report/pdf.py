"""The report of a bundle as PDF, by WeasyPrint, which is an extra of tracline."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ...archive.disk import replacing_file
from ...archive.error import SourceError
from .page import printed_html

if TYPE_CHECKING:
    from types import ModuleType

EXTRA_HINT = "install tracline with its extra `pdf`: pip install '.[pdf]' in a clone"
LIBRARIES_HINT = "install Pango: apt-get install libpango-1.0-0 libpangoft2-1.0-0"


def write_pdf(bundle: Path, out: Path) -> None:
    """Write the report of a bundle as PDF, whole or not at all.

    Its bytes depend on the fonts of the machine. Raises SourceError (TRL424) if a file of the bundle is
    missing or damaged, and SourceError (TRL425) if the file would be in the bundle, whose files are attested,
    or if WeasyPrint or its libraries are missing.
    """
    if out.resolve().is_relative_to(bundle.resolve()):
        what = "is in the bundle, which may hold only the files that its attestation names"
        raise SourceError("TRL425", str(out), what, "choose a file outside of the bundle")
    weasyprint = _weasyprint()
    # The page refers to nothing outside of itself; a text of the archive cannot make it do so.
    fetcher = weasyprint.urls.URLFetcher(allowed_protocols=())
    page = weasyprint.HTML(string=printed_html(bundle), url_fetcher=fetcher)
    with replacing_file(out) as part:
        page.write_pdf(part, pdf_tags=True)


def _weasyprint() -> ModuleType:
    """Return the module. Raises SourceError (TRL425) without it, or without the libraries that it loads."""
    try:
        # It prints a notice where a library is missing.
        with redirect_stdout(io.StringIO()):
            return import_module("weasyprint")
    except ModuleNotFoundError as error:
        what = f"cannot be written: the package {error.name} is not installed"
        raise SourceError("TRL425", "report.pdf", what, EXTRA_HINT) from error
    except OSError as error:
        raise SourceError("TRL425", "report.pdf", f"cannot be written: {error}", LIBRARIES_HINT) from error
