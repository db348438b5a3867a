"""Every mqadmin command with each of its options, run by mqadmin and by ours, on a real broker and on ours: both print
the same. The calls are in ``calls.py``."""

import json
from pathlib import Path

import pytest

from rmqproto.bodies.groups import Heartbeat, ProducerData
from rmqproto.codes import RequestCode
from rmqproto.wire import fastjson
from tests.support.servers import Fresh
from tests.support.wire import Wire

from ..cluster import BROKER_NAME, CLUSTER_NAME, Cluster
from ..events import Outgoing
from ..mqadmin import Mqadmin
from ..witness import Witness, eventually
from .same_text import Names, compare

pytestmark = pytest.mark.interop

MESSAGES = [Outgoing(body=b"%d" % at, tags="TagA", keys=f"KEY-{at}", queue_id=at % 2) for at in range(6)]
POLICY = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000, "max": 2000, "multiplier": 2}}


@pytest.fixture
def names(
    cluster: Cluster, mqadmin: Mqadmin, java: Witness, fresh: Fresh, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Names:  # fmt: skip
    """The names that replace the braces."""
    for kind in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv_addr)
    monkeypatch.chdir(tmp_path)
    topic, group, other, lite = fresh("EveryTopic"), fresh("EveryGroup"), fresh("EveryOther"), fresh("EveryLite")
    java.create_topic(topic, queues=2)
    java.send(topic, MESSAGES)
    found = eventually(lambda: java.query_key(topic, "KEY-5"), 1)[0]
    for name in (group, other):
        mqadmin("updateSubGroup", "-c", CLUSTER_NAME, "-g", name)
        mqadmin("updateTopic", "-c", CLUSTER_NAME, "-t", f"%RETRY%{name}")
    mqadmin("updateTopic", "-c", CLUSTER_NAME, "-t", lite, "-a", "+message.type=LITE")
    (tmp_path / "topics.json").write_text(json.dumps([{"topicName": fresh("EveryListed"), "perm": 6}]))
    (tmp_path / "groups.json").write_text(json.dumps([{"groupName": fresh("EveryListed")}]))
    return {
        "namesrv": cluster.namesrv_addr, "cluster": CLUSTER_NAME, "broker": cluster.broker_addr, "name": BROKER_NAME,
        "topic": topic, "group": group, "other": other, "lite": lite, "fresh": fresh("Every"), "key": "KEY-5",
        "id": found.msg_id, "offset_id": _offset_id(cluster, found.log_offset), "dir": str(tmp_path),
        "policy": json.dumps(POLICY),
    }  # fmt: skip


def _offset_id(cluster: Cluster, log_offset: int) -> str:
    return f"7F000001{int(cluster.broker_addr.rpartition(':')[2]):08X}{log_offset:016X}"


@pytest.mark.parametrize("part", ["topics", "groups", "messages", "brokers"])
def test_they_print_the_same(names: Names, mqadmin: Mqadmin, part: str) -> None:
    compare(part, names, mqadmin)


def test_they_print_the_same_of_producers(cluster: Cluster, names: Names, mqadmin: Mqadmin) -> None:
    """Of a group of one client, because mqadmin prints several in random order."""
    group = f"{names['fresh']}Producers"
    beat = Heartbeat(client_id=f"client@{group}", producer_data_set=[ProducerData(group_name=group)])
    with Wire(cluster.broker_addr) as wire:
        assert wire.ask(RequestCode.HEART_BEAT, {}, fastjson.dumps(beat)).code == 0
        compare("producers", {**names, "producers": group}, mqadmin)


def test_they_print_the_same_of_static_topics(cluster: Cluster, names: Names, mqadmin: Mqadmin) -> None:
    if cluster.name == "ours":
        pytest.skip("our broker refuses them: test_mqadmin.py")
    compare("static topics", names, mqadmin)


def test_they_print_the_same_of_a_group_that_consumes(names: Names, mqadmin: Mqadmin, java: Witness) -> None:
    group, topic = names["group"], names["topic"]
    consumer = java.consume(group, topic)
    consumer.until_count(len(MESSAGES))
    java.until_caught_up(group, topic)
    (client,) = java.members(group)
    compare("members", {**names, "client": client}, mqadmin)
    consumer.stop()
