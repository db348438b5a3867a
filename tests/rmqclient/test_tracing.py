"""Records that producers and consumers write to the trace topic, read back from our own server."""

import anyio
import pytest

from rmqclient import NEVER_AGAIN, SUCCESS, ConsumeStatus, later
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqclient.producers.transaction_producer import LocalTransactionState, TransactionProducer
from rmqproto.errors import RefusedError
from rmqproto.message.special_messages import parse_recall_untrusted
from rmqproto.trace import TraceRecord, parse_trace_untrusted
from tests.rmqclient.collector import POLL_S, TIMEOUT_S, Collector, until
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio


async def traces_of(server: Server, fresh: Fresh, topic: str, count: int) -> list[ReceivedMessage]:
    """All messages of a trace topic, once they hold ``count`` records."""
    found: list[ReceivedMessage] = []
    async with PullConsumer(server.namesrv_addr, fresh("TraceReader")) as reader:
        with anyio.fail_after(TIMEOUT_S):
            while sum(len(parse_trace_untrusted(message.body)) for message in found) < count:
                found = []
                for queue in await reader.queues(topic):
                    found += (await reader.pull(queue, 0)).messages
                await anyio.sleep(POLL_S)
    return found


def records(messages: list[ReceivedMessage]) -> list[TraceRecord]:
    return [record for message in messages for record in parse_trace_untrusted(message.body)]


async def test_a_message_is_told_of_from_its_send_to_its_consumption(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    traced = create_topic(server, fresh("Traces"))
    collect = Collector()
    async with (
        Producer(server.namesrv_addr, fresh("Producer"), trace=traced) as producer,
        PushConsumer(server.namesrv_addr, group, {topic: "*"}, collect, trace=traced) as consumer,
    ):
        await consumer.wait_assigned()
        sent = await producer.send(Message(topic, b"body", keys=["key1", "key\u30002"]))
        await until(lambda: bool(collect.bodies))
    messages = await traces_of(server, fresh, traced, 3)
    by_kind = {record.kind: record for record in records(messages)}
    assert set(by_kind) == {"Pub", "SubBefore", "SubAfter"}
    assert {record.message_id for record in by_kind.values()} == {sent.message_id}
    assert by_kind["Pub"].group == producer.group
    assert by_kind["Pub"].success
    assert by_kind["SubAfter"].success
    assert by_kind["SubAfter"].group == group
    assert by_kind["SubBefore"].request_id == by_kind["SubAfter"].request_id
    for message in messages:
        assert {sent.message_id, "key1", "key\u30002"} == set(message.keys), "by these, traces are found"


async def test_how_a_transaction_ended_and_what_was_recalled(server: Server, fresh: Fresh) -> None:
    class RollsBack:
        def execute_local_transaction(self, message: Message) -> LocalTransactionState:
            return LocalTransactionState.ROLLBACK

        def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
            raise AssertionError("the broker was told")

    topic, traced = [create_topic(server, fresh(name)) for name in ("TracedTopic", "Traces")]
    async with TransactionProducer(server.namesrv_addr, fresh("Producer"), RollsBack(), trace=traced) as producer:
        half = (await producer.send_in_transaction(Message(topic, b"body", keys="key1"))).send
        delayed = await producer.send(Message(topic, b"later", delay_s=3600))
        assert delayed.recall_handle is not None
        assert await producer.recall(delayed.recall_handle) == delayed.message_id
        with pytest.raises(RefusedError):
            await producer.recall(parse_recall_untrusted(delayed.recall_handle)._replace(deliver_ms="0").render())
    messages = await traces_of(server, fresh, traced, 5)
    told = [(each.kind, each.message_id, each.state, each.success) for each in records(messages)]
    assert sorted(told, key=str) == sorted(
        [
            ("Pub", half.message_id, None, True),
            ("EndTransaction", half.message_id, "ROLLBACK_MESSAGE", None),
            ("Pub", delayed.message_id, None, True),
            ("Recall", delayed.message_id, None, True),
            ("Recall", delayed.message_id, None, False),
        ],
        key=str,
    )
    texts = [text for each in messages for text in each.body.decode().split("\x02")]
    types = [text.split("\x01")[11] for text in texts if text.startswith("Pub")]
    assert sorted(types) == ["1", "3"], "half of a transaction, and delayed"


async def test_what_a_listener_did_wrong_is_told(server: Server, topic: str, fresh: Fresh) -> None:
    traced = create_topic(server, fresh("Traces"))
    seen: list[bytes] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        seen.append(message.body)
        match message.body:
            case b"raise":
                raise LookupError("no such order")
            case b"fail":
                return later(NEVER_AGAIN)
            case b"hang":
                await anyio.sleep_forever()
        return SUCCESS

    async with (
        Producer(server.namesrv_addr, fresh("Producer")) as producer,
        PushConsumer(
            server.namesrv_addr, fresh("TracedGroup"), {topic: "*"}, listener, trace=traced, consume_timeout_s=0.1
        ) as consumer,
    ):
        await consumer.wait_assigned()
        for body in (b"raise", b"fail", b"hang", b"well"):
            await producer.send(Message(topic, body))
        found = records(await traces_of(server, fresh, traced, 8))
    codes = sorted(record.context_code or 0 for record in found if record.kind == "SubAfter")
    assert codes == [0, 1, 2, 4]


async def test_traces_that_cannot_be_sent_harm_nobody(server: Server, topic: str, fresh: Fresh) -> None:
    async with Producer(server.namesrv_addr, fresh("Producer"), trace="no legal name") as producer:
        assert (await producer.send(Message(topic, b"body"))).queue_offset == 0
