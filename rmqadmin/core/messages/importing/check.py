"""Checks a message file before anything is sent: whether it can be read to its end, where its messages would go, and
which of them no broker would accept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.messages.files.exported_message import ExportedMessage, problem_with, queues_for, was_stored
from rmqadmin.core.results import Row, doc
from rmqadmin.core.topics.routes import writable_queues
from rmqclient.sending import check_topic
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.message import properties as props

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

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
