"""The archive of any source that an audit reads, as `tracline.predict.learn` takes it."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ...predict.counting.labelled_sessions import LabelledSessions
from ...predict.counting.watched_rules import WatchedRules
from ..audit.audit import OnProgress, silent
from ..evidence.files import file_digest
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources, discover, named
from .tallied import labelled_sessions
from .walk_files import WalkFiles


@dataclass(frozen=True, slots=True)
class SourceArchive:
    """A source that is read once; `population` counts rejects, and `walks` are files below `scratch`."""

    source: Sources
    scratch: Path
    walks: WalkFiles
    options: AuditOptions
    population: Population
    on_progress: OnProgress

    @property
    def name(self) -> str:
        """Return the source as the place of an error."""
        return named(self.source)

    def sessions(self, watched: WatchedRules, by: str | None) -> Iterator[LabelledSessions]:
        """Read and label the source. Raises SourceError if there is nothing to read."""
        return labelled_sessions(
            self.source, watched, self.scratch, self.options, self.population, by, self.on_progress
        )

    def inputs(self) -> tuple[int, str]:
        """Return the number of files, and the SHA-256 of their sorted SHA-256."""
        parts = discover(self.source, Population(), self.options.files)
        digests = sorted(file_digest(part.path) for part in parts)
        return len(digests), sha256("".join(digests).encode()).hexdigest()


@contextmanager
def source_archive(
    source: Sources,
    options: AuditOptions | None = None,
    population: Population | None = None,
    on_progress: OnProgress = silent,
) -> Generator[SourceArchive]:
    """Open a source for learning; its scratch files exist until the end."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        walks = scratch / "walks"
        walks.mkdir()
        yield SourceArchive(
            source,
            scratch,
            WalkFiles(walks),
            options or AuditOptions(),
            Population() if population is None else population,
            on_progress,
        )
