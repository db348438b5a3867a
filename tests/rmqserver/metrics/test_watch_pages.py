"""``--metrics-port``: the pages that Prometheus and an orchestrator read of a running server."""

import errno
import http.client
import re
import resource
import socket
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio

from rmqproto.bodies.groups import ConsumerData, Heartbeat, SubscriptionData
from rmqproto.codes import RequestCode
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.wire import fastjson
from rmqserver.broker.broker import Broker
from rmqserver.metrics.broker_families import BrokerFamilies, StoreReads
from rmqserver.metrics.watch_pages import WatchPages
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

DISK = "storage_medium=disk storage_type=local"

watched = servers.of_module("--metrics-port", "0")


def get(server: Server, path: str, method: str = "GET") -> tuple[int, str]:
    return got(str(server.ready["metrics_addr"]), path, method)


def got(addr: str, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(addr, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        assert answer.reason == HTTPStatus(answer.status).phrase
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def beat(wire: Wire, group: str, topic: str) -> None:
    """Sends a consumer's heartbeat, which creates its group."""
    data = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=topic, sub_version=1)])
    body = fastjson.dumps(Heartbeat(client_id="me", consumer_data_set=[data]))
    assert wire.ask(RequestCode.HEART_BEAT, {}, body).code == 0


def metrics(server: Server) -> dict[str, float]:
    """Values by name and sorted labels, without the labels that every sample has."""
    status, text = get(server, "/metrics")
    assert status == 200
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()  # type: ignore[union-attr]
            pairs = re.findall(r'(\w+)="([^"]*)"', labels)
            assert {"node_type", "cluster", "node_id"} <= {label for label, _ in pairs}
            own = sorted(f"{label}={text}" for label, text in pairs if label not in ("node_type", "cluster", "node_id"))
            key = " ".join([name, *own])
            assert key not in found, "a sample twice"
            found[key] = float(value)
    return found


def test_health_and_readiness(watched: Server) -> None:
    assert get(watched, "/healthz") == (200, "alive\n")
    assert get(watched, "/readyz?verbose") == (200, "ready\n")
    assert get(watched, "/")[0] == 404
    assert get(watched, "/metrics", "POST")[0] == 405


def test_head_has_the_status_and_no_body(watched: Server) -> None:
    """As ``wget --spider`` asks, which many health checks of containers are."""
    addr = str(watched.ready["metrics_addr"])
    assert got(addr, "/healthz", "HEAD") == (200, "")
    assert got(addr, "/nothing", "HEAD") == (404, "")
    with socket.create_connection((addr.rpartition(":")[0], int(addr.rpartition(":")[2])), timeout=30) as peer:
        peer.sendall(b"HEAD /readyz HTTP/1.1\r\n\r\n")
        head = b"".join(iter(lambda: peer.recv(4096), b""))
    assert head.endswith(b"Content-Length: 6\r\nConnection: close\r\n\r\n")


def test_messages_and_lag_by_their_names_in_rocketmq_5(watched: Server) -> None:
    send = SendHeaderV2(topic="Watched", queue_id=0, born_timestamp=1)
    waits = SendHeaderV2(topic="Timed", queue_id=0, born_timestamp=1, properties="TIMER_DELAY_SEC\x013600\x02")
    with Wire(watched.broker_addr) as wire:
        wire.create_topic("Timed", 1)
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, waits, b"later").code == 0
        wire.create_topic("Watched", 1)
        for _ in range(3):
            assert wire.ask(RequestCode.SEND_MESSAGE_V2, send, b"body").code == 0
        beat(wire, "watchers", "Watched")
        commit = {"consumerGroup": "watchers", "topic": "Watched", "queueId": "0", "commitOffset": "1"}
        assert wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0
    found = metrics(watched)  # whether the group is still online or not
    assert found["rocketmq_messages_in_total is_system=false topic=Watched"] == 3
    assert found["rocketmq_throughput_in_total is_system=false topic=Watched"] > 3 * len(b"body")
    lag = "consumer_group=watchers is_retry=false is_system=false topic=Watched"
    assert found[f"rocketmq_consumer_lag_messages {lag}"] == 2
    assert found[f"rocketmq_consumer_ready_messages {lag}"] == 2
    assert found[f"rocketmq_consumer_inflight_messages {lag}"] == 0
    assert found[f"rocketmq_consumer_lag_latency {lag}"] >= 0
    assert found[f"rocketmq_storage_size {DISK}"] > 0
    timers = [found[f"rocketmq_timer_{name} {DISK}"] for name in ("enqueue_lag", "dequeue_lag", "dequeue_latency")]
    assert sum(timers[:2]) == 1, "not taken in yet, or it waits"
    assert timers[2] >= 0
    assert found["rocketmq_broker_permission"] == 6
    assert found["rmqserver_store_writeable"] == 1


def test_clients_by_language_and_version(watched: Server) -> None:
    with Wire(watched.broker_addr) as wire:
        beat(wire, "online", "TBW102")
        found = metrics(watched)
    connections = [key for key in found if key.startswith("rocketmq_consumer_connections")]
    assert [key for key in connections if "consume_mode=push consumer_group=online" in key]
    assert found["rocketmq_consumer_lag_messages consumer_group=online is_retry=false is_system=true topic=TBW102"] == 0


def test_a_broker_that_takes_no_messages_is_not_ready(start_standalone: Callable[..., Server]) -> None:
    server = start_standalone("--metrics-port", "0")
    send = SendHeaderV2(topic="TBW102", queue_id=0, born_timestamp=1)
    with Wire(server.broker_addr) as wire:
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, send, b"kept").code == 0
        before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, send, b"lost").code != 0
    status, text = get(server, "/readyz")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)
    assert (status, text.partition(":")[0]) == (503, "not ready")
    assert get(server, "/healthz")[0] == 200
    assert metrics(server)["rmqserver_store_writeable"] == 0


@pytest.mark.trio
async def test_a_file_that_cannot_be_read_fails_the_page_and_not_the_server(nursery: trio.Nursery) -> None:
    class Unreadable:
        def labels(self) -> dict[str, str]:
            return {}

        def read(self) -> Callable[[], StoreReads]:
            raise OSError(errno.EIO, "Input/output error")

    broker = SimpleNamespace(store=SimpleNamespace(directory=SimpleNamespace(root="/nowhere")))
    pages = WatchPages()
    pages.watch(cast(Broker, broker), cast(BrokerFamilies, Unreadable()))
    addr = await pages.listen("127.0.0.1", 0)
    nursery.start_soon(pages.run)
    assert await trio.to_thread.run_sync(got, addr, "/metrics") == (503, "[Errno 5] Input/output error\n")
    assert await trio.to_thread.run_sync(got, addr, "/healthz") == (200, "alive\n")


def test_apaches_keys_open_the_port_too_and_a_taken_one_is_an_error(tmp_path: Path) -> None:
    keys = ("--set", "metricsExporterType=PROM", "--set", "metricsPromExporterPort=0")
    with servers.standalone(tmp_path / "keys", *keys) as server:
        assert get(server, "/readyz")[0] == 200
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(RuntimeError, match=f"cannot listen on 127.0.0.1:{port}"):
            servers.namesrv(tmp_path / "taken", "--metrics-port", port)


def test_a_nameserver_is_watched_too(tmp_path: Path) -> None:
    with servers.namesrv(tmp_path, "--metrics-port", "0") as server:
        assert get(server, "/readyz") == (200, "ready\n")
        assert 'rmqserver_info{node_type="nameserver"' in get(server, "/metrics")[1]


@pytest.mark.parametrize("request_bytes", [b"\r\n\r\n", b"\x16\x03\x01\x02\n\n", b"GET /metrics\r\n\r\n", b"x" * 9000])
def test_what_is_no_request_is_answered_and_hurts_nobody(watched: Server, request_bytes: bytes) -> None:
    host, _, port = str(watched.ready["metrics_addr"]).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as peer:
        peer.sendall(request_bytes)
        assert peer.recv(12) == b"HTTP/1.1 400"
    assert get(watched, "/healthz")[0] == 200
