"""`tracline serve --open`: an archive in the console, read only."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...error import coded_error
from ...missing_package import package_error
from ...options import note, notes
from ...rejected import report_rejected
from ...source import audit_options, named
from ...unread import report_empty

if TYPE_CHECKING:
    from ....rules.model.rule import RuleSet
    from ....stream.console.risks import ServedChain


def open_archive(
    source: tuple[str, ...],
    rules: tuple[str, ...],
    host: str,
    port: int,
    token: str | None,
    timezone: str,
    chain: Callable[[RuleSet], ServedChain | None],
) -> None:
    """Judge a source by the rules, if any, and show its sessions until the process is stopped.

    `chain` reads the learned chain that gives their risks, if there is one.
    """
    from ....batch.sources.discover import Population
    from ....batch.survey.judged_sessions import judged_sessions
    from ....rules.engine.judge import compile_rule_set
    from ....rules.model.digest import rule_set_digest
    from ....rules.model.rule import RuleSet
    from ....rules.packs.load import load_packs

    try:
        from ....stream.error import StreamError
        from ....stream.ingest.server.sockets import Address
        from ....stream.serve.opened_service import serve_opened
        from ....stream.serve.read_only_store import ReadOnlyStore
        from ....stream.serve.store import FILE
    except ModuleNotFoundError as error:
        if (missing := package_error(error, "tracline serve")) is None:
            raise
        raise missing from error
    rule_set = load_packs(rules) if rules else RuleSet((), {})
    compiled, population, served = compile_rule_set(rule_set), Population(), chain(rule_set)
    note(f"reading {named(source)}")
    with tempfile.TemporaryDirectory() as folder:
        store = ReadOnlyStore(Path(folder) / FILE)
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        digest = rule_set_digest(rule_set)
        for judged in judged_sessions(source, compiled, scratch, audit_options(timezone), population):
            statuses = judged.statuses.iter_rows(named=True)
            store.add(judged.events, judged.records, statuses, digest)
        store.finish()
        report_rejected(population.rejects, population.rejected, source, population.rejected.total())
        report_empty(store.events, source)
        try:
            address = Address(host, port, token)
            asyncio.run(serve_opened(Path(folder) / FILE, compiled, address, notes(), served))
        except StreamError as error:
            raise coded_error(error.code, "tracline serve", str(error), error.hint) from error
