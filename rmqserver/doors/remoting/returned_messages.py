"""What comes after a send: messages that a consumer could not process (36), timer messages that are recalled (370),
replies to requests (324, 325), and how transactions end (``AbstractSendMessageProcessor``,
``RecallMessageProcessor``, ``ReplyMessageProcessor``, ``EndTransactionProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import REPLY_CODES, RequestCode, ResponseCode
from rmqproto.headers.sending import (
    UNKNOWN,
    EndTransactionHeader,
    RecallAnswer,
    RecallHeader,
    ResumeCheckHeader,
    SendAnswer,
    SendBackHeader,
    SendHeader,
)
from rmqproto.message import properties as props
from rmqserver.broker.sending.properties import added_by_broker
from rmqserver.doors.remoting.handlers import answer_read, put_off
from rmqserver.doors.remoting.sent_answers import RefusedSendAnswer, telling, without_content
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, answer_frame, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.assembly import BrokerAssembly
    from rmqserver.broker.sending.pending import Outcome
    from rmqserver.broker.sending.reply import Replied
    from rmqserver.broker.sending.send_back import Returned
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


def return_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    return {
        RequestCode.CONSUMER_SEND_MSG_BACK: partial(_send_back, parts),
        RequestCode.RECALL_MESSAGE: partial(_recall, parts),
        **dict.fromkeys(REPLY_CODES, partial(_reply, parts)),
        RequestCode.END_TRANSACTION: partial(_end, parts),
        RequestCode.RESUME_CHECK_HALF_MESSAGE: partial(_resume, parts),
    }


def _send_back(parts: BrokerAssembly, request: Request[SendBackHeader], connection: Connection) -> None:
    header, version, on_done = request.header, request.version, telling(request, connection)

    def then(returned: Returned | None) -> bytes | None:
        if returned is None:
            return success(request)
        parts.send_backs.put(header, returned, version, connection, on_done)
        return None

    answer_read(parts.reads, request, connection, partial(parts.send_backs.load, header, connection), then)


def _recall(parts: BrokerAssembly, request: Request[RecallHeader], connection: Connection) -> None:
    kept, region = without_content(request), parts.config.region_id

    def on_done(outcome: Outcome, unique_key: str) -> None:
        message_id = unique_key if outcome.code == ResponseCode.SUCCESS else None
        answer = RecallAnswer(message_id=message_id, msg_region=region)
        connection.send(answer_frame(kept, outcome.code, outcome.remark, answer, b""))

    try:
        parts.recalls.recall(request.header, connection, None if request.is_oneway else on_done)
    except Refused as refused:
        refused.header = RecallAnswer(msg_region=region)
        raise


def _reply(parts: BrokerAssembly, request: Request[SendHeader], connection: Connection) -> None:
    kept, added = without_content(request), added_by_broker(parts.config)
    region, trace_on = added[props.MSG_REGION], added[props.TRACE_ON]

    def on_replied(replied: Replied) -> None:
        answer = SendAnswer(
            message_id=replied.message_id,
            queue_id=replied.queue_id,
            queue_offset=replied.queue_offset,
            msg_region=region,
            trace_on=trace_on,
        )
        send_answer(kept, connection, answer_frame(kept, replied.code, replied.remark, answer, b""))

    try:
        parts.replies.put(request.header, request.body, connection, on_replied)
    except Refused as refused:
        refused.header = RefusedSendAnswer(msg_region=region, trace_on=trace_on)
        raise


def _end(parts: BrokerAssembly, request: Request[EndTransactionHeader], connection: Connection) -> None:
    """A producer that does not know how its transaction ended gets no answer, as from Apache's broker."""
    header, on_done = request.header, telling(request, connection)
    if header.commit_or_rollback == UNKNOWN:
        return
    if not parts.transaction_ends.is_ready(header):
        put_off(parts.store, request, connection, partial(_end_later, parts, request, connection))
        return

    def then(record: bytes | None) -> None:
        parts.transaction_ends.end(header, record, on_done)

    read = partial(parts.transaction_ends.record, header.commit_log_offset)
    answer_read(parts.reads, request, connection, read, then)


def _end_later(parts: BrokerAssembly, request: Request[EndTransactionHeader], connection: Connection) -> None:
    try:
        _end(parts, request, connection)
    finally:
        parts.pending.end_round()


def _resume(parts: BrokerAssembly, request: Request[ResumeCheckHeader], connection: Connection) -> None:
    def then(record: bytes | None) -> bytes:
        parts.transaction_ends.resume(record)
        return success(request)

    answer_read(parts.reads, request, connection, partial(parts.transaction_ends.named, request.header.msg_id), then)
