"""updateStaticTopic and remappingStaticTopic on a cluster of two of Apache's brokers."""

import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import RequestCode as R
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import UpdateConsumerOffsetHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.queue_mapping import current_queues
from tests.rmqadmin.conftest import Ran, Rmqadmin, bare_environment, golden, run
from tests.support.wire import Wire

from ..apache import ApacheRocketMQ
from ..apache_pair import ApachePair, apache_pair

pytestmark = pytest.mark.interop

__all__ = ["bare_environment", "run"]
"""The fixtures with which a command line runs in the test's process."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePair]:
    with apache_pair(tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture
def admin(pair: ApachePair) -> Iterator[AdminClient]:
    with AdminClient(pair[0].namesrv_addr) as client:
        yield client


@pytest.fixture
def call(
    run: Rmqadmin, pair: ApachePair, admin: AdminClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Rmqadmin:
    """Runs a command line on the pair and keeps its files in the test's folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda *args: run(*args, "-n", pair[0].namesrv_addr)


def without_epochs(text: str, folder: Path) -> str:
    return re.sub(r"-\d{13}\.", "-EPOCH.", text.replace(str(folder), "/tmp"))


def queues(admin: AdminClient, server: ApacheRocketMQ, topic: str) -> dict[int, int]:
    """The logical queues that this broker leads, each with the broker's own queue."""
    detail = admin.static_topic(server.broker_addr, topic).mapping_detail
    assert detail is not None
    return current_queues(detail)


def test_a_topic_is_made_extended_and_moved_in_mqadmins_words(
    call: Rmqadmin, admin: AdminClient, pair: ApachePair, tmp_path: Path
) -> None:
    def said(command: str, case: str, *args: str) -> None:
        ran = call(command, "-t", "StaticTopic", *args, "--output", "mqadmin")
        assert ran.status == 0, ran.err
        assert without_epochs(ran.out, tmp_path) == without_epochs(golden(command, case), tmp_path)

    said("updateStaticTopic", "ok", "-qn", "2", "-b", "broker-a")
    assert queues(admin, pair[0], "StaticTopic") == {0: 0, 1: 1}
    assert queues(admin, pair[1], "StaticTopic") == {}
    said("updateStaticTopic", "more-queues", "-qn", "4", "-b", "broker-b")
    assert queues(admin, pair[1], "StaticTopic") == {2: 0, 3: 1}
    ran = call("topicStatus", "-t", "StaticTopic", "--output", "mqadmin")
    assert ran.out == golden("topicStatus", "static")
    for _ in range(3):
        admin.send_message(
            pair[0].broker_addr, MessageQueue("StaticTopic", "broker-a", 0), Message("StaticTopic", b"m")
        )
    said("remappingStaticTopic", "ok", "-b", "broker-b")
    assert queues(admin, pair[0], "StaticTopic") == {}
    assert queues(admin, pair[1], "StaticTopic") == {0: 2, 1: 3, 2: 0, 3: 1}
    rows = call("topicStatus", "-t", "StaticTopic", "--output", "json").items
    assert [(row["queue_id"], row["max_offset"]) for row in rows if row["broker_name"] == "__syslo__global__"] == [
        (0, 10_000), (1, 10_000), (2, 0), (3, 0),
    ]  # fmt: skip
    assert admin.max_offset(pair[1].broker_addr, "StaticTopic", 0) == 10_000
    route = admin.topic_route("StaticTopic").topic_queue_mapping_by_broker
    assert route is not None
    assert {int(queue): at for queue, at in route["broker-b"]["currIdMap"].items()} == {0: 2, 1: 3, 2: 0, 3: 1}


def test_progress_is_shown_in_logical_queues(call: Rmqadmin, admin: AdminClient, pair: ApachePair) -> None:
    """mqadmin shows the offset of the broker's own queue, finally 2, instead of the logical one."""
    topic, group = "ProgressStatic", "StaticGroup"
    here, there = (server.broker_addr for server in pair)
    assert call("updateStaticTopic", "-t", topic, "-qn", "2", "-b", "broker-a").status == 0

    def put(broker_addr: str, queue_id: int, count: int) -> None:
        with Wire(broker_addr) as wire:
            for _ in range(count):
                header = SendHeaderV2(producer_group="P", topic=topic, queue_id=queue_id, born_timestamp=1)
                assert wire.ask(R.SEND_MESSAGE_V2, to_ext(header) | {"lo": "true"}, b"m").code == 0

    def commit(broker_addr: str, queue_id: int, offset: int, *, logical: bool = True) -> None:
        header = UpdateConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
        with Wire(broker_addr) as wire:
            assert wire.ask(R.UPDATE_CONSUMER_OFFSET, to_ext(header) | {"lo": str(logical).lower()}).code == 0

    def shown() -> list[tuple[str, int, int, int, int]]:
        rows = call("consumerProgress", "-g", group, "--output", "json").items
        keys = ("broker_name", "queue_id", "broker_offset", "consumer_offset", "lag_count")
        return [tuple(row[key] for key in keys) for row in rows if row["topic"] == topic]

    for server in pair:
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    put(here, 0, 5)
    put(here, 1, 3)
    commit(here, 0, 3)
    scope = "__syslo__global__"
    assert shown() == [(scope, 0, 5, 3, 2), (scope, 1, 3, 0, 3)]
    assert call("remappingStaticTopic", "-t", topic, "-b", "broker-b").status == 0
    put(there, 0, 4)
    assert shown() == [(scope, 0, 10_004, 3, 10_001), (scope, 1, 10_000, 0, 10_000)]
    commit(here, 0, 5, logical=False)  # as a leader forwards it
    assert shown()[0] == (scope, 0, 10_004, 10_000, 4)
    commit(there, 0, 10_002)
    assert shown()[0] == (scope, 0, 10_004, 10_002, 2)
    total = next(row for row in call("consumerProgress", "--output", "json").items if row["group"] == group)
    assert total["lag_count"] == 5


def test_without_a_brokers_part_of_the_mapping_the_others_own_queues_are_shown(
    call: Rmqadmin, admin: AdminClient, pair: ApachePair
) -> None:
    """Nothing used to be shown, and each question about the mapping waited for the silent broker anew."""
    topic, group = "HalfStatic", "HalfGroup"
    assert call("updateStaticTopic", "-t", topic, "-qn", "2", "-c", "DefaultCluster").status == 0
    admin.create_group(pair[0].broker_addr, SubscriptionGroupConfig(group_name=group))
    admin.update_consumer_offset(pair[0].broker_addr, group, topic, 0, 0)
    os.kill(pair.second.broker_pid, signal.SIGSTOP)
    try:
        asked = [
            call(*words, "--timeout", "2", "--output", "json")
            for words in (("consumerProgress", "-g", group), ("topicStatus", "-t", topic))
        ]
    finally:
        os.kill(pair.second.broker_pid, signal.SIGCONT)
    for ran in asked:
        assert ran.status == 1
        assert [(row["broker_name"], row["queue_id"]) for row in ran.items] == [("broker-a", 0)]
        silent = f"{pair[1].broker_addr} did not answer"
        assert f"no logical queues are shown: {silent}" in ran.err
        assert f"1 of 2 brokers did not answer: {silent}" in ran.err


def test_a_dry_run_shows_the_queues_and_writes_nothing(call: Rmqadmin, admin: AdminClient, tmp_path: Path) -> None:
    ran = call(
        "updateStaticTopic", "-t", "DryStatic", "-qn", "3", "-c", "DefaultCluster", "--dry-run", "--output", "json"
    )
    assert ran.status == 0, ran.err
    changed = [{change["field"]: change["after"] for change in row["changes"]}["queues"] for row in ran.items]
    assert changed == [{"0": 0, "2": 1}, {"1": 0}]
    assert not any(row["done"] for row in ran.items)
    assert not list(tmp_path.glob("DryStatic*"))
    assert "DryStatic" not in admin.topic_list()


def test_a_file_puts_a_mapping_back(call: Rmqadmin, admin: AdminClient, pair: ApachePair, tmp_path: Path) -> None:
    assert call("updateStaticTopic", "-t", "FileStatic", "-qn", "2", "-c", "DefaultCluster").status == 0
    (after,) = tmp_path.glob("FileStatic-*.after")
    ran = call("updateStaticTopic", "-t", "FileStatic", "-b", "broker-a", "-mf", str(after), "-fr", "true")
    assert ran.status == 0, ran.err
    assert queues(admin, pair[1], "FileStatic") == {1: 0}
    ran = call("updateStaticTopic", "-t", "OtherStatic", "-b", "broker-a", "-mf", str(after))
    assert (ran.status, "not match for broker" in ran.err) == (1, True)


def test_a_name_that_no_mapping_has_is_refused(call: Rmqadmin, tmp_path: Path) -> None:
    """It was left out, and the default in its place was written to the brokers."""
    assert call("updateStaticTopic", "-t", "NamedStatic", "-qn", "2", "-b", "broker-a").status == 0
    (after,) = tmp_path.glob("NamedStatic-*.after")
    text = after.read_text()
    for name, wrong, told in (
        ("brokerConfigMap", "brokerConfigMapp", "there is no field brokerConfigMapp"),
        ("readQueueNums", "readQueuesNum", "brokerConfigMap.broker-a: there is no field readQueuesNum"),
        ("logicOffset", "logicalOffset", "there is no field logicalOffset"),
    ):
        after.write_text(text.replace(f'"{name}"', f'"{wrong}"'))
        for command in ("updateStaticTopic", "remappingStaticTopic"):
            ran = call(command, "-t", "NamedStatic", "-b", "broker-a", "-mf", str(after))
            assert (ran.status, told in ran.err, f"Did you mean {name}?" in ran.err) == (2, True, True), ran.err


def refused(ran: Ran) -> tuple[int, str]:
    return ran.status, ran.err.partition("\n")[0].removeprefix("rmqadmin: error: ")


def test_what_cannot_be(call: Rmqadmin, admin: AdminClient, pair: ApachePair, tmp_path: Path) -> None:
    assert call("updateStaticTopic", "-t", "FewStatic", "-qn", "2", "-b", "broker-a").status == 0
    admin.create_topic(pair[0].broker_addr, TopicConfig(topic_name="PlainTopic"))
    (tmp_path / "none.after").write_text("{")
    for args, status, text in (
        (("-t", "FewStatic", "-qn", "1", "-b", "broker-a"), 1, "Cannot decrease the queue num for static topic 1 < 2"),
        (("-t", "FewStatic", "-qn", "2", "-b", "no-broker"), 5, "there is no broker no-broker"),
        (("-t", "FewStatic", "-qn", "2", "-c", "no-cluster"), 5, "there is no cluster no-cluster"),
        (
            ("-t", "FewStatic", "-qn", "100001", "-b", "broker-a"),
            2,
            "Invalid value for '-qn' / '--totalQueueNum': 100001 is not in the range 1<=x<=100000.",
        ),
        (("-t", "FewStatic", "-b", "broker-a"), 2, "Missing required options: -qn/--totalQueueNum"),
        (("-t", "PlainTopic", "-qn", "2", "-b", "broker-a"), 1, "Mapping info should not be null in broker broker-a"),
        (
            ("-t", "FewStatic", "-qn", "2", "-b", "broker-a", "-c", "DefaultCluster"),
            2,
            "The option 'c' was specified but an option from this group has already been selected: 'b'",
        ),
    ):
        assert refused(call("updateStaticTopic", *args)) == (status, text)
    found = refused(call("remappingStaticTopic", "-t", "NoSuchTopic", "-b", "broker-a"))
    assert found == (5, "No topic route to do the remapping")
    for name, text in (("none.after", "is not a mapping of a static topic"), ("missing", "cannot read")):
        ran = call("remappingStaticTopic", "-t", "FewStatic", "-b", "broker-a", "-mf", str(tmp_path / name))
        assert text in ran.err
