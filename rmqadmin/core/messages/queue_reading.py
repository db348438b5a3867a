"""Reads queues from one offset to another without being a consumer: it commits nothing and disturbs no consumer.

Every pull counts in the broker's "get" statistics. The broker filters tags by their hashes, and the filter is applied
again here. A batch without a match does not end the reading.
"""

from collections.abc import Iterator, Sequence

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.lookup import FoundMessage, found_message
from rmqadmin.core.results import Notice
from rmqadmin.core.servers.broker_answers import Answers, answers_of
from rmqadmin.core.topics.routes import chosen_queues
from rmqadmin.core.topics.stored_queues import stored_queues
from rmqclient.pull import PullResult, PullStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicRoute
from rmqproto.codes import PERM_READ
from rmqproto.errors import UsageError
from rmqproto.filters.message_filter import AcceptsProperties
from rmqproto.filters.subscription import ALL, parse_tags
from rmqproto.headers.consuming import PULL_BATCH_COUNT
from rmqproto.message import properties as props
from rmqproto.names import TOOLS_CONSUMER_GROUP
from rmqproto.times import TimeRange

READ_COUNT_DEFAULT = 10_000
"""The default number of messages that one call shows, because they are held in memory."""

MQADMIN_STATUS = {
    PullStatus.FOUND: "FOUND",
    PullStatus.NO_NEW: "NO_NEW_MSG",
    PullStatus.NO_MATCHED: "NO_MATCHED_MSG",
    PullStatus.OFFSET_ILLEGAL: "OFFSET_ILLEGAL",
}
"""``PullStatus`` of Apache's client."""


class QueuePlace(msgspec.Struct, frozen=True):
    """A queue, its broker, and the part to read: queue offsets from ``begin`` up to but not including ``end``."""

    queue: MessageQueue
    broker_addr: str
    begin_offset: int
    end_offset: int


class QueuePull(msgspec.Struct, frozen=True):
    """One pull. ``min_offset`` and ``max_offset`` are the queue's ends at that moment."""

    status: PullStatus
    messages: list[FoundMessage]
    next_offset: int
    min_offset: int
    max_offset: int

    def as_java_has_them(self) -> list[FoundMessage]:
        """The messages with the two properties that Apache's client adds to pulled messages."""
        ends = {props.MIN_OFFSET: str(self.min_offset), props.MAX_OFFSET: str(self.max_offset)}
        return [msgspec.structs.replace(one, properties={**one.properties, **ends}) for one in self.messages]


class QueueRead(msgspec.Struct, frozen=True):
    """The messages read from one queue."""

    place: QueuePlace
    pulls: list[QueuePull]


def readable_queues(route: TopicRoute, topic: str) -> list[tuple[MessageQueue, str]]:
    """The queues of a topic that consumers read, sorted, with their brokers' addresses."""
    addrs = {broker.broker_name: broker.selected_addr() for broker in route.broker_datas}
    return sorted(
        (MessageQueue(topic, queues.broker_name, queue_id), addr)
        for queues in route.queue_datas
        if queues.perm & PERM_READ and (addr := addrs.get(queues.broker_name)) is not None
        for queue_id in range(queues.read_queue_nums)
    )


def all_queues(
    admin: AdminClient, route: TopicRoute, topic: str, notice: Notice | None = None
) -> list[tuple[MessageQueue, str]]:
    """Like ``readable_queues``, with the queues that keep messages but that consumers do not read. ``notice`` is told
    which brokers let nobody read the topic, if others do, and which do not say whether they keep more queues."""
    found = [(one.queue, one.broker_addr) for one in stored_queues(admin, route, topic, notice)]
    closed = sorted({each.broker_name for each in route.queue_datas if not each.perm & PERM_READ})
    if found and closed and notice is not None:
        notice(f"left out: {topic} on {', '.join(closed)}, where nobody may read it (updateTopicPerm)")
    return found


def places(
    admin: AdminClient,
    topic: str,
    between: TimeRange,
    only: Sequence[str] = (),
    answers: Answers | None = None,
    notice: Notice | None = None,
) -> list[QueuePlace]:
    """The places of a topic's queues, also of those that consumers do not read, or only of those in ``only``:
    ``QUEUE``, on every broker, or ``BROKER:QUEUE``. UsageError if no queue may be read; NotFoundError for a queue that
    does not exist. ``answers`` is as for ``places_of``, ``notice`` as for ``all_queues``."""
    queues = all_queues(admin, admin.topic_route(topic), topic, notice)
    if not queues:
        hint = f"`rmqadmin updateTopicPerm -c CLUSTER -t '{topic}' -p RW` lets it be read."
        raise UsageError(f"no queue of the topic {topic} can be read", hint=hint)
    if only:
        chosen = chosen_queues(only, [queue for queue, _ in queues])
        queues = [each for each in queues if each[0] in chosen]
    return places_of(admin, queues, between, answers)


def places_of(
    admin: AdminClient,
    queues: Sequence[tuple[MessageQueue, str]],
    between: TimeRange,
    answers: Answers | None = None,
) -> list[QueuePlace]:
    """The places of queues, each with its broker's address; all brokers are asked at once. With ``answers``, which
    records the failures, only the places on brokers that answer; the first error if none does."""
    by_addr: dict[str, list[MessageQueue]] = {}
    for queue, addr in queues:
        by_addr.setdefault(addr, []).append(queue)

    def ask(addr: str) -> list[QueuePlace]:
        return [place(admin, queue, addr, between) for queue in by_addr[addr]]

    return [each for part in answers_of(ask, by_addr, answers).values() for each in part]


def place(admin: AdminClient, queue: MessageQueue, broker_addr: str, between: TimeRange) -> QueuePlace:
    """All of a queue, or the messages stored from one time on and before another."""
    begin = admin.min_offset(broker_addr, queue.topic, queue.queue_id)
    end = admin.max_offset(broker_addr, queue.topic, queue.queue_id)
    if between.begin_ms is not None:
        begin = admin.search_offset(broker_addr, queue.topic, queue.queue_id, between.begin_ms)
    if between.end_ms is not None:
        end = admin.search_offset(broker_addr, queue.topic, queue.queue_id, between.end_ms)
    return QueuePlace(queue, broker_addr, begin, end)


def pulls(
    admin: AdminClient,
    where: QueuePlace,
    *,
    expression: str = ALL,
    accepts: AcceptsProperties | None = None,
    group: str = TOOLS_CONSUMER_GROUP,
    is_exact: bool = False,
    answers: Answers | None = None,
) -> Iterator[QueuePull]:
    """Pulls until ``end_offset`` or the queue's end, or until a pull makes no progress. A pull may return messages past
    ``end_offset``, as mqadmin's do, unless ``is_exact``; then ``next_offset`` does not go past it either. ``accepts``
    is applied here, to each message's properties, because brokers filter by them only if ``enablePropertyFilter`` is
    set. With ``answers``, which records it, a broker that fails ends only its own queues while another answers."""
    offset, count, tags = where.begin_offset, PULL_BATCH_COUNT, parse_tags(expression)

    def pull(addr: str) -> PullResult:
        return admin.pull_message(addr, where.queue, offset, max_count=count, expression=expression, group=group)

    while offset < where.end_offset:
        if is_exact:
            count = min(PULL_BATCH_COUNT, where.end_offset - offset)
        answer = pull(where.broker_addr) if answers is None else answers.ask_or_pass(where.broker_addr, pull)
        if answer is None:
            return
        behind = where.end_offset if is_exact else answer.max_offset
        found = [
            found_message(stored, where.queue.broker_name, where.broker_addr)
            for stored in answer.messages
            if stored.queue_offset < behind
        ]
        yield QueuePull(
            answer.status,
            [
                message
                for message in found
                if tags.matches(message.properties.get(props.TAGS)) and (accepts is None or accepts(message.properties))
            ],
            min(answer.next_begin_offset, where.end_offset) if is_exact else answer.next_begin_offset,
            answer.min_offset,
            answer.max_offset,
        )
        if answer.status in (PullStatus.NO_NEW, PullStatus.OFFSET_ILLEGAL) or answer.next_begin_offset <= offset:
            return
        offset = answer.next_begin_offset


def sql92_filter(expression: str | None) -> AcceptsProperties | None:
    """The condition of ``--sql92``; None without one. UsageError for an expression that does not compile."""
    return None if expression is None else compiled_sql92(expression, "--sql92")


def compiled_sql92(expression: str, named: str) -> AcceptsProperties:
    """The compiled condition. UsageError, in a broker's words, that says where it was written (``named``)."""
    from rmqproto.filters.sql92 import Sql92Error, compile_sql92  # 8 ms; few calls need it

    try:
        return compile_sql92(expression)
    except Sql92Error as error:
        what, *expected = str(error).splitlines()
        words = ", ".join(line.strip().removesuffix(" ...") for line in expected[1:] if line.strip())
        hint = f"Expected there: {words}." if words else "An example: price > 5 AND kind = 'x'"
        raise UsageError(f"{named}: {what}", hint=hint) from None
