"""The commands whose classes are in Apache's release but which its mqadmin does not list: ``consumer``,
``DecodeMessageId``, ``getConsumerStatus`` and ``resetOffsetByTimeOld``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqadmin.commands.client.consumer import Members
from rmqadmin.commands.client.get_consumer_status import ClientOffsets
from rmqadmin.commands.message.decode_message_id import DecodedId
from rmqadmin.commands.offset.reset_offset_by_time_old import WrittenOffsets
from rmqadmin.core.groups.client_answers import ClientAnswer
from rmqadmin.core.offsets.reset import QueueReset
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, ConsumerData, Heartbeat, SubscriptionData
from rmqproto.bodies.routes import TopicConfig
from rmqproto.bodies.statistics import ConsumerRunningInfo, ProcessQueueInfo
from rmqproto.message.message_id import parse_unique_id_untrusted
from rmqproto.wire.fastjson import ObjectMap
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, golden
from tests.support.consumer import TalkingConsumer
from tests.support.servers import Server

CLIENT_ID = "10.0.0.7@4711"
QUEUES = [MessageQueue("NormalTopic", "broker-a", queue_id) for queue_id in range(4)]
MINUTES_AGO, END = "2026-01-01#00:00:00:000", "-1"


# --- in Apache's words -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("utc")
def test_the_text_of_decode_message_id() -> None:
    recorded_ms = 1_795_435_200_000  # 2026-11-23
    text = "7F000001000018B4AAC20000000A0000"
    shown = DecodedId(text, parse_unique_id_untrusted(text, recorded_ms))
    assert shown.mqadmin_text() == golden("DecodeMessageId", "ok")


def test_the_text_of_consumer() -> None:
    answer = ClientAnswer(ClientConnection(client_addr="h:1", client_id=CLIENT_ID, version=513), ConsumerRunningInfo())
    assert Members([answer], 1_795_435_374_278).mqadmin_text() == golden("consumer", "ok")


def test_the_text_of_get_consumer_status() -> None:
    title = "group=TalkGroup, topic=NormalTopic, originClientId="
    offsets = {CLIENT_ID: {queue: queue.queue_id + 1 for queue in QUEUES}}
    assert ClientOffsets(title, offsets).mqadmin_text() == golden("getConsumerStatus", "ok")


@pytest.mark.parametrize("case", ["ok", "not-forced", "no-offsets"])
def test_the_text_of_reset_offset_by_time_old(case: str) -> None:
    text = golden("resetOffsetByTimeOld", case)
    head, _, *lines = text.splitlines()
    rows = sorted([int(cell) for cell in line.split()[1:]] for line in lines)
    shown = WrittenOffsets(
        "NormalGroup",
        "NormalTopic",
        [
            QueueReset(queue, "h:1", 0, end, None if case == "no-offsets" else old, new)
            for queue, (_, end, old, _, new) in zip(QUEUES, rows, strict=True)
        ],
        mqadmin_head=head,
        offsets_by_time={queue: row[3] for queue, row in zip(QUEUES, rows, strict=True)},
    )
    assert shown.mqadmin_text() == text


# --- on a server -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def names(server: Server, fresh: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """A topic of two queues with three messages each, and a group whose one client is at offsets 5 and 6."""
    topic, group = fresh("UnlistedTopic"), fresh("UnlistedGroup")
    queues = [MessageQueue(topic, "broker-a", queue_id) for queue_id in range(2)]
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2))
        for queue in queues * 3:
            admin.send_message(server.broker_addr, queue, Message(topic, b"x"))
    states = {queue: ProcessQueueInfo(commit_offset=5 + queue.queue_id) for queue in queues}
    wanted = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=topic)])
    beat = Heartbeat(client_id=CLIENT_ID, consumer_data_set=[wanted])
    with TalkingConsumer(server.broker_addr, beat, ConsumerRunningInfo(mq_table=ObjectMap(states))):
        yield topic, group


def test_clients_are_asked_for_their_own_offsets(rmqadmin: Rmqadmin, names: tuple[str, str]) -> None:
    topic, group = names
    command = ("-o", "json", "getConsumerStatus", "-t", topic, "-g")
    rows = rmqadmin(*command, group).items
    assert [(row["client_id"], row["queue_id"], row["consumer_offset"]) for row in rows] == [
        (CLIENT_ID, 0, 5),
        (CLIENT_ID, 1, 6),
    ]
    assert rmqadmin(*command, group, "-i", CLIENT_ID).items == rows
    unknown = rmqadmin(*command, group, "-i", "nobody")
    assert (unknown.status, f"It has: {CLIENT_ID}." in unknown.err) == (5, True)
    offline = rmqadmin(*command, f"{group}Offline")
    assert (offline.status, f"no client of the group {group}Offline is online" in offline.err) == (5, True)


def test_consumer_says_what_consumer_status_says(
    rmqadmin: Rmqadmin, names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, group = names
    rows = rmqadmin("-o", "json", "CONSUMER", "-g", group).items
    assert rows == rmqadmin("-o", "json", "consumerStatus", "-g", group).items
    assert [row["client_id"] for row in rows] == [CLIENT_ID]
    text = rmqadmin("consumer", "-g", group, "--output", "mqadmin").out
    (path,) = tmp_path.glob(f"*/{CLIENT_ID}")
    assert text.splitlines()[0].endswith(str(path.relative_to(tmp_path)))


def test_an_old_reset_writes_the_offsets_of_groups_that_are_online_too_and_says_so(
    rmqadmin: Rmqadmin, names: tuple[str, str]
) -> None:
    """With ``resetOffsetByTime``, the broker makes the members follow."""
    topic, group = names
    command = ("-o", "json", "resetOffsetByTimeOld", "-g", group, "-t", topic, "-s")
    planned = rmqadmin(*command, END, "--dry-run")
    assert [(row["old_offset"], row["new_offset"], row["done"]) for row in planned.items] == [(None, 3, False)] * 2
    assert f"members of {group} are online" in planned.err
    assert [(row["new_offset"], row["done"]) for row in rmqadmin(*command, END).items] == [(3, True)] * 2
    back = rmqadmin(*command, MINUTES_AGO).items
    assert [(row["old_offset"], row["new_offset"], row["done"]) for row in back] == [(3, 0, True)] * 2


def test_an_old_reset_that_is_not_forced_only_goes_back(
    rmqadmin: Rmqadmin, names: tuple[str, str], fresh: Callable[[str], str]
) -> None:
    topic, _ = names
    group = fresh("UnlistedOffline")
    command = ("resetOffsetByTimeOld", "-g", group, "-t", topic, "-s")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group).status == 0
    assert rmqadmin(*command, END, "-f", "FALSE").status == 0
    assert [row["consumer_offset"] for row in rmqadmin("-o", "json", "consumerProgress", "-g", group).items] == [0, 0]
    ran = rmqadmin(*command, END, "-o", "json")
    assert "online" not in ran.err
    assert [row["new_offset"] for row in ran.items] == [3, 3]
    forward = rmqadmin(*command, END, "--force=false", "-o", "json").items
    assert [(row["old_offset"], row["new_offset"]) for row in forward] == [(3, 3)] * 2


def test_an_old_reset_that_does_not_count_is_an_error(
    rmqadmin: Rmqadmin, names: tuple[str, str], fresh: Callable[[str], str]
) -> None:
    """A broker keeps the offset of ``resetOffsetByTime`` until a member hears of it. mqadmin reports success."""
    topic, _ = names
    group = fresh("UnlistedWaiting")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group).status == 0
    assert rmqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", MINUTES_AGO).status == 0
    ran = rmqadmin("resetOffsetByTimeOld", "-g", group, "-t", topic, "-s", END)
    assert ran.status == 1
    assert "the broker says 0 afterwards: an earlier reset waits there for a member" in ran.err


def test_a_unique_key_says_who_made_it_and_what_is_none_is_an_error(rmqadmin: Rmqadmin) -> None:
    (row,) = rmqadmin("-o", "json", "DecodeMessageId", "-i", "0A00000712678B4AAC20000F42400010").items
    assert (row["client_addr"], row["process_id"], row["counter"]) == ("10.0.0.7", 0x1267, 16)
    for text in ("ORDER-1", "0A000007", ""):
        ran = rmqadmin("DecodeMessageId", "-i", text)
        assert (ran.status, ran.out) == (2, "")
        assert "is not a unique id" in ran.err
