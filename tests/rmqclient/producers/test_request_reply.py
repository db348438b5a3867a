"""Request and reply on our own server, with our client on both sides."""

from collections.abc import Callable

import anyio
import pytest

from rmqclient.admin import AdminClient
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqclient.producers.request_reply import OpenRequests, reply_to
from rmqproto.errors import RefusedError, RequestTimeoutError, UsageError
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import PushReplyHeader
from rmqproto.wire.command import Command
from tests.rmqclient.collector import TIMEOUT_S, Collector, from_first, until
from tests.rmqclient.consuming.test_deliveries import received
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio

COMPRESSED_SIZE = 10_000


async def test_each_request_gets_its_own_reply(server: Server, group: str, fresh: Fresh) -> None:
    topic = create_topic(server, fresh("RequestTopic"), 4)
    replies: dict[int, bytes] = {}
    async with (
        Producer(server.namesrv_addr, fresh("Requester")) as requester,
        Producer(server.namesrv_addr, fresh("Replier")) as replier,
    ):

        async def answer(message: ReceivedMessage) -> None:
            await replier.reply(message, message.body * 2)

        async def ask(number: int) -> None:
            reply = await requester.request(Message(topic, b"%d" % number), TIMEOUT_S)
            replies[number] = reply.body
            assert reply.properties["MSG_TYPE"] == "reply"

        async with from_first(server, group, topic, answer) as consumer:
            await until(lambda: len(consumer.assignment) == 4)
            async with anyio.create_task_group() as nursery:
                for number in range(20):
                    nursery.start_soon(ask, number)
    assert replies == {number: b"%d" % number * 2 for number in range(20)}


async def test_a_large_reply_comes_back_as_it_was(server: Server, topic: str, group: str, fresh: Fresh) -> None:
    """The reply travels compressed, like the request."""
    async with Producer(server.namesrv_addr, fresh("Producer")) as producer:

        async def answer(message: ReceivedMessage) -> None:
            await producer.reply(message, message.body[::-1])

        async with from_first(server, group, topic, answer) as consumer:
            await consumer.wait_assigned()
            body = b"a" * COMPRESSED_SIZE + b"z"
            assert (await producer.request(Message(topic, body), TIMEOUT_S)).body == body[::-1]


async def test_no_reply_is_a_timeout_and_a_late_one_is_passed_over(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    collect = Collector()
    async with (
        Producer(server.namesrv_addr, fresh("Producer")) as producer,
        from_first(server, group, topic, collect) as consumer,
    ):
        await consumer.wait_assigned()
        await producer.send(Message(topic, b"connected"))  # connects before the request's time starts
        with pytest.raises(RequestTimeoutError, match="no reply"):
            await producer.request(Message(topic, b"anybody?"), 0.5)
        await until(lambda: len(collect.messages) == 2)
        asked = collect.messages[1]
        late = await producer.reply(asked, b"too late")
    assert asked.properties["TTL"] == "500"
    assert late.queue.topic == "DefaultCluster_REPLY_TOPIC", "the producer was there, and took it"


async def test_a_reply_to_who_is_gone_is_refused_and_stored(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    collect = Collector()
    async with from_first(server, group, topic, collect) as consumer:
        await consumer.wait_assigned()
        async with Producer(server.namesrv_addr, fresh("Requester")) as requester:
            await requester.send(Message(topic, b"connected"))
            with pytest.raises(RequestTimeoutError):
                await requester.request(Message(topic, b"anybody?"), 0.2)
            await until(lambda: len(collect.messages) == 2)
        async with Producer(server.namesrv_addr, fresh("Replier")) as replier:
            with pytest.raises(RefusedError, match=r"push reply message fail, channel of <.*> not found"):
                await replier.reply(collect.messages[1], b"to nobody")
    async with PullConsumer(server.namesrv_addr, fresh("Reader")) as reader:
        (queue,) = await reader.queues("DefaultCluster_REPLY_TOPIC")
        stored = await reader.pull(queue, 0)
        while stored.next_begin_offset < stored.max_offset:
            stored = await reader.pull(queue, stored.next_begin_offset)
    assert stored.messages[-1].body == b"to nobody"


async def test_replies_are_not_stored_where_that_is_turned_off(start_standalone: Callable[..., Server]) -> None:
    server = start_standalone("--set", "storeReplyMessageEnable=false")
    create_topic(server, "T", 1)
    async with Producer(server.namesrv_addr, "p") as producer:

        async def answer(message: ReceivedMessage) -> None:
            sent.append(await producer.reply(message, b"reply"))

        sent: list[object] = []
        async with from_first(server, "g", "T", answer) as consumer:
            await consumer.wait_assigned()
            assert (await producer.request(Message("T", b"request"), TIMEOUT_S)).body == b"reply"
            await until(lambda: bool(sent))
    assert getattr(sent[0], "offset_message_id", None) == "0"
    with AdminClient(server.namesrv_addr) as admin:
        stats = admin.topic_stats(server.broker_addr, "DefaultCluster_REPLY_TOPIC")
    assert all(each.max_offset == 0 for each in stats.offset_table.values())


async def test_only_requests_can_be_replied_to() -> None:
    with pytest.raises(UsageError, match="CORRELATION_ID"):
        reply_to(received(0), b"reply")


async def test_a_reply_whose_property_holds_a_separator_arrives() -> None:
    """Java accepts such a value, and brokers pass it on. The request used to time out."""
    requests = OpenRequests()
    with requests.opened() as opened:
        asked = opened.request(Message("T", b"question"), "client", 1.0)
        properties = f"CORRELATION_ID\x01{asked.properties['CORRELATION_ID']}\x02K\x01a\x01b\x02"
        header = PushReplyHeader(
            born_host="/127.0.0.1:1", store_host="/127.0.0.1:2", store_timestamp=1, producer_group="g", topic="T",
            default_topic="T", default_topic_queue_nums=1, queue_id=0, sys_flag=0, born_timestamp=1, flag=0,
            properties=properties, reconsume_times=0, unit_mode=False,
        )  # fmt: skip
        await requests.take_reply(Command(code=326, ext=to_ext(header), body=b"answer"))
        assert (await opened.reply()).properties["K"] == "a\x01b"
