"""A POP consumer against a scripted broker: the fate of each message, whatever goes wrong."""

from collections.abc import Iterator

import pytest
import trio

from rmqclient.consumers.pop_consumer import PopConsumer
from rmqclient.consuming.popping.held_messages import GIVE_BACK_MS
from rmqclient.consuming.popping.pop import PoppedMessage
from rmqclient.listener import LATER, NEVER_AGAIN, ConsumeStatus, Listener, later, suspend
from rmqclient.message import ReceivedMessage
from rmqproto.bodies.popping import RequestMode
from rmqproto.bodies.statistics import ConsumerRunningInfo
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import UsageError
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import RunningInfoHeader
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.rmqclient.collector import Collector, until
from tests.rmqclient.fake_pop_broker import POP_TIME_MS, RETRY_MAX_TIMES, FakePopBroker
from tests.support.peer import CLOSE, answer

pytestmark = pytest.mark.trio


@pytest.fixture
def fake() -> Iterator[FakePopBroker]:
    with FakePopBroker() as running:
        yield running


def consumer(fake: FakePopBroker, listener: Listener, expression: str = "*", **settings: object) -> PopConsumer:
    return PopConsumer(fake.namesrv.address, "group", {"T": expression}, listener, **settings)  # type: ignore[arg-type]


async def test_what_is_consumed_is_acknowledged_many_at_once(fake: FakePopBroker) -> None:
    fake.store(*(b"%d" % number for number in range(40)))
    collect = Collector()
    async with consumer(fake, collect):
        await until(lambda: len(fake.acked) == 40)
    assert sorted(map(int, collect.bodies)) == fake.acked_offsets == list(range(40))
    codes = fake.broker.codes()
    assert codes.count(RequestCode.BATCH_ACK_MESSAGE) + codes.count(RequestCode.ACK_MESSAGE) < 20
    assert [pop.max_msg_nums for pop in fake.pops[:2]] == [32, 32]


async def test_a_broker_older_than_batches_gets_one_acknowledgement_after_the_other(fake: FakePopBroker) -> None:
    def refuse(request: Command) -> Command | None:
        is_batch = request.code == RequestCode.BATCH_ACK_MESSAGE
        return answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED) if is_batch else None

    fake.override = refuse
    fake.store(b"0", b"1", b"2")
    async with consumer(fake, Collector()):
        await until(lambda: fake.acked_offsets == [0, 1, 2])


@pytest.mark.parametrize("code", [None, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE])
async def test_an_acknowledgement_that_was_cut_off_is_sent_again(
    fake: FakePopBroker, monkeypatch: pytest.MonkeyPatch, code: ResponseCode | None
) -> None:
    """Also one that a broker refused because it is not, or no longer, the master. If it were not sent again, a consumed
    message would be redelivered."""
    monkeypatch.setattr("rmqclient.consuming.popping.acks.AGAIN_AFTER_S", 0.01)
    cut: list[int] = []

    def cut_once(request: Command) -> object:
        if request.code in (RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE) and not cut:
            cut.append(request.code)
            return CLOSE if code is None else answer(request, code)
        return None

    fake.override = cut_once
    fake.store(b"0")
    async with consumer(fake, Collector()):
        await until(lambda: fake.acked_offsets == [0])
    assert cut


@pytest.mark.parametrize(
    ("status", "invisible_ms", "is_suspended"),
    [(LATER, 30_000, False), (later(2), 60_000, False), (suspend(0.5), 500, True), (later(99), 7_200_000, False)],
)
async def test_what_fails_is_hidden_for_a_while(
    fake: FakePopBroker, status: ConsumeStatus, invisible_ms: int, is_suspended: bool
) -> None:
    """LATER waits longer after each delivery: this message was delivered once before."""
    fake.store(b"0", reconsume_times=1)
    async with consumer(fake, Collector(lambda message: status)):
        await until(lambda: bool(fake.changes))
    (change,) = fake.changes
    assert (change.topic, change.offset, change.invisible_time) == ("T", 0, invisible_ms)
    assert change.suspend is is_suspended
    assert fake.acked == []


@pytest.mark.parametrize(
    ("status", "reconsume_times", "settings"),
    [(later(NEVER_AGAIN), 0, {}), (LATER, RETRY_MAX_TIMES, {}), (LATER, 2, {"max_reconsume_times": 2})],
)
async def test_what_failed_too_often_is_a_dead_letter(
    fake: FakePopBroker, status: ConsumeStatus, reconsume_times: int, settings: dict[str, int]
) -> None:
    """The limit is the group's, unless the consumer has its own. Apache's broker alone would redeliver a message
    forever."""
    fake.store(b"0", reconsume_times=reconsume_times)
    async with consumer(fake, Collector(lambda message: status), **settings):
        await until(lambda: bool(fake.acked))
    (back,) = fake.sent_back
    assert (back.delay_level, back.offset, back.origin_topic) == (NEVER_AGAIN, 1000, "T")
    assert fake.changes == []


async def test_a_limit_that_a_broker_did_not_tell_is_asked_for_again(fake: FakePopBroker) -> None:
    """After one time-out, messages used to exceed the group's limit for half a minute."""
    refused: list[Command] = []

    def refuse_once(request: Command) -> Command | None:
        if request.code != RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG or refused:
            return None
        refused.append(request)
        return answer(request, ResponseCode.SYSTEM_ERROR)

    fake.override = refuse_once
    fake.store(b"0", reconsume_times=RETRY_MAX_TIMES)
    async with consumer(fake, Collector(lambda message: LATER)):
        await until(lambda: bool(fake.changes))
        fake.store(b"1", reconsume_times=RETRY_MAX_TIMES)
        await until(lambda: bool(fake.sent_back))
    assert [back.offset for back in fake.sent_back] == [1001]


async def test_a_suspended_message_is_never_too_old(fake: FakePopBroker) -> None:
    fake.store(b"0", reconsume_times=99)
    async with consumer(fake, Collector(lambda message: suspend(1))):
        await until(lambda: bool(fake.changes))
    assert fake.sent_back == []


async def test_a_message_stays_invisible_while_the_listener_has_it(fake: FakePopBroker) -> None:
    """It is acknowledged with the latest handle."""
    fake.store(b"0")

    async def slow(message: ReceivedMessage) -> None:
        await until(lambda: bool(fake.changes))

    async with consumer(fake, slow, invisible_s=1):
        await until(lambda: bool(fake.acked))
    assert fake.acked == [(0, POP_TIME_MS + len(fake.changes))]  # on a slow machine it changes several times
    assert {change.invisible_time for change in fake.changes} == {1000}


def changes_held(fake: FakePopBroker) -> list[Command]:
    """The first change of a message's time, which is not answered."""
    held: list[Command] = []

    def hold(request: Command) -> object:
        if request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME and not held:
            held.append(request)
            return b""
        return None

    fake.override = hold
    return held


async def test_a_message_whose_handle_is_changing_is_acknowledged_by_the_new_one(fake: FakePopBroker) -> None:
    """The change itself acknowledges the old handle. If the client acknowledged that one too, the message would come
    again."""
    held = changes_held(fake)
    fake.store(b"0")

    async def slow(message: ReceivedMessage) -> None:
        await until(lambda: bool(held))

    async with consumer(fake, slow, invisible_s=1):
        await until(lambda: bool(held))
        fake.store(b"1")  # follows the first in every respect
        await until(lambda: [offset for offset, _ in fake.acked] == [1])
        changed = {"popTime": str(POP_TIME_MS + 7), "invisibleTime": "1000", "reviveQid": "3"}
        fake.broker.push(answer(held[0], fields=changed))
        await until(lambda: len(fake.acked) == 2)
    assert fake.acked[1] == (0, POP_TIME_MS + 7)


async def test_what_is_not_done_when_the_consumer_leaves_is_given_back_at_once(
    fake: FakePopBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise other members would wait until the invisible time ends. Messages that the listener has not begun do not
    count as tried."""
    monkeypatch.setattr("rmqclient.consuming.group_member.FINISH_TIMEOUT_S", 0.01)
    fake.store(b"0", b"1", b"2")
    begun = trio.Event()

    async def hangs(message: ReceivedMessage) -> None:
        begun.set()
        await trio.sleep_forever()

    async with consumer(fake, hangs, concurrency=1):
        await begun.wait()
    assert {(change.offset, change.suspend) for change in fake.changes} == {(0, False), (1, True), (2, True)}
    assert {change.invisible_time for change in fake.changes} == {GIVE_BACK_MS}
    assert fake.acked == []
    assert fake.broker.codes()[-1] == RequestCode.UNREGISTER_CLIENT


async def test_what_is_done_while_it_is_given_back_does_not_come_again(
    fake: FakePopBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message was consumed but never acknowledged, so the next member used to get it at once."""
    monkeypatch.setattr("rmqclient.consuming.group_member.FINISH_TIMEOUT_S", 0.01)
    held = changes_held(fake)
    fake.store(b"0")
    begun = trio.Event()

    async def slow(message: ReceivedMessage) -> None:
        begun.set()
        await until(lambda: bool(held))
        changed = {"popTime": str(POP_TIME_MS + 7), "invisibleTime": "1", "reviveQid": "3"}
        fake.broker.push(answer(held[0], fields=changed))

    async with consumer(fake, slow):
        await begun.wait()
    assert fake.acked == [(0, POP_TIME_MS + 7)]


async def test_what_a_pop_brings_while_the_consumer_leaves_is_given_back(fake: FakePopBroker) -> None:
    leaving: list[Command] = []

    collect = Collector()

    def store_late(request: Command) -> object:
        if request.code == RequestCode.UNREGISTER_CLIENT:
            leaving.append(request)
            fake.store(b"late")
            return b""
        if request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            return [fake.reply(request), answer(leaving[0])]
        return None

    async with consumer(fake, collect):
        await until(lambda: bool(fake.pops))
        fake.override = store_late
    assert collect.bodies == []
    assert [(change.invisible_time, change.suspend) for change in fake.changes] == [(GIVE_BACK_MS, True)]


async def test_no_more_is_popped_than_may_be_in_flight(fake: FakePopBroker) -> None:
    fake.store(*(b"%d" % number for number in range(10)))
    go_on = trio.Event()

    async def waits(message: ReceivedMessage) -> None:
        await go_on.wait()

    async with consumer(fake, waits, max_in_flight=4, concurrency=2):
        await until(lambda: len(fake.pops) == 1)
        await trio.testing.wait_all_tasks_blocked()
        assert [pop.max_msg_nums for pop in fake.pops] == [4]
        go_on.set()
        await until(lambda: fake.acked_offsets == list(range(10)))


async def test_tags_with_one_hash_are_told_apart(fake: FakePopBroker) -> None:
    """The broker compares 32-bit hashes, in which "Aa" and "BB" are equal."""
    fake.store(b"foreign", tags="BB")
    fake.store(b"own", tags="Aa")
    collect = Collector()
    async with consumer(fake, collect, "Aa"):
        await until(lambda: fake.acked_offsets == [0, 1])
    assert collect.bodies == [b"own"]
    assert (fake.pops[0].exp_type, fake.pops[0].exp) == ("TAG", "Aa")


async def test_a_broker_that_will_not_hold_pops_is_asked_again(fake: FakePopBroker) -> None:
    """A broker whose clock is ahead of ours finds every pop too old, and refuses to hold it."""
    fake.override = lambda request: (
        answer(request, ResponseCode.POLLING_TIMEOUT) if request.code == RequestCode.POP_MESSAGE else None
    )
    async with consumer(fake, Collector()):
        await until(lambda: fake.broker.codes().count(RequestCode.POP_MESSAGE) == 2)


async def test_a_group_that_pulls_the_topic_is_an_error_that_says_what_to_do() -> None:
    """If a topic were both popped and pulled, every message would be consumed twice."""
    with FakePopBroker("PULL") as fake:
        with pytest.raises(UsageError, match="group group pulls topic T") as caught:
            async with consumer(fake, Collector()):
                pass
        assert "setConsumeMode" in (caught.value.hint or "")
        assert RequestCode.POP_MESSAGE not in fake.broker.codes()


async def test_the_mode_is_set_where_that_is_wanted() -> None:
    with FakePopBroker("PULL") as fake:
        async with consumer(fake, Collector(), set_mode=True, share_queue_num=2) as one:
            (queue,) = await one.wait_assigned()
            await until(lambda: bool(fake.pops))
        assert (queue.topic, queue.queue_id) == ("T", -1)
        (request,) = [each for each in fake.broker.requests if each.code == RequestCode.SET_MESSAGE_REQUEST_MODE]
        mode = fastjson.loads_untrusted(request.body, RequestMode)
        assert (mode.topic, mode.consumer_group, mode.mode, mode.pop_share_queue_num) == ("T", "group", "POP", 2)


async def test_a_group_that_is_told_to_pull_is_popped_no_longer(fake: FakePopBroker) -> None:
    async with consumer(fake, Collector()) as one:
        await one.wait_assigned()
        fake.mode = "PULL"
        fake.broker.push(Command(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=1))
        await until(lambda: not one.assignment)


async def test_the_running_info_shows_what_is_popped(fake: FakePopBroker) -> None:
    fake.store(b"0")

    told = trio.Event()

    async def waits(message: ReceivedMessage) -> None:
        await told.wait()

    async with consumer(fake, waits) as one:
        await until(lambda: bool(fake.pops))
        header = RunningInfoHeader(consumer_group="group", client_id=one.client_id)
        fake.broker.push(Command(code=RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=7, ext=to_ext(header)))
        await until(lambda: bool(fake.broker.answers))
        info = fastjson.loads_untrusted(fake.broker.answers[0].body, ConsumerRunningInfo)
        ((queue, state),) = info.mq_pop_table.items()
        told.set()
    assert (queue.topic, state["waitAckCount"], state["droped"]) == ("T", 1, False)


async def test_a_message_shows_the_topic_it_was_asked_for(fake: FakePopBroker) -> None:
    fake.store(b"0")
    seen: list[ReceivedMessage] = []

    def listener(message: ReceivedMessage) -> None:
        seen.append(message)

    async with consumer(fake, listener):
        await until(lambda: bool(fake.acked))
    (message,) = seen
    assert isinstance(message, PoppedMessage)
    assert (message.topic, message.handle.pop_time_ms, message.handle.broker_name) == ("T", POP_TIME_MS, "broker-a")


@pytest.mark.parametrize("wrong", [{"invisible_s": 0.5}, {"consume_from": "CONSUME_FROM_TIMESTAMP"}])
async def test_what_cannot_be_is_said_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        PopConsumer("127.0.0.1:9876", "group", {"T": "*"}, Collector(), **wrong)  # type: ignore[arg-type]
