"""The JSON lines in the files of a bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def bundle_lines(bundle: Path, name: str = "verdicts.jsonl") -> list[dict[str, Any]]:
    """Return the lines of a file of a bundle."""
    return list(map(json.loads, (bundle / name).read_bytes().splitlines()))
