"""Groups on a running server: created, changed, online and behind."""

from rmqclient.admin import AdminClient
from tests.rmqadmin.commands.group.conftest import come_online
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Fresh, Server
from tests.support.wire import Wire


def test_a_group_is_created_and_changed_field_by_field(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    name = fresh("AdminGroup")
    args = ("-o", "json", "updateSubGroup", "-c", CLUSTER, "-g", name)
    shown = rmqadmin(*args, "-r", "3", "--dry-run").items[0]
    assert (shown["action"], shown["done"]) == ("create", False)
    assert rmqadmin(*args, "-r", "3").items[0]["action"] == "create"  # the dry run has not created it
    changed = rmqadmin(*args, "-s", "false").items[0]
    assert changed["changes"] == [{"field": "consume_enable", "before": True, "after": False}]
    assert rmqadmin(*args).items[0]["action"] == "keep"
    back = rmqadmin(*args, "--replace").items[0]["changes"]
    assert {change["field"]: change["after"] for change in back} == {"consume_enable": True, "retry_max_times": 16}


def test_a_retry_policy_is_json(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    name = fresh("AdminGroup")
    policy = '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}'
    made = rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", name, "-p", policy, "--output", "mqadmin")
    assert "customizedRetryPolicy=CustomizedRetryPolicy{next=[1000, 5000]}" in made.out
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", name, "-p", "{").status == 2


def test_a_blank_retry_policy_is_the_default_one(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    """As with mqadmin, whose JSON parser makes nothing of it. It was refused."""
    change = ("updateSubGroup", "-c", CLUSTER, "-g", fresh("AdminGroup"), "--output", "mqadmin", "-p")
    assert "type=EXPONENTIAL" in rmqadmin(*change, '{"type":"EXPONENTIAL"}').out
    assert "type=CUSTOMIZED, exponentialRetryPolicy=null, customizedRetryPolicy=null" in rmqadmin(*change, " ").out


def test_a_group_that_never_consumed_is_known_and_has_no_progress(rmqadmin: Rmqadmin, group: str) -> None:
    rmqadmin("consumerProgress", "-g", group, status=5, out="", err="has no offsets and nobody is online")
    (listed,) = (row for row in rmqadmin("-o", "json", "consumerProgress").items if row["group"] == group)
    assert listed["lag_count"] is None, "its lag used to be 0"


def test_who_is_online_and_wants_what(rmqadmin: Rmqadmin, wire: Wire, group: str, topic: str) -> None:
    assert rmqadmin("consumerConnection", "-g", group).status == 5
    come_online(wire, group, topic)
    ran = rmqadmin("-o", "json", "consumerConnection", "-g", group)
    (client,) = ran.items
    assert (client["client_id"], client["client_addr"]) == (f"client@{group}", wire.address)
    assert client["broker_names"] == ["broker-a"]
    assert ran.document["summary"]["message_model"] == "CLUSTERING"
    assert ran.document["summary"]["subscriptions"] == [
        {"topic": topic, "expression_type": "TAG", "expression": "TagA"}
    ]
    states = {row["group"]: row for row in rmqadmin("-o", "json", "consumerProgress").items}
    assert (states[group]["client_count"], states[group]["type"]) == (1, "PUSH")


def test_two_consumers_that_took_one_id_are_both_shown(
    rmqadmin: Rmqadmin, server: Server, wire: Wire, group: str, topic: str
) -> None:
    """mqadmin shows both as well. Two clients share an id in containers, where all processes have the same number and
    host name."""
    with Wire(server.broker_addr) as other:
        for one in (wire, other):
            come_online(one, group, topic)
        found = rmqadmin("-o", "json", "consumerConnection", "-g", group).items
        assert {(row["client_addr"], *row["broker_names"]) for row in found} == {
            (wire.address, "broker-a"), (other.address, "broker-a"),
        }  # fmt: skip
        (row,) = (row for row in rmqadmin("-o", "json", "consumerProgress").items if row["group"] == group)
        assert row["client_count"] == 2


def test_an_offset_past_the_end_of_its_queue_is_no_lag_and_takes_none_from_others(
    rmqadmin: Rmqadmin, server: Server, admin: AdminClient, group: str, topic: str
) -> None:
    """Only mqadmin's own text keeps mqadmin's negative differences."""
    for queue_id, committed in ((0, 8), (1, 1)):  # each queue has three messages
        admin.update_consumer_offset(server.broker_addr, group, topic, queue_id, committed)
    ran = rmqadmin("-o", "json", "consumerProgress", "-g", group)
    assert [row["lag_count"] for row in ran.items] == [0, 2]
    assert ran.document["summary"]["lag_count"] == 2
    (listed,) = (row for row in rmqadmin("-o", "json", "consumerProgress").items if row["group"] == group)
    assert listed["lag_count"] == 2
    everything = rmqadmin("-o", "json", "brokerConsumeStats", "-b", server.broker_addr, "-l", "-9")
    assert [row["lag_count"] for row in everything.items if row["group"] == group] == [0, 2]
    assert everything.document["summary"]["lag_count"] == sum(row["lag_count"] for row in everything.items)
    plan = rmqadmin("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to", "begin", "--dry-run")
    assert [(row["old_lag_count"], row["new_lag_count"]) for row in plan.items] == [(0, 3), (2, 3)]
    told = rmqadmin("consumerProgress", "-g", group, "--output", "mqadmin").out
    assert "Consume Diff Total: -3\n" in told


def test_what_needs_a_group_is_not_left_out_silently(rmqadmin: Rmqadmin) -> None:
    ran = rmqadmin("consumerProgress", "-t", "SomeTopic")
    assert (ran.status, "all groups are shown: -t and -s need -g" in ran.err) == (0, True)
