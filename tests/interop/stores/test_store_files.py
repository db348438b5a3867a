"""A store directory moves between our store code and Apache's broker, in both directions, stopped or killed."""

import json
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode
from rmqproto.message.record import decode_records_untrusted, host_bytes
from rmqproto.wire.command import Command, FrameReader, encode_frame
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions

from ..apache import ApacheRocketMQ

pytestmark = pytest.mark.interop

SIZES = StoreOptions(
    commit_log_file_size_bytes=1 << 20,
    consume_queue_file_size_bytes=1000 * 20,
    index_slot_count=1000,
    index_unit_count=2000,
)
BROKER_CONF = {
    "brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": "0", "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": str(1 << 20), "mappedFileSizeConsumeQueue": "20000", "maxHashSlotNum": "1000",
    "maxIndexNum": "2000", "autoCreateSubscriptionGroup": "true", "osPageCacheBusyTimeOutMills": "60000",
    "brokerFastFailureEnable": "false", "timerWheelEnable": "false",
}  # fmt: skip
TOPICS = {"Orders": 4, "Payments": 1}
MESSAGES = 9000
DISPATCH_TIMEOUT_S = 60
LONG_AGO, FAR_AWAY = "0", str(1 << 60)
HOST = host_bytes("127.0.0.1", 10911)

Records = dict[tuple[str, int], list[bytes]]


class Peer:
    """A connection to a broker that sends one request at a time."""

    def __init__(self, address: str):
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._reader = FrameReader()

    def call(self, code: int, **fields: object) -> Command:
        body = fields.pop("body", b"")
        assert isinstance(body, bytes)
        ext = {name: str(value) for name, value in fields.items()}
        self._socket.sendall(encode_frame(Command(code=code, opaque=1, ext=ext, body=body)))
        while True:
            for answer in self._reader.feed(self._socket.recv(1 << 20)):
                if answer.is_answer:
                    return answer

    def close(self) -> None:
        self._socket.close()

    def every_record(self) -> Records:
        """The stored bytes of every message, as the broker serves them."""
        return {(topic, queue): self._pull(topic, queue) for topic, count in TOPICS.items() for queue in range(count)}

    def wait_for(self, count: int) -> None:
        """Waits until that many messages can be pulled: Apache's queues follow its log a little later."""
        deadline = time.monotonic() + DISPATCH_TIMEOUT_S
        while self._count() < count:
            assert time.monotonic() < deadline, f"{self._count()} of {count} messages"

    def _count(self) -> int:
        queues = [(topic, queue) for topic, count in TOPICS.items() for queue in range(count)]
        answers = [self.call(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=queue) for topic, queue in queues]
        return sum(int(answer.ext["offset"]) for answer in answers)

    def _pull(self, topic: str, queue_id: int) -> list[bytes]:
        found: list[bytes] = []
        end = int(self.call(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=queue_id).ext["offset"])
        while len(found) < end:
            answer = self.call(
                RequestCode.PULL_MESSAGE, consumerGroup="reader", topic=topic, queueId=queue_id, queueOffset=len(found),
                maxMsgNums=32, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*", subVersion=0,
                expressionType="TAG",
            )  # fmt: skip
            assert answer.code == 0, answer.remark
            at = 0
            for message in decode_records_untrusted(answer.body):
                found.append(answer.body[at : at + message.size_bytes])
                at += message.size_bytes
        return found

    def query(self, key: str, kind: str = "K") -> list[int]:
        answer = self.call(
            RequestCode.QUERY_MESSAGE, topic="Orders", key=key, maxNum=32, beginTimestamp=LONG_AGO,
            endTimestamp=FAR_AWAY, indexType=kind,
        )  # fmt: skip
        return [message.log_offset for message in decode_records_untrusted(answer.body)]

    def send(self, number: int) -> None:
        properties = f"KEYS\x01new-{number}\x02TAGS\x01New\x02UNIQ_KEY\x01NEW{number:029d}\x02"
        answer = self.call(
            RequestCode.SEND_MESSAGE, producerGroup="writer", topic="Orders", defaultTopic="TBW102",
            defaultTopicQueueNums=4, queueId=number % 4, sysFlag=0, bornTimestamp=1, flag=0, properties=properties,
            reconsumeTimes=0, unitMode="false", batch="false", body=b"sent to Apache %d" % number,
        )  # fmt: skip
        assert answer.code == 0, answer.remark


def fill(directory: Path, *, close: bool) -> None:
    """Writes enough for several files of each kind with our store. Without ``close`` the store is left as by a kill."""
    live = directory if close else directory.with_name("live")
    store = MessageStore(live, SIZES)
    store.open()
    for number in range(MESSAGES):
        properties = b"KEYS\x01key-%d\x02UNIQ_KEY\x01UNIQUE%026d\x02WAIT\x01true\x02TAGS\x01Tag%d\x02"
        store.append(
            "Orders" if number % 3 else "Payments", number // 3 % 4 if number % 3 else 0, number, 0, 1, HOST, HOST, 0,
            b"message %d " % number * (number % 40), properties % (number, number, number % 5),
        )  # fmt: skip
        if number % 10 == 0:
            store.commit()
    store.commit()
    (live / "config").mkdir()
    (live / "config/topics.json").write_text(json.dumps({"dataVersion": {}, "topicConfigTable": {
        name: {"topicName": name, "readQueueNums": count, "writeQueueNums": count, "perm": 6}
        for name, count in TOPICS.items()
    }}))  # fmt: skip
    if not close:
        shutil.copytree(live, directory)
        (directory / "lock").unlink()
    assert store.close()


def read(directory: Path) -> tuple[Records, dict[str, list[int]]]:
    """The records that our store serves, and the results of its lookups."""
    store = MessageStore(directory, SIZES)
    store.open()
    store.followers.work_everything()  # a look-up does not wait for the index
    records: Records = {}
    for topic, count in TOPICS.items():
        for queue in range(count):
            found = records[topic, queue] = []
            while len(found) < store.max_offset(topic, queue):
                found += store.get(topic, queue, len(found), 32).records()
    queries = {}
    for key, kind in QUERIES:
        found_records = store.query("Orders", key, 32, 0, 1 << 60, kind).records
        queries[key] = [int.from_bytes(record[28:36], "big") for record in found_records]
    assert store.close()
    return records, queries


QUERIES = [(f"key-{number}", "K") for number in (1, 2, 4000, 8998)] + [(f"UNIQUE{7:026d}", "U"), ("Tag1", "T")]


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_apache_serves_our_store_and_we_serve_it_back(tmp_path: Path, state: str) -> None:
    directory = tmp_path / "store"
    fill(directory, close=state == "stopped")
    shutil.copytree(directory, tmp_path / "copy")
    expected, expected_queries = read(tmp_path / "copy")
    assert sum(map(len, expected.values())) == MESSAGES
    cluster = ApacheRocketMQ(tmp_path / "apache", BROKER_CONF, store_dir=directory)
    with cluster, closing(Peer(cluster.broker_addr)) as peer:
        assert peer.every_record() == expected
        for key, kind in QUERIES:
            assert set(peer.query(key, kind)) == set(expected_queries[key]), key
        for number in range(500):
            peer.send(number)
        peer.wait_for(MESSAGES + 500)
        after = peer.every_record()
        assert sum(map(len, after.values())) == MESSAGES + 500
        if state == "stopped":
            cluster.stop()
        else:
            cluster.kill()
    records, queries = read(directory)
    assert records == after
    assert {key: set(found) for key, found in queries.items() if key != "Tag1"} == {
        key: set(found) for key, found in expected_queries.items() if key != "Tag1"
    }


@pytest.fixture(autouse=True)
def _no_rest(tmp_path: Path) -> Iterator[None]:
    """Stores take 10 MB each, so they are not kept for three more runs, as pytest would."""
    yield
    shutil.rmtree(tmp_path)
