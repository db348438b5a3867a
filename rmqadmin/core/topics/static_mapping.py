"""Plans the mapping of a static topic: which broker gets which logical queue (``TopicQueueMappingUtils``, 5.5.0). Asks
no server.

Where Apache chooses at random between brokers with equally few queues, the names decide here, so that a dry run shows
the actual result.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from rmqproto.bodies.routes import (
    LogicQueueMappingItem,
    TopicConfig,
    TopicConfigAndQueueMapping,
    TopicQueueMappingDetail,
    TopicRemappingDetail,
)
from rmqproto.queue_mapping import MappingError, check_items

CREATE_OR_UPDATE, REMAPPING = "CREATE_OR_UPDATE", "REMAPPING"

EPOCH_STEP_MS = 1000
"""The smallest step from one epoch to the next; epochs are ms since 1970."""

LOGICAL_QUEUES_MAX = 100_000
"""Logical queues of one topic. Its brokers get their part of the mapping in one frame, some 130 bytes for each queue,
and a frame has at most 16 MiB."""

Configs = dict[str, TopicConfigAndQueueMapping]
"""A topic's configuration and mapping by broker name."""


class LogicalQueue(msgspec.Struct, frozen=True):
    """A logical queue. ``items`` are its mapping items in order; the last one is on ``broker_name``."""

    broker_name: str
    items: list[LogicQueueMappingItem]


def epoch_of(topic: str, configs: Mapping[str, TopicConfigAndQueueMapping]) -> int:
    """The epoch on which all brokers agree. MappingError if they do not agree (``checkNameEpochNumConsistence``)."""
    first: TopicQueueMappingDetail | None = None
    for name in sorted(configs):
        detail = detail_of(name, configs[name])
        if detail.bname != name:
            raise MappingError(f"The broker name is not equal {name} != {detail.bname}")
        if detail.dirty:
            raise MappingError(f"The mapping info is dirty in broker {name}")
        if not configs[name].topic_name == detail.topic == topic:
            raise MappingError(f"The topic name is not match for broker {name}")
        first = first or detail
        for what, said, before in (
            ("scope", detail.scope, first.scope),
            ("epoch", detail.epoch, first.epoch),
            ("total queue number", detail.total_queues, first.total_queues),
        ):
            if said != before:
                raise MappingError(f"{what} does not match {said} != {before} in {name}")
    assert first is not None, "a topic without brokers has no epoch"
    return first.epoch


def detail_of(broker_name: str, config: TopicConfigAndQueueMapping) -> TopicQueueMappingDetail:
    if config.mapping_detail is None:
        raise MappingError(
            f"Mapping info should not be null in broker {broker_name}",
            hint="The topic exists and is not static. A static topic needs a name of its own.",
        )
    return config.mapping_detail


def logical_queues(configs: Mapping[str, TopicConfigAndQueueMapping]) -> dict[int, LogicalQueue]:
    """All logical queues by id. MappingError if one is missing or has two leaders, or if two share a physical queue
    (``checkAndBuildMappingItems``, ``checkIfReusePhysicalQueue``, ``checkPhysicalQueueConsistence``)."""
    found: dict[int, LogicalQueue] = {}
    total = 0
    for name in sorted(configs):
        detail = detail_of(name, configs[name])
        total = max(total, detail.total_queues)
        for logical_id, items in detail.hosted_queues.items():
            check_items(items)
            if not items or items[-1].bname != name:
                continue
            if logical_id in found:
                raise MappingError(f"The queue id is duplicated in broker {found[logical_id].broker_name} {name}")
            found[logical_id] = LogicalQueue(name, items)
    if sorted(found) != list(range(total)):
        raise MappingError(
            f"The total queue number in config does not match the real hosted queues {total} != {len(found)}"
        )
    owners: dict[tuple[str, int], int] = {}
    for logical_id, queue in found.items():
        for item in queue.items:
            other = owners.setdefault((item.bname, item.queue_id), logical_id)
            if other != logical_id:
                raise MappingError(
                    f"global queue id {logical_id} and {other} shared the same physical queue "
                    f"{item.bname}-{item.queue_id}"
                )
            if item.bname not in configs:
                raise MappingError(f"The broker of item does not exist: {item.bname}")
            if item.queue_id >= configs[item.bname].write_queue_nums:
                raise MappingError("The physical queue id is overflow the write queues")
    return dict(sorted(found.items()))


# --- plans -----------------------------------------------------------------------------------------------------------


def extended(
    topic: str, queue_count: int, brokers: Iterable[str], before: Configs, now_ms: int
) -> TopicRemappingDetail:
    """The topic with ``queue_count`` logical queues. Missing ones go to ``brokers`` and the topic's present brokers,
    where the fewest are. MappingError if it has as many or more (``createTopicConfigMapping``)."""
    configs = copy.deepcopy(before)
    queues = logical_queues(configs) if configs else {}
    if queue_count < len(queues):
        raise MappingError(f"Cannot decrease the queue num for static topic {queue_count} < {len(queues)}")
    if queue_count == len(queues):
        raise MappingError("The topic queue num is equal the existed queue num, do nothing")
    counts = Counter({name: 0 for name in {*brokers, *configs}})
    counts.update(queue.broker_name for queue in queues.values())
    for logical_id in range(len(queues), queue_count):
        name = min(counts, key=lambda name: (counts[name], name))
        counts[name] += 1
        item = LogicQueueMappingItem(bname=name, queue_id=_add_queue(topic, name, configs))
        detail_of(name, configs[name]).hosted_queues[logical_id] = [item]
    return _finished(topic, CREATE_OR_UPDATE, queue_count, before, configs, now_ms)


def remapped(topic: str, brokers: Iterable[str], before: Configs, now_ms: int) -> TopicRemappingDetail:
    """The topic's logical queues spread evenly over ``brokers`` only, moving as few as possible
    (``remappingStaticTopic``). The new mapping item of a moved queue has no logical offset yet."""
    configs = copy.deepcopy(before)
    queues = logical_queues(configs)
    had = Counter(queue.broker_name for queue in queues.values())
    wanted = Counter({name: 0 for name in brokers})
    for _ in queues:  # of brokers with equally few, the one that had most before gets the next
        wanted[min(wanted, key=lambda name: (wanted[name], -had[name], name))] += 1
    moving = []
    for logical_id, queue in queues.items():
        if wanted[queue.broker_name] > 0:
            wanted[queue.broker_name] -= 1
        else:
            moving.append(logical_id)
    map_in, map_out = set(), set()
    for logical_id, name in zip(moving, sorted(wanted.elements()), strict=True):
        old = queues[logical_id]
        new_id = _add_queue(topic, name, configs)
        stay = LogicQueueMappingItem(bname=name, gen=old.items[-1].gen + 1, logic_offset=-1, queue_id=new_id)
        for one in (name, old.broker_name):
            detail_of(one, configs[one]).hosted_queues[logical_id] = [*old.items, stay]
        map_in.add(name)
        map_out.add(old.broker_name)
    plan = _finished(topic, REMAPPING, len(queues), before, configs, now_ms)
    plan.broker_to_map_in, plan.broker_to_map_out = sorted(map_in), sorted(map_out)
    return plan


def _add_queue(topic: str, broker_name: str, configs: Configs) -> int:
    """Adds a queue on a broker; its id."""
    config = configs.setdefault(broker_name, empty(topic, broker_name))
    config.read_queue_nums += 1
    config.write_queue_nums += 1
    return config.write_queue_nums - 1


def empty(topic: str, broker_name: str, *, epoch: int = 0, total_queues: int = 0) -> TopicConfigAndQueueMapping:
    """What a broker without queues of a static topic is told about it."""
    detail = TopicQueueMappingDetail(bname=broker_name, epoch=epoch, topic=topic, total_queues=total_queues)
    return TopicConfigAndQueueMapping(topic_name=topic, read_queue_nums=0, write_queue_nums=0, mapping_detail=detail)


def _finished(
    topic: str, kind: str, queue_count: int, before: Configs, configs: Configs, now_ms: int
) -> TopicRemappingDetail:
    """The plan, with one new epoch and count for all brokers, checked."""
    epoch = max(epoch_of(topic, before) + EPOCH_STEP_MS if before else 0, now_ms)
    for name, config in configs.items():
        detail = detail_of(name, config)
        detail.epoch, detail.total_queues = epoch, queue_count
    logical_queues(configs)
    return TopicRemappingDetail(broker_config_map=dict(sorted(configs.items())), epoch=epoch, topic=topic, type=kind)


def plain(config: TopicConfigAndQueueMapping) -> TopicConfig:
    """The topic's configuration without its mapping."""
    fields = {name: getattr(config, name) for name in TopicConfig.__struct_fields__}
    return TopicConfig(**fields)
