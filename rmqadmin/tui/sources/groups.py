"""Groups: the list; lag, lag time and clients of those in view; and one group queue by queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups import consumption
from rmqadmin.core.groups.consumption import GroupClients, GroupOffsets
from rmqadmin.core.groups.lag import first_waiting_ms, oldest_waiting, read_min_offsets
from rmqadmin.core.groups.queue_owners import read_queue_owners
from rmqadmin.tui.memory.cluster import Cluster, ClusterMemory, Lacks
from rmqadmin.tui.memory.readings import GroupState, RowReading
from rmqadmin.tui.sources.found import Found, Tables, ask_brokers, read_askable, read_tables
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerConnection, SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.errors import NotFoundError, RocketMQError
from rmqproto.names import RETRY_PREFIX, is_system_group

CLIENTS_YOUNG_MS = 10_000
"""How often the clients of a group in a list are read, whatever the interval: that was half of the list's requests."""

LAG_TIMES_MAX = 64
"""For how many queues of a group each refresh reads the first waiting message."""

MEMBER_WAIT_MAX_S = 3.0
"""A member that takes longer to answer counts as unknown. Its broker would wait 10 s."""


MEMBERS_PER_S = 50.0
"""How many members one part of the screen asks in a second, on the average: those of a large group are asked less
often. Each is asked through its broker."""


def members_interval_s(*states: GroupState | None) -> float:
    """The shortest interval between two looks at all members of these groups, as far as they are known."""
    return sum(len(one.owners.members) for one in states if one is not None and one.owners is not None) / MEMBERS_PER_S


class GroupFacts(msgspec.Struct, frozen=True):
    """A group and the brokers that have a configuration of it and can be asked. ``may_consume`` is None if they differ.
    ``lacking``: names of brokers that have it, or may have it, and cannot be asked."""

    group: str
    brokers: list[BrokerData]
    may_consume: bool | None
    lacking: tuple[str, ...] = ()


class GroupNumbers(msgspec.Struct, frozen=True):
    """A group's progress, without the brokers in ``lacking``. ``lag_count``: None for a group without offsets.
    ``oldest_waiting_ms``: when its oldest unconsumed message was stored. ``lag_lacking``: those of ``lacking`` that may
    have offsets of the group. ``error`` says why the rest is not known."""

    lag_count: int | None = None
    oldest_waiting_ms: int | None = None
    consume_tps: float | None = None
    client_count: int | None = None
    message_model: str | None = None
    lacking: tuple[str, ...] = ()
    lag_lacking: tuple[str, ...] = ()
    error: str | None = None

    @property
    def lag_is_unknown(self) -> bool:
        """Whether a lag of None is not known. Otherwise the group has no offsets."""
        return self.error is not None or bool(self.lag_lacking)

    @property
    def lag_time_is_unknown(self) -> bool:
        """Whether the time of the oldest waiting message is not known. Otherwise none waits."""
        return bool(self.lag_count) or (self.lag_count is None and self.lag_is_unknown)

    @property
    def members_are_unknown(self) -> bool:
        """Whether brokers that are not heard may know members. Otherwise nothing known of them means that there are
        none."""
        return self.error is not None or bool(self.lacking)


class QueueOffsets(msgspec.Struct, frozen=True):
    """One queue of a group. ``entry`` is None if the group has no offset in it."""

    queue: MessageQueue
    entry: ConsumeOffset | None
    first_waiting_ms: int | None

    @property
    def lag_count(self) -> int | None:
        return None if self.entry is None else lag_of(self.entry)

    @property
    def inflight_count(self) -> int | None:
        return None if self.entry is None else self.entry.pull_offset - self.entry.consumer_offset


class QueueKept(msgspec.Struct, frozen=True):
    """How much of a queue with lag is still kept. ``min_offset``: of the first message that remains.
    ``reserved_ms``: how long its broker keeps messages. None if it does not say."""

    min_offset: int | None
    reserved_ms: int | None


_TABLES = "groups"
"""The key in the memory."""


def read_places(admin: AdminClient, memory: ClusterMemory) -> tuple[Cluster, Tables[SubscriptionGroups]]:
    """Reads which groups each broker has, so that sums know what a broker had once it is gone."""
    cluster = read_askable(admin, memory)
    tables = read_tables(memory, cluster, _TABLES, lambda broker: admin.all_groups(broker.selected_addr() or ""))
    return cluster, tables


def read_groups(admin: AdminClient, memory: ClusterMemory) -> Found[GroupFacts]:
    """Reads every group that a broker has a configuration of, system groups last. For brokers that do not answer, it
    uses their last answers."""
    cluster, tables = read_places(admin, memory)
    by_name = {broker.broker_name: broker for broker in cluster.brokers if broker.broker_name not in tables.lacks}
    enabled: dict[str, dict[str, bool]] = {}
    for broker_name, table in tables.by_broker.items():
        for group, config in table.subscription_group_table.items():
            enabled.setdefault(group, {})[broker_name] = config.consume_enable
    rows = {
        group: GroupFacts(
            group,
            [by_name[name] for name in mine if name in by_name],
            next(iter(mine.values())) if len(set(mine.values())) == 1 else None,
            (*(name for name in mine if name not in by_name), *tables.unheard),
        )
        for group, mine in sorted(enabled.items(), key=lambda item: (is_system_group(item[0]), item[0]))
    }
    return Found(rows, tables.lacks)


_CONSUMERS = "groups with offsets"
"""The key in the memory."""


def keep_consumers(memory: ClusterMemory, broker_name: str, groups: Collection[str]) -> None:
    """Keeps the complete list of the groups that a broker has offsets of."""
    memory.keep(_CONSUMERS, broker_name, frozenset(groups))


def may_lack(memory: ClusterMemory, group: str | None, broker_names: Collection[str]) -> tuple[str, ...]:
    """The given silent brokers that may have offsets of a group, or (None) of any group. Excludes brokers whose last
    list of groups had none; includes brokers that never gave a list."""

    def may(broker_name: str) -> bool:
        known: frozenset[str] | None = memory.last(_CONSUMERS, broker_name)
        return known is None or (bool(known) if group is None else group in known)

    return tuple(name for name in broker_names if may(name))


def last_configs(memory: ClusterMemory, facts: GroupFacts) -> list[SubscriptionGroupConfig]:
    """The group's configurations as its brokers last gave them. Asks nobody."""
    tables = [memory.last(_TABLES, broker.broker_name) for broker in facts.brokers]
    known = [table.subscription_group_table.get(facts.group) for table in tables if table is not None]
    return [config for config in known if config is not None]


def facts_of(memory: ClusterMemory, group: str, broker_names: Collection[str]) -> GroupFacts:
    """A group from the names of the brokers that know it. Asks nobody."""
    brokers = [broker for broker in memory.brokers if broker.broker_name in broker_names]
    here = {broker.broker_name for broker in brokers}
    return GroupFacts(group, brokers, None, tuple(name for name in broker_names if name not in here))


def read_numbers(
    admin: AdminClient, memory: ClusterMemory, groups: Mapping[str, GroupFacts]
) -> dict[str, GroupNumbers]:
    """Reads the numbers of groups: a request for each group and broker, at times one for its clients, then the queues
    that may hold the oldest waiting message."""
    return {name: _numbers(admin, memory, facts) for name, facts in groups.items()}


def _numbers(admin: AdminClient, memory: ClusterMemory, facts: GroupFacts) -> GroupNumbers:
    try:
        offsets, lacks = read_offsets_of(admin, memory, facts)
        clients, deaf = read_clients_of(admin, memory, facts, age_max_ms=CLIENTS_YOUNG_MS)
    except RocketMQError as error:
        return GroupNumbers(error=str(error))
    without_offsets = may_lack(memory, facts.group, dict.fromkeys([*facts.lacking, *lacks]))
    oldest = oldest_waiting(admin, addrs_of(facts.brokers), offsets, memory.heads)
    return GroupNumbers(
        lag_count=offsets.lag_count,
        oldest_waiting_ms=None if oldest is None else oldest[1],
        consume_tps=offsets.consume_tps,
        client_count=clients.count,
        message_model=clients.message_model,
        lacking=tuple(dict.fromkeys([*facts.lacking, *lacks, *deaf])),
        lag_lacking=without_offsets,
    )


def group_reading(numbers: GroupNumbers, now_ms: int) -> RowReading:
    """The numbers of a group that are sampled."""
    lag_ms = None if numbers.oldest_waiting_ms is None else max(0, now_ms - numbers.oldest_waiting_ms)
    sampled = {
        "lag_count": numbers.lag_count, "lag_ms": 0 if numbers.lag_count == 0 else lag_ms,
        "consume_tps": numbers.consume_tps,
    }  # fmt: skip
    return RowReading(sampled, numbers.lag_lacking)


def read_group_row(admin: AdminClient, memory: ClusterMemory, facts: GroupFacts) -> RowReading:
    """Reads the sampled numbers of one group. NotFoundError if they are not known."""
    numbers = _numbers(admin, memory, facts)
    if numbers.error is not None:
        raise NotFoundError(numbers.error)
    return group_reading(numbers, memory.now_ms())


def read_offsets_of(admin: AdminClient, memory: ClusterMemory, facts: GroupFacts) -> tuple[GroupOffsets, Lacks]:
    """Reads a group's offsets on the brokers that answer. Raises an error if none does."""
    _require_brokers(memory, facts)
    answers, lacks = ask_brokers(
        memory, facts.brokers, lambda broker: consumption.read_offsets(admin, [broker], facts.group)
    )
    return consumption.joined_offsets([answer for _, answer in answers]), lacks


def read_clients_of(
    admin: AdminClient, memory: ClusterMemory, facts: GroupFacts, *, age_max_ms: int = -1
) -> tuple[GroupClients, Lacks]:
    """Reads a group's online clients from the brokers that answer. Raises an error if none does. An answer that is not
    older than ``age_max_ms`` is not asked for again."""
    _require_brokers(memory, facts)

    def ask(broker: BrokerData) -> ConsumerConnection | None:
        read = partial(consumption.read_connection, admin, broker, facts.group)
        return memory.young(f"clients of {facts.group}", broker.broker_name, age_max_ms, read)

    answers, lacks = ask_brokers(memory, facts.brokers, ask)
    return consumption.joined_clients(answers), lacks


def _silent(memory: ClusterMemory, facts: GroupFacts) -> Lacks:
    """The group's brokers that cannot be asked, with why."""
    return {name: memory.gone_text(name) or "does not answer" for name in facts.lacking}


def _require_brokers(memory: ClusterMemory, facts: GroupFacts) -> None:
    """NotFoundError if no broker of the group can be asked: a sum of nothing is not 0."""
    if not facts.brokers:
        reasons = [f"{name} {why}" for name, why in _silent(memory, facts).items()]
        raise NotFoundError(", ".join(reasons) or f"no broker knows the group {facts.group}")


def addrs_of(brokers: list[BrokerData]) -> dict[str, str]:
    return {broker.broker_name: addr for broker in brokers if (addr := broker.selected_addr()) is not None}


def read_state(admin: AdminClient, memory: ClusterMemory, facts: GroupFacts) -> GroupState:
    """Asks every online member of a group: see ``queue_owners``."""
    try:
        clients, lacks = read_clients_of(admin, memory, facts)
        lacks |= _silent(memory, facts)
        return GroupState(read_queue_owners(admin, facts.brokers, facts.group, clients), lacks)
    except RocketMQError as error:
        return GroupState(None, error=str(error))


# --- one group -------------------------------------------------------------------------------------------------------


class GroupQueues(msgspec.Struct, frozen=True):
    """Every queue that a group has an offset in, ordinary topics before retry topics, and all of them together."""

    found: Found[QueueOffsets]
    offsets: GroupOffsets


def read_group(admin: AdminClient, memory: ClusterMemory, facts: GroupFacts) -> GroupQueues:
    offsets, lacks = read_offsets_of(admin, memory, facts)
    lacks |= _silent(memory, facts)
    lacks = {name: lacks[name] for name in may_lack(memory, facts.group, lacks)}
    addrs = addrs_of(facts.brokers)
    behind = [queue for queue, entry in offsets.offsets.items() if lag_of(entry)]
    dated = set(behind[:LAG_TIMES_MAX])
    rows = {}
    for queue, entry in sorted(offsets.offsets.items(), key=lambda item: order_of(item[0])):
        first_ms = None
        if queue in dated:
            first_ms = first_waiting_ms(admin, addrs.get(queue.broker_name), queue, entry, memory.heads)
        rows[key_of(queue)] = QueueOffsets(queue, entry, first_ms)
    return GroupQueues(Found(rows, lacks), offsets)


def read_kept(
    admin: AdminClient, memory: ClusterMemory, facts: GroupFacts, offsets: GroupOffsets
) -> dict[str, QueueKept]:
    """Reads how much is kept of the queues with lag, by key: one request for each topic and broker."""
    addrs = addrs_of(facts.brokers)
    begins: dict[tuple[str, str], dict[MessageQueue, int]] = {}
    found = {}
    for queue, entry in offsets.offsets.items():
        addr = addrs.get(queue.broker_name)
        if addr is None or not lag_of(entry):
            continue
        if (addr, queue.topic) not in begins:
            begins[addr, queue.topic] = read_min_offsets(admin, addr, queue.topic)
        min_offset = begins[addr, queue.topic].get(queue)
        found[key_of(queue)] = QueueKept(min_offset, memory.settings.reserved_ms(admin, addr))
    return found


def order_of(queue: MessageQueue) -> tuple[bool, MessageQueue]:
    return queue.topic.startswith(RETRY_PREFIX), queue


def key_of(queue: MessageQueue) -> str:
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"
