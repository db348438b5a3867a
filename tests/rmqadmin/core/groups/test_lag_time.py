"""The age of a lag is that of the oldest waiting message. As few messages as possible are read to find it."""

import pytest

from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.groups.lag_trend import oldest_waiting
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqclient.pull import PullResult
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset
from tests.support.servers import Fresh, Server, topic_config


class Counting(AdminClient):
    """Counts the messages that it reads."""

    pulled: list[int]

    def pull_message(self, broker_addr: str, queue: MessageQueue, *args: int, **kwargs: int) -> PullResult:  # type: ignore[override]
        self.pulled.append(queue.queue_id)
        return super().pull_message(broker_addr, queue, *args, **kwargs)  # type: ignore[arg-type]


@pytest.fixture
def admin(server: Server) -> Counting:
    made = Counting(server.namesrv_addr, read_only=False)
    made.pulled = []
    return made


def test_the_oldest_of_all_queues_and_no_queue_read_that_cannot_hold_it(
    server: Server, admin: Counting, fresh: Fresh
) -> None:
    with admin:
        topic = fresh("LagTime")
        admin.create_topic(server.broker_addr, topic_config(topic, 3))
        queues = [MessageQueue(topic, "broker-a", queue_id) for queue_id in range(3)]
        for queue in queues:
            admin.send_message(server.broker_addr, queue, Message(topic, b"x"))
        stored = [admin.pull_message(server.broker_addr, queue, 0).messages[0].store_timestamp_ms for queue in queues]
        admin.pulled.clear()
        late_ms = stored[2] + 1
        offsets = {
            queues[0]: ConsumeOffset(broker_offset=1, consumer_offset=1, last_timestamp=1),
            queues[1]: ConsumeOffset(broker_offset=1, consumer_offset=0, last_timestamp=0),
            queues[2]: ConsumeOffset(broker_offset=1, consumer_offset=0, last_timestamp=late_ms),
        }
        addrs = {"broker-a": server.broker_addr}
        assert oldest_waiting(admin, addrs, GroupOffsets(offsets, 0.0)) == (queues[1], stored[1])
        assert admin.pulled == [1], "what was consumed of queue 2 is newer than what waits in queue 1"


def test_no_lag_has_no_age_and_an_unknown_broker_none_that_is_known(admin: Counting) -> None:
    queue = MessageQueue("t", "gone", 0)
    with admin:
        for entry in (
            ConsumeOffset(broker_offset=5, consumer_offset=5),
            ConsumeOffset(broker_offset=5, consumer_offset=1),
        ):
            assert oldest_waiting(admin, {}, GroupOffsets({queue: entry}, 0.0)) is None
    assert admin.pulled == []
