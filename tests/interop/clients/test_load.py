"""``bench`` on a real broker and on ours: counted messages are stored, and sent ones are received."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from tests.support.servers import until

from ..cluster import Cluster

pytestmark = pytest.mark.interop

QUEUES = 2


def bench(cluster: Cluster, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "rmqadmin", "-o", "json", "bench", *words, "-n", cluster.namesrv_addr]
    ran = subprocess.run([*command, "--duration", "2"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout)["summary"])


@pytest.mark.parametrize("more", [["--in-flight", "8"], ["--batch", "16"]])
def test_what_is_counted_is_stored_and_read(cluster: Cluster, fresh: Callable[[str], str], more: list[str]) -> None:
    with AdminClient(cluster.namesrv_addr) as admin:
        topic = fresh("LoadTopic")
        admin.create_topic(cluster.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2))
        until(lambda: topic in admin.topic_list())
        sent = bench(cluster, "send", topic, *more)
        assert sent["error_count"] == 0, sent["said"]
        stored = sent["messages"] + sent["warm_up_messages"]
        assert stored > 0

        def is_stored() -> bool:  # a real broker fills its queues after it answers
            return sum(admin.max_offset(cluster.broker_addr, topic, queue_id) for queue_id in range(QUEUES)) >= stored

        until(is_stored)
        assert sum(admin.max_offset(cluster.broker_addr, topic, queue_id) for queue_id in range(QUEUES)) == stored
        read = bench(cluster, "consume", topic, "--connections", "2")
        assert read["messages"] + read["warm_up_messages"] <= stored
        assert read["error_count"] == 0, read["said"]


def test_every_stamped_message_is_received(cluster: Cluster, fresh: Callable[[str], str]) -> None:
    found = bench(cluster, "latency", fresh("LoadTopic"), "--create", "--remove", "--warm-up", "0", "--queues", "2")
    assert found["received"] == found["sent"] > 0
    assert found["error_count"] == 0, found["said"]
