"""Pulls from a static topic: a logical queue is read where its messages are, and the answer is in logical offsets
(``PullMessageProcessor.rewriteResponseForStaticTopic``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.static_topics import LogicQueueMappingItem
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import PULL_COMMIT_OFFSET, PULL_SUSPEND, PullAnswer, PullHeader
from rmqproto.queue_mapping import has_ended, item_at, logical_offset, next_item, queue_offset_of
from rmqserver.broker.consuming.pull_answers import OFFSET_RESET
from rmqserver.remoting.answer import Request, answer_frame
from rmqserver.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rmqproto.wire.command import Command
    from rmqserver.broker.consuming.former_brokers import FormerBrokers
    from rmqserver.broker.tables.queue_mappings import QueueMappings
    from rmqserver.remoting.connection import Connection

_NOT_HERE = "%s-%d cannot find mapping item in request process of current broker %s"

_PULLED = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class PlacedPull(PullHeader, kw_only=True):
    """A pull of a logical queue, with the queue and offsets of its mapping item that holds the messages: ``item``."""

    item: LogicQueueMappingItem
    items: list[LogicQueueMappingItem]

    @property
    def offset_delta(self) -> int:
        """What a client adds to the offsets in the records."""
        return self.item.logic_offset - self.item.start_offset

    def ask(self, former: FormerBrokers, request: Request[Any], connection: Connection) -> None:
        """Pulls from the broker where the queue was before, and answers the client with what was found. The pull is not
        held there, and commits nothing there."""
        fields = {name: getattr(self, name) for name in PullHeader.__struct_fields__}
        fields |= {"logical": "false", "sys_flag": self.sys_flag & ~(PULL_SUSPEND | PULL_COMMIT_OFFSET)}
        former.ask(request, connection, self.item, PullHeader(**fields), partial(self._found_there, request), _PULLED)

    def _found_there(self, request: Request[Any], answer: Command) -> bytes:
        found, code = from_ext(answer.ext, PullAnswer), ResponseCode(answer.code)
        result = GetResult(GetStatus.FOUND, found.next_begin_offset, found.min_offset, found.max_offset)
        if answer.remark == OFFSET_RESET:
            self.to_logical(result, self.item)
        else:
            code = self.settle(code, result)
        found.next_begin_offset = result.next_offset
        found.min_offset, found.max_offset = result.min_offset, result.max_offset
        found.offset_delta = self.offset_delta
        return answer_frame(request, code, answer.remark, found, answer.body)

    def settle(self, code: ResponseCode, result: GetResult) -> ResponseCode:
        """Returns the answer's code after the read, and makes the offsets of ``result`` logical."""
        item = self.item
        if code != ResponseCode.SUCCESS:
            code, item = self._missed(code, result)
        self.to_logical(result, item)
        return code

    def to_logical(self, result: GetResult, item: LogicQueueMappingItem) -> None:
        """Makes the offsets of ``result``, which are those of mapping item ``item``, logical."""
        if has_ended(item):
            result.next_offset = min(result.next_offset, item.end_offset)
        leader = self.items[-1]
        leader_end = logical_offset(leader, max(leader.end_offset, leader.start_offset))
        result.next_offset = logical_offset(item, result.next_offset)
        result.min_offset = logical_offset(item, max(item.start_offset, result.min_offset))
        result.max_offset = max(logical_offset(item, result.max_offset), leader_end)

    def _missed(self, code: ResponseCode, result: GetResult) -> tuple[ResponseCode, LogicQueueMappingItem]:
        """The code if nothing was found, and the mapping item of the new offsets. Before its first message, the oldest
        item says that the offset has moved; at a later item, the reader goes on at once. At the end of an item, the
        reader goes on with the next one; at the end of the last one, it waits."""
        item, decided = self.item, item_at(self.items, 0)
        if self.queue_offset < result.min_offset:
            result.next_offset = result.min_offset
            moved = item.gen == decided.gen
            return ResponseCode.PULL_OFFSET_MOVED if moved else ResponseCode.PULL_RETRY_IMMEDIATELY, item
        if item.gen == self.items[-1].gen and item.gen != decided.gen:
            return code, item
        if self.queue_offset < result.max_offset:
            return code, item
        following = next_item(self.items, item)
        if following is None:
            return ResponseCode.PULL_NOT_FOUND, item
        result.next_offset = result.min_offset = result.max_offset = following.start_offset
        return ResponseCode.PULL_RETRY_IMMEDIATELY, following


def placed(header: PullHeader, mappings: QueueMappings) -> PlacedPull:
    """The pull with its queue and offsets on this broker. Raises Refused with 501 if the queue is on another broker
    now; MappingError if its offsets are not decided. The messages may be on a broker where the queue was before."""
    items = mappings.items(header.topic, header.queue_id, _NOT_HERE)
    item = item_at(items, header.queue_offset)
    fields = {name: getattr(header, name) for name in PullHeader.__struct_fields__}
    fields |= {
        "queue_id": item.queue_id,
        "queue_offset": queue_offset_of(item, header.queue_offset),
        "commit_offset": max(queue_offset_of(item, header.commit_offset), 0),
    }
    if has_ended(item):
        fields["max_msg_nums"] = min(header.max_msg_nums, item.end_offset - item.start_offset)
    return PlacedPull(**fields, item=item, items=items)
