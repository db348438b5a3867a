"""How far consumers are behind, as tools see it."""

import pytest

from rmqproto.bodies.statistics import ConsumeStats, ConsumeStatsList, QueueTimeSpans
from rmqproto.codes import RequestCode as R
from rmqproto.headers.consuming import TopicGroupHeader
from rmqproto.headers.tables import BrokerConsumeStatsHeader, ConsumeStatsHeader
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.broker.admin.offset_admin import time_text
from tests.rmqserver.broker.golden_play import loosened, play
from tests.rmqserver.broker.golden_state import commit, consume, create_group, create_topic, fill, ok, subscription
from tests.rmqserver.broker.messaging import pull
from tests.support.golden import Exchange, exchanges, said
from tests.support.wire import Wire

STATS = "208-GET_CONSUME_STATS"
BROKER_STATS = "317-GET_BROKER_CONSUME_STATS"
SPAN = "303-QUERY_CONSUME_TIME_SPAN"


@pytest.fixture(scope="module", autouse=True)
def consumed(admin: Wire) -> None:
    """Two groups that have read everything."""
    for topic, group, counts in (("NormalTopic", "NormalGroup", (4, 4, 3, 4)), ("OrderTopic", "OrderGroup", (4,) * 4)):
        create_topic(admin, topic, order=topic == "OrderTopic")
        create_group(admin, group)
        fill(admin, topic, counts)
        commit(admin, group, topic, counts)
    create_group(admin, "LitePullGroup")
    commit(admin, "LitePullGroup", "OrderTopic", (4,) * 4)


def broker_stats(admin: Wire, *, is_order: bool) -> ConsumeStatsList:
    answer = ok(admin.ask(R.GET_BROKER_CONSUME_STATS, BrokerConsumeStatsHeader(is_order=is_order)))
    return loads_untrusted(answer.body, ConsumeStatsList)


def stats(admin: Wire, group: str, topic: str | None = None, topic_list: str | None = None) -> ConsumeStats:
    header = ConsumeStatsHeader(consumer_group=group, topic=topic, topic_list=topic_list)
    return loads_untrusted(ok(admin.ask(R.GET_CONSUME_STATS, header)).body, ConsumeStats)


def test_a_group_as_apache_shows_it(admin: Wire) -> None:
    play(admin, f"{STATS}/01", "lastTimestamp")
    play(admin, f"{STATS}/03", "lastTimestamp")
    play(admin, f"{STATS}/04", "lastTimestamp", "brokerOffset", "consumerOffset", "pullOffset")


def test_a_retry_topic_shows_with_the_group(admin: Wire) -> None:
    create_topic(admin, "%RETRY%NormalGroup", 1)
    commit(admin, "NormalGroup", "%RETRY%NormalGroup", [0])
    play(admin, f"{STATS}/02", "lastTimestamp")


def test_a_group_that_left_a_topic_does_not_show_it(admin: Wire, client: Wire) -> None:
    """Its old offsets are still there, and would show as a lag that never ends."""
    create_topic(admin, "LeftTopic", 1)
    commit(admin, "OrderGroup", "LeftTopic", [0])
    assert {queue.topic for queue in stats(admin, "OrderGroup").offset_table} == {"OrderTopic", "LeftTopic"}
    consume(client, "OrderGroup", subscription("OrderTopic"))
    assert {queue.topic for queue in stats(admin, "OrderGroup").offset_table} == {"OrderTopic"}


def test_a_group_that_still_pulls_a_topic_shows_it(admin: Wire, client: Wire) -> None:
    """Though its heartbeats name only another one, as at Apache's broker."""
    create_topic(admin, "PulledTopic", 1)
    create_group(admin, "AlsoPulls")
    commit(admin, "AlsoPulls", "PulledTopic", [0])
    consume(client, "AlsoPulls", subscription("NormalTopic"))
    assert not stats(admin, "AlsoPulls").offset_table
    pull(admin, "PulledTopic", group="AlsoPulls")
    assert [queue.topic for queue in stats(admin, "AlsoPulls").offset_table] == ["PulledTopic"]


def test_topics_can_be_listed(admin: Wire) -> None:
    found = stats(admin, "NormalGroup", topic_list="OrderTopic;NoSuchTopic")
    assert {queue.topic for queue in found.offset_table} == {"OrderTopic"}
    assert {each.consumer_offset for each in found.offset_table.values()} == {0}


def test_an_unknown_group_is_an_empty_answer(admin: Wire) -> None:
    assert not stats(admin, "NoSuchGroup").offset_table


@pytest.mark.parametrize("each", exchanges(317), ids=lambda each: each.name)
def test_all_groups_have_the_shape_apache_gives_them(admin: Wire, each: Exchange) -> None:
    ours, theirs = said(admin.exchange(each.request))["body"], said(each.answer)["body"]
    assert ours.keys() == theirs.keys()

    def topic_of(body: dict, group: str, topic: str) -> object:  # type: ignore[type-arg]
        found = next(item[group] for item in body["consumeStatsList"] if group in item)
        return next(stats for stats in found if stats["offsetTable"][0][0]["topic"] == topic)

    for group in ("OrderGroup", "LitePullGroup"):
        wanted = loosened(topic_of(theirs, group, "OrderTopic"), ("lastTimestamp",))
        assert loosened(topic_of(ours, group, "OrderTopic"), ("lastTimestamp",)) == wanted
    assert {"SELF_TEST_C_GROUP": []} in ours["consumeStatsList"]


def test_totals_are_over_all_groups(admin: Wire) -> None:
    create_group(admin, "LateGroup")
    before = broker_stats(admin, is_order=False).total_diff
    commit(admin, "LateGroup", "OrderTopic", [1, 2, 3, 4])
    assert broker_stats(admin, is_order=False).total_diff - before == 3 + 2 + 1


def test_ordered_topics_alone(admin: Wire) -> None:
    found = broker_stats(admin, is_order=True)
    topics = {
        queue.topic
        for item in found.consume_stats_list
        for listed in item.values()
        for each in listed
        for queue in each.offset_table
    }
    assert topics == {"OrderTopic"}


# --- times -----------------------------------------------------------------------------------------------------------


def test_times_as_apache_shows_them(admin: Wire) -> None:
    times = [f"{kind}TimeStamp{text}" for kind in ("min", "max", "consume") for text in ("", "Str")]
    play(admin, f"{SPAN}/01", *times)
    play(admin, f"{SPAN}/03", *times)
    play(admin, f"{SPAN}/02")
    play(admin, f"{SPAN}/04")


def test_a_group_behind_shows_how_old_its_next_message_is(admin: Wire) -> None:
    header = TopicGroupHeader(topic="NormalTopic", group="NeverSeen")
    spans = loads_untrusted(ok(admin.ask(R.QUERY_CONSUME_TIME_SPAN, header)).body, QueueTimeSpans).consume_time_span_set
    assert len(spans) == 4
    for span in spans:
        assert span.delay_time >= span.max_time_stamp - span.min_time_stamp >= 0
        assert span.consume_time_stamp == span.min_time_stamp
        assert span.min_time_stamp_str == time_text(span.min_time_stamp)


def test_an_empty_queue_has_no_times(admin: Wire) -> None:
    create_topic(admin, "EmptyTopic", 1)
    header = TopicGroupHeader(topic="EmptyTopic", group="NormalGroup")
    span = loads_untrusted(ok(admin.ask(R.QUERY_CONSUME_TIME_SPAN, header)).body, QueueTimeSpans).consume_time_span_set[
        0
    ]
    assert (span.min_time_stamp, span.max_time_stamp, span.consume_time_stamp, span.delay_time) == (-1, -1, -1, 0)


def test_times_are_written_as_java_does() -> None:
    assert time_text(1_795_264_718_208).endswith(":208")
    assert time_text(1_795_264_718_008)[10] == "#"
    assert len(time_text(-1)) == len("2026-11-21#12:38:38:208")
