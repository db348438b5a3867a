"""A broker for each module that plays Apache's exchanges, because these use the same names for different states. Tests
that need no running broker use its parts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from tests.rmqserver.broker.parts import parts_on
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

RECORDED_WITH = ("--set", "traceTopicEnable=true", "--set", "enablePropertyFilter=true")
"""Settings of the brokers that we recorded, as far as they show in answers."""


golden_server = servers.of_module(*RECORDED_WITH)


@pytest.fixture(scope="module")
def admin(golden_server: Server) -> Iterator[Wire]:
    """A raw connection for a tool."""
    with Wire(golden_server.broker_addr) as connection:
        yield connection


@pytest.fixture
def client(golden_server: Server) -> Iterator[Wire]:
    """A raw connection for a client, new for each test."""
    with Wire(golden_server.broker_addr) as connection:
        yield connection


@pytest.fixture
def other(server: Server) -> Iterator[Wire]:
    """A second connection to the broker of ``wire``."""
    with Wire(server.broker_addr) as connection:
        yield connection


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[BrokerAssembly]:
    """The parts of a broker, on a store of their own."""
    options = StoreOptions(commit_log_file_size_bytes=1 << 20, index_enabled=False)
    store = MessageStore(tmp_path / "store", options, background=False)
    store.open()
    files = ConfigFiles(str(tmp_path / "store/config"), OsDisk())
    yield parts_on(store, files)
    files.close()
    store.close()
