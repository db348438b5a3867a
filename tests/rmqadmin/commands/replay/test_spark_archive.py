"""``spark-archive --check``: what monitoring asks, without Spark and without a change."""

from pathlib import Path

import pytest

from tests.support.servers import topic_config

pytest.importorskip("numpy")

from rmqadmin.core.exit_codes import ExitCode
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqreplay.source.archive_manifest import ArchivedBatch, ArchivedRange, commit_batch, load_manifest
from rmqreplay.source.offset_ranges import queue_text
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.servers import until

QUEUE = MessageQueue("Waiting", "broker-a", 0)


@pytest.mark.parametrize(("hours", "status"), [(72, ExitCode.OK), (0, ExitCode.REFUSED)])
def test_the_status_says_whether_retention_is_near(
    run: Rmqadmin, start_standalone, tmp_path: Path, hours: int, status: ExitCode
) -> None:
    server = start_standalone("--set", f"fileReservedTime={hours}")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(QUEUE.topic))
        until(lambda: QUEUE.topic in admin.topic_list())
        for _ in range(4):
            admin.send_message(server.broker_addr, QUEUE, Message(QUEUE.topic, b"x"))
    directory = tmp_path / "archive"
    (directory / "_manifest").mkdir(parents=True)
    ranges = [
        ArchivedRange(queue="Other/broker-a/0", start=0, end=1, messages=1),
        ArchivedRange(queue=queue_text(QUEUE), start=0, end=3, messages=2),
    ]
    commit_batch(load_manifest(str(directory)), ArchivedBatch(number=0, archived_ms=0, ranges=ranges, files=[]))
    before = sorted(directory.rglob("*"))
    words = ("spark-archive", "-n", server.namesrv_addr, "--topic", QUEUE.topic, "--archive", str(directory), "--check")
    ran = run("-o", "json", *words, status=status)
    assert ("retention gets near to 1 queue: archive more often" in ran.err) == (hours == 0)
    other, row = ran.items
    assert (other["topic"], other["end_offset"], other["waiting"]) == ("Other", 1, None), "nobody asked for it"
    wanted = {"start_offset": 0, "end_offset": 3, "new": 0, "waiting": 1, "missing": 1}
    assert wanted == {name: row[name] for name in wanted}
    assert sorted(directory.rglob("*")) == before


def test_queues_without_messages_have_no_row(run: Rmqadmin, start_standalone, tmp_path: Path) -> None:
    """Without --topic, those that every broker has were all listed."""
    server = start_standalone()
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(QUEUE.topic, 2))
        until(lambda: QUEUE.topic in admin.topic_list())
        admin.send_message(server.broker_addr, QUEUE, Message(QUEUE.topic, b"x"))
    ran = run("-o", "json", "spark-archive", "-n", server.namesrv_addr, "--archive", str(tmp_path), "--check")
    assert [(row["topic"], row["queue_id"], row["waiting"]) for row in ran.items] == [(QUEUE.topic, 0, 1)]


def test_a_file_in_an_archives_place_is_told_in_words_that_fit(run: Rmqadmin, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    file.touch()
    ran = run("spark-archive", "-n", "127.0.0.1:1", "--archive", str(file), "--check")
    assert ran.err.endswith("hint: move it away: a directory should be there\n")
