"""POP_MESSAGE (200050): checks the request and takes messages, then answers or holds the request
(``PopMessageProcessor``, 5.5.0)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.headers.popping import PopAnswer, PopHeader
from rmqproto.pop import msg_offset_info, order_count_info, start_offset_info
from rmqserver.broker.answer_templates import HEAD, POP_FOUND
from rmqserver.broker.consuming.held_answers import answering
from rmqserver.broker.consuming.pop.pop_checks import PopChecks, wanted_by
from rmqserver.broker.consuming.pop.popping import FoundPops, Popped, Popping
from rmqserver.broker.consuming.pop.waiting import POP, Waiting
from rmqserver.broker.sending.pending import Outcome
from rmqserver.broker.sending.put import Put
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, answer_frame, refusal, send_answer
from rmqserver.store.results import GetStatus, MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

log = logging.getLogger(__name__)

EARLY_MS = 50
"""A pop that waits is answered this long before its time is up (``PopRequest``)."""


class Pops:
    def __init__(self, parts: BrokerParts, popping: Popping, waiting: Waiting, put: Put):
        self._parts = parts
        self._filters = parts.filters
        self._popping = popping
        self._waiting = waiting
        self._put = put
        self._checks = PopChecks(parts)

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.POP_MESSAGE: self._serve}

    def _serve(self, request: Request[PopHeader], connection: Connection) -> None:
        header, none = request.header, PopAnswer()
        self._checks.pop(header, connection, none)
        self._checks.topic_and_group(header.topic, header.queue_id, header.consumer_group, connection.address, none)
        wanted = wanted_by(self._filters, header, none)
        kind = header.exp_type if header.exp else None
        self._parts.clients.note_carried(header.consumer_group, header.topic, kind, header.exp)
        deadline_ms = (header.born_time or self._parts.clock_ms()) + header.poll_time - EARLY_MS
        self._try(request, connection, wanted, deadline_ms)

    def _try(
        self, request: Request[PopHeader], connection: Connection, wanted: MessageFilter, deadline_ms: int
    ) -> None:
        """Answers, or holds the request until the deadline."""
        header = request.header
        sources = self._popping.sources(
            header.consumer_group, header.topic, header.queue_id, with_retries=not header.order
        )
        find = partial(self._popping.find, header, wanted, sources)
        self._parts.reads.read(request, connection, find, partial(self._take, request, connection, wanted, deadline_ms))

    def _take(
        self,
        request: Request[PopHeader],
        connection: Connection,
        wanted: MessageFilter,
        deadline_ms: int,
        found: FoundPops,
    ) -> None:
        parts, header = self._parts, request.header
        parts.reads.warm(found.missing)
        try:
            popped = self._popping.pop(header, found, parts.address.record_host(connection))
        except MessageRefused as refused:
            raise Refused(ResponseCode.SYSTEM_ERROR, refused.status.value, PopAnswer()) from None
        if popped.message_count:
            if popped.rest_count > 0:
                self._wake_next(header)
            self._when_written(request, connection, popped)
            return
        code, may_wait = ResponseCode.POLLING_TIMEOUT, header.poll_time > 0 and parts.clock_ms() < deadline_ms
        again = partial(self._try, request, connection, wanted, deadline_ms)
        go_on = partial(answering, request, connection, again)
        if may_wait and popped.has_unseen:
            self._waiting.go_on_next_turn(POP, header, connection, go_on)
            return
        parts.stats.get_miss += 1
        if may_wait:
            until_ms = min(deadline_ms, popped.free_at_ms or deadline_ms)
            if self._waiting.hold(POP, header, connection, until_ms, go_on, wanted):
                return
            code = ResponseCode.POLLING_FULL
        self._answer(request, connection, code, popped)

    def _when_written(self, request: Request[PopHeader], connection: Connection, popped: Popped) -> None:
        """Answers once the check points are as safe as messages are."""

        def on_done(outcome: Outcome) -> None:
            if outcome.is_lost:
                self._popping.take_back(request.header.consumer_group, popped)
                self._wake_next(request.header)
                send_answer(request, connection, refusal(request, outcome.code, outcome.remark, PopAnswer()))
            else:
                self._parts.stats.get_found += 1
                self._answer(request, connection, ResponseCode.SUCCESS, popped)

        self._parts.pending.wait(on_done, until_safe=self._put.knows_safe and bool(popped.taken_back))

    def _wake_next(self, header: PopHeader) -> None:
        self._waiting.wake_next_pop(header.topic, header.consumer_group, header.queue_id)

    def _answer(self, request: Request[PopHeader], connection: Connection, code: int, popped: Popped) -> None:
        status = GetStatus.FOUND if popped.message_count else GetStatus.NO_MESSAGE_IN_QUEUE
        if code == ResponseCode.SUCCESS and not (request.codec or request.header.order):
            _answer_found(request, connection, popped)
            return
        header = PopAnswer(
            pop_time=popped.pop_time_ms,
            invisible_time=request.header.invisible_time,
            revive_qid=popped.revive_queue_id,
            rest_num=popped.rest_count,
            start_offset_info=start_offset_info(popped.starts),
            msg_offset_info=msg_offset_info(popped.offsets),
            order_count_info=order_count_info(popped.order_counts) if request.header.order else None,
        )
        frame = answer_frame(request, code, status.value, header, b"".join(popped.chunks))
        send_answer(request, connection, frame)


def _answer_found(request: Request[PopHeader], connection: Connection, popped: Popped) -> None:
    """Answers a JSON request whose messages are not in order."""
    values = (
        popped.pop_time_ms, request.header.invisible_time, popped.revive_queue_id, popped.rest_count,
        start_offset_info(popped.starts), msg_offset_info(popped.offsets), request.opaque,
    )  # fmt: skip
    header, records = (POP_FOUND % values).encode(), b"".join(popped.chunks)
    send_answer(request, connection, HEAD.pack(4 + len(header) + len(records), len(header)) + header)
    send_answer(request, connection, records)  # separately: the connection joins what it sends
