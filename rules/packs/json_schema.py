"""The JSON Schema of a pack file, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from .pack_file import PackFile, mapping_schema

SCHEMA_FILE = Path(__file__).with_name("pack.schema.json")
"""The generated file; `make generated` writes it and a test compares it."""


class _ForEditors(GenerateJsonSchema):
    """Pydantic's generator of JSON Schema, extended by the `editors` metadata."""

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        """Return the JSON Schema of one part."""
        return {**super().generate_inner(schema), **schema.get("metadata", {}).get("editors", {})}


def json_schema() -> str:
    """Return the JSON Schema of a pack file, as text with a final line break."""
    found = _ForEditors().generate(mapping_schema(PackFile))
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **found}, indent=2) + "\n"
