"""The door opens at the first hello of HTTP/2, and says what is missing if it cannot."""

from types import SimpleNamespace
from typing import Any

import h2.config
import h2.connection
import pytest
import trio

from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.doors.grpc import grpc_door
from rmqserver.doors.grpc.grpc_door import HELLO_MAX_BYTES, GrpcDoor
from rmqserver.doors.way_to_master import may_pass_connections


class Broker:
    slave = None

    def __init__(self) -> None:
        self.loop = self
        self.told: list[str] = []

    def post(self, callback: Any) -> None:
        callback()

    def turned_away(self, connection: Any, protocol: str, reason: str) -> None:
        self.told.append(reason)


class Connection:
    closed_for = ""

    def close(self, reason: str) -> None:
        self.closed_for = reason


@pytest.mark.trio
async def test_without_the_libraries_every_client_is_turned_away_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError("No module named 'google'")

    monkeypatch.setattr(grpc_door, "import_module", missing)
    broker, first, later = Broker(), Connection(), Connection()
    door: Any = GrpcDoor(broker, broker.turned_away, list)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        door.take(first)
        nursery.start_soon(door.run)
    door.take(later)
    assert len(broker.told) == 2
    for each in (first, later):
        assert "pip install 'rmqadmin[grpc]'" in each.closed_for


@pytest.mark.parametrize(
    ("asks", "forwards", "passes"),
    [({}, True, True), ({}, False, False), ({"is_authenticating": True}, True, True),
     ({"is_authenticating": True, "is_authorizing": True}, True, False), ({"enforces_plain": True}, True, False)],
)  # fmt: skip
def test_a_slave_passes_on_only_what_its_master_judges_alike(
    asks: dict[str, bool], forwards: bool, passes: bool
) -> None:
    """Policies name addresses of clients, and the master sees the slave's."""
    config = SimpleNamespace(forward_to_master_enable=forwards)
    broker: Any = SimpleNamespace(auth_settings=AuthSettings(**asks), config=config)
    assert may_pass_connections(broker) is passes


def test_a_hello_without_end_is_not_kept() -> None:
    broker = Broker()
    waiting = GrpcDoor(broker, broker.turned_away, list).take(Connection())  # type: ignore[arg-type]
    waiting.feed_untrusted(b"x" * HELLO_MAX_BYTES)
    with pytest.raises(OSError, match="does not wait"):
        waiting.feed_untrusted(b"x")


def test_a_first_message_may_fill_the_first_window_while_the_door_opens() -> None:
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    client.initiate_connection()
    client.increment_flow_control_window(1 << 20)
    client.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")])
    while room := client.local_flow_control_window(1):
        client.send_data(1, bytes(min(room, 1024)))
    broker = Broker()
    waiting = GrpcDoor(broker, broker.turned_away, list).take(Connection())  # type: ignore[arg-type]
    waiting.feed_untrusted(client.data_to_send())
