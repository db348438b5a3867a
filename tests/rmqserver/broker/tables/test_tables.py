"""Topics, groups and offsets on disk: what a restart loads, and what a newer broker may have left there."""

from pathlib import Path

import pytest

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.wire.fastjson import parse_untrusted
from rmqserver.broker.tables.consumer_offsets import VERSION_STEP, ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable, check_served, config_text, served_otherwise
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from tests.support.steps import steps


class Tables:
    """The tables of a directory; each ``Tables`` is a start of the broker."""

    now_ms = 1_700_000_000_000

    def __init__(self, directory: Path, settings: str = ""):
        config = BrokerConfig.from_properties(settings)
        self.files = ConfigFiles(str(directory), OsDisk())
        self.topics = TopicTable(config, self.files, self.clock_ms)
        self.groups = GroupTable(config, self.files, self.clock_ms)
        self.offsets = ConsumerOffsets(self.files, self.clock_ms)
        for table in (self.topics, self.groups, self.offsets):
            table.load()

    def clock_ms(self) -> int:
        return self.now_ms

    def stop(self) -> None:
        self.offsets.save()
        self.files.close()


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    first = Tables(tmp_path)
    topic = TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=2, attributes={"message.type": "FIFO"})
    group = SubscriptionGroupConfig(group_name="G", retry_max_times=3)
    first.topics.put(topic)
    first.groups.put(group)
    first.groups.set_forbidden("G", "T", True)
    first.offsets.commit("G", "T", 0, 5)
    first.offsets.set_pull_offset("G", "T", 0, 7)
    first.stop()
    second = Tables(tmp_path)
    assert second.topics.get("T") == topic
    assert second.groups.get("G") == group
    assert second.groups.is_forbidden("G", "T")
    assert second.offsets.committed("G", "T", 0) == 5
    assert second.offsets.pull_offset("G", "T", 0) == 7
    assert second.topics.data_version == first.topics.data_version
    second.stop()


def test_what_a_newer_broker_wrote_survives_our_changes(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text(
        '{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":1},"newMember":[1],"topicConfigTable":'
        '{"T":{"topicName":"T","perm":6,"readQueueNums":4,"writeQueueNums":4,"newField":{"a":1},'
        '"attributes":{"+new.attribute":"x"}}}}'
    )
    tables = Tables(tmp_path)
    tables.topics.put(TopicConfig(topic_name="T", read_queue_nums=8, attributes={"+new.attribute": "x"}))
    tables.topics.put(TopicConfig(topic_name="Other"))
    tables.stop()
    document = parse_untrusted((tmp_path / "topics.json").read_bytes())
    assert document["newMember"] == [1]
    assert document["dataVersion"] == {"counter": 6, "stateVersion": 0, "timestamp": tables.now_ms}
    entry = document["topicConfigTable"]["T"]
    assert (entry["newField"], entry["readQueueNums"]) == ({"a": 1}, 8)
    assert entry["attributes"] == {"+new.attribute": "x"}


@pytest.mark.parametrize("name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json"])
def test_table_that_is_none_stops_the_start(tmp_path: Path, name: str) -> None:
    """Otherwise an empty table would be saved over it."""
    bad = '{"topicConfigTable":{"T":7},"subscriptionGroupTable":{"G":7},"offsetTable":{"T@G":7}}'
    (tmp_path / name).write_text(bad)
    with pytest.raises(StorageError, match=name):
        Tables(tmp_path)


def test_topic_that_is_gone_stays_gone(tmp_path: Path) -> None:
    first = Tables(tmp_path)
    first.topics.put(TopicConfig(topic_name="T"))
    assert first.topics.delete("T")
    assert not first.topics.delete("T")
    first.stop()
    second = Tables(tmp_path)
    assert second.topics.get("T") is None
    second.stop()


def test_template_left_over_passes_nothing_on_when_automatic_topics_are_off(tmp_path: Path) -> None:
    Tables(tmp_path).stop()
    tables = Tables(tmp_path, "autoCreateTopicEnable=false")
    assert tables.topics.create_on_send("T", "TBW102", 4) is None
    template = tables.topics.get("TBW102")
    assert template.perm == 6
    tables.stop()


def test_automatic_topic_is_told_of_once(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    told: list[int] = []
    tables.topics.on_change.append(lambda put_names: told.append(1))
    for _ in range(3):
        created = tables.topics.create_on_send("T", "TBW102", 3)
    assert (created.read_queue_nums, created.write_queue_nums, created.perm) == (3, 3, 6)
    assert told == [1]
    tables.stop()


def test_groups_are_made_only_with_legal_names(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    assert tables.groups.find("legal") is not None
    assert tables.groups.find("not legal!") is None
    assert tables.groups.find("g" * 121) is None
    tables.stop()


def test_system_groups_are_made_even_where_others_are_not(tmp_path: Path) -> None:
    tables = Tables(tmp_path, "autoCreateSubscriptionGroup=false")
    assert tables.groups.find("Mine") is None
    assert tables.groups.find("CID_RMQ_SYS_TRACE") is not None
    tables.stop()


def test_offsets_by_group_and_topic(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    offsets = tables.offsets
    for group in ("G", "GG"):
        for topic in ("T", "TT", f"%RETRY%{group}"):
            offsets.commit(group, topic, 0, 1)
    assert offsets.topics_of("G") == ["T", "TT", "%RETRY%G"]
    assert offsets.groups_of("T") == ["G", "GG"]
    offsets.remove_group("G")
    assert (offsets.topics_of("G"), offsets.groups_of("T")) == ([], ["GG"])
    offsets.remove_topic("T")
    assert offsets.topics_of("GG") == ["TT", "%RETRY%GG"]
    tables.stop()


def test_committed_offsets_are_saved_as_they_were_between_rounds(tmp_path: Path) -> None:
    """In a round, a pop moves its group on before the kernel has the check point that brings the messages back: after
    kill -9 nobody would get them."""
    files = ConfigFiles(str(tmp_path), OsDisk(), background=False)
    offsets = ConsumerOffsets(files, lambda: Tables.now_ms)
    offsets.commit("G", "T", 0, 1)
    offsets.save()
    offsets.commit("G", "T", 0, 2)
    files.wait_until_saved()
    assert Tables(tmp_path).offsets.committed("G", "T", 0) == 1
    offsets.save()
    files.close()
    assert Tables(tmp_path).offsets.committed("G", "T", 0) == 2


def test_a_save_holds_the_loop_up_no_longer_with_many_groups(tmp_path: Path) -> None:
    """Twenty thousand groups took a tenth of a second, every five seconds."""

    def of(group_count: int) -> int:
        tables = Tables(tmp_path / str(group_count))
        for number in range(group_count):
            tables.offsets.commit(f"G{number}", "T", 0, number)
            tables.offsets.set_pull_offset(f"G{number}", "T", 0, number)
        found = steps(tables.offsets.save)
        tables.files.close()
        again = Tables(tmp_path / str(group_count))
        assert again.offsets.committed_table == tables.offsets.committed_table
        assert again.offsets.pull_table == tables.offsets.pull_table
        return found

    assert of(200) == of(20)


def test_reset_is_taken_once_and_answers_until_then(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    offsets = tables.offsets
    offsets.assign_reset("G", "T", 0, 3)
    assert offsets.has_reset("G", "T", 0)
    assert not offsets.has_reset("G", "T", 1)
    assert offsets.committed("G", "T", 0) == 3
    assert [offsets.take_reset("G", "T", 0) for _ in range(2)] == [3, None]
    assert offsets.committed("G", "T", 0) == 3
    tables.stop()


def test_version_of_offsets_moves_slowly(tmp_path: Path) -> None:
    """Slaves copy the table at each new version; a version for every commit would make them copy it all the time."""
    tables = Tables(tmp_path)
    for number in range(VERSION_STEP):
        assert tables.offsets.data_version.counter == 0
        tables.offsets.commit("G", "T", 0, number)
    assert tables.offsets.data_version.counter == 1
    tables.stop()


def test_topic_reads_as_apache_prints_it() -> None:
    topic = TopicConfig(topic_name="T", perm=7, order=True, attributes={"message.type": "FIFO", "a": "b"})
    assert config_text(topic) == (
        "TopicConfig [topicName=T, readQueueNums=16, writeQueueNums=16, perm=RWX, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=true, attributes={message.type=FIFO, a=b}]"
    )


def test_after_a_power_cut_no_group_is_ahead_of_its_queues(tmp_path: Path) -> None:
    """In async mode, messages that were read and committed may be lost. Their offsets used to go to new messages, which
    were then never read (Apache issue 8239)."""
    tables = Tables(tmp_path)
    tables.offsets.commit("G", "T", 0, 5)
    tables.offsets.commit("G", "T", 1, 2)
    tables.offsets.commit("G", "Gone", 0, 1)
    tables.offsets.set_pull_offset("G", "T", 0, 7)
    tables.stop()
    again = Tables(tmp_path)
    again.offsets.hold_back(lambda topic, queue_id: 3 if topic == "T" else 0)
    again.stop()
    kept = Tables(tmp_path)
    assert kept.offsets.committed_table == {"T@G": {0: 3, 1: 2}, "Gone@G": {0: 0}}
    assert kept.offsets.pull_offset("G", "T", 0) == 3
    kept.stop()


def test_what_an_apache_topic_asks_for_and_is_not_served() -> None:
    assert served_otherwise({"queue.type": "BatchCQ", "cleanup.policy": "COMPACTION"}) == [
        "queue.type=BatchCQ",
        "cleanup.policy=COMPACTION",
    ]
    assert served_otherwise({"queue.type": "SimpleCQ", "cleanup.policy": "DELETE", "message.type": "FIFO"}) == []


@pytest.mark.parametrize(
    ("change", "instead"),
    [
        ({"+queue.type": "BatchCQ"}, "leave queue.type out, and batches are stored and read message by message"),
        (
            {"+message.type": "FIFO", "+cleanup.policy": "COMPACTION"},
            "leave cleanup.policy out, and let consumers keep the last message of each key",
        ),
    ],
)
def test_what_is_not_served_is_refused_with_what_to_do_instead(change: dict[str, str], instead: str) -> None:
    check_served({"+queue.type": "SimpleCQ", "-cleanup.policy": ""})
    with pytest.raises(ProtocolError, match=f" is not supported by this broker: {instead}$"):
        check_served(change)
