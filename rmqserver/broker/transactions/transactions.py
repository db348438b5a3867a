"""The tasks of transactions, first of all the checks of half messages whose producer has not said how its transaction
ended. It is asked (39) again and again, and each time the half message goes back to the end of its queue. After too
many times the message is given up (``TransactionalMessageServiceImpl.check``, 5.5.0).

A round goes through a half queue from the first message that is not dealt with to the first that is too young. Unlike
in Apache's broker, a message that goes back only because its producer does not want to be asked yet does not count as
asked about.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import trio

from rmqproto.codes import RequestCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.sending import CheckTransactionHeader
from rmqproto.message import properties as props
from rmqproto.message.message_id import offset_id
from rmqproto.message.record import StoredMessage, decode_record_untrusted, encode_record
from rmqproto.message.special_messages import check_times, ended_in
from rmqproto.names import TRANSACTION_CHECK_MAX_TIME_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rmqserver.broker.errors import TableFull
from rmqserver.broker.relays.relay import PORTION_MAX, SAVE_EVERY_S, STOPS, run_every
from rmqserver.broker.sending.pending import Outcome
from rmqserver.broker.sending.put import Put
from rmqserver.broker.transactions.half_messages import given_up, immunity_ms, put_back
from rmqserver.broker.transactions.half_queue import HalfQueue
from rmqserver.broker.transactions.state import TransactionState
from rmqserver.core import Appended

if TYPE_CHECKING:
    from rmqserver.broker.clients.clients import Clients
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.broker.tables.topic_counts import TransactionMetrics
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

ROUND_MAX_S = 60.0
"""The longest time of a round for one half queue; the next round goes on."""

GIVEN_UP_QUEUE_NUMS = 1
_HOUR_MS = 3_600_000
_TOPICS = (TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC)


class Transactions:
    """The life of transactions. ``load`` it when store and tables are there. At the end: ``write_op_messages``, then,
    when the store is flushed, ``save``; the offsets are saved after that."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, clients: Clients, pending: PendingPuts,
        metrics: TransactionMetrics, put: Put, state: TransactionState,
    ):  # fmt: skip
        self.state = state
        self._pending = pending
        self._topics = topics
        self._metrics = metrics
        self._clients = clients
        self._config = config
        self._store = store
        self._clock_ms = store.clock_ms
        self._put = put
        self._unasked: Counter[str] = Counter()
        """Half messages of this round whose producer group was not online to be asked, by group."""

    def load(self) -> None:
        """Raises StorageError if a file is not ours."""
        self._metrics.load()
        self.state.load()

    async def run(self) -> None:
        """Runs the tasks until cancelled."""
        config, metrics = self._config, self._metrics
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._check_forever)
            nursery.start_soon(run_every, lambda: config.transaction_op_batch_interval_ms / 1000, self._write_now)
            nursery.start_soon(run_every, lambda: SAVE_EVERY_S, self.state.save_when_kept)
            nursery.start_soon(run_every, lambda: config.transaction_metric_flush_interval_ms / 1000, metrics.save)

    def write_op_messages(self) -> None:
        """Puts the gathered op messages into this round."""
        self.state.op_messages.write()

    def save(self) -> None:
        self.state.save()
        self._metrics.save()

    def _write_now(self) -> None:
        self.write_op_messages()
        self._pending.end_round()

    # --- checks ------------------------------------------------------------------------------------------------------

    async def _check_forever(self) -> None:
        while True:
            await trio.sleep(self._config.transaction_check_interval_ms / 1000)
            try:
                await self.check()
            except STOPS as error:
                log.warning("event=check-stopped reason=%r", str(error))

    async def check(self) -> None:
        """Does one round. Raises the store's refusals; what came before them is done."""
        if not self.state.knows(0):
            return  # soon after kill -9
        try:
            for queue in self.state.queues():
                try:
                    await self._read_op_messages(queue)
                    await self._check_queue(queue)
                finally:
                    self._pending.end_round()
                    queue.advance()
        finally:
            for group, message_count in self._unasked.items():
                log.warning("event=no-producer-to-ask group=%s messages=%d", group, message_count)
            self._unasked.clear()

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _read_op_messages(self, queue: HalfQueue) -> None:
        queue.skip_to(*(self._store.min_offset(topic, queue.queue_id) for topic in _TOPICS))
        while found := await self._read(TRANSACTION_OP_TOPIC, queue.queue_id, queue.read_offset, PORTION_MAX):
            messages, queue.read_offset = found
            for op in messages:
                queue.op_read(op.queue_offset, ended_in(op))
            queue.advance()
            await trio.lowlevel.checkpoint()

    async def _read(self, topic: str, queue_id: int, start: int, count: int) -> tuple[list[StoredMessage], int] | None:
        """The messages from ``start`` on, and the queue offset behind them; None at the end of the queue. What is
        damaged, or missing because the log has lost it, is left out."""
        result = self._store.get(topic, queue_id, start, count, cached_only=True)
        if not result.is_loaded:
            await trio.to_thread.run_sync(self._store.load, result)
        end, messages = min(result.next_offset, result.max_offset), list[StoredMessage]()
        for record in result.records():
            try:
                message = decode_record_untrusted(record)
                _ = message.properties  # they may be no text
                if not start <= message.queue_offset < end:
                    raise ProtocolError(f"queue offset {message.queue_offset} is not one from {start} to {end}")
                messages.append(message)
            except ProtocolError as error:
                log.error("event=transaction-message-damaged topic=%s reason=%r", topic, str(error))
        return (messages, end) if end > start else None

    # --- one round ---------------------------------------------------------------------------------------------------

    async def _check_queue(self, queue: HalfQueue) -> None:
        started_ms, ends_s = self._clock_ms(), trio.current_time() + ROUND_MAX_S
        at = queue.half_offset
        while trio.current_time() < ends_s:
            at, count = queue.open_run(at, PORTION_MAX)
            found = await self._read(TRANSACTION_HALF_TOPIC, queue.queue_id, at, count)
            if found is None:
                return
            messages, end = found
            for half in messages:
                queue.end_all(range(at, half.queue_offset))  # nobody can be asked about what cannot be read
                if not queue.is_ended(half.queue_offset) and not self._go_on_past(half, queue, started_ms):
                    return
                at = half.queue_offset + 1
            queue.end_all(range(at, end))
            at = end
            self._pending.end_round()
            await trio.lowlevel.checkpoint()

    def _go_on_past(self, half: StoredMessage, queue: HalfQueue, started_ms: int) -> bool:
        """Deals with a half message. Returns False if it is too young, as those behind it are."""
        properties = half.properties
        age_ms = self._clock_ms() - half.born_timestamp_ms
        timeout_ms = self._config.transaction_timeout_ms
        immune_ms = immunity_ms(properties, timeout_ms)
        if self.state.is_over(half, properties):
            self.state.end(half)
        elif self._is_hopeless(properties, age_ms):
            self._give_up(half, properties, queue)
        elif half.store_timestamp_ms >= started_ms or (immune_ms is None and 0 <= age_ms <= timeout_ms):
            return False
        elif immune_ms is not None and age_ms <= immune_ms:
            self._let_alone(half, properties)
        else:
            self._check(half, properties)
        return True

    def _is_hopeless(self, properties: dict[str, str], age_ms: int) -> bool:
        asked = props.TRANSACTION_CHECK_TIMES in properties
        is_asked_out = asked and check_times(properties) >= self._config.transaction_check_max
        return is_asked_out or age_ms > self._config.file_reserved_hours * _HOUR_MS

    def _give_up(self, half: StoredMessage, properties: dict[str, str], queue: HalfQueue) -> None:
        try:
            self._topics.create_system(TRANSACTION_CHECK_MAX_TIME_TOPIC, GIVEN_UP_QUEUE_NUMS)
        except TableFull as full:  # the next round tries again
            log.warning("event=transaction-not-given-up key=%s reason=%r", properties.get(props.UNIQUE_KEY), str(full))
            return
        self._put.put_through(given_up(half))
        queue.end(half.queue_offset)
        topic = properties.get(props.REAL_TOPIC, "")
        self._metrics.add(topic, -1)
        log.warning("event=transaction-given-up topic=%s key=%s", topic, properties.get(props.UNIQUE_KEY))

    def _let_alone(self, half: StoredMessage, properties: dict[str, str]) -> None:
        properties.setdefault(props.TRAN_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
        properties[props.WAIT] = "false"
        self._put.put_through(put_back(half, properties))
        self.state.replaced(half, properties)

    # --- asking ------------------------------------------------------------------------------------------------------

    def _check(self, half: StoredMessage, properties: dict[str, str]) -> None:
        properties[props.TRANSACTION_CHECK_TIMES] = str(check_times(properties) + 1)
        appended = self._put.put_through(put_back(half, properties))
        self.state.replaced(half, properties)

        def ask(outcome: Outcome) -> None:
            if not outcome.is_lost:
                self._ask(half, properties, appended)

        self._put.when_stored({}, ask)

    def _ask(self, half: StoredMessage, properties: dict[str, str], copy: Appended) -> None:
        """Asks one producer of the group, with the offsets of the copy."""
        group = properties.get(props.PRODUCER_GROUP, "")
        producer = self._clients.any_producer(group)
        if producer is None:
            self._unasked[group] += 1
            return
        try:
            topic, queue_id = props.real_queue_untrusted(properties)
        except ProtocolError as error:
            log.error("event=half-message-damaged at=%d reason=%r", half.queue_offset, str(error))
            return
        as_sent = properties | {props.WAIT: "false"}  # as Apache sends it, unlike the stored copy
        message = msgspec.structs.replace(
            half,
            topic=topic,
            queue_id=queue_id,
            queue_offset=copy.queue_offset,
            log_offset=copy.log_offset,
            properties_raw=props.joined(as_sent),
        )
        unique_key = properties.get(props.UNIQUE_KEY)
        header = CheckTransactionHeader(
            topic=TRANSACTION_HALF_TOPIC,
            tran_state_table_offset=copy.queue_offset,
            commit_log_offset=copy.log_offset,
            msg_id=unique_key,
            transaction_id=unique_key,
            offset_msg_id=offset_id(half.store_host, copy.log_offset),
            broker_name=self._config.broker_name,
        )
        producer.peer.notify(RequestCode.CHECK_TRANSACTION_STATE, header, encode_record(message))
