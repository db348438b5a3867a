"""The fixture ``rocketmq``, by the entry point ``pytest11``.

Every run of pytest imports this module, even in projects that do not use the fixture. So it imports only what pytest
has imported already; the rest is imported by the first test that asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rmqadmin.testing.rocketmq import RocketMQ
    from rmqadmin.testing.server_process import ServerProcess


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("rocketmq_args", "further arguments of `rmqserver standalone` for the fixture rocketmq", type="args")


@pytest.fixture(scope="session")
def rocketmq_server(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A nameserver and broker for the whole session, started when a test first needs it. Under xdist each worker has
    its own."""
    from rmqadmin.testing.server_process import ServerProcess

    log_file = tmp_path_factory.mktemp("rocketmq") / "rmqserver.log"
    directory = None if pytestconfig.inipath is None else pytestconfig.inipath.parent
    with ServerProcess(pytestconfig.getini("rocketmq_args"), log_file, directory) as server:
        yield server


@pytest.fixture
def rocketmq(rocketmq_server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[RocketMQ]:
    """RocketMQ for one test: its own topics and groups on the session's broker (docs/testing.md)."""
    from rmqadmin.testing.rocketmq import RocketMQ

    with RocketMQ(rocketmq_server.namesrv_addr, rocketmq_server.broker_addrs, request.node.name) as of_test:
        yield of_test
