"""A push consumer against a scripted broker: it delivers each message at least once, whatever goes wrong."""

from collections.abc import Iterator

import pytest
import trio

from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.listener import LATER, ConsumeStatus, Listener, later
from rmqclient.message import ReceivedMessage
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeDirectlyResult, ConsumerRunningInfo, ConsumerStatus, ResetOffsets
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError, RefusedError, UsageError
from rmqproto.filters.subscription import Sql92
from rmqproto.headers.consuming import (
    PULL_COMMIT_OFFSET,
    PULL_SUSPEND,
    ConsumeDirectlyHeader,
    ConsumerGroupHeader,
    OffsetAnswer,
    ResetOffsetHeader,
    RunningInfoHeader,
    TopicGroupHeader,
)
from rmqproto.message.record import encode_record
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import ObjectMap
from tests.rmqclient.collector import Collector, until
from tests.rmqclient.fake_broker import QUEUE, FakeBroker
from tests.support.peer import Peer, answer

pytestmark = pytest.mark.trio


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    with FakeBroker() as running:
        yield running


def consumer(fake: FakeBroker, listener: Listener, expression: str | Sql92 = "*", **settings: object) -> PushConsumer:
    return PushConsumer(fake.namesrv.address, "group", {"T": expression}, listener, **settings)  # type: ignore[arg-type]


async def test_offsets_are_stored_when_the_consumer_leaves(fake: FakeBroker) -> None:
    fake.store(b"0", b"1", b"2")
    fake.committed = 0
    collect = Collector()
    async with consumer(fake, collect):
        await until(lambda: len(collect.bodies) == 3)
    assert fake.committed == 3
    assert fake.broker.codes()[-1] == RequestCode.UNREGISTER_CLIENT


async def test_what_the_listener_has_begun_is_finished_before_leaving(fake: FakeBroker) -> None:
    """If the listener were cut off, the message would be consumed twice."""
    fake.store(b"0", b"1")
    fake.committed = 0
    begun = trio.Event()

    async def slow(message: ReceivedMessage) -> None:
        begun.set()
        await trio.testing.wait_all_tasks_blocked()  # until the consumer waits for this listener

    async with consumer(fake, slow, concurrency=1):
        await begun.wait()
    assert fake.committed == 1


@pytest.mark.parametrize(
    ("consume_from", "expected"),
    [(ConsumeFrom.LAST_OFFSET, 2), ("CONSUME_FROM_FIRST_OFFSET", 0), (ConsumeFrom.TIMESTAMP, 1)],
)
async def test_a_group_without_an_offset_begins_where_it_was_told(
    fake: FakeBroker, consume_from: ConsumeFrom, expected: int
) -> None:
    fake.store(b"0", b"1")
    async with consumer(fake, Collector(), consume_from=consume_from):
        await until(lambda: bool(fake.pulls))
    assert fake.pulls[0].queue_offset == expected


async def test_a_broker_that_cannot_say_where_the_group_is_is_asked_again(fake: FakeBroker) -> None:
    """If a refusal were taken to mean "no offset", a broker that is just starting would make the group skip or repeat
    everything."""
    refused = 0

    def refuse_twice(request: Command) -> Command | None:
        nonlocal refused
        if request.code == RequestCode.QUERY_CONSUMER_OFFSET and refused < 2:
            refused += 1
            return answer(request, ResponseCode.SYSTEM_ERROR)
        return None

    fake.store(b"0", b"1", b"2")
    fake.committed = 1
    fake.override = refuse_twice
    async with consumer(fake, Collector(), consume_from=ConsumeFrom.FIRST_OFFSET):
        await until(lambda: bool(fake.pulls))
    assert fake.pulls[0].queue_offset == 1


async def test_who_waits_for_queues_waits_until_it_is_known_where_they_begin(fake: FakeBroker) -> None:
    """The group began at the queue's end, so a message sent before that end was known reached no member."""
    held: list[Command] = []

    def hold(request: Command) -> object:
        if request.code != RequestCode.GET_MAX_OFFSET:
            return None
        held.append(request)
        return b""

    fake.override = hold
    collect = Collector()
    is_over = trio.Event()

    async def wait(running: PushConsumer) -> None:
        await running.wait_assigned()
        is_over.set()

    async with consumer(fake, collect) as running, trio.open_nursery() as nursery:
        await until(lambda: bool(held) and running.assignment == {QUEUE})
        nursery.start_soon(wait, running)
        await trio.testing.wait_all_tasks_blocked()
        assert not is_over.is_set()
        fake.broker.push(answer(held[0], fields=OffsetAnswer(offset=0)))
        await is_over.wait()
        fake.store(b"0")
        await until(lambda: collect.bodies == [b"0"])


async def test_tags_with_one_hash_are_told_apart(fake: FakeBroker) -> None:
    """The broker compares 32-bit hashes, in which "Aa" and "BB" are equal."""
    fake.store(b"foreign", tags="BB")
    fake.store(b"own", tags="Aa")
    fake.committed = 0
    collect = Collector()
    async with consumer(fake, collect, "Aa"):
        await until(lambda: bool(collect.bodies))
    assert collect.bodies == [b"own"]
    assert fake.committed == 2


async def test_what_fails_is_sent_back_to_the_broker_that_stores_it(fake: FakeBroker) -> None:
    fake.store(b"0")
    fake.committed = 0
    async with consumer(fake, Collector(lambda message: later(5)), max_reconsume_times=7):
        await until(lambda: bool(fake.sent_back))
    (back,) = fake.sent_back
    assert (back.offset, back.delay_level, back.max_reconsume_times) == (1000, 5, 7)
    assert (back.group, back.origin_topic, back.broker_name) == ("group", "T", "broker-a")
    assert fake.committed == 1


async def test_how_often_a_message_comes_again_is_left_to_the_group_unless_said(fake: FakeBroker) -> None:
    """If our default were sent along, it would override the operator's setting for the group."""
    fake.store(b"0")
    fake.committed = 0
    async with consumer(fake, Collector(lambda message: LATER)):
        await until(lambda: bool(fake.sent_back))
    assert fake.sent_back[0].max_reconsume_times is None


async def test_an_offset_that_is_not_in_the_queue_is_replaced_and_stored(fake: FakeBroker) -> None:
    fake.store(b"0", b"1")
    fake.committed = 90
    collect = Collector()
    async with consumer(fake, collect):
        await until(lambda: fake.committed == 2)
        fake.store(b"2")
        await until(lambda: collect.bodies == [b"2"])


def push_reset(fake: FakeBroker, offset: int) -> None:
    table: ObjectMap[MessageQueue, int] = ObjectMap({QUEUE: offset})
    header = ResetOffsetHeader(topic="T", group="group", timestamp=0)
    fake.push(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, fastjson.dumps(ResetOffsets(offset_table=table)))


async def test_a_reset_by_the_broker_takes_effect_while_a_pull_is_held(fake: FakeBroker) -> None:
    """Brokers that leave a reset to the clients send 220. Messages that were unsettled before the reset no longer move
    an offset."""
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
        push_reset(fake, 1)
        await until(lambda: len(bodies) == 5)
        go.set()
    assert bodies[3:] == [b"1", b"2"]
    assert fake.commits[0] == 1
    assert fake.committed == 3


async def test_a_reset_between_two_pulls_does_not_wait_for_the_second(fake: FakeBroker) -> None:
    """The second pull may be held for 15 seconds, and in this test forever."""
    fake.store(b"0", b"1")
    fake.committed = 90
    collect = Collector()
    async with consumer(fake, collect):
        await until(lambda: fake.committed == 2)  # the consumer pauses after an illegal offset
        push_reset(fake, 0)
        await until(lambda: collect.bodies == [b"0", b"1"])


async def test_no_more_is_pulled_than_may_be_in_flight(fake: FakeBroker) -> None:
    fake.store(*(b"%d" % number for number in range(100)))
    fake.committed = 0
    go = trio.Event()
    consumed: list[ReceivedMessage] = []

    async def listener(message: ReceivedMessage) -> None:
        await go.wait()
        consumed.append(message)

    async with consumer(fake, listener, max_in_flight=8, concurrency=4):
        await until(lambda: len(fake.pulls) == 2)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert [pull.queue_offset for pull in fake.pulls] == [0, 4]
        go.set()
        await until(lambda: len(fake.pulls) == 26 and len(consumed) == 100)
    assert fake.committed == 100


async def test_pulls_carry_the_offset_that_is_reached_and_the_version_of_the_subscription(fake: FakeBroker) -> None:
    fake.store(b"0", b"1", b"2", b"3")
    fake.committed = 2
    collect = Collector()
    async with consumer(fake, collect, concurrency=1) as running:
        await until(lambda: len(collect.bodies) == 2)
        fake.store(b"4")
        await until(lambda: len(collect.bodies) == 3)  # which shows that the two before it are consumed
        fake.store(b"5")
        await until(lambda: fake.pulls[-1].queue_offset == 6)
        version = running.subscriptions["T"].sub_version
    first, last = fake.pulls[0], fake.pulls[-1]
    assert first.sys_flag == PULL_COMMIT_OFFSET | PULL_SUSPEND
    assert (first.commit_offset, first.sub_version, first.subscription) == (2, version, None)
    assert last.commit_offset >= 4


async def test_queues_are_given_away_when_the_broker_says_that_somebody_came(fake: FakeBroker) -> None:
    fake.committed = 0
    async with consumer(fake, Collector()) as running:
        assert await running.wait_assigned() == {QUEUE}
        fake.others = ["0.0.0.0@first"]  # sorts before us, and there is one queue
        fake.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupHeader(consumer_group="group"))
        await until(lambda: not running.assignment)
        fake.others = []
        fake.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupHeader(consumer_group="group"))
        await until(lambda: running.assignment == {QUEUE})


async def test_a_broker_that_does_not_list_us_takes_no_queues_from_us(fake: FakeBroker) -> None:
    """A restarted broker has forgotten every member. If consumers then gave up their queues, the group would stop."""
    fake.committed = 0
    collect = Collector()
    async with consumer(fake, collect) as running:
        await running.wait_assigned()
        heartbeats = len(fake.heartbeats)
        fake.members = []
        fake.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupHeader(consumer_group="group"))
        await until(lambda: len(fake.heartbeats) > heartbeats)
        assert running.assignment == {QUEUE}
        fake.store(b"0")
        await until(lambda: collect.bodies == [b"0"])


async def test_a_broker_that_breaks_off_hears_of_the_group_before_it_is_asked_for_messages(fake: FakeBroker) -> None:
    fake.committed = 0
    collect = Collector()
    async with consumer(fake, collect) as running:
        await running.wait_assigned()
        await until(lambda: fake.broker.codes().count(RequestCode.PULL_MESSAGE) == 2)  # one is of the retry topic
        seen = len(fake.broker.requests)
        fake.broker.drop_channels()
        await until(lambda: RequestCode.PULL_MESSAGE in fake.broker.codes()[seen:])
        assert fake.broker.codes()[seen] == RequestCode.HEART_BEAT


async def test_an_expression_that_the_broker_cannot_read_is_refused_at_the_start(fake: FakeBroker) -> None:
    """Brokers ignore a bad expression in pulls, and deliver everything."""

    def refuse(request: Command) -> Command | None:
        return answer(request, 23, remark="ParseException") if request.code == RequestCode.CHECK_CLIENT_CONFIG else None

    fake.override = refuse
    with pytest.raises(RefusedError, match="ParseException"):
        async with consumer(fake, Collector(), Sql92("a >")):
            raise AssertionError("it must not start")


async def test_questions_of_an_operator_are_answered(fake: FakeBroker) -> None:
    fake.store(b"0", b"1")
    fake.committed = 0
    collect = Collector()
    async with consumer(fake, collect) as running:
        await until(lambda: len(collect.bodies) == 2)
        await until(lambda: bool(fake.pulls) and fake.pulls[-1].queue_offset == 2)
        client_id = running.client_id
        fake.push(
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            RunningInfoHeader(consumer_group="group", client_id=client_id),
            opaque=1,
        )
        fake.push(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, TopicGroupHeader(topic="T", group="group"), opaque=2)
        fake.push(
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            ConsumeDirectlyHeader(consumer_group="group", client_id=client_id, broker_name="broker-a"),
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


async def test_an_operator_sees_what_a_listener_raises(fake: FakeBroker) -> None:
    def fail(message: ReceivedMessage) -> ConsumeStatus:
        raise LookupError("no such order")

    async with consumer(fake, Collector(fail)) as running:
        await running.wait_assigned()
        fake.store(b"0")
        header = ConsumeDirectlyHeader(consumer_group="group", client_id=running.client_id)
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


async def test_a_start_that_nobody_knows_is_said_with_those_that_are() -> None:
    """It used to raise ValueError instead of the promised UsageError."""
    with pytest.raises(UsageError, match="first_offset") as caught:
        PushConsumer("127.0.0.1:9876", "g", {"T": "*"}, Collector(), consume_from="first_offset")
    assert caught.value.hint is not None
    assert "CONSUME_FROM_FIRST_OFFSET" in caught.value.hint


async def test_no_name_server_at_all_is_said_at_the_start() -> None:
    with Peer(lambda request: None) as down:
        down.hang_up()
        with pytest.raises(ConnectError):
            async with PushConsumer(down.address, "g", {"T": "*"}, Collector()):
                raise AssertionError("it must not start")
