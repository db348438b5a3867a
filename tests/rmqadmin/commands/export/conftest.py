"""Two brokers under one name server, for changes that can succeed on one broker and fail on the other."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import RegisterBrokerBody
from rmqproto.codes import RequestCode
from rmqproto.headers.nameserver import RegisterBrokerHeader
from rmqproto.wire import fastjson
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support import servers
from tests.support.servers import until
from tests.support.wire import Wire


class Pair(NamedTuple):
    """The addresses of a name server and of its broker-a and broker-b, and a client."""

    namesrv_addr: str
    a: str
    b: str
    admin: AdminClient


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with (
        servers.namesrv(folder / "namesrv") as namesrv,
        servers.broker(folder / "a", namesrv.namesrv_addr, "broker-a") as a,
        servers.broker(folder / "b", namesrv.namesrv_addr, "broker-b") as b,
        AdminClient(namesrv.namesrv_addr) as admin,
    ):
        until(lambda: len(admin.cluster_info().broker_addr_table) == 2)
        yield Pair(namesrv.namesrv_addr, a.broker_addr, b.broker_addr, admin)


@pytest.fixture
def pair(brokers: Pair, run: Rmqadmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Pair]:
    """The two brokers without topics, groups, users or ACLs of other tests."""
    monkeypatch.setenv("NAMESRV_ADDR", brokers.namesrv_addr)
    yield brokers
    path = tmp_path / "nothing.yaml"
    path.write_text("topics: {}\ngroups: {}\nusers: {}\nacls: {}\n")
    assert run("apply", "-f", str(path), "-c", CLUSTER, "--prune", CLUSTER).status == 0


@pytest.fixture
def ghost(brokers: Pair) -> Iterator[str]:
    """The address of a registered broker-z where nobody listens."""
    addr = "127.0.0.1:1"
    header = RegisterBrokerHeader(
        broker_name="broker-z", broker_addr=addr, cluster_name=CLUSTER, ha_server_addr="", broker_id=0
    )
    with Wire(brokers.namesrv_addr) as wire:
        body = fastjson.dumps(RegisterBrokerBody())
        assert wire.ask(RequestCode.REGISTER_BROKER, header, body).code == 0
        yield addr
    until(lambda: len(brokers.admin.cluster_info().broker_addr_table) == 2)


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """``manifest("topics: {}")``: the path of a file with this text."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        path = tmp_path / "wanted.yaml"
        path.write_text(text)
        return str(path)

    return write
