"""Messages that are delivered if and only if a local transaction was committed (``TransactionMQProducer``, 5.5.0)."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Protocol, TypeVar, cast

import anyio
import msgspec
from anyio.abc import TaskGroup

from rmqclient.lifetime import P, cancelled_alone
from rmqclient.listener import called_in_thread
from rmqclient.message import Message, ReceivedMessage, SendResult, SendStatus
from rmqclient.producers.producer import SEND_TIMEOUT_S, BlockingProducer, Producer
from rmqclient.producers.queue_choice import QueueSelector
from rmqclient.remoting.channels import BrokerRequestHandler
from rmqclient.sending import MESSAGE_SIZE_MAX_BYTES
from rmqclient.threads import called
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.headers.base import from_ext
from rmqproto.headers.sending import COMMIT, ROLLBACK, UNKNOWN, CheckTransactionHeader, EndTransactionHeader
from rmqproto.message import properties as props
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import decode_record_untrusted
from rmqproto.message.sys_flag import TRANSACTION_PREPARED
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials

log = logging.getLogger(__name__)

STAY_CONNECTED_EVERY_S = 3.0
"""How often the producer reconnects, so that brokers can ask it even if it sends nothing for a while."""

M = TypeVar("M", Message, ReceivedMessage)


class LocalTransactionState(Enum):
    """How a local transaction ended; the values are those on the wire. With UNKNOWN the broker asks again later."""

    COMMIT = COMMIT
    ROLLBACK = ROLLBACK
    UNKNOWN = UNKNOWN


APACHES_WORDS = {
    LocalTransactionState.COMMIT: "COMMIT_MESSAGE",
    LocalTransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    LocalTransactionState.UNKNOWN: "UNKNOW",
}
"""The state's name in traces (``LocalTransactionState``, 5.5.0)."""


class TransactionListener(Protocol):
    """The application's part of its transactions. Both methods may be async functions or plain ones; plain ones run in
    a thread and may block."""

    def execute_local_transaction(
        self, message: Message
    ) -> LocalTransactionState | Awaitable[LocalTransactionState]:  # fmt: skip
        """Does the local transaction. The broker has the message, but does not deliver it yet. The message has its
        unique key in the property ``UNIQ_KEY``."""
        ...

    def check_local_transaction(
        self, message: ReceivedMessage
    ) -> LocalTransactionState | Awaitable[LocalTransactionState]:  # fmt: skip
        """Says how the transaction of this message ended. The broker was not told: the sender is gone or did not know.
        ``message.message_id`` is its unique key."""
        ...


class TransactionSendResult(msgspec.Struct, frozen=True):
    """``send`` is the result for the half message; its ``message_id`` is the transaction's id."""

    send: SendResult
    state: LocalTransactionState


class TransactionProducer(Producer):
    """``async with TransactionProducer("127.0.0.1:9876", "group", listener) as producer:
    await producer.send_in_transaction(Message("Topic", b"body"))``

    Any producer of the group may be asked how a transaction ended, so all of them need the same listener. It is also a
    ``Producer``.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        listener: TransactionListener,
        *,
        topics: Collection[str] = (),
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = SEND_TIMEOUT_S,
        trace: bool | str = False,
        instance_name: str | None = None,
        max_message_size_bytes: int = MESSAGE_SIZE_MAX_BYTES,
    ):
        """``topics``: the producer introduces itself to their brokers at once, so that they can ask it about
        transactions left open by others of its group. Otherwise it does so with its first message. The rest is as in
        ``Producer``."""
        self._listener = listener
        self._topics = topics
        super().__init__(
            namesrv_addrs,
            group,
            credentials=credentials,
            tls=tls,
            timeout_s=timeout_s,
            trace=trace,
            instance_name=instance_name,
            max_message_size_bytes=max_message_size_bytes,
        )

    @classmethod
    def blocking(
        cls: Callable[P, TransactionProducer], *args: P.args, **kwargs: P.kwargs
    ) -> BlockingTransactionProducer:
        """The same for plain threads: ``with TransactionProducer.blocking(...) as producer:``."""
        return BlockingTransactionProducer(cls(*args, **kwargs))

    async def send_in_transaction(
        self, message: Message, queue: MessageQueue | QueueSelector | None = None, *, timeout_s: float | None = None
    ) -> TransactionSendResult:
        """Sends the half message, does the local transaction, and tells the broker how it ended. Errors of the send are
        as of ``send``; the local transaction was not begun then. An exception of the local transaction is raised as it
        is; its outcome is then unknown, and the broker will ask. UsageError for a delayed message, which Apache's
        broker loses.
        """
        if message.is_delayed:
            raise UsageError("a message of a transaction cannot be delayed")
        half = dataclasses.replace(
            message, properties={**message.properties, props.TRAN_MSG: "true", props.PRODUCER_GROUP: self.group}
        )
        sent = await self._send_message(half, queue, timeout_s, TRANSACTION_PREPARED)
        known = dataclasses.replace(message, properties={**message.properties, props.UNIQUE_KEY: sent.message_id})
        state = LocalTransactionState.UNKNOWN
        try:
            if sent.status is SendStatus.SEND_OK:
                state = await _ask(self._listener.execute_local_transaction, known)
            else:  # the half message may be lost, so no local transaction may rely on it
                state = LocalTransactionState.ROLLBACK
        finally:
            with anyio.CancelScope(shield=True):
                await self._end_half(known, sent, state)
        return TransactionSendResult(sent, state)

    # --- ends --------------------------------------------------------------------------------------------------------

    async def _end_half(self, message: Message, sent: SendResult, state: LocalTransactionState) -> None:
        """Ends the half message. The local transaction is already done, so no RocketMQError is raised, even for a
        damaged answer to the send: the broker asks again."""
        with _not_ended_logged(sent.message_id):
            log_offset = parse_offset_id_untrusted(sent.offset_message_id).log_offset
            await self._say_end(message, state, EndTransactionHeader(
                topic=message.topic, producer_group=self.group, tran_state_table_offset=sent.queue_offset,
                commit_log_offset=log_offset, commit_or_rollback=state.value, msg_id=sent.message_id,
                transaction_id=sent.message_id, broker_name=self._client.routes.placed(sent.queue).broker_name,
            ))  # fmt: skip

    async def _say_end(
        self, message: Message | ReceivedMessage, state: LocalTransactionState, header: EndTransactionHeader
    ) -> None:
        """Sends the outcome, which is ``state``. RocketMQError."""
        address = self._client.routes.master(header.broker_name or "")
        await self._client.channels.oneway(address, RequestCode.END_TRANSACTION, header, timeout_s=self._timeout_s)
        if self._traces is not None:
            word, is_from_check = APACHES_WORDS[state], header.from_transaction_check
            self._traces.transaction_ended(message, header.msg_id, word, address, is_from_check=is_from_check)

    # --- checks ------------------------------------------------------------------------------------------------------

    def _broker_request_handlers(self) -> Mapping[int, BrokerRequestHandler]:
        return {**super()._broker_request_handlers(), RequestCode.CHECK_TRANSACTION_STATE: self._check}

    async def _check(self, request: Command) -> bytes:
        """39. ProtocolError if the request is not a check. If the listener fails, the state is UNKNOWN."""
        header = from_ext(request.ext, CheckTransactionHeader)
        message = ReceivedMessage(decode_record_untrusted(request.body), header.broker_name or "")
        if message.properties.get(props.PRODUCER_GROUP) != self.group:
            log.warning("check of another group's transaction id=%s", header.transaction_id)
            return b""
        try:
            with cancelled_alone():
                state = await _ask(self._listener.check_local_transaction, message)
        except Exception:  # the edge of the application's code: the broker asks again
            log.exception("check of a transaction failed id=%s", header.transaction_id)
            state = LocalTransactionState.UNKNOWN
        with _not_ended_logged(header.transaction_id):
            await self._say_end(message, state, EndTransactionHeader(
                topic=header.topic, producer_group=self.group, tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset, commit_or_rollback=state.value,
                from_transaction_check=True, msg_id=message.message_id, transaction_id=header.transaction_id,
                broker_name=header.broker_name,
            ))  # fmt: skip
        return b""

    async def _start(self, nursery: TaskGroup) -> None:
        await super()._start(nursery)
        nursery.start_soon(self._stay_connected)

    async def _stay_connected(self) -> None:
        client = self._client
        while True:
            for topic in self._topics:
                try:
                    await client.routes.queues(topic, create=True)
                except RocketMQError as error:
                    log.warning("no route topic=%s error=%s", topic, error)
            await client.heartbeat_to(client.routes.broker_addresses() - set(client.channels.addresses))
            await anyio.sleep(STAY_CONNECTED_EVERY_S)


class BlockingTransactionProducer(BlockingProducer):
    send_in_transaction = called(TransactionProducer.send_in_transaction)


@contextmanager
def _not_ended_logged(transaction_id: str | None) -> Iterator[None]:
    try:
        yield
    except RocketMQError as error:
        log.warning("transaction not ended id=%s error=%s", transaction_id, error)


async def _ask(
    function: Callable[[M], LocalTransactionState | Awaitable[LocalTransactionState]], message: M
) -> LocalTransactionState:
    """Calls an async function, or a plain one in a thread."""
    if inspect.iscoroutinefunction(function):
        return cast(LocalTransactionState, await function(message))
    return cast(LocalTransactionState, await called_in_thread(function, message))
