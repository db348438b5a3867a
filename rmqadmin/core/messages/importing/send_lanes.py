"""Sends several messages at once, over one connection per broker, and returns the outcome of each."""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.files.exported_message import ExportedMessage, problem_with, queues_for, was_stored
from rmqadmin.core.results import Row, doc
from rmqadmin.core.topics.routes import writable_queues
from rmqclient.addresses import AddressMap
from rmqclient.blocking import OUTCOME_UNKNOWN
from rmqclient.message import SendResult
from rmqclient.remoting.requests import refusal, request_label
from rmqclient.sending import STORED_CODES, EncodedSend, check_topic, send_result_untrusted
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, NotFoundError, RequestTimeoutError, UsageError
from rmqproto.message import properties as props
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials

if TYPE_CHECKING:
    from rmqreplay.sending.pipeline import Pipeline


REFUSED_SHOWN_MAX = 1000
"""Further refused messages are counted but not listed, because the list is held in memory."""

NO_TOPIC = "the file does not name its topic: give --to TOPIC"

QueuesByTopic = dict[str, list[tuple[MessageQueue, str]]]
"""Queues that accept messages, by topic, with their brokers' addresses."""


class RefusedRow(Row, frozen=True):
    number: Annotated[int, doc("place in the file, from 1", key=True)]
    message_id: Annotated[str | None, doc("unique key")]
    topic: Annotated[str, doc("topic that it should go to")]
    reason: Annotated[str, doc("why it cannot be sent", vital=True)]


class Checked(msgspec.Struct):
    """``refused``: the first messages that no broker would accept; ``refused_count``: how many there are in all.
    ``named``: of each queue that was written by hand, the first message that names it, with its number; by topic."""

    count: int = 0
    size_bytes: int = 0
    topics: Counter[str] = msgspec.field(default_factory=Counter)
    refused: list[RefusedRow] = []
    refused_count: int = 0
    named: dict[tuple[str, str | None, int | None], tuple[int, ExportedMessage]] = {}


def target_of(found: ExportedMessage, to: str | None) -> str:
    return to if to is not None else found.topic


def check_messages(
    messages: Iterable[ExportedMessage], to: str | None, on_read: Callable[[int], None] = lambda count: None
) -> Checked:
    """Reads and checks all messages. Passes on errors of their source."""
    checked = Checked()
    for found in messages:
        checked.count += 1
        checked.size_bytes += found.size_bytes
        topic = target_of(found, to)
        reason = problem_with(found, topic) if topic else NO_TOPIC
        if reason is None:
            checked.topics[topic] += 1
            if not was_stored(found):
                place = (topic, found.broker_name, found.queue_id)
                checked.named.setdefault(place, (checked.count, found))
        else:
            checked.refused_count += 1
            if len(checked.refused) < REFUSED_SHOWN_MAX:
                checked.refused.append(refused_row(checked.count, found, topic, reason))
        on_read(1)
    return checked


def refused_row(number: int, found: ExportedMessage, topic: str, reason: str) -> RefusedRow:
    message_id = found.properties.get(props.UNIQUE_KEY) or found.message_id or None
    return RefusedRow(number=number, message_id=message_id, topic=topic, reason=reason)


def target_queues(admin: AdminClient, topics: Iterable[str]) -> QueuesByTopic:
    """The queues that the messages go to. NotFoundError for a topic that does not exist, UsageError for one that only
    brokers write, RefusedError for one that nobody may write."""
    found: QueuesByTopic = {}
    for topic in topics:
        try:
            check_topic(topic)
        except UsageError as error:
            raise UsageError(str(error), hint="--to TOPIC imports into another topic.") from None
        route = targets.find_route(admin, topic)
        if route is None:
            raise NotFoundError(
                f"there is no topic {topic}",
                hint=f"`rmqadmin updateTopic -c CLUSTER -t '{topic}'` makes it; --to TOPIC imports into another.",
            )
        found[topic] = sorted(writable_queues(route, topic))
    return found


def check_named_queues(checked: Checked, queues: QueuesByTopic) -> None:
    """UsageError if a message names a queue that is not there."""
    for (topic, _, _), (number, found) in checked.named.items():
        try:
            queues_for(found, [queue for queue, _ in queues[topic]])
        except UsageError as error:
            raise UsageError(f"message {number}: {error}; nothing was sent", hint=error.hint) from None


_LABEL = request_label(RequestCode.SEND_MESSAGE_V2)


class Load(msgspec.Struct, kw_only=True):
    """One message of the source. ``encoded`` is sent to ``queue``; it is None if the message was sent before, or no
    broker accepts it. ``outcome`` is None until it is known."""

    number: int
    queue: MessageQueue | None = None
    addr: str = ""
    encoded: EncodedSend | None = None
    message_id: str | None = None
    tries: int = 0
    is_present: bool = False
    outcome: SendResult | RefusedRow | None = None

    @property
    def is_settled(self) -> bool:
        return self.is_present or self.outcome is not None


class Lanes:
    """Connections to brokers, made when needed. ``close`` closes them."""

    def __init__(
        self, credentials: Credentials | None, tls: ssl.SSLContext | None, address_map: AddressMap, timeout_s: float
    ):
        self._credentials = credentials
        self._tls = tls
        self._address_map = address_map
        self._timeout_s = timeout_s
        self._lanes: dict[str, Pipeline] = {}
        self._deadlines_s: dict[int, float] = {}

    def put(self, load: Load) -> None:
        """Sends a message. ConnectError if the broker cannot be reached; the message was then not sent."""
        from rmqreplay.sending.pipeline import Pipeline  # only for senders

        assert load.encoded is not None
        lane = self._lanes.get(load.addr)
        if lane is None:
            lane = self._lanes[load.addr] = Pipeline(load.addr, self._credentials, self._tls, self._address_map)
        lane.connect()
        self._deadlines_s[load.number] = time.monotonic() + self._timeout_s
        lane.put(
            load, RequestCode.SEND_MESSAGE_V2, load.encoded.ext, load.encoded.body,
            not_after=float("inf"), timeout_s=self._timeout_s,
        )  # fmt: skip

    def answers(self) -> list[tuple[Load, Command | None]]:
        """The answers to one pending message at least, None where none comes. [] if none is pending."""
        from rmqreplay.sending.pipeline import wait_for_answers

        found = []
        for each in wait_for_answers(list(self._lanes.values())):
            assert isinstance(each.tag, Load)
            found.append((each.tag, each.command))
        return found

    def result(self, load: Load, answer: Command | None) -> SendResult:
        """The result in an answer. RefusedError; ConnectError or RequestTimeoutError without one."""
        assert load.queue is not None
        assert load.encoded is not None
        if answer is None:
            if time.monotonic() >= self._deadlines_s[load.number]:
                raise RequestTimeoutError(f"{load.addr} did not answer {_LABEL} in time", hint=OUTCOME_UNKNOWN)
            raise ConnectError(f"{_LABEL} to {load.addr} failed: the connection broke", address=load.addr)
        if answer.code not in STORED_CODES:
            raise refusal(answer, load.addr)
        return send_result_untrusted(answer, load.encoded.unique_keys, load.queue)

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
