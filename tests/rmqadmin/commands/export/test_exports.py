"""Exports: their rows, mqadmin's files, and that they can be read back."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmqadmin.commands.export import export_metrics, exports
from rmqadmin.commands.export.export_metrics import Measured, MetricsRow
from rmqadmin.commands.export.exports import BrokerTables, ClusterScale
from rmqadmin.core.mqadmin_text import fastjson_pretty
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.bodies.routes import TopicConfig, TopicConfigs
from rmqproto.wire import fastjson
from tests.rmqadmin.conftest import CLUSTER, GOLDEN, Rmqadmin
from tests.support.any_order import in_any_order
from tests.support.servers import Fresh, Server


def golden_file(command: str, name: str) -> tuple[str, dict[str, Any]]:
    text = (GOLDEN / command / name).read_text()
    return text, json.loads(text)


def tables(content: dict[str, Any]) -> BrokerTables:
    topics, groups = content.get("topicConfigTable"), content.get("subscriptionGroupTable")
    return BrokerTables(
        "h:1",
        topics and fastjson.loads_untrusted(json.dumps({"topicConfigTable": topics}), TopicConfigs),
        groups and fastjson.loads_untrusted(json.dumps({"subscriptionGroupTable": groups}), SubscriptionGroups),
    )


@pytest.mark.parametrize("name", ["cluster.metadata.json", "topics.topic.json", "groups.subscriptionGroup.json"])
def test_topics_and_groups_in_mqadmins_file(name: str) -> None:
    text, content = golden_file("exportMetadata", name)
    assert in_any_order(fastjson_pretty(exports._metadata_file([tables(content)], sum, content["exportTime"]))) == (
        in_any_order(text)
    )


def test_configs_in_mqadmins_file() -> None:
    text, content = golden_file("exportConfigs", "ok.configs.json")
    configs = {
        name: {key: values[key] for key in exports.KEYS if key in values}
        for name, values in content["brokerConfigs"].items()
    }
    scale = ClusterScale(namesrv_count=1, master_count=1, slave_count=0)
    assert in_any_order(fastjson_pretty(exports._configs_file(configs, scale))) == in_any_order(text)


def test_metrics_in_mqadmins_file() -> None:
    text, _ = golden_file("exportMetrics", "ok.metrics.json")
    row = MetricsRow(
        broker_name="broker-a", version="V5_5_0", in_tps=0.0, out_tps=0.1986294567484358, transaction_in_tps=0.0,
        delayed_in_tps=0.0, in_yesterday=0, out_yesterday=0, transaction_in_day=0, delayed_in_day=0,
        message_size_bytes=467.8, commit_log_disk_ratio=0.16, consume_queue_disk_ratio=0.16, topic_count=21,
        group_count=14, client_versions=["JAVA%V5_5_0"],
    )  # fmt: skip
    info = {
        "commitLogDiskRatio": "0.16", "consumeQueueDiskRatio": "0.16", "putMessageAverageSize": "467.81564245810057",
    }  # fmt: skip
    assert in_any_order(fastjson_pretty(export_metrics._file([Measured(row, info, "2")]))) == in_any_order(text)


def test_queues_of_several_masters_are_not_added_up_but_for_mqadmin() -> None:
    config = TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=4)
    group = SubscriptionGroupConfig(group_name="G", retry_queue_nums=1)
    two = [
        BrokerTables(
            addr,
            TopicConfigs(topic_config_table={"T": config}),
            SubscriptionGroups(subscription_group_table={"G": group}),
        )
        for addr in ("h:1", "h:2")
    ]
    for join, factor in ((max, 1), (sum, 2)):
        content = exports._metadata_file(two, join, 0)
        topic = content["topicConfigTable"]["T"]
        assert (topic.read_queue_nums, topic.write_queue_nums) == (8 * factor, 4 * factor)
        assert content["subscriptionGroupTable"]["G"].retry_queue_nums == factor


def test_what_was_exported_can_be_read_back(rmqadmin: Rmqadmin, server: Server, tmp_path: Path, fresh: Fresh) -> None:
    topic, group = fresh("ExportTopic"), fresh("ExportGroup")
    with AdminClient(server.namesrv_addr) as admin:
        attributes = {"+message.type": "FIFO"}
        admin.create_topic(server.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=2, attributes=attributes))
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group, retry_max_times=3))
        ran = rmqadmin("exportMetadata", "-c", CLUSTER, "-f", str(tmp_path), status=0)
        assert ran.err == f"rmqadmin: written to {tmp_path}/metadata.json\n"
        assert "TBW102" not in ran.out
        file = str(tmp_path / "metadata.json")
        for command in ("updateTopicList", "updateSubGroupList"):
            assert rmqadmin("-o", "json", command, "-c", CLUSTER, "-f", file).items[0]["action"] == "keep"
        admin.delete_topic_in_broker(server.broker_addr, topic)
        admin.delete_group(server.broker_addr, group)
        rmqadmin("updateTopicList", "-c", CLUSTER, "-f", file)
        rmqadmin("updateSubGroupList", "-c", CLUSTER, "-f", file)
        assert admin.topic_config(server.broker_addr, topic).attributes == {"message.type": "FIFO"}
        assert admin.all_groups(server.broker_addr).subscription_group_table[group].retry_max_times == 3


def test_mqadmins_way_names_the_file(rmqadmin: Rmqadmin, server: Server, tmp_path: Path) -> None:
    where = ("-f", str(tmp_path), "--output", "mqadmin")
    assert rmqadmin("exportConfigs", "-c", CLUSTER, *where).out == f"export {tmp_path}/configs.json success"
    assert rmqadmin("exportMetrics", "-c", CLUSTER, *where).out == f"export {tmp_path}/metrics.json success"
    assert rmqadmin("exportMetadata", "-c", CLUSTER, *where).out == f"export {tmp_path}/metadata.json success\n"
    rmqadmin("exportMetadata", "-b", server.broker_addr, "-t", *where, out=f"export {tmp_path}/topic.json success")
    assert json.loads((tmp_path / "topic.json").read_text()).keys() == {"dataVersion", "topicConfigTable"}
    scale = json.loads((tmp_path / "configs.json").read_text())["clusterScale"]
    assert scale == {"namesrvSize": 1, "masterBrokerSize": 1, "slaveBrokerSize": 0}


def test_without_a_folder_nothing_is_written(
    rmqadmin: Rmqadmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("exportConfigs", "exportMetrics", "exportMetadata"):
        assert rmqadmin(command, "-c", CLUSTER).status == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error(rmqadmin: Rmqadmin, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    rmqadmin("exportConfigs", "-c", CLUSTER, "-f", str(tmp_path / "file"), status=1, out="", err="cannot write")
