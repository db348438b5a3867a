"""``rmqadmin --output mqadmin`` beside Apache's own mqadmin, asked the same of the same cluster: the same bytes.

What changes from one second to the next is masked. The commands that change something are asked one after the other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from .cluster import BROKER_NAME, CLUSTER_NAME, Cluster
from .events import Outgoing
from .mqadmin import Mqadmin
from .witness import Witness, eventually

pytestmark = pytest.mark.interop

MESSAGES = [Outgoing(body=b"%d" % at, tags="TagA", keys=f"KEY-{at}", queue_id=at % 2) for at in range(6)]
# With the blanks around: a rate that grows a digit between two calls takes one of them.
RATES = r" *\d+\.\d+( \d+\.\d+)* *"
COUNTERS = rf"(?m)(?<=: ).*$|{RATES}"


def rmqadmin(cluster: Cluster, *args: str) -> str:
    command = [sys.executable, "-m", "rmqadmin", *args, "-n", cluster.namesrv_addr, "--output", "mqadmin"]
    env = {**os.environ, "XDG_STATE_HOME": str(cluster.work), "XDG_CACHE_HOME": str(cluster.work)}
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.fixture
def same(cluster: Cluster, mqadmin: Mqadmin) -> Callable[..., None]:
    """``same("topicList")``: both say the same, once ``mask`` is taken out."""

    def check(*args: str, mask: str = r"\Z.") -> None:
        theirs, ours = mqadmin(*args), rmqadmin(cluster, *args)
        assert re.sub(mask, "#", ours) == re.sub(mask, "#", theirs)

    return check


@pytest.fixture
def topic(java: Witness, fresh: Callable[[str], str]) -> str:
    """Two queues with three messages each, all of them in the index."""
    name = java.create_topic(fresh("TextTopic"), queues=2)
    java.send(name, MESSAGES)
    for message in MESSAGES[-2:]:
        eventually(lambda key=message.keys or "": java.query_key(name, key), 1)  # type: ignore[misc]
    return name


def test_topics_read(same: Callable[..., None], topic: str) -> None:
    same("topicRoute", "-t", topic)
    same("topicRoute", "-t", topic, "-l")
    same("topicStatus", "-t", topic)
    same("topicList")


def test_brokers_read(same: Callable[..., None], cluster: Cluster) -> None:
    same("clusterList", mask=RATES)
    same("clusterList", "-m", mask=r" *\d+ *")
    same("brokerStatus", "-b", cluster.broker_addr, mask=COUNTERS)


def test_messages_read(same: Callable[..., None], java: Witness, topic: str) -> None:
    same("queryMsgByKey", "-t", topic, "-k", "KEY-1")
    (found,) = java.query_key(topic, "KEY-1")
    same("queryMsgById", "-t", topic, "-i", found.msg_id)
    same("queryMsgById", "-t", topic, "-i", found.msg_id, "-f", "UTF-8")


def test_topics_changed(same: Callable[..., None], cluster: Cluster, fresh: Callable[[str], str]) -> None:
    name = fresh("TextTopic")
    same("updateTopic", "-c", CLUSTER_NAME, "-t", name, "-r", "4", "-w", "4")
    same("updateTopic", "-b", cluster.broker_addr, "-t", name, "-r", "4", "-w", "4", "-p", "6")
    same("updateTopic", "-b", cluster.broker_addr, "-t", fresh("TextTopic"), "-a", "+message.type=FIFO")
    same("updateTopic", "-c", CLUSTER_NAME, "-t", name, "-r", "4", "-w", "4", "-o", "true")
    same("deleteTopic", "-c", CLUSTER_NAME, "-t", name)


def test_groups_changed(same: Callable[..., None], fresh: Callable[[str], str]) -> None:
    group = fresh("TextGroup")
    same("updateSubGroup", "-c", CLUSTER_NAME, "-g", group)
    same("updateSubGroup", "-c", CLUSTER_NAME, "-g", group, "-o", "true", "-q", "2", "-r", "3", "-a", "true")


def test_offsets_changed(same: Callable[..., None], cluster: Cluster, topic: str, fresh: Callable[[str], str]) -> None:
    group = fresh("TextGroup")
    same("updateSubGroup", "-c", CLUSTER_NAME, "-g", group)
    same("resetOffsetByTime", "-g", group, "-t", topic, "-s", "now", mask=r"\(long\)\[\d+\]")
    same("resetOffsetByTime", "-g", group, "-t", topic, "-s", "2026-01-01#00:00:00:000")
    same("resetOffsetByTime", "-g", group, "-t", topic, "-s", "-1", "-b", cluster.broker_addr, "-q", "0", "-o", "1")
    same("consumerProgress", "-g", group, "-t", topic)


def test_a_message_sent(same: Callable[..., None], topic: str) -> None:
    same("sendMessage", "-t", topic, "-p", "text", "-b", BROKER_NAME, "-i", "1", mask=r"[0-9A-F]{32}")


def test_groups_read(same: Callable[..., None], java: Witness, topic: str, fresh: Callable[[str], str]) -> None:
    group = fresh("TextGroup")
    consumer = java.consume(group, topic, expression="TagA || TagB")
    consumer.until_count(len(MESSAGES))
    same("consumerConnection", "-g", group)
    consumer.stop()
    java.until_caught_up(group, topic)
    same("consumerProgress", "-g", group, mask=rf"TPS: {RATES}")
    same("consumerProgress", mask=r"(?m)^(?!TextGroup).*$|  \d+ +\d+$")
    same("topicList", "-c")
