"""A consumer of lite topics on our own broker: order in each lite topic, failures, members, and producers that send to
them."""

from collections.abc import Callable
from threading import Event

import anyio
import anyio.to_thread
import pytest

from rmqclient.admin import AdminClient
from rmqclient.consumers.lite_push_consumer import LitePushConsumer
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.listener import LATER, NEVER_AGAIN, ConsumeStatus, Listener, later, suspend
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.lite import OffsetOption
from rmqproto.errors import RefusedError, UsageError
from tests.rmqclient.collector import Collector, until
from tests.support import servers
from tests.support.lite_topics import ByLiteTopic, create_group, create_parent, send
from tests.support.processes import free_ports
from tests.support.servers import Fresh, Server, topic_config

pytestmark = pytest.mark.anyio

LIGHT = ("--set", "enableLmq=true", "--set", "enableMultiDispatch=true", "--test-requests", "on")


server = servers.of_module(*LIGHT)


@pytest.fixture
def parent(server: Server, fresh: Fresh) -> str:
    return create_parent(server, fresh("LiteParent"))


@pytest.fixture
def group(server: Server, parent: str, fresh: Fresh) -> str:
    return create_group(server, parent, fresh("LiteGroup"))


def consuming(
    server: Server, group: str, topic: str, listener: Listener, *lite_topics: str, **settings: object
) -> LitePushConsumer:
    return LitePushConsumer(
        server.namesrv_addr, group, topic, listener, lite_topics=lite_topics, **settings  # type: ignore[arg-type]
    )  # fmt: skip


async def test_plain_threads_subscribe_as_well(server: Server, parent: str, group: str) -> None:
    came, bodies = Event(), []

    def listen(message: ReceivedMessage) -> None:
        bodies.append(message.body)
        if len(bodies) == 2:
            came.set()

    def consume() -> None:
        with LitePushConsumer.blocking(server.namesrv_addr, group, parent, listen) as consumer:
            consumer.subscribe("a")
            assert came.wait(30)
            consumer.unsubscribe("a")

    await send(server, parent, a="0 1", b="0")
    await anyio.to_thread.run_sync(consume)
    assert bodies == [b"0", b"1"]


async def test_each_lite_topic_is_consumed_in_order(server: Server, parent: str, group: str) -> None:
    """It consumes the subscribed lite topics and no others; a new one as soon as it is subscribed."""
    numbers = " ".join(map(str, range(50)))
    await send(server, parent, a=numbers, b="0 1", not_ours="0")
    listener = ByLiteTopic()
    async with consuming(server, group, parent, listener, "a", "b") as consumer:
        await until(lambda: [len(listener.bodies[name]) for name in "ab"] == [50, 2])
        await consumer.subscribe("c")
        await send(server, parent, c="0 1 2", b="2")
        await until(lambda: [len(listener.bodies[name]) for name in "bc"] == [3, 3])
        assert consumer.lite_topics == {"a", "b", "c"}
        await consumer.unsubscribe("b")
        await send(server, parent, b="3", c="3")
        await until(lambda: len(listener.bodies["c"]) == 4)
    assert listener.bodies == {"a": numbers.split(), "b": ["0", "1", "2"], "c": ["0", "1", "2", "3"]}
    with AdminClient(server.namesrv_addr) as admin:
        info = admin.lite_group_info(server.broker_addr, group)
        assert {lag.lite_topic: lag.lag_count for lag in info.lag_count_top_k or ()} == {"b": 1}
        assert not admin.lite_topic_info(server.broker_addr, parent, "a").subscriber


async def test_a_message_that_fails_comes_again_before_the_next(server: Server, parent: str, group: str) -> None:
    """The other lite topics go on meanwhile."""
    times: list[int] = []

    def say(message: ReceivedMessage) -> ConsumeStatus | None:
        if message.body == b"1":
            times.append(message.reconsume_times)
            return suspend(0.01) if len(times) < 3 else None
        return None

    await send(server, parent, a="0 1 2 3", b="0 2")
    listener = ByLiteTopic(say)
    async with consuming(server, group, parent, listener, "a", "b"):
        await until(lambda: listener.bodies["a"][-1:] == ["3"] and len(listener.bodies["b"]) == 2)
    assert listener.bodies["a"] == ["0", "1", "1", "1", "2", "3"]
    assert times == [0, 1, 1], (
        "a message that is suspended is not counted, but for the first time, as in Apache's broker"
    )


@pytest.mark.slow  # a broker checks once a second whether a lite topic is free
async def test_what_is_acknowledged_does_not_come_again_with_what_is_suspended(
    server: Server, admin: AdminClient, parent: str, group: str
) -> None:
    """If a broker is slow with acknowledgements, it is asked to free the lite topic only once it has them."""
    told: list[bytes] = []

    def say(message: ReceivedMessage) -> ConsumeStatus | None:
        told.append(message.body)
        return suspend(0.01) if message.body == b"1" and told.count(b"1") < 2 else None

    admin.set_faults(server.broker_addr, [f"ACK_MESSAGE:delay=2s:group={group}"])
    try:
        await send(server, parent, a="0 1 2")
        async with consuming(server, group, parent, ByLiteTopic(say), "a"):
            await until(lambda: told[-1:] == [b"2"])
    finally:
        admin.set_faults(server.broker_addr, [])
    assert told == [b"0", b"1", b"1", b"2"]


async def test_what_is_given_up_is_a_dead_letter_and_its_lite_topic_goes_on(
    server: Server, parent: str, group: str
) -> None:
    await send(server, parent, a="bad 1", b="worn 2")
    say = {b"bad": later(NEVER_AGAIN), b"worn": LATER}
    listener, dead = ByLiteTopic(lambda message: say.get(message.body)), Collector()
    async with consuming(server, group, parent, listener, "a", "b", max_reconsume_times=0):
        await until(lambda: listener.bodies == {"a": ["bad", "1"], "b": ["worn", "2"]})
        async with PushConsumer(
            server.namesrv_addr, f"{group}-dead", {f"%DLQ%{group}": "*"}, dead, consume_from=ConsumeFrom.FIRST_OFFSET
        ):
            await until(lambda: sorted(dead.bodies) == [b"bad", b"worn"])


async def test_where_a_subscription_begins(server: Server, parent: str, group: str) -> None:
    await send(server, parent, first="0 1 2", end="0 1 2", at="0 1 2", tail="0 1 2")
    listener = ByLiteTopic()
    async with consuming(server, group, parent, listener) as consumer:
        for start, option in {
            "first": OffsetOption.first(),
            "end": OffsetOption.end(),
            "at": OffsetOption.at(1),
            "tail": OffsetOption.tail(1),
        }.items():
            await consumer.subscribe(start, option)
        await send(server, parent, first="3", end="3", at="3", tail="3")
        await until(lambda: [bodies[-1:] for bodies in listener.bodies.values()] == [["3"]] * 4)
    assert listener.bodies == {"first": ["0", "1", "2", "3"], "end": ["3"], "at": ["1", "2", "3"], "tail": ["2", "3"]}


async def test_an_exclusive_lite_topic_moves_to_who_asks_last(server: Server, parent: str, fresh: Fresh) -> None:
    """Messages that the former member has not begun go to the new one at once."""
    exclusive = create_group(server, parent, fresh("Exclusive"), sub_model="Exclusive")
    begun = anyio.Event()
    done: list[bytes] = []

    async def slow(message: ReceivedMessage) -> None:
        begun.set()
        await until(lambda: "s" not in one.lite_topics)
        done.append(message.body)

    await send(server, parent, s="0 1 2")
    listener = ByLiteTopic()
    async with consuming(server, exclusive, parent, slow, "s", invisible_s=600) as one:
        await begun.wait()
        async with consuming(server, exclusive, parent, listener) as two:
            await two.subscribe("s")
            await until(lambda: listener.bodies["s"] == ["1", "2"])
            assert (done, one.lite_topics, two.lite_topics) == ([b"0"], set(), {"s"})


async def test_a_wildcard_group_has_them_all(server: Server, parent: str, fresh: Fresh) -> None:
    wildcard = create_group(server, parent, fresh("Wildcard"), sub_wildcard="true")
    await send(server, parent, before="0 1")
    listener = ByLiteTopic()
    async with consuming(server, wildcard, parent, listener) as consumer:
        await send(server, parent, before="2", **{f"new{number}": "0 1" for number in range(5)})
        await until(lambda: sum(map(len, listener.bodies.values())) == 13)
        with pytest.raises(RefusedError, match="not supported for this group"):
            await consumer.subscribe("one")
    assert listener.bodies == {"before": ["0", "1", "2"], **{f"new{number}": ["0", "1"] for number in range(5)}}


async def test_what_a_leaving_member_has_goes_to_the_next_at_once(
    server: Server, parent: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqclient.consuming.group_member.FINISH_TIMEOUT_S", 0.01)
    begun = anyio.Event()

    async def stuck(message: ReceivedMessage) -> None:
        begun.set()
        await anyio.sleep_forever()

    await send(server, parent, s="0 1 2")
    async with consuming(server, group, parent, stuck, "s", invisible_s=600):
        await begun.wait()
    listener = ByLiteTopic()
    async with consuming(server, group, parent, listener, "s"):
        await until(lambda: listener.bodies["s"] == ["0", "1", "2"])


async def test_a_broker_that_starts_anew_is_told_again(
    start_standalone: Callable[..., Server], fresh: Fresh, tmp_path: object
) -> None:
    namesrv_port, broker_port = map(str, free_ports())
    ports = ("--namesrv-port", namesrv_port, "--port", broker_port)
    first = start_standalone(*LIGHT, *ports)
    with AdminClient(first.namesrv_addr) as admin:
        admin.create_topic(first.broker_addr, topic_config("P", attributes={"+message.type": "LITE"}))
    create_group(first, "P", "G")
    listener = ByLiteTopic()
    async with consuming(first, "G", "P", listener, "s"):
        await send(first, "P", s="0")
        await until(lambda: listener.bodies["s"] == ["0"])
        store = first.store_dir
        assert first.stop() == 0
        second = start_standalone(*LIGHT, "--data", store, *ports)
        await send(second, "P", s="1 2")
        await until(lambda: listener.bodies["s"][-1:] == ["2"])
    assert list(dict.fromkeys(listener.bodies["s"])) == ["0", "1", "2"]


async def test_names_and_messages_that_cannot_be(server: Server, parent: str) -> None:
    with pytest.raises(UsageError, match="alphanumeric"):
        consuming(server, "G", parent, ByLiteTopic(), "a$b")
    async with Producer(server.namesrv_addr, "p") as producer:
        with pytest.raises(UsageError, match="max size 64"):
            await producer.send(Message(parent, b"x", lite_topic="x" * 65))
        with pytest.raises(UsageError, match="lite topics"):
            await producer.send_batch([Message(parent, b"x", lite_topic="a")])
        await producer.send_oneway(Message(parent, b"x", lite_topic="a"))
        queue = MessageQueue(parent, "broker-a", 3)
        assert (await producer.send(Message(parent, b"x", lite_topic="a"), queue)).queue == queue
