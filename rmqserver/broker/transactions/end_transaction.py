"""How a transaction ends: its producer says so, or a tool has its half message checked anew
(``EndTransactionProcessor``, 5.5.0)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.sending import COMMIT, ROLLBACK, UNKNOWN, EndTransactionHeader
from rmqproto.message import properties as props
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import TRANSACTION_HALF_TOPIC
from rmqserver.broker.sending.pending import STORED, OnDone, Outcome
from rmqserver.broker.sending.put import Put
from rmqserver.broker.transactions.half_messages import committed, immunity_ms, put_back, transaction_of
from rmqserver.broker.transactions.state import CLOCK_ERROR_MAX_MS, TransactionState, indexed
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.store.results import MessageRefused, PutStatus

if TYPE_CHECKING:
    from rmqserver.broker.tables.topic_counts import TransactionMetrics
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

NOT_FOUND = "Find prepared transaction message failed"
NOT_AVAILABLE = "Service not available now."
NOT_RESUMED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
_UNAVAILABLE = Outcome(ResponseCode.SERVICE_NOT_AVAILABLE, NOT_AVAILABLE)


class EndTransactions:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, transaction_metrics: TransactionMetrics, put: Put,
        state: TransactionState,
    ):  # fmt: skip
        self._config = config
        self._store = store
        self._clock_ms = store.clock_ms
        self._metrics = transaction_metrics
        self._put = put
        self._state = state

    def is_ready(self, header: EndTransactionHeader) -> bool:
        """Whether ``end`` can tell now if the transaction has ended before: soon after kill -9 the index lacks some."""
        return header.commit_or_rollback != COMMIT or self._state.knows(header.commit_log_offset)

    def record(self, log_offset: int) -> bytes | None:
        """The record there. It may wait for the device."""
        return self._store.get_record(log_offset) if log_offset >= 0 else None

    def place_of(self, producer_group: str, unique_key: str) -> tuple[int, int] | None:
        """Log offset and queue offset of the newest such half message in the index. It may wait for the device."""
        place = None
        end_ms = self._clock_ms() + CLOCK_ERROR_MAX_MS
        for half in indexed(self._store, TRANSACTION_HALF_TOPIC, unique_key, 0, end_ms):
            if half.properties.get(props.PRODUCER_GROUP) == producer_group:
                place = half.log_offset, half.queue_offset
        return place

    def is_over(self, header: EndTransactionHeader, record: bytes | None) -> bool:
        """Whether the transaction has ended before. If its producer was asked, it may say so in its own time, too: then
        the transaction is over only for who says otherwise. Raises as ``end``."""
        half, properties, may_have_copies = self._half(header, record)
        if not may_have_copies:
            return self._state.is_dealt_with(half)
        is_committed = self._state.is_committed(half, properties)
        is_ended = is_committed or self._state.endings.is_ended(transaction_of(half, properties))
        return is_ended and is_committed != (header.commit_or_rollback == COMMIT)

    def end(self, header: EndTransactionHeader, record: bytes | None, on_done: OnDone | None) -> None:
        """Ends the transaction of the half message ``record``. ``on_done`` is called once, when that is as safe as its
        producer is promised. Raises Refused; that is logged, since producers do not wait for the answer."""
        decision = header.commit_or_rollback
        try:
            if decision == ROLLBACK:
                self.roll_back(header, record)
            elif decision == COMMIT:
                self.commit(header, record)
            else:
                text = f"commitOrRollback: {decision} is none of {UNKNOWN}, {COMMIT} and {ROLLBACK}"
                raise Refused(ResponseCode.SYSTEM_ERROR, text)
        except Refused as refused:
            log.warning("event=transaction-not-ended group=%s key=%s log_offset=%d code=%d reason=%r",
                        header.producer_group, header.msg_id, header.commit_log_offset, refused.code,
                        refused.remark)  # fmt: skip
            raise
        if on_done is None:
            return
        if decision == ROLLBACK:
            on_done(Outcome(ResponseCode.SUCCESS, UNSET_REMARK))
        else:
            self._put.when_stored({}, lambda outcome: on_done(_UNAVAILABLE if outcome.is_lost else STORED))

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
            transaction = transaction_of(half, properties)
            if self._state.endings.is_ended(transaction):
                return
            self._state.endings.note(transaction, is_committed=False)
        self._metrics.add(properties.get(props.REAL_TOPIC, ""), -1)

    def _half(self, header: EndTransactionHeader, record: bytes | None) -> tuple[StoredMessage, dict[str, str], bool]:
        """The half message that the header names, its properties, and whether it may have copies."""
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
        return half, properties, self._state.may_have_copies(half, properties)

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

    def named(self, msg_id: str) -> bytes | None:
        """The record that an offset id names. It may wait for the device. Raises Refused if it is no such id."""
        try:
            return self._store.get_record(parse_offset_id_untrusted(msg_id).log_offset)
        except ProtocolError:
            raise Refused(ResponseCode.SYSTEM_ERROR, NOT_RESUMED) from None

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
        self._state.replaced(half, half.properties)
