"""The checker of bundles, which shares no code with tracline, as a module."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "docs" / "checker" / "check_bundle.py"


def _loaded() -> Any:
    spec = spec_from_file_location("check_bundle", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checker = _loaded()


def refusal(bundle: Path) -> str | None:
    """Return why the checker refuses a bundle, or None if it does not."""
    try:
        with redirect_stdout(StringIO()):
            checker.check(bundle)
    except SystemExit as error:
        return str(error.code)
    except (ValueError, LookupError, TypeError) as error:
        return repr(error)
    return None


def derived(bundle: Path) -> tuple[int, int]:
    """Return the number of verdicts that the checker derives in a bundle, and of those by the table only."""
    with redirect_stdout(StringIO()) as output:
        checker.check(bundle)
    found = re.search(r"(\d+) verdicts follow, (\d+) of them by the table only", output.getvalue())
    assert found is not None
    return int(found[1]), int(found[2])
