"""Kills a real broker again and again in the middle of its work. A producer sends numbers in order, a reader follows,
and a ledger outside the broker compares both with what the next process serves."""

import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event, Thread

from rmqclient.admin import AdminClient
from rmqclient.blocking import BlockingClient
from rmqclient.message import Message, SendStatus
from rmqclient.pull import PULL_ANSWER_CODES, PullStatus, pull_header, pull_result_untrusted
from rmqclient.sending import SendRequests, send_result_untrusted
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError
from rmqproto.headers.base import to_ext
from rmqproto.message.record import StoredMessage
from tests.support.servers import Server, standalone, topic_config

from .invariants import Violation

QUEUE = MessageQueue("KillTopic", "broker-a", 0)
GROUP = "kill-group"
ACKED_MAX = 60
"""Upper limit for the messages of one process before it is killed."""

READ_SUSPEND_MS = 1000


class Ledger:
    """The numbers of the messages, in ascending order. Each is sent once: a failed send is never repeated."""

    def __init__(self) -> None:
        self.next_number = 0
        self.acked: dict[int, int] = {}
        """Number by queue offset, as the broker has answered."""
        self.seen: dict[int, int] = {}
        """Number by queue offset, as the reader has got it."""

    def compare(self, served: dict[int, int]) -> None:
        """``served`` has all messages that are in the queue now, number by queue offset. Raises Violation if a promise
        was broken."""
        for what, known in (("acknowledged", self.acked), ("seen", self.seen)):
            for offset, number in known.items():
                if served.get(offset) != number:
                    raise Violation(
                        f"message {number} was {what} at queue offset {offset}; there is {served.get(offset)} now"
                    )
        numbers = [served[offset] for offset in sorted(served)]
        if numbers != sorted(set(numbers)) or sorted(served) != list(range(len(served))):
            raise Violation("messages are doubled or out of order")
        if numbers and numbers[-1] >= self.next_number:
            raise Violation(f"message {numbers[-1]} was never sent")


class KillCycles:
    """Call ``run``. ``damage`` is called with the store directory after each kill; a test of the harness uses it."""

    def __init__(self, directory: Path, flush: str, seed: int, damage: Callable[[Path], None] = lambda store: None):
        self.ledger = Ledger()
        self._directory = directory
        self._flush = flush
        self._rng = Random(seed)
        self._damage = damage

    def run(self, cycles: int) -> None:
        for _ in range(cycles):
            with self._start() as server:
                self._work_until_killed(server, self._rng.randrange(1, ACKED_MAX))
            self._damage(self._directory / "store")
        with self._start() as server:
            self._compare(server)
            assert server.stop() == 0, server.log_tail()

    def _start(self) -> Server:
        return standalone(
            self._directory, "--flush", self._flush, "--set", "flushConsumerOffsetInterval=20"
        )  # fmt: skip

    def _work_until_killed(self, server: Server, ack_count: int) -> None:
        enough = Event()
        with AdminClient(server.namesrv_addr) as admin:
            topic = topic_config(QUEUE.topic)
            admin.create_topic(server.broker_addr, topic)
        self._compare(server)
        work = [Thread(target=self._send, args=(server, ack_count, enough)), Thread(target=self._read, args=(server,))]
        for thread in work:
            thread.start()
        enough.wait()
        server.stop(signal.SIGKILL)
        for thread in work:
            thread.join()

    def _send(self, server: Server, ack_count: int, enough: Event) -> None:
        """Sends until the broker is gone. Sets ``enough`` after ``ack_count`` answers; the broker is killed then."""
        sends = SendRequests(QUEUE, "kill-producers")
        with BlockingClient() as client:
            try:
                while True:
                    number = self.ledger.next_number
                    self.ledger.next_number += 1
                    ext, body, key = sends.of(Message(QUEUE.topic, b"%d" % number, keys=f"n{number}"))
                    answer = client.request(server.broker_addr, RequestCode.SEND_MESSAGE_V2, ext, body)
                    result = send_result_untrusted(answer, key, QUEUE)
                    if result.status is SendStatus.SEND_OK:
                        self.ledger.acked[result.queue_offset] = number
                    ack_count -= 1
                    if not ack_count:
                        enough.set()
            except RocketMQError:
                enough.set()

    def _read(self, server: Server) -> None:
        """Reads until the broker is gone, and commits as it goes on."""
        offset = len(self.ledger.seen)
        with BlockingClient() as client:
            try:
                while True:
                    for message in self._pull(server, client, offset, READ_SUSPEND_MS):
                        self.ledger.seen[message.queue_offset] = int(message.body)
                        offset = message.queue_offset + 1
            except RocketMQError:
                return

    def _pull(self, server: Server, client: BlockingClient, offset: int, suspend_ms: int) -> list[StoredMessage]:
        header = pull_header(GROUP, QUEUE, offset, expression="*", committed_offset=offset, suspend_ms=suspend_ms)
        answer = client.request(
            server.broker_addr, RequestCode.PULL_MESSAGE, to_ext(header), accept=PULL_ANSWER_CODES
        )  # fmt: skip
        result = pull_result_untrusted(answer, QUEUE)
        if result.status is PullStatus.OFFSET_ILLEGAL and offset:
            raise Violation(f"the queue ends at {result.max_offset}; messages up to {offset} were seen")
        return result.messages

    def _compare(self, server: Server) -> None:
        with AdminClient(server.namesrv_addr) as admin:
            end = admin.max_offset(server.broker_addr, QUEUE.topic, QUEUE.queue_id)
            committed = admin.consumer_offset(server.broker_addr, GROUP, QUEUE.topic, QUEUE.queue_id)
        if committed is not None and committed > end:
            raise Violation(f"the committed offset is {committed}, the queue ends at {end}")
        served: dict[int, int] = {}
        with BlockingClient() as client:
            while len(served) < end:
                messages = self._pull(server, client, len(served), 0)
                if not messages:
                    raise Violation(f"nothing is served at queue offset {len(served)}; the queue ends at {end}")
                served.update((message.queue_offset, int(message.body)) for message in messages)
        self.ledger.compare(served)
