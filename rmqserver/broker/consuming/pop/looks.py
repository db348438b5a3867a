"""PEEK_MESSAGE (200052), NOTIFICATION (200054), POLLING_INFO (200055) and POP_ROLLBACK (200056): requests that look at
POP and take nothing (``PeekMessageProcessor``, ``NotificationProcessor``, ``PollingInfoProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.headers.popping import (
    NotificationAnswer,
    NotificationHeader,
    PeekHeader,
    PollingInfoAnswer,
    PollingInfoHeader,
    PopAnswer,
)
from rmqserver.broker.consuming.pop.orders import Orders
from rmqserver.broker.consuming.pop.pop import EARLY_MS
from rmqserver.broker.consuming.pop.pop_checks import POP_COUNT_MAX, PopChecks, wanted_by
from rmqserver.broker.consuming.pop.popping import Popping
from rmqserver.broker.consuming.pop.waiting import NOTIFICATION, Waiting
from rmqserver.operation import UNSET_REMARK
from rmqserver.remoting.answer import Request, answer_frame, send_answer, success
from rmqserver.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


Seen = dict[tuple[str, int], tuple[int, int]]
"""By topic and queue id: the group's offset when a notification looked, and the queue offset up to which it looked."""


class Looks:
    def __init__(self, parts: BrokerParts, popping: Popping, orders: Orders, waiting: Waiting):
        self._config = parts.config
        self._store = parts.store
        self._clock_ms = parts.clock_ms
        self._filters = parts.filters
        self._popping = popping
        self._orders = orders
        self._waiting = waiting
        self._reads = parts.reads
        self._checks = PopChecks(parts)

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.PEEK_MESSAGE: self._peek,
            RequestCode.NOTIFICATION: self._notify,
            RequestCode.POLLING_INFO: self._polling_info,
            RequestCode.POP_ROLLBACK: self._roll_back,
        }

    # --- peek --------------------------------------------------------------------------------------------------------

    def _peek(self, request: Request[PeekHeader], connection: Connection) -> bytes | None:
        """Answers what the group would pop next, without filters. Messages of retry topics come as they are stored."""
        header, none = request.header, PopAnswer()
        group, count_max = header.consumer_group, min(header.max_msg_nums, POP_COUNT_MAX)
        self._checks.peek(connection, none)
        self._checks.topic_and_group(header.topic, header.queue_id, group, connection.address, none)
        sources = self._popping.sources(group, header.topic, header.queue_id)

        def look() -> tuple[list[bytes], int]:
            records: list[bytes] = []
            rest_count = 0
            for topic, queue_id in sources:
                start = self._popping.peeked_offset(group, topic, queue_id)
                rest_count += self._store.max_offset(topic, queue_id) - start
                if len(records) < count_max:
                    records += self._get(topic, queue_id, start, count_max - len(records)).records()
            return records, rest_count

        return self._reads.read(request, connection, look, lambda found: _peeked(request, *found))

    def _get(self, topic: str, queue_id: int, start: int, count: int) -> GetResult:
        result = self._store.get(topic, queue_id, start, count)
        if result.status in (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY):
            result = self._store.get(topic, queue_id, result.next_offset, count)
        return result

    # --- notification ------------------------------------------------------------------------------------------------

    def _notify(self, request: Request[NotificationHeader], connection: Connection) -> None:
        header, none = request.header, NotificationAnswer()
        self._checks.peek(connection, none)
        self._checks.topic_and_group(header.topic, header.queue_id, header.consumer_group, connection.address, none)
        wanted = EVERYTHING
        if self._config.use_message_filter_for_notification:
            wanted = wanted_by(self._filters, header, none)
        self._look(request, connection, wanted, header.born_time + header.poll_time - EARLY_MS, {})

    def _look(
        self,
        request: Request[NotificationHeader],
        connection: Connection,
        wanted: MessageFilter,
        deadline_ms: int,
        seen: Seen,
    ) -> None:
        """Answers, or holds the request until the deadline. What it cannot look at until then counts as wanted."""
        look = partial(self._has_message, request.header, wanted, seen)
        go_on = partial(self._looked, request, connection, wanted, deadline_ms, seen)
        self._reads.read(request, connection, look, go_on)

    def _looked(
        self,
        request: Request[NotificationHeader],
        connection: Connection,
        wanted: MessageFilter,
        deadline_ms: int,
        seen: Seen,
        has_message: bool | None,
    ) -> None:
        header, is_full = request.header, False
        if not has_message and header.poll_time > 0 and self._clock_ms() < deadline_ms:
            go_on = partial(self._look, request, connection, wanted, deadline_ms, seen)
            if has_message is None:
                self._waiting.go_on_next_turn(NOTIFICATION, header, connection, go_on)
                return
            if self._waiting.hold(NOTIFICATION, header, connection, deadline_ms, go_on, wanted):
                return
            is_full = True
        has_message = has_message is not False
        answer = NotificationAnswer(has_msg=has_message, polling_full=is_full)
        send_answer(request, connection, success(request, answer, remark=UNSET_REMARK))

    def _has_message(self, header: NotificationHeader, wanted: MessageFilter, seen: Seen) -> bool | None:
        """Looks at a portion of each queue. None: it found nothing, and there is more to look at."""
        group = header.consumer_group
        has_unseen = False
        for topic, queue_id in self._popping.sources(group, header.topic, header.queue_id):
            if header.order and self._orders.blocked_until_ms(group, topic, queue_id, header.attempt_id, 0):
                continue
            offset = self._popping.peeked_offset(group, topic, queue_id)
            before, behind = seen.get((topic, queue_id), (0, 0))
            start = max(offset, behind) if offset >= before else offset  # an operator may have reset the group
            if self._store.max_offset(topic, queue_id) <= start:
                continue
            if wanted is EVERYTHING:
                return True
            result = self._store.get(topic, queue_id, start, 1, wanted=wanted)
            if result.chunks:
                return True
            seen[topic, queue_id] = offset, result.next_offset
            has_unseen |= start < result.next_offset < result.max_offset
        return None if has_unseen else False

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _polling_info(self, request: Request[PollingInfoHeader], connection: Connection) -> bytes:
        header, none = request.header, PollingInfoAnswer()
        self._checks.peek(connection, none)
        self._checks.topic_and_group(header.topic, header.queue_id, header.consumer_group, connection.address, none)
        count = self._waiting.pops_held_for(header.topic, header.consumer_group, header.queue_id)
        return success(request, PollingInfoAnswer(polling_num=count), remark=UNSET_REMARK)

    def _roll_back(self, request: Request[Any], connection: Connection) -> bytes:
        """Does nothing: Apache's broker moves POP state from RocksDB to the revive log; ours has it only in that
        log."""
        return success(request, remark=UNSET_REMARK)


def _peeked(request: Request[PeekHeader], records: list[bytes], rest_count: int) -> bytes:
    status = GetStatus.FOUND if records else GetStatus.NO_MESSAGE_IN_QUEUE
    code = ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND
    return answer_frame(request, code, status.value, PopAnswer(rest_num=rest_count), b"".join(records))
