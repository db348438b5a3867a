"""How a producer chooses queues, when it tries again, and the contents of its requests."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

import anyio
import anyio.to_thread
import pytest

from rmqclient.message import Message, SendStatus
from rmqclient.producers.producer import RETRY_TIMES, Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import Heartbeat
from rmqproto.bodies.routes import BrokerData, QueueData, TopicRoute
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, NotConnectedError, NotFoundError, RefusedError, UsageError
from rmqproto.headers.base import from_ext
from rmqproto.headers.sending import SendAnswer, SendHeaderV2
from rmqproto.message import properties as props
from rmqproto.message.record import split_batch_untrusted
from rmqproto.message.special_messages import RecallHandle
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import BODY_SIZE_MAX_BYTES
from tests.support.peer import CLOSE, Peer, answer

pytestmark = pytest.mark.anyio

SENDS = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}


def stored(request: Command, code: int = 0, remark: str | None = None) -> Command:
    header = from_ext(request.ext, SendHeaderV2)
    return answer(request, code, SendAnswer(message_id="ID", queue_id=header.queue_id, queue_offset=7), remark=remark)


class Cluster:
    """A name server and brokers, all scripted. The topics in ``topics`` exist and have the permission ``perm``.
    ``has_masters``: the brokers are masters, else slaves."""

    def __init__(self, *brokers: Peer, topics: tuple[str, ...] = ("T",), queue_count: int = 2, perm: int = 6):
        self.brokers = brokers
        self.topics = topics
        self.queue_count = queue_count
        self.perm = perm
        self.has_masters = True
        self.namesrv = Peer(self.route)

    def route(self, request: Command) -> Command:
        if request.ext["topic"] not in self.topics:
            return answer(request, 17, remark="No topic route info")
        names = {f"broker-{number}": broker for number, broker in enumerate(self.brokers)}
        route = TopicRoute(
            broker_datas=[
                BrokerData(broker_addrs={0 if self.has_masters else 1: peer.address}, broker_name=name)
                for name, peer in names.items()
            ],
            queue_datas=[
                QueueData(
                    broker_name=name,
                    perm=self.perm,
                    read_queue_nums=self.queue_count,
                    write_queue_nums=self.queue_count,
                )
                for name in names
            ],
        )
        return answer(request, body=fastjson.dumps(route, standard=True))

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in (self.namesrv, *self.brokers):
            peer.hang_up()

    def producer(self, **settings: object) -> Producer:
        return Producer(self.namesrv.address, "group", **settings)  # type: ignore[arg-type]

    def sends(self) -> list[SendHeaderV2]:
        return [
            from_ext(request.ext, SendHeaderV2)
            for broker in self.brokers
            for request in broker.requests
            if request.code in SENDS
        ]


def broker(reply: Callable[[Command], object] = stored) -> Peer:
    return Peer(lambda request: reply(request) if request.code in SENDS else answer(request))


async def test_messages_go_round_all_writable_queues() -> None:
    async with Cluster(broker(), broker(), queue_count=3) as cluster, cluster.producer() as producer:
        for _ in range(12):
            await producer.send(Message("T", b"x"))
    counts = {(header.broker_name, header.queue_id) for header in cluster.sends()}
    assert len(cluster.sends()) == 12
    assert len(counts) == 6


async def test_a_send_says_all_that_a_broker_wants_to_know() -> None:
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        message = Message("T", b"body", tags="A", keys=["k1", "k2"], properties={"p": "v"}, delay_level=3, flag=9)
        result = await producer.send(message, MessageQueue("T", "broker-0", 1))
    (header,) = cluster.sends()
    assert cluster.brokers[0].requests[-2].body == b"body"
    assert (header.producer_group, header.topic, header.queue_id) == ("group", "T", 1)
    assert (header.default_topic, header.default_topic_queue_nums) == ("TBW102", 4)
    assert (header.flag, header.sys_flag, header.batch, header.broker_name) == (9, 0, False, "broker-0")
    sent = props.parse(header.properties)
    assert sent == {
        "p": "v", "TAGS": "A", "KEYS": "k1 k2", "DELAY": "3", "WAIT": "true", "UNIQ_KEY": result.message_id,
    }  # fmt: skip
    assert (result.status, result.offset_message_id, result.queue_offset) == (SendStatus.SEND_OK, "ID", 7)
    assert result.queue == MessageQueue("T", "broker-0", 1)


async def test_a_unique_key_of_the_applications_own_is_kept() -> None:
    """A redrive sends a message again under the id that its consumers know."""
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        result = await producer.send(Message("T", b"x", properties={"UNIQ_KEY": "MINE"}))
    assert result.message_id == "MINE"


async def test_bodies_from_four_kilobytes_on_are_compressed() -> None:
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        await producer.send(Message("T", b"a" * 4095))
        await producer.send(Message("T", b"a" * 4096))
    small, large = [request for request in cluster.brokers[0].requests if request.code in SENDS]
    assert (small.ext["f"], len(small.body)) == ("0", 4095)
    assert (large.ext["f"], zlib.decompress(large.body)) == (str(0x301), b"a" * 4096)


async def test_a_batch_is_one_request() -> None:
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        result = await producer.send_batch([Message("T", b"%d" % number, tags="A") for number in range(3)])
    request = next(request for request in cluster.brokers[0].requests if request.code in SENDS)
    assert request.code == RequestCode.SEND_BATCH_MESSAGE
    assert from_ext(request.ext, SendHeaderV2).batch
    items = split_batch_untrusted(request.body)
    assert [item.body for item in items] == [b"0", b"1", b"2"]
    assert [props.parse_untrusted(item.properties_raw)["UNIQ_KEY"] for item in items] == result.message_id.split(",")


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
async def test_a_refusal_that_may_pass_is_tried_on_another_broker(code: int) -> None:
    async with (
        Cluster(broker(lambda request: answer(request, code)), broker()) as cluster,
        cluster.producer() as producer,
    ):
        for _ in range(4):
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-1"
    assert cluster.brokers[0].codes().count(RequestCode.SEND_MESSAGE_V2) >= 1


async def test_a_broker_that_breaks_off_is_left_for_another() -> None:
    async with Cluster(broker(lambda request: CLOSE), broker()) as cluster, cluster.producer() as producer:
        for _ in range(4):
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "broker-1"


async def test_attempts_end() -> None:
    async with (
        Cluster(broker(lambda request: answer(request, 2, remark="busy"))) as cluster,
        cluster.producer() as producer,
    ):
        with pytest.raises(RefusedError, match="busy"):
            await producer.send(Message("T", b"x"))
    assert len(cluster.sends()) == RETRY_TIMES + 1


@pytest.mark.parametrize("code", [13, 26, 29])
async def test_a_refusal_that_will_not_pass_is_told_at_once(code: int) -> None:
    async with Cluster(broker(lambda request: answer(request, code))) as cluster, cluster.producer() as producer:
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"))
    assert len(cluster.sends()) == 1


async def test_a_queue_that_was_asked_for_gets_one_attempt() -> None:
    """In another queue the message would be out of order."""
    async with Cluster(broker(lambda request: answer(request, 2)), broker()) as cluster, cluster.producer() as producer:
        with pytest.raises(RefusedError):
            await producer.send(Message("T", b"x"), MessageQueue("T", "broker-0", 0))
    assert len(cluster.sends()) == 1


async def test_a_queue_of_another_topic_is_refused() -> None:
    """The message used to go to that topic."""
    elsewhere, message = MessageQueue("U", "broker-0", 0), Message("T", b"x")
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        for send in (
            partial(producer.send, message, elsewhere),
            partial(producer.send_batch, [message], elsewhere),
            partial(producer.send_oneway, message, elsewhere),
        ):
            with pytest.raises(UsageError, match="topic T cannot go to a queue of topic U"):
                await send()
    assert cluster.sends() == []


@pytest.mark.parametrize(
    ("code", "status"),
    [(10, SendStatus.FLUSH_DISK_TIMEOUT), (12, SendStatus.FLUSH_SLAVE_TIMEOUT), (11, SendStatus.SLAVE_NOT_AVAILABLE)],
)
async def test_stored_with_a_broken_promise_is_stored(code: int, status: SendStatus) -> None:
    """Sending it again would store the message twice."""
    async with Cluster(broker(lambda request: stored(request, code))) as cluster, cluster.producer() as producer:
        assert (await producer.send(Message("T", b"x"))).status is status
    assert len(cluster.sends()) == 1


@pytest.mark.parametrize("reply", [lambda request: answer(request, 2, remark="a slave"), lambda request: CLOSE])
async def test_a_broker_that_is_master_no_more_is_left_soon(reply: Callable[[Command], object]) -> None:
    """The regular route update comes only every 30 s, which would be too late."""
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        await producer.send(Message("T", b"x"))
        (first,) = cluster.brokers
        first.reply = lambda request: reply(request) if request.code in SENDS else answer(request)
        cluster.brokers = (broker(),)
        with anyio.fail_after(20):
            await _until_sent(producer)
    first.hang_up()
    assert cluster.brokers[0].requests


async def test_a_topic_that_has_a_master_again_is_served_soon() -> None:
    async with Cluster(broker(), perm=4) as cluster, cluster.producer() as producer:
        with pytest.raises(NotFoundError):
            await producer.send(Message("T", b"x"))
        cluster.perm = 6
        with anyio.fail_after(20):
            await _until_sent(producer)


@pytest.mark.parametrize("wanted", [None, MessageQueue("T", "broker-0", 1)], ids=["any queue", "one queue"])
async def test_a_send_waits_for_the_master_that_takes_over(wanted: MessageQueue | None) -> None:
    """In the middle of a fail-over the route has no master, and then one whose port is closed. Sends used to fail at
    once, or after three refused connections in a millisecond."""
    async with Cluster(broker()) as cluster:
        master = cluster.brokers[0]
        master.hang_up()
        cluster.has_masters = False
        async with cluster.producer() as producer, anyio.create_task_group() as nursery:
            nursery.start_soon(partial(producer.send, Message("T", b"x"), wanted, timeout_s=60))
            await anyio.to_thread.run_sync(cluster.namesrv.wait_for, lambda: len(cluster.namesrv.requests) > 2)
            cluster.has_masters = True
            known = len(cluster.namesrv.requests)
            await anyio.to_thread.run_sync(cluster.namesrv.wait_for, lambda: len(cluster.namesrv.requests) > known + 2)
            master.listen()
        assert len(cluster.sends()) == 1


async def test_without_a_master_a_send_fails_when_its_time_is_over() -> None:
    async with Cluster(broker(), broker()) as cluster, cluster.producer() as producer:
        cluster.has_masters = False
        with pytest.raises(NotConnectedError, match="no broker of topic T has a master"):
            await producer.send(Message("T", b"x"), timeout_s=0.3)
        cluster.has_masters = True
        for peer in cluster.brokers:
            peer.hang_up()
        with pytest.raises(NotConnectedError):
            await producer.send(Message("T", b"x"), timeout_s=1)
    assert cluster.sends() == []


async def _until_sent(producer: Producer) -> None:
    while True:
        try:
            await producer.send(Message("T", b"x"))
        except (RefusedError, ConnectError, NotFoundError):
            await anyio.sleep(0.01)
        else:
            return


async def test_a_topic_that_does_not_exist_gets_the_queues_that_brokers_will_give_it() -> None:
    async with Cluster(broker(), topics=("TBW102",), queue_count=8, perm=7) as cluster, cluster.producer() as producer:
        for _ in range(8):
            await producer.send(Message("New", b"x"))
    assert {header.queue_id for header in cluster.sends()} == {0, 1, 2, 3}


async def test_a_topic_that_nobody_creates_is_a_refusal_of_the_name_server() -> None:
    async with Cluster(broker(), topics=()) as cluster, cluster.producer() as producer:
        with pytest.raises(RefusedError) as caught:
            await producer.send(Message("New", b"x"))
    assert caught.value.code == 17


async def test_a_topic_without_write_permission_is_told_as_such() -> None:
    async with Cluster(broker(), perm=4) as cluster, cluster.producer() as producer:
        with pytest.raises(NotFoundError, match="no queue that can be written"):
            await producer.send(Message("T", b"x"))


async def test_a_name_server_that_is_down_is_passed_over() -> None:
    with Peer(lambda request: None) as down:
        down.hang_up()
        async with Cluster(broker()) as cluster, Producer(f"{down.address};{cluster.namesrv.address}", "g") as producer:
            await producer.send(Message("T", b"x"))


async def test_no_name_server_at_all() -> None:
    with Peer(lambda request: None) as down:
        down.hang_up()
        async with Producer(down.address, "group") as producer:
            with pytest.raises(ConnectError):
                await producer.send(Message("T", b"x"))


async def test_a_oneway_message_is_marked_as_such() -> None:
    async with Cluster(broker(lambda request: None)) as cluster, cluster.producer() as producer:
        message_id = await producer.send_oneway(Message("T", b"x"))
        peer = cluster.brokers[0]
        await anyio.to_thread.run_sync(peer.wait_for, lambda: RequestCode.SEND_MESSAGE_V2 in peer.codes())
    request = next(request for request in peer.requests if request.code in SENDS)
    assert request.is_oneway
    assert props.parse(request.ext["i"])["UNIQ_KEY"] == message_id


async def test_brokers_know_the_producer_from_its_first_frame_until_it_leaves() -> None:
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        await producer.send(Message("T", b"x"))
    first, _, last = cluster.brokers[0].requests
    heartbeat = fastjson.loads_untrusted(first.body, Heartbeat)
    assert first.code == RequestCode.HEART_BEAT
    assert [producer.group_name for producer in heartbeat.producer_data_set] == ["group"]
    assert last.code == RequestCode.UNREGISTER_CLIENT
    assert (last.ext["clientID"], last.ext["producerGroup"]) == (heartbeat.client_id, "group")


async def test_every_request_is_signed_where_there_are_credentials() -> None:
    async with Cluster(broker()) as cluster, cluster.producer(credentials=Credentials("ak", "secret")) as producer:
        await producer.send(Message("T", b"x"))
    requests = cluster.namesrv.requests + cluster.brokers[0].requests
    assert len(requests) == 4
    assert all(request.ext["AccessKey"] == "ak" and request.ext["Signature"] for request in requests)


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b""),
        Message("T", bytes((4 << 20) + 1)),
        Message("T T", b"x"),
        Message("", b"x"),
        Message("SCHEDULE_TOPIC_XXXX", b"x"),
        Message("T", b"x", properties={"a": "b\x01c"}),
        Message("T", b"x", properties={"a": "中" * 11_000}),
    ],
)
async def test_what_no_broker_would_take_is_not_sent(message: Message) -> None:
    async with Cluster(broker(), topics=("T", "TBW102")) as cluster, cluster.producer() as producer:
        with pytest.raises(UsageError):
            await producer.send(message)
    assert cluster.sends() == []


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message("T", b"x"), Message("U", b"x")],
        [Message("T", b"x", delay_level=1)],
        [Message("T", b"x", delay_s=1)],
        [Message("T", bytes(3 << 20))] * 2,
    ],
)
async def test_what_cannot_travel_as_a_batch_is_not_sent(messages: list[Message]) -> None:
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        with pytest.raises(UsageError):
            await producer.send_batch(messages)
    assert cluster.sends() == []


async def test_a_producer_takes_larger_messages_where_it_is_told_to_up_to_what_a_request_carries() -> None:
    large, batch = Message("T", bytes((4 << 20) + 1)), [Message("T", bytes(3 << 20))] * 2
    async with Cluster(broker()) as cluster:
        async with cluster.producer(max_message_size_bytes=8 << 20) as producer:
            assert (await producer.send(large)).queue_offset == 7
            await producer.send_batch(batch)
            with pytest.raises(UsageError, match="8388609 bytes, more than a message may have: 8388608"):
                await producer.send(Message("T", bytes((8 << 20) + 1)))
        async with cluster.producer(max_message_size_bytes=1 << 30) as producer:
            with pytest.raises(UsageError, match=f"more than a message may have: {BODY_SIZE_MAX_BYTES}"):
                await producer.send(Message("T", bytes(BODY_SIZE_MAX_BYTES + 1)))
        assert len(cluster.sends()) == 2


@pytest.mark.parametrize(
    ("message", "properties"),
    [
        (Message("T", b"x", delay_s=1.5), {"TIMER_DELAY_MS": "1500"}),
        (Message("T", b"x", deliver_at_ms=1_800_000_000_000), {"TIMER_DELIVER_MS": "1800000000000"}),
    ],
)
async def test_a_delay_of_any_length_stands_in_its_property(message: Message, properties: dict[str, str]) -> None:
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        await producer.send(message)
    (header,) = cluster.sends()
    assert properties.items() <= props.parse(header.properties).items()


async def test_several_delays_are_refused() -> None:
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        with pytest.raises(UsageError, match="may have only one"):
            await producer.send(Message("T", b"x", delay_s=1, delay_level=1))


@pytest.mark.parametrize("handle", ["nonsense", None])
async def test_what_is_no_handle_recalls_nothing(handle: str | None) -> None:
    async with Cluster(broker()) as cluster, cluster.producer() as producer:
        with pytest.raises(UsageError):
            await producer.recall(handle)


async def test_a_recall_asks_the_broker_of_the_handle() -> None:
    handle = RecallHandle("T", "broker-1", "1800000000000", "KEY").render()
    async with Cluster(broker(), Peer(lambda request: answer(request, 0))) as cluster, cluster.producer() as producer:
        assert await producer.recall(handle) == "KEY"
    (recall,) = [one for one in cluster.brokers[1].requests if one.code == RequestCode.RECALL_MESSAGE]
    assert recall.ext == {"producerGroup": "group", "topic": "T", "recallHandle": handle, "bname": "broker-1"}
