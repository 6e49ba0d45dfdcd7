"""The compiled template of the report, stored beside Python's compiled modules: compiling it takes 60 ms."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, BytecodeCache


class TemplateCache(BytecodeCache):
    """Stores compiled templates where Python stores a module, if it may; `made_by` is the module's file.

    A template is compiled again when it, the module that makes its environment, or Jinja changed.
    """

    def __init__(self, made_by: Path) -> None:
        self._made_by = made_by

    def get_source_checksum(self, source: str) -> str:
        """Return the digest of everything that decides the compiled template, besides Python's version."""
        made_by = self._made_by.read_text(encoding="utf-8")
        return hashlib.sha256("\0".join([jinja2.__version__, made_by, source]).encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a compiled template if there is one for its checksum."""
        with suppress(OSError), self._path(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store a compiled template, if the folder can be written."""
        if sys.dont_write_bytecode:
            return
        path = self._path(bucket)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            unfinished.write_bytes(bucket.bytecode_to_string())
            unfinished.replace(path)

    def _path(self, bucket: Bucket) -> Path:
        name = f"{self._made_by.stem}.{sys.implementation.cache_tag}.{bucket.key}.jinja"
        return self._made_by.parent / "__pycache__" / name
