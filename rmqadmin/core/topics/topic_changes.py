"""Plans changes of a topic on each broker and, for an ordered topic, at the name servers.

Unset fields stay as they are; a new topic gets defaults. With ``replace``, unset fields return to their defaults, as
with mqadmin.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import Step, all_keep, plan_each, unless_refused
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.namesrv_tables import put_steps, read_value
from rmqadmin.core.topic_and_group_configs import TOPICS, plan_config, plan_deletion, read_topic, within_limit
from rmqadmin.core.units import count
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError, RocketMQError
from rmqproto.message.sys_flag import UNIT, UNIT_SUBSCRIBED
from rmqproto.names import ORDER_TOPIC_NAMESPACE
from rmqproto.wording import QUEUES_TOLD_MAX, counted, names_told

OUT_OF_REACH = "out of consumers' reach"


# --- a warning -------------------------------------------------------------------------------------------------------


def shrink_warnings(admin: AdminClient, addr: str, before: TopicConfig | None, after: TopicConfig) -> list[str]:
    """What a change of a topic's queues on one broker would put out of reach, and how to do it safely. Empty if it puts
    nothing out of reach."""
    topic, reads = after.topic_name, after.read_queue_nums
    was_read = 0 if before is None else before.read_queue_nums
    was_open = before is not None and before.write_queue_nums > before.read_queue_nums
    was_any = 0 if before is None else max(was_read, before.write_queue_nums)
    told = [_lost_text(admin, addr, topic, range(reads, was_read), "would be")] if reads < was_read else []
    if reads != was_read or (before is not None and after.write_queue_nums != before.write_queue_nums):
        told.append(_lost_text(admin, addr, topic, range(max(reads, was_read), was_any), "are already"))
    if after.write_queue_nums > reads and (reads < was_read or not was_open):
        ids = _ids_text(range(reads, after.write_queue_nums))
        told.append(f"producers would send to {ids}, which no consumer reads")
    if not after.write_queue_nums and (before is None or before.write_queue_nums):
        told.append("nobody could send: producers would find no queue")
    told = [text for text in told if text]
    if not told:
        return []
    safely = ""
    if any(OUT_OF_REACH in text for text in told):
        safely = f". To do it in safe steps: rmqadmin updateTopic -b {addr} -t '{topic}' --shrink-to {max(1, reads)}"
    return [f"{topic} on {addr}: {'; '.join(told)}{safely}"]


def _lost_text(admin: AdminClient, addr: str, topic: str, queue_ids: range, state: str) -> str:
    """What these queues hold, of which consumers read none: ``state`` is "would be" or "are already"."""
    if not queue_ids:
        return ""
    try:
        table = admin.topic_stats(addr, topic).offset_table
    except RocketMQError as error:
        return f"the messages in {_ids_text(queue_ids)} {state} {OUT_OF_REACH}; how many there are is unknown: {error}"
    counts = {
        queue.queue_id: ends.max_offset - ends.min_offset
        for queue, ends in sorted(table.items())
        if queue.queue_id in queue_ids and ends.max_offset > ends.min_offset
    }
    if not counts:
        return ""
    which = names_told([f"queue {queue_id}: {count(number)}" for queue_id, number in counts.items()], QUEUES_TOLD_MAX)
    return f"{counted(sum(counts.values()), 'message')} {state} {OUT_OF_REACH} ({which})"


def _ids_text(queue_ids: range) -> str:
    return f"queue {queue_ids[0]}" if len(queue_ids) == 1 else f"the queues {queue_ids[0]} to {queue_ids[-1]}"


# --- step by step ----------------------------------------------------------------------------------------------------


class Unconsumed(msgspec.Struct, frozen=True):
    """Messages of one queue that a group has not consumed; ``group`` is None if no group reads the topic."""

    broker_addr: str
    queue_id: int
    group: str | None
    message_count: int

    def __str__(self) -> str:
        who = self.group or "nobody reads the topic"
        return f"queue {self.queue_id} on {self.broker_addr}: {count(self.message_count)} ({who})"


def configs_on(admin: AdminClient, addrs: Iterable[str], topic: str) -> dict[str, TopicConfig]:
    """The topic's configuration on each broker that has it. NotFoundError if none has."""
    found = {addr: config for addr in addrs if (config := read_topic(admin, addr, topic)) is not None}
    if not found:
        raise NotFoundError(f"no broker that is meant has the topic {topic}")
    return found


def unconsumed(admin: AdminClient, addr: str, topic: str, queue_ids: Iterable[int]) -> list[Unconsumed]:
    """What is left to consume in these queues, of each group that reads the topic."""
    groups: list[str | None] = [*sorted(admin.groups_of_topic(addr, topic))]
    found = []
    for queue_id in queue_ids:
        ends = admin.queue_ends(addr, MessageQueue(topic, "", queue_id))
        if ends.max_offset <= ends.min_offset:
            continue
        for group in groups or [None]:
            committed = None if group is None else admin.consumer_offset(addr, group, topic, queue_id)
            left = ends.max_offset - max(ends.min_offset, committed or 0)
            if left > 0:
                found.append(Unconsumed(addr, queue_id, group, left))
    return found


def unconsumed_text(left: list[Unconsumed]) -> str:
    return names_told([*map(str, left)], QUEUES_TOLD_MAX)


QUEUE_NUMS_DEFAULT = 8

_WRITE_QUEUES = "write_queue_nums"


class TopicPlan(msgspec.Struct, frozen=True):
    """``config``: the request to the first broker that answers. ``order``: queue counts by broker name."""

    on_brokers: list[Step]
    config: TopicConfig
    at_namesrvs: list[Step] = []
    order: dict[str, int] = {}

    @property
    def steps(self) -> list[Step]:
        return unless_refused(self.on_brokers, self.at_namesrvs)


class TopicWish(msgspec.Struct, frozen=True, kw_only=True):
    """The settings wanted for a topic; None means unset. ``attributes`` are changes: ``+name``, ``-name``."""

    topic: str
    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    perm: int | None = None
    order: bool | None = None
    unit: bool | None = None
    unit_subscribed: bool | None = None
    attributes: dict[str, str] = {}

    def over(self, base: TopicConfig) -> TopicConfig:
        """The configuration to request; its attributes are the changes, as the request needs them."""
        flags = base.topic_sys_flag
        for wanted, bit in ((self.unit, UNIT), (self.unit_subscribed, UNIT_SUBSCRIBED)):
            if wanted is not None:
                flags = flags | bit if wanted else flags & ~bit
        names = ("read_queue_nums", "write_queue_nums", "perm", "order")
        said = {name: value for name in names if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(
            base, topic_name=self.topic, topic_sys_flag=flags, attributes=self.attributes, **said
        )


def plan_topic(admin: AdminClient, addr: str, wish: TopicWish, *, replace: bool = False) -> tuple[Step, TopicConfig]:
    """The step for one broker, and the configuration requested there."""
    before = read_topic(admin, addr, wish.topic)
    defaults = TopicConfig(
        topic_name=wish.topic, read_queue_nums=QUEUE_NUMS_DEFAULT, write_queue_nums=QUEUE_NUMS_DEFAULT
    )
    request = wish.over(defaults if replace or before is None else before)
    warn = partial(shrink_warnings, admin, addr)
    step = plan_config(TOPICS, addr, wish.topic, before, request, admin.create_topic, warn)
    return within_limit(admin, step, "queueNums", request.read_queue_nums, request.write_queue_nums), request


def plan_everywhere(admin: AdminClient, addrs: Sequence[str], wish: TopicWish, *, replace: bool = False) -> TopicPlan:
    """Plans the change on brokers and, if the topic is ordered, at the name servers. NotFoundError if the name servers
    then do not know one of the brokers. Brokers that fail are handled as in ``plan_each``."""
    requests: dict[str, TopicConfig] = {}

    def plan(addr: str) -> Step:
        step, requests[addr] = plan_topic(admin, addr, wish, replace=replace)
        return step

    steps = plan_each(addrs, plan)
    told = {step.target for step in steps if wish.order or any(each.field == _WRITE_QUEUES for each in step.changes)}
    counts = {addr: asked.write_queue_nums for addr, asked in requests.items() if asked.order and addr in told}
    first = next(requests[addr] for addr in addrs if addr in requests)
    if not counts:
        return TopicPlan(steps, first)
    brokers = targets.all_brokers(admin.cluster_info())
    names = {addr: broker.broker_name for broker in brokers for addr in broker.broker_addrs.values()}
    unknown = [addr for addr in counts if addr not in names]
    if unknown:
        raise NotFoundError(f"no name server knows a broker at {unknown[0]}, so its order cannot be set")
    order = dict(sorted((names[addr], count) for addr, count in counts.items()))
    return TopicPlan(steps, first, order_steps(admin, wish.topic, order), order)


def order_steps(admin: AdminClient, topic: str, order: Mapping[str, int]) -> list[Step]:
    """Tells producers, by the name servers, the queue counts of an ordered topic by broker. Others stay."""
    known = admin.cluster_info().broker_addr_table
    told = (read_value(admin, ORDER_TOPIC_NAMESPACE, topic) or "").split(";")
    names = {part.partition(":")[0]: part for part in told}
    kept = [part for name, part in names.items() if name in known and name not in order]
    return put_steps(admin, ORDER_TOPIC_NAMESPACE, topic, ";".join([*kept, order_text(order)]))


def order_text(order: Mapping[str, int]) -> str:
    """The counts as the name servers keep them: ``broker-a:8;broker-b:8``."""
    return ";".join(f"{name}:{queues}" for name, queues in order.items())


def loss(admin: AdminClient, topic: str, addrs: Sequence[str]) -> str:
    """How much is lost with a topic on these brokers, and which groups read it, as text."""
    try:
        message_count = messages_in(admin, topic, addrs)
        answers = ask_each(lambda addr: admin.groups_of_topic(addr, topic), addrs)
        groups = sorted({group for answer in answers for group in answer})
    except RocketMQError as error:
        return f"how many messages would be lost, and to which groups, is unknown: {error}"
    lost = f"{counted(message_count, 'message')} would be lost"
    return f"{lost}; read by {', '.join(groups)}" if groups else f"{lost}; no group is online or has offsets there"


def messages_in(admin: AdminClient, topic: str, addrs: Sequence[str]) -> int:
    """How many messages a topic has on these brokers."""
    answers = ask_each(lambda addr: targets.queue_ends(admin, addr, topic), addrs)
    return sum(ends.max_offset - ends.min_offset for answer in answers for ends in answer.values())


def delete_in_namesrvs(admin: AdminClient, topic: str, cluster_name: str, *, has_route: bool) -> list[Step]:
    """One step per name server: deletes the topic's route to the brokers of one cluster."""
    act = "delete" if has_route else "keep"
    return [
        Step(addr, act, [], partial(admin.delete_topic_in_namesrv, addr, topic, cluster_name))
        for addr in admin.namesrv_addrs
    ]


def delete_everywhere(admin: AdminClient, topic: str, cluster_name: str) -> list[Step]:
    """Deletes the topic from the masters of a cluster, and its route there from the name servers. No step if no server
    knows the topic. Undo restores the configuration, but not the messages."""

    def plan(addr: str) -> Step:
        before = read_topic(admin, addr, topic)
        return plan_deletion(TOPICS, addr, topic, before, partial(admin.delete_topic_in_broker, addr, topic))

    steps = plan_each(targets.masters(admin, None, cluster_name), plan)
    has_route = targets.find_route(admin, topic) is not None
    if not has_route and all_keep(steps):
        return []
    return unless_refused(steps, delete_in_namesrvs(admin, topic, cluster_name, has_route=has_route))
