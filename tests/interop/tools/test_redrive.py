"""``dlq redrive`` sends dead letters that a Java consumer made again, on a real broker and on ours, and Java gets
them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Fresh

from ..cluster import Cluster
from ..events import Message, Outgoing
from ..witness import Witness

pytestmark = pytest.mark.interop

COUNT = 40
LETTERS = [
    Outgoing(body=json.dumps({"number": number}).encode(), tags="Bad", keys=f"KEY-{number}", properties={"kept": "yes"})
    for number in range(COUNT)
]
AT_ONCE = -1
"""The delay level that makes a message a dead letter at its first failure."""


def command(cluster: Cluster, ledger: Path, *words: str) -> list[str]:
    return [
        sys.executable, "-m", "rmqadmin", "-o", "json", "dlq", "redrive", "-n", cluster.namesrv_addr, "--yes",
        "--timeout", "60", "--ledger", str(ledger), *words,
    ]  # fmt: skip


def redrive(cluster: Cluster, ledger: Path, *words: str) -> dict[str, Any]:
    """The summary of an executed redrive."""
    done = subprocess.run(command(cluster, ledger, *words), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)["summary"]
    assert (summary["missing"], summary["doubled"]) == (0, 0)
    return summary


def numbers(messages: list[Message]) -> list[int]:
    return sorted(json.loads(message.body)["number"] for message in messages)


def test_the_group_gets_its_dead_letters_again_and_nobody_else(
    cluster: Cluster, java: Witness, fresh: Fresh, tmp_path: Path
) -> None:
    topic = java.create_topic(fresh("RedriveTopic"))
    group, bystander_group = java.create_group(fresh("RedriveGroup")), java.create_group(fresh("BystanderGroup"))
    bystander = java.consume(bystander_group, topic)
    broken = java.consume(group, topic, fail_tag="Bad", retry_delay_level=AT_ONCE)
    sent = java.send(topic, LETTERS)
    java.read_all(f"%DLQ%{group}", COUNT)
    bystander.until_count(COUNT)
    java.until_caught_up(group, topic)  # what is not committed when a member leaves comes again
    broken.stop()
    mended = java.consume(group, topic)

    done = redrive(cluster, tmp_path, group, "--execute", "--to", "group", "--jsonpath", "$.number=7")
    assert (done["stored"], done["audited"], done["groups"]) == (1, 1, group)
    mended.until_count(1)
    done = redrive(cluster, tmp_path, group, "--execute", "--to", "group")
    assert (done["stored"], done["excluded"]) == (COUNT - 1, 1)
    mended.until_count(COUNT)

    done = redrive(cluster, tmp_path, group, "--execute", "--to", "same", "--no-skip-redriven")
    assert (done["stored"], done["target"]) == (COUNT, topic)
    mended.until_count(2 * COUNT)
    bystander.until_count(2 * COUNT)
    everything = list(range(COUNT))
    received = mended.stop()
    assert numbers(received[:COUNT]) == numbers(received[COUNT:]) == everything
    assert numbers(bystander.stop()) == sorted(2 * everything), "once when it was sent, once to the origin topic"
    assert {message.topic for message in received} == {topic}
    assert {message.msg_id for message in received} == {each.msg_id for each in sent}, "the producer's ids survive"
    for message in received:
        number = json.loads(message.body)["number"]
        assert (message.tags, message.keys) == ("Bad", f"KEY-{number}")
        assert message.user_properties["kept"] == "yes"


def test_killed_while_it_sends_and_resumed(cluster: Cluster, java: Witness, fresh: Fresh, tmp_path: Path) -> None:
    topic, target = java.create_topic(fresh("RedriveTopic")), java.create_topic(fresh("RedriveTarget"))
    group = java.create_group(fresh("RedriveGroup"))
    broken = java.consume(group, topic, fail_tag="Bad", retry_delay_level=AT_ONCE)
    java.send(topic, LETTERS)
    java.read_all(f"%DLQ%{group}", COUNT)
    broken.stop()
    words = command(cluster, tmp_path, group, "--to", f"topic:{target}", "--execute", "--rate", "10", "--wave", "20")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as killed:
        java.read_all(target, COUNT // 4)
        killed.kill()
        killed.communicate()
    summary = redrive(cluster, tmp_path, "--resume")
    assert summary["delivered"] == summary["audited"] == COUNT
    assert numbers(java.read_all(target, COUNT)) == list(range(COUNT))
