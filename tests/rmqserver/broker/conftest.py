"""A broker for each module that plays Apache's exchanges: they use the same names for different states."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

RECORDED_WITH = ("--set", "traceTopicEnable=true", "--set", "enablePropertyFilter=true")
"""Settings of the brokers whose exchanges we have, as far as they show in answers."""


@pytest.fixture(scope="module")
def golden_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.standalone(tmp_path_factory.mktemp("golden"), *RECORDED_WITH) as running:
        yield running


@pytest.fixture(scope="module")
def admin(golden_server: Server) -> Iterator[Wire]:
    """A raw connection, on which a tool asks."""
    with Wire(golden_server.broker_addr) as connection:
        yield connection


@pytest.fixture
def client(golden_server: Server) -> Iterator[Wire]:
    """A raw connection of a test's own, on which a client is."""
    with Wire(golden_server.broker_addr) as connection:
        yield connection
