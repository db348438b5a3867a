"""Fixtures of the interop tests: one cluster of each kind for the whole session, with few JVMs."""

from collections.abc import Callable, Iterator

import pytest

from .client import Client
from .cluster import SETTINGS, SYSTEMS, Cluster
from .mqadmin import Mqadmin
from .other_clients import start
from .witness import Witness


@pytest.fixture(scope="session", params=list(SYSTEMS))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running nameserver and broker, shared by all tests: each uses topics and groups of its own (``fresh``)."""
    with SYSTEMS[request.param](tmp_path_factory.mktemp(request.param), SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
def _witnesses(cluster: Cluster) -> Iterator[Callable[[str], Witness]]:
    started: dict[str, Witness] = {}

    def witness(serialization: str) -> Witness:
        if serialization not in started:
            started[serialization] = Witness(
                cluster.namesrv_addr, cluster.work / f"java-{serialization}", serialization
            )
        return started[serialization]

    yield witness
    for running in started.values():
        running.close()


@pytest.fixture
def java(_witnesses: Callable[[str], Witness]) -> Witness:
    """The Java client with JSON headers, its default."""
    return _witnesses("JSON")


@pytest.fixture(params=["JSON", "ROCKETMQ"])
def java_by_header(request: pytest.FixtureRequest, _witnesses: Callable[[str], Witness]) -> Witness:
    """The Java client, once with each form of request headers."""
    return _witnesses(request.param)


@pytest.fixture(scope="session")
def _others(cluster: Cluster) -> Iterator[Callable[[str], Client]]:
    started: dict[str, Client] = {}

    def other(name: str) -> Client:
        if name not in started:
            started[name] = start(name, cluster.namesrv_addr, cluster.work / name)
        return started[name]

    yield other
    for running in started.values():
        running.close()


@pytest.fixture
def client(
    request: pytest.FixtureRequest, _others: Callable[[str], Client], _witnesses: Callable[[str], Witness]
) -> Client:
    """``java``, with either form of headers, or one of ``other_clients.COMMANDS``; chosen by indirect parameters."""
    name, _, header = str(request.param).partition(" ")
    return _witnesses(header or "JSON") if name == "java" else _others(name)


@pytest.fixture(scope="session")
def mqadmin(cluster: Cluster) -> Iterator[Mqadmin]:
    with Mqadmin(cluster.namesrv_addr, cluster.work / "mqadmin") as running:
        yield running
