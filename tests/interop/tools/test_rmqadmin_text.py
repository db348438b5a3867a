"""``rmqadmin --output mqadmin`` and Apache's own mqadmin print the same for the same calls to the same cluster,
in any order.

Parts that change from one second to the next are masked. Commands that change something run one after the other.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from rmqproto.bodies.groups import Heartbeat, ProducerData
from rmqproto.codes import RequestCode
from rmqproto.wire import fastjson
from tests.support.any_order import in_any_order
from tests.support.wire import Wire

from ..cluster import BROKER_NAME, CLUSTER_NAME, Cluster
from ..events import Outgoing
from ..mqadmin import Mqadmin
from ..witness import Witness, eventually

pytestmark = pytest.mark.interop

MESSAGES = [Outgoing(body=b"%d" % at, tags="TagA", keys=f"KEY-{at}", queue_id=at % 2) for at in range(6)]
# Includes the blanks around: a rate that grows by a digit between two calls takes one of them.
RATES = r" *\d+\.\d+( \d+\.\d+)* *"
# Also masks how far a broker's timers lag, which varies between 0 and 1 s from call to call.
TIMERS_BEHIND = r"\d+-\d+(?=\()"
# Includes the blank before: without it a size like "1.5 KiB" would match as a rate and lose its unit.
COUNTERS = rf"(?m)(?<=:) .*$|{RATES}"
NUMBERS = r"( +\d+(\.\d+)?)+ *"
CLIENT_COUNTERS = rf"(?m) *{RATES}|(?<=Timestamp=)\d{{17}}|(?<=consumeTimestamp).*|: \d{{13}}$"


def rmqadmin(cluster: Cluster, *args: str) -> str:
    command = [sys.executable, "-m", "rmqadmin", *args, "-n", cluster.namesrv_addr, "--output", "mqadmin"]
    env = {**os.environ, "XDG_STATE_HOME": str(cluster.work), "XDG_CACHE_HOME": str(cluster.work)}
    return subprocess.run(command, env=env, cwd=cluster.work, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.fixture
def same(cluster: Cluster, mqadmin: Mqadmin) -> Callable[..., None]:
    """``same("topicList")``: both print the same, once ``mask`` is replaced."""

    def check(*args: str, mask: str = r"\Z.") -> None:
        theirs, ours = mqadmin(*args), rmqadmin(cluster, *args)
        assert in_any_order(re.sub(mask, "#", ours)) == in_any_order(re.sub(mask, "#", theirs))

    return check


@pytest.fixture
def topic(java: Witness, fresh: Callable[[str], str]) -> str:
    """A topic of two queues with three messages each, all in the index."""
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
    same("clusterList", mask=rf"{RATES}|{TIMERS_BEHIND}")
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


def test_configurations(
    same: Callable[..., None], cluster: Cluster, java: Witness, fresh: Callable[[str], str]
) -> None:
    same("getBrokerConfig", "-b", cluster.broker_addr)
    same("getBrokerConfig", "-c", CLUSTER_NAME)
    same("getNamesrvConfig")
    same("updateBrokerConfig", "-b", cluster.broker_addr, "-k", "traceOn", "-v", "true")
    same("updateBrokerConfig", "-c", CLUSTER_NAME, "-k", "traceOn", "-v", "true", "-a", "true")
    same("updateBrokerConfig", "-b", cluster.broker_addr, "-k", "noSuchKey", "-v", "1")
    group = fresh("TextGroup")
    same("updateSubGroup", "-c", CLUSTER_NAME, "-g", group)
    same("getConsumerConfig", "-g", group)


def test_permissions(same: Callable[..., None], cluster: Cluster, topic: str) -> None:
    same("updateTopicPerm", "-b", cluster.broker_addr, "-t", topic, "-p", "6")  # changes nothing for either
    for perm in ("4", "6"):
        same("updateTopicPerm", "-c", CLUSTER_NAME, "-t", topic, "-p", perm, mask="from [46] to")
    same("topicClusterList", "-t", topic)
    same("wipeWritePerm", "-b", BROKER_NAME)
    same("addWritePerm", "-b", BROKER_NAME)
    same("wipeWritePerm", "-b", "no-broker")


def test_groups_deleted(same: Callable[..., None], cluster: Cluster, fresh: Callable[[str], str]) -> None:
    group = fresh("TextGroup")
    for _ in range(2):
        same("updateSubGroup", "-c", CLUSTER_NAME, "-g", group)
        same("deleteSubGroup", "-c", CLUSTER_NAME, "-g", group, "-r", "true")
    same("deleteSubGroup", "-b", cluster.broker_addr, "-g", group)


def test_groups_moved(same: Callable[..., None], topic: str, fresh: Callable[[str], str]) -> None:
    group, other = fresh("TextGroup"), fresh("TextGroup")
    for name in (group, other):
        same("updateSubGroup", "-c", CLUSTER_NAME, "-g", name)
        same("updateTopic", "-c", CLUSTER_NAME, "-t", f"%RETRY%{name}")
    same("skipAccumulatedMessage", "-g", group, "-t", topic)
    same("cloneGroupOffset", "-s", group, "-d", other, "-t", topic)
    same("consumerProgress", "-g", other, "-t", topic)


def test_messages_of_queues(same: Callable[..., None], java: Witness, topic: str) -> None:
    (found,) = java.query_key(topic, "KEY-1")
    same("queryMsgByUniqueKey", "-t", topic, "-i", found.msg_id)
    same("queryMsgByUniqueKey", "-t", topic, "-i", found.msg_id, "-a")
    same("queryMsgByOffset", "-t", topic, "-b", BROKER_NAME, "-i", "1", "-o", "2", "-f", "UTF-8")
    same("queryMsgByOffset", "-t", topic, "-b", BROKER_NAME, "-i", "1", "-o", "1000")
    same("printMsg", "-t", topic)
    same("printMsg", "-t", topic, "-s", "NoSuchTag", "-d", "false")
    same("printMsg", "-t", topic, "-b", "0", "-e", "1")
    queue = ("-t", topic, "-a", BROKER_NAME, "-i", "0")
    same("printMsgByQueue", *queue)
    same("printMsgByQueue", *queue, "-p", "true", "-d", "true", "-f", "true")
    same("printMsgByQueue", *queue, "-p", "true", "-s", "TagA || TagB")


def test_messages_consumed(same: Callable[..., None], topic: str) -> None:
    queue = ("-t", topic, "-b", BROKER_NAME, "-i", "0")
    same("consumeMessage", "-t", topic)
    for count in ("1", "3", "4", "5"):
        same("consumeMessage", "-t", topic, "-c", count, mask=r"[0-9A-F]{32}|\d+")  # as many, of the first queue
    same("consumeMessage", *queue)
    for offset in ("0", "1", "3", "4"):
        same("consumeMessage", *queue, "-o", offset, "-c", "2")


def test_statistics(same: Callable[..., None], topic: str) -> None:
    # A broker updates the counts of a day in steps, and other tests' topics are in the output too.
    same("statsAll", "-t", topic, mask=NUMBERS)
    same("statsAll", mask=NUMBERS)


def test_producers(same: Callable[..., None], cluster: Cluster, topic: str, fresh: Callable[[str], str]) -> None:
    """Uses a group of one client, because mqadmin prints several in random order."""
    group = fresh("TextProducers")
    beat = Heartbeat(client_id=f"client@{group}", producer_data_set=[ProducerData(group_name=group)])
    with Wire(cluster.broker_addr) as wire:
        assert wire.ask(RequestCode.HEART_BEAT, {}, fastjson.dumps(beat)).code == 0
        inner = r"(?m)^producer group \(CLIENT_INNER_PRODUCER\).*$|(?<=lastUpdateTimestamp=)\d+"
        same("producer", "-b", cluster.broker_addr, mask=inner)
        same("producerConnection", "-g", group, "-t", topic)


def test_what_consumers_say(
    same: Callable[..., None],
    java: Witness,
    cluster: Cluster,
    mqadmin: Mqadmin,
    topic: str,
    fresh: Callable[[str], str],
) -> None:
    group = fresh("TextGroup")
    consumer = java.consume(group, topic, expression="TagA || TagB")
    consumer.until_count(len(MESSAGES))
    java.until_caught_up(group, topic)
    same("consumerStatus", "-g", group, mask=r"\d{13}/")
    client_id = rmqadmin(cluster, "consumerConnection", "-g", group).splitlines()[1].split()[0]
    one = ("consumerStatus", "-g", group, "-i", client_id)
    ours, theirs = [""], []
    for _ in range(2):  # the retry queue's first pull may end between two calls, and then its offset is known
        told, _ = mqadmin.run(*one)  # holds a property named ...WhenException, which ``mqadmin()`` takes for an error
        ours, theirs = (in_any_order(re.sub(CLIENT_COUNTERS, "#", text)) for text in (rmqadmin(cluster, *one), told))
        if ours == theirs:
            break
    assert ours == theirs
    consumer.stop()


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
