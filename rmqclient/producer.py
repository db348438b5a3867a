"""Sending: which queue a message goes to, and what happens when its broker fails (``DefaultMQProducerImpl``, 5.5.0)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import trio

from rmqclient.client import Client
from rmqclient.lifetime import Lifetime
from rmqclient.message import STORED_CODES, Message, SendResult, batch_request, send_request, send_result
from rmqproto.bodies import Heartbeat, MessageQueue, ProducerData
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, NotFoundError, RefusedError, UsageError
from rmqproto.headers import SendAnswer, SendHeaderV2, from_ext
from rmqproto.names import group_problem
from rmqproto.signing import Credentials

SEND_TIMEOUT_S = 3.0
"""For a send with all its attempts, as Apache's clients."""

ATTEMPTS_MAX = 3

RETRIED_CODES = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})
"""Refusals after which another broker, or the same one a moment later, may take the message."""

Request = Callable[[MessageQueue], tuple[SendHeaderV2, bytes, str]]
"""Header, body and message id of a send to one queue."""


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
        self._turn = itertools.count(random.randrange(1 << 16))  # producers started together must not march in step

    async def send(
        self, message: Message, queue: MessageQueue | None = None, *, timeout_s: float | None = None
    ) -> SendResult:
        """Stores one message, on ``queue`` where it is given (then in one attempt), else on each writable queue in
        turn. Returns when the broker has answered: ``status`` says whether it kept all its promises."""
        return await self._send(
            message.topic,
            RequestCode.SEND_MESSAGE_V2,
            lambda target: send_request(message, target, self.group),
            queue,
            self._timeout_s if timeout_s is None else timeout_s,
        )

    async def send_batch(
        self, messages: list[Message], queue: MessageQueue | None = None, *, timeout_s: float | None = None
    ) -> SendResult:
        """Stores messages of one topic on one queue, all or none of them, 4 MiB at most."""

        def request(target: MessageQueue) -> tuple[SendHeaderV2, bytes, str]:
            header, body, message_ids = batch_request(messages, target, self.group)
            return header, body, ",".join(message_ids)

        if not messages:
            raise UsageError("a batch needs at least one message")
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        return await self._send(messages[0].topic, RequestCode.SEND_BATCH_MESSAGE, request, queue, timeout_s)

    async def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> str:
        """Hands one message to the connection and does not wait for the broker. The message id; whether it was stored
        is never known."""
        writable = await self._writable(message.topic)
        queue = queue or self._next_queue(writable, None)
        header, body, message_id = send_request(message, queue, self.group)
        address = self._client.routes.master(queue.broker_name)
        code = RequestCode.SEND_MESSAGE_V2
        await self._client.connections.oneway(address, code, header, body, timeout_s=self._timeout_s)
        return message_id

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that ``send`` takes in turn. RefusedError with code 17 for a topic that does not exist."""
        return list((await self._client.routes.queues(topic)).writable)

    # --- how ---------------------------------------------------------------------------------------------------------

    async def _send(
        self, topic: str, code: RequestCode, request: Request, queue: MessageQueue | None, timeout_s: float
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
        self, queue: MessageQueue, code: RequestCode, request: Request, deadline_s: float
    ) -> SendResult:
        header, body, message_id = request(queue)
        address = self._client.routes.master(queue.broker_name)
        answer = await self._client.connections.request(
            address, code, header, body, timeout_s=deadline_s - trio.current_time(), accept=STORED_CODES
        )
        return send_result(answer.code, from_ext(answer.ext, SendAnswer), message_id, queue)

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
