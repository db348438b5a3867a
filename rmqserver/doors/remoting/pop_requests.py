"""The requests that take messages by POP or only look (``PopMessageProcessor``, ``PopLiteMessageProcessor``,
``PeekMessageProcessor``, ``NotificationProcessor``, ``PollingInfoProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.lite import PopLiteAnswer, PopLiteHeader
from rmqproto.headers.popping import (
    NotificationAnswer,
    NotificationHeader,
    PeekHeader,
    PollingInfoAnswer,
    PollingInfoHeader,
    PopAnswer,
    PopHeader,
)
from rmqproto.pop import ORDER_REVIVE_QUEUE_ID, msg_offset_info, order_count_info, start_offset_info
from rmqserver.doors.remoting.answer_templates import HEAD, POP_FOUND
from rmqserver.doors.remoting.handlers import refused_with
from rmqserver.doors.remoting.held_answers import answer_read, answering
from rmqserver.operation import UNSET_REMARK
from rmqserver.remoting.answer import Request, answer_frame, send_answer, success
from rmqserver.store.results import GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.consuming.lite.pops import LitePopped, LitePops
    from rmqserver.broker.consuming.pop.looks import Looks, Peeked
    from rmqserver.broker.consuming.pop.pop_request import Pops
    from rmqserver.broker.consuming.pop.popping import Popped
    from rmqserver.broker.reads import Reads
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


_POPPED_NONE = PopAnswer()


class PopRequests:
    def __init__(self, pops: Pops, lite_pops: LitePops, looks: Looks, reads: Reads):
        self._pops = pops
        self._lite_pops = lite_pops
        self._looks = looks
        self._reads = reads

    def handlers(self) -> dict[int, Handler]:
        return {
            R.POP_MESSAGE: refused_with(_POPPED_NONE, self._pop),
            R.POP_LITE_MESSAGE: refused_with(PopLiteAnswer(), self._pop_lite),
            R.PEEK_MESSAGE: refused_with(_POPPED_NONE, self._peek),
            R.NOTIFICATION: refused_with(NotificationAnswer(), self._notify),
            R.POLLING_INFO: refused_with(PollingInfoAnswer(), self._polling_info),
            # Apache's broker moves POP state from RocksDB to the revive log; ours has it only in that log.
            R.POP_ROLLBACK: lambda request, _: success(request, remark=UNSET_REMARK),
        }

    def _pop(self, request: Request[PopHeader], connection: Connection) -> None:
        then = partial(_answer_pop, request, connection)
        guarded = partial(answering, request, connection, refused_with=_POPPED_NONE)
        self._pops.pop(request.header, connection, then, guarded)

    def _pop_lite(self, request: Request[PopLiteHeader], connection: Connection) -> None:
        then = partial(_answer_lite, request, connection)
        self._lite_pops.pop(request.header, connection, then, partial(answering, request, connection))

    def _peek(self, request: Request[PeekHeader], connection: Connection) -> None:
        look = self._looks.peek(request.header, connection)
        answer_read(self._reads, request, connection, look, partial(_peeked, request))

    def _notify(self, request: Request[NotificationHeader], connection: Connection) -> None:
        def then(answer: NotificationAnswer) -> None:
            send_answer(request, connection, success(request, answer, remark=UNSET_REMARK))

        self._looks.notify(request.header, connection, then, partial(answering, request, connection))

    def _polling_info(self, request: Request[PollingInfoHeader], connection: Connection) -> bytes:
        count = self._looks.polling_count(request.header, connection)
        return success(request, PollingInfoAnswer(polling_num=count), remark=UNSET_REMARK)


def _answer_pop(request: Request[PopHeader], connection: Connection, code: int, popped: Popped) -> None:
    asked, starts, offsets = request.header, start_offset_info(popped.starts), msg_offset_info(popped.offsets)
    records = b"".join(popped.chunks)
    if code == ResponseCode.SUCCESS and not (request.codec or asked.order):
        values = (
            popped.pop_time_ms, asked.invisible_time, popped.revive_queue_id, popped.rest_count, starts, offsets,
            request.opaque,
        )  # fmt: skip
        rendered = (POP_FOUND % values).encode()
        send_answer(request, connection, HEAD.pack(4 + len(rendered) + len(records), len(rendered)) + rendered)
        send_answer(request, connection, records)  # separately: the connection joins what it sends
        return
    header = PopAnswer(
        pop_time=popped.pop_time_ms,
        invisible_time=asked.invisible_time,
        revive_qid=popped.revive_queue_id,
        rest_num=popped.rest_count,
        start_offset_info=starts,
        msg_offset_info=offsets,
        order_count_info=order_count_info(popped.order_counts) if asked.order else None,
    )
    send_answer(request, connection, answer_frame(request, code, _remark(popped.message_count), header, records))


def _answer_lite(request: Request[PopLiteHeader], connection: Connection, code: int, popped: LitePopped) -> None:
    header = PopLiteAnswer(
        pop_time=popped.now_ms,
        invisible_time=request.header.invisible_time,
        revive_qid=ORDER_REVIVE_QUEUE_ID,
        order_count_info=";".join(map(str, popped.counts)) or None,
    )
    records = b"".join(popped.records)
    send_answer(request, connection, answer_frame(request, code, _remark(len(records)), header, records))


def _peeked(request: Request[Any], peeked: Peeked) -> bytes:
    code = ResponseCode.SUCCESS if peeked.records else ResponseCode.PULL_NOT_FOUND
    header, records = PopAnswer(rest_num=peeked.rest_count), b"".join(peeked.records)
    return answer_frame(request, code, _remark(len(records)), header, records)


def _remark(found_count: int) -> str:
    return GetStatus.FOUND.value if found_count else GetStatus.NO_MESSAGE_IN_QUEUE.value
