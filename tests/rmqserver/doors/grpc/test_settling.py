"""What becomes of messages when nobody waits for the answer any more, or there is nothing to answer."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.receipts import parse_receipt_untrusted
from rmqserver.doors.grpc.settle_calls import SettleCalls
from tests.rmqserver.doors.grpc.calls import TopicAndGroup, named, receive, send
from tests.support.grpc_client import GrpcClient

RECEIPT = parse_receipt_untrusted("G", "T", "0 1 60000 0 0 broker-a 0 0 4711")


class Broker:
    """Its reads wait for the device, and its loop runs what was posted when told so."""

    def __init__(self) -> None:
        self.acks, self.send_backs, self.reads, self.loop = None, self, self, self
        self.config = SimpleNamespace(broker_name="broker-a")
        self.posted: list[Callable[[], None]] = []
        self.put_to: list[str] = []
        self.fails = False

    def clock_ms(self) -> int:
        return 0

    def post(self, callback: Callable[[], None]) -> None:
        self.posted.append(callback)

    def read(self, fn: Callable[[], Any], then: Callable[[Any], None], guarded: Any) -> None:
        guarded(lambda: then(fn()))

    def load(self, header: Any, peer: Any) -> Any:
        if self.fails:
            raise OverflowError("more than a struct takes")
        return SimpleNamespace(message=SimpleNamespace(topic="T"))

    def put(self, header: Any, returned: Any, version: int, peer: Any, on_done: Any) -> None:
        self.put_to.append(header.group)


ENDED: Any = SimpleNamespace(closed=True, guarded=lambda go_on: None)
"""A poll for whom nothing goes on."""


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def settling(broker: Broker) -> SettleCalls:
    return SettleCalls(broker)  # type: ignore[arg-type]


def test_a_message_is_buried_though_its_poll_has_ended(broker: Broker, settling: SettleCalls) -> None:
    settling.bury(ENDED, RECEIPT)
    assert broker.put_to == ["G"]


def test_what_fails_behind_the_answer_does_not_end_the_loop(broker: Broker, settling: SettleCalls) -> None:
    broker.fails = True
    settling.later(lambda: settling.bury(ENDED, RECEIPT))
    (posted,) = broker.posted
    posted()
    assert not broker.put_to


def test_a_group_that_keeps_nothing_has_its_dead_letters_answered(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    topic, group = topic_and_group(retry_queue_nums=0)
    send(client, topic, b"one")
    (got,) = receive(client, topic, group, invisible_s=10)
    client.socket.settimeout(5)
    assert client.call("ForwardMessageToDeadLetterQueue", named(topic, group, got)).status.code == Code.OK


@pytest.mark.parametrize("other", ["Golden_Fifo", "No_Such_Topic"])
def test_a_change_that_the_broker_refuses_has_the_words_of_the_proxy(
    client: GrpcClient, topic_and_group: TopicAndGroup, other: str
) -> None:
    topic, group = topic_and_group()
    send(client, topic, b"one")
    (got,) = receive(client, topic, group, invisible_s=10)
    request = named(other, group, got, invisible_duration={"seconds": 10})
    told = client.call("ChangeInvisibleDuration", request).status
    text = "changeInvisibleDuration failed: status is abnormal"
    assert (told.code, told.message) == (Code.INTERNAL_SERVER_ERROR, text)
