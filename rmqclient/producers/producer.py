"""Producers: the choice of a queue for each message, and retries when its broker fails (``DefaultMQProducerImpl``,
5.5.0)."""

from __future__ import annotations

import contextlib
import functools
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import anyio
from anyio.abc import TaskGroup

from rmqclient.lifetime import Lifetime, P
from rmqclient.message import Message, ReceivedMessage, SendResult, SendStatus
from rmqclient.producers.queue_choice import QueueSelector, QueuesInTurn, by_hash
from rmqclient.producers.request_reply import OpenRequests, is_reply, reply_to
from rmqclient.producers.sequence_lines import UNDER_WAY_MAX, SequenceLines
from rmqclient.remoting.channels import BrokerRequestHandler
from rmqclient.remoting.client_instance import ClientInstance
from rmqclient.sending import (
    COMPRESS_FROM_BYTES,
    MESSAGE_SIZE_MAX_BYTES,
    STORED_CODES,
    Compression,
    EncodedSend,
    SendRequests,
    keyed_message,
    lite_topic_queue,
    numbered_message,
    send_result_untrusted,
    split_batches,
)
from rmqclient.threads import Blocking, called, called_in_loop
from rmqclient.tracing import Traces
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import Heartbeat, ProducerData
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import (
    ConnectError,
    NotConnectedError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    RequestTimeoutError,
    RocketMQError,
    UsageError,
)
from rmqproto.headers.sending import RecallHeader
from rmqproto.message.compression import LEVEL, check_compression
from rmqproto.message.special_messages import parse_recall_untrusted
from rmqproto.names import group_problem
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import BODY_SIZE_MAX_BYTES

SEND_TIMEOUT_S = 3.0
"""The limit for a send with all its attempts, as in Apache's clients."""

RETRY_TIMES = 2
"""``retryTimesWhenSendFailed``, 5.5.0."""

ATTEMPTS_PER_TIMEOUT = 3
ATTEMPT_S_MIN, ATTEMPT_S_MAX = 1.0, SEND_TIMEOUT_S
"""Bounds of the time that an idempotent producer waits for each answer, which is a third of the send's time-out. It
sends again as long as there is time."""

WITHOUT_MASTER_S = 0.1
"""The time between checks for a master that can be reached."""

RETRIED_CODES = frozenset({
    ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_BUYER_ID, ResponseCode.NOT_IN_CURRENT_UNIT, ResponseCode.GO_AWAY,
})  # fmt: skip
"""Refusals after which another broker, or the same one a moment later, may accept the message: the default
``retryResponseCodes`` of ``DefaultMQProducer``, 5.5.0."""

QUEUES_KNOWN_MAX = 100_000
"""Queues for which the common part of a send is kept."""


class Producer(Lifetime):
    """``async with Producer("127.0.0.1:9876", "group") as producer: await producer.send(Message("Topic", b"body"))``

    Any number of tasks may send at once, which is the way to send fast. Errors of every send: UsageError for a message
    that no broker would take; RefusedError, ConnectError and RequestTimeoutError of the last attempt. After the last
    two the message may have been stored: sending it again may store it twice.

    While no master can be reached, as in the middle of a fail-over, a send waits, and tries again until its time is
    over. Nothing was sent then, so this is no attempt.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = SEND_TIMEOUT_S,
        trace: bool | str = False,
        instance_name: str | None = None,
        idempotent: bool = False,
        max_message_size_bytes: int = MESSAGE_SIZE_MAX_BYTES,
        retry_times: int = RETRY_TIMES,
        retry_another_broker_when_not_stored: bool = False,
        send_latency_fault_enable: bool = False,
        compress_from_bytes: int = COMPRESS_FROM_BYTES,
        compress_type: str = "zlib",
        compress_level: int = LEVEL,
    ):
        """``trace``: writes a record of every send to RMQ_SYS_TRACE_TOPIC, or to the topic named. ``instance_name``:
        the second half of the client id. ``idempotent``: rmqserver stores a message once, however often it is sent. A
        send is then repeated on its queue until its time is over, even if the message may have been stored.
        ``max_message_size_bytes``: larger bodies, before they are compressed, and larger batches are a UsageError. The
        broker has a limit of its own (``maxMessageSize``), and no request can carry more than BODY_SIZE_MAX_BYTES.

        ``retry_times``: further attempts of a send whose queue is free, each on another broker if there is one.
        ``retry_another_broker_when_not_stored``: also after an answer that is not SEND_OK, though the message may then
        be stored twice. ``send_latency_fault_enable``: brokers that were slow or failed are avoided for a while.
        ``compress_from_bytes``, ``compress_type``, ``compress_level``: which bodies are compressed, by zlib, lz4 or
        zstd (the latter two with the extra ``compression``), and how well (0 to 9; LZ4 has no levels).

        UsageError for invalid addresses, an invalid group, and a compression that is not to be had."""
        if problem := group_problem(group):
            raise UsageError(problem)
        check_compression(compress_type, compress_level)
        self.group = group
        self._timeout_s = timeout_s
        self._body_max_bytes = min(max_message_size_bytes, BODY_SIZE_MAX_BYTES)
        self._attempts = 1 + max(0, retry_times)
        self._retries_not_stored = retry_another_broker_when_not_stored
        self._compression = Compression(compress_from_bytes, compress_type, compress_level)
        self._turns = QueuesInTurn(avoids_slow_brokers=send_latency_fault_enable, clock_s=anyio.current_time)
        self._traces = Traces.wanted(group, trace)
        self._lines = SequenceLines() if idempotent else None
        self._open_requests = OpenRequests()
        self._greeted: set[str] = set()
        self._client = ClientInstance(
            namesrv_addrs,
            credentials,
            self._heartbeat,
            tls=tls,
            instance_name=instance_name,
            handlers=self._broker_request_handlers(),
        )
        self._sends: dict[MessageQueue, SendRequests] = {}

    @classmethod
    def blocking(cls: Callable[P, Producer], *args: P.args, **kwargs: P.kwargs) -> BlockingProducer:
        """The same for plain threads: ``with Producer.blocking(...) as producer:``."""
        return BlockingProducer(cls(*args, **kwargs))

    async def send(
        self, message: Message, queue: MessageQueue | QueueSelector | None = None, *, timeout_s: float | None = None
    ) -> SendResult:
        """Stores one message: on ``queue``, or on the one that this function chooses (``by_hash(key)``, ``by_random``
        or your own), else on the queue of its sharding key or lite topic, else on the next writable one in turn. If
        only one queue will do, there is one attempt, which waits while that queue's broker has no master. Returns when
        the broker has answered: ``status`` says whether it kept all its promises."""
        return await self._send_message(message, queue, timeout_s)

    async def send_batch(
        self,
        messages: list[Message],
        queue: MessageQueue | QueueSelector | None = None,
        *,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Stores messages of one topic on one queue, all of them or none; together they may have
        ``max_message_size_bytes`` (``split`` makes such batches). UsageError if they belong on several queues."""
        if not messages:
            raise UsageError("a batch needs at least one message")
        topic = messages[0].topic
        if any(message.topic != topic for message in messages):
            raise UsageError("a batch goes to one topic")
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        chosen = {await self._chosen(message, queue) for message in messages if message.lite_topic is None}
        if len(chosen) > 1:
            raise UsageError("a batch goes to one queue, and these messages belong on several")
        if self._lines is not None:
            raise UsageError("an idempotent producer sends messages one by one: many tasks may send at a time")
        began_s = time.time()
        code = RequestCode.SEND_BATCH_MESSAGE
        result = await self._send(
            topic, code, lambda sends: sends.of_batch(messages), next(iter(chosen), None), timeout_s
        )
        self._trace(messages, result, began_s)
        return result

    def split(self, messages: Iterable[Message]) -> Iterator[list[Message]]:
        """Batches for ``send_batch``, each as large as ``max_message_size_bytes`` permits, in the given order.
        UsageError for a message that is too large for any."""
        return split_batches(messages, self._body_max_bytes)

    async def send_oneway(self, message: Message, queue: MessageQueue | QueueSelector | None = None) -> str:
        """Hands one message to the connection and does not wait for the broker. Returns the message id. The client
        never learns whether the message was stored."""
        chosen = await self._chosen(message, queue)
        chosen = chosen or self._turns.next(await self._writable(message.topic), None)
        ext, body, message_id = self._sends_to(chosen).of(message)
        address = self._client.routes.master_of(chosen)
        code = RequestCode.SEND_MESSAGE_V2
        await self._client.channels.oneway(address, code, ext, body, timeout_s=self._timeout_s)
        return message_id

    async def request(self, message: Message, timeout_s: float) -> ReceivedMessage:
        """Sends one message, and waits up to ``timeout_s`` for a reply to it (``reply``) from any consumer.
        RequestTimeoutError if none comes; errors of the send as of ``send``. The reply has no offsets."""
        deadline_s = anyio.current_time() + timeout_s
        await self._writable(message.topic)
        # The reply may come over any broker of a known route. Each is tried once, so that one that is down delays only
        # one request.
        unknown = self._client.routes.broker_addresses() - self._greeted
        self._greeted |= unknown
        with anyio.CancelScope(deadline=deadline_s):
            await self._client.heartbeat_to(unknown - set(self._client.channels.addresses))
        with self._open_requests.opened() as opened:
            await self.send(opened.request(message, self._client.client_id, timeout_s), timeout_s=timeout_s)
            with anyio.CancelScope(deadline=deadline_s):
                return await opened.reply()
        raise RequestTimeoutError(
            f"the request to topic {message.topic} was sent, and no reply came in {timeout_s:g} s"
        )

    async def reply(self, request: ReceivedMessage, body: bytes, *, timeout_s: float | None = None) -> SendResult:
        """Answers a message that a producer sent with ``request``, whose broker hands it on at once. RefusedError if
        that producer is gone; UsageError for a message that asks for no reply."""
        return await self.send(reply_to(request, body), timeout_s=timeout_s)

    async def recall(self, handle: str | None, *, timeout_s: float | None = None) -> str:
        """Recalls a message before it is delivered, by the ``recall_handle`` of its send. Returns its message id. A
        broker allows this with recallMessageEnable. RefusedError with code 16 if it does not, with 604 if the delivery
        time has come or the handle is another broker's. UsageError if it is not a handle, or is None: the message was
        not delayed by ``delay_s`` or ``deliver_at_ms``."""
        if handle is None:
            raise UsageError("only a message with delay_s or deliver_at_ms can be recalled")
        try:
            recalled = parse_recall_untrusted(handle)
        except ProtocolError as error:
            raise UsageError(f"{error}: {handle[:80]!r}") from None
        await self._writable(recalled.topic)
        header = RecallHeader(
            producer_group=self.group, topic=recalled.topic, recall_handle=handle, broker_name=recalled.broker_name
        )
        address = self._client.routes.master(recalled.broker_name)
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            await self._client.channels.request(address, RequestCode.RECALL_MESSAGE, header, timeout_s=timeout_s)
        except RefusedError:
            if self._traces is not None:
                self._traces.recalled(recalled.topic, recalled.unique_key, is_success=False)
            raise
        if self._traces is not None:
            self._traces.recalled(recalled.topic, recalled.unique_key, is_success=True)
        return recalled.unique_key

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that ``send`` uses in turn. RefusedError with code 17 for a topic that does not exist."""
        return list((await self._client.routes.queues(topic)).writable)

    # --- how ---------------------------------------------------------------------------------------------------------

    async def _send_message(
        self, message: Message, queue: MessageQueue | QueueSelector | None, timeout_s: float | None, sys_flag: int = 0
    ) -> SendResult:
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        code = RequestCode.SEND_REPLY_MESSAGE_V2 if is_reply(message) else RequestCode.SEND_MESSAGE_V2
        began_s = time.time()
        if self._lines is not None and not is_reply(message):
            result = await self._send_numbered(self._lines, message, queue, timeout_s)
        else:
            chosen = await self._chosen(message, queue)
            result = await self._send(message.topic, code, lambda sends: sends.of(message, sys_flag), chosen, timeout_s)
        self._trace([message], result, began_s)
        return result

    async def _chosen(self, message: Message, queue: MessageQueue | QueueSelector | None) -> MessageQueue | None:
        """The only queue that will do; None if any will. UsageError for a queue of another topic: the message would go
        there."""
        if message.lite_topic is not None and queue is None:
            return lite_topic_queue(message.lite_topic, await self._writable(message.topic))
        if queue is None:
            if message.sharding_key is None:
                return None
            queue = by_hash(message.sharding_key)
        if not isinstance(queue, MessageQueue):
            ordered = (await self._client.routes.queues(message.topic, create=True)).ordered
            queue = queue(ordered or await self._writable(message.topic), message)
        if queue.topic != message.topic:
            raise UsageError(f"a message for topic {message.topic} cannot go to a queue of topic {queue.topic}")
        return queue

    async def _send(
        self,
        topic: str,
        code: RequestCode,
        request: Callable[[SendRequests], EncodedSend],
        queue: MessageQueue | None,
        timeout_s: float,
    ) -> SendResult:
        deadline_s = anyio.current_time() + timeout_s
        failed_broker = None
        for attempts_left in reversed(range(self._attempts if queue is None else 1)):
            target = await self._reachable(topic, queue, failed_broker, deadline_s)
            try:
                result = await self._send_once(target, code, request, deadline_s)
                if result.status is SendStatus.SEND_OK or not (self._retries_not_stored and attempts_left):
                    return result
            except ConnectError:
                self._client.routes.refresh_soon()
                if not attempts_left or anyio.current_time() >= deadline_s:
                    raise
            except RequestTimeoutError:
                self._client.routes.refresh_soon()
                raise
            except RefusedError as error:
                if error.code in RETRIED_CODES:
                    self._client.routes.refresh_soon()
                if not attempts_left or error.code not in RETRIED_CODES or anyio.current_time() >= deadline_s:
                    raise
            failed_broker = target.broker_name
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _reachable(
        self, topic: str, queue: MessageQueue | None, failed_broker: str | None, deadline_s: float
    ) -> MessageQueue:
        """``queue``, else the next one in turn, if possible on another broker than ``failed_broker``. Its master is
        connected. While none can be, this waits for one; NotConnectedError at the deadline. Errors of
        ``Routes.queues`` at once if the topic's route is not known yet."""
        routes = self._client.routes
        await routes.queues(topic, create=True)
        tried = {failed_broker}
        while True:
            writable = await self._writable_soon(topic, deadline_s, NotConnectedError)
            target = queue or self._turns.next(writable, failed_broker)
            try:
                await self._client.channels.connected(routes.master_of(target), deadline_s)
            except NotConnectedError:
                if not await self._may_go_on(deadline_s, waits=target.broker_name in tried):
                    raise
            else:
                return target
            failed_broker = target.broker_name
            tried.add(failed_broker)

    async def _writable_soon(
        self, topic: str, deadline_s: float, *waited_out: type[RocketMQError]
    ) -> tuple[MessageQueue, ...]:
        """The writable queues. Waits while they cannot be had for one of these reasons, and raises it at the
        deadline."""
        while True:
            try:
                return await self._writable(topic)
            except waited_out:
                if not await self._may_go_on(deadline_s):
                    raise

    async def _may_go_on(self, deadline_s: float, *, waits: bool = True) -> bool:
        """After a look for a master that found none: has the routes read again, and waits as long as it pays, or, if
        there is something else to try, not at all. False if the time is over."""
        self._client.routes.refresh_soon()
        if not self._client.channels.is_running or anyio.current_time() + WITHOUT_MASTER_S >= deadline_s:
            return False
        if waits:
            await anyio.sleep(WITHOUT_MASTER_S)
        return True

    async def _send_numbered(
        self, lines: SequenceLines, message: Message, wanted: MessageQueue | QueueSelector | None, timeout_s: float
    ) -> SendResult:
        """Sends until it succeeds or the message's time is over. After an attempt that may have stored the message it
        is sent again, in the order of the numbers."""
        deadline_s = anyio.current_time() + timeout_s
        message = keyed_message(message)
        failed: RocketMQError = RequestTimeoutError(f"{message.topic}: no queue was known in time")
        with anyio.move_on_at(deadline_s):
            writable = await self._writable_soon(
                message.topic, deadline_s, ConnectError, NotFoundError, RequestTimeoutError
            )
            queue = await self._chosen(message, wanted) or self._turns.next(writable, None)
            line = lines.of(queue)
            failed = RequestTimeoutError(
                f"{queue}: {UNDER_WAY_MAX} messages were under way, or one did not come through"
            )
            await line.room()
            with line.turn() as turn:
                while True:
                    numbered = numbered_message(message, turn.begins_attempt())
                    attempt_s = min(max(timeout_s / ATTEMPTS_PER_TIMEOUT, ATTEMPT_S_MIN), ATTEMPT_S_MAX)
                    attempt_end_s = anyio.current_time() + attempt_s
                    request = functools.partial(SendRequests.of, message=numbered)
                    try:
                        return await self._send_once(queue, RequestCode.SEND_MESSAGE_V2, request, attempt_end_s)
                    except (ConnectError, RequestTimeoutError, RefusedError) as error:
                        failed = error
                    self._client.routes.refresh_soon()
                    if not await turn.is_to_try_again(failed):
                        raise failed
        raise failed

    async def _send_once(
        self, queue: MessageQueue, code: RequestCode, request: Callable[[SendRequests], EncodedSend], deadline_s: float
    ) -> SendResult:
        ext, body, message_ids = request(self._sends_to(queue))
        address = self._client.routes.master_of(queue)
        began_s = anyio.current_time()
        try:
            answer = await self._client.channels.request(
                address, code, ext, body, timeout_s=deadline_s - began_s, accept=STORED_CODES
            )
        except RocketMQError:
            self._turns.took(queue.broker_name, began_s, has_failed=True)
            raise
        self._turns.took(queue.broker_name, began_s)
        return send_result_untrusted(answer, message_ids, queue)

    def _trace(self, messages: list[Message], result: SendResult, began_s: float) -> None:
        if self._traces is not None:
            with contextlib.suppress(ConnectError):  # the route may be gone, but a stored send must not fail
                store_addr = self._client.routes.master_of(result.queue)
                self._traces.published(messages, result, store_addr, began_s)

    def _sends_to(self, queue: MessageQueue) -> SendRequests:
        placed = self._client.routes.placed(queue)
        sends = self._sends.get(placed)
        if sends is None:
            if len(self._sends) >= QUEUES_KNOWN_MAX:
                self._sends.clear()
            sends = self._sends[placed] = SendRequests(placed, self.group, self._body_max_bytes, self._compression)
        return sends

    async def _writable(self, topic: str) -> tuple[MessageQueue, ...]:
        routes = self._client.routes
        found = routes.known(topic) or await routes.queues(topic, create=True)
        if not found.writable:
            routes.refresh_soon()
            if found.lacks_master:
                raise NotConnectedError(f"no broker of topic {topic} has a master now")
            raise NotFoundError(
                f"topic {topic} has no queue that can be written",
                hint="Its permission, or that of its brokers, forbids writing.",
            )
        return found.writable

    # --- lifetime ----------------------------------------------------------------------------------------------------

    def _broker_request_handlers(self) -> Mapping[int, BrokerRequestHandler]:
        """The handlers for requests of brokers, by request code."""
        return {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._open_requests.take_reply}

    def _heartbeat(self, client_id: str) -> Heartbeat:
        return Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name=self.group)])

    async def _start(self, nursery: TaskGroup) -> None:
        await self._client.start(nursery)
        if self._traces is not None:
            nursery.start_soon(self._traces.run, self._client)

    async def _leave(self) -> None:
        if self._traces is not None:
            await self._traces.flush(self._client)
        await self._client.unregister(producer_group=self.group)


class BlockingProducer(Blocking[Producer]):
    send = called(Producer.send)
    send_batch = called(Producer.send_batch)
    split = called_in_loop(Producer.split)
    send_oneway = called(Producer.send_oneway)
    request = called(Producer.request)
    reply = called(Producer.reply)
    recall = called(Producer.recall)
    queues = called(Producer.queues)
