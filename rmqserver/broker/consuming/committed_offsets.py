"""QUERY_CONSUMER_OFFSET (14), UPDATE_CONSUMER_OFFSET (15): consumers query and commit their offsets
(``ConsumerManageProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import OffsetAnswer, QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader
from rmqproto.queue_mapping import item_at, logical_offset, queue_offset_of
from rmqserver.broker.consuming.former_brokers import physical
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.tables.queue_mappings import is_physical
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.store.queues.reader import physical_memory_bytes

if TYPE_CHECKING:
    from rmqproto.bodies.static_topics import LogicQueueMappingItem
    from rmqproto.wire.command import Command
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler
    from rmqserver.store.message_store import MessageStore

_QUERY_ANSWERED = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)


class OffsetHandlers:
    def __init__(self, parts: BrokerParts):
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._mappings = parts.mappings
        self._former = parts.former_brokers
        self._static_topics = parts.mappings.all()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self._handle_query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._handle_commit,
        }

    def _handle_query(self, request: Request[QueryConsumerOffsetHeader], connection: Connection) -> bytes | None:
        """Raises Refused with 501 if the topic is static and the queue on another broker."""
        header = request.header
        if header.topic in self._static_topics and not is_physical(header.logical):
            items = self._mappings.items(header.topic, header.queue_id)
            if len(items) > 1 or items[0].logic_offset != 0:
                return self._query_static(request, connection, [item for item in items if item.logic_offset >= 0])
            header = msgspec.structs.replace(header, queue_id=items[0].queue_id)
        return success(request, OffsetAnswer(offset=self.query(header)))

    def _query_static(
        self,
        request: Request[QueryConsumerOffsetHeader],
        connection: Connection,
        items: list[LogicQueueMappingItem],
    ) -> bytes | None:
        """Answers with the logical offset, from the newest of these mapping items in which the group has an offset.
        None if another broker is asked first. Raises Refused with 22 if there is none."""
        header = request.header
        for number, item in reversed([*enumerate(items)]):
            if not self._mappings.is_here(item):
                asked = msgspec.structs.replace(physical(header, item), set_zero_if_not_found=False)
                render = partial(self._found_there, request, connection, item, items[:number])
                self._former.ask(request, connection, item, asked, render, _QUERY_ANSWERED)
                return None
            committed = self._offsets.committed(header.consumer_group, header.topic, item.queue_id)
            if committed is not None and committed >= 0:
                return success(request, OffsetAnswer(offset=logical_offset(item, committed)))
        raise Refused(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")

    def _found_there(
        self,
        request: Request[QueryConsumerOffsetHeader],
        connection: Connection,
        item: LogicQueueMappingItem,
        older: list[LogicQueueMappingItem],
        answer: Command,
    ) -> bytes | None:
        """Goes on with the older mapping items if the group has no offset in ``item``, on another broker."""
        if answer.code != ResponseCode.SUCCESS:
            return self._query_static(request, connection, older)
        committed = from_ext(answer.ext, OffsetAnswer).offset
        return success(request, OffsetAnswer(offset=logical_offset(item, committed)))

    def query(self, header: QueryConsumerOffsetHeader) -> int:
        """The queue offset where the group goes on. Raises Refused with 22 if it has none and the client is to
        choose."""
        committed = self._offsets.committed(header.consumer_group, header.topic, header.queue_id)
        if committed is not None and committed >= 0:
            return committed
        if header.set_zero_if_not_found is False:
            text = "Not found, do not set to zero, maybe this group boot first"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, text)
        if is_whole_queue_near(self._store, header.topic, header.queue_id):
            return 0
        text = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        raise Refused(ResponseCode.QUERY_NOT_FOUND, text)

    def _handle_commit(self, request: Request[UpdateConsumerOffsetHeader], connection: Connection) -> bytes | None:
        header = request.header
        if header.topic in self._static_topics and not is_physical(header.logical):
            header, item = self._placed(header)
            if item is not None and not self._mappings.is_here(item):
                self._former.ask(
                    request, connection, item, header, lambda answer: success(request, remark=answer.remark)
                )
                return None
        if not self.commit(header):
            return success(request, remark="Offset has been previously reset")
        return success(request)

    def _placed(
        self, header: UpdateConsumerOffsetHeader
    ) -> tuple[UpdateConsumerOffsetHeader, LogicQueueMappingItem | None]:
        """The same commit for the queue that holds the logical offset, and its mapping item; unchanged and None if a
        field is missing. Raises Refused with 501 if the logical queue is on another broker."""
        if header.topic is None or header.queue_id is None or header.commit_offset is None:
            return header, None
        item = item_at(self._mappings.items(header.topic, header.queue_id), header.commit_offset)
        queue_offset = queue_offset_of(item, header.commit_offset)
        return msgspec.structs.replace(physical(header, item), commit_offset=queue_offset), item

    def commit(self, header: UpdateConsumerOffsetHeader) -> bool:
        """Stores the group's offset. Returns False and changes nothing while an operator's reset waits to be delivered.
        Raises Refused if group, topic or a number is missing, and TableFull."""
        group, topic = header.consumer_group, header.topic
        queue_id, queue_offset = header.queue_id, header.commit_offset
        if group is None or self._groups.get(group) is None:
            remark = f"Group {'null' if group is None else group} not exist!"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if topic is None or self._topics.get(topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {'null' if topic is None else topic} not exist!")
        if queue_id is None:
            raise Refused(ResponseCode.INVALID_PARAMETER, "QueueId is null, topic is " + topic)
        if queue_offset is None:
            raise Refused(ResponseCode.INVALID_PARAMETER, "Offset is null, topic is " + topic)
        if self._offsets.has_reset(group, topic, queue_id):
            return False
        self._offsets.commit(group, topic, queue_id, queue_offset)
        return True


def is_whole_queue_near(store: MessageStore, topic: str, queue_id: int) -> bool:
    """Whether a new group should read the queue from its start, whatever it asked for: the queue begins at 0 and its
    first message is no further back than memory reaches, so the queue is young."""
    queue = store.queue(topic, queue_id)
    unit = queue.unit(0) if queue is not None and queue.min_offset <= 0 else None
    if unit is None:
        return False
    reach_bytes = physical_memory_bytes() * store.options.memory_percent_for_messages // 100
    return store.confirmed_offset - unit[0] <= reach_bytes
