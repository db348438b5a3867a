"""Plans for static topics, without a server, and what is said when a broker does not take one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.topics import static_mapping
from rmqadmin.core.topics.static_mapping import Configs, empty, extended, remapped
from rmqadmin.core.topics.static_topics import MappingWriter, rounded_up
from rmqproto.bodies.routes import LogicQueueMappingItem, TopicRemappingDetail
from rmqproto.errors import NotConnectedError, RefusedError, RequestTimeoutError, RocketMQError
from rmqproto.queue_mapping import MappingError, current_queues

NOW_MS = 1_700_000_000_000
NAMES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)


def leaders(plan: TopicRemappingDetail) -> dict[int, str]:
    found = static_mapping.logical_queues(plan.broker_config_map)
    return {logical_id: queue.broker_name for logical_id, queue in found.items()}


def settle(plan: TopicRemappingDetail) -> Configs:
    """The brokers' configurations once the offsets of moved queues are decided."""
    for name, config in plan.broker_config_map.items():
        for items in static_mapping.detail_of(name, config).hosted_queues.values():
            items[-1].logic_offset = 10_000 * items[-1].gen
    return plan.broker_config_map


def test_a_new_topic_is_spread_evenly() -> None:
    plan = extended("T", 5, ["b", "a"], {}, NOW_MS)
    assert leaders(plan) == {0: "a", 1: "b", 2: "a", 3: "b", 4: "a"}
    first = plan.broker_config_map["a"]
    assert (first.write_queue_nums, first.read_queue_nums) == (3, 3)
    assert first.mapping_detail is not None
    assert current_queues(first.mapping_detail) == {0: 0, 2: 1, 4: 2}
    assert (first.mapping_detail.epoch, first.mapping_detail.total_queues) == (NOW_MS, 5)


def test_more_queues_go_to_where_the_fewest_are_and_the_epoch_grows() -> None:
    before = extended("T", 2, ["a"], {}, NOW_MS).broker_config_map
    plan = extended("T", 4, ["b"], before, NOW_MS)
    assert leaders(plan) == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert plan.epoch == NOW_MS + 1000
    with pytest.raises(MappingError, match="Cannot decrease the queue num for static topic 1 < 2"):
        extended("T", 1, ["a"], before, NOW_MS)
    with pytest.raises(MappingError, match="do nothing"):
        extended("T", 2, ["a"], before, NOW_MS)


@given(NAMES, NAMES, st.integers(1, 40))
def test_moved_queues_are_even_and_as_few_as_can_be(old: list[str], new: list[str], queue_count: int) -> None:
    before = extended("T", queue_count, old, {}, NOW_MS).broker_config_map
    plan = remapped("T", new, before, NOW_MS)
    counts = [list(leaders(plan).values()).count(name) for name in new]
    assert sum(counts) == queue_count
    assert max(counts) - min(counts) <= 1
    assert not set(plan.broker_to_map_in) & set(plan.broker_to_map_out)
    back = remapped("T", new, settle(plan), NOW_MS)
    assert back.broker_to_map_in == back.broker_to_map_out == []


def test_a_moved_queue_keeps_its_past() -> None:
    before = extended("T", 1, ["a"], {}, NOW_MS).broker_config_map
    plan = remapped("T", ["b"], before, NOW_MS)
    for name in ("a", "b"):
        items = static_mapping.detail_of(name, plan.broker_config_map[name]).hosted_queues[0]
        assert [(item.bname, item.gen, item.logic_offset) for item in items] == [("a", 0, 0), ("b", 1, -1)]


@pytest.mark.parametrize(("offset", "begins"), [(0, 10_000), (4_999, 10_000), (5_000, 20_000), (10_000, 20_000)])
def test_where_the_next_stay_begins(offset: int, begins: int) -> None:
    assert rounded_up(offset) == begins


def test_brokers_that_do_not_agree() -> None:
    def two() -> Configs:
        return extended("T", 2, ["a", "b"], {}, NOW_MS).broker_config_map

    configs = two()
    static_mapping.detail_of("b", configs["b"]).epoch += 1
    with pytest.raises(MappingError, match="epoch does not match"):
        static_mapping.epoch_of("T", configs)
    configs = two()
    static_mapping.detail_of("b", configs["b"]).dirty = True
    with pytest.raises(MappingError, match="dirty in broker b"):
        static_mapping.epoch_of("T", configs)
    configs = two()
    configs["b"].mapping_detail = None
    with pytest.raises(MappingError, match="should not be null in broker b"):
        static_mapping.epoch_of("T", configs)
    configs = two()
    static_mapping.detail_of("b", configs["b"]).hosted_queues.clear()
    with pytest.raises(MappingError, match="does not match the real hosted queues 2 != 1"):
        static_mapping.logical_queues(configs)
    configs = two()
    hosted = static_mapping.detail_of("a", configs["a"]).hosted_queues
    hosted[0] = [
        LogicQueueMappingItem(bname="b", queue_id=0, gen=0),
        LogicQueueMappingItem(bname="a", queue_id=0, gen=1, logic_offset=10),
    ]
    with pytest.raises(MappingError, match="shared the same physical queue b-0"):
        static_mapping.logical_queues(configs)


ADDRS = {"a": "a:1", "b": "b:1"}
PLAN = TopicRemappingDetail(topic="T", epoch=1, broker_config_map={name: empty("T", name) for name in ADDRS})


class Brokers:
    """Brokers of which one fails."""

    def __init__(self, failing: str, error: RocketMQError):
        self.failing = failing
        self.error = error

    def create_static_topic(self, addr: str, *_: Any, force: bool) -> None:
        if addr == self.failing:
            raise self.error


@pytest.mark.parametrize(
    ("failing", "error", "those"),
    [
        ("a:1", RefusedError(1, "no", hint="its own"), None),
        ("a:1", NotConnectedError("nobody there", hint="its own"), None),
        ("b:1", RefusedError(1, "no", hint="its own"), "a"),
        ("a:1", RequestTimeoutError("silent"), "a"),
        ("b:1", RequestTimeoutError("silent"), "a, b"),
    ],
)
def test_only_brokers_that_were_given_the_mapping_are_said_to_have_it(
    failing: str, error: RocketMQError, those: str | None
) -> None:
    """After a refusal by the only broker, other brokers were said to have the new mapping."""
    brokers: Any = Brokers(failing, error)
    with pytest.raises(type(error)) as caught:
        MappingWriter(brokers, ADDRS, "/tmp/T-1.after", force=False).update(PLAN)
    wanted = f"{those} may have the new mapping: apply it to all with -mf /tmp/T-1.after -fr true."
    assert caught.value.hint == (wanted if those is not None else "its own")
