"""``msg get``, ``msg cat``, ``msg export`` and ``msg import`` on a real broker and on ours: messages are found by every
id, read in order of time by any condition, and imported byte for byte."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmqadmin.core.messages.files.formats import FileFormat, format_of_content, read_untrusted
from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendResult
from rmqclient.sending import SendRequests
from rmqproto.bodies.base import MessageQueue
from rmqproto.message.sys_flag import COMPRESSIONS
from tests.support.servers import Fresh, topic_config, until

from ..cluster import Cluster

pytestmark = pytest.mark.interop

BROKER = "broker-a"


def rmqadmin(cluster: Cluster, *words: str, state: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rmqadmin", *words, "-n", cluster.namesrv_addr, "--timeout", "60"]
    environment = {**os.environ, **({"XDG_STATE_HOME": str(state)} if state else {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


def items(cluster: Cluster, *words: str) -> list[dict[str, Any]]:
    ran = rmqadmin(cluster, *words, "-o", "json")
    assert ran.returncode == 0, ran.stderr
    return list(json.loads(ran.stdout)["items"])


def make_topic(cluster: Cluster, admin: AdminClient, topic: str) -> str:
    admin.create_topic(cluster.broker_addr, topic_config(topic, 2))
    until(lambda: topic in admin.topic_list())
    return topic


def send(cluster: Cluster, admin: AdminClient, message: Message, queue_id: int = 0) -> SendResult:
    return admin.send_message(cluster.broker_addr, MessageQueue(message.topic, BROKER, queue_id), message)


def test_a_message_is_found_by_every_id(cluster: Cluster, fresh: Fresh) -> None:
    with AdminClient(cluster.namesrv_addr) as admin:
        topic = make_topic(cluster, admin, fresh("GetTopic"))
        key = fresh("GET-KEY")
        sent = send(cluster, admin, Message(topic, b'{"a": 1.50}', keys=[key]), 1)
        until(lambda: rmqadmin(cluster, "msg", "get", key, "-t", topic).returncode == 0)
        (row,) = items(cluster, "msg", "get", key)
        for asked, found_as in (
            (sent.message_id, "unique key"),
            (sent.offset_message_id, "offset id"),
            (f"{topic}@1:0", "queue offset"),
            (f"{BROKER}@{row['log_offset']}", "commit log offset"),
        ):
            (found,) = items(cluster, "msg", "get", asked)
            assert (found["message_id"], found["found_as"]) == (sent.message_id, found_as)
        assert '"a": 1.50\n' in rmqadmin(cluster, "msg", "get", key, "-t", topic).stdout
        missing = rmqadmin(cluster, "msg", "get", f"{topic}@1:99", f"{BROKER}@{row['log_offset'] + 1}", "no-key")
        assert missing.returncode == 5, missing.stderr
        waiting = send(cluster, admin, Message(topic, b"later", delay_s=600))
        until(lambda: rmqadmin(cluster, "msg", "get", str(waiting.recall_handle)).returncode == 0)
        (found,) = items(cluster, "msg", "get", str(waiting.recall_handle))
        assert (found["message_id"], found["topic"]) == (waiting.message_id, "rmq_sys_wheel_timer")


@pytest.mark.parametrize("format", FileFormat)
def test_import_undoes_export(cluster: Cluster, fresh: Fresh, tmp_path: Path, format: FileFormat) -> None:
    random = Random(7)
    with AdminClient(cluster.namesrv_addr) as admin:
        topic = make_topic(cluster, admin, fresh("ExportTopic"))
        copy = make_topic(cluster, admin, fresh("ImportTopic"))
        for at in range(20):
            message = Message(
                topic, random.randbytes(random.choice([1, 100, 20_000])), tags=random.choice([None, "TagA", "标签"]),
                keys=["K1", f"ключ-{at}"], properties={"binary": "".join(map(chr, range(3, 0x250)))},
                flag=random.randrange(-(1 << 31), 1 << 31),
            )  # fmt: skip
            queue = MessageQueue(topic, BROKER, at % 2)
            packed = at % 7 == 3
            encoded = SendRequests(queue, "P").of_copy(
                message, born_timestamp_ms=random.randrange(1 << 44), compression=COMPRESSIONS["lz4"] if packed else 0
            )
            admin.send_encoded(cluster.broker_addr, queue, encoded)
    before, after = tmp_path / f"before.{format}", tmp_path / f"after.{format}"
    for words in (
        ["msg", "export", topic, str(before)],
        ["msg", "import", str(before), "--to", copy, "--dry-run"],
        ["msg", "import", str(before), "--to", copy, "--yes"],
        ["msg", "export", copy, str(after)],
    ):
        ran = rmqadmin(cluster, *words, state=tmp_path)
        assert ran.returncode == 0, ran.stderr

    def made(path: Path) -> list[Any]:
        with path.open("rb") as file:
            return sorted(
                (one.queue_id, one.queue_offset, one.body, one.properties, one.flag, one.born_ms, one.body_compression)
                for one in read_untrusted(file, format_of_content(file, None))
            )

    assert len(made(before)) == 20
    assert made(after) == made(before)
