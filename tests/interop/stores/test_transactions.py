"""Transactions on both brokers, and a store with open transactions that changes hands: our producer leaves them open at
one broker, and the other broker asks about them."""

import shutil
from pathlib import Path

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.transaction_producer import LocalTransactionState, TransactionProducer
from rmqproto.bodies.base import MessageQueue
from tests.support.servers import topic_config

from ..cluster import BROKER_NAME, SETTINGS, SYSTEMS, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.trio]

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState
TOPIC, GROUP = "TransTopic", "TransGroup"
TIMEOUT_S = 90.0
OFTEN = {
    **SETTINGS,
    "transactionTimeOut": "3000",
    "transactionCheckInterval": "500",
    "transactionCheckMax": "1000",
}
SELDOM = {**SETTINGS, "transactionCheckInterval": "3600000"}


class Listener:
    """Decides each transaction by the message's body: at once, or when it is asked."""

    def __init__(self) -> None:
        self.checked: set[bytes] = set()

    async def execute_local_transaction(self, message: Message) -> LocalTransactionState:
        return {b"commit": COMMIT, b"roll back": ROLLBACK}.get(message.body, UNKNOWN)

    async def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        self.checked.add(message.body)
        return COMMIT if message.body == b"commit when asked" else ROLLBACK


async def send(cluster: Cluster, listener: Listener, *bodies: bytes) -> None:
    with AdminClient(cluster.namesrv_addr) as admin:
        admin.create_topic(cluster.broker_addr, topic_config(TOPIC))
    async with TransactionProducer(cluster.namesrv_addr, GROUP, listener, timeout_s=TIMEOUT_S) as producer:
        for body in bodies:
            await producer.send_in_transaction(Message(TOPIC, body, tags="Tag", flag=7))


async def delivered(cluster: Cluster, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with PullConsumer(cluster.namesrv_addr, "Reader") as consumer:
        with trio.fail_after(TIMEOUT_S):
            while len(found) < count:
                pulled = await consumer.pull(MessageQueue(TOPIC, BROKER_NAME, 0), len(found), wait_s=1.0)
                found += pulled.messages
    return found


async def asked_out(cluster: Cluster, listener: Listener, *bodies: bytes) -> None:
    """Keeps a producer online until it has been asked about these messages."""
    async with TransactionProducer(cluster.namesrv_addr, GROUP, listener, topics=[TOPIC]):
        with trio.fail_after(TIMEOUT_S):
            while not listener.checked >= set(bodies):
                await trio.sleep(0.01)
        await delivered(cluster, 2)


@pytest.mark.parametrize("system", SYSTEMS)
async def test_committed_rolled_back_and_asked_about(system: str, tmp_path: Path) -> None:
    listener = Listener()
    with SYSTEMS[system](tmp_path, OFTEN) as cluster:
        await send(cluster, listener, b"commit", b"roll back", b"commit when asked", b"roll back when asked")
        await asked_out(cluster, listener, b"commit when asked", b"roll back when asked")
        messages = await delivered(cluster, 2)
    bodies = [message.body for message in messages]
    if system == "apache":  # if that broker asks again before the answer arrives, the producer commits twice
        bodies = list(dict.fromkeys(bodies))
    assert bodies == [b"commit", b"commit when asked"]
    assert all(message.tags == "Tag" and message.stored.sys_flag & 0xC == 0x8 for message in messages)
    assert listener.checked == {b"commit when asked", b"roll back when asked"}


@pytest.mark.parametrize(
    ("writer", "way", "reader"),
    [("apache", "stopped", "ours"), ("apache", "killed", "ours"), ("ours", "stopped", "apache"),
     ("ours", "killed", "apache")],
)  # fmt: skip
async def test_open_transactions_pass_from_broker_to_broker(
    writer: str, way: str, reader: str, tmp_path: Path
) -> None:  # fmt: skip
    listener = Listener()
    with SYSTEMS[writer](tmp_path / "before", SELDOM) as before:
        await send(before, listener, b"commit", b"roll back", b"commit when asked", b"roll back when asked")
        await delivered(before, 1)
        if way == "stopped":
            before.stop()
        else:
            await _op_messages_written(before)
            before.kill()
    assert listener.checked == set()
    shutil.copytree(before.store_dir, tmp_path / "after/store")
    with SYSTEMS[reader](tmp_path / "after", OFTEN, ports=before.ports) as after:
        await asked_out(after, listener, b"commit when asked", b"roll back when asked")
        assert [message.body for message in await delivered(after, 2)] == [b"commit", b"commit when asked"]
    assert listener.checked == {b"commit when asked", b"roll back when asked"}


async def _op_messages_written(cluster: Cluster) -> None:
    """Waits until op messages are written. A kill loses unwritten ones, and then Apache's broker asks once more."""
    queue = MessageQueue("RMQ_SYS_TRANS_OP_HALF_TOPIC", BROKER_NAME, 0)
    with AdminClient(cluster.namesrv_addr) as admin, trio.fail_after(TIMEOUT_S):
        while not admin.max_offset(cluster.broker_addr, queue.topic, 0):
            await trio.sleep(0.05)
    topics = trio.Path(cluster.store_dir) / "config/topics.json"
    with trio.fail_after(TIMEOUT_S):
        while not await topics.is_file() or TOPIC not in await topics.read_text():
            await trio.sleep(0.05)
