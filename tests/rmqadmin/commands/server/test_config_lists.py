"""``updateTopicList`` and ``updateSubGroupList``: the file's fields replace those of the broker."""

import json
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Fresh, Server, topic_config


def written(path: Path, content: object) -> str:
    file = path / "list.json"
    file.write_text(json.dumps(content))
    return str(file)


def test_topics_are_created_and_changed_and_what_is_not_said_stays(
    rmqadmin: Rmqadmin, server: Server, admin: AdminClient, tmp_path: Path, fresh: Fresh
) -> None:
    old, same, new = fresh("ListTopic"), fresh("ListTopic"), fresh("ListTopic")
    for name in (old, same):
        admin.create_topic(server.broker_addr, topic_config(name, 4, order=True, attributes={"+message.type": "FIFO"}))
    file = written(
        tmp_path,
        [
            {"topicName": same, "perm": "rw"},
            {"topicName": old, "perm": 4, "attributes": {"message.type": "NORMAL"}},
            {"topicName": new, "readQueueNums": 2, "writeQueueNums": 2},
        ],
    )
    command = ("-o", "json", "updateTopicList", "-b", server.broker_addr, "-f", file)
    (planned,) = rmqadmin(*command, "--dry-run").items
    assert (planned["action"], planned["done"]) == ("change", False)
    assert [change["field"] for change in planned["changes"]] == [old, new]
    assert planned["changes"][0]["before"] == {"perm": 6, "message.type": "FIFO"}
    assert new not in admin.all_topics(server.broker_addr).topic_config_table

    rmqadmin(*command)
    configs = admin.all_topics(server.broker_addr).topic_config_table
    assert (configs[old].perm, configs[old].order, configs[old].attributes) == (4, True, {"message.type": "NORMAL"})
    assert (configs[old].read_queue_nums, configs[new].read_queue_nums) == (4, 2)
    assert rmqadmin(*command).items[0]["action"] == "keep"
    rmqadmin(*command, "--replace")
    assert admin.topic_config(server.broker_addr, old).order is False


def test_groups_are_created_and_changed(
    rmqadmin: Rmqadmin, server: Server, admin: AdminClient, tmp_path: Path, fresh: Fresh
) -> None:
    old, new = fresh("ListGroup"), fresh("ListGroup")
    admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=old, retry_max_times=3))
    exported = {old: {"groupName": old, "consumeEnable": False}, new: {"groupName": new, "retryMaxTimes": 5}}
    file = written(tmp_path, {"exportTime": 1, "subscriptionGroupTable": exported})
    ran = rmqadmin("updateSubGroupList", "-c", CLUSTER, "-f", file, "--output", "mqadmin")
    done = f"submit batch of subscription group config to {server.broker_addr} success, please check the result later."
    assert ran.out == done + "\n"
    groups = admin.all_groups(server.broker_addr).subscription_group_table
    assert (groups[old].retry_max_times, groups[old].consume_enable) == (3, False)
    assert groups[new].retry_max_times == 5


def test_an_unknown_name_inside_an_entry_is_an_error(run: Rmqadmin, tmp_path: Path) -> None:
    """It was ignored in silence, where `apply` refused it."""
    content = [{"groupName": "G", "groupRetryPolicy": {"typ": "CUSTOMIZED"}}]
    ran = run("updateSubGroupList", "-b", "127.0.0.1:1", "-f", written(tmp_path, content), "-n", "127.0.0.1:1")
    assert (ran.status, "G.groupRetryPolicy: there is no field typ\nhint: Did you mean type?" in ran.err) == (2, True)
    ran = run("updateSubGroup", "-b", "127.0.0.1:1", "-g", "G", "-p", '{"typ": "CUSTOMIZED"}', "-n", "127.0.0.1:1")
    assert (ran.status, "-p: there is no field typ\nhint: Did you mean type?" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "holds no list"),
        ([{"perm": 6}], "an entry has no topicName"),
        ([{"topicName": "T"}, {"topicName": "T"}], "T is there twice"),
        ([{"topicName": "T", "readQueues": 1}], "T: there is no field readQueues"),
        ([{"topicName": "T", "perm": "six"}], "T: Expected `int`"),
        ([{"topicName": "T", "writeQueueNums": -1}], "T: writeQueueNums is -1, but the least is 0"),
        ([{"topicName": "T", "perm": 99}], "T: topicPermission value: 99 is invalid."),  # brokers accept it
    ],
)
def test_a_file_that_says_something_else_is_an_error(run: Rmqadmin, tmp_path: Path, content: object, said: str) -> None:
    ran = run("updateTopicList", "-b", "127.0.0.1:1", "-f", written(tmp_path, content), "-n", "127.0.0.1:1")
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_a_file_that_is_no_json_is_an_error(run: Rmqadmin, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text("topicName=T")
    ran = run("updateTopicList", "-b", "127.0.0.1:1", "-f", str(file), "-n", "127.0.0.1:1")
    assert (ran.status, "is not JSON" in ran.err) == (2, True)
