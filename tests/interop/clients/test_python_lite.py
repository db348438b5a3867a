"""Our consumer of lite topics on Apache's broker and on ours: it gets the same messages in the same order, and tools
are told the same of it."""

from collections.abc import Iterator

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.consumers.lite_push_consumer import LitePushConsumer
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.listener import ConsumeStatus, suspend
from rmqclient.message import ReceivedMessage
from rmqproto.bodies.lite import OffsetOption
from rmqproto.errors import RefusedError
from tests.support.lite_topics import ByLiteTopic, create_group, create_parent, send
from tests.support.servers import Fresh

from ..cluster import SETTINGS, SYSTEMS, Cluster
from .test_python_client import until

pytestmark = [pytest.mark.interop, pytest.mark.trio]

LIGHT = {**SETTINGS, "enableLmq": "true", "enableMultiDispatch": "true", "liteEventCheckInterval": "500"}


@pytest.fixture(scope="module", params=list(SYSTEMS))
def lite_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with SYSTEMS[request.param](tmp_path_factory.mktemp(request.param), LIGHT) as running:
        yield running


@pytest.fixture
def parent(lite_cluster: Cluster, fresh: Fresh) -> str:
    return create_parent(lite_cluster, fresh("LiteParent"))


async def test_lite_topics_are_consumed_in_order(lite_cluster: Cluster, parent: str, fresh: Fresh) -> None:
    group, numbers = create_group(lite_cluster, parent, fresh("G")), " ".join(map(str, range(50)))
    times: list[int] = []

    def say(message: ReceivedMessage) -> ConsumeStatus | None:
        if message.body == b"bad":
            times.append(message.reconsume_times)
            return suspend(0.1) if len(times) < 3 else None
        return None

    listener = ByLiteTopic(say)
    await send(lite_cluster, parent, a=numbers, b="0 bad 1", c="0 1 2")
    async with LitePushConsumer(lite_cluster.namesrv_addr, group, parent, listener, lite_topics=["a", "b"]) as consumer:
        await until(lambda: [len(listener.bodies[name]) for name in "ab"] == [50, 5])
        await consumer.subscribe("c", OffsetOption.at(1))
        await until(lambda: len(listener.bodies["c"]) == 2)
        with AdminClient(lite_cluster.namesrv_addr) as admin:
            info = await trio.to_thread.run_sync(admin.lite_topic_info, lite_cluster.broker_addr, parent, "c")
            assert [(each.client_id, each.group) for each in info.subscriber or ()] == [(consumer.client_id, group)]
        await consumer.unsubscribe("c")
    assert listener.bodies == {"a": numbers.split(), "b": ["0", "bad", "bad", "bad", "1"], "c": ["1", "2"]}
    assert times == [0, 1, 1]


async def test_a_wildcard_group_has_every_lite_topic(lite_cluster: Cluster, parent: str, fresh: Fresh) -> None:
    group, listener = create_group(lite_cluster, parent, fresh("G"), sub_wildcard="true"), ByLiteTopic()
    await send(lite_cluster, parent, before="0 1")
    async with LitePushConsumer(lite_cluster.namesrv_addr, group, parent, listener) as consumer:
        await send(lite_cluster, parent, before="2", new="0 1")
        await until(lambda: [len(listener.bodies[name]) for name in ("before", "new")] == [3, 2])
        with AdminClient(lite_cluster.namesrv_addr) as admin:
            info = await trio.to_thread.run_sync(admin.lite_topic_info, lite_cluster.broker_addr, parent, "new")
            assert [(each.client_id, each.group) for each in info.subscriber or ()] == [("*", group)]
        with pytest.raises(RefusedError, match="subscribe lite operation is not supported for this group"):
            await consumer.subscribe("one")
    assert listener.bodies == {"before": ["0", "1", "2"], "new": ["0", "1"]}


async def test_an_exclusive_lite_topic_moves(lite_cluster: Cluster, parent: str, fresh: Fresh) -> None:
    group = create_group(lite_cluster, parent, fresh("G"), sub_model="Exclusive")
    first, second = ByLiteTopic(), ByLiteTopic()
    async with LitePushConsumer(lite_cluster.namesrv_addr, group, parent, first) as one:
        await one.subscribe("s")
        await send(lite_cluster, parent, s="0")
        await until(lambda: first.bodies["s"] == ["0"])
        async with LitePushConsumer(lite_cluster.namesrv_addr, group, parent, second) as two:
            await two.subscribe("s")
            await until(lambda: one.lite_topics == set())
            await send(lite_cluster, parent, s="1")
            await until(lambda: second.bodies["s"] == ["1"])
    assert first.bodies["s"] == ["0"]


async def test_a_lite_topic_is_pulled_by_its_name(lite_cluster: Cluster, parent: str, fresh: Fresh) -> None:
    await send(lite_cluster, parent, a="0 1", b="0")
    async with PullConsumer(lite_cluster.namesrv_addr, fresh("G")) as consumer:
        queue = await consumer.lite_topic_queue(parent, "a")
        pulled = await consumer.pull(queue, 0)
        assert [(message.body, message.queue_offset) for message in pulled.messages] == [(b"0", 0), (b"1", 1)]
