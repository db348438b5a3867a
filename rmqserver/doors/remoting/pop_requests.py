"""POP: the requests that take messages or only look (``PopMessageProcessor``, ``PopLiteMessageProcessor``,
``PeekMessageProcessor``, ``NotificationProcessor``, ``PollingInfoProcessor``), acknowledgements and invisible times
(``AckMessageProcessor``, ``ChangeInvisibleTimeProcessor``), whether a group pops and which queues its clients have
(``QueryAssignmentProcessor``), and lite topics (``LiteSubscriptionCtlProcessor``, ``LiteManagerProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.lite import LiteSubscriptionCtl
from rmqproto.bodies.popping import AssignmentRequest, BatchAcks, RequestMode, RequestModes
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.popping import (
    AckHeader,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeHeader,
    NotificationAnswer,
    NotificationHeader,
    PeekHeader,
    PollingInfoAnswer,
    PollingInfoHeader,
    PopAnswer,
    PopHeader,
    PopLiteAnswer,
    PopLiteHeader,
)
from rmqproto.pop import ORDER_REVIVE_QUEUE_ID, msg_offset_info, order_count_info, start_offset_info
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.doors.remoting.handlers import answer_read, answering, done, refused_with, value_of, with_body
from rmqserver.doors.remoting.sent_answers import HEAD, POP_FOUND
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, answer_frame, send_answer, success
from rmqserver.store.results import GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.assembly import BrokerAssembly
    from rmqserver.broker.consuming.lite_pops import LitePopped
    from rmqserver.broker.consuming.pop.looks import Peeked
    from rmqserver.broker.consuming.pop.popping import Popped
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


_POPPED_NONE = PopAnswer()


def pop_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    assigning = parts.assigning
    return {
        R.POP_MESSAGE: refused_with(_POPPED_NONE, partial(_pop, parts)),
        R.POP_LITE_MESSAGE: refused_with(PopLiteAnswer(), partial(_pop_lite, parts)),
        R.PEEK_MESSAGE: refused_with(_POPPED_NONE, partial(_peek, parts)),
        R.NOTIFICATION: refused_with(NotificationAnswer(), partial(_notify, parts)),
        R.POLLING_INFO: refused_with(PollingInfoAnswer(), partial(_polling_info, parts)),
        # Apache's broker moves POP state from RocksDB to the revive log; ours has it only in that log.
        R.POP_ROLLBACK: lambda request, _: success(request, remark=UNSET_REMARK),
        R.ACK_MESSAGE: partial(_ack, parts),
        R.BATCH_ACK_MESSAGE: done(partial(_batch_ack, parts)),
        R.CHANGE_MESSAGE_INVISIBLETIME: refused_with(ChangeInvisibleTimeAnswer(), partial(_change, parts)),
        R.SET_MESSAGE_REQUEST_MODE: done(
            lambda request, _: assigning.set_mode(loads_untrusted(request.body, RequestMode))
        ),
        R.GET_ALL_MESSAGE_REQUEST_MODE: value_of(
            lambda request, _: RequestModes(message_request_mode_map=assigning.modes)
        ),
        R.QUERY_ASSIGNMENT: partial(_query, parts),
    }


def _pop(parts: BrokerAssembly, request: Request[PopHeader], connection: Connection) -> None:
    then = partial(_answer_pop, request, connection)
    guarded = partial(answering, request, connection, refused_with=_POPPED_NONE)
    parts.pops.pop(request.header, connection, then, guarded)


def _pop_lite(parts: BrokerAssembly, request: Request[PopLiteHeader], connection: Connection) -> None:
    then = partial(_answer_lite, request, connection)
    parts.lite_pops.pop(request.header, connection, then, partial(answering, request, connection))


def _peek(parts: BrokerAssembly, request: Request[PeekHeader], connection: Connection) -> None:
    look = parts.looks.peek(request.header, connection)
    answer_read(parts.reads, request, connection, look, partial(_peeked, request))


def _notify(parts: BrokerAssembly, request: Request[NotificationHeader], connection: Connection) -> None:
    def then(answer: NotificationAnswer) -> None:
        send_answer(request, connection, success(request, answer, remark=UNSET_REMARK))

    parts.looks.notify(request.header, connection, then, partial(answering, request, connection))


def _polling_info(parts: BrokerAssembly, request: Request[PollingInfoHeader], connection: Connection) -> bytes:
    count = parts.looks.polling_count(request.header, connection)
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


def _ack(parts: BrokerAssembly, request: Request[AckHeader], connection: Connection) -> bytes:
    parts.acks.ack(request.header, connection)
    return success(request)


def _batch_ack(parts: BrokerAssembly, request: Request[Any], connection: Connection) -> None:
    body = loads_untrusted(request.body, BatchAcks) if request.body else BatchAcks()
    if not body.acks:
        raise Refused(ResponseCode.NO_MESSAGE, None)
    for ack in body.acks:
        parts.acks.ack_batch(ack, body.broker_name, connection)


def _change(parts: BrokerAssembly, request: Request[ChangeInvisibleTimeHeader], connection: Connection) -> bytes:
    return success(request, parts.acks.change(request.header, connection), remark=UNSET_REMARK)


def _query(parts: BrokerAssembly, request: Request[Any], connection: Connection) -> None:
    asked = loads_untrusted(request.body, AssignmentRequest)
    request.body = b""
    parts.assigning.query(asked, lambda found: send_answer(request, connection, with_body(request, found)))


def lite_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    infos = parts.lite_infos
    return {
        R.LITE_SUBSCRIPTION_CTL: done(partial(_subscribe, parts)),
        R.GET_BROKER_LITE_INFO: value_of(lambda request, _: infos.broker()),
        R.GET_PARENT_TOPIC_INFO: value_of(lambda request, _: infos.parent_topic(request.header.topic)),
        R.GET_LITE_TOPIC_INFO: value_of(
            lambda request, _: infos.lite_topic(request.header.parent_topic or "", request.header.lite_topic or "")
        ),
        R.GET_LITE_CLIENT_INFO: value_of(lambda request, _: infos.client(request.header)),
        R.GET_LITE_GROUP_INFO: value_of(lambda request, _: infos.group(request.header), UNSET_REMARK),
        R.TRIGGER_LITE_DISPATCH: done(lambda request, _: infos.dispatch(request.header), UNSET_REMARK),
    }


def _subscribe(parts: BrokerAssembly, request: Request[Any], connection: Connection) -> None:
    if not request.body:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, "Request body is null.")
    changes = loads_untrusted(request.body, LiteSubscriptionCtl).subscription_set
    if not changes:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, "LiteSubscriptionCtlRequestBody is empty.")
    for change in changes:
        if change.client_id and change.group and change.topic:
            parts.lite.subscriptions.change(change, change.client_id, change.group, change.topic, connection)
