"""The rules of static topics (``TopicQueueMappingUtils``, ``LogicQueueMappingItem``, 5.5.0): the places of logical
queues, the conversion of offsets, and what no mapping can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import (
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
