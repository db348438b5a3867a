"""Consumer groups, as tools create, change, list and delete them."""

import pytest

from rmqproto.bodies.groups import GroupConfigList, SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.tables import DeleteGroupHeader, GroupForbiddenHeader, GroupHeader, TopicHeader
from rmqproto.wire.fastjson import dumps, loads_untrusted
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import commit, configured, create_group, create_topic, ok
from tests.support.golden import Exchange, exchanges, said
from tests.support.wire import Wire


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


def test_deleting_as_apache_does(admin: Wire) -> None:
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
