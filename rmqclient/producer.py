"""Sending: which queue a message goes to, and what happens when its broker fails (``DefaultMQProducerImpl``, 5.5.0)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import trio

from rmqclient.client import Client
from rmqclient.lifetime import Lifetime
from rmqclient.message import Message, SendResult
from rmqclient.sending import STORED_CODES, Request, Sends, send_result_untrusted
from rmqproto.bodies import Heartbeat, MessageQueue, ProducerData
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, NotFoundError, RefusedError, UsageError
from rmqproto.names import group_problem
from rmqproto.signing import Credentials

SEND_TIMEOUT_S = 3.0
"""For a send with all its attempts, as Apache's clients."""

ATTEMPTS_MAX = 3

RETRIED_CODES = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})
"""Refusals after which another broker, or the same one a moment later, may take the message."""

QUEUES_KNOWN_MAX = 100_000
"""Queues whose common part of a send is kept."""


class Producer(Lifetime):
    """``async with Producer("127.0.0.1:9876", "group") as producer: await producer.send(Message("Topic", b"body"))``

    Any number of tasks may send at once: that is how to send fast. Errors of every send: UsageError for a message that
    no broker would take; RefusedError, ConnectError and RequestTimeoutError of the last attempt. After the last two the
    message may have been stored: sending it again may store it twice.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        *,
        credentials: Credentials | None = None,
        timeout_s: float = SEND_TIMEOUT_S,
    ):
        """UsageError for addresses or a group that cannot be."""
        if problem := group_problem(group):
            raise UsageError(problem)
        self.group = group
        self._timeout_s = timeout_s
        self._client = Client(namesrv_addrs, credentials, self._heartbeat)
        self._sends: dict[MessageQueue, Sends] = {}
        self._turn = itertools.count(random.randrange(1 << 16))  # producers started together must not march in step

    async def send(
        self, message: Message, queue: MessageQueue | None = None, *, timeout_s: float | None = None
    ) -> SendResult:
        """Stores one message, on ``queue`` where it is given (then in one attempt), else on each writable queue in
        turn. Returns when the broker has answered: ``status`` says whether it kept all its promises."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        code = RequestCode.SEND_MESSAGE_V2
        return await self._send(message.topic, code, lambda sends: sends.of(message), queue, timeout_s)

    async def send_batch(
        self, messages: list[Message], queue: MessageQueue | None = None, *, timeout_s: float | None = None
    ) -> SendResult:
        """Stores messages of one topic on one queue, all or none of them, 4 MiB at most."""
        if not messages:
            raise UsageError("a batch needs at least one message")
        topic = messages[0].topic
        if any(message.topic != topic for message in messages):
            raise UsageError("a batch goes to one topic")
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        code = RequestCode.SEND_BATCH_MESSAGE
        return await self._send(topic, code, lambda sends: sends.of_batch(messages), queue, timeout_s)

    async def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> str:
        """Hands one message to the connection and does not wait for the broker. The message id; whether it was stored
        is never known."""
        writable = await self._writable(message.topic)
        queue = queue or self._next_queue(writable, None)
        ext, body, message_id = self._sends_to(queue).of(message)
        address = self._client.routes.master(queue.broker_name)
        code = RequestCode.SEND_MESSAGE_V2
        await self._client.connections.oneway(address, code, ext, body, timeout_s=self._timeout_s)
        return message_id

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that ``send`` takes in turn. RefusedError with code 17 for a topic that does not exist."""
        return list((await self._client.routes.queues(topic)).writable)

    # --- how ---------------------------------------------------------------------------------------------------------

    async def _send(
        self,
        topic: str,
        code: RequestCode,
        request: Callable[[Sends], Request],
        queue: MessageQueue | None,
        timeout_s: float,
    ) -> SendResult:
        deadline_s = trio.current_time() + timeout_s
        failed_broker = None
        for attempts_left in reversed(range(ATTEMPTS_MAX if queue is None else 1)):
            writable = await self._writable(topic)
            target = queue or self._next_queue(writable, failed_broker)
            try:
                return await self._send_once(target, code, request, deadline_s)
            except ConnectError:
                self._client.routes.refresh_soon()
                if not attempts_left or trio.current_time() >= deadline_s:
                    raise
            except RefusedError as error:
                if not attempts_left or error.code not in RETRIED_CODES or trio.current_time() >= deadline_s:
                    raise
            failed_broker = target.broker_name
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _send_once(
        self, queue: MessageQueue, code: RequestCode, request: Callable[[Sends], Request], deadline_s: float
    ) -> SendResult:
        ext, body, message_ids = request(self._sends_to(queue))
        address = self._client.routes.master(queue.broker_name)
        timeout_s = deadline_s - trio.current_time()
        answer = await self._client.connections.request(
            address, code, ext, body, timeout_s=timeout_s, accept=STORED_CODES
        )
        return send_result_untrusted(answer, message_ids, queue)

    def _sends_to(self, queue: MessageQueue) -> Sends:
        sends = self._sends.get(queue)
        if sends is None:
            if len(self._sends) >= QUEUES_KNOWN_MAX:
                self._sends.clear()
            sends = self._sends[queue] = Sends(queue, self.group)
        return sends

    async def _writable(self, topic: str) -> tuple[MessageQueue, ...]:
        routes = self._client.routes
        writable = (routes.known(topic) or await routes.queues(topic, create=True)).writable
        if not writable:
            raise NotFoundError(
                f"topic {topic} has no queue that can be written",
                hint="Its permission, or that of its brokers, forbids writing, or no master is alive.",
            )
        return writable

    def _next_queue(self, queues: tuple[MessageQueue, ...], failed_broker: str | None) -> MessageQueue:
        """The next in turn, of another broker than ``failed_broker`` where there is one."""
        for _ in queues:
            queue = queues[next(self._turn) % len(queues)]
            if queue.broker_name != failed_broker:
                return queue
        return queues[next(self._turn) % len(queues)]

    # --- lifetime ----------------------------------------------------------------------------------------------------

    def _heartbeat(self, client_id: str) -> Heartbeat:
        return Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name=self.group)])

    async def _start(self, nursery: trio.Nursery) -> None:
        await self._client.start(nursery)

    async def _leave(self) -> None:
        await self._client.unregister(producer_group=self.group)
