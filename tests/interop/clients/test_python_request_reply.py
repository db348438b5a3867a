"""Request and reply between our client and the Java client, on Apache's broker and on ours."""

import base64

import pytest
import trio

from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from tests.support.servers import Fresh

from ..client import of_type
from ..cluster import Cluster
from ..events import Replied, Started
from ..witness import Witness

pytestmark = pytest.mark.interop

TIMEOUT_S = 150.0
FIRST = "CONSUME_FROM_FIRST_OFFSET"


@pytest.mark.trio
async def test_a_java_request_is_replied_to_in_python(cluster: Cluster, java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("RequestTopic"))
    async with Producer(cluster.namesrv_addr, fresh("Replier")) as replier:

        async def listener(message: ReceivedMessage) -> None:
            await replier.reply(message, b"re: " + message.body)

        async with PushConsumer(
            cluster.namesrv_addr, fresh("Group"), {topic: "*"}, listener, consume_from=FIRST
        ) as consumer:
            await consumer.wait_assigned()
            body = base64.b64encode(b"from Java").decode()
            call = java.call("request", topic=topic, body=body, timeoutMs=int(TIMEOUT_S * 1000))
            (replied,) = of_type(await trio.to_thread.run_sync(call.result), Replied)
    assert replied.body == b"re: from Java"
    assert replied.properties["MSG_TYPE"] == "reply"


@pytest.mark.trio
async def test_a_python_request_is_replied_to_in_java(cluster: Cluster, java: Witness, fresh: Fresh) -> None:
    topic, group = java.create_topic(fresh("RequestTopic")), fresh("Group")
    call = java.call("reply", topic=topic, group=group, count=2)
    await trio.to_thread.run_sync(lambda: call.until(lambda events: bool(of_type(events, Started)), "start"))
    async with Producer(cluster.namesrv_addr, fresh("Requester")) as producer:
        for body in (b"from Python", b"once more"):
            reply = await producer.request(Message(topic, body), TIMEOUT_S)
            assert reply.body == b"re: " + body
            assert reply.topic == "DefaultCluster_REPLY_TOPIC"
    await trio.to_thread.run_sync(call.result)


def test_java_requests_and_replies_among_themselves(java_by_header: Witness, fresh: Fresh) -> None:
    java = java_by_header
    topic = java.create_topic(fresh("RequestTopic"))
    replies = java.call("reply", topic=topic, group=fresh("Group"), count=1)
    replies.until(lambda events: bool(of_type(events, Started)), "start")
    body = base64.b64encode(b"hello").decode()
    asked = java.call("request", topic=topic, body=body, timeoutMs=int(TIMEOUT_S * 1000))
    assert [replied.body for replied in of_type(asked.result(), Replied)] == [b"re: hello"]
    replies.result()
