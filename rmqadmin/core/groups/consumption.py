"""How far groups have consumed: offsets, lag and online clients of a group, from every broker that may know.

mqadmin asks one random broker for the online clients, and fails for a group without a retry topic. Here all brokers are
asked and their answers are merged. Several commands and the dashboard show the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Self

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.servers.broker_answers import Answers, answers_of, ask_each
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, ConsumerConnection, SubscriptionData
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset, ConsumerRunningInfo, TopicStats, lag_of
from rmqproto.codes import NOBODY_THERE
from rmqproto.errors import NotFoundError, RefusedError, RocketMQError
from rmqproto.ha import MASTER_ID
from rmqproto.names import RETRY_PREFIX, retry_topic
from rmqproto.queue_mapping import MappingError

if TYPE_CHECKING:
    from rmqproto.bodies.routes import TopicRoute


class GroupOffsets(msgspec.Struct, frozen=True):
    """A group's offsets in every queue where it has one. ``consume_tps`` is the total of all brokers."""

    offsets: dict[MessageQueue, ConsumeOffset]
    consume_tps: float

    def from_zero(self) -> Self:
        """Sets missing offsets to 0: the group still has the whole queue to consume."""
        for entry in self.offsets.values():
            entry.consumer_offset, entry.pull_offset = max(entry.consumer_offset, 0), max(entry.pull_offset, 0)
        return self

    @property
    def lag_count(self) -> int | None:
        """None for a group without offsets: what it has to consume is not known."""
        return sum(map(lag_of, self.offsets.values())) if self.offsets else None

    @property
    def diff_count(self) -> int:
        """mqadmin's total, in which a queue with an offset past its end reduces the lag of the others."""
        return sum(entry.broker_offset - entry.consumer_offset for entry in self.offsets.values())

    @property
    def inflight_count(self) -> int:
        return sum(entry.pull_offset - entry.consumer_offset for entry in self.offsets.values())


class Twin(msgspec.Struct, frozen=True):
    """A client that shares its id with another: a second connection with that id to one broker."""

    connection: ClientConnection
    broker_names: list[str]


class GroupClients(msgspec.Struct, frozen=True):
    """A group's online clients by id, with the brokers that know them. Empty if none is online. ``twins`` cannot be
    asked anything, because brokers find clients by id."""

    connections: dict[str, ClientConnection]
    broker_names: dict[str, list[str]]
    subscriptions: dict[str, SubscriptionData]
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    twins: list[Twin] = []

    @property
    def count(self) -> int:
        return len(self.connections) + len(self.twins)

    @property
    def version(self) -> int | None:
        """The lowest version of the online clients."""
        return min((connection.version for connection in self.connections.values()), default=None)


def brokers_of_group(admin: AdminClient, group: str, topic: str | None = None) -> list[BrokerData]:
    """The brokers that may keep a group's offsets: those of its retry topic, else those of the topic, else all."""
    for candidate in (retry_topic(group), topic):
        route = targets.find_route(admin, candidate) if candidate else None
        if route is not None and route.broker_datas:
            return route.broker_datas
    return targets.all_brokers(admin.cluster_info())


def read_offsets(
    admin: AdminClient,
    brokers: Sequence[BrokerData],
    group: str,
    topic: str | None = None,
    answers: Answers | None = None,
) -> GroupOffsets:
    """Offsets (208) from every broker. Brokers that know nothing about the group are left out. With ``answers``, which
    records the failures, only from brokers that answer."""
    return _read_offsets(admin, brokers, group, topic, answers).from_zero()


def _read_offsets(
    admin: AdminClient, brokers: Sequence[BrokerData], group: str, topic: str | None, answers: Answers | None
) -> GroupOffsets:
    """Like ``read_offsets``, but keeps -1, which brokers return for a queue of a static topic if the group has no
    offset there, or has it on another broker."""

    def ask(addr: str) -> GroupOffsets:
        try:
            stats = admin.consume_stats(addr, group, topic)
        except RefusedError as error:
            if error.code not in NOBODY_THERE:
                raise
            return GroupOffsets({}, 0.0)
        return GroupOffsets(stats.offset_table, stats.consume_tps)

    return joined_offsets([*answers_of(ask, targets.selected_addrs(brokers), answers).values()])


def joined_offsets(found: Sequence[GroupOffsets]) -> GroupOffsets:
    """The answers of several brokers about one group, merged."""
    offsets = {queue: entry for one in found for queue, entry in one.offsets.items()}
    return GroupOffsets(dict(sorted(offsets.items())), sum(one.consume_tps for one in found))


def read_logical_offsets(
    admin: AdminClient, brokers: Sequence[BrokerData], group: str, topic: str | None, answers: Answers
) -> GroupOffsets:
    """Like ``read_offsets``, with logical queues of static topics in place of the brokers' queues. MappingError if the
    brokers do not agree on them, or if one that may have some does not answer."""
    return _with_logical_queues(admin, _read_offsets(admin, brokers, group, topic, answers), answers)


def read_told_offsets(
    admin: AdminClient, brokers: Sequence[BrokerData], group: str, topic: str | None = None
) -> tuple[GroupOffsets, dict[str, str]]:
    """Like ``read_logical_offsets``, but only from brokers that answer, with the others' errors by name. If brokers do
    not agree on logical queues, the brokers' own queues. The first error if none answers."""
    answers = Answers()
    told = _read_offsets(admin, brokers, group, topic, answers)
    told = targets.or_none(lambda: _with_logical_queues(admin, told, answers)) or told
    return told.from_zero(), lacking(brokers, answers)


def lacking(brokers: Sequence[BrokerData], answers: Answers) -> dict[str, str]:
    """The brokers that did not answer, by name, with the reason."""
    by_addr = targets.by_selected_addr(brokers)
    return {by_addr[addr].broker_name: str(error) for addr, error in answers.errors.items() if addr in by_addr}


def answering(brokers: Sequence[BrokerData], answers: Answers) -> list[BrokerData]:
    """The brokers that have not failed to answer so far."""
    silent = lacking(brokers, answers)
    return [broker for broker in brokers if broker.broker_name not in silent]


def _with_logical_queues(admin: AdminClient, found: GroupOffsets, answers: Answers) -> GroupOffsets:
    offsets: dict[MessageQueue, ConsumeOffset] = {}
    for name, of_topic in groupby(found.offsets.items(), lambda item: item[0].topic):
        queues = dict(of_topic)
        route = None if name.startswith(RETRY_PREFIX) else targets.find_route(admin, name)
        if route is not None and route.topic_queue_mapping_by_broker:
            queues = _logical(admin, route, name, queues, answers)
        offsets |= queues
    return GroupOffsets(offsets, found.consume_tps).from_zero()


def _logical(
    admin: AdminClient,
    route: TopicRoute,
    topic: str,
    offsets: dict[MessageQueue, ConsumeOffset],
    answers: Answers,
) -> dict[MessageQueue, ConsumeOffset]:
    from rmqadmin.core.topics.static_topics import logical_progress, read_configs  # few topics are static

    def ask(addr: str) -> TopicStats:
        return answers.ask(addr, lambda addr: admin.topic_stats(addr, topic))

    try:
        stats = ask_each(ask, targets.selected_addrs(route.broker_datas))
        configs = read_configs(admin, admin.cluster_info(), topic, answers)
    except RocketMQError as error:
        raise MappingError(str(error)) from None
    ends = {queue: end for one in stats for queue, end in one.offset_table.items()}
    return logical_progress(topic, configs, ends, offsets)


def read_clients(
    admin: AdminClient, brokers: Sequence[BrokerData], group: str, answers: Answers | None = None
) -> GroupClients:
    """Online clients (203) from every broker, merged. ``answers`` is as for ``read_offsets``."""
    by_addr = targets.by_selected_addr(brokers)

    def ask(addr: str) -> ConsumerConnection | None:
        return read_connection(admin, by_addr[addr], group)

    return joined_clients([(by_addr[addr], answer) for addr, answer in answers_of(ask, by_addr, answers).items()])


def read_told_clients(
    admin: AdminClient, brokers: Sequence[BrokerData], group: str
) -> tuple[GroupClients, dict[str, str]]:
    """Like ``read_clients``, but only from brokers that answer, if any does, with the others' errors by name."""
    answers = Answers()
    clients = targets.or_none(lambda: read_clients(admin, brokers, group, answers))
    return clients or joined_clients([]), lacking(brokers, answers)


def read_connection(admin: AdminClient, broker: BrokerData, group: str) -> ConsumerConnection | None:
    """One broker's answer about a group's online clients. None if it knows nothing about the group."""
    addr = broker.selected_addr()
    try:
        return None if addr is None else admin.consumer_connection(addr, group)
    except RefusedError as error:
        if error.code not in NOBODY_THERE:
            raise
        return None


def joined_clients(answers: Sequence[tuple[BrokerData, ConsumerConnection | None]]) -> GroupClients:
    """The answers of several brokers about one group's clients, merged, in the order of their ids: a broker tells them
    in any order, and in another one the next time."""
    known = [(broker.broker_name, answer) for broker, answer in answers if answer is not None]
    connections: dict[str, ClientConnection] = {}
    broker_names: dict[str, list[str]] = {}
    subscriptions: dict[str, SubscriptionData] = {}
    twins: dict[tuple[str, int], Twin] = {}
    for broker_name, answer in known:
        subscriptions |= answer.subscription_table
        seen: Counter[str] = Counter()
        for connection in answer.connection_set:
            client_id = connection.client_id
            seen[client_id] += 1
            if seen[client_id] == 1:
                connections.setdefault(client_id, connection)
                broker_names.setdefault(client_id, []).append(broker_name)
            else:
                twin = twins.setdefault((client_id, seen[client_id]), Twin(connection, []))
                twin.broker_names.append(broker_name)
    first = known[0][1] if known else ConsumerConnection()
    return GroupClients(
        dict(sorted(connections.items())), broker_names, subscriptions,
        first.consume_type, first.message_model, first.consume_from_where, list(twins.values()),
    )  # fmt: skip


def require_offsets(
    admin: AdminClient, brokers: Sequence[BrokerData], group: str, found: GroupOffsets, answers: Answers
) -> None:
    """NotFoundError, with the reason, for a group without any offset."""
    if found.offsets:
        return
    clients = read_clients(admin, brokers, group, answers)
    if clients.message_model == "BROADCASTING":
        raise NotFoundError(f"the group {group} consumes in broadcast mode: its clients keep their offsets themselves")
    if clients.connections:
        raise NotFoundError(f"the group {group} is online and has no offsets yet")
    raise nothing_known(group, brokers)


def nothing_known(group: str, brokers: Sequence[BrokerData], where: str = "") -> NotFoundError:
    """The error for a group of which these brokers, those it may have, know neither an offset nor a client. ``where``
    says what of the group was looked at, if not all."""
    if not brokers:
        return NotFoundError(targets.NO_BROKER, hint=targets.NO_BROKER_HINT)
    return NotFoundError(
        f"the group {group} has no offsets{where} and nobody is online",
        hint="`rmqadmin consumerProgress` lists the groups.",
    )


class Subscription(msgspec.Struct, frozen=True):
    """A group's subscription to a topic."""

    topic: str
    expression_type: str | None
    expression: str

    def __str__(self) -> str:
        return f"{self.topic} ({self.expression})"


def group_brokers(admin: AdminClient, group: str, broker_addr: str | None) -> list[BrokerData]:
    """The one broker of an address, or all that may know the group."""
    if broker_addr is None:
        return brokers_of_group(admin, group)
    return [BrokerData(broker_addrs={MASTER_ID: broker_addr.strip()}, broker_name=broker_addr.strip())]


def online_clients(
    admin: AdminClient, group: str, brokers: Sequence[BrokerData], answers: Answers | None = None
) -> GroupClients:
    """The clients of a group. NotFoundError if none is online. ``answers`` is as for ``read_offsets``."""
    clients = read_clients(admin, brokers, group, answers)
    if not clients.connections:
        raise NotFoundError(f"no client of the group {group} is online", hint="`rmqadmin consumerProgress` shows lag.")
    return clients


class ClientAnswer(msgspec.Struct, frozen=True):
    """One client and its answer; ``info`` is None if it did not answer, and ``error`` says why."""

    connection: ClientConnection
    info: ConsumerRunningInfo | None
    error: str | None = None


def ask_client(
    admin: AdminClient,
    group: str,
    client_id: str,
    clients: GroupClients,
    brokers: Sequence[BrokerData],
    *,
    jstack: bool = False,
) -> ConsumerRunningInfo:
    """One client's answer, through a broker that it is connected to. NotFoundError if no such broker can be asked."""
    names = clients.broker_names[client_id]
    addr = next(iter(targets.selected_addrs(one for one in brokers if one.broker_name in names)), None)
    if addr is None:
        raise NotFoundError(f"no broker that {client_id} is connected to can be asked")
    return admin.consumer_running_info(addr, group, client_id, jstack=jstack)


def ask_clients(
    admin: AdminClient, group: str, clients: GroupClients, brokers: Sequence[BrokerData], *, jstack: bool = False
) -> list[ClientAnswer]:
    """The answers of all clients. For one that fails, the answer holds the error, and the others are still asked."""

    def ask(connection: ClientConnection) -> ClientAnswer:
        try:
            info = ask_client(admin, group, connection.client_id, clients, brokers, jstack=jstack)
        except RocketMQError as error:
            return ClientAnswer(connection, None, str(error))
        return ClientAnswer(connection, info)

    return ask_each(ask, list(clients.connections.values()))
