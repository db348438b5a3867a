"""Groups: which there are; lag, lag time and clients of those in view; and one group queue by queue."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import GroupOffsets, read_clients, read_offsets
from rmqadmin.core.groups.lag_time import first_waiting_ms, oldest_waiting_ms
from rmqadmin.core.groups.queue_owners import QueueOwners, read_queue_owners
from rmqadmin.tui.sources.found import Found, ask_those_that_answer
from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX, is_system_group

LAG_TIMES_MAX = 64
"""Queues of one group whose first waiting message is read at each refresh."""


class GroupFacts(msgspec.Struct, frozen=True):
    """A group and the brokers that have a configuration of it. ``may_consume`` is None if they differ."""

    group: str
    brokers: list[BrokerData]
    may_consume: bool | None


class GroupNumbers(msgspec.Struct, frozen=True):
    """Where a group stands. ``oldest_waiting_ms``: when its oldest unconsumed message was stored. ``error`` says why
    the rest is not known."""

    lag_count: int | None = None
    oldest_waiting_ms: int | None = None
    consume_tps: float | None = None
    client_count: int | None = None
    message_model: str | None = None
    error: str | None = None


class GroupState(msgspec.Struct, frozen=True):
    """How a group's queues are shared. If that could not be asked, ``owners`` is None and ``error`` says why."""

    owners: QueueOwners | None
    error: str | None = None

    def summary(self) -> str:
        return "unknown" if self.owners is None else self.owners.summary()


class QueueOffsets(msgspec.Struct, frozen=True):
    """One queue of a group. ``entry`` is None if the group has no offset in it."""

    queue: MessageQueue
    entry: ConsumeOffset | None
    first_waiting_ms: int | None

    @property
    def lag_count(self) -> int | None:
        return None if self.entry is None else self.entry.broker_offset - self.entry.consumer_offset

    @property
    def inflight_count(self) -> int | None:
        return None if self.entry is None else self.entry.pull_offset - self.entry.consumer_offset


def read_groups(admin: AdminClient) -> Found[GroupFacts]:
    """Every group that a broker has a configuration of, the system's last."""
    brokers = [broker for broker in targets.all_brokers(admin.cluster_info()) if broker.selected_addr()]
    answers, problems = ask_those_that_answer(lambda broker: admin.all_groups(broker.selected_addr() or ""), brokers)
    enabled: dict[str, dict[str, bool]] = {}
    for broker, answer in answers:
        for group, config in answer.subscription_group_table.items():
            enabled.setdefault(group, {})[broker.broker_name] = config.consume_enable
    by_name = {broker.broker_name: broker for broker in brokers}
    rows = {
        group: GroupFacts(
            group,
            [by_name[name] for name in mine],
            next(iter(mine.values())) if len(set(mine.values())) == 1 else None,
        )
        for group, mine in sorted(enabled.items(), key=lambda item: (is_system_group(item[0]), item[0]))
    }
    return Found(rows, problems)


def read_numbers(admin: AdminClient, groups: Mapping[str, GroupFacts]) -> dict[str, GroupNumbers]:
    """Two requests a group and broker, and a look at the queues that may hold the oldest waiting message."""
    return {name: _numbers(admin, facts) for name, facts in groups.items()}


def _numbers(admin: AdminClient, facts: GroupFacts) -> GroupNumbers:
    try:
        offsets = read_offsets(admin, facts.brokers, facts.group)
        clients = read_clients(admin, facts.brokers, facts.group)
        return GroupNumbers(
            lag_count=offsets.lag_count,
            oldest_waiting_ms=oldest_waiting_ms(admin, addrs_of(facts.brokers), offsets),
            consume_tps=offsets.consume_tps,
            client_count=clients.count,
            message_model=clients.message_model,
        )
    except RocketMQError as error:
        return GroupNumbers(error=str(error))


def addrs_of(brokers: list[BrokerData]) -> dict[str, str]:
    return {broker.broker_name: addr for broker in brokers if (addr := broker.selected_addr()) is not None}


def read_states(admin: AdminClient, groups: Mapping[str, GroupFacts]) -> dict[str, GroupState]:
    """Asks every online member of the groups: see ``owners``."""
    return {name: read_state(admin, facts) for name, facts in groups.items()}


def read_state(admin: AdminClient, facts: GroupFacts) -> GroupState:
    try:
        clients = read_clients(admin, facts.brokers, facts.group)
        return GroupState(read_queue_owners(admin, facts.brokers, facts.group, clients))
    except RocketMQError as error:
        return GroupState(None, str(error))


# --- one group -------------------------------------------------------------------------------------------------------


def read_group(admin: AdminClient, facts: GroupFacts) -> tuple[Found[QueueOffsets], GroupOffsets]:
    """Every queue that the group has an offset in, ordinary topics before retry topics."""
    offsets = read_offsets(admin, facts.brokers, facts.group)
    addrs = addrs_of(facts.brokers)
    behind = [queue for queue, entry in offsets.offsets.items() if entry.broker_offset > entry.consumer_offset]
    dated = set(behind[:LAG_TIMES_MAX])
    rows = {}
    for queue, entry in sorted(offsets.offsets.items(), key=lambda item: order_of(item[0])):
        first_ms = first_waiting_ms(admin, addrs.get(queue.broker_name), queue, entry) if queue in dated else None
        rows[key_of(queue)] = QueueOffsets(queue, entry, first_ms)
    return Found(rows), offsets


def order_of(queue: MessageQueue) -> tuple[bool, MessageQueue]:
    return queue.topic.startswith(RETRY_PREFIX), queue


def key_of(queue: MessageQueue) -> str:
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"
