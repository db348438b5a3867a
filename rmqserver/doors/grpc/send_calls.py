"""Sends of producers, how their transactions end, and recalls (``SendMessageActivity``, ``EndTransactionActivity``,
``RecallMessageActivity``, 5.5.0)."""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.codes import PERM_WRITE
from rmqproto.codes import TopicMessageType as Type
from rmqproto.headers.sending import COMMIT, ROLLBACK, EndTransactionHeader, RecallHeader, SendHeader
from rmqproto.message import properties as props
from rmqproto.names import RETRY_PREFIX
from rmqserver.doors.grpc.call_checks import check_topic, check_type
from rmqserver.doors.grpc.codes import OK, CallRefused, Code, refusal_for, refuse_if, status, status_of
from rmqserver.doors.grpc.messages import CLASSES, value
from rmqserver.doors.grpc.route_calls import expected_type
from rmqserver.doors.grpc.stored import SentMessage, checked_message
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqproto.bodies.routes import TopicConfig
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.sending.pending import OnDone, Outcome
    from rmqserver.broker.sending.put import SendOutcome
    from rmqserver.broker.sending.send import OnSent
    from rmqserver.doors.grpc.link import GrpcCall

ANY_QUEUE = -1
HALVES_MAX = 10_000
"""Half messages that this process remembers. Others, also those from before its start, are found by the index."""

_COMMIT, _ROLLBACK = value("TransactionResolution", "COMMIT"), value("TransactionResolution", "ROLLBACK")
_SERVER_CHECK = value("TransactionSource", "SOURCE_SERVER_CHECK")
_ENTRY, _SENT = CLASSES["SendResultEntry"], CLASSES["SendMessageResponse"]
_NO_TRANSACTION = CallRefused(Code.INTERNAL_SERVER_ERROR, "cannot found transaction data")


class SendCalls:
    def __init__(self, broker: Broker):
        self._topics = broker.topics
        self._sends = broker.sends
        self._recalls = broker.recalls
        self._ends = broker.transaction_ends
        self._store = broker.store
        self._reads = broker.reads
        self._pending = broker.pending
        self._clock_ms = broker.clock_ms
        self._halves: dict[str, tuple[int, int]] = {}
        """Log offset and queue offset of half messages, by their ids."""

    # --- sends -------------------------------------------------------------------------------------------------------

    def send(self, call: GrpcCall, request: Any) -> None:
        """Checks all messages before it stores the first. Answers when all are as safe as promised, with one entry for
        each."""
        refuse_if(not request.messages, Code.MESSAGE_CORRUPTED, "no message to send")
        topic = request.messages[0].topic.name
        is_one = all(each.topic.name == topic for each in request.messages)
        refuse_if(not is_one, Code.MESSAGE_CORRUPTED, "topic in message is not same")
        check_topic(topic)
        now_ms = self._clock_ms()
        asked = [checked_message(message, now_ms, call.address) for message in request.messages]
        config = self._topics.get(topic)
        expected = expected_type(config) if config is not None else Type.UNSPECIFIED
        for each in asked:
            check_type(expected, each.kind, topic)
        if config is None:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"topic[{topic}] not exist")
        is_writable = config.perm & PERM_WRITE and config.write_queue_nums
        refuse_if(not is_writable, Code.FORBIDDEN, "no writable queue")
        SentTogether(self, call, asked, config).put()

    def put(self, call: GrpcCall, asked: SentMessage, config: TopicConfig, on_sent: OnSent) -> None:
        """Puts one message. Raises Refused."""
        topic, properties = config.topic_name, asked.properties
        packed = props.joined(properties)
        is_retry = topic.startswith(RETRY_PREFIX)  # only there a client has a say
        header = SendHeader(
            producer_group=topic, topic=topic, queue_id=_queue_of(properties, config), sys_flag=asked.sys_flag,
            born_timestamp=int(properties.get(props.BORN_TIMESTAMP, 0)) or self._clock_ms(), properties=packed.decode(),
            reconsume_times=max(asked.delivery_attempt, 0) if is_retry else 0,
        )  # fmt: skip
        sent = self._sends.put_plain(header, asked.body, packed, call)
        if sent is not None:
            self._sends.when_stored(properties, on_sent(sent))
        else:
            self._sends.put(header, asked.body, 0, call, on_sent)

    def note_half(self, message_id: str, log_offset: int, queue_offset: int) -> None:
        self._halves[message_id] = log_offset, queue_offset
        if len(self._halves) > HALVES_MAX:
            del self._halves[next(iter(self._halves))]

    # --- how transactions end ----------------------------------------------------------------------------------------

    def end(self, call: GrpcCall, request: Any) -> None:
        check_topic(request.topic.name)
        refuse_if(not request.transaction_id.strip(), Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
        decision = {_COMMIT: COMMIT, _ROLLBACK: ROLLBACK}.get(request.resolution)
        if decision is None:
            call.answer(CLASSES["EndTransactionResponse"](status=OK))
            return

        def end_at(place: tuple[int, int] | None) -> None:
            if place is None:
                raise _NO_TRANSACTION
            header = EndTransactionHeader(
                producer_group=request.topic.name, commit_log_offset=place[0], tran_state_table_offset=place[1],
                commit_or_rollback=decision, from_transaction_check=request.source == _SERVER_CHECK,
                msg_id=request.message_id, transaction_id=transaction,
            )  # fmt: skip
            self._end(call, header)

        transaction = request.transaction_id
        place = self._halves.get(transaction)
        if place is None and transaction != request.message_id:  # a message's id may look like that of a check
            place = offsets_in(transaction)
        if place is not None:
            end_at(place)
        else:
            find = partial(self._ends.place_of, request.topic.name, transaction)
            self._when_indexed(call, self._store.has_whole_index, partial(self._reads.read, find, end_at, call.guarded))

    def _when_indexed(self, call: GrpcCall, is_ready: bool, then: Callable[[], None]) -> None:
        """Calls ``then`` now if ``is_ready``, else as soon as the index is whole."""

        def go_on() -> None:
            try:
                then()
            finally:
                self._pending.end_round()

        if is_ready:
            then()
        elif not self._store.when_indexed(partial(call.guarded, go_on)):
            raise CallRefused(Code.TOO_MANY_REQUESTS, "this broker still reads its log into the index: try again")

    def _end(self, call: GrpcCall, header: EndTransactionHeader) -> None:
        def on_done(outcome: Outcome) -> None:
            call.answer(CLASSES["EndTransactionResponse"](status=status_of(outcome)))

        def then(record: bytes | None) -> None:
            try:
                if self._ends.is_over(header, record):
                    raise _NO_TRANSACTION
                self._ends.end(header, record, on_done)
            except Refused:
                raise _NO_TRANSACTION from None

        find = partial(self._ends.record, header.commit_log_offset)
        self._when_indexed(call, self._ends.is_ready(header), partial(self._reads.read, find, then, call.guarded))

    # --- recalls -----------------------------------------------------------------------------------------------------

    def recall(self, call: GrpcCall, request: Any) -> None:
        topic = request.topic.name
        check_topic(topic)
        config = self._topics.get(topic)
        check_type(expected_type(config) if config is not None else Type.UNSPECIFIED, Type.DELAY, topic)

        def on_recalled(outcome: Outcome, unique_key: str) -> None:
            call.answer(CLASSES["RecallMessageResponse"](status=status_of(outcome), message_id=unique_key))

        header = RecallHeader(producer_group=topic, topic=topic, recall_handle=request.recall_handle)
        self._recalls.recall(header, call, on_recalled)


class SentTogether:
    """The messages of one call, until each of them is stored, refused or lost."""

    def __init__(self, sending: SendCalls, call: GrpcCall, asked: list[SentMessage], config: TopicConfig):
        self._sending, self._call, self._asked, self._config = sending, call, asked, config
        self._entries = [_ENTRY(status=OK) for _ in asked]
        self._open_count = len(asked)

    def put(self) -> None:
        for at, asked in enumerate(self._asked):
            try:
                self._sending.put(self._call, asked, self._config, partial(self._on_sent, at))
            except Exception as error:  # one that cannot be stored must not cost those beside it their answers
                self._done(at, refusal_for(error, "SendMessage", self._call.address).status)

    def _on_sent(self, at: int, sent: SendOutcome) -> OnDone:
        asked, entry, place = self._asked[at], self._entries[at], sent.appended
        entry.message_id = entry.transaction_id = asked.id
        entry.offset = place.queue_offset
        if asked.kind is Type.TRANSACTION:
            self._sending.note_half(asked.id, place.log_offset, place.queue_offset)
        elif sent.recall_handle is not None:
            entry.recall_handle = sent.recall_handle
        return lambda outcome: self._done(at, status_of(outcome))

    def _done(self, at: int, told: Any) -> None:
        if told is not OK:
            self._entries[at].status.CopyFrom(told)
        self._open_count -= 1
        if self._open_count:
            return
        codes = {entry.status.code for entry in self._entries}
        common = told if len(codes) == 1 else status(Code.MULTIPLE_RESULTS, "MULTIPLE_RESULTS")
        has_entries = len(codes) > 1 or Code.OK in codes
        self._call.answer(_SENT(status=common, entries=self._entries if has_entries else ()))


def _queue_of(properties: dict[str, str], config: TopicConfig) -> int:
    """Messages of one group go to one queue, whoever sends them; others to each in turn."""
    group = properties.get(props.SHARDING_KEY)
    if group is None or config.write_queue_nums <= 0:
        return ANY_QUEUE
    return zlib.crc32(group.encode()) % config.write_queue_nums


def transaction_id(log_offset: int, queue_offset: int, message_id: str) -> str:
    """What a producer that is asked says at the end of its transaction: it holds where the copy is that it was asked
    about. After a send it says the message's id, as consumers read it in ``__transactionId__``."""
    return f"{log_offset:x}-{queue_offset:x}-{message_id}"


def offsets_in(text: str) -> tuple[int, int] | None:
    """Log offset and queue offset of the half message. None if the text is no ``transaction_id``: it may be the id of
    a message."""
    log_offset, _, rest = text.partition("-")
    queue_offset, _, message_id = rest.partition("-")
    try:
        if not message_id or max(len(log_offset), len(queue_offset)) > 15:
            return None
        return int(log_offset, 16), int(queue_offset, 16)
    except ValueError:
        return None
