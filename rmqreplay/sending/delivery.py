"""Sends the messages of one task so that each is at the target once: it asks for permits, sends batches, trusts
answers, and looks at the target whenever an outcome is unknown. The network and the clock are behind two small
protocols, so that the same code runs against a broker and against a simulation of every crash."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RocketMQError
from rmqproto.message import properties as props
from rmqproto.names import RETRY_PREFIX
from rmqproto.wire.frames import BODY_SIZE_MAX_BYTES
from rmqreplay.ledger.letters import Place
from rmqreplay.sending.permits import Denied, Entered, Granted, Wait

BATCH_MESSAGES_DEFAULT = 32
BATCH_BYTES_MAX = 1 << 20
"""Well below a broker's default limit for a message (4 MiB), which also bounds a batch."""
IN_FLIGHT_DEFAULT = 4
BUSY_BACKOFF_S_MIN = 0.05
BUSY_BACKOFF_S_MAX = 5.0
TRIES_MAX = 30
"""How often one message is tried before the task fails. Spark or the next run then tries again."""
TOPIC_CODES = frozenset({
    ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.INVALID_PARAMETER,
})  # fmt: skip
"""Codes of a refusal because of the topic or the sender, which every message to the topic would get."""
_ASKING_PROPERTIES = props.DELAYING_NAMES | {props.PRIORITY}


class DeliveryError(RocketMQError):
    """The task cannot continue. Nothing is lost: the wave stays open and is repeated."""


class Outgoing(msgspec.Struct, frozen=True):
    """A message ready to be sent. ``queue`` and ``queue_offset`` are its origin, and ``replay_id`` names it."""

    replay_id: str
    queue: MessageQueue
    queue_offset: int
    topic: str
    body: bytes
    properties: str
    flag: int = 0
    sys_flag: int = 0
    target: MessageQueue | None = None
    """The queue to send to; None leaves the choice to the sender."""
    mark: bytes = b""
    """The mark of its origin, by which a ledger recognises it."""
    alone: bool = False
    """Whether it must not share a request."""

    @property
    def place(self) -> Place:
        return self.queue, self.queue_offset

    @property
    def size_bytes(self) -> int:
        return len(self.body) + len(self.properties) + 100


def must_go_alone(topic: str, properties: Mapping[str, str]) -> bool:
    """Brokers refuse batches to retry topics, and of what is in a batch they neither delay a message nor choose a queue
    by its priority."""
    return topic.startswith(RETRY_PREFIX) or not _ASKING_PROPERTIES.isdisjoint(properties)


@dataclass(slots=True)
class Batch:
    """The messages of one request, with the same topic and sysFlag. ``tries`` counts requests, including this one."""

    messages: list[Outgoing]
    tries: int = 0


class Answer(enum.Enum):
    """The known outcome of a batch that was put on the wire."""

    STORED = "stored"
    STORED_WEAKLY = "stored weakly"  # appended, but not flushed or replicated in time; never sent again
    BUSY = "busy"  # not appended; may be tried again
    ILLEGAL = "illegal"  # not appended; one of its messages can never be
    IN_DOUBT = "in doubt"  # no answer, or one that does not decide it


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    batch: Batch
    answer: Answer
    code: int = 0
    remark: str = ""
    is_repeat: bool = False
    """The broker knows it by its number, and has not stored it again."""

    @property
    def reason(self) -> str:
        """Why it is not known to be stored, in the broker's words."""
        return f"{self.remark} ({self.code})" if self.remark else "there was no answer"

    @property
    def is_of_topic(self) -> bool:
        """Whether every other message to the topic would be refused, too."""
        return self.answer is Answer.ILLEGAL and self.code in TOPIC_CODES


class DeliveryTarget(Protocol):
    """The target cluster, as far as a task needs it."""

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        """Puts the batch on the wire. Returns False and sends nothing if the clock has passed ``not_after`` by then.
        ``extend`` returns a later ``not_after`` for a batch that takes longer to send; if it is not later, the rest is
        not sent.

        A failure to connect is an outcome (in doubt), not an error.
        """

    def outcomes(self) -> list[BatchOutcome]:
        """Waits until at least one batch on the wire is answered or times out; [] if none is on the wire."""

    def settle(self) -> None:
        """Returns when every batch put before is at the target or never will be."""

    def look(self) -> set[str]:
        """The replay ids of this job at or above the wave's fences."""


class Permits(Protocol):
    """The permit service as a task sees it."""

    def enter(self) -> Entered | Wait | Denied: ...

    def ask(self, count: int, size_bytes: int) -> Granted | Wait | Denied: ...

    def extend(self) -> Granted | Denied: ...


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message that the target will never accept, or that the plan does not allow. ``code`` is 0 if no broker refused
    it."""

    place: Place
    topic: str
    code: int
    remark: str


def too_large(body: bytes, max_bytes: int = BODY_SIZE_MAX_BYTES) -> str | None:
    """Why no request can carry the body, or no broker take it if ``max_bytes`` is their ``maxMessageSize``. By default
    that is left to them."""
    if len(body) <= min(max_bytes, BODY_SIZE_MAX_BYTES):
        return None
    limit = "a request can carry" if len(body) > BODY_SIZE_MAX_BYTES else f"maxMessageSize ({max_bytes}) allows"
    return f"its body has {len(body)} bytes, more than {limit}"


@dataclass(slots=True)
class DeliveryReport:
    """The outcome of a task's messages. Every origin is in ``stored``, ``found`` or ``rejected``."""

    stored: list[Place] = field(default_factory=list)
    found: list[Place] = field(default_factory=list)
    """Messages found at the target, from an earlier attempt or a request without an answer."""
    rejected: list[Rejected] = field(default_factory=list)
    weak_count: int = 0
    doubtful_count: int = 0
    busy_count: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    batch_messages: int = BATCH_MESSAGES_DEFAULT
    in_flight: int = IN_FLIGHT_DEFAULT


class TaskDelivery:
    """One attempt of one task. ``clock`` is the monotonic clock, and ``sleep`` waits on it."""

    def __init__(
        self,
        target: DeliveryTarget,
        permits: Permits,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        limits: Limits = Limits(),
    ):
        self._target = target
        self._permits = permits
        self._clock = clock
        self._sleep = sleep
        self._limits = limits
        self._result = DeliveryReport()
        self._there: set[str] = set()
        self._to_send: deque[Batch] = deque()
        self._doubtful: list[Batch] = []
        self._on_wire_count = 0
        self._granted_count = 0
        self._not_after = 0.0
        self._busy_streak = 0
        self._last_reason = ""

    def run(self, messages: Iterable[Outgoing]) -> DeliveryReport:
        """Delivers all messages and reports the outcome of each. DeliveryError if that is impossible."""
        if self._enter():
            self._there = self._target.look()
        for batch in batches(self._unseen(messages), self._limits.batch_messages):
            self._to_send.append(batch)
            self._send_all()
        while self._on_wire_count or self._doubtful:
            self._collect()
            self._send_all()
        return self._result

    def _enter(self) -> bool:
        while True:
            answer = self._permits.enter()
            if isinstance(answer, Entered):
                return answer.must_look
            if isinstance(answer, Denied):
                raise DeliveryError(f"not allowed to send: {answer.reason}")
            self._sleep(answer.seconds)

    def _unseen(self, messages: Iterable[Outgoing]) -> Iterator[Outgoing]:
        for message in messages:
            if message.replay_id in self._there:
                self._result.found.append(message.place)
            else:
                yield message

    def _send_all(self) -> None:
        """Puts everything in ``_to_send`` on the wire. Batches to send again go to the front, which keeps the order
        with one request in flight."""
        while self._to_send:
            if self._on_wire_count >= self._limits.in_flight or self._doubtful:
                self._collect()
            else:
                self._send(self._to_send.popleft())

    def _send(self, batch: Batch) -> None:
        if batch.tries >= TRIES_MAX:
            raise DeliveryError(
                f"gave up on a message for {batch.messages[0].topic} after {batch.tries} tries: {self._last_reason}"
            )
        allowed = self._permit_for(batch)
        if allowed < len(batch.messages):
            self._to_send.appendleft(Batch(batch.messages[allowed:], batch.tries))
            batch = Batch(batch.messages[:allowed], batch.tries)
        if self._target.put(batch, self._not_after, self._extend):
            batch.tries += 1
            self._granted_count -= allowed
            self._on_wire_count += 1
        else:
            self._granted_count = 0  # the permit ended in the meantime
            self._to_send.appendleft(batch)

    def _permit_for(self, batch: Batch) -> int:
        """The number of the batch's messages that may go out now. Asks for a permit, and waits as long as necessary."""
        while self._granted_count <= 0 or self._clock() >= self._not_after:
            asked_at = self._clock()
            answer = self._permits.ask(len(batch.messages), sum(each.size_bytes for each in batch.messages))
            if isinstance(answer, Denied):
                raise DeliveryError(f"not allowed to send any more: {answer.reason}")
            if isinstance(answer, Wait):
                self._sleep(answer.seconds)
                continue
            self._granted_count, self._not_after = answer.count, asked_at + answer.ttl_s
        return min(self._granted_count, len(batch.messages))

    def _extend(self) -> float:
        """Asks for more time for the batch that is being sent. Returns the time until which its bytes may go out."""
        asked_at = self._clock()
        answer = self._permits.extend()
        if isinstance(answer, Granted):
            self._not_after = asked_at + answer.ttl_s
        return self._not_after

    def _collect(self) -> None:
        """Processes answers. If a batch is in doubt, it waits for all others, lets the target settle, and looks at it
        once for all doubtful batches."""
        for outcome in self._target.outcomes():
            self._on_wire_count -= 1
            self._take_in(outcome)
        if self._doubtful and not self._on_wire_count:
            self._resolve_doubt()

    def _take_in(self, outcome: BatchOutcome) -> None:
        batch, self._last_reason = outcome.batch, outcome.reason
        if outcome.answer in (Answer.STORED, Answer.STORED_WEAKLY):
            self._busy_streak = 0
            self._result.stored += [message.place for message in batch.messages]
            self._result.weak_count += len(batch.messages) if outcome.answer is Answer.STORED_WEAKLY else 0
        elif outcome.answer is Answer.BUSY:
            self._result.busy_count += 1
            self._sleep(min(BUSY_BACKOFF_S_MIN * 2**self._busy_streak, BUSY_BACKOFF_S_MAX))
            self._busy_streak = min(self._busy_streak + 1, 10)
            self._to_send.appendleft(batch)
        elif outcome.answer is Answer.ILLEGAL and len(batch.messages) > 1 and not outcome.is_of_topic:
            self._to_send.extendleft(Batch([message]) for message in reversed(batch.messages))
        elif outcome.answer is Answer.ILLEGAL:
            self._result.rejected += [
                Rejected(message.place, message.topic, outcome.code, outcome.remark) for message in batch.messages
            ]
        else:
            self._result.doubtful_count += len(batch.messages)
            self._doubtful.append(batch)

    def _resolve_doubt(self) -> None:
        self._target.settle()
        self._there |= self._target.look()
        doubtful, self._doubtful = self._doubtful, []
        for batch in reversed(doubtful):
            missing = list(self._unseen(batch.messages))
            if missing:
                self._to_send.appendleft(Batch(missing, batch.tries))


def batches(messages: Iterable[Outgoing], batch_messages: int, batch_bytes: int = BATCH_BYTES_MAX) -> Iterator[Batch]:
    """Groups neighbouring messages that can share a request: the same topic and sysFlag, within the limits of count and
    size."""
    current: list[Outgoing] = []
    size_bytes = 0
    for message in messages:
        size_bytes += message.size_bytes
        if current and not (
            len(current) < batch_messages and size_bytes <= batch_bytes and _may_share(current[0], message)
        ):
            yield Batch(current)
            current, size_bytes = [], message.size_bytes
        current.append(message)
    if current:
        yield Batch(current)


def _may_share(first: Outgoing, message: Outgoing) -> bool:
    return (
        message.topic == first.topic
        and message.sys_flag == first.sys_flag
        and (message.target is first.target or message.target == first.target)
        and not (message.alone or first.alone)
    )
