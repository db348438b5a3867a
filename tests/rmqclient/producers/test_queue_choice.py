"""Which queue a message goes to, and what a producer does about slow brokers and kept promises."""

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqclient import Message, Producer, SendStatus, by_hash, by_random
from rmqclient.producers.queue_choice import LATENCY_MAX_MS, NOT_AVAILABLE_DURATION_MS, QueuesInTurn
from rmqclient.remoting.routes import _order_conf
from rmqclient.sending import message_properties, split_batches
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotConnectedError, UsageError
from rmqproto.java.java_hash import place_by_hash
from rmqproto.message import properties as props
from rmqproto.message.record import BatchItem, encode_batch
from rmqproto.message.sys_flag import COMPRESSIONS
from tests.rmqclient.collector import Collector, from_first, until
from tests.rmqclient.producers.test_producer import Cluster, broker, stored
from tests.support.compressions import KINDS
from tests.support.quick import in_one_test
from tests.support.servers import Fresh, Server, create_topic

anyio = pytest.mark.anyio


@anyio
async def test_messages_of_a_key_go_where_javas_selector_sends_them() -> None:
    keys = [f"order-{number}" for number in range(20)]
    async with Cluster(broker(), broker(), queue_count=3) as cluster, cluster.producer() as producer:
        for key in keys:
            await producer.send(Message("T", b"x", sharding_key=key))
            await producer.send(Message("T", b"x"), by_hash(key))
    sent = cluster.sends()
    places = Counter((header.broker_name, header.queue_id) for header in sent)
    wanted = [place_by_hash(key, 6) for key in keys]
    assert places == Counter({(f"broker-{place // 3}", place % 3): 2 * n for place, n in Counter(wanted).items()})
    assert Counter(props.parse(header.properties).get("__SHARDINGKEY") for header in sent) == {
        None: 20, **dict.fromkeys(keys, 1),
    }  # fmt: skip


@anyio
async def test_a_function_chooses() -> None:
    def last(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return queues[-1]

    async with Cluster(broker(), broker(), queue_count=2) as cluster, cluster.producer() as producer:
        result = await producer.send(Message("T", b"x"), last)
        await producer.send_oneway(Message("T", b"x"), last)
        assert (await producer.send(Message("T", b"x"), by_random)).queue.topic == "T"
        with pytest.raises(UsageError, match="queue of topic U"):
            await producer.send(Message("T", b"x"), lambda queues, message: MessageQueue("U", "broker-0", 0))
    assert result.queue == MessageQueue("T", "broker-1", 1)


@anyio
async def test_a_key_keeps_its_queue_while_a_broker_has_no_master() -> None:
    """Java's producers choose among the queues that are left then, and break the order."""
    async with Cluster(broker(), broker(), queue_count=2) as cluster, cluster.producer() as producer:
        queues = (await producer._client.routes.queues("T")).ordered
        before = by_hash("k")(queues, Message("T", b"x"))
        cluster.has_masters = False
        await producer._client.routes._refresh("T")
        changed = await producer._client.routes.queues("T")
    assert not changed.writable
    assert by_hash("k")(changed.ordered, Message("T", b"x")) == before


@in_one_test(
    ("b:2;a:1", [("b", 2), ("a", 1)]), ("a:4", [("a", 4)]), (None, []), ("", []), ("a:x", []), ("a", []), ("a:٣", [])
)
def test_an_order_configuration_says_where_keys_have_their_places(text: str | None, counts: object) -> None:
    assert _order_conf(text) == counts


@anyio
async def test_a_batch_goes_to_the_queue_of_its_keys() -> None:
    async with Cluster(broker(), queue_count=4) as cluster, cluster.producer() as producer:
        result = await producer.send_batch([Message("T", b"1", sharding_key="a"), Message("T", b"2", sharding_key="a")])
        with pytest.raises(UsageError, match="several"):
            await producer.send_batch([Message("T", b"%d" % n, sharding_key=str(n)) for n in range(9)])
    assert result.queue.queue_id == place_by_hash("a", 4)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=30), st.integers(400, 2000))
def test_batches_are_as_large_as_they_may_be(bodies: list[bytes], max_bytes: int) -> None:
    messages = [Message("T", body) for body in bodies]
    batches = list(split_batches(messages, max_bytes))
    assert [message for batch in batches for message in batch] == messages

    def size_bytes(batch: list[Message]) -> int:
        items = [BatchItem(0, message.body, message_properties(message)[0].encode()) for message in batch]
        return len(encode_batch(items))

    assert all(batch and size_bytes(batch) <= max_bytes for batch in batches)
    for batch, after in pairwise(batches):
        assert size_bytes([*batch, after[0]]) > max_bytes


def test_a_message_that_no_batch_can_hold_is_told() -> None:
    batches = split_batches([Message("T", b"1"), Message("T", b"2" * 900)], 500)
    assert next(batches) == [Message("T", b"1")]
    with pytest.raises(UsageError, match=r"message 1 takes \d+ bytes in a batch, more than 500"):
        next(batches)


@anyio
@pytest.mark.parametrize(("again", "requests"), [(False, 1), (True, 3)])
async def test_what_was_not_kept_as_promised_is_sent_again_if_wanted(again: bool, requests: int) -> None:
    async with (
        Cluster(broker(partial(stored, code=12)), broker(partial(stored, code=12))) as cluster,
        cluster.producer(retry_another_broker_when_not_stored=again) as producer,
    ):
        result = await producer.send(Message("T", b"x"))
    assert len(cluster.sends()) == requests
    assert result.status is SendStatus.FLUSH_SLAVE_TIMEOUT


@anyio
async def test_a_producer_may_have_no_second_attempt() -> None:
    async with (
        Cluster(broker(partial(stored, code=2, remark="busy"))) as cluster,
        cluster.producer(retry_times=0) as producer,
    ):
        with pytest.raises(Exception, match="busy"):
            await producer.send(Message("T", b"x"))
    assert len(cluster.sends()) == 1


@anyio
async def test_compression_is_the_applications_choice() -> None:
    async with Cluster(broker()) as cluster:
        async with cluster.producer(compress_from_bytes=100, compress_level=9) as producer:
            await producer.send(Message("T", b"x" * 99))
            await producer.send(Message("T", b"x" * 100))
        assert [header.sys_flag & 1 for header in cluster.sends()] == [0, 1]
        for kind in KINDS:
            async with cluster.producer(compress_from_bytes=100, compress_type=kind) as producer:
                await producer.send(Message("T", b"x" * 100))
            assert cluster.sends()[-1].sys_flag == COMPRESSIONS[kind]
    with pytest.raises(UsageError, match="compression 'gzip' is none of"):
        Producer("127.0.0.1:1", "p", compress_type="gzip")


@anyio
async def test_an_idempotent_producer_waits_for_a_keys_queue() -> None:
    async with Producer("127.0.0.1:1", "p", idempotent=True) as producer:
        for message in (Message("T", b"x"), Message("T", b"x", sharding_key="k")):
            began_s = time.monotonic()
            with pytest.raises(NotConnectedError):
                await producer.send(message, timeout_s=0.5)
            assert time.monotonic() - began_s >= 0.3


def test_what_is_no_text_is_no_key() -> None:
    with pytest.raises(UsageError, match="a key is a text, and 7"):
        by_hash(7)  # type: ignore[arg-type]


def test_a_batch_has_one_topic() -> None:
    with pytest.raises(UsageError, match="message 1 goes to topic U"):
        list(split_batches([Message("T", b"1"), Message("U", b"1")], 500))


A, B = MessageQueue("T", "a", 0), MessageQueue("T", "b", 0)


@given(st.floats(0, 20_000))
def test_a_slow_broker_is_avoided_for_a_while(latency_ms: float) -> None:
    now_s = 0.0
    turns = QueuesInTurn(avoids_slow_brokers=True, clock_s=lambda: now_s)
    now_s = latency_ms / 1000
    turns.took("a", 0.0)
    steps = [rest for limit, rest in zip(LATENCY_MAX_MS, NOT_AVAILABLE_DURATION_MS, strict=True) if latency_ms >= limit]
    rest_s = (steps[-1] if steps else 0) / 1000
    if rest_s:
        now_s += rest_s - 0.001
        assert {turns.next((A, B), None) for _ in range(4)} == {B}
        assert turns.next((A,), None) == A, "it is better than nothing"
        assert turns.next((A, B), "b") == A, "and than the one that has just failed"
    now_s += 0.002
    assert {turns.next((A, B), None) for _ in range(4)} == {A, B}


def test_a_failed_send_counts_as_slow_only_where_that_is_wanted() -> None:
    for avoids, seen in ((True, {B}), (False, {A, B})):
        turns = QueuesInTurn(avoids_slow_brokers=avoids, clock_s=lambda: 0.01)
        turns.took("a", 0.0, has_failed=True)
        assert {turns.next((A, B), None) for _ in range(4)} == seen


def test_jitter_spreads_timers_and_never_brings_one_early() -> None:
    message = Message("T", b"x", deliver_at_ms=10**12, jitter_ms=50)
    times = {int(props.parse(message_properties(message)[0])[props.TIMER_DELIVER_MS]) for _ in range(300)}
    assert min(times) >= 10**12
    assert max(times) <= 10**12 + 50
    assert len(times) > 20
    with pytest.raises(UsageError, match="jitter_ms"):
        message_properties(Message("T", b"x", delay_level=3, jitter_ms=50))
    with pytest.raises(UsageError, match="jitter_ms is -1"):
        message_properties(Message("T", b"x", delay_s=1, jitter_ms=-1))


@anyio
async def test_states_of_an_order_come_in_their_order(server: Server, fresh: Fresh) -> None:
    topic, collect = create_topic(server, fresh("Orders"), 4), Collector()
    states = [b"%d:%s" % (order, state) for state in (b"made", b"paid", b"sent") for order in range(8)]
    async with Producer(server.namesrv_addr, "p") as producer:
        for state in states:
            await producer.send(Message(topic, state, sharding_key=state.partition(b":")[0].decode()))
    async with from_first(server, fresh("G"), topic, collect, orderly=True):
        await until(lambda: len(collect.bodies) == len(states))
    for order in range(8):
        mine = [body for body in collect.bodies if body.startswith(b"%d:" % order)]
        assert mine == [b"%d:made" % order, b"%d:paid" % order, b"%d:sent" % order]
