"""Fixtures of all tests: a terminal that is the same everywhere, and the time budget of each folder."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import tomllib
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

# The same examples in every run, on a busy machine as on an idle one; what pytest_collection_modifyitems
# imports is a part of that.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")

# Most garbage collections would only traverse what imports and the collection of tests have made.
gc.set_threshold(50_000, 20, 20)

BUDGETS_S = {
    "unit": 430,
    "laws": 330,
    "differential": 300,
    "conformance": 20,
    "snapshots": 10,
    "serve": 200,
    "browser": 120,
    "docker": 30,
    "kafka": 600,
    "collector": 240,
    "frameworks": 120,
    "storm": 120,
    "simulation": 55,
}
"""Seconds that a folder's tests may take, added up: those of the processor, or all in folders that wait."""

WAITING = ("kafka", "serve", "browser", "docker", "collector", "frameworks", "storm")
"""Folders whose tests mostly wait for other processes."""
PROCESSOR_S = "processor_s"
LONG = (
    *("kafka/test_proof.py", "kafka/test_monitor.py", "kafka/test_pipeline.py", "kafka/test_broker_away.py"),
    *("serve/test_kill.py", "serve/test_connections.py", "kafka/test_rekey.py", "kafka/test_full_disk.py"),
    "browser/test_console.py",
    *("kafka/test_activate.py", "kafka/test_as_judged.py", "kafka/test_overtaken.py", "serve/test_serve.py"),
    *("kafka/test_security.py", "kafka/test_alerts.py", "kafka/test_archive.py", "kafka/test_standby.py"),
    *("differential/test_fixed_set.py", "differential/test_meaning.py", "laws/test_past_sentences.py"),
    *("differential/test_witness.py", "differential/test_continued.py", "differential/test_audit_order.py"),
    *("laws/test_canonical_text.py", "laws/test_claim_log.py", "laws/test_label_meaning.py"),
    *("laws/test_list_meaning.py", "laws/test_desk_scores.py", "differential/test_certificates.py"),
    *("laws/test_polls.py", "differential/test_following.py", "laws/test_nights.py"),
    *("laws/test_remembered.py", "laws/test_walk.py", "laws/test_otlp.py"),
    *("laws/test_label_automata.py", "laws/test_markov_desk.py", "differential/test_compare.py"),
    *("unit/examples/test_nightly.py", "unit/stream/test_monitor_chains.py", "unit/cli/test_init.py"),
    *("unit/cli/test_demo.py", "unit/stream/test_trial.py", "unit/stream/test_http.py"),
)
"""Files of about ten seconds and more; the last tests of a run should be short."""

ROOT = Path(__file__).parents[1]

PROGRAMS = (
    ("kafka", "java", "a Java of 17 or newer, or KAFKA_BOOTSTRAP_SERVERS"),
    ("kafka", "mvn", "Maven, which `make kafka` needs once"),
    ("kafka", "openssl", "openssl, for test_security.py"),
    ("browser", "chromium", "Chromium"),
    ("docker", "promtool", "promtool of Prometheus"),
    ("docker", "prometheus", "Prometheus"),
    ("docker", "amtool", "amtool of Alertmanager"),
    ("docker", "prometheus-alertmanager", "Alertmanager"),
    ("docker", "docker-compose", "docker-compose"),
)
"""Programs that tests of a folder skip without: the folder, the command, and what it is."""

took_s: dict[str, float] = defaultdict(float)
processor_s: dict[str, float] = defaultdict(float)
spent = [0.0]
"""The processor seconds of this process at the last report."""
skipped: Counter[tuple[str, str]] = Counter()
UNMARKED_MAX_S = 0.7
"""Processor seconds above which a unit test that is not marked slow is listed, except those of the house."""
unmarked_s: dict[str, float] = defaultdict(float)


AUTHORITY = ROOT / "tests" / "support" / "http" / "authority.pem"
"""The one authority that clients trust; reading those of the machine takes 27 ms a client."""


@pytest.fixture(autouse=True)
def plain_terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output is 100 columns wide and without colours, and no setting comes in from outside."""
    # Frameworks are downloaded.
    if request.node.get_closest_marker("frameworks") is None:
        monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    for name in os.environ:
        if name.startswith("TRACLINE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TZ", "UTC")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print before the first test which folders will skip tests, because of which programs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    asked = [Path(arg.split("::")[0]).resolve() for arg in session.config.args]
    for folder, command, what in PROGRAMS:
        path = ROOT / "tests" / folder
        is_asked = any(
            path == asked_path or path in asked_path.parents or asked_path in path.parents
            for asked_path in asked
        )
        if is_asked and shutil.which(command) is None and not _is_had_otherwise(command):
            reporter.write_line(f"tests/{folder:<13} WILL SKIP: there is no `{command}` here: {what}")


def _is_had_otherwise(command: str) -> bool:
    """Return whether nothing is skipped without the command: jars were fetched, or Kafka runs elsewhere."""
    elsewhere = bool(os.environ.get("KAFKA_BOOTSTRAP_SERVERS"))
    return {"mvn": elsewhere or (ROOT / ".kafka" / ".ready").exists(), "java": elsewhere}.get(command, False)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Import all of tracline before a law runs, and let several processes begin with the long files.

    Hypothesis also draws constants of those modules of the project that are imported: earlier tests would
    decide which, and a law's examples with them.
    """
    if hasattr(config, "workerinput"):
        items[:] = _long_first(items)
    if any(isinstance(item, pytest.Function) and is_hypothesis_test(item.obj) for item in items):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        for room, folder in project["tool"]["setuptools"]["package-dir"].items():
            for path in sorted((ROOT / folder).rglob("*.py")):
                module = path.relative_to(ROOT / folder).with_suffix("")
                import_module(".".join((room, *module.parts)).removesuffix(".__init__"))


def _long_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests by file, those of long files first."""
    rank = {f"tests/{name}": place for place, name in enumerate(LONG)}
    return sorted(items, key=lambda item: rank.get(item.location[0], len(LONG)))


def pytest_collection_finish() -> None:
    """Leave what was made so far out of garbage collections, and of the processor time of the first test."""
    gc.collect()
    gc.freeze()
    _spent_s()


def _spent_s() -> float:
    """Return the processor seconds since the last call, those of processes that ended since included."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    before = spent.pop()
    spent.append(sum(each.ru_utime + each.ru_stime for each in usage))
    return spent[0] - before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the processor time of a test into its report, which another process may read."""
    report = yield
    report.user_properties.append((PROCESSOR_S, _spent_s()))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a test's seconds, its fixtures' included, to its folder's; note why it was skipped."""
    folder = Path(report.nodeid.split("::")[0]).parts[1]
    took_s[folder] += report.duration
    seconds = sum(value for name, value in report.user_properties[-1:] if name == PROCESSOR_S)
    processor_s[folder] += seconds
    if folder == "unit" and "slow" not in report.keywords and "/house/" not in report.nodeid:
        unmarked_s[report.nodeid] += seconds if report.when == "call" else 0.0
    if report.skipped and isinstance(report.longrepr, tuple):
        skipped[folder, report.longrepr[2].removeprefix("Skipped: ")] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each folder took against its budget, which tests lack their mark, and what was skipped."""
    for folder, seconds in sorted(took_s.items()):
        computing, budget_s = processor_s[folder], BUDGETS_S[folder]
        is_over = (seconds if folder in WAITING else computing) > budget_s
        line = f"tests/{folder:<13} {seconds:6.1f} s, {computing:6.1f} s of the processor"
        warning = "  OVER ITS BUDGET" if is_over else ""
        terminalreporter.write_line(f"{line}, budget {budget_s:>3} s{warning}")
    for test, seconds in sorted(unmarked_s.items()):
        if seconds > UNMARKED_MAX_S:
            terminalreporter.write_line(f"{test} takes {seconds:.1f} s of the processor: mark it slow")
    for (folder, reason), count in sorted(skipped.items()):
        terminalreporter.write_line(f"tests/{folder:<13} {count} SKIPPED: {reason}")
