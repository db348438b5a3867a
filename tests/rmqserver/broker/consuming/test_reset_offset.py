"""Resetting a group's offsets, in the broker and in its clients."""

import time

import pytest

from rmqproto.bodies.statistics import ConsumeStats, ResetOffsets, ResetOffsetsForCpp
from rmqproto.codes import ONEWAY_FLAG, ResponseCode
from rmqproto.codes import RequestCode as R
from rmqproto.headers.consuming import QueryConsumerOffsetHeader, ResetOffsetHeader
from rmqproto.wire.command import Command, decode_frame_untrusted, encode_frame
from rmqproto.wire.fastjson import loads_untrusted
from tests.rmqserver.broker.golden_play import loosened, play
from tests.rmqserver.broker.golden_state import (
    commit,
    configured,
    consume,
    create_group,
    create_topic,
    fill,
    ok,
    subscription,
)
from tests.rmqserver.broker.messaging import pull
from tests.support.golden import exchange, exchanges, said
from tests.support.wire import Wire

RESET = "222-INVOKE_BROKER_TO_RESET_OFFSET"
A_DAY_MS = 86_400_000


@pytest.fixture(scope="module", autouse=True)
def filled(admin: Wire) -> None:
    create_topic(admin, "NormalTopic", attributes="+message.type=NORMAL")
    fill(admin, "NormalTopic", (4, 4, 4, 4))
    for group in ("SqlGroup", "NormalGroup", "ClonedAdminGroup"):
        create_group(admin, group)


def committed(admin: Wire, group: str, topic: str, queue_id: int) -> int:
    header = QueryConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id)
    return int(ok(admin.ask(R.QUERY_CONSUMER_OFFSET, header)).ext["offset"])


def offsets_of(answer: Command) -> list[int]:
    table = loads_untrusted(ok(answer).body, ResetOffsets).offset_table
    return [table[queue] for queue in sorted(table)]


# --- in the broker ---------------------------------------------------------------------------------------------------


def test_the_broker_moves_a_group_as_apache_does(admin: Wire) -> None:
    """All recorded times lie before the messages here, so that of 06 is replaced by a later one."""
    play(admin, f"{RESET}/04")
    play(admin, f"{RESET}/05")
    play(admin, f"{RESET}/07")
    golden = exchange(f"{RESET}/06")
    asking = decode_frame_untrusted(golden.request)
    asking.ext["timestamp"] = str(time.time_ns() // 1_000_000 + A_DAY_MS)
    ours = said(admin.exchange(encode_frame(asking)))
    assert loosened(ours, ()) == loosened(said(golden.answer), ())


def test_an_unknown_group_is_not_made_by_a_reset(admin: Wire) -> None:
    header = ResetOffsetHeader(topic="NormalTopic", group="NotThere", timestamp=0)
    answer = admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)
    assert (answer.code, answer.remark) == (26, "Group NotThere does not exist")


def test_a_negative_time_is_the_end_and_the_stored_offset_follows(admin: Wire) -> None:
    header = ResetOffsetHeader(topic="NormalTopic", group="NormalGroup", timestamp=-1)
    assert offsets_of(admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)) == [4, 4, 4, 4]
    assert committed(admin, "NormalGroup", "NormalTopic", 2) == 4


@pytest.mark.parametrize(("queue_offset", "is_possible"), [(0, True), (4, True), (5, True), (6, False)])
def test_one_queue_goes_where_it_is_told(admin: Wire, queue_offset: int, is_possible: bool) -> None:
    """One past the end is allowed, as in Apache's broker."""
    header = ResetOffsetHeader(topic="NormalTopic", group="SqlGroup", timestamp=0, queue_id=1, offset=queue_offset)
    answer = admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)
    if is_possible:
        assert offsets_of(answer) == [queue_offset]
        assert committed(admin, "SqlGroup", "NormalTopic", 1) == queue_offset
    else:
        assert answer.remark == f"Target offset {queue_offset} not in consume queue range [0-4]"


def test_the_pull_offset_goes_back_with_the_group(admin: Wire) -> None:
    """208 would show the lag as it was before the reset until the group has pulled again."""
    create_topic(admin, "PulledTopic", queues=1)
    fill(admin, "PulledTopic", (3,))
    create_group(admin, "PulledGroup")
    ok(pull(admin, "PulledTopic", group="PulledGroup"))
    header = ResetOffsetHeader(topic="PulledTopic", group="PulledGroup", timestamp=0, queue_id=0, offset=1)
    ok(admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header))
    assert pull(admin, "PulledTopic", 0, 3, group="PulledGroup").code == ResponseCode.PULL_OFFSET_MOVED
    stats = loads_untrusted(ok(admin.ask(R.GET_CONSUME_STATS, {"consumerGroup": "PulledGroup"})).body, ConsumeStats)
    assert [offset.pull_offset for offset in stats.offset_table.values()] == [1]


def test_a_topic_without_queues_to_read_is_refused(admin: Wire) -> None:
    create_topic(admin, "WriteOnly", 0)
    header = ResetOffsetHeader(topic="WriteOnly", group="SqlGroup", timestamp=0)
    answer = admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "No queues to reset.")


# --- in the clients --------------------------------------------------------------------------------------------------


@pytest.fixture
def pushing(admin: Wire) -> object:
    with configured(admin, useServerSideResetOffset="false"):
        yield


def pushed(client: Wire) -> Command:
    while True:
        request = client.receive()
        if request.code != R.NOTIFY_CONSUMER_IDS_CHANGED:
            assert (request.code, request.flag) == (R.RESET_CONSUMER_CLIENT_OFFSET, ONEWAY_FLAG)
            return request


@pytest.mark.usefixtures("pushing")
def test_the_clients_move_as_apache_tells_them(admin: Wire, client: Wire) -> None:
    commit(admin, "SqlGroup", "NormalTopic", [4, 4, 4, 4])
    consume(client, "SqlGroup", subscription("NormalTopic"))
    play(admin, f"{RESET}/01")
    golden = decode_frame_untrusted(exchange("220-RESET_CONSUMER_CLIENT_OFFSET/01").request)
    assert loosened(said(pushed(client)), ()) == loosened(said(golden), ())


@pytest.mark.usefixtures("pushing")
def test_clients_cannot_be_told_what_is_not_there(admin: Wire) -> None:
    play(admin, f"{RESET}/02")
    play(admin, f"{RESET}/03")


@pytest.mark.usefixtures("pushing")
def test_nobody_is_online_to_be_told(admin: Wire) -> None:
    commit(admin, "ClonedAdminGroup", "NormalTopic", [1, 1, 1, 1])
    header = ResetOffsetHeader(topic="NormalTopic", group="ClonedAdminGroup", timestamp=5)
    answer = admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)
    assert (answer.code, answer.remark) == (
        ResponseCode.CONSUMER_NOT_ONLINE,
        "Consumer not online, so can not reset offset, Group: ClonedAdminGroup Topic: NormalTopic Timestamp: 5",
    )


@pytest.mark.usefixtures("pushing")
def test_without_force_no_group_is_moved_forward(admin: Wire, client: Wire) -> None:
    create_group(admin, "Behind")
    commit(admin, "Behind", "NormalTopic", [1, 4, 0, 2])
    consume(client, "Behind", subscription("NormalTopic"))
    header = ResetOffsetHeader(topic="NormalTopic", group="Behind", timestamp=-1)
    assert offsets_of(admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)) == [1, 4, 0, 2]
    header.is_force = True
    assert offsets_of(admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header)) == [4, 4, 4, 4]


@pytest.mark.usefixtures("pushing")
def test_a_cpp_tool_has_its_clients_told_in_a_list(admin: Wire, client: Wire) -> None:
    """The C++ client cannot read a map with object keys."""
    create_group(admin, "Cpp")
    commit(admin, "Cpp", "NormalTopic", [4, 4, 4, 4])
    consume(client, "Cpp", subscription("NormalTopic"))
    header = ResetOffsetHeader(topic="NormalTopic", group="Cpp", timestamp=0, is_force=True)
    ok(admin.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, header, language="CPP"))
    table = loads_untrusted(pushed(client).body, ResetOffsetsForCpp).offset_table
    assert [(each.queue_id, each.offset) for each in table] == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_every_exchange_of_these_codes_is_played() -> None:
    assert [len(exchanges(code)) for code in (220, 222)] == [1, 7]
