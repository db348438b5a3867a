"""An idempotent producer over a lossy wire: each acknowledged message is stored once, where the producer said, and each
given-up message at most once."""

import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendResult, SendStatus
from rmqclient.producers.producer import Producer
from rmqclient.producers.sequence_lines import UNDER_WAY_MAX, SequenceLine
from rmqclient.sending import SendRequests
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import ConnectError, RefusedError, RequestTimeoutError, RocketMQError, UsageError
from rmqproto.message import properties as props
from rmqproto.message.special_messages import REPEATS_KNOWN, parse_sequence_untrusted
from rmqserver.store.sequences.sequence_table import LineKey, OutOfSequence, SequenceTable, StoredPlace
from tests.support import servers
from tests.support.processes import free_ports

QUEUE = MessageQueue("T", "broker-a", 0)
TIMEOUT_S = 20.0


class LossyProducer(Producer):
    """A producer whose sends go to a table in this process. The wire loses requests and answers, delays both, and may
    deliver a request later. ``stored`` holds the contents of the queue."""

    def __init__(self, seed: int, loss_percent: int, *, forgets: bool = False):
        super().__init__("127.0.0.1:1", "group", idempotent=True)
        self._rng = Random(seed)
        self._loss = loss_percent / 100
        self._forgets = forgets
        self.table = SequenceTable()
        self.stored: list[str] = []
        self._late: list[tuple[float, str, str]] = []

    async def _writable(self, topic: str) -> tuple[MessageQueue, ...]:
        return (QUEUE,)

    async def _send_once(self, queue: MessageQueue, code: object, request: object, deadline_s: float) -> SendResult:
        ext, body, unique_keys = request(SendRequests(queue, "group"))  # type: ignore[operator]
        number = props.parse(ext["i"])[props.PRODUCER_SEQ]
        fate = self._rng.random()
        await trio.sleep(self._rng.random() * 0.05)
        if fate < self._loss:
            raise ConnectError("the request was lost")
        if fate < self._loss * 1.5:
            raise RefusedError(ResponseCode.SYSTEM_BUSY, "busy")
        if fate < self._loss * 1.8:
            self._late.append((trio.current_time() + self._rng.random() * 3, number, body.decode()))
            await trio.sleep_until(deadline_s)
            raise RequestTimeoutError("the request is late")
        self._take_late()
        place = self._put(number, body.decode())
        if fate > 1 - self._loss:
            await trio.sleep(self._rng.random() * 0.05)
            raise ConnectError("the answer was lost")
        return SendResult(SendStatus.SEND_OK, unique_keys, "", queue, place.queue_offset)

    def _take_late(self) -> None:
        late = [each for each in self._late if each[0] <= trio.current_time()]
        self._late = [each for each in self._late if each not in late]
        for _, number, body in late:
            try:
                self._put(number, body)
            except RefusedError:
                continue

    def _put(self, text: str, body: str) -> StoredPlace:
        number = parse_sequence_untrusted(text)
        key = LineKey(number.producer_id, "T", 0)
        try:
            place = None if self._forgets else self.table.find(key, number)
        except OutOfSequence as error:
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
        if place is None:
            place = StoredPlace(len(self.stored), len(self.stored))
            self.stored.append(body)
            self.table.add(key, number, [place], 0)
        return place


class Sent:
    def __init__(self) -> None:
        self.told: dict[str, int] = {}
        self.given_up: list[str] = []
        self.reasons: set[str] = set()
        """Why."""

    def check(self, stored: list[str]) -> None:
        for body, queue_offset in self.told.items():
            assert stored[queue_offset] == body
        counts = Counter(stored)
        assert max(counts.values(), default=0) <= 1, "stored twice"
        assert not counts.keys() - self.told.keys() - set(self.given_up)


async def send_all(producer: Producer, sent: Sent, task_count: int, message_count: int, timeout_s: float) -> None:
    async def send(task: int) -> None:
        for number in range(message_count):
            body = f"{task}-{number}"
            try:
                result = await producer.send(Message("T", body.encode()), QUEUE, timeout_s=timeout_s)
            except RocketMQError as error:
                sent.given_up.append(body)
                sent.reasons.add(str(error))
            else:
                sent.told[body] = result.queue_offset

    async with trio.open_nursery() as nursery:
        for task in range(task_count):
            nursery.start_soon(send, task)


def run_lossy(seed: int, *, forgets: bool = False) -> Sent:
    rng = Random(seed)
    sent = Sent()

    async def run() -> None:
        producer = LossyProducer(seed, rng.choice([0, 5, 20, 40]), forgets=forgets)
        await send_all(producer, sent, rng.randint(1, 6), 8, rng.choice([1.0, 5.0, TIMEOUT_S]))
        sent.check(producer.stored)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    return sent


@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_to_be_stored_is_there_once(seed: int) -> None:
    run_lossy(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_what_is_said_to_be_stored_is_there_once_with_many_seeds(first: int) -> None:
    for seed in range(first, first + 100):
        run_lossy(seed)


def test_a_broker_that_forgets_is_noticed() -> None:
    def run_many() -> None:
        for seed in range(50):
            run_lossy(seed, forgets=True)

    with pytest.raises(AssertionError, match="stored twice"):
        run_many()


def test_without_losses_nothing_is_given_up() -> None:
    sent = Sent()

    async def run() -> None:
        producer = LossyProducer(0, 0)
        await send_all(producer, sent, 150, 2, TIMEOUT_S)
        sent.check(producer.stored)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (len(sent.told), sent.given_up) == (300, [])


def test_with_time_enough_everything_is_stored() -> None:
    sent = Sent()

    async def run() -> None:
        producer = LossyProducer(7, 20)
        await send_all(producer, sent, 8, 20, 10_000)
        sent.check(producer.stored)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (len(sent.told), sent.given_up) == (160, [])


@pytest.mark.trio
async def test_what_a_number_cannot_be_for() -> None:
    producer = LossyProducer(0, 0)
    with pytest.raises(UsageError, match="neither a delay"):
        await producer.send(Message("T", b"body", delay_level=3))
    with pytest.raises(UsageError, match="one by one"):
        await producer.send_batch([Message("T", b"body")])


@pytest.mark.trio
async def test_no_message_gets_so_far_ahead_that_the_broker_forgets_the_oldest_under_way() -> None:
    """A message that waited for its next attempt while hundreds behind it were stored was refused when it came again:
    "it is not known where" it was stored."""
    line = SequenceLine("id")
    with line.turn(), trio.move_on_after(0) as waiting:
        for _ in range(REPEATS_KNOWN):
            await line.room()
            with line.turn() as turn:
                assert turn.number.sequence < UNDER_WAY_MAX
    assert waiting.cancelled_caught
    await line.room()


@pytest.mark.slow
def test_a_broker_that_is_killed_while_many_sends_are_under_way_has_each_once(tmp_path: Path) -> None:
    """The broker's log was written but not synced, and tells everything."""
    sent = Sent()
    args = ("--port", str(free_ports()[1]), "--flush", "async")

    async def run(namesrv: servers.Server) -> None:
        addr = namesrv.namesrv_addr
        async with Producer(addr, "group", idempotent=True) as producer, trio.open_nursery() as nursery:
            broker = servers.broker(tmp_path / "broker", addr, "broker-a", *args)
            await producer.send(Message("T", b"first"), QUEUE, timeout_s=60)
            nursery.start_soon(send_all, producer, sent, 32, 30, 120)
            for count in (200, 500):
                while len(sent.told) < count:
                    await trio.testing.wait_all_tasks_blocked(0.001)
                broker.stop(signal.SIGKILL)
                broker = servers.broker(tmp_path / "broker", addr, "broker-a", *args)
        with AdminClient(addr, timeout_s=60) as admin:
            stored = [message.body.decode() for message in servers.all_of(admin, broker.broker_addr, QUEUE)]
        broker.stop()
        sent.told["first"] = 0
        sent.check(stored)
        assert (sent.reasons, len(sent.told), sent.given_up) == (set(), 961, [])

    with servers.namesrv(tmp_path / "namesrv") as namesrv:
        trio.run(run, namesrv)
