"""Apache's gRPC clients at a cluster of two brokers of ours: they are given one, and use both."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from tests.support import servers
from tests.support.servers import Server, until

from .test_grpc_clients import COMMANDS, GOT, TIMEOUT_S, TYPES

pytestmark = pytest.mark.interop


class Cluster(NamedTuple):
    admin: AdminClient
    brokers: list[Server]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(tmp_path_factory.mktemp("namesrv")))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
        made = [
            stack.enter_context(servers.broker(tmp_path_factory.mktemp(name), namesrv.namesrv_addr, name))
            for name in ("broker-a", "broker-b")
        ]
        yield Cluster(admin, made)


@pytest.mark.parametrize("scene", ["simple", "push", "fifo"])
@pytest.mark.parametrize("client", ["java", "python"])
def test_a_scene_is_played_over_both_brokers(client: str, scene: str, cluster: Cluster, tmp_path: Path) -> None:
    topic, group = f"Topic-{client}-{scene}", f"Group-{client}-{scene}"
    for broker in cluster.brokers:
        config = TopicConfig(
            topic_name=topic, read_queue_nums=1, write_queue_nums=1,
            attributes={"+message.type": TYPES.get(scene, "NORMAL")},
        )  # fmt: skip
        cluster.admin.create_topic(broker.broker_addr, config)
        ordered = SubscriptionGroupConfig(group_name=group, consume_message_orderly=scene == "fifo")
        cluster.admin.create_group(broker.broker_addr, ordered)
    until(lambda: len(cluster.admin.topic_route(topic).queue_datas) == len(cluster.brokers))
    command = [*COMMANDS[client](tmp_path), cluster.brokers[0].broker_addr, scene, topic, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    got = [line.removeprefix("got ") for line in done.stdout.splitlines() if line.startswith("got ")]
    assert (got if scene == "fifo" else sorted(got)) == GOT[scene]
    used = [cluster.admin.max_offset(broker.broker_addr, topic, 0) > 0 for broker in cluster.brokers]
    assert sum(used) == (1 if scene == "fifo" else 2), "each in turn; all of one group at one"
