"""Pulls that leave no trace and survive. They commit no offset, are not held, and use no consumer's group. A broker
that restarts, or hands over to another of its set, is waited for, and the route is asked for again. Only a broker can
say that a topic is gone, because a name server also forgets the topics of one that is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from rmqclient.pull import PULL_ANSWER_CODES, PullStatus, pull_header
from rmqclient.unread_queues import pull_unread
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError, NotFoundError, ProtocolError, RefusedError, RequestTimeoutError, RocketMQError
from rmqproto.filters.subscription import ALL
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import PullAnswer
from rmqproto.headers.tables import TopicHeader
from rmqproto.message.record import QUEUE_OFFSET
from rmqproto.wire import fastjson
from rmqreplay.source.offset_ranges import OffsetRange, queue_text
from rmqreplay.source.queue_ranges import DataLossError

if TYPE_CHECKING:
    from rmqclient.blocking import BlockingClient

T = TypeVar("T")

READER_GROUP = "TOOLS_CONSUMER"
"""A group that every broker has from its start and no consumer uses."""

READ_TIMEOUT_S = 120.0
"""How long one pull goes on trying. A broker with a large log to recover, or an election, takes less."""

PAUSE_S, PAUSE_MAX_S = 0.1, 5.0
"""The pause before the second try, and the longest: each is twice as long as the one before."""

_PASSING_CODES = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL)

_NOT_ALLOWED = (ResponseCode.NO_PERMISSION, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)


class Readable(Protocol):
    """Where pulls go."""

    @property
    def connections(self) -> BlockingClient: ...

    def pulling_address(self, queue: MessageQueue) -> str:
        """The broker to pull from. NotFoundError or NotConnectedError if none is known now."""

    def forget_route(self, topic: str) -> None:
        """Has the next ``pulling_address`` ask again."""


@dataclass(frozen=True, slots=True)
class OneBroker:
    """Pulls from one address, whatever the route says."""

    connections: BlockingClient
    address: str

    def pulling_address(self, queue: MessageQueue) -> str:
        return self.address

    def forget_route(self, topic: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class PullRules:
    """How to pull. ``expression`` of type SQL92 or TAG is evaluated by the broker."""

    batch_size: int = 32
    timeout_s: float = 10.0
    read_timeout_s: float = READ_TIMEOUT_S
    expression: str = "*"
    expression_type: str = "TAG"
    fail_on_data_loss: bool = True
    group: str = READER_GROUP


def is_passing(error: RocketMQError) -> bool:
    """Whether the same question may be answered later: a broker is away, has no master, or is busy."""
    if isinstance(error, RefusedError):
        return error.code in _PASSING_CODES
    return isinstance(error, ConnectError | RequestTimeoutError | NotFoundError)


def is_silence(error: RocketMQError) -> bool:
    """As ``is_passing``, but not for what may as well be a name that nobody has."""
    return is_passing(error) and not isinstance(error, NotFoundError)


def persist(
    ask: Callable[[], T],
    forget: Callable[[], None],
    timeout_s: float,
    *,
    passes: Callable[[RocketMQError], bool] = is_passing,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """The answer of ``ask``, which is called until then, with growing pauses and ``forget`` between; the error of the
    last try once ``timeout_s`` is over, and at once an error that does not pass. ``ask`` must change nothing."""
    deadline_s, pause_s = now_s() + timeout_s, PAUSE_S
    while True:
        try:
            return ask()
        except RocketMQError as error:
            left_s = deadline_s - now_s()
            if left_s <= 0 or not passes(error):
                raise
        sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
        forget()


class _NothingYetError(ConnectError):
    """The wanted range is not there: a replica has yet to catch up, or a master waits for its replicas."""


def pull_range(
    source: Readable, wanted: OffsetRange, rules: PullRules, on_gap: Callable[[OffsetRange], None] = lambda gap: None
) -> Iterator[bytes]:
    """The bodies of pull answers, each with whole records, until the range is read. The last may contain records beyond
    the range.

    DataLossError if part of the range is gone, at once where a broker says so, or passes over it; unless the rules
    allow it: then what is gone is given to ``on_gap``. ConnectError and its like if no broker has answered for the
    rules' ``read_timeout_s``.
    """
    queue, at = wanted.queue, wanted.start

    def lost(start: int, end: int, text: str) -> None:
        if rules.fail_on_data_loss:
            raise DataLossError(f"{queue_text(queue)}: {text}", hint="failOnDataLoss=false reads what is left")
        on_gap(OffsetRange(queue, start, end))

    forget = partial(source.forget_route, queue.topic)
    while at < wanted.end:
        try:
            code, offsets, body = persist(partial(_pull, source, queue, at, rules), forget, rules.read_timeout_s)
        except _NothingYetError as error:
            return lost(at, wanted.end, f"{error}, and {wanted.end} was asked for")
        except RefusedError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return lost(at, wanted.end, f"the topic is gone: {error}")
        first = _first_offset(code, offsets, body)
        if first > at and (code == PullStatus.OFFSET_ILLEGAL.value or _must_have_all(source, queue, rules)):
            kept = f"offset {at} is gone, the queue now holds {max(first, offsets.min_offset)} to {offsets.max_offset}"
            lost(at, min(first, wanted.end), kept)
        if code == PullStatus.FOUND.value:
            yield body
        at = offsets.next_begin_offset


def _first_offset(code: int, offsets: PullAnswer, body: bytes) -> int:
    """The first message that an answer has or, without messages, where it goes on."""
    if code != PullStatus.FOUND.value:
        return offsets.next_begin_offset
    return int.from_bytes(body[QUEUE_OFFSET], "big") + (offsets.offset_delta or 0)


def _must_have_all(source: Readable, queue: MessageQueue, rules: PullRules) -> bool:
    """Whether the rules take every message, and its topic keeps each. A broker that has deleted files passes over their
    messages without a word, until it has corrected the beginnings of its queues."""
    if rules.expression != ALL:
        return False

    def ask() -> TopicConfig:
        header = TopicHeader(topic=queue.topic)
        answer = source.connections.request(source.pulling_address(queue), RequestCode.GET_TOPIC_CONFIG, header)
        return fastjson.loads_untrusted(answer.body, TopicConfig)

    try:
        config = persist(ask, partial(source.forget_route, queue.topic), rules.read_timeout_s)
    except RefusedError:  # a broker of 4.x, whose topics keep each message, or one that does not tell
        return True
    return config.attributes.get("cleanup.policy") != "COMPACTION"


def is_gone(source: Readable, queue: MessageQueue, at: int, rules: PullRules) -> bool:
    """Whether its broker says that it has no such queue, or no message in it. Errors that pass if it does not answer
    now: then nobody knows."""
    try:
        _pull_once(source, queue, at, rules)
    except RefusedError as error:
        if error.code not in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER):
            raise
        return True
    return False


def check_allowed(source: Readable, places: Mapping[MessageQueue, int], rules: PullRules) -> None:
    """RefusedError if a topic may not be pulled, or not in the name of the rules' group: tasks would be refused, and
    repeated. Asks for one message of each topic, at its place; what a broker does not tell now is left to the tasks."""
    for queue in {queue.topic: queue for queue in places}.values():
        try:
            _pull_once(source, queue, places[queue], rules)
        except RocketMQError as error:
            if isinstance(error, RefusedError) and error.code in _NOT_ALLOWED:
                raise


def _pull(source: Readable, queue: MessageQueue, at: int, rules: PullRules) -> tuple[int, PullAnswer, bytes]:
    """One pull, which brings records or a later offset. _NothingYetError for one that brings neither."""
    code, offsets, body = _pull_once(source, queue, at, rules)
    if code != PullStatus.FOUND.value and offsets.next_begin_offset <= at < offsets.min_offset:  # a slave's own view
        return PullStatus.OFFSET_ILLEGAL.value, replace(offsets, next_begin_offset=offsets.min_offset), body
    if offsets.next_begin_offset <= at:
        if code == PullStatus.FOUND.value:
            raise ProtocolError(f"the answer to a pull at {at} goes on at {offsets.next_begin_offset}")
        raise _NothingYetError(f"a pull at {at} brings nothing, the queue ends at {offsets.max_offset}")
    return code, offsets, body


def _pull_once(source: Readable, queue: MessageQueue, at: int, rules: PullRules) -> tuple[int, PullAnswer, bytes]:
    ask = partial(source.connections.request, source.pulling_address(queue), timeout_s=rules.timeout_s)
    header = pull_header(
        rules.group, queue, at, max_count=rules.batch_size, expression=rules.expression,
        expression_type=rules.expression_type,
    )  # fmt: skip
    try:
        answer = ask(RequestCode.PULL_MESSAGE, header, accept=PULL_ANSWER_CODES)
    except RefusedError as error:
        if error.code in _NOT_ALLOWED:
            error.hint = (
                f"reading needs a topic {queue.topic} whose permissions have R, a group {rules.group} "
                "that may consume, and under ACL Sub on both"
            )
        return pull_unread(ask, error, queue, at, rules.batch_size, rules.expression, rules.expression_type)
    return answer.code, from_ext(answer.ext, PullAnswer), answer.body
