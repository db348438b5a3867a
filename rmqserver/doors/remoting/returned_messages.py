"""What comes after a send: messages that a consumer could not process (36), timer messages that are recalled (370),
replies to requests (324, 325), and how transactions end (``AbstractSendMessageProcessor``,
``RecallMessageProcessor``, ``ReplyMessageProcessor``, ``EndTransactionProcessor``, 5.5.0)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import REPLY_CODES, RequestCode, ResponseCode
from rmqproto.headers.sending import RecallAnswer, RecallHeader, SendAnswer, SendBackHeader, SendHeader
from rmqproto.headers.transactions import UNKNOWN, EndTransactionHeader, ResumeCheckHeader
from rmqproto.message import properties as props
from rmqserver.broker.sending.properties import added_by_broker
from rmqserver.doors.remoting.handlers import answer_read, put_off
from rmqserver.doors.remoting.sent_answers import RefusedSendAnswer, telling, without_content
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, answer_frame, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.reads import Reads
    from rmqserver.broker.sending.pending import Outcome, PendingPuts
    from rmqserver.broker.sending.recall import Recalls
    from rmqserver.broker.sending.reply import Replied, Replies
    from rmqserver.broker.sending.send_back import Returned, SendBacks
    from rmqserver.broker.transactions.end_transaction import EndTransactions
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler
    from rmqserver.store.message_store import MessageStore


class ReturnRequests:
    def __init__(self, send_backs: SendBacks, recalls: Recalls, replies: Replies, config: BrokerConfig, reads: Reads):
        self._send_backs = send_backs
        self._recalls = recalls
        self._replies = replies
        self._config = config
        self._reads = reads

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back,
            RequestCode.RECALL_MESSAGE: self._recall,
            **dict.fromkeys(REPLY_CODES, self._reply),
        }

    def _send_back(self, request: Request[SendBackHeader], connection: Connection) -> None:
        header, version, on_done = request.header, request.version, telling(request, connection)

        def then(returned: Returned | None) -> bytes | None:
            if returned is None:
                return success(request)
            self._send_backs.put(header, returned, version, connection, on_done)
            return None

        answer_read(self._reads, request, connection, partial(self._send_backs.load, header, connection), then)

    def _recall(self, request: Request[RecallHeader], connection: Connection) -> None:
        kept, region = without_content(request), self._config.region_id

        def on_done(outcome: Outcome, unique_key: str) -> None:
            message_id = unique_key if outcome.code == ResponseCode.SUCCESS else None
            answer = RecallAnswer(message_id=message_id, msg_region=region)
            connection.send(answer_frame(kept, outcome.code, outcome.remark, answer, b""))

        try:
            self._recalls.recall(request.header, connection, None if request.is_oneway else on_done)
        except Refused as refused:
            refused.header = RecallAnswer(msg_region=region)
            raise

    def _reply(self, request: Request[SendHeader], connection: Connection) -> None:
        kept, added = without_content(request), added_by_broker(self._config)
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
            self._replies.put(request.header, request.body, connection, on_replied)
        except Refused as refused:
            refused.header = RefusedSendAnswer(msg_region=region, trace_on=trace_on)
            raise


class TransactionRequests:
    def __init__(self, ends: EndTransactions, store: MessageStore, reads: Reads, pending: PendingPuts):
        self._ends = ends
        self._store = store
        self._reads = reads
        self._pending = pending

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.END_TRANSACTION: self._end, RequestCode.RESUME_CHECK_HALF_MESSAGE: self._resume}

    def _end(self, request: Request[EndTransactionHeader], connection: Connection) -> None:
        """A producer that does not know how its transaction ended gets no answer, as from Apache's broker."""
        header, on_done = request.header, telling(request, connection)
        if header.commit_or_rollback == UNKNOWN:
            return
        if not self._ends.is_ready(header):
            put_off(self._store, request, connection, partial(self._end_later, request, connection))
            return

        def then(record: bytes | None) -> None:
            self._ends.end(header, record, on_done)

        answer_read(self._reads, request, connection, partial(self._ends.record, header.commit_log_offset), then)

    def _end_later(self, request: Request[EndTransactionHeader], connection: Connection) -> None:
        try:
            self._end(request, connection)
        finally:
            self._pending.end_round()

    def _resume(self, request: Request[ResumeCheckHeader], connection: Connection) -> None:
        def then(record: bytes | None) -> bytes:
            self._ends.resume(record)
            return success(request)

        answer_read(self._reads, request, connection, partial(self._ends.named, request.header.msg_id), then)
