"""Transactions of our client on our own server, ended at once, by a check, by another producer, or after a kill."""

import signal
from collections.abc import Callable

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers import transaction_producer
from rmqclient.producers.producer import Producer
from rmqclient.producers.transaction_producer import LocalTransactionState, TransactionProducer
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import UsageError
from rmqproto.headers.sending import SendAnswer
from rmqproto.wire.command import Command
from tests.rmqclient.collector import TIMEOUT_S
from tests.rmqclient.fake_broker import FakeBroker
from tests.support import servers
from tests.support.peer import answer
from tests.support.processes import free_ports
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState
OFTEN = servers.sets(
    "transactionTimeOut=100", "transactionCheckInterval=50", "transactionOpBatchInterval=50",
    "transactionCheckMax=1000000",  # no transaction is given up, however slow the machine
)  # fmt: skip
COMPRESSED_SIZE = 10_000


class Listener:
    """Returns the result that it is given for each body. ``checked`` has the checked messages, in order."""

    def __init__(
        self,
        at_once: Callable[[Message], LocalTransactionState] = lambda message: COMMIT,
        by_check: Callable[[ReceivedMessage], LocalTransactionState] = lambda message: COMMIT,
    ):
        self.at_once = at_once
        self.by_check = by_check
        self.checked: list[ReceivedMessage] = []

    async def execute_local_transaction(self, message: Message) -> LocalTransactionState:
        return self.at_once(message)

    async def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        self.checked.append(message)
        return self.by_check(message)


class PlainListener:
    """Its functions block a thread, not the event loop."""

    def execute_local_transaction(self, message: Message) -> LocalTransactionState:
        anyio.from_thread.run(anyio.sleep, 0)
        return UNKNOWN

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        anyio.from_thread.run(anyio.sleep, 0)
        return COMMIT


server = servers.of_module(*OFTEN)


async def delivered(server: Server, topic: str, count: int) -> list[ReceivedMessage]:
    """The messages of the topic's one queue, once there are that many."""
    queue = MessageQueue(topic, "broker-a", 0)
    found: list[ReceivedMessage] = []
    async with PullConsumer(server.namesrv_addr, "G") as consumer:
        with anyio.fail_after(TIMEOUT_S):
            while len(found) < count:
                result = await consumer.pull(queue, len(found), wait_s=1.0)
                found += result.messages
    return found


async def test_committed_and_rolled_back(server: Server, topic: str, group: str) -> None:
    listener = Listener(lambda message: ROLLBACK if message.body == b"rollback" else COMMIT)
    unasked = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}  # otherwise this broker checks after 100 ms
    async with TransactionProducer(server.namesrv_addr, group, listener) as producer:
        rolled_back = await producer.send_in_transaction(Message(topic, b"rollback", properties=unasked))
        large = b"x" * COMPRESSED_SIZE
        committed = await producer.send_in_transaction(
            Message(topic, large, tags="Tag", keys=["key"], flag=3, properties=unasked)
        )
    assert (rolled_back.state, committed.state) == (ROLLBACK, COMMIT)
    (message,) = await delivered(server, topic, 1)
    assert (message.body, message.tags, message.keys, message.stored.flag) == (large, "Tag", ["key"], 3)
    assert message.message_id == committed.send.message_id
    assert listener.checked == []


async def test_unknown_is_asked_about(server: Server, topic: str, group: str) -> None:
    listener = Listener(
        lambda message: UNKNOWN, lambda message: ROLLBACK if message.body == b"rollback" else COMMIT
    )  # fmt: skip
    async with TransactionProducer(server.namesrv_addr, group, listener) as producer:
        await producer.send_in_transaction(Message(topic, b"rollback"))
        sent = await producer.send_in_transaction(Message(topic, b"commit"))
        (message,) = await delivered(server, topic, 1)
    assert (message.body, message.message_id) == (b"commit", sent.send.message_id)
    assert {(asked.body, asked.topic) for asked in listener.checked} == {(b"rollback", topic), (b"commit", topic)}


async def test_plain_functions_run_in_threads(server: Server, topic: str, group: str) -> None:
    async with TransactionProducer(server.namesrv_addr, group, PlainListener()) as producer:
        result = await producer.send_in_transaction(Message(topic, b"one"))
        assert result.state is UNKNOWN
        assert [message.body for message in await delivered(server, topic, 1)] == [b"one"]


async def test_what_a_local_transaction_raises_comes_out_and_the_broker_asks(
    server: Server, topic: str, group: str
) -> None:  # fmt: skip

    def fail(message: Message) -> LocalTransactionState:
        raise ZeroDivisionError

    listener = Listener(fail)
    async with TransactionProducer(server.namesrv_addr, group, listener) as producer:
        with pytest.raises(ZeroDivisionError):
            await producer.send_in_transaction(Message(topic, b"one"))
        assert [message.body for message in await delivered(server, topic, 1)] == [b"one"]
    assert {message.body for message in listener.checked} == {b"one"}  # checked again if we answer slowly


async def test_check_that_raises_does_not_know(server: Server, topic: str, group: str) -> None:
    listener = Listener(lambda message: UNKNOWN)

    def fail_once(message: ReceivedMessage) -> LocalTransactionState:
        if len(listener.checked) == 1:
            raise ZeroDivisionError
        return COMMIT

    listener.by_check = fail_once
    async with TransactionProducer(server.namesrv_addr, group, listener) as producer:
        await producer.send_in_transaction(Message(topic, b"one"))
        assert len(await delivered(server, topic, 1)) == 1
    assert len(listener.checked) >= 2


async def test_another_producer_is_asked_which_has_sent_nothing(server: Server, topic: str, group: str) -> None:
    async with TransactionProducer(
        server.namesrv_addr, group, Listener(lambda message: UNKNOWN, lambda message: UNKNOWN)
    ) as producer:
        await producer.send_in_transaction(Message(topic, b"left behind"))
    other = Listener()
    async with TransactionProducer(server.namesrv_addr, group, other, topics=[topic]):
        assert [message.body for message in await delivered(server, topic, 1)] == [b"left behind"]
    assert {message.body for message in other.checked} == {b"left behind"}


async def test_producer_that_sends_nothing_is_asked_after_the_broker_was_killed(
    start_standalone: Callable[..., Server], fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_producer, "STAY_CONNECTED_EVERY_S", 0.1)
    topic = fresh("TransTopic")
    namesrv_port, broker_port = map(str, free_ports())
    ports = ("--namesrv-port", namesrv_port, "--port", broker_port)
    server = start_standalone("--set", "transactionCheckInterval=3600000", *ports)
    create_topic(server, topic)
    async with TransactionProducer(
        server.namesrv_addr, fresh("Group"), Listener(lambda message: UNKNOWN)
    ) as producer:  # fmt: skip
        await producer.send_in_transaction(Message(topic, b"one"))
        topics = anyio.Path(server.store_dir) / "config/topics.json"
        while not await topics.is_file() or topic not in await topics.read_text():
            await anyio.lowlevel.checkpoint()
        server.stop(signal.SIGKILL)
        server = start_standalone(*OFTEN, *ports, "--data", server.store_dir)
        assert [message.body for message in await delivered(server, topic, 1)] == [b"one"]


async def test_an_odd_offset_id_does_not_hide_that_the_local_transaction_was_done() -> None:
    def odd(request: Command) -> object:
        if request.code != RequestCode.SEND_MESSAGE_V2:
            return None
        return answer(request, fields=SendAnswer(message_id="odd", queue_id=0, queue_offset=0))

    with FakeBroker() as fake:
        fake.override = odd
        async with TransactionProducer(fake.namesrv.address, "Group", Listener()) as producer:
            result = await producer.send_in_transaction(Message("T", b"one"))
    assert result.state is COMMIT
    assert RequestCode.END_TRANSACTION not in [request.code for request in fake.broker.requests]


async def test_delay_is_refused(server: Server) -> None:
    async with TransactionProducer(server.namesrv_addr, "Group", Listener()) as producer:
        with pytest.raises(UsageError, match="cannot be delayed"):
            await producer.send_in_transaction(Message("T", b"one", delay_level=1))


async def test_it_is_a_producer_too(server: Server, topic: str, group: str) -> None:
    async with TransactionProducer(server.namesrv_addr, group, Listener()) as producer:
        assert isinstance(producer, Producer)
        await producer.send(Message(topic, b"plain"))
    assert len(await delivered(server, topic, 1)) == 1
