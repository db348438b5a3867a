"""END_TRANSACTION (37): a producer says how its transaction ended (``EndTransactionProcessor``, 5.5.0). Also
RESUME_CHECK_HALF_MESSAGE (323), with which a tool has a message checked anew."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.transactions import COMMIT, ROLLBACK, UNKNOWN, EndTransactionHeader, ResumeCheckHeader
from rmqproto.message import properties as props
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import TRANSACTION_HALF_TOPIC
from rmqserver.broker.consuming.held_answers import put_off
from rmqserver.broker.sending.answers import without_content
from rmqserver.broker.sending.pending import Outcome
from rmqserver.broker.sending.put import Put
from rmqserver.broker.transactions.endings import transaction_of
from rmqserver.broker.transactions.half_messages import check_times, committed, immunity_ms, put_back
from rmqserver.broker.transactions.state import TransactionState
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, refusal, success
from rmqserver.store.results import MessageRefused, PutStatus

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

log = logging.getLogger(__name__)

NOT_FOUND = "Find prepared transaction message failed"
NOT_AVAILABLE = "Service not available now."
NOT_RESUMED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."


class EndTransactions:
    def __init__(self, parts: BrokerParts, put: Put, state: TransactionState):
        self._config = parts.config
        self._store = parts.store
        self._reads = parts.reads
        self._clock_ms = parts.clock_ms
        self._metrics = parts.transaction_metrics
        self._pending = parts.pending
        self._put = put
        self._state = state

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.END_TRANSACTION: self._handle,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self._handle_resume,
        }

    # --- 37 ----------------------------------------------------------------------------------------------------------

    def _handle(self, request: Request[EndTransactionHeader], connection: Connection) -> bytes | None:
        """A producer that does not know how its transaction ended gets no answer, as from Apache's broker."""
        header = request.header
        decision = header.commit_or_rollback
        if decision == UNKNOWN:
            return None
        if decision == COMMIT and not self._state.knows(header.commit_log_offset):
            put_off(self._store, request, connection, partial(self._end_later, request, connection))
            return None
        find = partial(self.record, header.commit_log_offset)
        return self._reads.read(request, connection, find, partial(self._end, request, connection))

    def record(self, log_offset: int) -> bytes | None:
        return self._store.get_record(log_offset) if log_offset >= 0 else None

    def _end(
        self, request: Request[EndTransactionHeader], connection: Connection, record: bytes | None
    ) -> bytes | None:
        """Refusals are logged, since producers do not wait for the answer."""
        try:
            return self._ended(request, connection, record)
        except Refused as refused:
            header = request.header
            log.warning("event=transaction-not-ended group=%s key=%s log_offset=%d code=%d reason=%r",
                        header.producer_group, header.msg_id, header.commit_log_offset, refused.code,
                        refused.remark)  # fmt: skip
            raise

    def _ended(
        self, request: Request[EndTransactionHeader], connection: Connection, record: bytes | None
    ) -> bytes | None:
        decision = request.header.commit_or_rollback
        if decision == ROLLBACK:
            self.roll_back(request.header, record)
            return success(request, remark=UNSET_REMARK)
        if decision != COMMIT:
            text = f"commitOrRollback: {decision} is none of {UNKNOWN}, {COMMIT} and {ROLLBACK}"
            raise Refused(ResponseCode.SYSTEM_ERROR, text)
        self.commit(request.header, record)
        if not request.is_oneway:
            request = without_content(request)

            def on_done(outcome: Outcome) -> None:
                lost = outcome.is_lost
                answer = (
                    refusal(request, ResponseCode.SERVICE_NOT_AVAILABLE, NOT_AVAILABLE) if lost else success(request)
                )
                connection.send(answer)

            self._put.when_stored({}, on_done)
        return None

    def _end_later(self, request: Request[EndTransactionHeader], connection: Connection) -> None:
        try:
            self._handle(request, connection)
        finally:
            self._pending.end_round()

    def commit(self, header: EndTransactionHeader, record: bytes | None) -> None:
        """Puts the message that consumers see into this round, once. Raises Refused if ``record`` is no such half
        message, or nothing can be written."""
        half, properties, may_have_copies = self._half(header, record)
        if may_have_copies and self._state.is_committed(half, properties):
            self._state.end(half)
            return
        try:
            message = committed(half, properties)
        except ProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        topic = message.topic
        try:
            self._put.put(message)
        except MessageRefused as refused:
            raise self._refusal(refused) from None
        self._state.end(half)
        if may_have_copies:
            self._state.endings.note(transaction_of(half, properties), is_committed=True)
        self._metrics.add(topic, -1)

    def roll_back(self, header: EndTransactionHeader, record: bytes | None) -> None:
        """Ends the transaction so that nobody sees the message. Raises Refused if there is no such half message."""
        half, properties, may_have_copies = self._half(header, record)
        self._state.end(half)
        if may_have_copies:
            self._state.endings.note(transaction_of(half, properties), is_committed=False)
        self._metrics.add(properties.get(props.REAL_TOPIC, ""), -1)

    def _half(self, header: EndTransactionHeader, record: bytes | None) -> tuple[StoredMessage, dict[str, str], bool]:
        """The half message that the header names, its properties, and whether it may have copies: it may be one itself,
        or have been put back to the end of its queue meanwhile."""
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        half = decode_record_untrusted(record)
        properties = half.properties
        timeout_ms = self._config.transaction_timeout_ms
        immune_ms = immunity_ms(properties, timeout_ms)
        age_ms = self._clock_ms() - half.born_timestamp_ms
        # Once the time for which the producer wanted no checks is over, only the answer to a check counts.
        if immune_ms is not None and not header.from_transaction_check and age_ms > max(immune_ms, timeout_ms):
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "")
        if half.topic != TRANSACTION_HALF_TOPIC:
            raise Refused(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        if properties.get(props.PRODUCER_GROUP) != header.producer_group:
            raise Refused(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise Refused(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
        may_have_copies = (
            header.from_transaction_check
            or immune_ms is not None
            or check_times(properties) > 0
            or not 0 <= age_ms <= timeout_ms
        )
        return half, properties, may_have_copies

    def _refusal(self, refused: MessageRefused) -> Refused:
        if refused.status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED):
            limit = self._store.options.message_size_max_bytes
            text = (
                "The message is illegal, maybe msg body or properties length not matched. "
                f"msg body length limit {limit}B, msg properties length limit 32KB."
            )
            return Refused(ResponseCode.MESSAGE_ILLEGAL, text)
        if refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED:
            return Refused(ResponseCode.SYSTEM_ERROR, "Create mapped file failed.")
        return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, NOT_AVAILABLE)

    # --- 323 ---------------------------------------------------------------------------------------------------------

    def _handle_resume(self, request: Request[ResumeCheckHeader], connection: Connection) -> bytes | None:
        try:
            log_offset = parse_offset_id_untrusted(request.header.msg_id).log_offset
        except ProtocolError:
            raise Refused(ResponseCode.SYSTEM_ERROR, NOT_RESUMED) from None

        def then(record: bytes | None) -> bytes:
            self.resume(record)
            return success(request)

        return self._reads.read(request, connection, partial(self._store.get_record, log_offset), then)

    def resume(self, record: bytes | None) -> None:
        """Puts the message back to the end of the half queue, as one that was never asked about. Raises Refused if
        there is none."""
        try:
            if record is None:
                raise ProtocolError("no message there")
            half = decode_record_untrusted(record)
            message = put_back(half, half.properties | {props.TRANSACTION_CHECK_TIMES: "0"})
            message.queue_id = 0
            self._put.put(message)
        except (ProtocolError, MessageRefused):
            raise Refused(ResponseCode.SYSTEM_ERROR, NOT_RESUMED) from None
