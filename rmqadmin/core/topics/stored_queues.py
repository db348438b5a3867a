"""The queues of a topic that keep messages. Consumers read only the first ones, as many as the topic has read queues on
a broker; what lies in the others reaches nobody, and counts in no lag, until there are read queues for it."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.units import count
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import QueueData, TopicConfig, TopicRoute
from rmqproto.bodies.statistics import TopicOffset
from rmqproto.codes import PERM_READ
from rmqproto.errors import RocketMQError
from rmqproto.wording import QUEUES_TOLD_MAX, counted, names_told


class StoredQueue(msgspec.Struct, frozen=True):
    """``is_read``: whether consumers read it. ``is_past``: whether it is past both counts of the topic, so that brokers
    list it nowhere."""

    queue: MessageQueue
    broker_addr: str
    is_read: bool = True
    is_past: bool = False


class UnreadQueue(msgspec.Struct, frozen=True):
    """A queue with messages that consumers do not read. Offsets are queue offsets."""

    queue: MessageQueue
    broker_addr: str
    min_offset: int
    max_offset: int
    is_past: bool = False

    @property
    def message_count(self) -> int:
        return self.max_offset - self.min_offset


def stored_queues(
    admin: AdminClient, route: TopicRoute, topic: str, notice: Callable[[str], None] | None = None
) -> list[StoredQueue]:
    """Every queue of a topic that may be read and keep messages, sorted. All brokers are asked at once for those past
    the topic's counts; ``notice`` is told of one that does not answer, or refuses, and it is taken to have none. Of a
    static topic only the read queues."""
    is_static = bool(route.topic_queue_mapping_by_broker)

    def ask(of: tuple[QueueData, str]) -> list[StoredQueue]:
        queues, addr = of
        nums = max(queues.read_queue_nums, 0 if is_static else queues.write_queue_nums)
        past: list[int] = []
        try:
            past = [] if is_static else admin.queues_past(addr, topic, nums)
        except RocketMQError as error:
            if notice is not None:
                from rmqclient.unread_queues import queues_past_unknown  # only where a broker refuses

                notice(queues_past_unknown(topic, nums, queues.broker_name, error))
        return [
            StoredQueue(
                MessageQueue(topic, queues.broker_name, queue_id),
                addr,
                is_read=queue_id < queues.read_queue_nums,
                is_past=queue_id >= nums,
            )
            for queue_id in (*range(nums), *past)
        ]

    found = ask_each(ask, list(_readable(route)))
    return sorted((one for part in found for one in part), key=lambda one: one.queue)


def _readable(route: TopicRoute) -> Iterable[tuple[QueueData, str]]:
    addrs = {broker.broker_name: broker.selected_addr() for broker in route.broker_datas}
    for queues in route.queue_datas:
        addr = addrs.get(queues.broker_name)
        if addr is not None and queues.perm & PERM_READ:
            yield queues, addr


def unread_ids(
    admin: AdminClient, addr: str, config: TopicConfig, known: Iterable[int] = (), *, is_searched: bool = True
) -> list[int]:
    """The ids of a topic's queues on one broker that consumers do not read and that may keep messages: the one rule.
    ``known``: queues that are known from elsewhere, as from groups' offsets. ``is_searched``: also looks for queues
    past the topic's counts, by GAP_MAX requests. Of a static topic none: its queues are read by their logical ids."""
    reads, nums = config.read_queue_nums, max(config.read_queue_nums, config.write_queue_nums)
    past = admin.queues_past(addr, config.topic_name, nums) if is_searched else []
    found = sorted({*range(reads, nums), *past, *(queue_id for queue_id in known if queue_id >= reads)})
    if found and admin.static_topic(addr, config.topic_name).mapping_detail is not None:
        return []
    return found


def unread_queues(
    admin: AdminClient,
    broker_name: str,
    addr: str,
    config: TopicConfig,
    known: Iterable[int] = (),
    *,
    is_searched: bool = True,
) -> list[UnreadQueue]:
    """Those of the ``unread_ids`` that keep messages."""
    found = []
    for queue_id in unread_ids(admin, addr, config, known, is_searched=is_searched):
        queue = MessageQueue(config.topic_name, broker_name, queue_id)
        ends = admin.queue_ends(addr, queue)
        if ends.max_offset > ends.min_offset:
            found.append(UnreadQueue(queue, addr, ends.min_offset, ends.max_offset))
    return found


def add_unread(
    admin: AdminClient, queues: Iterable[StoredQueue], offsets: dict[MessageQueue, TopicOffset]
) -> dict[MessageQueue, StoredQueue]:
    """Those of a topic's queues that consumers do not read. ``offsets`` are the ends that brokers told; adds those of
    the queues that they do not list."""
    unread = {}
    for one in queues:
        if one.is_past:
            ends = admin.queue_ends(one.broker_addr, one.queue)
            if ends.max_offset > ends.min_offset:
                offsets[one.queue] = ends
        if not one.is_read and one.queue in offsets:
            unread[one.queue] = one
    return unread


def unread_text(queues: Sequence[UnreadQueue]) -> str:
    """How many messages are in which queues: ``6 messages in queues that consumers do not read (broker-a: queue 2: 1,
    …)``."""
    total = sum(one.message_count for one in queues)
    each = [f"{one.queue.broker_name}:{one.queue.queue_id} {count(one.message_count)}" for one in queues]
    which = names_told(each, QUEUES_TOLD_MAX)
    return f"{counted(total, 'message')} in queues that consumers do not read ({which})"


def read_again(topic: str, queues: Sequence[UnreadQueue]) -> str:
    """The command that lets consumers read these queues."""
    addrs = list(dict.fromkeys(one.broker_addr for one in queues))
    nums = max(one.queue.queue_id for one in queues) + 1
    return "; ".join(f"rmqadmin updateTopic -b {addr} -t '{topic}' -r {nums}" for addr in addrs[:QUEUES_TOLD_MAX])
