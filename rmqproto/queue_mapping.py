"""The rules of static topics (``TopicQueueMappingUtils``, ``LogicQueueMappingItem``, 5.5.0): the places of logical
queues, the conversion of offsets, and the mappings that a broker accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.static_topics import (
    GLOBAL_SCOPE,
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
)
from rmqproto.errors import ProtocolError, RocketMQError
from rmqproto.wire.whole_types import whole

MOCK_BROKER_PREFIX = "__syslo__"

OFFSET_MAX = 2**63 - 1
"""As a logical offset it stands for the newest one."""

Items = Sequence[LogicQueueMappingItem]
"""The stays of one logical queue, oldest first."""


class MappingError(RocketMQError):
    """A mapping contradicts itself, or the one before it."""


def mock_broker_name(scope: str = GLOBAL_SCOPE) -> str:
    """The broker name under which clients see a scope's logical queues."""
    return MOCK_BROKER_PREFIX + (scope[2:] if scope == GLOBAL_SCOPE else scope)


def is_mock_broker(broker_name: str) -> bool:
    """Whether the name stands for the scope of logical queues, and not for a broker."""
    return broker_name.startswith(MOCK_BROKER_PREFIX)


def leaders_untrusted(topic: str, mappings: Mapping[str, Any]) -> dict[MessageQueue, str]:
    """The broker that has each logical queue of a topic now, from the mappings that brokers registered at a nameserver.
    If two brokers claim a queue, the one with the later epoch has it. ProtocolError if ``mappings`` is not valid."""
    try:
        infos = msgspec.convert(dict(mappings), whole(dict[str, TopicQueueMappingInfo]), strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"topicQueueMappingByBroker: {error}") from None
    found: dict[MessageQueue, str] = {}
    for info in sorted(infos.values(), key=lambda info: info.epoch):
        for logical_id in info.curr_id_map:
            found[MessageQueue(topic, mock_broker_name(info.scope), logical_id)] = info.bname
    return found


# --- offsets ---------------------------------------------------------------------------------------------------------


def logical_offset(item: LogicQueueMappingItem, queue_offset: int) -> int:
    """The logical offset of a queue offset; -1 while it is not decided."""
    if item.logic_offset < 0:
        return -1
    if item.start_offset <= item.end_offset < queue_offset:
        queue_offset = item.end_offset
    return item.logic_offset + max(queue_offset - item.start_offset, 0)


def queue_offset_of(item: LogicQueueMappingItem, offset: int) -> int:
    """The queue offset of a logical offset."""
    return offset - item.logic_offset + item.start_offset


def has_ended(item: LogicQueueMappingItem) -> bool:
    return item.end_offset > item.start_offset


def item_at(items: Items, offset: int) -> LogicQueueMappingItem:
    """The stay that holds a logical offset; the oldest stay for an offset before all of them. MappingError if no stay
    has decided offsets."""
    decided = [item for item in items if item.logic_offset >= 0]
    if not decided:
        raise MappingError("the offsets of the queue are not decided yet")
    return next((item for item in reversed(decided) if offset >= item.logic_offset), decided[0])


def next_item(items: Items, item: LogicQueueMappingItem) -> LogicQueueMappingItem | None:
    """The next decided stay after ``item``."""
    following = next((other for other in items if other.gen > item.gen), None)
    return following if following is not None and following.logic_offset >= 0 else None


# --- mappings --------------------------------------------------------------------------------------------------------


def current_queues(detail: TopicQueueMappingDetail) -> dict[int, int]:
    """This broker's leading queues, by logical queue."""
    return {
        logical_id: items[-1].queue_id
        for logical_id, items in detail.hosted_queues.items()
        if items and items[-1].bname == detail.bname
    }


def registered(detail: TopicQueueMappingDetail) -> TopicQueueMappingInfo:
    """The part of a mapping that is registered at nameservers."""
    return TopicQueueMappingInfo(
        bname=detail.bname,
        curr_id_map=current_queues(detail),
        epoch=detail.epoch,
        topic=detail.topic,
        total_queues=detail.total_queues,
    )


def check_items(items: Items) -> None:
    """MappingError for offsets and generations that are impossible for a logical queue
    (``checkLogicQueueMappingItemOffset``)."""
    later_gen, later_offset = -1, -1
    for number, item in enumerate(reversed(items)):
        if item.start_offset < 0 or item.gen < 0 or item.queue_id < 0:
            raise MappingError("The field is illegal, should not be negative")
        if number and item.logic_offset < 0:
            raise MappingError("The non-latest item has negative logic offset")
        if later_gen != -1 and item.gen >= later_gen:
            raise MappingError("The gen does not increase monotonically")
        if item.end_offset != -1 and item.end_offset < item.start_offset:
            raise MappingError("The endOffset is smaller than the start offset")
        if later_offset != -1 and item.logic_offset != -1:
            if item.logic_offset >= later_offset:
                raise MappingError("The base logic offset does not increase monotonically")
            if logical_offset(item, max(item.end_offset, item.start_offset)) >= later_offset:
                raise MappingError("The max logic offset does not increase monotonically")
        later_gen, later_offset = item.gen, item.logic_offset


def succeeded(
    old: TopicQueueMappingDetail | None, new: TopicQueueMappingDetail, *, force: bool
) -> TopicQueueMappingDetail:
    """The mapping to keep when ``new`` follows ``old``. It includes logical queues that ``new`` does not name.
    MappingError if it must not follow (``TopicQueueMappingManager.updateTopicQueueMapping``)."""
    for items in new.hosted_queues.values():
        check_items(items)
    if old is None:
        return new
    if not force:
        _check_succession(old, new)
    kept = {**old.hosted_queues, **new.hosted_queues}
    return TopicQueueMappingDetail(
        bname=new.bname,
        curr_id_map=new.curr_id_map,
        dirty=new.dirty,
        epoch=new.epoch,
        hosted_queues=dict(sorted(kept.items())),
        scope=new.scope,
        topic=new.topic,
        total_queues=new.total_queues,
    )


def _check_succession(old: TopicQueueMappingDetail, new: TopicQueueMappingDetail) -> None:
    if new.epoch < old.epoch:
        raise MappingError(f"Can't accept data with small epoch {new.epoch} < {old.epoch}")
    if new.scope != old.scope:
        raise MappingError(f"Can't accept data with unmatched scope {new.scope} != {old.scope}")
    is_same_epoch = new.epoch == old.epoch
    for logical_id, old_items in old.hosted_queues.items():
        new_items = new.hosted_queues.get(logical_id)
        if new_items is None:
            if is_same_epoch:
                raise MappingError("Cannot accept equal epoch with null data")
            continue
        if old_items and not new_items:
            raise MappingError("The new item list is null or empty")
        if is_same_epoch and old_items and _leader_key(old_items) != _leader_key(new_items):
            raise MappingError("The new leader is different but epoch equal")


def _leader_key(items: Items) -> tuple[int, str, int, int]:
    leader = items[-1]
    return leader.gen, leader.bname, leader.queue_id, leader.start_offset
