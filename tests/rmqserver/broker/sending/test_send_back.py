from __future__ import annotations

from typing import Any

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.headers.sending import SendBackHeader
from rmqproto.message.record import StoredMessage, host_bytes
from rmqserver.broker.sending.send_back import Returned, SendBacks
from rmqserver.store.new_message import NewMessage

HOST = host_bytes("127.0.0.1", 10911)


class Broker:
    """All that a send back needs of one."""

    perm = 6

    def __init__(self) -> None:
        self.messages: list[NewMessage] = []

    def put(self, message: NewMessage) -> None:
        self.messages.append(message)

    def record_host(self, peer: object) -> bytes:
        return HOST

    def add(self, name: str, key: str) -> None: ...

    def get(self, name: str) -> None: ...

    def create_system(self, topic: str, queue_nums: int, **_: int) -> Broker:
        return self


def test_returns_are_counted_no_further_than_a_record_can_say() -> None:
    broker: Any = Broker()
    back = SendBacks(broker, broker, broker, broker, broker, broker, broker)
    message = StoredMessage(200, 0, 0, 0, 5, 4711, 0, 1_000, HOST, 2_000, HOST, 2**31 - 1, 0, b"body", "T", b"")
    header = SendBackHeader(offset=0, group="G", delay_level=-1)
    back.put(header, Returned(SubscriptionGroupConfig(group_name="G"), message), 0, broker, None)
    assert broker.messages[0].reconsume_times == 2**31 - 1
