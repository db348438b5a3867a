"""A push consumer: at least once, whoever misbehaves. Against a scripted broker where the broker must do something
special, against ours where it must not."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.listener import LATER, NEVER_AGAIN, SUCCESS, ConsumeStatus, Listener, later
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producer import Producer
from rmqclient.pull_consumer import PullConsumer
from rmqclient.push_consumer import PushConsumer
from rmqclient.queue_consumer import ConsumeFrom
from rmqproto import fastjson, headers
from rmqproto.bodies import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
    MessageQueue,
    ResetOffsets,
    TopicConfig,
)
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.command import Command
from rmqproto.errors import ConnectError, RefusedError, UsageError
from rmqproto.fastjson import ObjectMap
from rmqproto.record import encode_record
from rmqproto.subscription import Sql92
from tests.rmqclient.fake_broker import QUEUE, FakeBroker
from tests.rmqclient.peer import Peer, answer
from tests.support import servers
from tests.support.servers import Server

pytestmark = pytest.mark.trio

TIMEOUT_S = 30.0
POLL_S = 0.005


class Collector:
    """A listener that keeps what it gets, and says SUCCESS or what ``say`` does."""

    def __init__(self, say: Callable[[ReceivedMessage], ConsumeStatus] = lambda message: SUCCESS):
        self.say = say
        self.bodies: list[bytes] = []

    async def __call__(self, message: ReceivedMessage) -> ConsumeStatus:
        self.bodies.append(message.body)
        return self.say(message)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(TIMEOUT_S):
        while not condition():
            await trio.sleep(POLL_S)


def consumer(fake: FakeBroker, listener: Listener, expression: str | Sql92 = "*", **settings: object) -> PushConsumer:
    return PushConsumer(fake.namesrv.address, "group", {"T": expression}, listener, **settings)  # type: ignore[arg-type]


# --- against a scripted broker ---------------------------------------------------------------------------------------


async def test_offsets_are_stored_when_the_consumer_leaves() -> None:
    with FakeBroker() as fake:
        fake.store(b"0", b"1", b"2")
        fake.committed = 0
        collect = Collector()
        async with consumer(fake, collect):
            await until(lambda: len(collect.bodies) == 3)
        assert fake.committed == 3
        assert fake.broker.codes()[-1] == RequestCode.UNREGISTER_CLIENT


async def test_what_the_listener_has_begun_is_finished_before_leaving() -> None:
    """Cut off, it would be consumed twice."""
    with FakeBroker() as fake:
        fake.store(b"0", b"1")
        fake.committed = 0
        begun = trio.Event()

        async def slow(message: ReceivedMessage) -> None:
            begun.set()
            await trio.sleep(0.05)

        async with consumer(fake, slow, concurrency=1):
            await begun.wait()
        assert fake.committed == 1


@pytest.mark.parametrize(
    ("consume_from", "expected"),
    [(ConsumeFrom.LAST_OFFSET, 2), ("CONSUME_FROM_FIRST_OFFSET", 0), (ConsumeFrom.TIMESTAMP, 1)],
)
async def test_a_group_without_an_offset_begins_where_it_was_told(consume_from: ConsumeFrom, expected: int) -> None:
    with FakeBroker() as fake:
        fake.store(b"0", b"1")
        async with consumer(fake, Collector(), consume_from=consume_from):
            await until(lambda: bool(fake.pulls))
        assert fake.pulls[0].queue_offset == expected


async def test_a_broker_that_cannot_say_where_the_group_is_is_asked_again() -> None:
    """Taken for "nowhere", a broker that is just starting would make the group skip or repeat everything."""
    refused = 0

    def refuse_twice(request: Command) -> Command | None:
        nonlocal refused
        if request.code == RequestCode.QUERY_CONSUMER_OFFSET and refused < 2:
            refused += 1
            return answer(request, ResponseCode.SYSTEM_ERROR)
        return None

    with FakeBroker() as fake:
        fake.store(b"0", b"1", b"2")
        fake.committed = 1
        fake.override = refuse_twice
        async with consumer(fake, Collector(), consume_from=ConsumeFrom.FIRST_OFFSET):
            await until(lambda: bool(fake.pulls))
        assert fake.pulls[0].queue_offset == 1


async def test_tags_with_one_hash_are_told_apart() -> None:
    """The broker compares 32 bits: "Aa" and "BB" are one to it."""
    with FakeBroker() as fake:
        fake.store(b"foreign", tags="BB")
        fake.store(b"own", tags="Aa")
        fake.committed = 0
        collect = Collector()
        async with consumer(fake, collect, "Aa"):
            await until(lambda: bool(collect.bodies))
        assert collect.bodies == [b"own"]
        assert fake.committed == 2


async def test_what_fails_is_sent_back_to_the_broker_that_stores_it() -> None:
    with FakeBroker() as fake:
        fake.store(b"0")
        fake.committed = 0
        async with consumer(fake, Collector(lambda message: later(5)), max_reconsume_times=7):
            await until(lambda: bool(fake.sent_back))
        (back,) = fake.sent_back
        assert (back.offset, back.delay_level, back.max_reconsume_times) == (1000, 5, 7)
        assert (back.group, back.origin_topic, back.broker_name) == ("group", "T", "broker-a")
        assert fake.committed == 1


async def test_how_often_a_message_comes_again_is_left_to_the_group_unless_said() -> None:
    """Sent along, our default would overrule what the operator set for the group."""
    with FakeBroker() as fake:
        fake.store(b"0")
        fake.committed = 0
        async with consumer(fake, Collector(lambda message: LATER)):
            await until(lambda: bool(fake.sent_back))
        assert fake.sent_back[0].max_reconsume_times is None


async def test_an_offset_that_is_not_in_the_queue_is_replaced_and_stored() -> None:
    with FakeBroker() as fake:
        fake.store(b"0", b"1")
        fake.committed = 90
        collect = Collector()
        async with consumer(fake, collect):
            await until(lambda: fake.committed == 2)
            fake.store(b"2")
            await until(lambda: collect.bodies == [b"2"])


async def test_a_reset_by_the_broker_takes_effect_while_a_pull_is_held() -> None:
    """220, from brokers that leave a reset to the clients: what was unsettled before it moves no offset any more."""
    with FakeBroker() as fake:
        fake.store(b"0", b"1", b"2")
        fake.committed = 0
        go = trio.Event()
        bodies: list[bytes] = []

        async def listener(message: ReceivedMessage) -> None:
            bodies.append(message.body)
            if len(bodies) == 3:
                await go.wait()

        async with consumer(fake, listener, concurrency=3):
            await until(lambda: len(bodies) == 3)
            table: ObjectMap[MessageQueue, int] = ObjectMap({QUEUE: 1})
            header = headers.ResetOffsetHeader(topic="T", group="group", timestamp=0)
            fake.push(
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, fastjson.dumps(ResetOffsets(offset_table=table))
            )
            await until(lambda: len(bodies) == 5)
            go.set()
        assert bodies[3:] == [b"1", b"2"]
        assert fake.commits[0] == 1
        assert fake.committed == 3


async def test_no_more_is_pulled_than_may_be_in_flight() -> None:
    with FakeBroker() as fake:
        fake.store(*(b"%d" % number for number in range(100)))
        fake.committed = 0
        go = trio.Event()

        async def listener(message: ReceivedMessage) -> None:
            await go.wait()

        async with consumer(fake, listener, max_in_flight=8, concurrency=4):
            await until(lambda: len(fake.pulls) == 2)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert [pull.queue_offset for pull in fake.pulls] == [0, 4]
            go.set()
            await until(lambda: len(fake.pulls) == 26)
        assert fake.committed == 100


async def test_pulls_carry_the_offset_that_is_reached_and_the_version_of_the_subscription() -> None:
    with FakeBroker() as fake:
        fake.store(b"0", b"1", b"2", b"3")
        fake.committed = 2
        collect = Collector()
        async with consumer(fake, collect) as running:
            await until(lambda: len(collect.bodies) == 2)
            fake.store(b"4")
            await until(lambda: len(fake.pulls) == 4)
            version = running.subscriptions["T"].sub_version
        first, last = fake.pulls[0], fake.pulls[-1]
        assert first.sys_flag == headers.PULL_COMMIT_OFFSET | headers.PULL_SUSPEND
        assert (first.commit_offset, first.sub_version, first.subscription) == (2, version, None)
        assert last.commit_offset >= 4


async def test_queues_are_given_away_when_the_broker_says_that_somebody_came() -> None:
    with FakeBroker() as fake:
        fake.committed = 0
        async with consumer(fake, Collector()) as running:
            assert await running.wait_assigned() == {QUEUE}
            fake.others = ["0.0.0.0@first"]  # sorts before us, and there is one queue
            fake.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, headers.ConsumerGroupHeader(consumer_group="group"))
            await until(lambda: not running.assignment)
            fake.others = []
            fake.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, headers.ConsumerGroupHeader(consumer_group="group"))
            await until(lambda: running.assignment == {QUEUE})


async def test_a_broker_that_does_not_list_us_takes_no_queues_from_us() -> None:
    """Just restarted, it has forgotten everybody; a consumer that lets go of its queues for that stops the group."""
    with FakeBroker() as fake:
        fake.committed = 0
        collect = Collector()
        async with consumer(fake, collect) as running:
            await running.wait_assigned()
            heartbeats = len(fake.heartbeats)
            fake.members = []
            fake.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, headers.ConsumerGroupHeader(consumer_group="group"))
            await until(lambda: len(fake.heartbeats) > heartbeats)
            assert running.assignment == {QUEUE}
            fake.store(b"0")
            await until(lambda: collect.bodies == [b"0"])


async def test_a_broker_that_breaks_off_hears_of_the_group_before_it_is_asked_for_messages() -> None:
    with FakeBroker() as fake:
        fake.committed = 0
        collect = Collector()
        async with consumer(fake, collect) as running:
            await running.wait_assigned()
            await until(lambda: bool(fake.pulls))
            seen = len(fake.broker.requests)
            fake.broker.drop_connections()
            await until(lambda: RequestCode.PULL_MESSAGE in fake.broker.codes()[seen:])
            assert fake.broker.codes()[seen] == RequestCode.HEART_BEAT


async def test_an_expression_that_the_broker_cannot_read_is_refused_at_the_start() -> None:
    """Brokers pass over it in pulls, and deliver everything."""

    def refuse(request: Command) -> Command | None:
        return answer(request, 23, remark="ParseException") if request.code == RequestCode.CHECK_CLIENT_CONFIG else None

    with FakeBroker() as fake:
        fake.override = refuse
        with pytest.raises(RefusedError, match="ParseException"):
            async with consumer(fake, Collector(), Sql92("a >")):
                raise AssertionError("it must not start")


async def test_questions_of_an_operator_are_answered() -> None:
    with FakeBroker() as fake:
        fake.store(b"0", b"1")
        fake.committed = 0
        collect = Collector()
        async with consumer(fake, collect) as running:
            await until(lambda: len(collect.bodies) == 2)
            await until(lambda: bool(fake.pulls) and fake.pulls[-1].queue_offset == 2)
            client_id = running.client_id
            fake.push(
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                headers.RunningInfoHeader(consumer_group="group", client_id=client_id),
                opaque=1,
            )
            fake.push(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                headers.TopicGroupHeader(topic="T", group="group"),
                opaque=2,
            )
            fake.push(
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                headers.ConsumeDirectlyHeader(consumer_group="group", client_id=client_id, broker_name="broker-a"),
                encode_record(fake.messages[1]),
                opaque=3,
            )
            await until(lambda: len(fake.broker.answers) == 3)
        bodies = {reply.opaque: reply.body for reply in fake.broker.answers}
        info = fastjson.loads_untrusted(bodies[1], ConsumerRunningInfo)
        assert info.mq_table[QUEUE].commit_offset == 2
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert {data.topic for data in info.subscription_set} == {"T", "%RETRY%group"}
        assert fastjson.loads_untrusted(bodies[2], ConsumerStatus).message_queue_table == {QUEUE: 2}
        assert fastjson.loads_untrusted(bodies[3], ConsumeDirectlyResult).consume_result == "CR_SUCCESS"
        assert collect.bodies == [b"0", b"1", b"1"]


async def test_an_operator_sees_what_a_listener_raises() -> None:
    def fail(message: ReceivedMessage) -> ConsumeStatus:
        raise LookupError("no such order")

    with FakeBroker() as fake:
        async with consumer(fake, Collector(fail)) as running:
            await running.wait_assigned()
            fake.store(b"0")
            header = headers.ConsumeDirectlyHeader(consumer_group="group", client_id=running.client_id)
            fake.push(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, encode_record(fake.messages[0]))
            await until(lambda: bool(fake.broker.answers))
        result = fastjson.loads_untrusted(fake.broker.answers[0].body, ConsumeDirectlyResult)
        assert (result.consume_result, result.remark) == ("CR_THROW_EXCEPTION", "LookupError: no such order")


@pytest.mark.parametrize(
    ("group", "subscriptions"), [("g", {}), ("g g", {"T": "*"}), ("g", {"T": "||"}), ("g", {"T": " || "})]
)
async def test_what_cannot_be_subscribed_is_said_at_once(group: str, subscriptions: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        PushConsumer("127.0.0.1:9876", group, subscriptions, Collector())


async def test_no_name_server_at_all_is_said_at_the_start() -> None:
    with Peer(lambda request: None) as down:
        down.hang_up()
        with pytest.raises(ConnectError):
            async with PushConsumer(down.address, "g", {"T": "*"}, Collector()):
                raise AssertionError("it must not start")


# --- against our own broker ------------------------------------------------------------------------------------------


def create_topic(server: Server, topic: str, queue_count: int = 4) -> None:
    with AdminClient(server.namesrv_addr) as admin:
        config = TopicConfig(topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count)
        admin.create_topic(server.broker_addr, config)


def from_first(server: Server, group: str, topic: str, listener: Listener, expression: str = "*") -> PushConsumer:
    return PushConsumer(
        server.namesrv_addr, group, {topic: expression}, listener, consume_from=ConsumeFrom.FIRST_OFFSET
    )


async def test_every_message_is_consumed_and_committed(server: Server, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("PushTopic"), fresh("PushGroup")
    create_topic(server, topic)
    collect = Collector()
    async with Producer(server.namesrv_addr, fresh("Producer")) as producer, from_first(server, group, topic, collect):
        for number in range(100):
            await producer.send(Message(topic, b"%d" % number))
        await until(lambda: len(collect.bodies) >= 100)
    assert sorted(map(int, collect.bodies)) == list(range(100))
    with AdminClient(server.namesrv_addr) as admin:
        stats = admin.consume_stats(server.broker_addr, group, topic)
        assert sum(each.consumer_offset for each in stats.offset_table.values()) == 100
        with pytest.raises(RefusedError, match="not online"):
            admin.consumer_connection(server.broker_addr, group)


async def test_a_tag_expression_delivers_its_tags_and_nothing_else(server: Server, fresh: Callable[[str], str]) -> None:
    topic = fresh("TagTopic")
    create_topic(server, topic)
    collect = Collector()
    async with Producer(server.namesrv_addr, fresh("Producer")) as producer:
        for number in range(40):
            await producer.send(Message(topic, b"%d" % number, tags="ABCD"[number % 4]))
        async with from_first(server, fresh("TagGroup"), topic, collect, "A || C"):
            await until(lambda: len(collect.bodies) >= 20)
    assert sorted(map(int, collect.bodies)) == list(range(0, 40, 2))


async def test_a_message_comes_again_under_its_own_topic_and_then_goes_to_the_dead_letters(
    server: Server, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("RetryTopic"), fresh("RetryGroup")
    create_topic(server, topic, 1)
    seen: list[tuple[str, int]] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        seen.append((message.topic, message.reconsume_times))
        return later(1) if message.reconsume_times == 0 else later(NEVER_AGAIN)

    async with Producer(server.namesrv_addr, fresh("Producer")) as producer, from_first(server, group, topic, listener):
        sent = await producer.send(Message(topic, b"poison"))
        await until(lambda: len(seen) == 2)
        async with PullConsumer(server.namesrv_addr, fresh("Puller")) as puller:
            dead = await dead_letters(puller, group)
    assert seen == [(topic, 0), (topic, 1)]
    assert [(message.body, message.topic, message.message_id) for message in dead] == [
        (b"poison", topic, sent.message_id)
    ]


async def dead_letters(puller: PullConsumer, group: str) -> list[ReceivedMessage]:
    """The first of them, once there are any: the listener has said no before the broker has heard of it."""
    with trio.fail_after(TIMEOUT_S):
        while not await exists(puller, f"%DLQ%{group}"):
            await trio.sleep(POLL_S)
        return (await puller.pull(MessageQueue(f"%DLQ%{group}", "broker-a", 0), 0, wait_s=TIMEOUT_S)).messages


async def exists(puller: PullConsumer, topic: str) -> bool:
    try:
        return bool(await puller.queues(topic))
    except RefusedError:
        return False


async def test_members_share_the_queues_and_take_over_from_who_leaves(
    server: Server, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("ShareTopic"), fresh("ShareGroup")
    create_topic(server, topic, 4)
    first, second = Collector(), Collector()
    bodies = [b"%d" % number for number in range(40)]
    async with (
        Producer(server.namesrv_addr, fresh("Producer")) as producer,
        PushConsumer(server.namesrv_addr, group, {topic: "*"}, first) as one,
    ):
        await until(lambda: len(one.assignment) == 4)
        async with PushConsumer(server.namesrv_addr, group, {topic: "*"}, second) as two:
            await until(lambda: len(one.assignment) == len(two.assignment) == 2)
            assert not one.assignment & two.assignment
            for body in bodies[:20]:
                await producer.send(Message(topic, body))
            await until(lambda: len(first.bodies) + len(second.bodies) >= 20)
            assert first.bodies
            assert second.bodies
        await until(lambda: len(one.assignment) == 4)
        for body in bodies[20:]:
            await producer.send(Message(topic, body))
        await until(lambda: len(first.bodies) + len(second.bodies) >= 40)
    assert Counter(first.bodies + second.bodies) == Counter(bodies)


async def test_a_topic_may_come_after_its_consumer(server: Server, fresh: Callable[[str], str]) -> None:
    topic = fresh("LateTopic")
    collect = Collector()
    async with (
        Producer(server.namesrv_addr, fresh("Producer")) as producer,
        from_first(server, fresh("LateGroup"), topic, collect),
    ):
        await producer.send(Message(topic, b"first"))
        await until(lambda: collect.bodies == [b"first"])


async def test_a_broker_that_is_killed_and_started_again_finds_its_group(
    start_standalone: Callable[..., Server], tmp_path: Path
) -> None:
    """No message is lost, and nothing that was committed comes again."""
    store = ("--data", tmp_path / "store")
    server = await trio.to_thread.run_sync(lambda: start_standalone(*store))
    ports = ("--namesrv-port", server.namesrv_addr.split(":")[1], "--port", server.broker_addr.split(":")[1])
    collect = Collector()
    async with (
        Producer(server.namesrv_addr, "p", timeout_s=TIMEOUT_S) as producer,
        from_first(server, "g", "T", collect),
    ):
        await producer.send(Message("T", b"before"))
        await until(lambda: collect.bodies == [b"before"])
        await trio.to_thread.run_sync(server.stop, signal.SIGKILL)
        server = await trio.to_thread.run_sync(lambda: servers.standalone(tmp_path / "again", *store, *ports))
        with server:
            await send_until_stored(producer, Message("T", b"after"))
            await until(lambda: b"after" in collect.bodies)
            with AdminClient(server.namesrv_addr) as admin:
                online = await trio.to_thread.run_sync(admin.consumer_connection, server.broker_addr, "g")
            assert online.subscription_table["T"].sub_string == "*"


async def send_until_stored(producer: Producer, message: Message) -> None:
    with trio.fail_after(TIMEOUT_S):
        while True:
            try:
                await producer.send(message)
            except (ConnectError, RefusedError):
                await trio.sleep(POLL_S)
            else:
                return
