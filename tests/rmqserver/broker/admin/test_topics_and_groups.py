"""Topics and consumer groups, for tools, as Apache's broker does it."""

from __future__ import annotations

import pytest

from rmqproto import names
from rmqproto.bodies.groups import GroupConfigList, SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.bodies.routes import TopicConfig, TopicConfigList, TopicConfigs, TopicList
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.nameserver import RouteHeader
from rmqproto.headers.tables import (
    AllTopicsHeader,
    DeleteGroupHeader,
    GroupForbiddenHeader,
    GroupHeader,
    TopicConfigHeader,
    TopicHeader,
)
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.fastjson import dumps, loads_untrusted
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import commit, configured, create_group, create_topic, fill, ok, send
from tests.support.golden import Exchange, exchanges, said
from tests.support.servers import Server, topic_config
from tests.support.wire import Wire


def topic(admin: Wire, name: str) -> TopicConfig:
    return loads_untrusted(ok(admin.ask(R.GET_TOPIC_CONFIG, TopicHeader(topic=name))).body, TopicConfig)


def all_topics(admin: Wire, header: AllTopicsHeader | None = None) -> TopicConfigs:
    return loads_untrusted(ok(admin.ask(R.GET_ALL_TOPIC_CONFIG, header)).body, TopicConfigs)


@pytest.mark.parametrize("each", exchanges(17) + exchanges(18), ids=lambda each: each.name)
def test_creating_as_apache_does(admin: Wire, each: Exchange) -> None:
    play(admin, each.name)


def test_a_bad_name_is_told_before_bad_attributes(admin: Wire) -> None:
    header = TopicConfigHeader(topic="a b", read_queue_nums=1, write_queue_nums=1, perm=6, attributes="x")
    answer = admin.ask(R.UPDATE_AND_CREATE_TOPIC, header)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "contains illegal characters" in (answer.remark or "")


def test_deleting_as_apache_does(admin: Wire) -> None:
    for each in exchanges(215):
        create_topic(admin, "DeletedTopic", 1)
        play(admin, each.name)
        is_deleted = b"DeletedTopic" in each.request
        answer = admin.ask(R.GET_TOPIC_CONFIG, TopicHeader(topic="DeletedTopic"))
        assert answer.code == (ResponseCode.TOPIC_NOT_EXIST if is_deleted else ResponseCode.SUCCESS)


def test_reading_one_as_apache_does(admin: Wire) -> None:
    create_topic(admin, "NormalTopic", attributes="+message.type=NORMAL")
    for each in exchanges(351):
        play(admin, each.name)


def test_queue_ends_as_apache_tells_them(admin: Wire) -> None:
    create_topic(admin, "NormalTopic", attributes="+message.type=NORMAL")
    fill(admin, "NormalTopic", (4, 4, 3, 4))
    for number in ("01", "02", "03", "04"):
        play(admin, f"202-GET_TOPIC_STATS_INFO/{number}", "lastUpdateTimestamp", "topicPutTps")
    play(admin, "202-GET_TOPIC_STATS_INFO/05", "lastUpdateTimestamp", "topicPutTps", "maxOffset")


def test_system_topics_as_apache_lists_them(admin: Wire) -> None:
    for each in exchanges(305):
        play(admin, each.name)


@pytest.mark.parametrize("each", exchanges(21), ids=lambda each: each.name)
def test_all_topics_have_the_system_topics_as_apache_makes_them(admin: Wire, each: Exchange) -> None:
    ours, theirs = said(admin.exchange(each.request)), said(each.answer)
    assert ours["body"].keys() == theirs["body"].keys()
    assert ours["ext"].keys() == theirs["ext"].keys()
    ours_table, their_table = ours["body"]["topicConfigTable"], theirs["body"]["topicConfigTable"]
    system = loads_untrusted(ok(admin.ask(R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body, TopicList).topic_list
    system.remove(names.TRANSACTION_CHECK_MAX_TIME_TOPIC)  # made when the broker first gives up a half message
    shared = [name for name in their_table if name in system]
    assert len(shared) >= 15
    assert {name: ours_table[name] for name in shared} == {name: their_table[name] for name in shared}


def test_pages_together_are_all_topics(admin: Wire) -> None:
    everything = all_topics(admin)
    found: dict[str, TopicConfig] = {}
    while len(found) < len(everything.topic_config_table):
        version = dumps(everything.data_version).decode()
        page = all_topics(admin, AllTopicsHeader(topic_seq=len(found), data_version=version, max_topic_num=5))
        assert 0 < len(page.topic_config_table) <= 5
        found |= page.topic_config_table
    assert found == everything.topic_config_table


def test_attributes_stay_when_a_request_does_not_speak_of_them(admin: Wire) -> None:
    create_topic(admin, "Attributed", attributes="+message.type=FIFO,+reserve.time=5")
    create_topic(admin, "Attributed", queues=7)
    assert topic(admin, "Attributed").attributes == {"message.type": "FIFO", "reserve.time": "5"}
    create_topic(admin, "Attributed", queues=7, attributes="-reserve.time")
    assert topic(admin, "Attributed").attributes == {"message.type": "FIFO"}


def test_a_topic_that_does_not_change_counts_no_change(admin: Wire) -> None:
    """Every change is registered with every nameserver, and scripts repeat their requests."""
    create_topic(admin, "Same", attributes="+message.type=FIFO")
    before = all_topics(admin).data_version
    create_topic(admin, "Same", attributes="+message.type=FIFO")
    assert all_topics(admin).data_version == before


def test_the_version_of_a_table_that_was_never_changed_is_its_own(admin: Wire) -> None:
    """If a broker came back with an empty table and its former version, its old routes would stay."""
    for code in (R.GET_ALL_TOPIC_CONFIG, R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, R.GET_ALL_CONSUMER_OFFSET):
        assert loads_untrusted(ok(admin.ask(code)).body, TopicConfigs).data_version.timestamp > 0


def test_a_oneway_creation_is_not_answered(admin: Wire) -> None:
    """The client would take the answer for that of the next request with the same number."""
    admin.tell(
        R.UPDATE_AND_CREATE_TOPIC, TopicConfigHeader(topic="Told", read_queue_nums=1, write_queue_nums=1, perm=6)
    )
    asking = Command(code=R.GET_TOPIC_CONFIG, opaque=77, ext={"topic": "Told"})
    assert ok(admin.exchange(encode_frame(asking))).opaque == 77


def test_a_list_with_one_bad_topic_creates_none(admin: Wire) -> None:
    body = dumps(TopicConfigList(topic_config_list=[TopicConfig(topic_name="Good"), TopicConfig(topic_name="Ba.d")]))
    assert admin.ask(R.UPDATE_AND_CREATE_TOPIC_LIST, body=body).code == ResponseCode.INVALID_PARAMETER
    assert admin.ask(R.GET_TOPIC_CONFIG, TopicHeader(topic="Good")).code == ResponseCode.TOPIC_NOT_EXIST


def test_a_list_with_a_topic_that_is_there_creates_the_others(admin: Wire) -> None:
    """Apache's broker stops at the first topic that would not change, says success and creates none of the others."""
    create_topic(admin, "There", 2)
    there = topic_config("There", 2)
    body = dumps(TopicConfigList(topic_config_list=[there, TopicConfig(topic_name="Another")]))
    ok(admin.ask(R.UPDATE_AND_CREATE_TOPIC_LIST, body=body))
    assert topic(admin, "Another").topic_name == "Another"


@pytest.mark.parametrize("queues", [-1, 16_385, 2**31 - 1])
def test_absurd_queue_counts_are_refused(admin: Wire, queues: int) -> None:
    """One request for a topic's stats would otherwise keep the broker busy for minutes."""
    header = TopicConfigHeader(topic="Wide", read_queue_nums=queues, write_queue_nums=4, perm=6)
    assert admin.ask(R.UPDATE_AND_CREATE_TOPIC, header).code == ResponseCode.INVALID_PARAMETER


def test_an_unknown_filter_type_is_refused(admin: Wire) -> None:
    header = TopicConfigHeader(topic="T", read_queue_nums=1, write_queue_nums=1, perm=6, topic_filter_type="X")
    answer = admin.ask(R.UPDATE_AND_CREATE_TOPIC, header)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "topicFilterType = [X] value invalid")


def test_the_route_of_a_new_topic_is_known_when_its_creation_is_answered(golden_server: Server, admin: Wire) -> None:
    """Every client asks for the route next, which would otherwise fail sometimes."""
    with Wire(golden_server.namesrv_addr) as namesrv:
        for number in range(5):
            create_topic(admin, f"Routed-{number}")
            ok(namesrv.ask(R.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic=f"Routed-{number}")))


def test_deleting_takes_offsets_queues_and_pop_retry_topics_along(admin: Wire) -> None:
    create_group(admin, "PopReaders")
    for name in ("Popped", "%RETRY%PopReaders_Popped"):
        create_topic(admin, name, 1)
    send(admin, "Popped", 0)
    commit(admin, "PopReaders", "Popped", [1])
    ok(admin.ask(R.DELETE_TOPIC_IN_BROKER, TopicHeader(topic="Popped")))
    assert not [name for name in all_topics(admin).topic_config_table if name.endswith("_Popped")]
    create_topic(admin, "Popped", 1)
    send(admin, "Popped", 0)
    assert ok(admin.ask(R.GET_MAX_OFFSET, {"topic": "Popped", "queueId": "0"})).ext == {"offset": "1"}
    assert ok(admin.ask(R.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic="Popped"))).body == b'{"groupList":[]}'


def test_a_blank_topic_is_not_deleted(admin: Wire) -> None:
    answer = admin.ask(R.DELETE_TOPIC_IN_BROKER, {"topic": " "})
    assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")


@pytest.mark.parametrize("name", ["broker-a", "DefaultCluster", names.SCHEDULE_TOPIC, "rmq_sys_anything"])
def test_system_topics_are_protected(admin: Wire, name: str) -> None:
    for code, header in (
        (R.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=name)),
        (R.UPDATE_AND_CREATE_TOPIC, TopicConfigHeader(topic=name, read_queue_nums=1, write_queue_nums=1, perm=6)),
    ):
        answer = admin.ask(code, header)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert answer.remark == f"The topic[{name}] is conflict with system topic."


def all_groups(admin: Wire) -> SubscriptionGroups:
    return loads_untrusted(ok(admin.ask(R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body, SubscriptionGroups)


@pytest.mark.parametrize("each", exchanges(200) + exchanges(225) + exchanges(352), ids=lambda each: each.name)
def test_creating_and_reading_as_apache_does(admin: Wire, each: Exchange) -> None:
    create_group(admin, "NormalGroup")
    play(admin, each.name)


def test_a_request_without_a_body_makes_nothing_and_succeeds_as_at_apache(admin: Wire) -> None:
    """A Go library for administrators puts the settings into ext fields, and goes on by asking for the group."""
    assert admin.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, GroupHeader(group="NoBodyGroup")).code == 0
    assert "NoBodyGroup" not in all_groups(admin).subscription_group_table
    ok(admin.ask(R.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group="NoBodyGroup")))
    assert "NoBodyGroup" in all_groups(admin).subscription_group_table


def test_a_lite_group_is_kept_as_apache_keeps_it(admin: Wire) -> None:
    play(admin, "200-UPDATE_AND_CREATE_SUBSCRIPTIONGROUP/03")
    assert all_groups(admin).subscription_group_table["LiteGroup"].attributes == {"lite.bind.topic": "LiteTopic"}


def test_deleting_groups_as_apache_does(admin: Wire) -> None:
    create_group(admin, "UnusedGroup")
    for each in exchanges(207):
        play(admin, each.name)
    assert "UnusedGroup" not in all_groups(admin).subscription_group_table


@pytest.mark.parametrize("each", exchanges(201), ids=lambda each: each.name)
def test_all_groups_have_the_system_groups_as_apache_makes_them(admin: Wire, each: Exchange) -> None:
    create_group(admin, "BroadcastGroup")
    if each.name.endswith(("/03", "/06")):  # a page of two groups
        play(admin, each.name, "dataVersion", "totalGroupNum")
        return
    ours, theirs = said(admin.exchange(each.request)), said(each.answer)
    assert ours["body"].keys() == theirs["body"].keys()
    assert ours["ext"].keys() == theirs["ext"].keys()
    ours_table, their_table = ours["body"]["subscriptionGroupTable"], theirs["body"]["subscriptionGroupTable"]
    system = [name for name in their_table if name.startswith("CID_ONS") or name.endswith(("_CONSUMER", "_C_GROUP"))]
    assert len(system) >= 7
    assert {name: ours_table[name] for name in system} == {name: their_table[name] for name in system}


def test_what_a_group_may_not_read_as_apache_tells_it(admin: Wire) -> None:
    """In turn, because some answers tell what an earlier request has set: two test processes must not share them."""
    for each in exchanges(353):
        play(admin, each.name)


def test_what_a_group_may_not_read_goes_with_the_group(admin: Wire) -> None:
    """Otherwise a new group of that name would get nothing, and nobody would know why."""
    create_group(admin, "Barred")
    header = GroupForbiddenHeader(group="Barred", topic="T", readable=False)
    assert (
        ok(admin.ask(R.UPDATE_AND_GET_GROUP_FORBIDDEN, header)).body
        == b'{"group":"Barred","readable":false,"topic":"T"}'
    )
    ok(admin.ask(R.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader(group_name="Barred")))
    create_group(admin, "Barred")
    header = GroupForbiddenHeader(group="Barred", topic="T")
    assert (
        ok(admin.ask(R.UPDATE_AND_GET_GROUP_FORBIDDEN, header)).body
        == b'{"group":"Barred","readable":true,"topic":"T"}'
    )
    assert "Barred" not in all_groups(admin).forbidden_table


@pytest.mark.parametrize(
    ("attributes", "clean_offset", "is_clean"),
    [({}, False, False), ({}, True, True), ({"+lite.bind.topic": "L"}, False, True)],
)
def test_offsets_stay_unless_asked_for_or_the_group_is_lite(
    admin: Wire, attributes: dict[str, str], clean_offset: bool, is_clean: bool
) -> None:
    create_topic(admin, "Read", 1)
    body = dumps(SubscriptionGroupConfig(group_name="Reader", attributes=attributes))
    ok(admin.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    commit(admin, "Reader", "Read", [3])
    ok(admin.ask(R.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader(group_name="Reader", clean_offset=clean_offset)))
    groups = ok(admin.ask(R.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic="Read"))).body
    assert groups == (b'{"groupList":[]}' if is_clean else b'{"groupList":["Reader"]}')


def test_a_list_with_one_bad_group_creates_none(admin: Wire) -> None:
    groups = [SubscriptionGroupConfig(group_name=name) for name in ("GoodGroup", "Ba.dGroup")]
    body = dumps(GroupConfigList(group_config_list=groups))
    assert admin.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body).code == ResponseCode.INVALID_PARAMETER
    assert "GoodGroup" not in all_groups(admin).subscription_group_table


def test_asking_for_a_group_makes_it_only_where_groups_may_be_made_so(admin: Wire) -> None:
    ok(admin.ask(R.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group="MadeByAQuestion")))
    assert "MadeByAQuestion" in all_groups(admin).subscription_group_table
    with configured(admin, autoCreateSubscriptionGroup="false"):
        answer = admin.ask(R.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group="NotMade"))
    assert (answer.code, answer.remark) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")


def test_missing_members_take_apaches_defaults(admin: Wire) -> None:
    ok(admin.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"Short","retryMaxTimes":3}'))
    made = all_groups(admin).subscription_group_table["Short"]
    assert made == SubscriptionGroupConfig(group_name="Short", retry_max_times=3)
