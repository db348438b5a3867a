"""Retention takes messages that a stream has planned, or that its checkpoint has not reached."""

from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqreplay.source.queue_ranges import DataLossError
from spark_tools.part_reader import read_any
from spark_tools.partitions import cluster_of
from spark_tools.source_options import StreamOptions, parse_stream_options
from spark_tools.streaming.offsets import StreamOffset, ranges_between
from spark_tools.streaming.planner import StreamPlanner
from spark_tools.streaming.survey import QueueSurvey
from tests.support import servers
from tests.support.servers import topic_config, until

QUEUE, COUNT = MessageQueue("ShortKept", "broker-a", 0), 100
SETTINGS = ("--set", "mappedFileSizeCommitLog=65536", "--set", "fileReservedTime=0")


def offsets_read(options: StreamOptions, start: StreamOffset, end: StreamOffset) -> list[int]:
    return [
        offset
        for each in ranges_between(start, end)
        for batch in read_any(each, options.read, ["queueOffset"])
        for offset in batch.column(0).to_pylist()
    ]


@pytest.mark.slow
def test_what_retention_took_is_an_error_or_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = StreamOffset({QUEUE: 0})
    with servers.standalone(tmp_path, *SETTINGS) as server, AdminClient(server.namesrv_addr) as admin:
        addr = server.broker_addr
        admin.create_topic(addr, topic_config(QUEUE.topic))
        until(lambda: QUEUE.topic in admin.topic_list())
        for _ in range(COUNT):
            admin.send_message(addr, QUEUE, Message(QUEUE.topic, bytes(4000)))
        given = {"nameServer": server.namesrv_addr, "subscribe": QUEUE.topic}
        strict = parse_stream_options(given)
        lenient = parse_stream_options(given | {"failOnDataLoss": "false"})
        with cluster_of(strict.read) as cluster:
            plans = [
                StreamPlanner(QueueSurvey(cluster, each.read), each.limits, each.read.fail_on_data_loss)
                for each in (strict, lenient)
            ]
            planned = plans[0].next(start, limited=True)
            assert offsets_read(strict, start, planned) == list(range(COUNT))

            def is_deleted() -> bool:
                admin.delete_expired_commit_log(addr)
                return admin.min_offset(addr, QUEUE.topic, 0) > 0

            until(is_deleted)
            with pytest.raises(DataLossError, match="offset 0 is gone"):
                offsets_read(strict, start, planned)
            with pytest.raises(DataLossError, match="offset 0 is gone"):
                plans[0].next(start, limited=True)
            lost = admin.min_offset(addr, QUEUE.topic, 0)
            assert offsets_read(lenient, start, planned) == list(range(lost, COUNT))
            assert offsets_read(lenient, start, plans[1].next(start, limited=True)) == list(range(lost, COUNT))
        assert f"ShortKept/broker-a/0 from 0 to {lost} is gone" in capsys.readouterr().err
