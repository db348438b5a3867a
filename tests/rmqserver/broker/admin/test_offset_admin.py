"""Committed offsets, as tools and replicas read and change them."""

import pytest

from rmqproto.bodies.statistics import ConsumerOffsetsBody, CorrectionOffsets, DelayOffsets
from rmqproto.codes import RequestCode as R
from rmqproto.headers.tables import CloneGroupOffsetHeader, CorrectionOffsetHeader
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.broker.admin.offset_admin import NEVER
from tests.rmqserver.broker.golden_play import loosened, play
from tests.rmqserver.broker.golden_state import (
    commit,
    configure,
    consume,
    create_group,
    create_topic,
    fill,
    ok,
    send,
    subscription,
)
from tests.rmqserver.broker.messaging import pull
from tests.support.golden import Exchange, exchange, exchanges, said
from tests.support.servers import Server
from tests.support.wire import Wire

ALL_OFFSETS = "43-GET_ALL_CONSUMER_OFFSET"


@pytest.fixture(scope="module", autouse=True)
def before_and_after(admin: Wire) -> None:
    """One recording is of a broker without offsets, so it is played before any are committed."""
    play(admin, f"{ALL_OFFSETS}/03", "timestamp")
    create_topic(admin, "NormalTopic")
    fill(admin, "NormalTopic", (4, 4, 3, 4))
    for group in ("NormalGroup", "SqlGroup", "PullGroup"):
        create_group(admin, group)
        commit(admin, group, "NormalTopic", (0,) * 4 if group == "SqlGroup" else (4, 4, 3, 4))


def offsets(admin: Wire) -> ConsumerOffsetsBody:
    return loads_untrusted(ok(admin.ask(R.GET_ALL_CONSUMER_OFFSET)).body, ConsumerOffsetsBody)


def correction(admin: Wire, topic: str, compare_group: str, filter_groups: str = "") -> dict[int, int]:
    header = CorrectionOffsetHeader(topic=topic, compare_group=compare_group, filter_groups=filter_groups)
    return loads_untrusted(ok(admin.ask(R.QUERY_CORRECTION_OFFSET, header)).body, CorrectionOffsets).correction_offsets


def test_who_reads_a_topic_as_apache_tells_it(admin: Wire) -> None:
    play(admin, "300-QUERY_TOPIC_CONSUME_BY_WHO/01")
    commit(admin, "CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", [0])
    play(admin, "300-QUERY_TOPIC_CONSUME_BY_WHO/03")
    create_group(admin, "NoSuchGroup")
    commit(admin, "NoSuchGroup", "NormalTopic", [4])
    play(admin, "300-QUERY_TOPIC_CONSUME_BY_WHO/02")


def test_who_subscribes_reads_even_without_offsets(admin: Wire, client: Wire) -> None:
    consume(client, "JustThere", subscription("Fresh"))
    assert ok(admin.ask(R.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "Fresh"})).body == b'{"groupList":["JustThere"]}'


def test_topics_of_a_group_as_apache_tells_them(admin: Wire, golden_server: Server) -> None:
    ours = play(admin, "343-QUERY_TOPICS_BY_CONSUMER/01", "brokerAddr")
    assert ours["body"]["brokerAddr"] == golden_server.broker_addr
    create_group(admin, "Retrying")
    create_topic(admin, "%RETRY%NormalGroup", 1)
    commit(admin, "NormalGroup", "%RETRY%NormalGroup", [0])
    play(admin, "343-QUERY_TOPICS_BY_CONSUMER/02", "brokerAddr")


def test_subscriptions_as_apache_tells_them(admin: Wire, client: Wire) -> None:
    for each in exchanges(345):
        play(admin, each.name)
    consume(client, "NormalGroup", subscription("NormalTopic", ["TagA"]))
    ours = said(admin.exchange(exchange("345-QUERY_SUBSCRIPTION_BY_CONSUMER/01").request))
    assert ours["body"]["subscriptionData"]["tagsSet"] == ["TagA"]


@pytest.mark.parametrize(
    ("kind", "expression", "shown"),
    [
        (
            None,
            " B || A ",
            {"tagsSet": ["A", "B"], "codeSet": [65, 66], "expressionType": "TAG", "subString": " B || A "},
        ),
        ("TAG", "", {"tagsSet": [], "codeSet": [], "expressionType": "TAG", "subString": "*"}),
        ("FOO", "x", {"tagsSet": [], "codeSet": [], "expressionType": "FOO", "subString": "x"}),
    ],
)
def test_a_group_that_only_pulls_has_the_subscription_of_its_last_pull(
    admin: Wire, kind: str | None, expression: str, shown: dict[str, object]
) -> None:
    """As Apache's broker showed it, with enablePropertyFilter=true, of the same pulls."""
    ok(admin.ask(R.UPDATE_BROKER_CONFIG, body=b"enablePropertyFilter=true"))
    pull(admin, "NormalTopic", group="OnlyPulls", expression=expression, expression_type=kind)
    answer = ok(admin.ask(R.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "OnlyPulls", "topic": "NormalTopic"}))
    ours = said(answer)["body"]["subscriptionData"]
    assert ours.pop("subVersion") > 1_700_000_000_000
    assert ours == {"classFilterMode": False, "topic": "NormalTopic", **shown}


def test_a_heartbeat_tells_more_than_a_pull(admin: Wire, client: Wire) -> None:
    pull(admin, "NormalTopic", group="PullsFirst", expression="TagA")
    consume(client, "PullsFirst", subscription("NormalTopic", ["TagB"]))
    pull(admin, "NormalTopic", group="PullsFirst", expression="TagC")
    answer = ok(admin.ask(R.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "PullsFirst", "topic": "NormalTopic"}))
    assert said(answer)["body"]["subscriptionData"]["tagsSet"] == ["TagB"]


# --- cloning and correcting ------------------------------------------------------------------------------------------


def test_cloning_as_apache_does(admin: Wire) -> None:
    for each in exchanges(314):
        play(admin, each.name)
    assert offsets(admin).offset_table["NormalTopic@ClonedGroup"] == {0: 4, 1: 4, 2: 3, 3: 4}


def test_cloning_without_a_topic_clones_all(admin: Wire) -> None:
    """Apache's broker walks through the topics, answers success, and copies nothing."""
    create_group(admin, "Source")
    for topic in ("CloneA", "CloneB"):
        create_topic(admin, topic, 1)
        commit(admin, "Source", topic, [7])
    ok(admin.ask(R.CLONE_GROUP_OFFSET, CloneGroupOffsetHeader(src_group="Source", dest_group="Copy")))
    table = offsets(admin).offset_table
    assert (table["CloneA@Copy"], table["CloneB@Copy"]) == ({0: 7}, {0: 7})


def test_what_the_online_source_left_is_cloned_only_offline(admin: Wire, client: Wire) -> None:
    create_group(admin, "Leaver")
    create_topic(admin, "OldTopic", 1)
    commit(admin, "Leaver", "OldTopic", [7])
    consume(client, "Leaver", subscription("NormalTopic"))
    header = CloneGroupOffsetHeader(src_group="Leaver", dest_group="LeaverCopy", topic="OldTopic")
    ok(admin.ask(R.CLONE_GROUP_OFFSET, header))
    assert "OldTopic@LeaverCopy" not in offsets(admin).offset_table
    header.offline = True
    ok(admin.ask(R.CLONE_GROUP_OFFSET, header))
    assert offsets(admin).offset_table["OldTopic@LeaverCopy"] == {0: 7}


def test_correcting_as_apache_does(admin: Wire) -> None:
    for each in exchanges(308):
        play(admin, each.name)


def test_correction_leaves_out_the_groups_that_are_named(admin: Wire) -> None:
    create_topic(admin, "Compared", 2)
    for group, queue_offsets in (("Slow", (1, 2)), ("Fast", (8, 9)), ("Between", (5, 1))):
        create_group(admin, group)
        commit(admin, group, "Compared", queue_offsets)
    assert correction(admin, "Compared", "Fast") == {0: 1, 1: 1}
    assert correction(admin, "Compared", "Fast", "Slow,Between") == {0: 8, 1: 9}
    assert correction(admin, "Compared", "Slow", "Slow,Between") == {0: NEVER, 1: NEVER}
    ext = ok(admin.ask(R.QUERY_CORRECTION_OFFSET, {"topic": "Compared"})).body
    assert loads_untrusted(ext, CorrectionOffsets).correction_offsets == {0: 1, 1: 1}, "no group is compared"
    assert "Compared@Slow" in offsets(admin).offset_table, "Apache's broker forgets the groups that it leaves out"


# --- whole tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", exchanges(43), ids=lambda each: each.name)
def test_the_table_of_offsets_has_apaches_members(admin: Wire, each: Exchange) -> None:
    ours, theirs = said(admin.exchange(each.request)), said(each.answer)
    assert ours["body"].keys() == theirs["body"].keys()
    assert ours["body"]["offsetTable"]["NormalTopic@NormalGroup"] == {"0": 4, "1": 4, "2": 3, "3": 4}
    assert ours["body"]["groupTopicMap"]["PullGroup"] == ["NormalTopic"]
    assert isinstance(ours["body"]["pullOffsetTable"], dict)


@pytest.mark.parametrize("each", exchanges(45), ids=lambda each: each.name)
def test_the_table_of_delays_has_apaches_shape(admin: Wire, each: Exchange) -> None:
    play(admin, each.name, "timestamp", "counter", "offsetTable")


def test_a_delivered_delay_shows_in_the_table(admin: Wire) -> None:
    configure(admin, messageDelayLevel="0s 5s")
    send(admin, "NormalTopic", 0, {"DELAY": "1"})
    table: dict[int, int] = {}
    while not table.get(1):  # until the delay service has delivered
        table = loads_untrusted(ok(admin.ask(R.GET_ALL_DELAY_OFFSET)).body, DelayOffsets).offset_table
    assert table[1] == 1


def test_loosened_tables_are_still_told_apart() -> None:
    """Tests the comparison itself: order does not matter, values do."""
    assert loosened({"groupList": ["b", "a"]}, ()) == loosened({"groupList": ["a", "b"]}, ())
    assert loosened({"a": 1}, ()) != loosened({"a": 2}, ())
    assert loosened({"a": 1}, ("a",)) == loosened({"a": 2}, ("a",))
