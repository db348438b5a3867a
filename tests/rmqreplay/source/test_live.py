"""A live cluster as a source: the queues of a topic, and what is read of them."""

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import RefusedError
from rmqproto.message.record import decode_records_untrusted
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import PullRules, pull_range
from tests.support.servers import Fresh, Server, until

QUEUES = 6


def config(topic: str, reads: int, writes: int) -> TopicConfig:
    return TopicConfig(topic_name=topic, read_queue_nums=reads, write_queue_nums=writes, perm=6)


@pytest.fixture(params=[(2, 6), (2, 2)], ids=["read 2, write 6", "read 2, write 2"])
def shrunk(server: Server, admin: AdminClient, fresh: Fresh, request: pytest.FixtureRequest) -> str:
    """A topic with three messages in each of six queues, of which consumers read two."""
    topic = fresh("LiveTopic")
    admin.create_topic(server.broker_addr, config(topic, QUEUES, QUEUES))
    for queue_id in range(QUEUES):
        for number in range(3):
            message = Message(topic, b"%d" % number, tags=f"T{queue_id}", properties={"number": str(number)})
            admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", queue_id), message)
    admin.create_topic(server.broker_addr, config(topic, *request.param))
    until(lambda: topic in admin.topic_list())
    return topic


def read(cluster: LiveCluster, queue: MessageQueue, rules: PullRules) -> list[bytes]:
    parts = pull_range(cluster, OffsetRange(queue, *cluster.bounds(queue)), rules)
    return [record.body for body in parts for record in decode_records_untrusted(body)]


@pytest.mark.parametrize(
    ("rules", "in_4", "in_5"),
    [
        (PullRules(), 3, 3),
        (PullRules(batch_size=2), 3, 3),
        (PullRules(expression="T1 || T5"), 0, 3),
        (PullRules(expression="number = '2' AND TAGS = 'T5'", expression_type="SQL92"), 0, 1),
    ],
)
def test_queues_that_consumers_do_not_read_are_read(
    server: Server, shrunk: str, rules: PullRules, in_4: int, in_5: int
) -> None:
    """Spark and redrives left four queues of six out, and said that everything was read."""
    with LiveCluster(server.namesrv_addr) as cluster:
        queues = cluster.queues(shrunk)
        assert [queue.queue_id for queue in queues] == list(range(QUEUES))
        assert [len(read(cluster, queues[queue_id], rules)) for queue_id in (4, 5)] == [in_4, in_5]


def test_a_queue_that_never_was_is_refused(server: Server, shrunk: str) -> None:
    with LiveCluster(server.namesrv_addr) as cluster:
        queue = MessageQueue(shrunk, "broker-a", 50)
        with pytest.raises(RefusedError, match="queueId"):
            list(pull_range(cluster, OffsetRange(queue, 0, 3), PullRules()))
