"""``doctor``, ``check`` and ``group lag`` on a real broker and on ours find the same states."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from rmqadmin.core.health.broker_checks import clock_skew_ms
from rmqadmin.core.health.facts import read_facts
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.names import dlq_topic
from tests.support.python_member import PythonMember
from tests.support.servers import Fresh, topic_config, until

from ..cluster import BROKER_NAME, CLUSTER_NAME, Cluster
from ..witness import Witness

pytestmark = pytest.mark.interop

COUNT = 5


def rmqadmin(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rmqadmin", *words, "-n", cluster.namesrv_addr, "--timeout", "30"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ))


def document(cluster: Cluster, *words: str) -> dict[str, Any]:
    ran = rmqadmin(cluster, *words, "-o", "json")
    assert ran.stdout, ran.stderr
    return dict(json.loads(ran.stdout))


def findings(cluster: Cluster, *words: str) -> dict[tuple[str, str], dict[str, Any]]:
    items = document(cluster, "doctor", "--sample", "0.2", "--all", *words)["items"]
    return {(item["check"], item["subject"]): item for item in items}


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(cluster.namesrv_addr, timeout_s=60) as client:
        yield client


@pytest.fixture
def behind(cluster: Cluster, admin: AdminClient, fresh: Fresh) -> tuple[str, str]:
    """A group and a topic with five messages that it has not consumed."""
    group, topic = fresh("HealthGroup"), fresh("HealthTopic")
    admin.create_topic(cluster.broker_addr, topic_config(topic))
    admin.create_group(cluster.broker_addr, SubscriptionGroupConfig(group_name=group))
    until(lambda: topic in admin.topic_list())
    for _ in range(COUNT):
        admin.send_message(cluster.broker_addr, MessageQueue(topic, BROKER_NAME, 0), Message(topic, b"x"))
    admin.update_consumer_offset(cluster.broker_addr, group, topic, 0, 0)
    return group, topic


def test_a_healthy_broker_is_told_to_be_so(cluster: Cluster, admin: AdminClient) -> None:
    found = findings(cluster, "--quick")
    broker = f"{BROKER_NAME}/0"
    for check in ("reachable", "clock", "disk"):
        assert found[check, broker]["severity"] == "ok", found[check, broker]
    assert found["flush", broker]["severity"] == "note"
    assert found["versions", CLUSTER_NAME]["what"] == "all its brokers are of version V5_5_0"
    # Apache's broker listens on all addresses by default, ours on loopback.
    access = found["access", broker]
    assert access["severity"] == ("warning" if cluster.name == "apache" else "ok"), access
    (facts,) = read_facts(admin, None, with_tables=True).brokers
    assert clock_skew_ms(facts.replica.info, facts.asked_ms, facts.answered_ms) == 0
    assert facts.topics
    assert facts.groups


def test_what_somebody_left_behind_is_found_and_mended(cluster: Cluster, admin: AdminClient, fresh: Fresh) -> None:
    topic, group = fresh("LeftTopic"), fresh("LeftGroup")
    admin.create_topic(cluster.broker_addr, TopicConfig(topic_name=topic, perm=4))
    admin.create_group(cluster.broker_addr, SubscriptionGroupConfig(group_name=group, consume_enable=False))
    until(lambda: topic in admin.topic_list())
    admin.wipe_write_perm(cluster.namesrv_addr, BROKER_NAME)
    permissions = [
        item for item in document(cluster, "doctor", "--sample", "0")["items"] if item["check"] == "permission"
    ]
    said = " ".join(item["what"] for item in permissions)
    assert topic in said
    assert group in said
    assert "it was wiped, and producers that ask there send it nothing" in said
    for _ in range(20):
        items = document(cluster, "doctor", "--sample", "0")["items"]
        fixes = [item["fix"] for item in items if item["check"] == "permission"]
        for fix in fixes:
            ran = rmqadmin(cluster, *fix.split()[1:])
            assert ran.returncode == 0, f"{fix}: {ran.stderr}"
        if not fixes:
            break
    assert not fixes


def test_lag_and_dead_letters_by_exit_status(cluster: Cluster, admin: AdminClient, behind: tuple[str, str]) -> None:
    group, topic = behind
    dead = dlq_topic(group)
    admin.create_topic(cluster.broker_addr, topic_config(dead))
    until(lambda: dead in admin.topic_list())
    assert rmqadmin(cluster, "check", "dlq", "-g", group).returncode == 0
    admin.send_message(cluster.broker_addr, MessageQueue(dead, BROKER_NAME, 0), Message(dead, b"x"))
    assert rmqadmin(cluster, "check", "dlq", "-g", group, "--since", "-1h").returncode == 1
    assert rmqadmin(cluster, "check", "dlq", "-g", group, "--since", "now").returncode == 0
    for thresholds, status in ((["-w", "10,1h"], 0), (["-w", "4", "-c", "10"], 1), (["-w", "1", "-c", "0ms"], 2)):
        ran = rmqadmin(cluster, "check", "lag", "-g", group, "-t", topic, *thresholds)
        assert ran.returncode == status, ran.stdout
        assert f" - {group}: 5 messages behind, the oldest waits for " in ran.stdout
    assert rmqadmin(cluster, "check", "disk", "-w", "100%").returncode == 0
    assert rmqadmin(cluster, "check", "disk", "-c", "0%").returncode == 2
    assert rmqadmin(cluster, "check", "broker", "-b", BROKER_NAME).returncode == 0
    assert rmqadmin(cluster, "check", "broker", "-b", "nobody").returncode == 2


def test_real_members_that_want_different_things(cluster: Cluster, admin: AdminClient, behind: tuple[str, str]) -> None:
    group, topic = behind
    with PythonMember(cluster.namesrv_addr, group, topic), PythonMember(cluster.namesrv_addr, group, topic, "TagA"):
        summary = document(cluster, "group", "lag", group, "--sample", "0")["summary"]
        assert summary["client_count"] == 2
        assert any("subscriptions differ: its members" in problem for problem in summary["problems"] or ())
        found = findings(cluster)
    assert found["subscriptions", group]["severity"] == "warning"


def test_a_java_member_says_what_it_manages(cluster: Cluster, java: Witness, behind: tuple[str, str]) -> None:
    group, topic = behind
    consumer = java.consume(group, topic)

    def told() -> dict[str, Any]:
        members = document(cluster, "group", "lag", group, "--sample", "0")["summary"].get("members") or []
        return {one["client_id"]: one["manages"] for one in members}

    until(lambda: told().get(consumer.client_id) is not None)
    manages = told()[consumer.client_id]
    consumer.stop()
    assert manages["thread_count"] > 0
    assert manages["consumed_tps"] >= 0


def test_a_lag_that_shrinks(cluster: Cluster, admin: AdminClient, behind: tuple[str, str]) -> None:
    group, topic = behind
    before = document(cluster, "group", "lag", group, "-t", topic, "--sample", "0")
    assert before["summary"]["lag_count"] == COUNT
    (row,) = before["items"]
    assert row["oldest_waiting_ms"] > 0
    assert row["retention_left_ms"] > 0
    with PythonMember(cluster.namesrv_addr, group, topic) as member:
        until(lambda: len(member.bodies) == COUNT)
    until(lambda: document(cluster, "group", "lag", group, "-t", topic, "--sample", "0")["summary"]["lag_count"] == 0)
