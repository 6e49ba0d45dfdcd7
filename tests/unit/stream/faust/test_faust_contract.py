"""The private members of Faust, mode and aiokafka that the monitor replaces or reads: one case for each.

A case asserts that the member has the parameters that the monitor relies on, and that the library still calls
it in the named function. The versions are pinned: an upgrade changes the pin and passes these tests first.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import faust
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.producer.sender import Sender
from faust.app.base import App as BaseApp
from faust.stores.base import Store
from faust.tables import base as tables
from faust.tables import recovery
from faust.tables.manager import TableManager
from faust.transport import conductor, consumer
from faust.transport.drivers import aiokafka as driver
from faust.types.tuples import ConsumerMessage
from mode.utils import futures
from tracline.stream.kafka.faust import app, table, transport

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "stream" / "kafka" / "faust"
PINS = {"faust-streaming": "0.15.3", "mode-streaming": "0.7.1", "aiokafka": "0.14.0"}
DRIVER_THREAD = driver.AIOKafkaConsumerThread


class Replaced(NamedTuple):
    """A member that a class of the monitor overrides, and a place of the library that calls it."""

    ours: type
    library: type
    name: str
    parameters: str
    caller: Any
    """The function or class whose source calls the member."""

    @property
    def id(self) -> str:
        """Return the name of the case."""
        return f"{self.ours.__name__}.{self.name}"


REPLACED = [
    Replaced(app.App, faust.App, "_new_transport", "", BaseApp),
    Replaced(app.App, faust.App, "_new_producer_transport", "", BaseApp),
    Replaced(app.App, faust.App, "_create_directories", "", BaseApp),
    Replaced(table.Tables, TableManager, "on_start", "", None),
    Replaced(table.RecoveredStore, Store, "persisted_offset", "tp", tables.Collection),
    Replaced(
        table.RecoveredStore,
        Store,
        "on_rebalance",
        "assigned revoked newly_assigned generation_id",
        tables.Collection.on_rebalance,
    ),
    Replaced(
        table.RecoveredStore,
        Store,
        "apply_changelog_batch",
        "batch to_key to_value",
        tables.Collection.apply_changelog_batch,
    ),
    Replaced(
        table.RecoveredStore,
        Store,
        "on_recovery_completed",
        "active_tps standby_tps",
        tables.Collection.on_recovery_completed,
    ),
    Replaced(table.RecoveredStore, Store, "stop", "", None),
    Replaced(table.RecoveredStore, Store, "reset_state", "", tables.Collection.reset_state),
    Replaced(table.RecoveredStore, Store, "backup_partition", "tp flush purge keep", None),
    Replaced(table.RecoveredStore, Store, "restore_backup", "tp latest backup_id", None),
    Replaced(table.StateTable, faust.Table, "_new_store", "", tables.Collection),
    Replaced(
        transport.CommittedThread,
        DRIVER_THREAD,
        "_seek_wait",
        "consumer partitions",
        DRIVER_THREAD.seek_wait,
    ),
    Replaced(
        transport.CommittedThread,
        DRIVER_THREAD,
        "_fetch_records",
        "consumer active_partitions timeout max_records",
        DRIVER_THREAD.getmany,
    ),
    Replaced(transport.CommittedThread, DRIVER_THREAD, "on_start", "", None),
    Replaced(
        transport.CommittedThread,
        DRIVER_THREAD,
        "on_partitions_assigned",
        "assigned generation_id",
        driver.ConsumerRebalanceListener,
    ),
    Replaced(
        transport.CommittedThread,
        DRIVER_THREAD,
        "_create_worker_consumer",
        "transport",
        DRIVER_THREAD._create_consumer,
    ),
    Replaced(
        transport.Consumer,
        driver.Consumer,
        "_new_consumer_thread",
        "",
        consumer.ThreadDelegateConsumer,
    ),
    Replaced(transport.Consumer, driver.Consumer, "ack", "message", ConsumerMessage),
    Replaced(transport.Consumer, driver.Consumer, "wait_empty", "", BaseApp._consumer_wait_empty),
    Replaced(
        transport.Consumer,
        driver.Consumer,
        "_filter_committable_offsets",
        "tps",
        consumer.Consumer._commit_tps,
    ),
    Replaced(transport.Consumer, driver.Consumer, "_commit", "offsets", consumer.Consumer._commit_offsets),
    Replaced(transport.Consumer, driver.Consumer, "perform_seek", "", recovery.Recovery),
    Replaced(transport.Consumer, driver.Consumer, "_add_gap", "tp offset_from offset_to", consumer.Consumer),
    Replaced(transport.Consumer, driver.Consumer, "resume_partitions", "tps", recovery.Recovery),
    Replaced(transport.Consumer, driver.Consumer, "stop_flow", "", BaseApp._on_partitions_revoked),
    Replaced(transport.Consumer, driver.Consumer, "resume_flow", "", recovery.Recovery),
    Replaced(transport.Consumer, driver.Consumer, "on_buffer_drop", "tp", conductor.ConductorCompiler),
    Replaced(transport.Producer, driver.Producer, "on_start", "", None),
    Replaced(transport.Producer, driver.Producer, "_settings_extra", "", driver.Producer),
    Replaced(transport.Transport, driver.Transport, "Consumer", "", None),
    Replaced(transport.Transport, driver.Transport, "Producer", "", None),
]
"""Without a caller: a hook of mode's services, a class, or a method that Faust's own stores call."""


class Read(NamedTuple):
    """A private member that the monitor calls, reads or patches on an object of the library."""

    library: Any
    name: str
    parameters: str | None
    """None for an attribute, which the source of the class must name."""

    @property
    def id(self) -> str:
        """Return the name of the case."""
        return f"{self.library.__name__}.{self.name}"


READ = [
    Read(TableManager, "_update_channels", ""),
    Read(DRIVER_THREAD, "_ensure_consumer", ""),
    Read(DRIVER_THREAD, "_consumer", None),
    Read(DRIVER_THREAD, "seek_wait", "partitions"),
    Read(consumer.Consumer, "_unacked_messages", None),
    Read(consumer.Consumer, "_waiting_for_ack", None),
    Read(consumer.Consumer, "_committed_offset", None),
    Read(consumer.Consumer, "_buffered_partitions", None),
    Read(consumer.Consumer, "flow_active", None),
    Read(consumer.ThreadDelegateConsumer, "_thread", None),
    Read(driver.Producer, "_ensure_producer", ""),
    Read(AIOKafkaConsumer, "_isolation_level", None),
    Read(AIOKafkaConsumer, "_fetch_max_wait_ms", None),
    Read(AIOKafkaConsumer, "_coordinator", None),
    Read(AIOKafkaConsumer, "_subscription", None),
    Read(SubscriptionState, "fetch_context", ""),
    Read(GroupCoordinator, "_do_heartbeat", ""),
    Read(GroupCoordinator, "_coordination_task", None),
    Read(GroupCoordinator, "_pending_exception", None),
    Read(GroupCoordinator, "generation", None),
    Read(AIOKafkaProducer, "_sender", None),
    Read(Sender, "_send_produce_req", "node_id batches"),
    Read(futures, "notify", "fut result"),
]


def parameters(member: Callable[..., Any]) -> str:
    """Return the names of the parameters, without `self`."""
    return " ".join(name for name in inspect.signature(member).parameters if name not in ("self", "_", "__"))


@pytest.mark.parametrize("name", PINS)
def test_the_version_is_pinned(name: str) -> None:
    """The installed version is the one that these tests are about, and installers take no other."""
    assert version(name) == PINS[name]
    pin = f"{name}=={PINS[name]}"
    assert f'"{pin}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"\n{pin} " in (ROOT / "constraints.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", REPLACED, ids=lambda case: case.id)
def test_a_replaced_member_is_there(case: Replaced) -> None:
    """The library has the member with these parameters, and calls it; ours is of the same kind."""
    theirs = inspect.getattr_static(case.library, case.name)
    ours = inspect.getattr_static(case.ours, case.name)
    assert theirs is not ours
    if inspect.isclass(ours):
        assert issubclass(ours, getattr(case.library, case.name))
        return
    assert parameters(theirs) == case.parameters
    assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours)
    if case.caller is not None:
        assert re.search(rf"\.{case.name}\b", inspect.getsource(case.caller)), "nothing calls it any more"


@pytest.mark.parametrize("case", READ, ids=lambda case: case.id)
def test_a_private_member_is_there(case: Read) -> None:
    """The library has the member: a function with these parameters, or an attribute that its class sets."""
    if case.parameters is not None:
        assert parameters(getattr(case.library, case.name)) == case.parameters
        return
    sources = [inspect.getsource(base) for base in case.library.__mro__ if base.__module__ in _modules()]
    assert any(re.search(rf"self\.{case.name}\b|^    {case.name}:", text, re.MULTILINE) for text in sources)


def _modules() -> set[str]:
    found = (consumer, driver, inspect.getmodule(GroupCoordinator), inspect.getmodule(AIOKafkaConsumer))
    more = (inspect.getmodule(AIOKafkaProducer),)
    return {module.__name__ for module in (*found, *more) if module is not None}


def overridden() -> Iterator[str]:
    """Yield every member of a library's class that a class of the monitor overrides."""
    for module in (app, table, transport):
        for ours in vars(module).values():
            if not inspect.isclass(ours) or ours.__module__ != module.__name__:
                continue
            for name in vars(ours):
                bases = [base for base in ours.__mro__[1:] if name in vars(base)]
                libraries = {base.__module__.partition(".")[0] for base in bases}
                is_special = name == "_abc_impl" or (name.startswith("__") and name.endswith("__"))
                if not is_special and libraries & {"faust", "mode", "aiokafka"}:
                    yield f"{ours.__name__}.{name}"


def test_every_override_has_a_case() -> None:
    """A class of the monitor overrides nothing of the libraries that is not in the table, and the reverse."""
    ignored = {"app", "table", "abstract", "logger", "shortlabel", "label"}
    found = {name for name in overridden() if name.partition(".")[2] not in ignored}
    assert found == {case.id for case in REPLACED}


def test_every_private_read_has_a_case() -> None:
    """The monitor reads no private attribute of another object that is not in the tables."""
    named = {case.name for case in READ} | {case.name for case in REPLACED}
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Attribute) or not re.match(r"_(?!_)", node.attr):
                continue
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                assert node.attr in named, f"{path.name}:{node.lineno}: {ast.unparse(node)}"
